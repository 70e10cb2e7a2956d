//! Steps with arguments at the ends of 64 bits: each is refused with a code, or the kernel does what it did before.

use super::kernels::{Call, Cond, Index, MAX, Rng, Source, Stmt, Stop, Value};
use super::run::{Argument, Kernel};
use lathe::{Build, Engine, Pool};
use std::collections::BTreeMap;

const FACTORS: [i64; 9] = [0, 1, 2, 3, 8, 1 << 31, 1 << 62, MAX - 1, MAX];

/// `F` is a factor, `G` another one; loops are `i0` and `i1`.
const STEPS: [&str; 26] = [
    "split(i0, F)",
    "split(i0, F) ; split(i0.i, G)",
    "split(i0, F) ; reorder(i0.i, i0.o)",
    "split(i0, F) ; unroll(i0.i)",
    "split(i0, F) ; separate(i0.i)",
    "split(i0, F) ; parallel(i0.o)",
    "split(i0, F) ; pad(i0.i)",
    "split(i0, F) ; vectorize(i0.i)",
    "tile(i0: F, i1: G)",
    "shift(i0, F)",
    "shift(i0, -F)",
    "shift(i0, F) ; shift(i0, -G)",
    "shift(i0, F) ; reverse(i0)",
    "remap(u: F * i0)",
    "remap(u: i0 + F)",
    "remap(u: i0 - F) ; split(u, G)",
    "remap(u: -F * i0)",
    "remap(u: i0 + F * i1, v: i1)",
    "remap(u: i0 // F, v: i0)",
    "remap(u: F * i0 - G * i1, v: i1)",
    "unroll(i0, F)",
    "vectorize(i0, F)",
    "cut(i0, F)",
    "peel(i0, F)",
    "jam(i0, F)",
    "reverse(i0) ; split(i0, F) ; parallel(i0.o)",
];

fn name(n: &str) -> Index {
    Index::Name(n.to_string())
}

fn op(op: &'static str, a: Index, b: Index) -> Index {
    Index::Op(op, a.into(), b.into())
}

fn count(at: Index, of: Index) -> Stmt {
    Stmt::Write(at, "+=", Value::Of(of))
}

fn over(v: &str, lo: Index, hi: Index, step: i64, body: Vec<Stmt>) -> Stmt {
    Stmt::For(v.to_string(), lo, hi, step, body)
}

/// Loops over sizes, between scalars, with steps, one in another, behind a condition.
fn source(r: &mut Rng) -> Source {
    let (i, j) = (name("i0"), name("i1"));
    let (a, b, m) = (name("a"), name("b"), name("M"));
    let zero = || Index::Number(0);
    let step = *r.pick(&[1, 1, 2, 3]);
    let inner = |body| over("i1", zero(), Index::Number(3), 1, body);
    Source(vec![match r.below(8) {
        0 => over("i0", zero(), m, step, vec![count(i.clone(), i)]),
        1 => over("i0", a, b, step, vec![count(i.clone(), i)]),
        2 => over("i0", a.clone(), b, step, vec![count(op("-", i.clone(), a), i)]),
        3 => over("i0", zero(), m, 1, vec![inner(vec![count(i.clone(), op("+", i, j))])]),
        4 => over("i0", a.clone(), b, 1, vec![inner(vec![count(i.clone(), op("*", j, a))])]),
        5 => {
            let inside = Cond::Compare("<", i.clone(), m);
            over("i0", zero(), b, step, vec![Stmt::If(inside, vec![count(i.clone(), i)], Vec::new())])
        }
        6 => over("i0", a, b, step, vec![Stmt::Write(op("%", i, name("M")), "=", Value::Of(name("a")))]),
        _ => {
            let at = Index::Data(i.clone().into());
            over("i0", zero(), name("R"), 1, vec![count(op("+", at, a), i)])
        }
    }])
}

/// Bounds that lie close together, wherever they are.
fn call(r: &mut Rng) -> Call {
    let mut call = Call::random(r);
    call.b = match r.below(3) {
        0 => call.a.saturating_add(r.below(6) as i64),
        1 => r.below(6) as i64,
        _ => call.b,
    };
    call
}

#[test]
fn steps_with_any_factor_are_right_or_refused() {
    let number = |n: &str, default| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (cases, first): (u64, u64) = (number("LATHE_CASES", 1000) / 2, number("LATHE_SEED", 1));
    let pool = Pool::new(2).expect("threads");
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + cases {
        let mut r = Rng::new(seed ^ 0x57E9);
        let source = source(&mut r);
        let (f, g) = (r.pick(&FACTORS).to_string(), r.pick(&FACTORS).to_string());
        let step = r.pick(&STEPS).replace('F', &f).replace('G', &g);
        let text = format!("{source}\nstrategy s for k = {step}\n");
        let kernel = match Kernel::new(&text, "s") {
            Ok(k) => k,
            Err(e) => {
                assert!(e.contains("E06") || e.contains("E05"), "seed {seed}\n{text}\n{e}");
                *done.entry("refused".into()).or_default() += 1;
                continue;
            }
        };
        *done.entry("accepted".into()).or_default() += 1;
        let tree = &kernel.schedule.versions[0].func;
        let shown = || lathe::text::print_function(tree);
        let build = Build { engine: Engine::LLVM, opt_level: 1, ..Build::default() };
        let built = lathe::compile(&kernel.schedule, &build);
        for _ in 0..4 {
            let call = call(&mut r);
            let want = match source.run(&call) {
                Ok(all) => Some(Vec::from(all)),
                Err(Stop::Fails) => None,
                Err(Stop::Long) => continue,
            };
            let given: [Argument; 6] = [
                ("x", &call.x),
                ("p", &call.p),
                ("y", &call.y),
                ("z", &call.z),
                ("a", std::slice::from_ref(&call.a)),
                ("b", std::slice::from_ref(&call.b)),
            ];
            let arguments = kernel.arguments(&call.sizes(), &given);
            let got = kernel.interpreted(tree, &arguments);
            // What runs over nothing for very long is right, and too slow to be looked at.
            if got.as_ref().is_err_and(|e| e.starts_with("E0409")) {
                *done.entry("too long".into()).or_default() += 1;
                continue;
            }
            assert_eq!(got.clone().ok(), want, "seed {seed}, {call:?}\n{text}\n{}\n{got:?}", shown());
            // An engine may have no code for what a step made.
            if let Ok(built) = &built {
                let got = kernel.called(built, &pool, &arguments);
                assert_eq!(
                    got.clone().ok(),
                    want,
                    "llvm: seed {seed}, {call:?}\n{text}\n{}\n{got:?}",
                    shown()
                );
                *done.entry("run".into()).or_default() += 1;
            }
        }
    }
    eprintln!("{done:#?}");
    let of = |what: &str| done.get(what).copied().unwrap_or(0);
    assert!(of("accepted") > cases / 10 && of("refused") > cases / 10 && of("run") > cases / 4, "{done:?}");
}
