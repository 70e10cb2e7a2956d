//! What is known about the values of `index` variables in a scope, and inequalities that follow.
//!
//! A variable of a loop lies between the loop's bounds. An inequality `form ≥ 0` is proved by replacing
//! variables from the innermost loop outward by the bound that makes the form smallest, and `min`, `max`,
//! `//` and `%` by what bounds them, until a constant or multiples of sizes are left. That is exact
//! enough for the bounds that transformations make, and costs a bounded number of steps per question.

use crate::form::Linear;
use lathe_ir::stmt::{Enters, Establishes};
use lathe_ir::{BinOp, Expr, ExprKind, Function, Stmt, VarId, build};
use std::collections::HashMap;

/// How much one question may cost: replacements along all branches of the proof.
const BUDGET: u32 = 96;

/// Variables in scope with their ranges, outermost first, and facts.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Position of a variable in `scope`.
    depth: HashMap<VarId, usize>,
    /// `lo..hi`; a size has no `hi`.
    scope: Vec<(VarId, Expr, Option<Expr>)>,
    /// Forms that are ≥ 0 here (from conditions around and checks before).
    facts: Vec<Linear>,
    /// Expressions and what is known to divide them.
    multiples: Vec<(Expr, i64)>,
}

/// What was known at a moment; see [`Ranges::leave`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    scope: usize,
    facts: usize,
    multiples: usize,
}

impl Ranges {
    /// The sizes of a function: ≥ 0.
    pub fn of_function(func: &Function) -> Ranges {
        let mut r = Ranges::default();
        for s in &func.sizes {
            r.enter(s.id, build::index(0), None);
        }
        r
    }

    /// What is known at the place of a function's body that a path leads to.
    pub fn at(func: &Function, path: &[usize]) -> Ranges {
        let mut r = Ranges::of_function(func);
        let mut here = &func.body;
        for i in path {
            r.enter_child(here, *i);
            match here.child(*i) {
                Some(c) => here = c,
                None => break,
            }
        }
        r
    }

    /// Adds what holds inside the `child`-th child of a statement. Gives a mark for [`Ranges::leave`].
    pub fn enter_child(&mut self, s: &Stmt, child: usize) -> Mark {
        let mark = Mark { scope: self.scope.len(), facts: self.facts.len(), multiples: self.multiples.len() };
        // Checks at the front hold for all that follows; they themselves, and what repeats them, stay.
        if let Some(all) = s.as_seq()
            && all.get(child).is_some_and(|c| c.establishes().is_none())
        {
            for front in all.iter().take(child).map_while(Stmt::establishes) {
                if let Establishes::Checked(cond) = front {
                    self.assume(cond);
                }
            }
        }
        match s.enters(child) {
            Enters::Loop(l) => self.enter(l.binder.id, l.lo.clone(), Some(l.hi.clone())),
            Enters::Let(binder, value) if value.ty().is_index() => {
                let after = build::add(value.clone(), build::index(1));
                self.enter(binder.id, value.clone(), Some(after));
            }
            Enters::Condition(cond, true) => self.assume(cond),
            Enters::Nothing
            | Enters::Let(..)
            | Enters::Condition(_, false)
            | Enters::While(_)
            | Enters::Alloc(_)
            | Enters::Value(_) => {}
        }
        mark
    }

    /// Forgets everything since a mark.
    pub fn leave(&mut self, mark: Mark) {
        for (id, ..) in self.scope.drain(mark.scope..) {
            self.depth.remove(&id);
        }
        self.facts.truncate(mark.facts);
        self.multiples.truncate(mark.multiples);
    }

    /// A variable with `lo ≤ v < hi`.
    pub fn enter(&mut self, id: VarId, lo: Expr, hi: Option<Expr>) {
        self.depth.insert(id, self.scope.len());
        self.scope.push((id, lo, hi));
    }

    /// Uses a condition that holds here.
    pub fn assume(&mut self, cond: &Expr) {
        let ExprKind::Binary(op, a, b) = cond.kind() else { return };
        if *op == BinOp::And {
            self.assume(a);
            self.assume(b);
            return;
        }
        if !a.ty().is_index() {
            return;
        }
        if let (BinOp::Eq, ExprKind::Binary(BinOp::FloorMod, of, by), Some(0)) = (op, a.kind(), b.as_int())
            && let Some(c) = by.as_int().filter(|c| *c > 0)
        {
            self.multiples.push((of.clone(), c));
        }
        let (la, lb) = (Linear::of(a), Linear::of(b));
        let fact = match op {
            BinOp::Le => lb.minus(&la),
            BinOp::Lt => lb.minus(&la).and_then(|f| f.offset(-1)),
            BinOp::Ge => la.minus(&lb),
            BinOp::Gt => la.minus(&lb).and_then(|f| f.offset(-1)),
            BinOp::Eq => {
                self.facts.extend(la.minus(&lb));
                lb.minus(&la)
            }
            _ => None,
        };
        self.facts.extend(fact);
    }

