//! Kernels that once read and wrote outside of their arrays, or gave wrong numbers, because proofs counted without end
//! and machines do not.

use super::run::{Argument, agreed};

const MAX: i64 = i64::MAX;
const MIN: i64 = i64::MIN;
const P62: i64 = 1 << 62;

/// Numbers around which 64-bit arithmetic turns.
const EDGES: [i64; 14] =
    [0, 1, 2, -1, -2, 1 << 31, -(1 << 31), P62, P62 + 1, -P62, MAX - 2, MAX, MIN, MIN + 1];

fn fails(text: &str, sizes: &[(&str, i64)], given: &[Argument]) {
    let got = agreed(text, "naive", sizes, given);
    assert!(got.is_err(), "{got:?} with {given:?} for\n{text}");
}

fn gives(text: &str, sizes: &[(&str, i64)], given: &[Argument], want: &[i64]) {
    let got = agreed(text, "naive", sizes, given);
    assert_eq!(got, Ok(vec![want.to_vec()]), "with {given:?} for\n{text}");
}

#[test]
fn a_sum_with_data_is_a_subscript() {
    let text = "kernel k(x: i32[N], p: index[R]) -> (y: i32[R]) {\n    y[r] = x[p[r] + 5]\n}\n";
    let x = [10, 11, 12, 13, 14, 15, 16, 17];
    for p in EDGES {
        let inside = (-5..3).contains(&p);
        let given: &[Argument] = &[("x", &x), ("p", &[p])];
        if inside {
            gives(text, &[("N", 8), ("R", 1)], given, &[x[(p + 5) as usize]]);
        } else {
            fails(text, &[("N", 8), ("R", 1)], given);
        }
    }
    fails(text, &[("N", 8), ("R", 1)], &[("x", &x), ("p", &[MAX - 2])]);
}

#[test]
fn a_multiple_of_data_is_a_subscript() {
    let text = "kernel k(x: i32[N], p: index[R]) -> (y: i32[R]) {\n    y[r] = x[p[r] * 4]\n}\n";
    let x = [10, 11, 12, 13, 14, 15, 16, 17];
    fails(text, &[("N", 8), ("R", 1)], &[("x", &x), ("p", &[P62 + 1])]);
    fails(text, &[("N", 8), ("R", 1)], &[("x", &x), ("p", &[P62])]);
    gives(text, &[("N", 8), ("R", 1)], &[("x", &x), ("p", &[1])], &[14]);
    let twice = "kernel k(x: i32[N], n: index[R]) -> (y: i32[R]) {\n    y[r] = x[2 * n[r] - n[r]]\n}\n";
    for n in EDGES {
        // `2 * n` fails even where `n` would do.
        match n {
            0..8 => gives(twice, &[("N", 8), ("R", 1)], &[("x", &x), ("n", &[n])], &[x[n as usize]]),
            _ => fails(twice, &[("N", 8), ("R", 1)], &[("x", &x), ("n", &[n])]),
        }
    }
}

/// Conditions that are computed with scalars.
#[test]
fn guards_over_scalars_do_not_wrap() {
    let text = "kernel k(y: inout i32[N], n: index) {
    if n >= 0 {
        if n + 7 < N {
            y[n + 7] = 1
        }
    }
}
";
    for n in EDGES {
        let y = [0; 9];
        let mut want = y;
        if (0..2).contains(&n) {
            want[n as usize + 7] = 1;
        }
        let given: &[Argument] = &[("y", &y), ("n", &[n])];
        if n > MAX - 7 {
            fails(text, &[("N", 9)], given);
        } else {
            gives(text, &[("N", 9)], given, &want.map(i64::from));
        }
    }
}

