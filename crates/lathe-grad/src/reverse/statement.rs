//! Adjoints of statements in loops.

use super::Reverse;
use crate::arrays::determines;
use crate::expr::{Active, Cotangent, Source, zero};
use crate::node::Leaf;
use crate::reverse::restore::When;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{load, var};
use lathe_ir::{Access, Expr, Mode, Reduce, ReduceOp, Scalar, Stmt, StmtKind, Store, VarId};

impl Reverse<'_> {
    /// `targets = values`: the cotangents of the targets are taken and cleared, and propagated.
    pub fn back_assign(
        &mut self,
        l: &Leaf,
        targets: &[Access],
        values: &[Expr],
    ) -> Result<Option<Stmt>, Diagnostic> {
        let mut seeds = Vec::new();
        let mut cleared = Vec::new();
        let mut given = Vec::new();
        for (t, v) in targets.iter().zip(values) {
            let Some(bar) = self.bar_of(t) else { continue };
            let bar = self.restore_access(&l.site, &[], &bar, None, When::Back)?;
            let binder = self.func.fresh_var("bar", bar.elem.scalar().unwrap_or(Scalar::F64));
            given.extend(self.cotangents(l, v, var(&binder))?);
            seeds.push((binder, load(bar.clone())));
            if !self.is_written_once(l, t) {
                cleared.push(bar);
            }
        }
        let mut stores = Vec::new();
        let mut adds = Vec::new();
        for c in given {
            let (target, value, under) = self.handed_on(l, &c)?;
            let own =
                cleared.iter().position(|b| *b == target).filter(|_| under.is_none() && targets.len() == 1);
            match own {
                // What is cleared and then added to once is stored.
                Some(n) => {
                    let target = cleared.remove(n);
                    stores.push(self.store_bar(l, target, value));
                }
                None => adds.push(self.add_bar(l, target, value, under)),
            }
        }
        let clear: Vec<Stmt> = cleared
            .into_iter()
            .map(|b| (b.clone(), zero(&b.elem)))
            .map(|(b, z)| self.store_bar(l, b, z))
            .collect();
        if clear.is_empty() && stores.is_empty() && adds.is_empty() {
            return Ok(None);
        }
        let body = Stmt::seq(clear.into_iter().chain(stores).chain(adds));
        Ok(Some(seeds.into_iter().rev().fold(body, |body, (binder, value)| {
            Stmt::new(StmtKind::Let { binder, value, body }, l.site.places.clone())
        })))
    }

    /// `target += value`: the cotangent of the target stays, and is propagated.
    pub fn back_add(&mut self, l: &Leaf, target: &Access, value: &Expr) -> Result<Option<Stmt>, Diagnostic> {
        let Some(bar) = self.bar_of(target) else { return Ok(None) };
        let bar = self.restore_access(&l.site, &[], &bar, None, When::Back)?;
        let binder = self.func.fresh_var("bar", bar.elem.scalar().unwrap_or(Scalar::F64));
        let given = self.cotangents(l, value, var(&binder))?;
        if given.is_empty() {
            return Ok(None);
        }
        let mut adds = Vec::new();
        for c in given {
            let (target, value, under) = self.handed_on(l, &c)?;
            adds.push(self.add_bar(l, target, value, under));
        }
        let kind = StmtKind::Let { binder, value: load(bar), body: Stmt::seq(adds) };
        Ok(Some(Stmt::new(kind, l.site.places.clone())))
    }

    pub fn cotangents(&self, l: &Leaf, e: &Expr, seed: Expr) -> Result<Vec<Cotangent>, Diagnostic> {
        Active { act: self.act, places: &l.site.places }.cotangents(e, seed)
    }

    /// The shadow that receives a cotangent, what it receives, and where.
    fn handed_on(&mut self, l: &Leaf, c: &Cotangent) -> Result<(Access, Expr, Option<Expr>), Diagnostic> {
        let under = match &c.under {
            Some(u) => Some(self.restore(&l.site, &[], u, None, When::Back)?),
            None => None,
        };
        let value = self.restore(&l.site, &[], &c.value, c.under.as_ref(), When::Back)?;
        let target = match &c.to {
            Source::Load(a) => {
                let bar = self.bar_of(a).unwrap_or_else(|| a.clone());
                self.restore_access(&l.site, &[], &bar, c.under.as_ref(), When::Back)?
            }
            Source::Var(v) => self.bar_of_var(*v),
        };
        Ok((target, value, under))
    }

    /// The shadow of a scalar input.
    pub fn bar_of_var(&self, v: VarId) -> Access {
        let bar = &self.scalars[&v];
        Access::buffer(bar.id, bar.elem.clone(), Vec::new())
    }

    fn store_bar(&mut self, l: &Leaf, target: Access, value: Expr) -> Stmt {
        let (label, instance) = (self.label(&l.site.label, "bar"), l.stmt.instance().to_vec());
        let s = Store::new(label, instance, target, value);
        Stmt::new(StmtKind::Store(s), l.site.places.clone())
    }

    fn add_bar(&mut self, l: &Leaf, target: Access, value: Expr, under: Option<Expr>) -> Stmt {
        let (label, instance) = (self.label(&l.site.label, "bar"), l.stmt.instance().to_vec());
        let (targets, values) = (vec![target], vec![value]);
        let op = ReduceOp::Sum;
        let r = Reduce { label, instance, op, targets, values, licence: true, contract: false };
        let s = Stmt::new(StmtKind::Reduce(r), l.site.places.clone());
        match under {
            Some(cond) => Stmt::new(StmtKind::If { cond, then: s, other: None }, l.site.places.clone()),
            None => s,
        }
    }

    /// Whether an element that the statement writes is written by nothing else, and was not there before: then nobody
    /// reads its cotangent any more.
    pub fn is_written_once(&self, l: &Leaf, target: &Access) -> bool {
        let Some(b) = target.view.buffer() else { return false };
        let given =
            self.func.params.iter().any(|p| p.mode == Mode::InOut && p.array().is_some_and(|a| a.id == b));
        let alone = self.writes.get(&b).is_some_and(|all| {
            all.iter().all(|w| !w.adds && w.site.id == l.site.id || apart(&w.access, target))
        });
        let loops = l.site.loops_in(self.scope_of.get(&b).copied().unwrap_or(0)).iter().map(|l| l.binder.id);
        let vars: Vec<VarId> = loops.chain(l.stmt.binders().into_iter().map(|b| b.0.id)).collect();
        let reduced: Vec<VarId> = match l.stmt.as_compute() {
            Some(c) => crate::node::reduced(c).into_iter().map(|d| d.binder.id).collect(),
            None => Vec::new(),
        };
        let vars: Vec<VarId> = vars.into_iter().filter(|v| !reduced.contains(v)).collect();
        let several = l.writes().iter().filter(|w| w.0.view.buffer() == Some(b)).count() != 1;
        !given && alone && !several && determines(&target.indices, &vars)
    }
}

/// Whether two accesses of one array never meet: a subscript is a number in both, and another one.
fn apart(a: &Access, b: &Access) -> bool {
    let differ = |(x, y): (&Expr, &Expr)| x.as_int().zip(y.as_int()).is_some_and(|(x, y)| x != y);
    a.view == b.view && a.indices.iter().zip(&b.indices).any(differ)
}
