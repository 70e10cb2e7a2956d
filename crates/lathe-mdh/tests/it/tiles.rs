//! Register tiles that are chosen for what their indices share, and what they become.

use crate::choosing::{compare_with, machine, transform};
use crate::support::{example, fixed, model, module, sizes};
use lathe_ir::{Function, Module};
use lathe_mdh::auto::auto;
use lathe_mdh::choose::Setting;
use lathe_mdh::semantics::alone;
use lathe_mdh::{Homomorphism, choose};
use lathe_target::{Machine, Masks};

/// The indices of a tile of registers and lanes, per dimension.
fn tile(h: &Homomorphism, at: &[(&str, i64)], m: &Machine) -> Vec<u64> {
    let cpu = model("cpu");
    let d = choose(&h.at(&sizes(at)).unwrap(), &cpu, &Setting { machine: m, threads: 1, exact: true });
    let registers = cpu.memories.iter().position(|m| m.space.as_deref() == Some("register")).unwrap();
    // Threads are the first layer, memories follow.
    let inside = &d.parts[registers + 1..];
    (0..d.dims()).map(|k| inside.iter().map(|p| p[k].unwrap_or(1)).product()).collect()
}

/// What is chosen computes the same, where sizes are constants and where they are examples.
fn holds(module: &Module, func: &Function, at: &[(&str, i64)], m: &Machine) {
    let h = Homomorphism::of(module, func, None).unwrap();
    let (func, at) = (alone(func, &h), sizes(at));
    for (exact, threads) in [(true, 1), (true, 3), (false, 1)] {
        let new = if exact { fixed(&func, &h.at(&at).unwrap()) } else { func.clone() };
        let auto = auto(module, &new, &at, &Setting { machine: m, threads, exact }).unwrap();
        let about = format!("{at:?} exact {exact}, {threads} threads\n{}", auto.strategy);
        compare_with(module, &func, &transform(module, &new, &auto.strategy, &about), &at, &about);
    }
}

/// A stencil of all the cells at most so far away, or of those straight ahead.
fn stencil(reach: i64, whole: bool) -> Module {
    let cells = (0..=2 * reach).flat_map(|a| (0..=2 * reach).map(move |b| (a, b)));
    let taken = cells.filter(|(a, b)| whole || *a == reach || *b == reach);
    let sum: Vec<String> = taken.map(|(a, b)| format!("x[i + {a}, j + {b}]")).collect();
    let rim = 2 * reach;
    let sum = sum.join(" + ");
    module(&format!(
        "kernel p(x: f32[N + {rim}, M + {rim}]) -> (y: f32[N, M]) {{ y[i, j] = {sum} where i in 0..N, j in 0..M }}"
    ))
}

/// Four windows of 25 cells below each other have 40 in all; of crosses of 5, 14 are left.
#[test]
fn windows_that_overlap_are_side_by_side() {
    for (reach, whole, rows) in [(2, true, 4), (1, false, 1)] {
        let module = stencil(reach, whole);
        let func = module.functions.get("p").unwrap();
        let h = Homomorphism::of(&module, func, None).unwrap();
        for name in ["x86-64-v3", "x86-64-v4"] {
            let m = machine(name);
            assert_eq!(tile(&h, &[("N", 896), ("M", 1096)], &m)[0], rows, "{name}, {reach} {whole}");
            for (n, w) in [(9, 50), (4, 16), (3, 21), (1, 70)] {
                holds(&module, func, &[("N", n), ("M", w)], &m);
            }
        }
    }
}

/// Ten columns are two vectors, of which the second is partial, and rows are read once; not where lanes cannot be masked.
#[test]
fn columns_that_fill_no_vectors_are_one_tile() {
    let (module, func) = example("linear_algebra", "matmul_t");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let at = [("I", 10), ("J", 500), ("K", 64)];
    let m = machine("x86-64-v3");
    // Of j, i and k.
    assert_eq!(tile(&h, &at, &m)[..2], [6, 16]);
    let none = Machine { masks: Masks::None, ..machine("x86-64-v3") };
    assert_eq!(tile(&h, &at, &none)[1], 8);
    for name in ["x86-64-v3", "x86-64-v4"] {
        for (i, j, k) in [(10, 15, 7), (17, 13, 4), (20, 7, 9), (33, 6, 3), (9, 1, 5)] {
            holds(&module, &func, &[("I", i), ("J", j), ("K", k)], &machine(name));
        }
    }
}

/// Both sides of a tile of sums along lanes are vectors: 10 results, 2 filters and a vector of the image at a time fit into 16
/// registers, and each vector that is loaded is used more than once.
#[test]
fn sums_along_lanes_use_what_they_load_again() {
    let (module, func) = example("convolution", "mcc");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let at = |h: i64, c: i64| [("N", 1), ("H", h), ("W", h), ("C", c), ("K", c), ("R", 3), ("S", 3)];
    let m = machine("x86-64-v3");
    // Of n, p, q, k, r, s and c.
    let side = tile(&h, &at(7, 512), &m);
    assert_eq!((side[1].max(side[2]), side[3], side[6]), (5, 2, 8), "{side:?}");
    holds(&module, &func, &at(7, 19), &m);
}

