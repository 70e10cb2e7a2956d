//! Recomputation, of a part, at the place of use.

use super::{Check, Loads, Mirror, Staged, erased};
use crate::copy::{Copy, Place};
use crate::env::{Env, Item};
use crate::leaves::{Leaf, Role, Touch, leaves, written_buffers};
use crate::solve::{Answer, solve};
use crate::system::{Lin, ge, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::visit::{map_stmts, substitute_stmt};
use lathe_ir::{Expr, Loop, Stmt, StmtKind, VarId, build};
use std::collections::{HashMap, HashSet};

/// Nests that compute an array, and what computes a window of it again in front of a statement that reads the array.
pub(crate) struct Again<'a> {
    /// Each nest as it was, and what stands for it: the same loops over other ranges.
    pub nests: &'a [(Stmt, Stmt)],
    /// What a loop variable of a nest was, in terms of what it is.
    pub was: &'a HashMap<VarId, Expr>,
    /// The statement that reads the array, and the same with the buffer.
    pub before: &'a Stmt,
    pub used: &'a Stmt,
    /// Simplifies a statement as those in the place of the nests are.
    pub simpler: &'a dyn Fn(&Stmt) -> Stmt,
}

/// Whether every read of the buffer finds what the read of the array in its place found, if nothing that the nests read
/// is written meanwhile: the nests store to each element's position what they stored to the element, nothing is computed
/// that was not computed before, and no store to an element that is read is left out. Gives how many accesses were
/// examined.
///
/// # Errors
/// What could not be shown, in words.
pub(crate) fn recomputes(env: &Env, a: &Again, m: &Mirror) -> Result<usize, String> {
    let all = std::iter::once(a.before).chain(a.nests.iter().map(|n| &n.0));
    let written: HashSet<_> = all.flat_map(written_buffers).collect();
    let check = |s: &Staged| -> Result<usize, String> {
        let pairs = &[(m.array.id, m.buffer.id)];
        let check = Check { env, s, m, pairs, written: written.clone() };
        check.ranks()?;
        let examined = check.redirected(Loads::Redirected)?;
        let leaves = leaves(s.used, &[m.buffer.id].into())?;
        let touches = leaves.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t, None)));
        check.inside(&check.positions(touches, false)?)?;
        Ok(examined)
    };
    fn staged<'s>(before: &'s Stmt, used: &'s Stmt) -> Staged<'s> {
        Staged { before, enter: &[], used, leave: &[], lives_on: false }
    }
    let mut examined = check(&staged(a.before, a.used))?;
    let reads = leaves(a.used, &[m.buffer.id].into())?;
    if reads.iter().flat_map(|l| &l.touches).any(|t| t.role != Role::Read) {
        return Err(format!("the reader of `{}` also writes it", m.array.name));
    }
    for (old, new) in a.nests {
        let renamed = unnamed(&substitute_stmt(old, a.was));
        let new = unnamed(new);
        let mut limits = HashMap::new();
        let same = limited(&renamed, &new, a.was, &mut limits)
            .ok_or_else(|| format!("what computes `{}` was changed", m.array.name))?;
        let plain = |s: &Stmt| erased(s, &[(m.array.id, m.buffer.id)]);
        let same = if plain(&same) == plain(&new) { same } else { (a.simpler)(&same) };
        examined += check(&staged(&same, &new))?;
        let nest = Nest { env, m, was: a.was, written: &written, limits };
        nest.no_more(&new)?;
        for w in leaves(&new, &[m.buffer.id].into())? {
            for t in w.touches.iter().filter(|t| t.role.writes()) {
                nest.no_less(&w, t, &reads)?;
            }
        }
    }
    Ok(examined)
}

/// The statement without instance vectors: how often something is computed does not change its value.
fn unnamed(s: &Stmt) -> Stmt {
    map_stmts(s, &mut |s| match s.labelled() {
        Some((label, _)) => s.relabelled(label.clone(), Vec::new()),
        None => s,
    })
}

/// The old nest with the ranges of the new one; the old ranges of loops that have others now, or that count
/// otherwise, are noted.
fn limited(
    old: &Stmt,
    new: &Stmt,
    was: &HashMap<VarId, Expr>,
    limits: &mut HashMap<VarId, (Expr, Expr)>,
) -> Option<Stmt> {
    if let (Some(a), Some(b)) = (old.as_loop(), new.as_loop()) {
        if a.binder != b.binder || a.step != b.step || a.exec != b.exec {
            return None;
        }
        if (&a.lo, &a.hi) != (&b.lo, &b.hi) || was.contains_key(&a.binder.id) {
            if a.step != 1 {
                return None;
            }
            limits.insert(a.binder.id, (a.lo.clone(), a.hi.clone()));
        }
        let body = limited(&a.body, &b.body, was, limits)?;
        return Some(old.with_kind(StmtKind::Loop(Loop {
            lo: b.lo.clone(),
            hi: b.hi.clone(),
            body,
            ..a.clone()
        })));
    }
    if old.children().len() != new.children().len() {
        return None;
    }
    if old.children().len() == 0 {
        return Some(old.clone());
    }
    let children = old.children().zip(new.children()).map(|(x, y)| limited(x, y, was, limits));
    Some(old.with_children(children.collect::<Option<Vec<Stmt>>>()?))
}

