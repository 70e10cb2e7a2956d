//! Validity of decisions: the algorithmic constraints, those of the model, the rule for order-dependent
//! operators, and capacities. Every violation names the rule, the decision and the level.
//!
//! Free entries violate nothing; what is fixed is checked as far as it decides.

use crate::codes;
use crate::decisions::{Decisions, Level, Phase, Placement, Spot, Table, at};
use crate::footprint::allocations;
use crate::homomorphism::Shaped;
use crate::model::{Constraint, Model};
use crate::view::Operand;
use lathe_diagnostics::{Code, Diagnostic};
use lathe_ir::Combine;
use lathe_space::Value;
use std::collections::BTreeMap;

/// Facts about the machine that a model's limits may name.
pub type Facts<'a> = dyn Fn(&str) -> Option<Value> + 'a;

/// All violations, in the order of the decisions.
pub fn check(h: &Shaped, model: &Model, d: &Decisions, facts: &Facts) -> Vec<Diagnostic> {
    if let Err(wrong) = shape(h, model, d) {
        return vec![wrong];
    }
    let mut out = Vec::new();
    parts(h, d, &mut out);
    for p in Phase::ALL {
        permutation(d, p, &mut out);
        bijection(h, model, d, p, &mut out);
    }
    placements(h, model, d, &mut out);
    scan_order(h, d, &mut out);
    for c in &model.constraints {
        match c {
            Constraint::Parts { cores, at_most } => {
                if let Some(most) = at_most.value(facts) {
                    core_parts(model, d, cores, most, &mut out);
                }
            }
            Constraint::Combine { core, regions } => combine_region(h, model, d, core, regions, &mut out),
        }
    }
    if out.is_empty() {
        capacity(h, model, d, facts, &mut out);
    }
    out
}

/// The first violation, or else E1220 if a decision is still free.
///
/// # Errors
/// As said.
pub fn require(h: &Shaped, model: &Model, d: &Decisions, facts: &Facts) -> Result<(), Diagnostic> {
    if let Some(first) = check(h, model, d, facts).into_iter().next() {
        return Err(first);
    }
    match d.open() {
        0 => Ok(()),
        n => Err(Diagnostic::error(codes::FREE, format!("{n} entries of the decisions are still free"))
            .help("let the tuner choose them, or complete them")),
    }
}

/// Tables must be those of this computation and model: everything else may then index them.
fn shape(h: &Shaped, model: &Model, d: &Decisions) -> Result<(), Diagnostic> {
    let (layers, dims) = (model.layers(), h.extents.len());
    fn fits<T>(t: &Table<T>, layers: usize, dims: usize) -> bool {
        t.len() == layers && t.iter().all(|r| r.len() == dims)
    }
    let wrong = |what: String| {
        Err(Diagnostic::error(codes::DECISIONS_SHAPE, what)
            .help(format!("`{}` has {layers} layers, and the computation {dims} dimensions", model.name)))
    };
    if !fits(&d.parts, layers, dims) {
        return wrong("0 (#PRT) does not have one entry per layer and dimension".to_string());
    }
    for p in Phase::ALL {
        let s = d.steps(p);
        if !fits(&s.order, layers, dims) || !fits(&s.assignment, layers, dims) {
            let c = p.letter();
            return wrong(format!("{c}1 and {c}2 do not have one entry per layer and dimension"));
        }
    }
    let (inputs, outputs) = (&h.h.inputs, &h.h.outputs);
    for (what, all, operands) in [("D3 and D4", &d.reads, inputs), ("R3 and R4", &d.writes, outputs)] {
        let same = all.len() == operands.len() && all.iter().zip(operands).all(|(p, o)| p.buffer == o.name());
        if !same || all.iter().any(|p| !fits(&p.region, layers, dims) || !fits(&p.layout, layers, dims)) {
            return wrong(format!("{what} do not have one table per buffer of {}", names(operands)));
        }
    }
    for (what, all, operands) in [("S3 and S4", &d.operands, inputs), ("S5 and S6", &d.results, outputs)] {
        if all.len() != operands.len() || all.iter().zip(operands).any(|(p, o)| p.buffer != o.name()) {
            return wrong(format!("{what} do not have one entry per buffer of {}", names(operands)));
        }
    }
    Ok(())
}

