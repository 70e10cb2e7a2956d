//! How well a search did, as the auto-tuning community scores it: the part of the way from random search to the
//! optimum that it came, averaged over the run.

/// The expected best cost of random search without repetition after 1, 2, … evaluations of a table, as far as `n`.
///
/// Invalid configurations cost infinity. As long as a run may have found nothing valid, that case counts with the
/// mean of the valid costs.
pub fn random_baseline(costs: &[f64], n: usize) -> Vec<f64> {
    let mut sorted: Vec<f64> = costs.iter().copied().filter(|c| c.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let total = costs.len();
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    // Per evaluation: the chance that none of the `i` best was drawn, for growing `i`.
    (1..=n.min(total))
        .map(|k| {
            let mut expected = 0.0;
            let mut none = 1.0;
            for (i, cost) in sorted.iter().enumerate() {
                // The next best is not among k draws, given that the i better ones are not.
                let left = (total - i) as f64;
                let missed = none * ((left - k as f64) / left).max(0.0);
                expected += (none - missed) * cost;
                none = missed;
                if none < 1e-15 {
                    break;
                }
            }
            expected + none * mean
        })
        .collect()
}

/// The score of one run: the mean over evaluations of `(baseline - best) / (baseline - optimum)`. 0 is random search,
/// 1 finds the optimum at once; it may be negative. `best[i]` is the best cost after `i + 1` evaluations; before the
/// first valid one, infinity, which counts as the baseline's first value.
pub fn score(best: &[f64], baseline: &[f64], optimum: f64) -> f64 {
    let start = baseline.first().copied().unwrap_or(optimum);
    let mut sum = 0.0;
    let mut n = 0usize;
    for (i, base) in baseline.iter().enumerate() {
        let reached = best.get(i).or(best.last()).copied().unwrap_or(f64::INFINITY);
        let reached = if reached.is_finite() { reached } else { start };
        if base - optimum > 1e-12 * base.abs() {
            sum += (base - reached) / (base - optimum);
            n += 1;
        }
    }
    if n == 0 { 0.0 } else { sum / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_the_mean_over_all_orders() {
        let costs = [5.0, 1.0, 3.0, f64::INFINITY];
        // All ordered draws, by hand: after one, (5 + 1 + 3 + mean 3) / 4; after four, 1.
        let b = random_baseline(&costs, 9);
        assert_eq!(b.len(), 4);
        assert!((b[0] - 3.0).abs() < 1e-12);
        // Pairs: 51:1 53:3 5i:5 13:1 1i:1 3i:3.
        assert!((b[1] - 14.0 / 6.0).abs() < 1e-12);
        assert!((b[3] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn random_scores_nothing_and_the_optimum_everything() {
        let baseline = [4.0, 3.0, 2.0];
        assert_eq!(score(&baseline, &baseline, 1.0), 0.0);
        assert_eq!(score(&[1.0], &baseline, 1.0), 1.0);
        assert!(score(&[f64::INFINITY, 4.0, 4.0], &baseline, 1.0) < 0.0);
        assert_eq!(score(&[], &[1.0, 1.0], 1.0), 0.0);
    }
}
