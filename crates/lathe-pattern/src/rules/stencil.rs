//! Rules of neighbourhoods.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::make;
use crate::nat::Nat;
use crate::prim::{MapKind, Prim};
use crate::term::Term;
use crate::types::Type;
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
            let text = format!("tiles of {u} elements have stride {step}, not {given}");
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
    // slide(sz, 1) = concat(tiles of as many whole ones as there are, slide(sz, 1) of the rest)
    v.rule("tileSlideRest", |t, state, args| {
        let (p, xs) = t.as_app().ok_or(SHAPE)?;
        let Some(Prim::Slide(sz, st)) = p.as_prim() else { return Err(SHAPE) };
        let (u, one) = (size(args, 0)?, Nat::constant(1));
        if !state.facts.same(st, &one) {
            return Err(Why::Condition(format!("windows have stride {st}, not 1")));
        }
        let step = u.minus(sz).plus(&one);
        let (n, e) = make::elements(xs.ty()).ok_or(SHAPE)?;
        state.need(Fact::AtMost(one.clone(), step.clone()))?;
        let whole = n.minus(sz).plus(&one).floor_div(&step).times(&step);
        let (front, window) = (whole.plus(sz).minus(&one), Type::array(sz.clone(), e.clone()));
        state.need(Fact::AtMost(front.clone(), n.clone()))?;
        let xs = std::slice::from_ref(xs);
        let head = make::applied(Prim::Take(front.clone()), xs, Type::array(front, e.clone()));
        let tail = make::applied(Prim::Drop(whole.clone()), xs, Type::array(n.minus(&whole), e));
        let tiles = make::slide(&u, &step, head).ok_or(SHAPE)?;
        let (_, tile) = make::elements(tiles.ty()).ok_or(SHAPE)?;
        let inner = make::lam("tile", tile, |x| make::slide(sz, st, x.clone()).unwrap_or(x));
        let nested = make::map(&MapKind::High, inner, tiles).ok_or(SHAPE)?;
        let tiled = make::join_as(nested, &Type::array(whole, window));
        let rest = make::slide(sz, st, tail).ok_or(SHAPE)?;
        Ok(make::applied(Prim::Concat, &[tiled, rest], t.ty().clone()))
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