fn names(operands: &[Operand]) -> String {
    operands.iter().map(|o| format!("`{}`", o.name())).collect::<Vec<_>>().join(", ")
}

/// `Π_l #PRT(l,d) = N_d`, for each dimension.
fn parts(h: &Shaped, d: &Decisions, out: &mut Vec<Diagnostic>) {
    for (dim, extent) in h.extents.iter().enumerate() {
        let name = &h.h.dims[dim].name;
        let of: Vec<(Level, Option<u64>)> = (0..d.layers())
            .map(|layer| Level { layer, dim })
            .map(|l| (l, at(&d.parts, l).copied()))
            .collect();
        if let Some((l, _)) = of.iter().find(|p| p.1 == Some(0)) {
            out.push(
                Diagnostic::error(codes::PARTS, format!("0 (#PRT): level {l} of `{name}` has 0 parts"))
                    .help("a level has at least 1 part"),
            );
            continue;
        }
        let product = of.iter().filter_map(|p| p.1).try_fold(1u64, u64::checked_mul);
        let Some(product) = product.filter(|p| *p < 1 << 60) else {
            let text = format!("0 (#PRT): the parts of `{name}` multiply to more than 2^60");
            out.push(Diagnostic::error(codes::PARTS, text));
            continue;
        };
        let extent = (*extent).max(1);
        let complete = of.iter().all(|p| p.1.is_some());
        let fits = if complete { product == extent } else { extent.is_multiple_of(product) };
        if d.partial_tiles || fits {
            continue;
        }
        let levels: Vec<String> =
            of.iter().filter_map(|(l, p)| p.filter(|p| *p > 1).map(|p| format!("{p} at {l}"))).collect();
        let word = if complete { "not to" } else { "which does not divide" };
        out.push(
            Diagnostic::error(
                codes::PARTS,
                format!(
                    "0 (#PRT): the parts of `{name}` (dimension {}) multiply to {product}, {word} its extent {extent}",
                    dim + 1
                ),
            )
            .note(format!("there are {}", if levels.is_empty() { "none".to_string() } else { levels.join(", ") }))
            .help("change one of them, or enable partial tiles"),
        );
    }
}

fn permutation(d: &Decisions, p: Phase, out: &mut Vec<Diagnostic>) {
    let n = d.layers() * d.dims();
    let mut seen: BTreeMap<usize, Level> = BTreeMap::new();
    for l in d.levels() {
        let Some(rank) = at(&d.steps(p).order, l) else { continue };
        let letter = p.letter();
        if *rank >= n {
            let text =
                format!("{letter}1: level {l} has the rank {}, but there are only {n} levels", rank + 1);
            out.push(Diagnostic::error(codes::ORDER, text));
        } else if let Some(other) = seen.insert(*rank, l) {
            let text = format!("{letter}1: levels {other} and {l} both have the rank {}", rank + 1);
            out.push(
                Diagnostic::error(codes::ORDER, text)
                    .help("an order is a permutation: each rank occurs once"),
            );
        }
    }
}

fn bijection(h: &Shaped, model: &Model, d: &Decisions, p: Phase, out: &mut Vec<Diagnostic>) {
    let mut seen = BTreeMap::new();
    for l in d.levels() {
        let Some(to) = at(&d.steps(p).assignment, l) else { continue };
        let letter = p.letter();
        if to.layer >= model.layers() || to.dim >= h.extents.len() {
            let text =
                format!("{letter}2: level {l} is assigned to a level that `{}` does not have", model.name);
            out.push(Diagnostic::error(codes::ASSIGNMENT, text));
        } else if let Some(other) = seen.insert(*to, l) {
            let name = format!("{}.{}", model.layer_name(to.layer), to.dim + 1);
            let text = format!("{letter}2: levels {other} and {l} are both assigned to `{name}`");
            out.push(Diagnostic::error(codes::ASSIGNMENT, text).help("an assignment is a bijection"));
        }
    }
}

