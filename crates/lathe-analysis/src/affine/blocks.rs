//! Blocked algorithms (Demmel, *Applied Numerical Linear Algebra*, 1997, section 2.6; the name in LAPACK): one member
//! of a band runs in blocks, and in each block, what the block itself needs runs first, and all that is left, an update
//! by the whole block, last.
//!
//! For LU, let `k` be the member that is summed over. No iteration has `i < k` or `j < k`, so that a block of `k` has
//! parts: the block itself (`i` and `j` in it), its rows (`j` beyond it), its columns (`i` beyond it), and the rest, where both
//! are beyond it. The rest is a product of two matrices that the other parts have finished. Tiles of a permutable band
//! may run in this order: the cuts are hyperplanes, and no dependence goes backwards along a member.

use super::dependences::Dependence;
use super::distribute::{among, circles, restricted};
use super::project::Facts;
use super::{Member, Schedule, Tree, Unit};
use crate::system::{Col, Con, Conj, Lin};
use std::collections::HashMap;

/// Which units of the new schedule a unit became, with the part that each is in.
type Copies = HashMap<usize, Vec<(usize, usize)>>;

/// Members that are cut, each of which doubles the parts.
const MOST: usize = 3;

struct Maker<'s> {
    s: &'s Schedule,
    width: i64,
    units: Vec<Unit>,
    copies: Copies,
    /// The member in blocks, and those that are cut.
    found: Option<(Member, Vec<Member>)>,
}

/// The schedule with a member of a permutable band, which bands are counted as in [`Schedule::directions`], in blocks.
/// `None` if no other member is beyond it everywhere.
pub(super) fn blocked(s: &Schedule, band: usize, member: usize, width: i64) -> Option<Schedule> {
    let all: Vec<usize> = (0..s.units.len()).collect();
    let mut m = Maker { s, width, units: s.units.clone(), copies: HashMap::new(), found: None };
    let tree = m.tree(&s.tree, (band, member), &all, &mut 0)?;
    let dependences = s.dependences.iter().flat_map(|d| m.dependences(d)).collect();
    let mut out = Schedule { units: m.units, tree, dependences, ..s.clone() };
    out.mark();
    Some(out)
}