#[test]
fn arms_of_select_do_not_wrap() {
    let text = "kernel k(x: i32[N], n: index) -> (y: i32) {
    y = select(n >= 0 and n + 7 < N, x[max(0, n + 7)], -1)
}
";
    let x = [10, 11, 12, 13, 14, 15, 16, 17, 18];
    for n in EDGES {
        let given: &[Argument] = &[("x", &x), ("n", &[n])];
        match n {
            0..2 => gives(text, &[("N", 9)], given, &[x[n as usize + 7]]),
            // `and` evaluates both sides.
            n if n > MAX - 7 => fails(text, &[("N", 9)], given),
            _ => gives(text, &[("N", 9)], given, &[-1]),
        }
    }
}

#[test]
fn facts_about_scalars_do_not_wrap() {
    let text = "kernel k(x: i32[N], n: index) -> (y: i32) {
    assume(n >= 0 and n + 7 < N)
    y = x[n + 7]
}
";
    let x = [10, 11, 12, 13, 14, 15, 16, 17, 18];
    for n in EDGES {
        let given: &[Argument] = &[("x", &x), ("n", &[n])];
        match n {
            0..2 => gives(text, &[("N", 9)], given, &[x[n as usize + 7]]),
            _ => fails(text, &[("N", 9)], given),
        }
    }
}

#[test]
fn a_fact_in_a_loop_is_checked() {
    let text = "kernel k(x: i32[N], p: index[R]) -> (y: i32[R]) {
    for r in 0..R {
        assume(p[r] >= 0 and p[r] < N)
        y[r] = x[p[r]]
    }
}
";
    let x = [10, 11, 12];
    for p in EDGES {
        let given: &[Argument] = &[("x", &x), ("p", &[0, p])];
        match p {
            0..3 => gives(text, &[("N", 3), ("R", 2)], given, &[10, x[p as usize]]),
            _ => fails(text, &[("N", 3), ("R", 2)], given),
        }
    }
}

/// Every operator on two scalars, as a subscript and as a value.
#[test]
fn operators_on_scalars_do_not_wrap() {
    let ops = [
        "a + b",
        "a - b",
        "a * b",
        "a // b",
        "a % b",
        "tdiv(a, b)",
        "trem(a, b)",
        "-a",
        "abs(a)",
        "min(a, b)",
        "max(a, b)",
        "shl(a, b)",
        "shr(a, b)",
        "a * a",
        "4 * a",
        "a - 5",
        "5 - a",
        "a * -3",
    ];
    for op in ops {
        let text = format!(
            "kernel k(x: i32[N], a: index, b: index) -> (y: i64[2]) {{
    y[0] = i64({op})
    y[1] = i64(x[min(max({op}, 0), N - 1)])
}}
"
        );
        let kernel = super::run::Kernel::new(&text, "naive").unwrap_or_else(|e| panic!("{text}\n{e}"));
        let pool = lathe::Pool::new(1).expect("a thread");
        let build = |engine| lathe::Build { engine, opt_level: 1, ..lathe::Build::default() };
        let built = [lathe::Engine::LLVM, lathe::Engine::C]
            .map(|e| lathe::compile(&kernel.schedule, &build(e)).unwrap_or_else(|e| panic!("{text}\n{e}")));
        let x: Vec<i64> = (0..5).collect();
        for (a, b) in EDGES.iter().flat_map(|a| EDGES.map(|b| (*a, b))) {
            let want = super::run::exact(op, a.into(), b.into());
            let given: &[Argument] = &[("x", &x), ("a", &[a]), ("b", &[b])];
            let arguments = kernel.arguments(&[("N", 5)], given);
            let want = want.map(|v| vec![vec![v, v.clamp(0, 4)]]);
            let mut got = vec![
                kernel.interpreted(kernel.source(), &arguments),
                kernel.interpreted(&kernel.schedule.plain, &arguments),
            ];
            for b in &built {
                let mut arrays: Vec<lathe::Array> =
                    arguments.iter().map(|a| lathe::convert::from_value(a).expect("an array")).collect();
                let called = b.call(&pool, &mut arrays).map_err(|e| e.to_string());
                got.push(
                    called
                        .map(|()| vec![lathe::convert::to_values(&arrays).expect("values")[3].to_i64_vec()]),
                );
            }
            for (who, got) in got.into_iter().enumerate() {
                assert_eq!(got.as_ref().ok(), want.as_ref(), "{who}: {op} of {a} and {b}: {got:?}");
            }
        }
    }
}

