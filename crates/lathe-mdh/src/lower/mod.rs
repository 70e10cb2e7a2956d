//! From decisions to a strategy: steps of `lathe-transform` that make the loops, copies and executors that the
//! decisions ask for. Their legality is checked again by the steps themselves, by dependences.
//!
//! `split` per layer with several parts, `reorder` by rank, `stage` and `accumulate` for copies, `privatize` and
//! `factor` for what cores combine, `pad` and `separate` for partial tiles, `parallel`, `vectorize` and `unroll`
//! for cores and registers. Loops are called `i.p1`, `i.p2`, … after dimension and layer; a dimension with one
//! such layer keeps its name. Phases of different orders or assignments get nests of their own (see `nests`).

mod ahead;
mod copies;
mod cores;
mod hierarchy;
mod loops;
mod nests;
mod results;
pub(crate) mod steps;
mod tiles;

use crate::codes;
use crate::decisions::{Decisions, by_position};
use crate::footprint::allocations;
use crate::homomorphism::Shaped;
use crate::model::Model;
use copies::Copies;
use lathe_diagnostics::Diagnostic;
use lathe_strategy::Strategy;
use lathe_target::Machine;
use loops::Loops;
use std::collections::{BTreeMap, BTreeSet};
use steps::{call, name};

/// For which function and machine a strategy is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The function has the sizes of the homomorphism as constants. Else they only guided the decisions: partial
    /// tiles may occur everywhere.
    pub exact: bool,
    /// How wide the vectors of copies are.
    pub machine: Machine,
    pub inside: Inside,
}

/// Where the loops of a part of a computation stand.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Dimensions (by name) whose loops have been split: the part runs through the loops of these names.
    pub loops: BTreeMap<String, String>,
    /// Dimensions whose loops are around the part.
    pub around: BTreeSet<String>,
    /// Copies of inputs that do not depend on this dimension are made around this loop, for all parts.
    pub shared: Option<(usize, String)>,
}

impl Options {
    /// For the sizes as constants, on this machine.
    pub fn exact() -> Options {
        Options { exact: true, machine: Machine::host(), inside: Inside::default() }
    }
}

/// The strategy of complete, valid decisions (see [`crate::require`]); `open` need not be in it. Steps name loops
/// and statements of this compute only, so that strategies of several computes of a function can follow one
/// another.
///
/// # Errors
/// E1222 for decisions that this version does not lower: devices, scans over cores; E1220 for free ones.
pub fn strategy(h: &Shaped, model: &Model, d: &Decisions, options: &Options) -> Result<Strategy, Diagnostic> {
    // An empty box has no loops that steps could name, and nothing to decide.
    if h.extents.contains(&0) {
        return Ok(Strategy::Id);
    }
    let mut out = Vec::new();
    if nests::alike(h, d) {
        nest(h, model, d, options, &mut out)?;
    } else {
        nests::separate(h, model, d, options, &mut out)?;
    }
    Ok(if out.is_empty() { Strategy::Id } else { Strategy::Seq(out) })
}

/// One nest, in which the three phases have one order.
fn nest(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    options: &Options,
    out: &mut Vec<Strategy>,
) -> Result<(), Diagnostic> {
    let free = || Diagnostic::error(codes::FREE, "lowering needs every decision");
    let d = &hierarchy::arranged(h, model, d);
    let order = by_position(&d.up.order).ok_or_else(free)?;
    let down = by_position(&d.down.order).ok_or_else(free)?;
    let loops = Loops::of(h, model, d, options, &order)?;
    if nests::sums_first(h, &loops) {
        return nests::sums(h, model, d, options, &loops, out);
    }
    let all = allocations(h, model, d).ok_or_else(free)?;
    out.extend(loops.cuts());
    if loops.order.len() > 1 {
        out.push(call("reorder", loops.order.iter().map(|n| name(&loops.at(n))).collect()));
    }
    let results = cores::partial_results(h, &loops, options, out)?;
    let mut copies = Copies::of(h, model, d, &loops, (&down, &order), &all, results)?;
    copies.share(options);
    copies.stage(&loops, out);
    let rests = tiles::partial(&loops, &copies, out);
    cores::in_order(h, &loops, options, out);
    cores::lanes(h, &loops, &rests, out);
    tiles::unroll(&loops, &rests, out);
    cores::rounding(h, &loops, out);
    copies.run(h, &loops, options, &rests, out);
    cores::streaming(h, model, d, &loops, &copies, out);
    ahead::read(h, &loops, &copies, options, out);
    ahead::resumed(h, &loops, &copies, options, out);
    ahead::panels(h, &loops, &copies, options, out);
    cores::threads(h, &loops, options, out);
    cores::guards(h, out);
    Ok(())
}

fn unsupported<T>(what: &str, help: &str) -> Result<T, Diagnostic> {
    Err(Diagnostic::error(codes::UNSUPPORTED, format!("lowering of it is not implemented: {what}"))
        .help(help))
}
