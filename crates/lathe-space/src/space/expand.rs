//! Which values a level allows below given values of its context.
//!
//! Conditions that do not mention all of the context are answered once per combination of what they mention, for
//! all values of the level at once, as a row of bits; nodes then only combine rows. Other conditions are asked
//! for the values that are left.

use super::compile::{Code, Coder, Names, compile};
use super::def::SpaceDef;
use super::domain::Domain;
use super::groups::Condition;
use super::plan::PlanLevel;
use super::shape::{Found, Shape, shape};
use crate::expr::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What expanders look at.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub def: &'a SpaceDef,
    pub domains: &'a [Domain],
    pub conditions: &'a [Condition],
    pub coder: &'a Coder,
}

/// The conditions of one level.
pub(crate) struct Expander<'a> {
    world: World<'a>,
    param: usize,
    /// The parameters of the context.
    context: Vec<usize>,
    /// Words of a row, or `None` if the level has too many values for rows.
    words: Option<usize>,
    tests: Vec<Test<'a>>,
    /// Values that were tried while rows were made.
    tried: AtomicU64,
}

struct Test<'a> {
    condition: &'a Condition,
    /// Over the context's values and, last, the own value.
    code: Option<Code>,
    shape: Option<Shape>,
    rows: Option<Rows>,
}

/// Remembered rows.
struct Rows {
    /// Positions in the context that the condition mentions, with their numbers of values.
    reads: Vec<(usize, u32)>,
    rows: Vec<OnceLock<Row>>,
}

/// Bits of values: not excluded, and without answer.
#[derive(Clone, Default)]
struct Row {
    holds: Vec<u64>,
    fails: Option<Vec<u64>>,
}

/// Memory that is used again for each node.
#[derive(Default)]
pub(crate) struct Scratch {
    slots: Vec<i64>,
    row: Row,
}

/// Levels with more values do without rows.
const ROW: u32 = 1 << 13;
/// More combinations are not remembered.
const ROWS: u64 = 1 << 16;

impl<'a> Expander<'a> {
    pub fn new(world: World<'a>, plan: &[PlanLevel], l: usize) -> Expander<'a> {
        let level = &plan[l];
        let context: Vec<usize> = level.context.iter().map(|a| plan[*a].param).collect();
        let n = world.domains[level.param].len();
        let words = (n <= ROW).then(|| n.div_ceil(64) as usize);
        let slots = |name: &str| {
            let all = context.iter().chain(std::iter::once(&level.param));
            let mut named = all.enumerate().filter(|(_, p)| world.def.params[**p].name == name);
            named.next().map(|(slot, p)| (slot, world.def.params[*p].ty))
        };
        let names = Names { def: world.def, coder: world.coder, slots: &slots };
        let tests = level
            .tests
            .iter()
            .map(|c| {
                let condition = &world.conditions[*c];
                let own = &world.def.params[condition.owner].name;
                let code = condition.constraint.expr(own).and_then(|e| compile(&e, &names));
                let shape = code.as_ref().and_then(|c| shape(c, context.len()));
                let reads: Vec<(usize, u32)> = context
                    .iter()
                    .enumerate()
                    .filter(|(_, p)| condition.scope.contains(p))
                    .map(|(i, p)| (i, world.domains[*p].len()))
                    .collect();
                let size = reads.iter().try_fold(1u64, |n, r| n.checked_mul(u64::from(r.1)));
                let remember = words.is_some() && reads.len() < context.len();
                let rows = size.filter(|n| remember && *n <= ROWS).map(|n| Rows {
                    reads,
                    rows: std::iter::repeat_with(OnceLock::new).take(n as usize).collect(),
                });
                Test { condition, code, shape, rows }
            })
            .collect();
        Expander { world, param: level.param, context, words, tests, tried: AtomicU64::new(0) }
    }

    fn domain(&self) -> &'a Domain {
        &self.world.domains[self.param]
    }

    /// Whether all conditions are compiled.
    pub fn compiled(&self) -> bool {
        self.tests.iter().all(|t| t.code.is_some())
    }

    /// Values that were tried for several nodes at once.
    pub fn tried(&self) -> u64 {
        self.tried.load(Ordering::Relaxed)
    }

    /// Appends the allowed values to `values`. One that is only not excluded because a condition cannot be
    /// evaluated is allowed, and its place in `values` appended to `failed`. Returns how many were tried for
    /// this node alone.
    pub fn expand(
        &self,
        key: &[u32],
        scratch: &mut Scratch,
        values: &mut Vec<u32>,
        failed: &mut Vec<u32>,
    ) -> u64 {
        let World { domains, coder, .. } = self.world;
        let Scratch { slots, row } = scratch;
        slots.clear();
        slots.extend(self.context.iter().zip(key).map(|(p, v)| coder.code(domains, *p, *v)));
        slots.push(0);
        match self.words {
            Some(words) => {
                row.fill(words, self.domain().len());
                let mut tried = 0;
                for test in &self.tests {
                    match &test.rows {
                        Some(rows) => row.and(rows.get(key, || {
                            let mut own = Row::default();
                            own.fill(words, self.domain().len());
                            let tried = self.restrict(test, key, slots, &mut own);
                            self.tried.fetch_add(tried, Ordering::Relaxed);
                            own
                        })),
                        None => tried += self.restrict(test, key, slots, row),
                    }
                }
                row.append(values, failed);
                tried
            }
            None => self.candidates(key, slots, values, failed),
        }
    }

