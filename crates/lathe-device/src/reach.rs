//! Which elements of each array a launch reads and writes, once sizes, scalars and the loops of the host are known.
//!
//! Every subscript is bounded over the loops and conditions around its access (`lathe_poly::bounds`), dimension by
//! dimension; the box that comes out is cut to the array and written as ranges of its elements in memory. Boxes may be too
//! large, never too small: what subscripts say that depend on data is all of a dimension.

#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, of which there may be one")]

use crate::plan::{Argument, KernelPlan};
use lathe_ir::build::{add, index, max, sub, var_id};
use lathe_ir::interp::evaluate;
use lathe_ir::lower::storage;
use lathe_ir::visit::{loads_of, substitute, vars_of, walk_expr};
use lathe_ir::{Access, BinOp, BufId, Expr, ExprKind, Scalar, Stmt, StmtKind, UnOp, VarId};
use lathe_poly::bounds::{Ranged, lowers, normal, uppers};
use lathe_poly::form::Linear;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// More separate ranges than this become one.
const MOST_RANGES: u64 = 1 << 10;

/// What a launch does with one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub buffer: BufId,
    /// How many elements the array has in memory; none: that is not known, and neither is what is used of it.
    pub len: Option<u64>,
    /// Elements, in order and apart. All that may be read is among them, and so for writes.
    pub reads: Vec<Range<u64>>,
    pub writes: Vec<Range<u64>>,
}

/// The arrays of a kernel's arguments, in their order. `known` has the values of sizes, scalars and what the host has bound.
pub fn reach(kernel: &KernelPlan, known: &HashMap<VarId, i64>) -> Vec<Reach> {
    let values = known.iter().map(|(v, n)| (*v, index(*n))).collect();
    let mut w = Walk { values, scope: Vec::new(), arrays: HashMap::new(), seen: HashSet::new() };
    let mut order = Vec::new();
    for a in &kernel.arguments {
        let Argument::Array(b) = a else { continue };
        let extents: Option<Vec<u64>> = storage(b).ok().and_then(|s| {
            let one = |e| evaluate(e, known).and_then(|n| u64::try_from(n).ok());
            s.extents.iter().map(one).collect()
        });
        order.push(b.id);
        w.arrays.insert(b.id, Array { extents, reads: Vec::new(), writes: Vec::new() });
    }
    for l in &kernel.grid {
        w.enter(l.binder.id, &l.lo, &l.hi);
    }
    if let Some(c) = &kernel.cluster {
        w.enter(c.rank.id, &index(0), &index(c.blocks));
    }
    w.enter(kernel.thread.id, &index(0), &index(kernel.threads));
    w.stmt(&kernel.body);
    let one = |id: BufId| {
        let a = w.arrays.remove(&id)?;
        let len = a.extents.and_then(|all| all.iter().try_fold(1u64, |n, e| n.checked_mul(*e)));
        let most = len.unwrap_or(u64::MAX);
        let cut = |all: Vec<Range<u64>>| joined(all.into_iter().map(|r| r.start..r.end.min(most)).collect());
        Some(Reach { buffer: id, len, reads: cut(a.reads), writes: cut(a.writes) })
    };
    order.into_iter().filter_map(one).collect()
}

struct Array {
    /// None: nothing is known.
    extents: Option<Vec<u64>>,
    reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
}

struct Walk {
    values: HashMap<VarId, Expr>,
    /// Variables of the kernel that are around, outermost first.
    scope: Vec<Ranged>,
    arrays: HashMap<BufId, Array>,
    /// Accesses that were looked at under the same loops and conditions.
    seen: HashSet<(BufId, Vec<Expr>, bool)>,
}

impl Walk {
    fn enter(&mut self, v: VarId, lo: &Expr, hi: &Expr) {
        let known = |e: &Expr| substitute(e, &self.values);
        self.scope.push(Ranged::new(v, known(lo), known(hi)));
    }

