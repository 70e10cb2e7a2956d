//! Decisions that are chosen without measuring: valid, quick, and what they become computes the same.

use crate::meaning::{inputs, reference};
use crate::support::{ROWS, Row, example, fixed, model, no_facts, sizes};
use lathe_ir::interp::{self, Options, Order};
use lathe_ir::{Function, Module};
use lathe_mdh::auto::auto;
use lathe_mdh::choose::Setting;
use lathe_mdh::semantics::alone;
use lathe_mdh::{Homomorphism, check, choose};
use lathe_strategy::{Context, Definitions, Strategy};
use lathe_target::Machine;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

fn machine(name: &str) -> Machine {
    Machine { threads: 3, ..Machine::named(name).unwrap() }
}

fn transform(module: &Module, func: &Function, s: &Strategy, about: &str) -> Function {
    let (definitions, facts) = (Definitions::default(), |_: &str| None);
    match lathe_transform::run(module, func, &Context::new(&definitions, None, &facts), s) {
        Ok((f, _)) => f,
        Err(r) => panic!("{about}: `{}` is refused: {}\n{s}", r.rule, r.diagnostic),
    }
}

/// Sizes as in the table, and many times as large: tiles, copies and threads then occur.
fn large(row: &Row) -> BTreeMap<String, i64> {
    let most = if row.sizes[0].len() > 5 { 24 } else { 300 };
    sizes(row.sizes[0]).into_iter().map(|(n, v)| (n, (v * 40).min(most))).collect()
}

fn compare(row: &Row, new: &Function, at: &BTreeMap<String, i64>, about: &str) {
    let (module, func) = example(row.file, row.kernel);
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let Ok(shaped) = h.at(at) else { return };
    // Windows larger than the image have no result.
    if interp::outputs(new, &shaped.sizes).is_err() {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let given = inputs(&shaped, &mut rng);
    let want = reference(&module, &func, &shaped, &given);
    for order in [Order::Reference, Order::Seed(1)] {
        let mut args: Vec<_> = h.inputs.iter().map(|o| given.arrays[&o.buffer.id].clone()).collect();
        args.extend(interp::outputs(new, &shaped.sizes).unwrap());
        let options = Options { order, races: true, ..Options::default() };
        interp::run(&module, new, &mut args, &options)
            .unwrap_or_else(|e| panic!("{about} {at:?}: {e:?}\n{}", lathe_ir::text::print_function(new)));
        for (got, want) in args[h.inputs.len()..].iter().zip(&want) {
            assert_eq!(got.bytes(), want.bytes(), "{about} {at:?}\n{}", lathe_ir::text::print_function(new));
        }
    }
}

#[test]
fn chosen_decisions_are_valid() {
    for row in &ROWS {
        let h = crate::support::homomorphism(row.file, row.kernel);
        for at in [sizes(row.sizes[0]), sizes(row.sizes[1]), large(row)] {
            let shaped = h.at(&at).unwrap();
            for (name, threads, exact) in
                [("x86-64", 1, true), ("x86-64-v4", 3, true), ("x86-64-v3", 3, false)]
            {
                for on in ["cpu", "openmp", "openmp_l3_simd"] {
                    let (m, cpu) = (machine(name), model(on));
                    let d = choose(&shaped, &cpu, &Setting { machine: &m, threads, exact }).unwrap();
                    let found = check(&shaped, &cpu, &d, &no_facts);
                    assert!(found.is_empty() && d.open() == 0, "{} {at:?} {on}: {found:?}", row.name);
                }
            }
        }
    }
}

/// For sizes that are constants, at these sizes.
#[test]
fn chosen_strategies_for_constant_sizes_compute_the_same() {
    for row in &ROWS {
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let func = alone(&func, &h);
        for at in row.sizes.map(sizes) {
            let shaped = h.at(&at).unwrap();
            let func = fixed(&func, &shaped);
            let m = machine("x86-64");
            let s = Setting { machine: &m, threads: 3, exact: true };
            let auto = auto(&module, &func, &at, &s).unwrap();
            let about = format!("{} exact", row.name);
            let new = transform(&module, &func, &auto.strategy, &about);
            compare(row, &new, &at, &format!("{about}\n{}", auto.strategy));
        }
    }
}

/// Products of few rows, and with columns that are no multiple of the lanes: tiles in registers have partial ones with
/// code of their own, and sums are blocked.
#[test]
fn chosen_strategies_for_odd_matrices_compute_the_same() {
    let named = |name: &str| ROWS.iter().find(|r| r.name == name).unwrap();
    type Case<'a> = (&'a str, &'a [&'a str], &'a [[i64; 4]]);
    let cases: [Case; 4] = [
        (
            "MatMul",
            &["I", "J", "K"],
            &[[1, 530, 210, 0], [2, 261, 200, 0], [3, 37, 11, 0], [10, 100, 20, 0], [9, 260, 207, 0]],
        ),
        ("MatMulT", &["I", "J", "K"], &[[10, 25, 12, 0], [3, 21, 40, 0], [17, 33, 8, 0]]),
        ("MatVec", &["I", "K"], &[[37, 100, 0, 0], [16, 16, 0, 0], [1, 999, 0, 0], [500, 3, 0, 0]]),
        ("bMatMul", &["B", "I", "J", "K"], &[[2, 10, 50, 20], [3, 1, 37, 5], [1, 3, 100, 9]]),
    ];
    for (name, names, all) in cases {
        let row = named(name);
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let func = alone(&func, &h);
        for at in all {
            let at: BTreeMap<String, i64> = names.iter().map(|n| n.to_string()).zip(*at).collect();
            let shaped = h.at(&at).unwrap();
            let func = fixed(&func, &shaped);
            for (machine_name, threads) in
                [("x86-64", 1), ("x86-64-v3", 2), ("x86-64-v4", 1), ("x86-64-v4", 2)]
            {
                let m = machine(machine_name);
                let auto = auto(&module, &func, &at, &Setting { machine: &m, threads, exact: true }).unwrap();
                let about = format!("{name} on {machine_name}");
                let new = transform(&module, &func, &auto.strategy, &about);
                compare(row, &new, &at, &format!("{about}\n{}", auto.strategy));
            }
        }
    }
}

