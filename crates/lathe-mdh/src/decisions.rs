//! The 15 decisions of a (de/re)-composition (thesis, Table 1), each entry free or fixed.
//!
//! Layers, dimensions, ranks and regions count from 0 here, and from 1 in texts. **Orders** map levels to
//! ranks: rank 0 is outermost. The listings of the thesis use the inverse map, from positions to levels;
//! [`by_position`] and [`ranks_of`] convert.

use crate::homomorphism::{Homomorphism, Shaped};
use crate::model::Model;
use std::fmt;

/// A level of the computation: which of the nested partitionings, of which dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    pub layer: usize,
    pub dim: usize,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.layer + 1, self.dim + 1)
    }
}

/// A level of the model: one of its layers (memories first), and one of the dimensions that cores and memories
/// are imagined to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsmLevel {
    pub layer: usize,
    pub dim: usize,
}

/// One entry per level, `[layer][dim]`; none: left to the tuner.
pub type Table<T> = Vec<Vec<Option<T>>>;

/// When the levels are done, and their executors: D1 and D2, S1 and S2, R1 and R2.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    pub order: Table<usize>,
    pub assignment: Table<AsmLevel>,
}

/// Where each level reads or writes a buffer, and in which layout: D3 and D4, R3 and R4.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub buffer: String,
    pub region: Table<usize>,
    /// Permutations of the buffer's dimensions.
    pub layout: Table<Vec<usize>>,
}

/// Where the scalar function reads or writes a buffer: S3 and S4, S5 and S6.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    pub buffer: String,
    pub region: Option<usize>,
    pub layout: Option<Vec<usize>>,
}

