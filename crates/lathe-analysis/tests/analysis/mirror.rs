//! A buffer that stands for a window: what steps make is accepted, and every single change of it is refused.

use lathe_analysis::{Change, Dimension, stands_for};
use lathe_diagnostics::FileId;
use lathe_ir::{Function, Module, build, text::parse_module};

const READ: [&str; 2] = [
    "func mv(M, N)(A: in i32[M, N], x: in i32[N], y: out i32[M]) stage scheduled {
  for j.o%7 in 0..(N + 3) // 4 {
    for i%5 in 0..M {
      for j.i%8 in 0..min(4, N - j.o * 4) {
        'y'[i, j.o * 4 + j.i]: y[i] sum= A[i, j.o * 4 + j.i] * x[j.o * 4 + j.i] licensed
      }
    }
  }
}
",
    "func mv(M, N)(A: in i32[M, N], x: in i32[N], y: out i32[M]) stage scheduled {
  for j.o%7 in 0..(N + 3) // 4 {
    alloc x.s@10: i32[4] stack
    for c%20 in 0..min(4, N - j.o * 4) {
      'copy(x)'[j.o, j.o * 4 + c]: x.s[c] = x[j.o * 4 + c]
    }
    for i%5 in 0..M {
      for j.i%8 in 0..min(4, N - j.o * 4) {
        'y'[i, j.o * 4 + j.i]: y[i] sum= A[i, j.o * 4 + j.i] * x.s[j.i] licensed
      }
    }
  }
}
",
];

const WRITTEN: [&str; 2] = [
    "func mv(M, N)(A: in i32[M, N], x: in i32[N], y: out i32[M]) stage scheduled {
  for i.o%7 in 0..(M + 3) // 4 {
    for i.i%8 in 0..min(4, M - i.o * 4) {
      'y.init'[i.o * 4 + i.i]: y[i.o * 4 + i.i] = 0:i32
      for j%6 in 0..N {
        'y'[i.o * 4 + i.i, j]: y[i.o * 4 + i.i] sum= A[i.o * 4 + i.i, j] * x[j] licensed
      }
    }
  }
}
",
    "func mv(M, N)(A: in i32[M, N], x: in i32[N], y: out i32[M]) stage scheduled {
  for i.o%7 in 0..(M + 3) // 4 {
    alloc y.s@10: i32[4]
    for i.i%8 in 0..min(4, M - i.o * 4) {
      'y.init'[i.o * 4 + i.i]: y.s[i.i] = 0:i32
      for j%6 in 0..N {
        'y'[i.o * 4 + i.i, j]: y.s[i.i] sum= A[i.o * 4 + i.i, j] * x[j] licensed
      }
    }
    for c%20 in 0..min(4, M - i.o * 4) {
      'copy(y).out'[i.o, i.o * 4 + c]: y[i.o * 4 + c] = y.s[c]
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

/// What the checker says of a program and what became of it; the window begins at 4 times the outer loop.
fn verdict([before, after]: [&str; 2], array: &str) -> Result<usize, String> {
    let ((m, old), (_, new)) = (parse(before), parse(after));
    let lo = build::mul(build::var(&old.body.as_loop().expect("a loop").binder), build::index(4));
    let extent = old.array(array).expect("an array").extents[0].clone();
    let size = build::min(build::index(4), build::sub(extent, lo.clone()));
    let change = Change { module: &m, before: &old, after: &new };
    stands_for(&change, array, &format!("{array}.s"), &[Dimension { lo, size, step: 1 }])
}

#[test]
fn what_stage_makes_is_accepted() {
    assert_eq!(verdict(READ, "x"), Ok(2));
    assert_eq!(verdict(WRITTEN, "y"), Ok(3));
}

#[test]
fn a_wrong_copy_or_redirection_is_refused() {
    let all = [
        // What is copied in: too little, too much, from elsewhere, to elsewhere, and some of it.
        (READ, "x", "c%20 in 0..min(4, N", "c%20 in 0..min(3, N"),
        (READ, "x", "c%20 in 0..min(4, N - j.o * 4)", "c%20 in 0..4"),
        (READ, "x", "c%20 in 0..min(4, N - j.o * 4)", "c%20 in 0..min(4, N - j.o * 4) - 1"),
        (READ, "x", "c%20 in 0..min", "c%20 in 1..min"),
        (READ, "x", "= x[j.o * 4 + c]", "= x[j.o * 4]"),
        (READ, "x", "= x[j.o * 4 + c]", "= x[c]"),
        (READ, "x", "x.s[c] =", "x.s[3 - c] ="),
        (READ, "x", "= x[j.o * 4 + c]", "= x[j.o * 4 + c] + 1:i32"),
        // What is read from it.
        (READ, "x", "* x.s[j.i]", "* x.s[0]"),
        (READ, "x", "* x.s[j.i]", "* x.s[3 - j.i]"),
        // The statement itself.
        (READ, "x", "A[i, j.o * 4 + j.i]", "A[i, j.o * 4]"),
        (READ, "x", "i%5 in 0..M", "i%5 in 0..M - 1"),
        // What is written.
        (WRITTEN, "y", "y.s[i.i] = 0", "y.s[0] = 0"),
        (WRITTEN, "y", "y.s[i.i] sum=", "y.s[3 - i.i] sum="),
        (WRITTEN, "y", "@10: i32[4]", "@10: i32[3]"),
        // What is copied out.
        (WRITTEN, "y", "c%20 in 0..min(4, M", "c%20 in 0..min(3, M"),
        (WRITTEN, "y", "c%20 in 0..min(4, M - i.o * 4)", "c%20 in 0..4"),
        (WRITTEN, "y", "c%20 in 0..min", "c%20 in 1..min"),
        (WRITTEN, "y", "y[i.o * 4 + c] = y.s[c]", "y[i.o * 4 + c] = y.s[0]"),
        (WRITTEN, "y", "y[i.o * 4 + c] = y.s[c]", "y[i.o * 4] = y.s[c]"),
        (WRITTEN, "y", "y[i.o * 4 + c] = y.s[c]", "y[i.o * 4 + c] = 0:i32"),
    ];
    for (texts, array, from, to) in all {
        assert!(texts[1].contains(from), "{from}");
        let after = texts[1].replace(from, to);
        let found = verdict([texts[0], &after], array);
        assert!(found.is_err(), "`{from}` as `{to}` was accepted\n{after}");
    }
    // What reads the array itself, which nothing writes meanwhile, has the same values.
    let after = READ[1].replace("* x.s[j.i]", "* x[j.o * 4 + j.i]");
    verdict([READ[0], &after], "x").expect("the same values");
}
