//! Maps that write or add to the same elements, with nothing between that asks for them, are one map. Where one is
//! shifted (the adjoint of a neighbour), what both go over is one map, and the edges that only one of them has stay
//! statements of their own: the adjoint of a stencil is a stencil.

use super::apart::{apart, writes_others};
use super::{Line, is_map_of_plane, loads_from};
use lathe_ir::build::{max, min, var};
use lathe_ir::visit::{loads_of, map_expr, refresh, substitute};
use lathe_ir::{Access, BinOp, BufId, Compute, Dim, Expr, ExprKind, Label, StmtKind, VarId};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};

/// The widest edge.
const EDGE: u64 = 8;

pub fn merged(all: &mut Vec<Line>, next: &mut u32) {
    // What each line touches is asked for by every line behind it.
    let mut touched: Vec<HashSet<BufId>> = all.iter().map(Line::touched).collect();
    let mut n = 0;
    while n < all.len() {
        let found = all[n].compute().and_then(|c| into(all, &touched, n, c));
        let (Some(Merged { before, edges, both }), Line::Do(s)) = (found, all[n].clone()) else {
            n += 1;
            continue;
        };
        let mut labels: HashSet<Label> =
            all.iter().filter_map(|l| Some(l.compute()?.label.clone())).collect();
        let mut made = Vec::new();
        for c in edges {
            let label = format!("{}.edge", c.label);
            let others = (2..).map(|n| Label::new(format!("{label}{n}")));
            let mut all = std::iter::once(Label::new(label.clone())).chain(others);
            let label = all.find(|l| labels.insert(l.clone())).unwrap_or_else(|| c.label.clone());
            made.push(Compute { label, ..c });
        }
        made.push(both);
        let made: Vec<Line> =
            made.into_iter().map(|c| Line::Do(refresh(&s.with_kind(StmtKind::Compute(c)), next))).collect();
        // What both go over comes last: a third one may follow.
        let last = n + made.len() - 2;
        touched.splice(n..=n, made.iter().map(Line::touched));
        touched.remove(before);
        all.splice(n..=n, made);
        all.remove(before);
        n = last;
    }
}

struct Merged {
    /// The earlier line.
    before: usize,
    edges: Vec<Compute>,
    both: Compute,
}

/// A map that reads its own elements, together with the earlier one that writes them.
fn into(all: &[Line], touched: &[HashSet<BufId>], n: usize, c: &Compute) -> Option<Merged> {
    let b = c.targets.first()?.view.buffer()?;
    if c.update.is_some() || loads_from(&c.values[0], b).is_empty() {
        return None;
    }
    let c = centred(c)?;
    let own = |c: &Compute| loads_from(&c.values[0], b).iter().all(|a| a.indices == c.targets[0].indices);
    if !own(&c) {
        return None;
    }
    let among = |m: usize, c: &Compute| touched[m].contains(&b) && !apart(&all[m], b, c);
    let before = (0..n).rev().find(|m| among(*m, &c))?;
    let first = centred(all[before].compute()?)?;
    if first.update.is_some() || first.targets[0].view != c.targets[0].view || !own(&first) {
        return None;
    }
    // What the earlier one reads is the same here, and nobody asks for what it writes.
    let read = loads_of(&first.values[0]);
    let changes = |l: &Line| {
        let other = |w: &BufId| *w != b && read.iter().any(|r| r.view.buffer() == Some(*w));
        let loads =
            |w: BufId| read.iter().filter(|r| r.view.buffer() == Some(w)).cloned().collect::<Vec<_>>();
        l.written().into_iter().filter(other).any(|w| !writes_others(l, w, &loads(w), &first.dims))
    };
    if (before + 1..n).any(|m| among(m, &first) || changes(&all[m])) {
        return None;
    }
    // In the indices of the later one; the constants are the same.
    let dim = |c: &Compute, e: &Expr| c.dims.iter().position(|d| e.as_var() == Some(d.binder.id));
    let pairs = first.targets[0].indices.iter().zip(&c.targets[0].indices);
    let pairs = pairs.filter(|(a, e)| a.as_int().is_none() || a.as_int() != e.as_int());
    let pairs: Vec<(usize, usize)> =
        pairs.map(|(a, e)| Some((dim(&first, a)?, dim(&c, e)?))).collect::<Option<_>>()?;
    let map: HashMap<VarId, Expr> =
        pairs.iter().map(|(a, e)| (first.dims[*a].binder.id, var(&c.dims[*e].binder))).collect();
    let value = substitute(&first.values[0], &map);
    let mut range_of_first = c.dims.clone();
    for (a, e) in &pairs {
        let (lo, hi) = (first.dims[*a].lo.clone(), first.dims[*a].hi.clone());
        range_of_first[*e] = Dim { lo, hi, ..c.dims[*e].clone() };
    }
    let both = intersection(&range_of_first, &c.dims)?;
    let target = &c.targets[0];
    let part = |label: &Label, dims, value: &Expr, target: &Access| Compute {
        label: label.clone(),
        dims,
        targets: vec![target.clone()],
        values: vec![value.clone()],
        ..c.clone()
    };
    let edges = minus(&range_of_first, &both).into_iter().map(|d| part(&first.label, d, &value, target));
    let edges =
        edges.chain(minus(&c.dims, &both).into_iter().map(|d| part(&c.label, d, &c.values[0], target)));
    let edges = edges.collect();
    let is_zero = matches!(value.kind(), ExprKind::Float(v) if v.get() == 0.0);
    let with = map_expr(&c.values[0], &mut |e| match e.kind() {
        ExprKind::Binary(BinOp::Add, x, y) if is_zero && is_own(x, b) => y.clone(),
        _ => e,
    });
    let with = map_expr(&with, &mut |e| if is_own(&e, b) { value.clone() } else { e });
    let both = part(&c.label, both, &with, target);
    Some(Merged { before, edges, both })
}

