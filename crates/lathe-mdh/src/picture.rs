//! A (de/re)-composition as a picture (thesis, Fig. 60 and Section 8.11): one row per step, de-composition on the
//! left from top to bottom, the scalar function at the foot, re-composition on the right back up.
//!
//! What is drawn: the number of parts and the level in the middle; who runs them on a cross of core dimensions; the
//! iteration space with its operators on either side, the part that the next row is about shaded; the region of every
//! buffer under it and its layout as a cross of axes; the index functions under the views; numbers in boxes for the
//! order of execution. Levels with one part are not steps. Entries that a strategy fixed are framed, each of them;
//! those that were chosen have a shaded ground.
//!
//! The picture is an SVG without scripts. Every row is a group that says in attributes what it draws
//! (`data-level`, `data-parts`, `data-number`, …), which is what tests look at.

use crate::decisions::{Decisions, Level, Phase, Placement, Spot, at, by_position};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::picture_svg::{Svg, Tone};
use crate::view::{IndexFunction, Operand};
use lathe_ir::{Combine, ReduceOp};

/// One step of a phase: what a row shows on its side.
struct Step {
    number: usize,
    level: Level,
    parts: u64,
    /// Indices per dimension before the step.
    tile: Vec<u64>,
    /// `COR.x`, and whether cores run the parts.
    layer: String,
    axis: usize,
    core: bool,
    uses: Vec<Place>,
    chosen: Chosen,
}

/// Which entries of a step the strategy did not fix.
#[derive(Clone, Copy, Default)]
struct Chosen {
    parts: bool,
    order: bool,
    by: bool,
}

/// A buffer where it is at a step.
struct Place {
    name: String,
    rank: usize,
    region: String,
    layout: Vec<usize>,
    /// It is not where it was a step before.
    moved: bool,
    /// The strategy did not fix the region, and the layout.
    chosen: (bool, bool),
}

/// What of something was chosen: all of it, nothing, or these.
fn chosen(all: &[(&str, bool)]) -> String {
    let of = |wanted: bool| all.iter().filter(move |c| c.1 == wanted).map(|c| c.0).collect::<Vec<_>>();
    match (of(true).as_slice(), of(false).as_slice()) {
        ([], _) => "no".to_string(),
        (_, []) => "yes".to_string(),
        (some, _) => some.join(","),
    }
}

/// Widths of the columns, heights of the rows.
const NUMBER: f64 = 46.0;
const SPACE: f64 = 196.0;
const BUFFER: f64 = 104.0;
const MIDDLE: f64 = 190.0;
const ROW: f64 = 158.0;
const TOP: f64 = 92.0;
const MARGIN: f64 = 22.0;

/// Draws complete decisions; `fixed` are those that a strategy stated, all others are shaded as chosen. None where
/// a decision is free or an order no permutation.
pub fn picture(h: &Shaped, model: &Model, d: &Decisions, fixed: &Decisions) -> Option<String> {
    let down = steps(h, model, d, fixed, Phase::Down)?;
    let up = steps(h, model, d, fixed, Phase::Up)?;
    let (inputs, outputs) = (h.h.inputs.len().max(1) as f64, h.h.outputs.len().max(1) as f64);
    let sides = |n: f64| NUMBER + SPACE + n * BUFFER;
    let width = 2.0 * MARGIN + sides(inputs) + MIDDLE + sides(outputs);
    let height = TOP + ROW * (down.len() as f64 + 2.0) + 58.0;
    let mut svg = Svg::new(width, height);
    let columns = Columns {
        left: MARGIN,
        reads: MARGIN + NUMBER + SPACE,
        middle: MARGIN + sides(inputs),
        writes: MARGIN + sides(inputs) + MIDDLE,
        right: width - MARGIN - NUMBER,
    };
    head(&mut svg, h, model, width);
    views(&mut svg, h, model, &columns);
    for (n, (l, r)) in down.iter().zip(&up).enumerate() {
        let y = TOP + ROW * (n as f64 + 1.0);
        svg.dotted(MARGIN, y, width - MARGIN);
        row(&mut svg, h, y, &columns, l, r);
    }
    let y = TOP + ROW * (down.len() as f64 + 1.0);
    svg.dotted(MARGIN, y, width - MARGIN);
    scalar(&mut svg, h, model, d, fixed, y, &columns, down.len() + 1, (&down, &up));
    legend(&mut svg, height, width);
    Some(svg.done(&format!("{} on {}", h.h.name, model.name)))
}

