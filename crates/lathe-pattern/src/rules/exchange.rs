//! Neighbouring loops of a nest change places.

use super::SHAPE;
use super::reduction::{is_licensed, reduction};
use crate::make;
use crate::prim::{FoldKind, MapKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::Type;
use lathe_strategy::{Vocabulary, Why};

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // map(|x| map(f, e), xs) = transpose(map(|ys| map(f, zip(xs, ys)), transpose(map(|x| e, xs))))
    v.rule("exchangeMaps", |t, _, _| exchange_maps(t).unwrap_or(Err(SHAPE)));
    // reduce(|acc, y| map(|p| op(p.0, p.1), zip(acc, y)), z, xs) = map(|p| reduce(op, p.0, p.1), zip(z, transpose(xs)))
    v.rule("sinkReduce", |t, _, _| sink(t).unwrap_or(Err(SHAPE)));
    // reduce(|a, c| reduce(op, a, c), z, xs) = the same over transpose(xs), for a licensed op
    v.rule("exchangeReduces", |t, _, _| {
        let (p, op, z, xs) = reduction(t).ok_or(SHAPE)?;
        let body = op.as_lam().and_then(Term::as_lam).ok_or(SHAPE)?;
        let (q, inner, a, c) = reduction(body).ok_or(Why::Shape("not a reduction over a reduction"))?;
        let direct = matches!((a.kind(), c.kind()), (TermKind::Bound(1), TermKind::Bound(0)));
        let inner = inner.lower().and_then(|i| i.lower());
        let (Some(inner), true) = (inner, direct) else { return Err(SHAPE) };
        if !is_licensed_fused(&inner) {
            let text = "the operator is not known to be both associative and commutative";
            return Err(Why::Condition(text.to_string()));
        }
        let turned = make::transpose(xs.clone()).ok_or(SHAPE)?;
        let (_, row) = make::elements(turned.ty()).ok_or(SHAPE)?;
        // Loops keep their names; an operator without any gives its loop none.
        let outside = op.as_lam().map_or("y", |f| make::hint(f, "y"));
        let inside = inner.as_lam().map_or("y", |f| make::hint(f, "y")).to_string();
        let operator = match (inner.as_lam(), inner.ty().as_fun()) {
            (Some(f), Some((acc, _))) => {
                Term::lam(make::hint(&inner, "acc"), acc.clone(), make::renamed(f, outside))
            }
            _ => inner,
        };
        let again = make::lam("acc", z.ty().clone(), |_| {
            let start = Term::bound(1, z.ty().clone());
            make::lam(&inside, row, |c| make::reduce(q, operator.shift(2), start, c))
        });
        Ok(make::reduce(p, again, z.clone(), turned))
    });
}

/// `op`, or `|acc, y| op(acc, f(y))`, for an associative and commutative `op`.
fn is_licensed_fused(op: &Term) -> bool {
    if is_licensed(op) {
        return true;
    }
    let Some(body) = op.as_lam().and_then(Term::as_lam) else { return false };
    let Some((p, args)) = body.spine() else { return false };
    match (p, args.as_slice()) {
        (Prim::Binary(o), [a, y]) => {
            use lathe_ir::BinOp;
            matches!(o, BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max)
                && matches!(a.kind(), TermKind::Bound(1))
                && !y.mentions(1)
        }
        // Element-wise over an array of accumulators.
        (Prim::Map(_), [f, z]) => {
            let zipped = match z.spine() {
                Some((Prim::Zip, sides)) => {
                    sides.len() == 2 && matches!(sides[0].kind(), TermKind::Bound(1)) && !sides[1].mentions(1)
                }
                _ => false,
            };
            let inner = f.as_lam().and_then(|b| {
                // |p| g(p.0, …): as |acc| |y| g.
                let (p, args) = b.spine()?;
                match (p, args.as_slice()) {
                    (Prim::Binary(o), [a, _]) => {
                        use lathe_ir::BinOp;
                        let first = a.as_app().is_some_and(|(g, x)| {
                            matches!(g.as_prim(), Some(Prim::Proj(0, 2)))
                                && matches!(x.kind(), TermKind::Bound(0))
                        });
                        Some(first && matches!(o, BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max))
                    }
                    _ => None,
                }
            });
            zipped && !f.mentions(1) && inner == Some(true)
        }
        _ => false,
    }
}

