//! Numbers, coordinates, samples and neighbours of configurations.

use super::count::Count;
use super::def::Scale;
use super::generate::Stored;
use super::tree::{Path, Tree};
use super::{Configuration, Space};
use crate::expr::Value;
use num_bigint::{BigUint, RandBigInt};
use num_traits::ToPrimitive;
use rand::Rng;

/// How the interval (0, 1] of a level is divided among the values that are possible there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Equal shares: neighbours are equally far from each other everywhere.
    Equal,
    /// Shares as large as the numbers of configurations: uniform points give uniform configurations.
    Weighted,
}

/// The number of a configuration within a group.
#[derive(Clone)]
enum Part {
    Small(u64),
    Big(BigUint),
}

impl Space {
    /// Configuration number `index`; `None` from [`Space::size`] on. Different numbers are different
    /// configurations. Later levels count faster.
    pub fn configuration(&self, index: &BigUint) -> Option<Configuration> {
        if self.small.is_some() {
            return self.small_configuration(index.to_u64()?);
        }
        let mut values = vec![Value::Bool(false); self.params.len()];
        for (tree, part) in self.trees.iter().zip(self.parts(index)?) {
            match (tree, part) {
                (Stored::Small(t), Part::Small(i)) => self.fill(t, i, &mut values),
                (Stored::Small(t), Part::Big(i)) => self.fill(t, i.to_u64().unwrap_or(0), &mut values),
                (Stored::Big(t), Part::Small(i)) => self.fill(t, i.into(), &mut values),
                (Stored::Big(t), Part::Big(i)) => self.fill(t, i, &mut values),
            }
        }
        Some(Configuration::new(self.names.clone(), values))
    }

    fn small_configuration(&self, index: u64) -> Option<Configuration> {
        let mut left = self.small.is_some_and(|n| index < n).then_some(index)?;
        let mut values = vec![Value::Bool(false); self.params.len()];
        for tree in self.trees.iter().rev() {
            if let Stored::Small(t) = tree {
                self.fill(t, left % t.total, &mut values);
                left /= t.total;
            }
        }
        Some(Configuration::new(self.names.clone(), values))
    }

