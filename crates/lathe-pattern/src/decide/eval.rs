//! Terms evaluated over variables, primitive by primitive: the meaning of [`crate::eval`], for all values at once.

use super::fold::fold;
use super::value::{Key, Out, Scope, Sym, World, array, unknown};
use crate::nat::Nat;
use crate::prim::{PadMode, Prim};
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use lathe_prove::{Id, Op};
use std::rc::Rc;

pub(super) fn term(w: &mut World, t: &Term, scope: &Scope) -> Out {
    w.spend()?;
    match t.kind() {
        TermKind::Bound(i) => scope.get(*i).cloned().map_or_else(|| unknown("an unbound variable"), Ok),
        TermKind::Free(n) => Ok(w.meta(n, t.ty())),
        TermKind::Lit(v) => Ok(Sym::Scalar(w.f.constant(*v))),
        TermKind::Lam(_, b) => {
            let (b, scope) = (b.clone(), scope.clone());
            Ok(Sym::Fun(Rc::new(move |w, x| term(w, &b, &scope.with(x)))))
        }
        TermKind::App(f, a) => {
            let (f, a) = (term(w, f, scope)?, term(w, a, scope)?);
            w.call(&f, a)
        }
        TermKind::Prim(p) => saturated(w, p, t.ty(), Vec::new()),
        TermKind::DepLam(..) | TermKind::DepApp(..) => unknown("functions of sizes or types"),
    }
}

fn saturated(w: &mut World, p: &Prim, ty: &Type, args: Vec<Sym>) -> Out {
    if args.len() >= p.arity() {
        return primitive(w, p, ty, args);
    }
    let (p, ty) = (p.clone(), ty.clone());
    Ok(Sym::Fun(Rc::new(move |w, x| {
        let mut args = args.clone();
        args.push(x);
        saturated(w, &p, &ty, args)
    })))
}

/// The type of the `n`-th argument of a primitive at a type, and of its result.
fn argument(ty: &Type, n: usize) -> Option<&Type> {
    let mut t = ty;
    for _ in 0..n {
        t = t.as_fun()?.1;
    }
    t.as_fun().map(|f| f.0)
}

fn result(ty: &Type, arity: usize) -> Option<&Type> {
    (0..arity).try_fold(ty, |t, _| t.as_fun().map(|f| f.1))
}

fn elements(t: Option<&Type>) -> Out<(Nat, Type)> {
    match t.and_then(crate::make::elements) {
        Some(e) => Ok(e),
        None => unknown("no array"),
    }
}

fn scalar(x: &Sym) -> Out<Id> {
    match x {
        Sym::Scalar(id) => Ok(*id),
        _ => unknown("no scalar"),
    }
}

fn position(x: &Sym) -> Out<Nat> {
    match x {
        Sym::Index(n) => Ok(n.clone()),
        _ => unknown("no position"),
    }
}

fn part(x: &Sym, n: usize) -> Out {
    match x {
        Sym::Tuple(v) if n < v.len() => Ok(v[n].clone()),
        _ => unknown("no tuple"),
    }
}

/// Lazy in its branches: what one of them has no value for is a matter of the formula.
fn select(w: &mut World, c: Id, a: &Sym, b: &Sym, ty: &Type) -> Out {
    w.spend()?;
    if w.f.is_true(c) {
        return Ok(a.clone());
    }
    if w.f.is_false(c) {
        return Ok(b.clone());
    }
    match (a, b, ty.kind()) {
        (Sym::Scalar(a), Sym::Scalar(b), _) => Ok(Sym::Scalar(w.f.select(c, *a, *b))),
        (Sym::Tuple(x), Sym::Tuple(y), TypeKind::Tuple(ts)) => {
            let parts = x.iter().zip(y).zip(ts).map(|((x, y), t)| select(w, c, x, y, t));
            Ok(Sym::Tuple(parts.collect::<Out<Vec<_>>>()?))
        }
        (Sym::Array(n, _), Sym::Array(..), TypeKind::Array(_, t) | TypeKind::Vector(_, t)) => {
            let (a, b, t) = (a.clone(), b.clone(), t.clone());
            Ok(array(n.clone(), move |w, i| {
                let (x, y) = (w.at(&a, i)?, w.at(&b, i)?);
                select(w, c, &x, &y, &t)
            }))
        }
        _ => {
            let (x, y) = (w.quote(a, ty)?, w.quote(b, ty)?);
            if x == y {
                return Ok(a.clone());
            }
            let c = w.normal.of(&mut w.f, c);
            let key = w.key(Key::Select(c, x, y));
            Ok(w.reflect(key, ty))
        }
    }
}

