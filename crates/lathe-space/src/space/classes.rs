//! Which combinations of a level's context are alike for all conditions that are still to come.
//!
//! `a * b * c <= 60` only wants to know the product of `a` and `b`, or rather how many values of `c` it leaves.
//! Combinations that are alike for each condition have equal subtrees, and need to be made only once.

use super::compile::{Code, Names, compile};
use super::expand::World;
use super::groups::Condition;
use super::plan::PlanLevel;
use std::collections::HashMap;

/// What a level's nodes are told apart by.
pub(crate) struct Signature {
    entries: Vec<Entry>,
}

enum Entry {
    /// A number for each combination of the values at some places of the context.
    Table { reads: Vec<(usize, u32)>, ids: Vec<u32> },
    /// The values of what a condition computes from the context alone; per slot the place and the parameter.
    Values { slots: Vec<(usize, usize)>, codes: Vec<Code> },
    /// The value at a place itself.
    Place(usize),
}

/// Conditions with more combinations of values are not tried out.
const TRIED: u64 = 1 << 14;

/// The signature of a level; `None` if it would tell all combinations apart.
pub(crate) fn signature(world: World, plan: &[PlanLevel], l: usize) -> Option<Signature> {
    let context: Vec<usize> = plan[l].context.iter().map(|a| plan[*a].param).collect();
    let mut pending = Vec::new();
    let mut open = vec![l];
    while let Some(l) = open.pop() {
        pending.extend(plan[l].tests.iter().map(|c| &world.conditions[*c]));
        open.extend(&plan[l].children);
    }
    let mut entries = Vec::new();
    let mut places = vec![false; context.len()];
    for c in pending {
        let known: Vec<(usize, usize)> =
            context.iter().copied().enumerate().filter(|(_, p)| c.scope.contains(p)).collect();
        if known.is_empty() {
            continue;
        }
        match table(world, c, &known).or_else(|| values(world, c, &known)) {
            Some(entry) => entries.push((known, entry)),
            None => known.iter().for_each(|(place, _)| places[*place] = true),
        }
    }
    if places.iter().all(|p| *p) {
        return None;
    }
    // An entry that depends only on values that all differ already distinguishes nothing more.
    entries.retain(|(known, _)| known.iter().any(|(place, _)| !places[*place]));
    let mut entries = merged(entries.into_iter().map(|e| e.1).collect());
    entries.extend(places.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| Entry::Place(i)));
    Some(Signature { entries })
}

/// Tables that read the same places made one.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::with_capacity(entries.len());
    for e in entries {
        let Entry::Table { reads, ids } = e else {
            out.push(e);
            continue;
        };
        let same = out.iter_mut().find_map(|o| match o {
            Entry::Table { reads: r, ids } if *r == reads => Some(ids),
            _ => None,
        });
        match same {
            None => out.push(Entry::Table { reads, ids }),
            Some(old) => {
                let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
                for (a, b) in old.iter_mut().zip(ids) {
                    let next = numbers.len() as u32;
                    *a = *numbers.entry((*a, b)).or_insert(next);
                }
            }
        }
    }
    out
}

impl Signature {
    /// Appends what tells a combination of values apart.
    pub fn of(&self, world: World, key: &[u32], out: &mut Vec<u32>) {
        for e in &self.entries {
            match e {
                Entry::Table { reads, ids } => {
                    let at = reads.iter().fold(0, |at, (i, n)| at * *n as usize + key[*i] as usize);
                    out.push(ids[at]);
                }
                Entry::Values { slots, codes } => {
                    let slots: Vec<i64> = slots
                        .iter()
                        .map(|(place, p)| world.coder.code(world.domains, *p, key[*place]))
                        .collect();
                    for c in codes {
                        match c.run(&slots) {
                            Ok(v) => out.extend([1, v as u32, (v >> 32) as u32]),
                            Err(_) => out.extend([0, 0, 0]),
                        }
                    }
                }
                Entry::Place(i) => out.push(key[*i]),
            }
        }
    }
}