    /// Whether `a ≤ b` is known.
    pub fn le(&self, a: &Expr, b: &Expr) -> bool {
        Linear::of(b).minus(&Linear::of(a)).is_some_and(|f| self.nonneg(&f))
    }

    /// Whether `a < b` is known.
    pub fn lt(&self, a: &Expr, b: &Expr) -> bool {
        self.le(&build::add(a.clone(), build::index(1)), b)
    }

    /// Whether a form is known to be ≥ 0.
    pub fn nonneg(&self, form: &Linear) -> bool {
        let mut budget = BUDGET;
        self.prove(form.clone(), &mut budget)
            || self.facts.iter().any(|fact| {
                let mut budget = BUDGET / 4;
                form.minus(fact).is_some_and(|f| self.prove(f, &mut budget))
            })
    }

    /// Whether `c` (positive) is known to divide an expression.
    pub fn divides(&self, c: i64, e: &Expr) -> bool {
        let multiple = |e: &Expr| match e.kind() {
            ExprKind::Binary(BinOp::Mul, a, b) => self.divides_atom(c, a) || self.divides_atom(c, b),
            _ => self.divides_atom(c, e),
        };
        let f = Linear::of(e);
        f.constant % c == 0 && f.terms.iter().all(|(a, k)| k % c == 0 || multiple(a))
    }

    fn divides_atom(&self, c: i64, e: &Expr) -> bool {
        if self.multiples.iter().any(|(of, d)| d % c == 0 && of == e) {
            return true;
        }
        match e.as_var().and_then(|v| self.depth.get(&v)).map(|d| &self.scope[*d]) {
            // A `let` of a multiple.
            Some((_, lo, Some(hi))) if *hi == build::add(lo.clone(), build::index(1)) => self.divides(c, lo),
            _ => e.as_int().is_some_and(|v| v.rem_euclid(c) == 0),
        }
    }

    /// How deep in the scope an atom reaches: compound atoms half a step deeper than their variables.
    fn depth_of(&self, e: &Expr) -> usize {
        let known = |v: VarId| self.depth.get(&v).map_or(0, |d| 2 * (d + 1));
        match e.as_var() {
            Some(v) => known(v),
            None => lathe_ir::visit::vars_of(e).into_iter().map(known).max().unwrap_or(0) + 1,
        }
    }

