//! The driver finds what is wrong, and leaves alone what is right.

use crate::file::perform;
use crate::{Found, Front, Given, Inputs, Values};
use lathe_diagnostics::{Code, Diagnostic, FileId, Span};
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

    fn words(&self) -> &'static [&'static str] {
        &["loops"]
    }

    /// How many loops the text has; wrong if that is not what the case says, refused at the first of none.
    fn case(&self, _: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let want: usize = rest.lines().next().unwrap_or("").parse().map_err(|_| "how many?".to_string())?;
        if want == 0 {
            let at = given.text.find("for").unwrap_or(0);
            let refusal = Diagnostic::error(Code("E0998"), "none");
            return Ok(Err(refusal.at(Span::new(FileId(0), at, at + 3), "here")));
        }
        let loops = given.text.matches("for ").count();
        let text =
            format!("{loops} loops, {} more lines, {} sizes\n", rest.lines().count() - 1, given.inputs.len());
        Ok(Ok(Found { text, wrong: (loops != want).then(|| format!("{loops} loops")) }))
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
fn a_front_has_cases_of_its_own() {
    let (once, failures) =
        found(&format!("{COPY}#: sizes N=0; N=1\n#: loops 1\n#:  a line\n#:  another\n#: loops 0\n"));
    assert!(failures.is_empty(), "{failures:?}");
    assert!(once.contains("another\n#| 1 loops, 2 more lines, 2 sizes\n"), "{once}");
    // A refusal with a place shows it.
    assert!(once.contains("#: loops 0\n#! E0998 at 2:3\n"), "{once}");
    assert_eq!(found(&once).0, once);
    let (_, failures) = found(&format!("{COPY}#: loops 2\n"));
    assert!(failures.len() == 1 && failures[0].contains("1 loops"), "{failures:?}");
}

#[test]
fn inputs_are_drawn_from_their_ranges() {
    let text = "func k(N)(A: in f64[N], B: in i32[N], I: in i64[N], c: in f32, C: out i32[N]) {}";
    let m = lathe_ir::text::parse_module(FileId(0), text).expect("a tree");
    let values = Values::parse("0.5..1.5; ints -2..2; I 7..7").expect("ranges");
    let at = Inputs::parse("N=50 c=3").expect("sizes").drawn_from(&values);
    let all = at.arguments(&m.functions["k"]).expect("values");
    let within = |n: usize, lo: f64, hi: f64| all[n].to_f64_vec().iter().all(|v| (lo..=hi).contains(v));
    assert!(within(0, 0.5, 1.5) && within(1, -2.0, 2.0) && within(2, 7.0, 7.0) && within(3, 3.0, 3.0));
    assert!(all[0].to_f64_vec().iter().any(|v| v.fract() != 0.0), "{:?}", all[0]);
    assert_ne!(at.seeded(8).arguments(&m.functions["k"]).expect("values")[0], all[0]);
    for wrong in ["3..1", "a..b", "1", "x 1", ""] {
        assert!(Values::parse(wrong).is_err(), "{wrong}");
    }
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
        (format!("{COPY}#: sizes N\n#: steps keep\n"), "is not a size"),
        (format!("{COPY}#: sizes M=1\n#: run M=1\n"), "`N` has no value"),
        (format!("{COPY}#: values 3..1\n"), "is not a range"),
        (format!("#:  more\n{COPY}"), "continues no case"),
        (format!("#: sizes N=1\n{COPY}"), "before the cases"),
        (format!("{COPY}#: for q\n#: run N=1\n"), "no function `q`"),
        ("func k(\n#: tree\n".to_string(), "has errors"),
        (format!("{COPY}#: loops many\n"), "how many?"),
    ] {
        match perform("test.tree", &text, &Toy) {
            Err(e) => assert!(e.contains(why), "{e}\n{text}"),
            Ok(done) => assert!(done.failures.iter().any(|f| f.contains(why)), "{:?}\n{text}", done.failures),
        }
    }
}
