//! Axes with round ticks that have room for their labels. Ticks at 1, 2 and 5 times powers of ten: after W. S. Cleveland,
//! "Visualizing Data", and P. Heckbert, "Nice Numbers for Graph Labels" (Graphics Gems, 1990).

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// An axis and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

/// Beyond this, differences overflow.
const MOST: f64 = 1e300;

/// Below this, numbers have fewer digits.
const LEAST: f64 = 1e-306;

impl Axis {
    /// An axis for values from `low` to `high`, with some room on both sides, and at most `ticks` ticks; logarithmic where
    /// all values are positive and `logarithmic` is wanted.
    pub fn around(low: f64, high: f64, ticks: usize, logarithmic: bool) -> Axis {
        let (low, high) = (low.clamp(-MOST, MOST), high.clamp(-MOST, MOST));
        if logarithmic && low > LEAST {
            let room = ((high.ln() - low.ln()) * 0.05).max(0.01).exp();
            return Axis::new(
                (low / room).max(f64::MIN_POSITIVE),
                (high * room).min(f64::MAX / 10.0),
                ticks,
                true,
            );
        }
        let room = ((high - low) * 0.05).max(low.abs().max(high.abs()) * 0.01);
        let room = if room > 0.0 { room } else { 1.0 };
        Axis::new(low - room, high + room, ticks, false)
    }

    /// An axis from 0 to beyond `high`, without logarithms.
    pub fn from_zero(high: f64, ticks: usize) -> Axis {
        let high = high.clamp(1e-9, MOST);
        Axis::new(0.0, high * 1.03, ticks, false)
    }

    /// An axis for counts up to `high`: its ticks are whole numbers.
    pub fn of_counts(high: usize, ticks: usize) -> Axis {
        let high = high.max(1) as f64 * 1.08;
        let step = nice(high / ticks.max(1) as f64).max(1.0);
        Axis { low: 0.0, high, logarithmic: false, ticks: labelled(&multiples(0.0, high, step), step) }
    }

    /// An axis of places for `names`, at 0.5, 1.5, …
    pub fn of_names(names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(i, n)| (i as f64 + 0.5, n.clone())).collect();
        Axis { low: 0.0, high: names.len().max(1) as f64, logarithmic: false, ticks }
    }

    fn new(low: f64, high: f64, most: usize, logarithmic: bool) -> Axis {
        let mut axis = Axis { low, high, logarithmic, ticks: Vec::new() };
        let step = nice((high - low) / most.max(1) as f64);
        let linear = || labelled(&multiples(low, high, step), step);
        axis.ticks = if logarithmic {
            let by_tens = mantissas(low, high).into_iter().find(|t| axis.has_room(t, most));
            by_tens.unwrap_or_else(linear)
        } else {
            linear()
        };
        axis
    }

    /// Whether so many ticks are enough, and their labels do not touch.
    fn has_room(&self, ticks: &[(f64, String)], most: usize) -> bool {
        let gap = 0.7 / most.max(1) as f64;
        let enough = ticks.len() >= 3.min(most.max(2));
        enough && ticks.windows(2).all(|w| self.share(w[1].0) - self.share(w[0].0) >= gap)
    }

    /// Where a value lies, from 0 to 1.
    pub fn share(&self, v: f64) -> f64 {
        let f = |v: f64| if self.logarithmic { v.max(f64::MIN_POSITIVE).log10() } else { v };
        ((f(v) - f(self.low)) / (f(self.high) - f(self.low))).clamp(0.0, 1.0)
    }

    /// The value at a share of the axis; the inverse of [`Axis::share`].
    pub fn at(&self, share: f64) -> f64 {
        if self.logarithmic {
            return 10f64.powf(self.low.log10() + share * (self.high.log10() - self.low.log10()));
        }
        self.low + share * (self.high - self.low)
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `v`.
fn nice(v: f64) -> f64 {
    let power = 10f64.powf(v.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| *s >= v * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last.min(first.saturating_add(100))).map(|i| i as f64 * step).collect()
}

/// Ticks for a logarithmic axis, dense ones first.
fn mantissas(low: f64, high: f64) -> Vec<Vec<(f64, String)>> {
    const SETS: [&[f64]; 4] = [
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0],
    ];
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let every = |set: &[f64], each: i32| -> Vec<(f64, String)> {
        let powers = powers.clone().filter(|p| p.rem_euclid(each) == 0);
        let ticks = powers.flat_map(|p| set.iter().map(move |m| (m, p)));
        // `format` and `parse` give the float that is nearest to the decimal number.
        let exact = |(m, p): (&f64, i32)| format!("{m}e{p}").parse().unwrap_or(f64::NAN);
        ticks.map(exact).filter(|t| (low..=high).contains(t)).map(|t| (t, shown(t, t * 0.1))).collect()
    };
    let dense = SETS.into_iter().map(|set| every(set, 1));
    let sparse = [2, 3, 5, 10, 20, 50, 100].into_iter().map(|each| every(&[1.0], each));
    dense.chain(sparse).collect()
}

