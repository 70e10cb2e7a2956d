//! A Gaussian process over configurations: what is measured tells what to expect of a fixed pool of candidates.

use crate::cholesky::{Cholesky, dot, subtract};

/// How alike two configurations are: Matérn 5/2 over the distances in each axis, each with its own length.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub lengths: Vec<f64>,
    /// Per axis, how much it matters that two values differ at all (squared, added to the distance).
    pub gaps: Vec<f64>,
    /// Axes whose values have no order: any two differ by 1.
    pub categories: Vec<bool>,
    /// Variance of what the axes do not explain, relative to what they do.
    pub noise: f64,
}

impl Kernel {
    /// A kernel to begin with; `length` stretches the usual lengths.
    pub fn new(categories: Vec<bool>, length: f64) -> Kernel {
        let axes = categories.len();
        let gaps = categories.iter().map(|c| if *c { 0.0 } else { usual_gap(axes) }).collect();
        Kernel { lengths: vec![length * usual_length(axes); axes], gaps, categories, noise: NOISE }
    }

    pub fn of(&self, a: &[f64], b: &[f64]) -> f64 {
        let mut r2 = 0.0;
        for (i, length) in self.lengths.iter().enumerate() {
            let d = if self.categories[i] { f64::from(a[i] != b[i]) } else { a[i] - b[i] };
            r2 += d * d * length.powi(-2);
            if d != 0.0 {
                r2 += self.gaps[i] * self.gaps[i];
            }
        }
        matern(r2)
    }
}

/// What is usual before anything was measured. Distances add up over the axes, so more of them need longer lengths
/// and smaller gaps.
pub fn usual_length(axes: usize) -> f64 {
    0.5 * (axes.max(1) as f64).sqrt()
}

pub fn usual_gap(axes: usize) -> f64 {
    0.3 / usual_length(axes)
}

/// Usual noise.
pub const NOISE: f64 = 1e-2;

/// Matérn 5/2 of a squared distance.
pub fn matern(r2: f64) -> f64 {
    let s = (5.0 * r2).sqrt();
    (1.0 + s + s * s / 3.0) * exp_negative_double(s)
}

/// `exp(-s)` for `s` from 0 on, to about eleven digits, in a form that compilers turn into vectors.
fn exp_negative_double(s: f64) -> f64 {
    // Adding this rounds to a whole number, which then is in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let y = -s.min(700.0) * std::f64::consts::LOG2_E;
    let rounded = y + ROUND;
    let f = (y - (rounded - ROUND)) * std::f64::consts::LN_2;
    // Of the exponential function, in two halves, so that they do not depend on each other.
    let f2 = f * f;
    let even = 1.0 + f2 * (1.0 / 2.0 + f2 * (1.0 / 24.0 + f2 * (1.0 / 720.0 + f2 * (1.0 / 40320.0))));
    let odd = 1.0 + f2 * (1.0 / 6.0 + f2 * (1.0 / 120.0 + f2 * (1.0 / 5040.0 + f2 * (1.0 / 362_880.0))));
    let series = even + f * odd;
    series * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// Candidates by axis, so that many can be compared with one point at once. In single precision, which is far more
/// than a model of measured times deserves.
#[derive(Clone, Debug)]
struct Pool {
    columns: Vec<Vec<f32>>,
    len: usize,
}

impl Pool {
    fn new(points: &[Vec<f64>]) -> Pool {
        let axes = points.first().map_or(0, Vec::len);
        let column = |a: usize| points.iter().map(|p| p[a] as f32).collect();
        Pool { columns: (0..axes).map(column).collect(), len: points.len() }
    }

    /// The kernel between a point and every candidate.
    fn alike(&self, kernel: &Kernel, point: &[f64]) -> Vec<f32> {
        let mut r2 = vec![0.0f32; self.len];
        for (a, column) in self.columns.iter().enumerate() {
            let here = point[a] as f32;
            let length = kernel.lengths[a] as f32;
            let weight = 1.0 / (length * length);
            if kernel.categories[a] {
                for (r, v) in r2.iter_mut().zip(column) {
                    *r += if *v == here { 0.0 } else { weight };
                }
            } else {
                let gap = (kernel.gaps[a] * kernel.gaps[a]) as f32;
                for (r, v) in r2.iter_mut().zip(column) {
                    let d = v - here;
                    *r += d * d * weight + if d == 0.0 { 0.0 } else { gap };
                }
            }
        }
        for r in &mut r2 {
            let s = (5.0 * *r).sqrt();
            *r = (1.0 + s + s * s / 3.0) * exp_negative(s);
        }
        r2
    }
}

/// `exp(-s)` for `s` from 0 on, to about six digits, in a form that compilers turn into vectors.
fn exp_negative(s: f32) -> f32 {
    // Adding this rounds to a whole number, which then is in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let y = -s.min(80.0) * std::f32::consts::LOG2_E;
    let rounded = y + ROUND;
    let f = (y - (rounded - ROUND)) * std::f32::consts::LN_2;
    let series = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0)))));
    let power = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    series * power
}

