//! Takes dead ends out of built levels, merges equal subtrees and counts configurations.

use super::build::{Built, Failure, Raw};
use super::count::Count;
use super::intern::{Interner, hash};
use super::plan::PlanLevel;
use super::tree::{Level, Tree};

/// Per level and node whether a configuration goes through it.
pub(crate) struct Live(Vec<Vec<bool>>);

const DEAD: u32 = u32::MAX;

fn edges(raw: &Raw, node: usize) -> std::ops::Range<usize> {
    raw.starts[node] as usize..raw.starts[node + 1] as usize
}

fn edge_lives(plan: &[PlanLevel], raw: &Raw, l: usize, e: usize, live: &[Vec<bool>]) -> bool {
    let children = &plan[l].children;
    children.iter().enumerate().all(|(slot, c)| live[*c][raw.kids[e * children.len() + slot] as usize])
}

/// Finds the nodes that lie on configurations; `None` if there is no configuration.
pub(crate) fn live(plan: &[PlanLevel], built: &Built) -> Option<Live> {
    let mut alive: Vec<Vec<bool>> = built.levels.iter().map(|r| vec![false; r.starts.len() - 1]).collect();
    for (l, raw) in built.levels.iter().enumerate().rev() {
        for node in 0..raw.starts.len() - 1 {
            alive[l][node] = edges(raw, node).any(|e| edge_lives(plan, raw, l, e, &alive));
        }
    }
    let mut reached: Vec<Vec<bool>> = alive.iter().map(|a| vec![false; a.len()]).collect();
    for (l, raw) in built.levels.iter().enumerate() {
        if plan[l].parent.is_none() {
            if !alive[l][0] {
                return None;
            }
            reached[l][0] = true;
        }
        let children = &plan[l].children;
        for node in (0..raw.starts.len() - 1).filter(|n| reached[l][*n]).collect::<Vec<_>>() {
            for e in edges(raw, node).filter(|e| edge_lives(plan, raw, l, *e, &alive)) {
                for (slot, c) in children.iter().enumerate() {
                    reached[*c][raw.kids[e * children.len() + slot] as usize] = true;
                }
            }
        }
    }
    Some(Live(reached))
}

/// Where a condition fails on a configuration.
pub(crate) fn failure(plan: &[PlanLevel], built: &Built, live: &Live) -> Option<Failure> {
    built.levels.iter().enumerate().find_map(|(l, raw)| {
        let lives = |e: u32| live.0[l][raw.node_of(e)] && edge_lives(plan, raw, l, e as usize, &live.0);
        let edge = raw.failed.iter().copied().find(|e| lives(*e))?;
        Some(raw.failure(edge, l, plan[l].context.len()))
    })
}

/// The tree without dead ends, equal subtrees once; `None` if the counts do not fit.
pub(crate) fn tree<C: Count>(plan: &[PlanLevel], built: &Built, live: &Live) -> Option<Tree<C>> {
    let mut levels: Vec<Level<C>> = Vec::with_capacity(plan.len());
    // New numbers of nodes, for levels from the last one up.
    let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); plan.len()];
    for (l, raw) in built.levels.iter().enumerate().rev() {
        let level = level(&plan[l], plan.len(), raw, &live.0[l], &mut numbers, &levels, l)?;
        levels.push(level);
    }
    levels.reverse();
    let roots: Vec<usize> = (0..plan.len()).filter(|l| plan[*l].parent.is_none()).collect();
    let mut total = C::one();
    for r in &roots {
        total = total.times(&levels[*r].total(0))?;
    }
    Some(Tree { levels, roots, total })
}

/// One level; `done` are the levels behind it, last one first.
fn level<C: Count>(
    plan: &PlanLevel,
    n: usize,
    raw: &Raw,
    live: &[bool],
    numbers: &mut [Vec<u32>],
    done: &[Level<C>],
    l: usize,
) -> Option<Level<C>> {
    let width = plan.children.len();
    let mut out = Level {
        param: plan.param,
        parent: plan.parent,
        children: plan.children.clone(),
        full: None,
        starts: vec![0],
        values: Vec::new(),
        below: Vec::new(),
        kids: Vec::new(),
    };
    let mut interner = Interner::new();
    numbers[l] = vec![DEAD; raw.starts.len() - 1];
    let (mut values, mut kids): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for node in (0..raw.starts.len() - 1).filter(|n| live[*n]) {
        values.clear();
        kids.clear();
        for e in edges(raw, node) {
            let before = kids.len();
            kids.extend(
                plan.children.iter().enumerate().map(|(s, c)| numbers[*c][raw.kids[e * width + s] as usize]),
            );
            if kids[before..].contains(&DEAD) {
                kids.truncate(before);
            } else {
                values.push(raw.values[e]);
            }
        }
        let (starts, have, have_kids) = (&out.starts, &out.values, &out.kids);
        let (id, new) = interner.number(hash(&kids, hash(&values, 0)), |id| {
            let (a, b) = (starts[id as usize] as usize, starts[id as usize + 1] as usize);
            have[a..b] == values[..] && have_kids[a * width..b * width] == kids[..]
        });
        numbers[l][node] = id;
        if !new {
            continue;
        }
        out.values.extend_from_slice(&values);
        out.kids.extend_from_slice(&kids);
        out.starts.push(out.values.len() as u32);
        if width > 0 {
            let mut sum = C::zero();
            for e in 0..values.len() {
                let mut product = C::one();
                for (slot, c) in plan.children.iter().enumerate() {
                    product = product.times(&done[n - 1 - c].total(kids[e * width + slot]))?;
                }
                sum = sum.plus(&product)?;
                out.below.push(sum.clone());
            }
        }
    }
    out.starts.shrink_to_fit();
    out.values.shrink_to_fit();
    out.kids.shrink_to_fit();
    out.below.shrink_to_fit();
    Some(out)
}