/// The three phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Down,
    Scalar,
    Up,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Down, Phase::Scalar, Phase::Up];

    /// The letter of the phase's decisions.
    pub fn letter(self) -> char {
        match self {
            Phase::Down => 'D',
            Phase::Scalar => 'S',
            Phase::Up => 'R',
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    /// The parts of a dimension need not multiply to its extent: what is left over becomes partial tiles. If they
    /// multiply to less, the whole nest is repeated for the rest; if to more, the last tiles are truncated.
    pub partial_tiles: bool,
    /// 0: how many parts each level has.
    pub parts: Table<u64>,
    pub down: Steps,
    pub scalar: Steps,
    pub up: Steps,
    /// D3 and D4, one per input.
    pub reads: Vec<Placement>,
    /// S3 and S4, one per input.
    pub operands: Vec<Spot>,
    /// S5 and S6, one per output.
    pub results: Vec<Spot>,
    /// R3 and R4, one per output.
    pub writes: Vec<Placement>,
}

impl Decisions {
    /// Everything is left to the tuner.
    pub fn free(h: &Homomorphism, model: &Model) -> Decisions {
        fn table<T: Clone>(h: &Homomorphism, model: &Model) -> Table<T> {
            vec![vec![None; h.dims.len()]; model.layers()]
        }
        let steps = || Steps { order: table(h, model), assignment: table(h, model) };
        let placement = |o: &crate::Operand| Placement {
            buffer: o.name().to_string(),
            region: table(h, model),
            layout: table(h, model),
        };
        let spot = |o: &crate::Operand| Spot { buffer: o.name().to_string(), region: None, layout: None };
        Decisions {
            partial_tiles: false,
            parts: table(h, model),
            down: steps(),
            scalar: steps(),
            up: steps(),
            reads: h.inputs.iter().map(placement).collect(),
            operands: h.inputs.iter().map(spot).collect(),
            results: h.outputs.iter().map(spot).collect(),
            writes: h.outputs.iter().map(placement).collect(),
        }
    }

    /// The computation as it is written: one part everywhere but on the first memory layer, levels in
    /// lexicographic order, everything in the first memory, row by row.
    pub fn plain(h: &Shaped, model: &Model) -> Decisions {
        let mut d = Decisions::free(h.h, model);
        let dims = h.extents.len();
        for l in 0..model.layers() {
            for k in 0..dims {
                d.parts[l][k] = Some(if l == 0 { h.extents[k].max(1) } else { 1 });
                for p in Phase::ALL {
                    d.steps_mut(p).order[l][k] = Some(l * dims + k);
                    d.steps_mut(p).assignment[l][k] = Some(AsmLevel { layer: l, dim: k });
                }
            }
        }
        let operands = h.h.inputs.iter().chain(&h.h.outputs);
        for (p, o) in d.reads.iter_mut().chain(&mut d.writes).zip(operands.clone()) {
            p.region.iter_mut().flatten().for_each(|r| *r = Some(0));
            p.layout.iter_mut().flatten().for_each(|r| *r = Some((0..o.rank()).collect()));
        }
        for (s, o) in d.operands.iter_mut().chain(&mut d.results).zip(operands) {
            s.region = Some(0);
            s.layout = Some((0..o.rank()).collect());
        }
        d
    }

    pub fn layers(&self) -> usize {
        self.parts.len()
    }

    pub fn dims(&self) -> usize {
        self.parts.first().map_or(0, Vec::len)
    }

    /// All levels in lexicographic order.
    pub fn levels(&self) -> impl Iterator<Item = Level> + use<> {
        let (layers, dims) = (self.layers(), self.dims());
        (0..layers).flat_map(move |layer| (0..dims).map(move |dim| Level { layer, dim }))
    }

    pub fn steps(&self, p: Phase) -> &Steps {
        match p {
            Phase::Down => &self.down,
            Phase::Scalar => &self.scalar,
            Phase::Up => &self.up,
        }
    }

    pub fn steps_mut(&mut self, p: Phase) -> &mut Steps {
        match p {
            Phase::Down => &mut self.down,
            Phase::Scalar => &mut self.scalar,
            Phase::Up => &mut self.up,
        }
    }

    /// All phases do the levels in one order, outermost first, by one assignment of layers to layers of the model. False
    /// where the order is not one of all levels.
    pub(crate) fn do_alike(&mut self, order: &[Level], assigned: &[usize]) -> bool {
        let dims = self.dims();
        let Some(ranks) = ranks_of(order, self.layers(), dims) else { return false };
        let to = |layer: &usize| (0..dims).map(|dim| Some(AsmLevel { layer: *layer, dim })).collect();
        let assignment: Table<AsmLevel> = assigned.iter().map(to).collect();
        for p in Phase::ALL {
            *self.steps_mut(p) = Steps { order: ranks.clone(), assignment: assignment.clone() };
        }
        true
    }

    /// The parts of a level; 1 where they are free.
    pub fn parts_at(&self, l: Level) -> u64 {
        at(&self.parts, l).copied().unwrap_or(1)
    }

    /// Whether the three nests are one: D1 = S1 = R1 and D2 = S2 = R2.
    pub fn fused(&self) -> bool {
        self.down == self.scalar && self.scalar == self.up
    }

    /// Number of entries that are free.
    pub fn open(&self) -> usize {
        fn none<T>(t: &Table<T>) -> usize {
            t.iter().flatten().filter(|e| e.is_none()).count()
        }
        let steps = |s: &Steps| none(&s.order) + none(&s.assignment);
        let placement = |p: &Placement| none(&p.region) + none(&p.layout);
        let spot = |s: &Spot| usize::from(s.region.is_none()) + usize::from(s.layout.is_none());
        none(&self.parts)
            + Phase::ALL.iter().map(|p| steps(self.steps(*p))).sum::<usize>()
            + self.reads.iter().chain(&self.writes).map(placement).sum::<usize>()
            + self.operands.iter().chain(&self.results).map(spot).sum::<usize>()
    }

    /// Entries that are free here take the value that they have there.
    pub fn complete_from(&mut self, other: &Decisions) {
        fn fill<T: Clone>(t: &mut Table<T>, from: &Table<T>) {
            for (e, f) in t.iter_mut().flatten().zip(from.iter().flatten()) {
                if e.is_none() {
                    *e = f.clone();
                }
            }
        }
        fill(&mut self.parts, &other.parts);
        for p in Phase::ALL {
            let from = other.steps(p).clone();
            let s = self.steps_mut(p);
            fill(&mut s.order, &from.order);
            fill(&mut s.assignment, &from.assignment);
        }
        let placements = self.reads.iter_mut().chain(&mut self.writes);
        for (p, from) in placements.zip(other.reads.iter().chain(&other.writes)) {
            fill(&mut p.region, &from.region);
            fill(&mut p.layout, &from.layout);
        }
        let spots = self.operands.iter_mut().chain(&mut self.results);
        for (s, from) in spots.zip(other.operands.iter().chain(&other.results)) {
            s.region = s.region.or(from.region);
            s.layout = s.layout.clone().or_else(|| from.layout.clone());
        }
    }
}

/// The entry of a level, if it is fixed.
pub fn at<T>(t: &Table<T>, l: Level) -> Option<&T> {
    t.get(l.layer)?.get(l.dim)?.as_ref()
}

/// The levels in the order of their ranks, outermost first: the inverse of an order. None where the order is
/// incomplete or no permutation.
pub fn by_position(order: &Table<usize>) -> Option<Vec<Level>> {
    let n = order.iter().map(Vec::len).sum();
    let mut out = vec![None; n];
    for (layer, row) in order.iter().enumerate() {
        for (dim, rank) in row.iter().enumerate() {
            let place = out.get_mut((*rank)?)?;
            if place.replace(Level { layer, dim }).is_some() {
                return None;
            }
        }
    }
    out.into_iter().collect()
}

/// The ranks of levels that are given in order, outermost first. None where they are not a permutation of all.
pub fn ranks_of(positions: &[Level], layers: usize, dims: usize) -> Option<Table<usize>> {
    let mut out: Table<usize> = vec![vec![None; dims]; layers];
    for (rank, l) in positions.iter().enumerate() {
        if out.get_mut(l.layer)?.get_mut(l.dim)?.replace(rank).is_some() {
            return None;
        }
    }
    (positions.len() == layers * dims).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_convert_both_ways() {
        let l = |layer, dim| Level { layer, dim };
        let positions = vec![l(1, 0), l(0, 1), l(0, 0), l(1, 1)];
        let ranks = ranks_of(&positions, 2, 2).unwrap();
        assert_eq!(ranks, vec![vec![Some(2), Some(1)], vec![Some(0), Some(3)]]);
        assert_eq!(by_position(&ranks).unwrap(), positions);
        assert_eq!(ranks_of(&positions[..3], 2, 2), None);
        assert_eq!(ranks_of(&[l(0, 0), l(0, 0), l(0, 1), l(1, 1)], 2, 2), None);
        assert_eq!(by_position(&vec![vec![Some(0), Some(0)]]), None);
        assert_eq!(by_position(&vec![vec![Some(7), None]]), None);
    }
}
