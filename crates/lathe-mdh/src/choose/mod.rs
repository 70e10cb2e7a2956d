//! Good decisions without measuring: a tile that registers hold, chosen by an estimate of cycles; loops around it
//! in the order that keeps reused data in a cache; copies where lanes or caches need another layout. In the
//! spirit of the analytical models for matrix multiplication (T. Low et al., *Analytical modeling is enough for
//! high-performance BLIS*, 2016, §4), for any homomorphism.

mod blocks;
mod device;
pub mod facts;
mod layers;
mod lines;
mod nest;
mod reduction;
mod tile;

use crate::decisions::{Decisions, Level};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::view::Operand;
use facts::Facts;
use lathe_ir::Combine;
use lathe_target::Machine;
use layers::Layers;
use nest::{Part, Plan};

/// For what decisions are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub machine: &'a Machine,
    pub threads: u64,
    /// The sizes are constants of the code; else they are examples of what it will be called with.
    pub exact: bool,
}

/// Complete, valid decisions that are expected to be fast on a machine. Deterministic, and quick: nothing is compiled or
/// run. For a model of neither a CPU nor a device with blocks of threads, the computation as it is written.
pub fn choose(h: &Shaped, model: &Model, s: &Setting) -> Decisions {
    let plain = Decisions::plain(h, model);
    let Some(layers) = Layers::of(model) else {
        let device = (!h.extents.is_empty()).then(|| device::decide(h, model, s.machine)).flatten();
        return device.unwrap_or(plain);
    };
    if h.extents.is_empty() || !layers.distinct() {
        return plain;
    }
    let f = Facts::of(h);
    let product = blocks::product(&f, s).filter(|_| layers.lanes.is_some() && layers.registers.is_some());
    let tile = |shared: u64| tile::best(&f, s.machine, s.exact, shared);
    // Blocks have as much to do whatever the tile.
    if let Some(p) = product
        && let Some(plan) = nest::Nest::new(&f, s, &tile(1), &layers).blocks(p)
    {
        return decide(h, model, &layers, &plan, None, plain);
    }
    let mut t = tile(if layers.threads.is_some() { s.threads } else { 1 });
    if layers.lanes.is_none() {
        t.lanes = None;
    }
    if layers.registers.is_none() || t.lanes.is_none() {
        t.side.fill(1);
    }
    let p = nest::plan(&f, s, &t, &layers);
    let turned = t.lanes.map(|l| l.0).filter(|v| f.reduces && tile::stored_apart(&f, *v));
    decide(h, model, &layers, &p, turned, plain)
}

/// The decisions of a plan. Results in registers have the dimension `turned` innermost, which is that of the lanes.
fn decide(
    h: &Shaped,
    model: &Model,
    at: &Layers,
    p: &Plan,
    turned: Option<usize>,
    mut d: Decisions,
) -> Decisions {
    let (layers, dims) = (d.layers(), d.dims());
    d.partial_tiles = true;
    d.parts.iter_mut().flatten().for_each(|x| *x = Some(1));
    for l in &p.loops {
        d.parts[l.layer][l.dim] = Some(l.parts);
    }
    let order = order(h, at, p, d.levels());
    d.do_alike(&order, &at.assigned);
    let rank = |l: Level| order.iter().position(|o| *o == l).unwrap_or(0);
    let of = |l: &Part| rank(Level { layer: l.layer, dim: l.dim });
    let of_loop = |n: usize| p.loops.get(n).map(of).or(p.loops.last().map(|l| of(l) + 1)).unwrap_or_default();
    for c in &p.copies {
        for l in d.levels().filter(|l| rank(*l) >= of_loop(c.from)) {
            d.reads[c.input].layout[l.layer][l.dim] = Some(c.layout.clone());
        }
        d.operands[c.input].layout = Some(c.layout.clone());
    }
    // Written by non-temporal stores, or to one of them.
    let cached = model.memories.iter().rposition(|m| m.implicit).unwrap_or(0);
    let near = if p.far { 0 } else { cached.min(1) };
    let registers = model.memories.iter().position(|m| m.space.as_deref() == Some("register"));
    for ((w, r), o) in d.writes.iter_mut().zip(&mut d.results).zip(&h.h.outputs) {
        let layout = turned.filter(|_| p.registers.is_some()).and_then(|v| innermost(o, v));
        for layer in 0..layers {
            for dim in 0..dims {
                let kept = p.registers.is_some_and(|from| rank(Level { layer, dim }) >= of_loop(from));
                // What threads combine is where all of them see it.
                let shared = Some(layer) == at.threads && h.h.dims[dim].combine != Combine::Concat;
                let region = if shared { 0 } else { near };
                w.region[layer][dim] = registers.filter(|_| kept && !shared).or(Some(region));
                if let Some(l) = layout.as_ref().filter(|_| kept && !shared) {
                    w.layout[layer][dim] = Some(l.clone());
                }
            }
        }
        if let Some(l) = layout {
            r.layout = Some(l);
        }
        r.region = registers.filter(|_| p.registers.is_some()).or(Some(near));
    }
    d
}

/// The layout of an operand with the buffer's dimension that `dim` runs through behind the others.
fn innermost(o: &Operand, dim: usize) -> Option<Vec<usize>> {
    let k = o.accesses.first()?.subscripts.iter().position(|s| s.coefficients[dim] != 0)?;
    Some((0..o.rank()).filter(|x| *x != k).chain([k]).collect())
}

/// All levels, from the outside. Those that are not loops stand where loops of their layer would be of use to a search:
/// before finer layers, and those of results before results are in registers.
fn order(h: &Shaped, at: &Layers, p: &Plan, all: impl Iterator<Item = Level>) -> Vec<Level> {
    let used: Vec<Level> = p.loops.iter().map(|l| Level { layer: l.layer, dim: l.dim }).collect();
    let fine = |layer: usize| Some(layer) == at.registers || Some(layer) == at.lanes;
    let place = |l: &Level| {
        let finer = used.iter().position(|u| u.layer > l.layer && fine(u.layer) >= fine(l.layer));
        let finer = finer.unwrap_or(used.len());
        let results = h.h.dims[l.dim].combine == Combine::Concat && !fine(l.layer);
        p.registers.filter(|_| results).map_or(finer, |from| finer.min(from))
    };
    let mut order: Vec<(usize, bool, Level)> = used.iter().enumerate().map(|(n, l)| (n, true, *l)).collect();
    order.extend(all.filter(|l| !used.contains(l)).map(|l| (place(&l), false, l)));
    order.sort_by_key(|x| (x.0, x.1));
    order.into_iter().map(|x| x.2).collect()
}
