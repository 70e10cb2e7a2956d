//! `open`: computes become loops named after their indices.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::dims::{is_reduced, is_scan, of_kind};
use crate::names::find_some_label;
use crate::nest::mentions;
use crate::rule;
use crate::rule::Cursor;
use crate::work::{Work, edited};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Expr, Function, Label, Module, Reduce, ReduceOp, Space, Stmt,
    StmtKind, Store, Type, build,
};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};
use std::sync::Arc;

rule! {
    /// *Lowers* every statement in index notation (or the one of a label) to serial loops, one per index, free indices
    /// outside. A reduction first initializes its target with the operator's identity: `C[i, j] = sum[k](…)` becomes
    ///
    /// ```tree
    /// for i { for j { C.init[i, j]: C = 0;  for k { C[i, j, k]: C += … } } }
    /// ```
    ///
    /// A scan keeps its running value in a register `C.acc` and stores it in every iteration (`C.store`). A reduction
    /// by an operator without an identity starts from the first element; if it is empty, the call fails.
    ///
    /// Every strategy starts with `open`, whether it says so or not.
    ///
    /// **Legal** always. **Makes** loops named after the indices and labels `C.init`, `C.store`.
    ///
    /// ```lathe
    /// kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    ///     C[i, j] = sum[k](A[i, k] * B[k, j])
    /// }
    /// strategy s for gemm = open
    /// ```
    pub static RULE = open, version 1, (label: optional Label), apply,
        "lowering: turns index notation into loops named after their indices";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let label = args.opt_path(work.rule(), "label", 0)?;
    let mut places: Vec<Path> = Vec::new();
    if let Some(l) = &label {
        places = find_some_label(cursor, work.rule(), l)?;
        places.retain(|p| cursor.at(p).is_some_and(|s| s.as_compute().is_some()));
        if places.is_empty() {
            return Err(work.refuse(codes::SHAPE, format!("`{l}` is already lowered")));
        }
    } else {
        visit::walk(cursor.focused(), &mut |s, p| {
            if s.as_compute().is_some() {
                places.push(cursor.focus.iter().chain(p).copied().collect());
            }
            true
        });
    }
    // One rebuild serves all computes: a program of a thousand statements is not copied a thousand times.
    let mut failure = None;
    let root = cursor.focused();
    let opened = visit::map_stmts(root, &mut |s| {
        let Some(c) = s.as_compute() else { return s };
        if failure.is_some() || label.as_ref().is_some_and(|l| l != c.label.as_str()) {
            return s;
        }
        match open_compute(work, c, s.places()) {
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
        work.replace_by_rule(&cursor.focus, opened, Kind::Split, Construction::Opened)?;
    }
    Ok(())
}

/// The function with the computes that `pick` chooses as loops: the step for those who need the tree and no evidence.
///
/// # Errors
/// As the step.
pub fn open_some(
    module: &Module,
    func: &Function,
    pick: &dyn Fn(&Compute) -> bool,
) -> Result<Function, Refusal> {
    edited(&Cursor::new(module, func), &RULE, |work| {
        let mut failure = None;
        let body = visit::map_stmts(&func.body, &mut |s| {
            let Some(c) = s.as_compute().filter(|c| failure.is_none() && pick(c)) else { return s };
            open_compute(work, c, s.places()).unwrap_or_else(|r| {
                failure = Some(r);
                s.clone()
            })
        });
        match failure {
            Some(r) => Err(r),
            None => work.replace_by_rule(&[], body, Kind::Split, Construction::Opened),
        }
    })
}

/// The loops of one compute.
fn open_compute(work: &mut Work, c: &Compute, places: &Places) -> Result<Stmt, Refusal> {
    let parts = Parts::of(work, c, places)?;
    match &parts.op {
        None => {
            let write = parts.write(work, None, parts.instance(&[&parts.free]), &parts.values.clone())?;
            Ok(parts.nest(&parts.free, parts.guarded(write)))
        }
        Some(op) if parts.scans.is_empty() && c.update.as_ref().is_none_or(|u| u == op) => {
            parts.in_place(work, op)
        }
        Some(op) => parts.through_register(work, op),
    }
}

/// A compute taken apart.
struct Parts<'a> {
    c: &'a Compute,
    places: &'a Places,
    free: Vec<&'a Dim>,
    scans: Vec<&'a Dim>,
    reduced: Vec<&'a Dim>,
    /// One per target.
    values: Vec<Expr>,
    /// The operator of the reduced and scanned dimensions.
    op: Option<ReduceOp>,
}

impl<'a> Parts<'a> {
    fn of(work: &Work, c: &'a Compute, places: &'a Places) -> Result<Parts<'a>, Refusal> {
        let refuse = |text: String, help: &str| {
            let d = Diagnostic::error(codes::UNSUPPORTED, text).at_places(places, "here");
            Err(if help.is_empty() { d } else { d.help(help) }.into_refusal(work.rule()))
        };
        let mut op: Option<ReduceOp> = None;
        for d in &c.dims {
            if let Combine::Reduce(o) | Combine::Scan(o) = &d.combine {
                if op.as_ref().is_some_and(|old| old != o) {
                    let text = format!("`{}` mixes two operators", c.label);
                    return refuse(text, "write each reduction as a separate statement");
                }
                op = Some(o.clone());
            }
        }
        let of = |is: fn(&Combine) -> bool| {
            of_kind(c, is).ok_or_else(|| {
                let text = format!("the ranges of the indices of `{}` depend on one another", c.label);
                work.refuse(codes::SHAPE, text)
            })
        };
        let types: Vec<Type> = c.targets.iter().map(|t| t.elem.clone()).collect();
        let values = match &c.values[..] {
            v if v.len() == types.len() => v.to_vec(),
            [v] if v.ty().fields() == types => {
                (0..types.len() as u32).map(|i| build::field(v.clone(), i)).collect()
            }
            v => {
                let text = format!("`{}` has {} targets for {} values", c.label, types.len(), v.len());
                return refuse(text, "");
            }
        };
        let parts = Parts {
            c,
            places,
            free: of(|k| *k == Combine::Concat)?,
            scans: of(is_scan)?,
            reduced: of(is_reduced)?,
            values,
            op,
        };
        let outside = parts.free.iter().chain(&parts.scans);
        for (d, r) in outside.flat_map(|d| parts.reduced.iter().map(move |r| (d, r))) {
            if mentions(&d.lo, r.binder.id) || mentions(&d.hi, r.binder.id) {
                let (d, r) = (&d.binder.name, &r.binder.name);
                return refuse(format!("the range of `{d}` depends on the reduced `{r}`"), "");
            }
        }
        if parts.scans.len() > 1 {
            let text = format!("`{}` scans along {} indices at once", c.label, parts.scans.len());
            return refuse(text, "scan along one index, store the result, and scan that along the next");
        }
        Ok(parts)
    }

    fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt::new(kind, self.places.clone())
    }

    /// `C`, `C.init`, `C.init2` for the first and the second target.
    fn label(&self, role: Option<Role>, target: usize) -> Label {
        match (role, target) {
            (None, 0) => self.c.label.clone(),
            (None, n) => Label::new(Role::Out.nth(&self.c.label, n)),
            (Some(r), n) => Label::new(r.nth(&self.c.label, n)),
        }
    }

    fn store(&self, label: Label, instance: Vec<Expr>, target: Access, value: Expr) -> Stmt {
        self.stmt(StmtKind::Store(Store::new(label, instance, target, value)))
    }

    fn reduce(
        &self,
        label: Label,
        instance: Vec<Expr>,
        op: &ReduceOp,
        targets: &[Access],
        values: &[Expr],
    ) -> Stmt {
        self.stmt(StmtKind::Reduce(Reduce {
            label,
            instance,
            op: op.clone(),
            targets: targets.to_vec(),
            values: values.to_vec(),
            // A scan needs its values in order.
            licence: self.scans.is_empty(),
            contract: false,
        }))
    }

    fn instance(&self, dims: &[&Vec<&Dim>]) -> Vec<Expr> {
        dims.iter().flat_map(|v| v.iter()).map(|d| build::var(&d.binder)).collect()
    }

    fn guarded(&self, s: Stmt) -> Stmt {
        match &self.c.guard {
            Some(g) => self.stmt(StmtKind::If { cond: g.clone(), then: s, other: None }),
            None => s,
        }
    }

    fn nest(&self, dims: &[&Dim], body: Stmt) -> Stmt {
        dims.iter().rev().fold(body, |body, d| {
            crate::nest::serial(d.binder.clone(), d.lo.clone(), d.hi.clone(), body, self.places)
        })
    }

    fn check(&self, cond: Expr) -> Stmt {
        self.stmt(StmtKind::Check {
            cond,
            code: "empty-reduction".into(),
            message: format!("`{}` is an empty reduction, and its operator has no identity", self.c.label)
                .into(),
        })
    }

    /// Writes a value per target, through the compute's update. Values are taken before anything is stored.
    fn write(
        &self,
        work: &mut Work,
        role: Option<Role>,
        instance: Vec<Expr>,
        values: &[Expr],
    ) -> Result<Stmt, Refusal> {
        let targets = &self.c.targets;
        if let Some(op) = &self.c.update {
            return Ok(self.reduce(self.label(role, 0), instance, op, targets, values));
        }
        let written: Vec<_> = targets.iter().filter_map(|t| t.view.buffer()).collect();
        let reads = |v: &Expr| {
            visit::loads_of(v).iter().any(|l| l.view.buffer().is_some_and(|b| written.contains(&b)))
        };
        let clash = targets.len() > 1 && values.iter().any(reads);
        let mut lets = Vec::new();
        let mut stores = Vec::new();
        for (n, (t, v)) in targets.iter().zip(values).enumerate() {
            let mut value = v.clone();
            if clash {
                let Some(ty) = value.ty().scalar() else {
                    let text =
                        format!("`{}` reads and writes structs of several targets at once", self.c.label);
                    return Err(work.refuse(codes::UNSUPPORTED, text));
                };
                let binder = work.fresh_scalar("value", ty);
                lets.push((binder.clone(), value));
                value = build::var(&binder);
            }
            stores.push(self.store(self.label(role, n), instance.clone(), t.clone(), value));
        }
        let body = Stmt::seq(stores);
        Ok(lets
            .into_iter()
            .rev()
            .fold(body, |body, (binder, value)| self.stmt(StmtKind::Let { binder, value, body })))
    }

    /// Reduces into the targets themselves.
    fn in_place(&self, work: &mut Work, op: &ReduceOp) -> Result<Stmt, Refusal> {
        let fold = Fold::new(self, work, op, &self.c.targets, self.c.update.is_some());
        let cell =
            Stmt::seq(fold.before.iter().cloned().chain([self.nest(&self.reduced, fold.inner.clone())]));
        let cell = Stmt::seq([cell].into_iter().chain(fold.after.iter().cloned()));
        let nest = self.nest(&self.free, fold.allocated(self, cell));
        Ok(fold.checked(self, work, nest, &[&self.free], &[&self.reduced]))
    }

    /// Reduces or scans into registers, which are then written out.
    fn through_register(&self, work: &mut Work, op: &ReduceOp) -> Result<Stmt, Refusal> {
        let mut buffers: Vec<Arc<Buffer>> = Vec::new();
        let mut accs = Vec::new();
        for (n, t) in self.c.targets.iter().enumerate() {
            let buffer = register(work, self.label(Some(Role::Running), n).as_str(), t.elem.clone());
            accs.push(Access::buffer(buffer.id, t.elem.clone(), Vec::new()).at(self.places.clone()));
            buffers.push(buffer);
        }
        let mut fold = Fold::new(self, work, op, &accs, false);
        fold.buffers.extend(buffers);
        let loads: Vec<Expr> = accs.into_iter().map(build::load).collect();
        let out = self.write(work, Some(Role::Store), self.instance(&[&self.free, &self.scans]), &loads)?;
        let step =
            [self.nest(&self.reduced, fold.inner.clone())].into_iter().chain(fold.after.iter().cloned());
        let step = self.nest(&self.scans, Stmt::seq(step.chain([out])));
        let cell = Stmt::seq(fold.before.iter().cloned().chain([step]));
        let nest = self.nest(&self.free, fold.allocated(self, cell));
        Ok(fold.checked(self, work, nest, &[&self.free, &self.scans], &[&self.reduced]))
    }
}

