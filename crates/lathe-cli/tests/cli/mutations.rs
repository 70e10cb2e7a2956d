//! Every example and every program of the documentation, with tokens of it changed: whatever comes of it, `check` says
//! what is wrong or accepts it, what it accepts runs and is right or says why not, and all that within 10 seconds of
//! processor time and 4 GB.

use crate::common::{Done, Folder, done, examples};
use std::path::Path;
use std::process::Command;

/// A program, its tokens, and how its file is called.
struct Source {
    from: String,
    file: &'static str,
    tokens: Vec<String>,
}

/// SplitMix64 (Steele and others, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// What stands for nothing, too much or too little.
const STRANGE: &[&str] = &[
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "4611686018427387904",
    "2147483647",
    "1e308",
    "1e-320",
    "0.0",
    "inf",
    "nan",
    "\"\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "é",
    "\0",
    "?",
    "@",
    ";;",
    "..=",
    "if",
    "else",
    "for",
    "while",
    "repeat",
    "try",
    "normalize",
    "unroll",
    "vectorize",
    "parallel",
    "auto",
    "f16",
    "bool",
    "index",
    "i",
    "N",
];

/// Words, numbers, runs of blanks, comments, and signs one by one.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let kind = |c: char| match c {
        c if c.is_whitespace() => 0,
        c if c.is_alphanumeric() || c == '_' => 1,
        _ => 2,
    };
    for line in text.split_inclusive('\n') {
        let (code, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
        let mut last = 2;
        for c in code.chars() {
            match out.last_mut().filter(|_| kind(c) == last && last != 2) {
                Some(word) => word.push(c),
                None => out.push(c.to_string()),
            }
            last = kind(c);
        }
        if !comment.is_empty() {
            out.push(comment.to_string());
        }
    }
    out
}

fn sources() -> Vec<Source> {
    let mut out = Vec::new();
    let mut add = |from: &str, file: &'static str, text: &str| {
        out.push(Source { from: from.to_string(), file, tokens: tokens(text) });
    };
    let mut folders = vec![Path::new(&examples()).to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let (name, ending) = (path.display().to_string(), path.extension().and_then(|e| e.to_str()));
            match ending {
                _ if path.is_dir() => folders.push(path),
                Some("lathe") => add(&name, "k.lathe", &std::fs::read_to_string(&path).expect("a program")),
                Some("mdh") => add(&name, "k.mdh", &std::fs::read_to_string(&path).expect("a program")),
                _ => {}
            }
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for entry in std::fs::read_dir(docs).expect("the documentation") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a page");
        for part in text.split("```lathe\n").skip(1) {
            add(&path.display().to_string(), "k.lathe", part.split("```").next().unwrap_or_default());
        }
    }
    // In the same order on every machine.
    out.sort_by(|a, b| (&a.from, &a.tokens).cmp(&(&b.from, &b.tokens)));
    out
}

/// One to three tokens deleted, doubled, swapped, or replaced.
fn mutated(source: &Source, all: &[Source], r: &mut Random) -> String {
    let mut new = source.tokens.clone();
    let is_token = |t: &String| !t.trim().is_empty() && !t.starts_with('#');
    let places: Vec<usize> = (0..new.len()).filter(|k| is_token(&new[*k])).collect();
    for _ in 0..1 + r.below(5).saturating_sub(2) {
        let (at, other) = (*r.pick(&places), *r.pick(&places));
        let elsewhere = &all[r.below(all.len())].tokens;
        let theirs = elsewhere[r.below(elsewhere.len())].clone();
        match r.below(7) {
            0 => new[at].clear(),
            1 => new[at] = format!("{0} {0}", new[at]),
            2 => new.swap(at, other),
            3 => new[at] = source.tokens[other].clone(),
            4 => new[at] = theirs,
            5 => new[at] = format!("{} {theirs}", new[at]),
            _ => new[at] = r.pick(STRANGE).to_string(),
        }
    }
    new.concat()
}

/// `lathe`, with 4 GB and 10 seconds of processor time; `timeout` is for what waits without using any.
fn limited(f: &Folder, args: &[&str]) -> Done {
    let mut c = Command::new("sh");
    c.args(["-c", "ulimit -v 4194304; ulimit -t 10; ulimit -c 0; exec timeout 300 \"$@\"", "sh"]);
    c.arg(env!("CARGO_BIN_EXE_lathe")).args(args).current_dir(f.path("."));
    c.env("NO_COLOR", "1").env("LATHE_STORE", f.path("results.sqlite")).env("LATHE_CACHE", f.path("cache"));
    done(c.output().expect("sh starts"))
}

/// Why a command did not end as commands end.
fn fault(d: &Done) -> Option<String> {
    let says = |t: &str| d.stderr.contains(t);
    match d.status {
        0 | 1 | 3 if d.stderr.trim().is_empty() => Some("says nothing".to_string()),
        0 | 1 | 3 if ["panicked", "bug in Lathe", "defect of Lathe"].into_iter().any(says) => {
            Some("a defect".to_string())
        }
        0 | 1 | 3 => None,
        s => Some(format!("status {s}")),
    }
}

/// The sizes of a target, as the message about a wrong one lists them.
fn sizes(f: &Folder, target: &str) -> Vec<String> {
    let d = limited(f, &["run", target, "-D", "no_such_size=1"]);
    let list = d.stderr.split("its sizes: ").nth(1).and_then(|t| t.lines().next()).unwrap_or_default();
    list.split(", ").map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn changed_programs_are_refused_or_right() {
    let cases: u64 =
        std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200).min(20_000);
    let first: u64 = std::env::var("LATHE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (f, all, mut wrong, mut accepted) = (Folder::new(), sources(), Vec::new(), 0);
    assert!(all.len() > 60, "{} programs", all.len());
    for seed in first..first + cases {
        let mut r = Random(seed);
        let source = &all[r.below(all.len())];
        let text = mutated(source, &all, &mut r);
        f.write(source.file, &text);
        let mut commands = vec![vec!["check".to_string(), source.file.to_string()]];
        if source.file == "k.mdh" {
            commands.clear();
        }
        let names: Vec<&str> = text
            .split_whitespace()
            .zip(text.split_whitespace().skip(1))
            .filter(|(word, _)| matches!(*word, "kernel" | "fun"))
            .filter_map(|(_, n)| n.split(|c: char| !c.is_alphanumeric() && c != '_').next())
            .filter(|n| !n.is_empty())
            .collect();
        let target = match names.is_empty() {
            true => source.file.to_string(),
            false => format!("{}:{}", source.file, r.pick(&names)),
        };
        let mut run = vec!["run".to_string(), target.clone(), "--check".to_string()];
        for s in sizes(&f, &target) {
            run.extend(["-D".to_string(), format!("{s}={}", r.pick(&[1, 2, 3, 5, 8, 17]))]);
        }
        commands.push(run);
        for c in commands {
            let d = limited(&f, &c.iter().map(String::as_str).collect::<Vec<_>>());
            accepted += u64::from(d.status == 0 && c[0] == "run");
            if let Some(why) = fault(&d) {
                let said: String = d.stderr.chars().take(600).collect();
                wrong.push(format!("seed {seed}, {}: {why}\n{}\n{text}\n{said}", c.join(" "), source.from));
                break;
            }
            if d.status != 0 {
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(cases < 200 || accepted > 0, "nothing ran");
}
