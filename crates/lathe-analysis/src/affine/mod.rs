//! Affine schedules of nests (Feautrier, 1992; Bondhugula et al., 2008): the statements of a subtree with their
//! iterations and dependences, new dimensions for all of them from isl's scheduler, and loops over these.
//!
//! A **unit** is a largest part of the subtree without loops; all its instances are scheduled alike. [`schedule`] asks
//! isl for **bands** of new dimensions: any order of the members of a permutable band is legal, and so are tiles of it.
//! [`generate`] makes the loops. The result still has to be checked, like that of any other transformation.

mod blocks;
mod dependences;
mod dims;
mod distribute;
mod generate;
mod isl_schedule;
mod parameters;
pub(crate) mod project;
mod relations;
mod units;

use crate::env::{Env, Item};
use crate::system::{Col, Con, Conj, Lin};
use dependences::Dependence;
use lathe_ir::visit::Path;
use lathe_ir::{Access, Binder, BufId, Expr, Stmt, VarId};
use lathe_poly::Affine;
use std::collections::{BTreeMap, HashMap};

pub use blocks::last as last_part;
pub use dims::BandPlan;
pub use generate::generate;

/// Which statements are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuse {
    /// Maximal fusion that dependences allow.
    Max,
    /// Those that share values, unless that would serialize a parallel loop.
    Smart,
    /// Strongly connected components of the dependence graph.
    None,
}

/// A part of the subtree without loops.
#[derive(Clone, Debug)]
pub struct Unit {
    /// From the root of the subtree.
    pub path: Path,
    pub stmt: Stmt,
    /// The loops around it in the subtree, outermost first.
    pub iters: Vec<Binder>,
    /// Unknowns of the iterators, in the unit's own numbering.
    columns: Vec<Col>,
    /// The iterations, over the iterators and the surroundings.
    domain: Conj,
}

impl Unit {
    /// Forms that are 0 in every iteration. isl gives an iterator that one of them determines no row of its own.
    fn equalities(&self) -> Vec<Lin> {
        let mentioned = |l: &Lin| self.columns.iter().any(|c| l.coefficient(c) != 0);
        let all = &self.domain;
        // Two bounds may meet.
        let meets = |c: &Con| {
            c.eq || c.lin.scaled(-1).is_some_and(|opposite| all.iter().any(|d| !d.eq && d.lin == opposite))
        };
        all.iter().filter(|c| mentioned(&c.lin) && meets(c)).map(|c| c.lin.clone()).collect()
    }
}

/// One new dimension: for each unit under its band, a form over the unit's iterators and the surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub rows: BTreeMap<usize, Affine>,
    /// No dependence within the band is carried by it (coincident).
    pub coincident: bool,
    /// Carries some dependence that neither the other members nor the outer bands carry.
    pub alone: bool,
}

/// The steepest sides of diamonds that are tried.
const STEEPEST: i64 = 5;

/// The order of all units.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Band {
        members: Vec<Member>,
        permutable: bool,
        child: Box<Tree>,
    },
    /// Blocks of so many values of a member, and in each of them one part after the other: `child` is their sequence. Of
    /// the members in `cuts`, a part has the iterations where those are beyond the block whose bits `places` has, and the
    /// others are not.
    Blocks {
        member: Member,
        width: i64,
        cuts: Vec<Member>,
        places: Vec<usize>,
        child: Box<Tree>,
    },
    /// One part after the other, each with its units.
    Sequence(Vec<(Vec<usize>, Tree)>),
    Leaf,
}

/// What surrounds the subtree, as unknowns.
#[derive(Clone, Debug)]
struct Context {
    cons: Conj,
    clauses: Vec<Vec<Conj>>,
    columns: u32,
    meaning: HashMap<Col, Expr>,
    variables: HashMap<VarId, Col>,
}

impl Context {
    /// A form over variables of the surroundings, and over iterators by their columns.
    fn lin(&self, a: &Affine, own: &HashMap<VarId, Col>) -> Option<Lin> {
        let mut out = Lin::constant(a.constant);
        for (v, k) in &a.terms {
            let col = own.get(v).or_else(|| self.variables.get(v))?;
            out = out.combine(1, &Lin::atom(*col), *k)?;
        }
        Some(out)
    }
}

/// A band, with what is around it.
struct Band<'t> {
    members: &'t [Member],
    around: Vec<&'t Member>,
    units: Vec<usize>,
}

