//! Loops over the dimensions of a schedule (Quilleré, Rajopadhye and Wilde, 2000): at each level the range is split
//! where some unit, or some whole block of registers or lanes, begins or ends, so that the loops inside need no
//! conditions; what is left over of blocks gets loops with conditions.

use super::Schedule;
use super::dims::{BandPlan, Dims, Node, UnitCode};
use super::project::{Facts, halves, negated, to_expr};
use crate::system::{Col, Con, Conj, Lin};
use lathe_ir::build::{and, boolean, eq, floor_div, index, le, max, min};
use lathe_ir::visit::{refresh, substitute_stmt};
use lathe_ir::{Executor, Expr, Loop, Stmt, StmtKind};

/// More copies of statements than this are more code than they are worth, and take the checker too long.
const MAX_COPIES: usize = 64;

/// The loops of a schedule, with a plan for each band in the order of the tree, outer ones first. A range is split at
/// most `splits` times; after that, conditions are used instead.
///
/// # Errors
/// A message: the schedule is not unimodular, coefficients overflow, or there are too many pieces.
pub fn generate(s: &Schedule, plans: &[BandPlan], splits: usize, next_id: &mut u32) -> Result<Stmt, String> {
    let all: Vec<usize> = (0..s.units.len()).collect();
    let (dims, root, paths) = Dims::of(s, plans, &all, next_id)?;
    let facts = Facts::new(&s.context, dims.columns);
    let units =
        paths.into_iter().enumerate().map(|(n, p)| dims.unit(&facts, n, p)).collect::<Result<_, _>>()?;
    let mut g = Generator { dims, facts, units, most: splits, copies: 0 };
    let active: Vec<usize> = all.into_iter().filter(|u| g.units[*u].is_some()).collect();
    g.make(&root, &active, true, &Conj::new())
}

struct Generator<'a> {
    dims: Dims<'a>,
    facts: Facts,
    /// `None`: it has no iterations.
    units: Vec<Option<UnitCode>>,
    /// How often a range is split.
    most: usize,
    /// How many statements were made.
    copies: usize,
}

