//! Decisions for devices: a block per tile of the results and a thread per result, neighbours along what lies together
//! in memory; every thread keeps a few results of a sum in registers. Sums of few results are cut, and combined by
//! blocks and threads. A model does not specify the number of nodes and devices: one, unless a strategy says
//! otherwise. The use of shared memory is left to a search.

use super::facts::Facts;
use crate::decisions::{Decisions, Level};
use crate::homomorphism::Shaped;
use crate::model::{Constraint, Model};
use lathe_ir::Combine;
use lathe_target::Machine;

/// Threads of a block: enough to hide latencies, few enough for several blocks on one processor.
const THREADS: u64 = 256;
/// Blocks that keep all processors of a device busy.
const BLOCKS: u64 = 64;
/// Results per thread and dimension, at most.
const SIDE: u64 = 4;
/// Elements that a thread sums up at least before sums are cut.
const SUM: u64 = 16;

/// The core layers of a device from its blocks on, coarse to fine, as layers of the model.
struct Cores {
    blocks: usize,
    threads: Vec<(usize, u64)>,
}

impl Cores {
    /// None for models without blocks, or without threads in them.
    fn of(model: &Model, machine: &Machine) -> Option<Cores> {
        let word = |l: &usize| model.core(*l).map(|c| c.executor.as_str());
        let layers = model.memories.len()..model.layers();
        let blocks = layers.clone().find(|l| word(l) == Some("grid"))?;
        let all: Vec<usize> = layers.filter(|l| matches!(word(l), Some("block" | "warp" | "lane"))).collect();
        let facts = |n: &str| machine.fact(n);
        let most = |l: usize| {
            let alone = model.constraints.iter().filter_map(|c| match c {
                Constraint::Parts { cores, at_most } if cores.iter().all(|c| c == model.layer_name(l)) => {
                    at_most.value(&facts)
                }
                _ => None,
            });
            alone.min().unwrap_or(THREADS).min(THREADS)
        };
        let mut left = THREADS;
        // The finest first: its cores are neighbours.
        let mut threads = Vec::new();
        for l in all.iter().rev() {
            let n = most(*l).min(left).max(1);
            left /= n;
            threads.insert(0, (*l, n));
        }
        (!threads.is_empty()).then_some(Cores { blocks, threads })
    }
}

/// Which layer of the computation is what.
struct Roles {
    /// The layer of the model that each layer of the computation is assigned to, coarse to fine: blocks, what one
    /// thread does, threads; so neighbours are in neighbouring threads.
    assigned: Vec<usize>,
    block: usize,
    /// With how many threads there may be.
    threads: Vec<(usize, u64)>,
    serial: usize,
    registers: Option<usize>,
    memories: usize,
}

impl Roles {
    fn of(model: &Model, cores: &Cores) -> Option<Roles> {
        let memories = model.memories.len();
        let fine = || cores.threads.iter().map(|t| t.0);
        let coarse = (memories..model.layers()).filter(|l| fine().all(|f| f != *l));
        let assigned: Vec<usize> = coarse.chain(0..memories).chain(fine()).collect();
        let at = |layer: usize| assigned.iter().position(|a| *a == layer);
        let threads = cores.threads.iter().map(|(l, n)| Some((at(*l)?, *n))).collect::<Option<_>>()?;
        let registers = model.memories.iter().position(|m| m.space.as_deref() == Some("register"));
        let (block, serial, registers) = (at(cores.blocks)?, at(0)?, registers.and_then(at));
        Some(Roles { block, threads, serial, registers, memories, assigned })
    }

    fn is_core(&self, l: &Level) -> bool {
        self.assigned[l.layer] >= self.memories
    }
}