struct Nest<'e> {
    env: &'e Env<'e>,
    m: &'e Mirror<'e>,
    was: &'e HashMap<VarId, Expr>,
    written: &'e HashSet<lathe_ir::BufId>,
    /// Loops whose ranges are others now, with the ranges that they had.
    limits: HashMap<VarId, (Expr, Expr)>,
}

impl Nest<'_> {
    /// What the variable of a loop was.
    fn old(&self, l: &Loop) -> Expr {
        self.was.get(&l.binder.id).cloned().unwrap_or_else(|| build::var(&l.binder))
    }

    /// Every iteration was one before.
    fn no_more(&self, new: &Stmt) -> Result<(), String> {
        let mut builder = Builder::new(self.written);
        let mut scope = builder.surroundings(self.env);
        self.within(new, &mut builder, &mut scope)
    }

    fn within(&self, s: &Stmt, builder: &mut Builder, scope: &mut Scope) -> Result<(), String> {
        for (n, child) in s.children().enumerate() {
            let (mut builder, mut scope) = (builder.clone(), scope.clone());
            if let Some(item) = Item::entering(s, n) {
                builder.item(&mut scope, &item);
            }
            if let Some(l) = s.as_loop()
                && let Some((lo, hi)) = self.limits.get(&l.binder.id)
            {
                let x = builder.value(&mut scope, &self.old(l));
                let (lo, hi) = (builder.value(&mut scope, lo), builder.value(&mut scope, hi));
                for outside in [gt(&lo, &x), ge(&x, &hi)] {
                    let mut system = builder.system.clone();
                    system.push(outside);
                    if solve(&system) != Answer::Empty {
                        return Err(format!("`{}` may run over more iterations than before", l.binder.name));
                    }
                }
            }
            self.within(child, &mut builder, &mut scope)?;
        }
        Ok(())
    }

    /// Every old iteration that stored to an element that is read is still one.
    fn no_less(&self, w: &Leaf, store: &Touch, readers: &[Leaf]) -> Result<(), String> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let Some(target) = &store.indices else { return Err("an access cannot be analyzed".into()) };
        for r in readers {
            for read in &r.touches {
                let Some(at) = &read.indices else { return Err("an access cannot be analyzed".into()) };
                let mut builder = Builder::new(self.written);
                let outer = builder.surroundings(self.env);
                let mut x = Copy::new(&mut builder, &outer, r, &Place::of(read));
                for (c, holds) in &read.when {
                    builder.assert(&mut x.scope, c, *holds);
                }
                let mut scope = outer.clone();
                let mut ranges: Vec<(Lin, Lin, Lin)> = Vec::new();
                for item in &w.items {
                    match item {
                        Item::Loop { binder, lo, hi, .. } if self.limits.contains_key(&binder.id) => {
                            let v = Lin::atom(builder.bind(&mut scope, binder.id));
                            let old = self.was.get(&binder.id).cloned();
                            let old = old.unwrap_or_else(|| build::var(binder));
                            let at = builder.value(&mut scope, &old);
                            let (first, end) = &self.limits[&binder.id];
                            let (first, end) =
                                (builder.value(&mut scope, first), builder.value(&mut scope, end));
                            builder.system.ge(&at, &first);
                            builder.system.push(gt(&end, &at));
                            let now = (builder.value(&mut scope, lo), builder.value(&mut scope, hi));
                            ranges.push((v, now.0, now.1));
                        }
                        item => {
                            builder.item(&mut scope, item);
                        }
                    }
                }
                for ((t, e), (d, extent)) in
                    target.iter().zip(at).zip(self.m.window.iter().zip(&self.m.array.extents))
                {
                    let (t, e) = (builder.value(&mut scope, t), builder.value(&mut x.scope, e));
                    builder.system.eq(&t, &e);
                    // What the program reads exists.
                    let (lo, n) = (builder.value(&mut scope, &d.lo), builder.value(&mut scope, extent));
                    let Some(element) = lo.combine(1, &e, d.step) else { continue };
                    builder.system.ge(&element, &Lin::default());
                    builder.system.push(gt(&n, &element));
                }
                for (v, lo, hi) in &ranges {
                    for left_out in [gt(lo, v), ge(v, hi)] {
                        let mut system = builder.system.clone();
                        system.push(left_out);
                        if solve(&system) != Answer::Empty {
                            return Err(format!(
                                "an element of `{}` that is read may not be computed",
                                self.m.array.name
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
