//! Storing sub-terms: `toMem` around a program, without editing it.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::make;
use crate::prim::{MapKind, Prim};
use crate::term::{Term, TermKind};
use lathe_ir::Space;
use lathe_strategy::{Entry, Vocabulary, Why};
use std::rc::Rc;

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // storeWhere(what, space): the first data that the predicate accepts, stored once for all its uses
    v.add(
        "storeWhere",
        Entry::Tested(Rc::new(|t: &Term, _, test, args| {
            let name = args.first().map(|a| a.value.to_string()).unwrap_or_else(|| "host".to_string());
            let space =
                Space::from_name(&name).ok_or_else(|| Why::Mistake(format!("`{name}` is not a space")))?;
            let e =
                find(t, 0, test).ok_or(Why::Condition("the predicate does not hold anywhere".to_string()))?;
            let x = Term::bound(0, e.ty().clone());
            let body = replace_all(&t.shift(1), &e.shift(1), &x, 0);
            let f = Term::lam("stored", e.ty().clone(), body);
            let ty = t.ty().clone();
            Ok(make::applied(Prim::ToMem(space), &[e, f], ty))
        })),
    );
    // toMem(view(e), |x| b) = toMem(e, |x| b with view(x) for x): the layout stays outside of memory
    v.rule("viewOutOfMem", |t, _, _| {
        let (p, args) = t.spine().ok_or(SHAPE)?;
        let (Prim::ToMem(space), [value, f]) = (p, args.as_slice()) else { return Err(SHAPE) };
        let (view, e) = value.as_app().ok_or(SHAPE)?;
        let layout = match view.kind() {
            TermKind::Prim(p) => matches!(p, Prim::Join | Prim::Split(_) | Prim::Transpose | Prim::AsScalar),
            TermKind::App(m, g) => {
                matches!(m.as_prim(), Some(Prim::Map(MapKind::High))) && !crate::language::computes(g)
            }
            _ => false,
        };
        let body = f.as_lam().ok_or(SHAPE)?;
        if !layout {
            return Err(Why::Shape("not a stored view"));
        }
        let x = Term::app(view.shift(1), Term::bound(0, e.ty().clone()));
        // The variable's type changes with what is stored.
        let body = body.shift_from(1, 1).open(&x);
        let g = Term::lam("stored", e.ty().clone(), body);
        let ty = t.ty().clone();
        Ok(make::applied(Prim::ToMem(*space), &[e.clone(), g], ty))
    });
    // e = split(n) >> join
    v.rule("joinSplit", |t, state, args| {
        let n = size(args, 0)?;
        let (length, _) = make::elements(t.ty()).filter(|_| t.ty().rank() > 0).ok_or(SHAPE)?;
        state.need(Fact::Divides(n.clone(), length))?;
        let split = make::split(&n, t.clone()).ok_or(SHAPE)?;
        Ok(make::join_as(split, t.ty()))
    });
    // e = map(transpose) >> map(transpose) on three dimensions
    v.rule("mapTransposePair", |t, _, _| {
        let once = |xs: Term| -> Option<Term> {
            let (_, row) = make::elements(xs.ty())?;
            make::elements(&row).filter(|(_, c)| make::elements(c).is_some())?;
            let body = make::transpose(Term::bound(0, row.clone()))?;
            make::map(&MapKind::High, Term::lam("chunk", row, body), xs)
        };
        once(t.clone()).and_then(once).ok_or(Why::Shape("not three-dimensional"))
    });
    // A copy, to be stored: parallelized and vectorized like any map.
    v.rule("copyElements", |t, _, _| super::lowering::copy(&MapKind::Seq, t).ok_or(SHAPE));
}

/// The first sub-term that a test accepts: itself, then the function, then the argument; it must not use
/// variables that are bound inside.
fn find(t: &Term, depth: u32, test: &mut dyn FnMut(&Term) -> bool) -> Option<Term> {
    if t.ty().is_data() && test(t) {
        let out = (0..depth).try_fold(t.clone(), |t, _| t.lower());
        if out.is_some() {
            return out;
        }
    }
    match t.kind() {
        TermKind::Lam(_, b) => find(b, depth + 1, test),
        _ => t.children().into_iter().find_map(|c| find(c, depth, test)),
    }
}

/// All occurrences of a term replaced, under binders too.
fn replace_all(t: &Term, what: &Term, by: &Term, depth: u32) -> Term {
    if t.ty() == what.ty() && *t == what.shift(depth) {
        return by.shift(depth);
    }
    let under = u32::from(matches!(t.kind(), TermKind::Lam(..)));
    let mut out = t.clone();
    for (n, c) in t.children().into_iter().enumerate() {
        let new = replace_all(c, what, by, depth + under);
        if !new.ptr_eq(c) {
            out = out.with_child(n, new);
        }
    }
    out
}
