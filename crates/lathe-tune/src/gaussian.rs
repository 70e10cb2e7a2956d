//! A Gaussian process over configurations: what is measured tells what to expect of a fixed pool of candidates.

use crate::cholesky::{Cholesky, dot};

/// How alike two configurations are: Matérn 5/2 over the distances in each axis, each with its own length.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub lengths: Vec<f64>,
    /// Axes whose values have no order: any two differ by 1.
    pub categories: Vec<bool>,
    /// Variance of what the axes do not explain, relative to what they do.
    pub noise: f64,
}

impl Kernel {
    pub fn new(categories: Vec<bool>) -> Kernel {
        // Distances add up over the axes, so more of them need longer lengths.
        let length = 0.5 * (categories.len().max(1) as f64).sqrt();
        Kernel { lengths: vec![length; categories.len()], categories, noise: 1e-2 }
    }

    pub fn of(&self, a: &[f64], b: &[f64]) -> f64 {
        let mut r2 = 0.0;
        for (i, length) in self.lengths.iter().enumerate() {
            let d = if self.categories[i] { f64::from(a[i] != b[i]) } else { a[i] - b[i] };
            r2 += (d / length) * (d / length);
        }
        matern(r2)
    }

    fn factor(&self, points: &[&[f64]]) -> Cholesky {
        let mut out = Cholesky::default();
        let mut row = Vec::new();
        for (i, p) in points.iter().enumerate() {
            row.clear();
            row.extend(points[..i].iter().map(|q| self.of(p, q)));
            row.push(1.0 + self.noise);
            out.push(&row);
        }
        out
    }

    /// How well the kernel explains the values (whose mean is 0), the scale of the values left free: the log of
    /// the marginal likelihood, plus that of a broad prior over the lengths and the noise.
    pub fn evidence(&self, points: &[&[f64]], values: &[f64]) -> f64 {
        let n = points.len() as f64;
        let l = self.factor(points);
        let z = l.solve(values);
        let variance = (dot(&z, &z) / n).max(1e-12);
        let usual = (0.5 * (self.lengths.len() as f64).sqrt()).ln();
        let prior: f64 = self.lengths.iter().map(|v| ((v.ln() - usual) / 1.2).powi(2)).sum();
        let noise = ((self.noise.ln() - 1e-2f64.ln()) / 2.0).powi(2);
        -0.5 * n * variance.ln() - l.half_log_determinant() - 0.5 * (prior + noise)
    }

    /// Improves lengths and noise, one after the other, by factors of two and then of the square root of two.
    pub fn fit(&mut self, points: &[&[f64]], values: &[f64]) {
        let mut best = self.evidence(points, values);
        for factor in [2.0, 2.0, std::f64::consts::SQRT_2] {
            for i in 0..=self.lengths.len() {
                for f in [factor, 1.0 / factor] {
                    let mut other = self.clone();
                    match other.lengths.get_mut(i) {
                        Some(length) => *length = (*length * f).clamp(0.02, 50.0),
                        None => other.noise = (other.noise * f * f).clamp(1e-5, 1.0),
                    }
                    let evidence = other.evidence(points, values);
                    if evidence > best {
                        best = evidence;
                        *self = other;
                        break;
                    }
                }
            }
        }
    }
}

/// Matérn 5/2 of a squared distance.
fn matern(r2: f64) -> f64 {
    let s = (5.0 * r2).sqrt();
    (1.0 + s + s * s / 3.0) * (-s).exp()
}

/// The process, with a pool of candidates whose mean and variance it knows after every observation: adding one
/// costs O(observations × candidates), not a solve per candidate.
#[derive(Clone, Debug)]
pub struct Gaussian {
    kernel: Kernel,
    points: Vec<Vec<f64>>,
    factor: Cholesky,
    pool: Vec<Vec<f64>>,
    /// `L⁻¹ K(points, pool)`, by rows.
    rows: Vec<Vec<f64>>,
    /// What the observations have taken of each candidate's variance of 1.
    explained: Vec<f64>,
}

