//! Where no barrier of a concurrent loop is passed between two places of its body.
//!
//! All iterations of the loop pass the same barriers in the same order ([`super::uneven`]), so positions of two of them
//! are compared as if one had been at both. From the first place to the second: what follows the first in the loops that
//! only it is in, what stands between, what precedes the second. A serial loop around both that contains barriers is at
//! the same iteration for both, or at an earlier one for the first: then its iterations are adjacent, if each passes a
//! barrier. Every condition that cannot be said is left out, which gives more places without a barrier than there are.

use crate::copy::{Copy, Place, equal};
use crate::leaves::{Leaf, Level, Relative};
use crate::order::is_ordered;
use crate::system::{Conj, eq, ge, gt};
use crate::translate::Builder;
use lathe_ir::{Space, Stmt, StmtKind, VarId};

/// More alternatives are left out.
const MAX_WAYS: usize = 64;

/// What orders, where it is passed.
#[derive(Clone, Copy)]
pub(super) enum Fence {
    /// Barriers of a concurrent loop that order accesses to both spaces.
    Barrier(Option<VarId>, (Space, Space)),
    /// Waits for all bodies that were started under a token.
    Wait(VarId),
}

/// What orders in one concurrent loop, or in the scope of one token.
pub(super) struct Between<'b, 'w> {
    builder: &'b mut Builder<'w>,
    owner: &'b Stmt,
    fence: Fence,
}

/// One of two accesses: its leaf, its unknowns, where it is.
pub(super) type Side<'s> = (&'s Leaf<'s>, &'s mut Copy, Place);

impl<'b, 'w> Between<'b, 'w> {
    /// `owner` is the concurrent loop, or the scope of the token.
    pub fn new(builder: &'b mut Builder<'w>, owner: &'b Stmt, fence: Fence) -> Between<'b, 'w> {
        Between { builder, owner, fence }
    }

    /// Whether there is anything that orders.
    pub fn any(&self) -> bool {
        self.has(self.owner)
    }

    /// Whether a serial loop among the steps of a path, from one on, passes nothing that orders: between its iterations, then,
    /// nothing stands.
    pub fn turns_freely(&self, leaf: &Leaf, from: usize, common: usize) -> bool {
        leaf.stepped(common).any(|(k, l)| k >= from && is_ordered(&l) && !self.has(leaf.path[k].stmt))
    }

    fn counts(&self, s: &Stmt) -> bool {
        match self.fence {
            Fence::Barrier(owner, (p, q)) => matches!(s.kind(), StmtKind::Barrier { of, spaces }
                if Some(*of) == owner && (spaces.is_empty() || spaces.contains(&p) && spaces.contains(&q))),
            Fence::Wait(token) => {
                matches!(s.kind(), StmtKind::Wait { token: of, pending: 0 } if *of == token)
            }
        }
    }

    fn has(&self, s: &Stmt) -> bool {
        self.counts(s) || s.children().any(|c| self.has(c))
    }

    /// Alternatives of which one holds where the first access comes no later than the second, with no barrier between.
    /// `from` is the first step inside of the concurrent loop, `common` the steps that both share; `excluded` says that
    /// they are never both reached at the same iterations of these.
    pub fn ways(
        &mut self,
        from: usize,
        (a, x, at_a): Side,
        (b, y, at_b): Side,
        (common, relative): (usize, Relative),
        excluded: bool,
    ) -> Vec<Conj> {
        // Serial loops around both in which barriers are passed.
        let around: Vec<(usize, Level)> = a
            .stepped(common)
            .filter(|(k, l)| *k >= from && is_ordered(l) && self.has(a.path[*k].stmt))
            .collect();
        let levels: Vec<Level> = around.iter().map(|(_, l)| *l).collect();
        let mut out = Vec::new();
        match relative {
            Relative::Second => {}
            // A loop without barriers may be at different iterations.
            Relative::Apart
                if excluded
                    && a.stepped(common)
                        .all(|(k, l)| k < from || !is_ordered(&l) || self.has(a.path[k].stmt)) => {}
            Relative::Same | Relative::Apart => out.push(equal(&levels, x, y)),
            Relative::First => {
                let mut ways = vec![equal(&levels, x, y)];
                if let (Some(p), Some(q)) =
                    (a.path[..at_a.depth].get(common), b.path[..at_b.depth].get(common))
                {
                    self.tail(a, x, (common + 1, at_a.depth), &mut ways);
                    for s in p.stmt.as_seq().unwrap_or(&[]).iter().take(q.position).skip(p.position + 1) {
                        let free = self.free(s, x);
                        self.both(&mut ways, &free);
                    }
                    self.head(b, y, (common + 1, at_b.depth), &mut ways);
                } else {
                    self.head(b, y, (common, at_b.depth), &mut ways);
                }
                out.append(&mut ways);
            }
        }
        for (n, (k, level)) in around.iter().enumerate() {
            let (Some(i), Some(j)) = (x.level(level), y.level(level)) else { continue };
            let mut ways = vec![equal(&levels[..n], x, y)];
            let stmt = a.path[*k].stmt;
            let step = stmt.as_loop().map_or(1, |l| l.step);
            let adjacent = self.every_iteration(stmt, x);
            self.builder.system.exact &= adjacent;
            let next = if adjacent { i.offset(step).and_then(|next| eq(&j, &next)) } else { gt(&j, &i) };
            ways[0].extend(next);
            self.tail(a, x, (k + 1, at_a.depth), &mut ways);
            self.head(b, y, (k + 1, at_b.depth), &mut ways);
            out.append(&mut ways);
        }
        if out.len() > MAX_WAYS { self.unknown() } else { out }
    }

