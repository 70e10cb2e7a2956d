//! `split`: one loop becomes two.

use crate::args::Args;
use crate::nest::{serial, substitute, trip_count};
use crate::rule;
use crate::work::Work;
use lathe_ir::build::{add, ceil_div, index, min, mul, sub, var};
use lathe_ir::names::Role;
use lathe_ir::{Executor, Loop, Stmt};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `split(i, 8)` replaces the loop `i` over `n` iterations by `i.o` over blocks and `i.i` over the (at most 8)
    /// iterations of a block: `i = 8*i.o + i.i`. Where 8 does not divide `n`, the last block is shorter; the bound of
    /// `i.i` says so: `min(8, n - 8*i.o)`. With two more names, `split(i, 8, block, lane)`, the loops get those. All
    /// loops that the name denotes are split.
    ///
    /// **Legal** always: the order of the iterations stays. The loop must be serial: split before `parallel` or
    /// `vectorize`.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = split(i, 8)
    /// ```
    pub static RULE = split, version 1,
        (loop: one Loop, factor: one Int, outer: optional Word, inner: optional Word),
        apply,
        "strip-mining: splits the iterations of a loop into blocks, `i` becomes `i.o` and `i.i`";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let factor = args.positive(work.rule(), "factor", 1)?;
    let outer = args.opt_path(work.rule(), "outer", 2)?;
    let inner = args.opt_path(work.rule(), "inner", 3)?;
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        let new = split(work, &l, &s, factor, (outer.as_deref(), inner.as_deref()));
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Blocks)?;
    }
    Ok(())
}

/// How messages call an executor.
pub fn executor_word(e: &Executor) -> String {
    match e {
        Executor::Serial => "serial".to_string(),
        Executor::Unrolled => "unrolled".to_string(),
        Executor::Vector(w) => format!("vectorized by {w}"),
        Executor::InScan(w) => format!("a scan by {w} lanes"),
        Executor::Cpu => "parallel".to_string(),
        Executor::Team => "run by teams".to_string(),
        Executor::Device => "run by devices".to_string(),
        Executor::Node => "run by nodes".to_string(),
        Executor::Level(l) => format!("run by `{l}`"),
    }
}

/// The two loops of a split; names are `i.o` and `i.i` unless given.
pub fn split(work: &mut Work, l: &Loop, at: &Stmt, factor: i64, names: (Option<&str>, Option<&str>)) -> Stmt {
    let mut part = |role: Role, given: Option<&str>| match given {
        Some(name) => work.part_called(name, role, &l.binder),
        None => work.part(role, &l.binder),
    };
    let (outer, inner) = (part(Role::Outer, names.0), part(Role::Inner, names.1));
    let n = trip_count(l);
    let start = mul(var(&outer), index(factor));
    let value = iteration(l, add(start.clone(), var(&inner)));
    let body = substitute(&l.body, l.binder.id, value);
    let inner_hi = min(index(factor), sub(n.clone(), start));
    let block = serial(inner, index(0), inner_hi, body, at.places());
    serial(outer, index(0), ceil_div(n, factor), block, at.places())
}

/// The value of the loop variable in an iteration counted from 0.
pub fn iteration(l: &Loop, count: lathe_ir::Expr) -> lathe_ir::Expr {
    add(l.lo.clone(), mul(count, index(l.step)))
}