struct Columns {
    left: f64,
    reads: f64,
    middle: f64,
    writes: f64,
    right: f64,
}

/// The steps of a phase in their order, outermost first.
fn steps(h: &Shaped, model: &Model, d: &Decisions, fixed: &Decisions, phase: Phase) -> Option<Vec<Step>> {
    let decided = d.steps(phase);
    let order: Vec<Level> = by_position(&decided.order)?.into_iter().filter(|l| d.parts_at(*l) > 1).collect();
    let (operands, placed, stated) = match phase {
        Phase::Up => (&h.h.outputs, &d.writes, &fixed.writes),
        _ => (&h.h.inputs, &d.reads, &fixed.reads),
    };
    let mut tile = h.extents.clone();
    let mut out: Vec<Step> = Vec::new();
    for (n, l) in order.iter().enumerate() {
        let assigned = at(&decided.assignment, *l)?;
        let parts = d.parts_at(*l);
        let mut uses = Vec::new();
        for (k, o) in operands.iter().enumerate() {
            let (region, layout) = placement(placed.get(k)?, *l)?;
            let stated = stated.get(k);
            let region_known = stated.is_some_and(|p| at(&p.region, *l).is_some());
            let layout_known = stated.is_some_and(|p| at(&p.layout, *l).is_some());
            let before = out.last().and_then(|s| s.uses.get(k)).map(|u| (u.region.clone(), u.layout.clone()));
            let region = model.memories.get(region)?.region().to_string();
            let first = (model.memories[0].region().to_string(), (0..o.rank()).collect::<Vec<_>>());
            let moved = before.unwrap_or(first) != (region.clone(), layout.clone());
            uses.push(Place {
                name: o.name().to_string(),
                rank: o.rank(),
                region,
                layout,
                moved,
                chosen: (!region_known, !layout_known),
            });
        }
        let stated = fixed.steps(phase);
        out.push(Step {
            number: match phase {
                Phase::Up => 2 * order.len() + 1 - n,
                _ => n + 1,
            },
            level: *l,
            parts,
            tile: tile.clone(),
            layer: model.layer_name(assigned.layer).to_string(),
            axis: assigned.dim,
            core: model.core(assigned.layer).is_some(),
            uses,
            chosen: Chosen {
                parts: at(&fixed.parts, *l).is_none(),
                order: at(&stated.order, *l).is_none(),
                by: at(&stated.assignment, *l).is_none(),
            },
        });
        tile[l.dim] = tile[l.dim].div_ceil(parts);
    }
    Some(out)
}

fn placement(p: &Placement, l: Level) -> Option<(usize, Vec<usize>)> {
    Some((*at(&p.region, l)?, at(&p.layout, l)?.clone()))
}

fn head(svg: &mut Svg, h: &Shaped, model: &Model, width: f64) {
    svg.text(MARGIN, 34.0, "title", &format!("{} on {}", h.h.name, model.name));
    let extents: Vec<String> =
        h.h.dims.iter().zip(&h.extents).map(|(d, n)| format!("{} {n}", d.name)).collect();
    let operators: Vec<String> = h.h.dims.iter().map(|d| operator(&d.combine)).collect();
    let text = format!(
        "md_hom< {} >( f, ({}) )   memory: {}   cores: {}",
        extents.join(", "),
        operators.join(", "),
        model.memories.iter().map(|m| m.layer.as_str()).collect::<Vec<_>>().join(" › "),
        model.cores.iter().map(|c| c.layer.as_str()).collect::<Vec<_>>().join(" › "),
    );
    svg.text(MARGIN, 58.0, "sub", &text);
    svg.text(MARGIN, 82.0, "phase", "de-composition ↓");
    svg.text_end(width - MARGIN, 82.0, "phase", "↑ re-composition");
}

/// So many lines of small text have room under a buffer, each with so many characters.
const LINES: usize = 5;
const CHARACTERS: usize = 16;

