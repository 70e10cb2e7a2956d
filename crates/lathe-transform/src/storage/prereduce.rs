//! `prereduce`: what inner loops add to a running result is reduced in a nest of its own, before it is added.

use super::make::{fresh_name, nest};
use super::materialize::{Found, around, arrays, element, refuse, within};
use crate::args::Args;
use crate::laws;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr};
use lathe_ir::names::Role;
use lathe_ir::visit;
use lathe_ir::{Buffer, Label, Loop, Reduce, Stmt, StmtKind, Store, VarId, build};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::HashMap;
use std::sync::Arc;

const RULE: &str = "prereduce";

rule! {
    /// `prereduce(s)` takes a scan of reductions apart: first a nest `s.part` reduces the innermost loops, for each
    /// iteration of the loops around them, into a local array `s.part` (or `name:`); then the old nest combines what
    /// stands there, without these loops. Iterations of the scan waited for one another; those of the new nest do not,
    /// so that they can be shared by threads, and the reduction can be spread over lanes. That takes as much memory as
    /// the scan has results.
    ///
    /// The innermost loops are those that hold nothing but the reduction and that the place of its result does not
    /// depend on. Legal if nothing that the values read is written by the statement, if its loops make a box, and if
    /// the operator is associative and has an identity. The result is associated differently, which is recorded.
    ///
    /// ```lathe
    /// kernel sums(A: f32[N, M]) -> (s: f32[N]) {
    ///     s[i] = scan(sum)[i](sum[j](A[i, j]))
    /// }
    /// strategy par for sums = prereduce(s) ; parallel(s.part.i)
    /// ```
    pub static PREREDUCE = prereduce, version 1, (label: one Label, name: optional Word), apply,
        "reduces inside of a scan first, in a nest of its own, before its results are scanned";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let label = args.path(RULE, "label", 0)?;
    let root = within(cursor, names::find_family(cursor, &label)?, &label);
    let Some(stmt) = cursor.at(&root) else {
        return Err(no("the place is gone", "", &Places::none()));
    };
    let found = Found::of(RULE, stmt, &label)?;
    let places = found.places.clone();
    found.independent(RULE, cursor, stmt)?;
    let parts = Parts::of(stmt, &label, &found)?;
    let types: Vec<_> = parts.reduce.targets.iter().map(|t| t.elem.clone()).collect();
    let Some(identity) = lathe_ir::reduce::identity(cursor.module, &parts.reduce.op, &types) else {
        let text =
            format!("the operator `{}` has no identity to start partial results from", parts.reduce.op);
        return Err(no(&text, "declare one: `identity(e)`", &places));
    };
    let rely = |which| laws::rely(RULE, cursor.module, cursor.func, &parts.reduce.op, &types, which, &places);
    let relied = [rely(Which::Associative)?, rely(Which::Identity)?];
    let commutative = rely(Which::Commutative).ok();
    let wanted = args.opt_path(RULE, "name", 1)?.unwrap_or_else(|| Role::Part.of(&label));
    let made = fresh_name(cursor.func, &Role::Part.of(&label));
    let buffers = arrays(work, &parts.outer, &types, &wanted);
    let first = parts.fill(work, &buffers, &identity, (&made, commutative.is_some()), &places);
    let second = parts.redirect(stmt, &buffers);
    let new = around(&buffers, Stmt::seq([first, second]), &places);
    work.replace_storage(&root, new, Kind::Contraction)?;
    relied.iter().chain(&commutative).for_each(|l| work.relies_on(l));
    work.changes_rounding(&label);
    let of = label.clone();
    let help = "do this first, before loops are split or run by others";
    work.decide(Claim::InputsKept { label }, help)?;
    for b in &buffers {
        work.made(&root, b);
        work.plays(Role::Part, &Label::new(&of), &**b);
    }
    let arrays = buffers.iter().map(|b| b.name.to_string()).collect();
    work.decide(Claim::CombinedFirst { of, arrays }, help)
}

fn no(message: &str, help: &str, places: &Places) -> Refusal {
    refuse(RULE, message, help, places)
}

/// The reduction, the loops around it, and those of them that hold nothing else.
struct Parts {
    reduce: Reduce,
    outer: Vec<Loop>,
    inner: Vec<Loop>,
    values: Vec<Expr>,
    instance: Vec<Expr>,
}

