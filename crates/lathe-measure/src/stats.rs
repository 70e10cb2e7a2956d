//! Order statistics of small samples.

/// Seconds (or ratios): what a row of a table prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub runs: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// 95 % interval of the median.
    pub interval: (f64, f64),
}

/// The median; `None` for an empty sample.
pub fn median(values: &[f64]) -> Option<f64> {
    let v = sorted(values);
    let n = v.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(v[n / 2]),
        _ => Some((v[n / 2 - 1] + v[n / 2]) / 2.0),
    }
}

/// A distribution-free interval that holds the median with at least 95 % probability: the order
/// statistics `k` and `n - 1 - k` for the largest `k` with `2 P(Binomial(n, 1/2) <= k) <= 0.05`. Below six
/// values no such interval exists and the whole range is given.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let v = sorted(values);
    let n = v.len();
    let (first, last) = (*v.first()?, *v.last()?);
    let mut probability = 0.5f64.powi(n as i32);
    let mut cumulative = probability;
    let mut k = None;
    for i in 0..n / 2 {
        if 2.0 * cumulative > 0.05 {
            break;
        }
        k = Some(i);
        probability *= (n - i) as f64 / (i + 1) as f64;
        cumulative += probability;
    }
    Some(k.map_or((first, last), |k| (v[k], v[n - 1 - k])))
}

/// Everything that a table prints about a sample; `None` if it is empty.
pub fn summarize(values: &[f64]) -> Option<Summary> {
    let v = sorted(values);
    Some(Summary {
        runs: v.len(),
        median: median(&v)?,
        min: *v.first()?,
        max: *v.last()?,
        interval: median_interval(&v)?,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_interval_of_fifteen_values_is_the_fourth_from_each_end() {
        let v: Vec<f64> = (0..15).map(f64::from).collect();
        assert_eq!(median_interval(&v), Some((3.0, 11.0)));
        assert_eq!(median_interval(&[1.0, 2.0]), Some((1.0, 2.0)));
        assert_eq!(median_interval(&[]), None);
    }
}