/// A text in lines that are as wide as a buffer's column, broken after commas. Of very long ones the last line that has
/// room says so.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for part in text.split_inclusive(", ") {
        let last = lines.len() - 1;
        if !lines[last].is_empty()
            && lines[last].chars().count() + part.trim_end().chars().count() > CHARACTERS
        {
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        lines[last] += part;
    }
    if lines.len() > 3 {
        lines.truncate(3);
        lines[2] = format!("{}…", lines[2].trim_end());
    }
    lines.iter().map(|l| l.trim_end().to_string()).collect()
}

/// The buffers as the caller has them, with their index functions.
fn views(svg: &mut Svg, h: &Shaped, model: &Model, c: &Columns) {
    svg.open(&[("class", "views")]);
    let region = model.memories[0].region();
    let side = |svg: &mut Svg, all: &[Operand], x: f64, phase: &str| {
        for (n, o) in all.iter().enumerate() {
            let x = x + n as f64 * BUFFER;
            svg.open(&[
                ("class", "buffer"),
                ("data-phase", phase),
                ("data-name", o.name()),
                ("data-region", region),
            ]);
            let layout: Vec<usize> = (0..o.rank()).collect();
            svg.buffer(x + BUFFER / 2.0, TOP + 34.0, o.rank(), &layout, Tone::Plain);
            let shape: Vec<String> = h.derived_shape(o).iter().map(u64::to_string).collect();
            svg.middle(x + BUFFER / 2.0, TOP + 84.0, "name", o.name());
            let mut lines = wrapped(&format!("[{}]", shape.join(", ")));
            // As many index functions as there is room for.
            for (k, a) in o.accesses.iter().enumerate() {
                let text = wrapped(&index_text(h, a));
                let left = LINES - lines.len();
                let last = k + 1 == o.accesses.len();
                if text.len() > left || (text.len() == left && !last) {
                    lines.push(format!("and {} more", o.accesses.len() - k));
                    break;
                }
                lines.extend(text);
            }
            for (k, line) in lines.iter().enumerate() {
                svg.middle(x + BUFFER / 2.0, TOP + 99.0 + 13.0 * k as f64, "small", line);
            }
            svg.close();
        }
    };
    side(svg, &h.h.inputs, c.reads, "down");
    side(svg, &h.h.outputs, c.writes, "up");
    svg.middle(c.middle + MIDDLE / 2.0, TOP + 62.0, "small", "out_view ∘ md_hom ∘ inp_view");
    for (x, phase) in
        [(c.left + NUMBER, Phase::Down), (c.writes + h.h.outputs.len().max(1) as f64 * BUFFER, Phase::Up)]
    {
        space(svg, h, x, TOP + 18.0, &h.extents, None, phase);
    }
    svg.boxed(c.left + 4.0, TOP + 36.0, 0);
    svg.close();
}

fn row(svg: &mut Svg, h: &Shaped, y: f64, c: &Columns, down: &Step, up: &Step) {
    let outputs = h.h.outputs.len().max(1) as f64;
    for (s, phase, x, number) in [
        (down, Phase::Down, c.left + NUMBER, c.left + 4.0),
        (up, Phase::Up, c.writes + outputs * BUFFER, c.right + 8.0),
    ] {
        let name = if phase == Phase::Down { "down" } else { "up" };
        svg.open(&[
            ("class", "step"),
            ("data-phase", name),
            ("data-number", &s.number.to_string()),
            ("data-level", &s.level.to_string()),
            ("data-dim", &h.h.dims[s.level.dim].name),
            ("data-parts", &s.parts.to_string()),
            ("data-by", &format!("{}.{}", s.layer, axis_name(s.axis))),
            ("data-runs", if s.core { "cores" } else { "loop" }),
            (
                "data-operator",
                &if phase == Phase::Up { operator(&h.h.dims[s.level.dim].combine) } else { "++".to_string() },
            ),
            (
                "data-chosen",
                &chosen(&[("parts", s.chosen.parts), ("order", s.chosen.order), ("by", s.chosen.by)]),
            ),
        ]);
        svg.boxed(number, y + 56.0, s.number);
        space(svg, h, x, y + 18.0, &s.tile, Some((s.level.dim, s.parts)), phase);
        let first = if phase == Phase::Down { c.reads } else { c.writes };
        places(svg, &s.uses, first, y, name);
        svg.close();
    }
    let same = down.level == up.level && down.layer == up.layer && down.axis == up.axis;
    let centre = c.middle + MIDDLE / 2.0;
    if same {
        let either = Chosen {
            parts: down.chosen.parts || up.chosen.parts,
            order: down.chosen.order || up.chosen.order,
            by: down.chosen.by || up.chosen.by,
        };
        by_whom(svg, h, (centre, y), down, either, "↓ ↑");
    } else {
        by_whom(svg, h, (c.middle + MIDDLE * 0.25, y), down, down.chosen, "↓");
        by_whom(svg, h, (c.middle + MIDDLE * 0.75, y), up, up.chosen, "↑");
    }
}

