//! Expressions: what they read, and what they compute.

use super::*;
use lathe_poly::fits;

impl Prover {
    /// Proves the loads of an expression and that its `index` arithmetic has a value; `under` is the condition under
    /// which it is evaluated.
    pub(super) fn evaluated(
        &mut self,
        facts: &Facts,
        e: &Expr,
        under: &Expr,
        memo: &mut Memo,
        out: &mut Vec<Needed>,
    ) -> Expr {
        let new = self.expr(facts, e, under, memo, out);
        self.arithmetic(&new, under, out);
        new
    }

    /// Asks for what the `index` arithmetic of an expression needs to have a value: of the largest parts that may fail.
    /// Divisions of the types that wrap are asked about where an `index` is computed from them, which may disappear;
    /// elsewhere they are evaluated as they are written, and fail there.
    pub(super) fn arithmetic(&mut self, e: &Expr, under: &Expr, out: &mut Vec<Needed>) {
        self.arithmetic_of(e, e.ty().is_index(), under, &mut visit::Memo::default(), out);
    }

    /// `asked` has the nodes that were looked at where this is evaluated only after them, and whether an `index` was
    /// computed from them.
    fn arithmetic_of(
        &mut self,
        e: &Expr,
        index: bool,
        under: &Expr,
        asked: &mut visit::Memo<bool>,
        out: &mut Vec<Needed>,
    ) {
        let index = index || e.ty().is_index();
        asked.visit();
        if asked.get(e).is_some_and(|of_index| *of_index || !index) || self.ranges.fits(e) {
            return;
        }
        asked.insert(e, index);
        // Of an expression with many conditions, what it needs is found as a whole.
        let whole = asked.is_long() && matches!(e.kind(), ExprKind::Select(..));
        if index && (whole || fits::may_fail(e, &self.ranges)) {
            let needed = Needed::fit(under, e, &self.expr_text(e));
            return self.need(needed, out);
        }
        match e.kind() {
            ExprKind::Select(c, a, b) => {
                self.arithmetic_of(c, index, under, asked, out);
                for (arm, holds) in [(a, true), (b, false)] {
                    let mark = self.ranges.mark();
                    if self.ranges.learn_for(c, holds, asked) {
                        let under = self.under(under, c, holds);
                        asked.under(|asked| self.arithmetic_of(arm, index, &under, asked, out));
                    }
                    self.ranges.leave(mark);
                }
            }
            // Subscripts were looked at with the accesses.
            ExprKind::Load(_) | ExprKind::Address(_) => {}
            _ => e.children().into_iter().for_each(|c| self.arithmetic_of(c, index, under, asked, out)),
        }
    }

    fn under(&self, under: &Expr, cond: &Expr, holds: bool) -> Expr {
        let cond = if holds { cond.clone() } else { not(cond.clone()) };
        if under.as_bool() == Some(true) { cond } else { select(under.clone(), cond, boolean(false)) }
    }

    /// Notes that a check is needed, and uses what it says.
    fn need(&mut self, needed: Needed, out: &mut Vec<Needed>) {
        self.ranges.assume_near(&needed.asked(&self.everywhere));
        if !out.iter().any(|n| n.same(&needed)) {
            out.push(needed);
        }
    }

    /// Proves the loads of an expression.
    fn expr(
        &mut self,
        facts: &Facts,
        e: &Expr,
        under: &Expr,
        memo: &mut Memo,
        out: &mut Vec<Needed>,
    ) -> Expr {
        if let ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Float(_) | ExprKind::Bool(_) = e.kind() {
            return e.clone();
        }
        memo.visit();
        if let Some(done) = memo.get(e) {
            return done.clone();
        }
        let new = match e.kind() {
            ExprKind::Load(a) => {
                let proved = self.access(facts, a, under, memo, out);
                if proved == *a { e.clone() } else { load(proved) }
            }
            ExprKind::Address(a) => lathe_ir::build::address(self.access(facts, a, under, memo, out)),
            ExprKind::Select(c, a, b) => {
                let cond = self.expr(facts, c, under, memo, out);
                if memo.is_long() {
                    let before = out.len();
                    let (x, y) =
                        (self.expr(facts, a, under, memo, out), self.expr(facts, b, under, memo, out));
                    let new = select(cond, x, y);
                    if out.len() > before {
                        self.too_many_ways(e);
                    }
                    memo.insert(e, new.clone());
                    return new;
                }
                let mut arm = |e: &Expr, holds: bool| {
                    let mut inner = facts.clone();
                    inner.guard(&cond, holds);
                    let mark = self.ranges.mark();
                    self.ranges.learn_for(&cond, holds, memo);
                    let under = self.under(under, &cond, holds);
                    let new = memo.under(|memo| self.expr(&inner, e, &under, memo, out));
                    self.ranges.leave(mark);
                    new
                };
                let (x, y) = (arm(a, true), arm(b, false));
                select(cond, x, y)
            }
            _ => {
                let old = e.children();
                let new: Vec<Expr> = old.iter().map(|c| self.expr(facts, c, under, memo, out)).collect();
                if old.iter().zip(&new).all(|(a, b)| a.address() == b.address()) {
                    e.clone()
                } else {
                    e.with_children(new)
                }
            }
        };
        memo.insert(e, new.clone());
        new
    }

