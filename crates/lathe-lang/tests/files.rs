//! Programs in files, with their messages and trees (see `lathe_filetest`); the form of programs.

use lathe_diagnostics::{Diagnostic, FileId, SourceMap};
use lathe_filetest::{Front, Loaded};
use lathe_ir::{Function, Module};
use lathe_lang::{Resolver, format, load, load_debugging};
use lathe_syntax::{KERNELS, SOURCE, Tok, lex};
use std::fs;
use std::path::{Path, PathBuf};

/// Programs of the language.
struct Files;

/// Other files of the same folder.
struct Beside(PathBuf);

impl Resolver for Beside {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        let text = fs::read_to_string(self.0.join(name)).map_err(|e| e.kind().to_string())?;
        Ok((name.to_string(), text))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

fn examples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    programs(&dir).into_iter().chain(programs(&dir.join("patterns"))).collect()
}

fn programs(dir: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a folder of programs")
        .filter_map(|f| Some(f.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "lathe"))
        .collect();
    out.sort();
    assert!(!out.is_empty());
    out
}

impl Front for Files {
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        let mut beside = Beside(folder());
        // The kernel of that name with its `print` and `assert`.
        let loaded = match name.contains("debugged") {
            true => load_debugging(map, name, text, &mut beside, "debugged"),
            false => load(map, name, text, &mut beside),
        };
        match loaded {
            Err(messages) => Loaded { module: None, messages },
            Ok((p, messages)) => {
                let broken = lathe_ir::verify::verify(&p.module);
                assert!(broken.is_empty(), "{name}: {}", broken[0]);
                Loaded { module: Some(p.module), messages }
            }
        }
    }

    fn apply(&self, _: &Module, _: &Function, steps: &str) -> Result<Function, Diagnostic> {
        panic!("there are no steps here: `{steps}`")
    }
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(folder(), &Files);
}

fn comments(text: &str) -> Vec<String> {
    let lexed = lex(&SOURCE, &KERNELS, FileId(0), text);
    lexed
        .comments
        .iter()
        .map(|c| text[c.span.start as usize..c.span.end as usize].trim_end().to_string())
        .collect()
}

fn tokens(text: &str) -> Vec<Tok<'_>> {
    lex(&SOURCE, &KERNELS, FileId(0), text).tokens.into_iter().map(|t| t.tok).collect()
}

#[test]
fn formatting_keeps_meaning_and_comments_and_is_idempotent() {
    for path in programs(&folder()).into_iter().chain(examples()) {
        let text = fs::read_to_string(&path).expect("a program");
        let Ok(once) = format(&text) else { continue };
        assert_eq!(tokens(&text), tokens(&once), "{}", path.display());
        assert_eq!(comments(&text), comments(&once), "{}", path.display());
        assert_eq!(format(&once).as_deref(), Ok(once.as_str()), "{}", path.display());
    }
}

#[test]
fn the_examples_are_formatted() {
    for path in examples() {
        let text = fs::read_to_string(&path).expect("a program");
        let formatted = format(&text).expect("no errors of form");
        assert!(formatted == text, "{}:\n{formatted}", path.display());
    }
}

/// Words that had other names are still accepted, and the formatter writes the new ones; only where they are these words.
#[test]
fn old_words_are_rewritten() {
    let text = "kernel dot(x: f32[N], contract: f32[N]) -> (s: f32) {
    s = sum[k](x[k] * contract[k])
}

strategy s for dot = split(k, 8) ; factor(s, k.i, combine: halves) ; contract(s)

strategy halves for dot = id
";
    let new = text.replace("combine: halves", "combine: tree").replace("contract(s)", "fma(s)");
    assert_eq!(format(text).as_deref(), Ok(&*new));
    // A strategy of the file is no step.
    let own = "strategy contract(l) = unroll(l)\n\nstrategy s = contract(i)\n";
    assert_eq!(format(own).as_deref(), Ok(own));
}
