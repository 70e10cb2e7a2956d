//! What is known at a place of a function: the variables in scope with their ranges, and the conditions that hold.
//!
//! Everything said here is true of the program as machines run it. Bounds and conditions are read as mathematics, which
//! is what they mean where none of their `index` operations overflows 64 bits; every tree that was checked
//! ([`crate::fits`]) is like that. A load is one value only as long as nothing writes the array: conditions on other
//! loads hold for the statement that they are right before, and no further.

use crate::form::Linear;
use crate::interval::{FAR, Interval};
use crate::products;
use crate::ranged::Ranged;
use lathe_abi::MAX_EXTENT;
use lathe_ir::stmt::{Enters, Establishes};
use lathe_ir::visit::{Memo, distinct_operands};
use lathe_ir::{BinOp, BufId, Buffer, Expr, ExprKind, Function, Mode, Stmt, UnOp, VarId, build, visit};
use std::collections::HashMap;

/// Cases within each other of which something is learned.
const MAX_CASES: usize = 10;
/// What one condition may cost: steps for its parts, in each of its cases, and for what follows from each.
const MAX_STEPS: usize = 1 << 11;
/// The same for those that come after others that took so many together: enough for what is written by hand.
const FEW_STEPS: usize = 1 << 6;
const MANY_STEPS: usize = 1 << 14;
/// Nodes of what something is learned about that a step looks at.
const STEP: usize = 32;

/// A variable in scope.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub id: VarId,
    /// `lo..hi`, if they still have the values that they had when the variable was bound; a size has no `hi`.
    pub lo: Option<Expr>,
    pub hi: Option<Expr>,
    /// A `let`: the value is `lo`.
    pub value: bool,
    /// A loop that is around the place, so that it has an iteration.
    pub around: bool,
    pub range: Interval,
}

/// Variables in scope with their ranges, outermost first, and facts.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Position of a variable in `scope`.
    depth: HashMap<VarId, usize>,
    pub(crate) scope: Vec<Bound>,
    /// Forms that are ≥ 0 here (from conditions around and checks before).
    pub(crate) facts: Vec<Linear>,
    /// Expressions and what is known to divide them.
    pub(crate) multiples: Vec<(Expr, i64)>,
    /// Where values lie more narrowly than their types and bounds say, by atoms of linear forms.
    known: HashMap<Expr, Interval>,
    /// What `known` was before, latest last.
    undo: Vec<(Expr, Option<Interval>)>,
    /// Conditions under which other conditions hold: what checks say that were taken out of loops.
    implied: Vec<(Expr, Expr)>,
    /// Those of which it is known that they do, latest last.
    used: Vec<usize>,
    /// It is being found out which of them do.
    following: bool,
    /// In how many cases of each other it is that something is learned.
    cases: usize,
    /// How much more is learned from the condition at hand.
    steps: usize,
    /// The steps that all conditions took so far.
    taken: usize,
    /// A condition is being learned: selects in what it compares teach nothing meanwhile.
    pub(crate) learning: bool,
    /// The same as `known` for loads that may change: only in the statement at that depth.
    fresh: Vec<(usize, Expr, Interval)>,
    nesting: usize,
    /// What is known not to be 0 though its range holds 0, wherever its variables are in scope.
    nonzero: Vec<Expr>,
    /// The same as `nonzero` for loads that may change: only in the statement at that depth.
    nonzero_near: Vec<(usize, Expr)>,
    /// Arrays that nothing writes.
    steady: Vec<BufId>,
}

/// What was known at a moment; see [`Ranges::leave`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    scope: usize,
    facts: usize,
    multiples: usize,
    undo: usize,
    implied: usize,
    used: usize,
    fresh: usize,
    nonzero: usize,
    nonzero_near: usize,
    nesting: usize,
}

