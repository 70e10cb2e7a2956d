//! Which of all costs so far is the best, and each cost as one number, for techniques that calculate.
//!
//! Under a tolerance, costs are not compared in pairs: that two of them are nearly equal, and so are the second and a
//! third, says nothing about the first and the third. What counts is how near each is to the least: of all costs, those
//! are kept whose first objective is within the tolerance of the least one; of these, those whose second objective is;
//! and so on. Of what is left the best is taken without any tolerance.

use crate::cost::{Cost, Order};
use std::cmp::Ordering;

/// All costs so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    order: Order,
    /// With the numbers under which the caller knows them.
    all: Vec<(usize, Cost)>,
    /// The position of the best one.
    best: Option<usize>,
    /// Per objective, the least value among the costs that the earlier objectives keep.
    least: Vec<f64>,
    /// Sorted by the order, with what each stands for.
    ladder: Vec<(Cost, f64)>,
}

/// What a new cost changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    /// Smaller is better.
    pub number: f64,
    /// Another cost than before is the best now; not always the new one.
    pub changed: bool,
}

impl Ranking {
    pub fn new(order: Order) -> Ranking {
        Ranking { order, ..Ranking::default() }
    }

    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The number under which the best cost is known, and the cost.
    pub fn best(&self) -> Option<(usize, &Cost)> {
        self.best.map(|i| (self.all[i].0, &self.all[i].1))
    }

    pub fn push(&mut self, known_as: usize, cost: &Cost) -> Ranked {
        self.all.push((known_as, cost.clone()));
        let new = self.all.len() - 1;
        let old = self.best;
        match self.order {
            Order::Lexicographic { tolerance } if tolerance > 0.0 && cost.numbers().len() > 1 => {
                self.push_tolerant(new, tolerance);
                let number = self.near_number(cost, tolerance);
                Ranked { number, changed: self.best != old }
            }
            _ => {
                if old.is_none_or(|b| self.order.compare(cost, &self.all[b].1).is_lt()) {
                    self.best = Some(new);
                }
                Ranked { number: self.number(cost), changed: self.best != old }
            }
        }
    }

    fn push_tolerant(&mut self, new: usize, tolerance: f64) {
        let cost = self.all[new].1.numbers();
        for (v, least) in cost.iter().zip(&self.least) {
            if v < least {
                return self.choose(tolerance);
            }
            if *v > limit(*least, tolerance) {
                return;
            }
        }
        match self.best {
            Some(b) if self.order.compare(&self.all[b].1, &self.all[new].1) != Ordering::Greater => {}
            Some(_) => self.best = Some(new),
            None => self.choose(tolerance),
        }
    }

    /// The best of all, from the beginning.
    fn choose(&mut self, tolerance: f64) {
        let mut kept: Vec<usize> = (0..self.all.len()).collect();
        self.least.clear();
        let value = |i: usize, objective: usize| self.all[i].1.numbers()[objective];
        for objective in 0..self.all.first().map_or(0, |c| c.1.numbers().len()) {
            let least = kept.iter().map(|i| value(*i, objective)).fold(f64::INFINITY, f64::min);
            self.least.push(least);
            kept.retain(|i| value(*i, objective) <= limit(least, tolerance));
        }
        let order = &self.order;
        self.best = kept.into_iter().min_by(|a, b| order.compare(&self.all[*a].1, &self.all[*b].1));
    }

    /// A single number stands for itself. Under other orders a cost gets a number between those of its neighbours among
    /// all costs so far, so that comparing the numbers is comparing the costs.
    fn number(&mut self, cost: &Cost) -> f64 {
        match &self.order {
            Order::Lexicographic { .. } if cost.numbers().len() == 1 => return cost.numbers()[0],
            Order::Pareto => return crate::cost::mean(cost),
            _ => {}
        }
        let at = self.ladder.partition_point(|(c, _)| self.order.compare(c, cost).is_lt());
        if let Some((c, v)) = self.ladder.get(at)
            && self.order.compare(c, cost).is_eq()
        {
            return *v;
        }
        let below = at.checked_sub(1).map(|i| self.ladder[i].1);
        let above = self.ladder.get(at).map(|e| e.1);
        let v = match (below, above) {
            (None, None) => 1.0,
            (Some(b), None) => b * 1.5,
            (None, Some(a)) => a / 1.5,
            (Some(b), Some(a)) => b + (a - b) / 2.0,
        };
        self.ladder.insert(at, (cost.clone(), v));
        v
    }

    /// Under a tolerance, what is near the least so far gets a number between the least and the limit, by what follows;
    /// anything else stands for itself.
    fn near_number(&self, cost: &Cost, tolerance: f64) -> f64 {
        let (mut number, mut following) = (cost.first(), None::<f64>);
        for (v, least) in cost.numbers().iter().zip(&self.least).rev() {
            let top = limit(*least, tolerance);
            let width = (top - least).max(1e-9 * (1.0 + least.abs()));
            let own = match following {
                Some(part) if *v <= top => least + width * part,
                _ => *v,
            };
            // How far from the least, relative to it, as a number below 1.
            let away = ((own - least) / least.abs().max(f64::MIN_POSITIVE)).max(0.0);
            following = Some(if away.is_finite() { away / (1.0 + away) } else { 1.0 });
            number = own;
        }
        number
    }
}

