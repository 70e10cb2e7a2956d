//! The ranges of the indices of a statement.

use super::*;

impl Cx<'_> {
    /// Applies `where` to the indices known so far; returns what is for reductions on the right.
    pub(super) fn where_ranges(&mut self, a: &Assignment) -> Option<Vec<(Ident, Expr, Expr)>> {
        let mut late = Vec::new();
        for r in a.ranges {
            let Some((lo, hi)) = &r.bounds else { continue };
            let (lo, hi) = (self.index_expr(lo), self.index_expr(hi));
            let (lo, hi) = (lo?, hi?);
            match self.active(&r.index.text) {
                Some(i) if self.st.indices[i].bounds.is_some() => {
                    let message = format!("two ranges for `{}`", r.index.text);
                    self.error(codes::DUPLICATE, message, r.index.span, "again");
                    return None;
                }
                Some(i) => {
                    if visit::vars_of(&lo)
                        .union(&visit::vars_of(&hi))
                        .any(|v| *v == self.st.indices[i].binder.id)
                    {
                        let message = format!("the range of `{}` mentions itself", r.index.text);
                        self.error(codes::RANGE, message, r.index.span, "in a circle");
                        return None;
                    }
                    self.st.indices[i].bounds = Some((lo, hi));
                }
                None if self.lookup(&r.index.text).is_some() => {
                    let message = format!("`{}` is not an index of this statement", r.index.text);
                    self.error(codes::REUSED, message, r.index.span, "already has a meaning here");
                    return None;
                }
                None => late.push((r.index.clone(), lo, hi)),
            }
        }
        Some(late)
    }

    pub(super) fn late_ranges(&mut self, late: Vec<(Ident, Expr, Expr)>) -> Option<()> {
        for (name, lo, hi) in late {
            let mut used = false;
            for i in self.st.indices.iter_mut().filter(|i| *i.binder.name == *name.text) {
                used = true;
                i.bounds.get_or_insert((lo.clone(), hi.clone()));
            }
            if !used {
                let message = format!("`{}` is not an index of this statement", name.text);
                self.error(codes::RIGHT_ONLY, message, name.span, "neither on the left nor reduced");
                self.help(format!("say how it is reduced: `sum[{}](…)`", name.text));
                return None;
            }
        }
        Some(())
    }

    /// Indices that are a whole subscript on the left cover the extent there.
    pub(super) fn left_ranges(&mut self, target: &Access, name: &str, subs: &[Subscript]) -> Ranges {
        let Some(Entity::Array { buffer, .. }) = self.lookup(name) else { return Ranges::new() };
        let extents = buffer.extents.clone();
        let mut known = Ranges::new();
        let vars = self.index_vars();
        for ((i, extent), s) in target.indices.iter().zip(&extents).zip(subs) {
            let span = match s {
                Subscript::Expr(e) => e.span,
                Subscript::Range(r) => r.index.span,
            };
            match i.as_var().filter(|v| vars.contains(v)) {
                Some(v) => {
                    let hi = match known.get(&v) {
                        Some(Interval { hi, .. }) => range::smaller(hi, extent, &|e| self.natural(e)),
                        None => extent.clone(),
                    };
                    known.insert(v, Interval { lo: build::index(0), hi });
                }
                None => {
                    let b = Bound { subscript: i.clone(), extent: extent.clone(), guarded: false, span };
                    self.st.bounds.push(b);
                }
            }
        }
        known
    }

    pub fn natural(&self, e: &Expr) -> bool {
        e.as_var().is_some_and(|v| self.sizes.contains(&v))
    }

    /// The ranges of all indices of the statement.
    pub(super) fn ranges(&mut self, mut known: Ranges) -> Option<Ranges> {
        let mut left: HashSet<VarId> = known.keys().copied().collect();
        for i in &self.st.indices {
            if let Some((lo, hi)) = &i.bounds {
                left.remove(&i.binder.id);
                known.insert(i.binder.id, Interval { lo: lo.clone(), hi: hi.clone() });
            }
        }
        let all: Vec<VarId> = self.st.indices.iter().map(|i| i.binder.id).collect();
        let sizes = self.sizes.clone();
        let natural = |e: &Expr| e.as_var().is_some_and(|v| sizes.contains(&v));
        let crossed = range::infer(&all, &left, &self.st.bounds, &mut known, &natural);
        let mut ok = true;
        for i in self.st.indices.clone() {
            if i.bounds.as_ref().is_some_and(|(lo, hi)| has_placeholder(lo) || has_placeholder(hi)) {
                let message = "reductions in the range of an index are not available yet";
                self.error(codes::NOT_YET, message, i.span, "its range is reduced");
                self.help("name the bound with `let` first");
                return None;
            }
            if known.contains_key(&i.binder.id) {
                continue;
            }
            ok = false;
            let name = &i.binder.name;
            let v = i.binder.id;
            let uses = self.st.bounds.iter().filter(|b| visit::vars_of(&b.subscript).contains(&v)).count();
            let why = if uses == 0 { "no subscript uses it" } else { "no subscript determines it alone" };
            self.error(codes::RANGE, format!("the range of the index `{name}` is not known"), i.span, why);
            self.help(format!("say it: `where {name} in 0..N` (or `sum[{name} in 0..N](…)`)"));
        }
        for c in crossed {
            let Some(i) = self.st.indices.iter().find(|i| i.binder.id == c.index) else { continue };
            let name = i.binder.name.clone();
            let mut d = Diagnostic::warning(
                codes::SMALLER,
                format!("`{name}` runs over the smaller of two extents that may differ"),
            )
            .at(i.span, "its range is the intersection");
            for p in c.places {
                d = d.at(p, "used here");
            }
            self.errors
                .push(d.help(format!("make the extents one size, or say the range: `where {name} in 0..N`")));
        }
        if ok { Some(known) } else { None }
    }
}
