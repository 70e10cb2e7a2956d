//! Pictures of a search: every cost by evaluation and by time with the best so far, how often each cost and each failure
//! occurred, and the Pareto front of several costs.

mod axis;
mod panels;

use crate::tune::codes;
use axis::Axis;
use lathe_diagnostics::{Diagnostic, visible};
use lathe_tune::cost::dominates;
use lathe_tune::{Cost, Entry, Outcome, Why};
use std::collections::BTreeMap;
use std::path::Path;

/// One evaluation of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Since the search began.
    pub seconds: f64,
    /// The costs, or why there are none.
    pub outcome: Result<Cost, Why>,
}

impl Dot {
    pub fn of(entry: &Entry) -> Dot {
        let outcome = match &entry.outcome {
            Outcome::Valid(cost) => Ok(cost.clone()),
            Outcome::Invalid(i) => Err(i.why),
        };
        Dot { seconds: entry.at.as_secs_f64(), outcome }
    }

    /// The first cost, if it can be drawn.
    fn cost(&self) -> Option<f64> {
        self.outcome.as_ref().ok().map(Cost::first).filter(|c| c.is_finite())
    }
}

/// Writes an SVG. `cost` says what the first cost is, for example `seconds`. Axes of costs are logarithmic where all are
/// positive.
///
/// # Errors
/// `E1089` if there is nothing to draw; `E0907` if the file cannot be written.
pub fn plot(path: &Path, title: &str, cost: &str, dots: &[Dot]) -> Result<(), Diagnostic> {
    crate::emit::write_whole(path, svg(title, cost, dots)?.as_bytes())
}

/// The picture of [`plot`] as text.
///
/// # Errors
/// `E1089` if there is nothing to draw.
pub fn svg(title: &str, cost: &str, dots: &[Dot]) -> Result<String, Diagnostic> {
    let failed = |why: String| Diagnostic::error(codes::PLOT, why);
    let search = Search::new(title, cost, dots)
        .ok_or_else(|| failed("there is no valid configuration to draw".to_string()))?;
    let mut text = String::new();
    panels::draw(&mut text, &search).map_err(|e| failed(format!("the picture cannot be drawn: {e}")))?;
    Ok(text)
}

/// What the panels show.
struct Search<'a> {
    title: String,
    cost: &'a str,
    dots: &'a [Dot],
    /// The valid ones: the number of the evaluation, from 1 on, its seconds, and its cost.
    valid: Vec<(f64, f64, f64)>,
    /// How many failed for each reason, the most frequent first.
    failures: Vec<(String, usize)>,
    low: f64,
    high: f64,
}

/// Titles are cut to so many characters, which have room.
const TITLE: usize = 70;