fn labelled(ticks: &[f64], step: f64) -> Vec<(f64, String)> {
    ticks.iter().map(|t| (*t, shown(*t, step))).collect()
}

/// A number as a label, with as many digits as steps of this width need.
pub fn shown(v: f64, step: f64) -> String {
    if v.abs() < step.abs() * 1e-6 {
        return "0".to_string();
    }
    // Digits after the point, for a step of 1, 2 or 5 times a power of ten.
    let digits = |step: f64| (-(step.abs() * (1.0 + 1e-9)).log10().floor()).clamp(0.0, 15.0) as usize;
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    if (1e-3..1e5).contains(&v.abs()) {
        return trimmed(format!("{v:.*}", digits(step)));
    }
    // Powers of ten must not fall to the next lower one.
    let power = (v.abs() * (1.0 + 1e-12)).log10().floor();
    let unit = 10f64.powf(power);
    format!("{}e{power}", trimmed(format!("{:.*}", digits(step / unit).min(6), v / unit)))
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.share(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    /// Lines and labels are at the ticks, and nowhere else.
    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.iter().map(|t| t.0).collect() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|t| t.0 == *value);
        tick.map_or_else(|| shown(*value, *value), |t| t.1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> String {
        axis.ticks.iter().map(|t| t.1.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_have_room() {
        for (low, high, logarithmic, wanted) in [
            (0.0, 10.0, false, "0 2 4 6 8 10"),
            (1.0, 1000.0, true, "1 10 100 1000"),
            (1.5e-4, 4.2e-4, true, "1.5e-4 2e-4 2.5e-4 3e-4 4e-4"),
            (0.101, 0.104, true, "0.1 0.101 0.102 0.103 0.104 0.105"),
            (-3.0, 4e5, false, "0 1e5 2e5 3e5 4e5"),
            (1e-9, 1e9, true, "1e-8 1e-6 1e-4 0.01 1 100 10000 1e6 1e8"),
            (5.0, 5.0, true, "4.96 4.98 5 5.02 5.04"),
            (0.0, 0.0, false, "-1 -0.5 0 0.5 1"),
        ] {
            let axis = Axis::around(low, high, 7, logarithmic);
            assert_eq!(labels(&axis), wanted, "{low} {high}");
        }
        assert_eq!(labels(&Axis::from_zero(0.37, 6)), "0 0.1 0.2 0.3");
        assert_eq!(labels(&Axis::of_counts(3, 6)), "0 1 2 3");
        assert_eq!(labels(&Axis::of_counts(0, 6)), "0 1");
    }

    /// Whatever the values are: few ticks, in order, inside, and a picture that has places for all.
    #[test]
    fn any_axis_is_finite() {
        let odd = [0.0, -1.0, 1e-300, 5e-324, 1.0, 1.0 + 1e-15, 12345.678, 1e15, 1.7e308, -1.7e308];
        for low in odd {
            for high in odd.into_iter().filter(|h| *h >= low) {
                for logarithmic in [false, true] {
                    let axis = Axis::around(low, high, 6, logarithmic);
                    assert!(
                        axis.low.is_finite() && axis.high.is_finite() && axis.low < axis.high,
                        "{axis:?}"
                    );
                    assert!(axis.ticks.len() <= 12, "{axis:?}");
                    assert!(axis.ticks.windows(2).all(|w| w[0].0 < w[1].0), "{axis:?}");
                    for v in [low, high, axis.at(0.0), axis.at(1.0)] {
                        assert!((0.0..=1.0).contains(&axis.share(v)), "{v} {axis:?}");
                    }
                }
            }
        }
    }
}