impl Ranges {
    /// The sizes of a function: at least 0, and at most [`MAX_EXTENT`] like every extent of an array.
    pub fn of_function(func: &Function) -> Ranges {
        let mut r = Ranges::default();
        func.sizes.iter().for_each(|s| r.enter_size(s.id));
        for p in &func.params {
            let Some(b) = p.array() else { continue };
            if p.mode == Mode::In && p.alias.is_none() {
                r.steady.push(b.id);
            }
            b.extents.iter().for_each(|e| r.extent(e));
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

    pub fn mark(&self) -> Mark {
        Mark {
            scope: self.scope.len(),
            facts: self.facts.len(),
            multiples: self.multiples.len(),
            undo: self.undo.len(),
            implied: self.implied.len(),
            used: self.used.len(),
            fresh: self.fresh.len(),
            nonzero: self.nonzero.len(),
            nonzero_near: self.nonzero_near.len(),
            nesting: self.nesting,
        }
    }

    /// Adds what holds inside the `child`-th child of a statement. Gives a mark for [`Ranges::leave`].
    pub fn enter_child(&mut self, s: &Stmt, child: usize) -> Mark {
        if let Some(all) = s.as_seq() {
            let mark = self.mark();
            self.enter_sequence(all, child);
            return mark;
        }
        let mark = self.deeper();
        match s.enters(child) {
            Enters::Loop(l) => self.enter_loop(l.binder.id, &l.lo, &l.hi),
            Enters::Let(binder, value) => self.enter_let(binder.id, value),
            Enters::Condition(cond, holds) => {
                self.learn(cond, holds);
            }
            Enters::Alloc(buffer) => self.enter_alloc(buffer),
            Enters::Nothing | Enters::While(_) | Enters::Value(_) => {}
        }
        mark
    }

    /// The facts that checks before a statement of a sequence establish. The checks themselves, and repetitions of
    /// them, are kept: no check makes another one redundant here.
    fn enter_sequence(&mut self, all: &[Stmt], child: usize) {
        if all.get(child).is_none_or(|c| c.establishes().is_some()) {
            return;
        }
        let before = &all[..child];
        let adjacent = before.iter().rev().take_while(|c| c.establishes().is_some()).count();
        for (n, s) in before.iter().enumerate() {
            if let Some(Establishes::Checked(cond)) = s.establishes() {
                let near = n + adjacent >= before.len();
                self.learn_at(cond, true, near);
            }
        }
    }

    /// Uses a condition that holds right before the statement that is looked at, whatever memory it reads.
    pub fn assume_near(&mut self, cond: &Expr) {
        self.learn_at(cond, true, true);
    }

    /// Invalidates what was known of memory right before a statement, which may have written it.
    pub fn pass(&mut self, before: Mark) {
        self.fresh.truncate(before.fresh);
        self.nonzero_near.truncate(before.nonzero_near);
    }

    /// Goes into a statement: nothing is known of memory any more. Gives a mark for [`Ranges::leave`].
    pub fn deeper(&mut self) -> Mark {
        let mark = self.mark();
        self.nesting += 1;
        mark
    }

    /// Forgets everything since a mark.
    pub fn leave(&mut self, mark: Mark) {
        for b in self.scope.drain(mark.scope..) {
            self.depth.remove(&b.id);
        }
        self.facts.truncate(mark.facts);
        self.multiples.truncate(mark.multiples);
        while self.undo.len() > mark.undo {
            match self.undo.pop() {
                Some((e, Some(old))) => self.known.insert(e, old),
                Some((e, None)) => self.known.remove(&e),
                None => None,
            };
        }
        self.implied.truncate(mark.implied);
        self.used.truncate(mark.used);
        self.fresh.truncate(mark.fresh);
        self.nonzero.truncate(mark.nonzero);
        self.nonzero_near.truncate(mark.nonzero_near);
        self.nesting = mark.nesting;
    }

    fn bind(&mut self, b: Bound) {
        self.depth.insert(b.id, self.scope.len());
        self.scope.push(b);
    }

    /// A size of a function.
    pub fn enter_size(&mut self, id: VarId) {
        let (lo, range) = (Some(build::index(0)), Interval::new(0, MAX_EXTENT));
        self.bind(Bound { id, lo, hi: None, value: false, around: false, range });
    }

    /// A loop over `lo..hi` is around the place: its variable has its bounds, and it has an iteration.
    pub fn enter_loop(&mut self, id: VarId, lo: &Expr, hi: &Expr) {
        self.bind_loop(id, lo, hi, true);
        // Only what checks said may follow from it: the variable has its bounds.
        if !self.implied.is_empty() && self.is_steady(lo) && self.is_steady(hi) {
            self.learn(&build::lt(lo.clone(), hi.clone()), true);
        }
    }

    /// The variable of a loop over `lo..hi`, wherever it is in scope. The place itself may be outside of the loop,
    /// where nothing says that the loop has an iteration.
    pub fn know_loop(&mut self, id: VarId, lo: &Expr, hi: &Expr) {
        self.bind_loop(id, lo, hi, false);
    }

    fn bind_loop(&mut self, id: VarId, lo: &Expr, hi: &Expr, around: bool) {
        let (first, last) = (self.range(lo), self.range(hi));
        // Where there is an iteration, the range is not empty.
        let range = Interval::new(first.lo, last.hi - 1);
        let kept = |e: &Expr| self.is_steady(e).then(|| e.clone());
        self.bind(Bound { id, lo: kept(lo), hi: kept(hi), value: false, around, range });
    }

    /// A variable that stands for a value.
    pub fn enter_let(&mut self, id: VarId, value: &Expr) {
        if !value.ty().is_int() {
            return;
        }
        let range = self.range(value);
        let lo = (value.ty().is_index() && self.is_steady(value)).then(|| value.clone());
        self.bind(Bound { id, value: lo.is_some(), lo, hi: None, around: false, range });
    }

    /// A local array that was made.
    pub fn enter_alloc(&mut self, buffer: &Buffer) {
        buffer.extents.iter().for_each(|e| self.extent(e));
    }

    /// An extent of an array that exists: at most [`MAX_EXTENT`].
    fn extent(&mut self, e: &Expr) {
        if !self.is_steady(e) {
            return;
        }
        let form = products::expand(e);
        if self.sum(&form).hi <= i128::from(MAX_EXTENT) {
            return;
        }
        if let Some(below) = Linear::constant(MAX_EXTENT).minus(&form) {
            self.steps = MAX_STEPS;
            self.at_least_zero(&below, false);
        }
    }

    /// The variable's place in the scope.
    pub(crate) fn bound(&self, v: VarId) -> Option<&Bound> {
        self.depth.get(&v).map(|d| &self.scope[*d])
    }

    /// The loops around, and the names of values as loops of one iteration, outermost first.
    pub(crate) fn around(&self) -> Vec<Ranged> {
        let of = |b: &Bound| {
            let lo = b.lo.clone()?;
            let hi = match &b.hi {
                Some(hi) if b.around => hi.clone(),
                None if b.value => build::add(lo.clone(), build::index(1)),
                _ => return None,
            };
            Some(Ranged::new(b.id, lo, hi))
        };
        self.scope.iter().filter_map(of).collect()
    }

    /// How deep in the scope an atom reaches: compound atoms half a step deeper than their variables.
    pub(crate) fn depth_of(&self, e: &Expr) -> usize {
        let known = |v: VarId| self.depth.get(&v).map_or(0, |d| 2 * (d + 1));
        match e.as_var() {
            Some(v) => known(v),
            None => visit::vars_of(e).into_iter().map(known).max().unwrap_or(0) + 1,
        }
    }

    /// Whether an expression has one value wherever its variables do.
    pub fn is_steady(&self, e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Int(_) | ExprKind::Var(_) => true,
            _ => {
                let fixed = |b: Option<BufId>| b.is_some_and(|b| self.steady.contains(&b));
                let mut steady = true;
                visit::walk_expr(e, &mut |x| {
                    if let ExprKind::Load(a) = x.kind() {
                        steady = steady && fixed(a.view.buffer());
                    }
                });
                steady
            }
        }
    }

    /// Where an atom is known to lie, beyond what its type and its parts say.
    pub(crate) fn known(&self, e: &Expr) -> Option<Interval> {
        if let Some(found) = self.known.get(e) {
            return Some(*found);
        }
        let near = self.fresh.iter().rev().filter(|f| f.0 == self.nesting && f.1 == *e).map(|f| f.2);
        near.reduce(|a, b| a.meet(b).unwrap_or(a))
    }

    /// Uses a condition that holds here.
    pub fn assume(&mut self, cond: &Expr) {
        self.learn(cond, true);
    }

    /// Uses that a condition holds, or does not; false if that cannot be.
    pub fn learn(&mut self, cond: &Expr, holds: bool) -> bool {
        self.learn_at(cond, holds, false) && self.follow()
    }

    /// Uses the conditions whose premises are known by now. To find out, conditions of `select`s may be learned on the
    /// way; what follows from these is not asked again.
    fn follow(&mut self) -> bool {
        if self.following {
            return true;
        }
        self.following = true;
        let mut possible = true;
        for n in 0..self.implied.len() {
            if self.used.contains(&n) || !self.holds(&self.implied[n].0) {
                continue;
            }
            self.used.push(n);
            let then = self.implied[n].1.clone();
            possible &= self.learn_at(&then, true, false);
        }
        self.following = false;
        possible
    }

    /// Whether a condition is known to hold.
    fn holds(&self, cond: &Expr) -> bool {
        self.holds_in(cond, &mut Memo::default())
    }

    fn holds_in(&self, cond: &Expr, memo: &mut Memo<bool>) -> bool {
        memo.of(cond, |memo| self.holds_node(cond, memo))
    }

    fn holds_node(&self, cond: &Expr, memo: &mut Memo<bool>) -> bool {
        match cond.kind() {
            ExprKind::Bool(v) => *v,
            ExprKind::Binary(BinOp::And, a, b) => self.holds_in(a, memo) && self.holds_in(b, memo),
            ExprKind::Select(c, a, b) if b.as_bool() == Some(false) => {
                self.holds_in(c, memo) && self.holds_in(a, memo)
            }
            ExprKind::Binary(op, a, b) if a.ty().is_index() => match op {
                BinOp::Le => self.le(a, b),
                BinOp::Lt => self.lt(a, b),
                BinOp::Ge => self.le(b, a),
                BinOp::Gt => self.lt(b, a),
                BinOp::Eq => self.le(a, b) && self.le(b, a),
                _ => false,
            },
            _ => false,
        }
    }

    /// As [`Ranges::learn`], where what is learned serves one visit of many: what it took counts there.
    pub fn learn_for<T: Clone>(&mut self, cond: &Expr, holds: bool, visit: &mut Memo<T>) -> bool {
        let before = self.taken;
        let possible = self.learn(cond, holds);
        visit.learned(self.taken - before);
        possible
    }

    /// The steps that learning took so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    fn learn_at(&mut self, cond: &Expr, holds: bool, near: bool) -> bool {
        let given = if self.taken < MANY_STEPS { MAX_STEPS } else { FEW_STEPS };
        self.steps = given;
        let around = std::mem::replace(&mut self.learning, true);
        let possible = self.learn_part(cond, holds, near);
        self.learning = around;
        self.taken += given - self.steps;
        possible
    }

