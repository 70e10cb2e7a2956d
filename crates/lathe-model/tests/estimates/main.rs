//! Estimates on made-up machines: no number is claimed, only what is more than what, and why.

mod rows;

use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;
use lathe_model::{Estimate, estimate, handed};
use lathe_target::{Costs, Machine, Masks};
use std::collections::BTreeMap;

fn on(machine: &Machine, tree: &str, sizes: &[(&str, i64)]) -> Estimate {
    let module = parse_module(FileId(0), tree).unwrap_or_else(|d| panic!("{d:?}\n{tree}"));
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    estimate(&module.functions["f"], &sizes, machine)
}

fn machine() -> Machine {
    let m = Machine::find("x86-64-v4").expect("a machine");
    Machine { l1_bytes: 32 << 10, l2_bytes: 1 << 20, l3_bytes: 16 << 20, ..m }
}

/// A tile of `rows` vectors of 16 lanes, summed over `K`.
fn tile(rows: u32) -> String {
    format!(
        "func f(K)(A: in f32[{rows}, K], B: in f32[K, 16], C: out f32[{rows}, 16]) stage scheduled {{
           alloc T: f32[{rows}, 16] register
           for i in 0..{rows} unrolled {{ for j in 0..16 vector(16) {{ 'C.init'[i, j]: T[i, j]! = 0.0:f32 }} }}
           for k in 0..K {{
             for i in 0..{rows} unrolled {{ for j in 0..16 vector(16) {{
               'C'[i, j, k]: T[i, j]! sum= A[i, k]! * B[k, j]! licensed contract }} }} }}
           for i in 0..{rows} unrolled {{ for j in 0..16 vector(16) {{ 'out'[i, j]: C[i, j]! = T[i, j]! }} }}
         }}"
    )
}

const SUM: &str = "func f(N)(A: in f32[N], s: out f32[]) stage scheduled {
  'init': s[] = 0.0:f32
  for k in 0..N { 's'[k]: s[]! sum= A[k]! licensed }
}";

#[test]
fn wider_vectors_are_faster_and_too_few_registers_slower() {
    let wide = machine();
    let narrow = Machine { vector_bytes: 16, vector_registers: 16, ..machine() };
    let k = [("K", 1000)];
    let (a, b) = (on(&wide, &tile(8), &k).cycles(), on(&narrow, &tile(8), &k).cycles());
    assert!(b > 3.0 * a, "{a} {b}");
    // Per result, a tile that spills costs more than one that fits.
    let few = Machine { vector_registers: 16, ..machine() };
    let (small, large) = (on(&few, &tile(8), &k).instructions, on(&few, &tile(24), &k).instructions);
    assert!(large > 1.2 * 3.0 * small, "{small} {large}");
    let (small, large) = (on(&wide, &tile(8), &k).instructions, on(&wide, &tile(24), &k).instructions);
    assert!(large < 1.1 * 3.0 * small, "{small} {large}");
}

/// What is left of tiles of 16 rows: as many as `M` says, written out with guards or as a loop over a tile in memory.
#[test]
fn rests_in_registers_cost_what_they_have_and_those_in_memory_more() {
    let rest = |exec: &str| {
        format!(
            "func f(M, K)(A: in f32[M, K], B: in f32[K, 16], C: out f32[M, 16]) stage scheduled {{
               for o in M // 16..(M + 15) // 16 {{
                 alloc T: f32[16, 16] register
                 for i in 0..M - o * 16 {exec} {{ for j in 0..16 vector(16) {{ 'C.init'[o, i, j]: T[i, j]! = 0.0:f32 }} }}
                 for k in 0..K {{
                   for i in 0..M - o * 16 {exec} {{ for j in 0..16 vector(16) {{
                     'C'[o, i, j, k]: T[i, j]! sum= A[o * 16 + i, k]! * B[k, j]! licensed contract }} }} }}
                 for i in 0..M - o * 16 {exec} {{ for j in 0..16 vector(16) {{ 'out'[o, i, j]: C[o * 16 + i, j]! = T[i, j]! }} }}
               }}
             }}"
        )
    };
    let cycles =
        |exec: &str, rows: i64| on(&machine(), &rest(exec), &[("M", rows), ("K", 1000)]).instructions;
    for rows in [1, 4, 7, 15] {
        let (guarded, memory) = (cycles("unrolled", rows), cycles("", rows));
        assert!(memory > 1.5 * guarded, "{rows}: {guarded} {memory}");
    }
    // Fewer rows than hide a sum's latency cost the same; guards cost less than the arithmetic of a full tile.
    assert!(cycles("unrolled", 4) < 1.2 * cycles("unrolled", 1));
    let full = on(&machine(), &tile(16), &[("K", 1000)]).instructions;
    assert!((0.8 * full..2.0 * full).contains(&cycles("unrolled", 15)), "{full} {}", cycles("unrolled", 15));
}

