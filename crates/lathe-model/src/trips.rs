//! How often loops run, and with what: what instructions and traffic both ask.

/// How often a loop runs where data decide.
pub(crate) const UNKNOWN_TRIPS: f64 = 16.0;

/// The value of a loop's variable that stands for most of them: the middle one.
pub(crate) fn typical(lo: i64, hi: i64, step: i64) -> i64 {
    let [lo, hi, step] = [lo, hi, step.max(1)].map(i128::from);
    let trips = (hi - lo + step - 1).div_euclid(step);
    i64::try_from(lo + (trips - 1).max(0) / 2 * step).unwrap_or(i64::MAX)
}