    /// Takes the steps for learning about an expression; false if there are none left: what could be learned still is
    /// left out.
    fn step(&mut self, about: &Expr) -> bool {
        let left = self.steps > 0;
        let mut nodes = 0;
        visit::walk_expr(about, &mut |_| nodes += 1);
        self.steps = self.steps.saturating_sub(1 + nodes / STEP);
        left
    }

    fn learn_part(&mut self, cond: &Expr, holds: bool, near: bool) -> bool {
        use BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        let compares = matches!(cond.kind(), ExprKind::Binary(_, a, _) if a.ty().is_int());
        if self.steps == 0 || compares && !self.step(cond) {
            return true;
        }
        self.steps = self.steps.saturating_sub(1);
        match cond.kind() {
            ExprKind::Bool(v) => *v == holds,
            ExprKind::Unary(UnOp::Not, a) => self.learn_part(a, !holds, near),
            ExprKind::Binary(op @ (And | Or), a, b) if a.ty().is_bool() => {
                if (*op == And) == holds {
                    distinct_operands(*op, cond).iter().all(|part| self.learn_part(part, holds, near))
                } else {
                    self.learn_either(&[(a, holds)], &[(b, holds)], near)
                }
            }
            ExprKind::Select(c, a, b) if a.ty().is_bool() => {
                if holds && b.as_bool() == Some(true) && self.is_steady(c) && self.is_steady(a) {
                    self.implied.push((c.clone(), a.clone()));
                }
                // An arm that cannot be says which one is taken, however deep conditions are nested in each other.
                match (a.as_bool(), b.as_bool()) {
                    (_, Some(v)) if v != holds => {
                        self.learn_part(c, true, near) && self.learn_part(a, holds, near)
                    }
                    (Some(v), _) if v != holds => {
                        self.learn_part(c, false, near) && self.learn_part(b, holds, near)
                    }
                    _ => self.learn_either(&[(c, true), (a, holds)], &[(c, false), (b, holds)], near),
                }
            }
            ExprKind::Binary(op, a, b) if a.ty().is_int() => {
                let op = match (op, holds) {
                    (op, true) => *op,
                    (Eq, false) => Ne,
                    (Ne, false) => Eq,
                    (Lt, false) => Ge,
                    (Le, false) => Gt,
                    (Gt, false) => Le,
                    (Ge, false) => Lt,
                    _ => return true,
                };
                match op {
                    Le => self.learn_order(a, b, 0, near),
                    Lt => self.learn_order(a, b, 1, near),
                    Ge => self.learn_order(b, a, 0, near),
                    Gt => self.learn_order(b, a, 1, near),
                    Eq => {
                        self.learn_multiple(a, b);
                        self.learn_order(a, b, 0, near) && self.learn_order(b, a, 0, near)
                    }
                    Ne => self.learn_unequal(a, b, near) && self.learn_unequal(b, a, near),
                    _ => true,
                }
            }
            _ => true,
        }
    }