impl Gaussian {
    pub fn new(kernel: Kernel, pool: Vec<Vec<f64>>) -> Gaussian {
        let explained = vec![0.0; pool.len()];
        Gaussian {
            kernel,
            points: Vec::new(),
            factor: Cholesky::default(),
            pool,
            rows: Vec::new(),
            explained,
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

    pub fn pool(&self) -> &[Vec<f64>] {
        &self.pool
    }

    /// Adds an observed point.
    pub fn push(&mut self, point: Vec<f64>) {
        let mut row: Vec<f64> = self.points.iter().map(|p| self.kernel.of(&point, p)).collect();
        row.push(1.0 + self.kernel.noise);
        self.factor.push(&row);
        let n = self.points.len();
        let l = self.factor.row(n);
        let mut new: Vec<f64> = self.pool.iter().map(|c| self.kernel.of(&point, c)).collect();
        for (weight, row) in l.iter().zip(&self.rows) {
            for (v, r) in new.iter_mut().zip(row) {
                *v -= weight * r;
            }
        }
        for (v, e) in new.iter_mut().zip(&mut self.explained) {
            *v /= l[n];
            *e += *v * *v;
        }
        self.rows.push(new);
        self.points.push(point);
    }

    /// Takes the last observed point back.
    pub fn pop(&mut self) {
        if let (Some(row), Some(_)) = (self.rows.pop(), self.points.pop()) {
            self.factor.pop();
            for (v, e) in row.iter().zip(&mut self.explained) {
                *e -= v * v;
            }
        }
    }

    /// Exchanges a candidate.
    pub fn replace(&mut self, candidate: usize, point: Vec<f64>) {
        let k: Vec<f64> = self.points.iter().map(|p| self.kernel.of(&point, p)).collect();
        let column = self.factor.solve(&k);
        self.explained[candidate] = dot(&column, &column);
        for (row, v) in self.rows.iter_mut().zip(column) {
            row[candidate] = v;
        }
        self.pool[candidate] = point;
    }

    /// Mean and standard deviation of every candidate, for these values of the observed points (their mean
    /// should be 0: that is what is expected far from all of them).
    pub fn predict(&self, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let z = self.factor.solve(values);
        let mut mean = vec![0.0; self.pool.len()];
        for (weight, row) in z.iter().zip(&self.rows) {
            for (m, r) in mean.iter_mut().zip(row) {
                *m += weight * r;
            }
        }
        let scale = if z.is_empty() { 1.0 } else { (dot(&z, &z) / z.len() as f64).max(1e-12) };
        let deviation = self.explained.iter().map(|e| ((1.0 - e).max(1e-9) * scale).sqrt()).collect();
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
        let mut kernel = Kernel::new(vec![false]);
        kernel.noise = 1e-6;
        let mut g = Gaussian::new(kernel, grid(21));
        let f = |x: f64| (6.0 * x).sin();
        for i in [0, 4, 8, 12, 16, 20] {
            g.push(vec![i as f64 / 20.0]);
        }
        let values: Vec<f64> = [0, 4, 8, 12, 16, 20].iter().map(|i| f(f64::from(*i) / 20.0)).collect();
        let (mean, deviation) = g.predict(&values);
        for i in 0..21 {
            assert!((mean[i] - f(i as f64 / 20.0)).abs() < 0.05, "{i}");
        }
        assert!(deviation[4] < deviation[2] / 10.0);
    }

    #[test]
    fn replacing_and_taking_back_agree_with_a_new_process() {
        let kernel = Kernel::new(vec![false, true]);
        let points = [[0.1, 0.0], [0.5, 1.0], [0.9, 0.0], [0.3, 2.0]];
        let values = [1.0, -2.0, 0.5, 0.5];
        let pool = vec![vec![0.2, 0.0], vec![0.7, 2.0]];
        let mut old = Gaussian::new(kernel.clone(), vec![vec![0.0, 0.0], pool[1].clone()]);
        let mut new = Gaussian::new(kernel, pool.clone());
        for p in points {
            old.push(p.to_vec());
            new.push(p.to_vec());
        }
        old.push(vec![0.6, 1.0]);
        old.pop();
        old.replace(0, pool[0].clone());
        let (a, b) = (old.predict(&values), new.predict(&values));
        for i in 0..2 {
            assert!((a.0[i] - b.0[i]).abs() < 1e-9 && (a.1[i] - b.1[i]).abs() < 1e-6);
        }
        assert!(!old.is_empty() && old.len() == 4);
    }

    #[test]
    fn fitting_finds_out_which_axis_matters() {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let points: Vec<Vec<f64>> = (0..40).map(|_| vec![draw(), draw()]).collect();
        let values: Vec<f64> = points.iter().map(|p| (8.0 * p[0]).sin()).collect();
        let mean = values.iter().sum::<f64>() / 40.0;
        let values: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let refs: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let mut kernel = Kernel::new(vec![false, false]);
        let before = kernel.evidence(&refs, &values);
        kernel.fit(&refs, &values);
        assert!(kernel.evidence(&refs, &values) > before);
        assert!(kernel.lengths[1] > 3.0 * kernel.lengths[0], "{:?}", kernel.lengths);
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
