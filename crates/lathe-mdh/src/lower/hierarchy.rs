//! The hierarchy of cores: a thread runs whole vectors, a block consists of threads of one grid. Decisions rank levels of
//! cores among the others, which says what a core does at a time; among cores only their number matters. So a
//! level of coarser cores that is ranked inside of one of finer cores is moved outside of it, and threads that share a
//! copy are moved inside of the place where it is made.

use super::loops::{Kind, kind};
use crate::decisions::{Decisions, Level, Phase, at, by_position, ranks_of};
use crate::homomorphism::Shaped;
use crate::model::Model;

/// The decisions with cores in their hierarchy. The phases order the levels that are loops in one way.
pub fn arranged(h: &Shaped, m: &Model, d: &Decisions) -> Decisions {
    let mut out = d.clone();
    let Some(up) = by_position(&d.up.order) else { return out };
    let depth = |l: &Level| kind(m, d, Phase::Up, *l).ok().and_then(Kind::depth);
    let mut used: Vec<Level> = up.into_iter().filter(|l| d.parts_at(*l) > 1).collect();
    let ordered = |l: &Level| h.h.dims[l.dim].ordered;
    for (a, b) in nested(&mut used, &depth, &ordered) {
        for p in Phase::ALL {
            let table = &mut out.steps_mut(p).assignment;
            let (x, y) = (at(table, a).copied(), at(table, b).copied());
            table[a.layer][a.dim] = y;
            table[b.layer][b.dim] = x;
        }
    }
    let d = &out.clone();
    let depth = |l: &Level| kind(m, d, Phase::Up, *l).ok().and_then(Kind::depth);
    if m.memories.iter().any(|x| x.space.as_deref() == Some("shared")) {
        for (n, of) in copies(m, d) {
            let early = |l: &&Level| depth(l).is_some_and(|x| x > of);
            let (here, rest) = used.split_at(n.min(used.len()));
            let (moved, kept): (Vec<Level>, Vec<Level>) = here.iter().partition(early);
            if !moved.iter().any(|l| h.h.dims[l.dim].ordered) {
                used = kept.into_iter().chain(moved).chain(rest.iter().copied()).collect();
            }
        }
    }
    for p in Phase::ALL {
        let Some(mut order) = by_position(&d.steps(p).order) else { continue };
        let slots = order.iter_mut().filter(|l| d.parts_at(**l) > 1);
        slots.zip(&used).for_each(|(slot, l)| *slot = *l);
        if let Some(ranks) = ranks_of(&order, d.layers(), d.dims()) {
            out.steps_mut(p).order = ranks;
        }
    }
    out
}

/// Coarser cores outside of finer ones. Levels of a dimension in which order matters stay in their order: what is
/// ranked further outside is then run by the coarser cores; which levels changed theirs is returned.
pub fn nested(
    order: &mut Vec<Level>,
    depth: &dyn Fn(&Level) -> Option<usize>,
    ordered: &dyn Fn(&Level) -> bool,
) -> Vec<(Level, Level)> {
    let mut depths: Vec<Option<usize>> = order.iter().map(depth).collect();
    let mut swapped = Vec::new();
    // Every step leaves fewer pairs of cores that are nested the wrong way round.
    for _ in 0..order.len() * order.len() {
        let Some((to, from)) = inversion(&depths) else { break };
        let stays = |l: &Level, over: &[Level]| ordered(l) && over.iter().any(|o| o.dim == l.dim);
        if order[to].dim == order[from].dim && ordered(&order[to]) {
            depths.swap(to, from);
            swapped.push((order[to], order[from]));
        } else if stays(&order[from], &order[to..from]) && !stays(&order[to], &order[to + 1..=from]) {
            let (l, d) = (order.remove(to), depths.remove(to));
            order.insert(from, l);
            depths.insert(from, d);
        } else {
            let (l, d) = (order.remove(from), depths.remove(from));
            order.insert(to, l);
            depths.insert(to, d);
        }
    }
    swapped
}

/// A level of coarser cores inside of one of finer cores: where it should be, and where it is.
fn inversion(depths: &[Option<usize>]) -> Option<(usize, usize)> {
    (0..depths.len()).find_map(|to| {
        let finer = depths[to]?;
        let from = (to + 1..depths.len()).find(|n| depths[*n].is_some_and(|x| x < finer))?;
        Some((to, from))
    })
}

/// Where a region with an owner begins to be used: after how many loops, and how deep the owner is.
fn copies(m: &Model, d: &Decisions) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let all = d.reads.iter().zip(&d.operands).map(|x| (Phase::Down, x));
    for (p, (placement, spot)) in all.chain(d.writes.iter().zip(&d.results).map(|x| (Phase::Up, x))) {
        let Some(order) = by_position(&d.steps(p).order) else { continue };
        let mut loops = 0;
        let mut here = 0;
        for l in order.iter().map(Some).chain([None]) {
            let region = match l {
                Some(l) => at(&placement.region, *l).copied(),
                None => spot.region,
            };
            if let Some(r) = region.filter(|r| *r != here) {
                here = r;
                out.extend(owner(m, r).map(|o| (loops, o)));
            }
            loops += usize::from(l.is_some_and(|l| d.parts_at(*l) > 1));
        }
    }
    out.retain(|c| c.1 < Kind::FINEST);
    out.sort_unstable();
    out
}

/// How deep in the hierarchy the cores are that have a region of their own.
pub fn owner(m: &Model, region: usize) -> Option<usize> {
    let memory = m.memories.get(region).filter(|x| !x.implicit)?;
    let core = m.core_named(memory.per.as_deref()?).ok()?;
    Kind::of(&m.core(core)?.executor, 1)?.depth()
}
