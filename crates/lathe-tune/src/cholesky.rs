//! The Cholesky factor of a matrix that grows by rows.

/// A lower triangular matrix `L`, of the positive definite `L Lᵀ`.
#[derive(Clone, Debug, Default)]
pub struct Cholesky {
    /// Row `i` begins at `i (i + 1) / 2`.
    packed: Vec<f64>,
    n: usize,
}

/// What is left of a diagonal element that rounding has made zero or negative.
const LEAST: f64 = 1e-10;

impl Cholesky {
    /// Row `i`, its diagonal element last.
    pub fn row(&self, i: usize) -> &[f64] {
        let start = i * (i + 1) / 2;
        &self.packed[start..start + i + 1]
    }

    /// Extends the factored matrix by one row: `row[j]` is its element in column `j`, the diagonal one last.
    pub fn push(&mut self, row: &[f64]) {
        let mut new: Vec<f64> = Vec::with_capacity(self.n + 1);
        for (j, value) in row.iter().enumerate() {
            if j < self.n {
                let other = self.row(j);
                let v = (value - dot(&new, &other[..j])) / other[j];
                new.push(v);
            } else {
                let rest = value - dot(&new, &new);
                new.push(rest.max(LEAST).sqrt());
            }
        }
        self.packed.extend_from_slice(&new);
        self.n += 1;
    }

    /// Takes the last row back.
    pub fn pop(&mut self) {
        if self.n > 0 {
            self.packed.truncate(self.packed.len() - self.n);
            self.n -= 1;
        }
    }

    /// The solution of `L z = y`.
    pub fn solve(&self, y: &[f64]) -> Vec<f64> {
        let mut z: Vec<f64> = Vec::with_capacity(self.n);
        for (i, y) in y.iter().take(self.n).enumerate() {
            let row = self.row(i);
            let v = (y - dot(&z, &row[..i])) / row[i];
            z.push(v);
        }
        z
    }
}

/// The dot product, with partial sums that a compiler can keep in one vector.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (x, y) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f64 = x.remainder().iter().zip(y.remainder()).map(|(a, b)| a * b).sum();
    for (x, y) in x.zip(y) {
        for i in 0..LANES {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Subtracts the weighted rows, four at a time: each then costs a quarter of the loads and stores of `target`.
pub fn subtract<'a, T>(target: &mut [T], weights: &[T], row: impl Fn(usize) -> &'a [T])
where
    T: Copy + 'a + std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T>,
{
    let n = target.len();
    let fours = weights.chunks_exact(4);
    let done = weights.len() - fours.remainder().len();
    for (i, w) in fours.enumerate() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| &row(4 * i + k)[..n]);
        for k in 0..n {
            target[k] = target[k] - ((w[0] * a[k] + w[1] * b[k]) + (w[2] * c[k] + w[3] * d[k]));
        }
    }
    for (i, w) in weights.iter().enumerate().skip(done) {
        for (v, r) in target.iter_mut().zip(row(i)) {
            *v = *v - *w * *r;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_times_itself_is_the_matrix() {
        let n = 19;
        let at =
            |i: usize, j: usize| (-((i as f64 - j as f64) / 3.0).powi(2)).exp() + f64::from(i == j) * 0.1;
        let mut l = Cholesky::default();
        for i in 0..n {
            l.push(&(0..=i).map(|j| at(i, j)).collect::<Vec<_>>());
        }
        for i in 0..n {
            for j in 0..=i {
                let sum = dot(&l.row(i)[..=j], l.row(j));
                assert!((sum - at(i, j)).abs() < 1e-12);
            }
        }
        let y: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let z = l.solve(&y);
        for i in 0..n {
            assert!((dot(l.row(i), &z[..=i]) - y[i]).abs() < 1e-9);
        }
        l.push(&vec![0.5; n + 1]);
        l.pop();
        assert_eq!(l.n, n);
    }

    #[test]
    fn a_repeated_row_stays_finite() {
        let mut l = Cholesky::default();
        l.push(&[1.0]);
        l.push(&[1.0, 1.0]);
        assert!(l.solve(&[1.0, 2.0]).iter().all(|v| v.is_finite()));
    }
}