    fn learn_multiple(&mut self, a: &Expr, b: &Expr) {
        if let (ExprKind::Binary(BinOp::FloorMod, of, by), Some(0)) = (a.kind(), b.as_int())
            && let Some(c) = by.as_int().filter(|c| *c > 0)
            && of.ty().is_index()
            && self.is_steady(of)
        {
            self.multiples.push((of.clone(), c));
        }
    }

    /// `a` is not the number `b`.
    fn learn_unequal(&mut self, a: &Expr, b: &Expr, near: bool) -> bool {
        if b.as_int().is_none() {
            return true;
        }
        let (range, c) = (self.range(a), self.range(b));
        if range.lo == c.lo {
            return self.learn_order(b, a, 1, near);
        }
        if range.hi == c.hi {
            return self.learn_order(a, b, 1, near);
        }
        if c.lo == 0 && self.may_be_zero(a) {
            if self.is_steady(a) {
                self.nonzero.push(a.clone());
            } else if near {
                self.nonzero_near.push((self.nesting, a.clone()));
            }
        }
        true
    }

    /// Whether a value is not known to differ from 0.
    pub fn may_be_zero(&self, e: &Expr) -> bool {
        let near = |n: &(usize, Expr)| n.0 == self.nesting && n.1 == *e;
        if !self.range(e).contains(Interval::point(0)) || self.nonzero.contains(e) {
            return false;
        }
        if self.nonzero_near.iter().any(near) {
            return false;
        }
        match e.kind() {
            // A conversion that keeps every value.
            ExprKind::Cast(a) if a.ty().is_int() => {
                let all = e.ty().scalar().map(Interval::of_type);
                !all.is_some_and(|all| all.contains(self.range(a))) || self.may_be_zero(a)
            }
            _ if e.ty().is_index() => !self.is_positive(e),
            _ => true,
        }
    }

