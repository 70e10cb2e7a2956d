//! Loops over the dimensions of a schedule (Quilleré, Rajopadhye and Wilde, 2000): at each level the range is split
//! where some unit, or some whole block of registers or lanes, begins or ends, so that the loops inside need no
//! conditions; what is left over of blocks gets loops with conditions.

use super::project::{Facts, halves, negated, to_expr};
use super::{Schedule, Tree};
use crate::scan::invert;
use crate::system::{Col, Con, Conj, Lin};
use lathe_ir::build::{and, boolean, eq, floor_div, index, le, max, min, var};
use lathe_ir::names::Role;
use lathe_ir::visit::{refresh, substitute_stmt};
use lathe_ir::{Binder, Executor, Expr, Loop, Scalar, Stmt, StmtKind, VarId};
use std::collections::HashMap;

/// More copies of statements than this are more code than they are worth, and take the checker too long.
const MAX_COPIES: usize = 64;

/// What becomes of one band.
#[derive(Clone, Debug, Default)]
pub struct BandPlan {
    /// The members, outermost first.
    pub order: Vec<usize>,
    /// Per member, the width of its tiles; 0: none.
    pub tiles: Vec<i64>,
    /// Members that are jammed into the innermost loops: by how many iterations, and as vector lanes or
    /// unrolled. Lanes come last.
    pub blocks: Vec<(usize, i64, bool)>,
    /// The member whose iterations, or tiles if it has any, run on threads.
    pub threads: Option<usize>,
    /// The tiles of the first two members that have any run along diagonals, one diagonal after the other.
    pub wavefront: bool,
}

impl BandPlan {
    /// How many iterations of a member, or blocks of them, a tile has; at most one if there are no tiles.
    pub fn tile(&self, member: usize) -> i64 {
        let each = self.blocks.iter().find(|b| b.0 == member).map_or(1, |b| b.1);
        self.tiles.get(member).copied().unwrap_or(0) / each.max(1)
    }
}

/// The loops of a schedule, with a plan for each band in the order of the tree, outer ones first. A range is split at
/// most `splits` times; after that, conditions are used instead.
///
/// # Errors
/// A message: the schedule is not unimodular, coefficients overflow, or there are too many pieces.
pub fn generate(s: &Schedule, plans: &[BandPlan], splits: usize, next_id: &mut u32) -> Result<Stmt, String> {
    let mut g = Generator {
        s,
        facts: Facts::new(&s.context, s.context.columns),
        columns: s.context.columns,
        meaning: s.context.meaning.clone(),
        binders: HashMap::new(),
        units: Vec::new(),
        most: splits,
        copies: 0,
        next_id,
    };
    let all: Vec<usize> = (0..s.units.len()).collect();
    let mut paths = vec![UnitPath::default(); s.units.len()];
    let mut bands = 0;
    let root = g.node(&s.tree, &all, plans, &mut bands, &mut paths)?;
    g.facts = Facts::new(&s.context, g.columns);
    for (n, p) in paths.into_iter().enumerate() {
        let u = g.unit(n, p)?;
        g.units.push(u);
    }
    let active: Vec<usize> = all.into_iter().filter(|u| g.units[*u].is_some()).collect();
    g.make(&root, &active, true, &Conj::new())
}

/// The dimensions around a unit, as they are found.
#[derive(Clone, Default)]
struct UnitPath {
    dims: Vec<Col>,
    /// The members: their row over the unit's iterators, and what that is in new dimensions.
    rows: Vec<(Lin, Lin)>,
    /// What ties dimensions to one another: tiles and blocks.
    ties: Conj,
    /// Blocks: dimension and extent.
    blocks: Vec<(Col, i64)>,
}

struct UnitCode {
    dims: Vec<Col>,
    /// All constraints, over dimensions and surroundings.
    cons: Conj,
    /// See [`Facts::levels`].
    whole: Vec<Conj>,
    /// The same of the points whose blocks are full, over all dimensions but those in blocks.
    full: Option<Vec<Conj>>,
    /// The iterators in terms of the dimensions.
    iters: HashMap<VarId, Expr>,
}

