//! Derivatives whose loops run in threads: every way of adding up gives what the loops give in order, in any order of
//! iterations, without a race; what is to be deterministic has the same bits in all of them.

use crate::common::{NoFiles, Rng};
use lathe_analysis::{Assumptions, prove_accesses};
use lathe_diagnostics::SourceMap;
use lathe_filetest::Inputs;
use lathe_grad::parallel::{How, in_threads};
use lathe_grad::{Accumulation, Mode, Request, codes, differentiate};
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::text::print_function;
use lathe_ir::{Executor, Function, Module, Scalar, Stmt};
use std::collections::HashMap;

/// Index notation that maps; a sum of all; a gather, whose adjoint scatters; loops that carry a value, in a loop.
const KERNELS: &str = "
kernel map(x: f64[N]) -> (y: f64[N]) { y[i] = exp(x[i]) * x[i] }
kernel scaled(x: f64[N], c: f64[1]) -> (y: f64[N]) { for i in 0..N { y[i] = sin(c[0] * x[i]) } }
kernel gather(X: i32[N], w: f64[3]) -> (e: f64) {
    e = 0.0
    for i in 0..N { e += w[X[i]] * w[X[i]] }
}
kernel carried(a: f64[N], x: f64[M]) -> (y: f64[M]) {
    for j in 0..M {
        var s: f64
        s = 0.5
        for i in 0..N { s = s + sin(a[i] * x[j] * s) }
        y[j] = s
    }
}
kernel heat(u: inout f64[N], k: f64[N], T: i32) {
    var v: f64[N]
    for t in 0..T {
        for x in 1..N - 1 { v[x] = u[x] + k[x] * (u[x - 1] - 2 * u[x] + u[x + 1]) * u[x] }
        for x in 1..N - 1 { u[x] = v[x] }
    }
}";

fn derivative(name: &str) -> (Module, Function) {
    let mut map = SourceMap::new();
    let (p, _) =
        lathe_lang::load(&mut map, "k.lathe", KERNELS, &mut NoFiles).unwrap_or_else(|e| panic!("{}", e[0]));
    let f = p.module.functions[name].clone();
    let d = differentiate(&p.module, &f, &Request::new(Mode::Reverse, "d")).expect("a derivative");
    let (proved, wrong) = prove_accesses(&p.module, &d.func, Assumptions::Checked);
    assert!(wrong.is_empty(), "{}", wrong[0]);
    (p.module, proved)
}

/// All results, for an order of iterations.
fn run(m: &Module, f: &Function, at: &Inputs, order: Order) -> Vec<f64> {
    let sizes = at.sizes(f).expect("sizes");
    let mut outs = interp::outputs(f, &sizes).expect("shapes").into_iter();
    let given = at.arguments(f).expect("arguments");
    let mut args: Vec<ArrayValue> = f
        .params
        .iter()
        .zip(given)
        .map(|(p, a)| match p.mode {
            lathe_ir::Mode::Out => outs.next().expect("an output"),
            _ if a.ty.is_float() => {
                let mut rng = Rng(a.len() as u64 + p.name().len() as u64);
                let v: Vec<f64> = (0..a.len()).map(|_| 0.2 + rng.unit()).collect();
                ArrayValue::from_f64(Scalar::F64, &a.shape, &v)
            }
            _ => a,
        })
        .collect();
    let options = Options { order, races: true, ..Options::default() };
    interp::run(m, f, &mut args, &options)
        .unwrap_or_else(|e| panic!("{}\n{}", e.diagnostic, print_function(f)));
    let all = f.params.iter().zip(args).filter(|(p, _)| p.mode != lathe_ir::Mode::In);
    all.flat_map(|(_, a)| a.to_f64_vec()).collect()
}

fn counts(plain: usize, reduction: usize, private: usize, atomic: usize) -> Accumulation {
    Accumulation { plain, reduction, private, atomic }
}

#[test]
fn cotangents_add_up_in_threads() {
    let sizes = "N=2500 M=3 T=3; N=5 M=1 T=1; N=0 M=2 T=0";
    let inputs: Vec<Inputs> = sizes.split(';').map(|s| crate::common::given(s.trim())).collect();
    let hows = [How::Auto, How::Plain, How::Reduce, How::Private, How::Atomic];
    for (name, wanted) in [
        ("map", vec![counts(0, 0, 0, 0); 5]),
        (
            "scaled",
            vec![
                counts(0, 1, 0, 0),
                counts(0, 0, 0, 0),
                counts(0, 1, 0, 0),
                counts(0, 1, 0, 0),
                counts(0, 0, 0, 1),
            ],
        ),
        (
            "gather",
            vec![
                counts(0, 0, 1, 0),
                counts(0, 0, 0, 0),
                counts(0, 0, 0, 0),
                counts(0, 0, 1, 0),
                counts(0, 0, 0, 1),
            ],
        ),
        (
            "carried",
            vec![
                counts(1, 0, 0, 1),
                counts(0, 0, 0, 0),
                counts(0, 0, 0, 0),
                counts(1, 0, 1, 0),
                counts(1, 0, 0, 1),
            ],
        ),
        ("heat", vec![counts(0, 0, 0, 0); 5]),
    ] {
        let (m, d) = derivative(name);
        for (how, wanted) in hows.into_iter().zip(wanted) {
            for deterministic in [false, true] {
                let made = in_threads(&m, &d, how, deterministic, &HashMap::new());
                if deterministic && how == How::Atomic {
                    assert_eq!(made.expect_err("a refusal").code, codes::UNSUPPORTED);
                    continue;
                }
                let made = made.unwrap_or_else(|e| panic!("{e}"));
                if !(deterministic && name == "carried") {
                    assert_eq!(made.accumulation, wanted, "{name} {how:?}");
                }
                assert!(!deterministic || made.accumulation.atomic == 0, "{name}");
                assert!(!deterministic || !may_move(&made.func.body), "{name} {how:?}");
                for at in &inputs {
                    let usual = run(&m, &d, at, Order::Reference);
                    let first = run(&m, &made.func, at, Order::Reference);
                    for (a, b) in usual.iter().zip(&first) {
                        assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{name} {how:?}: {a} {b}");
                    }
                    for seed in 0..2 {
                        let other = run(&m, &made.func, at, Order::Seed(seed));
                        if deterministic {
                            assert_eq!(first, other, "{name} {how:?} at {seed}");
                        }
                    }
                }
            }
        }
    }
}

/// Whether something outside of threads may be added up in another order.
fn may_move(s: &Stmt) -> bool {
    let threads = s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
    !threads && (s.as_reduce().is_some_and(|r| r.licence) || s.children().any(may_move))
}

/// Copies are made of what is known to be small.
#[test]
fn small_arrays_are_copied() {
    let (m, d) = derivative("carried");
    let size = |n: i64| HashMap::from([(d.sizes[0].id, n), (d.sizes[1].id, n)]);
    let made = |n: i64| in_threads(&m, &d, How::Auto, false, &size(n)).expect("threads").accumulation;
    assert_eq!((made(1024), made(1025)), (counts(1, 0, 1, 0), counts(1, 0, 0, 1)));
}