fn exchange_maps(t: &Term) -> Option<Result<Term, Why>> {
    let (k, f, xs) = t.as_map()?;
    let TermKind::Lam(hint, body) = f.kind() else { return None };
    let (l, g, e) = body.as_map()?;
    let (n, x_ty) = make::elements(xs.ty())?;
    let (_, y_ty) = make::elements(e.ty())?;
    let rows = match e.kind() {
        TermKind::Bound(0) => xs.clone(),
        _ => make::map(&MapKind::High, Term::lam(hint, x_ty.clone(), e.clone()), xs.clone())?,
    };
    let columns = make::transpose(rows)?;
    let ys = Type::array(n, y_ty.clone());
    // Loops keep their names.
    let outside = make::hint(g, "ys");
    let inner = if g.mentions(0) {
        // g is under x; the pair (x, y) takes its place, under ys and p.
        let pair = Type::pair(x_ty, y_ty);
        let g2 = g.shift_from(1, 2);
        let xs1 = xs.shift(1);
        make::lam(outside, ys, |ys| {
            let each =
                make::lam(hint, pair, |p| match (make::project(0, p.clone()), make::project(1, p.clone())) {
                    (Some(x), Some(y)) => Term::apply(&g2.open(&x), &y),
                    _ => p,
                });
            make::zip(xs1, ys.clone()).and_then(|z| make::map(k, each, z)).unwrap_or(ys)
        })
    } else {
        let g1 = make::renamed(&g.lower()?.shift(1), hint);
        make::lam(outside, ys, |ys| make::map(k, g1, ys.clone()).unwrap_or(ys))
    };
    make::transpose(make::map(l, inner, columns)?).map(Ok)
}

fn sink(t: &Term) -> Option<Result<Term, Why>> {
    let (p, op, z, xs) = reduction(t)?;
    let body = op.as_lam()?.as_lam()?;
    let (k, f, zipped) = body.as_map()?;
    let (Prim::Zip, sides) = zipped.spine()? else { return None };
    let [a, y] = sides.as_slice() else { return None };
    let direct = matches!((a.kind(), y.kind()), (TermKind::Bound(1), TermKind::Bound(0)));
    // Loops keep their names.
    let (outside, inside) = (make::hint(f, "p"), op.as_lam().map_or("y", |f| make::hint(f, "y")));
    let f = f.lower().and_then(|f| f.lower())?;
    if !direct {
        return None;
    }
    let (_, acc) = make::elements(z.ty())?;
    let turned = make::transpose(xs.clone())?;
    let (_, column) = make::elements(turned.ty())?;
    let (_, elem) = make::elements(&column)?;
    let Prim::Reduce(kind, _) = p else { return None };
    let kind = if kind == FoldKind::High && acc != elem { FoldKind::Seq } else { kind };
    let pairs = make::zip(z.clone(), turned)?;
    let f3 = f.shift(3);
    let each = make::lam(outside, Type::pair(acc.clone(), column), |p| {
        let step = make::lam("acc", acc.clone(), |_| {
            make::lam(inside, elem.clone(), |y| {
                let a = Term::bound(1, acc.clone());
                let parts = vec![acc.clone(), elem.clone()];
                let pair = make::applied(Prim::Tuple(2), &[a, y], Type::tuple(parts));
                Term::apply(&f3, &pair)
            })
        });
        match (make::project(0, p.clone()), make::project(1, p.clone())) {
            (Some(z), Some(xs)) => make::reduce(Prim::Reduce(kind, None), step, z, xs),
            _ => p,
        }
    });
    make::map(k, each, pairs).map(Ok)
}