fn primitive(w: &mut World, p: &Prim, ty: &Type, args: Vec<Sym>) -> Out {
    let a = |n: usize| args[n].clone();
    let one = Nat::constant(1);
    match p {
        Prim::Id => Ok(a(0)),
        Prim::Unary(op) => {
            let x = scalar(&args[0])?;
            Ok(Sym::Scalar(w.f.unary(*op, x)))
        }
        Prim::Binary(op) => {
            let (x, y) = (scalar(&args[0])?, scalar(&args[1])?);
            Ok(Sym::Scalar(w.f.binary(*op, x, y)))
        }
        Prim::Math(g) => {
            let v = args.iter().map(scalar).collect::<Out<Vec<_>>>()?;
            let ty = w.f.ty(v[0]);
            Ok(Sym::Scalar(w.f.add(Op::Math(*g, v), ty)))
        }
        Prim::Cast(to) => {
            let x = match &args[0] {
                Sym::Index(n) => w.number(n),
                x => scalar(x)?,
            };
            Ok(Sym::Scalar(w.f.cast(*to, x)))
        }
        Prim::Select => {
            let c = scalar(&args[0])?;
            let c = w.normal.of(&mut w.f, c);
            match result(ty, 3) {
                Some(t) => select(w, c, &args[1], &args[2], t),
                None => unknown("no type"),
            }
        }
        Prim::Tuple(_) => Ok(Sym::Tuple(args)),
        Prim::Proj(n, _) => part(&args[0], *n),
        Prim::NatValue(n) => Ok(Sym::Scalar(w.number(n))),
        Prim::AsIndex(n) => as_index(w, scalar(&args[0])?, n),

        Prim::Map(_) | Prim::MapVec(_) => {
            let (f, xs) = (a(0), a(1));
            let (n, _) = elements(result(ty, 2))?;
            Ok(array(n, move |w, i| {
                let x = w.at(&xs, i)?;
                w.call(&f, x)
            }))
        }
        Prim::Reduce(..) => {
            let (n, _) = elements(argument(ty, 2))?;
            folded(w, ty, &args, n)
        }
        Prim::Scan(_) => {
            let (n, _) = elements(argument(ty, 2))?;
            let ty = ty.clone();
            Ok(array(n, move |w, i| folded(w, &ty, &args, i.plus(&Nat::constant(1)))))
        }
        Prim::Iterate(n, _) => {
            let Some(t) = result(ty, 2).cloned() else { return unknown("no type") };
            let f = a(0);
            fold(w, n.clone(), a(1), Rc::new(move |w, acc, _| w.call(&f, acc)), &t)
        }

        Prim::Zip => {
            let (x, y) = (a(0), a(1));
            let (n, _) = elements(result(ty, 2))?;
            Ok(array(n, move |w, i| Ok(Sym::Tuple(vec![w.at(&x, i)?, w.at(&y, i)?]))))
        }
        Prim::Unzip => {
            let (n, _) = elements(argument(ty, 0))?;
            let side = |k: usize| {
                let xs = a(0);
                array(n.clone(), move |w, i| {
                    let x = w.at(&xs, i)?;
                    part(&x, k)
                })
            };
            Ok(Sym::Tuple(vec![side(0), side(1)]))
        }
        Prim::Split(m) | Prim::AsVector(m) => {
            let (n, _) = elements(result(ty, 1))?;
            let (xs, m) = (a(0), m.clone());
            Ok(array(n, move |_, i| {
                let (xs, start) = (xs.clone(), i.times(&m));
                Ok(array(m.clone(), move |w, j| w.at(&xs, &start.plus(j))))
            }))
        }
        Prim::Join | Prim::AsScalar => {
            let (n, _) = elements(result(ty, 1))?;
            let (_, row) = elements(argument(ty, 0))?;
            let (m, _) = elements(Some(&row))?;
            let xs = a(0);
            Ok(array(n, move |w, i| {
                let row = w.at(&xs, &i.floor_div(&m))?;
                w.at(&row, &i.modulo(&m))
            }))
        }
        Prim::Transpose => {
            let (n, row) = elements(result(ty, 1))?;
            let (m, _) = elements(Some(&row))?;
            let xs = a(0);
            Ok(array(n, move |_, i| {
                let (xs, i) = (xs.clone(), i.clone());
                Ok(array(m.clone(), move |w, j| {
                    let row = w.at(&xs, j)?;
                    w.at(&row, &i)
                }))
            }))
        }
        Prim::Slide(size, step) => {
            let (n, _) = elements(result(ty, 1))?;
            Ok(windows(n, a(0), size.clone(), step.clone()))
        }
        Prim::CircularBuffer(_, size) | Prim::RotateValues(size) => {
            let (n, _) = elements(result(ty, 2))?;
            let (f, xs) = (a(0), a(1));
            let loaded = array(n.plus(size).minus(&one), move |w, i| {
                let x = w.at(&xs, i)?;
                w.call(&f, x)
            });
            Ok(windows(n, loaded, size.clone(), one))
        }
        Prim::Pad(l, _, mode) => {
            let (n, _) = elements(result(ty, 1))?;
            let (m, _) = elements(argument(ty, 0))?;
            let (xs, l, mode) = (a(0), l.clone(), *mode);
            Ok(array(n, move |w, i| {
                let at = inside(w, mode, &i.minus(&l), &m)?;
                w.at(&xs, &at)
            }))
        }
        Prim::PadValue(l, _) => {
            let (n, _) = elements(result(ty, 2))?;
            let (m, _) = elements(argument(ty, 1))?;
            let (v, xs, l) = (a(0), a(1), l.clone());
            Ok(array(n, move |w, i| {
                let at = i.minus(&l);
                if is_inside(w, &at, &m)? { w.at(&xs, &at) } else { Ok(v.clone()) }
            }))
        }
        Prim::PadWith(l, _) => {
            let (n, _) = elements(result(ty, 2))?;
            let (m, _) = elements(argument(ty, 1))?;
            let (h, xs, l) = (a(0), a(1), l.clone());
            Ok(array(n, move |w, i| {
                let at = i.minus(&l);
                if is_inside(w, &at, &m)? {
                    return w.at(&xs, &at);
                }
                let (i, n) = (w.number(&at), w.number(&m));
                w.call2(&h, Sym::Scalar(i), Sym::Scalar(n))
            }))
        }
        Prim::Take(m) => {
            let xs = a(0);
            Ok(array(m.clone(), move |w, i| w.at(&xs, i)))
        }
        Prim::Drop(m) => {
            let (n, _) = elements(result(ty, 1))?;
            let (xs, m) = (a(0), m.clone());
            Ok(array(n, move |w, i| w.at(&xs, &i.plus(&m))))
        }
        Prim::Concat => {
            let (n, _) = elements(result(ty, 2))?;
            let (first, _) = elements(argument(ty, 0))?;
            let (x, y) = (a(0), a(1));
            Ok(array(n, move |w, i| {
                if w.at_most(&i.plus(&Nat::constant(1)), &first)? {
                    w.at(&x, i)
                } else {
                    w.at(&y, &i.minus(&first))
                }
            }))
        }
        Prim::Gather => {
            let (n, _) = elements(result(ty, 2))?;
            let (f, xs) = (a(0), a(1));
            Ok(array(n, move |w, i| {
                let to = w.call(&f, Sym::Index(i.clone()))?;
                w.at(&xs, &position(&to)?)
            }))
        }
        Prim::Reorder => {
            let (n, _) = elements(result(ty, 3))?;
            let (f, xs) = (a(0), a(2));
            Ok(array(n, move |w, i| {
                let to = w.call(&f, Sym::Index(i.clone()))?;
                w.at(&xs, &position(&to)?)
            }))
        }
        Prim::Scatter => unknown("`scatter`"),
        Prim::Generate(n) => {
            let f = a(0);
            Ok(array(n.clone(), move |w, i| w.call(&f, Sym::Index(i.clone()))))
        }
        Prim::At => {
            let i = position(&args[0])?;
            w.at(&args[1], &i)
        }
        Prim::AtNat(i) => w.at(&args[0], i),
        Prim::VectorFromScalar(m) => {
            let x = a(0);
            Ok(array(m.clone(), move |_, _| Ok(x.clone())))
        }
        Prim::Let | Prim::ToMem(_) => w.call(&args[1], a(0)),
    }
}

