//! The panels of a picture, and where each stands.

use super::{Axis, Search, histogram, thinned};
use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Done = Result<(), Box<dyn std::error::Error>>;

pub const WIDTH: u32 = 960;
/// Of the title, of a panel.
const HEAD: i32 = 64;
const PANEL: u32 = 300;

/// What is around a panel's drawing: labels on the left, numbers or names, and below.
const LEFT: i32 = 76;
const LEFT_NAMES: i32 = 104;
const BELOW: i32 = 44;
const MARGIN: i32 = 14;

/// Labels of an axis that goes up; of one that goes across a picture, and across half of it.
const UP: usize = 7;
const ACROSS: usize = 9;
const HALF: usize = 5;

const DOT: RGBColor = RGBColor(31, 119, 180);
const BEST: RGBColor = RGBColor(200, 30, 30);
const INVALID: RGBColor = RGBColor(230, 120, 0);
const GRID: RGBColor = RGBColor(225, 225, 225);
const TEXT: RGBColor = RGBColor(40, 40, 40);

pub fn draw(to: &mut String, s: &Search) -> Done {
    let pareto = s.pareto();
    let halves = 1 + usize::from(!s.failures.is_empty()) + usize::from(pareto.is_some());
    let rows = 2 + halves.div_ceil(2) as u32;
    let root = SVGBackend::with_string(to, (WIDTH, HEAD as u32 + rows * PANEL)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    title(&head, s)?;
    let rows = body.split_evenly((rows as usize, 1));
    by_evaluation(&rows[0], s)?;
    by_time(&rows[1], s)?;
    let mut places = Vec::new();
    for (i, row) in rows[2..].iter().enumerate() {
        // A panel that has no neighbour takes the whole row.
        let both = halves >= 2 * (i + 1);
        places.extend(if both { row.split_evenly((1, 2)) } else { vec![row.clone()] });
    }
    let mut places = places.into_iter();
    let mut next = || places.next().ok_or("a panel has no place");
    distribution(&next()?, s)?;
    if let Some((all, front)) = pareto {
        scatter(&next()?, s, all, &front)?;
    }
    if !s.failures.is_empty() {
        failures(&next()?, s)?;
    }
    root.present()?;
    Ok(())
}

/// The title, and what the marks mean.
fn title(area: &Area, s: &Search) -> Done {
    let large = ("sans-serif", 20).into_font().color(&TEXT);
    let small = ("sans-serif", 14).into_font().color(&TEXT);
    area.draw(&Text::new(s.title.clone(), (MARGIN, 12), large))?;
    let mut x = MARGIN + 6;
    let y = 48;
    let entry = |x: &mut i32, text: String| -> Done {
        area.draw(&Text::new(text.clone(), (*x + 16, y - 7), small.clone()))?;
        // Wider than the text is in any usual font.
        *x += 16 + text.chars().count() as i32 * 9 + 24;
        Ok(())
    };
    area.draw(&Circle::new((x, y), 3, DOT.filled()))?;
    entry(&mut x, format!("{} configurations", s.dots.len()))?;
    area.draw(&Cross::new((x, y), 4, INVALID.stroke_width(2)))?;
    entry(&mut x, format!("{} invalid", s.invalid()))?;
    area.draw(&PathElement::new([(x - 6, y), (x + 8, y)], BEST.stroke_width(2)))?;
    entry(&mut x, format!("best so far: {} {}", super::axis::shown(s.low, s.low * 1e-3), s.cost))
}

/// Axes with their lines, and what they are called.
fn panel<'a, 'b>(
    area: &'b Area<'a>,
    (x, y): (Axis, Axis),
    names: (&str, &str),
    left: i32,
) -> Result<Panel<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(MARGIN + 12)
        .x_label_area_size(BELOW)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .axis_style(TEXT)
        .label_style(("sans-serif", 13).into_font().color(&TEXT))
        .axis_desc_style(("sans-serif", 14).into_font().color(&TEXT))
        .x_desc(names.0)
        .y_desc(names.1)
        .draw()?;
    Ok(chart)
}

type Panel<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

