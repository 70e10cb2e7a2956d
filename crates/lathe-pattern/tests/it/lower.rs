//! Translation to the tree: what it gives is verified, run, and compared with the evaluator.

use crate::support::{agree, refused, tree};
use lathe_ir::text;
use lathe_pattern::{lower, program};

const MM: &str = "
fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
";

#[test]
fn item_09_maps_are_the_loops_that_they_say() {
    let t = tree("fun f(xs: f32[N]) -> f32[N] = xs |> mapSeq(|x| x * 2)");
    assert_eq!(t.matches("for ").count(), 1, "{t}");
    assert!(!t.contains("cpu") && !t.contains("unrolled"), "{t}");
    let t = tree("fun f(xs: f32[N]) -> f32[N] = xs |> mapCpu(|x| x * 2)");
    assert_eq!(t.matches("cpu").count(), 1, "{t}");
    let t = tree("fun f(xs: f32[4]) -> f32[4] = xs |> mapUnroll(|x| x * 2)");
    assert_eq!(t.matches("unrolled").count(), 1, "{t}");
    let t = tree("fun f(xs: f32[N, M]) -> f32[N, M] = xs |> mapGrid(mapBlock(|x| x * 2))");
    assert!(t.contains("grid") && t.contains("block"), "{t}");
    assert_eq!(refused("fun f(xs: f32[N]) -> f32[N] = xs |> mapUnroll(|x| x * 2)"), "E1113");
    for kind in ["mapSeq", "mapCpu", "mapVec(4)", "mapLane"] {
        let f = if kind.contains('(') {
            "fun f(xs: f32[N]) -> f32[N] = xs |> mapVec(4, |x| x * 2 + 1)".to_string()
        } else {
            format!("fun f(xs: f32[N]) -> f32[N] = xs |> {kind}(|x| x * 2 + 1)")
        };
        for n in [0, 1, 4, 7, 13] {
            agree(&f, &[("N", n)]);
        }
    }
}

#[test]
fn item_07_layout_patterns_make_no_temporaries() {
    let f = "fun f(xs: f32[N]) -> f32[N] where N % 4 == 0 = join(split(4, xs)) |> mapSeq(|x| x + 1)";
    let t = tree(f);
    assert!(!t.contains("alloc") && t.matches("for ").count() == 1, "{t}");
    agree(f, &[("N", 12)]);
    let f = "fun f(xs: f32[N, M]) -> f32[M, N] = transpose(xs) |> mapSeq(mapSeq(|x| x + 1))";
    assert!(!tree(f).contains("alloc"));
    agree(f, &[("N", 3), ("M", 5)]);
    // A pipeline of views on both sides of one computation.
    let f = "fun f(xs: f32[N], ys: f32[N]) -> f32[N] where N % 6 == 0 =
        zip(xs, ys) |> split(6) |> map(split(2)) |> map(transpose) |> map(map(id))
        |> mapSeq(mapSeq(mapSeq(|(x, y)| x - y))) |> map(transpose) |> map(join) |> join";
    let t = tree(f);
    // The count of the outermost loop is the one division.
    assert!(!t.contains("alloc") && t.matches("//").count() == 1, "{t}");
    agree(f, &[("N", 18)]);
    agree(f, &[("N", 0)]);
}

#[test]
fn lift_item_30_stencils_read_the_input_alone() {
    let f = "fun f(a: f32[N]) -> f32[N] = a |> pad(1, 1, clamp) |> slide(3, 1) |> mapSeq(|w| w |> reduceSeq(add, 0))";
    let t = tree(f);
    assert_eq!(t.matches("alloc").count(), 1, "the accumulator: {t}");
    for n in [0, 1, 2, 9] {
        agree(f, &[("N", n)]);
    }
    let f =
        "fun f(a: f32[N]) -> f32[N] = a |> pad(1, 1, clamp) |> slide(3, 1) |> mapSeq(|w| w[0] + w[1] + w[2])";
    assert!(!tree(f).contains("alloc"));
    for mode in [
        "pad(2, 2, clamp)",
        "pad(2, 2, mirror)",
        "pad(2, 2, wrap)",
        "padValue(2, 2, 3.5)",
        "padWith(2, 2, |i, n| f32(i))",
    ] {
        let f = format!(
            "fun f(a: f32[N]) -> f32[N] = a |> {mode} |> slide(5, 1) |> mapSeq(|w| w[0] * 3 + w[2] + w[4])"
        );
        for n in [0, 1, 2, 3, 9] {
            agree(&f, &[("N", n)]);
        }
    }
}

#[test]
fn item_08_views_become_one_subscript() {
    // Symbolic chunk lengths are undone too.
    let f = "fun f(xs: f32[N, M]) -> f32[N*M] where M >= 1 = join(xs) |> split(M) |> mapSeq(mapSeq(|x| x + 1)) |> join";
    let t = tree(f);
    assert!(!t.contains("//") && !t.contains('%'), "{t}");
}