fn placements(h: &Shaped, model: &Model, d: &Decisions, out: &mut Vec<Diagnostic>) {
    // A dimension that is named twice is cut into the tiles of the registers.
    let permutation = |layout: &[usize], rank: usize| {
        let times = |k: usize| layout.iter().filter(|l| **l == k).count();
        layout.iter().all(|k| *k < rank) && (0..rank).all(|k| (1..=2).contains(&times(k)))
    };
    let mut one =
        |decision: &str, o: &Operand, place: &str, region: Option<usize>, layout: Option<&Vec<usize>>| {
            let (regions, layouts) = match decision {
                "D" => ("D3", "D4"),
                "R" => ("R3", "R4"),
                "S-in" => ("S3", "S4"),
                _ => ("S5", "S6"),
            };
            if region.is_some_and(|r| r >= model.memories.len()) {
                let text = format!(
                    "{regions}: `{}`{place} is in a region that `{}` does not have",
                    o.name(),
                    model.name
                );
                out.push(Diagnostic::error(codes::REGION, text));
            }
            if let Some(layout) = layout.filter(|l| !permutation(l, o.rank())) {
                let shown: Vec<String> = layout.iter().map(|k| k.saturating_add(1).to_string()).collect();
                let text = format!(
                    "{layouts}: `<{}>` of `{}`{place} is not a permutation of its {} dimensions",
                    shown.join(","),
                    o.name(),
                    o.rank()
                );
                out.push(Diagnostic::error(codes::LAYOUT, text));
            }
        };
    let mut tables = |word: &str, operands: &[Operand], all: &[Placement]| {
        for (o, p) in operands.iter().zip(all) {
            for l in d.levels() {
                one(word, o, &format!(" at level {l}"), at(&p.region, l).copied(), at(&p.layout, l));
            }
        }
    };
    tables("D", &h.h.inputs, &d.reads);
    tables("R", &h.h.outputs, &d.writes);
    let mut spots = |word: &str, operands: &[Operand], all: &[Spot]| {
        for (o, s) in operands.iter().zip(all) {
            one(word, o, "", s.region, s.layout.as_ref());
        }
    };
    spots("S-in", &h.h.inputs, &d.operands);
    spots("S-out", &h.h.outputs, &d.results);
}

/// Coarser layers of a dimension whose parts must be combined in order lie outside of finer ones. The proof of
/// the thesis (App. .6) interchanges different dimensions only; within one, parts would interleave.
fn scan_order(h: &Shaped, d: &Decisions, out: &mut Vec<Diagnostic>) {
    for (dim, dimension) in h.h.dims.iter().enumerate().filter(|(_, x)| x.ordered) {
        let ranked = (0..d.layers())
            .map(|layer| Level { layer, dim })
            .filter(|l| at(&d.parts, *l).is_some_and(|p| *p > 1))
            .filter_map(|l| at(&d.up.order, l).map(|r| (l, *r)));
        let mut last: Option<(Level, usize)> = None;
        for (l, rank) in ranked {
            if let Some((coarse, before)) = last
                && rank < before
            {
                out.push(
                    Diagnostic::error(
                        codes::SCAN_ORDER,
                        format!(
                            "R1: level {l} of `{}` has the rank {}, before the coarser level {coarse} with {}",
                            dimension.name,
                            rank + 1,
                            before + 1
                        ),
                    )
                    .note(match &dimension.combine {
                        Combine::Scan(op) => format!("the prefixes of `{op}` depend on the order of the parts"),
                        _ => "the operator is not commutative".to_string(),
                    })
                    .help("rank the layers of this dimension from coarse to fine"),
                );
                break;
            }
            last = Some((l, rank));
        }
    }
}

