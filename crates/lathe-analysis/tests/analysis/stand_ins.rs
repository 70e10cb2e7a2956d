//! What is computed again in part, and partial results: what steps make is accepted, and every single change is refused.

use lathe_analysis::{Change, Dimension, Part, combined_from, computed_again};
use lathe_diagnostics::FileId;
use lathe_ir::{Expr, Function, Module, build, text::parse_module};

const AGAIN: [&str; 2] = [
    "func rows(H, W)(A: in f32[H + 2, W], B: out f32[H, W]) stage plain {
  alloc T@9: f32[H + 2, W]
  for y%5 in 0..H + 2 {
    for x%6 in 0..W {
      'T'[y, x]: T[y, x] = 2.0:f32 * A[y, x]
    }
  }
  for o%7 in 0..(H + 3) // 4 {
    for i%8 in 0..min(4, H - o * 4) {
      for j%10 in 0..W {
        'B'[o * 4 + i, j]: B[o * 4 + i, j] = T[o * 4 + i, j] + T[o * 4 + i + 2, j]
      }
    }
  }
}
",
    "func rows(H, W)(A: in f32[H + 2, W], B: out f32[H, W]) stage plain {
  for o%7 in 0..(H + 3) // 4 {
    alloc T@11: f32[6, W]
    for y%5 in 0..min(6, H + 2 - o * 4) {
      for x%6 in 0..W {
        'T'[o, y + o * 4, x]: T[y, x] = 2.0:f32 * A[y + o * 4, x]
      }
    }
    for i%8 in 0..min(4, H - o * 4) {
      for j%10 in 0..W {
        'B'[o * 4 + i, j]: B[o * 4 + i, j] = T[i, j] + T[i + 2, j]
      }
    }
  }
}
",
];

const PARTS: [&str; 2] = [
    "func columns(N, M)(A: in i32[N, M], y: inout i32[M]) stage plain {
  for o%5 in 0..(N + 3) // 4 {
    for i%6 in 0..min(4, N - o * 4) {
      for j%7 in 0..M {
        'y'[o * 4 + i, j]: y[j] sum= A[o * 4 + i, j] licensed
      }
    }
  }
}
",
    "func columns(N, M)(A: in i32[N, M], y: inout i32[M]) stage plain {
  alloc y.p@10: i32[(N + 3) // 4, M]
  for a%20 in 0..(N + 3) // 4 {
    for b%21 in 0..M {
      'private(y)'[a, b]: y.p[a, b] = 0:i32
    }
  }
  for o%5 in 0..(N + 3) // 4 {
    for i%6 in 0..min(4, N - o * 4) {
      for j%7 in 0..M {
        'y'[o * 4 + i, j]: y.p[o, j] sum= A[o * 4 + i, j] licensed
      }
    }
  }
  for b%22 in 0..M {
    for a%23 in 0..(N + 3) // 4 {
      'y.combine'[b, a]: y[b] sum= y.p[a, b] licensed
    }
  }
}
",
];

