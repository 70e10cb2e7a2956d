//! Random well-typed funs by random strategies: the evaluator of terms, the interpreter of the translated tree,
//! and machine code of every engine agree bit for bit.

use lathe::ir::interp;
use lathe::{Build, Engine, Given, How, Machine, Pool, Program, convert};
use lathe_pattern::random::Random;
use lathe_pattern::{Value, evaluate};

/// A pipeline over a matrix, or over a vector once its rows are reduced; sizes are symbols.
fn random_fun(r: &mut Random, complex: bool) -> String {
    let (mut e, mut flat) = ("xs".to_string(), false);
    for _ in 0..1 + r.below(4) {
        let stage = if complex && flat {
            r.one(&[
                "map(|z| z * 2.0i + 1.0)",
                "scan(add, 0.0)",
                "pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0.0))",
                "map(|z| select(z == conj(z), z / (z + 2.0i), sqrt(z)))",
                "map(|z| complex(abs(z), arg(z)) - 3)",
            ])
        } else if complex {
            r.one(&[
                "map(map(|z| 1.0 - z * (0.5 + 2.0i)))",
                "map(|row| row |> pad(1, 1, mirror) |> slide(3, 1) |> map(|w| 1i * w[0] - w[2]))",
                "map(|row| row |> scan(add, 0.0))",
                "map(|row| zip(row, row) |> map(|(a, b)| a * conj(b) - a / 2.0))",
                "map(|row| row |> map(|z| z * z) |> reduce(add, 0.0))",
                "map(|row| row |> reduce(|a, b| a * b, 1.0))",
            ])
        } else if flat {
            r.one(&[
                "map(|x| x * 2.0 + 1.0)",
                "scan(add, 0.0)",
                "pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0.0))",
                "map(|x| max(x, 0.0))",
                "iterate(2, map(|x| x + 1.0))",
                "gather(|i: idx<M>| asIndex(M, M - 1 - index(i)))",
                "map(|x| exp(x) / (x + 2.0))",
            ])
        } else {
            r.one(&[
                "map(map(|x| x * 2.0 + 1.0))",
                "map(|row| row |> pad(1, 1, mirror) |> slide(3, 1) |> map(|w| w[0] - w[2]))",
                "pad(1, 1, wrap) |> slide(3, 1) |> map(transpose) |> map(map(|w| w |> reduce(add, 0.0)))",
                "map(|row| gather(|i: idx<N>| asIndex(N, N - 1 - index(i)), row))",
                "map(|row| row |> scan(add, 0.0))",
                "map(|row| zip(row, row) |> map(|(a, b)| a * b - a))",
                "map(|row| row |> map(|x| x * x) |> reduce(add, 0.0))",
                "map(|row| row |> reduce(max, -1.0e30))",
            ])
        };
        flat |= stage.starts_with("map(|row| row |> map(") && stage.contains("reduce(")
            || stage.contains("row |> reduce(");
        e = format!("{e} |> {stage}");
    }
    let of = if complex { "c128" } else { "f64" };
    let to = if flat { "M" } else { "M, N" };
    format!("fun f(xs: {of}[M, N]) -> {of}[{to}] =\n    {e}\n")
}

fn random_strategy(r: &mut Random) -> String {
    let first = r.one(&[
        "id",
        "try(topDown(fuseReduceMap))",
        "RNF",
        "CNF",
        "try(split(2) @ outermost(appliedMap))",
        "tryAll(hoist)",
        "try(innermost(appliedReduce, split(3)))",
        "try(tile(2, 4) @ outermost(mapNest(2)))",
        "try(topDown(tileStencil(6)))",
        "try(topDown(splitBeforeMap))",
    ]);
    let second = r.one(&[
        "id",
        "try(parallelOuter)",
        "try(bottomUp(vectorize(2)))",
        "try(bottomUp(vectorizeMasked(4)))",
    ]);
    let loops = r.one(&["", "", " ; lower", " ; lower ; id"]);
    format!("strategy s for f = DFNF ; {first} ;; {second} ;; naive{loops}\n")
}