    /// Proves `form ≥ 0`.
    fn prove(&self, form: Linear, budget: &mut u32) -> bool {
        if let Some(c) = form.as_constant() {
            return c >= 0;
        }
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        let Some(at) = (0..form.terms.len()).max_by_key(|t| self.depth_of(&form.terms[*t].0)) else {
            return false;
        };
        let mut rest = form;
        let (atom, k) = rest.terms.remove(at);
        // `rest + k · e ≥ 0` for an expression `e` that bounds the atom from the side that counts.
        let with = |rest: &Linear, e: &Expr, plus: i64, budget: &mut u32| {
            Linear::of(e).offset(plus).and_then(|l| rest.plus(&l, k)).is_some_and(|f| self.prove(f, budget))
        };
        match atom.kind() {
            ExprKind::Var(v) => match self.depth.get(v).map(|d| &self.scope[*d]) {
                Some((_, lo, _)) if k > 0 => with(&rest, lo, 0, budget),
                Some((_, lo, Some(hi))) => with(&rest, end(lo, hi), -1, budget),
                _ => false,
            },
            ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                // The atom is one of both; it is bounded by each of them from one side.
                if (*op == BinOp::Min) == (k < 0) {
                    with(&rest, a, 0, budget) || with(&rest, b, 0, budget)
                } else {
                    with(&rest, a, 0, budget) && with(&rest, b, 0, budget)
                }
            }
            ExprKind::Binary(BinOp::FloorDiv, a, b) => {
                let Some(c) = b.as_int().filter(|c| *c > 0) else { return false };
                let left = rest.clone();
                // a - (c-1) ≤ c·q ≤ a. Scale so that the factor is a multiple of c; integers below 0
                // are at most -1, hence the slack.
                let (scaled, factor) = if k % c == 0 {
                    (Some(rest), k / c)
                } else {
                    (rest.scaled(c).and_then(|r| r.offset(c - 1)), k)
                };
                let bound = Linear::of(a).offset(if k > 0 { 1 - c } else { 0 });
                let by_dividend = match (scaled, bound) {
                    (Some(s), Some(b)) => s.plus(&b, factor).is_some_and(|f| self.prove(f, budget)),
                    _ => false,
                };
                // Nothing negative becomes negative by a division.
                by_dividend || k > 0 && self.prove(Linear::of(a), budget) && self.prove(left, budget)
            }
            ExprKind::Binary(BinOp::FloorMod, _, b) => {
                let Some(c) = b.as_int().filter(|c| *c > 0) else { return false };
                with(&rest, &build::index(if k > 0 { 0 } else { c - 1 }), 0, budget)
            }
            ExprKind::Select(_, a, b) => with(&rest, a, 0, budget) && with(&rest, b, 0, budget),
            // A product of values that cannot be negative.
            ExprKind::Binary(BinOp::Mul, a, b) if k > 0 => {
                let sign = |e: &Expr, budget: &mut u32| self.prove(Linear::of(e), budget);
                sign(a, budget) && sign(b, budget) && self.prove(rest, budget)
            }
            _ => false,
        }
    }

    /// Numeric bounds of an expression, where they are constants: `(lowest, highest)`.
    pub fn interval(&self, e: &Expr) -> Interval {
        let mut budget = BUDGET;
        self.interval_in(e, &mut budget)
    }

    fn interval_in(&self, e: &Expr, budget: &mut u32) -> Interval {
        let add = |a: Option<i64>, b: Option<i64>| a.and_then(|a| b.and_then(|b| a.checked_add(b)));
        let form = Linear::of(e);
        form.terms.iter().fold((Some(form.constant), Some(form.constant)), |(lo, hi), (atom, k)| {
            let (a, b) = self.atom_interval(atom, budget);
            let scale = |v: Option<i64>| v.and_then(|v| v.checked_mul(*k));
            if *k > 0 {
                (add(lo, scale(a)), add(hi, scale(b)))
            } else {
                (add(lo, scale(b)), add(hi, scale(a)))
            }
        })
    }

    fn atom_interval(&self, e: &Expr, budget: &mut u32) -> Interval {
        if *budget == 0 {
            return (None, None);
        }
        *budget -= 1;
        match e.kind() {
            ExprKind::Var(v) => match self.depth.get(v).map(|d| &self.scope[*d]) {
                Some((_, lo, hi)) => {
                    let lo = self.interval_in(lo, budget).0;
                    let hi = hi.as_ref().and_then(|hi| self.interval_in(hi, budget).1);
                    (lo, hi.and_then(|v| v.checked_sub(1)))
                }
                None => (None, None),
            },
            ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                let (a, b) = (self.interval_in(a, budget), self.interval_in(b, budget));
                let f: fn(i64, i64) -> i64 = if *op == BinOp::Min { i64::min } else { i64::max };
                let both = |x: Option<i64>, y: Option<i64>| x.zip(y).map(|(x, y)| f(x, y));
                let either = |x: Option<i64>, y: Option<i64>| both(x, y).or(x).or(y);
                match op {
                    BinOp::Min => (both(a.0, b.0), either(a.1, b.1)),
                    _ => (either(a.0, b.0), both(a.1, b.1)),
                }
            }
            ExprKind::Binary(BinOp::FloorDiv, a, b) => match b.as_int() {
                Some(c) if c > 0 => {
                    let (lo, hi) = self.interval_in(a, budget);
                    (lo.map(|v| v.div_euclid(c)), hi.map(|v| v.div_euclid(c)))
                }
                _ => (None, None),
            },
            ExprKind::Binary(BinOp::FloorMod, _, b) => match b.as_int() {
                Some(c) if c > 0 => (Some(0), Some(c - 1)),
                _ => (None, None),
            },
            _ => (None, None),
        }
    }
}

/// Where a loop runs at all, `lo..max(lo, e)` ends at `e`.
fn end<'a>(lo: &Expr, hi: &'a Expr) -> &'a Expr {
    match hi.kind() {
        ExprKind::Binary(BinOp::Max, a, b) if a == lo => b,
        ExprKind::Binary(BinOp::Max, a, b) if b == lo => a,
        _ => hi,
    }
}

/// Lowest and highest value, where known.
pub type Interval = (Option<i64>, Option<i64>);
