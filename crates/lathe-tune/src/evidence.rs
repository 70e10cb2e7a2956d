//! How well a kernel explains what was measured, and which lengths and noise explain it best.
//!
//! A fit asks for the evidence of a hundred kernels that differ in one number each, so the squared distances of all pairs
//! are kept, and each trial adds what its axis changes.

use crate::cholesky::subtract;
use crate::gaussian::{Kernel, NOISE, matern, usual_gap, usual_length};
use std::cmp::Ordering;

/// Improves lengths, noise and gaps, one after the other, by factors of two and then of the square root of two. Tries at
/// most so many kernels: where that is not enough for all numbers, those from `from` on come first. Returns where to go
/// on next time.
pub fn fit(kernel: &mut Kernel, points: &[&[f64]], values: &[f64], from: usize, trials: usize) -> usize {
    let pairs = Pairs { points, categories: kernel.categories.clone() };
    let mut r2 = pairs.squared(kernel);
    let mut work = Vec::new();
    let mut best = pairs.evidence(kernel, &r2, values, &mut work);
    let axes = kernel.lengths.len();
    let numbers = 2 * axes + 1;
    let mut tried = Vec::new();
    let mut left = trials;
    // Per number, whether no other has changed since it was last tried without success, and with which factor.
    let mut settled = vec![0.0; numbers];
    for factor in [2.0, 2.0, std::f64::consts::SQRT_2] {
        for k in 0..numbers {
            let i = (from + k) % numbers;
            if settled[i] == factor || (i > axes && kernel.gaps[i - axes - 1] == 0.0) {
                continue;
            }
            if left < 2 {
                return i;
            }
            settled[i] = factor;
            let differs = match i.cmp(&axes) {
                Ordering::Less => pairs.distance(i),
                Ordering::Equal => Vec::new(),
                Ordering::Greater => pairs.differs(i - axes - 1),
            };
            for f in [factor, 1.0 / factor] {
                left -= 1;
                let mut other = kernel.clone();
                tried.clone_from(&r2);
                if i < axes {
                    other.lengths[i] = (other.lengths[i] * f).clamp(0.02, 50.0);
                    let more = other.lengths[i].powi(-2) - kernel.lengths[i].powi(-2);
                    add(&mut tried, more, &differs);
                } else if i == axes {
                    other.noise = (other.noise * f * f).clamp(1e-5, 1.0);
                } else {
                    let gap = &mut other.gaps[i - axes - 1];
                    let old = *gap;
                    *gap *= f;
                    add(&mut tried, *gap * *gap - old * old, &differs);
                }
                let evidence = pairs.evidence(&other, &tried, values, &mut work);
                if evidence > best {
                    best = evidence;
                    *kernel = other;
                    std::mem::swap(&mut r2, &mut tried);
                    settled.fill(0.0);
                    break;
                }
            }
        }
    }
    from
}

/// The pairs of points, by columns of the matrix below its diagonal.
struct Pairs<'a> {
    points: &'a [&'a [f64]],
    /// Per axis, whether any two values are equally far apart.
    categories: Vec<bool>,
}

impl Pairs<'_> {
    fn of_axis(&self, axis: usize, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let n = self.points.len();
        let mut out = Vec::with_capacity(n * n.saturating_sub(1) / 2);
        for (j, p) in self.points.iter().enumerate() {
            out.extend(self.points[j + 1..].iter().map(|q| f(q[axis] - p[axis])));
        }
        out
    }

    /// 1 for each pair whose values differ.
    fn differs(&self, axis: usize) -> Vec<f64> {
        self.of_axis(axis, |d| f64::from(d != 0.0))
    }

    /// The squared distance of each pair along an axis.
    fn distance(&self, axis: usize) -> Vec<f64> {
        if self.categories[axis] { self.differs(axis) } else { self.of_axis(axis, |d| d * d) }
    }

    /// The squared distance of each pair in the measure of a kernel.
    fn squared(&self, kernel: &Kernel) -> Vec<f64> {
        let n = self.points.len();
        let mut r2 = Vec::with_capacity(n * n.saturating_sub(1) / 2);
        let weights: Vec<(f64, f64)> =
            kernel.lengths.iter().zip(&kernel.gaps).map(|(l, g)| (l.powi(-2), g.powi(2))).collect();
        for (j, p) in self.points.iter().enumerate() {
            for q in &self.points[j + 1..] {
                let mut sum = 0.0;
                for (a, (weight, gap)) in weights.iter().enumerate() {
                    let d = q[a] - p[a];
                    let differs = f64::from(d != 0.0);
                    sum += weight * if self.categories[a] { differs } else { d * d };
                    sum += gap * differs;
                }
                r2.push(sum);
            }
        }
        r2
    }

    /// How well the kernel explains the values (whose mean is 0), the scale of the values left free: the log of
    /// the marginal likelihood, plus that of a broad prior over the lengths and the noise.
    fn evidence(&self, kernel: &Kernel, r2: &[f64], values: &[f64], work: &mut Vec<f64>) -> f64 {
        let n = self.points.len() as f64;
        let (fit, half_log_determinant) = self.factor(kernel.noise, r2, values, work);
        let variance = (fit / n).max(1e-12);
        let axes = kernel.lengths.len();
        let off = |v: f64, usual: f64, spread: f64| ((v / usual).ln() / spread).powi(2);
        let lengths: f64 = kernel.lengths.iter().map(|v| off(*v, usual_length(axes), 1.2)).sum();
        let gaps: f64 = kernel.gaps.iter().filter(|g| **g > 0.0).map(|g| off(*g, usual_gap(axes), 1.0)).sum();
        let prior = lengths + gaps + off(kernel.noise, NOISE, 2.0);
        -0.5 * n * variance.ln() - half_log_determinant - 0.5 * prior
    }

    /// `vᵀ K⁻¹ v` and half the logarithm of the determinant of `K`, by the Cholesky factor of `K` with `v` as one
    /// more row.
    fn factor(&self, noise: f64, r2: &[f64], values: &[f64], work: &mut Vec<f64>) -> (f64, f64) {
        let n = self.points.len();
        let stride = n + 1;
        work.clear();
        work.resize(n * stride, 0.0);
        let mut rest = r2;
        for j in 0..n {
            let (column, after) = rest.split_at(n - 1 - j);
            rest = after;
            let (done, now) = work.split_at_mut(j * stride);
            let now = &mut now[j..stride];
            now[0] = 1.0 + noise;
            for (k, r2) in now[1..].iter_mut().zip(column) {
                *k = matern(r2.max(0.0));
            }
            now[n - j] = values[j];
            let weights: Vec<f64> = (0..j).map(|m| done[m * stride + j]).collect();
            subtract(now, &weights, |m| &done[m * stride + j..(m + 1) * stride]);
            let scale = 1.0 / now[0].max(1e-10).sqrt();
            now.iter_mut().for_each(|v| *v *= scale);
        }
        let diagonal = (0..n).map(|j| work[j * stride + j].max(1e-5).ln()).sum();
        ((0..n).map(|j| work[j * stride + n].powi(2)).sum(), diagonal)
    }
}

