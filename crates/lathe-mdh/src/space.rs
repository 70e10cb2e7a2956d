//! What decisions leave free, as parameters of a search space.
//!
//! The whole space is beyond search (`((L·D)!)⁶` orders and assignments alone), so that this is cut as the thesis
//! cuts it for its measurements (Section 2.4): (i) one nest; (ii) cores take the outer parts of everything or the
//! inner ones; (iii) of the orders, layers stay in order, and all layers take the dimensions in one order. What
//! the cuts leave out can still be fixed by hand, or searched in [`crate::uncut`]. Parameters:
//!
//! * `parts_i_1`, `parts_i_2`, …: the parts of dimension `i` at each layer that is free; the last of them follows;
//! * `dims`: the number of the order of dimensions, in lexicographic order;
//! * `cores`: `outer` or `inner`;
//! * `place_A`: the layer at which buffer `A` moves into the region of its layer, for memories that are written by
//!   hand; 0: nowhere;
//! * `pack_A`: the layer from which a copy of input `A` has its dimensions reversed; 0: none.

use crate::codes;
use crate::decisions::{AsmLevel, Decisions, Level, Phase, Table, at, ranks_of};
use crate::homomorphism::Shaped;
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_space::{BinOp, Constraint, Expr, SpaceDef, TuningParameter, Value, Values};

/// Dimensions beyond which not all orders are parameters.
const MOST_ORDERS: usize = 6;

/// The space of the free entries.
///
/// # Errors
/// E1222 where an order, an assignment or a placement is free in part: the cuts have no parameter for that.
pub fn space(h: &Shaped, model: &Model, d: &Decisions) -> Result<SpaceDef, Diagnostic> {
    let mut def = parts(h, d);
    let (orders, assignments) =
        (Phase::ALL.map(|p| &d.steps(p).order), Phase::ALL.map(|p| &d.steps(p).assignment));
    if is_free("the order (D1, S1, R1)", &orders)? && h.extents.len() > 1 {
        def = def.param(TuningParameter::int("dims", 0, orders_of(h.extents.len()) as i64 - 1));
    }
    if is_free("the assignment (D2, S2, R2)", &assignments)? {
        def = def.param(TuningParameter::strings("cores", ["outer", "inner"]));
    }
    for (o, p) in h.h.operands().zip(d.reads.iter().chain(&d.writes)) {
        let explicit = model.memories.iter().skip(1).any(|m| !m.implicit);
        if is_free(&format!("the regions of `{}`", p.buffer), &[&p.region])? && explicit {
            def = def.param(TuningParameter::int(format!("place_{}", p.buffer), 0, d.layers() as i64 - 1));
        }
        let input = d.reads.iter().any(|r| r.buffer == p.buffer);
        if is_free(&format!("the layouts of `{}`", p.buffer), &[&p.layout])? && input && o.rank() > 1 {
            def = def.param(TuningParameter::int(format!("pack_{}", p.buffer), 0, d.layers() as i64 - 1));
        }
    }
    Ok(def)
}

/// Parameters for the parts that are free.
pub(crate) fn parts(h: &Shaped, d: &Decisions) -> SpaceDef {
    let mut def = SpaceDef::new();
    for (dim, dimension) in h.h.dims.iter().enumerate() {
        let rest = rest(h, d, dim);
        let mut before: Option<Expr> = None;
        let free: Vec<usize> = (0..d.layers()).filter(|l| d.parts[*l][dim].is_none()).collect();
        for layer in free.iter().take(free.len().saturating_sub(1)) {
            let name = parts_name(&dimension.name, *layer);
            let left = match &before {
                None => Expr::from(rest as i64),
                Some(p) => binary(BinOp::FloorDiv, Expr::from(rest as i64), p.clone()),
            };
            let p = if d.partial_tiles {
                TuningParameter::int(&*name, 1, rest as i64).such_that(Constraint::at_most(left))
            } else {
                TuningParameter::ints(&*name, divisors(rest)).such_that(Constraint::divides(left))
            };
            def = def.param(p);
            let own = Expr::Name(name);
            before = Some(match before {
                None => own,
                Some(p) => binary(BinOp::Mul, p, own),
            });
        }
    }
    def
}

