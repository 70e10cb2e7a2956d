//! The estimate: cycles of instructions, of traffic between caches, and of what loops and threads cost besides.

use crate::accesses::Known;
use crate::instructions::Walk;
use crate::traffic::{PLACES, Traffic};
use crate::trips::STEPS;
use lathe_ir::math::expand_function;
use lathe_ir::{Function, Scalar, Stage, build, visit};
use lathe_target::Machine;
use std::collections::{BTreeMap, HashMap};

/// How long one call takes, in cycles of the slowest thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Instructions, with the latency of chains.
    pub instructions: f64,
    /// Bytes from the caches and from memory.
    pub traffic: f64,
    /// Lines of rows that no processor reads ahead in, which [`Estimate::cycles_beyond`] waits for. Only [`estimates_with_sets`] knows
    /// them, and pages.
    pub alone: f64,
    /// Pages of packed rows, which it looks up.
    pub pages: f64,
    /// Starting loops, threads and buffers.
    pub overhead: f64,
    /// See [`lathe_target::Costs::serial`].
    pub serial: f64,
}

impl Estimate {
    pub fn cycles(&self) -> f64 {
        let (a, b) = (self.instructions, self.traffic);
        a.max(b) + self.serial * a.min(b) + self.overhead
    }

    /// The same for arrays that are beyond the second cache, where it counts how the lines and pages of rows follow each other.
    pub fn cycles_beyond(&self) -> f64 {
        let (traffic, overhead) = (self.traffic + self.alone, self.overhead + self.pages);
        Estimate { traffic, overhead, ..*self }.cycles()
    }
}

/// Estimates one call of a function whose data are where the last call left them. Sizes that are not given are 256.
pub fn estimate(func: &Function, sizes: &BTreeMap<String, i64>, machine: &Machine) -> Estimate {
    of_call(&expand_function(func), sizes, machine, false)
}

/// As [`estimate`] for each of some sizes, where rows with a power of two between them share sets of the caches: for code that was
/// made for other sizes than those that it is called with. Decisions for known sizes copy such rows.
pub fn estimates_with_sets(
    func: &Function,
    points: &[BTreeMap<String, i64>],
    machine: &Machine,
) -> Vec<Estimate> {
    let expanded = expand_function(func);
    points.iter().map(|sizes| of_call(&expanded, sizes, machine, true)).collect()
}

fn of_call(expanded: &Function, sizes: &BTreeMap<String, i64>, machine: &Machine, sets: bool) -> Estimate {
    let known = with_sizes(expanded, sizes);
    let names = Known::of(&known);
    let (instructions, overhead) =
        Walk::new(machine, &names, expanded.stage == Stage::Plain).total(&known.body);
    let mut traffic = Traffic { sets, ..Traffic::new(machine, &names) };
    let moved = traffic.of(&known.body);
    let memory = machine.core_bytes_per_cycle.max(1) as f64;
    let costs = &machine.costs;
    let waits = traffic.waits;
    let (alone, pages) = (traffic.jumps * costs.alone, traffic.pages * costs.page);
    let bytes = moved[0] / costs.l2_bytes_per_cycle + moved[1] / costs.l3_bytes_per_cycle + moved[2] / memory;
    Estimate { instructions, traffic: bytes + waits, alone, pages, overhead, serial: costs.serial }
}

/// Cycles for lines of rows on so many pages that their places are forgotten before the next line of a row is asked for, in one such
/// call. No part of [`Estimate::cycles`]: it tells loops that come back to a row soon from those that go through thousands.
pub fn rows_apart(func: &Function, sizes: &BTreeMap<String, i64>, machine: &Machine) -> f64 {
    let known = with_sizes(&expand_function(func), sizes);
    let names = Known::of(&known);
    let mut traffic = Traffic { sets: true, rows: PLACES, ..Traffic::new(machine, &names) };
    traffic.of(&known.body);
    traffic.jumps * (machine.costs.alone + machine.costs.page)
}

/// Cycles until cores have the lines that others hold, in one such call. No part of [`Estimate::cycles`]: it is about what runs on
/// which cores in the whole function, and says nothing of one loop while those around it are undecided.
pub fn handed(func: &Function, sizes: &BTreeMap<String, i64>, machine: &Machine) -> f64 {
    let known = with_sizes(&expand_function(func), sizes);
    let names = Known::of(&known);
    let mut traffic = Traffic::new(machine, &names);
    traffic.handed(&known.body) * machine.costs.handed
}

/// An expanded function with constants for sizes and numbers of steps.
fn with_sizes(func: &Function, sizes: &BTreeMap<String, i64>) -> Function {
    let mut constants: HashMap<_, _> = func
        .sizes
        .iter()
        .map(|b| (b.id, build::index(sizes.get(&*b.name).copied().unwrap_or(256))))
        .collect();
    for p in &func.params {
        if let lathe_ir::ParamKind::Scalar(b) = &p.kind
            && b.ty == Scalar::Index
        {
            constants.insert(b.id, build::index(STEPS));
        }
    }
    let mut known = func.clone();
    if constants.is_empty() {
        return known;
    }
    known.body = visit::substitute_stmt(&known.body, &constants);
    for p in &mut known.params {
        if let lathe_ir::ParamKind::Array(b) = &mut p.kind {
            let extents = b.extents.iter().map(|e| visit::substitute(e, &constants)).collect();
            *b = std::sync::Arc::new(lathe_ir::Buffer { extents, ..(**b).clone() });
        }
    }
    known
}
