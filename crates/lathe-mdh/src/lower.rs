//! From decisions to a strategy: steps of `lathe-transform` that make the loops, copies and executors that the
//! decisions ask for. Their legality is checked again by the steps themselves, by dependences.
//!
//! `split` per layer with several parts, `reorder` by rank, `stage` and `accumulate` for copies, `privatize` and
//! `factor` for what cores combine, `parallel` and `vectorize` for cores. Loops are called `i.p1`, `i.p2`, …
//! after dimension and layer; a dimension with one such layer keeps its name. This version lowers one nest
//! (D1 = S1 = R1, D2 = S2 = R2) for CPUs.

use crate::codes;
use crate::decisions::{Decisions, Level, at, by_position};
use crate::footprint::{Allocation, allocations};
use crate::homomorphism::{Homomorphism, Shaped};
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Combine;
use lathe_space::{Expr, Value};
use lathe_strategy::{ArgValue, Argument, Strategy};

/// The strategy of complete, valid decisions (see [`crate::require`]); `open` need not be in it. It is for the
/// function with the sizes of `h` as constants: only then bounds of tiles are constant, too.
///
/// # Errors
/// E1222 for decisions that this version does not lower: three nests, devices, scans over cores; E1220 for
/// free ones.
pub fn strategy(h: &Shaped, model: &Model, d: &Decisions) -> Result<Strategy, Diagnostic> {
    if !d.fused() {
        return unsupported(
            "D1, S1 and R1, or D2, S2 and R2, differ: three separate nests",
            "give the phases one order and one assignment",
        );
    }
    let free = || Diagnostic::error(codes::FREE, "lowering needs every decision");
    let order = by_position(&d.down.order).ok_or_else(free)?;
    let loops = Loops::of(h, d);
    loops.check_order(h, &order)?;
    let mut steps = loops.splits();
    let names = loops.in_order(h, &order);
    if names.len() > 1 {
        steps.push(call("reorder", names.iter().map(|n| name(n)).collect()));
    }
    let all = allocations(h, model, d).ok_or_else(free)?;
    let cores = core_steps(h, model, d, &loops, &order)?;
    let combined = cores.iter().any(|s| s.calls("privatize") || s.calls("factor"));
    for o in h.h.operands() {
        let output = h.h.outputs.iter().any(|x| x.buffer.id == o.buffer.id);
        let copies = copies(h, model, &loops, &order, &names, o.name(), &all)?;
        if output && combined && !copies.is_empty() {
            return unsupported(
                "R3 or R4 copies an output that cores combine, too",
                "write it to the first memory, row by row",
            );
        }
        steps.extend(copies);
    }
    steps.extend(cores);
    Ok(if steps.is_empty() { Strategy::Id } else { Strategy::Seq(steps) })
}

fn unsupported<T>(what: &str, help: &str) -> Result<T, Diagnostic> {
    Err(Diagnostic::error(codes::UNSUPPORTED, format!("this version does not lower it: {what}")).help(help))
}

/// The level (none: rounds of partial tiles), the indices per part, and the name of the loop.
type Part = (Option<Level>, u64, String);

/// The loops that partitionings become.
struct Loops {
    /// Per dimension, coarse to fine; and the name of the loop that is split.
    dims: Vec<(String, Vec<Part>)>,
    /// What the parts multiply to, per dimension.
    whole: Vec<u64>,
}

impl Loops {
    fn of(h: &Shaped, d: &Decisions) -> Loops {
        let one = |(dim, extent): (usize, &u64)| {
            let base = h.h.dims[dim].name.clone();
            let tile = |from: usize| {
                (from..d.layers()).map(|layer| d.parts_at(Level { layer, dim })).fold(1, u64::saturating_mul)
            };
            let mut digits = Vec::new();
            if tile(0) < *extent {
                digits.push((None, tile(0), format!("{base}.r")));
            }
            for layer in (0..d.layers()).filter(|layer| d.parts_at(Level { layer: *layer, dim }) > 1) {
                digits.push((Some(Level { layer, dim }), tile(layer + 1), format!("{base}.p{}", layer + 1)));
            }
            if let [only] = digits.as_mut_slice() {
                only.2 = base.clone();
            }
            (base, digits)
        };
        let whole = |dim: usize| {
            (0..d.layers()).map(|layer| d.parts_at(Level { layer, dim })).fold(1, u64::saturating_mul)
        };
        Loops {
            dims: h.extents.iter().enumerate().map(one).collect(),
            whole: (0..h.extents.len()).map(whole).collect(),
        }
    }

