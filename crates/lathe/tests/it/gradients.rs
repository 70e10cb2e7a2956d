//! Derivatives of the examples: against differences, and on every engine against the interpreter.

use lathe::grad::{Mode, Passes, Request, check};
use lathe::{Build, Engine, Given, How, Machine, Pool, Program, check_program, data};
use std::path::PathBuf;

fn files() -> Vec<PathBuf> {
    let all = crate::files::examples(&["gradients"], &["lathe"]);
    assert!(all.len() >= 9, "only {} examples", all.len());
    all
}

/// Every size is small and odd; counts of steps, too.
fn given(f: &lathe::Function, seed: u64) -> Given {
    let small = |n: usize| 3 + n as i64 % 3;
    let sizes = f.sizes.iter().enumerate().map(|(n, b)| (b.name.to_string(), small(n))).collect();
    let counts =
        f.params.iter().filter(|p| matches!(&p.kind, lathe::ir::ParamKind::Scalar(b) if b.ty.is_int()));
    let inputs = counts.map(|p| (p.name().to_string(), "4".to_string())).collect();
    Given { sizes, inputs, seed }
}

#[test]
fn derivatives_of_examples_agree_with_differences() {
    for file in files() {
        let p = Program::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let name = file.file_stem().and_then(|n| n.to_str()).expect("a name");
        for k in [name.to_string(), format!("{name}_vjp")] {
            let f = p.kernel(Some(&k)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let given = given(f, 3);
            let d = data::make(f, &given).unwrap_or_else(|e| panic!("{k}: {e}"));
            let values = lathe::convert::to_values(&d.arrays).expect("values");
            let request = Request::new(Mode::Reverse, "d");
            // As derivatives are made, and as every statement is reversed as it stands.
            for passes in [Passes::default(), Passes::parse(":")] {
                let c = check(&p.lang.module, f, &request, &passes, &values, &d.sizes, 5)
                    .unwrap_or_else(|e| panic!("{k}: {e}"));
                assert!(c.ok, "{k}: {passes:?} {c:?}");
            }
        }
    }
}

#[test]
fn tests_of_examples_hold() {
    for file in files() {
        let p = Program::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let failures = check_program(&p, &Machine::host()).failures;
        assert!(failures.is_empty(), "{}: {}", file.display(), failures[0]);
    }
}

/// Derivatives as statements of kernels, and derivatives of these.
#[test]
fn kernels_call_derivatives() {
    let text = include_str!("called.lathe");
    let p = Program::from_text("called.lathe", text).unwrap_or_else(|e| panic!("{e}"));
    for f in p.lang.module.functions.values() {
        let wrong = lathe::ir::verify::verify_function(&p.lang.module, f);
        assert!(wrong.is_empty(), "{}: {}", f.name, wrong[0]);
    }
    let report = check_program(&p, &Machine::host());
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    for mode in [Mode::Forward, Mode::Reverse] {
        for k in ["lowest", "all", "more"] {
            let f = p.kernel(Some(k)).unwrap_or_else(|e| panic!("{e}"));
            let d = data::make(f, &given(f, 3)).unwrap_or_else(|e| panic!("{k}: {e}"));
            let values = lathe::convert::to_values(&d.arrays).expect("values");
            let request = Request::new(mode, "d");
            let c = check(&p.lang.module, f, &request, &Passes::usual(), &values, &d.sizes, 5)
                .unwrap_or_else(|e| panic!("{k}: {e}"));
            assert!(c.ok, "{k}: {c:?}");
        }
    }
    let refused = |text: &str| {
        let e = Program::from_text("wrong.lathe", text).expect_err(text);
        e.diagnostics.iter().map(|d| d.code.to_string()).collect::<Vec<_>>()
    };
    let f = "kernel f(x: f64[N]) -> (y: f64) { y = sum[i](x[i] * x[i]) }\nkernel d = vjp(f)\n";
    let calls =
        |body: &str| refused(&format!("{f}kernel k(x: f64[N], z: f64[M]) -> (g: f64[N]) {{ {body} }}"));
    assert_eq!(calls("g = d(x)"), ["E0208"]);
    assert_eq!(calls("g = d(x, x)"), ["E0209"]);
    assert_eq!(calls("g = d(z, 1.0)"), ["E0211"]);
    assert_eq!(calls("g[i] = d(x, 1.0)"), ["E0201"]);
    assert_eq!(calls("g = d(g, 1.0)"), ["E0208"]);
    let itself = "kernel f(x: f64[N]) -> (y: f64[N]) { y = d(x, x) }\nkernel d = vjp(f)";
    assert_eq!(refused(itself), ["E0902"]);
    // What is wrong with the derivative is said once.
    let steps = "kernel f(x: f64[N]) -> (y: f64[N]) { y[i] = round(x[i]) }\nkernel d = vjp(f)\n\
        kernel k(x: f64[N]) -> (y: f64[N]) { y = d(x, x) }\nkernel k_vjp = vjp(k)";
    assert_eq!(refused(steps), ["E1301"]);
}

#[test]
fn derivatives_of_examples_are_what_the_interpreter_says() {
    let pool = Pool::new(2).expect("a pool");
    let build = Build { opt_level: 1, ..Build::default() };
    assert!(build.engine != Engine::INTERPRETER);
    for file in files() {
        let p = Program::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for info in &p.lang.kernels {
            let f = p.kernel(Some(&info.name)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            for strategy in ["naive", "auto"] {
                let d = data::make(f, &given(f, 1)).unwrap_or_else(|e| panic!("{}: {e}", info.name));
                let how = How { strategy: Some(strategy.into()), sizes: d.named_sizes(f), ..How::default() };
                let schedule = lathe::schedule(&p, f, &how, &Machine::host())
                    .unwrap_or_else(|e| panic!("{} {strategy}: {e}", info.name));
                let built =
                    lathe::compile(&schedule, &build).unwrap_or_else(|e| panic!("{}: {e}", info.name));
                let before = d.duplicate().expect("memory");
                let mut after = d.duplicate().expect("memory");
                built.call(&pool, &mut after.arrays).unwrap_or_else(|e| panic!("{}: {e}", info.name));
                let c = lathe::check_result(&schedule, &build, before, &after, &pool)
                    .unwrap_or_else(|e| panic!("{}: {e}", info.name));
                assert!(c.report.ok, "{} {strategy}: {:?}", info.name, c.first);
            }
        }
    }
}

/// The steps of many computes are a long strategy on a large tree; it is not taken for one without end.
#[test]
fn all_of_a_large_derivative_is_scheduled() {
    let file = files().into_iter().find(|f| f.ends_with("mixture.lathe")).expect("the example");
    let p = Program::open(&file).unwrap_or_else(|e| panic!("{e}"));
    let f = p.kernel(Some("mixture_vjp")).expect("a kernel");
    let sizes = [("N", 1000), ("D", 10), ("K", 25), ("E", 45)].map(|(n, v)| (n.to_string(), v)).into();
    let how = How { strategy: Some("auto".into()), sizes, ..How::default() };
    let machine = Machine::named("x86-64-v3").expect("is known");
    let schedule = lathe::schedule(&p, f, &how, &machine).unwrap_or_else(|e| panic!("{e}"));
    let notes: Vec<&String> = schedule.versions.iter().flat_map(|v| &v.notes).collect();
    assert!(notes.iter().all(|n| !n.contains("E0608")), "{notes:?}");
}

#[test]
fn what_is_refused_has_its_page() {
    let codes_of = |text: &str| -> Vec<String> {
        let is_tree = text.contains("stage plain");
        let given = match Program::from_text(if is_tree { "page.tree" } else { "page.lathe" }, text) {
            Ok(p) => p,
            Err(e) => return e.diagnostics.iter().map(|d| d.code.to_string()).collect(),
        };
        // Pages in the language ask for derivatives themselves.
        let f = given.kernel(Some("k")).expect("a kernel");
        let made = || {
            let request = Request::new(Mode::Reverse, "d");
            lathe::grad::differentiated(&given.lang.module, f, &request, &Passes::default())
        };
        let refused = is_tree.then(made).and_then(Result::err);
        refused.map(|d| d.code.to_string()).into_iter().collect()
    };
    for page in lathe::all_codes().into_iter().filter(|c| c.code.to_string().starts_with("E13")) {
        assert_eq!(codes_of(page.wrong), [page.code.to_string()], "{}", page.wrong);
        assert!(codes_of(page.right).is_empty(), "{}: {}", page.code, page.right);
    }
}