fn core_parts(model: &Model, d: &Decisions, cores: &[String], most: u64, out: &mut Vec<Diagnostic>) {
    for p in Phase::ALL {
        let here: Vec<Level> = d
            .levels()
            .filter(|l| {
                at(&d.steps(p).assignment, *l)
                    .is_some_and(|a| cores.iter().any(|c| c == model.layer_name(a.layer)))
            })
            .filter(|l| d.parts_at(*l) > 1)
            .collect();
        let product = here.iter().fold(1u64, |n, l| n.saturating_mul(d.parts_at(*l)));
        if product > most {
            let levels: Vec<String> = here.iter().map(|l| format!("{} at {l}", d.parts_at(*l))).collect();
            out.push(
                Diagnostic::error(
                    codes::CORES,
                    format!(
                        "{}2: {} get {product} parts, but may have {most}",
                        p.letter(),
                        cores.join(" and ")
                    ),
                )
                .note(format!("these are {}", levels.join(", ")))
                .help("assign a level to another layer, or give it fewer parts"),
            );
        }
    }
}

fn combine_region(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    core: &str,
    regions: &[String],
    out: &mut Vec<Diagnostic>,
) {
    let reduced = |l: &Level| d.parts_at(*l) > 1 && h.h.dims[l.dim].combine != Combine::Concat;
    let on_core = |l: &Level| at(&d.up.assignment, *l).is_some_and(|a| model.layer_name(a.layer) == core);
    for l in d.levels().filter(|l| reduced(l) && on_core(l)) {
        for w in &d.writes {
            let Some(r) = at(&w.region, l).filter(|r| **r < model.memories.len()) else { continue };
            if regions.iter().all(|name| model.region(name) != Some(*r)) {
                out.push(
                    Diagnostic::error(
                        codes::COMBINE_REGION,
                        format!(
                            "R3: `{}` at level {l} is in {}, but {} parts of `{}` are combined by {core}",
                            w.buffer,
                            model.memories[*r].region(),
                            d.parts_at(l),
                            h.h.dims[l.dim].name
                        ),
                    )
                    .help(format!("what {core} combines is written to {}", regions.join(" or "))),
                );
            }
        }
    }
}

fn capacity(h: &Shaped, model: &Model, d: &Decisions, facts: &Facts, out: &mut Vec<Diagnostic>) {
    let Some(all) = allocations(h, model, d) else { return };
    for (r, m) in model.memories.iter().enumerate().filter(|(_, m)| !m.implicit) {
        let Some(most) = m.capacity.as_ref().and_then(|c| c.value(facts)) else { continue };
        let here: Vec<_> = all.iter().filter(|a| a.region == r).collect();
        let bytes = here.iter().fold(0u64, |n, a| n.saturating_add(a.bytes));
        if bytes > most {
            let list: Vec<String> = here
                .iter()
                .map(|a| match a.level {
                    Some(l) => format!("`{}` from level {l}: {} bytes", a.buffer, a.bytes),
                    None => format!("`{}` for the scalar function: {} bytes", a.buffer, a.bytes),
                })
                .collect();
            let d = Diagnostic::error(
                codes::CAPACITY,
                format!("D3, S3, S5, R3: the tiles in {} take {bytes} bytes, but it has {most}", m.region()),
            );
            out.push(
                list.into_iter()
                    .fold(d, Diagnostic::note)
                    .help("place a buffer elsewhere, or further inside, where its tiles are smaller"),
            );
        }
    }
}

/// The codes of all rules about decisions.
pub const RULES: [Code; 9] = [
    codes::PARTS,
    codes::ORDER,
    codes::ASSIGNMENT,
    codes::REGION,
    codes::LAYOUT,
    codes::SCAN_ORDER,
    codes::CORES,
    codes::COMBINE_REGION,
    codes::CAPACITY,
];