/// The process, with a pool of candidates whose mean and variance it knows after every observation: adding one
/// costs O(observations × candidates), not a solve per candidate.
#[derive(Clone, Debug)]
pub struct Gaussian {
    kernel: Kernel,
    points: Vec<Vec<f64>>,
    /// The points by axis.
    columns: Vec<Vec<f64>>,
    factor: Cholesky,
    pool: Pool,
    /// `L⁻¹ K(points, pool)`, by rows.
    rows: Vec<Vec<f32>>,
    /// What the observations have taken of each candidate's variance of 1.
    explained: Vec<f32>,
}

impl Gaussian {
    pub fn new(kernel: Kernel, pool: &[Vec<f64>]) -> Gaussian {
        Gaussian {
            columns: vec![Vec::new(); kernel.lengths.len()],
            kernel,
            points: Vec::new(),
            factor: Cholesky::default(),
            pool: Pool::new(pool),
            rows: Vec::new(),
            explained: vec![0.0; pool.len()],
        }
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn len(&self) -> usize {
        self.points.len()
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Forgets all observations, and takes another kernel.
    pub fn restart(&mut self, kernel: Kernel) {
        self.kernel = kernel;
        self.points.clear();
        self.columns.iter_mut().for_each(Vec::clear);
        self.factor = Cholesky::default();
        self.rows.clear();
        self.explained.fill(0.0);
    }

    /// The kernel between a point and every candidate.
    pub fn alike(&self, point: &[f64]) -> Vec<f32> {
        self.pool.alike(&self.kernel, point)
    }

    /// The kernel between a point and every observed one.
    fn row(&self, point: &[f64]) -> Vec<f64> {
        let mut r2 = vec![0.0; self.points.len()];
        for (i, column) in self.columns.iter().enumerate() {
            let (here, weight) = (point[i], self.kernel.lengths[i].powi(-2));
            let gap = self.kernel.gaps[i] * self.kernel.gaps[i];
            if self.kernel.categories[i] {
                for (r, v) in r2.iter_mut().zip(column) {
                    *r += if here != *v { weight } else { 0.0 };
                }
            } else {
                for (r, v) in r2.iter_mut().zip(column) {
                    let d = here - v;
                    *r += d * d * weight;
                    *r += if d != 0.0 { gap } else { 0.0 };
                }
            }
        }
        r2.into_iter().map(matern).collect()
    }

    /// Adds an observed point.
    pub fn push(&mut self, point: Vec<f64>) {
        let mut row = self.row(&point);
        row.push(1.0 + self.kernel.noise);
        self.factor.push(&row);
        let n = self.points.len();
        let l = self.factor.row(n);
        let mut new = self.pool.alike(&self.kernel, &point);
        let weights: Vec<f32> = l[..n].iter().map(|w| *w as f32).collect();
        subtract(&mut new, &weights, |i| &self.rows[i]);
        let scale = (1.0 / l[n]) as f32;
        for (v, e) in new.iter_mut().zip(&mut self.explained) {
            *v *= scale;
            *e += *v * *v;
        }
        self.rows.push(new);
        for (column, v) in self.columns.iter_mut().zip(&point) {
            column.push(*v);
        }
        self.points.push(point);
    }

    /// Takes the last observed point back.
    pub fn pop(&mut self) {
        if let (Some(row), Some(_)) = (self.rows.pop(), self.points.pop()) {
            self.factor.pop();
            self.columns.iter_mut().for_each(|c| _ = c.pop());
            for (v, e) in row.iter().zip(&mut self.explained) {
                *e -= v * v;
            }
        }
    }

    /// Exchanges candidates.
    pub fn replace(&mut self, new: &[(usize, Vec<f64>)]) {
        // All of them at once, as a pool of their own.
        let pool = Pool::new(&new.iter().map(|n| n.1.clone()).collect::<Vec<_>>());
        let mut explained = vec![0.0f32; new.len()];
        let mut rows: Vec<Vec<f32>> = Vec::with_capacity(self.points.len());
        for (n, point) in self.points.iter().enumerate() {
            let l = self.factor.row(n);
            let mut row = pool.alike(&self.kernel, point);
            let weights: Vec<f32> = l[..n].iter().map(|w| *w as f32).collect();
            subtract(&mut row, &weights, |i| &rows[i]);
            let scale = (1.0 / l[n]) as f32;
            for (v, e) in row.iter_mut().zip(&mut explained) {
                *v *= scale;
                *e += *v * *v;
            }
            rows.push(row);
        }
        for (i, (candidate, point)) in new.iter().enumerate() {
            self.explained[*candidate] = explained[i];
            for (to, from) in self.rows.iter_mut().zip(&rows) {
                to[*candidate] = from[i];
            }
            for (column, v) in self.pool.columns.iter_mut().zip(point) {
                column[*candidate] = *v as f32;
            }
        }
    }

    /// Mean and standard deviation of every candidate, for these values of the observed points (their mean
    /// should be 0: that is what is expected far from all of them).
    pub fn predict(&self, values: &[f64]) -> (Vec<f32>, Vec<f32>) {
        let z = self.factor.solve(values);
        let mut mean = vec![0.0f32; self.pool.len];
        let weights: Vec<f32> = z.iter().map(|w| -*w as f32).collect();
        subtract(&mut mean, &weights, |i| &self.rows[i]);
        let scale = if z.is_empty() { 1.0 } else { (dot(&z, &z) / z.len() as f64).max(1e-12) as f32 };
        let deviation = self.explained.iter().map(|e| ((1.0 - e).max(1e-6) * scale).sqrt()).collect();
        (mean, deviation)
    }
}

/// How much lower than `best` a normally distributed value is expected to be, counting what is not lower as 0.
pub fn expected_improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let z = (best - mean) / deviation;
    // Far out, where the difference of two tiny numbers would be noise.
    if z < -6.0 {
        return deviation * (-0.5 * z * z).exp() * 1e-3;
    }
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (deviation * (z * below(z) + density)).max(0.0)
}

/// The standard normal distribution function (Abramowitz and Stegun 26.2.17, absolute error below 1e-7).
fn below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = poly.iter().rev().fold(0.0, |s, c| (s + c) * t);
    let upper = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if z > 0.0 { 1.0 - upper } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(n: usize) -> Vec<Vec<f64>> {
        (0..n).map(|i| vec![i as f64 / (n - 1) as f64]).collect()
    }