fn agree(engine: Engine, rounds: usize, mut r: Random) {
    let pool = Pool::new(2).expect("a pool");
    let (mut ran, mut refused) = (0, 0);
    let mut of_complex = Random(0x00c0_ffee_5eed_0003);
    for round in 0..rounds {
        let complex = round % 3 == 2;
        let r = if complex { &mut of_complex } else { &mut r };
        let text = random_fun(r, complex) + &random_strategy(r);
        let p = Program::from_text("random.lathe", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let kernel = p.kernel(Some("f")).unwrap_or_else(|e| panic!("{text}: {e}"));
        let how = How { strategy: Some("s".to_string()), ..How::default() };
        let schedule = match lathe::schedule(&p, kernel, &how, &Machine::host()) {
            // A vector of pairs that a window reads would have to be stored.
            Err(e) if complex && e.diagnostics[0].code.0 == "E1112" => {
                refused += 1;
                continue;
            }
            made => made.unwrap_or_else(|e| panic!("{text}: {e}")),
        };
        let version = &schedule.versions[0];
        let again = lathe::replay(&p, kernel, &how, None, &version.baked, &version.steps)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let shown =
            |f: &lathe::Function| lathe::text::print_function(&lathe::poly::simplify::simplify_function(f));
        assert_eq!(shown(&again), shown(&version.func), "replayed: {text}");
        let build = Build { engine, opt_level: 1, ..Build::default() };
        let built = lathe::compile(&schedule, &build).unwrap_or_else(|e| panic!("{text}: {e}"));
        for (m, n) in [(12i64, 24i64), (24, 12)] {
            let sizes = [("M".to_string(), m), ("N".to_string(), n)].into();
            let given = Given { sizes, seed: round as u64, ..Given::default() };
            let mut data = lathe::data::make(kernel, &given).unwrap_or_else(|e| panic!("{text}: {e}"));
            let mut values = convert::to_values(&data.arrays).expect("values");
            let fun = &p.lang.funs["f"].program;
            let sizes = lathe_pattern::eval::sizes([("M", m), ("N", n)]);
            let want = evaluate(fun, &sizes, &[Value::from_array(&values[0])])
                .unwrap_or_else(|e| panic!("{text}: {e}"));
            interp::run(&schedule.module, &version.func, &mut values, &interp::Options::default())
                .unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(Value::from_array(&values[1]), want, "interpreter: {text}");
            built.call(&pool, &mut data.arrays).unwrap_or_else(|e| panic!("{text}: {e}"));
            let got = convert::to_values(&data.arrays).expect("values");
            assert_eq!(Value::from_array(&got[1]), want, "{}: {text}", engine.name());
            ran += 1;
        }
    }
    assert_eq!(ran + 2 * refused, 2 * rounds);
    assert!(refused <= rounds / 6, "{refused}");
}

#[cfg(feature = "llvm")]
#[test]
fn random_funs_and_strategies_agree_in_machine_code_of_llvm() {
    agree(Engine::LLVM, 60, Random(0xfeed_beef_1234_5677));
}

#[test]
fn random_funs_and_strategies_agree_in_machine_code_of_the_c_compiler() {
    agree(Engine::C, 15, Random(0x1234_5677_feed_beef));
}

/// Stages that reduce rows and use what they give for every element of the row.
fn rows(r: &mut Random) -> String {
    let stages = [
        "map(|row| let top = row |> reduce(max, -inf) in row |> map(|x| exp(x - top)))",
        "map(|row| let s = row |> map(|x| x * x) |> reduce(add, 0.0) in row |> map(|x| x / (1.0 + s)))",
        "map(|row| let e = row |> map(|x| exp(x)) in let s = e |> reduce(add, 0.0) in e |> map(|x| x / s))",
        "map(|row| let m = row |> reduce(min, 1.0e30) in zip(row, row) |> map(|(a, b)| a * b - m))",
        "map(map(|x| x * 0.5 + 1.0))",
        "map(|row| row |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0.0)))",
    ];
    let e = (0..1 + r.below(2)).fold("xs".to_string(), |e, _| format!("{e} |> {}", r.one(&stages)));
    let (to, last) = *[
        ("f64[M, N]", ""),
        ("f64[M]", " |> map(|row| row |> reduce(add, 0.0))"),
        ("f64[M, 3]", " |> map(|row| let e = row |> map(|x| x * 2.0) in ys |> map(|y| zip(e, y) |> map(|(a, b)| a * b) |> reduce(add, 0.0)))"),
    ]
    .get(r.below(3))
    .expect("is one of them");
    format!("fun f(xs: f64[M, N], ys: f64[3, N]) -> {to} =\n    {e}{last}\n")
}

#[test]
fn what_auto_makes_of_random_funs_agrees_with_the_interpreter() {
    let (pool, mut r) = (Pool::new(2).expect("a pool"), Random(0x0dd_ba11_5eed_0001));
    let machine = Machine::named("x86-64-v3").expect("is known");
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut decided = 0;
    for round in 0..cases {
        let text = rows(&mut r);
        let p = Program::from_text("random.lathe", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let kernel = p.kernel(Some("f")).unwrap_or_else(|e| panic!("{text}: {e}"));
        let (m, n) = [(1, 1), (2, 7), (3, 1), (9, 33), (40, 64), (17, 100)][r.below(6)];
        let sizes: std::collections::BTreeMap<_, _> = [("M".to_string(), m), ("N".to_string(), n)].into();
        let how = |strategy: &str| How {
            strategy: Some(strategy.to_string()),
            sizes: sizes.clone(),
            threads: Some(1 + round % 2),
            ..How::default()
        };
        let schedule = |s: &str| {
            lathe::schedule(&p, kernel, &how(s), &machine).unwrap_or_else(|e| panic!("{text}: {e}"))
        };
        let (naive, made) = (schedule("naive"), schedule("auto"));
        decided += usize::from(!made.versions[0].taken.is_nothing());
        let given = Given { sizes: sizes.clone(), seed: round as u64, ..Given::default() };
        let data = lathe::data::make(kernel, &given).unwrap_or_else(|e| panic!("{text}: {e}"));
        let interpreted = Build { engine: Engine::INTERPRETER, ..Build::default() };
        let copy = || data.duplicate().expect("a copy");
        let reference = lathe::Reference::new(&naive, &interpreted, copy(), &pool).expect("a reference");
        let engines = [Engine::INTERPRETER, Engine::LLVM, Engine::C];
        for engine in engines.into_iter().take(if round % 6 == 0 { 3 } else { 2 }) {
            let build = Build { engine, opt_level: 1, ..Build::default() };
            let mut after = copy();
            let code = lathe::compile(&made, &build).unwrap_or_else(|e| panic!("{text}: {e}"));
            code.call(&pool, &mut after.arrays).unwrap_or_else(|e| panic!("{text}: {e}"));
            let checked = reference.compare(&made, &after).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert!(checked.report.ok, "{}, {sizes:?}: {text}{:?}", engine.name(), checked.first);
        }
    }
    assert!(decided > cases / 3, "{decided}");
}

/// Every strategy for a fun of an example, in machine code, beside the tests of the example whose sizes it takes.
#[cfg(feature = "llvm")]
#[test]
fn the_versions_of_the_papers_agree_in_machine_code() {
    use lathe::tests_of::{Runner, run_test};
    let pool = Pool::new(2).expect("a pool");
    for (file, fun, least) in [("matmul", "mm", 8), ("binomial", "binomial", 6)] {
        let path = format!("{}/../../examples/patterns/{file}.lathe", env!("CARGO_MANIFEST_DIR"));
        let p = Program::open(path).unwrap_or_else(|e| panic!("{e}"));
        let mut ran = std::collections::BTreeSet::new();
        for d in p.strategies(fun).into_iter().filter(|d| d.target.is_some()) {
            let how = How { strategy: Some(d.name.clone()), ..How::default() };
            let kernel = p.kernel(Some(fun)).unwrap_or_else(|e| panic!("{e}"));
            let s = lathe::schedule(&p, kernel, &how, &Machine::host()).unwrap_or_else(|e| panic!("{e}"));
            let built = lathe::compile(&s, &Build::default()).unwrap_or_else(|e| panic!("{e}"));
            for t in p.lang.tests.iter().filter(|t| t.kernel == fun) {
                match run_test(&p, t, Runner::Built { built: &built, pool: &pool }) {
                    Ok(_) => {
                        ran.insert(d.name.as_str());
                    }
                    // Sizes that its tiles do not divide are refused at the call.
                    Err(e) => assert_eq!(e.diagnostics[0].code.0, "E0814", "{} on {}: {e}", d.name, t.name),
                }
            }
        }
        assert!(ran.len() >= least, "{file}: {ran:?}");
    }
}

/// From the file to the text of the code nothing depends on chance, addresses or what ran before.
#[test]
fn item_13_the_same_program_gives_the_same_code() {
    use lathe::{Emit, emit};
    let path = format!("{}/../../examples/patterns/matmul.lathe", env!("CARGO_MANIFEST_DIR"));
    let texts = move || -> Vec<Vec<u8>> {
        let p = Program::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let kernel = p.kernel(Some("mm")).unwrap_or_else(|e| panic!("{e}"));
        let mut all = Vec::new();
        for s in ["baseline", "loopPerm", "parallel", "registers"] {
            let how = How { strategy: Some(s.to_string()), ..How::default() };
            let schedule =
                lathe::schedule(&p, kernel, &how, &Machine::host()).unwrap_or_else(|e| panic!("{s}: {e}"));
            let forms = if cfg!(feature = "llvm") { &[Emit::C, Emit::Llvm][..] } else { &[Emit::C][..] };
            for form in forms {
                all.push(emit(&schedule, *form, &Build::default()).unwrap_or_else(|e| panic!("{s}: {e}")));
            }
        }
        all
    };
    let (first, again) = (texts(), std::thread::spawn(texts.clone()).join().expect("texts"));
    assert!(first == again && first.iter().all(|t| !t.is_empty()));
}

#[test]
fn every_code_of_patterns_has_a_wrong_and_a_right_program() {
    let codes_of = |text: &str| -> Vec<&'static str> {
        let all = match Program::from_text("code.lathe", text) {
            Err(f) => f.diagnostics,
            Ok(p) => {
                let report = lathe::check_program(&p, &Machine::host());
                report.failures.into_iter().flat_map(|f| f.diagnostics).collect()
            }
        };
        all.iter().map(|d| d.code.0).collect()
    };
    let mut wrong = Vec::new();
    for c in lathe_pattern::CODES.iter().filter(|c| !c.wrong.is_empty()) {
        let found = codes_of(c.wrong);
        if !found.contains(&c.code.0) {
            wrong.push(format!("{}: the wrong program gives {found:?}", c.code));
        }
        let found = codes_of(c.right);
        if !found.is_empty() {
            wrong.push(format!("{}: the right program gives {found:?}", c.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// F̃'s equations, in a file: what is transposed twice is copied, and the steps are told as they are counted.
#[test]
fn the_equations_of_f_tilde_are_written_by_a_user() {
    let path = format!("{}/../../examples/patterns/ftilde.lathe", env!("CARGO_MANIFEST_DIR"));
    let p = Program::open(path).unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(Some("twice")).unwrap_or_else(|e| panic!("{e}"));
    let how = How { strategy: Some("fast".to_string()), ..How::default() };
    let schedule = lathe::schedule(&p, kernel, &how, &Machine::host()).unwrap_or_else(|e| panic!("{e}"));
    let v = &schedule.versions[0];
    let count = |rule: &str| v.steps.iter().filter(|s| s.rule == rule).count();
    // The transposed matrix is put in place of its name, and read as rows and as elements.
    assert_eq!((count("letPartialEval"), count("buildGet")), (1, 2));
    let tree = lathe::ir::text::print_function(&v.func);
    assert!(!tree.contains("alloc") && tree.contains("out[i, j]! = m[i, j]!"), "{tree}");
    let n = v.rewriting.expect("steps on terms");
    assert!(n >= v.steps.len() as u64 - 1, "{n}");
    let text = lathe::explain(&schedule, false);
    assert!(text.contains(&format!("{n} steps on terms")), "{text}");
    let json = lathe::explain_json("twice", "", &schedule);
    assert_eq!(json["versions"][0]["rewriting_steps"], n);
}
