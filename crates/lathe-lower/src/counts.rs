//! How many iterations of loops that are written out run, decided before a loop around them.
//!
//! The rest of a register tile has a number of rows that nobody knows before the call. Written out with guards, each row
//! is asked for in every iteration of the sum's loop, and what rows share is read again for each, since it lies behind a
//! branch. The number does not change in that loop, so that the loop is copied for every number there may be, and one of
//! the copies runs. Where it does not change in the life of a register tile either, the whole tile is copied: it is set up,
//! summed and stored without another question.

use lathe_ir::build::{add, int, le};
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{Executor, Expr, ExprKind, Function, Loop, Space, Stmt, StmtKind, VarId};
use lathe_poly::{Interval, Ranges, constant_trips, most_trips};
use std::collections::HashSet;

/// Statements that all copies of a loop have together, at most.
const MOST: i64 = 320;

/// The function with such copies.
pub fn outside(func: &Function) -> Function {
    let mut c = Counts { ranges: Ranges::of_function(func), next_id: func.next_id };
    let body = c.stmt(&func.body);
    Function { body, next_id: c.next_id, ..func.clone() }
}

struct Counts {
    ranges: Ranges,
    next_id: u32,
}

/// A number of iterations that is not known: the bounds and the step of loops that have it, and the most that it can be.
struct Guard {
    lo: Expr,
    hi: Expr,
    step: i64,
    most: i64,
}

impl Guard {
    fn is_of(&self, l: &Loop) -> bool {
        l.exec == Executor::Unrolled && (&l.lo, &l.hi, l.step) == (&self.lo, &self.hi, self.step)
    }

    /// The end of `n` iterations.
    fn end(&self, n: i64) -> Expr {
        match self.lo.ty().scalar() {
            Some(s) => add(self.lo.clone(), int(s, n * self.step)),
            None => self.hi.clone(),
        }
    }
}

impl Counts {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let Some(copies) = self.tile(s) {
            return copies;
        }
        let mut new = Vec::new();
        for (position, c) in s.children().enumerate() {
            let mark = self.ranges.enter_child(s, position);
            new.push(self.stmt(c));
            self.ranges.leave(mark);
        }
        let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
        let s = if same { s.clone() } else { s.with_children(new) };
        let inside = s.as_loop().filter(|l| l.exec == Executor::Serial).map(|l| &l.body);
        let guards = inside.filter(|b| innermost(b)).map_or(Vec::new(), |_| self.guards(&s));
        if guards.is_empty() { s } else { self.decided(&s, &guards) }
    }

    /// Copies of a register tile with all that is done with it, where the loops of its sums have numbers of iterations to decide.
    fn tile(&mut self, s: &Stmt) -> Option<Stmt> {
        let (buffer, _) = s.as_alloc()?;
        let framed = matches!(buffer.space, Space::Register | Space::Stack);
        let guards = if framed && flat(s) { self.guards(s) } else { Vec::new() };
        (!guards.is_empty()).then(|| self.decided(s, &guards))
    }

    /// What is worth deciding before a statement with innermost loops, as far as the copies of these do not become too many.
    fn guards(&self, around: &Stmt) -> Vec<Guard> {
        let mut bound = HashSet::new();
        visit::walk(around, &mut |s, _| {
            bound.extend(s.binders().iter().map(|b| b.0.id));
            true
        });
        let bodies = bodies(around);
        let mut candidates: Vec<Loop> = Vec::new();
        for body in &bodies {
            visit::walk(body, &mut |s, _| {
                candidates.extend(s.as_loop().filter(|l| l.exec == Executor::Unrolled).cloned());
                true
            });
        }
        let mut guards: Vec<Guard> = Vec::new();
        // The innermost ones are asked for the most often.
        for l in candidates.iter().rev() {
            if guards.iter().any(|g| g.is_of(l)) || constant_trips(l).is_some() || !fixed(l, &bound) {
                continue;
            }
            // The ends that the conditions compare with must be numbers.
            let ends = |n: i64| self.ranges.range(&l.lo).hi + i128::from(n) * i128::from(l.step);
            let possible = |n: &i64| (1..=MOST).contains(n) && ends(*n) <= Interval::INDEX.hi;
            let most = most_trips(l, &self.ranges).filter(possible);
            let Some(most) = most else { continue };
            guards.push(Guard { lo: l.lo.clone(), hi: l.hi.clone(), step: l.step, most });
            let copied = bodies.iter().map(|b| statements(b, &guards)).fold(0, i64::saturating_add);
            if copied > MOST {
                guards.pop();
            }
        }
        guards
    }

    /// The copies of a loop for all numbers, with the conditions under which each runs.
    fn decided(&mut self, s: &Stmt, guards: &[Guard]) -> Stmt {
        let Some((g, others)) = guards.split_first() else { return s.clone() };
        let zero = i64::from(self.ranges.lt(&g.lo, &g.hi));
        self.between(s, g, others, (zero, g.most))
    }

    /// Those for the numbers from `least` to `most`, which are all that are left.
    fn between(&mut self, s: &Stmt, g: &Guard, others: &[Guard], (least, most): (i64, i64)) -> Stmt {
        if least >= most {
            let copy = visit::refresh(&with(s, g, most), &mut self.next_id);
            return self.decided(&copy, others);
        }
        let middle = least + (most - least) / 2;
        let then = self.between(s, g, others, (least, middle));
        let other = Some(self.between(s, g, others, (middle + 1, most)));
        let cond = le(g.hi.clone(), g.end(middle));
        Stmt::new(StmtKind::If { cond, then, other }, s.places().clone())
    }
}