    #[test]
    fn it_passes_through_what_was_observed() {
        let mut kernel = Kernel::new(vec![false], 1.0);
        kernel.noise = 1e-6;
        kernel.gaps.fill(0.0);
        let mut g = Gaussian::new(kernel, &grid(21));
        let f = |x: f64| (6.0 * x).sin();
        for i in [0, 4, 8, 12, 16, 20] {
            g.push(vec![i as f64 / 20.0]);
        }
        let values: Vec<f64> = [0, 4, 8, 12, 16, 20].iter().map(|i| f(f64::from(*i) / 20.0)).collect();
        let (mean, deviation) = g.predict(&values);
        for (i, mean) in mean.iter().enumerate() {
            assert!((f64::from(*mean) - f(i as f64 / 20.0)).abs() < 0.05, "{i}");
        }
        assert!(deviation[4] < deviation[2] / 10.0);
    }

    #[test]
    fn many_points_are_compared_like_one() {
        let kernel = Kernel::new(vec![false, true, false], 0.3);
        let mut g = Gaussian::new(kernel.clone(), &[vec![0.0; 3]]);
        let points: Vec<Vec<f64>> =
            (0..9).map(|i| vec![f64::from(i) / 7.0, f64::from(i % 3), f64::from(i % 5) / 5.0]).collect();
        points.iter().for_each(|p| g.push(p.clone()));
        let point = [0.4, 1.0, 0.6];
        let slow: Vec<f64> = points.iter().map(|p| kernel.of(&point, p)).collect();
        assert_eq!(g.row(&point), slow);
        g.pop();
        assert_eq!(g.row(&point), slow[..8]);
    }

