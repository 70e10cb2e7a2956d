//! Visiting expressions as the graphs that they are. A chain of definitions that each use the one before twice has as
//! many nodes as links, and `2^links` paths: what recurses over expressions remembers its nodes, by one of these.
//!
//! Nodes are told apart by what they say and not by where they are in memory, so that parts which were made twice are
//! visited once, too.

use crate::expr::{Expr, ExprKind};
use crate::ops::BinOp;
use rustc_hash::{FxHashMap, FxHashSet};

/// As many nodes are visited before any is remembered: most expressions are smaller, and need no table.
const SMALL: usize = 32;
/// From so many visits under conditions on, these are not told apart any more.
const LONG: usize = 1 << 8;
/// Steps of learning that take as long as a visit.
const STEPS: usize = 16;

/// What was found out about nodes.
#[derive(Clone, Debug)]
pub struct Memo<T> {
    visits: usize,
    /// Visits under conditions.
    inside: usize,
    done: FxHashMap<Expr, T>,
    /// What was entered under conditions, latest last.
    entered: Vec<Expr>,
    conditions: usize,
}

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo { visits: 0, inside: 0, done: FxHashMap::default(), entered: Vec::new(), conditions: 0 }
    }
}

impl<T: Clone> Memo<T> {
    /// What is known of a node, or what `make` finds out, which passes the memo on to the node's parts.
    pub fn of(&mut self, e: &Expr, make: impl FnOnce(&mut Memo<T>) -> T) -> T {
        if is_leaf(e) {
            return make(self);
        }
        self.visit();
        if self.visits > SMALL
            && let Some(done) = self.done.get(e)
        {
            return done.clone();
        }
        let made = make(self);
        if self.visits > SMALL {
            self.insert(e, made.clone());
        }
        made
    }

    /// What is known of a node.
    pub fn get(&self, e: &Expr) -> Option<&T> {
        self.done.get(e)
    }

    pub fn insert(&mut self, e: &Expr, value: T) {
        if self.done.insert(e.clone(), value).is_none() && self.conditions > 0 {
            self.entered.push(e.clone());
        }
    }

    /// Visits what is evaluated under a further condition. It uses what is known outside of it; what is found out
    /// inside is forgotten.
    pub fn under<R>(&mut self, visit: impl FnOnce(&mut Memo<T>) -> R) -> R {
        let before = self.entered.len();
        self.conditions += 1;
        let out = visit(self);
        self.conditions -= 1;
        for e in self.entered.drain(before..) {
            self.done.remove(&e);
        }
        out
    }

    /// Whether so much was visited that conditions should be told apart no longer: parts that are shared by the arms of
    /// selects are visited once for each way to get there.
    pub fn is_long(&self) -> bool {
        self.inside > LONG
    }

    /// Counts a visit, for those who look nodes up by [`Memo::get`].
    pub fn visit(&mut self) {
        self.visits += 1;
        self.inside += usize::from(self.conditions > 0);
    }

    /// Counts what learning from a condition took, in steps of which many are a visit.
    pub fn learned(&mut self, steps: usize) {
        self.inside += steps / STEPS;
    }

    /// Whether it is worth it to remember nodes.
    pub fn is_large(&self) -> bool {
        self.visits > SMALL
    }
}

/// A bottom-up value: `f` gives that of a node from those of its parts, in the order of [`Expr::children`].
pub fn fold<T: Clone>(e: &Expr, f: &mut impl FnMut(&Expr, Vec<T>) -> T) -> T {
    fn go<T: Clone>(e: &Expr, memo: &mut Memo<T>, f: &mut impl FnMut(&Expr, Vec<T>) -> T) -> T {
        memo.of(e, |memo| {
            let parts = e.children().into_iter().map(|c| go(c, memo, f)).collect();
            f(e, parts)
        })
    }
    go(e, &mut Memo::default(), f)
}