#[test]
fn vectors_of_a_reversed_row_are_no_gathers() {
    let copy = |from: &str| {
        let text = format!(
            "func f(N)(A: in f32[N], B: out f32[N]) stage scheduled {{
               for i in 0..N // 16 {{ for l in 0..16 vector(16) {{ 'B'[i, l]: B[i * 16 + l]! = A[{from}]! }} }}
             }}"
        );
        on(&machine(), &text, &[("N", 4096)]).instructions
    };
    let (forward, reversed, apart) =
        (copy("i * 16 + l"), copy("N - 1 - (i * 16 + l)"), copy("(i * 16 + l) * 7 % N"));
    assert!(forward <= reversed && reversed < 2.5 * forward, "{forward} {reversed}");
    assert!(apart > 2.0 * reversed, "{reversed} {apart}");
}

/// Lanes are put in their places by the units that do arithmetic, so that they cost something where arithmetic bounds a loop.
#[test]
fn lanes_apart_take_turns_with_arithmetic() {
    let roots = |to: &str| {
        let root = (0..8).fold("A[i * 16 + l]!".to_string(), |x, _| format!("sqrt({x} + 1.0:f32)"));
        let text = format!(
            "func f(N)(A: in f32[N], B: out f32[N, 3]) stage scheduled {{
               for i in 0..N // 16 {{ for l in 0..16 vector(16) {{ 'B'[i, l]: B[{to}]! = {root} }} }}
             }}"
        );
        on(&machine(), &text, &[("N", 4096)]).instructions
    };
    let (beside, apart) = (roots("i, 0"), roots("i * 16 + l, 0"));
    assert!(apart > 1.05 * beside, "{beside} {apart}");
}

#[test]
fn a_chain_is_as_slow_as_its_latency() {
    let m = machine();
    let one = on(&m, SUM, &[("N", 4000)]).instructions;
    assert!((9_000.0..20_000.0).contains(&one), "{one}");
    let slower = Machine { fma_latency: 8, ..machine() };
    assert!(on(&slower, SUM, &[("N", 4000)]).instructions > 1.9 * one);
    // Two rows of one vector wait for themselves; eight do not.
    let per_row = |rows| on(&m, &tile(rows), &[("K", 1000)]).instructions / f64::from(rows);
    assert!(per_row(2) > 2.5 * per_row(8), "{} {}", per_row(2), per_row(8));
}

/// Rows of chains, skewed, so that four may overlap; the chain runs through the names of values.
#[test]
fn jammed_rows_wait_for_themselves() {
    let rows = |jam: i64| {
        format!(
            "func f(N)(A: inout f32[N, N]) stage scheduled {{
               for o in 0..N // {jam} {{ for x in o * {jam}..N {{ for r in 0..{jam} unrolled {{
                 let old: f32 = A[o * {jam} + r, x - r]! {{
                   'A'[o, r, x]: A[o * {jam} + r, x - r + 1]! = 0.5:f32 * old + A[o * {jam} + r, x - r + 1]!
                 }}
               }} }} }}
             }}"
        )
    };
    let of = |jam| on(&machine(), &rows(jam), &[("N", 4096)]).instructions;
    assert!(of(1) > 2.0 * of(4), "{} {}", of(1), of(4));
    // What a row reads ahead of where it is was there before it.
    let ahead = rows(4).replace("+ A[o * 4 + r, x - r + 1]!", "+ A[o * 4 + r, x - r + 2]!");
    let ahead = on(&machine(), &ahead, &[("N", 4096)]).instructions;
    assert!(ahead < 1.1 * of(4), "{ahead} {}", of(4));
    // Copies of one row do.
    let row = "func f(N)(A: inout f32[N]) stage scheduled {
      for o in 0..N // 4 - 1 { for r in 0..4 unrolled { 'A'[o, r]: A[o * 4 + r + 1]! = 0.5:f32 * A[o * 4 + r]! } }
    }";
    let chain = on(&machine(), row, &[("N", 4096)]).instructions;
    assert!(chain > 4000.0 * 4.0, "{chain}");
}