/// The decisions of a configuration: what is fixed stays. They may still break a rule of the model that involves
/// several parameters; [`crate::check`](fn@crate::check) tells.
///
/// # Errors
/// E1204 for a missing or unusable value.
pub fn bind(h: &Shaped, model: &Model, d: &Decisions, values: &Values) -> Result<Decisions, Diagnostic> {
    let mut out = d.clone();
    let known = Bound { values };
    let number = |name: &str| known.number(name);
    bind_parts(h, d, &known, &mut out)?;
    let (layers, dims) = (d.layers(), h.extents.len());
    if d.up.order.iter().flatten().all(Option::is_none) {
        let n = if dims > 1 { number("dims")? as usize } else { 0 };
        let Some(sequence) = nth_order(dims, n) else {
            return Err(Diagnostic::error(
                codes::DECISIONS_SHAPE,
                format!("there is no order {n} of {dims} dimensions"),
            ));
        };
        let positions: Vec<Level> = (0..layers)
            .flat_map(|layer| sequence.iter().map(move |dim| Level { layer, dim: *dim }))
            .collect();
        let order = ranks_of(&positions, layers, dims);
        for p in Phase::ALL {
            out.steps_mut(p).order = order.clone().unwrap_or_default();
        }
    }
    if d.up.assignment.iter().flatten().all(Option::is_none) {
        let outer = values.get("cores") == Some(&Value::Str("outer".to_string()));
        let table = assignment(model, dims, outer);
        for p in Phase::ALL {
            out.steps_mut(p).assignment = table.clone();
        }
    }
    let plain = Decisions::plain(h, model);
    let placements = out.reads.iter_mut().chain(&mut out.writes).zip(plain.reads.iter().chain(&plain.writes));
    let assigned = out.up.assignment.clone();
    for (p, from) in placements {
        let of = |name: &str| number(&format!("{name}_{}", p.buffer)).unwrap_or(0) as usize;
        let (place, pack) = (of("place"), of("pack"));
        for l in d.levels() {
            let region = &mut p.region[l.layer][l.dim];
            if region.is_none() {
                let own = at(&assigned, l).map_or(0, |a| a.layer);
                let placed = place > 0 && l.layer >= place && own < model.memories.len();
                *region = Some(if placed { own } else { 0 });
            }
            let layout = &mut p.layout[l.layer][l.dim];
            if layout.is_none() {
                let whole = from.layout[l.layer][l.dim].clone();
                let packed = pack > 0 && l.layer >= pack;
                *layout = if packed { whole.map(|w| w.into_iter().rev().collect()) } else { whole };
            }
        }
    }
    // The scalar function uses what the innermost level has.
    let innermost =
        |t: &Table<usize>| t.iter().flatten().enumerate().max_by_key(|x| x.1.unwrap_or(0)).map(|x| x.0);
    let last = innermost(&out.up.order).map(|n| Level { layer: n / dims, dim: n % dims });
    let spots = out.operands.iter_mut().chain(&mut out.results).zip(out.reads.iter().chain(&out.writes));
    for (s, p) in spots {
        if let Some(l) = last {
            s.region = s.region.or(at(&p.region, l).copied());
            s.layout = s.layout.clone().or_else(|| at(&p.layout, l).cloned());
        }
    }
    out.complete_from(&plain);
    Ok(out)
}

/// A configuration.
pub(crate) struct Bound<'a> {
    pub values: &'a Values,
}

