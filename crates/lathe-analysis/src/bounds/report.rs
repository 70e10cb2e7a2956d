//! Messages about accesses that are not proved in bounds.

use super::*;

impl Prover {
    pub(super) fn out_of_bounds(
        &mut self,
        facts: &Facts,
        a: &Access,
        (subscript, extent): (&Expr, &Expr),
        point: &[i64],
        found: &crate::view::Found,
    ) {
        let value = |v: VarId| facts.value_of(v, point);
        let sizes: Vec<(Name, i64)> =
            self.func.sizes.iter().filter_map(|b| Some((b.name.clone(), value(b.id)?))).collect();
        let at: Vec<(Name, i64)> =
            self.loops.iter().filter_map(|b| Some((b.name.clone(), value(b.id)?))).collect();
        let mut note = String::new();
        if !sizes.is_empty() {
            note += &format!("with {}", sizes_text(&sizes));
        }
        if !at.is_empty() {
            note += &format!("{}at {}", if note.is_empty() { "" } else { ", " }, sizes_text(&at));
        }
        if !note.is_empty() {
            note += ", ";
        }
        note += &format!(
            "the subscript `{}` is {}, but `{}` is {}",
            self.expr_text(subscript),
            found.subscript.at(point).unwrap_or(0),
            self.expr_text(extent),
            found.extent.at(point).unwrap_or(0),
        );
        let d = Diagnostic::error(OUT_OF_BOUNDS, format!("`{}` can be out of bounds", self.text(a)))
            .at_places(&a.places, "accessed here")
            .note(note)
            .help("narrow the range, guard the access with `select` or `if`, or state a fact with `assume`");
        if !self.diagnostics.contains(&d) {
            self.diagnostics.push(d);
        }
    }

    /// Checks that have no place to stand: the loads are refused instead.
    pub(super) fn uncheckable(&mut self, checks: &[Needed], places: &Places) {
        for c in checks {
            self.diagnostics.push(
                Diagnostic::error(
                    UNDECIDED,
                    format!("`{}` may be outside of the array, and cannot be checked here", c.message()),
                )
                .at_places(places, "evaluated here")
                .help("guard it with `select`, or load the value in a statement before"),
            );
        }
    }

    /// When the loads of an expression are evaluated is not followed: there are too many ways to get to them.
    pub(super) fn too_many_ways(&mut self, e: &Expr) {
        let text = format!("in `{}`, too many conditions decide which elements are read", self.expr_text(e));
        let help = "compute parts of it in a loop of their own, and store them in an array";
        self.diagnostics.push(Diagnostic::error(UNDECIDED, text).help(help));
    }

    pub(super) fn expr_text(&self, e: &Expr) -> String {
        let name = |v: VarId| self.names.get(&v).cloned().unwrap_or_else(|| format!("v{}", v.0).into());
        expr_text(e, &name, &|b| self.buffers.get(&b).map(|b| b.name.clone()))
    }

    pub(super) fn text(&self, a: &Access) -> String {
        let subscripts: Vec<String> = a.indices.iter().map(|e| self.expr_text(e)).collect();
        let name = a.view.buffer().and_then(|b| self.buffers.get(&b)).map_or("…", |b| &b.name);
        format!("{name}[{}]", subscripts.join(", "))
    }
}
