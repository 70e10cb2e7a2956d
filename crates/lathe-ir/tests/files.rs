//! File tests of tree text: every file of `verify/` and `parse/` says in its first lines what is wrong
//! with it. `#: ok` means nothing; `#: error E0312 LINE: MESSAGE` is one message, in order.
//!
//! `LATHE_BLESS=1 cargo test -p lathe-ir --test files` writes the directives anew.

use lathe_diagnostics::{Diagnostic, FileId, SourceMap};
use lathe_ir::codes::CODES;
use lathe_ir::text::{parse_module, print_module};
use lathe_ir::verify::verify;
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder of the tests");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "tree"));
    files.sort();
    assert!(!files.is_empty(), "no tests in {}", folder.display());
    files
}

/// Splits the directives from the program.
fn split(text: &str) -> (Vec<&str>, &str) {
    let mut rest = text;
    let mut directives = Vec::new();
    while let Some(line) = rest.lines().next().filter(|l| l.starts_with("#:")) {
        assert!(
            line == "#: ok" || line.starts_with("#: error E03"),
            "unknown directive `{line}`; there are `ok` and `error`"
        );
        directives.push(line);
        rest = rest[line.len()..].trim_start_matches(['\r', '\n']);
    }
    (directives, rest)
}

fn check(program: &str) -> Vec<Diagnostic> {
    match parse_module(FileId(0), program) {
        Err(errors) => errors,
        Ok(m) => {
            let printed = print_module(&m);
            assert_eq!(parse_module(FileId(0), &printed).as_ref(), Ok(&m), "{printed}");
            verify(&m)
        }
    }
}

/// What the directives should be; lines count from the first line of the program.
fn directives(program: &str, errors: &[Diagnostic]) -> Vec<String> {
    if errors.is_empty() {
        return vec!["#: ok".into()];
    }
    let mut map = SourceMap::new();
    let file = map.add("test", program);
    let show = |d: &Diagnostic| {
        let place = d.marks.first().map(|m| format!(" {}", map.line_column(file, m.span.start).0));
        format!("#: error {}{}: {}", d.code, place.unwrap_or_default(), d.message)
    };
    errors.iter().map(show).collect()
}

fn run(folder: &str) {
    let bless = std::env::var_os("LATHE_BLESS").is_some();
    let mut failures = Vec::new();
    for path in files(folder) {
        let text = std::fs::read_to_string(&path).expect("a readable test");
        let (wanted, program) = split(&text);
        let errors = check(program);
        let found = directives(program, &errors);
        let name = path.file_stem().and_then(|n| n.to_str()).expect("a name").to_string();
        // The name says which code the file is about.
        let (code, kind) = name.split_at(5);
        let about = |d: &Diagnostic| d.code.0.eq_ignore_ascii_case(code);
        if (kind == "_wrong") != errors.iter().any(about) || (kind == "_right") != errors.is_empty() {
            failures.push(format!("{name}: is not what its name says:\n{}", found.join("\n")));
        } else if wanted != found && bless {
            std::fs::write(&path, format!("{}\n{program}", found.join("\n"))).expect("a writable test");
        } else if wanted != found {
            failures.push(format!("{name}: wanted\n{}\nfound\n{}", wanted.join("\n"), found.join("\n")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn parser() {
    run("parse");
}

#[test]
fn verifier() {
    run("verify");
}

#[test]
fn every_code_is_documented_and_has_both_programs() {
    for info in CODES {
        assert!(!info.title.is_empty() && !info.explanation.is_empty(), "{}", info.code);
        let wrong = check(info.wrong);
        if !info.wrong.is_empty() {
            assert!(wrong.iter().any(|d| d.code == info.code), "{}: {wrong:?}", info.code);
        }
        assert_eq!(check(info.right), [], "{}", info.code);
    }
    let mut codes: Vec<_> = CODES.iter().map(|c| c.code).collect();
    codes.dedup();
    assert_eq!(codes.len(), CODES.len(), "a code is documented twice");
}
