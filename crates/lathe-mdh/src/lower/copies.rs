//! Copies: which buffers are copied where, in which layout, and the executors of the copying loops.

use super::Options;
use super::hierarchy::owner;
use super::loops::{Digit, Kind, Loops, Rest};
use super::results::{Results, Split};
use super::steps::{attempt, call, data, name, named, split, truth, unroll, vectorize, with, word};
use super::unsupported;
use crate::codes;
use crate::decisions::{Decisions, Level};
use crate::footprint::{Allocation, bytes};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::view::Operand;
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::{self, Role};
use lathe_ir::{Combine, Space};
use lathe_space::Expr;
use lathe_strategy::{Argument, Strategy};

/// One copy of a buffer.
pub struct Copy {
    /// What is copied: the caller's array or another copy.
    from: String,
    made: String,
    space: &'static str,
    /// The loop in whose body it is made; none: around the outermost one.
    at: Option<String>,
    /// A loop further outside that it is made around.
    around: Option<String>,
    /// Permutation of the buffer's dimensions; one that is named twice is cut into the tiles of the registers.
    layout: Vec<usize>,
    /// Per dimension of the buffer that is cut: the size of the tiles and the dimension of the computation.
    blocks: Vec<Option<(u64, usize)>>,
    operand: usize,
    output: bool,
}

pub struct Copies {
    all: Vec<Copy>,
    /// What cores combine: before how many of the copies, from which array, and of how many dimensions.
    splits: Vec<(usize, Split, String, usize)>,
    /// Per input: the dimensions of the computation that its subscripts mention.
    uses: Vec<Vec<bool>>,
    partial: Vec<bool>,
}

impl Copies {
    /// Outermost first, per buffer. Placing it in a cache copies nothing; another layout, or a region that is
    /// written by hand, does.
    ///
    /// # Errors
    /// E1222 for regions of devices, and for layouts that cut what has no tiles.
    pub fn of(
        h: &Shaped,
        model: &Model,
        d: &Decisions,
        loops: &Loops,
        (down, up): (&[Level], &[Level]),
        all: &[Allocation],
        results: Results,
    ) -> Result<Copies, Diagnostic> {
        let depends = |o: &Operand, k: usize| {
            o.accesses.iter().flat_map(|a| &a.subscripts).any(|s| s.coefficients[k] != 0)
        };
        let uses = h.h.inputs.iter().map(|o| (0..h.extents.len()).map(|k| depends(o, k)).collect());
        let mut out = Copies {
            all: Vec::new(),
            splits: Vec::new(),
            uses: uses.collect(),
            partial: loops.partial.clone(),
        };
        let scans = h.h.dims.iter().any(|d| matches!(d.combine, Combine::Scan(_)));
        let by_lanes = results.by_lanes;
        let mut splits = results.splits.into_iter().peekable();
        let around = |a: &Allocation, order: &[Level]| {
            order[..a.rank].iter().rev().find_map(|l| {
                let merged = || loops.digits().find(|x| x.in_registers() && x.dim == l.dim);
                let own = loops.digit(*l);
                own.or_else(|| merged().filter(|_| d.parts_at(*l) > 1)).map(|x| x.name.clone())
            })
        };
        for (n, o) in h.h.operands().enumerate() {
            let output = n >= h.h.inputs.len();
            let around = |a: &Allocation| around(a, if output { up } else { down });
            let operand = if output { n - h.h.inputs.len() } else { n };
            let place = |at: &Option<String>| at.as_ref().and_then(|n| loops.position(n));
            let mut mine: Vec<Copy> = Vec::new();
            let plain: Vec<usize> = (0..o.rank()).collect();
            let (mut layout, mut region) = (plain.clone(), 0);
            let own: Vec<&Allocation> = all.iter().filter(|a| a.buffer == o.name()).collect();
            for (n, a) in own.iter().enumerate() {
                // Of several copies in one loop only the last one is used.
                let overtaken = own.get(n + 1).is_some_and(|next| around(next) == around(a));
                let explicit = !model.memories[a.region].implicit && a.region != region;
                if overtaken || (!explicit && a.layout == layout) {
                    continue;
                }
                region = a.region;
                layout = a.layout.clone();
                let space = model.memories[a.region].space.as_deref();
                let space = space.and_then(Space::from_name).unwrap_or(Space::Host).name();
                // Partial results of lanes are in registers as they are.
                if output && by_lanes {
                    continue;
                }
                let at = match space {
                    "register" | "stack" | "shared" => bounded(around(a), loops, |k| depends(o, k)),
                    _ => around(a),
                };
                let (at, moved) = owned(model, a.region, at, loops)?;
                if moved {
                    fits(h, model, o, a.region, at.as_ref(), loops, output)?;
                }
                // Inside of what a scan reduces there is only its running value.
                if output && scans && at.as_ref().and_then(|n| loops.position(n)) >= Some(loops.sums()) {
                    continue;
                }
                // Registers hold one round.
                let at = at.or_else(|| loops.last_round().filter(|_| space == "register"));
                if at.is_none() && loops.order.is_empty() {
                    return unsupported("a copy of a single element", "leave it where it is");
                }
                let made = Role::Moved.numbered(names::around(o.name(), &h.h.name), n + 1);
                // What moved inside of a later copy is not used any more.
                while mine.last().is_some_and(|last| place(&last.at) >= place(&at)) {
                    mine.pop();
                }
                let blocks = blocks(o, &layout, loops)?;
                let from = String::new();
                let layout = layout.clone();
                mine.push(Copy { from, made, space, at, around: None, layout, blocks, operand, output });
            }
            let mut here = o.name().to_string();
            // Partial results that live around a copy have dimensions of their own before those of the results.
            let mut more = 0;
            let mut split = |until: Option<usize>, here: &mut String, copies: usize, more: &mut usize| {
                while let Some(s) = splits.next_if(|s| until.is_none_or(|p| s.position <= p)) {
                    let from = std::mem::replace(here, s.made.clone());
                    out.splits.push((copies, s, from, o.rank() + *more));
                    *more += 1;
                }
            };
            for mut c in mine {
                if let Some(p) = place(&c.at).filter(|_| output && operand == 0) {
                    split(Some(p), &mut here, out.all.len(), &mut more);
                }
                c.layout = (0..more).chain(c.layout.iter().map(|k| k + more)).collect();
                c.blocks = std::iter::repeat_n(None, more).chain(c.blocks).collect();
                c.from = std::mem::replace(&mut here, c.made.clone());
                out.all.push(c);
            }
            if output && operand == 0 {
                split(None, &mut here, out.all.len(), &mut more);
            }
        }
        Ok(out)
    }

