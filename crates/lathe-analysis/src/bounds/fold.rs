//! Sums and products of `index` values.
//!
//! Whether one overflows 64 bits depends on the order, so where it may, it has one: the loops are written out, each
//! instance is checked, and nothing may be reordered. (`i64` wraps, and is free of this.)

use super::*;
use lathe_ir::build::var;
use lathe_ir::reduce::{combine, identity};
use lathe_ir::stmt::AtomicOp;
use lathe_ir::{Label, Layout, ReduceOp, Space, Type};
use lathe_poly::Interval;

/// Whether combining by an operator computes with `index` values of these types.
fn computes(op: &ReduceOp, types: impl Iterator<Item = Type>) -> bool {
    matches!(op, ReduceOp::Sum | ReduceOp::Prod) && types.into_iter().any(|t| t.is_index())
}

impl Prover {
    /// What an update of `index` values needs.
    pub(super) fn accumulation(&mut self, r: &Reduce, out: &mut Vec<Needed>) -> bool {
        self.operator(&r.op, r.targets.first().map(|t| &t.places));
        if !computes(&r.op, r.targets.iter().map(|t| t.elem.clone())) {
            return false;
        }
        let before = out.len();
        for e in self.sums(&r.op, &r.targets, &r.values) {
            self.arithmetic(&e, &boolean(true), out);
        }
        out.len() > before
    }

    fn sums(&self, op: &ReduceOp, targets: &[Access], values: &[Expr]) -> Vec<Expr> {
        let old: Vec<Expr> = targets.iter().cloned().map(load).collect();
        combine(&self.module, op, &old, values).unwrap_or_default()
    }

    /// The operators of a user compute with whatever they are given.
    fn operator(&mut self, op: &ReduceOp, places: Option<&Places>) {
        let ReduceOp::User(name) = op else { return };
        let Some(user) = self.module.ops.get(name) else { return };
        if Ranges::default().fits(&user.body) {
            return;
        }
        let d = Diagnostic::error(UNDECIDED, format!("the operator `{name}` may overflow 64 bits"))
            .at_places(places.unwrap_or(&Places::none()), "combined here")
            .help("compute with `i64`, which wraps, or with floats");
        if !self.diagnostics.contains(&d) {
            self.diagnostics.push(d);
        }
    }

    /// An atomic update cannot be checked: what was there is known too late.
    pub(super) fn atomic(&mut self, a: &Atomic) {
        let AtomicOp::Update(op, _) = &a.op else { return };
        self.operator(op, Some(&a.target.places));
        if computes(op, [a.target.elem.clone()].into_iter()) {
            let text = format!("the atomic update of `{}` may overflow 64 bits", self.text(&a.target));
            self.diagnostics.push(
                Diagnostic::error(UNDECIDED, text)
                    .at_places(&a.target.places, "updated here")
                    .help("count in `i64`, which wraps"),
            );
        }
    }

    /// The loops of a compute that combines `index` values, with a check for each instance; `None` where none is
    /// needed.
    pub(super) fn folded(&mut self, c: &Compute, places: &Places) -> Option<Stmt> {
        let folds = c.dims.iter().find_map(|d| match &d.combine {
            Combine::Reduce(op) | Combine::Scan(op) => Some(op.clone()),
            Combine::Concat => None,
        });
        folds.iter().chain(&c.update).for_each(|op| self.operator(op, Some(places)));
        let types = || c.targets.iter().map(|t| t.elem.clone());
        if !folds.iter().chain(&c.update).any(|op| computes(op, types())) || self.stays_small(c, &folds) {
            return None;
        }
        if c.values.len() != c.targets.len() {
            return None;
        }
        let fold = Lowered { c, places };
        let pick = |f: fn(&Combine) -> bool| c.dims.iter().filter(|d| f(&d.combine)).collect::<Vec<_>>();
        let free = pick(|k| *k == Combine::Concat);
        let scans = pick(|k| matches!(k, Combine::Scan(_)));
        let reduced = pick(|k| matches!(k, Combine::Reduce(_)));
        let names = |all: &[&[&Dim]]| all.iter().flat_map(|d| d.iter()).map(|d| var(&d.binder)).collect();
        let row: Vec<Expr> = names(&[&free]);
        let cell: Vec<Expr> = names(&[&free, &scans]);
        let all: Vec<Expr> = names(&[&free, &scans, &reduced]);
        let Some(op) = folds else {
            let update = self.update(&fold, "", cell, c.update.as_ref()?, &c.targets, &c.values);
            return Some(fold.nest(&free, fold.guarded(update)));
        };
        if scans.is_empty() && c.update.as_ref().is_none_or(|u| *u == op) {
            let update = fold.guarded(self.update(&fold, "", all, &op, &c.targets, &c.values));
            let mut body = vec![fold.nest(&reduced, update)];
            if c.update.is_none() {
                let start = identity(&self.module, &op, &types().collect::<Vec<_>>())?;
                body.insert(0, fold.stores("init", &row, &c.targets, &start));
            }
            return Some(fold.nest(&free, Stmt::seq(body)));
        }
        let mut buffers = Vec::new();
        let mut accumulators = Vec::new();
        for (n, t) in c.targets.iter().enumerate() {
            let id = self.func.fresh_buf();
            let name = fold.label("acc", n).to_string().into();
            let (elem, space, layout) = (t.elem.clone(), Space::Register, Layout::row_major());
            buffers.push(Arc::new(Buffer { id, name, elem, extents: Vec::new(), space, layout }));
            let acc = Access::buffer(id, t.elem.clone(), Vec::new()).at(places.clone());
            accumulators.push(Access { status: Status::Proved, ..acc });
        }
        let start = identity(&self.module, &op, &types().collect::<Vec<_>>())?;
        let update = fold.guarded(self.update(&fold, "", all, &op, &accumulators, &c.values));
        let loads: Vec<Expr> = accumulators.iter().cloned().map(load).collect();
        let out = match &c.update {
            Some(u) => self.update(&fold, "store", cell, u, &c.targets, &loads),
            None => fold.stores("store", &cell, &c.targets, &loads),
        };
        let step = fold.nest(&scans, Stmt::seq([fold.nest(&reduced, update), out]));
        let body = Stmt::seq([fold.stores("init", &row, &accumulators, &start), step]);
        let body = buffers
            .into_iter()
            .rev()
            .fold(body, |body, buffer| Stmt::new(StmtKind::Alloc { buffer, body }, places.clone()));
        Some(fold.nest(&free, body))
    }

