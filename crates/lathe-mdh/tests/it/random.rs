//! Random decisions: valid ones, and ones that break one rule.

use lathe_diagnostics::Code;
use lathe_ir::Combine;
use lathe_mdh::decisions::{Level, Phase, Table};
use lathe_mdh::model::{Constraint, Limit};
use lathe_mdh::{AsmLevel, Decisions, Model, Shaped, check, codes};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Any valid decisions; a third of them fused, a third with partial tiles.
pub fn valid(h: &Shaped, m: &Model, rng: &mut ChaCha8Rng) -> Decisions {
    for _ in 0..200 {
        let d = candidate(h, m, rng);
        if small(h, &d) && check(h, m, &d, &|_| None).is_empty() {
            return d;
        }
    }
    Decisions::plain(h, m)
}

/// Partial tiles make no more than a few times as many parts as there are points.
fn small(h: &Shaped, d: &Decisions) -> bool {
    let of = |dim: usize| {
        let parts: u64 = (0..d.layers()).filter_map(|l| d.parts[l][dim]).product();
        parts * h.extents[dim].div_ceil(parts)
    };
    (0..d.dims()).map(of).product::<u64>() <= 1000
}

fn candidate(h: &Shaped, m: &Model, rng: &mut ChaCha8Rng) -> Decisions {
    let mut d = Decisions::plain(h, m);
    let (layers, dims) = (d.layers(), d.dims());
    d.partial_tiles = rng.gen_bool(0.33);
    for dim in 0..dims {
        (0..layers).for_each(|l| d.parts[l][dim] = Some(1));
        let mut rest = h.extents[dim].max(1);
        if d.partial_tiles {
            for _ in 0..2 {
                let l = rng.gen_range(0..layers);
                d.parts[l][dim] = Some(rng.gen_range(1..=rest.min(5)));
            }
        } else {
            let mut p = 2;
            while rest > 1 {
                if rest.is_multiple_of(p) {
                    let l = rng.gen_range(0..layers);
                    d.parts[l][dim] = d.parts[l][dim].map(|x| x * p);
                    rest /= p;
                } else {
                    p += 1;
                }
            }
        }
    }
    for p in Phase::ALL {
        d.steps_mut(p).order = order(layers, dims, rng);
        d.steps_mut(p).assignment = assignment(layers, dims, rng);
    }
    // Layers of ordered dimensions are ranked from coarse to fine.
    for dim in (0..dims).filter(|k| h.h.dims[*k].ordered) {
        let mut ranks: Vec<_> = (0..layers).map(|l| d.up.order[l][dim]).collect();
        ranks.sort();
        (0..layers).for_each(|l| d.up.order[l][dim] = ranks[l]);
    }
    if rng.gen_bool(0.33) {
        (d.down, d.scalar) = (d.up.clone(), d.up.clone());
    }
    let regions = m.memories.len();
    let shuffled = |rank: usize, rng: &mut ChaCha8Rng| {
        let mut l: Vec<usize> = (0..rank).collect();
        l.shuffle(rng);
        Some(l)
    };
    let operands: Vec<usize> = h.h.operands().map(|o| o.rank()).collect();
    for (p, rank) in d.reads.iter_mut().chain(&mut d.writes).zip(&operands) {
        p.region.iter_mut().flatten().for_each(|r| *r = Some(rng.gen_range(0..regions)));
        p.layout.iter_mut().flatten().for_each(|l| *l = shuffled(*rank, rng));
    }
    for (s, rank) in d.operands.iter_mut().chain(&mut d.results).zip(&operands) {
        s.region = Some(rng.gen_range(0..regions));
        s.layout = shuffled(*rank, rng);
    }
    // What cores combine lies where the model wants it.
    for c in &m.constraints {
        let Constraint::Combine { core, regions } = c else { continue };
        for l in d.levels() {
            let here = d.up.assignment[l.layer][l.dim].is_some_and(|a| m.layer_name(a.layer) == core);
            if here && h.h.dims[l.dim].combine != Combine::Concat {
                let r = regions.choose(rng).and_then(|r| m.region(r));
                d.writes.iter_mut().for_each(|w| w.region[l.layer][l.dim] = r);
            }
        }
    }
    d
}