    /// What all parts of a larger computation use is copied for all of them.
    pub fn share(&mut self, options: &Options) {
        let Some((dim, at)) = &options.inside.shared else { return };
        for c in self.all.iter_mut().filter(|c| !c.output && c.space == "host") {
            if !self.uses[c.operand][*dim] {
                (c.at, c.around) = (None, Some(at.clone()));
            }
        }
    }

    pub fn stage(&self, loops: &Loops, out: &mut Vec<Strategy>) {
        let splits = |n: usize, out: &mut Vec<Strategy>| {
            for (_, s, from, rank) in self.splits.iter().filter(|s| s.0 == n) {
                s.steps(from, *rank, loops, out);
            }
        };
        for (n, c) in self.all.iter().enumerate() {
            splits(n, out);
            let place = c.around.as_ref().or(c.at.as_ref()).or(loops.order.first());
            let place = place.map_or(String::new(), |l| loops.at(l));
            let mut args = vec![
                Argument::positional(name(&c.from)),
                named("at", name(&place)),
                word("space", c.space),
                word("name", &c.made),
            ];
            args.extend(c.steps().into_iter().map(|s| named("layout", s)));
            // Results that are copied in and out, and run in full tiles.
            let whole = c.output && c.space == "register" && !c.holds_init(loops);
            let room = c.blocks.iter().flatten().any(|b| self.partial[b.1]);
            if (room && !c.output) || (whole && self.partial.contains(&true)) {
                args.push(truth("pad"));
            }
            out.push(with(if c.at.is_some() { "stage" } else { "accumulate" }, args));
        }
        splits(self.all.len(), out);
    }

    pub fn of_input(&self, n: usize) -> bool {
        self.all.iter().any(|c| !c.output && c.operand == n)
    }

    pub fn outputs(&self) -> impl Iterator<Item = &Copy> {
        self.all.iter().filter(|c| c.output)
    }