/// Of rows and columns of an image, which share filters alike, a tile takes neighbours in memory; of a batch, whose matrices
/// share nothing, it takes one.
#[test]
fn rows_of_equal_tiles_are_written_side_by_side() {
    let (module, func) = example("convolution", "mcc_stride2");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let at = |h: i64, k: i64| [("N", 1), ("H", h), ("W", h), ("C", 3), ("K", k), ("R", 3), ("S", 3)];
    for name in ["x86-64-v3", "x86-64-v4"] {
        // Of n, p, q, k, r, s and c.
        let side = tile(&h, &at(225, 32), &machine(name));
        assert!(side[0] == 1 && side[2] > 1 && side[2] >= side[1], "{name}: {side:?}");
        holds(&module, &func, &at(19, 17), &machine(name));
    }
    let text = "kernel batch(A: f32[H, M, K], B: f32[H, K, N]) -> (C: f32[H, M, N]) { C[h, i, j] = sum[k](A[h, i, k] * B[h, k, j]) }";
    let module = crate::support::module(text);
    let h = Homomorphism::of(&module, module.functions.get("batch").unwrap(), None).unwrap();
    let side = tile(&h, &[("H", 8), ("M", 64), ("N", 64), ("K", 64)], &machine("x86-64-v3"));
    assert!(side[0] == 1 && side[1] > 1, "{side:?}");
}

/// A loop over three channels is written out with the tile, which is as small as its code can be then; not one over many, nor one
/// that nothing runs around.
#[test]
fn few_terms_of_a_sum_are_written_out() {
    let (module, func) = example("convolution", "mcc");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let at = |h: i64, c: i64, k: i64| [("N", 1), ("H", h), ("W", h), ("C", c), ("K", k), ("R", 3), ("S", 3)];
    for (name, lanes) in [("x86-64-v3", 8), ("x86-64-v4", 16)] {
        let m = machine(name);
        // Of n, p, q, k, r, s and c.
        let side = tile(&h, &at(226, 3, 64), &m);
        let fused = side.iter().product::<u64>() / lanes;
        assert!(side[6] == 3 && side[4] * side[5] == 1 && (24..=48).contains(&fused), "{name}: {side:?}");
        assert_eq!(tile(&h, &at(58, 64, 64), &m)[6], 1, "{name}");
        for (h, c, k) in [(9, 3, 17), (5, 2, 33), (6, 4, 1)] {
            holds(&module, &func, &at(h, c, k), &m);
        }
    }
    let (module, func) = example("linear_algebra", "matmul");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let side = tile(&h, &[("I", 500), ("J", 500), ("K", 3)], &machine("x86-64-v3"));
    assert_eq!(side[2], 1, "{side:?}");
}

/// Planes side by side share lines of the second cache. Where everything comes from beyond it, and a core waits for that rather than
/// for arithmetic, they are read one after the other.
#[test]
fn planes_from_beyond_the_second_cache_are_read_one_by_one() {
    let near = "x[i, j, k] + x[i + 2, j, k] + x[i + 1, j, k]";
    let module = |value: &str| {
        module(&format!(
            "kernel p(x: f32[L + 2, M, N]) -> (y: f32[L, M, N]) {{ y[i, j, k] = {value} where i in 0..L, j in 0..M, k in 0..N }}"
        ))
    };
    let m = Machine { l1_bytes: 48 << 10, l2_bytes: 2 << 20, vector_units: 2, ..machine("x86-64-v4") };
    let of = |module: &Module, at: [i64; 3]| {
        let h = Homomorphism::of(module, module.functions.get("p").unwrap(), None).unwrap();
        tile(&h, &[("L", at[0]), ("M", at[1]), ("N", at[2])], &m)[0]
    };
    let sum = module(near);
    assert!(of(&sum, [20, 60, 140]) > 1);
    assert_eq!(of(&sum, [58, 108, 138]), 1);
    // A plane of 2 MB is in no second cache when it comes again.
    assert!(of(&sum, [58, 800, 640]) > 1);
    let heavy = module(&format!("({near}) / ({near} + 1.0) / ({near} + 2.0) / ({near} + 3.0)"));
    assert!(of(&heavy, [58, 108, 138]) > 1);
    for module in [&sum, &heavy] {
        holds(module, module.functions.get("p").unwrap(), &[("L", 5), ("M", 4), ("N", 37)], &m);
    }
}

/// Rows of a matrix that is read once, from beyond the second cache, are as many at a time as hide the latency of additions.
#[test]
fn rows_that_are_read_once_are_few_at_a_time() {
    let (module, func) = example("linear_algebra", "matvec");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    for (name, few) in [("x86-64-v3", 4), ("x86-64-v4", 2)] {
        let m = Machine { l2_bytes: 2 << 20, l3_bytes: 64 << 20, vector_units: 2, ..machine(name) };
        for n in [1400, 2048] {
            assert_eq!(tile(&h, &[("I", n), ("K", n)], &m)[0], few, "{name}, {n}");
        }
        assert!(tile(&h, &[("I", 512), ("K", 512)], &m)[0] > 4, "{name}");
        // Long ones are prefetched on their way, four at a time, also where the second cache keeps what they share.
        for (i, k) in [(8192, 8192), (4096, 16384)] {
            assert_eq!(tile(&h, &[("I", i), ("K", k)], &m)[0], 4, "{name}, {i} {k}");
        }
        // What all rows share is read again from the second cache.
        assert!(tile(&h, &[("I", 400), ("K", 100_000)], &m)[0] > 4, "{name}");
        for (i, k) in [(9, 70), (5, 1), (1, 33)] {
            holds(&module, &func, &[("I", i), ("K", k)], &m);
        }
    }
}