impl Band<'_> {
    /// The dependences between its units.
    fn inside<'d>(&self, all: &'d [Dependence]) -> impl Iterator<Item = &'d Dependence> {
        all.iter().filter(|d| self.units.contains(&d.from) && self.units.contains(&d.to))
    }
}

/// Units and their order.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub units: Vec<Unit>,
    pub tree: Tree,
    context: Context,
    dependences: Vec<Dependence>,
    /// The dimension along which local arrays of another layout than row-major lie in memory.
    innermost: HashMap<BufId, Option<usize>>,
}

/// A new order of the units of a subtree that keeps their dependences: outer dimensions as parallel, and dependences as
/// short, as isl can make them.
///
/// # Errors
/// A message: the nest is not affine, or isl gave up.
pub fn schedule(env: &Env, root: &Stmt, fuse: Fuse) -> Result<Schedule, String> {
    unscheduled(env, root)?.reordered(fuse)
}

/// The units of a subtree and their dependences, in no order yet ([`Schedule::reordered`]).
///
/// # Errors
/// A message: the nest is not affine.
pub fn unscheduled(env: &Env, root: &Stmt) -> Result<Schedule, String> {
    let (context, units) = units::collect(env, root)?;
    let dependences = dependences::dependences(&context, env, root, &units)?;
    let innermost = env.items.iter().filter_map(|i| match i {
        Item::Alloc(b) => Some((b.id, b.layout.innermost(b.extents.len()))),
        _ => None,
    });
    let innermost = innermost.collect();
    Ok(Schedule { units, tree: Tree::Leaf, context, dependences, innermost })
}

impl Schedule {
    /// The same units in the order of [`schedule`].
    ///
    /// # Errors
    /// A message: isl gave up.
    pub fn reordered(&self, fuse: Fuse) -> Result<Schedule, String> {
        // One unit is fused with nothing.
        let fuse = if self.units.len() > 1 { fuse } else { Fuse::Smart };
        let tree = isl_schedule::schedule(&self.context, &self.units, &self.dependences, fuse)?;
        let mut out = Schedule { tree, ..self.clone() };
        out.mark();
        Ok(out)
    }

    /// Which subscript of an access leads to the next element in memory.
    pub fn innermost(&self, a: &Access) -> Option<usize> {
        let known = a.view.buffer().and_then(|b| self.innermost.get(&b));
        known.copied().unwrap_or_else(|| a.indices.len().checked_sub(1))
    }

    /// Determines which members carry dependences on their own.
    fn mark(&mut self) {
        let all: Vec<usize> = (0..self.units.len()).collect();
        let mut tree = std::mem::replace(&mut self.tree, Tree::Leaf);
        dependences::carriers(
            &self.context,
            &self.units,
            &self.dependences,
            &mut tree,
            &all,
            &mut Vec::new(),
        );
        self.tree = tree;
    }

    /// The same with one member of a band, which bands are counted as in [`Schedule::directions`], as the innermost loop,
    /// and a loop of its own for all units that are not in one dependence cycle within it: loop distribution.
    /// `None` where it would stay one loop, or where the band allows no other order.
    pub fn distributed(&self, band: usize, member: usize) -> Option<Schedule> {
        let all: Vec<usize> = (0..self.units.len()).collect();
        let tree = distribute::distributed(self, &self.tree, (band, member), &all, &mut 0, &mut Vec::new())?;
        let mut out = Schedule { tree, ..self.clone() };
        out.mark();
        Some(out)
    }

    /// The same with one member of a band in blocks, each of which ends with an update of what is beyond it; the updates
    /// are nests of their own. `None` if no other member is beyond it everywhere.
    pub fn blocked(&self, band: usize, member: usize, width: i64) -> Option<Schedule> {
        blocks::blocked(self, band, member, width)
    }

    /// The same with one member of a band, which bands are counted as in [`Schedule::directions`], skewed by another one:
    /// in each of its iterations, the iterations of the other one lie so much further apart. A permutable band stays one.
    /// `None` where coefficients grow too large.
    pub fn skewed(&self, band: usize, member: usize, by: usize) -> Option<Schedule> {
        let mut out = self.clone();
        let members = members_of(&mut out.tree, &mut band.clone())?;
        let other = members.get(by)?.clone();
        let skewed = members.get_mut(member)?;
        for (unit, row) in &mut skewed.rows {
            *row = row.plus(other.rows.get(unit)?, 1)?;
        }
        skewed.coincident &= other.coincident;
        out.mark();
        Some(out)
    }

