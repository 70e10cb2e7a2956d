//! Rules of neighbourhoods.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::make;
use crate::nat::Nat;
use crate::prim::{MapKind, Prim};
use crate::term::Term;
use lathe_strategy::{Vocabulary, Why};

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // slide(sz, st) = slide(u, v) >> map(slide(sz, st)) >> join, where sz - st = u - v, st | v, v | n - u
    v.rule("tileSlide", |t, state, args| {
        let (p, xs) = t.as_app().ok_or(SHAPE)?;
        let Some(Prim::Slide(sz, st)) = p.as_prim() else { return Err(SHAPE) };
        let u = size(args, 0)?;
        let step = u.minus(sz).plus(st);
        if let Ok(given) = size(args, 1)
            && !state.facts.same(&given, &step)
        {
            let text = format!("tiles of {u} elements are {step} apart, not {given}");
            return Err(Why::Condition(text));
        }
        let (n, _) = make::elements(xs.ty()).ok_or(SHAPE)?;
        let one = Nat::constant(1);
        state.need(Fact::AtMost(one, step.clone()))?;
        state.need(Fact::Divides(st.clone(), step.clone()))?;
        state.need(Fact::Divides(step.clone(), n.minus(&u)))?;
        let tiles = make::slide(&u, &step, xs.clone()).ok_or(SHAPE)?;
        let (_, tile) = make::elements(tiles.ty()).ok_or(SHAPE)?;
        let inner = make::lam("tile", tile, |x| make::slide(sz, st, x.clone()).unwrap_or(x));
        let nested = make::map(&MapKind::High, inner, tiles).ok_or(SHAPE)?;
        Ok(make::join_as(nested, t.ty()))
    });
    // slide(n, n) = split(n)
    v.rule("slideToSplit", |t, state, _| {
        let (p, xs) = t.as_app().ok_or(SHAPE)?;
        match p.as_prim() {
            Some(Prim::Slide(sz, st)) if state.facts.same(sz, st) => {
                Ok(make::applied(Prim::Split(sz.clone()), std::slice::from_ref(xs), t.ty().clone()))
            }
            _ => Err(SHAPE),
        }
    });
    // split(n) = slide(n, n)
    v.rule("splitToSlide", |t, _, _| {
        let (p, xs) = t.as_app().ok_or(SHAPE)?;
        match p.as_prim() {
            Some(Prim::Split(n)) => {
                Ok(make::applied(Prim::Slide(n.clone(), n.clone()), std::slice::from_ref(xs), t.ty().clone()))
            }
            _ => Err(SHAPE),
        }
    });
}
