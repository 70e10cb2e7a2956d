//! The same statements in the same order by other loops: what steps make is accepted, and every single change is refused.

use lathe_analysis::{Change, same_runs};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

const LOOP: &str = "func f(N, M)(A: in f32[N], B: inout f32[N]) stage plain {
  for i%4 in 0..N {
    if A[i] > 0.0:f32 {
      'B'[i]: B[i] = A[i] + B[N - 1 - i]
    }
    'B.2'[i]: B[i] sum= A[i]
  }
}
";

/// A body with its iteration, and names of binders that are no others'.
fn body(at: &str) -> String {
    format!(
        "if A[{at}] > 0.0:f32 {{
      'B'[{at}]: B[{at}] = A[{at}] + B[N - 1 - ({at})]
    }}
    'B.2'[{at}]: B[{at}] sum= A[{at}]"
    )
}

fn with(loops: &str) -> String {
    format!("func f(N, M)(A: in f32[N], B: inout f32[N]) stage plain {{\n{loops}\n}}\n")
}

fn split() -> String {
    let inner = body("o * 8 + i");
    with(&format!("for o%7 in 0..(N + 7) // 8 {{ for i%8 in 0..min(8, N - o * 8) {{ {inner} }} }}"))
}

fn cut() -> String {
    let (first, rest) = (body("i"), body("r"));
    with(&format!(
        "for i%4 in 0..max(0, min(M, N)) {{ {first} }}\nfor r%7 in max(0, min(M, N))..N {{ {rest} }}"
    ))
}

fn unrolled() -> String {
    let (one, two, rest) = (body("o * 2"), body("o * 2 + 1"), body("r"));
    with(&format!("for o%7 in 0..N // 2 {{ {one}\n{two} }}\nfor r%8 in N // 2 * 2..N {{ {rest} }}"))
}

fn verdict(after: &str) -> Result<usize, String> {
    verdict_of(LOOP, after)
}

fn verdict_of(before: &str, after: &str) -> Result<usize, String> {
    let read = |text: &str| {
        let m = parse_module(FileId(0), text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
        let f = m.functions.values().next().expect("a function").clone();
        (m, f)
    };
    let ((m, old), (_, new)) = (read(before), read(after));
    same_runs(&Change { module: &m, before: &old, after: &new }).expect("short bounds")
}

#[test]
fn blocks_parts_and_copies_are_accepted() {
    for after in [split(), cut(), unrolled(), LOOP.to_string()] {
        assert!(verdict(&after).is_ok(), "{:?}\n{after}", verdict(&after));
    }
}

#[test]
fn other_iterations_or_orders_are_refused() {
    let all = [
        (split(), "o%7 in 0..(N + 7) // 8", "o%7 in 0..N // 8"),
        (split(), "o%7 in 0..(N + 7) // 8", "o%7 in 1..(N + 7) // 8"),
        (split(), "o%7 in 0..(N + 7) // 8", "o%7 in 0..(N + 7) // 8 cpu"),
        (split(), "min(8, N - o * 8)", "min(7, N - o * 8)"),
        (split(), "min(8, N - o * 8)", "8"),
        (split(), "i%8 in 0..", "i%8 in 1.."),
        (split(), "o * 8 + i", "o * 8 + 7 - i"),
        (split(), "o * 8 + i", "o * 7 + i"),
        (split(), "sum= A[o * 8 + i]", "sum= A[o * 8]"),
        (split(), "'B.2'[o * 8 + i]", "'B.2'[o * 8]"),
        (split(), "> 0.0:f32", "> 1.0:f32"),
        (cut(), "max(0, min(M, N))..N", "max(0, min(M, N)) - 1..N"),
        (cut(), "max(0, min(M, N))..N", "max(0, min(M, N)) + 1..N"),
        (cut(), "0..max(0, min(M, N))", "0..M"),
        (cut(), "0..max(0, min(M, N))", "1..max(0, min(M, N))"),
        (unrolled(), "0..N // 2", "0..(N + 1) // 2"),
        (unrolled(), "N // 2 * 2..N", "N // 2..N"),
        (unrolled(), "B[o * 2 + 1] sum= A[o * 2 + 1]", "B[o * 2 + 1] sum= A[o * 2]"),
        (unrolled(), "B[N - 1 - (o * 2 + 1)]", "B[N - (o * 2 + 1)]"),
    ];
    for (text, from, to) in all {
        assert!(text.contains(from), "{from}\n{text}");
        let after = text.replace(from, to);
        assert!(verdict(&after).is_err(), "`{from}` as `{to}` was accepted\n{after}");
    }
}

#[test]
fn the_loops_in_copies_have_other_names() {
    let nest = |i: &str, j: &str, ends: &str, inner: &str| {
        format!(
            "for {i} in {ends} {{ for {j} in {inner} {{ 'C'[i, j]: C[i, j] = C[i, j] + B[j] }}
            'B'[i]: B[i] = C[i, 0] }}"
        )
        .replace("[i", &format!("[{}", i.split('%').next().expect("a name")))
        .replace("j]", &format!("{}]", j.split('%').next().expect("a name")))
    };
    let with = |loops: String| {
        format!(
            "func f(N, M)(B: inout f32[N], C: inout f32[N, M]) stage plain {{
            {loops}
            }}"
        )
    };
    let before = with(nest("i%5", "j%6", "0..N", "0..M"));
    let cut = |inner: &str| {
        let first = nest("i%5", "j%6", "0..min(4, N)", "0..M");
        with(format!("{first}\n{}", nest("r%7", "s%8", "min(4, N)..N", inner)))
    };
    let verdict = |after: String| verdict_of(&before, &after);
    assert!(verdict(cut("0..M")).is_ok(), "{:?}", verdict(cut("0..M")));
    assert!(verdict(cut("1..M")).is_err());
    assert!(verdict(cut("0..M - 1")).is_err());
    assert!(verdict(cut("0..M cpu")).is_err());
}