impl<'a> Search<'a> {
    fn new(title: &str, cost: &'a str, dots: &'a [Dot]) -> Option<Search<'a>> {
        let numbered = dots.iter().enumerate();
        let valid: Vec<_> =
            numbered.filter_map(|(i, d)| Some((i as f64 + 1.0, d.seconds, d.cost()?))).collect();
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for why in dots.iter().filter_map(|d| d.outcome.as_ref().err()) {
            *failures.entry(why.word().to_string()).or_default() += 1;
        }
        let mut failures: Vec<_> = failures.into_iter().collect();
        failures.sort_by_key(|f| std::cmp::Reverse(f.1));
        let costs = || valid.iter().map(|v| v.2);
        let (low, high) = (costs().reduce(f64::min)?, costs().reduce(f64::max)?);
        let mut title: String = visible(title).chars().take(TITLE).collect();
        if title.chars().count() == TITLE {
            title.pop();
            title.push('…');
        }
        Some(Search { title, cost, dots, valid, failures, low, high })
    }

    fn invalid(&self) -> usize {
        self.dots.len() - self.valid.len()
    }

    /// The axis of the first cost.
    fn costs(&self, ticks: usize) -> Axis {
        Axis::around(self.low, self.high, ticks, true)
    }

    /// The best cost so far, as the corners of a staircase that ends at `end`; `x` chooses evaluations or seconds.
    fn staircase(&self, x: fn(&(f64, f64, f64)) -> f64, end: f64) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = Vec::new();
        for v in &self.valid {
            match out.last().copied() {
                Some((_, best)) if v.2 >= best => {}
                Some((_, best)) => out.extend([(x(v), best), (x(v), v.2)]),
                None => out.push((x(v), v.2)),
            }
        }
        out.extend(out.last().map(|l| (end, l.1)));
        out
    }

    /// The first two costs of what is drawn, and of what nothing dominates, in the order of the first cost.
    fn pareto(&self) -> Option<(Costs, Costs)> {
        let costs = self.dots.iter().filter_map(|d| d.outcome.as_ref().ok());
        let costs: Vec<&Cost> = costs.filter(|c| c.numbers().iter().all(|v| v.is_finite())).collect();
        if costs.first()?.numbers().len() < 2 {
            return None;
        }
        let mut front: Vec<&Cost> = Vec::new();
        for c in &costs {
            if !front.iter().any(|f| dominates(f, c) || f == c) {
                front.retain(|f| !dominates(c, f));
                front.push(c);
            }
        }
        let two = |c: &&Cost| Some((c.first(), *c.numbers().get(1)?));
        let mut front: Vec<(f64, f64)> = front.iter().filter_map(two).collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        Some((costs.iter().filter_map(two).collect(), front))
    }
}

/// Two costs of each.
type Costs = Vec<(f64, f64)>;

/// Bins of equal width on an axis: from, to, how many.
fn histogram(values: impl Iterator<Item = f64>, axis: &Axis, bins: usize) -> Vec<(f64, f64, usize)> {
    let at = |i: usize| axis.at(i as f64 / bins as f64);
    let mut out: Vec<_> = (0..bins).map(|i| (at(i), at(i + 1), 0)).collect();
    for v in values {
        let i = (axis.share(v) * bins as f64) as usize;
        out[i.min(bins - 1)].2 += 1;
    }
    out
}

