//! Neighbourhoods in two and three dimensions, as compositions.

use crate::support::agree_on;
use lathe_pattern::library::transform;
use lathe_pattern::{check::check, eval::sizes, program};

fn after(text: &str, strategy: &str, s: &[(&str, i64)]) -> String {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    let (q, _) = transform(&p, strategy).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{d}"));
    agree_on(&q, &sizes(s.iter().copied()), 11);
    lathe_ir::text::print_module(&crate::support::lowered(&q))
}

const SLIDE2: &str = "map(slide(3, 1)) |> slide(3, 1) |> map(transpose)";
const PAD2: &str = "pad(1, 1, clamp) |> map(pad(1, 1, clamp))";
/// Innermost dimension first; windows move inwards by transposes.
const PAD3: &str = "pad(1, 1, clamp) |> map(pad(1, 1, clamp)) |> map(map(pad(1, 1, clamp)))";
const SLIDE3: &str = "map(map(slide(3, 1)) >> slide(3, 1) >> map(transpose)) |> slide(3, 1) |> map(transpose) |> map(map(transpose))";

#[test]
fn lift_item_31_stencils_in_two_and_three_dimensions() {
    let two = [("M", 4), ("N", 5)];
    let cross = "|w| w[1][1] + w[0][1] + w[1][0] + w[1][2] + w[2][1]";
    let nine = "|w| join(w) |> reduce(add, 0)";
    for f in [cross, nine] {
        let text = format!("fun f(x: f64[M, N]) -> f64[M, N] = x |> {PAD2} |> {SLIDE2} |> map(map({f}))");
        let t = after(&text, "lowerToC", &two);
        let reduces = usize::from(f == nine);
        assert_eq!((t.matches("alloc").count(), t.matches("for ").count()), (reduces, 2 + reduces), "{t}");
    }
    // 25 points, each row of a window on its own.
    let text = "fun f(x: f64[M, N]) -> f64[M, N] = x |> pad(2, 2, mirror) |> map(pad(2, 2, wrap)) |> map(slide(5, 1)) |> slide(5, 1) |> map(transpose)
        |> map(map(|w| w |> map(|r| r |> reduce(add, 0)) |> reduce(add, 0)))";
    after(text, "DFNF ; topDown(fuseReduceMap) ; lowerToC", &two);
    let three = [("L", 3), ("M", 4), ("N", 2)];
    let seven =
        "|w| w[1][1][1] * 2 + w[0][1][1] + w[2][1][1] + w[1][0][1] + w[1][2][1] + w[1][1][0] - w[1][1][2]";
    let text =
        format!("fun f(x: f64[L, M, N]) -> f64[L, M, N] = x |> {PAD3} |> {SLIDE3} |> map(map(map({seven})))");
    let t = after(&text, "lowerToC", &three);
    assert!(!t.contains("alloc"), "{t}");
    // 13 points, two in each direction; 19 points, all but the corners.
    let wide = |p: &str| p.replace("(1, 1,", "(2, 2,").replace("slide(3, 1)", "slide(5, 1)");
    let thirteen =
        "|w| w[2][2][2] - w[0][2][2] + 2 * w[1][2][2] + w[3][2][2] + w[4][2][2] + w[2][0][2] - w[2][1][2]
        + w[2][3][2] + 3 * w[2][4][2] + w[2][2][0] + w[2][2][1] - w[2][2][3] + w[2][2][4]";
    let nineteen =
        "|w| join(join(w)) |> reduce(add, 0) |> |s| s - w[0][0][0] - w[0][0][2] - w[0][2][0] - w[0][2][2]
        - w[2][0][0] - w[2][0][2] - w[2][2][0] - w[2][2][2]";
    for (f, pad, slide) in
        [(thirteen, wide(PAD3), wide(SLIDE3)), (nineteen, PAD3.to_string(), SLIDE3.to_string())]
    {
        let text =
            format!("fun f(x: f64[L, M, N]) -> f64[L, M, N] = x |> {pad} |> {slide} |> map(map(map({f})))");
        after(&text, "lowerToC", &three);
    }
    // The window is what it should be: the neighbours in each dimension.
    let text = format!(
        "fun f(x: f64[L, M, N]) -> f64[L, M, N] = x |> {PAD3} |> {SLIDE3} |> map(map(map(|w| join(join(w)) |> reduce(add, 0))))"
    );
    after(&text, "lowerToC", &three);
}

