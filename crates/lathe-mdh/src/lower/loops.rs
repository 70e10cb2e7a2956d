//! The loops that partitionings become: their names, sizes and executors.

use super::Options;
use super::steps::{binary, call, int, name, named, unroll, unroll_partial, with};
use super::unsupported;
use crate::decisions::{Decisions, Level, Phase, at};
use crate::homomorphism::Shaped;
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Combine;
use lathe_ir::names::{self, Role};
use lathe_space::{BinOp, Expr, Value};
use lathe_strategy::{Argument, Strategy};
use lathe_transform::executors::CORES;

/// Who runs a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One part after the other.
    Memory,
    /// Written out: its parts live in registers.
    Register,
    Threads,
    /// Lanes of vectors, so many each. A register layer next to them is several vectors.
    Lanes(u64),
    /// Cores of a device, or several devices or machines: the executor's name in the tree.
    Cores(&'static str),
}

impl Kind {
    /// The depth of the finest cores.
    pub const FINEST: usize = 5;

    /// The cores that an executor of a model is; `parts` of them.
    pub fn of(executor: &str, parts: u64) -> Option<Kind> {
        Some(match executor {
            "cpu" => Kind::Threads,
            "vector" => Kind::Lanes(parts.next_power_of_two()),
            other => Kind::Cores(CORES.iter().find(|d| d.0 == other)?.0),
        })
    }

    /// How many kinds of cores these may lie in; none: they are not cores.
    pub fn depth(self) -> Option<usize> {
        match self {
            Kind::Memory | Kind::Register => None,
            Kind::Threads => Some(2),
            Kind::Lanes(_) => Some(Kind::FINEST),
            Kind::Cores(c) => CORES.iter().find(|d| d.0 == c).map(|d| d.1),
        }
    }

    pub fn is_core(self) -> bool {
        self.depth().is_some()
    }
}

/// A loop: the level that it is (none: rounds of partial tiles), and the indices in each of its parts.
#[derive(Clone, Debug)]
pub struct Digit {
    pub level: Option<Level>,
    pub dim: usize,
    pub parts: u64,
    pub tile: u64,
    pub name: String,
    pub kind: Kind,
}

impl Digit {
    pub fn in_registers(&self) -> bool {
        matches!(self.kind, Kind::Register | Kind::Lanes(_))
    }
}

/// All loops of a nest.
pub struct Loops {
    /// The label of the compute.
    pub label: String,
    /// Per dimension, coarse to fine; and the name of the loop that is split.
    pub dims: Vec<(String, Vec<Digit>)>,
    /// Whether the last tile of a dimension may be partial.
    pub partial: Vec<bool>,
    /// Sizes are constants.
    exact: bool,
    /// Names, outermost first.
    pub order: Vec<String>,
    reduced: Vec<bool>,
    /// Whether loops around the nest reduce, too: first values are written before all of it.
    pub reduces_outside: bool,
    /// Dimensions whose finer loops are outside of coarser ones, with the step that cuts them.
    remaps: Vec<(usize, Strategy)>,
}

impl Loops {
    /// # Errors
    /// E1222 where the order or the executors cannot be had, or belong to a device.
    pub fn of(
        h: &Shaped,
        m: &Model,
        d: &Decisions,
        o: &Options,
        order: &[Level],
    ) -> Result<Loops, Diagnostic> {
        let mut dims = Vec::new();
        for dim in 0..h.extents.len() {
            let name = &h.h.dims[dim].name;
            let base = o.inside.loops.get(name).unwrap_or(name);
            dims.push((base.clone(), digits(h, m, d, o, order, (dim, base))?));
        }
        let full = |(dim, (_, digits)): (usize, &(String, Vec<Digit>))| match digits.as_slice() {
            [] | [_] => o.exact,
            [first, ..] => o.exact && h.extents[dim].is_multiple_of(first.tile),
        };
        let partial = dims.iter().enumerate().map(|x| !full(x)).collect();
        let reduced: Vec<bool> = h.h.dims.iter().map(|d| matches!(d.combine, Combine::Reduce(_))).collect();
        let reduces_outside = o.inside.shared.as_ref().is_some_and(|s| reduced[s.0]);
        let mut out = Loops {
            label: h.h.name.clone(),
            dims,
            partial,
            exact: o.exact,
            order: Vec::new(),
            reduced,
            reduces_outside,
            remaps: Vec::new(),
        };
        out.invert(h, o, order)?;
        // Loops with one iteration and rounds are outermost.
        let inside = |d: &&(String, Vec<Digit>)| d.1.is_empty() && !o.inside.around.contains(&d.0);
        let single = out.dims.iter().filter(inside).map(|d| d.0.clone());
        let all = || out.dims.iter().flat_map(|d| &d.1);
        let rounds = all().filter(|d| d.level.is_none()).map(|d| d.name.clone());
        let levels = order.iter().filter_map(|l| all().find(|d| d.level == Some(*l))).map(|d| d.name.clone());
        out.order = single.chain(rounds).chain(levels).collect();
        out.one_vector();
        Ok(out)
    }

