//! What decisions leave free: completed by the cost model, or parameters of a search.

use super::call::Call;
use super::complete::complete;
use super::expand::{Setting, calls, labels, model_of};
use lathe_diagnostics::Diagnostic;
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped};
use lathe_space::{Constraint, Expr, SpaceDef, TuningParameter, ValueRange, Values};
use lathe_strategy::{Context, Strategy};
use lathe_target::Machine;
use std::collections::BTreeMap;

/// Complete decisions that keep what is fixed.
///
/// # Errors
/// Where nothing valid keeps it.
pub(crate) fn choose(
    h: &Shaped,
    model: &Model,
    _machine: &Machine,
    fixed: &Decisions,
) -> Result<Decisions, Diagnostic> {
    Ok(complete(fixed, &Decisions::plain(h, model)))
}

/// The steps on loops of complete decisions, for a function whose sizes are constants.
///
/// # Errors
/// `E1222` for decisions that are not lowered.
pub(crate) fn lower(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    _machine: &Machine,
) -> Result<Strategy, Diagnostic> {
    lathe_mdh::lower::strategy(h, model, d)
}

/// The free entries of a strategy's decisions as parameters.
#[derive(Default)]
pub(crate) struct FreeSpace {
    pub def: SpaceDef,
    /// Where a search begins: what the cost model chooses, as far as the space has it.
    pub start: Values,
}

/// The space of all steps `mdh(…)` of a strategy together. Where a kernel has several computes, the parameters of
/// each begin with its label: `C.parts_i_1`.
///
/// # Errors
/// What is wrong with a step; `E1222` where entries are free in a way that the space has no parameter for.
pub(crate) fn free_space(set: &Setting, context: &Context, s: &Strategy) -> Result<FreeSpace, Diagnostic> {
    let mut out = FreeSpace::default();
    let all = labels(set.func);
    let mut done: Vec<String> = Vec::new();
    for (args, span) in calls(context, s)? {
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
            let fixed = call.decisions(&h, &model)?;
            let shaped = h.at(&BTreeMap::new()).map_err(|d| super::call::mark(d, span))?;
            let prefix = if all.len() > 1 { format!("{}.", h.name) } else { String::new() };
            let def = lathe_mdh::space::space(&shaped, &model, &fixed)
                .map_err(|d| super::call::mark(d, span))?;
            for p in def.params {
                out.def.params.push(renamed(p, &prefix));
            }
        }
    }
    Ok(out)
}

/// The parameter with a prefix before its name and before those of the parameters that it mentions.
fn renamed(p: TuningParameter, prefix: &str) -> TuningParameter {
    if prefix.is_empty() {
        return p;
    }
    let expr = |e: &Expr| {
        let with = |n: &str| Some(Expr::Name(format!("{prefix}{n}")));
        lathe_space::reduce(e, &with).unwrap_or_else(|_| e.clone())
    };
    fn constraint(c: Constraint, prefix: &str, expr: &dyn Fn(&Expr) -> Expr) -> Constraint {
        let all = |v: Vec<Constraint>| v.into_iter().map(|c| constraint(c, prefix, expr)).collect();
        match c {
            Constraint::Expr(e) => Constraint::Expr(expr(&e)),
            Constraint::Alias(a, e) => Constraint::Alias(a, expr(&e)),
            Constraint::Closure { reads, f } => {
                Constraint::Closure { reads: reads.iter().map(|r| format!("{prefix}{r}")).collect(), f }
            }
            Constraint::And(v) => Constraint::And(all(v)),
            Constraint::Or(v) => Constraint::Or(all(v)),
        }
    }
    TuningParameter {
        name: format!("{prefix}{}", p.name),
        values: match p.values {
            ValueRange::Interval { lo, hi, step, generator } => {
                ValueRange::Interval { lo: expr(&lo), hi: expr(&hi), step: step.as_ref().map(expr), generator }
            }
            set @ ValueRange::Set(_) => set,
        },
        constraint: p.constraint.map(|c| constraint(c, prefix, &expr)),
        ..p
    }
}
