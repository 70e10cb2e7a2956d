//! Sums of products whose points are partly outside of an array, as adjoints of convolutions are: `Σ select(0 <= p - r < n,
//! x[p - r] * w[r], 0)`. The array is copied into a larger one, with zeros around it, and the sum has no condition, so that
//! it is scheduled as the convolution itself is. A zero is multiplied where nothing was: with an infinite or undefined factor that
//! gives NaN, as a cotangent that is 0 does.

use crate::arrays::{allocated, elements, fill, zero_array};
use crate::expr::zero;
use lathe_diagnostics::Places;
use lathe_ir::build::{add, index, load, max, sub, var};
use lathe_ir::visit::{map_expr, substitute, vars_of, walk_expr};
use lathe_ir::{
    Access, BinOp, BufId, Buffer, Combine, Compute, Dim, Expr, ExprKind, Function, ReduceOp, Scalar, Space,
    Stmt, StmtKind, UnOp, VarId,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Sums of so few terms are written out, with the edges apart.
const SHORT: i64 = 4;

/// `lo <= at < hi`.
struct Within {
    at: Linear,
    lo: Expr,
    hi: Expr,
}

/// The statements that a sum becomes; `None` if it has another form.
pub fn padded(
    func: &mut Function,
    c: &Compute,
    arrays: &dyn Fn(BufId) -> Option<Arc<Buffer>>,
    places: &Places,
) -> Option<Stmt> {
    let ([_], [value]) = (&c.targets[..], &c.values[..]) else { return None };
    let ExprKind::Select(cond, product, other) = value.kind() else { return None };
    let sums: Vec<&Dim> = c.dims.iter().filter(|d| d.combine != Combine::Concat).collect();
    let plain = c.guard.is_none() && sums.iter().all(|d| d.combine == Combine::Reduce(ReduceOp::Sum));
    if !plain || *other != zero(value.ty()) || !is_long(&sums) {
        return None;
    }
    let inside = within(cond)?;
    let all: HashSet<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
    if c.dims.iter().any(|d| [&d.lo, &d.hi].into_iter().flat_map(vars_of).any(|v| all.contains(&v))) {
        return None;
    }
    // What decides where there are elements, and whether a sum runs over it.
    let deciding: HashSet<VarId> =
        c.dims.iter().map(|d| d.binder.id).filter(|v| inside.iter().any(|w| w.at.factor(*v) != 0)).collect();
    if !sums.iter().any(|d| deciding.contains(&d.binder.id)) {
        return None;
    }
    let free: HashSet<VarId> =
        c.dims.iter().filter(|d| d.combine == Combine::Concat).map(|d| d.binder.id).collect();
    let apart = |e: &Expr| vars_of(e).iter().all(|v| !(deciding.contains(v) && free.contains(v)));
    let mut factors = Vec::new();
    factors_of(product, &mut factors);
    let (partly, others): (Vec<&Expr>, Vec<&Expr>) = factors.into_iter().partition(|e| !apart(e));
    let ([only], true) = (&partly[..], others.iter().all(|e| total(e))) else { return None };
    let ExprKind::Load(from) = only.kind() else { return None };
    let whole = arrays(from.view.as_buffer()?)?;
    // Each condition is about one subscript.
    let mut of_dim: Vec<Option<(&Within, i64)>> = vec![None; from.indices.len()];
    for w in &inside {
        let shift = |e: &Expr| Linear::of(e).minus(&w.at).and_then(|f| f.as_constant());
        let (n, by) = from.indices.iter().enumerate().find_map(|(n, e)| Some((n, shift(e)?)))?;
        if of_dim[n].replace((w, by)).is_some() {
            return None;
        }
    }
    let rest = from.indices.iter().zip(&of_dim).filter(|(_, w)| w.is_none());
    if whole.extents.len() != from.indices.len() || !rest.into_iter().all(|(e, _)| apart(e)) {
        return None;
    }
    let spans: Vec<Option<(Linear, Linear)>> = of_dim
        .iter()
        .map(|w| w.map(|(w, _)| span(&w.at, &c.dims)))
        .map(|s| s.map_or(Some(None), |s| s.map(Some)))
        .collect::<Option<_>>()?;
    let extents = spans.iter().zip(&whole.extents).map(|(s, e)| match s {
        Some((lo, hi)) => {
            let n = hi.minus(lo)?.offset(1)?;
            let natural = n.is_natural(&|e| e.as_var().is_some_and(|v| func.sizes.iter().any(|s| s.id == v)));
            Some(if natural { n.to_expr() } else { max(n.to_expr(), index(0)) })
        }
        None => Some(e.clone()),
    });
    let extents = extents.collect::<Option<Vec<_>>>()?;
    let name = format!("{}.wide", whole.name);
    let space = Space::Host;
    let wide = Arc::new(Buffer {
        id: func.fresh_buf(),
        name: name.as_str().into(),
        extents,
        space,
        ..(*whole).clone()
    });
    // The copy.
    let (mut dims, _) = elements(&whole, func);
    let (mut to, mut read) = (Vec::new(), Vec::new());
    for ((d, w), s) in dims.iter_mut().zip(&of_dim).zip(&spans) {
        let at = var(&d.binder);
        if let (Some((w, by)), Some((lo, _))) = (w, s) {
            (d.lo, d.hi) = (w.lo.clone(), w.hi.clone());
            to.push(sub(at.clone(), lo.to_expr()));
            read.push(add(at, index(*by)));
        } else {
            to.push(at.clone());
            read.push(at);
        }
    }
    let access = |b: &Buffer, indices: Vec<Expr>| Access::buffer(b.id, b.elem.clone(), indices);
    let copy = fill(name, dims, access(&wide, to), load(access(&whole, read)));
    // The sum; what is summed over backwards is turned round, so that subscripts grow.
    let indices = from.indices.iter().zip(&of_dim).zip(&spans).map(|((e, w), s)| match (w, s) {
        (Some((w, _)), Some((lo, _))) => Some(w.at.minus(lo)?.to_expr()),
        _ => Some(e.clone()),
    });
    let moved = load(access(&wide, indices.collect::<Option<Vec<_>>>()?));
    let product = map_expr(product, &mut |x| if x == **only { moved.clone() } else { x });
    let turned = sums.iter().filter(|d| inside.iter().any(|w| w.at.factor(d.binder.id) < 0));
    let turned: HashMap<VarId, Expr> = turned
        .map(|d| {
            let last = sub(add(d.lo.clone(), d.hi.clone()), index(1));
            (d.binder.id, Linear::of(&sub(last, var(&d.binder))).to_expr())
        })
        .collect();
    let product = substitute(&product, &turned);
    let product = map_expr(&product, &mut |x| match x.kind() {
        ExprKind::Load(a) => load(a.map_exprs(&mut |e| {
            if *e.ty() == lathe_ir::Type::from(Scalar::Index) { Linear::of(e).to_expr() } else { e.clone() }
        })),
        _ => x,
    });
    let sum = Stmt::new(StmtKind::Compute(Compute { values: vec![product], ..c.clone() }), places.clone());
    let zeros = zero_array(&wide, func);
    Some(allocated(vec![wide], Stmt::seq([zeros, copy, sum])))
}

/// Whether a sum has more terms than are written out.
fn is_long(sums: &[&Dim]) -> bool {
    let sizes = sums.iter().map(|d| Linear::of(&sub(d.hi.clone(), d.lo.clone())).as_constant());
    sizes.collect::<Option<Vec<_>>>().is_none_or(|s| s.iter().product::<i64>() > SHORT)
}

/// The conditions of a conjunction, if all of them say that something lies in a range.
fn within(cond: &Expr) -> Option<Vec<Within>> {
    fn go(e: &Expr, from: &mut Vec<(Expr, Expr)>, below: &mut Vec<(Expr, Expr)>) -> Option<()> {
        match e.kind() {
            ExprKind::Binary(BinOp::And, a, b) => {
                go(a, from, below)?;
                go(b, from, below)
            }
            ExprKind::Binary(BinOp::Le, a, b) => {
                from.push((b.clone(), a.clone()));
                Some(())
            }
            ExprKind::Binary(BinOp::Lt, a, b) => {
                below.push((a.clone(), b.clone()));
                Some(())
            }
            _ => None,
        }
    }
    let (mut from, mut below) = (Vec::new(), Vec::new());
    go(cond, &mut from, &mut below)?;
    if from.len() != below.len() {
        return None;
    }
    let pairs = from.into_iter().zip(below);
    pairs.map(|((at, lo), (e, hi))| (at == e).then(|| Within { at: Linear::of(&at), lo, hi })).collect()
}

/// The factors of a product.
fn factors_of<'a>(e: &'a Expr, out: &mut Vec<&'a Expr>) {
    match e.kind() {
        ExprKind::Binary(BinOp::Mul, a, b) => {
            factors_of(a, out);
            factors_of(b, out);
        }
        ExprKind::Unary(UnOp::Neg, a) => factors_of(a, out),
        _ => out.push(e),
    }
}

/// Whether an expression has a value wherever what it loads exists.
fn total(e: &Expr) -> bool {
    let mut calls = false;
    walk_expr(e, &mut |x| calls |= matches!(x.kind(), ExprKind::Call(..)));
    !calls && !lathe_ir::build::divides(e)
}

/// The smallest and the largest value; ranges that may be empty are one longer.
fn span(f: &Linear, dims: &[Dim]) -> Option<(Linear, Linear)> {
    let (mut lo, mut hi) = (f.clone(), f.clone());
    for d in dims {
        let k = f.factor(d.binder.id);
        if k == 0 {
            continue;
        }
        let known = Linear::of(&sub(d.hi.clone(), d.lo.clone())).as_constant().is_some_and(|n| n > 0);
        let last = if known { sub(d.hi.clone(), index(1)) } else { d.hi.clone() };
        let (first, last) = (Linear::of(&d.lo), Linear::of(&last));
        let (down, up) = if k > 0 { (first, last) } else { (last, first) };
        let atom = var(&d.binder);
        lo = lo.without(&atom).plus(&down, k)?;
        hi = hi.without(&atom).plus(&up, k)?;
    }
    Some((lo, hi))
}