    /// Where tiles do not divide, the bounds of finer loops depend on coarser ones, which must stay outside.
    fn check_order(&self, h: &Shaped, order: &[Level]) -> Result<(), Diagnostic> {
        let rank = |l: &Option<Level>| l.and_then(|l| order.iter().position(|o| *o == l));
        for (dim, (base, digits)) in self.dims.iter().enumerate() {
            for w in digits.windows(2).filter(|_| self.whole[dim] != h.extents[dim]) {
                if let (Some(coarse), Some(fine)) = (w[0].0, w[1].0)
                    && rank(&w[1].0) < rank(&w[0].0)
                {
                    return unsupported(
                        &format!(
                            "R1 ranks level {fine} of `{base}` outside of {coarse}, and its tiles are partial"
                        ),
                        "rank the layers of this dimension from coarse to fine, or choose parts that divide",
                    );
                }
            }
        }
        Ok(())
    }

    fn splits(&self) -> Vec<Strategy> {
        let mut out = Vec::new();
        for (base, digits) in &self.dims {
            let mut rest = base.clone();
            for (n, (_, tile, outer)) in digits.iter().enumerate().take(digits.len().saturating_sub(1)) {
                let last = n + 2 == digits.len();
                let inner = if last { digits[n + 1].2.clone() } else { format!("{base}.q{}", n + 1) };
                out.push(call("split", vec![name(&rest), int(*tile), name(outer), name(&inner)]));
                rest = inner;
            }
        }
        out
    }

    fn name(&self, level: Level) -> Option<&str> {
        let found = self.dims[level.dim].1.iter().find(|d| d.0 == Some(level));
        found.map(|d| d.2.as_str())
    }

    /// Loops with one iteration and rounds outermost, then the levels in their order.
    fn in_order(&self, h: &Shaped, order: &[Level]) -> Vec<String> {
        let single = self.dims.iter().filter(|d| d.1.is_empty()).map(|d| d.0.clone());
        let rounds = self.dims.iter().flat_map(|d| &d.1).filter(|d| d.0.is_none()).map(|d| d.2.clone());
        let levels = order.iter().filter_map(|l| self.name(*l)).map(str::to_string);
        let all: Vec<String> = single.chain(rounds).chain(levels).collect();
        debug_assert!(all.len() >= h.extents.len());
        all
    }
}

/// The loop as a name that also holds where an initialization has a nest of its own.
fn qualified(h: &Homomorphism, l: &str) -> Expr {
    Expr::Name(format!("{}.{l}", h.name))
}

/// The copies of one buffer, outermost first. Placing it in a cache copies nothing; another layout, or a region
/// that is written by hand, does.
fn copies(
    h: &Shaped,
    model: &Model,
    loops: &Loops,
    order: &[Level],
    names: &[String],
    buffer: &str,
    all: &[Allocation],
) -> Result<Vec<Strategy>, Diagnostic> {
    let mut out = Vec::new();
    let mut here = buffer.to_string();
    let rank = h.h.operands().find(|o| o.name() == buffer).map_or(0, |o| o.rank());
    let plain: Vec<usize> = (0..rank).collect();
    let (mut layout, mut region) = (plain.clone(), 0);
    let around = |a: &Allocation| order[..a.rank].iter().rev().find_map(|l| loops.name(*l));
    let own: Vec<&Allocation> = all.iter().filter(|a| a.buffer == buffer).collect();
    for (n, a) in own.iter().enumerate() {
        // Of several copies in one loop only the last one is used.
        let overtaken = own.get(n + 1).is_some_and(|next| around(next) == around(a));
        let explicit = !model.memories[a.region].implicit && a.region != region;
        if overtaken || (!explicit && a.layout == layout) {
            continue;
        }
        region = a.region;
        layout = a.layout.clone();
        let space = match model.memories[a.region].space.as_deref() {
            Some(s @ ("stack" | "register" | "host")) => s,
            None => "host",
            Some(other) => {
                return unsupported(
                    &format!("`{buffer}` is placed in `{other}`, which only devices have"),
                    "choose a region of a CPU",
                );
            }
        };
        let made = format!("{buffer}.m{}", n + 1);
        let permute = (layout != plain).then(|| {
            Expr::Call("permute".to_string(), layout.iter().map(|k| Expr::from(*k as i64)).collect())
        });
        let mut args = vec![Expr::Name(here.clone()).into_arg(None)];
        match around(a) {
            Some(l) => {
                args.push(qualified(h.h, l).into_arg(Some("at")));
                args.push(word("space", space));
                args.push(word("name", &made));
                args.extend(permute.map(|p| p.into_arg(Some("layout"))));
                out.push(Strategy::Call { name: "stage".to_string(), args, span: None });
            }
            // No loop is outside: around the whole nest.
            None => {
                let Some(outermost) = names.first() else {
                    return unsupported("a copy of a single element", "leave it where it is");
                };
                args.push(qualified(h.h, outermost).into_arg(Some("at")));
                args.push(word("space", space));
                args.push(word("name", &made));
                out.push(Strategy::Call { name: "accumulate".to_string(), args, span: None });
                if let Some(p) = permute {
                    let args = vec![Expr::Name(made.clone()).into_arg(None), p.into_arg(None)];
                    out.push(Strategy::Call { name: "set_layout".to_string(), args, span: None });
                }
            }
        }
        here = made;
    }
    Ok(out)
}