    fn stmt(&mut self, s: &Stmt) {
        if !matches!(s.kind(), StmtKind::Prefetch(_)) {
            for (a, mode) in s.accesses() {
                self.access(a, mode.reads(), mode.writes());
            }
        }
        for e in s.evaluated() {
            for a in loads_of(e) {
                self.access(&a, true, false);
            }
            walk_expr(e, &mut |e| {
                if let ExprKind::Address(a) = e.kind()
                    && let Some(array) = a.view.buffer().and_then(|b| self.arrays.get_mut(&b))
                {
                    array.reads.push(0..u64::MAX);
                    array.writes.push(0..u64::MAX);
                }
            });
        }
        if let Some(l) = s.as_loop() {
            self.enter(l.binder.id, &l.lo, &l.hi);
            self.below(&l.body);
        } else if let Some((binder, value, body)) = s.as_let().filter(|l| l.0.ty == Scalar::Index) {
            self.enter(binder.id, value, &add(value.clone(), index(1)));
            self.below(body);
        } else if let Some((cond, then, other)) = s.as_if() {
            self.under(cond, true, then);
            if let Some(other) = other {
                self.under(cond, false, other);
            }
        } else {
            s.children().for_each(|c| self.stmt(c));
        }
    }

    fn below(&mut self, body: &Stmt) {
        let seen = std::mem::take(&mut self.seen);
        self.stmt(body);
        self.seen = seen;
        self.scope.pop();
    }

    fn under(&mut self, cond: &Expr, holds: bool, s: &Stmt) {
        let before = self.scope.clone();
        let seen = std::mem::take(&mut self.seen);
        self.learn(&substitute(cond, &self.values), holds);
        self.stmt(s);
        (self.scope, self.seen) = (before, seen);
    }

    /// Narrows the ranges of variables by a condition.
    fn learn(&mut self, cond: &Expr, holds: bool) {
        match (cond.kind(), holds) {
            (ExprKind::Unary(UnOp::Not, a), _) => self.learn(a, !holds),
            (ExprKind::Binary(BinOp::And, a, b), true) | (ExprKind::Binary(BinOp::Or, a, b), false) => {
                self.learn(a, holds);
                self.learn(b, holds);
            }
            (ExprKind::Binary(op, a, b), _) if a.ty().scalar() == Some(Scalar::Index) => {
                let at_least = |x: &Expr, y: &Expr, more: i64| sub(sub(x.clone(), y.clone()), index(more));
                let forms = match (op, holds) {
                    (BinOp::Lt, true) | (BinOp::Ge, false) => vec![at_least(b, a, 1)],
                    (BinOp::Le, true) | (BinOp::Gt, false) => vec![at_least(b, a, 0)],
                    (BinOp::Gt, true) | (BinOp::Le, false) => vec![at_least(a, b, 1)],
                    (BinOp::Ge, true) | (BinOp::Lt, false) => vec![at_least(a, b, 0)],
                    (BinOp::Eq, true) | (BinOp::Ne, false) => vec![at_least(a, b, 0), at_least(b, a, 0)],
                    _ => Vec::new(),
                };
                forms.iter().for_each(|f| self.nonnegative(f));
            }
            _ => {}
        }
    }

    /// An expression is at least 0: that bounds the innermost variable in it.
    fn nonnegative(&mut self, e: &Expr) {
        let form = normal(e);
        let found = self.scope.iter().rposition(|r| form.factor(r.var) != 0);
        let Some(at) = found else { return };
        let v = self.scope[at].var;
        let c = form.factor(v);
        let Some(rest) = form.plus(&Linear::atom(var_id(v, Scalar::Index)), -c) else { return };
        // What is left must not have the variable, nor any that is bound further inside.
        let inner: HashSet<VarId> = self.scope[at..].iter().map(|r| r.var).collect();
        if rest.mentions(&inner) {
            return;
        }
        let r = &mut self.scope[at];
        match c {
            // v ≤ rest
            -1 => r.below.push(add(rest.to_expr(), index(1))),
            // v ≥ -rest
            1 => r.lo = max(r.lo.clone(), sub(index(0), rest.to_expr())),
            ..-1 => r.below.push(add(lathe_ir::build::floor_div(rest.to_expr(), index(-c)), index(1))),
            _ => {}
        }
    }

