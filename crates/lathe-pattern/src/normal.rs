//! Normal forms of terms, as total passes.

use crate::language::SIZE;
use crate::term::{Term, TermKind};
use crate::types::TypeKind;

/// Data flow made explicit: every function is a lambda, every primitive is fully applied, and no lambda is
/// applied. This is the β-normal, η-long form of the type; it exists, is unique, and the pass is idempotent.
/// The term itself where its form would be larger than terms may be.
pub fn data_flow(t: &Term) -> Term {
    bounded(t).unwrap_or_else(|| t.clone())
}

/// As [`data_flow`]; `None` if the form would be larger than terms may be: functions that are applied twice by
/// functions that are applied twice double it.
pub fn bounded(t: &Term) -> Option<Term> {
    let mut left = SIZE;
    let out = long(t, &mut left, 0)?;
    // What is in the form already stays the same node, so that nothing looks changed.
    Some(if out == *t { t.clone() } else { out })
}

/// How deep the form may nest.
const DEEP: u32 = 4000;

fn long(t: &Term, left: &mut u32, depth: u32) -> Option<Term> {
    *left = left.checked_sub(1)?;
    if depth > DEEP {
        return None;
    }
    let t = &head(t, left)?;
    let TypeKind::Fun(from, _) = t.ty().kind() else { return spine(t, left, depth) };
    Some(match t.kind() {
        TermKind::Lam(x, b) => {
            let new = long(b, left, depth + 1)?;
            if new.ptr_eq(b) { t.clone() } else { Term::lam(x, from.clone(), new).placed_like(t) }
        }
        _ => {
            let applied = Term::app(t.shift(1), Term::bound(0, from.clone())).placed_like(t);
            Term::lam("x", from.clone(), long(&applied, left, depth + 1)?).placed_like(t)
        }
    })
}

/// Arguments of a head that is not a lambda.
fn spine(t: &Term, left: &mut u32, depth: u32) -> Option<Term> {
    Some(match t.kind() {
        TermKind::App(f, a) => {
            let (g, b) = (spine(f, left, depth + 1)?, long(a, left, depth + 1)?);
            if g.ptr_eq(f) && b.ptr_eq(a) {
                return Some(t.clone());
            }
            let out = if b.ptr_eq(a) { t.clone() } else { t.with_child(1, b) };
            if g.ptr_eq(f) { out } else { out.with_child(0, g) }
        }
        TermKind::DepLam(_, _, b) => {
            let new = long(b, left, depth + 1)?;
            if new.ptr_eq(b) { t.clone() } else { t.with_child(0, new) }
        }
        TermKind::DepApp(f, _) => {
            let new = spine(f, left, depth + 1)?;
            if new.ptr_eq(f) { t.clone() } else { t.with_child(0, new) }
        }
        _ => t.clone(),
    })
}

/// Lambdas at the head applied.
fn head(t: &Term, left: &mut u32) -> Option<Term> {
    let TermKind::App(f, a) = t.kind() else { return Some(t.clone()) };
    let g = head(f, left)?;
    match g.kind() {
        TermKind::Lam(_, b) => {
            *left = left.checked_sub(1)?;
            let applied = b.open(a);
            if applied.height() > DEEP {
                return None;
            }
            head(&applied, left)
        }
        _ if g.ptr_eq(f) => Some(t.clone()),
        _ => Some(t.with_child(0, g)),
    }
}