/// The number of parts and who runs them.
fn by_whom(svg: &mut Svg, h: &Shaped, (x, y): (f64, f64), s: &Step, chosen: Chosen, arrows: &str) {
    let dim = &h.h.dims[s.level.dim];
    svg.ground(x - 46.0, y + 6.0, 92.0, 32.0, chosen.parts);
    svg.middle(x, y + 29.0, "big", &format!("{} × {}", s.parts, dim.name));
    svg.ground(x - 46.0, y + 42.0, 92.0, 20.0, chosen.order);
    svg.middle(x, y + 56.0, "small", &format!("level {}  {arrows}", s.level));
    svg.ground(x - 46.0, y + 66.0, 92.0, 86.0, chosen.by);
    svg.cross(x, y + 102.0, s.axis, s.core);
    let label =
        if s.core { format!("{}.{}", s.layer, axis_name(s.axis)) } else { format!("for, {}", s.layer) };
    svg.chip(x, y + 137.0, &label, s.core);
}

fn places(svg: &mut Svg, all: &[Place], x: f64, y: f64, phase: &str) {
    for (n, p) in all.iter().enumerate() {
        let x = x + n as f64 * BUFFER;
        let layout: Vec<String> = p.layout.iter().map(|k| (k + 1).to_string()).collect();
        svg.open(&[
            ("class", "buffer"),
            ("data-phase", phase),
            ("data-name", &p.name),
            ("data-region", &p.region),
            ("data-layout", &layout.join(",")),
            ("data-moved", if p.moved { "yes" } else { "no" }),
            ("data-chosen", &chosen(&[("region", p.chosen.0), ("layout", p.chosen.1)])),
        ]);
        svg.ground(x + 6.0, y + 6.0, BUFFER - 12.0, 72.0, p.chosen.1);
        svg.ground(x + 6.0, y + 98.0, BUFFER - 12.0, 42.0, p.chosen.0);
        let tone = if p.moved { Tone::Moved } else { Tone::Plain };
        svg.buffer(x + BUFFER / 2.0, y + 40.0, p.rank, &p.layout, tone);
        svg.middle(x + BUFFER / 2.0, y + 92.0, "name", &p.name);
        svg.middle(x + BUFFER / 2.0, y + 112.0, if p.moved { "moved" } else { "region" }, &p.region);
        if p.moved {
            let what = if phase == "down" { "copied here" } else { "kept here" };
            svg.middle(x + BUFFER / 2.0, y + 130.0, "small", what);
        }
        svg.close();
    }
}

/// The scalar function, with where it reads and writes.
#[expect(clippy::too_many_arguments, reason = "one row of the picture")]
fn scalar(
    svg: &mut Svg,
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    fixed: &Decisions,
    y: f64,
    c: &Columns,
    number: usize,
    last: (&[Step], &[Step]),
) {
    svg.open(&[("class", "scalar"), ("data-number", &number.to_string())]);
    let spots = |all: &[Spot], stated: &[Spot], operands: &[Operand], before: &[Step]| -> Vec<Place> {
        let one = |(k, (s, o)): (usize, (&Spot, &Operand))| {
            let region = model.memories.get(s.region?)?.region().to_string();
            let layout = s.layout.clone()?;
            let plain = (model.memories[0].region().to_string(), (0..o.rank()).collect::<Vec<_>>());
            let was = before.last().and_then(|b| b.uses.get(k));
            let was = was.map_or(plain, |u| (u.region.clone(), u.layout.clone()));
            Some(Place {
                name: o.name().to_string(),
                rank: o.rank(),
                moved: was != (region.clone(), layout.clone()),
                region,
                layout,
                chosen: (
                    stated.get(k).is_none_or(|s| s.region.is_none()),
                    stated.get(k).is_none_or(|s| s.layout.is_none()),
                ),
            })
        };
        all.iter().zip(operands).enumerate().filter_map(one).collect()
    };
    places(svg, &spots(&d.operands, &fixed.operands, &h.h.inputs, last.0), c.reads, y, "down");
    places(svg, &spots(&d.results, &fixed.results, &h.h.outputs, last.1), c.writes, y, "up");
    let x = c.middle + MIDDLE / 2.0;
    svg.middle(x, y + 50.0, "big", "f");
    let reads: usize = h.h.inputs.iter().map(|o| o.accesses.len()).sum();
    let text = format!("{reads} value{} → {}", if reads == 1 { "" } else { "s" }, h.h.values.len());
    svg.middle(x, y + 72.0, "small", &text);
    svg.middle(x, y + 90.0, "small", "the scalar function,");
    svg.middle(x, y + 105.0, "small", "once per index");
    svg.boxed(x - 13.0, y + 118.0, number);
    svg.close();
}

