//! Which iterations and which elements the copies are for.

use super::*;

impl Job<'_> {
    /// The lowest value of the loop's variable, and a bound on how many there are, outside of the target.
    pub(super) fn iterations(
        &self,
        target: &Path,
        around: &Around,
        bound: &HashSet<VarId>,
        r: &Reduction,
    ) -> Result<(Linear, Expr, Expr), Refusal> {
        let l = names::loop_at(self.cursor, self.rule, &self.inner)?;
        let here = Around::of(self.cursor.func, &self.inner);
        let mut scope = here.loops.get(around.loops.len()..).unwrap_or(&[]).to_vec();
        let subst = |e: &Expr| visit::substitute(e, &here.lets);
        scope.push(bounds::Ranged::new(l.binder.id, subst(&l.lo), subst(&l.hi)));
        let v = bounds::normal(&build::var(&l.binder));
        let keep = |forms: Vec<Linear>| -> Vec<Linear> {
            forms.into_iter().filter(|f| !f.mentions(bound) && !f.reads()).collect()
        };
        let lows = keep(bounds::lowers(&v, &scope));
        let highs: Vec<Linear> =
            keep(bounds::uppers(&v, &scope)).iter().filter_map(|h| h.offset(1)).collect();
        let highs = bounds::prune(highs, &around.loops, &around.sizes);
        let Some(lo) = lows.into_iter().next().filter(|_| !highs.is_empty()) else {
            return Err(self.refuse(
                format!(
                    "the iterations of `{}` are not bounded outside of the loops that hold it",
                    l.binder.name
                ),
                "split the loop, so that the inner one has a constant length",
                &r.places,
            ));
        };
        let forms: Vec<Linear> = highs.iter().filter_map(|h| h.minus(&lo)).collect();
        let constant = forms.iter().filter_map(|f| bounds::constant_upper(f, &around.loops)).min();
        let exact = build::max(build::index(0), bounds::min_expr(&forms).unwrap_or_else(|| build::index(0)));
        // Where loops stand between, a short last tile must not leave partial results undefined: then a
        // constant count initializes and combines all of them.
        let (count, room) = match constant {
            Some(c) if *target != self.inner => (build::index(c.max(0)), build::index(c.max(0))),
            Some(c) => (exact, build::index(c.max(0))),
            None => (exact.clone(), exact),
        };
        Ok((lo, count, room))
    }

    /// The boxes of elements that are combined into, and the arrays of which some may not have a value before.
    pub(super) fn box_of(
        &self,
        r: &Reduction,
        parts: &[Arc<Buffer>],
        target: &Path,
        around: &Around,
        bound: &HashSet<VarId>,
    ) -> Result<(Vec<Region>, Vec<Arc<Buffer>>), Refusal> {
        let (mut out, mut unsure) = (Vec::new(), Vec::new());
        for b in parts {
            let mine: Vec<&Found> = r.found.iter().filter(|f| f.buffer() == Some(b.id)).collect();
            let extents: Vec<Expr> = b.extents.iter().map(|e| visit::substitute(e, &around.lets)).collect();
            let of =
                |set: &[&Found]| Region::strided(set, 0, &around.loops, bound, &extents, &around.sizes, None);
            let region = of(&mine);
            // Where nothing is combined, elements without identity are not touched either.
            let fills = if self.first.is_some() { region::fills_if_run } else { region::fills };
            let exact =
                mine.iter().any(|f| fills(f, 0) && of(&[f]).contains(&region, &around.loops, &around.sizes));
            let param = self.cursor.func.params.iter().find(|p| p.array().is_some_and(|a| a.id == b.id));
            let given = param.is_some_and(|p| p.mode == Mode::InOut);
            if make::may_alias(self.cursor.func, b.id) {
                return Err(self.refuse(format!("`{}` may alias another array", b.name), "", &r.places));
            }
            if !exact && self.first.is_some() {
                return Err(self.refuse(
                    format!(
                        "`{}` has no identity, and not every element of the box of `{}` gets a first one",
                        r.op, b.name
                    ),
                    "declare one: `identity(e)`",
                    &r.places,
                ));
            }
            if !exact && !given && !region::defined_before(self.cursor.func, target, b, &region) {
                unsure.push(b.clone());
            }
            if !exact && around.parallel.is_some() {
                return Err(self.refuse(
                    format!(
                        "threads run a loop around, and would combine into elements of `{}` of each other",
                        b.name
                    ),
                    "privatize before `parallel`",
                    &r.places,
                ));
            }
            if (0..region.rank()).any(|d| !region.starts_inside(d, &around.loops, &around.sizes)) {
                return Err(self.refuse(
                    format!("the box of elements of `{}` may begin before the array", b.name),
                    "",
                    &r.places,
                ));
            }
            out.push(region);
        }
        Ok((out, unsure))
    }

    /// Whether all elements that the statement `label` of the new function combines into have a value.
    pub(super) fn computed(
        &self,
        func: &Function,
        b: &Buffer,
        label: &str,
        r: &Reduction,
    ) -> Result<(), Refusal> {
        let env = Env::root(self.cursor.module, func);
        if lathe_analysis::written_before_read(&env, &func.body, b, Some(label)) {
            return Ok(());
        }
        Err(self.refuse(
            format!("elements of `{}` that may not have been computed would be combined into", b.name),
            "initialize the whole array before the loop",
            &r.places,
        ))
    }
}