#[test]
fn item_10_reductions_have_one_accumulator() {
    let f = "fun f(xs: f32[N]) -> f32 = xs |> reduceSeq(|a, x| a + x * x, 0)";
    let t = tree(f);
    assert_eq!((t.matches("alloc").count(), t.matches("register").count()), (1, 1), "{t}");
    for n in [0, 1, 5] {
        agree(f, &[("N", n)]);
    }
    // An array of accumulators.
    let f = "fun f(xs: f32[N, M]) -> f32[M] = xs |> reduceSeq(|acc, row| zip(acc, row) |> mapSeq(|(a, x)| a + x), generate(M, |i| 0.0)) |> mapSeq(|x| x)";
    let t = tree(f);
    assert_eq!(t.matches("alloc").count(), 1, "{t}");
    for (n, m) in [(0, 3), (2, 0), (4, 5)] {
        agree(f, &[("N", n), ("M", m)]);
    }
    // Tuples, and unrolled.
    agree(
        "fun f(xs: f32[7]) -> (f32, i32) = xs |> reduceUnroll(|(a, n), x| (max(a, x), n + 1), (0.0, 0))",
        &[],
    );
    agree(
        "fun f(xs: f32[N]) -> (f32, f32) = xs |> reduceSeq(|(a, b), x| (b, a + x), (0.0, 1.0))",
        &[("N", 5)],
    );
}

#[test]
fn accumulators_that_an_operator_permutes_are_buffered_twice() {
    let f = "fun f(xs: f32[N], z: f32[4]) -> f32[4] =
        xs |> reduceSeq(|acc, x| gather(|i| asIndex(4, 3 - index(i)), acc) |> mapSeq(|a| a + x), z |> mapSeq(|x| x)) |> mapSeq(|x| x)";
    assert_eq!(tree(f).matches("alloc").count(), 2);
    for n in [0, 1, 2, 5] {
        agree(f, &[("N", n)]);
    }
    // What a name inside of the loop holds is read there.
    let f = "fun f(xs: f32[N], z: f32[4]) -> f32[4] =
        xs |> reduceSeq(|acc, x| acc |> mapSeq(|a| let y = acc[0] * 2 in a + y * x), z |> mapSeq(|v| v)) |> mapSeq(|v| v)";
    assert_eq!(tree(f).matches("alloc").count(), 2);
    agree(f, &[("N", 3)]);
    // Pairs are named, and stay in place.
    let f = "fun f(xs: f32[N], z: (f32, f32)[4]) -> (f32, f32)[4] =
        xs |> reduceSeq(|acc, x| acc |> mapSeq(|(a, b)| (b + x, a * x)), z |> mapSeq(|v| v)) |> mapSeq(|v| v)";
    assert_eq!(tree(f).matches("alloc").count(), 2, "one buffer for each part");
    agree(f, &[("N", 3)]);
    // The second part reads the first, which is written before.
    let f = "fun f(xs: f32[N], z: f32[4]) -> (f32[4], f32[4]) =
        xs |> reduceSeq(|(a, b), x| (a |> mapSeq(|v| v + x), zip(a, b) |> mapSeq(|(v, w)| v + w)), (z |> mapSeq(|v| v), z |> mapSeq(|v| v)))
           |> |p| (p.0 |> mapSeq(|v| v), p.1 |> mapSeq(|v| v))";
    agree(f, &[("N", 3)]);
    // A prefix sum within the operator reads elements that it does not write at the same time.
    let f = "fun f(xs: f32[N], z: f32[4]) -> f32[4] =
        xs |> reduceSeq(|acc, x| acc |> scanSeq(|a, b| a + b, x), z |> mapSeq(|x| x)) |> mapSeq(|x| x)";
    agree(f, &[("N", 3)]);
}

#[test]
fn item_11_to_mem_allocates_once() {
    let f = "fun f(xs: f32[N]) -> f32[N] = toMem(host, xs |> mapSeq(|x| x * 2), |t| zip(t, gather(|i| asIndex(N, N - 1 - index(i)), t)) |> mapSeq(|(a, b)| a - b))";
    let t = tree(f);
    assert_eq!(t.matches("alloc").count(), 1, "{t}");
    agree(f, &[("N", 5)]);
    let f = "fun f(xs: f32[N, 4]) -> f32[N, 4] = xs |> mapCpu(|row| toMem(register, row |> mapUnroll(|x| x * x), |t| transpose(split(2, t)) |> join |> mapUnroll(|x| x + t[0])))";
    agree(f, &[("N", 5)]);
    assert_eq!(
        refused("fun f(xs: f32[N]) -> f32[N] = toMem(register, xs |> mapSeq(id), |t| t |> mapSeq(id))"),
        "E1113"
    );
}

