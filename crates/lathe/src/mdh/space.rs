//! What decisions leave free: completed by the cost model, or parameters of a search.

use super::call::Call;
use super::calls::{Written, calls, model_of};
use super::complete::complete;
use super::setting::{Setting, labels};
use lathe_diagnostics::Diagnostic;
use lathe_mdh::around::Around;
use lathe_mdh::decisions::{at, by_position, ranks_of};
use lathe_mdh::{Decisions, Homomorphism, Level, Model, Phase, Shaped};
use lathe_space::{SpaceDef, Values};
use lathe_strategy::{Context, Strategy};
use lathe_target::Machine;
use std::collections::BTreeMap;

/// What the cost model chooses.
pub(crate) fn usual(h: &Shaped, model: &Model, machine: &Machine) -> Decisions {
    let setting = lathe_mdh::choose::Setting { machine, threads: machine.threads, exact: true };
    lathe_mdh::choose(h, model, &setting)
}

/// What is fixed, completed by the cost model's decisions; by those that decide nothing, where the former have no code
/// together with what is fixed.
pub(crate) fn choose(
    h: &Shaped,
    model: &Model,
    fixed: &Decisions,
    usual: &Decisions,
    tiles: Option<bool>,
    machine: &Machine,
) -> Decisions {
    let chosen = completed(h, model, fixed, usual, tiles);
    if lower(h, model, &chosen, machine).is_ok() {
        return chosen;
    }
    let plain = completed(h, model, fixed, &Decisions::plain(h, model), tiles);
    if lower(h, model, &plain, machine).is_ok() { plain } else { chosen }
}

/// Complete decisions that keep what is fixed; `from` says the rest. `tiles`: whether they may be partial, if that is
/// said.
fn completed(
    h: &Shaped,
    model: &Model,
    fixed: &Decisions,
    from: &Decisions,
    tiles: Option<bool>,
) -> Decisions {
    let mut d = complete(fixed, &opened(model, fixed, from));
    d.partial_tiles = tiles.unwrap_or(true);
    if d.partial_tiles {
        fewer_parts(h, model, fixed, from, &mut d);
    } else {
        full_tiles(h, fixed, &mut d);
    }
    d
}

fn is_lanes(model: &Model, layer: usize) -> bool {
    model.core(layer).is_some_and(|c| c.executor == "vector")
}

/// With levels that have parts now, and had none, at ranks where loops may stand: lanes last, others first, cores
/// before memories.
fn opened(model: &Model, fixed: &Decisions, from: &Decisions) -> Decisions {
    let mut out = from.clone();
    let new = |l: &Level| fixed.parts[l.layer][l.dim].is_some_and(|p| p > 1) && from.parts_at(*l) < 2;
    let all: Vec<Level> = from.levels().filter(new).collect();
    let Some(order) = by_position(&from.down.order).filter(|_| !all.is_empty() && from.fused()) else {
        return out;
    };
    let by = |l: &Level| at(&from.down.assignment, *l).map_or(l.layer, |a| a.layer);
    let (last, mut first): (Vec<Level>, Vec<Level>) = all.iter().partition(|l| is_lanes(model, by(l)));
    first.sort_by_key(|l| model.core(by(l)).is_none());
    let others = order.into_iter().filter(|l| !all.contains(l));
    let positions: Vec<Level> = first.into_iter().chain(others).chain(last).collect();
    if let Some(ranks) = ranks_of(&positions, from.layers(), from.dims()) {
        for p in Phase::ALL {
            out.steps_mut(p).order = ranks.clone();
        }
    }
    out
}

