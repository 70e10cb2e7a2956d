//! Normal forms of terms, as total passes.

use crate::term::{Term, TermKind};
use crate::types::TypeKind;

/// Data flow made explicit: every function is a lambda, every primitive is fully applied, and no lambda is
/// applied. This is the β-normal, η-long form of the type; it exists, is unique, and the pass is idempotent.
pub fn data_flow(t: &Term) -> Term {
    let out = long(t);
    // What is in the form already stays the same node, so that nothing looks changed.
    if out == *t { t.clone() } else { out }
}

fn long(t: &Term) -> Term {
    let t = &head(t);
    if let TypeKind::Fun(from, _) = t.ty().kind() {
        return match t.kind() {
            TermKind::Lam(x, b) => {
                let new = long(b);
                if new.ptr_eq(b) { t.clone() } else { Term::lam(x, from.clone(), new).placed_like(t) }
            }
            _ => {
                let applied = Term::app(t.shift(1), Term::bound(0, from.clone())).placed_like(t);
                Term::lam("x", from.clone(), long(&applied)).placed_like(t)
            }
        };
    }
    spine(t)
}

/// Arguments of a head that is no lambda.
fn spine(t: &Term) -> Term {
    match t.kind() {
        TermKind::App(f, a) => {
            let (g, b) = (spine(f), long(a));
            if g.ptr_eq(f) && b.ptr_eq(a) {
                return t.clone();
            }
            let out = if b.ptr_eq(a) { t.clone() } else { t.with_child(1, b) };
            if g.ptr_eq(f) { out } else { out.with_child(0, g) }
        }
        TermKind::DepLam(_, _, b) => {
            let new = long(b);
            if new.ptr_eq(b) { t.clone() } else { t.with_child(0, new) }
        }
        TermKind::DepApp(f, _) => {
            let new = spine(f);
            if new.ptr_eq(f) { t.clone() } else { t.with_child(0, new) }
        }
        _ => t.clone(),
    }
}

/// Lambdas at the head applied.
fn head(t: &Term) -> Term {
    let TermKind::App(f, a) = t.kind() else { return t.clone() };
    let g = head(f);
    match g.kind() {
        TermKind::Lam(_, b) => head(&b.open(a)),
        _ if g.ptr_eq(f) => t.clone(),
        _ => t.with_child(0, g),
    }
}