/// Long sums read pieces of one or two rows side by side, and prefetch each, for any sizes and on threads, too.
#[test]
fn long_sums_read_several_places_side_by_side() {
    let m = Machine { l2_bytes: 64 << 10, ..machine("x86-64-v3") };
    let text = |module: &Module, func: &Function, n: i64, threads: u64, exact: bool| {
        let at = sizes(&[("K", n)]);
        auto(module, func, &at, &Setting { machine: &m, threads, exact }).unwrap().strategy.to_string()
    };
    let total = module("kernel total(A: i32[K]) -> (C: i32) { C = sum[k](A[k]) }");
    let (module, func) = example("linear_algebra", "dot");
    for (module, func, parts) in [(&total, total.functions.get("total").unwrap(), 4), (&module, &func, 2)] {
        for (n, threads, exact) in [(1 << 22, 1, true), (1 << 22, 2, true), (1 << 22, 1, false)] {
            let text = text(module, func, n, threads, exact);
            assert!(text.contains(&format!("split(C.k.p5, {})", parts * 256)), "{text}");
            assert!(text.contains("prefetch(A, at: C.k.p5.i.i, "), "{text}");
        }
        // Parts of threads that are too short for it are prefetched as they are.
        let text = text(module, func, 1 << 19, 4, true);
        assert!(!text.contains("C.k.p5.i.i") && text.contains("prefetch(A, at: C.k.p5, "), "{text}");
        holds(module, func, &[("K", 140_001)], &m);
    }
}

/// Where short rows make vectors cross lines, arithmetic waits for loads that only just fit beside it: a product takes a tile that loads
/// less for each multiplication than two products with small ones.
#[test]
fn tiles_leave_room_for_loads() {
    let (module, func) = example("linear_algebra", "batched_matmul");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let m = Machine { vector_units: 2, ..machine("x86-64-v4") };
    let side = tile(&h, &[("B", 16), ("I", 10), ("J", 500), ("K", 64)], &m);
    assert_eq!(side, [1, 5, 64, 1]);
    for (b, i, j, k) in [(3, 10, 70, 5), (2, 7, 33, 1), (1, 1, 19, 8), (5, 6, 130, 3)] {
        holds(&module, &func, &[("B", b), ("I", i), ("J", j), ("K", k)], &m);
    }
}

/// Results that no near cache holds are written in long pieces: `e` and `f`, which are neighbours in memory, not `d` and `f`.
#[test]
fn results_from_beyond_the_caches_lie_together() {
    let (module, func) = example("ccsdt", "abcdef_gfab_degc");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let at = [("NA", 24), ("NB", 16), ("NC", 16), ("ND", 24), ("NE", 16), ("NF", 16), ("NG", 24)];
    let small = [("NA", 2), ("NB", 3), ("NC", 2), ("ND", 3), ("NE", 5), ("NF", 4), ("NG", 3)];
    for name in ["x86-64-v3", "x86-64-v4"] {
        let m = Machine { vector_units: 2, ..machine(name) };
        let side = tile(&h, &at, &m);
        assert_eq!(side[5], 16, "{name} {side:?}");
        assert!(side[4] > 1, "{name} {side:?}");
        holds(&module, &func, &small, &m);
    }
}

/// Rows whose elements lie on lines of their own take these lines' bytes of the first cache: they are copied where these exceed it,
/// however few bytes they have themselves.
#[test]
fn rows_on_lines_of_their_own_are_copied() {
    let text = |kernel: &str, machine: &Machine| {
        let (module, func) = example("ccsdt", kernel);
        let at = [("NA", 24), ("NB", 16), ("NC", 16), ("ND", 24), ("NE", 16), ("NF", 16), ("NG", 24)];
        let setting = Setting { machine, threads: 1, exact: true };
        let text = auto(&module, &func, &sizes(&at), &setting).unwrap().strategy.to_string();
        let small = [("NA", 4), ("NB", 7), ("NC", 2), ("ND", 3), ("NE", 5), ("NF", 4), ("NG", 3)];
        holds(&module, &func, &small, machine);
        text
    };
    for name in ["x86-64-v3", "x86-64-v4"] {
        let m =
            Machine { l1_bytes: 48 << 10, l1_ways: 12, l2_bytes: 2 << 20, vector_units: 2, ..machine(name) };
        for apart in ["abcdef_gfbc_dega", "abcdef_gfab_degc"] {
            let text = text(apart, &m);
            assert!(text.contains("stage(B, "), "{name} {apart}: {text}");
        }
    }
}
