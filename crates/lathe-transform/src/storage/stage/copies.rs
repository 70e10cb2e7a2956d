//! The loops that copy a box in and out.

use super::*;

impl Copies<'_> {
    pub(super) fn binders(&self, work: &mut Work, label: &str) -> Vec<Binder> {
        (0..self.live.len()).map(|d| work.fresh(lathe_ir::names::dimension(label, d))).collect()
    }

    /// The array's element for a position in the buffer.
    pub(super) fn outside(&self, vars: &[Binder]) -> Vec<Expr> {
        vars.iter().enumerate().map(|(d, v)| self.plan.region.element(d, &build::var(v))).collect()
    }

    pub(super) fn store(&self, label: &str, vars: &[Binder], target: Access, value: Expr) -> Stmt {
        let mut instance = self.plan.around.instance();
        instance.extend(self.outside(vars));
        let store = Store::new(Label::new(label), instance, target, value);
        Stmt::new(StmtKind::Store(store), self.plan.places())
    }

    pub(super) fn here(&self, vars: &[Binder]) -> Access {
        proved(self.local.id, &self.local.elem, vars.iter().map(build::var).collect())
    }

    pub(super) fn there(&self, vars: &[Binder]) -> Access {
        proved(self.plan.buffer.id, &self.local.elem, self.outside(vars))
    }

    /// The first position whose element is in the array.
    pub(super) fn first(&self, d: usize) -> Expr {
        let r = &self.plan.region;
        if r.starts_inside(d, &self.plan.around.loops, &self.plan.around.sizes) {
            return build::index(0);
        }
        let below = r.lo[d].scaled(-1).unwrap_or(Linear::constant(0));
        build::max(build::index(0), below.to_expr())
    }

    /// Copies in, and fills up to the padded extents.
    pub(super) fn enter(&self, work: &mut Work, o: &Options) -> Vec<Stmt> {
        // Threads share loops of constant bounds evenly.
        let padded = o.pad.iter().any(|p| *p != Pad::Exact);
        let constant = self.local.extents.iter().all(|e| e.as_int().is_some());
        if o.space == Space::Register || o.space == Space::Shared && padded && constant {
            return vec![self.enter_constant(work, padded)];
        }
        let rank = self.live.len();
        let vars = self.binders(work, self.label);
        let store = self.store(self.label, &vars, self.here(&vars), build::load(self.there(&vars)));
        let loops = vars.iter().enumerate().map(|(d, v)| (v.clone(), self.first(d), self.live[d].clone()));
        let mut out = vec![nest(loops.collect(), store, &self.plan.places())];
        // The last dimension first: each fill makes the filled box longer in one dimension.
        for d in (0..rank).rev().filter(|d| self.full[*d] != self.live[*d]) {
            let label = Role::Pad.of(self.label);
            let vars = self.binders(work, &label);
            let store = self.store(&label, &vars, self.here(&vars), make::zero(&self.local.elem));
            let loops = vars.iter().enumerate().map(|(e, v)| {
                let (lo, hi) = match e.cmp(&d) {
                    std::cmp::Ordering::Less => (build::index(0), &self.live[e]),
                    std::cmp::Ordering::Equal => (self.live[e].clone(), &self.full[e]),
                    std::cmp::Ordering::Greater => (build::index(0), &self.full[e]),
                };
                (v.clone(), lo, hi.clone())
            });
            out.push(nest(loops.collect(), store, &self.plan.places()));
        }
        out
    }

    /// Constant loops, which can be unrolled, with guards for elements that do not exist.
    pub(super) fn enter_constant(&self, work: &mut Work, padded: bool) -> Stmt {
        let vars = self.binders(work, self.label);
        let load = build::load(self.there(&vars));
        let mut conds: Vec<Option<Expr>> = Vec::new();
        for (d, v) in vars.iter().enumerate() {
            conds.push(self.guard(d, v, &self.first(d), &self.live[d]));
        }
        let all = conds.iter().flatten().cloned().reduce(build::and);
        if padded {
            let value = match all {
                Some(c) => build::select(c, load, make::zero(&self.local.elem)),
                None => load,
            };
            let store = self.store(self.label, &vars, self.here(&vars), value);
            return self.constant_nest(&vars, vec![None; vars.len()], store);
        }
        let store = self.store(self.label, &vars, self.here(&vars), load);
        self.constant_nest(&vars, conds, store)
    }

    /// `lo <= v < hi`, as far as it is not always true in the buffer.
    pub(super) fn guard(&self, d: usize, v: &Binder, lo: &Expr, hi: &Expr) -> Option<Expr> {
        let low = (lo.as_int() != Some(0)).then(|| build::le(lo.clone(), build::var(v)));
        let room = self.local.extents[d].as_int();
        let ends = bounds::mins(&bounds::normal(hi));
        let ends: Vec<Linear> =
            ends.into_iter().filter(|e| e.as_constant().is_none_or(|c| Some(c) < room)).collect();
        let high = bounds::min_expr(&ends).map(|hi| build::lt(build::var(v), hi));
        low.into_iter().chain(high).reduce(build::and)
    }

    pub(super) fn constant_nest(&self, vars: &[Binder], conds: Vec<Option<Expr>>, body: Stmt) -> Stmt {
        let places = self.plan.places();
        vars.iter().zip(conds).enumerate().rev().fold(body, |body, (d, (v, cond))| {
            let body = match cond {
                Some(cond) => Stmt::new(StmtKind::If { cond, then: body, other: None }, places.clone()),
                None => body,
            };
            nest(vec![(v.clone(), build::index(0), self.local.extents[d].clone())], body, &places)
        })
    }

    /// Copies the written elements back, and only those.
    pub(super) fn leave(&self, work: &mut Work, w: &Region, o: &Options) -> Stmt {
        let label = Role::Out.of(self.label);
        let vars = self.binders(work, &label);
        let (around, sizes) = (&self.plan.around.loops, &self.plan.around.sizes);
        let mut ranges = Vec::new();
        for d in 0..vars.len() {
            let base = &self.plan.region.lo[d];
            let step = self.plan.region.step[d];
            let gap = w.lo[d].minus(base).and_then(|g| g.divided(step)).unwrap_or(Linear::constant(0));
            let lo = match gap.as_constant() {
                Some(0) if w.starts_inside(d, around, sizes) => build::index(0),
                _ if w.starts_inside(d, around, sizes) => gap.to_expr(),
                _ => build::max(gap.to_expr(), self.first(d)),
            };
            let forms: Vec<Linear> = w.size(d).iter().filter_map(|n| gap.plus(n, 1)).collect();
            let hi = bounds::min_expr(&forms).unwrap_or_else(|| self.live[d].clone());
            ranges.push((lo, hi));
        }
        let store = self.store(&label, &vars, self.there(&vars), build::load(self.here(&vars)));
        if o.space == Space::Register {
            let conds = vars.iter().enumerate().map(|(d, v)| self.guard(d, v, &ranges[d].0, &ranges[d].1));
            return self.constant_nest(&vars, conds.collect(), store);
        }
        let loops = vars.iter().zip(ranges).map(|(v, (lo, hi))| (v.clone(), lo, hi));
        nest(loops.collect(), store, &self.plan.places())
    }
}