fn add(to: &mut [f64], weight: f64, what: &[f64]) {
    for (v, w) in to.iter_mut().zip(what) {
        *v += weight * w;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cholesky::{Cholesky, dot};

    fn draws(n: usize, axes: usize) -> Vec<Vec<f64>> {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..n).map(|_| (0..axes).map(|_| draw()).collect()).collect()
    }

    fn evidence(kernel: &Kernel, points: &[&[f64]], values: &[f64]) -> f64 {
        let pairs = Pairs { points, categories: kernel.categories.clone() };
        pairs.evidence(kernel, &pairs.squared(kernel), values, &mut Vec::new())
    }

    #[test]
    fn the_factor_agrees_with_one_that_grows_by_rows() {
        for n in [1, 2, 5, 23] {
            let mut points = draws(n, 3);
            for p in &mut points {
                p[1] = (3.0 * p[1]).floor();
            }
            let kernel = Kernel::new(vec![false, true, false], 0.7);
            let values: Vec<f64> = points.iter().map(|p| (5.0 * p[0]).cos() + p[1]).collect();
            let mut slow = Cholesky::default();
            for (i, p) in points.iter().enumerate() {
                let mut row: Vec<f64> = points[..i].iter().map(|q| kernel.of(p, q)).collect();
                row.push(1.0 + kernel.noise);
                slow.push(&row);
            }
            let z = slow.solve(&values);
            let refs: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
            let pairs = Pairs { points: &refs, categories: kernel.categories.clone() };
            let (fit, half) = pairs.factor(kernel.noise, &pairs.squared(&kernel), &values, &mut Vec::new());
            assert!((fit - dot(&z, &z)).abs() < 1e-8 * fit, "{fit} and {}", dot(&z, &z));
            let diagonal: f64 = (0..n).map(|i| slow.row(i)[i].ln()).sum();
            assert!((half - diagonal).abs() < 1e-8, "{half} and {diagonal}");
        }
    }

    #[test]
    fn fitting_finds_out_which_axis_matters() {
        let points = draws(40, 2);
        let values: Vec<f64> = points.iter().map(|p| (8.0 * p[0]).sin()).collect();
        let mean = values.iter().sum::<f64>() / 40.0;
        let values: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let refs: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let mut kernel = Kernel::new(vec![false, false], 1.0);
        let before = evidence(&kernel, &refs, &values);
        fit(&mut kernel, &refs, &values, 0, usize::MAX);
        assert!(evidence(&kernel, &refs, &values) > before);
        assert!(kernel.lengths[1] > 3.0 * kernel.lengths[0], "{:?}", kernel.lengths);
    }

    #[test]
    fn a_fit_that_ends_early_goes_on_where_it_ended() {
        let points = draws(20, 6);
        let values: Vec<f64> = points.iter().map(|p| (8.0 * p[5]).sin()).collect();
        let refs: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let mut kernel = Kernel::new(vec![false; 6], 1.0);
        let (mut from, mut seen) = (0, std::collections::BTreeSet::new());
        for _ in 0..20 {
            from = fit(&mut kernel, &refs, &values, from, 6);
            seen.insert(from);
        }
        assert!(seen.len() > 4, "{seen:?}");
        assert!(kernel.lengths[0] > 2.0 * kernel.lengths[5], "{:?}", kernel.lengths);
    }

    #[test]
    fn rows_are_subtracted_one_by_one_or_four_at_once() {
        let rows: Vec<Vec<f32>> = (0..11).map(|i| (0..7).map(|k| (i * k) as f32).collect()).collect();
        for n in 0..=11 {
            let weights: Vec<f32> = (0..n).map(|i| i as f32 - 4.0).collect();
            let mut target = vec![1.0; 7];
            subtract(&mut target, &weights, |i| &rows[i]);
            for (k, v) in target.iter().enumerate() {
                let sum: f32 = (0..n).map(|i| weights[i] * rows[i][k]).sum();
                assert_eq!(*v, 1.0 - sum);
            }
        }
    }
}
