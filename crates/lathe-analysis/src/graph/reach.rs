//! What the new tree evaluates exists: the old tree evaluates it, too, in every run that gets there, and nothing that may
//! fail comes first there that does not come first here.

use super::run::{Asked, Run, Step};
use super::term::{Graph, Key, Slot, Term, What};
use lathe_ir::VarId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a tree asks for, without the tree.
pub(super) struct Reached {
    asked: HashMap<Term, Vec<Asked>>,
    regions: Vec<Vec<Step>>,
    worlds: HashMap<Key, Term>,
    unordered: BTreeSet<(VarId, Slot)>,
    pub statements: usize,
}

/// Something of the world, and what has to exist besides.
struct Level {
    base: Term,
    needs: HashSet<Term>,
}

impl Run<'_, '_> {
    /// What arrays that are not local hold, what may have failed, and what is stated.
    pub fn outcome(&mut self) -> BTreeMap<Slot, Term> {
        self.content.iter().filter(|(s, _)| !self.local.contains(s)).map(|(s, t)| (*s, *t)).collect()
    }

    pub fn reached(self) -> Reached {
        Reached {
            asked: self.asked,
            regions: self.regions,
            worlds: self.worlds,
            unordered: self.unordered,
            statements: self.statements,
        }
    }
}

impl Reached {
    /// Whether everything that the new tree asks for is asked for by this one, too.
    ///
    /// # Errors
    /// What may not exist, in words.
    pub fn covers(&self, new: &Run) -> Result<(), String> {
        if !new.unordered.is_subset(&self.unordered) {
            return Err("iterations without an order write an array that they did not write".into());
        }
        for (t, asked) in new.demands() {
            if new.graph.is_spent() {
                return Err(super::SPENT.into());
            }
            let was = self.asked.get(t).map_or(&[][..], Vec::as_slice);
            let region = &new.regions[asked.region];
            let levels = levels(new.graph, asked.world, &new.worlds);
            if !was.iter().any(|old| self.comes_first(new.graph, old, region, &levels)) {
                return Err(match &new.graph.node(*t).what {
                    What::Load(_) => "an element may be read that was not read",
                    What::Written(_) => "an element may be written that was not written",
                    _ => "a number may be computed that was not computed",
                }
                .into());
            }
        }
        Ok(())
    }

    /// Whether what is evaluated there is evaluated in every run that gets to a region, with no more before it that may
    /// fail.
    fn comes_first(&self, graph: &Graph, old: &Asked, region: &[Step], levels: &[Level]) -> bool {
        let surely = |step: &Step| match step {
            Step::Loop(_, lo, hi) => {
                let known = match (graph.int(*lo), graph.int(*hi)) {
                    (Some(lo), Some(hi)) => lo < hi,
                    _ => false,
                };
                known || region.iter().any(|s| matches!(s, Step::Branch(c, true) if graph.says(*c, *lo, *hi)))
            }
            Step::While(_) | Step::Branch(..) => false,
        };
        let mut first: HashSet<Key> = HashSet::new();
        for step in &self.regions[old.region] {
            if region.contains(step) {
                continue;
            }
            let Step::Loop(v, ..) = step else { return false };
            if !surely(step) {
                return false;
            }
            first.insert(Key::Loop(*v));
        }
        // In the first iteration, the world is what it was before the loop.
        let mut level = level(graph, old.world);
        while let What::Entry(key, Slot::World) = &graph.node(level.base).what
            && first.contains(key)
            && let Some(before) = self.worlds.get(key)
        {
            let outside = self::level(graph, *before);
            level.needs.extend(outside.needs);
            level.base = outside.base;
        }
        levels.iter().any(|l| l.base == level.base && level.needs.is_subset(&l.needs))
    }
}

fn level(graph: &Graph, mut world: Term) -> Level {
    let mut needs = HashSet::new();
    while let (What::Need, [before, t]) = (&graph.node(world).what, graph.node(world).of.as_slice()) {
        graph.spend(1);
        needs.insert(*t);
        world = *before;
    }
    Level { base: world, needs }
}

/// A state of the world, and those before it.
fn levels(graph: &Graph, world: Term, worlds: &HashMap<Key, Term>) -> Vec<Level> {
    let (mut out, mut left, mut seen) = (Vec::new(), vec![world], HashSet::new());
    while let Some(world) = left.pop() {
        if !seen.insert(world) {
            continue;
        }
        graph.spend(1);
        if graph.is_spent() {
            break;
        }
        let level = level(graph, world);
        let node = graph.node(level.base);
        match &node.what {
            What::Check(..) | What::Event(_) => left.extend(node.of.first()),
            What::Around { .. } => left.extend(graph.before(level.base)),
            What::Choice => left.extend(&node.of[1..]),
            What::Entry(key, Slot::World) => left.extend(worlds.get(key)),
            _ => {}
        }
        out.push(level);
    }
    out
}
