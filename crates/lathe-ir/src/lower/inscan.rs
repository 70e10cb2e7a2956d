//! Loops whose lanes combine in order, and what they mean, written out.
//!
//! Each iteration adds to a running value and uses what that is by then. The running values of a whole vector are
//! computed by doubling: in the first step every lane takes in the lane before it, then what the lane two before has
//! by now, then four (W. D. Hillis, G. L. Steele, *Data parallel algorithms*, CACM 1986). In the terms of OpenMP 5.0,
//! §2.9.5, that is an inclusive `scan` in a `simd` loop.

use crate::build::{add, index, load, var};
use crate::expr::{Access, Expr, ExprKind, View};
use crate::func::Function;
use crate::ids::{Binder, BufId, VarId};
use crate::lower::recurrence::Recurrence;
use crate::module::Module;
use crate::ops::{BinOp, ReduceOp, UnOp};
use crate::reduce;
use crate::stmt::{Executor, Loop, Reduce, Stmt, StmtKind, Store};
use crate::types::Scalar;
use crate::visit;
use std::collections::HashMap;
use std::sync::Arc;

/// The parts of a loop's body.
pub struct InScan<'a> {
    pub width: u32,
    /// What every iteration adds.
    pub reduce: &'a Reduce,
    /// The running value, an array without dimensions.
    pub acc: BufId,
    pub ty: Scalar,
    /// The stores that use it.
    pub uses: &'a [Stmt],
}

impl InScan<'_> {
    /// The parts of a loop run by `inscan` lanes.
    ///
    /// # Errors
    /// Why the lanes of such a loop could not be run at once.
    pub fn of(l: &Loop, width: u32) -> Result<InScan<'_>, &'static str> {
        let s = InScan::parts(l, width)?;
        independent(l, s.acc, &s.reduce.values[0], s.uses)?;
        Ok(s)
    }

    /// The same of a loop that was decided before its accesses were lowered.
    ///
    /// # Errors
    /// If it has not the form of such a loop.
    pub fn parts(l: &Loop, width: u32) -> Result<InScan<'_>, &'static str> {
        if l.step != 1 || l.hi != add(l.lo.clone(), index(i64::from(width))) {
            return Err("its trip count is not the constant number of lanes");
        }
        let all = l.body.as_seq().unwrap_or(std::slice::from_ref(&l.body));
        let Some((first, uses)) = all.split_first() else { return Err("it does nothing") };
        let Some(r) = first.as_reduce() else {
            return Err("it does not begin with the update of the running value");
        };
        let ([target], [_]) = (&r.targets[..], &r.values[..]) else {
            return Err("its reduction has several targets");
        };
        let (View::Buffer(acc), true, Some(ty)) =
            (&target.view, target.indices.is_empty(), target.elem.scalar())
        else {
            return Err("its reduction target is not a scalar");
        };
        if matches!(r.op, ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::User(_)) {
            return Err("its operator is not built in, or has several results");
        }
        Ok(InScan { width, reduce: r, acc: *acc, ty, uses })
    }
}

/// Whether statements may run for all lanes one after the other: plain stores, each into an array of its own, every
/// lane another element, of values that read none of these arrays.
fn independent(l: &Loop, acc: BufId, value: &Expr, uses: &[Stmt]) -> Result<(), &'static str> {
    let mut written = vec![View::Buffer(acc)];
    for s in uses {
        let Some(s) = s.as_store() else {
            return Err("it contains statements other than stores");
        };
        if written.contains(&s.target.view) || !matches!(s.target.view, View::Buffer(_)) {
            return Err("two of its statements write the same array");
        }
        if !s.target.indices.iter().any(|e| tells_apart(e, l.binder.id)) {
            return Err("different iterations may store to the same element");
        }
        written.push(s.target.view.clone());
    }
    let reads = |e: &Expr| visit::loads_of(e).into_iter().map(|a| a.view).collect::<Vec<_>>();
    let others = |v: &View| matches!(v, View::Buffer(_)) && !written[1..].contains(v);
    if !reads(value).iter().all(|v| others(v) && *v != written[0]) {
        return Err("the added value may depend on what the loop writes");
    }
    for s in uses {
        let all: Vec<Expr> = s.exprs().into_iter().cloned().collect();
        if !all.iter().flat_map(reads).all(|v| others(&v)) {
            return Err("a stored value may depend on what the loop writes");
        }
    }
    Ok(())
}