#[test]
fn item_12_vectors_are_lanes() {
    let f = "fun f(xs: f32[N]) -> f32[N] where N % 8 == 0 = xs |> asVector(8) |> mapSeq(mapVec(|x| x * 2 + 1)) |> asScalar";
    let t = tree(f);
    assert!(t.contains("vector(8)") && !t.contains("alloc") && t.matches("//").count() == 1, "{t}");
    agree(f, &[("N", 16)]);
    // Functions of pairs, and functions that reduce.
    let f = "fun f(xs: f32[N], ys: f32[N]) -> f32[N] = zip(xs, ys) |> mapVec(8, |(x, y)| x * y)";
    let t = tree(f);
    for n in [0, 1, 8, 13, 24] {
        agree(f, &[("N", n)]);
    }
    assert!(t.contains("vector(8)"), "{t}");
    let f = "fun f(xs: f32[N, K]) -> f32[N] = xs |> mapVec(4, |r| r |> reduceSeq(add, 0))";
    for n in [0, 1, 4, 6] {
        agree(f, &[("N", n), ("K", 3)]);
    }
    // A vector as accumulator.
    let f = "fun f(xs: f32[N]) -> f32[8] where N % 8 == 0 = xs |> asVector(8) |> mapSeq(mapVec(|x| x + 1)) |> asScalar |> take(8)";
    assert_eq!(refused(f), "E1112");
}

#[test]
fn item_13_the_same_term_gives_the_same_tree_and_high_level_terms_are_refused() {
    let f = "fun f(xs: f32[N]) -> f32[N] where N % 4 == 0 = xs |> split(4) |> mapSeq(mapVec(4, |x| x + 1)) |> join";
    let once = |t: &str| text::print_module(&lower::lower_to_module(&program(t).unwrap()).unwrap());
    assert_eq!(once(f), once(f));
    for (body, code) in [
        ("f32[N] = xs |> map(|x| x + 1)", "E1111"),
        ("f32 = xs |> reduce(add, 0)", "E1111"),
        ("f32[N] = xs |> scan(add, 0)", "E1111"),
        ("f32[N] = xs |> iterate(2, mapSeq(|x| x + 1))", "E1111"),
        ("f32[N] = xs |> mapSeq(|x| [x][0])", "E1101"),
    ] {
        let text = format!("fun f(xs: f32[N]) -> {body}");
        if code == "E1101" {
            assert!(program(&text).is_err());
            continue;
        }
        let d = lower::lower(&program(&text).unwrap()).unwrap_err();
        assert_eq!(d.code.0, code, "{text}: {d}");
        let m = &d.marks[0];
        let shown = &text[m.span.start as usize..m.span.end as usize];
        assert!(body.contains(&format!("{shown}(")), "{shown}");
    }
    assert_eq!(refused(&format!("{MM} fun f(a: f32[K], b: f32[K]) -> f32 = dot(a, b)")), "E1111");
}

#[test]
fn item_14_implicit_temporaries_are_refused() {
    for body in [
        "f32[N] = xs |> mapSeq(|x| x + 1) |> mapSeq(|x| x * 2)",
        "f32 = xs |> mapSeq(|x| x + 1) |> reduceSeq(add, 0)",
        "f32[N] = xs",
        "f32[N] = scanSeq(add, 0, xs) |> mapSeq(|x| x)",
    ] {
        assert_eq!(refused(&format!("fun f(xs: f32[N]) -> {body}")), "E1112", "{body}");
    }
}