    /// Lanes in two directions are several vectors: those of the innermost level are vectors, the others are how many
    /// stand side by side.
    fn one_vector(&mut self) {
        let order = self.order.clone();
        let place = |d: &Digit| order.iter().position(|n| *n == d.name);
        let lanes = |d: &&Digit| matches!(d.kind, Kind::Lanes(_));
        let last = self.digits().filter(lanes).filter_map(place).max();
        let all = self.dims.iter_mut().flat_map(|d| &mut d.1);
        all.filter(|d| matches!(d.kind, Kind::Lanes(_)) && place(d) < last)
            .for_each(|d| d.kind = Kind::Register);
    }

    /// Where tiles are partial, the bounds of finer loops depend on coarser ones. Where finer ones are outside, the
    /// dimension is cut into loops of that order at once; its first index must be a number then.
    fn invert(&mut self, h: &Shaped, o: &Options, order: &[Level]) -> Result<(), Diagnostic> {
        let rank = |d: &Digit| d.level.and_then(|l| order.iter().position(|x| *x == l)).map_or(0, |r| r + 1);
        for (dim, (base, digits)) in self.dims.iter().enumerate().filter(|d| self.partial[d.0]) {
            if digits.windows(2).all(|w| rank(&w[0]) < rank(&w[1])) {
                continue;
            }
            let first = h.h.dims[dim].lo.as_int().or(o.exact.then_some(h.first[dim]));
            let Some(first) = first else {
                return unsupported(
                    &format!(
                        "R1 ranks finer levels of `{base}` outside of coarser ones, its tiles are partial, and its first index is not known"
                    ),
                    "rank the layers of this dimension from coarse to fine, or choose parts that divide",
                );
            };
            let index = binary(BinOp::Sub, name(&self.at(base)), Expr::Value(Value::Int(first)));
            let rows = digits.iter().map(|d| (rank(d), d.name.as_str(), d.tile)).collect();
            self.remaps.push((dim, remap(&index, rows)));
        }
        Ok(())
    }

    /// The loop of a dimension whose length is not known: the coarsest one.
    pub fn unbounded(&self, dim: usize) -> Option<&String> {
        let (base, digits) = self.dims.get(dim).filter(|_| !self.exact)?;
        Some(digits.first().map_or(base, |d| &d.name))
    }

    /// The innermost of the loops over rounds.
    pub fn last_round(&self) -> Option<String> {
        let round = |n: &&String| self.digits().any(|d| d.level.is_none() && d.name == **n);
        self.order.iter().rev().find(round).cloned()
    }

    /// `split` from coarse to fine, or `remap` into another order.
    pub fn cuts(&self) -> Vec<Strategy> {
        let mut out = Vec::new();
        for (dim, (base, digits)) in self.dims.iter().enumerate() {
            if let Some((_, remap)) = self.remaps.iter().find(|r| r.0 == dim) {
                out.push(remap.clone());
                continue;
            }
            let mut rest = base.clone();
            for (n, digit) in digits.iter().enumerate().take(digits.len().saturating_sub(1)) {
                let last = n + 2 == digits.len();
                let inner = if last { digits[n + 1].name.clone() } else { Role::Uncut.numbered(base, n + 1) };
                let args = vec![name(&self.at(&rest)), int(digit.tile), name(&digit.name), name(&inner)];
                out.push(call("split", args));
                rest = inner;
            }
        }
        out
    }