impl Generator<'_> {
    fn make(&mut self, node: &Node, active: &[usize], full: bool, known: &Conj) -> Result<Stmt, String> {
        match node {
            Node::Leaf => self.leaf(active, known),
            Node::Sequence(parts) => {
                let mut out = Vec::new();
                for (inside, node) in parts {
                    let here: Vec<usize> = active.iter().copied().filter(|u| inside.contains(u)).collect();
                    out.push(self.make(node, &here, full, known)?);
                }
                Ok(Stmt::seq(out))
            }
            Node::InTurn(member, inside) => {
                if active.len() < 2 || !self.dims.s.in_turn(*member, active) {
                    return self.make(inside, active, full, known);
                }
                let parts = active.iter().map(|u| self.make(inside, &[*u], full, known));
                Ok(Stmt::seq(parts.collect::<Result<Vec<_>, _>>()?))
            }
            Node::Blocks(col, parts) => self.blocks(*col, parts, active, full, known),
            Node::Loop(col, true, inside) => self.concurrent(*col, inside, active, full, known),
            Node::Loop(col, false, inside) => {
                let mut splits = 0;
                self.level(*col, inside, active, full, known, &Conj::new(), &mut splits)
            }
            Node::Block(col, extent, exec, member, inside) => {
                if active.is_empty() {
                    return Ok(Stmt::empty());
                }
                if full {
                    let mut inner = known.clone();
                    inner.push(Con { lin: Lin::atom(*col), eq: false });
                    inner.extend(
                        Lin::constant(extent - 1).minus(&Lin::atom(*col)).map(|lin| Con { lin, eq: false }),
                    );
                    let body = self.make(inside, active, true, &inner)?;
                    return Ok(self.around(*col, index(0), index(*extent), exec.clone(), body));
                }
                let vector = matches!(exec, Executor::Vector(_));
                // Lanes of each unit for itself, where those of one may all run before those of the next.
                if vector && active.len() > 1 && self.dims.s.in_turn(*member, active) {
                    let mut out = Vec::new();
                    for u in active {
                        out.push(self.make(node, &[*u], false, known)?);
                    }
                    return Ok(Stmt::seq(out));
                }
                let lanes = vector && active.len() == 1;
                let (lo, hi, inner) = self.range(*col, active, known, &Conj::new())?;
                let exec = if lanes { exec.clone() } else { Executor::Serial };
                let body = self.make(inside, active, false, &inner)?;
                Ok(self.around(*col, lo, hi, exec, body))
            }
        }
    }

    /// The loop over blocks: in one piece. Where full blocks of registers or lanes of a part begin or end, there are
    /// conditions inside.
    fn blocks(
        &mut self,
        col: Col,
        parts: &Node,
        active: &[usize],
        full: bool,
        known: &Conj,
    ) -> Result<Stmt, String> {
        let active = self.present(col, active, known);
        let Node::Sequence(parts) = parts else { return Ok(Stmt::empty()) };
        if active.is_empty() {
            return Ok(Stmt::empty());
        }
        let (lo, hi, inner) = self.range(col, &active, known, &Conj::new())?;
        let mut out = Vec::new();
        for (inside, node) in parts {
            let here: Vec<usize> = active.iter().copied().filter(|u| inside.contains(u)).collect();
            out.push(self.iteration(col, node, &here, full, &inner, &mut 0)?);
        }
        Ok(self.around(col, lo, hi, Executor::Serial, Stmt::seq(out)))
    }

    /// The units that have points here.
    fn present(&self, col: Col, active: &[usize], here: &Conj) -> Vec<usize> {
        let possible = |u: &usize| {
            let all: Vec<Con> = here.iter().chain(self.bounds(*u, col, false)).cloned().collect();
            !self.facts.impossible(&all)
        };
        active.iter().copied().filter(possible).collect()
    }

    /// The loop of one dimension on threads: in one piece, at whose end they meet. Where others are split, there are
    /// conditions inside.
    fn concurrent(
        &mut self,
        col: Col,
        inside: &Node,
        active: &[usize],
        full: bool,
        known: &Conj,
    ) -> Result<Stmt, String> {
        let active = self.present(col, active, known);
        if active.is_empty() {
            return Ok(Stmt::empty());
        }
        let (lo, hi, inner) = self.range(col, &active, known, &Conj::new())?;
        let body = self.iteration(col, inside, &active, full, &inner, &mut 0)?;
        Ok(self.around(col, lo, hi, Executor::Cpu, body))
    }

    /// One iteration of a loop on threads, for the points where `known` holds.
    fn iteration(
        &mut self,
        col: Col,
        inside: &Node,
        active: &[usize],
        mut full: bool,
        known: &Conj,
        splits: &mut usize,
    ) -> Result<Stmt, String> {
        let active = self.present(col, active, known);
        if active.is_empty() {
            return Ok(Stmt::empty());
        }
        let mut inner = known.clone();
        if full {
            if let Some(f) = self.splitter(col, &active, known).filter(|_| *splits < self.most)
                && let Some(not) = negated(&f)
            {
                *splits += 1;
                let with = |c: &Con| -> Conj { known.iter().cloned().chain([c.clone()]).collect() };
                let then = self.iteration(col, inside, &active, true, &with(&f), splits)?;
                let other = self.iteration(col, inside, &active, true, &with(&not), splits)?;
                return Ok(self.either(&f, &not, then, other));
            }
            full = self.all_full(col, &active, known);
            if full {
                // This loop also has iterations of other units. What equalities say of it is asked for again inside.
                for u in active.iter().filter(|u| self.code(**u).cons.iter().all(|c| !c.eq)) {
                    inner.extend(self.bounds(*u, col, true).cloned());
                }
            }
        }
        self.make(inside, &active, full, &inner)
    }

    fn either(&self, cond: &Con, not: &Con, then: Stmt, other: Stmt) -> Stmt {
        let nothing = |s: &Stmt| s.as_seq().is_some_and(<[Stmt]>::is_empty);
        if nothing(&then) {
            return if nothing(&other) { other } else { self.guarded(std::slice::from_ref(not), other) };
        }
        let one = self.guarded(std::slice::from_ref(cond), then);
        match one.as_if() {
            Some((cond, then, None)) if !nothing(&other) => {
                let kind = StmtKind::If { cond: cond.clone(), then: then.clone(), other: Some(other) };
                one.with_kind(kind)
            }
            _ => one,
        }
    }

    /// Blocks are full where their bounds hold for all points of all units.
    fn all_full(&self, col: Col, active: &[usize], here: &Conj) -> bool {
        active.iter().all(|u| self.code(*u).full.is_some() && self.violated(col, active, here, *u).is_none())
    }

    /// The loop of one dimension over the points where `extra` holds, split where blocks or units begin or end.
    #[allow(clippy::too_many_arguments)]
    fn level(
        &mut self,
        col: Col,
        inside: &Node,
        active: &[usize],
        mut full: bool,
        known: &Conj,
        extra: &Conj,
        splits: &mut usize,
    ) -> Result<Stmt, String> {
        let here: Conj = known.iter().chain(extra).cloned().collect();
        let active = self.present(col, active, &here);
        if active.is_empty() {
            return Ok(Stmt::empty());
        }
        if full {
            if let Some(f) = self.splitter(col, &active, &here).filter(|_| *splits < self.most)
                && let Some(not) = negated(&f)
            {
                *splits += 1;
                let with = |c: &Con| -> Conj { extra.iter().cloned().chain([c.clone()]).collect() };
                let below = f.lin.coefficient(&col) > 0;
                let yes = self.level(col, inside, &active, true, known, &with(&f), splits)?;
                let no = self.level(col, inside, &active, true, known, &with(&not), splits)?;
                return Ok(Stmt::seq(if below { [no, yes] } else { [yes, no] }));
            }
            full = self.all_full(col, &active, &here);
        }
        let (lo, hi, mut inner) = self.range(col, &active, known, extra)?;
        if full {
            for u in &active {
                inner.extend(self.bounds(*u, col, true).cloned());
            }
        }
        // Conditions on outer dimensions alone enclose the loop, where one unit is in it.
        let mut guard = Vec::new();
        if let [u] = active[..] {
            let at = self.position(u, col);
            let outer: Vec<Col> = self.code(u).dims[at..].to_vec();
            let own: Conj = self.code(u).cons.clone();
            for c in own.iter().filter(|c| c.lin.terms.iter().all(|t| !outer.contains(&t.0))) {
                if !self.facts.implies(known, c) && !guard.contains(c) {
                    guard.push(c.clone());
                }
            }
            inner.extend(guard.iter().cloned());
        }
        let body = self.make(inside, &active, full, &inner)?;
        let made = self.around(col, lo, hi, Executor::Serial, body);
        Ok(self.guarded(&guard, made))
    }

    fn code(&self, unit: usize) -> &UnitCode {
        self.units[unit].as_ref().unwrap_or_else(|| unreachable!("only units with iterations are made"))
    }

    fn position(&self, unit: usize, col: Col) -> usize {
        self.code(unit).dims.iter().position(|c| *c == col).unwrap_or(0)
    }

    /// What bounds a dimension of a unit, in the outer ones.
    fn bounds(&self, unit: usize, col: Col, full: bool) -> impl Iterator<Item = &Con> {
        let code = self.code(unit);
        let levels = if full { code.full.as_ref() } else { Some(&code.whole) };
        let at = self.position(unit, col);
        levels.into_iter().flat_map(move |l| l[at + 1].iter()).filter(move |c| c.lin.coefficient(&col) != 0)
    }

    /// Where the range must be split: a bound of some unit's full blocks that does not hold for all points of all.
    fn splitter(&self, col: Col, active: &[usize], here: &Conj) -> Option<Con> {
        active.iter().flat_map(|u| self.violations(col, active, here, *u)).find(|f| {
            // Some points satisfy it, or nothing is gained.
            active.iter().any(|u| {
                let own: Vec<Con> =
                    here.iter().chain(self.bounds(*u, col, false)).chain([f]).cloned().collect();
                !self.facts.impossible(&own)
            })
        })
    }

    fn violated(&self, col: Col, active: &[usize], here: &Conj, unit: usize) -> Option<Con> {
        self.violations(col, active, here, unit).next()
    }

    /// The bounds of a unit's full blocks that do not hold for all points of all units.
    fn violations<'g>(
        &'g self,
        col: Col,
        active: &'g [usize],
        here: &'g Conj,
        unit: usize,
    ) -> impl Iterator<Item = Con> + 'g {
        let all = halves(&self.bounds(unit, col, true).cloned().collect::<Conj>());
        all.into_iter().filter(move |f| {
            let Some(not) = negated(f) else { return true };
            active.iter().any(|u| {
                let own: Vec<Con> =
                    here.iter().chain(self.bounds(*u, col, false)).chain([&not]).cloned().collect();
                !self.facts.impossible(&own)
            })
        })
    }

    /// The range of a dimension that holds the points of all units, and what is known inside.
    fn range(
        &self,
        col: Col,
        active: &[usize],
        known: &Conj,
        extra: &Conj,
    ) -> Result<(Expr, Expr, Conj), String> {
        let mut ends: [Vec<Conj>; 2] = [Vec::new(), Vec::new()];
        let mut common: Option<Conj> = None;
        for u in active {
            let own: Conj = self.bounds(*u, col, false).chain(extra).cloned().collect();
            let own = halves(&own);
            for (side, all) in ends.iter_mut().enumerate() {
                let of_side = |c: &&Con| (c.lin.coefficient(&col) < 0) == (side == 1);
                let cons = self.facts_pruned(known, own.iter().filter(of_side).cloned().collect());
                // A range within that of another unit adds nothing.
                let within = |a: &Conj, b: &Conj| {
                    let here: Conj = known.iter().chain(a).cloned().collect();
                    b.iter().all(|c| self.facts.implies(&here, c))
                };
                if !all.iter().any(|b| within(&cons, b)) {
                    all.retain(|b| !within(b, &cons));
                    all.push(cons);
                }
            }
            common = Some(match common {
                None => own,
                Some(c) => c.into_iter().filter(|c| own.contains(c)).collect(),
            });
        }
        let end = |all: &[Conj], inner: fn(Expr, Expr) -> Expr, outer: fn(Expr, Expr) -> Expr| {
            let mut out: Option<Expr> = None;
            for cons in all {
                let mut bound: Option<Expr> = None;
                for c in cons {
                    let e = self.bound(col, c)?;
                    bound = Some(bound.map_or_else(|| e.clone(), |b| inner(b, e.clone())));
                }
                let e = bound.ok_or("a dimension has no bounds")?;
                out = Some(out.map_or_else(|| e.clone(), |o| outer(o, e.clone())));
            }
            out.ok_or_else(|| "a dimension has no bounds".to_string())
        };
        let (lo, hi) = (end(&ends[0], max, min)?, end(&ends[1], min, max)?);
        let inner = known.iter().cloned().chain(common.unwrap_or_default()).collect();
        Ok((lo, hi, inner))
    }

    /// Without bounds that the others of the side and the loops around imply; one stays.
    fn facts_pruned(&self, known: &Conj, mut cons: Conj) -> Conj {
        let mut i = 0;
        while i < cons.len() && cons.len() > 1 {
            let mut others = known.clone();
            others.extend(cons.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, c)| c.clone()));
            if self.facts.implies(&others, &cons[i]) {
                cons.remove(i);
            } else {
                i += 1;
            }
        }
        cons
    }

    /// A constraint as a bound of a dimension: the least value, or one more than the largest.
    fn bound(&self, col: Col, c: &Con) -> Result<Expr, String> {
        let overflow = || "the coefficients grow too large".to_string();
        let k = c.lin.coefficient(&col);
        let other = c.lin.clone().without(&col);
        if k > 0 {
            let least = other.scaled(-1).and_then(|l| l.offset(k - 1)).ok_or_else(overflow)?;
            Ok(floor_div(to_expr(&least, &self.dims.meaning), index(k)))
        } else {
            let last = other.offset(-k).ok_or_else(overflow)?;
            Ok(floor_div(to_expr(&last, &self.dims.meaning), index(-k)))
        }
    }

    fn around(&mut self, col: Col, lo: Expr, hi: Expr, exec: Executor, body: Stmt) -> Stmt {
        if body.as_seq().is_some_and(<[Stmt]>::is_empty) {
            return body;
        }
        let binder = self.dims.binders[&col].clone();
        let places = body.places().clone();
        let made = Stmt::new(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }), places);
        // Every copy of a piece has binders of its own.
        refresh(&made, self.dims.next_id)
    }

    fn guarded(&self, guard: &[Con], s: Stmt) -> Stmt {
        let mut cond = boolean(true);
        for c in guard {
            let e = to_expr(&c.lin, &self.dims.meaning);
            cond = and(cond, if c.eq { eq(e, index(0)) } else { le(index(0), e) });
        }
        if cond.as_bool() == Some(true) {
            return s;
        }
        let places = s.places().clone();
        Stmt::new(StmtKind::If { cond, then: s, other: None }, places)
    }

    fn leaf(&mut self, active: &[usize], known: &Conj) -> Result<Stmt, String> {
        self.copies += active.len();
        if self.copies > MAX_COPIES.max(2 * self.dims.s.units.len()) {
            return Err("the ranges fall into too many pieces".into());
        }
        let mut out = Vec::new();
        for u in active {
            let cons = self.code(*u).cons.clone();
            let mut guard: Conj = Vec::new();
            for c in cons {
                let here: Conj = known.iter().chain(&guard).cloned().collect();
                if !self.facts.implies(&here, &c) {
                    guard.push(c);
                }
            }
            let s = substitute_stmt(&self.dims.s.units[*u].stmt, &self.code(*u).iters);
            let s = refresh(&s, self.dims.next_id);
            out.push(self.guarded(&guard, s));
        }
        Ok(Stmt::seq(out))
    }
}
