//! `open`: computes become loops named after their indices.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names::find_some_label;
use crate::nest::mentions;
use crate::rule::{Cursor, Edit, Rule};
use crate::work::Work;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Executor, Expr, Label, Layout, Loop, Module, Reduce, ReduceOp,
    Scalar, Space, Stmt, StmtKind, Store, Type, build,
};
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Refusal, RuleSignature};
use std::sync::Arc;

pub static RULE: Rule = Rule {
    signature: RuleSignature {
        name: "open",
        version: 1,
        formals: &[Formal { name: "label", sort: Sort::Label, optional: true, many: false }],
        summary: "turns index notation into loops named after their indices",
        page: "\
Turns every statement in index notation (or the one of a label) into serial loops, one per index, free indices
outside. A reduction first sets its target to the operator's identity: `C[i, j] = sum[k](…)` becomes

```tree
for i { for j { C.init[i, j]: C = 0;  for k { C[i, j, k]: C += … } } }
```

A scan keeps its running value in a register `C.acc` and stores it in every iteration (`C.store`). An operator
without identity starts from the first element; a reduction over nothing then fails the call.

Every strategy starts with `open`, whether it says so or not.

**Legal** always. **Makes** loops named after the indices and labels `C.init`, `C.store`.

```lathe
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
strategy s for gemm = open
```",
    },
    apply,
};

fn apply(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    let mut work = Work::new(cursor, &RULE.signature);
    let label = args.opt_path(work.rule, "label", 0)?;
    let mut places: Vec<Path> = Vec::new();
    if let Some(l) = &label {
        places = find_some_label(cursor, work.rule, l)?;
        places.retain(|p| matches!(cursor.at(p).map(Stmt::kind), Some(StmtKind::Compute(_))));
        if places.is_empty() {
            return Err(work.refuse(codes::SHAPE, format!("`{l}` is open already")));
        }
    } else {
        visit::walk(cursor.focused(), &mut |s, p| {
            if matches!(s.kind(), StmtKind::Compute(_)) {
                places.push(cursor.focus.iter().chain(p).copied().collect());
            }
            true
        });
    }
    // One rebuild serves all computes: a program of a thousand statements is not copied a thousand times.
    let mut failure = None;
    let root = cursor.focused();
    let opened = visit::map_stmts(root, &mut |s| {
        let StmtKind::Compute(c) = s.kind() else { return s };
        if failure.is_some() || label.as_ref().is_some_and(|l| l != c.label.as_str()) {
            return s;
        }
        match open_compute(&mut work, c, s.places()) {
            Ok(new) => new,
            Err(r) => {
                failure = Some(r);
                s
            }
        }
    });
    if let Some(r) = failure {
        return Err(r);
    }
    if !places.is_empty() {
        let why = "loops over all indices compute what the index notation says";
        work.replace_by_rule(&cursor.focus, opened, "split", why)?;
    }
    Ok(work.finish())
}

/// The loops of one compute.
fn open_compute(work: &mut Work, c: &Compute, places: &Places) -> Result<Stmt, Refusal> {
    let parts = Parts::of(work, c, places)?;
    if parts.scans.is_empty() { parts.plain(work) } else { parts.scan(work) }
}

/// A compute taken apart.
struct Parts<'a> {
    c: &'a Compute,
    places: &'a Places,
    free: Vec<&'a Dim>,
    scans: Vec<&'a Dim>,
    reduced: Vec<&'a Dim>,
    /// The operator of the reduced and scanned dimensions, or of an update.
    op: Option<ReduceOp>,
}

