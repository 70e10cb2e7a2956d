//! Pictures of a search: cost over time, and the distribution of costs.

use crate::tune::codes;
use lathe_diagnostics::Diagnostic;
use plotters::prelude::*;
use std::path::Path;

/// One evaluation of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Since the search began.
    pub seconds: f64,
    /// `None`: invalid.
    pub cost: Option<f64>,
}

const SIZE: (u32, u32) = (900, 900);

/// Writes an SVG: above, every cost over time with the best so far; below, how often each cost occurred. Both cost
/// axes are logarithmic where all costs are positive.
///
/// # Errors
/// `E1089` if there is nothing to draw; `E0907` if the file cannot be written.
pub fn plot(path: &Path, title: &str, dots: &[Dot]) -> Result<(), Diagnostic> {
    crate::emit::write_whole(path, svg(title, dots)?.as_bytes())
}

/// The picture of [`plot`] as text.
///
/// # Errors
/// `E1089` if there is nothing to draw.
pub fn svg(title: &str, dots: &[Dot]) -> Result<String, Diagnostic> {
    let mut text = String::new();
    draw(&mut text, title, dots)?;
    Ok(text)
}

fn failed(why: String) -> Diagnostic {
    Diagnostic::error(codes::PLOT, why)
}

fn draw(to: &mut String, title: &str, dots: &[Dot]) -> Result<(), Diagnostic> {
    let costs: Vec<f64> = dots.iter().filter_map(|d| d.cost).filter(|c| c.is_finite()).collect();
    let (Some(low), Some(high)) =
        (costs.iter().copied().reduce(f64::min), costs.iter().copied().reduce(f64::max))
    else {
        return Err(failed("there is no valid configuration to draw".to_string()));
    };
    let logarithmic = low > 0.0;
    // A picture of the logarithms has the right distances; its labels undo them.
    let scale = |c: f64| if logarithmic { c.log10() } else { c };
    let label = |v: &f64| {
        let c = if logarithmic { 10f64.powf(*v) } else { *v };
        if c != 0.0 && (c.abs() < 1e-2 || c.abs() >= 1e4) { format!("{c:.2e}") } else { format!("{c:.4}") }
    };
    let (bottom, top) = (scale(low), scale(high));
    let margin = ((top - bottom) * 0.05).max(1e-3 * bottom.abs()).max(1e-9);
    let range = bottom - margin..top + margin;
    let end = dots.iter().map(|d| d.seconds).fold(0.0, f64::max).max(1e-9);
    let invalid = dots.len() - costs.len();
    let mut picture = || -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(to, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let halves = root.split_evenly((2, 1));
        let caption = format!("{title}: {} configurations, {invalid} invalid", dots.len());
        let mut over_time = ChartBuilder::on(&halves[0])
            .caption(caption, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..end * 1.02, range.clone())?;
        over_time.configure_mesh().x_desc("seconds").y_desc("cost").y_label_formatter(&label).draw()?;
        let points = dots.iter().filter_map(|d| Some((d.seconds, scale(d.cost.filter(|c| c.is_finite())?))));
        over_time.draw_series(points.map(|p| Circle::new(p, 2, BLUE.mix(0.4).filled())))?;
        over_time
            .draw_series(LineSeries::new(steps(dots, end).into_iter().map(|(t, c)| (t, scale(c))), &RED))?;
        let bins = histogram(&costs.iter().map(|c| scale(*c)).collect::<Vec<_>>(), &range);
        let most = bins.iter().map(|b| b.2).max().unwrap_or(1);
        let mut counts = ChartBuilder::on(&halves[1])
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(80)
            .build_cartesian_2d(range.clone(), 0.0..most as f64 * 1.05)?;
        counts.configure_mesh().x_desc("cost").y_desc("configurations").x_label_formatter(&label).draw()?;
        let bars = bins.iter().filter(|b| b.2 > 0);
        counts.draw_series(
            bars.map(|(a, b, n)| Rectangle::new([(*a, 0.0), (*b, *n as f64)], BLUE.mix(0.6).filled())),
        )?;
        root.present()?;
        Ok(())
    };
    picture().map_err(|e| failed(format!("the picture cannot be drawn: {e}")))
}

/// The best cost so far, as the corners of a staircase.
fn steps(dots: &[Dot], end: f64) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for d in dots {
        let Some(cost) = d.cost.filter(|c| c.is_finite()) else { continue };
        match out.last().copied() {
            Some((_, best)) if cost >= best => {}
            Some((_, best)) => out.extend([(d.seconds, best), (d.seconds, cost)]),
            None => out.push((d.seconds, cost)),
        }
    }
    if let Some((_, best)) = out.last().copied() {
        out.push((end, best));
    }
    out
}

/// Forty bins over the range: from, to, how many.
fn histogram(values: &[f64], range: &std::ops::Range<f64>) -> Vec<(f64, f64, usize)> {
    const BINS: usize = 40;
    let width = (range.end - range.start) / BINS as f64;
    let mut bins: Vec<_> = (0..BINS)
        .map(|i| (range.start + width * i as f64, range.start + width * (i + 1) as f64, 0))
        .collect();
    for v in values {
        let i = ((v - range.start) / width) as usize;
        bins[i.min(BINS - 1)].2 += 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_point_and_the_staircase() {
        let dot = |seconds, cost| Dot { seconds, cost };
        let dots = [dot(0.1, Some(4.0)), dot(0.2, None), dot(0.3, Some(2.0)), dot(0.4, Some(3.0))];
        assert_eq!(steps(&dots, 1.0), [(0.1, 4.0), (0.3, 4.0), (0.3, 2.0), (1.0, 2.0)]);
        let mut text = String::new();
        draw(&mut text, "gemm", &dots).unwrap();
        assert!(text.starts_with("<svg") && text.contains("gemm: 4 configurations, 1 invalid"));
        assert_eq!(text.matches("<circle").count(), 3);
        // One value only, values that are not positive, and none at all.
        for costs in [vec![1.0], vec![0.0, -2.0], vec![1e300, 1e-300]] {
            let dots: Vec<Dot> = costs.iter().map(|c| dot(0.0, Some(*c))).collect();
            assert!(draw(&mut String::new(), "x", &dots).is_ok(), "{costs:?}");
        }
        assert!(draw(&mut String::new(), "x", &[dot(1.0, None)]).is_err());
        assert!(draw(&mut String::new(), "x", &[]).is_err());
    }
}
