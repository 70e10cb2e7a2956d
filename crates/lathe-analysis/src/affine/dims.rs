//! The dimensions of a schedule: those of tiles, iterations and blocks, band by band, and what the statements are over them.

use super::blocks::{last, part as part_of};
use super::project::{Facts, halves, to_expr};
use super::{Schedule, Tree};
use crate::scan::invert;
use crate::system::{Col, Con, Conj, Lin};
use lathe_ir::build::var;
use lathe_ir::names::Role;
use lathe_ir::{Binder, Executor, Expr, Scalar, VarId};
use std::collections::HashMap;

/// What becomes of one band.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// The tiles of the first of these are diamonds: of so many times this member less the other one.
    pub diamond: Option<i64>,
    /// The last member, if its loop is one per unit, one after the other, where all iterations of a unit may run before those
    /// of the next one.
    pub in_turn: Option<usize>,
}

impl BandPlan {
    /// How many iterations of a member, or blocks of them, a tile has; at most one if there are no tiles.
    pub fn tile(&self, member: usize) -> i64 {
        let each = self.blocks.iter().find(|b| b.0 == member).map_or(1, |b| b.1);
        self.tiles.get(member).copied().unwrap_or(0) / each.max(1)
    }
}

/// The dimensions around a unit, as they are found.
#[derive(Clone, Default)]
pub(super) struct UnitPath {
    dims: Vec<Col>,
    /// The members: their row over the unit's iterators, and what that is in new dimensions.
    rows: Vec<(Lin, Lin)>,
    /// What ties dimensions to one another: tiles and blocks.
    ties: Conj,
    /// Blocks: dimension and extent.
    blocks: Vec<(Col, i64)>,
}

pub(super) struct UnitCode {
    pub dims: Vec<Col>,
    /// All constraints, over dimensions and surroundings.
    pub cons: Conj,
    /// See [`Facts::levels`].
    pub whole: Vec<Conj>,
    /// The same of the points whose blocks are full, over all dimensions but those in blocks.
    pub full: Option<Vec<Conj>>,
    /// The iterators in terms of the dimensions.
    pub iters: HashMap<VarId, Expr>,
}

pub(super) enum Node {
    /// A loop over blocks around parts, which are a sequence.
    Blocks(Col, Box<Node>),
    /// A loop, and whether it runs on threads.
    Loop(Col, bool, Box<Node>),
    /// A block: its extent, its executor, and the band and member that it is of.
    Block(Col, i64, Executor, (usize, usize), Box<Node>),
    /// The loops inside for each unit by itself, if all iterations of a band's member of one may run before those of the next.
    InTurn((usize, usize), Box<Node>),
    Sequence(Vec<(Vec<usize>, Node)>),
    Leaf,
}

pub(super) struct Dims<'a> {
    pub s: &'a Schedule,
    pub columns: u32,
    pub meaning: HashMap<Col, Expr>,
    pub binders: HashMap<Col, Binder>,
    pub next_id: &'a mut u32,
    /// The loops are those of the updates at the end of blocks.
    rest: bool,
}

impl<'a> Dims<'a> {
    /// The dimensions of a schedule, their tree, and those around each unit.
    pub fn of(
        s: &'a Schedule,
        plans: &[BandPlan],
        units: &[usize],
        next_id: &'a mut u32,
    ) -> Result<(Dims<'a>, Node, Vec<UnitPath>), String> {
        let (columns, meaning) = (s.context.columns, s.context.meaning.clone());
        let mut dims = Dims { s, columns, meaning, binders: HashMap::new(), next_id, rest: false };
        let mut paths = vec![UnitPath::default(); s.units.len()];
        let root = dims.node(&s.tree, units, plans, &mut 0, &mut paths)?;
        Ok((dims, root, paths))
    }

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
            Tree::Blocks { member, width, cuts, places, child } => {
                let t = self.dim(Role::Tile.of(self.name(member, units)));
                units.iter().for_each(|u| paths[*u].dims.push(t));
                let Tree::Sequence(parts) = &**child else { return Err("blocks have no parts".into()) };
                let mut out = Vec::new();
                for ((inside, part), place) in parts.iter().zip(places) {
                    let outside = std::mem::replace(&mut self.rest, *place == last(cuts.len()));
                    out.push((inside.clone(), self.node(part, inside, plans, bands, paths)?));
                    self.rest = outside;
                    for u in inside {
                        let path = &mut paths[*u];
                        let value = |m: &super::Member| self.value(m, *u, &path.rows);
                        let cuts = cuts.iter().map(value).collect::<Option<Vec<Lin>>>();
                        let ties =
                            value(member).zip(cuts).and_then(|(m, c)| part_of(&m, *width, &c, *place, t));
                        path.ties.extend(ties.ok_or("the coefficients grow too large")?);
                    }
                }
                return Ok(Node::Blocks(t, Box::new(Node::Sequence(out))));
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
            let counted = match (other, plan.diamond) {
                (Some(o), Some(times)) => counted.combine(times, &o.1, -1),
                _ => Some(counted.clone()),
            };
            let below = at.zip(counted).and_then(|(t, counted)| counted.combine(1, &t, -width));
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
        let over = outer.last().copied().zip(plan.in_turn);
        Ok(chain.into_iter().rev().fold(inside, |inside, (c, b)| match b {
            None => {
                let made = Node::Loop(c, concurrent == Some(c), Box::new(inside));
                match over.filter(|o| o.0 == c) {
                    Some((_, m)) => Node::InTurn((band, m), Box::new(made)),
                    None => made,
                }
            }
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
        let own = units.iter().find_map(of).unwrap_or_else(|| "c".to_string());
        if self.rest { Role::Rest.of(own) } else { own }
    }

    /// A member of a unit in new dimensions.
    fn value(&self, m: &super::Member, unit: usize, rows: &[(Lin, Lin)]) -> Option<Lin> {
        let u = &self.s.units[unit];
        let own = u.iters.iter().zip(&u.columns).map(|(b, c)| (b.id, *c)).collect();
        let row = self.s.context.lin(m.rows.get(&unit)?, &own)?;
        rows.iter().find(|r| r.0 == row).map(|r| r.1.clone())
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
    pub fn unit(&self, facts: &Facts, n: usize, p: UnitPath) -> Result<Option<UnitCode>, String> {
        let u = &self.s.units[n];
        let overflow = || "the coefficients grow too large".to_string();
        let (values, domain) = self.renamed(n, &p.rows)?;
        let cons: Conj = p.ties.iter().cloned().chain(domain).collect();
        let Some(whole) = facts.levels(&cons, &p.dims)? else { return Ok(None) };
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
            Some(all) => facts.levels(&all, &p.dims)?,
            None => None,
        };
        let iters =
            u.iters.iter().zip(&u.columns).map(|(b, c)| (b.id, to_expr(&values[c], &self.meaning))).collect();
        Ok(Some(UnitCode { dims: p.dims, cons, whole, full, iters }))
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