/// One of the points that fall on the same place of a picture, which is so many pixels wide and high.
fn thinned(points: Vec<(f64, f64)>, x: &Axis, y: &Axis, size: (u32, u32)) -> Vec<(f64, f64)> {
    let place = |axis: &Axis, v: f64, pixels: u32| (axis.share(v) * f64::from(pixels)) as u32;
    let mut seen = std::collections::HashSet::new();
    let mut points = points;
    points.retain(|p| seen.insert((place(x, p.0, size.0), place(y, p.1, size.1))));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(seconds: f64, outcome: Result<f64, Why>) -> Dot {
        Dot { seconds, outcome: outcome.map(Cost::from) }
    }

    /// A text that is not turned: what it says, and its left, right, upper and lower end, as wide as digits are in most
    /// fonts.
    type Shown = (String, [f64; 4]);

    fn texts(svg: &str) -> Vec<Shown> {
        let attribute = |tag: &str, name: &str| -> Option<String> {
            Some(tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.to_string())
        };
        let one = |part: &str| {
            let (tag, rest) = part.split_once('>')?;
            let tag = format!(" {tag}");
            let number = |name: &str| attribute(&tag, name)?.parse::<f64>().ok();
            let text = rest.split('<').next()?.trim().to_string();
            let (x, y, size) = (number("x")?, number("y")?, number("font-size")?);
            let width = text.chars().count() as f64 * size * 0.55;
            let left = match attribute(&tag, "text-anchor")?.as_str() {
                "middle" => x - width / 2.0,
                "end" => x - width,
                _ => x,
            };
            let above = match attribute(&tag, "dy").as_deref() {
                Some("0.76em") => y,
                Some("0.5ex") => y - size / 2.0,
                _ => y - size,
            };
            (!tag.contains("transform")).then_some((text, [left, left + width, above, above + size]))
        };
        svg.split("<text ").skip(1).filter_map(one).collect()
    }

    fn apart(svg: &str) {
        let all = texts(svg);
        assert!(all.len() > 10, "{all:?}");
        for (i, a) in all.iter().enumerate() {
            let s = a.1;
            assert!(s[0] >= 0.0 && s[1] <= f64::from(panels::WIDTH), "{a:?} is not within the picture");
            for b in &all[i + 1..] {
                let t = b.1;
                let overlap = s[0] < t[1] && t[0] < s[1] && s[2] < t[3] && t[2] < s[3];
                assert!(!overlap, "{a:?} and {b:?} overlap");
            }
        }
    }

    #[test]
    fn a_picture_has_every_point_and_the_staircase() {
        let dots = [dot(0.1, Ok(4.0)), dot(0.2, Err(Why::Compile)), dot(0.3, Ok(2.0)), dot(0.4, Ok(3.0))];
        let search = Search::new("gemm", "seconds", &dots).unwrap();
        assert_eq!(search.staircase(|v| v.1, 1.0), [(0.1, 4.0), (0.3, 4.0), (0.3, 2.0), (1.0, 2.0)]);
        assert_eq!(search.staircase(|v| v.0, 4.0), [(1.0, 4.0), (3.0, 4.0), (3.0, 2.0), (4.0, 2.0)]);
        let text = svg("gemm <b>&", "seconds", &dots).unwrap();
        assert!(text.starts_with("<svg") && !text.contains("<b>"));
        for part in ["4 configurations", "1 invalid", "compile", "evaluations", "seconds"] {
            assert!(text.contains(part), "{part}");
        }
        apart(&text);
    }

    /// One value only, values that are not positive, from one end of the numbers to the other; none at all.
    #[test]
    fn labels_do_not_overlap_whatever_is_drawn() {
        for costs in [
            vec![1.0],
            vec![0.0, -2.0],
            vec![1e300, 1e-300],
            vec![1e-6, 1.1e-6],
            vec![99_999.0, 1e5, 123_456.7],
        ] {
            for spread in [1e-6, 0.01, 1.0, 59.0, 3000.0, 1e6] {
                let times = |i: usize| spread * (i + 1) as f64 / costs.len() as f64;
                let mut dots: Vec<Dot> =
                    costs.iter().enumerate().map(|(i, c)| dot(times(i), Ok(*c))).collect();
                for why in [
                    Why::Refused,
                    Why::Compile,
                    Why::Runtime,
                    Why::Timeout,
                    Why::Memory,
                    Why::Wrong,
                    Why::NotANumber,
                ] {
                    dots.push(dot(spread, Err(why)));
                }
                apart(&svg(&"long title ".repeat(20), "seconds", &dots).unwrap());
            }
        }
        assert!(svg("x", "cost", &[dot(1.0, Err(Why::Wrong))]).is_err());
        assert!(svg("x", "cost", &[]).is_err());
    }

    #[test]
    fn several_costs_have_a_front() {
        let costs = [(1.0, 9.0), (2.0, 5.0), (3.0, 6.0), (4.0, 1.0), (4.0, 4.0), (2.0, 5.0)];
        let dots: Vec<Dot> =
            costs.iter().map(|c| Dot { seconds: 1.0, outcome: Ok(Cost::from(*c)) }).collect();
        let search = Search::new("x", "seconds", &dots).unwrap();
        let (all, front) = search.pareto().unwrap();
        assert_eq!((all.len(), front), (6, vec![(1.0, 9.0), (2.0, 5.0), (4.0, 1.0)]));
        let text = svg("x", "seconds", &dots).unwrap();
        assert!(text.contains("second cost") && text.contains("Pareto"));
        apart(&text);
    }

    #[test]
    fn pictures_of_long_searches_are_not_long() {
        let dots: Vec<Dot> =
            (0..200_000).map(|i| dot(f64::from(i) * 1e-3, Ok(1.0 + f64::from(i % 977)))).collect();
        assert!(svg("x", "cost", &dots).unwrap().len() < 4 << 20);
    }
}
