//! Decisions that are chosen without measuring: valid, quick, and what they become computes the same.

use crate::meaning::{inputs, reference};
use crate::support::{ROWS, Row, example, fixed, model, no_facts, sizes};
use lathe_ir::interp::{self, Options, Order};
use lathe_ir::{Combine, Function, Module};
use lathe_mdh::auto::auto;
use lathe_mdh::choose::Setting;
use lathe_mdh::semantics::alone;
use lathe_mdh::{Decisions, Homomorphism, check, choose, lower, text};
use lathe_strategy::{Context, Definitions, Strategy};
use lathe_target::{Costs, Machine};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

pub fn machine(name: &str) -> Machine {
    Machine { threads: 3, ..Machine::named(name).unwrap() }
}

pub fn transform(module: &Module, func: &Function, s: &Strategy, about: &str) -> Function {
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
    compare_with(&module, &func, new, at, about);
}

pub fn compare_with(
    module: &Module,
    func: &Function,
    new: &Function,
    at: &BTreeMap<String, i64>,
    about: &str,
) {
    let h = Homomorphism::of(module, func, None).unwrap();
    let Ok(shaped) = h.at(at) else { return };
    // Windows larger than the image have no result.
    if interp::outputs(new, &shaped.sizes).is_err() {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let given = inputs(&shaped, &mut rng);
    let want = reference(module, func, &shaped, &given);
    for order in [Order::Reference, Order::Seed(1)] {
        let mut args: Vec<_> = h.inputs.iter().map(|o| given.arrays[&o.buffer.id].clone()).collect();
        args.extend(interp::outputs(new, &shaped.sizes).unwrap());
        let options = Options { order, races: true, ..Options::default() };
        interp::run(module, new, &mut args, &options)
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
                    let d = choose(&shaped, &cpu, &Setting { machine: &m, threads, exact });
                    let found = check(&shaped, &cpu, &d, &no_facts);
                    assert!(found.is_empty() && d.open() == 0, "{} {at:?} {on}: {found:?}", row.name);
                }
            }
        }
    }
}