/// Complete decisions for a model of a device; none where it has no blocks of threads.
pub(super) fn decide(h: &Shaped, model: &Model, machine: &Machine) -> Option<Decisions> {
    let roles = Roles::of(model, &Cores::of(model, machine)?)?;
    let f = Facts::of(h);
    let mut d = Decisions::plain(h, model);
    let layers = d.layers();
    d.partial_tiles = true;
    d.parts = vec![vec![Some(1); f.extents.len()]; layers];
    parts(&f, &roles, &mut d);

    // Cores outside; inside of each thread its sums, and its results innermost.
    let used = |l: &Level| d.parts[l.layer][l.dim] != Some(1);
    let depth = |l: &Level| {
        let inner = roles.registers == Some(l.layer);
        (u8::from(!roles.is_core(l)) + u8::from(inner), !used(l), l.layer, l.dim)
    };
    let mut order: Vec<Level> = d.levels().collect();
    order.sort_by_key(depth);
    if !d.do_alike(&order, &roles.assigned) {
        return None;
    }
    let region = roles.registers.map(|r| roles.assigned[r]);
    if let Some(region) = region.filter(|_| f.reduces && !f.scanned.contains(&true)) {
        let sums = |l: &Level| !roles.is_core(l) && h.h.dims[l.dim].combine != Combine::Concat;
        let from = order.iter().position(sums).unwrap_or(order.len());
        for w in &mut d.writes {
            order[from..].iter().for_each(|l| w.region[l.layer][l.dim] = Some(region));
        }
        d.results.iter_mut().for_each(|r| r.region = Some(region));
    }
    crate::check(h, model, &d, &|n| machine.fact(n)).is_empty().then_some(d)
}

fn parts(f: &Facts, roles: &Roles, d: &mut Decisions) {
    let mut left: Vec<u64> = f.extents.clone();
    let mut set = |layer: usize, k: usize, parts: u64, left: &mut [u64]| {
        d.parts[layer][k] = Some(parts.max(1));
        left[k] = left[k].div_ceil(parts.max(1));
    };
    let dims = 0..f.extents.len();
    // What lies together first.
    let step = |k: usize| f.outputs.first().map_or(0, |o| o.stride[k].unsigned_abs());
    let mut free: Vec<usize> = dims.clone().filter(|k| !f.reduced[*k] && !f.scanned[*k]).collect();
    free.sort_by_key(|k| (step(*k) == 0, step(*k)));
    let results: u64 = free.iter().map(|k| f.extents[*k]).fold(1, u64::saturating_mul);
    let splits = f.splits && f.identity && results < THREADS && !f.scanned.contains(&true);
    let longest = dims.clone().filter(|k| f.reduced[*k]).max_by_key(|k| f.extents[*k]);
    let cut = longest.filter(|_| splits);
    // Threads, the finest cores along what lies together.
    let shared: Vec<usize> = cut.map_or(free.clone(), |k| vec![k]);
    for (layer, most) in roles.threads.iter().rev() {
        let mut n = *most;
        for k in &shared {
            let here = if cut.is_some() { (left[*k] / SUM).max(1) } else { left[*k] };
            let parts = n.min(here.next_power_of_two());
            if parts > 1 {
                set(*layer, *k, parts, &mut left);
                n /= parts;
            }
        }
    }
    // Results of one thread, while there are enough blocks: along what some input does not depend on.
    if let Some(r) = roles.registers.filter(|_| f.reduces && cut.is_none()) {
        let again = |k: &&usize| f.inputs.iter().any(|i| !i.depends(**k));
        for k in free.iter().take(2).filter(again) {
            let blocks = free.iter().map(|k| left[*k]).fold(1, u64::saturating_mul);
            let fits = |s: &u64| *s <= left[*k] && blocks / s >= BLOCKS;
            set(r, *k, [SIDE, 2].into_iter().find(fits).unwrap_or(1), &mut left);
        }
    }
    for k in dims {
        if cut == Some(k) {
            let blocks = (left[k] / SUM).clamp(1, BLOCKS);
            set(roles.block, k, blocks, &mut left);
        } else if free.contains(&k) && cut.is_none() {
            let blocks = left[k];
            set(roles.block, k, blocks, &mut left);
        }
        let rest = left[k];
        set(roles.serial, k, rest, &mut left);
    }
}