/// The greatest value that is as good as the least one.
fn limit(least: f64, tolerance: f64) -> f64 {
    least + tolerance * least.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn best(tolerance: f64, costs: &[(f64, f64)]) -> usize {
        let mut r = Ranking::new(Order::Lexicographic { tolerance });
        for (i, c) in costs.iter().enumerate() {
            let before = r.best().map(|b| b.0);
            let ranked = r.push(i, &(*c).into());
            assert_eq!(ranked.changed, r.best().map(|b| b.0) != before);
        }
        r.best().unwrap().0
    }

    /// The definition, from all costs at once.
    fn slow(tolerance: f64, costs: &[(f64, f64)]) -> (f64, f64) {
        let least =
            |all: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| all.iter().map(f).fold(f64::INFINITY, f64::min);
        let keep = |all: Vec<(f64, f64)>, f: fn(&(f64, f64)) -> f64| {
            let m = least(&all, f);
            all.into_iter().filter(|c| f(c) <= m + tolerance * m.abs()).collect::<Vec<_>>()
        };
        let kept = keep(keep(costs.to_vec(), |c| c.0), |c| c.1);
        kept.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))).unwrap()
    }

    #[test]
    fn checklist_34_what_is_within_the_tolerance_of_the_least_is_equal_wherever_it_lies() {
        // Around any number, not only where no bucket ends.
        for scale in [1.0, 1.0249, 1.05, 3.7, 1e-9, 1e12] {
            assert_eq!(best(0.05, &[(1.0 * scale, 3.0), (1.049 * scale, 2.0)]), 1, "{scale}");
            assert_eq!(best(0.05, &[(1.049 * scale, 2.0), (1.0 * scale, 3.0)]), 0, "{scale}");
            assert_eq!(best(0.05, &[(1.0 * scale, 3.0), (1.051 * scale, 2.0)]), 0, "{scale}");
        }
        // Small steps do not add up.
        assert_eq!(best(0.05, &[(1.0, 9.0), (1.04, 8.0), (1.08, 1.0)]), 1);
        // A new least cost may bring back an earlier one.
        assert_eq!(best(0.05, &[(1.04, 1.0), (1.0, 5.0), (0.98, 9.0)]), 1);
        assert_eq!(best(0.05, &[(-1.0, 5.0), (-0.96, 1.0), (0.0, 0.0)]), 1);
        assert_eq!(best(0.05, &[(0.0, 5.0), (1e-300, 1.0)]), 0);
        assert_eq!(best(0.0, &[(1.0, 5.0), (1.0, 4.0), (0.5, 9.0)]), 2);
    }

    #[test]
    fn one_by_one_is_as_good_as_all_at_once() {
        let mut state = 7u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..2000 {
            let n = 1 + draw(12);
            let costs: Vec<(f64, f64)> =
                (0..n).map(|_| (0.9 + 0.01 * draw(30) as f64, draw(6) as f64 - 1.0)).collect();
            for tolerance in [0.01, 0.05, 0.3] {
                assert_eq!(costs[best(tolerance, &costs)], slow(tolerance, &costs), "{tolerance} {costs:?}");
            }
        }
    }

    #[test]
    fn numbers_follow_the_next_objective_within_the_tolerance() {
        let mut r = Ranking::new(Order::Lexicographic { tolerance: 0.1 });
        r.push(0, &(1.0, 4.0).into());
        let n = |r: &Ranking, c: (f64, f64)| r.near_number(&c.into(), 0.1);
        assert_eq!(n(&r, (1.2, 0.0)), 1.2);
        assert!(n(&r, (1.05, 8.0)) < n(&r, (1.0, 9.0)) && n(&r, (1.0, 9.0)) < 1.1);
        assert_eq!(n(&r, (1.09, 4.0)), 1.0);
    }

    #[test]
    fn checklist_34_numbers_follow_a_user_defined_order() {
        // The second objective decides, larger is better.
        let compare = Arc::new(|a: &Cost, b: &Cost| b.numbers()[1].total_cmp(&a.numbers()[1]));
        let order = Order::By { compare, objectives: 2 };
        let mut ranking = Ranking::new(order.clone());
        let costs: Vec<Cost> = [5.0, 1.0, 3.0, 9.0, 2.0, 3.0, 4.0].iter().map(|v| (0.0, *v).into()).collect();
        let given: Vec<f64> = costs.iter().enumerate().map(|(i, c)| ranking.push(i, c).number).collect();
        for (a, x) in costs.iter().zip(&given) {
            for (b, y) in costs.iter().zip(&given) {
                assert_eq!(order.compare(a, b), x.total_cmp(y), "{a} and {b}");
            }
        }
        assert_eq!(ranking.best().unwrap().0, 3);
    }
}