fn is_own(e: &Expr, b: BufId) -> bool {
    matches!(e.kind(), ExprKind::Load(a) if a.view.buffer() == Some(b))
}

/// A map whose subscripts are its indices, give or take constants, or constants, as one whose subscripts are its indices
/// and constants.
pub(super) fn centred(c: &Compute) -> Option<Compute> {
    let [target] = &c.targets[..] else { return None };
    let (mut dims, mut map, mut indices) = (c.dims.clone(), HashMap::new(), Vec::new());
    for i in &target.indices {
        let form = Linear::of(i);
        if i.as_int().is_some() {
            indices.push(i.clone());
            continue;
        }
        let [(atom, 1)] = &form.terms[..] else { return None };
        let d = dims.iter_mut().find(|d| atom.as_var() == Some(d.binder.id))?;
        let k = form.constant;
        if k != 0 {
            map.insert(d.binder.id, Linear::of(atom).offset(k.checked_neg()?)?.to_expr());
            d.lo = Linear::of(&d.lo).offset(k)?.to_expr();
            d.hi = Linear::of(&d.hi).offset(k)?.to_expr();
        }
        indices.push(atom.clone());
    }
    let plain = |a: &Access| {
        let simple = |e: &Expr| if loads_of(e).is_empty() { Linear::of(e).to_expr() } else { e.clone() };
        let at = a.indices.iter().map(simple).collect();
        Access { indices: at, ..a.clone() }
    };
    let value = if map.is_empty() {
        c.values.first()?.clone()
    } else {
        map_expr(&substitute(c.values.first()?, &map), &mut |e| match e.kind() {
            ExprKind::Load(a) => lathe_ir::build::load(plain(a)),
            _ => e,
        })
    };
    let target = Access { indices, ..target.clone() };
    let out = Compute { dims, targets: vec![target], values: vec![value], ..c.clone() };
    is_map_of_plane(&out).then_some(out)
}

/// The points of both boxes, if their bounds are few elements apart. Boxes that are known to have no point in common
/// have nothing to share: the edges and what both go over, which are made of each other, are such.
fn intersection(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let both = a.iter().zip(b).map(|(x, y)| {
        let (lo, hi) = (Linear::difference(&x.lo, &y.lo)?, Linear::difference(&x.hi, &y.hi)?);
        if lo.unsigned_abs() > EDGE || hi.unsigned_abs() > EDGE {
            return None;
        }
        let lo = if lo > 0 { x.lo.clone() } else { y.lo.clone() };
        let hi = if hi < 0 { x.hi.clone() } else { y.hi.clone() };
        let empty = Linear::difference(&hi, &lo).is_some_and(|extent| extent <= 0);
        if empty {
            return None;
        }
        Some(Dim { lo, hi, ..x.clone() })
    });
    both.collect()
}

/// The points of a box that are not in another one within it, as boxes that have no point in common, whether or not the
/// inner one has any.
fn minus(all: &[Dim], inner: &[Dim]) -> Vec<Vec<Dim>> {
    let mut out = Vec::new();
    for (n, (x, cut)) in all.iter().zip(inner).enumerate() {
        let mut piece = |lo: Expr, hi: Expr| {
            let mut dims = all.to_vec();
            dims[..n].clone_from_slice(&inner[..n]);
            dims[n] = Dim { lo, hi, ..x.clone() };
            out.push(dims);
        };
        if Linear::of(&x.lo) != Linear::of(&cut.lo) {
            piece(x.lo.clone(), min(x.hi.clone(), cut.lo.clone()));
        }
        if Linear::of(&x.hi) != Linear::of(&cut.hi) {
            piece(max(cut.hi.clone(), cut.lo.clone()), x.hi.clone());
        }
    }
    out
}