    /// The loop as a name that holds in this compute only.
    pub fn at(&self, l: &str) -> String {
        names::around(&self.label, l)
    }

    /// The loop around the initialization.
    pub fn at_init(&self, l: &str) -> String {
        names::around(Role::Init.of(&self.label), l)
    }

    pub fn digit(&self, level: Level) -> Option<&Digit> {
        self.dims.get(level.dim)?.1.iter().find(|d| d.level == Some(level))
    }

    pub fn digits(&self) -> impl DoubleEndedIterator<Item = &Digit> {
        self.dims.iter().flat_map(|d| &d.1)
    }

    /// How far the loops inside of one run along each dimension, of those that are wanted; none: all loops.
    pub fn inside(&self, l: Option<&str>, wanted: impl Fn(&Digit) -> bool) -> Vec<u64> {
        let from = l.and_then(|l| self.position(l));
        let mut tile = vec![1u64; self.dims.len()];
        for d in self.digits().filter(|d| self.position(&d.name) > from && wanted(d)) {
            tile[d.dim] = tile[d.dim].saturating_mul(d.parts);
        }
        tile
    }

    pub fn reduced(&self, dim: usize) -> bool {
        self.reduced[dim]
    }

    /// Whether a loop runs over a reduced dimension.
    pub fn reduces(&self, l: &str) -> bool {
        let of = |d: &(String, Vec<Digit>)| d.0 == l || d.1.iter().any(|x| x.name == l);
        self.dims.iter().position(of).is_some_and(|d| self.reduced[d])
    }

    pub fn position(&self, l: &str) -> Option<usize> {
        self.order.iter().position(|n| n == l)
    }

    /// The step that writes out a loop of partial tiles, so that their results stay in registers. Cores of devices go
    /// through such loops together; results that lanes share are in memory until the lanes are combined.
    pub fn write_out(&self, l: &str) -> Strategy {
        let elsewhere = |d: &Digit| match d.kind {
            Kind::Cores(_) => true,
            Kind::Lanes(_) => self.reduced[d.dim],
            _ => false,
        };
        if self.exact || self.digits().any(elsewhere) { unroll(l) } else { unroll_partial(l) }
    }

    /// The loop that the partial tiles of a loop depend on: the next coarser one.
    pub fn coarser(&self, d: &Digit) -> Option<&Digit> {
        let all = &self.dims[d.dim].1;
        let at = all.iter().position(|x| x.name == d.name)?;
        all.get(at.checked_sub(1)?)
    }

    /// Position of the outermost loop that is reduced; none where nothing is.
    fn first_reduced(&self) -> Option<usize> {
        let single = self.dims.iter().enumerate().filter(|d| d.1.1.is_empty() && self.reduced[d.0]);
        let single = single.filter_map(|d| self.position(&d.1.0));
        let levels = self.digits().filter(|d| self.reduced[d.dim]).filter_map(|d| self.position(&d.name));
        single.chain(levels).min()
    }

    /// How many loops are around all that is reduced.
    pub fn sums(&self) -> usize {
        self.first_reduced().unwrap_or(self.order.len())
    }

    /// Whether the initialization has a loop of that name of its own.
    pub fn own_init(&self, d: &Digit) -> bool {
        !self.reduced[d.dim]
            && self.first_reduced() < self.position(&d.name)
            && self.first_reduced().is_some()
    }

    /// The outermost of the reduced loops that lie directly around the one at a position.
    pub fn reduced_from(&self, position: usize) -> usize {
        (0..position).rev().take_while(|n| self.reduces(&self.order[*n])).last().unwrap_or(position)
    }

    /// The outermost reduced loop that holds nothing but reduced loops and loops in registers.
    pub fn innermost_reduction(&self) -> Option<&str> {
        let digit = |n: &str| self.digits().find(|d| d.name == n);
        let kept = |n: &&String| {
            digit(n).map_or_else(
                || self.dims.iter().position(|d| d.0 == **n).is_some_and(|k| self.reduced[k]),
                |d| self.reduced[d.dim] && d.kind != Kind::Threads || d.in_registers(),
            )
        };
        let tail: Vec<&String> = self.order.iter().rev().take_while(kept).collect();
        let reduced = |n: &&&String| digit(n).is_none_or(|d| self.reduced[d.dim]);
        tail.iter().rev().find(reduced).map(|n| n.as_str())
    }
}