    /// A configuration, all equally likely; the same as that of [`Space::sample`]'s number.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Configuration {
        let drawn = match self.small {
            Some(n) => self.small_configuration(rng.gen_range(0..n)),
            None => self.configuration(&rng.gen_biguint_below(&self.size)),
        };
        drawn.unwrap_or_else(|| Configuration::new(self.names.clone(), Vec::new()))
    }

    /// The number of a configuration; `None` if it is not valid.
    pub fn index_of(&self, c: &Configuration) -> Option<BigUint> {
        if c.names() != &*self.names {
            return None;
        }
        let numbers: Option<Vec<u32>> =
            self.domains.iter().zip(c.values()).map(|(d, v)| d.position(v)).collect();
        self.index_at(&numbers?)
    }

    /// The number of the configuration with these values, each by its number in its parameter's range; `None` if that is
    /// not valid.
    pub fn index_at(&self, numbers: &[u32]) -> Option<BigUint> {
        if numbers.len() != self.params.len() {
            return None;
        }
        let paths: Option<Vec<Path>> = self
            .trees
            .iter()
            .map(|t| match t {
                Stored::Small(t) => t.find(|p| numbers[p]),
                Stored::Big(t) => t.find(|p| numbers[p]),
            })
            .collect();
        Some(self.index(&paths?))
    }

    /// The values of configuration number `index`, each by its number in its parameter's range; the inverse of
    /// [`Space::index_at`].
    pub fn numbers(&self, index: &BigUint) -> Option<Vec<u32>> {
        let mut out = vec![0; self.params.len()];
        for (tree, part) in self.trees.iter().zip(self.parts(index)?) {
            match (tree, part) {
                (Stored::Small(t), Part::Small(i)) => number_values(t, i, &mut out),
                (Stored::Small(t), Part::Big(i)) => number_values(t, i.to_u64().unwrap_or(0), &mut out),
                (Stored::Big(t), Part::Small(i)) => number_values(t, i.into(), &mut out),
                (Stored::Big(t), Part::Big(i)) => number_values(t, i, &mut out),
            }
        }
        Some(out)
    }

    /// The number of the configuration at a point of the cube (0, 1]ᴸ, one coordinate per level. A coordinate
    /// says which of the values possible below the earlier ones is taken. Outside it is clamped; one that is
    /// NaN or missing takes the first value.
    pub fn at(&self, coordinates: &[f64], blocks: Blocks) -> BigUint {
        let paths: Vec<Path> = self
            .groups
            .iter()
            .zip(&self.trees)
            .map(|(g, t)| {
                let own = |l: usize| coordinates.get(g.levels.start + l).copied().unwrap_or(0.0);
                match t {
                    Stored::Small(t) => at(t, &own, blocks),
                    Stored::Big(t) => at(t, &own, blocks),
                }
            })
            .collect();
        self.index(&paths)
    }

    /// The centre of a configuration's block, the inverse of [`Space::at`] as far as floats distinguish blocks:
    /// equal blocks always, weighted ones down to shares of about 10⁻¹⁵ of a level. Numbers from [`Space::size`]
    /// on give the point of the last configuration.
    pub fn coordinates(&self, index: &BigUint, blocks: Blocks) -> Vec<f64> {
        let last = &self.size - 1u32;
        let parts = self.parts(index.min(&last)).unwrap_or_default();
        let mut out = Vec::with_capacity(self.levels.len());
        for (tree, part) in self.trees.iter().zip(parts) {
            match (tree, part) {
                (Stored::Small(t), Part::Small(i)) => centres(t, &t.path(i), blocks, &mut out),
                (Stored::Small(t), Part::Big(i)) => {
                    centres(t, &t.path(i.to_u64().unwrap_or(0)), blocks, &mut out)
                }
                (Stored::Big(t), Part::Small(i)) => centres(t, &t.path(i.into()), blocks, &mut out),
                (Stored::Big(t), Part::Big(i)) => centres(t, &t.path(i), blocks, &mut out),
            }
        }
        out
    }

    /// The number of a configuration, all equally likely.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> BigUint {
        match self.small {
            Some(n) => rng.gen_range(0..n).into(),
            None => rng.gen_biguint_below(&self.size),
        }
    }

    /// A valid configuration near to a wanted one, which need not be valid: as few values as possible differ,
    /// and those by little (relative to their range; by quotients for ratios). `None` if it is of another space.
    pub fn nearest(&self, wanted: &Configuration) -> Option<BigUint> {
        if wanted.names() != &*self.names {
            return None;
        }
        let scales: Vec<Measure> = (0..self.params.len()).map(|p| self.measure(p, wanted)).collect();
        let distance = |p: usize, v: u32| scales[p].distance(&self.domains[p].value(v), v);
        let paths: Option<Vec<Path>> = self
            .trees
            .iter()
            .map(|t| match t {
                Stored::Small(t) => t.nearest(&distance),
                Stored::Big(t) => t.nearest(&distance),
            })
            .collect();
        Some(self.index(&paths?))
    }

    /// All configurations, by number.
    pub fn iter(&self) -> impl Iterator<Item = Configuration> + '_ {
        let mut next = BigUint::ZERO;
        std::iter::from_fn(move || {
            let c = self.configuration(&next)?;
            next += 1u32;
            Some(c)
        })
    }

    fn fill<C: Count>(&self, tree: &Tree<C>, index: C, values: &mut [Value]) {
        tree.visit(index, |l, node, k| {
            let level = &tree.levels[l];
            values[level.param] = self.domains[level.param].value(level.value(node, k));
        });
    }

    /// The number of each group's part; the last group counts fastest.
    fn parts(&self, index: &BigUint) -> Option<Vec<Part>> {
        if let Some(n) = self.small {
            let mut left = index.to_u64().filter(|i| *i < n)?;
            let mut parts = vec![Part::Small(0); self.groups.len()];
            for (part, tree) in parts.iter_mut().zip(&self.trees).rev() {
                if let Stored::Small(t) = tree {
                    *part = Part::Small(left % t.total);
                    left /= t.total;
                }
            }
            return Some(parts);
        }
        if *index >= self.size {
            return None;
        }
        let mut left = index.clone();
        let mut parts = vec![Part::Small(0); self.groups.len()];
        for run in self.runs.iter().rev() {
            // One division of the large number for many groups.
            if let Some(product) = run.product {
                let mut here = (&left % product).to_u64().unwrap_or(0);
                left /= product;
                for g in run.groups.clone().rev() {
                    if let Stored::Small(t) = &self.trees[g] {
                        parts[g] = Part::Small(here % t.total);
                        here /= t.total;
                    }
                }
                continue;
            }
            for g in run.groups.clone().rev() {
                if let Stored::Big(t) = &self.trees[g] {
                    parts[g] = Part::Big(&left % &t.total);
                    left /= &t.total;
                }
            }
        }
        Some(parts)
    }

    /// The number of the configuration with one path per group.
    fn index(&self, paths: &[Path]) -> BigUint {
        if self.small.is_some() {
            let mut index = 0u64;
            for (tree, path) in self.trees.iter().zip(paths) {
                if let Stored::Small(t) = tree {
                    index = index * t.total + t.index(path);
                }
            }
            return index.into();
        }
        let mut index = BigUint::ZERO;
        for run in &self.runs {
            if let Some(product) = run.product {
                let mut here = 0u64;
                for g in run.groups.clone() {
                    if let Stored::Small(t) = &self.trees[g] {
                        here = here * t.total + t.index(&paths[g]);
                    }
                }
                index = index * product + here;
                continue;
            }
            for g in run.groups.clone() {
                if let Stored::Big(t) = &self.trees[g] {
                    index = index * &t.total + t.index(&paths[g]);
                }
            }
        }
        index
    }

    fn measure(&self, p: usize, wanted: &Configuration) -> Measure {
        let wanted = &wanted.values()[p];
        let d = &self.domains[p];
        let same = d.position(wanted);
        let log = self.params[p].scale == Scale::Ratio;
        let ends = (number(&d.value(0), log), number(&d.value(d.len() - 1), log));
        match (self.params[p].scale, number(wanted, log), ends) {
            (Scale::Linear | Scale::Ratio, Some(target), (Some(a), Some(b))) => {
                let width = if a == b { 1.0 } else { (a - b).abs() };
                Measure { same, target: Some(target), width, log }
            }
            _ => Measure { same, target: None, width: 1.0, log },
        }
    }
}

