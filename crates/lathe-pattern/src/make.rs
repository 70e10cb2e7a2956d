//! Typed terms made of typed terms: what rules build their results with. Sizes are given where a result
//! must keep its type as it was spelled.

use crate::nat::Nat;
use crate::prim::{MapKind, PadMode, Prim};
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};

/// A primitive at a type, applied.
pub fn applied(p: Prim, args: &[Term], result: Type) -> Term {
    let ty = Type::funs(args.iter().map(|a| a.ty().clone()).collect::<Vec<_>>(), result);
    Term::apps(Term::prim(p, ty), args.iter().cloned())
}

/// `|x| body(x)`; terms from outside must be shifted by 1 before they go in.
pub fn lam(hint: &str, param: Type, body: impl FnOnce(Term) -> Term) -> Term {
    let x = Term::bound(0, param.clone());
    Term::lam(hint, param, body(x))
}

/// The name of a function's parameter, or `other`.
pub fn hint<'a>(f: &'a Term, other: &'a str) -> &'a str {
    match f.kind() {
        TermKind::Lam(x, _) => x,
        _ => other,
    }
}

/// The same function, its parameter called otherwise.
pub fn renamed(f: &Term, hint: &str) -> Term {
    match (f.kind(), f.ty().as_fun()) {
        (TermKind::Lam(_, b), Some((from, _))) => Term::lam(hint, from.clone(), b.clone()).placed_like(f),
        _ => f.clone(),
    }
}

/// The size and the element type of an array or vector.
pub fn elements(t: &Type) -> Option<(Nat, Type)> {
    match t.kind() {
        TypeKind::Array(n, e) | TypeKind::Vector(n, e) => Some((n.clone(), e.clone())),
        _ => None,
    }
}

pub fn map(kind: &MapKind, f: Term, xs: Term) -> Option<Term> {
    let (n, _) = elements(xs.ty())?;
    let (_, to) = f.ty().as_fun()?;
    let result = Type::array(n, to.clone());
    Some(applied(Prim::Map(kind.clone()), &[f, xs], result))
}
pub fn split(m: &Nat, xs: Term) -> Option<Term> {
    let (n, e) = elements(xs.ty())?;
    let result = Type::array(n.floor_div(m), Type::array(m.clone(), e));
    Some(applied(Prim::Split(m.clone()), &[xs], result))
}

pub fn join(xs: Term) -> Option<Term> {
    let (n, row) = elements(xs.ty())?;
    let (m, e) = elements(&row)?;
    let result = Type::array(n.times(&m), e);
    Some(applied(Prim::Join, &[xs], result))
}

/// As [`join`], with the type as it is wanted (the same for all sizes that the facts admit).
pub fn join_as(xs: Term, result: &Type) -> Term {
    applied(Prim::Join, &[xs], result.clone())
}

pub fn transpose(xs: Term) -> Option<Term> {
    let (n, row) = elements(xs.ty())?;
    let (m, e) = elements(&row)?;
    let result = Type::array(m, Type::array(n, e));
    Some(applied(Prim::Transpose, &[xs], result))
}

pub fn zip(a: Term, b: Term) -> Option<Term> {
    let ((n, x), (_, y)) = (elements(a.ty())?, elements(b.ty())?);
    let result = Type::array(n, Type::pair(x, y));
    Some(applied(Prim::Zip, &[a, b], result))
}

pub fn slide(size: &Nat, step: &Nat, xs: Term) -> Option<Term> {
    let (n, e) = elements(xs.ty())?;
    let count = n.minus(size).plus(step).floor_div(step);
    let result = Type::array(count, Type::array(size.clone(), e));
    Some(applied(Prim::Slide(size.clone(), step.clone()), &[xs], result))
}

pub fn pad(l: &Nat, r: &Nat, mode: PadMode, xs: Term) -> Option<Term> {
    let (n, e) = elements(xs.ty())?;
    let result = Type::array(l.plus(&n).plus(r), e);
    Some(applied(Prim::Pad(l.clone(), r.clone(), mode), &[xs], result))
}

pub fn project(i: usize, pair: Term) -> Option<Term> {
    let TypeKind::Tuple(ts) = pair.ty().kind().clone() else { return None };
    let result = ts.get(i)?.clone();
    Some(applied(Prim::Proj(i, ts.len()), &[pair], result))
}

pub fn generate(n: &Nat, f: Term) -> Option<Term> {
    let (_, to) = f.ty().as_fun()?;
    let result = Type::array(n.clone(), to.clone());
    Some(applied(Prim::Generate(n.clone()), &[f], result))
}

/// A reduction of any kind; the result has the type of the start.
pub fn reduce(p: Prim, op: Term, z: Term, xs: Term) -> Term {
    let result = z.ty().clone();
    applied(p, &[op, z, xs], result)
}
