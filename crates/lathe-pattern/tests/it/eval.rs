//! The reference evaluator.

use lathe_ir::Scalar;
use lathe_ir::interp::ArrayValue;
use lathe_ir::scalar::ScalarValue;
use lathe_pattern::eval::{evaluate, sizes};
use lathe_pattern::{Value, program};

fn floats(shape: &[usize], v: &[f64]) -> Value {
    Value::from_array(&ArrayValue::from_f64(Scalar::F64, shape, v))
}

/// Runs `fun f(a: type) -> ... ` on counting numbers and shows the result.
fn run(text: &str, s: &[(&str, i64)], args: &[Value]) -> String {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    match evaluate(&p, &sizes(s.iter().copied()), args) {
        Ok(v) => format!("{v:?}").replace(".0", ""),
        Err(d) => format!("{}", d.code),
    }
}

fn counting(n: usize) -> Value {
    floats(&[n], &(1..=n).map(|i| i as f64).collect::<Vec<_>>())
}

#[test]
fn item_06_programs_have_values() {
    let a = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = floats(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
    let mm = "fun dot(xs: f64[K], ys: f64[K]) -> f64 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
              fun mm(a: f64[M, K], b: f64[K, N]) -> f64[M, N] = a |> map(|r| transpose(b) |> map(|c| dot(r, c)))";
    let s = [("M", 2), ("K", 3), ("N", 2)];
    assert_eq!(run(mm, &s, &[a.clone(), b.clone()]), "[[7, 8], [16, 17]]");
    let n = [("N", 5)];
    let f = |result: &str, body: &str| {
        run(&format!("fun f(xs: f64[N]) -> {result} = {body}"), &n, &[counting(5)])
    };
    assert_eq!(f("f64[N]", "scan(add, 0, xs)"), "[1, 3, 6, 10, 15]");
    assert_eq!(f("f64[N]", "iterate(3, map(|x| x * 2), xs)"), "[8, 16, 24, 32, 40]");
    assert_eq!(f("f64[N]", "xs |> map(|x| select(x < 3, 0.0, f64(i32(x) // 0)))"), "E1110");
    assert_eq!(f("f64[N]", "xs |> map(|x| select(x < 9, x, f64(i32(x) // 0)))"), "[1, 2, 3, 4, 5]");
    assert_eq!(f("f64[N]", "gather(|i| asIndex(N, N - 1 - index(i)), xs)"), "[5, 4, 3, 2, 1]");
    assert_eq!(f("f64[N]", "scatter(|i| asIndex(N, (index(i) + 2) % N), xs)"), "[4, 5, 1, 2, 3]");
    assert_eq!(f("f64[N]", "scatter(|i| asIndex(N, 0), xs)"), "E1110");
    let back = "reorder(|i| asIndex(N, (index(i) + 1) % N), |i| asIndex(N, (index(i) + N - 1) % N), xs)";
    assert_eq!(f("f64[N]", back), "[2, 3, 4, 5, 1]");
    assert_eq!(f("f64", "(|n: nat, ys: f64[N]| f64(n) + ys[0])(3, xs)"), "4");
    assert_eq!(f("f64[2*N]", "let y = xs in concat(y, y)"), "[1, 2, 3, 4, 5, 1, 2, 3, 4, 5]");
    assert_eq!(f("f64[N]", "xs |> map(exp) |> map(log)"), "[1, 2, 3, 4, 5]");
    let nothing = run(
        "fun f(xs: f64[N]) -> f64[N] = xs |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w[1])",
        &[("N", 0)],
        &[counting(0)],
    );
    assert_eq!(nothing, "[]");
    let pairs = run(
        "fun f(xs: f64[N, M]) -> (f64[N], f64[N])[M] = transpose(xs) |> map(|c| unzip(zip(c, c)))",
        &[("N", 1), ("M", 2)],
        &[floats(&[1, 2], &[3.0, 4.0])],
    );
    assert_eq!(pairs, "[([3], [3]), ([4], [4])]");
    assert_eq!(
        f(
            "f64[N, 2, 3]",
            "generate(N, |i| generate(2, |j| generate(9223372036854775807 // N, |k| 0.0) |> take(3)))"
        ),
        "E1110"
    );
}

#[test]
fn lift_item_26_pads_are_element_wise_right() {
    let pad = |p: &str| run(&format!("fun f(xs: f64[N]) -> f64[N + 5] = {p}"), &[("N", 3)], &[counting(3)]);
    assert_eq!(pad("pad(2, 3, clamp, xs)"), "[1, 1, 1, 2, 3, 3, 3, 3]");
    assert_eq!(pad("pad(2, 3, mirror, xs)"), "[2, 1, 1, 2, 3, 3, 2, 1]");
    assert_eq!(pad("pad(2, 3, wrap, xs)"), "[2, 3, 1, 2, 3, 1, 2, 3]");
    assert_eq!(pad("padValue(2, 3, 7.0, xs)"), "[7, 7, 1, 2, 3, 7, 7, 7]");
    // Fades with distance.
    let damped = "padWith(2, 3, |i, n| f64(select(i < 0, i, n - 1 - i)), xs)";
    assert_eq!(pad(damped), "[-2, -1, 1, 2, 3, -1, -2, -3]");
}

#[test]
fn lift_item_27_slide_has_its_length_and_splits() {
    let f = |n: i64, t: &str, body: &str| {
        run(
            &format!("fun f(xs: f64[N]) -> {t} where N % 2 == 0 = {body}"),
            &[("N", n)],
            &[counting(n as usize)],
        )
    };
    assert_eq!(f(4, "f64[N - 2, 3]", "slide(3, 1, xs)"), "[[1, 2, 3], [2, 3, 4]]");
    assert_eq!(f(6, "f64[N // 2, 2]", "slide(2, 2, xs)"), f(6, "f64[N // 2, 2]", "split(2, xs)"));
    assert_eq!(f(6, "f64[(N - 4) // 2 + 1, 4]", "slide(4, 2, xs)"), "[[1, 2, 3, 4], [3, 4, 5, 6]]");
    assert_eq!(f(4, "f64[N - 2, 3]", "rotateValues(3, id, xs)"), f(4, "f64[N - 2, 3]", "slide(3, 1, xs)"));
}

#[test]
fn lift_item_28_n_dimensional_stencils_are_compositions() {
    let pad2 = "fun pad2(x: f64[M, N]) -> f64[M + 2, N + 2] = x |> pad(1, 1, clamp) |> map(pad(1, 1, clamp))";
    let square = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let s = [("M", 2), ("N", 2)];
    assert_eq!(run(pad2, &s, &[square]), "[[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]");
    let slide2 = "fun slide2(x: f64[M, N]) -> f64[M - 1, N - 1, 2, 2] = x |> map(slide(2, 1)) |> slide(2, 1) |> map(transpose)";
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    let out = run(slide2, &[("M", 3), ("N", 3)], &[floats(&[3, 3], &nine)]);
    assert_eq!(out, "[[[[1, 2], [4, 5]], [[2, 3], [5, 6]]], [[[4, 5], [7, 8]], [[5, 6], [8, 9]]]]");
}

#[test]
fn lift_item_29_each_dimension_has_its_own_boundary() {
    let s = [("M", 2), ("N", 2)];
    let both = "fun f(x: f64[M, N]) -> f64[M + 2, N + 2] = x |> pad(1, 1, wrap) |> map(padValue(1, 1, 0.0))";
    let square = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(run(both, &s, &[square]), "[[0, 3, 4, 0], [0, 1, 2, 0], [0, 3, 4, 0], [0, 1, 2, 0]]");
}

/// Literals have all values of their types.
#[test]
fn extreme_literals_have_their_values() {
    let of = |ty: Scalar, v: ScalarValue, body: &str| {
        let text = format!("fun f(x: {ty}) -> {ty} = {body}");
        run(&text, &[], &[Value::Scalar(v)])
    };
    let u = |v: u64, body: &str| of(Scalar::U64, ScalarValue { ty: Scalar::U64, bits: v }, body);
    let i = |v: i64, body: &str| of(Scalar::I64, ScalarValue::int(Scalar::I64, v), body);
    assert_eq!(u(3, "x + 18446744073709551615"), "2");
    assert_eq!(u(3, "select(x > 9223372036854775808, 1, 9223372036854775809)"), "9223372036854775809");
    assert_eq!(u(7, "reduce(min, 18446744073709551615, generate(2, |i| x))"), "7");
    assert_eq!(i(1, "x + -9223372036854775808"), "-9223372036854775807");
}