/// The iteration space before a step, cut along one dimension.
fn space(svg: &mut Svg, h: &Shaped, x: f64, y: f64, tile: &[u64], cut: Option<(usize, u64)>, phase: Phase) {
    let label = |k: usize| {
        let d = &h.h.dims[k];
        let op = if phase == Phase::Up { operator(&d.combine) } else { "++".to_string() };
        (format!("{} {}", d.name, tile[k]), op)
    };
    let labels: Vec<(String, String)> = (0..tile.len()).map(label).collect();
    svg.space(x, y, &labels, cut.map(|(d, n)| (d, n.min(8) as usize)));
}

fn legend(svg: &mut Svg, height: f64, width: f64) {
    let y = height - 34.0;
    svg.dotted(MARGIN, y - 12.0, width - MARGIN);
    svg.ground(MARGIN, y, 18.0, 14.0, false);
    svg.text(MARGIN + 26.0, y + 12.0, "small", "fixed by the strategy");
    svg.ground(MARGIN + 166.0, y, 18.0, 14.0, true);
    svg.text(MARGIN + 192.0, y + 12.0, "small", "chosen");
    svg.chip(MARGIN + 282.0, y + 8.0, "COR.x", true);
    svg.text(MARGIN + 318.0, y + 12.0, "small", "cores");
    svg.chip(MARGIN + 396.0, y + 8.0, "for, L1", false);
    svg.text(MARGIN + 440.0, y + 12.0, "small", "one after the other");
    svg.text(MARGIN + 580.0, y + 12.0, "moved", "L1");
    svg.text(MARGIN + 608.0, y + 12.0, "small", "a region or layout that differs from the step before");
}

fn axis_name(axis: usize) -> String {
    ["x", "y", "z"].get(axis).map_or_else(|| (axis + 1).to_string(), |s| (*s).to_string())
}

/// `++`, `+`, `ps(+)`
fn operator(c: &Combine) -> String {
    let name = |op: &ReduceOp| match op.to_string().as_str() {
        "sum" => "+".to_string(),
        "prod" => "×".to_string(),
        other => other.to_string(),
    };
    match c {
        Combine::Concat => "++".to_string(),
        Combine::Reduce(op) => name(op),
        Combine::Scan(op) => format!("ps({})", name(op)),
    }
}

/// `(i, k) → (2i + 1, k)`
fn index_text(h: &Shaped, a: &IndexFunction) -> String {
    let one = |s: &crate::view::Subscript| {
        let mut terms: Vec<String> = Vec::new();
        for (c, d) in s.coefficients.iter().zip(&h.h.dims) {
            match c {
                0 => {}
                1 => terms.push(d.name.clone()),
                -1 => terms.push(format!("-{}", d.name)),
                c => terms.push(format!("{c}{}", d.name)),
            }
        }
        let offset = lathe_ir::interp::evaluate(&s.offset, &h.sizes).unwrap_or(0);
        if offset != 0 || terms.is_empty() {
            terms.push(offset.to_string());
        }
        terms.join("+").replace("+-", "-")
    };
    let all: Vec<String> = a.subscripts.iter().map(one).collect();
    let text = format!("({})", all.join(", "));
    // What is too long for its column is cut.
    match text.char_indices().nth(17) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
