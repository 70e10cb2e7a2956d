//! A space seen as values of parameters: what is next to a configuration, and how far two are apart.

use lathe_space::{Configuration, Scale, Space, Value, Values};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A configuration: per parameter the number of its value.
pub type Genes = Vec<u32>;

/// Spaces up to this size are listed; of larger ones, so many configurations are drawn to see what values occur.
const LISTED: u32 = 8192;
/// An ordered axis with more values than this offers only near ones, and a few others, as neighbours.
const FEW: usize = 9;

/// One parameter, with those of its values that were met in valid configurations.
#[derive(Clone, Debug)]
pub struct Axis {
    param: usize,
    /// The values have no order.
    pub category: bool,
    logarithmic: bool,
    lo: f64,
    width: f64,
    /// Numbers of values, ordered by place.
    met: Vec<u32>,
    /// Where each of them lies between the least (0) and the greatest (1); for categories, their number.
    places: Vec<f64>,
}

impl Axis {
    fn new(space: &Space, param: usize, met: &BTreeSet<u32>) -> Axis {
        let numbers: Vec<f64> = met.iter().map(|i| number(space.value_of(param, *i))).collect();
        let scale = space.params()[param].scale;
        let category = scale == Scale::Category || numbers.iter().any(|v| !v.is_finite());
        let mut sorted = numbers;
        sorted.sort_by(f64::total_cmp);
        let positive = sorted.first().is_some_and(|v| *v > 0.0);
        let logarithmic = !category
            && positive
            && (scale == Scale::Ratio || uneven(&sorted, |v| v) > 4.0 * uneven(&sorted, f64::ln));
        let mut axis =
            Axis { param, category, logarithmic, lo: 0.0, width: 1.0, met: Vec::new(), places: Vec::new() };
        if let (false, Some(first), Some(last)) = (category, sorted.first(), sorted.last()) {
            axis.lo = axis.scaled(*first);
            let width = axis.scaled(*last) - axis.lo;
            axis.width = if width > 0.0 { width } else { 1.0 };
        }
        let mut placed: Vec<(f64, u32)> = met.iter().map(|i| (axis.place(space, *i), *i)).collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        (axis.places, axis.met) = placed.into_iter().unzip();
        axis
    }

    fn scaled(&self, v: f64) -> f64 {
        if self.logarithmic { v.max(f64::MIN_POSITIVE).ln() } else { v }
    }

    fn place(&self, space: &Space, value: u32) -> f64 {
        if self.category {
            f64::from(value)
        } else {
            (self.scaled(number(space.value_of(self.param, value))) - self.lo) / self.width
        }
    }

    /// How many values were met.
    pub fn len(&self) -> usize {
        self.met.len()
    }

    pub fn is_empty(&self) -> bool {
        self.met.is_empty()
    }

    fn any(&self, rng: &mut ChaCha8Rng) -> u32 {
        self.met.choose(rng).copied().unwrap_or(0)
    }

    /// Other values in the order in which a local search should try them: near ones first.
    fn others(&self, place: f64, rng: &mut ChaCha8Rng) -> Vec<u32> {
        let n = self.len();
        let rank = self.places.partition_point(|p| *p < place) as i64;
        if self.category {
            let mut all: Vec<u32> = (0..n).filter(|r| *r as i64 != rank).map(|r| self.met[r]).collect();
            all.shuffle(rng);
            all.truncate(2 * FEW);
            return all;
        }
        let mut out = Vec::new();
        let reach = if n <= FEW { n as i64 } else { 2 };
        for away in 1..=reach {
            let mut pair = [rank + away, rank - away];
            pair.shuffle(rng);
            out.extend(pair.into_iter().filter(|r| (0..n as i64).contains(r)));
        }
        if n > FEW {
            out.extend((0..3).map(|_| rng.gen_range(0..n as i64)).filter(|r| (r - rank).abs() > reach));
        }
        out.into_iter().map(|r| self.met[r as usize]).collect()
    }
}

/// The axes of a space, and its configurations where they are few.
#[derive(Clone, Debug)]
pub struct Lattice {
    space: Arc<Space>,
    axes: Vec<Axis>,
    /// The axes with more than one value.
    free: Vec<usize>,
    /// Every configuration, if the space is listed, and its index.
    listed: Option<HashMap<Genes, BigUint>>,
}

/// How unequal the steps between sorted numbers are: the greatest by the mean one.
fn uneven(sorted: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let Some(last) = sorted.last() else { return 1.0 };
    let total = f(*last) - f(sorted[0]);
    let widest = sorted.windows(2).map(|w| f(w[1]) - f(w[0])).fold(0.0, f64::max);
    if total > 0.0 { widest * (sorted.len() - 1) as f64 / total } else { 1.0 }
}