fn order(layers: usize, dims: usize, rng: &mut ChaCha8Rng) -> Table<usize> {
    let mut all: Vec<usize> = (0..layers * dims).collect();
    all.shuffle(rng);
    all.chunks(dims).map(|row| row.iter().map(|r| Some(*r)).collect()).collect()
}

fn assignment(layers: usize, dims: usize, rng: &mut ChaCha8Rng) -> Table<AsmLevel> {
    let mut all: Vec<AsmLevel> =
        (0..layers).flat_map(|layer| (0..dims).map(move |dim| AsmLevel { layer, dim })).collect();
    all.shuffle(rng);
    all.chunks(dims).map(|row| row.iter().map(|r| Some(*r)).collect()).collect()
}

/// Breaks one rule of valid decisions; none where the computation or the model does not have what it is about.
pub fn broken(h: &Shaped, m: &Model, mut d: Decisions, rng: &mut ChaCha8Rng) -> Option<(Decisions, Code)> {
    let (layers, dims) = (d.layers(), d.dims());
    let level = |rng: &mut ChaCha8Rng| Level { layer: rng.gen_range(0..layers), dim: rng.gen_range(0..dims) };
    let l = level(rng);
    let phase = Phase::ALL[rng.gen_range(0..3)];
    let code = match rng.gen_range(0..8) {
        0 => {
            d.partial_tiles = false;
            let plain = Decisions::plain(h, m);
            d.parts = plain.parts;
            d.parts[l.layer][l.dim] = d.parts[l.layer][l.dim].map(|p| p * rng.gen_range(2..5));
            codes::PARTS
        }
        1 => {
            d.parts[l.layer][l.dim] = Some(0);
            codes::PARTS
        }
        2 => {
            let other = level(rng);
            if other == l {
                return None;
            }
            let s = d.steps_mut(phase);
            s.order[l.layer][l.dim] = s.order[other.layer][other.dim];
            codes::ORDER
        }
        3 => {
            let other = level(rng);
            if other == l {
                return None;
            }
            let s = d.steps_mut(phase);
            s.assignment[l.layer][l.dim] = s.assignment[other.layer][other.dim];
            codes::ASSIGNMENT
        }
        4 => {
            let all: Vec<_> = d.reads.iter_mut().chain(&mut d.writes).collect();
            let n = rng.gen_range(0..all.len());
            all.into_iter().nth(n)?.region[l.layer][l.dim] = Some(m.memories.len() + rng.gen_range(0..3));
            codes::REGION
        }
        5 => {
            let all: Vec<_> =
                d.operands.iter_mut().chain(&mut d.results).filter(|s| s.layout != Some(vec![])).collect();
            let n = rng.gen_range(0..all.len().max(1));
            let layout = all.into_iter().nth(n)?.layout.as_mut()?;
            layout[0] += layout.len();
            codes::LAYOUT
        }
        6 => {
            // Two layers of an ordered dimension with several parts, ranked from fine to coarse.
            let dim = (0..dims).find(|k| h.h.dims[*k].ordered)?;
            let many: Vec<usize> = (0..layers).filter(|x| d.parts[*x][dim] > Some(1)).collect();
            let [.., a, b] = many.as_slice() else { return None };
            let (x, y) = (d.up.order[*a][dim], d.up.order[*b][dim]);
            (d.up.order[*a][dim], d.up.order[*b][dim]) = (y, x);
            codes::SCAN_ORDER
        }
        _ => {
            let Some(Constraint::Parts { cores, at_most: Limit::Number(most) }) = m.constraints.first()
            else {
                return None;
            };
            let core = m.layer(&cores[0])?;
            let on = |x: &Level| d.scalar.assignment[x.layer][x.dim].is_some_and(|a| a.layer == core);
            let x = d.levels().find(on)?;
            d.partial_tiles = true;
            d.parts[x.layer][x.dim] = Some(most + 1);
            codes::CORES
        }
    };
    Some((d, code))
}