/// A filter that keeps its last two values: no compiler makes lanes of it, unless rows are independent.
#[test]
fn what_iterations_carry_is_waited_for() {
    let filter = |keeps: &str| {
        format!(
            "func f(N)(A: in f64[N, N], B: inout f64[N, N], y: inout f64[N], z: inout f64[N]) stage plain {{
               for i in 0..N {{ for j in 0..N {{
                 'B'[i, j]: B[i, j]! = A[i, j]! + 0.5:f64 * y[i]! + 0.25:f64 * z[i]!
                 {keeps}
               }} }}
             }}"
        )
    };
    let cycles = |keeps| on(&machine(), &filter(keeps), &[("N", 2000)]).instructions;
    let kept = cycles("'z'[i, j]: z[i]! = y[i]! 'y'[i, j]: y[i]! = B[i, j]!");
    let free = cycles("'z'[i, j]: z[i]! = A[i, j]! 'y'[i, j]: y[i]! = A[i, j]!");
    assert!(kept > 8.0 * 4e6 && kept > 2.0 * free, "{kept} {free}");
}

#[test]
fn masks_cost_what_the_machine_says() {
    let lanes = |hi: &str| {
        format!(
            "func f(N)(A: in f32[N], B: out f32[N]) stage scheduled {{
               for o in 0..N // 16 {{ for i in 0..{hi} vector(16) {{ 'B'[o, i]: B[o * 16 + i]! = A[o * 16 + i]! + 1.0:f32 }} }}
             }}"
        )
    };
    let with = |masks, costs, hi| {
        on(&Machine { masks, costs, ..machine() }, &lanes(hi), &[("N", 1600)]).instructions
    };
    let cost = |masks, hi| with(masks, Costs::with(masks), hi);
    let full = cost(Masks::Cheap, "16");
    assert_eq!(cost(Masks::None, "16"), full);
    let cheap = cost(Masks::Cheap, "min(16, N - 16 * o)");
    let dear = cost(Masks::Dear, "min(16, N - 16 * o)");
    let none = cost(Masks::None, "min(16, N - 16 * o)");
    assert!(full <= cheap && cheap < dear && dear < none, "{full} {cheap} {dear} {none}");
    // A file may say that they cost nothing, or more.
    let stated = |masked_memory| Costs { masked_memory, ..Costs::with(Masks::Cheap) };
    let masked = |costs| with(Masks::Cheap, costs, "min(16, N - 16 * o)");
    assert!(masked(stated(1.0)) < cheap && masked(stated(2.0)) > cheap);
}

#[test]
fn columns_of_large_arrays_move_more_than_rows() {
    let walk = |target: &str| {
        format!(
            "func f(N)(A: in f32[N, N], B: inout f32[N]) stage scheduled {{
               for i in 0..N {{ for j in 0..N {{ 'B'[i, j]: B[{}]! sum= A[{target}]! licensed }} }}
             }}",
            if target == "i, j" { "i" } else { "j" }
        )
    };
    let moved = |target, n| on(&machine(), &walk(target), &[("N", n)]).traffic;
    assert!(moved("j, i", 40_000) > 4.0 * moved("i, j", 40_000));
    // What fits the second cache comes from there, again and again.
    assert!(moved("i, j", 200) < moved("i, j", 2000) / 200.0);
}

/// Rows whose numbers are clamped are as many as others.
#[test]
fn rows_that_are_not_affine_are_counted() {
    let rows = |at: &str| {
        format!(
            "func f(N)(A: in f32[N, N], B: inout f32[N, N]) stage scheduled {{
               for i in 0..N {{ for j in 0..N {{ 'B'[i, j]: B[i, j]! = A[{at}, j]! }} }}
             }}"
        )
    };
    let moved = |at| on(&machine(), &rows(at), &[("N", 4000)]).traffic;
    assert!(moved("min(i, N - 2)") >= moved("i"), "{} {}", moved("min(i, N - 2)"), moved("i"));
}

