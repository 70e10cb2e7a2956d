//! Padding of a loop by iterations whose results are never read.

use crate::copy::{Copy, Place};
use crate::defined::{in_both_branches, reached};
use crate::env::{Env, Item};
use crate::leaves::{Leaf, Role, Touch, leaves, written_buffers};
use crate::solve::{Answer, solve};
use crate::system::{Lin, eq, ge, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::visit::{self, Path, loads_of, vars_of};
use lathe_ir::{BufId, Buffer, Expr, Function, Loop, Mode, Module, Stmt, StmtKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether a loop may run to `hi` and not only to its end, where all that it holds are stores and reductions that cannot
/// fail: what additional iterations write are elements of local arrays that nothing else reads, and what they read exists
/// and has a value. Gives the arrays that are written, and how many accesses were examined for each; the last one is for
/// what is read.
///
/// # Errors
/// A message that says what could not be shown.
pub fn padded(
    module: &Module,
    func: &Function,
    path: &[usize],
    hi: &Expr,
) -> Result<(Vec<(String, usize)>, usize), String> {
    let stmt = visit::at(&func.body, path).ok_or("the place no longer exists")?;
    let l = stmt.as_loop().filter(|l| l.step == 1).ok_or("this is not a loop with step 1")?;
    let padded = Padded { module, func, path, stmt, l, hi };
    let (mut written, mut read) = (Vec::new(), 0);
    for id in padded.touched()? {
        let (name, writes, reads) = match func.params.iter().find(|p| p.array().is_some_and(|b| b.id == id)) {
            Some(p) => padded.parameter(p.array().ok_or("this is not an array")?, p.mode)?,
            None => padded.local(id)?,
        };
        read += reads;
        if writes > 0 {
            written.push((name, writes));
        }
    }
    Ok((written, read))
}

struct Padded<'a> {
    module: &'a Module,
    func: &'a Function,
    path: &'a [usize],
    stmt: &'a Stmt,
    l: &'a Loop,
    hi: &'a Expr,
}

impl Padded<'_> {
    /// The arrays that the loop's body touches.
    fn touched(&self) -> Result<BTreeSet<BufId>, String> {
        let mut out = BTreeSet::new();
        let mut opaque = false;
        visit::walk(&self.l.body, &mut |s, _| {
            let loads = s.exprs().into_iter().flat_map(loads_of);
            let own = s.accesses().map(|(a, _)| a.clone());
            for a in loads.chain(own) {
                opaque |= a.view.buffer().is_none();
                out.extend(a.view.buffer());
            }
            true
        });
        if opaque { Err(format!("`{}` is accessed through a pointer", self.l.binder.name)) } else { Ok(out) }
    }

    fn parameter(&self, b: &Arc<Buffer>, mode: Mode) -> Result<(String, usize, usize), String> {
        let env = Env::at(self.module, self.func, self.path);
        let all = leaves(self.stmt, &[b.id].into())?;
        let touches = || all.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t)));
        if touches().any(|(_, t)| t.role.writes()) {
            return Err(format!("the added iterations of `{}` would write `{}`", self.l.binder.name, b.name));
        }
        let written = written_buffers(self.stmt);
        let mut reads = 0;
        for (leaf, t) in touches() {
            reads += 1;
            if self.as_ever(&env, &written, leaf, t) {
                continue;
            }
            if mode == Mode::Out {
                return Err(format!(
                    "the added iterations of `{}` would read the output `{}`",
                    self.l.binder.name, b.name
                ));
            }
            self.exists(&env, &written, leaf, t, b)?;
        }
        Ok((b.name.to_string(), 0, reads))
    }

    fn local(&self, id: BufId) -> Result<(String, usize, usize), String> {
        let (at, buffer) = allocation(self.func, id).ok_or("an array is no longer allocated")?;
        let inside = self.path.strip_prefix(at.as_slice()).ok_or("an array is allocated elsewhere")?;
        let root = visit::at(&self.func.body, &at).ok_or("the place no longer exists")?;
        let env = Env::at(self.module, self.func, &at);
        let written = written_buffers(root);
        let all = leaves(root, &[id].into())?;
        let here = |l: &Leaf| {
            l.path.len() > inside.len() && l.path.iter().zip(inside).all(|(s, p)| s.position == *p)
        };
        let of = |mine: bool| {
            all.iter()
                .flat_map(|l| l.touches.iter().map(move |t| (l, t)))
                .filter(move |(l, t)| t.buffer == id && (!mine || here(l) && t.depth > inside.len()))
        };
        let mut writes = 0;
        for (w, store) in of(true).filter(|x| x.1.role.writes()) {
            writes += 1;
            self.exists(&env, &written, w, store, &buffer)?;
            for (r, read) in of(false).filter(|x| x.1.role != Role::Write) {
                if self.meets(&env, &written, (w, store), (r, read)) {
                    return Err(format!(
                        "what the added iterations of `{}` write to `{}` may be read",
                        self.l.binder.name, buffer.name
                    ));
                }
            }
        }
        let long = self.stmt.with_kind(StmtKind::Loop(Loop { hi: self.hi.clone(), ..self.l.clone() }));
        let new = visit::replace_at(root, inside, long).ok_or("the place no longer exists")?;
        let longer = leaves(&new, &[id].into())?;
        let longer: Vec<&Leaf> = longer.iter().filter(|l| l.touches.iter().any(|t| t.buffer == id)).collect();
        let both = in_both_branches(&longer, id);
        let writers: Vec<&Leaf> = longer.iter().copied().chain(&both).collect();
        let mut reads = 0;
        for leaf in longer.iter().copied().filter(|l| here(l)) {
            let asked = leaf
                .touches
                .iter()
                .filter(|t| t.buffer == id && t.role != Role::Write && t.depth > inside.len());
            for t in asked {
                reads += 1;
                if self.as_ever(&env, &written, leaf, t) {
                    continue;
                }
                self.exists(&env, &written, leaf, t, &buffer)?;
                if reached(&env, &written, &buffer, &writers, (leaf, t)) != Some(true) {
                    return Err(format!(
                        "the added iterations of `{}` may read undefined elements of `{}`",
                        self.l.binder.name, buffer.name
                    ));
                }
            }
        }
        Ok((buffer.name.to_string(), writes, reads))
    }

    /// Whether what is read is the same in every iteration, and read in any case.
    fn as_ever(&self, env: &Env, written: &crate::view::Written, leaf: &Leaf, t: &Touch) -> bool {
        let v = self.l.binder.id;
        let Some(indices) = &t.indices else { return false };
        let own = leaf.items.iter().take(t.items).position(|i| i.binds() == Some(v));
        let Some(own) = own else { return false };
        let moves = |e: &Expr| vars_of(e).contains(&v);
        let depends = leaf.items[own + 1..t.items.max(own + 1)].iter().any(|i| match i {
            Item::Loop { lo, hi, .. } => moves(lo) || moves(hi),
            Item::Alloc(_) => false,
            _ => true,
        });
        if depends || !t.when.is_empty() || indices.iter().any(moves) {
            return false;
        }
        let mut builder = Builder::new(written);
        let mut scope = builder.surroundings(env);
        for item in &leaf.items[..own] {
            builder.item(&mut scope, item);
        }
        let (lo, hi) = (builder.value(&mut scope, &self.l.lo), builder.value(&mut scope, &self.l.hi));
        builder.system.push(ge(&lo, &hi));
        solve(&builder.system) == Answer::Empty
    }

    /// An added iteration.
    fn additional(&self, builder: &mut Builder, outer: &Scope, leaf: &Leaf, t: &Touch) -> Scope {
        let mut scope = outer.clone();
        for item in leaf.items.iter().take(t.items) {
            if item.binds() == Some(self.l.binder.id) {
                let end = builder.value(&mut scope, &self.l.hi);
                builder.range(&mut scope, self.l.binder.id, &self.l.lo, self.hi, 1);
                if let Some(v) = scope.col(self.l.binder.id) {
                    builder.system.ge(&Lin::atom(v), &end);
                }
            } else {
                builder.item(&mut scope, item);
            }
        }
        for (c, holds) in &t.when {
            builder.assert(&mut scope, c, *holds);
        }
        scope
    }

    /// What an additional iteration touches is an element of the array.
    fn exists(
        &self,
        env: &Env,
        written: &crate::view::Written,
        leaf: &Leaf,
        t: &Touch,
        of: &Buffer,
    ) -> Result<(), String> {
        let mut builder = Builder::new(written);
        let outer = builder.surroundings(env);
        let mut scope = self.additional(&mut builder, &outer, leaf, t);
        let fails = || {
            format!("the added iterations of `{}` may access `{}` out of bounds", self.l.binder.name, of.name)
        };
        for (e, n) in t.indices.as_ref().ok_or_else(fails)?.iter().zip(&of.extents) {
            let (e, n) = (builder.value(&mut scope, e), builder.value(&mut scope, n));
            for outside in [gt(&Lin::default(), &e), ge(&e, &n)] {
                let mut system = builder.system.clone();
                system.push(outside);
                if solve(&system) != Answer::Empty {
                    return Err(fails());
                }
            }
        }
        Ok(())
    }

    /// Whether an iteration that was there before may read what an additional one writes.
    fn meets(
        &self,
        env: &Env,
        written: &crate::view::Written,
        (w, store): (&Leaf, &Touch),
        (r, read): (&Leaf, &Touch),
    ) -> bool {
        let (Some(target), Some(at)) = (&store.indices, &read.indices) else { return true };
        let mut builder = Builder::new(written);
        let outer = builder.surroundings(env);
        let mut x = self.additional(&mut builder, &outer, w, store);
        let mut y = Copy::new(&mut builder, &outer, r, &Place::of(read));
        for (c, holds) in &read.when {
            builder.assert(&mut y.scope, c, *holds);
        }
        for (a, b) in target.iter().zip(at) {
            let (a, b) = (builder.value(&mut x, a), builder.value(&mut y.scope, b));
            builder.system.push(eq(&a, &b));
        }
        solve(&builder.system) != Answer::Empty
    }
}

/// Where a local array is allocated.
fn allocation(func: &Function, id: BufId) -> Option<(Path, Arc<Buffer>)> {
    let mut found = None;
    visit::walk(&func.body, &mut |s, p| {
        if let Some(b) = s.allocated().filter(|b| b.id == id) {
            found = Some((p.to_vec(), b.clone()));
        }
        found.is_none()
    });
    found
}