    /// Whether an `index` is known to be above 0, also for the reason that a loop around has an iteration.
    fn is_positive(&self, e: &Expr) -> bool {
        let Some(form) = Linear::of(e).offset(-1) else { return false };
        if self.nonneg(&form) {
            return true;
        }
        // e - 1 ≥ (hi - 1 - v) + (v - lo)
        let runs = |b: &Bound| match (&b.lo, &b.hi) {
            (Some(lo), Some(hi)) if b.around => {
                Linear::of(hi).minus(&Linear::of(lo)).and_then(|f| f.offset(-1))
            }
            _ => None,
        };
        self.scope.iter().filter_map(runs).any(|trips| {
            let rest = form.minus(&trips);
            rest.is_some_and(|f| self.sum(&f).lo >= 0)
        })
    }

    /// `a + gap ≤ b`
    fn learn_order(&mut self, a: &Expr, b: &Expr, gap: i64, near: bool) -> bool {
        // `a ≤ c // max(b, 1)` bounds the product of what is not negative.
        if let (0, Some(said)) = (gap, products::bounded(a, b))
            && self.range(a).lo >= 0
            && self.range(&said.factor).lo >= 0
        {
            self.refine(&said.product, Interval::new(0, said.most), near);
        }
        let form = Linear::of(b).minus(&Linear::of(a)).and_then(|f| f.offset(-gap));
        form.is_none_or(|f| self.at_least_zero(&f, near))
    }

    /// One of two cases holds; of atoms that both say something about, what both allow stays.
    fn learn_either(&mut self, one: &[(&Expr, bool)], two: &[(&Expr, bool)], near: bool) -> bool {
        // Cases within cases are each gone through, some of them twice.
        if self.cases >= MAX_CASES {
            return true;
        }
        self.cases += 1;
        let possible = self.learn_cases(one, two, near);
        self.cases -= 1;
        possible
    }

