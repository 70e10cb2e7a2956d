//! Rules of reductions.

use super::algorithmic::split_map;
use super::{SHAPE, size};
use crate::facts::Fact;
use crate::make;
use crate::nat::Nat;
use crate::prim::{FoldKind, MapKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::Type;
use lathe_ir::BinOp;
use lathe_strategy::{Vocabulary, Why};

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // map(f) >> reduce(op, z) = reduceSeq(|acc, y| op(acc, f(y)), z); a `reduce` if f keeps the type
    v.rule("fuseReduceMap", |t, _, _| {
        let (p, op, z, xs) = reduction(t).ok_or(SHAPE)?;
        let (k, f, ys) = xs.as_map().ok_or(SHAPE)?;
        if *k != MapKind::High {
            return Err(Why::Shape("not a map whose function has no loop"));
        }
        let (_, from) = make::elements(ys.ty()).ok_or(SHAPE)?;
        let same = from == *z.ty();
        let p = match p {
            Prim::Reduce(FoldKind::High, s) if !same => Prim::Reduce(FoldKind::Seq, s),
            p => p,
        };
        let (op, f) = (op.shift(2), f.shift(2));
        let fused = make::lam("acc", z.ty().clone(), |_| {
            make::lam("y", from, |y| {
                let acc = Term::bound(1, z.ty().clone());
                Term::apply_all(&op, &[acc, Term::apply(&f, &y)])
            })
        });
        Ok(make::reduce(p, fused, z.clone(), ys.clone()))
    });
    // reduceSeq(|acc, y| op(acc)(g), z) = map(|y| g) >> reduce(op, z), if op does not mention y, g not acc
    v.rule("fissionReduceMap", |t, _, _| {
        let (p, whole, z, xs) = reduction(t).ok_or(SHAPE)?;
        let body = whole.as_lam().and_then(Term::as_lam).ok_or(SHAPE)?;
        let (rest, g) = body.as_app().ok_or(SHAPE)?;
        let (op, acc) = rest.as_app().ok_or(SHAPE)?;
        let trivial = matches!(g.kind(), TermKind::Bound(0)) || !g.ty().is_data();
        if !matches!(acc.kind(), TermKind::Bound(1)) || trivial || g.mentions(1) {
            return Err(Why::Shape("not `op(acc, f(y))`"));
        }
        let op = op.lower().and_then(|o| o.lower()).ok_or(Why::Shape("not one operator for all elements"))?;
        // g is under acc and y: acc goes.
        let f_body = g.exchanged().lower().ok_or(SHAPE)?;
        let (_, from) = make::elements(xs.ty()).ok_or(SHAPE)?;
        let f = Term::lam("y", from, f_body);
        let mapped = make::map(&MapKind::High, f, xs.clone()).ok_or(SHAPE)?;
        let p = match p {
            Prim::Reduce(FoldKind::Seq, s) if g.ty() == z.ty() && is_licensed(&op) => {
                Prim::Reduce(FoldKind::High, s)
            }
            p => p,
        };
        Ok(make::reduce(p, op, z.clone(), mapped))
    });
    // reduce(op, z) = split(n) >> reduce(|a, c| reduce(op, a, c), z): the same order, the same bits
    v.rule("splitReduceSeq", |t, state, args| split_reduce(t, &size(args, 0)?, state, true));
    // reduce(op, z) = split(n) >> reduce(|a, c| op(a, reduce(op, z, c)), z), for an associative op with z neutral
    v.rule("blockReduce", |t, state, args| split_reduce(t, &size(args, 0)?, state, false));
    // `split(n)` on a map or on a reduction
    v.rule("split", |t, state, args| {
        let n = size(args, 0)?;
        split_map(t, &n, state).or_else(|w| match w {
            Why::Shape(_) => split_reduce(t, &n, state, true),
            w => Err(w),
        })
    });
    v.rule("liftReduce", |t, _, _| lift(t));
}

