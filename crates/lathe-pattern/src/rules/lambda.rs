//! The rules of functions.

use super::SHAPE;
use crate::term::{Term, TermKind};
use lathe_strategy::Vocabulary;

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // (|x| b)(a) = b with a for x
    v.rule("betaReduction", |t, _, _| match t.as_app() {
        Some((f, a)) => f.as_lam().map(|b| b.open(a)).ok_or(SHAPE),
        None => Err(SHAPE),
    });
    // |x| f(x) = f, if f does not mention x
    v.rule("etaReduction", |t, _, _| {
        let (f, a) = t.as_lam().and_then(Term::as_app).ok_or(SHAPE)?;
        match a.kind() {
            TermKind::Bound(0) => f.lower().ok_or(SHAPE),
            _ => Err(SHAPE),
        }
    });
    // f = |x| f(x)
    v.rule("etaAbstraction", |t, _, _| {
        let (from, _) = t.ty().as_fun().ok_or(SHAPE)?;
        let applied = Term::app(t.shift(1), Term::bound(0, from.clone()));
        Ok(Term::lam("x", from.clone(), applied))
    });
}
