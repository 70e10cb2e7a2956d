//! Reductions, scans and iterations as folds: so many steps from a start, in order.
//!
//! Three equations, none of which changes the order of steps, make folds that are equal the same: few steps are
//! written out; a fold whose accumulator is an array that is worked on element by element is an array of folds; and
//! a fold whose step goes on with a fold is one long fold.

use super::value::{Fold, Key, Out, Quoted, Step, Stop, Sym, World, array};
use crate::nat::Nat;
use crate::types::{Type, TypeKind};
use std::rc::Rc;

/// Steps that are written out.
const FEW: i64 = 16;

pub(super) fn fold(w: &mut World, count: Nat, init: Sym, step: Step, ty: &Type) -> Out {
    w.spend()?;
    let count = w.indices.normal(&count);
    if let Some(n) = count.as_constant().filter(|n| (0..=FEW).contains(n)) {
        return (0..n).try_fold(init, |acc, i| step(w, acc, &Nat::constant(i)));
    }
    match ty.kind() {
        TypeKind::Array(n, t) | TypeKind::Vector(n, t) if is_elementwise(w, &count, &step, ty) => {
            let (step, t, size) = (step.clone(), t.clone(), n.clone());
            Ok(array(n.clone(), move |w, k| {
                let (step, size, k) = (step.clone(), size.clone(), k.clone());
                let first = w.at(&init, &k)?;
                let element: Step = Rc::new(move |w, acc, i| {
                    let whole = only(&size, &k, acc);
                    let next = step(w, whole, i)?;
                    w.at(&next, &k)
                });
                fold(w, count.clone(), first, element, &t)
            }))
        }
        _ => whole(w, count, init, step, ty),
    }
}

/// An array of which one element may be looked at.
fn only(size: &Nat, k: &Nat, x: Sym) -> Sym {
    let k = k.clone();
    array(size.clone(), move |w, i| if w.indices.same(i, &k) { Ok(x.clone()) } else { Err(Stop::Hidden) })
}

/// Whether a step makes each element of its accumulator of that element alone.
fn is_elementwise(w: &mut World, count: &Nat, step: &Step, ty: &Type) -> bool {
    let TypeKind::Array(n, t) = ty.kind() else { return false };
    let n = w.indices.normal(n);
    let out = w.below(&n, |w, k| {
        w.below(count, |w, i| {
            w.depth += 1;
            let key = w.key(Key::Accumulator(w.depth));
            let acc = w.reflect(key, t);
            let next = step(w, only(&n, k, acc), i).and_then(|next| {
                let e = w.at(&next, k)?;
                w.quote(&e, t)
            });
            w.depth -= 1;
            next
        })
    });
    out.is_ok()
}

/// A fold of which only its steps are known.
fn whole(w: &mut World, count: Nat, init: Sym, step: Step, ty: &Type) -> Out {
    let inner = w.below(&count, |w, i| {
        w.depth += 1;
        let key = w.key(Key::Accumulator(w.depth));
        let acc = w.reflect(key, ty);
        let quoted = w.quote(&acc, ty);
        let next = quoted.and_then(|acc_quoted| {
            let next = step(w, acc, i)?;
            Ok((acc_quoted, w.quote(&next, ty)?))
        });
        w.depth -= 1;
        let (acc, next) = next?;
        // Does the step go on from its accumulator with a fold of its own?
        let goes_on = match goes_on(w, &next).cloned() {
            Some(inner) if inner.init == acc && !inner_mentions(w, &next, key) => Some(inner.count),
            _ => None,
        };
        Ok((next, goes_on))
    })?;
    match inner {
        (_, Some(m)) if !m.vars().iter().any(|v| v.starts_with('%')) => {
            let ty2 = ty.clone();
            let (outer, size) = (step, m.clone());
            let long: Step = Rc::new(move |w, acc, v| {
                let (i, j) = (v.floor_div(&size), v.modulo(&size));
                let i = w.indices.normal(&i);
                w.depth += 1;
                let key = w.key(Key::Accumulator(w.depth));
                let start = w.reflect(key, &ty2);
                let next = outer(w, start, &i).and_then(|next| w.quote(&next, &ty2));
                w.depth -= 1;
                match goes_on(w, &next?).cloned() {
                    Some(inner) => (inner.step)(w, acc, &w.indices.normal(&j)),
                    None => Err(Stop::Unknown("a step that is not a fold")),
                }
            });
            whole(w, count.times(&m), init, long, ty)
        }
        (next, _) => {
            let start = w.quote(&init, ty)?;
            let key = w.key(Key::Fold(count.clone(), start.clone(), next));
            w.folds.insert(key, Fold { count, init: start, step });
            Ok(w.reflect(key, ty))
        }
    }
}

/// The fold that a value is.
fn goes_on<'a>(w: &'a World, q: &Quoted) -> Option<&'a Fold> {
    let key = match q {
        Quoted::Key(k) => *k,
        Quoted::Scalar(id) => match w.f.get(*id).op {
            lathe_prove::Op::Var(k) => k,
            _ => return None,
        },
        _ => return None,
    };
    w.folds.get(&key)
}

/// Whether the step of the fold that a value is mentions a key.
fn inner_mentions(w: &World, q: &Quoted, key: u32) -> bool {
    let fold = match q {
        Quoted::Key(k) => *k,
        Quoted::Scalar(id) => match w.f.get(*id).op {
            lathe_prove::Op::Var(k) => k,
            _ => return true,
        },
        _ => return true,
    };
    match w.meaning(fold) {
        Key::Fold(_, _, step) => w.mentions(step, key),
        _ => true,
    }
}
