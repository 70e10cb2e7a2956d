//! Whole functions: computes that are done together, and what is not a homomorphism but has a way of its own.

use crate::choosing::{machine, transform};
use crate::support::{fixed, sizes};
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Executor, Function, Module, Scalar, Type, visit};
use lathe_mdh::Homomorphism;
use lathe_mdh::auto::{auto, searched};
use lathe_mdh::choose::Setting;
use lathe_strategy::{Context, Definitions};
use lathe_target::Machine;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

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

/// Without functions that round, so that all orders of the sums give the same.
const ATTENTION: &str = "
kernel attention(Q: f32[H, T, D], K: f32[H, T, D], V: f32[H, T, D]) -> (O: f32[H, T, D]) {
    var score: f32[H, T, T]
    var top: f32[H, T]
    var e: f32[H, T, T]
    var said: f32[H, T, D]
    score[h, t, s] = sum[d](Q[h, t, d] * K[h, s, d])
    top[h, t] = max[s](score[h, t, s])
    e[h, t, s] = select(score[h, t, s] > top[h, t] - 3, 2, 1)
    said[h, t, d] = sum[s](e[h, t, s] * V[h, s, d])
    O[h, t, d] = said[h, t, d] - top[h, t]
}
";

/// Small whole numbers for all inputs; the outputs.
fn outputs(module: &Module, f: &Function, at: &BTreeMap<String, i64>) -> Vec<ArrayValue> {
    let named = f.sizes.iter().map(|s| (s.id, at[&*s.name])).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut args = Vec::new();
    for b in f.params.iter().filter(|p| p.mode == lathe_ir::Mode::In).filter_map(|p| p.array()) {
        let shape: Vec<usize> =
            b.extents.iter().map(|e| interp::evaluate(e, &named).unwrap() as usize).collect();
        let mut x = ArrayValue::zeros(Type::Scalar(Scalar::F32), &shape);
        for p in 0..x.len() {
            x.set_leaf(p, 0, ScalarValue::float(Scalar::F32, f64::from(rng.gen_range(-4..5))).bits);
        }
        args.push(x);
    }
    let given = args.len();
    args.extend(interp::outputs(f, &named).unwrap());
    let options = Options { races: true, order: Order::Seed(3), ..Options::default() };
    interp::run(module, f, &mut args, &options)
        .unwrap_or_else(|e| panic!("{e:?}\n{}", lathe_ir::text::print_function(f)));
    args.split_off(given)
}

fn same(module: &Module, old: &Function, new: &Function, at: &BTreeMap<String, i64>) {
    for (a, b) in outputs(module, old, at).iter().zip(&outputs(module, new, at)) {
        assert_eq!(a.bytes(), b.bytes(), "{at:?}\n{}", lathe_ir::text::print_function(new));
    }
}

fn threads(f: &Function) -> usize {
    let mut out = 0;
    visit::walk(&f.body, &mut |s, _| {
        out += usize::from(s.as_loop().is_some_and(|l| l.exec == Executor::Cpu));
        true
    });
    out
}

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
/// Products and what lies between them, block by block of the rows of every matrix.
#[test]
fn attention_is_done_in_blocks_of_rows() {
    let module = crate::support::module(ATTENTION);
    let func = &module.functions["attention"];
    let h = Homomorphism::of(&module, func, Some("score")).unwrap();
    for (heads, t, d) in [(64, 16, 4), (40, 13, 5), (3, 16, 16), (1, 24, 1)] {
        let at = sizes(&[("H", heads), ("T", t), ("D", d)]);
        let exact = fixed(func, &h.at(&at).unwrap());
        // Caches that hold some rows of the scores and one matrix, but not all scores.
        let l2_bytes = (86 * t + 128 * d + 44 + 11 * t * d) as u64;
        let m = Machine { l2_bytes, l1_bytes: 4096, ..machine("x86-64-v3") };
        let auto = auto(&module, &exact, &at, &Setting { machine: &m, threads: 2, exact: true }).unwrap();
        let fused: Vec<usize> = auto.chains.iter().map(|c| c.0.len()).collect();
        let new = transform(&module, &exact, &auto.strategy, "attention");
        let tree = lathe_ir::text::print_function(&new);
        if heads > 9 {
            assert_eq!(fused, [5], "{}\n{tree}", auto.strategy);
            assert_eq!(threads(&new), 1, "{}\n{tree}", auto.strategy);
            assert!(
                !tree.contains(&format!("alloc score: f32[{heads}")),
                "the intermediate array is contracted to a block\n{tree}"
            );
        }
        same(&module, &exact, &new, &at);
    }
}

