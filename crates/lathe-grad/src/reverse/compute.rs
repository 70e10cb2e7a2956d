//! Adjoints of statements in index notation: statements in index notation.

use super::{Reverse, gather, padded};
use crate::expr::{Source, plus, zero};
use crate::forward::chosen;
use crate::node::Leaf;
use crate::reverse::restore::When;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{and, load, select, var};
use lathe_ir::visit::substitute;
use lathe_ir::{Access, BufId, Buffer, Combine, Compute, Dim, Expr, ReduceOp, Scalar, Stmt, StmtKind};
use std::collections::HashMap;
use std::sync::Arc;

impl Reverse<'_> {
    /// For `T[x] = Σ e`: every `B[y]` in `e` receives `T_bar[x] · ∂e/∂B[y]`, added up over all points at which it is
    /// read. `at` says which point a smallest or largest value came from.
    pub fn back_compute(
        &mut self,
        l: &Leaf,
        c: &Compute,
        at: Option<&Access>,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let target = &c.targets[0];
        let Some(bar) = self.bar_of(target) else { return Ok(None) };
        let keep = |d: &&Dim| at.is_none() || d.combine == Combine::Concat;
        let dims: Vec<Dim> = c.dims.iter().filter(keep).cloned().collect();
        let (value, always) = match at {
            Some(at) => {
                let (point, some) = chosen(c, load(at.clone()));
                (substitute(&c.values[0], &point), Some(some))
            }
            None => (c.values[0].clone(), c.guard.clone()),
        };
        let (site, places) = (&l.site, &l.site.places);
        let mut own = Vec::with_capacity(dims.len());
        for d in &dims {
            let lo = self.restore(site, &dims, &d.lo, None, When::Back)?;
            let hi = self.restore(site, &dims, &d.hi, None, When::Back)?;
            own.push(Dim { lo, hi, ..d.clone() });
        }
        let bar = self.restore_access(site, &dims, &bar, None, When::Back)?;
        // The seed stands for itself until all else is restored.
        let seed = self.func.fresh_var("bar", bar.elem.scalar().unwrap_or(Scalar::F64));
        let seeded = |e: &Expr| substitute(e, &HashMap::from([(seed.id, load(bar.clone()))]));
        let mut out = Vec::new();
        let mut itself: Option<Expr> = None;
        for given in self.cotangents(l, &value, var(&seed))? {
            let under = match (&always, &given.under) {
                (Some(a), Some(b)) => Some(and(a.clone(), b.clone())),
                (a, b) => a.clone().or(b.clone()),
            };
            let restored = self.restore(site, &dims, &given.value, under.as_ref(), When::Back)?;
            let restored = seeded(&restored);
            let cond = match &under {
                Some(u) => Some(self.restore(site, &dims, u, None, When::Back)?),
                None => None,
            };
            let to = match &given.to {
                Source::Load(a) if a.view == target.view && a.indices == target.indices => {
                    let value = match cond {
                        Some(cond) => select(cond, restored, zero(&bar.elem)),
                        None => restored,
                    };
                    itself = Some(plus(itself, value));
                    continue;
                }
                Source::Load(a) => {
                    let to = self.bar_of(a).unwrap_or_else(|| a.clone());
                    self.restore_access(site, &dims, &to, under.as_ref(), When::Back)?
                }
                Source::Var(v) => self.bar_of_var(*v),
            };
            let extents = to.view.buffer().and_then(|b| self.extents_of_bar(b)).unwrap_or_default();
            let label = self.label(&site.label, "bar");
            let term = gather::Term { dims: &own, target: to, value: restored, cond };
            let compute = gather::added(&mut self.func, label, term, &extents, site.loops.is_empty());
            let known = self.known_arrays();
            let stmt = padded::padded(&mut self.func, &compute, &|b| known.get(&b).cloned(), places);
            out.push(stmt.unwrap_or_else(|| Stmt::new(StmtKind::Compute(compute), places.clone())));
        }
        // Its own element is read by those above.
        let free: Vec<Dim> = own.iter().filter(|d| d.combine == Combine::Concat).cloned().collect();
        let overwrites = c.update.is_none();
        let last = match itself {
            Some(value) => Some((value, (!overwrites).then_some(ReduceOp::Sum))),
            None if overwrites && !self.is_written_once(l, target) => Some((zero(&bar.elem), None)),
            None => None,
        };
        if let Some((value, update)) = last {
            let label = self.label(&site.label, "bar");
            // With a reduction, cells without any point are written, too.
            let reduces = c.dims.iter().any(|d| d.combine != Combine::Concat);
            let guard = match &c.guard {
                Some(g) if !reduces => Some(self.restore(site, &dims, g, None, When::Back)?),
                _ => None,
            };
            let (targets, values) = (vec![bar], vec![value]);
            let compute = Compute { label, dims: free, targets, values, guard, update };
            out.push(Stmt::new(StmtKind::Compute(compute), places.clone()));
        }
        Ok((!out.is_empty()).then(|| Stmt::seq(out)))
    }

    /// Arrays of the function, and their shadows.
    fn known_arrays(&self) -> HashMap<BufId, Arc<Buffer>> {
        let shadows = self.bars.values().chain(self.scalars.values()).map(|b| (b.id, b.clone()));
        self.buffers.iter().map(|(id, b)| (*id, b.clone())).chain(shadows).collect()
    }

    /// The extents of a shadow.
    fn extents_of_bar(&self, b: lathe_ir::BufId) -> Option<Vec<Expr>> {
        self.bars.values().chain(self.scalars.values()).find(|x| x.id == b).map(|x| x.extents.clone())
    }
}