#[test]
fn lift_item_32_acoustics_is_one_kernel() {
    // Two time steps and a mask that is made on the fly: the number of neighbours inside of the room.
    let text = format!("
        fun acoustic(prev: f64[L, M, N], cur: f64[L, M, N]) -> f64[L, M, N] =
            zip(prev, zip(cur |> padValue(1, 1, generate(M, |j| generate(N, |k| 0.0))) |> map(padValue(1, 1, generate(N, |k| 0.0))) |> map(map(padValue(1, 1, 0.0))) |> {SLIDE3},
                generate(L, |i| generate(M, |j| generate(N, |k|
                    f64(select(index(i) > 0, index(1), index(0)) + select(index(i) < L - 1, index(1), index(0)) + select(index(j) > 0, index(1), index(0))))))))
            |> map(|(p, q)| zip(p, zip(q.0, q.1)) |> map(|(p, q)| zip(p, zip(q.0, q.1)) |> map(|(p, q)|
                let s = q.0[0][1][1] + q.0[2][1][1] + q.0[1][0][1] + q.0[1][2][1] + q.0[1][1][0] + q.0[1][1][2] in
                (2.0 - q.1) * q.0[1][1][1] + s - q.1 * p)))");
    let t = after(&text, "lowerToC", &[("L", 3), ("M", 2), ("N", 4)]);
    assert!(!t.contains("alloc") && t.matches("for ").count() == 3, "{t}");
}

#[test]
fn item_49_overlapped_tiling_in_one_and_two_dimensions() {
    let one = "fun f(x: f64[N]) -> f64[N] where N % 4 == 0 = x |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0))";
    let t = after(one, "DFNF ; topDown(tileStencil(6)) ; lowerToC", &[("N", 12)]);
    assert!(t.contains("N // 4"), "{t}");
    // Along the rows of a grid, by the same rule.
    let two = format!(
        "fun f(x: f64[M, N]) -> f64[M, N] where M % 2 == 0 = x |> {PAD2} |> {SLIDE2} |> map(map(|w| w[0][1] + w[2][1]))"
    );
    after(&two, "DFNF ; topDown(tileSlide(4)) ; DFNF ; lowerToC", &[("M", 4), ("N", 5)]);
    // Tiles whose size does not fit are refused.
    let fixed = program("fun f(x: f64[10]) -> f64[8] = x |> slide(3, 1) |> map(|w| w[0])").unwrap();
    assert!(transform(&fixed, "DFNF ; topDown(tileStencil(5))").is_err());
    assert!(transform(&fixed, "DFNF ; topDown(tileStencil(6))").is_ok());
}

#[test]
fn lift_item_34_tiles_in_one_two_and_three_dimensions() {
    let sum = "|w| w |> reduce(add, 0)";
    let one = format!("fun f(x: f64[N]) -> f64[N] = x |> pad(1, 1, clamp) |> slide(3, 1) |> map({sum})");
    let cross = "|w| w[1][1] + 2 * w[0][1] - w[1][0] + w[1][2] + 3 * w[2][1]";
    let two = format!("fun f(x: f64[M, N]) -> f64[M, N] = x |> {PAD2} |> {SLIDE2} |> map(map({cross}))");
    let seven =
        "|w| w[1][1][1] + 2 * w[0][1][1] - w[2][1][1] + w[1][0][1] + w[1][2][1] + w[1][1][0] - w[1][1][2]";
    let three =
        format!("fun f(x: f64[L, M, N]) -> f64[L, M, N] = x |> {PAD3} |> {SLIDE3} |> map(map(map({seven})))");
    // Whole tiles: loops over tiles come before those inside.
    let t = after(&one, "inLambda(tileStencilND(6)) ; lowerToC", &[("N", 12)]);
    assert!(t.contains("% 4 == 0") && t.contains("N // 4"), "{t}");
    let t = after(&two, "inLambda(tileStencilND(4, 6)) ; lowerToC", &[("M", 4), ("N", 8)]);
    let loops: Vec<&str> = t.lines().filter_map(|l| l.trim().strip_prefix("for ")).collect();
    assert_eq!(loops.len(), 4, "{t}");
    assert!(loops[0].contains("M // 2") && loops[1].contains("N // 4"), "{t}");
    assert!(loops[2].contains("0..2") && loops[3].contains("0..4") && !t.contains("alloc"), "{t}");
    let t = after(&three, "inLambda(tileStencilND(4, 4, 6)) ; lowerToC", &[("L", 4), ("M", 2), ("N", 8)]);
    let loops: Vec<&str> = t.lines().filter_map(|l| l.trim().strip_prefix("for ")).collect();
    assert_eq!(loops.len(), 6, "{t}");
    assert!(loops[0].contains("L // 2") && loops[2].contains("N // 4") && !t.contains("alloc"), "{t}");
    // Any sizes: what is left over is computed by windows, and the call checks nothing about divisibility.
    for n in [1, 2, 5, 8, 11] {
        let t = after(&one, "inLambda(tileStencilRestND(6)) ; lowerToC", &[("N", n)]);
        assert!(!t.contains("% 4 == 0"), "{t}");
    }
    for (m, n) in [(1, 1), (3, 7), (5, 9), (4, 8)] {
        after(&two, "inLambda(tileStencilRestND(4, 6)) ; lowerToC", &[("M", m), ("N", n)]);
    }
    after(&three, "inLambda(tileStencilRestND(4, 3, 6)) ; lowerToC", &[("L", 3), ("M", 2), ("N", 5)]);
    let p = program(&two).unwrap();
    let d = transform(&p, "inLambda(tileStencilND())").unwrap_err();
    assert_eq!(d.code.0, "E0606", "{d}");
}

#[test]
fn lift_item_26_padding_reindexes_by_any_function() {
    let text = |pad: &str| format!("fun f(x: f64[N], k: f64) -> f64[N + 3] = x |> {pad} |> map(|v| v * k)");
    let same = |a: &str, b: &str, n: i64| {
        let s = sizes([("N", n)]);
        let (p, q) = (program(&text(a)).unwrap(), program(&text(b)).unwrap_or_else(|d| panic!("{d}")));
        let args = crate::support::arguments(&p, &s, 3);
        let value = |p| lathe_pattern::evaluate(p, &s, &args).unwrap();
        assert_eq!(value(&p), value(&q), "{a} {b} {n}");
        after(&text(b), "lowerToC", &[("N", n)]);
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
    // Reflected without the border, which no name has; rows of pairs; names that the function uses itself.
    after(
        &text("pad(1, 2, |xs, i| select(xs < 0, -xs, select(xs >= i, 2 * i - 2 - xs, xs)))"),
        "lowerToC",
        &[("N", 5)],
    );
    let pairs = "fun f(x: (f64, f64)[M, N]) -> f64[M + 2, N] = x |> pad(1, 1, |i, n| (i + n) % n) |> map(map(|(a, b)| a * b))";
    after(pairs, "lowerToC", &[("M", 2), ("N", 3)]);
    let d = program(&text("pad(1, 2, |i| i)")).unwrap_err();
    assert!(d.code.0.starts_with("E11"), "{d}");
}

#[test]
fn tuples_are_elements_everywhere() {
    let s = [("M", 3), ("N", 4)];
    for text in [
        "fun f(x: (f64, f64)[N]) -> (f64, f64)[N] = x |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| (w[0].0 + w[2].1, w[1].1))",
        "fun f(x: (f64, f64)[M, N]) -> (f64, f64)[N, M] = transpose(x) |> map(map(|(a, b)| (b, a)))",
        "fun f(x: (f64, i32)[N]) -> (f64, i32) = x |> reduceSeq(|a, y| (a.0 + y.0, max(a.1, y.1)), (0.0, 0))",
        "fun f(x: (f64, f64)[N]) -> (f64, f64)[N] = x |> scan(|a, y| (a.0 + y.0, max(a.1, y.1)), (0.0, 0.0))",
        "fun f(x: (f64, f64)[N]) -> (f64, f64)[2 * N] = concat(x, gather(|i| asIndex(N, N - 1 - index(i)), x)) |> map(|p| p)",
        "fun f(x: (f64, (f64, i32))[N]) -> (f64, i32)[N] = x |> map(|p| (p.0 * p.1.0, p.1.1))",
        "fun f(x: (f64, f64)[N]) -> (f64, f64)[N] = x |> iterate(3, map(|(a, b)| (b, a + b)))",
    ] {
        after(text, "naive", &s);
    }
    let stored = "fun f(x: f64[N]) -> f64[N] = toMem(stack, x |> mapSeq(|v| (v, v * v)), |p| p |> mapSeq(|(a, b)| a + b))";
    let fixed = stored.replace("[N]", "[4]");
    after(&fixed, "id", &s);
}

#[test]
fn lift_item_36_windows_of_constant_size_are_unrolled() {
    let text =
        "fun f(x: f64[N]) -> f64[N] = x |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0))";
    let t = after(text, "topDown(unroll @ innermost(isReduce)) ; lowerToC", &[("N", 7)]);
    assert!(t.contains("0..3 unrolled"), "{t}");
    let open = program("fun f(x: f64[N, M]) -> f64[N] = x |> map(|w| w |> reduce(add, 0))").unwrap();
    assert!(transform(&open, "unroll @ innermost(isReduce)").is_err());
}

#[test]
fn binomial_filters_agree() {
    // Naive, separated, and with a rotating window: weights 1 2 1.
    let naive = format!("fun f(x: f64[M, N]) -> f64[M, N] = x |> {PAD2} |> {SLIDE2}
        |> map(map(|w| w[0][0] + 2 * w[0][1] + w[0][2] + 2 * w[1][0] + 4 * w[1][1] + 2 * w[1][2] + w[2][0] + 2 * w[2][1] + w[2][2]))");
    let s = [("M", 5), ("N", 6)];
    after(&naive, "lowerToC", &s);
    after(&naive, "DFNF ; parallelOuter ; lowerToC", &s);
    let separated = format!("fun f(x: f64[M, N]) -> f64[M, N] = x |> {PAD2} |> slide(3, 1)
        |> map(|rows| transpose(rows) |> map(|c| c[0] + 2 * c[1] + c[2]) |> slide(3, 1) |> map(|w| w[0] + 2 * w[1] + w[2]))");
    after(&separated, "DFNF ; writeCopies ; tryAll(storeIntermediate(host)) ; lowerToC", &s);
    let rotated = format!("fun f(x: f64[M, N]) -> f64[M, N] = x |> {PAD2} |> slide(3, 1)
        |> mapCpu(|rows| transpose(rows) |> map(|c| c) |> rotateValues(3, mapSeq(|v| v)) |> mapSeq(|w| (w[0][0] + 2 * w[0][1] + w[0][2]) + 2 * (w[1][0] + 2 * w[1][1] + w[1][2]) + (w[2][0] + 2 * w[2][1] + w[2][2])))");
    after(&rotated, "lowerToC", &s);
}

#[test]
fn lift_item_35_tiles_are_kept_in_shared_memory() {
    // One block per tile: its lanes load the tile together, and then compute.
    let text = "fun f(x: f64[N]) -> f64[N] where N % 4 == 0 = x |> pad(1, 1, clamp) |> slide(6, 4)
        |> mapBlock(|tile| toMem(shared, tile |> mapLane(|v| v), |t| t |> slide(3, 1) |> mapLane(|w| w[0] + w[1] + w[2]))) |> join";
    let t = after(text, "id", &[("N", 12)]);
    assert!(t.contains("alloc t: f64[6] shared") && t.contains("block"), "{t}");
    // Two phases of lanes in one block: one boundary between them.
    assert_eq!(t.matches("level(lane)").count(), 2, "{t}");
    // The untiled program gives the same.
    let plain = "fun f(x: f64[N]) -> f64[N] where N % 4 == 0 = x |> pad(1, 1, clamp) |> slide(3, 1) |> mapSeq(|w| w[0] + w[1] + w[2])";
    let (p, q) = (program(text).unwrap(), program(plain).unwrap());
    let s = sizes([("N", 12)]);
    let args = crate::support::arguments(&p, &s, 5);
    let value = |p| lathe_pattern::evaluate(p, &s, &args).unwrap();
    assert_eq!(value(&p), value(&q));
}
