//! Narrowing a comparison of two trees to what changed, so that checking stays near linear.
//!
//! Where two trees have the same header, only their bodies need comparing: pairs in different
//! iterations of one ordered or unordered loop, or at different positions of one sequence, lie to each
//! other as before, provided every instance stays where it was.

use crate::affine::{Affine, affine};
use crate::env::{Env, Item};
use lathe_ir::visit::walk;
use lathe_ir::{Expr, Label, Stmt, StmtKind, VarId};
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
    match (before.kind(), after.kind()) {
        (StmtKind::Seq(old), StmtKind::Seq(new)) => sequences(env, before, (old, new), check),
        (StmtKind::Loop(x), StmtKind::Loop(y))
            if x.binder == y.binder
                && x.lo == y.lo
                && x.hi == y.hi
                && x.step == y.step
                && x.exec == y.exec =>
        {
            if !pinned(env, x.binder.id, &x.body, &y.body) {
                return check(env, before, after);
            }
            descend(&inside(env, before, 0), &x.body, &y.body, check)
        }
        (StmtKind::Let { binder: p, value: v, body: x }, StmtKind::Let { binder: q, value: w, body: y })
            if p == q && v == w =>
        {
            descend(&inside(env, before, 0), x, y, check)
        }
        (StmtKind::Alloc { buffer: p, body: x }, StmtKind::Alloc { buffer: q, body: y }) if p.id == q.id => {
            descend(&inside(env, before, 0), x, y, check)
        }
        (StmtKind::While { cond: c, body: x }, StmtKind::While { cond: d, body: y }) if c == d => {
            descend(&inside(env, before, 0), x, y, check)
        }
        (StmtKind::If { cond: c, then: x, other: None }, StmtKind::If { cond: d, then: y, other: None })
            if c == d =>
        {
            descend(&inside(env, before, 0), x, y, check)
        }
        _ => check(env, before, after),
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
    if x.len() == y.len() && x.iter().zip(y).all(|(a, b)| a == b || labels(a) == labels(b)) {
        let mut env = env;
        for (a, b) in x.iter().zip(y) {
            descend(&env, a, b, check)?;
            env.pass(a);
        }
        return Ok(());
    }
    check(&env, &Stmt::seq(x.iter().cloned()), &Stmt::seq(y.iter().cloned()))
}

fn labels(s: &Stmt) -> BTreeSet<Label> {
    let mut out = BTreeSet::new();
    walk(s, &mut |s, _| {
        out.extend(instance_of(s).map(|i| i.0.clone()));
        true
    });
    out
}

fn instance_of(s: &Stmt) -> Option<(&Label, &[Expr])> {
    match s.kind() {
        StmtKind::Store(x) => Some((&x.label, &x.instance)),
        StmtKind::Reduce(x) => Some((&x.label, &x.instance)),
        StmtKind::Atomic(x) => Some((&x.label, &x.instance)),
        StmtKind::Compute(x) => Some((&x.label, &[])),
        _ => None,
    }
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
        let a = affine(e)?;
        let fixed = a.terms.keys().all(|t| *t == v || outer.contains(t));
        (fixed && a.coefficient(v) != 0).then_some(a)
    };
    // Components by which a label's instances tell the iteration; `None` where two statements differ.
    let mut known: HashMap<Label, Vec<Option<Affine>>> = HashMap::new();
    let mut fine = true;
    for tree in [before, after] {
        walk(tree, &mut |s, _| {
            if matches!(s.kind(), StmtKind::Compute(_)) {
                fine = false;
            }
            if let Some((label, instance)) = instance_of(s) {
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
