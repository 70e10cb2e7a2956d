//! Copies of just the elements that a statement touches, where the box that holds them has holes: by loops like those
//! around the accesses.

use super::*;
use lathe_ir::names;

/// The elements that one access touches.
pub(super) struct Touched {
    /// The loops that its subscripts depend on.
    loops: Vec<bounds::Ranged>,
    /// Bounds of other loops around it, which may not run.
    asked: Vec<(Expr, Expr)>,
    indices: Vec<Expr>,
}

impl Touched {
    /// Of each access; none where one of them may not happen, or is where data say.
    pub fn all(found: &[&Found], plan: &Plan) -> Option<Vec<Touched>> {
        let mut out: Vec<Touched> = Vec::new();
        for f in found {
            let new = Touched::of(f, plan)?;
            match out.iter_mut().find(|t| t.shape() == new.shape()) {
                Some(known) if new.asked.is_empty() => known.asked.clear(),
                Some(known) if known.asked.is_empty() || known.asked == new.asked => {}
                _ => out.push(new),
            }
        }
        Some(out)
    }

    fn of(f: &Found, plan: &Plan) -> Option<Touched> {
        let data = |e: &Expr| !visit::loads_of(e).is_empty();
        if f.guarded || f.opaque || !f.unit_steps || f.indices.iter().any(Linear::reads) {
            return None;
        }
        let indices: Vec<Expr> = f.indices.iter().map(Linear::to_expr).collect();
        let mut used: HashSet<VarId> = indices.iter().flat_map(visit::vars_of).collect();
        let (mut loops, mut asked) = (Vec::new(), Vec::new());
        for (n, l) in f.loops.iter().enumerate().rev() {
            if data(&l.lo) || data(&l.hi) {
                return None;
            }
            if used.contains(&l.var) {
                loops.insert(0, l.clone());
            } else {
                let outside = plan.around.with(&f.loops[..n]);
                let last = bounds::normal(&l.hi).minus(&bounds::normal(&l.lo)).and_then(|t| t.offset(-1));
                if last.is_some_and(|t| bounds::nonneg(&t, &outside, &plan.around.sizes)) {
                    continue;
                }
                asked.push((l.lo.clone(), l.hi.clone()));
            }
            used.extend(visit::vars_of(&l.lo).union(&visit::vars_of(&l.hi)));
        }
        Some(Touched { loops, asked, indices })
    }

    /// What does not depend on the names of the loops.
    fn shape(&self) -> Vec<Expr> {
        let names: HashMap<VarId, Expr> = (0u32..)
            .zip(&self.loops)
            .map(|(n, l)| (l.var, build::var_id(VarId(u32::MAX - n), Scalar::Index)))
            .collect();
        let bounds = self.loops.iter().flat_map(|l| [&l.lo, &l.hi]);
        bounds.chain(&self.indices).map(|e| visit::substitute(e, &names)).collect()
    }
}

impl Copies<'_> {
    /// Nests that copy what was touched, in or out, each with a label of its own.
    pub(super) fn touched(
        &self,
        work: &mut Work,
        all: &[Touched],
        label: &str,
        out: bool,
    ) -> (Vec<Stmt>, Vec<String>) {
        let (mut nests, mut labels) = (Vec::new(), Vec::new());
        for (n, t) in all.iter().enumerate() {
            let label = names::again(label, n);
            let vars: Vec<Binder> =
                (0..t.loops.len()).map(|d| work.fresh(names::dimension(&label, d))).collect();
            let names: HashMap<VarId, Expr> =
                t.loops.iter().zip(&vars).map(|(l, v)| (l.var, build::var(v))).collect();
            let named = |e: &Expr| visit::substitute(e, &names);
            let element: Vec<Expr> = t.indices.iter().map(named).collect();
            let region = &self.plan.region;
            let position = element.iter().enumerate().map(|(d, e)| region.position(d, e)).collect();
            let here = proved(self.local.id, &self.local.elem, position);
            let there = proved(self.plan.buffer.id, &self.local.elem, element);
            let (target, value) = if out { (there, build::load(here)) } else { (here, build::load(there)) };
            let mut instance = self.plan.around.instance();
            instance.extend(vars.iter().map(build::var));
            let store = Store::new(Label::new(&label), instance, target, value);
            let places = self.plan.places();
            let store = Stmt::new(StmtKind::Store(store), places.clone());
            let runs = t.asked.iter().map(|(lo, hi)| build::lt(named(lo), named(hi))).reduce(build::and);
            let body = match runs {
                Some(cond) => Stmt::new(StmtKind::If { cond, then: store, other: None }, places.clone()),
                None => store,
            };
            let loops = t.loops.iter().zip(vars).map(|(l, v)| (v, named(&l.lo), named(&l.hi)));
            nests.push(nest(loops.collect(), body, &places));
            labels.push(label);
        }
        (nests, labels)
    }
}