impl<'a> Parts<'a> {
    fn of(work: &Work, c: &'a Compute, places: &'a Places) -> Result<Parts<'a>, Refusal> {
        let mut op = c.update.clone();
        for d in &c.dims {
            if let Combine::Reduce(o) | Combine::Scan(o) = &d.combine {
                if op.as_ref().is_some_and(|old| old != o) {
                    let d =
                        Diagnostic::error(codes::UNSUPPORTED, format!("`{}` mixes two operators", c.label))
                            .at_places(places, "here")
                            .help("give each reduction a statement of its own");
                    return Err(d.into_refusal(work.rule));
                }
                op = Some(o.clone());
            }
        }
        let of = |f: fn(&Combine) -> bool| c.dims.iter().filter(|d| f(&d.combine)).collect::<Vec<_>>();
        let parts = Parts {
            c,
            places,
            free: ordered(work, c, of(|k| *k == Combine::Concat))?,
            scans: ordered(work, c, of(|k| matches!(k, Combine::Scan(_))))?,
            reduced: ordered(work, c, of(|k| matches!(k, Combine::Reduce(_))))?,
            op,
        };
        let outside = parts.free.iter().chain(&parts.scans);
        for d in outside {
            for r in &parts.reduced {
                if mentions(&d.lo, r.binder.id) || mentions(&d.hi, r.binder.id) {
                    let text = format!(
                        "the range of `{}` depends on the reduced `{}`",
                        d.binder.name, r.binder.name
                    );
                    return Err(work.refuse(codes::UNSUPPORTED, text));
                }
            }
        }
        if parts.scans.len() > 1 {
            let text = format!("`{}` scans along {} indices at once", c.label, parts.scans.len());
            let d = Diagnostic::error(codes::UNSUPPORTED, text).at_places(places, "here");
            return Err(d
                .help("scan along one index, store the result, and scan that along the next")
                .into_refusal(work.rule));
        }
        Ok(parts)
    }

    fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt::new(kind, self.places.clone())
    }

    fn label(&self, suffix: &str) -> Label {
        if suffix.is_empty() {
            self.c.label.clone()
        } else {
            Label::new(format!("{}.{suffix}", self.c.label))
        }
    }

    fn store(&self, suffix: &str, instance: Vec<Expr>, target: Access, value: Expr) -> Stmt {
        self.stmt(StmtKind::Store(Store {
            label: self.label(suffix),
            instance,
            target,
            value,
            nontemporal: false,
        }))
    }

    fn guarded(&self, s: Stmt) -> Stmt {
        match &self.c.guard {
            Some(g) => self.stmt(StmtKind::If { cond: g.clone(), then: s, other: None }),
            None => s,
        }
    }

    fn nest(&self, dims: &[&Dim], body: Stmt) -> Stmt {
        dims.iter().rev().fold(body, |body, d| {
            self.stmt(StmtKind::Loop(Loop {
                binder: d.binder.clone(),
                lo: d.lo.clone(),
                hi: d.hi.clone(),
                step: 1,
                exec: Executor::Serial,
                body,
            }))
        })
    }

    fn check(&self, cond: Expr) -> Stmt {
        self.stmt(StmtKind::Check {
            cond,
            code: "empty-reduction".into(),
            message: format!("`{}` reduces over nothing, and its operator has no identity", self.c.label)
                .into(),
        })
    }

    /// Groups of targets and values that one reduction updates, with the suffix of their labels.
    fn groups(&self, work: &Work) -> Result<Vec<(String, &[Access], &[Expr])>, Refusal> {
        let n = self.op.as_ref().map_or(1, ReduceOp::targets);
        let (targets, values) = (&self.c.targets, &self.c.values);
        if targets.len() != values.len() || targets.len() % n != 0 || targets.is_empty() {
            let text =
                format!("`{}` has {} targets for {} values", self.c.label, targets.len(), values.len());
            return Err(work.refuse(codes::SHAPE, text));
        }
        let groups = targets.chunks(n).zip(values.chunks(n)).enumerate();
        Ok(groups
            .map(|(g, (t, v))| (if g == 0 { String::new() } else { format!("out{}", g + 1) }, t, v))
            .collect())
    }

    /// No scan: stores, or an initialization and reductions.
    fn plain(&self, work: &mut Work) -> Result<Stmt, Refusal> {
        let groups = self.groups(work)?;
        let all = instance(self.free.iter().chain(&self.reduced));
        let Some(op) = &self.op else {
            let stores = self.stores(work, all)?;
            return Ok(self.nest(&self.free, self.guarded(stores)));
        };
        let reduce = |suffix: &str, t: &[Access], v: &[Expr]| {
            self.stmt(StmtKind::Reduce(Reduce {
                label: self.label(suffix),
                instance: all.clone(),
                op: op.clone(),
                targets: t.to_vec(),
                values: v.to_vec(),
                licence: true,
                contract: false,
            }))
        };
        if self.c.update.is_some() {
            let all = Stmt::seq(groups.iter().map(|(s, t, v)| reduce(s, t, v)));
            return Ok(self.nest(&self.free, self.nest(&self.reduced, self.guarded(all))));
        }
        let cell = instance(self.free.iter());
        let mut before = Vec::new();
        let mut inner = Vec::new();
        let mut may_be_empty = false;
        for (suffix, t, v) in &groups {
            let init = if suffix.is_empty() { "init".to_string() } else { format!("{suffix}.init") };
            match identity(work.module, op, t) {
                Some((values, exact)) => {
                    may_be_empty |= !exact;
                    for (n, (target, value)) in t.iter().zip(values).enumerate() {
                        let suffix = if n == 0 { init.clone() } else { format!("{init}{}", n + 1) };
                        before.push(self.store(&suffix, cell.clone(), target.clone(), value));
                    }
                    inner.push(reduce(suffix, t, v));
                }
                None if self.c.guard.is_some() => {
                    let d = Diagnostic::error(
                        codes::UNSUPPORTED,
                        format!("`{}` has a guard, and `{op}` has no identity to start from", self.c.label),
                    );
                    let d = d.at_places(self.places, "here");
                    return Err(d.help("declare the operator with `identity(…)`").into_refusal(work.rule));
                }
                None => {
                    may_be_empty = true;
                    let first = self.reduced.iter().fold(build::boolean(true), |c, d| {
                        build::and(c, build::eq(build::var(&d.binder), d.lo.clone()))
                    });
                    let init = self.store(&init, all.clone(), t[0].clone(), v[0].clone());
                    let then = reduce(suffix, t, v);
                    inner.push(self.stmt(StmtKind::If { cond: first, then: init, other: Some(then) }));
                }
            }
        }
        let loops = self.nest(&self.reduced, self.guarded(Stmt::seq(inner)));
        let nest = self.nest(&self.free, Stmt::seq(before.into_iter().chain([loops])));
        Ok(if may_be_empty { self.not_empty(work, nest) } else { nest })
    }

    /// Fails the call when there is a cell and nothing to reduce for it.
    fn not_empty(&self, work: &mut Work, nest: Stmt) -> Stmt {
        let some = |dims: &[&Dim]| {
            dims.iter()
                .fold(build::boolean(true), |c, d| build::and(c, build::lt(d.lo.clone(), d.hi.clone())))
        };
        let depends = self
            .reduced
            .iter()
            .any(|r| self.free.iter().any(|f| mentions(&r.lo, f.binder.id) || mentions(&r.hi, f.binder.id)));
        // Ranges that depend on the cell are checked at the cell.
        if depends {
            let at_cell = self.nest(&self.free, self.check(some(&self.reduced)));
            return Stmt::seq([work.copy(&at_cell), nest]);
        }
        Stmt::seq([self.check(build::or(build::not(some(&self.free)), some(&self.reduced))), nest])
    }

    /// One store per target. Values are taken before anything is stored.
    fn stores(&self, work: &mut Work, instance: Vec<Expr>) -> Result<Stmt, Refusal> {
        let groups = self.groups(work)?;
        let written: Vec<_> = self.c.targets.iter().filter_map(|t| t.view.buffer()).collect();
        let clash = groups.len() > 1
            && self.c.values.iter().any(|v| {
                visit::loads_of(v).iter().any(|l| l.view.buffer().is_some_and(|b| written.contains(&b)))
            });
        let mut lets = Vec::new();
        let mut stores = Vec::new();
        for (suffix, t, v) in groups {
            let mut value = v[0].clone();
            if clash {
                let Some(ty) = value.ty().scalar() else {
                    let text =
                        format!("`{}` reads and writes structs of several targets at once", self.c.label);
                    return Err(work.refuse(codes::UNSUPPORTED, text));
                };
                let binder = work.func.fresh_var("value", ty);
                lets.push((binder.clone(), value));
                value = build::var(&binder);
            }
            stores.push(self.store(&suffix, instance.clone(), t[0].clone(), value));
        }
        let body = Stmt::seq(stores);
        Ok(lets
            .into_iter()
            .rev()
            .fold(body, |body, (binder, value)| self.stmt(StmtKind::Let { binder, value, body })))
    }

    /// A running value in a register, stored in every iteration of the scanned loop.
    fn scan(&self, work: &mut Work) -> Result<Stmt, Refusal> {
        let groups = self.groups(work)?;
        let Some(op) = &self.op else { return Err(work.refuse(codes::SHAPE, "a scan without operator")) };
        if self.c.update.is_some() {
            let text = format!("`{}` scans into an existing value", self.c.label);
            return Err(work.refuse(codes::UNSUPPORTED, text));
        }
        let row = instance(self.free.iter());
        let cell = instance(self.free.iter().chain(&self.scans));
        let all = instance(self.free.iter().chain(&self.scans).chain(&self.reduced));
        let mut buffers: Vec<Arc<Buffer>> = Vec::new();
        let (mut before, mut inner, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (suffix, t, v) in &groups {
            let dotted =
                |name: &str| if suffix.is_empty() { name.to_string() } else { format!("{suffix}.{name}") };
            let Some((start, _)) = identity(work.module, op, t) else {
                let text =
                    format!("`{}` scans with `{op}`, which has no identity to start from", self.c.label);
                let d = Diagnostic::error(codes::UNSUPPORTED, text).at_places(self.places, "here");
                return Err(d.help("declare the operator with `identity(…)`").into_refusal(work.rule));
            };
            let mut accs = Vec::new();
            for (n, (target, value)) in t.iter().zip(start).enumerate() {
                let number = if n == 0 { String::new() } else { (n + 1).to_string() };
                let buffer = Arc::new(Buffer {
                    id: work.func.fresh_buf(),
                    name: format!("{}.{}{number}", self.c.label, dotted("acc")).into(),
                    elem: target.elem.clone(),
                    extents: Vec::new(),
                    space: Space::Register,
                    layout: Layout::row_major(),
                });
                let acc = Access::buffer(buffer.id, target.elem.clone(), Vec::new()).at(self.places.clone());
                before.push(self.store(
                    &format!("{}{number}", dotted("init")),
                    row.clone(),
                    acc.clone(),
                    value,
                ));
                let stored = build::load(acc.clone());
                after.push(self.store(
                    &format!("{}{number}", dotted("store")),
                    cell.clone(),
                    target.clone(),
                    stored,
                ));
                accs.push(acc);
                buffers.push(buffer);
            }
            inner.push(self.stmt(StmtKind::Reduce(Reduce {
                label: self.label(suffix),
                instance: all.clone(),
                op: op.clone(),
                targets: accs,
                values: v.to_vec(),
                licence: false,
                contract: false,
            })));
        }
        let step =
            Stmt::seq([self.nest(&self.reduced, self.guarded(Stmt::seq(inner)))].into_iter().chain(after));
        let body = Stmt::seq(before.into_iter().chain([self.nest(&self.scans, step)]));
        let body =
            buffers.into_iter().rev().fold(body, |body, buffer| self.stmt(StmtKind::Alloc { buffer, body }));
        Ok(self.nest(&self.free, body))
    }
}