fn register(work: &mut Work, name: &str, elem: Type) -> Arc<Buffer> {
    Buffer::local(work.fresh_buf(), name, elem, Vec::new(), Space::Register)
}

/// How values are combined into targets: what comes before, in each instance, and after.
struct Fold {
    before: Vec<Stmt>,
    inner: Stmt,
    after: Vec<Stmt>,
    buffers: Vec<Arc<Buffer>>,
    /// Without identity and guard, there must be something to reduce.
    must_not_be_empty: bool,
}

impl Fold {
    fn new(p: &Parts, work: &mut Work, op: &ReduceOp, targets: &[Access], from_old: bool) -> Fold {
        let all = p.instance(&[&p.free, &p.scans, &p.reduced]);
        let row = p.instance(&[&p.free]);
        let types: Vec<Type> = targets.iter().map(|t| t.elem.clone()).collect();
        let reduce = p.reduce(p.label(None, 0), all.clone(), op, targets, &p.values);
        let plain = |before, inner| Fold {
            before,
            inner,
            after: Vec::new(),
            buffers: Vec::new(),
            must_not_be_empty: false,
        };
        if from_old {
            return plain(Vec::new(), p.guarded(reduce));
        }
        let init = |instance: &Vec<Expr>, values: &[Expr]| -> Vec<Stmt> {
            let each = targets.iter().zip(values).enumerate();
            each.map(|(n, (t, v))| {
                p.store(p.label(Some(Role::Init), n), instance.clone(), t.clone(), v.clone())
            })
            .collect()
        };
        if let Some(start) = lathe_ir::reduce::identity(work.module(), op, &types) {
            return plain(init(&row, &start), p.guarded(reduce));
        }
        let first = Stmt::seq(init(&all, &p.values));
        if p.c.guard.is_none() {
            // The first instance in the order of the loops starts.
            let is_first = p.scans.iter().chain(&p.reduced).fold(build::boolean(true), |c, d| {
                build::and(c, build::eq(build::var(&d.binder), d.lo.clone()))
            });
            let inner = p.stmt(StmtKind::If { cond: is_first, then: first, other: Some(reduce) });
            return Fold { must_not_be_empty: true, ..plain(Vec::new(), inner) };
        }
        // Which instance is the first depends on the guard: a flag remembers whether there was one.
        let flag = register(work, p.label(Some(Role::Started), 0).as_str(), Type::BOOL);
        let access = Access::buffer(flag.id, Type::BOOL, Vec::new()).at(p.places.clone());
        let set = |role: Role, instance: &Vec<Expr>, v: bool| {
            p.store(p.label(Some(role), 0), instance.clone(), access.clone(), build::boolean(v))
        };
        let started = build::load(access.clone());
        let begin = Stmt::seq([first, set(Role::Started, &all, true)]);
        let inner = p.stmt(StmtKind::If { cond: started.clone(), then: reduce, other: Some(begin) });
        Fold {
            before: vec![set(Role::Unstarted, &row, false)],
            inner: p.guarded(inner),
            after: vec![p.check(started)],
            buffers: vec![flag],
            must_not_be_empty: false,
        }
    }