fn number(v: Option<Value>) -> f64 {
    match v {
        Some(Value::Bool(b)) => f64::from(u8::from(b)),
        Some(Value::Int(v)) => v as f64,
        Some(Value::Float(v)) => v,
        Some(Value::Str(_)) | None => f64::NAN,
    }
}

impl Lattice {
    pub fn new(space: &Arc<Space>, rng: &mut ChaCha8Rng) -> Lattice {
        let small = space.size().to_u32().filter(|n| *n <= LISTED);
        let indices: Vec<BigUint> = match small {
            Some(n) => (0..n).map(BigUint::from).collect(),
            None => (0..LISTED / 4).map(|_| space.sample(rng)).collect(),
        };
        let rows: Vec<Genes> = indices.iter().map(|i| genes(space, i)).collect();
        let axes = (0..space.params().len()).map(|p| {
            let met: BTreeSet<u32> = rows.iter().map(|row| row[p]).collect();
            Axis::new(space, p, &met)
        });
        let axes: Vec<Axis> = axes.collect();
        let free = (0..axes.len()).filter(|a| axes[*a].len() > 1).collect();
        let listed = small.map(|_| rows.into_iter().zip(indices).collect());
        Lattice { space: space.clone(), axes, free, listed }
    }

    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Every configuration, in the order of the space, if that is small enough.
    pub fn all(&self) -> Option<Vec<(Genes, BigUint)>> {
        let listed = self.listed.as_ref()?;
        let mut all: Vec<_> = listed.iter().map(|(g, i)| (g.clone(), i.clone())).collect();
        all.sort_by(|a, b| a.1.cmp(&b.1));
        Some(all)
    }

    pub fn genes(&self, index: &BigUint) -> Genes {
        genes(&self.space, index)
    }

    /// The configuration, valid or not.
    pub fn configuration(&self, genes: &[u32]) -> Option<Configuration> {
        let params = self.space.params().iter().enumerate().zip(genes);
        let values: Option<Values> =
            params.map(|((i, p), gene)| Some((p.name.clone(), self.space.value_of(i, *gene)?))).collect();
        self.space.read(&values?)
    }

    /// The configuration's index, if it is valid.
    pub fn index(&self, genes: &[u32]) -> Option<BigUint> {
        match &self.listed {
            Some(listed) => listed.get(genes).cloned(),
            None => self.space.index_at(genes),
        }
    }

    /// The axes with more than one value.
    pub fn free(&self) -> impl ExactSizeIterator<Item = &Axis> {
        self.free.iter().map(|a| &self.axes[*a])
    }

    /// Numbers between 0 and 1 per free axis; for categories, the number of the value.
    pub fn places(&self, genes: &[u32]) -> Vec<f64> {
        self.free.iter().map(|a| self.axes[*a].place(&self.space, genes[*a])).collect()
    }

    pub fn sample(&self, rng: &mut ChaCha8Rng) -> (Genes, BigUint) {
        let index = self.space.sample(rng);
        (self.genes(&index), index)
    }

    /// A value that an axis has in some valid configuration.
    pub fn any_value(&self, axis: usize, rng: &mut ChaCha8Rng) -> u32 {
        self.axes[axis].any(rng)
    }

    /// Changes of one parameter each, to be tried in this order: axes in random order, near values first. Not all of
    /// them are valid.
    pub fn changes(&self, genes: &[u32], rng: &mut ChaCha8Rng) -> Vec<(usize, u32)> {
        let mut axes = self.free.clone();
        axes.shuffle(rng);
        let mut out = Vec::new();
        for a in axes {
            let place = self.axes[a].place(&self.space, genes[a]);
            out.extend(self.axes[a].others(place, rng).into_iter().map(|value| (a, value)));
        }
        out
    }

    /// A configuration with one parameter changed, if that is valid.
    pub fn changed(&self, genes: &[u32], (axis, value): (usize, u32)) -> Option<(Genes, BigUint)> {
        let mut other = genes.to_vec();
        other[axis] = value;
        let index = self.index(&other)?;
        Some((other, index))
    }

    /// A valid configuration that differs in about `changes` parameters, if one is found soon.
    pub fn kick(&self, genes: &[u32], changes: usize, rng: &mut ChaCha8Rng) -> (Genes, BigUint) {
        for _ in 0..20 {
            let mut other = genes.to_vec();
            for a in self.free.choose_multiple(rng, changes.max(1)) {
                other[*a] = self.axes[*a].any(rng);
            }
            if other != genes
                && let Some(index) = self.index(&other)
            {
                return (other, index);
            }
        }
        self.sample(rng)
    }
}

fn genes(space: &Space, index: &BigUint) -> Genes {
    space.numbers(index).unwrap_or_else(|| vec![0; space.params().len()])
}