#[test]
fn conversions_to_index_keep_their_value() {
    let text = "kernel k(x: i32[N], p: u64[R]) -> (y: i32[R]) {\n    y[r] = x[index(p[r])]\n}\n";
    let x = [10, 11, 12];
    gives(text, &[("N", 3), ("R", 1)], &[("x", &x), ("p", &[2])], &[12]);
    // 2^63 and more, as bits.
    for p in [MIN, -1, MAX] {
        fails(text, &[("N", 3), ("R", 1)], &[("x", &x), ("p", &[p])]);
    }
    let text = "kernel k(p: u64[R]) -> (y: i64[R]) {\n    y[r] = i64(index(p[r]) // 2)\n}\n";
    gives(text, &[("R", 1)], &[("p", &[MAX])], &[MAX / 2]);
    fails(text, &[("R", 1)], &[("p", &[-2])]);
}

/// Loops whose ends are scalars: what is written is what lies between them.
#[test]
fn loops_end_at_the_ends_of_64_bits() {
    let count = "kernel k(a: index, b: index) -> (y: i64[2]) {
    y[0] = 0
    y[1] = 0
    for i in a..b STEP {
        y[0] += 1
        y[1] = i64(i)
    }
}
";
    let ends = [
        (MAX - 3, MAX, 1),
        (MAX - 3, MAX, 2),
        (MAX - 3, MAX, 3),
        (MAX - 3, MAX, 7),
        (MAX, MAX, 1),
        (MAX, MIN, 1),
        (MIN, MIN + 3, 1),
        (MIN, MIN + 3, 2),
        (5, -5, 3),
        (0, 0, 1),
        (MIN, MAX, P62),
        (-5, MAX, MAX),
        (MIN, MAX, MAX),
        (MAX - 1, MAX, MAX),
    ];
    for (a, b, step) in ends {
        let text = count.replace("STEP", &if step == 1 { String::new() } else { format!("step {step}") });
        let all: Vec<i128> =
            (0..).map(|k| i128::from(a) + k * i128::from(step)).take_while(|i| *i < i128::from(b)).collect();
        let last = all.last().copied().unwrap_or(0) as i64;
        gives(&text, &[], &[("a", &[a]), ("b", &[b])], &[all.len() as i64, last]);
    }
}

#[test]
fn writes_at_computed_places_stay_inside() {
    let text = "kernel k(y: inout i32[N], a: index, b: index) {
    for i in a..b {
        y[i - a + 2] = 1
    }
}
";
    let y = [0; 6];
    gives(text, &[("N", 6)], &[("y", &y), ("a", &[MAX - 3]), ("b", &[MAX])], &[0, 0, 1, 1, 1, 0]);
    gives(text, &[("N", 6)], &[("y", &y), ("a", &[MIN]), ("b", &[MIN + 4])], &[0, 0, 1, 1, 1, 1]);
    gives(text, &[("N", 6)], &[("y", &y), ("a", &[MAX]), ("b", &[MIN])], &[0; 6]);
    fails(text, &[("N", 6)], &[("y", &y), ("a", &[MAX - 9]), ("b", &[MAX])]);
    fails(text, &[("N", 6)], &[("y", &y), ("a", &[MIN]), ("b", &[MAX])]);
}