/// A number as a position: the one that it was made of, or one of which nothing else is known.
fn as_index(w: &mut World, x: Id, size: &Nat) -> Out {
    let x = w.normal.of(&mut w.f, x);
    let known = match (w.f.value(x), &w.f.get(x).op) {
        (Some(v), _) => Some(Nat::constant(v.to_i64())),
        (None, Op::Var(k)) => match w.meaning(*k) {
            Key::Nat(n) => Some(n.clone()),
            _ => None,
        },
        _ => None,
    };
    if let Some(n) = known {
        let below = n.plus(&Nat::constant(1));
        if w.indices.is_nonnegative(&n) && w.indices.at_most(&below, size) {
            return Ok(Sym::Index(n));
        }
    }
    let size = w.indices.normal(size);
    let key = w.key(Key::Position(x, size.clone()));
    Ok(w.reflect(key, &Type::index(size)))
}

fn windows(count: Nat, xs: Sym, size: Nat, step: Nat) -> Sym {
    array(count, move |_, i| {
        let (xs, start) = (xs.clone(), i.times(&step));
        Ok(array(size.clone(), move |w, j| w.at(&xs, &start.plus(j))))
    })
}

fn folded(w: &mut World, ty: &Type, args: &[Sym], count: Nat) -> Out {
    let Some(acc) = argument(ty, 1).cloned() else { return unknown("no type") };
    let (op, xs) = (args[0].clone(), args[2].clone());
    let step = move |w: &mut World, acc: Sym, i: &Nat| {
        let x = w.at(&xs, i)?;
        w.call2(&op, acc, x)
    };
    fold(w, count, args[1].clone(), Rc::new(step), &acc)
}

fn is_inside(w: &mut World, at: &Nat, size: &Nat) -> Out<bool> {
    Ok(w.at_most(&Nat::zero(), at)? && w.at_most(&at.plus(&Nat::constant(1)), size)?)
}

/// Where `pad` reads position `i` of an array.
fn inside(w: &mut World, mode: PadMode, i: &Nat, n: &Nat) -> Out<Nat> {
    let one = Nat::constant(1);
    // An empty array has nothing to read.
    if !w.at_most(&one, n)? {
        return unknown("an empty array is padded");
    }
    Ok(match mode {
        PadMode::Clamp => match (w.at_most(&Nat::zero(), i)?, w.at_most(&i.plus(&one), n)?) {
            (false, _) => Nat::zero(),
            (true, true) => i.clone(),
            (true, false) => n.minus(&one),
        },
        PadMode::Wrap => i.modulo(n),
        PadMode::Mirror => {
            let j = i.modulo(&n.scaled(2));
            if w.at_most(&j.plus(&one), n)? { j } else { n.scaled(2).minus(&one).minus(&j) }
        }
    })
}

/// The value of a term in which metavariables are free.
pub(super) fn value(w: &mut World, t: &Term) -> Out {
    term(w, t, &Scope::default())
}
