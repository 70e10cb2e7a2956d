//! `--check`: what it finds, and what it does not take for an error.

use lathe::check::Limits;
use lathe::{Array, Build, Data, Diagnostic, Given, How, Machine, Pool, Program, Reference, Schedule};
use std::collections::BTreeMap;

struct Case {
    program: Program,
    schedule: Schedule,
    before: Data,
}

/// A kernel scheduled by its strategy `s`, with made-up inputs.
fn case(text: &str, sizes: &[(&str, i64)]) -> Case {
    let program = Program::from_text("k.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    let kernel = program.kernel(None).unwrap_or_else(|f| panic!("{f}"));
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    let how = How { strategy: Some("s".to_string()), sizes: sizes.clone(), ..How::default() };
    let schedule =
        lathe::schedule(&program, kernel, &how, &Machine::host()).unwrap_or_else(|f| panic!("{f}"));
    let before = lathe::data::make(kernel, &Given { sizes, ..Given::default() }).expect("arrays");
    Case { program, schedule, before }
}

impl Case {
    fn run(&self, pool: &Pool) -> Data {
        let built = lathe::compile(&self.schedule, &build()).expect("code");
        let mut after = self.before.duplicate().expect("memory");
        built.call(pool, &mut after.arrays).expect("a run");
        after
    }

    fn reference(&self, pool: &Pool) -> Reference {
        Reference::new(&self.schedule, &build(), self.before.duplicate().expect("memory"), pool)
            .expect("a reference")
    }

    fn at(&self, name: &str) -> usize {
        let func = self.program.kernel(None).expect("a kernel");
        func.params.iter().position(|p| &**p.name() == name).expect("a parameter")
    }
}

fn build() -> Build {
    Build { opt_level: 0, ..Build::default() }
}

const GEMM: &str =
    "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }\n";
const SUMS: &str = "strategy s for gemm = split(k, 4) ; factor(C, k.i) ; vectorize(k.i, 4)\n";

fn set(a: &mut Array, at: &[i64], v: f32) {
    assert!(a.set(at, v));
}

/// One huge element hides nothing: every other one is held to its own bound.
#[test]
fn elements_are_compared_one_by_one() {
    let pool = Pool::new(1).expect("threads");
    let mut c = case(&format!("{GEMM}{SUMS}"), &[("M", 5), ("N", 6), ("K", 37)]);
    set(&mut c.before.arrays[0], &[2, 3], 1e30);
    let after = c.run(&pool);
    let reference = c.reference(&pool);
    let good = reference.compare(&c.schedule, &after).expect("a comparison");
    assert!(good.report.ok && !good.report.same_bits, "{good:?}");
    assert_eq!(
        (good.report.against.as_str(), good.report.sampled, good.report.elements),
        ("interpreter", None, 30)
    );
    let old: f32 = after.arrays[2].get(&[4, 5]).expect("an element");
    for (off, ok) in [(1e-7, true), (1e-4, false), (1.0, false), (f32::NAN, false), (f32::INFINITY, false)] {
        let mut wrong = after.duplicate().expect("memory");
        set(&mut wrong.arrays[2], &[4, 5], old + off);
        let checked = reference.compare(&c.schedule, &wrong).expect("a comparison");
        assert_eq!(checked.report.ok, ok, "{off}: {checked:?}");
        if !ok {
            assert!(checked.first.as_ref().is_some_and(|f| f.starts_with("C[4, 5]: got")), "{checked:?}");
        }
    }
}

/// Where nothing is reassociated, the last bit counts, and the sign of zero.
#[test]
fn the_same_bits_where_nothing_is_reassociated() {
    let pool = Pool::new(1).expect("threads");
    let c =
        case(&format!("{GEMM}strategy s for gemm = tile(i: 4, j: 4)\n"), &[("M", 5), ("N", 6), ("K", 37)]);
    let after = c.run(&pool);
    let reference = c.reference(&pool);
    let report = reference.compare(&c.schedule, &after).expect("a comparison").report;
    assert!(report.ok && report.same_bits && report.of_bound.is_none());
    let mut wrong = after.duplicate().expect("memory");
    let old: f32 = after.arrays[2].get(&[0, 0]).expect("an element");
    set(&mut wrong.arrays[2], &[0, 0], f32::from_bits(old.to_bits() ^ 1));
    assert!(!reference.compare(&c.schedule, &wrong).expect("a comparison").report.ok);
    let c = case(
        "kernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] * 0.0 }\nstrategy s for k = vectorize(i, 4)",
        &[("N", 9)],
    );
    let mut after = c.run(&pool);
    let reference = c.reference(&pool);
    assert!(reference.compare(&c.schedule, &after).expect("a comparison").report.ok);
    let zero: f32 = after.arrays[1].get(&[3]).expect("an element");
    set(&mut after.arrays[1], &[3], -zero);
    assert!(!reference.compare(&c.schedule, &after).expect("a comparison").report.ok);
}

/// In one kernel, what no step touched is compared bit for bit, and what follows from a sum by what it makes of it.
#[test]
fn only_what_was_reassociated_may_differ() {
    let pool = Pool::new(1).expect("threads");
    let text = "kernel k(x: f32[N], c: f32) -> (s: f32, e: f32, y: f32[N], n: i32) {\n\
                s = sum[i](x[i])\n e = exp(s)\n y[i] = exp(x[i]) * 3\n n = i32(floor(1000 * c)) }\n\
                strategy s for k = split(s.i, 4) ; factor(s, s.i.i) ; vectorize(s.i.i, 4)";
    let c = case(text, &[("N", 100)]);
    let after = c.run(&pool);
    let reference = c.reference(&pool);
    let report = reference.compare(&c.schedule, &after).expect("a comparison").report;
    assert!(report.ok && report.undecided == 0, "{report:?}");
    for (name, at, ulps, ok) in
        [("s", &[][..], 2, true), ("e", &[], 2, true), ("y", &[7], 1, false), ("s", &[], 4000, false)]
    {
        let mut other = after.duplicate().expect("memory");
        let a = &mut other.arrays[c.at(name)];
        let old: f32 = a.get(at).expect("an element");
        set(a, at, f32::from_bits(old.to_bits() + ulps));
        let checked = reference.compare(&c.schedule, &other).expect("a comparison");
        assert_eq!(checked.report.ok, ok, "{name} {ulps}: {checked:?}");
    }
    let mut other = after.duplicate().expect("memory");
    let n: i32 = other.arrays[c.at("n")].get(&[]).expect("an element");
    assert!(other.arrays[c.at("n")].set(&[], n + 1));
    assert!(!reference.compare(&c.schedule, &other).expect("a comparison").report.ok);
}

/// Every component of a struct, not only the first.
#[test]
fn all_components_are_compared() {
    let pool = Pool::new(1).expect("threads");
    let text = "struct P { v: f32, i: i64 }\nkernel k(x: f32[N]) -> (p: P[N]) { p[j] = P(v: x[j], i: 7) }\nstrategy s for k = id";
    let c = case(text, &[("N", 4)]);
    let mut after = c.run(&pool);
    let reference = c.reference(&pool);
    assert!(reference.compare(&c.schedule, &after).expect("a comparison").report.ok);
    after.arrays[1].bytes_mut()[3 * 16 + 8] = 8;
    let checked = reference.compare(&c.schedule, &after).expect("a comparison");
    assert!(!checked.report.ok && checked.first.is_some_and(|f| f.starts_with("p[3]: got 8, expected 7")));
}

/// Where rounding decides which way a program goes, nothing is claimed.
#[test]
fn what_rounding_decides_is_counted() {
    let pool = Pool::new(1).expect("threads");
    let text = "kernel k(x: f32[N], y: f32[N]) -> (s: f32, b: i32[N]) {\n s = sum[i](x[i])\n b[i] = select(s < 1.0, 1, 2) }\n\
                strategy s for k = split(s.i, 4) ; factor(s, s.i.i)";
    let mut c = case(text, &[("N", 10)]);
    let all: Vec<f32> = (0..10).map(|_| 0.1).collect();
    c.before.arrays[0] = Array::from_slice(&[10], &all).expect("an array");
    let mut after = c.run(&pool);
    let reference = c.reference(&pool);
    for v in [1, 2] {
        (0..10).for_each(|i| assert!(after.arrays[c.at("b")].set(&[i], v)));
        let report = reference.compare(&c.schedule, &after).expect("a comparison").report;
        assert!(report.ok, "{report:?}");
    }
    // Far from it, the comparison decides.
    let all: Vec<f32> = (0..10).map(|_| 0.2).collect();
    c.before.arrays[0] = Array::from_slice(&[10], &all).expect("an array");
    let mut after = c.run(&pool);
    let reference = c.reference(&pool);
    assert!(reference.compare(&c.schedule, &after).expect("a comparison").report.ok);
    assert!(after.arrays[c.at("b")].set(&[3], 1i32));
    assert!(!reference.compare(&c.schedule, &after).expect("a comparison").report.ok);
}

/// What is too much for the interpreter is compared with unoptimized code, and at samples; what is too much for that at
/// samples only, or not at all.
#[test]
fn large_calls_are_sampled() {
    let pool = Pool::new(1).expect("threads");
    let small = Limits { whole: 1e4, ..Default::default() };
    let tiny = Limits { whole: 1e4, code: 1e5, refused: 1e5, ..Default::default() };
    fn of(c: &Case, limits: Limits, pool: &Pool) -> Result<Reference, Diagnostic> {
        Reference::within(&c.schedule, &build(), c.before.duplicate().expect("memory"), pool, limits)
    }
    let c = case(&format!("{GEMM}{SUMS}"), &[("M", 50), ("N", 60), ("K", 70)]);
    let after = c.run(&pool);
    for (limits, against) in
        [(small, "unoptimized code, samples with the interpreter"), (tiny, "interpreter on samples")]
    {
        let reference = of(&c, limits, &pool).expect("a reference");
        let report = reference.compare(&c.schedule, &after).expect("a comparison").report;
        assert!(
            report.ok && report.against == against && report.of_bound.is_some_and(|s| s < 1.0),
            "{report:?}"
        );
        assert!(report.sampled.is_some_and(|n| n > 500 && n < 3000), "{report:?}");
        // The corners are always among the samples; elsewhere an element may be missed where there are only samples.
        for (at, off) in [([0, 0], 1e-3), ([49, 59], 1e-3), ([25, 30], 1.0)] {
            let mut wrong = after.duplicate().expect("memory");
            let old: f32 = after.arrays[2].get(&at).expect("an element");
            set(&mut wrong.arrays[2], &at, old + off);
            let found = !reference.compare(&c.schedule, &wrong).expect("a comparison").report.ok;
            assert!(found || (off == 1.0 && against == "interpreter on samples"), "{at:?}");
        }
    }
    // A part of the cost checks a part of the results.
    let few = of(&c, small.part(1e-3), &pool).expect("a reference");
    let report = few.compare(&c.schedule, &after).expect("a comparison").report;
    assert!(report.ok && report.sampled.is_some_and(|n| n > 0 && n < 500), "{report:?}");
    // What is not written is not taken for an old result.
    let mut spoilt = after.duplicate().expect("memory");
    spoilt.spoil(&c.schedule.plain);
    assert!(
        !of(&c, tiny, &pool).and_then(|r| r.compare(&c.schedule, &spoilt)).expect("a comparison").report.ok
    );
    // Loops that need one another.
    let text = "kernel k(u: inout f32[N]) { for t in 0..100 { for x in 1..N - 1 { u[x] = u[x] + u[x - 1] } } }\nstrategy s for k = id";
    let c = case(text, &[("N", 500)]);
    let after = c.run(&pool);
    let report =
        of(&c, small, &pool).and_then(|r| r.compare(&c.schedule, &after)).expect("a comparison").report;
    assert!(report.ok && report.against == "unoptimized code" && report.sampled.is_none(), "{report:?}");
    let Err(d) = of(&c, tiny, &pool) else { panic!("it cannot be sampled") };
    assert_eq!(d.code, lathe::codes::TOO_LARGE);
    // Loops that are statements in index notation, and funs.
    for text in [
        "kernel k(A: f32[M, K]) -> (s: f32[M]) { for i in 0..M { s[i] = 0\n for k in 0..K { s[i] += A[i, k] } } }\nstrategy s for k = id",
        "fun k(A: f32[M, K]) -> f32[M] = A |> map(reduce(add, 0))\nstrategy s for k = lowerToC",
    ] {
        let c = case(text, &[("M", 500), ("K", 300)]);
        let after = c.run(&pool);
        let report =
            of(&c, tiny, &pool).and_then(|r| r.compare(&c.schedule, &after)).expect("a comparison").report;
        assert!(report.ok && report.against == "interpreter on samples", "{report:?}");
    }
    // What data decide is tried.
    let text = "kernel k(n: i64[N]) -> (s: i64[N]) { for i in 0..N { s[i] = 0\n while s[i] < n[i] { s[i] = s[i] + 1 } } }\nstrategy s for k = id";
    let mut c = case(text, &[("N", 3)]);
    for (n, against) in [(10i64, "interpreter"), (1_000_000, "unoptimized code")] {
        c.before.arrays[0] = Array::from_slice(&[3], &[n, 0, n]).expect("an array");
        let after = c.run(&pool);
        let report =
            of(&c, small, &pool).and_then(|r| r.compare(&c.schedule, &after)).expect("a comparison").report;
        assert!(report.ok && report.against == against, "{report:?}");
    }
}
