//! One suite for all engines: every tree of `suite/` on each engine that can do what it needs, bit for bit as the
//! interpreter does it; what an engine lacks is a listed outcome.
//!
//! The head of a file has the sizes of its runs, its needs, and the outcome on each engine. `LATHE_BLESS=1` writes the
//! needs and the outcomes. Devices that this machine does not have run nothing.

use crate::support::{agree_with, parse};
use lathe_engine::{missing, needs};
use lathe_runtime::Engine;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A line of the head.
fn said<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    let mut head = text.lines().map_while(|l| l.strip_prefix("# "));
    head.find_map(|l| l.strip_prefix(what)?.strip_prefix(": "))
}

fn listed(all: Vec<lathe_engine::Need>) -> String {
    let each: BTreeSet<String> = all.iter().map(|n| n.feature.to_string()).collect();
    each.into_iter().collect::<Vec<_>>().join(" ")
}

fn engines() -> impl Iterator<Item = Engine> {
    Engine::ALL.iter().copied().chain(Engine::devices())
}

/// The tree with the head that is right for it; of engines that this build does not have, what was said before.
fn with_head(text: &str) -> String {
    let body: String = text.lines().skip_while(|l| l.starts_with("# ")).map(|l| format!("{l}\n")).collect();
    let (module, func) = parse(&body);
    let sizes = said(text, "sizes").expect("sizes of runs");
    let mut out = format!("# sizes: {sizes}\n# needs: {}\n", listed(needs(&module, &func)));
    for name in ["llvm", "c", "interpreter", "cuda", "opencl"] {
        let outcome = match engines().find(|e| e.name() == name) {
            Some(e) => match listed(missing(e.capabilities(), &module, &func)) {
                lacks if lacks.is_empty() => "runs".to_string(),
                lacks => format!("lacks {lacks}"),
            },
            None => said(text, name).unwrap_or_default().to_string(),
        };
        let _ = writeln!(out, "# {name}: {outcome}");
    }
    out + &body
}

#[test]
fn every_tree_on_every_engine() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(files.len() > 10, "only {} trees", files.len());
    let bless = std::env::var_os("LATHE_BLESS").is_some();
    let (mut lacked, mut wrong) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a tree");
        let right = with_head(&text);
        if bless {
            std::fs::write(&file, &right).expect("a tree");
        } else if text != right {
            wrong.push(format!("{}:\n{right}", file.display()));
            continue;
        }
        let number = |n: &str| n.parse::<i64>().expect("a size");
        let sizes: Vec<Vec<i64>> = said(&right, "sizes")
            .into_iter()
            .flat_map(|all| all.split("; ").map(|one| one.split(' ').map(number).collect()))
            .collect();
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        let runs: Vec<Engine> = engines().filter(|e| said(&right, e.name()) == Some("runs")).collect();
        lacked += engines().count() - runs.len();
        let here: Vec<Engine> =
            runs.into_iter().filter(|e| !e.is_device() || e.fingerprint().is_ok()).collect();
        assert!(here.contains(&Engine::INTERPRETER), "{}", file.display());
        agree_with(&here, &[false, true], 2, &right, &sizes);
    }
    assert!(wrong.is_empty(), "write with LATHE_BLESS=1:\n{}", wrong.join("\n"));
    assert!(lacked > 3, "the engines lack too little for a suite of what they lack");
}
