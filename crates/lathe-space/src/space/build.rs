//! Makes the nodes of a group's levels, from the first level down.
//!
//! A level's nodes are the combinations of values of its context that the levels above allow, so nothing is
//! made twice; and since nodes of one level do not depend on each other, threads share them.

use super::classes::signature;
use super::expand::{Expander, Scratch, World};
use super::intern::Keys;
use super::plan::PlanLevel;
use super::threads::Threads;

/// A level with all its nodes, dead ends included.
pub(crate) struct Raw {
    /// Per node the values of the context.
    pub keys: Vec<u32>,
    pub starts: Vec<u32>,
    pub values: Vec<u32>,
    pub kids: Vec<u32>,
    /// Edges at which a condition could not be evaluated.
    pub failed: Vec<u32>,
}

/// All levels of a group.
pub(crate) struct Built {
    pub levels: Vec<Raw>,
    /// Values that were tried.
    pub checks: u64,
}

/// Why building stopped.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    /// More work than allowed, at this level: another order may be better.
    Work(usize),
    /// More nodes than allowed; what failed first on the way, and so was not excluded.
    Nodes { failed: Option<Failure> },
}

/// Where a condition has no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub level: usize,
    /// The values of the level's context, and its own.
    pub key: Vec<u32>,
    pub value: u32,
}

impl Raw {
    /// The node that an edge belongs to.
    pub fn node_of(&self, edge: u32) -> usize {
        self.starts.partition_point(|s| *s <= edge) - 1
    }

    /// What fails at an edge of level `level`, whose context has `width` levels. Needs the keys.
    pub fn failure(&self, edge: u32, level: usize, width: usize) -> Failure {
        let node = self.node_of(edge);
        let key = self.keys[node * width..(node + 1) * width].to_vec();
        Failure { level, key, value: self.values[edge as usize] }
    }
}

/// What building may use.
pub(crate) struct Allowed<'a> {
    pub threads: &'a Threads,
    /// Levels that several threads may share; the rest is done by one.
    pub parallel_levels: usize,
    pub work: u64,
    pub nodes: usize,
}

/// Nodes that one thread does at least, counted in values.
const CHUNK: usize = 1 << 15;
/// The same where conditions are not compiled, and may take any time.
const SLOW: usize = 1 << 8;
/// Combinations of values of a context that are told apart without looking at the conditions.
const FEW: u32 = 64;

/// What one thread made of some nodes.
struct Part {
    /// The first node.
    first: usize,
    degrees: Vec<u32>,
    values: Vec<u32>,
    failed: Vec<u32>,
    checks: u64,
}