/// Cuts an index, counted from 0, into loops of any order at once: rank, name, and size of the tiles, coarse to fine.
pub fn remap(index: &Expr, levels: Vec<(usize, &str, u64)>) -> Strategy {
    let part = |tile: u64| match tile {
        1 => index.clone(),
        t => binary(BinOp::FloorDiv, index.clone(), int(t)),
    };
    let mut rows: Vec<(usize, Argument)> = Vec::new();
    let mut coarser = None;
    for (rank, name, tile) in levels {
        let number = match coarser {
            Some(c) => {
                let before = binary(BinOp::Mul, part(c), int(c / tile));
                binary(BinOp::Sub, part(tile), before)
            }
            None => part(tile),
        };
        coarser = Some(tile);
        rows.push((rank, named(name, number)));
    }
    rows.sort_by_key(|r| r.0);
    with("remap", rows.into_iter().map(|r| r.1).collect())
}

fn digits(
    h: &Shaped,
    m: &Model,
    d: &Decisions,
    o: &Options,
    order: &[Level],
    (dim, base): (usize, &str),
) -> Result<Vec<Digit>, Diagnostic> {
    let tile = |from: usize| {
        (from..d.layers()).map(|layer| d.parts_at(Level { layer, dim })).fold(1, u64::saturating_mul)
    };
    let mut out: Vec<Digit> = Vec::new();
    for layer in 0..d.layers() {
        let level = Level { layer, dim };
        let parts = d.parts_at(level);
        if parts < 2 {
            continue;
        }
        let name = Role::Level.numbered(base, layer + 1);
        let kind = kind(m, d, Phase::Up, level)?;
        let mut digit = Digit { level: Some(level), dim, parts, tile: tile(layer + 1), name, kind };
        if let (Kind::Lanes(_), Some(last)) = (kind, out.last())
            && last.kind == Kind::Register
            && adjacent(m, d, order, last.level, level)
        {
            // Several vectors side by side are one loop, which `vectorize` cuts.
            digit.parts *= last.parts;
            out.pop();
        }
        out.push(digit);
    }
    let rounds = match out.first() {
        // Only a loop that needs no constant bounds may run over a size that is not known.
        Some(first) => tile(0) < h.extents[dim] || !o.exact && first.in_registers(),
        None => false,
    };
    if rounds {
        let name = Role::Rounds.of(base);
        out.insert(0, Digit { level: None, dim, parts: 0, tile: tile(0), name, kind: Kind::Memory });
    }
    if let [only] = out.as_mut_slice() {
        only.name = base.to_string();
    }
    Ok(out)
}

/// Whether nothing but registers and lanes lies between two levels.
fn adjacent(m: &Model, d: &Decisions, order: &[Level], a: Option<Level>, b: Level) -> bool {
    let Some(a) = a.and_then(|a| order.iter().position(|l| *l == a)) else { return false };
    let Some(b) = order.iter().position(|l| *l == b) else { return false };
    a < b
        && order[a..b]
            .iter()
            .filter(|l| d.parts_at(**l) > 1)
            .all(|l| matches!(kind(m, d, Phase::Up, *l), Ok(Kind::Register | Kind::Lanes(_))))
}

/// Who runs a level in a phase.
pub fn kind(m: &Model, d: &Decisions, phase: Phase, level: Level) -> Result<Kind, Diagnostic> {
    let layer = at(&d.steps(phase).assignment, level).map_or(0, |a| a.layer);
    let Some(core) = m.core(layer) else {
        let register = m.memories.get(layer).is_some_and(|m| m.space.as_deref() == Some("register"));
        return Ok(if register { Kind::Register } else { Kind::Memory });
    };
    match Kind::of(&core.executor, d.parts_at(level)) {
        Some(k) => Ok(k),
        None => unsupported(
            &format!("level {level} is executed by `{}` (`{}`)", core.layer, core.executor),
            "choose a model whose cores have executors of the tree",
        ),
    }
}

/// The copy of a loop for partial tiles in so many dimensions.
pub struct Rest(pub usize);

impl Rest {
    /// The name of the copy.
    pub fn of(&self, l: &str) -> String {
        (0..self.0).fold(l.to_string(), |l, _| Role::Rest.of(l))
    }
}