/// Who runs which loop; partial results first where cores reduce.
fn core_steps(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    loops: &Loops,
    order: &[Level],
) -> Result<Vec<Strategy>, Diagnostic> {
    let mut out = Vec::new();
    let mut lanes: Option<Level> = None;
    // Where each output is reduced into: partial results take its place in turn.
    let mut results: Vec<String> = h.h.outputs.iter().map(|o| o.name().to_string()).collect();
    for l in order {
        let (Some(loop_name), Some(assigned)) = (loops.name(*l), at(&d.down.assignment, *l)) else {
            continue;
        };
        let Some(core) = model.core(assigned.layer) else { continue };
        let vector = match core.executor.as_str() {
            "cpu" => false,
            "vector" => true,
            other => {
                return unsupported(
                    &format!("level {l} is run by `{}` (`{other}`), which is no part of a CPU", core.layer),
                    "choose a model of a CPU",
                );
            }
        };
        if let Some(outer) = lanes {
            return unsupported(
                &format!("level {l} is run by `{}` inside of the lanes of level {outer}", core.layer),
                "rank lanes inside of everything else that cores run, and use one level of them",
            );
        }
        lanes = vector.then_some(*l);
        match &h.h.dims[l.dim].combine {
            Combine::Concat => {}
            Combine::Scan(_) => {
                return unsupported(
                    &format!("level {l} gives the parts of a scan to `{}`", core.layer),
                    "assign the parts of this dimension to memory layers",
                );
            }
            Combine::Reduce(_) => {
                // One step does all targets of a reduction.
                if let Some(r) = results.first_mut() {
                    let rule = if vector { "factor" } else { "privatize" };
                    let made = format!("{}.c{}", h.h.outputs[0].name(), l.layer + 1);
                    let mut args = vec![name(r).into_arg(None), qualified(h.h, loop_name).into_arg(None)];
                    args.push(word("name", &made));
                    out.push(Strategy::Call { name: rule.to_string(), args, span: None });
                    *r = made;
                }
            }
        }
        // Where the initialization has a nest of its own, its loops are run by the same cores.
        out.push(if vector {
            let width = d.parts_at(*l).next_power_of_two();
            call("vectorize", vec![name(loop_name), int(width)])
        } else {
            call("parallel", vec![name(loop_name)])
        });
    }
    Ok(out)
}

fn call(rule: &str, args: Vec<Expr>) -> Strategy {
    let args = args.into_iter().map(Argument::positional).collect();
    Strategy::Call { name: rule.to_string(), args, span: None }
}

fn name(n: &str) -> Expr {
    Expr::Name(n.to_string())
}

fn int(v: u64) -> Expr {
    Expr::Value(Value::Int(i64::try_from(v).unwrap_or(i64::MAX)))
}

fn word(key: &str, w: &str) -> Argument {
    name(w).into_arg(Some(key))
}

trait IntoArg {
    fn into_arg(self, name: Option<&str>) -> Argument;
}

impl IntoArg for Expr {
    fn into_arg(self, name: Option<&str>) -> Argument {
        Argument { name: name.map(str::to_string), value: ArgValue::Expr(self), span: None }
    }
}
