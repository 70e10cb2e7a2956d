//! File tests: small programs with directives in comments.
//!
//! * `#: ok`: loads without a message.
//! * `#: error E0203 at 3:14`: exactly these errors, in this order (with `#: warning` likewise).
//! * `#: tree`: the tree equals the file of the same name that ends in `.tree`.
//!
//! `LATHE_BLESS=1` writes the directives and trees anew.

use lathe_diagnostics::{Severity, SourceMap};
use lathe_lang::{Resolver, format, load};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The directives that describe what loading a file gives, and its tree.
fn describe(name: &str, text: &str, tree: bool) -> (Vec<String>, Option<String>) {
    let mut map = SourceMap::new();
    let loaded = load(&mut map, name, text, &mut Beside(folder()));
    let messages = match &loaded {
        Ok((_, w)) => w,
        Err(e) => e,
    };
    let mut out: Vec<String> = messages
        .iter()
        .map(|d| {
            let kind = if d.severity == Severity::Error { "error" } else { "warning" };
            let place = d.marks.first().map_or(String::new(), |m| {
                let (line, column) = map.line_column(m.span.file, m.span.start);
                format!(" at {line}:{column}")
            });
            format!("#: {kind} {}{place}", d.code)
        })
        .collect();
    if messages.is_empty() {
        out.push("#: ok".to_string());
    }
    let mut printed = None;
    if let (Ok((p, _)), true) = (&loaded, tree) {
        out.push("#: tree".to_string());
        printed = Some(lathe_ir::text::print_module(&p.module));
        let broken = lathe_ir::verify::verify(&p.module);
        assert!(broken.is_empty(), "{name}: {}", broken[0]);
    }
    (out, printed)
}

#[test]
fn files_do_as_their_directives_say() {
    let bless = std::env::var_os("LATHE_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in programs(&folder()) {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("?").to_string();
        let text = fs::read_to_string(&path).expect("a program");
        let stated: Vec<String> =
            text.lines().filter(|l| l.starts_with("#:")).map(|l| l.trim_end().to_string()).collect();
        let tree = stated.iter().any(|d| d == "#: tree");
        let (found, printed) = describe(&name, &text, tree);
        if found != stated && bless {
            // Directives stand at the end, so that adding one moves no place.
            let body: String =
                text.lines().filter(|l| !l.starts_with("#:")).map(|l| format!("{l}\n")).collect();
            let (found, _) = describe(&name, &body, tree);
            fs::write(&path, body + &found.join("\n") + "\n").expect("a writable folder");
        } else if found != stated {
            wrong.push(format!("{name}: states {stated:?}, gives {found:?}"));
        }
        if let Some(printed) = printed {
            let beside = path.with_extension("tree");
            if bless {
                fs::write(&beside, &printed).expect("a writable folder");
            } else if fs::read_to_string(&beside).unwrap_or_default() != printed {
                wrong.push(format!("{name}: the tree differs (LATHE_BLESS=1 writes it):\n{printed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn comments(text: &str) -> Vec<String> {
    let lexed = lathe_lang::lexer::lex(lathe_diagnostics::FileId(0), text);
    lexed
        .comments
        .iter()
        .map(|c| text[c.span.start as usize..c.span.end as usize].trim_end().to_string())
        .collect()
}

fn tokens(text: &str) -> Vec<lathe_lang::lexer::Tok> {
    lathe_lang::lexer::lex(lathe_diagnostics::FileId(0), text).tokens.into_iter().map(|t| t.tok).collect()
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