/// Chosen for large sizes, and called with small, empty and odd ones.
#[test]
fn chosen_strategies_for_any_sizes_compute_the_same() {
    for row in &ROWS {
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let func = alone(&func, &h);
        for (name, threads) in [("x86-64", 3), ("x86-64-v3", 1)] {
            let m = machine(name);
            let s = Setting { machine: &m, threads, exact: false };
            let auto = auto(&module, &func, &large(row), &s).unwrap();
            let about = format!("{} any on {name}", row.name);
            let new = transform(&module, &func, &auto.strategy, &about);
            let about = format!("{about}\n{}", auto.strategy);
            let one = |v: i64| sizes(row.sizes[0]).into_keys().map(|n| (n, v)).collect::<BTreeMap<_, _>>();
            let odd = sizes(row.sizes[1]).into_iter().map(|(n, v)| (n, (v + 13).min(17)));
            let mut all = vec![sizes(row.sizes[0]), sizes(row.sizes[1]), one(1), one(3)];
            if row.sizes[0].len() < 5 {
                all.extend([odd.collect(), one(0)]);
            }
            for at in all {
                compare(row, &new, &at, &about);
            }
        }
    }
}

const SOFTMAX: &str = "
kernel softmax(x: f32[M, N]) -> (y: f32[M, N]) {
    var top: f32[M]
    var total: f32[M]
    top[i] = max[j](x[i, j])
    y[i, j] = x[i, j] - top[i]
    total[i] = sum[j](y[i, j])
    y[i, j] = y[i, j] * total[i]
}
";

