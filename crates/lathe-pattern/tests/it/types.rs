//! Types of terms: inference, its errors, text both ways.

use lathe_diagnostics::FileId;
use lathe_ir::Name;
use lathe_pattern::infer::{Env, infer};
use lathe_pattern::print::{print, print_fun};
use lathe_pattern::{Fact, Nat, Program, check::check, parse_term, parse_type, program, programs};

const MM: &str = "
fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> map(|row| transpose(b) |> map(|col| dot(row, col)))
";

fn good(text: &str) -> Program {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    check(&p.facts, &p.term, &[]).unwrap_or_else(|d| panic!("{text}: {d}"));
    let again = print_fun(&p);
    let q = program(&again).unwrap_or_else(|d| panic!("{again}: {d}"));
    assert_eq!(q.term, p.term, "{again}");
    p
}

fn bad(text: &str) -> lathe_diagnostics::Diagnostic {
    match program(text) {
        Ok(p) => panic!("{text} is {}", p.term.ty()),
        Err(d) => d,
    }
}

fn type_of(text: &str, params: &[(&str, &str)]) -> String {
    let mut env = Env::default();
    for (n, t) in params {
        let t = parse_type(t).unwrap();
        for v in t.sizes().iter().flat_map(Nat::vars) {
            env.sizes.insert(v, None);
        }
        env.free.insert(Name::from(*n), t);
    }
    let e = parse_term(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    match infer(&env, &e, None) {
        Ok(i) => {
            check(&env.facts, &i.term, &[]).unwrap_or_else(|d| panic!("{text}: {d}"));
            i.term.ty().to_string()
        }
        Err(d) => format!("{}: {}", d.code, d.message),
    }
}

#[test]
fn item_01_terms_print_and_parse() {
    good(MM);
    for text in [
        "fun f(xs: f32[N]) -> f32[N] = let y = 1.5 in xs |> map(|x| select(x < y and not (x == 0), -x, x * (x + y)))",
        "fun f(xs: f32[N]) -> f32[N] where N % 4 == 0 = xs |> split(4) |> map(|c| c |> map(|x| x + f32(size(N)))) |> join",
        "fun f(xs: (f32, i32)[N]) -> (i32, f32)[N] = xs |> map(|(a, b)| (b, a))",
        "fun f(xs: f16[N]) -> f16[N] = xs |> map(|x| select(x < inf, max(x, -inf), nan)) |> scan(min, inf)",
        "fun f(xs: f32[N]) -> f32[N] = (|n: nat, ys: f32[N]| ys |> map(|y| y - f32(n)))(3, xs)",
        "fun f(xs: f32[N]) -> f32[N] = xs |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w[0] + w[1] + w[2])",
        "fun f(xs: f32[N], i: idx<N>) -> f32 = xs[i] - (xs[i] - 2.0 - xs[i])",
        "fun f(x: f32, ys: f32[N]) -> f32[N, 2] = generate(N, |i| generate(2, |j| x * f32(index(i) + 2 * index(j))))",
        "fun f(x: f32[N]) -> f32[N] = toMem(stack, x |> mapSeq(id), |y| y |> mapVec(8, |v| neg(-1.0) + neg(neg(v))))",
        "fun f(x: f32[N]) -> f32[N] = x |> mapSeq(|v| neg(inf) + neg(-inf) + neg(2.0) - -inf - -v)",
        "fun f(x: f32[8]) -> f32[8] = x |> asVector(4) |> mapSeq(mapVec(|v| v * 2)) |> asScalar",
        "fun f(x: f32[8]) -> f32 = x |> reduceSeqIn(stack, |a, y| fma(a, 0.5, y), 0)",
        "fun f(x: u64[N]) -> u64[N] = x |> map(|a| a + 18446744073709551615)",
        "fun f(x: i64[N]) -> i64[N] = x |> map(|a| a + -9223372036854775808)",
        "fun f(x: f64) -> f64 = x + 18446744073709551615",
    ] {
        good(text);
    }
}

#[test]
fn item_02_mm_has_the_published_type() {
    let p = good(MM);
    assert_eq!(p.term.ty().to_string(), "f32[M, K] -> f32[K, N] -> f32[M, N]");
    let d = bad("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| |y| x + y)");
    assert_eq!(d.code.0, "E1105", "{d}");
    let d = bad("fun f(xs: f32[N]) -> f32 = (xs, |y| y).1(2)");
    assert_eq!(d.code.0, "E1105", "{d}");
    let text = print(&p.term, true);
    assert!(text.starts_with("|a: f32[M, K], b: f32[K, N]| a |> map("), "{text}");
}

#[test]
fn item_03_sizes_are_compared_by_their_laws() {
    good("fun f(a: f32[N, M], b: f32[M*N]) -> f32[M*N] = zip(join(a), b) |> map(|(x, y)| x + y)");
    good(
        "fun f(a: f32[N], b: f32[2*N], c: f32[3*N]) -> f32[3*N] = zip(concat(a, b), c) |> map(|(x, y)| x + y)",
    );
    let d = bad("fun f(a: f32[8]) -> f32[8] = a |> split(3) |> join");
    assert_eq!(d.code.0, "E1107", "{d}");
    // What may divide becomes a fact that a call checks.
    let p = good("fun f(a: f32[N]) -> f32[N] = a |> split(4) |> join");
    assert_eq!(p.facts.all(), [Fact::Divides(Nat::constant(4), Nat::var("N"))]);
}

#[test]
fn item_04_primitives_have_their_types() {
    let xs = [
        ("xs", "f32[N]"),
        ("m", "f32[N, M]"),
        ("p", "(f32, i32)[N]"),
        ("z", "f64"),
        ("i", "idx<N>"),
        ("v", "f32[12]"),
    ];
    let cases = [
        ("id(xs)", "f32[N]"),
        ("fst(p[0])", "f32"),
        ("unzip(p)", "(f32[N], i32[N])"),
        ("zip(xs, m)", "(f32, f32[M])[N]"),
        ("join(m)", "f32[M*N]"),
        ("transpose(m)", "f32[M, N]"),
        ("m |> map(reduce(add, 0))", "f32[N]"),
        ("m |> map(transpose)", "E1104: the types `f32` and `?d` differ"),
        ("reduceSeq(|a, (x, k)| a + f64(x) * f64(k), z, p)", "f64"),
        ("scanSeq(|a, x| a + f64(x), z, xs)", "f64[N]"),
        ("scan(add, 0, xs)", "f32[N]"),
        ("reduceUnroll(max, 0, xs)", "f32"),
        ("mapSeq(neg, xs)", "f32[N]"),
        ("mapUnroll(|x| i32(x), xs)", "i32[N]"),
        ("mapCpu(|x| x < 0, xs)", "bool[N]"),
        ("split(4, v)", "f32[3, 4]"),
        ("slide(4, 4, v)", "f32[3, 4]"),
        ("drop(5, v)", "f32[7]"),
        ("asVector(4, v)", "vector<f32, 4>[3]"),
        ("asScalar(asVector(4, v))", "f32[12]"),
        ("asVector(4, v) |> mapSeq(mapVec(|x| f64(x)))", "vector<f64, 4>[3]"),
        ("add", "E1106: the type `?d` is not determined"),
        ("mul(z)", "f64 -> f64"),
        ("select(xs[i] < 0, z, 1)", "f64"),
        ("iterate(3, map(|x| x * 2), xs)", "f32[N]"),
        ("xs |> pad(1, 2, mirror) |> slide(4, 1)", "f32[N, 4]"),
        ("xs |> padValue(N, 0, 0.0)", "f32[2*N]"),
        ("xs |> padWith(1, 1, |j, n| f32(j - n))", "f32[N + 2]"),
        ("xs |> take(0)", "f32[0]"),
        ("generate(4, |j| asIndex(7, index(j) + 2))", "idx<7>[4]"),
        ("gather(|j| i, xs)", "E1106: the type `?d` is not determined"),
        ("generate(4, |j| (index(j), xs))", "(index, f32[N])[4]"),
        ("concat(xs, xs)", "f32[2*N]"),
        ("vectorFromScalar(4, z)", "vector<f64, 4>"),
        ("rotateValues(3, id, xs) |> take(1)", "f32[1, 3]"),
        ("circularBuffer(4, 3, |x| x, xs)", "f32[N - 2, 3]"),
        ("toMem(host, xs, |ys| zip(ys, ys))", "(f32, f32)[N]"),
        ("let k = 2 in i", "idx<N>"),
        ("|n: nat| xs", "(n: nat) -> f32[N]"),
        ("xs[i] + m[i][0]", "f32"),
    ];
    for (text, want) in cases {
        let got = type_of(text, &xs);
        let code = want.len() > 5 && want.starts_with('E') && want.as_bytes()[5] == b':';
        if code {
            assert_eq!(got[..5], want[..5], "{text}: {got}");
        } else {
            assert_eq!(got, want, "{text}");
        }
    }
}

#[test]
fn item_05_reduce_wants_one_type_and_reduce_seq_two() {
    let text = |r: &str| format!("fun f(xs: f32[N], z: f64) -> f64 = xs |> {r}(|a, x| a + f64(x), z)");
    assert_eq!(bad(&text("reduce")).code.0, "E1104");
    good(&text("reduceSeq"));
}

#[test]
fn lift_item_25_sizes_that_differ_are_shown_with_their_places() {
    let text = "fun f(xs: f32[N], ys: f32[M]) -> f32[N] = zip(xs, ys) |> map(|(x, y)| x + y)";
    let d = bad(text);
    assert_eq!(d.code.0, "E1103");
    assert!(d.message.contains("`N` and `M` differ"), "{d}");
    let shown: Vec<(&str, &str)> = d
        .marks
        .iter()
        .map(|m| (&text[m.span.start as usize..m.span.end as usize], m.text.as_str()))
        .collect();
    assert_eq!(shown[0], ("ys", "this has another type: `f32[M]`"));
    assert!(shown.iter().any(|s| s.0 == "xs" && s.1 == "`N` comes from here"), "{shown:?}");
    assert!(shown.iter().any(|s| s.0 == "ys: f32[M]"), "{shown:?}");
    let d = bad(
        "fun f(a: f32[M, K], b: f32[N, K]) -> f32[M, N] = a |> map(|r| transpose(b) |> map(|c| zip(r, c) |> map(|(x, y)| x * y) |> reduce(add, 0)))",
    );
    assert_eq!(d.code.0, "E1103", "{d}");
    // step | n - size
    assert_eq!(bad("fun f(xs: f32[8]) -> f32[3, 3] = slide(3, 2, xs)").code.0, "E1107");
    good("fun f(xs: f32[7]) -> f32[3, 3] = slide(3, 2, xs)");
    assert_eq!(bad("fun f(xs: f32[8]) -> f32[9] = take(9, xs)").code.0, "E1107");
}

#[test]
fn extents_bind_what_they_determine() {
    for text in [
        "fun f(xs: f32[N + 2, N]) -> f32[N] = xs |> map(|r| r |> reduce(add, 0)) |> drop(2)",
        "fun f(w: f32[K], xs: f32[2 * N + K - 1]) -> f32[2 * N] = xs |> slide(K, 1) |> map(|v| v |> reduce(add, 0))",
    ] {
        let p = good(text);
        assert!(p.sizes.iter().any(|s| &**s == "N"), "{text}");
        crate::support::agree(
            &text
                .replace("reduce(", "reduceSeq(")
                .replace("map(", "mapSeq(")
                .replace("|> drop(2)", "")
                .replace("-> f32[N] =", "-> f32[N + 2] ="),
            &[("N", 3), ("K", 2)],
        );
    }
}

#[test]
fn bad_terms_are_refused_with_a_place() {
    for (text, code) in [
        ("fun f(xs: f32[N]) -> f32[N] = map(|x x + x, xs)", "E1101"),
        ("fun f(xs: f32[N]) -> f32[N] = mop(|x| x + x, xs)", "E1102"),
        ("fun f(xs: f32[N]) -> f32[Q] = xs", "E1102"),
        ("fun f(xs: f32[N + M]) -> f32[N + M] = xs", "E1102"),
        ("fun f(xs: f32[N * N]) -> f32[N * N] = xs", "E1102"),
        ("fun f(xs: f32[N // 2]) -> f32[N // 2] = xs", "E1102"),
        ("fun f(xs: f32[N]) -> f32[N] = transpose(xs)", "E1104"),
        ("fun f(xs: f32[N]) -> f32[N] = xs + xs", "E1104"),
        ("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x, y| x)", "E1105"),
        ("fun f(xs: f32[N]) -> f32 = xs(1)", "E1108"),
        ("fun f(xs: f32[N]) -> f32[2, 4] = split(xs)", "E1108"),
        ("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x.0)", "E1104"),
        ("fun f(x: i8) -> i8 = x + 300", "E1104"),
        ("fun f(x: i64) -> i64 = x + 9223372036854775808", "E1104"),
        ("fun f(x: i64) -> i64 = x - -9223372036854775809", "E1104"),
        ("fun f(x: u64) -> u64 = x + -1", "E1104"),
        ("fun f(x: u64) -> u64 = x + 18446744073709551616", "E1101"),
        ("fun f(x: f32[N]) -> f32[18446744073709551615] = generate(18446744073709551615, |i| 1.0)", "E1109"),
        ("fun f(x: f32) -> f32 = 1e", "E1101"),
        (
            "fun f(x: f32) -> f32[9223372036854775807 * 9223372036854775807] = generate(9223372036854775807 * 9223372036854775807, |i| x)",
            "E1109",
        ),
        ("fun f(i: idx<N>, xs: f32[N]) -> idx<N> = i + 1", "E1104"),
        ("fun f(x: f32) -> f32 = (|y| y(y))(x)", "E1105"),
        ("fun f(x: f32) -> f32 = ~x", "E1101"),
        ("fun f(x: f32) -> f32 = x fun f(x: f32) -> f32 = x", "E1108"),
    ] {
        let d = bad(text);
        assert_eq!(d.code.0, code, "{text}: {d}");
        assert!(!d.marks.is_empty(), "{text}: {d}");
    }
    let deep = format!("fun f(x: f32) -> f32 = {}x{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(bad(&deep).code.0, "E1101");
    let long = [" |> map(neg)", " + x", " >> neg", ".0", "[0]", "(x)", " or x"];
    for part in long {
        let text = format!("fun f(x: f32) -> f32 = x{}", part.repeat(100_000));
        assert_eq!(bad(&text).code.0, "E1101", "{part}");
    }
    let doubled: String =
        (1..12).fold("fun f0(x: f32[N]) -> f32[N] = x |> map(|v| v + 1)".to_string(), |t, n| {
            let m = n - 1;
            format!("{t} fun f{n}(x: f32[N]) -> f32[N] = f{m}(f{m}(x))")
        });
    assert_eq!(bad(&doubled).code.0, "E1101");
    assert!(programs(FileId(0), "").unwrap().is_empty());
}

#[test]
fn complex_numbers_have_arithmetic_and_no_order() {
    for (text, code) in [
        ("fun f(x: c64[N]) -> bool[N] = x |> map(|z| z < z)", "E1104"),
        ("fun f(x: c64[N]) -> c64 = x |> reduce(max, 0)", "E1104"),
        ("fun f(x: c64[N]) -> f32[N] = x |> map(|z| f32(z))", "E1104"),
        ("fun f(x: c64[N]) -> c64[N] = x |> map(|z| erf(z))", "E1104"),
        ("fun f(x: c64[N]) -> c64[N] = x |> map(abs)", "E1104"),
        ("fun f(x: c64[N], y: c128[N]) -> c64[N] = zip(x, y) |> map(|(a, b)| a * b)", "E1104"),
        ("fun f(x: c64[N], y: f32[N]) -> c64[N] = zip(x, y) |> map(|(a, b)| a * b)", "E1104"),
        ("fun f(x: f32[N]) -> f32[N] = x |> map(|a| real(a))", "E1104"),
        ("fun f(x: i32[N]) -> c64[N] = x |> map(|a| complex(a, a))", "E1104"),
        ("fun f(x: c64[N]) -> c64[N] = x |> map(|z| z % z)", "E1104"),
        ("fun f(x: f32[N]) -> f32[N] = x |> map(|a| a * 2.0i)", "E1104"),
    ] {
        assert_eq!(bad(text).code.0, code, "{text}");
    }
    good("fun f(x: c64[M, N]) -> f32[M, N] = x |> map(map(|z| abs(z) * real(z) + abs(abs(imag(z)))))");
    good("fun f(x: c128[N]) -> c128[N] = x |> map(|z| 2.0i * z - 1i + 3)");
    good("fun f(x: (c64, f32)[N], w: c64) -> c64[N] = x |> map(|(z, r)| conj(z) * c64(r) + w * exp(z))");
}
