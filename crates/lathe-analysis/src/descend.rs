//! Narrows a comparison of two trees to what changed, so that checking stays nearly linear.
//!
//! Where two trees have the same header, only their bodies need comparing: pairs in different
//! iterations of one ordered or unordered loop, or at different positions of one sequence, keep their
//! relative order, provided every instance stays where it was.

use crate::env::{Env, Item};
use lathe_ir::stmt::Enters;
use lathe_ir::visit::walk;
use lathe_ir::{Expr, Label, Loop, Stmt, VarId};
use lathe_poly::Affine;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Calls `check` with each pair of corresponding subtrees that differ.
pub(crate) fn descend<E>(
    env: &Env,
    before: &Stmt,
    after: &Stmt,
    check: &mut impl FnMut(&Env, &Stmt, &Stmt) -> Result<(), E>,
) -> Result<(), E> {
    if before.ptr_eq(after) || before == after {
        return Ok(());
    }
    if let (Some(old), Some(new)) = (before.as_seq(), after.as_seq()) {
        return sequences(env, before, (old, new), check);
    }
    let (mut x, mut y) = (before.children(), after.children());
    let (Some(x), None, Some(y), None) = (x.next(), x.next(), y.next(), y.next()) else {
        return check(env, before, after);
    };
    if !same_header(before, after) {
        return check(env, before, after);
    }
    if let Some(l) = before.as_loop()
        && !pinned(env, l.binder.id, x, y)
    {
        return check(env, before, after);
    }
    descend(&inside(env, before, 0), x, y, check)
}

/// Whether two statements with one child each differ in nothing that is around it, and run it alike. (Extents and
/// layouts of a buffer change no order.)
fn same_header(before: &Stmt, after: &Stmt) -> bool {
    match (before.enters(0), after.enters(0)) {
        (Enters::Let(p, v), Enters::Let(q, w)) => p == q && v == w,
        (Enters::Loop(x), Enters::Loop(y)) => {
            let header = |l: &Loop| (l.binder.clone(), l.lo.clone(), l.hi.clone(), l.step, l.exec.clone());
            header(x) == header(y)
        }
        (Enters::Condition(c, x), Enters::Condition(d, y)) => c == d && x == y,
        (Enters::While(c), Enters::While(d)) => c == d,
        (Enters::Alloc(p), Enters::Alloc(q)) => p.id == q.id,
        _ => false,
    }
}

/// The surroundings of a child.
fn inside<'s>(env: &Env<'s>, s: &'s Stmt, position: usize) -> Env<'s> {
    let mut env = env.clone();
    env.enter(s, position);
    env
}

fn sequences<E>(
    env: &Env,
    before: &Stmt,
    (old, new): (&[Stmt], &[Stmt]),
    check: &mut impl FnMut(&Env, &Stmt, &Stmt) -> Result<(), E>,
) -> Result<(), E> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = (old.len() - start).min(new.len() - start);
    let end = (0..rest).take_while(|k| old[old.len() - 1 - k] == new[new.len() - 1 - k]).count();
    let (x, y) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let env = inside(env, before, start);
    if x.len() == y.len() && stay(x, y) {
        let mut env = env;
        for (a, b) in x.iter().zip(y) {
            descend(&env, a, b, check)?;
            env.pass(a);
        }
        return Ok(());
    }
    check(&env, &Stmt::seq(x.iter().cloned()), &Stmt::seq(y.iter().cloned()))
}

/// Whether each instance stays in its part of a sequence: parts that change have the labels that they had, and no two of them have
/// one in common, because an instance could go from one to the other then.
fn stay(old: &[Stmt], new: &[Stmt]) -> bool {
    let mut seen = BTreeSet::new();
    old.iter().zip(new).filter(|(a, b)| a != b).all(|(a, b)| {
        let own = labels(a);
        own == labels(b) && own.into_iter().all(|l| seen.insert(l))
    })
}

fn labels(s: &Stmt) -> BTreeSet<Label> {
    let mut out = BTreeSet::new();
    walk(s, &mut |s, _| {
        out.extend(s.label().cloned());
        true
    });
    out
}

/// Whether every instance stays in its iteration of the loop over `v`: for each label, one component
/// of the instance vector says, before and after, by the same affine form which iteration it is in.
fn pinned(env: &Env, v: VarId, before: &Stmt, after: &Stmt) -> bool {
    let outer: HashSet<VarId> = env
        .items
        .iter()
        .filter_map(|i| match i {
            Item::Size(b) | Item::Scalar(b) | Item::Opaque(b) | Item::Let(b, _) => Some(b.id),
            Item::Loop { binder, .. } => Some(binder.id),
            _ => None,
        })
        .collect();
    let tells = |e: &Expr| -> Option<Affine> {
        let a = Affine::of(e)?;
        let fixed = a.terms.iter().all(|t| t.0 == v || outer.contains(&t.0));
        (fixed && a.coefficient(&v) != 0).then_some(a)
    };
    // Components by which a label's instances tell the iteration; `None` where two statements differ.
    let mut known: HashMap<Label, Vec<Option<Affine>>> = HashMap::new();
    let mut fine = true;
    for tree in [before, after] {
        walk(tree, &mut |s, _| {
            if s.as_compute().is_some() {
                fine = false;
            }
            if let Some((label, instance)) = s.labelled() {
                let told: Vec<Option<Affine>> = instance.iter().map(tells).collect();
                match known.get_mut(label) {
                    None => {
                        known.insert(label.clone(), told);
                    }
                    Some(old) if old.len() != told.len() => fine = false,
                    Some(old) => {
                        for (o, t) in old.iter_mut().zip(told) {
                            if *o != t {
                                *o = None;
                            }
                        }
                    }
                }
            }
            fine
        });
    }
    fine && known.values().all(|k| k.iter().any(Option::is_some))
}