/// Neighbours over the same rows become one loop, that threads take.
/// A table per block, whether the statement is index notation or a loop.
#[test]
fn histograms_get_a_table_per_block() {
    let m = machine("x86-64");
    let at = sizes(&[("N", 140_001), ("B", 7)]);
    let s = Setting { machine: &m, threads: 3, exact: false };
    for count in ["h[x[e]] += 1", "for e in 0..N { h[x[e]] += 1 }"] {
        let text = format!("kernel histogram(x: i32[N]) -> (h: i32[B]) {{ h[b] = 0\n{count} }}");
        let module = crate::support::module(&text);
        let func = &module.functions["histogram"];
        let auto = auto(&module, func, &at, &s).unwrap();
        assert!(auto.computes.iter().all(|c| c.1.is_ok()), "{:?}", auto.computes);
        let new = transform(&module, func, &auto.strategy, "histogram");
        let tree = lathe_ir::text::print_function(&new);
        assert!(tree.contains("cpu"), "{}\n{tree}", auto.strategy);
        let numbers = |v: &[i64]| {
            let mut a = interp::ArrayValue::zeros(lathe_ir::Type::Scalar(lathe_ir::Scalar::I32), &[v.len()]);
            v.iter().enumerate().for_each(|(p, v)| a.set_leaf(p, 0, *v as i32 as u32 as u64));
            a
        };
        for n in [0, 1, 40_001] {
            let values: Vec<i64> = (0..n).map(|e| e * e % 7).collect();
            let mut want = [0; 7];
            values.iter().for_each(|v| want[*v as usize] += 1);
            let mut args = vec![numbers(&values), numbers(&[0; 7])];
            let options = Options { races: true, order: Order::Seed(n as u64), ..Options::default() };
            interp::run(&module, &new, &mut args, &options).unwrap_or_else(|e| panic!("{e:?}\n{tree}"));
            assert_eq!(args[1].bytes(), numbers(&want).bytes(), "{n}\n{tree}");
        }
    }
}

#[test]
fn chains_are_fused_row_by_row() {
    let module = crate::support::module(SOFTMAX);
    let func = &module.functions["softmax"];
    for name in ["x86-64", "x86-64-v3"] {
        let m = machine(name);
        let at = sizes(&[("M", 96), ("N", 40)]);
        let auto = auto(&module, func, &at, &Setting { machine: &m, threads: 3, exact: false }).unwrap();
        assert!(auto.computes.iter().all(|c| c.1.is_ok()), "{:?}", auto.computes);
        assert_eq!(auto.chains.len(), 1);
        let new = transform(&module, func, &auto.strategy, "softmax");
        let mut threads = 0;
        lathe_ir::visit::walk(&new.body, &mut |s, _| {
            threads += usize::from(s.as_loop().is_some_and(|l| l.exec == lathe_ir::Executor::Cpu));
            true
        });
        let tree = lathe_ir::text::print_function(&new);
        assert_eq!(threads, 1, "{}\n{tree}", auto.strategy);
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for (rows, columns) in [(96, 40), (7, 3), (1, 1), (0, 4)] {
            let sizes =
                func.sizes.iter().map(|s| (s.id, if &*s.name == "M" { rows } else { columns })).collect();
            let mut x = interp::ArrayValue::zeros(
                lathe_ir::Type::Scalar(lathe_ir::Scalar::F32),
                &[rows as usize, columns as usize],
            );
            for p in 0..x.len() {
                let v = rand::Rng::gen_range(&mut rng, -4..5);
                x.set_leaf(
                    p,
                    0,
                    lathe_ir::scalar::ScalarValue::float(lathe_ir::Scalar::F32, f64::from(v)).bits,
                );
            }
            let run = |f: &Function| {
                let mut args = vec![x.clone()];
                args.extend(interp::outputs(f, &sizes).unwrap());
                interp::run(&module, f, &mut args, &Options { races: true, ..Options::default() })
                    .unwrap_or_else(|e| panic!("{e:?}\n{tree}"));
                args.pop().unwrap()
            };
            assert_eq!(run(func).bytes(), run(&new).bytes(), "{rows} x {columns}\n{tree}");
        }
    }
}