/// Where a dimension got other parts than the cost model's, the free loop with the most of them takes what is left.
fn fewer_parts(h: &Shaped, model: &Model, fixed: &Decisions, from: &Decisions, d: &mut Decisions) {
    for (dim, extent) in h.extents.iter().enumerate() {
        let level = |layer: usize| Level { layer, dim };
        if (0..d.layers()).all(|l| d.parts_at(level(l)) == from.parts_at(level(l))) {
            continue;
        }
        let memory =
            |l: &usize| at(&d.down.assignment, level(*l)).is_some_and(|a| a.layer < model.memories.len());
        let free = (0..d.layers()).filter(|l| fixed.parts[*l][dim].is_none() && memory(l));
        let Some(rest) = free.max_by_key(|l| from.parts_at(level(*l))) else { continue };
        let others = (0..d.layers()).filter(|l| *l != rest).map(|l| d.parts_at(level(l)));
        let others = others.fold(1u64, u64::saturating_mul).max(1);
        d.parts[rest][dim] = Some(extent.div_ceil(others).max(1));
    }
}

/// Where parts do not multiply to the extent, the first layer that is free takes what the fixed ones leave, and no
/// other one parts anything.
fn full_tiles(h: &Shaped, fixed: &Decisions, d: &mut Decisions) {
    for (dim, extent) in h.extents.iter().enumerate() {
        let product = |d: &Decisions, wanted: &dyn Fn(usize) -> bool| {
            let parts = (0..d.layers()).filter(|l| wanted(*l)).filter_map(|l| d.parts[l][dim]);
            parts.fold(1u64, u64::saturating_mul)
        };
        if product(d, &|_| true) == *extent {
            continue;
        }
        let free: Vec<usize> = (0..d.layers()).filter(|l| fixed.parts[*l][dim].is_none()).collect();
        let left = extent / product(fixed, &|_| true).max(1);
        for (n, l) in free.iter().enumerate() {
            d.parts[*l][dim] = Some(if n == 0 { left.max(1) } else { 1 });
        }
    }
}

/// The steps on loops of complete decisions, for a function whose sizes are constants.
///
/// # Errors
/// `E1222` for decisions that are not lowered.
pub(crate) fn lower(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    machine: &Machine,
) -> Result<Strategy, Diagnostic> {
    let mut options = lathe_mdh::lower::Options::exact();
    options.machine = machine.clone();
    lathe_mdh::lower::strategy(h, model, d, &options)
}

/// The free entries of a strategy's decisions as parameters.
#[derive(Default)]
pub(crate) struct FreeSpace {
    pub def: SpaceDef,
    /// Where a search begins: what the cost model chooses, as far as the space has it.
    pub start: Values,
}

/// The space of all steps `mdh(…)` of a strategy together. Where a kernel has several computes, the parameters of
/// each begin with its label: `C.parts.i.L1`.
///
/// # Errors
/// What is wrong with a step.
pub(crate) fn free_space(set: &Setting, context: &Context, s: &Strategy) -> Result<FreeSpace, Diagnostic> {
    let mut out = FreeSpace::default();
    let all = labels(set.func);
    let mut done: Vec<String> = Vec::new();
    for Written { args, span, .. } in calls(context, s)? {
        let call = Call::read(&args, span)?;
        let wanted = match &call.of {
            Some(one) => vec![Some(one.clone())],
            None if all.len() > 1 => all.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        for label in wanted {
            let h = Homomorphism::of(set.module, set.func, label.as_deref())
                .map_err(|d| super::call::mark(d, span))?;
            if done.contains(&h.name) {
                continue;
            }
            done.push(h.name.clone());
            let model = model_of(&call, set)?;
            let shaped = h.at(&BTreeMap::new()).map_err(|d| super::call::mark(d, span))?;
            let usual = usual(&shaped, &model, set.machine);
            let fixed = call.decisions(&h, &model, Some(&usual))?;
            let prefix = if all.len() > 1 { format!("{}.", h.name) } else { String::new() };
            let chosen = choose(&shaped, &model, &fixed, &usual, call.tiles, set.machine);
            let around = Around { h: &shaped, model: &model, fixed: &fixed, chosen: &chosen };
            out.def.params.extend(around.named(&prefix).params);
            out.start.extend(around.start().into_iter().map(|(n, v)| (format!("{prefix}{n}"), v)));
        }
    }
    Ok(out)
}