/// The condition as code over the parameters of its scope, one slot each.
fn code(world: World, c: &Condition) -> Option<Code> {
    let slots = |name: &str| {
        let at = c.scope.iter().position(|p| world.def.params[*p].name == name)?;
        Some((at, world.def.params[c.scope[at]].ty))
    };
    let names = Names { def: world.def, coder: world.coder, slots: &slots };
    compile(&c.constraint.expr(&world.def.params[c.owner].name)?, &names)
}

/// Tries a condition for all values; known ones with the same answers get the same number.
fn table(world: World, c: &Condition, known: &[(usize, usize)]) -> Option<Entry> {
    let sizes: Vec<u32> = c.scope.iter().map(|p| world.domains[*p].len()).collect();
    let all = sizes.iter().try_fold(1u64, |n, s| n.checked_mul(u64::from(*s)))?;
    if all > TRIED {
        return None;
    }
    let code = code(world, c)?;
    let inner: Vec<usize> =
        (0..c.scope.len()).filter(|i| !known.iter().any(|k| k.1 == c.scope[*i])).collect();
    let outer: Vec<usize> = known.iter().filter_map(|k| c.scope.iter().position(|p| *p == k.1)).collect();
    let mut slots = vec![0; sizes.len()];
    let set = |mut n: u64, which: &[usize], slots: &mut [i64]| {
        for i in which.iter().rev() {
            let size = u64::from(sizes[*i]);
            slots[*i] = world.coder.code(world.domains, c.scope[*i], (n % size) as u32);
            n /= size;
        }
    };
    let count = |which: &[usize]| which.iter().map(|i| u64::from(sizes[*i])).product::<u64>();
    let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut ids = Vec::with_capacity(count(&outer) as usize);
    for n in 0..count(&outer) {
        set(n, &outer, &mut slots);
        let answers: Vec<u8> = (0..count(&inner))
            .map(|m| {
                set(m, &inner, &mut slots);
                code.run(&slots).map_or(2, |v| v as u8)
            })
            .collect();
        let next = numbers.len() as u32;
        ids.push(*numbers.entry(answers).or_insert(next));
    }
    let reads = known.iter().map(|(place, p)| (*place, world.domains[*p].len())).collect();
    Some(Entry::Table { reads, ids })
}

/// The parts of a condition that the known values decide.
fn values(world: World, c: &Condition, known: &[(usize, usize)]) -> Option<Entry> {
    fn go(code: &Code, unknown: &dyn Fn(usize) -> bool, out: &mut Vec<Code>) {
        if !code.mentions(&|_| true) {
            return;
        }
        if !code.mentions(unknown) {
            out.push(code.clone());
            return;
        }
        match code {
            Code::Const(_) | Code::Slot(_) => {}
            Code::Neg(a) | Code::Not(a) | Code::Abs(a) | Code::PowerOfTwo(a) => go(a, unknown, out),
            Code::Bin(_, a, b) | Code::Divides(a, b) | Code::CeilDiv(a, b) | Code::Pow(a, b) => {
                go(a, unknown, out);
                go(b, unknown, out);
            }
            Code::Min(all) | Code::Max(all) => all.iter().for_each(|a| go(a, unknown, out)),
        }
    }
    let code = code(world, c)?;
    let unknown = |slot: usize| !known.iter().any(|k| k.1 == c.scope[slot]);
    let mut codes = Vec::new();
    go(&code, &unknown, &mut codes);
    if codes.len() >= known.len() {
        return None;
    }
    // Slots of the scope; those that are not known are never read.
    let place = |p: usize| known.iter().find(|k| k.1 == p).copied();
    let first = known[0];
    let slots = c.scope.iter().map(|p| place(*p).unwrap_or(first)).collect();
    Some(Entry::Values { slots, codes })
}