    /// Results that registers take from memory and give back for each block of a sum, by their number, with the loop over their tiles.
    pub fn resumed<'c>(&'c self, loops: &'c Loops) -> impl Iterator<Item = (usize, &'c str)> {
        let tiles = |c: &&Copy| c.space == "register" && !c.holds_init(loops);
        self.outputs().filter(tiles).filter_map(|c| Some((c.operand, c.at.as_deref()?)))
    }

    /// Inputs that are copied to memory of the host: their numbers, the names of the copies, and the loops that they are made in.
    pub fn packed(&self) -> impl Iterator<Item = (usize, &str, Option<&str>)> {
        let packed = self.all.iter().filter(|c| !c.output && c.space == "host");
        packed.map(|c| (c.operand, c.made.as_str(), c.around.as_deref().or(c.at.as_deref())))
    }

    /// Whether the initialization lies inside of the loop that results are copied in last.
    pub fn init_inside(&self, loops: &Loops) -> bool {
        self.outputs().last().is_some_and(|c| c.holds_init(loops))
    }

    /// Whether a full tile may run where a partial one would: what it writes is a copy, and so is what it reads.
    pub fn have_room(&self, loops: &Loops, d: &Digit) -> bool {
        let copied = |n: usize| {
            let last = self.all.iter().rfind(|c| !c.output && c.operand == n);
            last.is_some_and(|c| c.blocks.iter().flatten().any(|b| b.1 == d.dim))
        };
        !loops.reduced(d.dim)
            && self.outputs().any(|c| c.space == "register")
            && self.uses.iter().enumerate().all(|(n, dims)| !dims[d.dim] || copied(n))
    }

    /// The loops that copy: by vectors, and by threads where none are outside.
    pub fn run(&self, h: &Shaped, loops: &Loops, options: &Options, rests: &[Rest], out: &mut Vec<Strategy>) {
        for c in &self.all {
            let o = if c.output { &h.h.outputs[c.operand] } else { &h.h.inputs[c.operand] };
            let Some(last) = o.rank().checked_sub(1) else { continue };
            let bytes = o.buffer.elem.scalar().map_or(0, |s| s.bytes());
            let device = loops.digits().any(|d| matches!(d.kind, Kind::Cores(_)));
            let width = if bytes == 0 || device { 1 } else { options.machine.lanes(bytes) };
            let label = names::copy_of(&c.from);
            if c.space == "register" {
                // No wider than the tile: vectors that are masked would take it out of the registers.
                let width = width.min(c.along(o, last, loops).next_power_of_two());
                // Lanes whose results lie apart are stored one by one.
                let apart = c.layout.last().is_some_and(|k| k + 1 < c.layout.len());
                let out_of = Role::Out.of(&label);
                let in_and_out: Vec<&str> =
                    if self.init_inside(loops) { vec![&out_of] } else { vec![&label, &out_of] };
                let parts = |l: String| {
                    let copies = rests.iter().map(|r| r.of(&l)).collect::<Vec<_>>();
                    std::iter::once(l).chain(copies)
                };
                for l in in_and_out.into_iter().filter(|_| c.output) {
                    let along = |k: usize| parts(names::dimension(l, k)).map(move |part| (k, part));
                    for (k, part) in (0..o.rank()).flat_map(along) {
                        out.push(attempt(if k == last && width > 1 && !apart {
                            let (lanes, vectors) = vectorize(&part, width);
                            Strategy::Seq(vec![lanes, attempt(unroll(&vectors.outer))])
                        } else {
                            unroll(&part)
                        }));
                    }
                }
                continue;
            }
            out.push(attempt(c.packing(&label, last, width)));
            let threads =
                loops.digits().find(|d| d.kind == Kind::Threads).and_then(|d| loops.position(&d.name));
            let outside = c.at.as_ref().and_then(|at| loops.position(at)) < threads;
            if let Some(k) = (0..o.rank()).find(|k| self.extent(h, o, *k) > 1).filter(|_| outside) {
                out.push(attempt(call("parallel", vec![name(&names::dimension(&label, k))])));
            }
            // All threads of a block copy what they share.
            if c.space == "shared"
                && let Some((cores, threads)) = block(loops)
            {
                let (cut, rounds) = split(&names::dimension(&label, last), threads);
                let share = call("bind", vec![name(&rounds.inner), name(cores)]);
                out.push(attempt(Strategy::Seq(vec![cut, share])));
            }
        }
    }

    fn extent(&self, h: &Shaped, o: &Operand, k: usize) -> u64 {
        o.range(k, &h.first, &h.extents, &h.sizes).map_or(0, |(lo, hi)| hi.abs_diff(lo) + 1)
    }
}

