//! The driver finds what is wrong, and leaves alone what is right.

use crate::file::perform;
use crate::{Front, Trees};
use lathe_diagnostics::{Code, Diagnostic};
use lathe_ir::{Function, Module};

const COPY: &str = "func k(N)(A: in i32[N], B: out i32[N]) {
  for i in 0..N { 'B'[i]: B[i] = A[i] * 2:i32 }
}
";

/// Steps that keep the function, break it, or are refused.
struct Toy;

impl Front for Toy {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let other = |text: &str| {
            let m = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).expect("a tree");
            m.functions["k"].clone()
        };
        match steps {
            "keep" => Ok(func.clone()),
            "last" => Ok(other(&COPY.replace("0..N", "0..N - 1"))),
            "triple" => Ok(other(&COPY.replace("2:i32", "3:i32"))),
            "race" => {
                Ok(other(&COPY.replace("0..N {", "0..N cpu {").replace("'B'[i]: B[i]", "'B'[i]: B[0]")))
            }
            _ => Err(Diagnostic::error(Code("E0999"), format!("{} functions", module.functions.len()))),
        }
    }
}

fn found(text: &str) -> (String, Vec<String>) {
    let done = perform("test.tree", text, &Toy).unwrap_or_else(|e| panic!("{e}\n{text}"));
    (done.text, done.failures)
}

#[test]
fn a_file_that_is_right_stays_as_it_is() {
    let steps = format!("# Copies.\n{COPY}\n#: sizes N=0; N=5\n#: steps keep\n#: steps no\n#: run N=2\n");
    let (once, failures) = found(&steps);
    assert!(failures.is_empty(), "{failures:?}");
    assert!(
        once.contains("#: steps keep\n#| func k(N)") && once.contains("#: steps no\n#! E0999\n"),
        "{once}"
    );
    assert!(once.contains("#: run N=2\n#| B = ["), "{once}");
    assert_eq!(found(&once).0, once);
    // What was expected wrongly is what differs.
    assert_eq!(found(&once.replace("E0999", "E0998")).0, once);
    assert_eq!(found(&once.replace("#| func", "#| fun")).0, once);
}

#[test]
fn other_results_cannot_be_blessed() {
    for (steps, why) in [("last", "`B` is undefined"), ("triple", "`B` is"), ("race", "E0410")] {
        let (_, failures) = found(&format!("{COPY}#: sizes N=4\n#: steps {steps}\n"));
        assert!(failures.len() == 1 && failures[0].contains(why), "{steps}: {failures:?}");
    }
    // Where there is nothing to do, nothing differs; a size at which all fails says nothing.
    let (_, failures) = found(&format!("{COPY}#: sizes N=0\n#: steps triple\n"));
    assert!(failures.is_empty(), "{failures:?}");
    let fails = COPY.replace("A[i] * 2", "A[i + 1] * 2");
    let (_, failures) = found(&format!("{fails}#: sizes N=4\n#: steps keep\n"));
    assert!(failures.len() == 1 && failures[0].contains("at all of the sizes"), "{failures:?}");
}

#[test]
fn messages_stand_at_their_lines() {
    let wrong = COPY.replace("A[i] * 2:i32", "C[i] * c");
    let (text, _) = found(&wrong);
    let line = text.lines().nth(1).expect("a second line");
    assert!(line.ends_with("  #! E0303:34"), "{line}");
    assert_eq!(found(&text).0, text);
    assert_eq!(found(&text.replace("  #! E0303:34", "")).0, text);
    // A comment that only looks like one stays.
    let text = COPY.replace("{\n", "{ # why #! not\n");
    assert_eq!(found(&text).0, text);
}

#[test]
fn forms_that_mean_nothing_are_errors() {
    for (text, why) in [
        (format!("{COPY}#: stesp keep\n"), "neither a case"),
        (format!("{COPY}#: steps keep\n"), "no `#: sizes`"),
        (format!("{COPY}#: sizes N\n#: steps keep\n"), "is no size"),
        (format!("{COPY}#: sizes M=1\n#: run M=1\n"), "`N` has no value"),
        (format!("{COPY}#: values 3..1\n"), "no range"),
        (format!("#:  more\n{COPY}"), "continues nothing"),
        (format!("#: sizes N=1\n{COPY}"), "before the cases"),
        (format!("{COPY}#: for q\n#: run N=1\n"), "no function `q`"),
        ("func k(\n#: tree\n".to_string(), "has errors"),
    ] {
        match perform("test.tree", &text, &Trees) {
            Err(e) => assert!(e.contains(why), "{e}\n{text}"),
            Ok(done) => assert!(done.failures.iter().any(|f| f.contains(why)), "{:?}\n{text}", done.failures),
        }
    }
}