/// Tiles of rows that lie one behind the other move what all rows together do, wherever their loops begin to count, and whichever
/// bound they begin at.
#[test]
fn tiles_move_what_lies_in_them() {
    let tiles = |lo: &str, hi: &str, at: &str| {
        let tree = format!(
            "func f(N)(A: in f32[N, N], B: inout f32[N]) stage scheduled {{
               for t in 0..N // 32 {{ for i in {lo}..{hi} {{ for j in 0..N {{
                 'B'[t, i, j]: B[j]! sum= A[{at}, j]! licensed }} }} }}
             }}"
        );
        on(&machine(), &tree, &[("N", 6400)]).traffic
    };
    let counted = tiles("0", "32", "t * 32 + i");
    for same in [
        tiles("t * 32", "t * 32 + 32", "i"),
        tiles("t * 32", "min(t * 32 + 32, N)", "i"),
        tiles("0", "32", "max(t * 32, 7) + i"),
        tiles("0", "32", "max(7, t * 32) + i"),
    ] {
        assert!((0.9..1.1).contains(&(same / counted)), "{same} {counted}");
    }
}

#[test]
fn blocks_that_fit_a_cache_move_less() {
    let tree = |block: i64| {
        format!(
            "func f(N)(A: in f32[N, N], B: in f32[N, N], C: inout f32[N, N]) stage scheduled {{
               for o in 0..N // {block} {{ for i in 0..N {{ for k in 0..{block} {{ for j in 0..N {{
                 'C'[o, i, k, j]: C[i, j]! sum= A[i, o * {block} + k]! * B[o * {block} + k, j]! licensed }} }} }} }}
             }}"
        )
    };
    let moved = |block| on(&machine(), &tree(block), &[("N", 1024)]).traffic;
    assert!(moved(64) < moved(1024) / 2.0, "{} {}", moved(64), moved(1024));
}

#[test]
fn threads_share_large_work_and_cost_more_than_small_work() {
    let tree = |exec: &str, row: i64| {
        format!(
            "func f(N)(A: in f32[N, {row}], B: out f32[N, {row}]) stage scheduled {{
               for i in 0..N {exec} {{ for j in 0..{row} {{ 'B'[i, j]: B[i, j]! = exp(A[i, j]!) }} }}
             }}"
        )
    };
    let eight = Machine { threads: 8, ..machine() };
    let cycles = |m: &Machine, exec, n| on(m, &tree(exec, 64), &[("N", n)]).cycles();
    assert!(cycles(&eight, "cpu", 10_000) < cycles(&eight, "", 10_000) / 6.0);
    assert!(cycles(&eight, "cpu", 2) > cycles(&eight, "", 2));
    // Nine iterations take eight threads twice as long as eight.
    let long = |n| on(&eight, &tree("cpu", 16_384), &[("N", n)]).cycles();
    let nine = long(9) / long(8);
    assert!(nine > 1.1, "{nine}");
}

/// Columns of one array on threads: rows of those that begin within lines share these with others.
#[test]
fn lines_that_several_threads_write_are_slow() {
    let tree = |first: &str| {
        format!(
            "func f(N)(A: inout f64[N, 1032]) stage scheduled {{
               for t in 0..1 {{ for o in 0..128 cpu {{ for i in 0..N {{ for j in 0..8 vector(8) {{
                 'A'[t, o, i, j]: A[i, {first}o * 8 + j]! = A[i, {first}o * 8 + j]! * 3.0:f64 }} }} }} }}
             }}"
        )
    };
    let (whole, within) = (tree(""), tree("t + "));
    let cost = |threads, tree: &str| {
        let m = Machine { threads, ..machine() };
        on(&m, tree, &[("N", 2000)]).traffic
    };
    assert_eq!(cost(1, &whole), cost(1, &within));
    for threads in [2, 16] {
        // Each thread waits for as many lines as there are rows, for each the longer the more threads there are.
        let lost = cost(threads, &within) - cost(threads, &whole);
        let expected = 2000.0 * threads as f64 * machine().costs.contended;
        assert!((lost / expected - 1.0).abs() < 0.01, "{threads}: {lost}, {expected}");
    }
}

/// Rows that data choose are those of all threads: every write may find the line of another one.
#[test]
fn lines_of_rows_that_data_choose_are_shared() {
    let tree = |columns: u64| {
        format!(
            "func f(N)(at: in i64[N], A: in f64[N, 1024], B: inout f64[32, 1024]) stage scheduled {{
               for o in 0..16 cpu {{ for n in 0..N {{ for j in 0..{columns} {{
                 'B'[o, n, j]: B[index(at[n]!), o * {columns} + j]? = A[n, o * {columns} + j]! * 3.0:f64 }} }} }}
             }}"
        )
    };
    let cost =
        |threads, columns| on(&Machine { threads, ..machine() }, &tree(columns), &[("N", 2000)]).traffic;
    let expected = 2000.0 * 16.0 * machine().costs.contended;
    assert!(cost(16, 1) - cost(1, 1) > 0.9 * expected, "{} {} {expected}", cost(16, 1), cost(1, 1));
    assert!(cost(16, 8) < cost(1, 8), "whole lines are nobody else's: {} {}", cost(16, 8), cost(1, 8));
}

