//! Reductions without identity, which begin with their first element.

use crate::common::*;
use lathe_ir::{Function, Module};

const LARGER: &str = "
op larger(a, b): i64 associative commutative = select(a[] > b[], a[], b[])
func f(M, N)(x: in i64[M, N], y: out i64[M]) stage plain {
  compute 'y' over i in 0..M, j in 0..N reduce(larger) { y[i]! = x[i, j]! * 3:i64 }
}";

/// The function does the same for any number of rows, and at least one element in each.
fn some_elements(m: &Module, f: &Function) {
    for n in [1, 2, 3, 4, 5, 8, 9, 17] {
        for rows in [0, 1, 3, 7] {
            same(m, "f", f, &[("M", rows), ("N", n)]);
        }
    }
}

#[test]
fn what_starts_with_its_first_element_is_materialized_whole() {
    let m = parse(
        "func f(N)(x: in i64[N], s: out i64[]) stage plain {
        for i in 0..N + 1 {
          if i == 0 { 's.init'[i]: s[]! = x[min(i, N - 1)]! } else { 's'[i]: s[]! max= x[min(i, N - 1)]! licensed }
        } }",
    );
    for n in [1, 2, 9] {
        let f = schedule(&m, "f", "materialize(s); split(s.map.i, 4)");
        same(&m, "f", &f, &[("N", n)]);
        assert_eq!(show(&f).matches("x[").count(), 1, "{}", show(&f));
    }
}

#[test]
fn parts_start_with_their_first_element() {
    let m = parse(LARGER);
    for steps in [
        "split(j, 4); privatize(y, j.o); parallel(j.o)",
        "split(j, 4); factor(y, j.i, at: j.o); vectorize(j.i, 4)",
        "split(j, 4); factor(y, j.i); vectorize(j.i, 4)",
        "split(j, 8); split(j.i, 4); privatize(y, j.o); factor(y.p, j.i.i, at: j.i.o); parallel(j.o)",
        "split(j, 4); reorder(j.o, i, j.i); privatize(y, j.o); bind(j.o, grid)",
    ] {
        let f = schedule(&m, "f", &format!("open(); {steps}"));
        assert!(!show(&f).contains("private("), "{}", show(&f));
        some_elements(&m, &f);
    }
}

/// Parts without an element combine nothing.
#[test]
fn parts_that_are_empty_are_left_out() {
    let m = parse(
        "func f(M, N)(x: in i64[M, N], y: out i64[M]) stage plain {
          check 0 < N, \"empty-reduction\", \"nothing\"
          for r in 0..4 { for i in 0..M { for q in 0..(N - r + 3) // 4 {
            if r == 0 and q == 0 { 'y.init'[i, r + q * 4]: y[i]! = x[i, r + q * 4]! }
            else { 'y'[i, r + q * 4]: y[i]! max= x[i, r + q * 4]! licensed }
          } } } }",
    );
    for (steps, guard) in [
        ("privatize(y, r); parallel(r)", "if 0 < (N - "),
        ("split(q, 2); privatize(y, r); privatize(y.p, q.o, at: q.o)", "if 0 <"),
        ("reorder(i, r, q); factor(y, q, at: q); privatize(y, r)", "if 0 <"),
    ] {
        let f = schedule(&m, "f", steps);
        assert!(show(&f).contains(guard), "{}", show(&f));
        some_elements(&m, &f);
    }
}

/// Where a reduction begins in the statement, there is nothing to copy in; where it goes on, there is.
#[test]
fn a_box_begins_with_the_first_element_and_goes_on_from_the_others() {
    let m = parse(LARGER);
    for (steps, text) in [
        ("stage(y, at: i)", ""),
        ("split(j, 4); reorder(j.o, i, j.i); stage(y, at: i)", "if 0 < j.o"),
        (
            "split(j, 4); split(i, 3); reorder(j.o, i.o, i.i, j.i); stage(y, at: i.o, space: register, pad: true)",
            "if 0 < j.o",
        ),
        (
            "split(j, 4); reorder(j.o, j.i, i); stage(y, at: j.o); stage(y.s, at: j.i)",
            "if 0 < j.o or 0 < j.i",
        ),
        (
            "split(j, 8); split(j.i, 4); reorder(j.o, j.i.o, i, j.i.i); accumulate(y, at: j.i.o, space: host)",
            "if 0 < j.o",
        ),
        ("split(j, 4); reorder(j.o, i, j.i); stage(y, at: i); unroll(j.i, 2); split(i, 2)", ""),
    ] {
        let f = schedule(&m, "f", &format!("open(); {steps}"));
        assert!(show(&f).contains(text), "{}", show(&f));
        some_elements(&m, &f);
    }
    // Begun in reverse: the first instance that runs is not the one that stores.
    let m = parse(
        "func f(M, N)(x: in i64[M, N], y: inout i64[M]) stage plain {
           for i in 0..M { for j in 0..N {
             if j == 1 { 'y.init'[i, j]: y[i]! = x[i, j]! } else { 'y'[i, j]: y[i]! max= x[i, j]! licensed }
           } } }",
    );
    let f = schedule(&m, "f", "stage(y, at: i)");
    assert!(!show(&f).contains("if 0 < "), "{}", show(&f));
    all_sizes(&m, "f", "stage(y, at: i)", &["M", "N"]);
}