    fn allocated(&self, p: &Parts, body: Stmt) -> Stmt {
        self.buffers
            .iter()
            .rev()
            .fold(body, |body, buffer| p.stmt(StmtKind::Alloc { buffer: buffer.clone(), body }))
    }

    /// Fails the call when there is a cell and nothing to reduce for it.
    fn checked(
        &self,
        p: &Parts,
        work: &mut Work,
        nest: Stmt,
        cells: &[&Vec<&Dim>],
        reduced: &[&Vec<&Dim>],
    ) -> Stmt {
        if !self.must_not_be_empty {
            return nest;
        }
        let all = |dims: &[&Vec<&Dim>]| {
            dims.iter()
                .flat_map(|v| v.iter())
                .fold(build::boolean(true), |c, d| build::and(c, build::lt(d.lo.clone(), d.hi.clone())))
        };
        let outer: Vec<&Dim> = cells.iter().flat_map(|v| v.iter()).copied().collect();
        let depends = outer.iter().any(|f| {
            let on = |d: &Dim| mentions(&d.lo, f.binder.id) || mentions(&d.hi, f.binder.id);
            p.reduced.iter().any(|r| on(r)) || outer.iter().any(|d| on(d))
        });
        if depends {
            // Ranges that depend on the cell are checked for each cell.
            let each = p.nest(&outer, p.check(all(reduced)));
            return Stmt::seq([work.copy(&each), nest]);
        }
        Stmt::seq([p.check(build::or(build::not(all(cells)), all(reduced))), nest])
    }
}