    fn learn_cases(&mut self, one: &[(&Expr, bool)], two: &[(&Expr, bool)], near: bool) -> bool {
        let before = self.mark();
        let mut changes = |all: &[(&Expr, bool)]| {
            let possible = all.iter().all(|(c, holds)| self.learn_part(c, *holds, near));
            let told: Vec<(Expr, Interval)> = self.undo[before.undo..]
                .iter()
                .filter_map(|(e, _)| Some((e.clone(), *self.known.get(e)?)))
                .chain(self.fresh[before.fresh..].iter().map(|f| (f.1.clone(), f.2)))
                .collect();
            self.leave(before);
            possible.then_some(told)
        };
        match (changes(one), changes(two)) {
            (None, None) => false,
            (Some(_), None) => one.iter().all(|(c, holds)| self.learn_part(c, *holds, near)),
            (None, Some(_)) => two.iter().all(|(c, holds)| self.learn_part(c, *holds, near)),
            (Some(x), Some(y)) => {
                for (e, range) in x {
                    if let Some(other) = y.iter().rev().find(|o| o.0 == e) {
                        self.refine(&e, range.join(other.1), near);
                    }
                }
                true
            }
        }
    }

    /// Uses that a form is at least 0; false if it cannot be.
    fn at_least_zero(&mut self, form: &Linear, near: bool) -> bool {
        let ranges: Vec<Interval> =
            form.terms.iter().map(|(a, k)| self.truth(a).times(Interval::point(*k))).collect();
        let constant = Interval::point(form.constant);
        let whole = ranges.iter().fold(constant, |sum, r| sum.plus(*r));
        if whole.hi < 0 {
            return false;
        }
        if whole.lo >= 0 {
            return true;
        }
        let mut possible = true;
        for (n, (atom, k)) in form.terms.iter().enumerate() {
            // k · atom ≥ -(the most that the rest can be)
            let others = ranges.iter().enumerate().filter(|(m, _)| *m != n);
            let rest = others.fold(constant, |sum, (_, r)| sum.plus(*r)).hi;
            let k = i128::from(*k);
            if !(-FAR..FAR).contains(&rest) {
                continue;
            }
            let range = if k > 0 {
                Interval { lo: -rest.div_euclid(k), hi: i128::MAX }
            } else {
                Interval { lo: i128::MIN, hi: rest.div_euclid(-k) }
            };
            possible &= self.refine(atom, range, near);
        }
        if form.terms.iter().all(|t| self.is_steady(&t.0)) {
            self.facts.push(form.clone());
        }
        possible
    }

    /// Narrows where an atom lies; false if nothing is left.
    fn refine(&mut self, atom: &Expr, to: Interval, near: bool) -> bool {
        if !self.step(atom) {
            return true;
        }
        let now = self.range(atom);
        let Some(new) = now.meet(to) else { return false };
        // A product is not known to fit before somebody says so.
        let product = matches!(atom.kind(), ExprKind::Binary(BinOp::Mul, ..));
        if new == now && (!product || self.known(atom) == Some(new)) {
            return true;
        }
        if self.is_steady(atom) {
            let old = self.known.insert(atom.clone(), new);
            self.undo.push((atom.clone(), old));
        } else if near {
            self.fresh.push((self.nesting, atom.clone(), new));
        }
        match atom.kind() {
            // c·lo ≤ a < c·(hi + 1)
            ExprKind::Binary(BinOp::FloorDiv, a, b) => {
                let Some(c) = b.as_int().filter(|c| *c > 0) else { return true };
                let end = |v: i128| v.checked_mul(c.into()).and_then(|v| i64::try_from(v).ok());
                let form = Linear::of(a);
                let above = end(new.lo).and_then(i64::checked_neg).and_then(|lo| form.offset(lo));
                let below = end(new.hi + 1).and_then(|hi| Linear::constant(hi - 1).minus(&form));
                above.is_none_or(|f| self.at_least_zero(&f, near))
                    && below.is_none_or(|f| self.at_least_zero(&f, near))
            }
            // A conversion that keeps every value says the same of what is converted.
            ExprKind::Cast(a) if a.ty().is_int() => {
                let fits = |e: &Expr| e.ty().scalar().map(Interval::of_type);
                match (fits(atom), fits(a)) {
                    (Some(outer), Some(inner)) if outer.contains(inner) => self.refine(a, to, near),
                    _ => true,
                }
            }
            _ => true,
        }
    }
}