/// Blocks of threads: decisions are valid at all sizes, use the cores where there is enough to do, and compute the same.
#[test]
fn chosen_decisions_for_devices_compute_the_same() {
    let m = machine("x86-64");
    let s = Setting { machine: &m, threads: 1, exact: true };
    for row in &ROWS {
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let func = alone(&func, &h);
        for on in ["cuda", "cuda_wrp", "opencl", "multi_gpu", "multi_node"] {
            let on = model(on);
            let big = h.at(&large(row)).unwrap();
            let d = choose(&big, &on, &s);
            let found = check(&big, &on, &d, &no_facts);
            assert!(found.is_empty() && d.open() == 0, "{} {}: {found:?}", row.name, on.name);
            let scans = h.dims.iter().all(|d| matches!(d.combine, Combine::Scan(_)));
            assert!(scans || d != Decisions::plain(&big, &on), "{} {}", row.name, on.name);
            for at in row.sizes.map(sizes) {
                let shaped = h.at(&at).unwrap();
                let d = choose(&shaped, &on, &s);
                let about = format!("{} {}\n{}", row.name, on.name, text::print(&h, &on, &d));
                for exact in [true, false] {
                    let func = if exact { fixed(&func, &shaped) } else { func.clone() };
                    let options = lower::Options { exact, machine: m.clone(), ..lower::Options::exact() };
                    let steps = lower::strategy(&shaped, &on, &d, &options)
                        .unwrap_or_else(|e| panic!("{about}: {}", e.message));
                    let new = transform(&module, &func, &steps, &about);
                    compare(row, &new, &at, &format!("{about}\n{steps}"));
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

/// Products of few rows, and with columns that are not a multiple of the lanes: tiles in registers have partial ones with
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

/// The parts of each dimension for exact sizes, layer by layer, and which layer is that of registers.
fn parts(name: &str, names: &[&str], values: &[i64], m: &Machine) -> (Vec<Vec<Option<u64>>>, usize) {
    let row = ROWS.iter().find(|r| r.name == name).unwrap();
    let h = crate::support::homomorphism(row.file, row.kernel);
    let at = names.iter().map(|n| n.to_string()).zip(values.iter().copied()).collect();
    let cpu = model("cpu");
    let d = choose(&h.at(&at).unwrap(), &cpu, &Setting { machine: m, threads: 1, exact: true });
    let registers = cpu.memories.iter().position(|m| m.space.as_deref() == Some("register")).unwrap();
    // Threads are the first layer, memories follow.
    (d.parts.clone(), registers + 1)
}

fn in_registers(name: &str, names: &[&str], values: &[i64], m: &Machine) -> Vec<Option<u64>> {
    let (all, registers) = parts(name, names, values, m);
    all[registers].clone()
}

/// Planes of a stencil that the first cache does not keep: rows of several at once share their neighbours. Where it
/// keeps all, and along rows, there is nothing to gain.
#[test]
fn rows_of_a_stencil_share_what_the_first_cache_would_read_again() {
    let m = machine("x86-64-v4");
    let names = ["N", "M", "L"];
    assert_eq!(in_registers("Jacobi3D", &names, &[258; 3], &m)[..2], [Some(4), Some(1)]);
    assert_eq!(in_registers("Jacobi3D", &names, &[10; 3], &m)[..2], [Some(1), Some(1)]);
}

/// Lines of different rows are asked for together, where a matrix that is read once is read where it is, and of no more rows
/// than a processor fetches ahead.
#[test]
fn sums_over_rows_far_apart_read_some_at_once() {
    let m = machine("x86-64-v4");
    let names = ["I", "J", "K"];
    assert_eq!(in_registers("MatMul", &names, &[16, 4096, 25088], &m)[2], Some(4));
    // As many as processors follow where many results read them.
    for (isa, rows, at_once) in
        [("x86-64-v4", 16, 32), ("x86-64-v3", 16, 32), ("x86-64-v4", 8, 16), ("x86-64-v3", 12, 16)]
    {
        let (all, _) = parts("MatMul", &names, &[rows, 4096, 25088], &machine(isa));
        let sum: Vec<u64> = all.iter().filter_map(|p| p[2]).filter(|n| *n > 1).collect();
        assert_eq!(sum[1..].iter().product::<u64>(), at_once, "{isa}: {sum:?}");
    }
    assert_eq!(in_registers("MatMul", &names, &[1024, 1024, 1024], &m)[2], Some(1));
}

/// A small first cache, so that small arrays are read as large ones.
#[test]
fn rows_in_registers_compute_the_same() {
    let m = Machine { l1_bytes: 2048, l2_bytes: 1 << 16, ..machine("x86-64-v4") };
    let cases: [(&str, &[&str], &[i64]); 3] = [
        ("Jacobi3D", &["N", "M", "L"], &[31, 5, 45]),
        ("Jacobi3D", &["N", "M", "L"], &[14, 9, 43]),
        ("MatMul", &["I", "J", "K"], &[10, 260, 207]),
    ];
    for (name, names, values) in cases {
        let row = ROWS.iter().find(|r| r.name == name).unwrap();
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let func = alone(&func, &h);
        let at: BTreeMap<String, i64> =
            names.iter().map(|n| n.to_string()).zip(values.iter().copied()).collect();
        let side = in_registers(name, names, values, &m)[if name == "MatMul" { 2 } else { 0 }];
        assert_ne!(side, Some(1), "{name} {values:?}");
        for exact in [true, false] {
            let func = if exact { fixed(&func, &h.at(&at).unwrap()) } else { func.clone() };
            let auto = auto(&module, &func, &at, &Setting { machine: &m, threads: 2, exact }).unwrap();
            let new = transform(&module, &func, &auto.strategy, name);
            compare(row, &new, &at, &format!("{name} exact {exact}\n{}", auto.strategy));
        }
    }
}

/// Large results bypass the caches where a tile is whole lines; with 8 lanes, so it is chosen. A line of an odd extent is
/// never whole.
#[test]
fn parts_of_lines_do_not_bypass_the_caches() {
    let row = ROWS.iter().find(|r| r.kernel == "abcdef_gdab_efgc").unwrap();
    let (module, func) = example(row.file, row.kernel);
    for (name, last, bypass) in [("x86-64-v4", 16, true), ("x86-64-v3", 16, true), ("x86-64-v3", 20, false)] {
        let sizes = [("NA", 24), ("NB", 16), ("NC", 16), ("ND", 24), ("NE", 16), ("NF", last), ("NG", 24)];
        let at: BTreeMap<String, i64> = sizes.map(|(n, v)| (n.to_string(), v)).into();
        let m = machine(name);
        let auto = auto(&module, &func, &at, &Setting { machine: &m, threads: 1, exact: true }).unwrap();
        assert_eq!(auto.strategy.to_string().contains("nontemporal"), bypass, "{name} {}", auto.strategy);
    }
}

/// Small matrices: of their neighbours in memory too few fill a vector, so lanes are many matrices at once, which are taken apart
/// when they leave the registers.
#[test]
fn lanes_are_many_small_matrices() {
    let row = ROWS.iter().find(|r| r.kernel.contains("capsule")).unwrap();
    let (module, func) = example(row.file, row.kernel);
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let func = alone(&func, &h);
    let names = ["N", "H", "W", "C", "K", "R", "S", "MI", "MJ", "MK"];
    let at = |values: [i64; 10]| -> BTreeMap<String, i64> {
        names.iter().map(|n| n.to_string()).zip(values).collect()
    };
    // Of n, p, q, k, mi, mj, r, s, c and mk.
    let lanes = |m: &Machine, k: i64| {
        let shaped = h.at(&at([1, 225, 225, 3, k, 3, 3, 4, 4, 4])).unwrap();
        let d = choose(&shaped, &model("cpu"), &Setting { machine: m, threads: 1, exact: true });
        d.parts.last().unwrap().iter().position(|n| n.is_some_and(|n| n > 1))
    };
    let (v3, v4) = (machine("x86-64-v3"), machine("x86-64-v4"));
    assert_eq!((lanes(&v3, 24), lanes(&v4, 32), lanes(&v4, 24)), (Some(3), Some(3), Some(5)));
    for (m, k) in [(&v3, 8), (&v3, 24), (&v4, 16)] {
        for threads in [1, 3] {
            let at = at([1, 4, 3, 2, k, 2, 1, 3, 2, 5]);
            let auto = auto(&module, &func, &at, &Setting { machine: m, threads, exact: true }).unwrap();
            let new = transform(&module, &fixed(&func, &h.at(&at).unwrap()), &auto.strategy, row.name);
            assert!(auto.strategy.to_string().contains("permute"), "{}", auto.strategy);
            compare(row, &new, &at, &auto.strategy.to_string());
        }
    }
}

/// The copy of a tile has vectors as long as the tile: longer ones, under a mask, would take it out of the registers.
#[test]
fn tiles_are_copied_by_vectors_that_fit() {
    let row = ROWS.iter().find(|r| r.kernel.contains("capsule")).unwrap();
    let (module, func) = example(row.file, row.kernel);
    let sizes = [
        ("N", 1),
        ("H", 20),
        ("W", 20),
        ("C", 3),
        ("K", 8),
        ("R", 3),
        ("S", 3),
        ("MI", 4),
        ("MJ", 4),
        ("MK", 4),
    ];
    let at: BTreeMap<String, i64> = sizes.map(|(n, v)| (n.to_string(), v)).into();
    let m = machine("x86-64-v4");
    let auto = auto(&module, &func, &at, &Setting { machine: &m, threads: 1, exact: true }).unwrap();
    let text = auto.strategy.to_string();
    assert!(text.contains(".out.5, 4)"), "{text}");
}

/// Servers with two multiply-adds of 512 bits per cycle.
fn server() -> Machine {
    Machine {
        vector_units: 2,
        l1_bytes: 48 << 10,
        l1_ways: 12,
        l2_bytes: 2 << 20,
        l3_bytes: 64 << 20,
        ..machine("x86-64-v4")
    }
}

/// A grid of blocks for threads, on a machine that is made up: all have as much to do. Each packs the columns of its own blocks, but of
/// large products many threads pack them together.
#[test]
fn products_are_shared_among_threads_in_blocks() {
    let row = ROWS.iter().find(|r| r.name == "MatMul").unwrap();
    let (module, func) = example(row.file, row.kernel);
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let func = alone(&func, &h);
    let cpu = model("cpu");
    let server = server();
    let sizes = |values: [i64; 3]| -> BTreeMap<String, i64> {
        ["I", "J", "K"].iter().map(|n| n.to_string()).zip(values).collect()
    };
    for side in [256, 333, 512, 600] {
        let shaped = h.at(&sizes([side; 3])).unwrap();
        for threads in [2, 4, 8, 12, 16, 24] {
            let d = choose(&shaped, &cpu, &Setting { machine: &server, threads, exact: true });
            let found = check(&shaped, &cpu, &d, &no_facts);
            assert!(found.is_empty() && d.open() == 0, "{side} on {threads}: {found:?}");
            let parts = |layer: usize, dim: usize| d.parts[layer][dim].unwrap();
            let blocks = parts(0, 0) * parts(0, 1);
            let rounds = blocks.div_ceil(threads);
            // Tiles that the busiest thread does, and its fair share of them.
            let inner = |dim| (1..d.layers() - 2).map(|l| parts(l, dim)).product::<u64>();
            let all: u64 = (0..2).map(|dim| parts(0, dim) * inner(dim)).product();
            let most = (rounds * inner(0) * inner(1)) as f64;
            let share = all as f64 / threads as f64;
            assert!(
                most <= 1.35 * share || side == 256,
                "{side} on {threads}: {blocks} blocks, {most} of {share}"
            );
        }
    }
    let narrow = machine("x86-64-v3");
    for (values, m, threads, exact) in [
        ([70, 81, 257], &server, 16, true),
        ([129, 64, 130], &narrow, 13, false),
        ([97, 300, 90], &narrow, 2, true),
    ] {
        let at = sizes(values);
        let func = if exact { fixed(&func, &h.at(&at).unwrap()) } else { func.clone() };
        let auto = auto(&module, &func, &at, &Setting { machine: m, threads, exact }).unwrap();
        let text = auto.strategy.to_string();
        assert!(text.contains("stage(B, at: ") && !text.contains("(A, at: "), "{values:?}: {text}");
        let new = transform(&module, &func, &auto.strategy, &text);
        compare(row, &new, &at, &format!("{values:?} exact {exact}\n{text}"));
    }
    // Threads pack their own columns as long as the second cache keeps those of a whole sum; longer sums are cut.
    for (values, threads, own) in [
        ([2048; 3], 2, true),
        ([4096; 3], 2, true),
        ([4096, 4096, 8192], 2, false),
        ([1024; 3], 16, true),
        ([2048; 3], 8, true),
        ([4096; 3], 4, true),
        ([4096; 3], 16, false),
    ] {
        let at = sizes(values);
        let func = fixed(&func, &h.at(&at).unwrap());
        let auto = auto(&module, &func, &at, &Setting { machine: &server, threads, exact: true }).unwrap();
        let text = auto.strategy.to_string();
        let whole = !text.contains("split(C.k") && !text.contains("(A, at: ");
        assert_eq!(whole && text.contains("stage(B, at: "), own, "{values:?} on {threads}: {text}");
    }
    let free = Machine { costs: Costs { wake: 0.0, wake_each: 0.0, ..Costs::default() }, ..narrow };
    for (values, m, threads) in
        [([2048; 3], &server, 16), ([4096; 3], &server, 16), ([320, 65, 90], &free, 16)]
    {
        let at = sizes(values);
        let func = fixed(&func, &h.at(&at).unwrap());
        let auto = auto(&module, &func, &at, &Setting { machine: m, threads, exact: true }).unwrap();
        let text = auto.strategy.to_string();
        assert!(
            text.contains("accumulate(B, at: ") && text.contains("parallel(copy(B)"),
            "{values:?}: {text}"
        );
        if values[1] == 65 {
            let new = transform(&module, &func, &auto.strategy, &text);
            compare(row, &new, &at, &format!("{values:?} together\n{text}"));
        }
    }
}

/// Rows that lie across pages, each index of the sum in one of its own, are packed: many threads do so before, once for all.
/// Where rows lie along the sum, or do not begin at the same places of pages, or a cache keeps their lines, they are read
/// where they lie.
#[test]
fn rows_that_lie_across_pages_are_packed() {
    let across =
        "kernel p(A: f64[K, I], B: f64[K, J]) -> (C: f64[I, J]) { C[i, j] = sum[k](A[k, i] * B[k, j]) }";
    let along =
        "kernel p(A: f64[I, K], B: f64[K, J]) -> (C: f64[I, J]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }";
    let server = server();
    let small =
        Machine { l1_bytes: 1 << 13, l1_ways: 8, l2_bytes: 1 << 17, vector_units: 2, ..machine("x86-64-v4") };
    for (text, values, m, threads, packed) in [
        (across, [1024, 1024, 1024], &server, 16, true),
        (across, [1024, 1024, 1024], &server, 2, true),
        (across, [1000, 1024, 1024], &server, 16, false),
        (across, [1024, 1024, 256], &server, 16, false),
        (along, [1024, 1024, 1024], &server, 16, false),
        (across, [512, 70, 65], &small, 3, true),
    ] {
        let module = crate::support::module(text);
        let func = module.functions.get("p").unwrap();
        let h = Homomorphism::of(&module, func, None).unwrap();
        let at: BTreeMap<String, i64> = ["I", "J", "K"].iter().map(|n| n.to_string()).zip(values).collect();
        let fixed = fixed(&alone(func, &h), &h.at(&at).unwrap());
        let auto = auto(&module, &fixed, &at, &Setting { machine: m, threads, exact: true }).unwrap();
        let steps = auto.strategy.to_string();
        let about = format!("{values:?} on {threads}: {steps}");
        assert_eq!(steps.contains("(A, at: "), packed, "{about}");
        assert!(threads != 16 || steps.contains("parallel(copy(A)") == packed, "{about}");
        if m.l2_bytes < server.l2_bytes {
            let new = transform(&module, &fixed, &auto.strategy, &about);
            compare_with(&module, func, &new, &at, &about);
        }
    }
}

/// Where no loop has an iteration for each thread, two of them have: a batch, and tiles of rows.
#[test]
fn threads_take_two_loops_where_one_is_short() {
    let text = "kernel p(x: f32[B, F, H + 2, W + 2], v: f32[F, C, 3, 3]) -> (y: f32[B, C, H, W]) {
        y[b, c, i, j] = sum[f, p, q](x[b, f, i + p, j + q] * v[f, c, 2 - p, 2 - q])
    }";
    let module = crate::support::module(text);
    let func = module.functions.get("p").unwrap();
    let h = Homomorphism::of(&module, func, None).unwrap();
    let (large, small) = ([8, 32, 32, 58, 58], [3, 8, 2, 3, 40]);
    for (values, m, threads) in [(large, &server(), 16), (small, &server(), 16), (small, &server(), 6)] {
        let at: BTreeMap<String, i64> =
            ["B", "C", "F", "H", "W"].iter().map(|n| n.to_string()).zip(values).collect();
        let fixed = fixed(&alone(func, &h), &h.at(&at).unwrap());
        let auto = auto(&module, &fixed, &at, &Setting { machine: m, threads, exact: true }).unwrap();
        let about = format!("{values:?} on {threads}: {}", auto.strategy);
        let taken = auto.strategy.to_string().matches("parallel(y.").count();
        assert!(taken > 0 || values == small, "{about}");
        if values == small {
            let new = transform(&module, &fixed, &auto.strategy, &about);
            compare_with(&module, func, &new, &at, &about);
        }
    }
}

/// The gradient of a filter: lanes sum up, and registers hold its whole window along the lanes, whose elements share the lines
/// of the image.
#[test]
fn windows_of_sums_by_lanes_are_in_registers() {
    let text = "kernel p(x: f32[B, C, H + 2, W + 2], d: f32[B, F, H, W]) -> (w: f32[F, C, 3, 3]) {
        w[f, c, p, q] = sum[b, i, j](d[b, f, i, j] * x[b, c, i + p, j + q])
    }";
    let module = crate::support::module(text);
    let func = module.functions.get("p").unwrap();
    let h = Homomorphism::of(&module, func, None).unwrap();
    let tiny = Machine { l1_bytes: 1 << 10, l2_bytes: 1 << 14, ..machine("x86-64-v4") };
    let large = [8, 32, 56, 56, 32];
    for (values, m, threads) in [
        (large, &server(), 1),
        (large, &server(), 16),
        ([2, 5, 3, 37, 6], &tiny, 1),
        ([2, 5, 3, 37, 6], &tiny, 3),
    ] {
        let at: BTreeMap<String, i64> =
            ["B", "C", "H", "W", "F"].iter().map(|n| n.to_string()).zip(values).collect();
        let fixed = fixed(&alone(func, &h), &h.at(&at).unwrap());
        let auto = auto(&module, &fixed, &at, &Setting { machine: m, threads, exact: true }).unwrap();
        let about = format!("{values:?} on {threads}: {}", auto.strategy);
        // Where threads share few filters, all of these are a tile.
        let whole = values == large || threads == 1;
        assert!(auto.strategy.to_string().contains("unroll(w.q)") == whole, "{about}");
        if m.l2_bytes == tiny.l2_bytes {
            let new = transform(&module, &fixed, &auto.strategy, &about);
            compare_with(&module, func, &new, &at, &about);
        }
    }
}

/// Tiles by what a machine starts per cycle and holds: two multiply-adds of whole vectors need few loads beside them.
#[test]
fn tiles_of_products_fit_the_machine() {
    let names = ["I", "J", "K"];
    let tile = |m: &Machine, values: [i64; 3]| -> Vec<u64> {
        in_registers("MatMul", &names, &values, m).into_iter().map(Option::unwrap).collect()
    };
    let one = machine("x86-64-v4");
    for (m, registers) in
        [(server(), 32), (one.clone(), 32), (machine("x86-64-v3"), 16), (machine("x86-64"), 16)]
    {
        for side in [64, 333, 512, 1024] {
            let t = tile(&m, [side; 3]);
            let (sums, loads) = (t[0] * t[1], t[0] + t[1]);
            assert!(t[2] == 1 && sums + t[1] < registers, "{} {side}: {t:?}", m.name);
            assert!(loads <= sums || m.vector_units == 1, "{} {side}: {t:?}", m.name);
        }
    }
    // Few rows, and an input that the last cache keeps: several vectors of each row at once; from memory, one line, and
    // some indices of the sum ahead.
    assert!(tile(&server(), [16, 1000, 2048])[1] > 1);
    assert_eq!(tile(&server(), [16, 4096, 25088])[1..], [1, 4]);
}

/// Few rows and columns that are read where they lie, by threads: each has columns of its own, which its second cache keeps,
/// and goes through the whole sum at once.
#[test]
fn few_rows_read_columns_where_they_lie() {
    let row = ROWS.iter().find(|r| r.name == "MatMul").unwrap();
    let (module, func) = example(row.file, row.kernel);
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let small = Machine { l1_bytes: 6 << 10, l1_ways: 8, ..machine("x86-64-v3") };
    for (values, m, threads, compares) in
        [([16, 1000, 2048], server(), 16, false), ([13, 300, 140], small, 3, true)]
    {
        let at: BTreeMap<String, i64> = ["I", "J", "K"].iter().map(|n| n.to_string()).zip(values).collect();
        let func = fixed(&alone(&func, &h), &h.at(&at).unwrap());
        let auto = auto(&module, &func, &at, &Setting { machine: &m, threads, exact: true }).unwrap();
        let text = auto.strategy.to_string();
        assert!(!text.contains("split(C.k, ") && text.contains("parallel(C.j"), "{values:?}: {text}");
        assert!(!text.contains("(B, at: "), "{values:?}: {text}");
        if compares {
            let new = transform(&module, &func, &auto.strategy, &text);
            compare(row, &new, &at, &text);
        }
    }
}

/// Copies only where they are read often: rows are read where they lie, small columns as well.
#[test]
fn products_pack_what_is_used_often() {
    let row = ROWS.iter().find(|r| r.name == "MatMul").unwrap();
    let (module, func) = example(row.file, row.kernel);
    let server = server();
    let text = |values: [i64; 3]| {
        let at = ["I", "J", "K"].iter().map(|n| n.to_string()).zip(values).collect();
        auto(&module, &func, &at, &Setting { machine: &server, threads: 1, exact: true })
            .unwrap()
            .strategy
            .to_string()
    };
    for (values, rows, columns) in [
        ([64, 64, 64], false, false),
        ([512, 512, 512], false, true),
        // Vectors of rows that begin at lines never cross one.
        ([256, 320, 300], false, false),
        ([256, 330, 300], false, true),
        ([2048, 2048, 2048], true, true),
        ([16, 1000, 2048], false, false),
    ] {
        let text = text(values);
        assert_eq!(
            (text.contains("(A, at: "), text.contains("(B, at: ")),
            (rows, columns),
            "{values:?}: {text}"
        );
    }
    // The loop that copies is cut where panels are.
    assert!(text([460, 520, 390]).contains("split(copy(B).1, 48)"));
    assert!(text([512, 512, 512]).contains("split(copy(B).1, "));
    // Columns that no cache keeps come again for fewer blocks of rows if the sum is cut.
    assert!(text([4096, 4096, 4096]).contains("split(C.k"));
    // So do panels of more pages than a processor knows at once, with the next results on their way; not those of fewer.
    let blocks = text([2048, 2048, 2048]);
    assert!(blocks.contains("split(C.k") && blocks.contains("prefetch(C, at: C.i.p5)"), "{blocks}");
    assert!(!text([1024, 1024, 1024]).contains("split(C.k"));
    let small = Machine { vector_units: 1, l2_bytes: 32 << 10, ..machine("x86-64-v3") };
    let at: BTreeMap<String, i64> = ["I", "J", "K"].iter().map(|n| n.to_string()).zip([64, 72, 64]).collect();
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let func = fixed(&alone(&func, &h), &h.at(&at).unwrap());
    let auto = auto(&module, &func, &at, &Setting { machine: &small, threads: 1, exact: true }).unwrap();
    let text = auto.strategy.to_string();
    assert!(text.contains("split(copy(B).1, 24)"), "{text}");
    let new = transform(&module, &func, &auto.strategy, &text);
    compare(row, &new, &at, &text);
}