pub(crate) fn build(world: World, plan: &[PlanLevel], allowed: &Allowed) -> Result<Built, Stop> {
    let domains = world.domains;
    let limits = |l: usize| plan[l].context.iter().map(|a| domains[plan[*a].param].len()).collect();
    // Where all levels above matter, all nodes are different.
    let unshared = |l: usize| {
        let above = plan[l].parent.map(|(p, _)| &plan[p].context);
        above.is_some_and(|c| plan[l].context.len() == c.len() + 1)
    };
    let few = |l: usize| {
        let limits: Vec<u32> = limits(l);
        limits.iter().try_fold(1u32, |n, l| n.checked_mul(*l)).is_some_and(|n| n <= FEW)
    };
    let table = |l: usize| {
        if few(l) {
            return Keys::new(limits(l));
        }
        let width = plan[l].context.len();
        match signature(world, plan, l) {
            Some(s) => Keys::signed(width, Box::new(move |key, out| s.of(world, key, out))),
            None if unshared(l) => Keys::all_new(width),
            None => Keys::new(limits(l)),
        }
    };
    let mut keys: Vec<Option<Keys>> = (0..plan.len()).map(|l| Some(table(l))).collect();
    let mut levels: Vec<Raw> = Vec::with_capacity(plan.len());
    let (mut checks, mut edges, mut work) = (0, 0, 0);
    let mut failed: Option<Failure> = None;
    for (l, level) in plan.iter().enumerate() {
        let Some(mut own) = keys[l].take() else { continue };
        if level.parent.is_none() {
            own.number(&[]);
        }
        let (nodes, width) = (own.len(), level.context.len());
        let expander = Expander::new(world, plan, l);
        let per_node = domains[level.param].len() as usize;
        let one = |range: std::ops::Range<usize>| {
            let mut part = Part {
                first: range.start,
                degrees: Vec::with_capacity(range.len()),
                values: Vec::new(),
                failed: Vec::new(),
                checks: 0,
            };
            let mut scratch = Scratch::default();
            for node in range {
                let before = part.values.len();
                let key = &own.words[node * width..(node + 1) * width];
                part.checks += expander.expand(key, &mut scratch, &mut part.values, &mut part.failed);
                part.degrees.push((part.values.len() - before) as u32);
                let done = part.checks + part.values.len() as u64;
                if part.values.len() > allowed.nodes || done > allowed.work.saturating_sub(work) {
                    break;
                }
            }
            part
        };
        let values = if expander.compiled() { CHUNK } else { SLOW };
        let chunk = (values / per_node.max(1)).max(1);
        let parts = if l < allowed.parallel_levels && nodes > chunk {
            let size = chunk.max(nodes / 256);
            allowed.threads.map(nodes.div_ceil(size), |i| one(i * size..((i + 1) * size).min(nodes)))
        } else {
            vec![one(0..nodes)]
        };
        let mut raw = Raw {
            keys: Vec::new(),
            starts: Vec::with_capacity(nodes + 1),
            values: Vec::new(),
            kids: Vec::new(),
            failed: Vec::new(),
        };
        raw.starts.push(0);
        if failed.is_none() {
            let first = parts.iter().find_map(|p| Some((p, *p.failed.first()?)));
            failed = first.map(|(part, edge)| {
                let mut end = 0;
                let before = part.degrees.iter().take_while(|d| {
                    end += **d;
                    end <= edge
                });
                let node = part.first + before.count();
                let key = own.words[node * width..(node + 1) * width].to_vec();
                Failure { level: l, key, value: part.values[edge as usize] }
            });
        }
        for part in parts {
            let base = raw.values.len() as u32;
            edges += part.values.len();
            checks += part.checks;
            work += part.checks + part.values.len() as u64;
            if edges > allowed.nodes {
                return Err(Stop::Nodes { failed });
            }
            let mut end = base;
            raw.starts.extend(part.degrees.iter().map(|d| {
                end += d;
                end
            }));
            raw.values.extend(part.values);
            raw.failed.extend(part.failed.into_iter().map(|e| e + base));
        }
        checks += expander.tried();
        work += expander.tried();
        if work > allowed.work {
            return Err(Stop::Work(l));
        }
        raw.keys = own.words;
        link(plan, l, &mut raw, width, &mut keys);
        // Only messages about failures need them from here on.
        if raw.failed.is_empty() {
            raw.keys = Vec::new();
        }
        levels.push(raw);
    }
    Ok(Built { levels, checks })
}

/// Numbers the nodes of the levels below, per edge.
fn link(plan: &[PlanLevel], l: usize, raw: &mut Raw, width: usize, keys: &mut [Option<Keys<'_>>]) {
    let children = &plan[l].children;
    raw.kids = vec![0; raw.values.len() * children.len()];
    for (slot, c) in children.iter().enumerate() {
        let Some(below) = keys[*c].as_mut() else { continue };
        // Where each word of the key comes from: the node's key, or (`width`) the edge's value.
        let from: Vec<usize> = plan[*c]
            .context
            .iter()
            .map(|a| plan[l].context.iter().position(|b| b == a).unwrap_or(width))
            .collect();
        let mut key = vec![0; from.len()];
        for node in 0..raw.starts.len() - 1 {
            let own = &raw.keys[node * width..(node + 1) * width];
            for e in raw.starts[node]..raw.starts[node + 1] {
                for (word, from) in key.iter_mut().zip(&from) {
                    *word = if *from == width { raw.values[e as usize] } else { own[*from] };
                }
                raw.kids[e as usize * children.len() + slot] = below.number(&key);
            }
        }
    }
}
