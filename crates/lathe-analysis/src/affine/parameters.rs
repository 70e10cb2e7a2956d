//! What the parameters of questions to isl's scheduler stand for.

use super::dependences::Dependence;
use super::{Context, Unit};
use crate::system::{Col, Con};
use lathe_ir::VarId;
use std::collections::BTreeMap;

/// isl's parameters: the surroundings, and numbers that are so large that they are sizes.
pub(super) struct Names {
    pub outer: BTreeMap<Col, VarId>,
    pub sizes: Vec<i64>,
}

/// Numbers above are written as a size and a difference of at most [`NEAR`]: what holds for every size holds for this
/// one, and isl's linear programs, which are exact, take ten times as long with large numbers.
const SIZE: i64 = 16;
/// So large are sizes at least.
pub(super) const LEAST_SIZE: i64 = SIZE + 1;
const NEAR: i64 = 8;

impl Names {
    pub fn of(context: &Context, units: &[Unit], dependences: &[Dependence]) -> Names {
        let all = std::iter::once(&context.cons)
            .chain(units.iter().map(|u| &u.domain))
            .chain(dependences.iter().flat_map(|d| &d.when));
        let numbers = all.flatten().filter(|c| !large(c)).map(|c| c.lin.constant.abs());
        let mut numbers: Vec<i64> = numbers.filter(|n| *n > SIZE).collect();
        numbers.sort_unstable();
        let mut sizes: Vec<i64> = Vec::new();
        for n in numbers {
            if sizes.last().is_none_or(|s| n - s > NEAR) {
                sizes.push(n);
            }
        }
        Names { outer: context.variables.iter().map(|(v, c)| (*c, *v)).collect(), sizes }
    }

    /// A number as a constant, and a size with its sign.
    pub fn number(&self, n: i64) -> (i64, Option<(usize, i64)>) {
        let near = |s: &i64| n.abs() - s >= 0 && n.abs() - s <= NEAR;
        match self.sizes.iter().position(near).filter(|_| n.abs() > SIZE) {
            Some(k) => (n.signum() * (n.abs() - self.sizes[k]), Some((k, n.signum()))),
            None => (n, None),
        }
    }

    /// How many there are.
    pub fn parameters(&self) -> usize {
        self.outer.len() + self.sizes.len()
    }

    /// The name of one: `p` with its unknown, or `n` with its place among the sizes.
    pub fn parameter(&self, n: usize) -> String {
        match self.outer.keys().nth(n) {
            Some(col) => format!("p{col}"),
            None => format!("n{}", n - self.outer.len()),
        }
    }
}

/// A machine limit, which gives no information. Without a constraint there are more iterations and dependences, never
/// fewer.
pub(super) fn large(c: &Con) -> bool {
    c.lin.constant.unsigned_abs() > u64::from(u32::MAX)
}
