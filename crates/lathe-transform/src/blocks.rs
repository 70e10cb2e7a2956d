//! Full blocks and remainders: shared by `unroll`, `vectorize` and `unroll_and_jam`.

use crate::nest::{substitute, trip_count};
use crate::split::iteration;
use crate::work::Work;
use lathe_ir::build::{add, floor_div, index, max, mul, var};
use lathe_ir::names::Role;
use lathe_ir::{Executor, Loop, Stmt, StmtKind};

/// A loop cut into full blocks of `factor` iterations, `i.o` and `i.i`, and a loop `i.rest` over the
/// fewer than `factor` iterations that are left (`None` where the factor divides).
pub struct Blocks {
    /// `i.o` without its body.
    pub outer: Loop,
    /// `i.i`: constantly `factor` iterations.
    pub inner: Loop,
    pub rest: Option<Stmt>,
}

/// Blocks of a serial loop; `exec` runs the inner loop, `rest_exec` the rest. Names are `i.o`, `i.i`.
pub fn blocks(
    work: &mut Work,
    l: &Loop,
    at: &Stmt,
    factor: i64,
    path: &[usize],
    rest_exec: Executor,
) -> Blocks {
    let n = trip_count(l);
    let divides = work.ranges(path).divides(factor, &n);
    // A loop that ends before it starts has no full blocks, and nothing is left of it either.
    let some = if work.ranges(path).le(&index(0), &n) { n.clone() } else { max(n.clone(), index(0)) };
    let full = floor_div(some, index(factor));
    let outer = work.part(Role::Outer, &l.binder);
    let inner = work.part(Role::Inner, &l.binder);
    let count = add(mul(var(&outer), index(factor)), var(&inner));
    let body = substitute(&l.body, l.binder.id, iteration(l, count));
    let rest = (!divides).then(|| {
        let binder = work.part(Role::Rest, &l.binder);
        let done = mul(full.clone(), index(factor));
        let value = iteration(l, add(done.clone(), var(&binder)));
        let body = substitute(&l.body, l.binder.id, value);
        let body = work.copy_as(Role::Rest, &body);
        let hi = lathe_ir::build::sub(n.clone(), done);
        let rest = Loop { binder, lo: index(0), hi, step: 1, exec: rest_exec, body };
        Stmt::new(StmtKind::Loop(rest), at.places().clone())
    });
    let serial = |binder, hi, body| Loop { binder, lo: index(0), hi, step: 1, exec: Executor::Serial, body };
    Blocks { outer: serial(outer, full, Stmt::empty()), inner: serial(inner, index(factor), body), rest }
}
