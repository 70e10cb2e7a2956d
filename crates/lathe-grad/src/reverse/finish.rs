//! The derived function: its parameters, what is zero at first, and both sweeps.

use super::Reverse;
use crate::arrays::{allocated, copy_array, fill, touched, written, zero_array};
use crate::node::Scope;
use crate::sink::{keeps_to, region};
use crate::{Derivative, Request};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, load};
use lathe_ir::names::Role;
use lathe_ir::visit::{self, loads_of, refresh};
use lathe_ir::{
    Access, BufId, Buffer, Combine, Compute, Mode, Param, ParamKind, ReduceOp, Space, Stmt, StmtKind, View,
};
use lathe_poly::Linear;
use std::collections::HashSet;
use std::sync::Arc;

impl Reverse<'_> {
    pub fn finish(
        &mut self,
        root: &Scope,
        request: &Request,
        wrt: Vec<String>,
        of: Vec<String>,
    ) -> Result<Derivative, Diagnostic> {
        let primal = self.func.clone();
        let params = primal.params.clone();
        for b in &root.buffers {
            if self.act.of_buffer(b.id) {
                self.shadow(b);
            }
        }
        let asked = |names: &[String], p: &Param| names.iter().any(|n| n == &**p.name());
        // Shadows that start from zero: all but the cotangents that are given.
        let mut start: Vec<Arc<Buffer>> = Vec::new();
        for p in &params {
            let bar = self.bar_of_param(p).cloned();
            start.extend(bar.filter(|_| p.mode == Mode::In || !asked(&of, p)));
        }
        start.extend(root.buffers.iter().filter_map(|b| self.bars.get(&b.id)).cloned());
        let back = self.back(&root.body)?.unwrap_or_else(Stmt::empty);
        let results: HashSet<BufId> = params
            .iter()
            .filter(|p| asked(&wrt, p))
            .filter_map(|p| self.bar_of_param(p))
            .map(|b| b.id)
            .collect();
        let back = self.starting(&start, &results, back);
        let back = self.without_updates(&back);
        let back = refresh(&back, &mut self.func.next_id);
        let back = if self.revolves.is_empty() { self.with_shared_tapes(back) } else { back };
        if request.value {
            self.needs.extend(
                params.iter().filter(|p| p.mode != Mode::In).filter_map(|p| p.array()).map(|b| (0, b.id)),
            );
        }
        let forward = self.forward(root)?.unwrap_or_else(Stmt::empty);
        let (changed, read) = (written(&forward), touched(&forward));
        let (adjusted, seen) = (written(&back), touched(&back));

        let (mut ins, mut bars, mut outs, mut results) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut locals, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        let fresh = |this: &mut Self, b: &Buffer, name: &str, elem| {
            let id = this.func.fresh_buf();
            Arc::new(Buffer { id, name: name.into(), elem, space: Space::Host, ..b.clone() })
        };
        let array = |b: Arc<Buffer>, mode: Mode| Param { kind: ParamKind::Array(b), mode, alias: None };
        for p in &params {
            let name = p.name().to_string();
            match (&p.kind, p.mode) {
                (ParamKind::Scalar(_), _) | (_, Mode::In) => ins.push(p.clone()),
                (ParamKind::Array(_), Mode::InOut) if request.value => ins.push(p.clone()),
                (ParamKind::Array(b), Mode::InOut) => {
                    if changed.contains(&b.id) {
                        let given = fresh(self, b, &name, b.elem.clone());
                        let local =
                            Arc::new(Buffer { name: format!("{name}.again").into(), ..(**b).clone() });
                        before.push(copy_array(&given, &local, &mut self.func));
                        locals.push(local);
                        ins.push(array(given, Mode::In));
                    } else {
                        ins.push(array(b.clone(), Mode::In));
                    }
                }
                (ParamKind::Array(_), Mode::Out) if request.value => outs.push(p.clone()),
                (ParamKind::Array(b), Mode::Out) => {
                    if read.contains(&b.id) || seen.contains(&b.id) {
                        locals.push(b.clone());
                    }
                }
            }
            // The shadow as a parameter, under the name `A_bar` and with the type of `A`.
            let elem = match &p.kind {
                ParamKind::Array(b) => b.elem.clone(),
                ParamKind::Scalar(b) => b.ty.into(),
            };
            let (given, result) = (asked(&of, p) && p.mode != Mode::In, asked(&wrt, p));
            let made = self.bar_of_param(p).cloned();
            let known = made.is_some();
            let bar = made.unwrap_or_else(|| {
                let extents = p.array().map(|b| b.extents.clone()).unwrap_or_default();
                let like = Buffer::local(BufId(0), name.as_str(), elem.clone(), extents, Space::Host);
                fresh(self, &like, &name, elem.clone())
            });
            let outer = crate::shadow_name(&primal, &name, crate::Mode::Reverse);
            let same = bar.elem == elem;
            let mode = match (given, result) {
                (true, true) => Mode::InOut,
                (true, false) => Mode::In,
                (false, true) => Mode::Out,
                (false, false) => {
                    if known && seen.contains(&bar.id) {
                        locals.push(bar);
                    }
                    continue;
                }
            };
            let to = if mode == Mode::Out { &mut results } else { &mut bars };
            if same && (mode != Mode::In || !adjusted.contains(&bar.id)) {
                let b =
                    Arc::new(Buffer { name: outer.as_str().into(), space: Space::Host, ..(*bar).clone() });
                if !known && mode == Mode::Out {
                    // The outputs do not depend on it.
                    before.push(zero_array(&b, &mut self.func));
                }
                to.push(array(b, mode));
                continue;
            }
            let b = fresh(self, &bar, &outer, elem);
            if mode != Mode::Out {
                before.push(copy_array(&b, &bar, &mut self.func));
            }
            if mode != Mode::In {
                after.push(copy_array(&bar, &b, &mut self.func));
            }
            locals.push(bar);
            to.push(array(b, mode));
        }
        let kept = self.kept();
        let body = Stmt::seq([forward, back].into_iter().chain(after));
        let body = self.with_schedules(body);
        let body = self.in_scope(root, body)?;
        let body = allocated(locals, Stmt::seq(before.into_iter().chain([body])));
        let mut func = self.func.clone();
        func.name = request.name.as_str().into();
        func.params = ins.into_iter().chain(bars).chain(outs).chain(results).collect();
        func.body = body;
        Ok(Derivative { func, wrt, of, kept, everything: None, rule: None, also: Vec::new() })
    }

    fn bar_of_param(&self, p: &Param) -> Option<&Arc<Buffer>> {
        match &p.kind {
            ParamKind::Array(b) => self.bars.get(&b.id),
            ParamKind::Scalar(b) => self.scalars.get(&b.id),
        }
    }

    /// A reverse sweep over a scope, with its shadows zero at first.
    pub fn zeroed(&mut self, s: &Scope, back: Stmt) -> Stmt {
        let bars: Vec<Arc<Buffer>> = s.buffers.iter().filter_map(|b| self.bars.get(&b.id)).cloned().collect();
        self.starting(&bars, &HashSet::new(), back)
    }

    /// Where a shadow is first touched by a statement that covers all of it, or all that anything touches of it, that
    /// statement stores; else it becomes zero right before. `results` become zero even where nothing touches them.
    fn starting(&mut self, bars: &[Arc<Buffer>], results: &HashSet<BufId>, back: Stmt) -> Stmt {
        let mut list: Vec<Stmt> = back.as_seq().map_or_else(|| vec![back.clone()], <[Stmt]>::to_vec);
        // Neither of what is done to a statement here changes which arrays it touches.
        let mut arrays: Vec<HashSet<BufId>> = list.iter().map(touched).collect();
        for b in bars {
            let first = arrays.iter().position(|all| all.contains(&b.id));
            let n = match first {
                Some(n) => match stored(&list[n], b, (!results.contains(&b.id)).then_some(&list[n + 1..])) {
                    Some(s) => {
                        list[n] = s;
                        continue;
                    }
                    None => n,
                },
                None if results.contains(&b.id) => list.len(),
                None => continue,
            };
            let zero = zero_array(b, &mut self.func);
            arrays.insert(n, touched(&zero));
            list.insert(n, zero);
        }
        Stmt::seq(list)
    }
}