fn parse(text: &str) -> (Module, Function) {
    let m = parse_module(FileId(0), text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    let f = m.functions.values().next().expect("a function").clone();
    (m, f)
}

/// What the checker says of rows that strips of four compute again, if their window began where `start` says.
fn again([before, after]: [&str; 2], start: fn(Expr) -> Expr) -> Result<usize, String> {
    let ((m, old), (_, new)) = (parse(before), parse(after));
    let size = |name: &str| build::var(old.size(name).expect("a size"));
    let strip = new.body.as_loop().expect("a loop").binder.clone();
    let first = build::mul(build::var(&strip), build::index(4));
    let below = build::sub(build::add(size("H"), build::index(2)), first.clone());
    let rows = Dimension { lo: start(first), size: build::min(build::index(6), below), step: 1 };
    let columns = Dimension { lo: build::index(0), size: size("W"), step: 1 };
    computed_again(&Change { module: &m, before: &old, after: &new }, "T", &[rows, columns])
}

#[test]
fn what_compute_at_makes_is_accepted() {
    assert_eq!(again(AGAIN, |e| e), Ok(3));
}

#[test]
fn a_wrong_part_is_refused() {
    let all = [
        // What is computed: too little, too much, elsewhere, and something else.
        ("y%5 in 0..min(6, H", "y%5 in 0..min(5, H"),
        ("y%5 in 0..min", "y%5 in 1..min"),
        ("y%5 in 0..min(6, H + 2 - o * 4)", "y%5 in 0..6"),
        ("y%5 in 0..min(6, H + 2 - o * 4)", "y%5 in 0..min(6, H + 1 - o * 4)"),
        ("x%6 in 0..W", "x%6 in 1..W"),
        ("T[y, x] =", "T[0, x] ="),
        ("T[y, x] =", "T[5 - y, x] ="),
        ("A[y + o * 4, x]", "A[y, x]"),
        ("2.0:f32 *", "3.0:f32 *"),
        // What is read.
        ("T[i + 2, j]", "T[i + 1, j]"),
        ("T[i, j] +", "T[i, 0] +"),
        ("= T[i, j] + T", "= T[i, j] - T"),
        ("T@11: f32[6, W]", "T@11: f32[5, W]"),
    ];
    for (from, to) in all {
        assert!(AGAIN[1].contains(from), "{from}");
        let after = AGAIN[1].replace(from, to);
        let found = again([AGAIN[0], &after], |e| e);
        assert!(found.is_err(), "`{from}` as `{to}` was accepted\n{after}");
    }
    assert!(again(AGAIN, |e| build::add(e, build::index(1))).is_err());
    assert!(again(AGAIN, |_| build::index(0)).is_err());
}

fn parts([before, after]: [&str; 2]) -> Result<usize, String> {
    let ((m, old), (_, new)) = (parse(before), parse(after));
    let size = build::var(old.size("M").expect("a size"));
    let window = vec![Dimension { lo: build::index(0), size, step: 1 }];
    let own = build::var(&old.body.as_loop().expect("a loop").binder);
    let change = Change { module: &m, before: &old, after: &new };
    let part = Part { array: "y", buffer: "y.p", window };
    combined_from(&change, &[part], &own).expect("parts start from the identity")
}

#[test]
fn what_privatize_makes_is_accepted() {
    assert_eq!(parts(PARTS), Ok(3));
}

#[test]
fn wrong_partial_results_are_refused() {
    let all = [
        // What they start from.
        ("= 0:i32", "= 1:i32"),
        ("a%20 in 0..(N + 3) // 4", "a%20 in 1..(N + 3) // 4"),
        ("b%21 in 0..M", "b%21 in 0..M - 1"),
        ("y.p[a, b] = 0", "y.p[a, 0] = 0"),
        // What is combined into them.
        ("y.p[o, j] sum=", "y.p[0, j] sum="),
        ("y.p[o, j] sum=", "y.p[o, 0] sum="),
        ("y.p[o, j] sum=", "y[j] sum="),
        ("y.p[o, j] sum=", "y.p[o, j] max="),
        ("sum= A[o * 4 + i, j]", "sum= A[o * 4, j]"),
        ("i%6 in 0..min(4", "i%6 in 0..min(3"),
        ("i32[(N + 3) // 4, M]", "i32[N // 4, M]"),
        // What they are combined into, and how often.
        ("y[b] sum= y.p", "y[0] sum= y.p"),
        ("y[b] sum= y.p", "y[b] max= y.p"),
        ("y.p[a, b] licensed", "y.p[0, b] licensed"),
        ("y.p[a, b] licensed", "y.p[a, b] + 1:i32 licensed"),
        ("b%22 in 0..M", "b%22 in 1..M"),
        ("a%23 in 0..(N + 3) // 4", "a%23 in 0..N // 4"),
        ("a%23 in 0..(N + 3) // 4", "a%23 in 0..(N + 7) // 4"),
    ];
    for (from, to) in all {
        assert!(PARTS[1].contains(from), "{from}");
        let after = PARTS[1].replace(from, to);
        let found = parts([PARTS[0], &after]);
        assert!(found.is_err(), "`{from}` as `{to}` was accepted\n{after}");
    }
}

/// The second half of the array is read, the first one is combined into.
const APART: [&str; 2] = [
    "func halves(N, M)(y: inout i32[M * 2]) stage plain {
  for o%5 in 0..N {
    for j%7 in 0..M {
      'y'[o, j]: y[j] sum= y[M + j] licensed
    }
  }
}
",
    "func halves(N, M)(y: inout i32[M * 2]) stage plain {
  alloc y.p@10: i32[N, M]
  for a%20 in 0..N {
    for b%21 in 0..M {
      'private(y)'[a, b]: y.p[a, b] = 0:i32
    }
  }
  for o%5 in 0..N {
    for j%7 in 0..M {
      'y'[o, j]: y.p[o, j] sum= y[M + j] licensed
    }
  }
  for b%22 in 0..M {
    for a%23 in 0..N {
      'y.combine'[b, a]: y[b] sum= y.p[a, b] licensed
    }
  }
}
",
];

#[test]
fn what_is_read_is_apart_from_what_is_combined_into() {
    assert_eq!(parts(APART), Ok(5));
    // The statement is another one.
    for (from, to) in
        [("= y[M + j]", "= y[M]"), ("= y[M + j]", "= y.p[o, j]"), ("y.p[o, j] sum= y", "y[j] sum= y")]
    {
        assert!(APART[1].contains(from), "{from}");
        let found = parts([APART[0], &APART[1].replace(from, to)]);
        assert!(found.is_err(), "`{from}` as `{to}` was accepted");
    }
    // Somebody reads what somebody combines into.
    for to in ["y[j]", "y[M + j - 1]", "y[M - 1 - j]", "y[o]", "y[index(y[M + j])]?"] {
        let [before, after] = APART.map(|t| t.replace("y[M + j]", to));
        let found = parts([&before, &after]);
        assert!(found.is_err(), "`{to}` was accepted");
    }
}