/// Whether a subscript differs from iteration to iteration: the variable occurs once, under sums and multiples.
fn tells_apart(e: &Expr, v: VarId) -> bool {
    let mentions = |e: &Expr| visit::vars_of(e).contains(&v);
    match e.kind() {
        ExprKind::Var(x) => *x == v,
        ExprKind::Unary(UnOp::Neg, a) => tells_apart(a, v),
        ExprKind::Binary(BinOp::Add | BinOp::Sub, a, b) => match (mentions(a), mentions(b)) {
            (true, false) => tells_apart(a, v),
            (false, true) => tells_apart(b, v),
            _ => false,
        },
        ExprKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
            (_, Some(c)) => c != 0 && tells_apart(a, v),
            (Some(c), _) => c != 0 && tells_apart(b, v),
            _ => false,
        },
        _ => false,
    }
}

/// What a loop run by `inscan` lanes means, in plain statements: the values of all iterations, their running values by
/// doubling, then the iterations in order. `None`: the loop is none, or the operator is not defined on its type.
pub fn expand(module: &Module, l: &Loop, next_id: &mut u32) -> Option<Stmt> {
    let Executor::InScan(width) = l.exec else { return None };
    if Recurrence::parts(l).is_some() {
        // The order of the iterations is all that it means.
        let serial = Loop { exec: Executor::Serial, ..l.clone() };
        return Some(Stmt::new(StmtKind::Loop(serial), l.body.places().clone()));
    }
    let s = InScan::of(l, width).ok()?;
    let places = l.body.places();
    let lane = |k: u32| HashMap::from([(l.binder.id, add(l.lo.clone(), index(i64::from(k))))]);
    let mut lets: Vec<(Binder, Expr)> = Vec::new();
    let mut bind = |name: String, value: Expr| {
        let binder = Binder { id: VarId(*next_id), name: Arc::from(name), ty: s.ty };
        *next_id += 1;
        lets.push((binder.clone(), value));
        var(&binder)
    };
    let label = &s.reduce.label;
    let before = bind(format!("{label}.before"), load(s.reduce.targets[0].clone()));
    let mut now: Vec<Expr> = Vec::new();
    for k in 0..width {
        now.push(bind(format!("{label}.lane{k}"), visit::substitute(&s.reduce.values[0], &lane(k))));
    }
    let combine = |a: &Expr, b: &Expr| {
        let both = reduce::combine(module, &s.reduce.op, std::slice::from_ref(a), std::slice::from_ref(b))?;
        both.into_iter().next()
    };
    let mut step = 1;
    while step < width as usize {
        let then = now.clone();
        for (k, value) in now.iter_mut().enumerate().skip(step) {
            *value = bind(format!("{label}.lane{k}.{step}"), combine(&then[k - step], &then[k])?);
        }
        step *= 2;
    }
    let mut body = Vec::new();
    for (k, value) in (0..width).zip(&now) {
        let lane = lane(k);
        let at = |e: &Expr| visit::substitute(e, &lane);
        body.push(Stmt::new(
            StmtKind::Store(Store::new(
                label.clone(),
                s.reduce.instance.iter().map(at).collect(),
                Access { places: places.clone(), ..s.reduce.targets[0].clone() },
                combine(&before, value)?,
            )),
            places.clone(),
        ));
        body.extend(s.uses.iter().map(|u| visit::substitute_stmt(u, &lane)));
    }
    Some(lets.into_iter().rev().fold(Stmt::seq(body), |body, (binder, value)| {
        Stmt::new(StmtKind::Let { binder, value, body }, places.clone())
    }))
}

/// The function with all such loops written out.
pub fn expand_function(module: &Module, f: &Function) -> Function {
    let mut out = f.clone();
    let mut next_id = f.next_id;
    out.body = visit::map_stmts(&f.body, &mut |s| {
        let plain = s.as_loop().and_then(|l| expand(module, l, &mut next_id));
        plain.unwrap_or(s)
    });
    out.next_id = next_id;
    out
}
