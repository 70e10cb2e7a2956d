//! Who runs the loops, and what cores combine.

use super::Options;
use super::copies::Copies;
use super::loops::{Digit, Kind, Loops};
use super::steps::{attempt, call, data, int, name, named, with, word};
use super::unsupported;
use crate::decisions::{Decisions, at};
use crate::homomorphism::Shaped;
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{BinOp, Combine, ExprKind, ReduceOp};
use lathe_strategy::{Argument, Strategy};

/// What the first output is reduced into, after every core level of a reduced dimension got partial results.
pub struct Results {
    pub name: String,
    /// By threads, by lanes.
    pub split: (bool, bool),
}

/// `privatize` and `factor` for core levels that reduce.
///
/// # Errors
/// E1222 for cores inside of lanes, and for scans by lanes.
pub fn partial_results(
    h: &Shaped,
    d: &Decisions,
    loops: &Loops,
    options: &Options,
    out: &mut Vec<Strategy>,
) -> Result<Results, Diagnostic> {
    let mut results = Results { name: h.h.outputs[0].name().to_string(), split: (false, false) };
    let mut lanes: Option<&Digit> = None;
    let mut scanned = false;
    for n in &loops.order {
        let Some(digit) = loops.digits().find(|x| x.name == *n) else { continue };
        let Some(level) = digit.level.filter(|_| !matches!(digit.kind, Kind::Memory | Kind::Register)) else {
            continue;
        };
        if let Some(outer) = lanes.and_then(|l| l.level) {
            return unsupported(
                &format!("level {level} is run by cores inside of the lanes of level {outer}"),
                "rank lanes inside of everything else that cores run, and use one level of them",
            );
        }
        let by_lanes = matches!(digit.kind, Kind::Lanes(_));
        lanes = by_lanes.then_some(digit);
        match &h.h.dims[level.dim].combine {
            Combine::Concat => {}
            Combine::Scan(_) if by_lanes || scanned => {
                return unsupported(
                    &format!("level {level} gives parts of a scan to cores that do not take whole blocks"),
                    "give one level of this dimension to threads, and none to lanes",
                );
            }
            Combine::Scan(_) => {
                let acc = format!("{}.acc", loops.label);
                out.push(call("prescan", vec![name(&acc), name(&loops.at(n))]));
                scanned = true;
                out.extend(totals(h, loops, digit, options));
            }
            Combine::Reduce(_) => {
                // One step does all targets of a reduction.
                let rule = if by_lanes { "factor" } else { "privatize" };
                let made = format!("{}.c{}", loops.label, level.layer + 1);
                let mut args = vec![
                    Argument::positional(name(&results.name)),
                    Argument::positional(name(&loops.at(n))),
                    word("name", &made),
                ];
                // Once for all that the innermost loops reduce; in order where the operator asks for it.
                if by_lanes
                    && !h.h.dims[level.dim].ordered
                    && let Some(at) = loops.innermost_reduction().filter(|at| at != n)
                {
                    args.push(named("at", name(&loops.at(at))));
                }
                out.push(with(rule, args));
                let rank = h.h.outputs[0].rank();
                if by_lanes && rank > 0 {
                    // The partial results of one element are the lanes.
                    let layout = data("permute", (1..=rank).chain([0]));
                    out.push(call("set_layout", vec![name(&made), layout]));
                }
                results.name = made;
                if by_lanes { results.split.1 = true } else { results.split.0 = true }
            }
        }
        let copied = d.writes.iter().any(|w| {
            let plain = |l: &Vec<usize>| l.iter().enumerate().all(|(n, k)| n == *k);
            w.layout.iter().flatten().flatten().any(|l| !plain(l))
        });
        if copied && (results.split.0 || results.split.1) {
            return unsupported("R4 copies an output that cores combine, too", "write it row by row");
        }
    }
    Ok(results)
}

