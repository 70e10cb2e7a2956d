//! Rules of `map`, `split`, `join` and `transpose`.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::make;
use crate::nat::Nat;
use crate::prim::{MapKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::Type;
use lathe_strategy::{Vocabulary, Why};

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // e = id(e)
    v.rule("addId", |t, _, _| {
        if !t.ty().is_data() {
            return Err(SHAPE);
        }
        let ty = t.ty().clone();
        Ok(make::applied(Prim::Id, std::slice::from_ref(t), ty))
    });
    // id(e) = e
    v.rule("removeId", |t, _, _| t.as_unary(|p| *p == Prim::Id).cloned().ok_or(SHAPE));
    // id = transpose >> transpose on two dimensions
    v.rule("idToTranspose", |t, _, _| {
        let e = t.as_unary(|p| *p == Prim::Id).ok_or(SHAPE)?;
        let once = make::transpose(e.clone());
        once.and_then(make::transpose).ok_or(Why::Shape("not two-dimensional"))
    });
    // map(map(f)) >> transpose = transpose >> map(map(f))
    v.rule("transposeMove", |t, _, _| {
        let mapped = t.as_unary(|p| *p == Prim::Transpose).ok_or(SHAPE)?;
        let (k, outer, xs) = mapped.as_map().ok_or(SHAPE)?;
        let (l, f) = inner_map(outer).ok_or(SHAPE)?;
        let turned = make::transpose(xs.clone()).ok_or(SHAPE)?;
        let (_, row) = make::elements(turned.ty()).ok_or(SHAPE)?;
        let g = f.shift(1);
        // The kinds change places with the dimensions.
        let inner = make::lam("x", row, |x| make::map(k, g, x.clone()).unwrap_or(x));
        make::map(l, inner, turned).ok_or(SHAPE)
    });
    // map(g) >> map(f) = map(g >> f)
    v.rule("mapFusion", |t, _, _| {
        let (k, f, rest) = t.as_map().ok_or(SHAPE)?;
        let (l, g, xs) = rest.as_map().ok_or(SHAPE)?;
        if k != l {
            return Err(Why::Shape("not maps of one kind"));
        }
        let (_, from) = make::elements(xs.ty()).ok_or(SHAPE)?;
        let (f, g) = (f.shift(1), g.shift(1));
        let fused = make::lam("x", from, |x| Term::apply(&f, &Term::apply(&g, &x)));
        make::map(k, fused, xs.clone()).ok_or(SHAPE)
    });
    // map(|x| f(g)) = map(|x| g) >> map(f), if f does not mention x and g is more than a name
    v.rule("mapFission", |t, _, _| {
        let (k, whole, xs) = t.as_map().ok_or(SHAPE)?;
        let TermKind::Lam(hint, body) = whole.kind() else { return Err(SHAPE) };
        let (f, g) = body.as_app().ok_or(SHAPE)?;
        let scalar = f.spine().is_some_and(|(p, _)| {
            p.is_scalar_operation()
                || matches!(p, Prim::Tuple(_) | Prim::Proj(..) | Prim::Let | Prim::ToMem(_))
        });
        let name = matches!(g.kind(), TermKind::Bound(_) | TermKind::Free(_) | TermKind::Lit(_));
        if scalar || name || !g.ty().is_data() {
            return Err(Why::Shape("no stage that comes last"));
        }
        let f = f.lower().ok_or(Why::Shape("not a stage of its own: it uses the element"))?;
        let (_, from) = make::elements(xs.ty()).ok_or(SHAPE)?;
        let first = make::map(k, Term::lam(hint, from, g.clone()), xs.clone()).ok_or(SHAPE)?;
        let f = f.shift(1);
        let last = make::lam("x", g.ty().clone(), |x| Term::app(f, x));
        make::map(k, last, first).ok_or(SHAPE)
    });
    // map(f) = split(n) >> map(map(f)) >> join
    v.rule("splitJoin", |t, state, args| split_map(t, &size(args, 0)?, state));
    // map(|x| x) = id
    v.rule("mapIdentity", |t, _, _| {
        let (k, f, xs) = t.as_map().ok_or(SHAPE)?;
        let is_id = match f.kind() {
            TermKind::Lam(_, b) => matches!(b.kind(), TermKind::Bound(0)),
            TermKind::Prim(Prim::Id) => true,
            _ => false,
        };
        if is_id && *k == MapKind::High { Ok(xs.clone()) } else { Err(SHAPE) }
    });
    // map(|_| c, xs) = generate(n, |_| c)
    v.rule("mapConstant", |t, _, _| {
        let (k, f, xs) = t.as_map().ok_or(SHAPE)?;
        let b = f.as_lam().ok_or(SHAPE)?;
        if *k != MapKind::High || b.mentions(0) {
            return Err(SHAPE);
        }
        let (n, _) = make::elements(xs.ty()).ok_or(SHAPE)?;
        // The variable's type alone changes, and it does not occur.
        let c = b.lower().ok_or(SHAPE)?.shift(1);
        make::generate(&n, make::lam("_", Type::index(n.clone()), |_| c)).ok_or(SHAPE)
    });
    // (a, b).0 = a
    v.rule("partOfTuple", |t, _, _| {
        let (f, a) = t.as_app().ok_or(SHAPE)?;
        let Some(Prim::Proj(i, _)) = f.as_prim() else { return Err(SHAPE) };
        match a.spine() {
            Some((Prim::Tuple(n), parts)) if parts.len() == *n => {
                parts.get(*i).map(|p| (*p).clone()).ok_or(SHAPE)
            }
            _ => Err(SHAPE),
        }
    });
    // zip(a, b) >> map(fst) = a; with map(snd): b
    v.rule("mapPartOfZip", |t, _, _| {
        let (k, f, xs) = t.as_map().ok_or(SHAPE)?;
        let (p, sides) = xs.spine().ok_or(SHAPE)?;
        if *k != MapKind::High || *p != Prim::Zip || sides.len() != 2 {
            return Err(SHAPE);
        }
        let part = match f.kind() {
            TermKind::Prim(Prim::Proj(i, _)) => *i,
            TermKind::Lam(_, b) => {
                let (g, x) = b.as_app().ok_or(SHAPE)?;
                match (g.as_prim(), x.kind()) {
                    (Some(Prim::Proj(i, _)), TermKind::Bound(0)) => *i,
                    _ => return Err(SHAPE),
                }
            }
            _ => return Err(SHAPE),
        };
        sides.get(part).map(|s| (*s).clone()).ok_or(SHAPE)
    });
}