/// The parts of a configuration: the last free layer of a dimension takes what the others leave.
pub(crate) fn bind_parts(
    h: &Shaped,
    d: &Decisions,
    known: &Bound,
    out: &mut Decisions,
) -> Result<(), Diagnostic> {
    for (dim, dimension) in h.h.dims.iter().enumerate() {
        let mut left = rest(h, d, dim);
        let free: Vec<usize> = (0..d.layers()).filter(|l| d.parts[*l][dim].is_none()).collect();
        let Some((last, others)) = free.split_last() else { continue };
        for layer in others {
            let parts = known.number(&parts_name(&dimension.name, *layer))?.max(1);
            out.parts[*layer][dim] = Some(parts);
            left = left.div_ceil(parts);
        }
        out.parts[*last][dim] = Some(left.max(1));
    }
    Ok(())
}

fn parts_name(dim: &str, layer: usize) -> String {
    format!("parts_{dim}_{}", layer + 1)
}

fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

/// What the fixed parts of a dimension leave of its extent.
fn rest(h: &Shaped, d: &Decisions, dim: usize) -> u64 {
    let fixed = (0..d.layers()).filter_map(|l| d.parts[l][dim]).fold(1u64, |n, p| n.saturating_mul(p.max(1)));
    h.extents[dim].max(1).div_ceil(fixed)
}

fn divisors(n: u64) -> Vec<i64> {
    let small = (1..=n).take_while(|d| d * d <= n).filter(|d| n.is_multiple_of(*d));
    let mut all: Vec<i64> = small.flat_map(|d| [d as i64, (n / d) as i64]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// All entries are free; or none is.
pub(crate) fn is_free<T>(what: &str, tables: &[&Table<T>]) -> Result<bool, Diagnostic> {
    let entries = || tables.iter().flat_map(|t| t.iter().flatten());
    match (entries().all(Option::is_none), entries().any(Option::is_none)) {
        (false, true) => Err(Diagnostic::error(codes::UNSUPPORTED, format!("{what} is only partly fixed"))
            .help("fix it completely in all phases, or leave it completely to the tuner")),
        (all, _) => Ok(all),
    }
}

/// Orders of the dimensions: all permutations, or, of many dimensions, rotations.
fn orders_of(dims: usize) -> usize {
    if dims > MOST_ORDERS { dims } else { (1..=dims).product() }
}

fn nth_order(dims: usize, n: usize) -> Option<Vec<usize>> {
    if n >= orders_of(dims) {
        return None;
    }
    let mut left: Vec<usize> = (0..dims).collect();
    if dims > MOST_ORDERS {
        left.rotate_left(n);
        return Some(left);
    }
    let mut n = n;
    let pick = |k: usize| {
        let block: usize = (1..k).product();
        let at = n / block.max(1);
        n %= block.max(1);
        left.remove(at)
    };
    Some((1..=dims).rev().map(pick).collect())
}

/// Cores outside of all memories, or inside; lanes of vectors are inside in both.
fn assignment(model: &Model, dims: usize, outer: bool) -> Table<AsmLevel> {
    let cores = || model.memories.len()..model.layers();
    let lanes = |l: &usize| model.core(*l).is_some_and(|c| c.executor == "vector");
    let threads = cores().filter(|l| !lanes(l));
    let memories = 0..model.memories.len();
    let sequence: Vec<usize> = if outer {
        threads.chain(memories).chain(cores().filter(lanes)).collect()
    } else {
        memories.chain(threads).chain(cores().filter(lanes)).collect()
    };
    sequence.into_iter().map(|layer| (0..dims).map(|dim| Some(AsmLevel { layer, dim })).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_counted_lexicographically() {
        let all: Vec<Vec<usize>> = (0..6).filter_map(|n| nth_order(3, n)).collect();
        assert_eq!(all, [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        assert_eq!(nth_order(3, 6), None);
        assert_eq!(nth_order(8, 1), Some(vec![1, 2, 3, 4, 5, 6, 7, 0]));
        assert_eq!(nth_order(1, 0), Some(vec![0]));
    }

    #[test]
    fn divisors_are_complete() {
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(7), [1, 7]);
    }
}