enum Node {
    /// A loop, and whether it runs on threads.
    Loop(Col, bool, Box<Node>),
    /// A block: its extent, its executor, and the band and member that it is of.
    Block(Col, i64, Executor, (usize, usize), Box<Node>),
    Sequence(Vec<(Vec<usize>, Node)>),
    Leaf,
}

struct Generator<'a> {
    s: &'a Schedule,
    facts: Facts,
    columns: u32,
    meaning: HashMap<Col, Expr>,
    binders: HashMap<Col, Binder>,
    /// `None`: it has no iterations.
    units: Vec<Option<UnitCode>>,
    /// How often a range is split.
    most: usize,
    /// How many statements were made.
    copies: usize,
    next_id: &'a mut u32,
}

impl Generator<'_> {
    fn dim(&mut self, name: String) -> Col {
        let binder = Binder { id: VarId(*self.next_id), name: name.into(), ty: Scalar::Index };
        *self.next_id += 1;
        let col = self.columns;
        self.columns += 1;
        self.meaning.insert(col, var(&binder));
        self.binders.insert(col, binder);
        col
    }

    /// Assigns the dimensions of a tree of bands to its units.
    fn node(
        &mut self,
        t: &Tree,
        units: &[usize],
        plans: &[BandPlan],
        bands: &mut usize,
        paths: &mut [UnitPath],
    ) -> Result<Node, String> {
        let (members, child) = match t {
            Tree::Leaf => return Ok(Node::Leaf),
            Tree::Sequence(parts) => {
                let mut out = Vec::new();
                for (inside, t) in parts {
                    out.push((inside.clone(), self.node(t, inside, plans, bands, paths)?));
                }
                return Ok(Node::Sequence(out));
            }
            Tree::Band { members, child, .. } => (members, child),
        };
        let (plan, band) = (plans.get(*bands).ok_or("a band has no plan")?, *bands);
        *bands += 1;
        let names: Vec<String> = members.iter().map(|m| self.name(m, units)).collect();
        let (mut outer, mut inner, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
        let mut concurrent = None;
        let mut ties = Conj::new();
        let mut values: HashMap<usize, Lin> = HashMap::new();
        let tie = |lin: Option<Lin>, ties: &mut Conj| -> Result<(), String> {
            ties.push(Con { lin: lin.ok_or("the coefficients grow too large")?, eq: false });
            Ok(())
        };
        for m in &plan.order {
            let block = plan.blocks.iter().find(|b| b.0 == *m);
            // The tile counts what its loop counts: iterations, or blocks of them.
            let (value, counted) = match block {
                None => {
                    let c = self.dim(names[*m].clone());
                    outer.push(c);
                    (Lin::atom(c), Lin::atom(c))
                }
                Some((_, n, lanes)) => {
                    let width = plan.tiles.get(*m).copied().unwrap_or(0);
                    let skew = (*lanes && width < 2)
                        .then(|| self.origin(members, (&plan.order, *m), units, (&*paths, &values)))
                        .flatten();
                    let q = self.dim(Role::Outer.of(&names[*m]));
                    let r = self.dim(Role::Inner.of(&names[*m]));
                    outer.push(q);
                    inner.push((*m, r));
                    tie(Some(Lin::atom(r)), &mut ties)?;
                    tie(Lin::constant(n - 1).minus(&Lin::atom(r)), &mut ties)?;
                    let value = Lin::atom(r)
                        .combine(1, &Lin::atom(q), *n)
                        .ok_or("the coefficients grow too large")?;
                    let value =
                        value.plus(&skew.unwrap_or_default(), 1).ok_or("the coefficients grow too large")?;
                    (value, Lin::atom(q))
                }
            };
            values.insert(*m, value);
            let width = plan.tile(*m);
            let mut own = outer.last().copied();
            if width > 1 {
                let t = self.dim(Role::Tile.of(&names[*m]));
                tiles.push((t, counted, width));
                own = Some(t);
            }
            if plan.threads == Some(*m) {
                concurrent = own;
            }
        }
        for (n, (t, counted, width)) in tiles.iter().enumerate() {
            // The first tile loop of a wavefront counts diagonals.
            let other = tiles.get(1).filter(|_| plan.wavefront && n == 0);
            let at = other.map_or(Some(Lin::atom(*t)), |o| Lin::atom(*t).minus(&Lin::atom(o.0)));
            let below = at.and_then(|t| counted.combine(1, &t, -width));
            tie(below.clone(), &mut ties)?;
            tie(below.and_then(|b| Lin::constant(width - 1).minus(&b)), &mut ties)?;
        }
        inner.sort_by_key(|(m, _)| plan.blocks.iter().position(|b| b.0 == *m));
        let mut chain: Vec<_> = tiles.iter().map(|t| &t.0).chain(&outer).map(|c| (*c, None)).collect();
        for (m, r) in &inner {
            chain.push((*r, plan.blocks.iter().find(|b| b.0 == *m).copied()));
        }
        for u in units {
            let own: HashMap<VarId, Col> = self.s.units[*u]
                .iters
                .iter()
                .zip(&self.s.units[*u].columns)
                .map(|(b, c)| (b.id, *c))
                .collect();
            let p = &mut paths[*u];
            p.dims.extend(chain.iter().map(|c| c.0));
            p.blocks.extend(chain.iter().filter_map(|(c, b)| Some((*c, b.as_ref()?.1))));
            p.ties.extend(ties.iter().cloned());
            for m in &plan.order {
                let row = members[*m].rows.get(u).ok_or("a unit has no row")?;
                let row = self.s.context.lin(row, &own).ok_or("the coefficients grow too large")?;
                p.rows.push((row, values[m].clone()));
            }
        }
        let inside = self.node(child, units, plans, bands, paths)?;
        Ok(chain.into_iter().rev().fold(inside, |inside, (c, b)| match b {
            None => Node::Loop(c, concurrent == Some(c), Box::new(inside)),
            Some((m, n, lanes)) => {
                let exec = if lanes { Executor::Vector(n as u32) } else { Executor::Unrolled };
                Node::Block(c, n, exec, (band, m), Box::new(inside))
            }
        }))
    }

    /// The iterator that contributes most to a member.
    fn name(&self, m: &super::Member, units: &[usize]) -> String {
        let of = |u: &usize| {
            let iters = &self.s.units[*u].iters;
            let row = m.rows.get(u)?;
            iters.iter().rev().find(|b| row.coefficient(&b.id) != 0).map(|b| b.name.to_string())
        };
        units.iter().find_map(of).unwrap_or_else(|| "c".to_string())
    }

    /// The iterators of a unit and its domain in new dimensions, which some rows over the iterators are given in.
    fn renamed(&self, n: usize, rows: &[(Lin, Lin)]) -> Result<(HashMap<Col, Lin>, Conj), String> {
        let u = &self.s.units[n];
        let equal = u.equalities().into_iter().map(|l| (l, Lin::default()));
        let all: Vec<(Lin, Lin)> = rows.iter().cloned().chain(equal).collect();
        let overflow = || "the coefficients grow too large".to_string();
        let matrix = |rows: &[usize]| -> Vec<Vec<i64>> {
            rows.iter().map(|r| u.columns.iter().map(|c| all[*r].0.coefficient(c)).collect()).collect()
        };
        let chosen = independent(all.len(), &matrix);
        if chosen.len() != u.iters.len() {
            return Err("the schedule maps different iterations to the same point".into());
        }
        let (adjugate, det) = invert(&matrix(&chosen)).ok_or_else(overflow)?;
        if !u.iters.is_empty() && det.abs() != 1 {
            return Err("the schedule leaves gaps between iterations".into());
        }
        let mut values: HashMap<Col, Lin> = HashMap::new();
        for (i, col) in u.columns.iter().enumerate() {
            let mut value = Lin::default();
            for (k, r) in chosen.iter().enumerate() {
                let (row, image) = &all[*r];
                let mut rest = row.clone();
                rest.terms.retain(|t| !u.columns.contains(&t.0));
                let shifted = image.minus(&rest).ok_or_else(overflow)?;
                value = value.combine(1, &shifted, adjugate[i][k] * det).ok_or_else(overflow)?;
            }
            values.insert(*col, value);
        }
        let put = |lin: &Lin| -> Result<Lin, String> {
            let mut out = Lin::constant(lin.constant);
            for (c, k) in &lin.terms {
                let part = values.get(c).cloned().unwrap_or_else(|| Lin::atom(*c));
                out = out.combine(1, &part, *k).ok_or_else(overflow)?;
            }
            Ok(out)
        };
        let mut cons = Conj::new();
        for c in &u.domain {
            cons.push(Con { lin: put(&c.lin)?, eq: c.eq });
        }
        for (n, (row, image)) in all.iter().enumerate() {
            if !chosen.contains(&n) {
                cons.push(Con { lin: image.minus(&put(row)?).ok_or_else(overflow)?, eq: true });
            }
        }
        Ok((values, cons))
    }

    /// Where lanes along a skewed member begin: at the first iteration of each row, in terms of the outer dimensions.
    /// Elsewhere blocks begin at multiples of the width, as vectors of an array that is aligned do.
    fn origin(
        &self,
        members: &[super::Member],
        (order, v): (&[usize], usize),
        units: &[usize],
        (paths, values): (&[UnitPath], &HashMap<usize, Lin>),
    ) -> Option<Lin> {
        let own = |u: usize| -> HashMap<VarId, Col> {
            let unit = &self.s.units[u];
            unit.iters.iter().zip(&unit.columns).map(|(b, c)| (b.id, *c)).collect()
        };
        let skewed = |u: &usize| {
            let row = members[v].rows.get(u);
            let moves = |b: &&Binder| row.is_some_and(|r| r.coefficient(&b.id) != 0);
            self.s.units[*u].iters.iter().filter(moves).count() > 1
        };
        let before = order.iter().position(|m| *m == v)?;
        // Later members would have no value yet.
        if before + 1 != order.len() || !units.iter().any(skewed) {
            return None;
        }
        let x = self.columns;
        let mut found: Option<Lin> = None;
        for u in units {
            let mut rows = paths[*u].rows.clone();
            for m in order {
                let row = self.s.context.lin(members[*m].rows.get(u)?, &own(*u))?;
                rows.push((row, if *m == v { Lin::atom(x) } else { values.get(m)?.clone() }));
            }
            let (_, cons) = self.renamed(*u, &rows).ok()?;
            let facts = Facts::new(&self.s.context, x + 1);
            let cons = facts.pruned(&[], halves(&cons));
            let mut lower = cons.iter().filter(|c| c.lin.coefficient(&x) > 0);
            let (Some(one), None) = (lower.next(), lower.next()) else { return None };
            let least = one.lin.clone().without(&x).scaled(-1).filter(|_| one.lin.coefficient(&x) == 1)?;
            found = Some(match found {
                None => least,
                Some(f) if !f.same_terms(&least) => return None,
                Some(f) if f.constant < least.constant => least,
                Some(f) => f,
            });
        }
        found
    }

    /// The statement of a unit in its new dimensions.
    fn unit(&self, n: usize, p: UnitPath) -> Result<Option<UnitCode>, String> {
        let u = &self.s.units[n];
        let overflow = || "the coefficients grow too large".to_string();
        let (values, domain) = self.renamed(n, &p.rows)?;
        let cons: Conj = p.ties.iter().cloned().chain(domain).collect();
        let Some(whole) = self.facts.levels(&cons, &p.dims)? else { return Ok(None) };
        // A block is full if every constraint holds at its worst corner.
        let mut corner = Some(Conj::new());
        for c in &cons {
            let mut lin = c.lin.clone();
            for (r, extent) in &p.blocks {
                let k = lin.coefficient(r);
                lin = lin.without(r);
                if c.eq && k != 0 {
                    corner = None;
                }
                if k < 0 {
                    lin =
                        k.checked_mul(extent - 1).and_then(|least| lin.offset(least)).ok_or_else(overflow)?;
                }
            }
            if let Some(all) = &mut corner {
                all.push(Con { lin, eq: c.eq });
            }
        }
        let full = match corner {
            Some(all) => self.facts.levels(&all, &p.dims)?,
            None => None,
        };
        let iters =
            u.iters.iter().zip(&u.columns).map(|(b, c)| (b.id, to_expr(&values[c], &self.meaning))).collect();
        Ok(Some(UnitCode { dims: p.dims, cons, whole, full, iters }))
    }

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
                if vector && active.len() > 1 && self.s.in_turn(*member, active) {
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
                for u in &active {
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
            Ok(floor_div(to_expr(&least, &self.meaning), index(k)))
        } else {
            let last = other.offset(-k).ok_or_else(overflow)?;
            Ok(floor_div(to_expr(&last, &self.meaning), index(-k)))
        }
    }

    fn around(&mut self, col: Col, lo: Expr, hi: Expr, exec: Executor, body: Stmt) -> Stmt {
        if body.as_seq().is_some_and(<[Stmt]>::is_empty) {
            return body;
        }
        let binder = self.binders[&col].clone();
        let places = body.places().clone();
        let made = Stmt::new(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }), places);
        // Every copy of a piece has binders of its own.
        refresh(&made, self.next_id)
    }

    fn guarded(&self, guard: &[Con], s: Stmt) -> Stmt {
        let mut cond = boolean(true);
        for c in guard {
            let e = to_expr(&c.lin, &self.meaning);
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
        if self.copies > MAX_COPIES.max(2 * self.s.units.len()) {
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
            let s = substitute_stmt(&self.s.units[*u].stmt, &self.code(*u).iters);
            let s = refresh(&s, self.next_id);
            out.push(self.guarded(&guard, s));
        }
        Ok(Stmt::seq(out))
    }
}