/// Rows whose elements take functions are few at a time where they come from beyond the second cache, and fill it elsewhere.
#[test]
fn few_rows_of_functions_are_on_their_way_at_a_time() {
    let text = "
kernel function(x: f32[M, N]) -> (y: f32[M, N]) {
    var top: f32[M]
    top[i] = max[j](x[i, j])
    y[i, j] = exp(x[i, j] - top[i])
}
kernel difference(x: f32[M, N]) -> (y: f32[M, N]) {
    var top: f32[M]
    top[i] = max[j](x[i, j])
    y[i, j] = x[i, j] - top[i]
}
";
    let module = crate::support::module(text);
    let rows = |kernel: &str, (rows, columns): (i64, i64), l2_bytes: u64| {
        let func = &module.functions[kernel];
        let at = sizes(&[("M", rows), ("N", columns)]);
        let h = Homomorphism::of(&module, func, Some("top")).unwrap();
        let exact = fixed(func, &h.at(&at).unwrap());
        let m = Machine { l2_bytes, ..machine("x86-64-v3") };
        let auto = auto(&module, &exact, &at, &Setting { machine: &m, threads: 1, exact: true }).unwrap();
        same(&module, &exact, &transform(&module, &exact, &auto.strategy, kernel), &at);
        auto.chains.first().map(|c| c.1)
    };
    // Full blocks of about a sixteenth of the second cache.
    for (size, few) in [((240, 40), 6), ((211, 40), 6), ((256, 40), 4), ((16, 600), 1)] {
        assert_eq!(rows("function", size, 1 << 15), Some(few), "{size:?}");
        assert!(rows("function", size, 1 << 20) > Some(few), "{size:?}");
    }
    // A difference takes no longer than memory.
    assert!(rows("difference", (240, 40), 1 << 15) > Some(6));
}

/// What all rows of a block read, as a scale and a shift, is read once for all of them where the first cache would not keep it from one
/// row to the next, and the second one keeps the block.
#[test]
fn what_rows_share_is_read_once_for_a_block() {
    let text = "
kernel scaled(x: f32[M, N], g: f32[N], b: f32[N]) -> (y: f32[M, N]) {
    var top: f32[M]
    top[i] = max[j](x[i, j])
    y[i, j] = (x[i, j] - top[i]) * g[j] + b[j]
}
";
    let module = crate::support::module(text);
    let func = &module.functions["scaled"];
    let innermost = |at: &BTreeMap<String, i64>, l1_bytes: u64, l2_bytes: u64| {
        let h = Homomorphism::of(&module, func, Some("top")).unwrap();
        let exact = fixed(func, &h.at(at).unwrap());
        let m = Machine { l1_bytes, l2_bytes, ..machine("x86-64-v3") };
        let auto = auto(&module, &exact, at, &Setting { machine: &m, threads: 1, exact: true }).unwrap();
        let made = transform(&module, &exact, &auto.strategy, "scaled");
        same(&module, &exact, &made, at);
        let mut loops = Vec::new();
        visit::walk(&made.body, &mut |s, _| {
            if let Some(l) =
                s.as_loop().filter(|l| lathe_transform::names::labels_in(&l.body).iter().any(|n| n == "y"))
            {
                loops.push(l.binder.name.to_string());
            }
            true
        });
        loops
    };
    let at = sizes(&[("M", 24), ("N", 200)]);
    let rows_first = |loops: &[String]| {
        let of = |name: &str| loops.iter().position(|n| n == name);
        of("i.b") < of("j.p5")
    };
    assert!(!rows_first(&innermost(&at, 1024, 1 << 16)), "{:?}", innermost(&at, 1024, 1 << 16));
    // The first cache keeps them; nothing keeps the block.
    assert!(rows_first(&innermost(&at, 1 << 15, 1 << 16)));
    for (rows, columns) in [(1, 1), (1, 300), (7, 65), (33, 129), (2, 1000)] {
        innermost(&sizes(&[("M", rows), ("N", columns)]), 1024, 1 << 16);
    }
}