/// A sum of `index` values fails where a part of it, in order, overflows 64 bits.
#[test]
fn sums_of_index_values_fail_where_they_leave_64_bits() {
    let sum = "kernel k(p: index[R]) -> (y: index) {\n    y = sum[r](p[r])\n}\n";
    let product = "kernel k(p: index[R]) -> (y: index) {\n    y = prod[r](p[r])\n}\n";
    let prefix = "kernel k(p: index[R]) -> (y: index[R]) {\n    y[r] = scan(sum)[r](p[r])\n}\n";
    let into =
        "kernel k(y: inout index[1], p: index[R]) {\n    for r in 0..R {\n        y[0] += p[r]\n    }\n}\n";
    gives(sum, &[("R", 3)], &[("p", &[MAX, -1, 1])], &[MAX]);
    fails(sum, &[("R", 3)], &[("p", &[MAX, 1, -1])]);
    gives(product, &[("R", 3)], &[("p", &[P62, -2, 0])], &[0]);
    fails(product, &[("R", 3)], &[("p", &[P62, 2, -1])]);
    gives(prefix, &[("R", 3)], &[("p", &[5, -7, 2])], &[5, -2, 0]);
    fails(prefix, &[("R", 2)], &[("p", &[MIN, -1])]);
    gives(into, &[("R", 2)], &[("y", &[3]), ("p", &[4, 5])], &[12]);
    fails(into, &[("R", 2)], &[("y", &[3]), ("p", &[4, MAX])]);
}

/// What a value is compared with may be a product of sizes that no memory could hold.
#[test]
fn products_of_sizes_do_not_wrap() {
    let text = "kernel k(x: i32[N], y: i32[M]) -> (z: i64) {\n    z = i64(N * N * N * M)\n}\n";
    let x = [0; 3];
    gives(text, &[("N", 3), ("M", 3)], &[("x", &x), ("y", &x)], &[81]);
}

/// A product is the same number with its factors in any order, and fits no better for it.
#[test]
fn products_in_another_order_do_not_wrap() {
    let text = "kernel k(x: i64[N], y: inout i64[M], a: index) {\n    y[M * max(a, N)] = 3\n}\n";
    for a in [P62, P62 / 2, MAX] {
        fails(text, &[("N", 1), ("M", 8)], &[("x", &[0]), ("y", &[0; 8]), ("a", &[a])]);
    }
    gives(text, &[("N", 0), ("M", 8)], &[("x", &[]), ("y", &[7; 8]), ("a", &[0])], &[3, 7, 7, 7, 7, 7, 7, 7]);
    fails(text, &[("N", 1), ("M", 8)], &[("x", &[0]), ("y", &[7; 8]), ("a", &[0])]);
}

/// What bounds a product of numbers that are not negative says nothing of others.
#[test]
fn bounds_of_products_are_of_natural_numbers() {
    let text = "kernel k(y: inout i64[1], a: index, b: index) {
    if a <= 9223372036854775807 // max(b, 1) {
        y[0] = select(a * b < 7, 1, 2)
    }
}
";
    for (a, b) in [(P62, -P62), (-P62, P62), (MIN, 3), (MIN, -1), (MAX, MIN)] {
        fails(text, &[], &[("y", &[0]), ("a", &[a]), ("b", &[b])]);
    }
    gives(text, &[], &[("y", &[0]), ("a", &[3]), ("b", &[2])], &[1]);
    gives(text, &[], &[("y", &[0]), ("a", &[P62]), ("b", &[2])], &[0]);
}

/// Arithmetic of literals is that of the type that it gets.
#[test]
fn literals_do_not_wrap() {
    let text =
        "kernel k(n: index) -> (y: i64) {\n    y = select(n <= -(-9223372036854775807 - 1), 1, 0)\n}\n";
    fails(text, &[], &[("n", &[5])]);
    let text =
        "kernel k(n: index) -> (y: i64) {\n    y = select(n <= (-9223372036854775807 - 1) // -1, 1, 0)\n}\n";
    fails(text, &[], &[("n", &[5])]);
    let text = "kernel k(n: i64) -> (y: i64) {\n    y = select(n <= -(-9223372036854775807 - 1), 1, 0)\n}\n";
    gives(text, &[], &[("n", &[5])], &[0]);
}

