//! Whole programs: the table of codes, and what must never happen.

use lathe_diagnostics::{Severity, SourceMap};
use lathe_lang::{CODES, Program, Resolver, load};

/// The files of the file tests.
struct Beside;

impl Resolver for Beside {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        let path = format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).map_err(|e| e.kind().to_string())?;
        Ok((name.to_string(), text))
    }
}

fn codes_of(text: &str) -> (Vec<String>, Option<Program>) {
    let mut map = SourceMap::new();
    match load(&mut map, "test.lathe", text, &mut Beside) {
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

mod interpreter;

/// Every example loads without a warning, is well formed, and passes its own tests in the interpreter; so do
/// those of the file tests that are programs without messages.
#[test]
fn the_examples_pass_their_tests() {
    let mut files = Vec::new();
    for dir in ["/../../examples", "/../../examples/patterns", "/tests/files"] {
        let dir = format!("{}{dir}", env!("CARGO_MANIFEST_DIR"));
        let found =
            std::fs::read_dir(dir).expect("a folder of programs").filter_map(|f| Some(f.ok()?.path()));
        files.extend(found.filter(|p| p.extension().is_some_and(|e| e == "lathe")));
    }
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("?").to_string();
        let text = std::fs::read_to_string(&path).expect("a program");
        if text.contains("#! ") {
            continue;
        }
        let mut map = SourceMap::new();
        let program = match load(&mut map, &name, &text, &mut Beside) {
            Ok((p, w)) => {
                wrong.extend(w.iter().map(|d| interpreter::show(&map, d)));
                p
            }
            Err(e) => {
                wrong.extend(e.iter().map(|d| interpreter::show(&map, d)));
                continue;
            }
        };
        wrong.extend(lathe_ir::verify::verify(&program.module).iter().map(|d| interpreter::show(&map, d)));
        for t in &program.tests {
            if let Err(why) = interpreter::run_test(&program, t) {
                wrong.push(format!("{name}: test \"{}\" of {}: {why}", t.name, t.kernel));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs of a thousand statements, nests or local arrays load; nothing depends on their number but time.
#[test]
fn long_programs_load() {
    let mut chain = String::from(
        "kernel chain(x: f32[N + 2]) -> (y: f32[N]) {\n    var v0: f32[N + 2]\n    v0[i] = x[i]\n",
    );
    for n in 1..1000 {
        chain += &format!(
            "    var v{n}: f32[N + 2]\n    v{n}[i] = v{}[i] + v{0}[i + 1] where i in 0..N + 1\n",
            n - 1
        );
        chain += &format!("    v{n}[N + 1] = 0\n");
    }
    chain += "    y[i] = v999[i]\n}\n";
    let mut nests = String::from("kernel nests(x: f32[N]) -> (y: f32[N]) {\n");
    for _ in 0..500 {
        nests += "    for i in 0..N { y[i] = max(x[i], 0) + sum[k](x[k]) }\n";
    }
    nests += "}\n";
    for text in [chain, nests] {
        let (codes, program) = codes_of(&text);
        assert!(program.is_some() && codes.is_empty(), "{codes:?}");
    }
}

/// The library of strategies over terms is one text, which two parsers read alike.
#[test]
fn funs_have_the_library() {
    let (messages, program) = codes_of("fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + v)\n");
    assert!(messages.is_empty(), "{messages:?}");
    let program = program.expect("a program");
    let shown = |d: &lathe_strategy::Definition| {
        let params: Vec<&str> = d.params.iter().map(|p| p.name.as_str()).collect();
        format!("{}({}) = {}", d.name, params.join(", "), d.body)
    };
    let here: Vec<String> = program.library.iter().map(shown).collect();
    let there: Vec<String> = lathe_pattern::library::definitions().iter().map(shown).collect();
    assert_eq!(here, there);
    // A fun takes its own `naive`, a kernel that of the prelude.
    let naive = |of: &str| program.strategies_of(of).find(|d| d.name == "naive").map(|d| d.body.to_string());
    assert!(naive("f").is_some_and(|b| b.contains("lowerToC")));
    assert_eq!(naive("other").as_deref(), Some("id"));
}

#[test]
fn funs_and_rules_are_checked_where_they_stand() {
    for (text, code, line) in [
        ("kernel k(a: f32[N]) -> (b: f32[N]) { b[i] = a[i] }\nfun f(x: f32[N]) -> f32[M] = x\n", "E1102", 2),
        ("\n\nfun f(x: f32[N, M]) -> f32[N, M] = transpose(x)\n", "E1103", 3),
        ("fun f(x: f32[N]) -> f32[N] = x\n# a comment\nfun f(x: f32[N]) -> f32[N] = x\n", "E0202", 3),
        ("rule r(f): map(f => f\n", "E1101", 1),
        ("rule transposeTranspose: transpose >> transpose => id\n", "E0202", 1),
        ("rule r(x, y): x + 1 => x + y\n", "E1108", 1),
        ("fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + v)\ntest \"t\" for g { N = 1 }\n", "E0222", 2),
    ] {
        let mut map = SourceMap::new();
        let errors = load(&mut map, "t.lathe", text, &mut Beside).expect_err(text);
        let at = errors[0].marks.first().map(|m| map.line_column(m.span.file, m.span.start).0);
        assert_eq!((errors[0].code.0, at), (code, Some(line)), "{text}: {}", errors[0]);
    }
}

#[test]
fn generic_kernels_stand_for_one_of_each_choice() {
    let text =
        std::fs::read_to_string(format!("{}/tests/files/generic_ok.lathe", env!("CARGO_MANIFEST_DIR")));
    let (codes, program) = codes_of(&text.expect("a file"));
    assert!(codes.is_empty(), "{codes:?}");
    let program = program.expect("a right program");
    let names: Vec<&str> = program.kernels.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names.len(), 10);
    // The usual types: the default that is written, `f32`, or else what is named first.
    assert!(names.contains(&"mixed") && names.contains(&"mixed_f16_i32") && names.contains(&"first_u8"));
    let g = &program.generics["mixed"];
    assert_eq!(g.choices[g.default], (vec![lathe_ir::Type::F32, lathe_ir::Type::I64], "mixed".to_string()));
    let of = |given: &[(&str, lathe_ir::Scalar)]| {
        g.choose(&given.iter().map(|(n, s)| (n.to_string(), (*s).into())).collect()).map(str::to_string)
    };
    use lathe_ir::Scalar::{Bf16, F64, I32, U8};
    assert_eq!(of(&[]).unwrap(), "mixed");
    assert_eq!(of(&[("T", F64)]).unwrap(), "mixed_f64_i64");
    assert_eq!(of(&[("I", I32), ("T", Bf16)]).unwrap(), "mixed_bf16_i32");
    assert!(of(&[("I", U8)]).is_err() && of(&[("S", F64)]).is_err());
    // Facts are asked about the type that was chosen.
    let wide: Vec<_> = program.strategies_of("mixed_f64_i64").filter(|d| d.name == "wide").collect();
    assert_eq!(wide.len(), 1);
    let default = wide[0].params[0].default.as_ref().expect("a default").to_string();
    assert_eq!(default, "2 * vector(f64)");
    // One test for each choice, or for those that it sets.
    let tests = |name: &str| program.tests.iter().filter(|t| t.name.starts_with(name)).count();
    assert_eq!((tests("all"), tests("one type set"), tests("wraps")), (8, 2, 1));
}
