//! The documentation runs: every ```lathe example is loaded and checked, every ```toml example is a machine, and the two reference pages that are
//! made from tables are up to date (`LATHE_BLESS=1` rewrites them).

use lathe::{Machine, Program, check_program};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts of the ```lathe, ```mdh and ```toml fences of a page, each with its line and language.
fn examples(page: &str) -> Vec<(usize, String, &'static str)> {
    let mut out = Vec::new();
    let mut open: Option<(usize, String, &'static str)> = None;
    for (n, line) in page.lines().enumerate() {
        match &mut open {
            None if line.trim() == "```lathe" => open = Some((n + 1, String::new(), "lathe")),
            None if line.trim() == "```mdh" => open = Some((n + 1, String::new(), "mdh")),
            None if line.trim() == "```toml" => open = Some((n + 1, String::new(), "toml")),
            None => {}
            Some(_) if line.trim() == "```" => out.extend(open.take()),
            Some((_, text, _)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    out
}

fn run(name: &str, page: &str, failures: &mut Vec<String>) -> usize {
    let found = examples(page);
    for (line, text, language) in &found {
        let at = format!("{name}:{line}.{language}");
        if *language == "toml" {
            failures.extend(Machine::parse(text).err().map(|d| format!("{at}: {d}")));
            continue;
        }
        match Program::from_text(&at, text) {
            Err(f) => failures.push(format!("{at}: {f}")),
            Ok(p) => {
                for f in check_program(&p, &Machine::host()).failures {
                    failures.push(format!("{at}: {f}"));
                }
            }
        }
    }
    found.len()
}

#[test]
fn examples_in_pages_and_rules_hold() {
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("docs")).expect("docs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "md") {
            let text = std::fs::read_to_string(&path).expect("a page");
            count += run(&path.file_name().unwrap_or_default().to_string_lossy(), &text, &mut failures);
        }
    }
    for rule in lathe::transform::rules() {
        count += run(rule.signature.name, &rule.signature.page(), &mut failures);
    }
    assert!(failures.is_empty(), "{} of {count} examples fail:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 20, "only {count} examples found");
}

fn generated(file: &str, text: &str) {
    let path = root().join("docs").join(file);
    if std::env::var_os("LATHE_BLESS").is_some() {
        std::fs::write(&path, text).expect("docs can be written");
        return;
    }
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(old == text, "docs/{file} is out of date: LATHE_BLESS=1 cargo test -p lathe --test it docs");
}

/// The program of a file test, its first steps that are accepted, and what they give.
fn first_accepted(test: &str) -> Option<(String, &str, String)> {
    let program = test.lines().skip_while(|l| l.starts_with('#')).take_while(|l| !l.starts_with('#'));
    let before: Vec<&str> = program.collect();
    let mut lines = test.lines();
    while let Some(line) = lines.next() {
        let Some(steps) = line.strip_prefix("#: steps ") else { continue };
        let tree: Vec<&str> = lines.clone().map_while(|l| l.strip_prefix("#| ")).collect();
        if !tree.is_empty() {
            return Some((before.join("\n").trim_end().to_string() + "\n", steps, tree.join("\n") + "\n"));
        }
    }
    None
}

#[test]
fn the_reference_of_steps_is_up_to_date() {
    let mut out = String::from(
        "# Steps of strategies\n\nMade from the table of rules; each example is checked by the tests. Combinators are described in\n[language.md](language.md#strategies). `vector(T)` is the number of elements in a vector of the machine; that of the trees\nbelow has 16 bytes.\n",
    );
    for rule in lathe::transform::rules() {
        let s = &rule.signature;
        let _ = write!(out, "\n## {}\n\n{} (version {})\n\n{}\n", s.name, s.summary, s.version, s.page());
        let file = root().join("crates/lathe-transform/tests/steps").join(format!("{}.tree", s.name));
        let test = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let (before, steps, after) =
            first_accepted(&test).unwrap_or_else(|| panic!("{} shows nothing", s.name));
        let _ =
            write!(out, "\nOf the tree\n\n```text\n{before}```\n\n`{steps}` makes\n\n```text\n{after}```\n");
    }
    generated("strategies.md", &out);
}

#[test]
fn the_index_of_errors_is_up_to_date() {
    let mut out = String::from(
        "# Error codes\n\nMade from the tables of all crates; `lathe --explain CODE` prints one of them.\n",
    );
    for c in lathe::all_codes() {
        let _ = write!(out, "\n## {}: {}\n\n{}\n", c.code, c.title, c.explanation);
        for (title, text) in [("Wrong", c.wrong), ("Right", c.right)] {
            if !text.is_empty() {
                let _ = write!(out, "\n{title}:\n\n```text\n{}\n```\n", text.trim_end());
            }
        }
    }
    generated("errors.md", &out);
}

#[test]
fn codes_are_unique() {
    let all = lathe::all_codes();
    assert!(all.len() > 30, "only {} codes", all.len());
    for c in &all {
        assert!(c.title.len() > 5 && c.explanation.len() > 20, "{} says too little", c.code);
    }
}