impl Reverse<'_> {
    /// Updates in index notation that add to every element once become maps (`T = T + v`), and sums that are added to
    /// something sums of their own first: strategies take these like what users write.
    fn without_updates(&mut self, back: &Stmt) -> Stmt {
        visit::map_stmts(back, &mut |s| match s.as_compute().filter(|c| is_update(c)) {
            Some(c) if c.guard.is_none() && sums_a_box(c) => self.summed_first(&s, c),
            _ => mapped(&s).unwrap_or(s),
        })
    }

    /// `T += Σ v` as a sum that is stored, and added then.
    fn summed_first(&mut self, s: &Stmt, c: &Compute) -> Stmt {
        let target = &c.targets[0];
        let own = |b: &&Arc<Buffer>| Some(b.id) == target.view.buffer();
        let Some(bar) = self.bars.values().chain(self.scalars.values()).find(own).cloned() else {
            return s.clone();
        };
        let id = self.func.fresh_buf();
        let part = Arc::new(Buffer { id, name: Role::Part.of(&bar.name).into(), ..(*bar).clone() });
        let to = Access { view: View::Buffer(id), ..target.clone() };
        let sum = Compute { targets: vec![to.clone()], update: None, ..c.clone() };
        let dims = c.dims.iter().filter(|d| d.combine == Combine::Concat).cloned().collect::<Vec<_>>();
        let value = add(load(target.clone()), load(to));
        let label = format!("{}.sum", c.label);
        let added = fill(label, dims, target.clone(), value).with_places(s.places().clone());
        let added = refresh(&added, &mut self.func.next_id);
        allocated([part], Stmt::seq([s.with_kind(StmtKind::Compute(sum)), added]))
    }
}