impl Parts {
    fn of(root: &Stmt, label: &str, found: &Found) -> Result<Parts, Refusal> {
        let mut tail: Option<(Vec<VarId>, Reduce)> = None;
        visit::walk(root, &mut |s, _| {
            if tail.is_none() && s.as_loop().is_some() {
                tail = alone(s).filter(|t| t.1.label.as_str() == label);
            }
            tail.is_none()
        });
        let Some((loops, reduce)) = tail else {
            let text = format!("`{label}` is no reduction by loops of its own");
            return Err(no(&text, "choose a scan of reductions", &found.places));
        };
        let fixed = |v: &VarId| {
            let mentions = |e: &Expr| visit::vars_of(e).contains(v);
            !reduce.targets.iter().flat_map(|t| &t.indices).any(mentions)
        };
        let count = loops.iter().rev().take_while(|v| fixed(v)).count();
        let (outer, inner) = found.loops.split_at(found.loops.len().saturating_sub(count));
        if count == 0 || outer.is_empty() || found.starts {
            let text = format!("`{label}` has no loops to reduce before those around them");
            return Err(no(&text, "the innermost loops must hold nothing but the reduction", &found.places));
        }
        Ok(Parts {
            reduce,
            outer: outer.to_vec(),
            inner: inner.to_vec(),
            values: found.values.clone(),
            instance: found.instance.clone(),
        })
    }

    /// The instance without the inner loops: that of their first iteration.
    fn row(&self) -> Vec<Expr> {
        let first: HashMap<VarId, Expr> = self.inner.iter().map(|l| (l.binder.id, l.lo.clone())).collect();
        self.instance.iter().map(|e| visit::substitute(e, &first)).collect()
    }

    /// The nest that reduces first, with binders of its own.
    fn fill(
        &self,
        work: &mut Work,
        buffers: &[Arc<Buffer>],
        identity: &[Expr],
        (label, commutative): (&str, bool),
        places: &Places,
    ) -> Stmt {
        let targets: Vec<Access> = buffers.iter().map(|b| element(b, &self.outer)).collect();
        let start = targets.iter().zip(identity).enumerate().map(|(n, (t, value))| {
            let store = Store::new(
                Label::new(Role::Init.nth(label, n)),
                self.outer.iter().map(|l| build::var(&l.binder)).collect(),
                t.clone(),
                value.clone(),
            );
            Stmt::new(StmtKind::Store(store), places.clone())
        });
        let mut body: Vec<Stmt> = start.collect();
        let reduce = Reduce {
            label: Label::new(label),
            instance: self.instance.clone(),
            targets,
            values: self.values.clone(),
            // Nobody sees how far a part has come: if the operator is commutative, any order will do.
            licence: self.reduce.licence || commutative,
            ..self.reduce.clone()
        };
        let sides = |all: &[Loop]| {
            all.iter().map(|l| (l.binder.clone(), l.lo.clone(), l.hi.clone())).collect::<Vec<_>>()
        };
        let inner = Stmt::new(StmtKind::Reduce(reduce), places.clone());
        body.push(nest(sides(&self.inner), inner, places));
        work.copy(&nest(sides(&self.outer), Stmt::seq(body), places))
    }

    /// The old nest without the inner loops.
    fn redirect(&self, root: &Stmt, buffers: &[Arc<Buffer>]) -> Stmt {
        let gone: Vec<VarId> = self.inner.iter().map(|l| l.binder.id).collect();
        visit::map_stmts(root, &mut |s| match (s.as_loop(), s.as_reduce()) {
            (_, Some(r)) if r.label == self.reduce.label => {
                let values = buffers.iter().map(|b| build::load(element(b, &self.outer))).collect();
                s.with_kind(StmtKind::Reduce(Reduce {
                    values,
                    instance: self.row(),
                    contract: false,
                    ..r.clone()
                }))
            }
            (Some(l), _) if gone.contains(&l.binder.id) => l.body.clone(),
            _ => s,
        })
    }
}

/// The reduction that a loop holds and nothing else, and the loops on the way to it.
fn alone(s: &Stmt) -> Option<(Vec<VarId>, Reduce)> {
    if let Some(l) = s.as_loop() {
        let (mut loops, r) = alone(&l.body)?;
        loops.insert(0, l.binder.id);
        return Some((loops, r));
    }
    match s.as_seq() {
        Some([one]) => alone(one),
        _ => Some((Vec::new(), s.as_reduce()?.clone())),
    }
}