#[test]
fn all_low_level_patterns_agree_with_the_evaluator() {
    for (f, sizes) in [
        ("fun f(xs: f32[N]) -> f32[N] = xs |> scanSeq(|a, x| a + x, 0)", &[("N", 7)][..]),
        ("fun f(xs: f32[N]) -> f32[N] = xs |> iterateSeq(5, mapSeq(|x| x * 2))", &[("N", 3)]),
        (
            "fun f(xs: f32[N]) -> f32[N] = xs |> iterateSeq(4, |ys| ys |> pad(1, 1, wrap) |> slide(3, 1) |> mapSeq(|w| w[0] + w[1] + w[2]))",
            &[("N", 5)],
        ),
        ("fun f(xs: f32[N]) -> f32[N] = xs |> iterateSeq(2, mapSeq(|x| x * 2))", &[("N", 3)]),
        ("fun f(xs: f32[N]) -> f32[N] = xs |> iterateUnroll(1, mapSeq(|x| x * 2))", &[("N", 3)]),
        ("fun f(x: f32) -> f32 = x |> iterateSeq(6, |x| x * 2)", &[]),
        (
            "fun f(xs: f32[N]) -> f32[N] = xs |> pad(1, 1, clamp) |> rotateValues(3, |x| x) |> mapSeq(|w| w[0] + 2 * w[1] + w[2])",
            &[("N", 6)],
        ),
        (
            "fun f(xs: f32[N]) -> f32[N] = xs |> pad(1, 1, clamp) |> rotateValues(3, |x| x) |> mapSeq(|w| w |> reduceUnroll(add, 0))",
            &[("N", 0)],
        ),
        (
            "fun f(xs: f32[N]) -> f32[N] = xs |> pad(2, 2, wrap) |> circularBuffer(8, 5, |x| x * x) |> mapSeq(|w| w[0] + w[4])",
            &[("N", 6)],
        ),
        (
            "fun f(xs: f32[M, N]) -> f32[M, N] = xs |> pad(1, 1, clamp) |> circularBuffer(3, 3, mapSeq(|x| x * 2)) |> mapSeq(|rows| transpose(rows) |> mapSeq(|c| c[0] + c[2]))",
            &[("N", 4), ("M", 5)],
        ),
        (
            "fun f(xs: f32[M, N]) -> f32[M, N] = xs |> pad(1, 1, clamp) |> map(pad(1, 1, mirror)) |> map(slide(3, 1)) |> slide(3, 1) |> map(transpose) |> mapCpu(mapSeq(|w| w[0][1] + w[1][0] + w[1][1] + w[1][2] + w[2][1]))",
            &[("N", 4), ("M", 5)],
        ),
        (
            "fun f(xs: f32[M, N], ys: f32[M, N]) -> (f32, f32)[M, N] = zip(xs, ys) |> mapSeq(|(a, b)| zip(a, b) |> mapSeq(|(x, y)| (y, x)))",
            &[("N", 4), ("M", 5)],
        ),
        ("fun f(xs: (f32, i32)[N]) -> i32[N] = xs |> mapSeq(|(a, b)| b + i32(a))", &[("N", 4)]),
        (
            "fun f(xs: f32[N]) -> (f32[N], f32) = (xs |> mapSeq(|x| x + 1), xs |> reduceSeq(add, 0))",
            &[("N", 4)],
        ),
        ("fun f(xs: f32[N]) -> (f32[N], f32[N]) = xs |> mapSeq(|x| (x, x * 2)) |> unzip", &[("N", 4)]),
        (
            "fun f(xs: f32[N]) -> f32[2*N] = concat(xs |> mapSeq(|x| x + 1), xs |> mapVec(4, |x| x * 2))",
            &[("N", 6)],
        ),
        (
            "fun f(xs: f32[N]) -> f32[N] = scatter(|i| asIndex(N, N - 1 - index(i)), xs |> mapSeq(|x| x + 1))",
            &[("N", 6)],
        ),
        (
            "fun f(xs: f32[N]) -> f32[N] = xs |> mapSeq(|x| x + 1) |> reorder(|i| asIndex(N, (index(i) + 1) % N), |i| asIndex(N, (index(i) + N - 1) % N))",
            &[("N", 6)],
        ),
        (
            "fun f(xs: f32[N], c: bool) -> f32[N] = select(c, xs |> mapSeq(|x| x + 1), xs |> mapSeq(|x| x * 2))",
            &[("N", 6)],
        ),
        ("fun f(xs: f32[N], i: idx<N>) -> f32 = let x = xs[i] in x * x + exp(x)", &[("N", 6)]),
        (
            "fun f(xs: f32[N]) -> f32[N, N] = generate(N, |i| generate(N, |j| select(index(i) < index(j), xs[i], 0)))",
            &[("N", 4)],
        ),
        ("fun f(xs: f32[N]) -> f32[N - 2] = xs |> drop(1) |> take(N - 2) |> mapSeq(|x| x)", &[("N", 4)]),
        (
            "fun f(xs: f32[N]) -> f32[N] = (|n: nat, ys: f32[N]| ys |> mapSeq(|y| y + f32(n)))(3, xs)",
            &[("N", 4)],
        ),
        (
            "fun f(xs: f32[N]) -> f32[N] = let g = xs[0] in xs |> mapSeq(|x| select(x < g, x, fma(x, g, x)))",
            &[("N", 4)],
        ),
        (
            "fun f(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> mapCpu(|row| transpose(b) |> mapSeq(|col| zip(row, col) |> reduceSeq(|s, (x, y)| s + x * y, 0)))",
            &[("M", 3), ("K", 4), ("N", 5)],
        ),
        ("fun f(xs: f64[N]) -> f64[N] = xs |> mapSeq(|x| x / 0.0 - x)", &[("N", 5)]),
        ("fun f(xs: i8[N]) -> i8[N] = xs |> mapSeq(|x| x * x * x + 100)", &[("N", 9)]),
    ] {
        agree(f, sizes);
    }
}