/// The dimensions so that each range mentions only those before it.
fn ordered<'a>(work: &Work, c: &Compute, mut dims: Vec<&'a Dim>) -> Result<Vec<&'a Dim>, Refusal> {
    let mut out = Vec::new();
    while !dims.is_empty() {
        let ready = dims.iter().position(|d| {
            dims.iter().all(|o| !mentions(&d.lo, o.binder.id) && !mentions(&d.hi, o.binder.id))
        });
        match ready {
            Some(p) => out.push(dims.remove(p)),
            None => {
                let text = format!("the ranges of the indices of `{}` depend on one another", c.label);
                return Err(work.refuse(codes::SHAPE, text));
            }
        }
    }
    Ok(out)
}

fn instance<'a, 'b: 'a>(dims: impl Iterator<Item = &'a &'b Dim>) -> Vec<Expr> {
    dims.map(|d| build::var(&d.binder)).collect()
}

/// What the targets start from, and whether that is the result of reducing nothing (for `argmin` and
/// `argmax` it is only neutral). `None`: the operator has no identity.
pub fn identity(module: &Module, op: &ReduceOp, targets: &[Access]) -> Option<(Vec<Expr>, bool)> {
    let first = &targets.first()?.elem;
    Some(match op {
        ReduceOp::Sum => (vec![number(first, 0)?], true),
        ReduceOp::Prod => (vec![number(first, 1)?], true),
        ReduceOp::Min => (vec![extreme(first, true)?], true),
        ReduceOp::Max => (vec![extreme(first, false)?], true),
        ReduceOp::All => (vec![build::boolean(true)], true),
        ReduceOp::Any => (vec![build::boolean(false)], true),
        ReduceOp::ArgMin => (vec![extreme(first, true)?, extreme(&targets.get(1)?.elem, true)?], false),
        ReduceOp::ArgMax => (vec![extreme(first, false)?, extreme(&targets.get(1)?.elem, true)?], false),
        ReduceOp::User(n) => (vec![module.ops.get(n)?.identity.clone()?], true),
    })
}

fn number(ty: &Type, v: i64) -> Option<Expr> {
    let s = ty.scalar()?;
    Some(match s {
        Scalar::Bool => build::boolean(v != 0),
        s if s.is_float() => build::float(s, v as f64),
        s => build::int(s, v),
    })
}

/// The largest or smallest value of a type.
fn extreme(ty: &Type, largest: bool) -> Option<Expr> {
    let s = ty.scalar()?;
    if s.is_float() {
        return Some(build::float(s, if largest { f64::INFINITY } else { f64::NEG_INFINITY }));
    }
    if s == Scalar::Bool {
        return Some(build::boolean(largest));
    }
    let v = match (s.is_signed(), largest) {
        (true, true) => i64::MAX >> (64 - s.bits()),
        (true, false) => i64::MIN >> (64 - s.bits()),
        (false, true) => -1,
        (false, false) => 0,
    };
    Some(build::int(s, v))
}