    /// Sums of few small numbers that start at 0 stay within 64 bits in any order.
    fn stays_small(&self, c: &Compute, folds: &Option<ReduceOp>) -> bool {
        if *folds != Some(ReduceOp::Sum) || c.update.is_some() {
            return false;
        }
        let mut ranges = self.everywhere.clone();
        if let Some(g) = &c.guard {
            ranges.assume(g);
        }
        let mut trips = 1i128;
        for d in c.dims.iter().filter(|d| d.combine != Combine::Concat) {
            let n = ranges.range(&d.hi).plus(ranges.range(&d.lo).negated()).hi.max(1);
            match trips.checked_mul(n) {
                Some(t) => trips = t,
                None => return false,
            }
        }
        c.values.iter().all(|v| {
            let most = ranges.range(v).magnitude().hi;
            !v.ty().is_index() || most.checked_mul(trips).is_some_and(|s| s <= Interval::INDEX.hi)
        })
    }

    /// An update in order, with its check.
    fn update(
        &mut self,
        fold: &Lowered,
        suffix: &str,
        instance: Vec<Expr>,
        op: &ReduceOp,
        targets: &[Access],
        values: &[Expr],
    ) -> Stmt {
        let mut checks = Vec::new();
        let mut ranges = self.everywhere.clone();
        if let Some(g) = &fold.c.guard {
            ranges.assume(g);
        }
        for e in self.sums(op, targets, values).iter().filter(|e| !ranges.fits(e)) {
            checks.push(Needed::fit(&boolean(true), e, &self.expr_text(e)).at(fold.places));
        }
        let reduce = StmtKind::Reduce(Reduce {
            label: fold.label(suffix, 0),
            instance,
            op: op.clone(),
            targets: targets.to_vec(),
            values: values.to_vec(),
            licence: false,
            contract: false,
        });
        let checks = checks.iter().map(|n| n.stmt(&ranges));
        Stmt::seq(checks.chain([Stmt::new(reduce, fold.places.clone())]))
    }
}

/// A compute that is written out; its statements are labelled as the step `open` does it.
struct Lowered<'a> {
    c: &'a Compute,
    places: &'a Places,
}

impl Lowered<'_> {
    fn label(&self, suffix: &str, target: usize) -> Label {
        match (suffix, target) {
            ("", _) => self.c.label.clone(),
            (s, 0) => Label::new(format!("{}.{s}", self.c.label)),
            (s, n) => Label::new(format!("{}.{s}{}", self.c.label, n + 1)),
        }
    }

    fn stores(&self, suffix: &str, instance: &[Expr], targets: &[Access], values: &[Expr]) -> Stmt {
        Stmt::seq(targets.iter().zip(values).enumerate().map(|(n, (target, value))| {
            let store = Store {
                label: self.label(suffix, n),
                instance: instance.to_vec(),
                target: target.clone(),
                value: value.clone(),
                nontemporal: false,
            };
            Stmt::new(StmtKind::Store(store), self.places.clone())
        }))
    }

    fn guarded(&self, s: Stmt) -> Stmt {
        match &self.c.guard {
            Some(g) => Stmt::new(StmtKind::If { cond: g.clone(), then: s, other: None }, self.places.clone()),
            None => s,
        }
    }

    fn nest(&self, dims: &[&Dim], body: Stmt) -> Stmt {
        dims.iter().rev().fold(body, |body, d| {
            let (binder, lo, hi) = (d.binder.clone(), d.lo.clone(), d.hi.clone());
            let l = Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body };
            Stmt::new(StmtKind::Loop(l), self.places.clone())
        })
    }
}