    /// The same with a member of a band, which bands are counted as in [`Schedule::directions`], skewed and shifted so many times as
    /// far: rows of tiles then begin at multiples of that, as vectors in memory do. `None` where each iteration is not one step
    /// along one iterator, or where a dependence would go backwards.
    pub fn spread(&self, band: usize, member: usize, by: i64) -> Option<Schedule> {
        let mut out = self.clone();
        let spread = members_of(&mut out.tree, &mut band.clone())?.get_mut(member)?;
        for (u, row) in &mut spread.rows {
            let iters = &self.units[*u].iters;
            let step = self.directions(*u).remove(&(band, member))?;
            let mut moved = iters.iter().zip(&step).filter(|(_, k)| **k != 0);
            let (Some((along, 1)), None) = (moved.next(), moved.next()) else { return None };
            let rest = row.clone().without(&along.id);
            let own = rest.terms.iter().all(|t| iters.iter().any(|b| b.id == t.0));
            if !own || row.coefficient(&along.id) != 1 {
                return None;
            }
            *row = rest.scaled(by)?.plus(&Affine::atom(along.id), 1)?;
        }
        spread.coincident = false;
        out.mark();
        out.forward(band, member).then_some(out)
    }

    /// Whether a member of a band, which bands are counted as in [`Schedule::directions`], carries no dependence, within
    /// one iteration of all outer bands and of some other members: its iterations may run at the same time.
    pub fn independent(&self, band: usize, member: usize, fixed: &[usize]) -> bool {
        self.of_band(band).is_some_and(|b| {
            let others: Vec<&Member> =
                b.around.iter().copied().chain(fixed.iter().map(|m| &b.members[*m])).collect();
            let crosses =
                |d| dependences::crosses(&self.context, &self.units, d, &b.members[member], &others);
            b.inside(&self.dependences).all(|d| crosses(d) == Some(false))
        })
    }

    /// Whether no dependence goes backwards along a member of a band, those included that may be reordered.
    pub fn forward(&self, band: usize, member: usize) -> bool {
        self.of_band(band).is_some_and(|b| self.goes_forward(&b, &b.members[member]))
    }

    /// How many times a member of a band less another one makes a third one along which no dependence goes backwards either,
    /// at least twice: tiles of it and the other one are diamonds, and those of one row are independent from the beginning on,
    /// if dependences reach as far on both sides (Bandishti, Pananilath and Bondhugula, 2012).
    pub fn diamond(&self, band: usize, member: usize, other: usize) -> Option<i64> {
        let b = self.of_band(band)?;
        let (first, second) = (&b.members[member], &b.members[other]);
        (2..=STEEPEST).find(|times| {
            let row = |(u, r): (&usize, &Affine)| Some((*u, r.combine(*times, second.rows.get(u)?, -1)?));
            let rows: Option<BTreeMap<usize, Affine>> = first.rows.iter().map(row).collect();
            rows.is_some_and(|rows| self.goes_forward(&b, &Member { rows, ..first.clone() }))
        })
    }

    fn goes_forward(&self, b: &Band, member: &Member) -> bool {
        let back = |d| dependences::back(&self.context, &self.units, d, member, &b.around);
        b.inside(&self.dependences).all(|d| back(d) == Some(false))
    }

    /// Whether all iterations of one unit may run before those of the next one, along a member of a band within one
    /// iteration of all others: no dependence goes to an earlier one of these units.
    fn in_turn(&self, at: (usize, usize), units: &[usize]) -> bool {
        self.only(at, units, &|from, to| from <= to)
    }

    /// Whether that is so, and no unit depends on itself there: the iterations of each unit are lanes, if those of one run
    /// before those of the next.
    pub fn lanes_in_turn(&self, band: usize, member: usize, units: &[usize]) -> bool {
        self.only((band, member), units, &|from, to| from < to)
    }

