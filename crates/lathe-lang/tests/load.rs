//! Whole programs: the table of codes, and what must never happen.

use lathe_diagnostics::{Severity, SourceMap};
use lathe_lang::{CODES, Program, Resolver, load};

/// No other files.
pub struct Alone;

impl Resolver for Alone {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("there is no file {name}"))
    }
}

fn codes_of(text: &str) -> (Vec<String>, Option<Program>) {
    let mut map = SourceMap::new();
    match load(&mut map, "test.lathe", text, &mut Alone) {
        Ok((p, w)) => (w.iter().map(|d| d.code.0.to_string()).collect(), Some(p)),
        Err(e) => {
            assert!(e.iter().any(|d| d.severity == Severity::Error));
            (e.iter().map(|d| d.code.0.to_string()).collect(), None)
        }
    }
}

#[test]
fn every_code_has_a_wrong_and_a_right_program() {
    let mut wrong = Vec::new();
    for c in CODES {
        let (codes, _) = codes_of(c.wrong);
        if !codes.iter().any(|x| x == c.code.0) {
            wrong.push(format!("{}: wrong program gives {codes:?}", c.code));
        }
        let (codes, program) = codes_of(c.right);
        if program.is_none() || !codes.is_empty() {
            wrong.push(format!("{}: right program gives {codes:?}", c.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