/// Sums over the rows of a map, the map being too large for a cache: added up block by block, behind a named value, and within a batch.
#[test]
fn sums_over_rows_are_added_up_block_by_block() {
    let text = "
kernel plain(x: f32[N, D], y: f32[N, K], s: f32[K]) -> (first: f32[K], a: f32[K, D], b: f32[K]) {
    var z: f32[N, K]
    first[k] = 2 * s[k]
    let t = sum[n](y[n, 0])
    z[n, k] = t * (y[n, k] - s[k])
    b[k] = sum[n](-z[n, k])
    a[k, d] = sum[n](z[n, k] * x[n, d])
}
kernel batch(x: f32[H, N, D], y: f32[H, N, K], s: f32[K]) -> (a: f32[H, K, D]) {
    var z: f32[H, N, K]
    z[h, n, k] = y[h, n, k] - s[k]
    a[h, k, d] = sum[n](z[h, n, k] * x[h, n, d])
}
";
    let module = crate::support::module(text);
    let of = |kernel: &str, label: &str, at: &BTreeMap<String, i64>, threads: u64| {
        let func = &module.functions[kernel];
        let h = Homomorphism::of(&module, func, Some(label)).unwrap();
        let exact = fixed(func, &h.at(at).unwrap());
        let m = Machine { l2_bytes: 2048, l1_bytes: 512, ..machine("x86-64-v3") };
        let auto = auto(&module, &exact, at, &Setting { machine: &m, threads, exact: true }).unwrap();
        let chains: Vec<Vec<String>> = auto.chains.iter().map(|c| c.0.clone()).collect();
        let new = transform(&module, &exact, &auto.strategy, kernel);
        same(&module, &exact, &new, at);
        (chains, lathe_ir::text::print_function(&new))
    };
    for (n, k, d, threads) in
        [(96, 8, 4, 1), (97, 7, 3, 1), (401, 1, 1, 1), (1, 5, 2, 1), (7, 9, 13, 1), (96, 8, 4, 2)]
    {
        let at = sizes(&[("N", n), ("K", k), ("D", d)]);
        let (chains, tree) = of("plain", "a", &at, threads);
        // Several threads would add to the same elements.
        let want = n * k * 4 > 1024 && threads == 1;
        assert_eq!(
            chains.contains(&["z", "b", "a"].map(String::from).to_vec()),
            want,
            "{n} {k}: {chains:?}\n{tree}"
        );
        assert_eq!(tree.contains(&format!("alloc z: f32[{n}, ")), !want, "{n} {k}\n{tree}");
    }
    for (heads, n, k, d, threads) in
        [(9, 96, 8, 4, 2), (3, 97, 7, 3, 1), (8, 401, 1, 1, 2), (1, 1, 1, 1, 1), (20, 33, 11, 5, 1)]
    {
        let at = sizes(&[("H", heads), ("N", n), ("K", k), ("D", d)]);
        of("batch", "a", &at, threads);
    }
}

/// Scans run by lanes that combine in order, with one thread and with several; large results bypass the caches.
#[test]
fn scans_run_by_lanes() {
    let module =
        crate::support::module("kernel prefix(A: f32[N]) -> (O: f32[N]) { O[i] = scan(sum)[i](A[i]) }");
    let func = &module.functions["prefix"];
    let h = Homomorphism::of(&module, func, None).unwrap();
    for (n, threads) in [(40_000, 1), (40_003, 1), (40_003, 2), (7, 1), (1, 2)] {
        let at = sizes(&[("N", n)]);
        let exact = fixed(func, &h.at(&at).unwrap());
        let m = Machine { l2_bytes: 16_384, l3_bytes: 65_536, ..machine("x86-64-v3") };
        let auto = auto(&module, &exact, &at, &Setting { machine: &m, threads, exact: true }).unwrap();
        let new = transform(&module, &exact, &auto.strategy, "prefix");
        let tree = lathe_ir::text::print_function(&new);
        assert_eq!(tree.contains("inscan(8)"), n > 7, "{}\n{tree}", auto.strategy);
        assert_eq!(tree.contains("nontemporal"), n > 7, "{}\n{tree}", auto.strategy);
        assert_eq!(tree.contains(" cpu"), threads > 1 && n > 7, "{}\n{tree}", auto.strategy);
        same(&module, &exact, &new, &at);
    }
    // Examples of sizes only: right for all.
    let m = machine("x86-64");
    let at = sizes(&[("N", 1 << 20)]);
    let auto = auto(&module, func, &at, &Setting { machine: &m, threads: 2, exact: false }).unwrap();
    let new = transform(&module, func, &auto.strategy, "prefix");
    for n in [0, 1, 4160, 40_001] {
        same(&module, func, &new, &sizes(&[("N", n)]));
    }
}