    /// Whether all dependences between units within one iteration of all members but one go from places to places as given.
    fn only(
        &self,
        (band, member): (usize, usize),
        units: &[usize],
        allowed: &dyn Fn(usize, usize) -> bool,
    ) -> bool {
        self.of_band(band).is_some_and(|b| {
            let outer = b.members.iter().enumerate().filter(|m| m.0 != member).map(|m| m.1);
            let others: Vec<&Member> = b.around.iter().copied().chain(outer).collect();
            let place = |u: usize| units.iter().position(|v| *v == u);
            self.dependences.iter().all(|d| match (place(d.from), place(d.to)) {
                (Some(from), Some(to)) if !allowed(from, to) => {
                    dependences::stays(&self.context, &self.units, d, &others) == Some(false)
                }
                _ => true,
            })
        })
    }

    fn of_band(&self, band: usize) -> Option<Band<'_>> {
        fn find<'t>(
            t: &'t Tree,
            units: &[usize],
            left: &mut usize,
            around: &mut Vec<&'t Member>,
        ) -> Option<Band<'t>> {
            match t {
                Tree::Leaf => None,
                Tree::Sequence(parts) => parts.iter().find_map(|p| find(&p.1, &p.0, left, around)),
                Tree::Blocks { child, .. } => find(child, units, left, around),
                Tree::Band { members, child, .. } => {
                    if *left == 0 {
                        return Some(Band { members, around: around.clone(), units: units.to_vec() });
                    }
                    *left -= 1;
                    let outside = around.len();
                    around.extend(members);
                    let found = find(child, units, left, around);
                    around.truncate(outside);
                    found
                }
            }
        }
        let all: Vec<usize> = (0..self.units.len()).collect();
        find(&self.tree, &all, &mut band.clone(), &mut Vec::new())
    }

    /// How the iterators of a unit change from one iteration of a member to the next, the others fixed, by band (in
    /// the order of the tree) and member. Members that the outer ones determine change nothing.
    pub fn directions(&self, unit: usize) -> HashMap<(usize, usize), Vec<i64>> {
        let mut rows = Vec::new();
        self.rows(&self.tree, unit, &mut 0, &mut rows);
        let (iters, columns) = (&self.units[unit].iters, &self.units[unit].columns);
        let own = rows.iter().map(|r| iters.iter().map(|b| r.1.coefficient(&b.id)).collect());
        let equal = self.units[unit].equalities();
        let fixed = equal.iter().map(|l| columns.iter().map(|c| l.coefficient(c)).collect());
        let all: Vec<Vec<i64>> = own.chain(fixed).collect();
        let matrix = |chosen: &[usize]| -> Vec<Vec<i64>> { chosen.iter().map(|r| all[*r].clone()).collect() };
        let chosen = dims::independent(all.len(), &matrix);
        let mut out = HashMap::new();
        let Some((adjugate, det)) = crate::scan::invert(&matrix(&chosen)) else { return out };
        for (n, (at, _)) in rows.iter().enumerate() {
            let column = match chosen.iter().position(|c| *c == n) {
                Some(k) if chosen.len() == iters.len() => {
                    adjugate.iter().map(|r| r[k] * det.signum()).collect()
                }
                _ => vec![0; iters.len()],
            };
            out.insert(*at, column);
        }
        out
    }

    fn rows<'t>(
        &self,
        t: &'t Tree,
        unit: usize,
        bands: &mut usize,
        out: &mut Vec<((usize, usize), &'t Affine)>,
    ) {
        match t {
            Tree::Leaf => {}
            Tree::Sequence(parts) => parts.iter().for_each(|p| self.rows(&p.1, unit, bands, out)),
            Tree::Blocks { child, .. } => self.rows(child, unit, bands, out),
            Tree::Band { members, child, .. } => {
                let band = *bands;
                *bands += 1;
                let own =
                    members.iter().enumerate().filter_map(|(m, x)| Some(((band, m), x.rows.get(&unit)?)));
                out.extend(own);
                self.rows(child, unit, bands, out);
            }
        }
    }
}

/// The members of a band, which bands are counted as in [`Schedule::directions`].
fn members_of<'t>(t: &'t mut Tree, left: &mut usize) -> Option<&'t mut Vec<Member>> {
    match t {
        Tree::Leaf => None,
        Tree::Sequence(parts) => parts.iter_mut().find_map(|p| members_of(&mut p.1, left)),
        Tree::Blocks { child, .. } => members_of(child, left),
        Tree::Band { members, .. } if *left == 0 => Some(members),
        Tree::Band { child, .. } => {
            *left -= 1;
            members_of(child, left)
        }
    }
}