/// Whether a statement adds to each element at most once, and reads no other element of the array.
fn is_update(c: &Compute) -> bool {
    let [target] = &c.targets[..] else { return false };
    let reduces = c.dims.iter().any(|d| d.combine != Combine::Concat);
    let own = |a: &Access| a.view.buffer() == target.view.buffer();
    let around = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.guard).chain(&target.indices);
    c.update == Some(ReduceOp::Sum)
        && matches!(target.view, View::Buffer(_))
        && c.dims.iter().all(|d| matches!(d.combine, Combine::Concat | Combine::Reduce(ReduceOp::Sum)))
        && crate::prepare::tells_apart(c)
        && !around.flat_map(loads_of).any(|a| own(&a))
        && loads_of(&c.values[0]).iter().filter(|a| own(a)).all(|a| !reduces && a.indices == target.indices)
}

/// Whether a statement sums, for elements that are named by its free indices as they are.
fn sums_a_box(c: &Compute) -> bool {
    let free = |v| c.dims.iter().any(|d| d.binder.id == v && d.combine == Combine::Concat);
    c.dims.iter().any(|d| d.combine != Combine::Concat)
        && c.targets[0].indices.iter().all(|i| i.as_var().is_some_and(free))
}

/// `T += v` as `T = T + v`. Where data choose the elements, it stays what threads may add to copies.
fn mapped(s: &Stmt) -> Option<Stmt> {
    let c = s.as_compute().filter(|c| is_update(c))?;
    let by_data = c.targets[0].indices.iter().any(|e| !loads_of(e).is_empty());
    let plain = c.dims.iter().all(|d| d.combine == Combine::Concat) && !c.dims.is_empty() && !by_data;
    let values = vec![add(load(c.targets[0].clone()), c.values[0].clone())];
    plain.then(|| s.with_kind(StmtKind::Compute(Compute { values, update: None, ..c.clone() })))
}

/// The statement as one that overwrites, if it adds to every element of a buffer once and reads none of it.
/// `after` are all other statements that may touch it, if nothing else asks for what they leave out.
fn stored(s: &Stmt, b: &Buffer, after: Option<&[Stmt]>) -> Option<Stmt> {
    if b.extents.is_empty()
        && let Some(s) = stored_one(s, b)
    {
        return Some(s);
    }
    let c = s.as_compute()?;
    let [target] = &c.targets[..] else { return None };
    let free: Vec<_> = c.dims.iter().filter(|d| d.combine == Combine::Concat).collect();
    let is_part = || {
        let filled = region(c, target)?;
        let mut users = after?.iter().filter(|s| touched(s).contains(&b.id));
        users.all(|s| keeps_to(s, b.id, &filled)).then_some(())
    };
    let is_all = || {
        target.indices.iter().zip(&b.extents).all(|(i, extent)| {
            let same =
                |d: &lathe_ir::Dim| d.lo.as_int() == Some(0) && Linear::of(&d.hi) == Linear::of(extent);
            i.as_var().is_some_and(|v| free.iter().any(|d| d.binder.id == v && same(d)))
        }) && target.indices.iter().enumerate().all(|(n, i)| !target.indices[..n].contains(i))
    };
    let covers = c.update == Some(ReduceOp::Sum)
        && c.guard.is_none()
        && target.view == View::Buffer(b.id)
        && free.len() == target.indices.len()
        && (is_all() || is_part().is_some())
        && !c.values.iter().flat_map(loads_of).any(|a| a.view.buffer() == Some(b.id));
    covers.then(|| s.with_kind(StmtKind::Compute(Compute { update: None, ..c.clone() })))
}

/// The same, of a single value, to which a statement, or the first that touches it of what it holds, adds.
fn stored_one(s: &Stmt, b: &Buffer) -> Option<Stmt> {
    let reads = |e: &lathe_ir::Expr| loads_of(e).iter().any(|a| a.view.buffer() == Some(b.id));
    if let Some((binder, value, body)) = s.as_let().filter(|l| !reads(l.1)) {
        let body = stored_one(body, b)?;
        return Some(s.with_kind(StmtKind::Let { binder: binder.clone(), value: value.clone(), body }));
    }
    if let Some(list) = s.as_seq() {
        let n = list.iter().position(|c| touched(c).contains(&b.id))?;
        let mut list = list.to_vec();
        list[n] = stored_one(&list[n], b)?;
        return Some(Stmt::seq(list));
    }
    let r = s.as_reduce().filter(|r| r.op == ReduceOp::Sum)?;
    let ([target], [value]) = (&r.targets[..], &r.values[..]) else { return None };
    let fits = target.view == View::Buffer(b.id) && !reads(value) && target.elem == *value.ty();
    let store = lathe_ir::Store::new(r.label.clone(), r.instance.clone(), target.clone(), value.clone());
    fits.then(|| s.with_kind(StmtKind::Store(store)))
}