/// Many short loops on threads take longer the more threads there are.
#[test]
fn forks_and_joins_take_as_long_as_there_are_threads() {
    let tree = "func f(N)(A: inout f32[N, 64]) stage scheduled {
      for t in 0..N { for i in 0..64 cpu { 'A'[t, i]: A[t, i]! = A[t, i]! * 3.0:f32 } } }";
    let cost = |threads| on(&Machine { threads, ..machine() }, tree, &[("N", 1000)]).overhead;
    assert!(cost(16) > 2.0 * cost(4) && cost(4) > 1.2 * cost(2) && cost(2) > 100.0 * cost(1));
    assert_eq!(cost(128), cost(64), "64 iterations wake 64 threads");
}

#[test]
fn loops_that_nobody_scheduled_become_vectors_where_they_can() {
    let tree = |stage: &str, at: &str| {
        format!(
            "func f(N)(A: in f32[N], B: out f32[N]) stage {stage} {{
               for i in 0..N {{ 'B'[i]: B[i]! = A[{at}]! * 3.0:f32 }}
             }}"
        )
    };
    let cost = |stage, at| on(&machine(), &tree(stage, at), &[("N", 1600)]).instructions;
    assert!(cost("plain", "i") < cost("plain", "i * i % N") / 4.0);
    // A schedule without lanes leaves them to the compiler, too.
    assert_eq!(cost("scheduled", "i"), cost("plain", "i"));
    // Not where one iteration waits for another.
    assert_eq!(
        on(&machine(), SUM, &[("N", 4000)]),
        on(&machine(), &SUM.replace("scheduled", "plain"), &[("N", 4000)])
    );
}

/// A row that reads one of its own elements in every iteration stays a loop of scalars; one before or behind the element does not.
#[test]
fn rows_that_read_their_own_elements_become_no_vectors() {
    let row = |from: &str, to: &str| {
        let tree = format!(
            "func f(N)(A: inout f64[N, N]) stage plain {{
               for k in 0..N {{ for i in 0..N {{ for j in {from}..{to} {{
                 'A'[k, i, j]: A[i, j]! = A[i, j]! + A[i, k]! * A[k, j]! }} }} }}
             }}"
        );
        on(&machine(), &tree, &[("N", 200)]).instructions
    };
    let (all, half) = (row("0", "N"), row("k + 1", "N"));
    assert!(all > 5.0 * half, "{all} {half}");
    let clamped = row("max(i, k + 1)", "N");
    assert!(clamped < 1.1 * half, "{clamped} {half}");
    // Some tile holds the element, and no compiler knows which.
    let tiled = |to: &str| {
        let tree = format!(
            "func f(N)(A: inout f64[N, N]) stage plain {{
               for k in 0..N {{ for i in 0..N {{ for t in 0..N // 16 {{ for j in t * 16..t * 16 + 16 {{
                 'A'[k, i, j]: A[i, j]! = A[i, j]! + A[i, {to}]! * A[k, j]! }} }} }} }}
             }}"
        );
        on(&machine(), &tree, &[("N", 208)]).instructions
    };
    assert!(tiled("k") > 3.0 * tiled("j"), "{} {}", tiled("k"), tiled("j"));
}

/// Blocks of 64 and 36 rows take two threads as long as two of 64.
#[test]
fn the_slowest_thread_counts() {
    let tree = "func f(M, N)(A: in f32[M, N], B: out f32[M, N]) stage scheduled {
      for o in 0..(M + 63) // 64 cpu { for i in 0..min(64, M - 64 * o) { for j in 0..N {
        'B'[o, i, j]: B[64 * o + i, j]! = A[64 * o + i, j]! * 3.0:f32 } } } }";
    let cycles = |threads, rows| {
        let m = Machine { threads, ..machine() };
        on(&m, tree, &[("M", rows), ("N", 1000)]).instructions
    };
    assert!(cycles(2, 100) > 0.98 * cycles(2, 128), "{} {}", cycles(2, 100), cycles(2, 128));
    assert!(cycles(1, 100) < 0.85 * cycles(1, 128));
}

