//! The versions that a strategy with decisions makes: one for the sizes that are known, and the loops as written for
//! all others.

use super::expand::{Chosen, Expander, Setting, calls, labels};
use super::STEP;
use crate::schedule::{Version, on_loops, specialize};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};
use lathe_space::{BinOp, Expr, Value, Values, eval};
use lathe_strategy::{Argument, Context, Strategy};
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;

/// What versions are made for.
pub(crate) struct Wanted<'a> {
    pub module: &'a Module,
    pub func: &'a Function,
    pub machine: &'a Machine,
    pub model: Option<&'a str>,
    pub folder: &'a Path,
    /// Sizes that are known, but not constants of the function.
    pub sizes: &'a BTreeMap<String, i64>,
    pub params: &'a Values,
    /// What cannot be done is left as it is written, with a note that says why.
    pub lenient: bool,
}

/// The versions of one branch of a strategy.
///
/// # Errors
/// What is wrong with a step `mdh(…)`, which rule its decisions break, and what a step on loops refuses; none of that
/// if the strategy is lenient.
pub(crate) fn versions(
    w: &Wanted,
    context: &Context,
    branch: &lathe_strategy::Version,
) -> Result<Vec<Version>, Diagnostic> {
    let as_written = |cond: Option<Expr>, notes: Vec<String>| {
        let (func, steps, forms) =
            on_loops(w.module, w.func, context, &Strategy::Id).map_err(|r| *r.diagnostic)?;
        Ok(Version { notes, ..Version::new(cond, func, steps, forms) })
    };
    let open: Vec<&str> = w.func.sizes.iter().map(|b| &*b.name).collect();
    let known: BTreeMap<String, i64> = open
        .iter()
        .filter_map(|n| w.sizes.get(*n).map(|v| (n.to_string(), *v)))
        .collect();
    let value = |n: &str| known.get(n).map(|v| Value::Int(*v));
    let holds = |c: &Expr| eval(c, &value) == Ok(Value::Bool(true));
    if known.len() < open.len() || !branch.cond.as_ref().is_none_or(holds) {
        let set = setting(w, w.func);
        let expander = Expander::new(&set, context);
        for (args, span) in calls(context, &branch.strategy)? {
            match expander.check_form(&args, span) {
                Err(d) if w.lenient => return Ok(vec![as_written(branch.cond.clone(), vec![why(&d)])?]),
                other => other?,
            }
        }
        let missing: Vec<&str> = open.iter().filter(|n| !known.contains_key(**n)).copied().collect();
        let note = match missing.as_slice() {
            [] => "decisions are for other sizes: the loops are as written".to_string(),
            _ => format!("decisions need sizes ({} not given): the loops are as written", missing.join(", ")),
        };
        return Ok(vec![as_written(branch.cond.clone(), vec![note])?]);
    }
    let func = if open.is_empty() { w.func.clone() } else { specialize(w.func, &known)? };
    let set = setting(w, &func);
    let made = if w.lenient { best(&set, context) } else { exactly(&set, context, &branch.strategy) };
    let mut first = made?;
    if open.is_empty() {
        first.condition = branch.cond.clone();
        return Ok(vec![first]);
    }
    first.condition = Some(exactly_these(&known));
    first.baked = known;
    Ok(vec![first, as_written(branch.cond.clone(), Vec::new())?])
}

fn setting<'a>(w: &'a Wanted, func: &'a Function) -> Setting<'a> {
    Setting { module: w.module, func, machine: w.machine, model: w.model, folder: w.folder, params: w.params }
}

/// `I == 10 and J == 500`
fn exactly_these(sizes: &BTreeMap<String, i64>) -> Expr {
    let one = |(n, v): (&String, &i64)| {
        Expr::Binary(BinOp::Eq, Box::new(Expr::Name(n.clone())), Box::new(Expr::Value(Value::Int(*v))))
    };
    let and = |a, b| Expr::Binary(BinOp::And, Box::new(a), Box::new(b));
    sizes.iter().map(one).reduce(and).unwrap_or(Expr::Value(Value::Bool(true)))
}

/// Every step as it is said.
fn exactly(set: &Setting, context: &Context, strategy: &Strategy) -> Result<Version, Diagnostic> {
    let mut expander = Expander::new(set, context);
    let strategy = expander.strategy(strategy)?;
    let (func, steps, forms) =
        on_loops(set.module, set.func, context, &strategy).map_err(|r| *r.diagnostic)?;
    Ok(Version { chosen: expander.chosen, ..Version::new(None, func, steps, forms) })
}

/// Decisions for every compute that takes some; the others stay as written, with a note that says why.
fn best(set: &Setting, context: &Context) -> Result<Version, Diagnostic> {
    let all = labels(set.func);
    let mut notes = Vec::new();
    let mut takers: Vec<(Strategy, Chosen)> = Vec::new();
    for label in &all {
        let mut expander = Expander::new(set, context);
        let label = Expr::Name(label.clone());
        let of = Argument {
            name: Some("of".to_string()),
            value: lathe_strategy::ArgValue::Expr(label),
            span: None,
        };
        let step = Strategy::Call { name: STEP.to_string(), args: vec![of], span: None };
        match expander.strategy(&step) {
            Ok(s) => takers.extend(expander.chosen.pop().map(|c| (s, c))),
            Err(d) => notes.push(why(&d)),
        }
    }
    if all.is_empty() {
        notes.push("there is nothing in index notation: the loops are as written".to_string());
    }
    let run = |takers: &[(Strategy, Chosen)]| {
        let steps = takers.iter().map(|t| t.0.clone()).collect();
        on_loops(set.module, set.func, context, &Strategy::Seq(steps))
    };
    let (func, steps, forms) = match run(&takers) {
        Ok(done) => done,
        Err(_) => {
            // One after the other, so that one refusal costs only the compute that it is about.
            let mut kept: Vec<(Strategy, Chosen)> = Vec::new();
            for t in takers.drain(..) {
                kept.push(t);
                if let Err(r) = run(&kept)
                    && let Some((_, refused)) = kept.pop()
                {
                    let d = &r.diagnostic;
                    notes.push(format!(
                        "`{}` stays as written: {} refuses: {}: {}",
                        refused.compute, r.rule, d.code, d.message
                    ));
                }
            }
            takers = kept;
            run(&takers).map_err(|r| *r.diagnostic)?
        }
    };
    let chosen = takers.into_iter().map(|t| t.1).collect();
    Ok(Version { chosen, notes, ..Version::new(None, func, steps, forms) })
}

fn why(d: &Diagnostic) -> String {
    format!("the loops are as written: {}: {}", d.code, d.message)
}