/// A saturated reduction of any kind.
pub(super) fn reduction(t: &Term) -> Option<(Prim, &Term, &Term, &Term)> {
    let (p, args) = t.spine()?;
    match (p, args.as_slice()) {
        (Prim::Reduce(..), [op, z, xs]) => Some((p.clone(), op, z, xs)),
        _ => None,
    }
}

/// Whether an operator is associative (up to rounding) with a neutral start that can be told: a licence to
/// reorder, which `reduce` is.
pub(super) fn is_licensed(op: &Term) -> bool {
    neutral(op).is_some()
}

/// The operator, if it is a plain one: bare, or `|a, b| a op b`.
pub(super) fn plain_operator(op: &Term) -> Option<BinOp> {
    match op.kind() {
        TermKind::Prim(Prim::Binary(op)) => Some(*op),
        TermKind::Lam(..) => {
            let body = op.as_lam().and_then(Term::as_lam)?;
            let (p, args) = body.spine()?;
            match (p, args.as_slice()) {
                (Prim::Binary(op), [a, b]) => {
                    let vars = (a.kind(), b.kind());
                    matches!(vars, (TermKind::Bound(1), TermKind::Bound(0))).then_some(*op)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The neutral element of an associative and commutative operator, by its value as `f64`.
fn neutral(op: &Term) -> Option<Option<f64>> {
    match plain_operator(op)? {
        BinOp::Add | BinOp::Or | BinOp::Xor => Some(Some(0.0)),
        BinOp::Mul => Some(Some(1.0)),
        BinOp::Min | BinOp::Max | BinOp::And => Some(None),
        _ => None,
    }
}

fn split_reduce(
    t: &Term,
    n: &Nat,
    state: &mut crate::language::TermState,
    in_order: bool,
) -> Result<Term, Why> {
    // Applied, or `reduce(op)(z)`.
    let (p, args) = t.spine().ok_or(SHAPE)?;
    let (op, z) = match (p, args.as_slice()) {
        (Prim::Reduce(..), [op, z] | [op, z, _]) => ((*op).clone(), (*z).clone()),
        _ => return Err(SHAPE),
    };
    let from = match args.get(2) {
        Some(xs) => xs.ty().clone(),
        None => t.ty().as_fun().ok_or(SHAPE)?.0.clone(),
    };
    if !in_order {
        let known = neutral(&op).flatten();
        let start = match z.kind() {
            TermKind::Lit(v) => Some(v.to_f64()),
            _ => None,
        };
        if known.is_none() || known != start {
            let text = "blocking needs an associative operator that starts with its neutral element";
            return Err(Why::Condition(text.to_string()));
        }
    }
    let (length, elem) = make::elements(&from).ok_or(SHAPE)?;
    state.need(Fact::AtMost(Nat::constant(1), n.clone()))?;
    state.need(Fact::Divides(n.clone(), length))?;
    let chunk = Type::array(n.clone(), elem);
    // The outer operator takes chunks, so it is not a homogeneous one.
    let outer = match p {
        Prim::Reduce(FoldKind::High, s) => Prim::Reduce(FoldKind::Seq, *s),
        p => p.clone(),
    };
    let build = |op: Term, z: Term, xs: Term| -> Option<Term> {
        let (o, z2) = (op.shift(2), z.shift(2));
        let step = make::lam("acc", z.ty().clone(), |_| {
            make::lam("chunk", chunk.clone(), |c| {
                let acc = Term::bound(1, z.ty().clone());
                if in_order {
                    make::reduce(p.clone(), o, acc, c)
                } else {
                    let inner = make::reduce(p.clone(), o.clone(), z2, c);
                    Term::apply_all(&o, &[acc, inner])
                }
            })
        });
        Some(make::reduce(outer.clone(), step, z, make::split(n, xs)?))
    };
    match args.get(2) {
        Some(xs) => build(op, z, (*xs).clone()).ok_or(SHAPE),
        None => {
            let xs = Term::bound(0, from.clone());
            let body = build(op.shift(1), z.shift(1), xs).ok_or(SHAPE)?;
            Ok(Term::lam("xs", from, body))
        }
    }
}

/// A reduction inside of a map goes outside:
/// `map(|x| reduce(op, i, e), xs) = reduce(|acc, y| map(|p| op(p.0, p.1), zip(acc, y)), map(|x| i, xs),
/// transpose(map(|x| e, xs)))`. If `op` mentions `x`, the elements of `xs` come along.
fn lift(t: &Term) -> Result<Term, Why> {
    let (k, f, xs) = t.as_map().ok_or(SHAPE)?;
    let TermKind::Lam(hint, body) = f.kind() else { return Err(SHAPE) };
    let (p, op, z, e) = reduction(body).ok_or(Why::Shape("not a map over a reduction"))?;
    let Prim::Reduce(kind, _) = p else { return Err(SHAPE) };
    let (n, x_ty) = make::elements(xs.ty()).ok_or(SHAPE)?;
    let (acc_ty, (_, e_ty)) = (z.ty().clone(), make::elements(e.ty()).ok_or(SHAPE)?);
    let over =
        |body: &Term| make::map(&MapKind::High, Term::lam(hint, x_ty.clone(), body.clone()), xs.clone());
    let start = over(z).ok_or(SHAPE)?;
    let start = match (z.lower(), z.mentions(0)) {
        // The same for all: made, not mapped.
        (Some(c), false) => {
            let c = c.shift(1);
            make::generate(&n, make::lam("_", Type::index(n.clone()), |_| c)).ok_or(SHAPE)?
        }
        _ => start,
    };
    let elements = over(e).and_then(make::transpose).ok_or(SHAPE)?;
    let accs = Type::array(n.clone(), acc_ty.clone());
    let ys = Type::array(n.clone(), e_ty.clone());
    // Loops keep their names.
    let element = op.as_lam().map_or("y", |f| make::hint(f, "y"));
    // Under acc and y (and p).
    let step = if op.mentions(0) {
        // op is under x; x becomes the last part of the triple ((acc, y), x).
        let triple = Type::pair(Type::pair(acc_ty, e_ty), x_ty);
        let op3 = op.shift_from(1, 3);
        let xs2 = xs.shift(2);
        make::lam("acc", accs.clone(), |_| {
            make::lam(element, ys.clone(), |y| {
                let acc = Term::bound(1, accs.clone());
                let each = make::lam(hint, triple, |p| {
                    let (pair, x) = (make::project(0, p.clone()), make::project(1, p.clone()));
                    let (Some(pair), Some(x)) = (pair, x) else { return p };
                    let (a, b) = (make::project(0, pair.clone()), make::project(1, pair));
                    match (a, b) {
                        (Some(a), Some(b)) => Term::apply_all(&op3.open(&x), &[a, b]),
                        _ => p,
                    }
                });
                let zipped = make::zip(acc.clone(), y).and_then(|z| make::zip(z, xs2));
                zipped.and_then(|z| make::map(k, each, z)).unwrap_or(acc)
            })
        })
    } else {
        let op3 = op.lower().ok_or(SHAPE)?.shift(3);
        let pair = Type::pair(acc_ty, e_ty);
        make::lam("acc", accs.clone(), |_| {
            make::lam(element, ys.clone(), |y| {
                let acc = Term::bound(1, accs.clone());
                let each = make::lam(hint, pair, |p| {
                    match (make::project(0, p.clone()), make::project(1, p.clone())) {
                        (Some(a), Some(b)) => Term::apply_all(&op3, &[a, b]),
                        _ => p,
                    }
                });
                make::zip(acc.clone(), y).and_then(|z| make::map(k, each, z)).unwrap_or(acc)
            })
        })
    };
    // Where accumulators and elements have one type the reduction stays one that says nothing of order.
    let kind = if kind == FoldKind::High && accs != ys { FoldKind::Seq } else { kind };
    Ok(make::reduce(Prim::Reduce(kind, None), step, start, elements))
}