#[test]
fn abs_of_a_literal_is_a_literal() {
    let whole = "kernel k(y: inout i64[1]) {
    if abs(2 - 5) != 4 {
        y[0] = abs(-7) * 2
    }
}
";
    gives(whole, &[], &[("y", &[0])], &[14]);
    let least = "kernel k(y: inout i64[1]) {
    if abs(-9223372036854775807 - 1) != 4 {
        y[0] = 1
    }
}
";
    fails(least, &[], &[("y", &[0])]);
    fails(
        &least.replace("abs(-9223372036854775807 - 1) != 4", "-(-9223372036854775807 - 1) > 3"),
        &[],
        &[("y", &[0])],
    );
}

/// Equations with a constant that has no negative are not definitions.
#[test]
fn the_least_number_ends_no_search() {
    let text = "kernel k(y: inout i64[1], a: index, b: index) {
    y[a // select((-9223372036854775807 - 1) + a == 0, a, b)] = 1
}
";
    gives(text, &[], &[("y", &[0]), ("a", &[3]), ("b", &[4])], &[1]);
    fails(text, &[], &[("y", &[0]), ("a", &[3]), ("b", &[2])]);
}

/// Bounds whose difference overflows 64 bits, of a loop that is left with nothing but a check.
#[test]
fn bounds_of_empty_loops_may_be_far_apart() {
    let text = "kernel k(p: index[1], y: inout i64[1], a: index, b: index) {
    for i in a..b {
        for j in abs(p[i])..(abs(p[i]) + 0) {
            y[0] = 3
        }
    }
}
";
    for (a, b) in [(i64::MAX, -2147483648), (0, i64::MIN), (5, 5), (0, 1)] {
        gives(text, &[], &[("p", &[7]), ("y", &[9]), ("a", &[a]), ("b", &[b])], &[9]);
    }
}

/// A bound that divides by zero fails, though the loop is empty wherever it does not.
#[test]
fn divisions_by_zero_fail_wherever_they_stand() {
    let empty = "kernel k(y: inout i64[1], b: index) {
    for i in (0 % b)..((0 % b) + 0) step 2147483648 {
        y[0] = 1
    }
}
";
    let gone = "kernel k(y: inout i64[1], b: index) {\n    y[(7 // b) - (7 // b)] = 5\n}\n";
    let wraps = "kernel k(y: inout i64[1], b: i64) {\n    y[index(7 // b) - index(7 // b)] = 5\n}\n";
    let decided = "kernel k(y: inout i64[1], b: i64) {
    if false and 7 // b > 2 {
        y[0] = 3
    }
}
";
    for (text, after) in [(empty, 0), (gone, 5), (wraps, 5), (decided, 0)] {
        gives(text, &[], &[("y", &[0]), ("b", &[2])], &[after]);
        fails(text, &[], &[("y", &[0]), ("b", &[0])]);
    }
    // A loop without an iteration says nothing about its bounds.
    let after = "kernel k(y: inout i64[1], b: index) {
    for i in 3..b {
        y[0] = 2
    }
    y[0] = i64(b // b)
}
";
    gives(after, &[], &[("y", &[0]), ("b", &[2])], &[1]);
    gives(after, &[], &[("y", &[0]), ("b", &[5])], &[1]);
    fails(after, &[], &[("y", &[0]), ("b", &[0])]);
    let guarded = "kernel k(y: inout i64[1], b: index) {
    if b != 0 {
        y[0] = i64(7 % b)
    }
}
";
    gives(guarded, &[], &[("y", &[9]), ("b", &[0])], &[9]);
    gives(guarded, &[], &[("y", &[9]), ("b", &[4])], &[3]);
}