/// A division of a vector is one, whoever makes the lanes.
#[test]
fn divisions_of_vectors_cost_the_same_in_loops_that_nobody_scheduled() {
    let f = |stage: &str, body: &str| {
        format!("func f(N)(A: in f32[N], B: out f32[N]) stage {stage} {{ for o in 0..N // 16 {{ {body} }} }}")
    };
    let at = "B[o * 16 + i]! = 3.0:f32 / A[o * 16 + i]!";
    let lanes = f("scheduled", &format!("for i in 0..16 vector(16) {{ 'B'[o, i]: {at} }}"));
    let plain = f("plain", &format!("for i in 0..16 {{ 'B'[o, i]: {at} }}"));
    let cost = |tree: &str| on(&machine(), tree, &[("N", 1600)]).instructions;
    let (a, b) = (cost(&lanes), cost(&plain));
    assert!(b > 0.9 * a && b < 2.0 * a, "{a} {b}");
}

/// Stores that bypass the caches: rows that begin at vectors take less than cached ones; of others, a part does, and their
/// first and last lines leave in parts.
#[test]
fn lines_that_bypass_the_caches_in_parts_are_slow() {
    let tree = |how: &str| {
        format!(
            "func f(M, N)(A: in f32[M, N], B: out f32[M, N]) stage scheduled {{
               for i in 0..M {{ for o in 0..N // 8 {{ for j in 0..8 vector(8) {{
                 'B'[i, o, j]: B[i, o * 8 + j]! = A[i, o * 8 + j]! {how} }} }} }}
             }}"
        )
    };
    let m = Machine { vector_bytes: 32, ..machine() };
    let traffic = |how, n| on(&m, &tree(how), &[("M", 4000), ("N", n)]).traffic;
    for n in [1024, 1032] {
        assert!(traffic("nontemporal", n) < traffic("", n));
    }
    // One row in two, and one in four.
    let more = |n| traffic("nontemporal", n) - traffic("", n);
    assert!(more(1028) > 900_000.0 && more(1030) < 0.6 * more(1028), "{} {}", more(1028), more(1030));
}

/// What `let` names is what it names: the same neighbours, invariants and footprints, and as many operations.
#[test]
fn lets_are_what_they_name() {
    let tree = |j: &str, before: &str| {
        let end = "}".repeat(before.matches('{').count());
        format!(
            "func f(N)(A: in f32[N, N], B: out f32[N, N]) stage scheduled {{
               for i in 0..N {{ for o in 0..N // 16 {{ for l in 0..16 vector(16) {{
                 {before} 'B'[i, o, l]: B[i, {j}]! = A[i, {j}]! * 3.0:f32 {end}
               }} }} }}
             }}"
        )
    };
    let named = tree("j", "let b: index = 16 * o { let j: index = b + l {");
    let n = [("N", 3200)];
    assert_eq!(on(&machine(), &tree("16 * o + l", ""), &n), on(&machine(), &named, &n));
    let module = parse_module(FileId(0), &named).unwrap();
    let func = &module.functions["f"];
    let sizes = func.sizes.iter().map(|b| (b.id, 1 << 16)).collect();
    assert_eq!(lathe_model::count::flops(func, &sizes), Some(f64::from(1u32 << 31) * 2.0));
    // Loops whose bounds are named run as often as they say.
    let bound = |hi: &str, before: &str| {
        format!(
            "func f(N)(A: inout f32[N, N]) stage scheduled {{
               for i in 0..N {{ {before} for j in 0..{hi} {{ 'A'[i, j]: A[i, j]! = A[i, j]! * 3.0:f32 }} {} }}
             }}",
            "}".repeat(before.matches('{').count())
        )
    };
    let named = bound("n", "let n: index = i + 1 {");
    assert_eq!(on(&machine(), &bound("i + 1", ""), &n), on(&machine(), &named, &n));
}

/// A word of random numbers is a chain of names, each of which is used twice by the next.
#[test]
fn long_chains_of_names_are_followed_once() {
    let chain: String =
        (1..100).map(|n| format!("let a{n}: index = min(a{}, (a{0} / 2) * a{0}) {{ ", n - 1)).collect();
    let tree = format!(
        "func f(N)(A: inout f32[N]) stage scheduled {{
           for i in 0..N {{ let a0: index = i {{ {chain} 'A'[i]: A[a99]? = A[a98]? {} }} }}
         }}",
        "}".repeat(99)
    );
    let cycles = on(&machine(), &tree, &[("N", 1000)]).cycles();
    assert!(cycles > 1e3, "{cycles}");
}