impl Copy {
    pub fn operand_name<'a>(&self, h: &'a Shaped) -> &'a str {
        h.h.outputs[self.operand.min(h.h.outputs.len() - 1)].name()
    }

    /// How much of a dimension the loops run through inside of the one that this is made in.
    fn along(&self, o: &Operand, k: usize, loops: &Loops) -> u64 {
        let runs = |d: &Digit| o.accesses.iter().any(|a| a.subscripts[k].coefficients[d.dim] != 0);
        loops.inside(self.at.as_deref(), runs).into_iter().fold(1, u64::saturating_mul)
    }

    /// Whether the initialization lies inside of the loop that this is made in.
    fn holds_init(&self, loops: &Loops) -> bool {
        let Some(at) = self.at.as_deref() else { return false };
        let mut around = loops.order.iter().map(String::as_str).take_while(|n| *n != at).chain([at]);
        !loops.reduces_outside && around.all(|n| !loops.reduces(n))
    }

    /// The steps of the layout.
    fn steps(&self) -> Vec<Expr> {
        // The positions of the parts of each dimension, once tiles are cut.
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut out = Vec::new();
        let mut next = 0;
        for b in &self.blocks {
            let n = 1 + usize::from(b.is_some());
            if let Some((size, _)) = b {
                out.push(data("tile", [next, *size as usize]));
            }
            parts.push((next..next + n).collect());
            next += n;
        }
        let order: Vec<usize> = self.layout.iter().map(|k| parts[*k].remove(0)).collect();
        if order.iter().enumerate().any(|(n, k)| n != *k) {
            out.push(data("permute", order));
        }
        out
    }

    /// Vectors along what is contiguous in the source; where the copy has something else innermost, square
    /// blocks are transposed.
    fn packing(&self, label: &str, last: usize, width: u64) -> Strategy {
        let (lanes, along) = vectorize(&names::dimension(label, last), width);
        let lanes = lanes.separated();
        let inner = self.layout.last().copied().unwrap_or(last);
        match self.blocks.get(inner).copied().flatten() {
            _ if width < 2 => Strategy::Id,
            Some((size, _)) if inner != last => {
                let (cut, across) = split(&names::dimension(label, inner), size);
                let order = [&across.outer, &along.outer, &along.inner, &across.inner];
                Strategy::Seq(vec![
                    cut,
                    call("separate", vec![name(&across.outer)]),
                    lanes,
                    call("reorder", order.map(|l| name(l)).to_vec()),
                    unroll(&across.inner),
                ])
            }
            // Addresses in panels are divisions of what they are addressed by, which lanes would do each for itself: the loop
            // is cut where panels are.
            Some((size, _)) if size != width => {
                let (cut, panels) = split(&names::dimension(label, last), size);
                let each = |l: &str| {
                    let (lanes, vectors) = vectorize(l, width.min(size.next_power_of_two()));
                    let lanes = if size < width { lanes } else { lanes.separated() };
                    Strategy::Seq(vec![lanes, attempt(unroll(&vectors.outer))])
                };
                Strategy::Seq(vec![
                    cut,
                    attempt(call("separate", vec![name(&panels.outer)])),
                    each(&panels.inner),
                    attempt(each(&Role::Rest.of(&panels.inner))),
                ])
            }
            _ => lanes,
        }
    }
}

/// The finest cores of a device that share memory, and how many there are.
fn block(loops: &Loops) -> Option<(&'static str, u64)> {
    let cores = loops.digits().filter(|d| d.kind.depth() > owner_of_shared());
    let mut name = None;
    let mut count = 1u64;
    for d in cores {
        if let Kind::Cores(c) = d.kind {
            name = Some(c);
            count = count.saturating_mul(d.parts);
        }
    }
    name.map(|n| (n, count))
}

/// Blocks have shared memory.
fn owner_of_shared() -> Option<usize> {
    Kind::of("grid", 1)?.depth()
}

/// The loop that a copy is made in, so that it has a constant size: inside of all loops that are as long as a size
/// that is not known, and that run through what is copied.
fn bounded(at: Option<String>, loops: &Loops, used: impl Fn(usize) -> bool) -> Option<String> {
    let place = |n: &String| loops.position(n);
    let free = (0..loops.dims.len()).filter(|k| used(*k)).filter_map(|k| loops.unbounded(k));
    free.chain(at.as_ref()).filter(|n| place(n).is_some()).max_by_key(|n| place(n)).cloned()
}

