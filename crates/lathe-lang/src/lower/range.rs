//! Range inference (after Tensor Comprehensions): the largest rectangular ranges of the indices with no
//! read out of bounds, found in rounds.
//!
//! Each round takes the subscripts with exactly one index whose range is unknown; being in bounds for all
//! values of the known ones gives an interval; several intersect. Subscripts that mention an index whose range
//! the left side gave come second: there the reader of the tree checks bounds, and the range of another index
//! should not shrink to make room. Reads in a branch of `select` come last, because the condition guards
//! their bounds.

use lathe_diagnostics::Span;
use lathe_ir::{Expr, ExprKind, VarId, build, visit};
use lathe_poly::Linear;
use std::collections::{BTreeMap, HashMap, HashSet};

/// One subscript of one access: `0 <= subscript < extent` must hold.
#[derive(Clone, Debug)]
pub struct Bound {
    pub subscript: Expr,
    pub extent: Expr,
    /// Under a branch of `select` that may not be taken.
    pub guarded: bool,
    pub span: Span,
}

/// What is known about one index.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    pub lo: Expr,
    pub hi: Expr,
}

/// Two extents of which neither is known to be the smaller; the index runs over the smaller one.
#[derive(Clone, Debug)]
pub struct Intersection {
    pub index: VarId,
    pub places: Vec<Span>,
}

/// Completes `known` for the `unknown` indices; what cannot be found stays out of it. `left` are the known
/// indices that have their range from the left side.
pub fn infer(
    unknown: &[VarId],
    left: &HashSet<VarId>,
    bounds: &[Bound],
    known: &mut HashMap<VarId, Interval>,
    sizes: &dyn Fn(&Expr) -> bool,
) -> Vec<Intersection> {
    let mut open: Vec<VarId> = unknown.iter().copied().filter(|v| !known.contains_key(v)).collect();
    let mut crossed = Vec::new();
    let free = |b: &&Bound| visit::vars_of(&b.subscript).is_disjoint(left);
    let stages: [Vec<&Bound>; 3] = [
        bounds.iter().filter(|b| !b.guarded).filter(free).collect(),
        bounds.iter().filter(|b| !b.guarded).collect(),
        bounds.iter().collect(),
    ];
    while !open.is_empty() {
        let found = stages.iter().map(|s| round(s, &open, known, sizes)).find(|f| !f.is_empty());
        let Some(found) = found else { break };
        open.retain(|v| !found.contains_key(v));
        for (v, (interval, exact, places)) in found {
            if !exact {
                crossed.push(Intersection { index: v, places });
            }
            known.insert(v, interval);
        }
    }
    crossed
}

/// What one round finds: the interval, whether it is one without `min` or `max`, and what gave it.
fn round(
    bounds: &[&Bound],
    open: &[VarId],
    known: &HashMap<VarId, Interval>,
    sizes: &dyn Fn(&Expr) -> bool,
) -> BTreeMap<VarId, (Interval, bool, Vec<Span>)> {
    let mut found: BTreeMap<VarId, (Interval, bool, Vec<Span>)> = BTreeMap::new();
    for b in bounds {
        let Some((v, interval)) = solve(b, open, known) else { continue };
        let all = match found.remove(&v) {
            None => (interval, true, vec![b.span]),
            Some((before, was_exact, mut spans)) => {
                spans.push(b.span);
                let (i, exact) = intersect(&before, &interval, sizes);
                (i, exact && was_exact, spans)
            }
        };
        found.insert(v, all);
    }
    found
}

/// The interval that one bound gives for its only unknown index.
fn solve(b: &Bound, open: &[VarId], known: &HashMap<VarId, Interval>) -> Option<(VarId, Interval)> {
    let sum = Linear::of(&b.subscript);
    let mut unknown = None;
    let mut rest = Linear::constant(sum.constant);
    for (atom, c) in &sum.terms {
        match atom.as_var() {
            Some(v) if open.contains(&v) => {
                if unknown.replace((v, *c)).is_some() {
                    return None;
                }
            }
            Some(_) => rest.terms.push((atom.clone(), *c)),
            None if visit::vars_of(atom).iter().any(|v| open.contains(v) || known.contains_key(v)) => {
                return None;
            }
            // A cell of an array may hold anything: it says nothing about the index.
            None if !visit::loads_of(atom).is_empty() => return None,
            None => rest.terms.push((atom.clone(), *c)),
        }
    }
    let (v, c) = unknown?;
    let least = extreme(&rest, false, open, known)?;
    let most = extreme(&rest, true, open, known)?;
    let last = Linear::of(&b.extent).offset(-1)?;
    let (lo, hi) = if c > 0 {
        // c·x >= -least and c·x <= last - most
        (ceil_div(&least.scaled(-1)?, c)?, last.minus(&most)?.floor_div(c))
    } else {
        // -c·x <= least and -c·x >= most - last
        let d = c.checked_neg()?;
        (ceil_div(&most.minus(&last)?, d)?, least.floor_div(d))
    };
    let hi = hi.offset(1)?;
    Some((v, Interval { lo: lo.to_expr(), hi: hi.to_expr() }))
}

fn ceil_div(a: &Linear, by: i64) -> Option<Linear> {
    Some(a.offset(by - 1)?.floor_div(by))
}

/// The smallest or largest value over the known indices.
fn extreme(sum: &Linear, largest: bool, open: &[VarId], known: &HashMap<VarId, Interval>) -> Option<Linear> {
    let mut sum = sum.clone();
    // Bounds may mention other indices (`where j in 0..i`), never in a circle.
    for _ in 0..=known.len() {
        let next = sum.terms.iter().find_map(|(e, c)| {
            let v = e.as_var()?;
            Some((e.clone(), *c, known.get(&v)?))
        });
        let Some((atom, c, range)) = next else {
            let bad = sum.terms.iter().any(|(e, _)| visit::vars_of(e).iter().any(|v| open.contains(v)));
            return if bad { None } else { Some(sum) };
        };
        let end = if (c > 0) == largest { Linear::of(&range.hi).offset(-1)? } else { Linear::of(&range.lo) };
        sum.terms.retain(|(e, _)| *e != atom);
        sum = sum.plus(&end, c)?;
    }
    None
}

/// The intersection, and whether it was decided without a `min` or `max` at run time.
fn intersect(a: &Interval, b: &Interval, natural: &dyn Fn(&Expr) -> bool) -> (Interval, bool) {
    let (lo, lo_exact) = extremum(&a.lo, &b.lo, true, natural);
    let (hi, hi_exact) = extremum(&a.hi, &b.hi, false, natural);
    (Interval { lo, hi }, lo_exact && hi_exact)
}

fn extremum(a: &Expr, b: &Expr, largest: bool, natural: &dyn Fn(&Expr) -> bool) -> (Expr, bool) {
    if let Some(d) = Linear::of(a).minus(&Linear::of(b)) {
        if d.is_natural(natural) {
            return (if largest { a } else { b }.clone(), true);
        }
        if d.scaled(-1).is_some_and(|d| d.is_natural(natural)) {
            return (if largest { b } else { a }.clone(), true);
        }
    }
    // Already a `min` of the other?
    if let ExprKind::Binary(_, x, y) = a.kind()
        && (x == b || y == b)
    {
        return (a.clone(), true);
    }
    let e = if largest { build::max(a.clone(), b.clone()) } else { build::min(a.clone(), b.clone()) };
    (e, false)
}

/// The smaller of two extents, as an expression.
pub fn smaller(a: &Expr, b: &Expr, natural: &dyn Fn(&Expr) -> bool) -> Expr {
    extremum(a, b, false, natural).0
}