/// Whatever a search tries of a whole function, blocks and decisions inside of them, is refused or means the same; and it
/// begins with what is chosen without one.
#[test]
fn a_search_changes_chains_and_what_is_inside_of_them() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let softmax = (SOFTMAX, "softmax", "top", sizes(&[("M", 96), ("N", 40)]));
    let attention = (ATTENTION, "attention", "score", sizes(&[("H", 12), ("T", 16), ("D", 4)]));
    for (text, kernel, first, at) in [softmax, attention] {
        let module = crate::support::module(text);
        let func = &module.functions[kernel];
        let h = Homomorphism::of(&module, func, Some(first)).unwrap();
        let exact = fixed(func, &h.at(&at).unwrap());
        let m = Machine { l2_bytes: 4096, l1_bytes: 1024, ..machine("x86-64-v3") };
        let setting = Setting { machine: &m, threads: 2, exact: true };
        let chosen = auto(&module, &exact, &at, &setting).unwrap();
        assert!(!chosen.chains.is_empty());
        let rows: Vec<&str> = chosen.space.params.iter().map(|p| p.name.as_str()).collect();
        assert!(rows.iter().any(|n| n.starts_with("rows.")), "{rows:?}");
        let again = searched(&module, &exact, &at, &setting, &chosen.start).unwrap();
        assert_eq!(again.strategy.to_string(), chosen.strategy.to_string());
        let space = lathe_space::Space::generate(&chosen.space, &lathe_space::Generate::default()).unwrap();
        let mut taken = 0;
        for _ in 0..40 {
            let values = space.configuration(&space.sample(&mut rng)).unwrap().to_values();
            // Most of the numbers as chosen: a search goes step by step.
            let values = chosen.start.iter().map(|(n, v)| {
                let keep = rng.gen_bool(0.8);
                (n.clone(), if keep { v.clone() } else { values[n].clone() })
            });
            let Ok(other) = searched(&module, &exact, &at, &setting, &values.collect()) else { continue };
            let (definitions, facts) = (Definitions::default(), |_: &str| None);
            let context = Context::new(&definitions, None, &facts);
            let Ok((new, _)) = lathe_transform::run(&module, &exact, &context, &other.strategy) else {
                continue;
            };
            same(&module, &exact, &new, &at);
            taken += 1;
        }
        assert!(taken >= 5, "{taken}");
        let unknown = [("rows.nothing".to_string(), lathe_space::Value::Int(4))].into();
        assert!(searched(&module, &exact, &at, &setting, &unknown).is_err());
    }
}

/// Row sums inside of a scan: threads and lanes take them, and the scan has one value per row.
#[test]
fn reductions_inside_of_a_scan_come_first() {
    let text =
        "kernel mbbs(A: f32[L, N, M]) -> (O: f32[L, N]) { O[l, i] = scan(sum)[i](sum[j](A[l, i, j])) }";
    let module = crate::support::module(text);
    let func = &module.functions["mbbs"];
    let h = Homomorphism::of(&module, func, None).unwrap();
    for (l, n, m) in [(1, 300, 500), (2, 70, 130), (3, 5, 2)] {
        let at = sizes(&[("L", l), ("N", n), ("M", m)]);
        let cpu = machine("x86-64-v3");
        let set = Setting { machine: &cpu, threads: 2, exact: true };
        let known = fixed(func, &h.at(&at).unwrap());
        let auto = auto(&module, &known, &at, &set).unwrap();
        let new = transform(&module, &known, &auto.strategy, "mbbs");
        let tree = lathe_ir::text::print_function(&new);
        if n == 300 {
            assert!(auto.computes.iter().any(|c| c.0 == "O.part" && c.1.is_ok()), "{}", auto.strategy);
            assert!(threads(&new) > 0 && tree.contains("vector(8)"), "{}\n{tree}", auto.strategy);
        }
        same(&module, &known, &new, &at);
    }
    let cpu = machine("x86-64");
    let at = sizes(&[("L", 4), ("N", 1000), ("M", 1000)]);
    let auto = auto(&module, func, &at, &Setting { machine: &cpu, threads: 2, exact: false }).unwrap();
    let new = transform(&module, func, &auto.strategy, "mbbs");
    for (l, n, m) in [(0, 3, 4), (1, 33, 17), (2, 9, 0)] {
        same(&module, func, &new, &sizes(&[("L", l), ("N", n), ("M", m)]));
    }
}