    pub(super) fn access(
        &mut self,
        facts: &Facts,
        a: &Access,
        under: &Expr,
        memo: &mut Memo,
        out: &mut Vec<Needed>,
    ) -> Access {
        let mut inner = Vec::new();
        a.for_each_expr(&mut |e| inner.push(e));
        let inner = inner.into_iter().map(|e| self.expr(facts, e, under, memo, out)).collect();
        let a = a.with_exprs(inner);
        if matches!(a.status, Status::Assumed(_)) || self.typed && a.status == Status::Proved {
            a.for_each_expr(&mut |e| self.arithmetic(e, under, out));
            return a;
        }
        let Some(dims) = self.dimensions(&a) else {
            self.diagnostics.push(
                Diagnostic::error(UNDECIDED, format!("`{}` cannot be shown to be in bounds", self.text(&a)))
                    .at_places(&a.places, "accessed here")
                    .help("only arrays and slices of arrays are analyzed"),
            );
            return a;
        };
        let mut status = Status::Proved;
        for (subscript, extent) in dims {
            status = weaker(status, self.subscript(facts, &a, (&subscript, &extent), under, out));
        }
        Access { status, ..a }
    }

    /// Subscripts of the underlying buffer with the extents they must stay below.
    fn dimensions(&self, a: &Access) -> Option<Vec<(Expr, Expr)>> {
        let extents = match &a.view {
            View::Reshape { base, extents } => {
                // Each subscript within the extents; the product fits by the view's own obligation.
                let View::Buffer(_) = **base else { return None };
                return Some(a.indices.iter().cloned().zip(extents.iter().cloned()).collect());
            }
            View::Global(name) => {
                let extent = |n: &u64| i64::try_from(*n).ok().map(lathe_ir::build::index);
                self.module.globals.get(name)?.extents.iter().map(extent).collect::<Option<Vec<_>>>()?
            }
            view => self.buffers.get(&view.buffer()?)?.extents.clone(),
        };
        if let View::Global(_) = a.view {
            return Some(a.indices.iter().cloned().zip(extents).collect());
        }
        let indices = buffer_indices(&a.view, &a.indices)?;
        Some(indices.into_iter().zip(extents).collect())
    }

    fn subscript(
        &mut self,
        facts: &Facts,
        a: &Access,
        (subscript, extent): (&Expr, &Expr),
        under: &Expr,
        out: &mut Vec<Needed>,
    ) -> Status {
        let found = facts.outside(subscript, extent);
        let Some(counter) = &found.counterexample else {
            // The value lies inside; what it is computed from may overflow 64 bits on the way.
            self.arithmetic(subscript, under, out);
            return match found.tier {
                0 => Status::Proved,
                1 => Status::Checked,
                _ => {
                    let mut who: Vec<&str> = self.provenance.iter().map(|p| &**p).collect();
                    who.dedup();
                    Status::Assumed(who.join(", ").into())
                }
            };
        };
        if let Answer::Point(point) = counter
            // What an input decides is looked at when it is known.
            && found.exact
            && !self.is_data(subscript)
            && !self.is_data(extent)
        {
            self.out_of_bounds(facts, a, (subscript, extent), point, &found);
            return Status::Unproved;
        }
        let text = self.text(a);
        if !self.ranges.fits(subscript) {
            if let Some(orders) = checks::solved(subscript, extent, &self.ranges) {
                let needed = Needed::orders(under, orders, &text);
                let mark = self.ranges.mark();
                self.ranges.assume_near(&needed.asked(&self.everywhere));
                if self.ranges.fits(subscript) {
                    self.need(needed, out);
                    return Status::Checked;
                }
                self.ranges.leave(mark);
            }
            self.arithmetic(subscript, under, out);
        }
        self.need(Needed::inside(under, subscript, extent, &text), out);
        Status::Checked
    }
}

/// The status of an access from those of its subscripts.
fn weaker(a: Status, b: Status) -> Status {
    let rank = |s: &Status| match s {
        Status::Proved => 0,
        Status::Checked => 1,
        Status::Assumed(_) => 2,
        Status::Unproved => 3,
    };
    if rank(&a) >= rank(&b) { a } else { b }
}