    /// Takes out of a row what a condition excludes.
    fn restrict(&self, test: &Test, key: &[u32], slots: &mut [i64], row: &mut Row) -> u64 {
        let found = test.shape.as_ref().and_then(|s| s.find(&slots[..self.context.len()], self.domain()));
        if let Some((found, tried)) = found {
            let mut other = Row { holds: vec![0; row.holds.len()], fails: None };
            match found {
                Found::Range(a, b) => (a..b).for_each(|i| other.set(i)),
                Found::List(all, bad) => {
                    all.into_iter().for_each(|i| other.set(i));
                    bad.into_iter().for_each(|i| other.fail(i));
                }
            }
            row.and(&other);
            return tried;
        }
        let mut tried = 0;
        for w in 0..row.holds.len() {
            let mut left = row.holds[w];
            while left != 0 {
                let i = w as u32 * 64 + left.trailing_zeros();
                left &= left - 1;
                tried += 1;
                match self.holds(test, key, slots, i) {
                    Some(true) => {}
                    Some(false) => row.clear(i),
                    None => row.fail(i),
                }
            }
        }
        tried
    }

    /// Whether a condition holds for value `i`; `None` if it has no answer.
    fn holds(&self, test: &Test, key: &[u32], slots: &mut [i64], i: u32) -> Option<bool> {
        if let Some(code) = &test.code {
            slots[self.context.len()] = self.world.coder.code(self.world.domains, self.param, i);
            return code.run(slots).ok().map(|v| v != 0);
        }
        let own = &self.world.def.params[test.condition.owner].name;
        test.condition.constraint.holds(own, &|name| self.lookup(name, key, i)).ok()
    }

    fn lookup(&self, name: &str, key: &[u32], own: u32) -> Option<Value> {
        let World { def, domains, .. } = self.world;
        if def.params[self.param].name == name {
            return Some(domains[self.param].value(own));
        }
        match self.context.iter().position(|p| def.params[*p].name == name) {
            Some(i) => Some(domains[self.context[i]].value(key[i])),
            None => def.constants.get(name).cloned(),
        }
    }

    /// For many values: what conditions list or bound is tried for all of them.
    fn candidates(
        &self,
        key: &[u32],
        slots: &mut [i64],
        values: &mut Vec<u32>,
        failed: &mut Vec<u32>,
    ) -> u64 {
        let (mut from, mut to) = (0, self.domain().len());
        let mut list: Option<Vec<u32>> = None;
        let mut tried = 0;
        for shape in self.tests.iter().filter_map(|t| t.shape.as_ref()) {
            let Some((found, trials)) = shape.find(&slots[..self.context.len()], self.domain()) else {
                continue;
            };
            tried += trials;
            match found {
                Found::Range(a, b) => (from, to) = (from.max(a), to.min(b)),
                Found::List(all, _) if list.as_ref().is_none_or(|l| l.len() > all.len()) => list = Some(all),
                Found::List(..) => {}
            }
        }
        let mut one = |i: u32| {
            let mut fails = false;
            for test in &self.tests {
                tried += 1;
                match self.holds(test, key, slots, i) {
                    Some(true) => {}
                    Some(false) => return,
                    None => fails = true,
                }
            }
            if fails {
                failed.push(values.len() as u32);
            }
            values.push(i);
        };
        match list {
            Some(list) => list.into_iter().filter(|i| (from..to).contains(i)).for_each(one),
            None => (from..to).for_each(&mut one),
        }
        tried
    }
}

impl Rows {
    /// The row for a node, made if it is asked for the first time.
    fn get(&self, key: &[u32], make: impl FnOnce() -> Row) -> &Row {
        let at = self.reads.iter().fold(0, |at, (i, n)| at * *n as usize + key[*i] as usize);
        self.rows[at].get_or_init(make)
    }
}

impl Row {
    /// All of `n` values.
    fn fill(&mut self, words: usize, n: u32) {
        self.holds.clear();
        self.holds.resize(words, u64::MAX);
        if let Some(last) = self.holds.last_mut()
            && !n.is_multiple_of(64)
        {
            *last = u64::MAX >> (64 - n % 64);
        }
        self.fails = None;
    }

    fn set(&mut self, i: u32) {
        self.holds[i as usize / 64] |= 1 << (i % 64);
    }

    fn clear(&mut self, i: u32) {
        self.holds[i as usize / 64] &= !(1 << (i % 64));
    }

    fn fail(&mut self, i: u32) {
        let n = self.holds.len();
        self.fails.get_or_insert_with(|| vec![0; n])[i as usize / 64] |= 1 << (i % 64);
    }

    /// Excludes what `other` excludes.
    fn and(&mut self, other: &Row) {
        for (a, b) in self.holds.iter_mut().zip(&other.holds) {
            *a &= b;
        }
        if let Some(fails) = &other.fails {
            let n = self.holds.len();
            let own = self.fails.get_or_insert_with(|| vec![0; n]);
            for (a, b) in own.iter_mut().zip(fails) {
                *a |= b;
            }
        }
    }

    fn append(&self, values: &mut Vec<u32>, failed: &mut Vec<u32>) {
        for (w, bits) in self.holds.iter().enumerate() {
            let mut left = *bits;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if self.fails.as_ref().is_some_and(|f| f[w] >> bit & 1 == 1) {
                    failed.push(values.len() as u32);
                }
                values.push(w as u32 * 64 + bit);
            }
        }
    }
}