#[test]
fn empty_and_huge_sizes_are_numbers() {
    for n in [0, 1, 1 << 40] {
        let e = on(&machine(), &tile(4), &[("K", n)]);
        assert!(e.cycles().is_finite() && e.cycles() >= 0.0, "{e:?}");
    }
    let many = "func f(N)(A: inout f32[N, N, N]) stage plain {
      for i in 0..N { for j in 0..i { for k in j..i { 'A'[i, j, k]: A[i, j, k]! = 0.0:f32 } } }
    }";
    for n in [0, 1, 7, 1 << 20] {
        assert!(on(&machine(), many, &[("N", n)]).cycles().is_finite());
    }
}

/// The distance of bounds may overflow 64 bits.
#[test]
fn bounds_may_be_far_apart() {
    let tree = "func f(N)(A: inout f32[N]) stage plain {
        for i in -9223372036854775807..9223372036854775807 step 2147483648 { for j in i..i + 4 { 'A'[i, j]: A[0]? = 1.0:f32 } }
    }";
    let cycles = on(&machine(), tree, &[("N", 8)]).cycles();
    assert!(cycles.is_finite() && cycles > 1e9, "{cycles}");
}

/// What does not depend on the innermost loops is computed in front of them, and once for all iterations that are written
/// out.
#[test]
fn arithmetic_counts_by_the_loops_that_it_depends_on() {
    let body = |factor: &str| {
        format!(
            "func f(M, N)(A: in f32[M, N], w: in f32[M], B: out f32[M, N]) stage scheduled {{
               for i in 0..M {{ for o in 0..N // 64 {{ for u in 0..4 unrolled {{ for j in 0..16 vector(16) {{
                 'B'[i, o, u, j]: B[i, o * 64 + u * 16 + j]! = A[i, o * 64 + u * 16 + j]! * sqrt({factor} + 1.0:f32)
               }} }} }} }} }}"
        )
    };
    let cost = |factor: &str| on(&machine(), &body(factor), &[("M", 100), ("N", 6400)]).instructions;
    let (none, row, element) = (cost("2.0:f32"), cost("w[i]!"), cost("A[i, o * 64 + u * 16 + j]!"));
    assert!(row < 1.1 * none && element > 2.0 * row, "{none} {row} {element}");
}

/// Of 14 iterations, lanes of a compiler leave six beyond the first eight; lanes of a schedule have masks for them.
#[test]
fn what_a_constant_number_of_iterations_leaves_beyond_vectors_runs_one_by_one() {
    let tree = |n: u32, stage: &str, loops: &str| {
        format!(
            "func f(M)(A: in f64[M, {n}], B: out f64[M, {n}]) stage {stage} {{
               for m in 0..M {{ {loops} {{ 'B'[m, i]: B[m, i]! = exp(A[m, i]!) }} }}
             }}"
        )
    };
    let sizes = [("M", 1000)];
    let plain = |n| on(&machine(), &tree(n, "plain", &format!("for i in 0..{n}")), &sizes).instructions;
    assert!(plain(14) > 2.0 * plain(16), "{} {}", plain(14), plain(16));
    // Vectors of four leave nothing of twelve.
    assert!(plain(12) < plain(14), "{} {}", plain(12), plain(14));
    let lanes = "for o in 0..2 unrolled { for i in 8 * o..min(8 * o + 8, 14) vector(8)";
    let lanes = on(
        &machine(),
        &tree(14, "scheduled", lanes).replace("}\n             }", "} }\n             }"),
        &sizes,
    );
    assert!(lanes.instructions < plain(14), "{} {}", lanes.instructions, plain(14));
}

/// Two loops over one array, of which the second reads what the first one writes.
fn two_loops(first: &str, second: &str, read: &str) -> String {
    format!(
        "func f(N)(A: in f64[N, 64], B: out f64[N, 64]) stage scheduled {{
           alloc T: f64[N, 64]
           for i in 0..N {first} {{ for j in 0..64 {{ 'T'[i, j]: T[i, j]! = A[i, j]! }} }}
           for i in 0..N {second} {{ for j in 0..64 {{ 'B'[i, j]: B[i, j]! = {read} + T[i, j]! }} }}
         }}"
    )
}