    fn access(&mut self, a: &Access, reads: bool, writes: bool) {
        let Some(id) = a.view.buffer().filter(|id| self.arrays.contains_key(id)) else { return };
        let new = self.seen.insert((id, a.indices.clone(), writes));
        if !(new || reads && writes) {
            return;
        }
        let indices: Vec<Expr> = a.indices.iter().map(|e| substitute(e, &self.values)).collect();
        let Some(array) = self.arrays.get_mut(&id) else { return };
        let ranges = match &array.extents {
            Some(extents) if extents.len() == indices.len() => {
                let ends = indices.iter().zip(extents).map(|(e, n)| ends(e, *n, &self.scope));
                let ends: Vec<Range<u64>> = ends.collect();
                elements(&ends, extents)
            }
            _ => vec![0..u64::MAX],
        };
        if reads {
            array.reads.extend(ranges.iter().cloned());
        }
        if writes {
            array.writes.extend(ranges);
        }
    }
}

/// The values of a subscript in a dimension.
fn ends(e: &Expr, extent: u64, scope: &[Ranged]) -> Range<u64> {
    let all = 0..extent;
    let form = normal(e);
    let most = |forms: Vec<Linear>| forms.iter().filter_map(Linear::as_constant).min();
    let least = |forms: Vec<Linear>| forms.iter().filter_map(Linear::as_constant).max();
    if !vars_of(e).iter().all(|v| scope.iter().any(|r| r.var == *v)) {
        return all;
    }
    let lo = least(lowers(&form, scope)).unwrap_or(0).max(0) as u64;
    let hi = most(uppers(&form, scope)).map_or(extent, |h| (h.max(-1).saturating_add(1)) as u64).min(extent);
    if lo < hi { lo..hi } else { 0..0 }
}

/// A box of subscripts as ranges of elements.
fn elements(ends: &[Range<u64>], extents: &[u64]) -> Vec<Range<u64>> {
    if ends.iter().any(Range::is_empty) {
        return Vec::new();
    }
    let strides: Vec<u64> =
        (0..extents.len()).map(|d| extents[d + 1..].iter().fold(1u64, |n, e| n.saturating_mul(*e))).collect();
    // All of the dimensions behind this one: its elements are one piece.
    let whole = (0..ends.len()).rev().find(|d| ends[*d] != (0..extents[*d])).unwrap_or(0);
    let pieces = ends.iter().take(whole).fold(1u64, |n, e| n.saturating_mul(e.end - e.start));
    let at = |point: &[u64]| point.iter().zip(&strides).map(|(i, s)| i * s).sum::<u64>();
    if ends.is_empty() {
        return vec![0..1];
    }
    let first: Vec<u64> = ends.iter().map(|e| e.start).collect();
    if pieces > MOST_RANGES {
        let last: Vec<u64> = ends.iter().map(|e| e.end - 1).collect();
        return vec![at(&first)..at(&last) + 1];
    }
    let length = (ends[whole].end - ends[whole].start) * strides[whole];
    let mut out = Vec::new();
    let mut point = first;
    loop {
        let start = at(&point);
        out.push(start..start + length);
        let Some(d) = (0..whole).rev().find(|d| point[*d] + 1 < ends[*d].end) else { return out };
        point[d] += 1;
        for k in d + 1..whole {
            point[k] = ends[k].start;
        }
    }
}

/// Ranges in order, those that meet as one.
fn joined(mut all: Vec<Range<u64>>) -> Vec<Range<u64>> {
    all.sort_unstable_by_key(|r| (r.start, r.end));
    let mut out: Vec<Range<u64>> = Vec::new();
    for r in all {
        match out.last_mut() {
            Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_ranges_of_elements() {
        assert_eq!(elements(&[2..4, 0..5], &[9, 5]), [10..20]);
        assert_eq!(joined(elements(&[2..4, 1..3], &[9, 5])), [11..13, 16..18]);
        assert_eq!(elements(&[0..3, 2..2], &[9, 5]), []);
        assert_eq!(elements(&[], &[]), [0..1]);
        assert_eq!(elements(&[1..2000, 0..1], &[2000, 5]), [5..9996]);
        assert_eq!(joined(elements(&[1..2, 0..2, 3..4], &[2, 2, 4])), [11..12, 15..16]);
    }
}
