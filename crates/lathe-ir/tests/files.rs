//! Tree text in files (see `lathe_filetest`): what does not parse, what does not verify, what fails when it runs. Each
//! code has a wrong program and a right one, which the index of errors shows.

use lathe_diagnostics::{CodeInfo, SourceMap};
use lathe_filetest::{Checked, Trees, check, load_tree};
use lathe_ir::{codes, interp};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The name of a file says which code it is about.
fn about(c: &Checked) -> (String, bool) {
    let name = c.path.file_stem().and_then(|n| n.to_str()).expect("a name");
    let (code, kind) =
        name.split_once('_').unwrap_or_else(|| panic!("{name}: name it e0312_wrong or e0312_right"));
    assert!(["wrong", "right"].contains(&kind), "{name}");
    (code.to_uppercase(), kind == "wrong")
}

fn messages_are_as_named(folder_of: &str) {
    for c in check(folder().join(folder_of), &Trees) {
        let (code, wrong) = about(&c);
        assert_eq!(c.messages.contains(&code), wrong, "{}: {:?}", c.path.display(), c.messages);
        assert!(wrong || c.messages.is_empty(), "{}: {:?}", c.path.display(), c.messages);
    }
}

#[test]
fn parser() {
    messages_are_as_named("parse");
}

#[test]
fn verifier() {
    messages_are_as_named("verify");
}

#[test]
fn interpreter() {
    for c in check(folder().join("run"), &Trees) {
        let (code, wrong) = about(&c);
        assert!(c.messages.is_empty(), "{}: {:?}", c.path.display(), c.messages);
        assert_eq!((c.accepted > 0, c.refused > 0), (!wrong, wrong), "{}", c.path.display());
        let text = std::fs::read_to_string(&c.path).expect("a readable test");
        assert_eq!(text.contains(&format!("#! {code}\n")), wrong, "{}", c.path.display());
    }
}

#[test]
fn every_code_is_documented_and_has_both_programs() {
    let all: Vec<&CodeInfo> = codes::CODES.iter().chain(interp::codes::CODES).collect();
    for info in &all {
        assert!(!info.title.is_empty() && !info.explanation.is_empty(), "{}", info.code);
        for (program, kind) in [(info.wrong, "wrong"), (info.right, "right")] {
            let name = format!("{}_{kind}.tree", info.code.0.to_lowercase());
            let mut found = ["parse", "verify", "run"].iter().map(|f| folder().join(f).join(&name));
            let file = found.find(|p| p.exists());
            let Some(file) = file else {
                // Without a file, it is a program that is right.
                let loaded = load_tree(&mut SourceMap::new(), &name, program);
                assert!(program.is_empty() || kind == "right", "{}: there is no {name}", info.code);
                assert_eq!(loaded.messages, [], "{}", info.code);
                continue;
            };
            let text = std::fs::read_to_string(file).expect("a readable test");
            assert!(text == program, "{}: {name} is not what the index shows", info.code);
        }
    }
    let mut codes: Vec<_> = all.iter().map(|c| c.code).collect();
    codes.sort();
    codes.dedup();
    assert_eq!(codes.len(), all.len(), "a code is documented twice");
}