#[test]
fn lines_are_handed_where_the_next_loop_runs_on_other_cores() {
    let m = Machine { threads: 4, ..machine() };
    let of = |m: &Machine, first, second, read| {
        let text = two_loops(first, second, read);
        let module = parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{d:?}\n{text}"));
        handed(&module.functions["f"], &BTreeMap::from([("N".to_string(), 256)]), m)
    };
    let own = "T[i, j]!";
    // On one core, or on the same ones, nothing moves.
    assert_eq!(of(&m, "", "", own), 0.0);
    assert_eq!(of(&m, "cpu", "cpu", own), 0.0);
    // What threads wrote, one thread reads, and what one wrote, threads; then those who write it have to get it back.
    let (gathered, spread) = (of(&m, "cpu", "", own), of(&m, "", "cpu", own));
    let all = m.costs.handed * (256.0 * 64.0 * 8.0) / 64.0;
    assert!((0.5 * all..2.5 * all).contains(&gathered), "{gathered} {all}");
    assert!((0.5 * all..2.5 * all).contains(&spread), "{spread} {all}");
    // Rows that other threads wrote.
    assert!(of(&m, "cpu", "cpu", "T[j, i % 64]!") > 0.0);
    // A machine says what a line takes; one thread hands nothing over.
    let slow = Machine { costs: Costs { handed: 1000.0, ..Costs::default() }, ..m.clone() };
    assert!(of(&slow, "cpu", "", own) > 5.0 * gathered);
    assert_eq!(of(&Machine { threads: 1, ..m.clone() }, "cpu", "", own), 0.0);
    // What no cache of a core holds any more comes from where it always comes from.
    let small = Machine { l1_bytes: 1 << 10, l2_bytes: 4 << 10, ..m };
    assert!(of(&small, "cpu", "", own) < 0.5 * gathered);
}

/// Rows of a sparse matrix: where they end, data say, nobody knows before, and they lie one after the other.
#[test]
fn rows_whose_ends_are_data_end_by_surprise_and_move_all() {
    let tree = |from: &str, to: &str| {
        format!(
            "func f()(value: in f64[2000000], start: in index[100001], y: out f64[100000]) stage scheduled {{
               for i in 0..100000 {{ for k in {from}..{to} {{ 'y'[i, k]: y[i]! sum= value[k]? licensed }} }}
             }}"
        )
    };
    let known = on(&machine(), &tree("i * 20", "i * 20 + 20"), &[]);
    let data = on(&machine(), &tree("start[i]!", "start[i + 1]!"), &[]);
    let wrong = (data.overhead - known.overhead) / (1e5 * machine().costs.guessed_wrong);
    assert!(wrong > 0.9 && wrong < 1.0, "{wrong}");
    assert!(data.traffic > 0.8 * known.traffic, "{} {}", data.traffic, known.traffic);
    // Lanes along such a row are neighbours, and not gathered.
    let lanes = on(
        &machine(),
        "func f()(value: in f64[2000000], start: in index[100001], y: out f64[100000]) stage scheduled {
           for i in 0..100000 {
             alloc P: f64[8] stack
             for k in 0..(start[i + 1]! - start[i]! + 7) // 8 {
               for l in 0..min(8, start[i + 1]! - start[i]! - k * 8) vector(8) {
                 'p'[i, k, l]: P[l]! sum= value[start[i]! + k * 8 + l]? licensed } }
             'y'[i]: y[i]! = P[0]!
           }
         }",
        &[],
    );
    assert!(lanes.instructions < data.instructions / 3.0, "{} {}", lanes.instructions, data.instructions);
}

/// Where an iteration may be the last one, others see what it stored; a register is nobody else's.
#[test]
fn loops_that_may_end_early_put_off_no_stores() {
    let tree = |sum: &str, check: &str| {
        format!(
            "func f()(A: in f64[1000], at: in index[1000], s: out f64[1]) stage scheduled {{
               alloc R: f64[1] register
               for k in 0..1000 {{ {check} 's'[k]: {sum}[0]! sum= A[k]! licensed }}
               't'[]: s[0]! = R[0]!
             }}"
        )
    };
    let cost = |sum, check| on(&machine(), &tree(sum, check), &[]).instructions;
    let check = "check at[k]! < 1000, \"bounds\", \"`at` is too large\"";
    let waits = 1000.0 * machine().costs.forward;
    assert!(cost("s", check) > cost("s", "") + 0.9 * waits, "{} {}", cost("s", check), cost("s", ""));
    assert!(cost("R", check) < cost("R", "") + 0.1 * waits, "{} {}", cost("R", check), cost("R", ""));
}