impl Maker<'_> {
    fn tree(
        &mut self,
        t: &Tree,
        (band, member): (usize, usize),
        inside: &[usize],
        bands: &mut usize,
    ) -> Option<Tree> {
        match t {
            Tree::Leaf | Tree::Blocks { .. } => None,
            Tree::Sequence(parts) => {
                let mut out = parts.clone();
                for (units, part) in &mut out {
                    if let Some(new) = self.tree(part, (band, member), units, bands) {
                        *part = new;
                        *units = units.iter().flat_map(|u| self.now(*u)).collect();
                        return Some(Tree::Sequence(out));
                    }
                }
                None
            }
            Tree::Band { members, permutable, child } => {
                let here = *bands;
                *bands += 1;
                if here == band {
                    return permutable.then(|| self.blocks(members, member, child, inside))?;
                }
                let child = Box::new(self.tree(child, (band, member), inside, bands)?);
                let members = members.iter().map(|m| self.renamed(m)).collect();
                Some(Tree::Band { members, permutable: *permutable, child })
            }
        }
    }

    /// What a unit is now.
    fn now(&self, unit: usize) -> Vec<usize> {
        self.copies.get(&unit).map_or(vec![unit], |all| all.iter().map(|c| c.0).collect())
    }

    fn renamed(&self, m: &Member) -> Member {
        let rows = m.rows.iter().flat_map(|(u, r)| self.now(*u).into_iter().map(move |n| (n, r.clone())));
        Member { rows: rows.collect(), ..m.clone() }
    }

    fn row(&self, m: &Member, unit: usize, columns: &[Col]) -> Option<Lin> {
        let own = self.s.units[unit].iters.iter().zip(columns).map(|(b, c)| (b.id, *c)).collect();
        self.s.context.lin(m.rows.get(&unit)?, &own)
    }

    fn blocks(&mut self, members: &[Member], member: usize, child: &Tree, inside: &[usize]) -> Option<Tree> {
        let s = self.s;
        let beyond = |m: &Member| {
            inside.iter().all(|u| {
                let unit = &s.units[*u];
                let row = |m: &Member| self.row(m, *u, &unit.columns);
                let far = row(m).zip(row(&members[member])).and_then(|(a, b)| a.minus(&b));
                let columns = first_free(&unit.domain, s.context.columns);
                let facts = Facts::new(&s.context, columns);
                far.is_some_and(|lin| facts.implies(&unit.domain, &Con { lin, eq: false }))
            })
        };
        let cuts: Vec<Member> = members
            .iter()
            .enumerate()
            .filter(|m| m.0 != member && beyond(m.1))
            .map(|m| m.1.clone())
            .collect();
        if cuts.is_empty() || cuts.len() > MOST {
            return None;
        }
        let by = (members[member].clone(), cuts.clone());
        let mut parts: Vec<(usize, HashMap<usize, usize>)> = Vec::new();
        for place in 0..1usize << cuts.len() {
            let mut here = HashMap::new();
            for u in inside {
                let unit = &s.units[*u];
                let t = first_free(&unit.domain, s.context.columns);
                let mut cons = unit.domain.clone();
                cons.extend(self.part(&by, place, *u, &unit.columns, t)?);
                if Facts::new(&s.context, t + 1).impossible(&cons) {
                    continue;
                }
                let known = self.copies.entry(*u).or_default();
                let new = if known.is_empty() { *u } else { self.units.len() };
                known.push((new, place));
                if new != *u {
                    self.units.push(unit.clone());
                }
                here.insert(*u, new);
            }
            parts.push((place, here));
        }
        self.found = Some(by.clone());
        let (mut places, mut sequence) = (Vec::new(), Vec::new());
        for (place, here) in parts {
            // The updates are nests of their own, unless they wait for one another.
            let all: Vec<usize> = inside.iter().copied().filter(|u| here.contains_key(u)).collect();
            let waits = |a: usize, b: usize| {
                a != b && s.dependences.iter().any(|d| (d.from, d.to) == (a, b) && self.meets(d, &by, place))
            };
            let groups = match place == last(cuts.len()) {
                true => circles(&all, &waits),
                false => vec![all],
            };
            for group in groups.into_iter().filter(|g| !g.is_empty()) {
                let one = |m: &Member| {
                    let m = among(m, &group);
                    Member { rows: m.rows.into_iter().map(|(u, r)| (here[&u], r)).collect(), ..m }
                };
                let band = Tree::Band {
                    members: members.iter().map(one).collect(),
                    permutable: true,
                    child: Box::new(numbered(&restricted(child, &group), &here)),
                };
                places.push(place);
                sequence.push((group.iter().map(|u| here[u]).collect(), band));
            }
        }
        Some(Tree::Blocks {
            member: self.renamed(&members[member]),
            width: self.width,
            cuts: cuts.iter().map(|c| self.renamed(c)).collect(),
            places,
            child: Box::new(Tree::Sequence(sequence)),
        })
    }

    /// What holds in a part of block `t`.
    fn part(
        &self,
        (member, cuts): &(Member, Vec<Member>),
        place: usize,
        unit: usize,
        columns: &[Col],
        t: Col,
    ) -> Option<Conj> {
        let values = cuts.iter().map(|c| self.row(c, unit, columns)).collect::<Option<Vec<Lin>>>()?;
        part(&self.row(member, unit, columns)?, self.width, &values, place, t)
    }

    /// Whether a dependence has instances within one part of one block.
    fn meets(&self, d: &Dependence, by: &(Member, Vec<Member>), place: usize) -> bool {
        d.when.iter().any(|when| {
            let t = first_free(when, self.s.context.columns);
            let ends = [(d.from, &d.columns.0), (d.to, &d.columns.1)];
            let both = ends.map(|(u, columns)| self.part(by, place, u, columns, t));
            let all: Conj = when.iter().cloned().chain(both.into_iter().flatten().flatten()).collect();
            !Facts::new(&self.s.context, t + 1).impossible(&all)
        })
    }

    /// The dependence between all that its units became and that run in the same part.
    fn dependences(&self, d: &Dependence) -> Vec<Dependence> {
        let (from, to) = (self.copies.get(&d.from), self.copies.get(&d.to));
        let (Some(from), Some(to), Some(by)) = (from, to, &self.found) else {
            let all = self.now(d.from).into_iter();
            let both = all.flat_map(|a| self.now(d.to).into_iter().map(move |b| (a, b)));
            return both.map(|(from, to)| Dependence { from, to, ..d.clone() }).collect();
        };
        let mut out = Vec::new();
        for (a, place) in from {
            for (b, _) in to.iter().filter(|x| x.1 == *place) {
                let mut new = Dependence { from: *a, to: *b, ..d.clone() };
                for when in &mut new.when {
                    let t = first_free(when, self.s.context.columns);
                    let first = self.part(by, *place, d.from, &d.columns.0, t);
                    let second = self.part(by, *place, d.to, &d.columns.1, t);
                    when.extend(first.into_iter().flatten().chain(second.into_iter().flatten()));
                }
                out.push(new);
            }
        }
        out
    }
}

/// The part where all of so many cuts are beyond the block.
pub fn last(cuts: usize) -> usize {
    (1 << cuts) - 1
}

/// What holds in a part of block `t` of so many values of a member, of those of the members that are cut: bit `n` of
/// `place` says whether the `n`-th one is beyond the block.
pub(super) fn part(member: &Lin, width: i64, cuts: &[Lin], place: usize, t: Col) -> Option<Conj> {
    let mut out = Conj::new();
    let inside = member.combine(1, &Lin::atom(t), -width)?;
    out.push(Con { lin: inside.clone(), eq: false });
    out.push(Con { lin: Lin::constant(width - 1).minus(&inside)?, eq: false });
    for (n, cut) in cuts.iter().enumerate() {
        let beyond = cut.combine(1, &Lin::atom(t), -width)?.offset(-width)?;
        let lin = if place >> n & 1 == 1 { beyond } else { beyond.scaled(-1)?.offset(-1)? };
        out.push(Con { lin, eq: false });
    }
    Some(out)
}

fn first_free(cons: &Conj, least: Col) -> Col {
    cons.iter().flat_map(|c| &c.lin.terms).map(|t| t.0 + 1).max().unwrap_or(0).max(least)
}

/// The tree with other numbers of units.
fn numbered(t: &Tree, now: &HashMap<usize, usize>) -> Tree {
    let of = |u: &usize| now.get(u).copied().unwrap_or(*u);
    match t {
        Tree::Leaf | Tree::Blocks { .. } => t.clone(),
        Tree::Sequence(parts) => Tree::Sequence(
            parts.iter().map(|(u, t)| (u.iter().map(of).collect(), numbered(t, now))).collect(),
        ),
        Tree::Band { members, permutable, child } => Tree::Band {
            members: members
                .iter()
                .map(|m| Member {
                    rows: m.rows.iter().map(|(u, r)| (of(u), r.clone())).collect(),
                    ..m.clone()
                })
                .collect(),
            permutable: *permutable,
            child: Box::new(numbered(child, now)),
        },
    }
}