/// Bounds that have the same values all through a loop that binds these variables.
fn fixed(l: &Loop, bound: &HashSet<VarId>) -> bool {
    [&l.lo, &l.hi].into_iter().all(|e| {
        let mut plain = vars_of(e).is_disjoint(bound);
        visit::walk_expr(e, &mut |x| plain &= !matches!(x.kind(), ExprKind::Load(_) | ExprKind::Call(..)));
        plain
    })
}

/// A statement in which loops with the guard's number of iterations have `n`, and conditions know where they end.
fn with(s: &Stmt, g: &Guard, n: i64) -> Stmt {
    // Of no iterations, or of long steps, only a bound of the end is known.
    let known = n > 0 && g.step == 1 && g.hi.as_int().is_none();
    visit::map_stmts(s, &mut |s| {
        if let Some(l) = s.as_loop().filter(|l| g.is_of(l)) {
            return match n {
                0 => Stmt::empty(),
                _ => s.with_kind(StmtKind::Loop(Loop { hi: g.end(n), ..l.clone() })),
            };
        }
        if let (StmtKind::If { cond, then, other }, true) = (s.kind(), known) {
            let cond = visit::map_expr(cond, &mut |x| if x == g.hi { g.end(n) } else { x });
            return s.with_kind(StmtKind::If { cond, then: then.clone(), other: other.clone() });
        }
        s
    })
}

/// Whether a statement has no loops but those that are written out or run as lanes.
fn innermost(s: &Stmt) -> bool {
    let mut all = true;
    visit::walk(s, &mut |s, _| {
        let l = s.as_loop();
        all &= l.is_none_or(|l| matches!(l.exec, Executor::Unrolled | Executor::Vector(_)));
        all &= !matches!(s.kind(), StmtKind::While { .. });
        all
    });
    all
}

/// The bodies of the innermost serial loops in a statement.
fn bodies(s: &Stmt) -> Vec<Stmt> {
    match s.as_loop().filter(|l| l.exec == Executor::Serial && innermost(&l.body)) {
        Some(l) => vec![l.body.clone()],
        None => s.children().flat_map(bodies).collect(),
    }
}

/// Whether no serial loop in a statement is inside of another loop, and one is there.
fn flat(s: &Stmt) -> bool {
    fn longest(s: &Stmt) -> usize {
        let inside = s.children().map(longest).max().unwrap_or(0);
        if matches!(s.kind(), StmtKind::While { .. }) {
            return inside + 2;
        }
        match s.as_loop().map(|l| &l.exec) {
            Some(Executor::Serial) => inside + 1,
            Some(Executor::Unrolled | Executor::Vector(_)) if inside > 0 => inside + 1,
            Some(Executor::Unrolled | Executor::Vector(_)) | None => inside,
            Some(_) => inside + 2,
        }
    }
    longest(s) == 1
}

/// How many statements the copies of a loop's body have together.
fn statements(body: &Stmt, guards: &[Guard]) -> i64 {
    let inner = body.children().map(|c| statements(c, guards)).fold(0, i64::saturating_add);
    let own = i64::from(body.as_store().is_some() || body.as_reduce().is_some());
    let Some(l) = body.as_loop().filter(|l| l.exec == Executor::Unrolled) else { return inner + own };
    let guard = guards.iter().find(|g| g.is_of(l)).map(|g| g.most * (g.most + 1) / 2);
    inner.saturating_mul(guard.or_else(|| constant_trips(l)).unwrap_or(1).max(1))
}
