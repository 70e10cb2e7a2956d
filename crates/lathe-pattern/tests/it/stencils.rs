//! Padding by functions beside padding by name.

use lathe_pattern::{eval::sizes, program};

#[test]
fn lift_item_26_padding_reindexes_by_any_function() {
    let text = |pad: &str| format!("fun f(x: f64[N], k: f64) -> f64[N + 3] = x |> {pad} |> map(|v| v * k)");
    let same = |a: &str, b: &str, n: i64| {
        let s = sizes([("N", n)]);
        let (p, q) = (program(&text(a)).unwrap(), program(&text(b)).unwrap_or_else(|d| panic!("{d}")));
        let args = crate::support::arguments(&p, &s, 3);
        let value = |p| lathe_pattern::evaluate(p, &s, &args).unwrap();
        assert_eq!(value(&p), value(&q), "{a} {b} {n}");
    };
    for n in [1, 2, 5] {
        same("pad(1, 2, clamp)", "pad(1, 2, |i, n| min(max(i, 0), n - 1))", n);
    }
    for n in [2, 5] {
        same("pad(1, 2, wrap)", "pad(1, 2, |i, n| (i + n) % n)", n);
        same(
            "pad(1, 2, mirror)",
            "pad(1, 2, |i, n| select(i < 0, -i - 1, select(i >= n, 2 * n - 1 - i, i)))",
            n,
        );
    }
    let d = program(&text("pad(1, 2, |i| i)")).unwrap_err();
    assert!(d.code.0.starts_with("E11"), "{d}");
}