    #[test]
    fn many_candidates_are_compared_like_one() {
        let kernel = Kernel::new(vec![false, true, false], 1.0);
        let pool: Vec<Vec<f64>> =
            (0..50).map(|i| vec![f64::from(i) / 7.0, f64::from(i % 3), f64::from(i % 5) / 5.0]).collect();
        let point = [0.4, 1.0, 0.6];
        let all = Pool::new(&pool).alike(&kernel, &point);
        for (fast, p) in all.iter().zip(&pool) {
            let slow = kernel.of(&point, p);
            assert!((f64::from(*fast) - slow).abs() < 2e-6, "{fast} and {slow}");
        }
        assert!(exp_negative(1e9) < 1e-30 && (exp_negative(0.0) - 1.0).abs() < 1e-6);
        for s in [0.0, 1e-9, 0.3, 0.35, 1.0, 17.3, 200.0] {
            assert!((exp_negative_double(s) / (-s).exp() - 1.0).abs() < 1e-10, "{s}");
        }
        assert!(exp_negative_double(1e300) < 1e-300);
    }

    #[test]
    fn replacing_and_taking_back_agree_with_a_new_process() {
        let kernel = Kernel::new(vec![false, true], 1.0);
        let points = [[0.1, 0.0], [0.5, 1.0], [0.9, 0.0], [0.3, 2.0]];
        let values = [1.0, -2.0, 0.5, 0.5];
        let pool = vec![vec![0.2, 0.0], vec![0.7, 2.0]];
        let mut old = Gaussian::new(kernel.clone(), &[vec![0.0, 0.0], pool[1].clone()]);
        let mut new = Gaussian::new(kernel, &pool);
        for p in points {
            old.push(p.to_vec());
            new.push(p.to_vec());
        }
        old.push(vec![0.6, 1.0]);
        old.pop();
        old.replace(&[(0, pool[0].clone())]);
        old.replace(&[]);
        let (a, b) = (old.predict(&values), new.predict(&values));
        for i in 0..2 {
            assert!((a.0[i] - b.0[i]).abs() < 1e-5 && (a.1[i] - b.1[i]).abs() < 1e-4);
        }
        assert!(!old.is_empty() && old.len() == 4);
    }

    #[test]
    fn expected_improvement_grows_with_lower_mean_and_higher_deviation() {
        assert!((expected_improvement(0.0, 0.0, 1.0) - 0.398_942_28).abs() < 1e-6);
        assert!((expected_improvement(3.0, 0.0, 1e-3) - 3.0).abs() < 1e-6);
        assert!(expected_improvement(0.0, 1.0, 0.5) > expected_improvement(0.0, 2.0, 0.5));
        assert!(expected_improvement(0.0, 1.0, 0.9) > expected_improvement(0.0, 1.0, 0.5));
        assert!(expected_improvement(0.0, 50.0, 1.0) >= 0.0);
    }
}