/// The loop that a copy is made in, so that whoever owns the region makes it: inside of all loops of these cores and
/// coarser ones, outside of finer ones; and whether that is further outside than it was decided.
fn owned(
    model: &Model,
    region: usize,
    at: Option<String>,
    loops: &Loops,
) -> Result<(Option<String>, bool), Diagnostic> {
    let Some(owner) =
        owner(model, region).filter(|_| loops.digits().any(|d| matches!(d.kind, Kind::Cores(_))))
    else {
        return Ok((at, false));
    };
    let depth = |n: &String| loops.digits().find(|d| d.name == *n).and_then(|d| d.kind.depth());
    let inside = loops.order.iter().rposition(|n| depth(n).is_some_and(|d| d <= owner));
    let here = at.as_ref().and_then(|n| loops.position(n)).max(inside);
    let finer = loops.order.iter().position(|n| depth(n).is_some_and(|d| d > owner));
    if let (Some(here), Some(finer)) = (here, finer)
        && finer <= here
    {
        // Made before they begin, by all of them: with what the loops between run through.
        if inside.is_none_or(|i| i < finer) {
            return Ok((finer.checked_sub(1).map(|n| loops.order[n].clone()), true));
        }
        return unsupported(
            &format!(
                "`{}` is shared by cores whose loops start before it is copied",
                model.memories[region].region()
            ),
            "give the copy a rank outside of these cores",
        );
    }
    Ok((here.map(|n| loops.order[n].clone()), false))
}

/// A copy that is made further outside than decided holds more, which the region must have room for.
fn fits(
    h: &Shaped,
    model: &Model,
    o: &Operand,
    region: usize,
    at: Option<&String>,
    loops: &Loops,
    output: bool,
) -> Result<(), Diagnostic> {
    let memory = &model.memories[region];
    // What only a fact about the machine limits was compared with it before, as decided.
    let Some(most) = memory.capacity.as_ref().and_then(|c| c.value(&|_| None)) else { return Ok(()) };
    let tile = loops.inside(at.map(String::as_str), |_| true);
    let tile: Vec<u64> = tile.iter().zip(&h.extents).map(|(t, n)| (*t).min((*n).max(1))).collect();
    let bytes = bytes(h, o, &tile, output);
    if bytes <= most {
        return Ok(());
    }
    let (name, region) = (o.name(), memory.region());
    Err(Diagnostic::error(
        codes::CAPACITY,
        format!("`{name}` is copied to {region} outside of the loops of the cores that share it, and takes {bytes} bytes there, but it has {most}"),
    )
    .help("rank these cores outside of the loops between, or place the copy elsewhere"))
}

trait Separated {
    fn separated(self) -> Self;
}

impl Separated for Strategy {
    /// With `tail: separate`.
    fn separated(mut self) -> Strategy {
        if let Strategy::Call { args, .. } = &mut self {
            args.push(word("tail", "separate"));
        }
        self
    }
}

/// For a layout that names dimensions twice: the tile of each, which its subscript must run through by ones.
fn blocks(o: &Operand, layout: &[usize], loops: &Loops) -> Result<Vec<Option<(u64, usize)>>, Diagnostic> {
    let one = |k: usize| {
        if layout.iter().filter(|l| **l == k).count() < 2 {
            return Ok(None);
        }
        let mut dims = o.accesses.iter().map(|a| {
            let mut used = a.subscripts[k].coefficients.iter().enumerate().filter(|c| *c.1 != 0);
            match (used.next(), used.next()) {
                (Some((d, 1)), None) => Some(d),
                _ => None,
            }
        });
        let dim = dims.next().flatten().filter(|d| dims.all(|x| x == Some(*d)));
        let tile = dim.and_then(|d| {
            let in_registers = loops.dims[d].1.iter().filter(|x| x.in_registers());
            let size = in_registers.fold(1, |n, x| n * x.parts);
            (size > 1).then_some((size, d))
        });
        match tile {
            Some(t) => Ok(Some(t)),
            None => unsupported(
                &format!(
                    "a layout cuts dimension {} of `{}`, which has no tiles in registers",
                    k + 1,
                    o.name()
                ),
                "name the dimension once, or give its index parts on registers or lanes",
            ),
        }
    };
    (0..o.rank()).map(one).collect()
}