/// `|x| map(f)(x)`, or `map(f)`: the kind and `f`, which does not mention `x`.
pub(super) fn inner_map(f: &Term) -> Option<(&MapKind, Term)> {
    match f.kind() {
        TermKind::Lam(_, b) => {
            let (k, g, x) = b.as_map()?;
            matches!(x.kind(), TermKind::Bound(0)).then(|| g.lower()).flatten().map(|g| (k, g))
        }
        TermKind::App(m, g) => match m.as_prim()? {
            Prim::Map(k) => Some((k, g.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// `map(f)`, applied or not, by chunks of `n`.
pub(super) fn split_map(t: &Term, n: &Nat, state: &mut crate::language::TermState) -> Result<Term, Why> {
    let (k, f, from, to) = match (t.as_map(), t.as_app()) {
        (Some((k, f, xs)), _) => (k, f, xs.ty().clone(), t.ty().clone()),
        (None, Some((m, f))) => match (m.as_prim(), t.ty().as_fun()) {
            (Some(Prim::Map(k)), Some((from, to))) => (k, f, from.clone(), to.clone()),
            _ => return Err(SHAPE),
        },
        _ => return Err(SHAPE),
    };
    let (length, _) = make::elements(&from).ok_or(SHAPE)?;
    state.need(Fact::AtMost(Nat::constant(1), n.clone()))?;
    state.need(Fact::Divides(n.clone(), length))?;
    let chunked = |f: Term, xs: Term| -> Option<Term> {
        let chunks = make::split(n, xs)?;
        let (_, chunk) = make::elements(chunks.ty())?;
        let g = f.shift(1);
        let inner = make::lam("chunk", chunk, |c| make::map(k, g, c.clone()).unwrap_or(c));
        Some(make::join_as(make::map(k, inner, chunks)?, &to))
    };
    match t.as_map() {
        Some((_, f, xs)) => chunked(f.clone(), xs.clone()).ok_or(SHAPE),
        None => {
            let x = Term::bound(0, from.clone());
            let body = chunked(f.shift(1), x).ok_or(SHAPE)?;
            Ok(Term::lam("xs", from, body))
        }
    }
}