/// The operands of an operation that is applied to its own results, in order: those of `a + (b + a)` are `a`, `b` and
/// `a`. `None` if there are more than `most`.
pub fn operands(op: BinOp, e: &Expr, most: usize) -> Option<Vec<Expr>> {
    fn go(op: BinOp, e: &Expr, most: usize, out: &mut Vec<Expr>) -> bool {
        match e.kind() {
            ExprKind::Binary(o, a, b) if *o == op => go(op, a, most, out) && go(op, b, most, out),
            _ => {
                out.push(e.clone());
                out.len() <= most
            }
        }
    }
    let mut out = Vec::new();
    go(op, e, most, &mut out).then_some(out)
}

/// As [`operands`], each once: for operations of which `x op x` is `x`.
pub fn distinct_operands(op: BinOp, e: &Expr) -> Vec<Expr> {
    fn go(op: BinOp, e: &Expr, seen: &mut FxHashSet<Expr>, out: &mut Vec<Expr>) {
        if !seen.insert(e.clone()) {
            return;
        }
        match e.kind() {
            ExprKind::Binary(o, a, b) if *o == op => {
                go(op, a, seen, out);
                go(op, b, seen, out);
            }
            _ => out.push(e.clone()),
        }
    }
    let mut out = Vec::new();
    go(op, e, &mut FxHashSet::default(), &mut out);
    out
}

fn is_leaf(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{add, index, min, mul, select, var_id};
    use crate::ids::VarId;
    use crate::types::Scalar;

    fn chain(links: i64, link: impl Fn(Expr, i64) -> Expr) -> Expr {
        (0..links).fold(var_id(VarId(0), Scalar::Index), link)
    }

    #[test]
    fn a_shared_node_is_visited_once() {
        // Made twice, so that the halves share no nodes.
        let half = || chain(60, |e, k| mul(e.clone(), add(e, index(k))));
        let whole = crate::build::sub(half(), crate::build::neg(half()));
        let mut visits = 0;
        let nodes = fold(&whole, &mut |_, parts: Vec<u128>| {
            visits += 1;
            parts.into_iter().fold(1, u128::saturating_add)
        });
        assert!(visits < 500, "{visits}");
        assert!(nodes > 1 << 60, "{nodes}");
        let min_of = chain(60, |e, k| min(e.clone(), min(e, index(k))));
        assert!(distinct_operands(BinOp::Min, &min_of).len() <= 61);
        let product = chain(60, |e, _| mul(e.clone(), e));
        assert_eq!(operands(BinOp::Mul, &product, 100), None);
        let short = chain(3, |e, _| mul(e.clone(), e));
        assert_eq!(operands(BinOp::Mul, &short, 100).map(|all| all.len()), Some(8));
    }

    #[test]
    fn what_is_found_under_a_condition_is_forgotten() {
        fn visit(e: &Expr, memo: &mut Memo<()>, visits: &mut usize) {
            memo.of(e, |memo| {
                *visits += 1;
                match e.kind() {
                    ExprKind::Select(c, a, b) => {
                        visit(c, memo, visits);
                        for arm in [a, b] {
                            memo.under(|memo| visit(arm, memo, visits));
                        }
                    }
                    _ => e.children().into_iter().for_each(|c| visit(c, memo, visits)),
                }
            });
        }
        let count = |e: &Expr| {
            let mut visits = 0;
            visit(e, &mut Memo::default(), &mut visits);
            visits
        };
        // Conditions that compute what the arms compute are visited first.
        let link = |e: Expr, k| select(crate::build::lt(e.clone(), index(k)), add(e.clone(), index(1)), e);
        assert!(count(&chain(60, link)) < 600);
        // Else arms tell shared parts apart.
        let c = crate::build::var_id(VarId(1), Scalar::Bool);
        let link = |e: Expr, k| select(c.clone(), add(e.clone(), index(k + 1)), add(e, index(k + 2)));
        let (short, long) = (count(&chain(12, link)), count(&chain(13, link)));
        assert!(long > 3 * short / 2, "{short} {long}");
    }
}