/// The first of so many rows that determine all others.
pub(super) fn independent(rows: usize, matrix: &dyn Fn(&[usize]) -> Vec<Vec<i64>>) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for r in 0..rows {
        let mut with = chosen.clone();
        with.push(r);
        if rank(&matrix(&with)) == with.len() {
            chosen = with;
        }
    }
    chosen
}

/// The rank of a small integer matrix, without fractions (Bareiss, 1968). Numbers that grow beyond 128 bits end it early.
fn rank(m: &[Vec<i64>]) -> usize {
    let mut m: Vec<Vec<i128>> = m.iter().map(|r| r.iter().map(|v| i128::from(*v)).collect()).collect();
    let (mut found, mut divisor, width) = (0, 1, m.first().map_or(0, Vec::len));
    for col in 0..width {
        let Some(pivot) = (found..m.len()).find(|r| m[*r][col] != 0) else { continue };
        m.swap(found, pivot);
        let (above, below) = m.split_at_mut(found + 1);
        let Some(first) = above.last() else { break };
        for row in below {
            let (a, b) = (first[col], row[col]);
            for (x, y) in row.iter_mut().zip(first) {
                let grown = x.checked_mul(a).zip(y.checked_mul(b)).and_then(|(p, q)| p.checked_sub(q));
                let Some(n) = grown else { return found };
                *x = n / divisor;
            }
        }
        divisor = first[col];
        found += 1;
    }
    found
}