/// The totals of a scan's blocks are sums like others: by lanes, several vectors side by side.
fn totals(h: &Shaped, loops: &Loops, blocks: &Digit, options: &Options) -> Option<Strategy> {
    let inner = loops.digits().find(|d| d.dim == blocks.dim && d.tile < blocks.tile)?;
    let bytes = h.h.outputs[0].buffer.elem.scalar()?.bytes();
    let width = options.machine.lanes(bytes);
    if h.extents.len() > 1 || width < 2 {
        return None;
    }
    let at = |rest: &str| name(&format!("{}.total.{}.total{rest}", loops.label, inner.name));
    Some(attempt(Strategy::Seq(vec![
        call("split", vec![at(""), int(4 * width)]),
        call("factor", vec![name(&format!("{}.carry", loops.label)), at(".i")]),
        call("separate", vec![at(".o")]),
        call("vectorize", vec![at(".i"), int(width)]),
        call("unroll", vec![at(".i.o")]),
    ])))
}

/// `vectorize`, and the vectors that stand side by side written out.
pub fn lanes(loops: &Loops, out: &mut Vec<Strategy>) {
    for digit in loops.digits() {
        let Kind::Lanes(width) = digit.kind else { continue };
        let several = digit.parts > width;
        let steps = |l: &str| {
            let mut all = vec![call("vectorize", vec![name(l), int(width)])];
            if several {
                all.push(attempt(call("unroll", vec![name(&format!("{l}.o"))])));
            }
            all
        };
        out.extend(steps(&loops.at(&digit.name)));
        if loops.own_init(digit) {
            out.push(attempt(Strategy::Seq(steps(&loops.at_init(&digit.name)))));
        }
        if loops.partial[digit.dim] {
            let rest = call("vectorize", vec![name(&loops.at(&format!("{}.rest", digit.name))), int(width)]);
            out.push(attempt(rest));
        }
    }
}

/// A sum of products is added with one rounding.
pub fn rounding(h: &Shaped, loops: &Loops, out: &mut Vec<Strategy>) {
    let product = |e: &lathe_ir::Expr| {
        matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..))
            && e.ty().scalar().is_some_and(lathe_ir::Scalar::is_float)
    };
    if h.h.op == Some(ReduceOp::Sum) && h.h.values.iter().any(product) {
        out.push(call("contract", vec![name(&loops.label)]));
    }
}

/// Results that R3 puts into the first memory go past the caches, where whole vectors of them are stored once.
pub fn streaming(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    loops: &Loops,
    copies: &Copies,
    out: &mut Vec<Strategy>,
) {
    let lanes = loops.digits().any(|d| matches!(d.kind, Kind::Lanes(_)));
    let written = |o: &str| copies.outputs().filter(|c| c.operand_name(h) == o).count();
    for w in d.writes.iter().filter(|_| lanes) {
        let cached = |r: &usize| model.memories.get(*r).is_some_and(|m| m.implicit);
        let far = loops.digits().filter_map(|x| x.level).all(|l| !at(&w.region, l).is_some_and(cached));
        match (far, written(&w.buffer)) {
            (true, 0) if h.h.op.is_none() => {
                // One label for all that a statement writes.
                out.push(call("nontemporal", vec![name(&loops.label)]));
                return;
            }
            (true, 1) if copies.init_inside(loops) => {
                let label = format!("copy({}).out", w.buffer);
                out.push(attempt(call("nontemporal", vec![name(&label)])));
            }
            _ => {}
        }
    }
}

/// `parallel`, last: everything inside is as it will stay.
pub fn threads(h: &Shaped, loops: &Loops, out: &mut Vec<Strategy>) {
    for digit in loops.digits().filter(|d| d.kind == Kind::Threads) {
        out.push(call("parallel", vec![name(&loops.at(&digit.name))]));
        if loops.own_init(digit) {
            out.push(attempt(call("parallel", vec![name(&loops.at_init(&digit.name))])));
        }
        if matches!(h.h.dims[digit.dim].combine, Combine::Scan(_)) {
            let totals = format!("{}.total.{}.total", loops.label, digit.name);
            out.push(call("parallel", vec![name(&totals)]));
        }
    }
}