    /// Nothing behind a place, within the given steps of its path, passes a barrier.
    fn tail(&mut self, leaf: &Leaf, copy: &mut Copy, (from, to): (usize, usize), ways: &mut Vec<Conj>) {
        self.rest(leaf, copy, (from, to), ways, false);
        // Behind a condition or bound stands the statement that it is of; behind that of a `while`, perhaps.
        let Some(step) = leaf.path.get(to) else {
            // Behind an atomic, what its old value is known in.
            for s in leaf.stmt.children().filter(|_| matches!(leaf.stmt.kind(), StmtKind::Atomic(_))) {
                let free = self.free(s, copy);
                self.both(ways, &free);
            }
            return;
        };
        let free = match to.checked_sub(1).and_then(|k| leaf.path.get(k)) {
            Some(around) if matches!(around.stmt.kind(), StmtKind::While { .. }) => self.unknown(),
            _ => self.free(step.stmt, copy),
        };
        self.both(ways, &free);
    }

    /// Nothing before it.
    fn head(&mut self, leaf: &Leaf, copy: &mut Copy, (from, to): (usize, usize), ways: &mut Vec<Conj>) {
        self.rest(leaf, copy, (from, to), ways, true);
    }

    fn rest(
        &mut self,
        leaf: &Leaf,
        copy: &mut Copy,
        (from, to): (usize, usize),
        ways: &mut Vec<Conj>,
        before: bool,
    ) {
        let levels: Vec<(usize, Level)> = leaf.stepped(to).filter(|(k, _)| *k >= from).collect();
        for (k, step) in leaf.path.iter().enumerate().take(to).skip(from) {
            if let Some(list) = step.stmt.as_seq() {
                let part = if before { &list[..step.position] } else { &list[step.position + 1..] };
                for s in part {
                    let free = self.free(s, copy);
                    self.both(ways, &free);
                }
            }
            let level = levels.iter().find(|(n, l)| *n == k && is_ordered(l)).map(|(_, l)| l);
            let (Some(l), Some(level)) = (step.stmt.as_loop(), level) else { continue };
            if !self.every_iteration(step.stmt, copy) {
                self.builder.system.exact &= !self.has(step.stmt);
                continue;
            }
            let Some(i) = copy.level(level) else { continue };
            let first = self.builder.value(&mut copy.scope, &l.lo).offset(l.step);
            let last = self.builder.value(&mut copy.scope, &l.hi);
            let edge = if before {
                first.and_then(|next| gt(&next, &i))
            } else {
                i.offset(l.step).and_then(|next| ge(&next, &last))
            };
            if let Some(c) = edge {
                ways.iter_mut().for_each(|w| w.push(c.clone()));
            }
        }
    }

    /// Whether each iteration of a loop surely passes a barrier.
    fn every_iteration(&mut self, s: &Stmt, copy: &mut Copy) -> bool {
        repeats(s) && s.children().next().is_some_and(|body| self.free(body, copy).is_empty())
    }

    /// Alternatives of which one holds where a statement passes no barrier.
    fn free(&mut self, s: &Stmt, copy: &mut Copy) -> Vec<Conj> {
        if !self.has(s) {
            return vec![Conj::new()];
        }
        if self.counts(s) {
            return Vec::new();
        }
        if let Some((cond, then, other)) = s.as_if() {
            let mut ways = Vec::new();
            for (branch, holds) in [(Some(then), true), (other, false)] {
                let mut here = self.builder.ways(&mut copy.scope, cond, holds);
                let free = branch.map_or_else(|| vec![Conj::new()], |branch| self.free(branch, copy));
                self.both(&mut here, &free);
                ways.append(&mut here);
            }
            return ways;
        }
        if let Some(l) = s.as_loop() {
            // It has no iterations, or each passes none: then some does, whichever its variable stands for.
            let mut ways = self.free(&l.body, copy);
            self.builder.system.exact &= ways.is_empty();
            let lo = self.builder.value(&mut copy.scope, &l.lo);
            let hi = self.builder.value(&mut copy.scope, &l.hi);
            let empty: Conj = ge(&lo, &hi).into_iter().collect();
            let never = empty.iter().any(|c| c.lin.terms.is_empty() && !c.holds(&[]));
            ways.extend((!never).then_some(empty));
            return ways;
        }
        if matches!(s.kind(), StmtKind::While { .. }) {
            return self.unknown();
        }
        let mut ways = vec![Conj::new()];
        for child in s.children() {
            let free = self.free(child, copy);
            self.both(&mut ways, &free);
        }
        ways
    }

    /// What cannot be said.
    fn unknown(&mut self) -> Vec<Conj> {
        self.builder.system.exact = false;
        vec![Conj::new()]
    }

    /// One of each list holds. What would be too many alternatives is left out.
    fn both(&mut self, ways: &mut Vec<Conj>, more: &[Conj]) {
        if more.iter().any(Vec::is_empty) {
            return;
        }
        if ways.len() * more.len() > MAX_WAYS {
            self.builder.system.exact = false;
            return;
        }
        *ways = ways
            .iter()
            .flat_map(|a| more.iter().map(move |b| a.iter().chain(b).cloned().collect()))
            .collect();
    }
}

fn repeats(s: &Stmt) -> bool {
    s.as_loop().is_some() || matches!(s.kind(), StmtKind::While { .. })
}