/// Costs and failures along an axis, with the best so far.
fn course(
    area: &Area,
    s: &Search,
    (x, end, name): (Axis, f64, &str),
    at: fn(&(f64, f64, f64)) -> f64,
    failed: Vec<f64>,
) -> Done {
    let y = s.costs(UP);
    let top = y.at(0.985);
    let mut chart = panel(area, (x.clone(), y.clone()), (name, s.cost), LEFT)?;
    let points = thinned(s.valid.iter().map(|v| (at(v), v.2)).collect(), &x, &y, (WIDTH / 2, PANEL / 2));
    chart.draw_series(points.into_iter().map(|p| Circle::new(p, 2, DOT.mix(0.55).filled())))?;
    let failed = thinned(failed.into_iter().map(|f| (f, top)).collect(), &x, &y, (WIDTH / 4, 1));
    chart.draw_series(failed.into_iter().map(|p| Cross::new(p, 3, INVALID)))?;
    chart.draw_series(LineSeries::new(s.staircase(at, end), BEST.stroke_width(2)))?;
    Ok(())
}

fn by_evaluation(area: &Area, s: &Search) -> Done {
    let failed = s.dots.iter().enumerate().filter(|d| d.1.cost().is_none());
    let failed = failed.map(|(i, _)| i as f64 + 1.0).collect();
    let n = s.dots.len();
    course(area, s, (Axis::of_counts(n, ACROSS), n as f64, "evaluations"), |v| v.0, failed)
}

fn by_time(area: &Area, s: &Search) -> Done {
    let end = s.dots.iter().map(|d| d.seconds).filter(|t| t.is_finite()).fold(0.0, f64::max);
    let failed = s.dots.iter().filter(|d| d.cost().is_none()).map(|d| d.seconds).collect();
    let x = Axis::from_zero(end, ACROSS);
    course(area, s, (x, end, "seconds since the search began"), |v| v.1, failed)
}

fn distribution(area: &Area, s: &Search) -> Done {
    let x = s.costs(HALF);
    let bins = histogram(s.valid.iter().map(|v| v.2), &x, 40);
    let y = Axis::of_counts(bins.iter().map(|b| b.2).max().unwrap_or(1), UP);
    let mut chart = panel(area, (x, y), (s.cost, "configurations"), LEFT)?;
    let bars = bins.into_iter().filter(|b| b.2 > 0);
    chart.draw_series(
        bars.map(|(a, b, n)| Rectangle::new([(a, 0.0), (b, n as f64)], DOT.mix(0.7).filled())),
    )?;
    Ok(())
}

/// The first two costs; what nothing dominates is joined by a line.
fn scatter(area: &Area, s: &Search, all: Vec<(f64, f64)>, front: &[(f64, f64)]) -> Done {
    let of = |f: fn(&(f64, f64)) -> f64| {
        let values = || all.iter().map(f);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((x_low, x_high), (y_low, y_high)) = (of(|p| p.0), of(|p| p.1));
    let (x, y) = (Axis::around(x_low, x_high, HALF, true), Axis::around(y_low, y_high, UP, true));
    let name = format!("{} (Pareto front: {} of {})", s.cost, front.len(), all.len());
    let mut chart = panel(area, (x.clone(), y.clone()), (&name, "second cost"), LEFT)?;
    let points = thinned(all, &x, &y, (WIDTH / 4, PANEL / 2));
    chart.draw_series(points.into_iter().map(|p| Circle::new(p, 2, DOT.mix(0.55).filled())))?;
    let corners = front.windows(2).flat_map(|w| [w[0], (w[1].0, w[0].1)]).chain(front.last().copied());
    chart.draw_series(LineSeries::new(corners, BEST.mix(0.6)))?;
    chart.draw_series(front.iter().map(|p| Circle::new(*p, 4, BEST.filled())))?;
    Ok(())
}

fn failures(area: &Area, s: &Search) -> Done {
    // The first is at the top.
    let names: Vec<String> = s.failures.iter().rev().map(|f| f.0.clone()).collect();
    let x = Axis::of_counts(s.failures.first().map_or(1, |f| f.1), HALF);
    let mut chart = panel(area, (x, Axis::of_names(&names)), ("invalid configurations", ""), LEFT_NAMES)?;
    let bars = s.failures.iter().rev().enumerate();
    chart.draw_series(bars.map(|(i, (_, n))| {
        let y = i as f64;
        Rectangle::new([(0.0, y + 0.2), (*n as f64, y + 0.8)], INVALID.mix(0.8).filled())
    }))?;
    Ok(())
}