/// How far values of a parameter are from the wanted one.
struct Measure {
    /// The number of the wanted value, if it is one.
    same: Option<u32>,
    /// The wanted number, on the scale; `None` for categories.
    target: Option<f64>,
    width: f64,
    log: bool,
}

impl Measure {
    /// 0 for the wanted value; else 1, and at most 1 more.
    fn distance(&self, v: &Value, i: u32) -> f64 {
        if self.same == Some(i) {
            return 0.0;
        }
        match (self.target, number(v, self.log)) {
            (Some(t), Some(v)) => {
                let away = (v - t).abs() / self.width;
                1.0 + away / (1.0 + away)
            }
            _ => 2.0,
        }
    }
}

fn number(v: &Value, log: bool) -> Option<f64> {
    let v = match v {
        Value::Int(v) => *v as f64,
        Value::Float(v) => *v,
        Value::Bool(_) | Value::Str(_) => return None,
    };
    let v = if log { v.ln() } else { v };
    v.is_finite().then_some(v)
}

fn number_values<C: Count>(tree: &Tree<C>, index: C, out: &mut [u32]) {
    tree.visit(index, |l, node, k| {
        let level = &tree.levels[l];
        out[level.param] = level.value(node, k);
    });
}

fn at<C: Count>(tree: &Tree<C>, own: &dyn Fn(usize) -> f64, blocks: Blocks) -> Path {
    let path = tree.descend(|l, node| {
        let level = &tree.levels[l];
        let n = level.degree(node);
        let x = own(l);
        // NaN compares as not greater.
        let x = if x > 0.0 { x.min(1.0) } else { 0.0 };
        let k = match blocks {
            Blocks::Equal => (x * f64::from(n)).ceil() as u32,
            Blocks::Weighted if level.children.is_empty() => (x * f64::from(n)).ceil() as u32,
            Blocks::Weighted => {
                let total = level.total(node);
                // The first edge whose block ends at or behind x.
                let (mut a, mut b) = (1, n);
                while a < b {
                    let middle = a + (b - a) / 2;
                    if level.before(node, middle).fraction(&total) >= x { b = middle } else { a = middle + 1 }
                }
                a
            }
        };
        Some(k.clamp(1, n) - 1)
    });
    path.unwrap_or_default()
}

fn centres<C: Count>(tree: &Tree<C>, path: &Path, blocks: Blocks, out: &mut Vec<f64>) {
    for (l, level) in tree.levels.iter().enumerate() {
        let (node, k) = (path.nodes[l], path.edges[l]);
        out.push(match blocks {
            Blocks::Equal => (f64::from(k) + 0.5) / f64::from(level.degree(node)),
            Blocks::Weighted => {
                let total = level.total(node);
                let (a, b) =
                    (level.before(node, k).fraction(&total), level.before(node, k + 1).fraction(&total));
                let centre = a + (b - a) / 2.0;
                // A block too narrow for a float between its ends belongs to its upper end.
                if centre > a { centre } else { b }
            }
        });
    }
}
