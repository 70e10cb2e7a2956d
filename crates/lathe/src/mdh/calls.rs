//! The steps `mdh(…)` of strategies, and the models that they name.

use super::call::{Call, mark};
use super::setting::Setting;
use super::{DEFAULT_MODEL, STEP};
use crate::choice::is_auto;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_mdh::Model;
use lathe_space::{Expr, Value};
use lathe_strategy::{ArgValue, Argument, Context, Definitions, Strategy};
use std::collections::BTreeSet;
use std::path::Path;

/// Whether a strategy, or a definition that it calls, has a step `mdh(…)`.
pub(crate) fn uses(definitions: &Definitions, target: Option<&str>, s: &Strategy) -> bool {
    fn inside(d: &Definitions, target: Option<&str>, s: &Strategy, seen: &mut BTreeSet<String>) -> bool {
        match s {
            Strategy::Id | Strategy::Fail(_) => false,
            Strategy::Seq(all) | Strategy::Choice(all) => all.iter().any(|s| inside(d, target, s, seen)),
            Strategy::At(s, _) => inside(d, target, s, seen),
            Strategy::If { then, other, .. } => {
                inside(d, target, then, seen) || inside(d, target, other, seen)
            }
            Strategy::Call { name, args, .. } => {
                let own = d.find(name, target);
                if name == STEP && own.is_none() {
                    return true;
                }
                let argument = |a: &Argument, seen: &mut BTreeSet<String>| {
                    steps_of(a).is_some_and(|s| inside(d, target, &s, seen))
                };
                args.iter().any(|a| argument(a, seen))
                    || own.is_some_and(|o| seen.insert(name.clone()) && inside(d, target, &o.body, seen))
            }
        }
    }
    inside(definitions, target, s, &mut BTreeSet::new())
}

/// The strategy that an argument is.
pub(super) fn steps_of(a: &Argument) -> Option<Strategy> {
    match &a.value {
        ArgValue::Strategy(s) => Some((**s).clone()),
        value => value.as_strategy(a.span),
    }
}

/// The model that a step, the command line, or nobody names.
pub(crate) fn model_of(call: &Call, set: &Setting) -> Result<Model, Diagnostic> {
    match (&call.model, set.model) {
        (Some(name), _) => super::load_model(name, set.folder).map_err(|d| mark(d, call.span)),
        (None, Some(name)) => super::load_model(name, Path::new("")),
        (None, None) => Model::named(DEFAULT_MODEL),
    }
}

/// The models that the steps `mdh(…)` of a strategy name, of those in definitions that it calls none.
pub(crate) fn named_models(s: &Strategy) -> Vec<String> {
    let all = |s: &[Strategy]| s.iter().flat_map(named_models).collect();
    match s {
        Strategy::Id | Strategy::Fail(_) => Vec::new(),
        Strategy::Seq(s) | Strategy::Choice(s) => all(s),
        Strategy::At(a, b) => [named_models(a), named_models(b)].concat(),
        Strategy::If { then, other, .. } => [named_models(then), named_models(other)].concat(),
        Strategy::Call { name, args, .. } if name == STEP => {
            let model = |a: &Argument| match (a.name.as_deref(), &a.value) {
                (Some("model"), ArgValue::Expr(Expr::Name(m) | Expr::Value(Value::Str(m)))) => {
                    Some(m.clone())
                }
                (_, ArgValue::Expr(_) | ArgValue::Strategy(_)) => None,
            };
            args.iter().filter_map(model).collect()
        }
        Strategy::Call { args, .. } => {
            args.iter().filter_map(steps_of).flat_map(|s| named_models(&s)).collect()
        }
    }
}

/// How deep definitions with decisions may nest.
pub(super) const DEEPEST: usize = 100;

/// A step `mdh(…)`: its arguments, and where it is.
pub(crate) struct Written {
    pub args: Vec<Argument>,
    pub span: Option<Span>,
    /// It is the one of `auto`, which leaves what it cannot do.
    pub lenient: bool,
}

/// The steps `mdh(…)` of a strategy, with definitions unfolded.
pub(crate) fn calls(context: &Context, s: &Strategy) -> Result<Vec<Written>, Diagnostic> {
    let mut out = Vec::new();
    collect(context, s, 0, &mut out)?;
    Ok(out)
}

fn collect(context: &Context, s: &Strategy, depth: usize, out: &mut Vec<Written>) -> Result<(), Diagnostic> {
    if depth > DEEPEST || !uses(context.definitions, context.target, s) {
        return Ok(());
    }
    match s {
        Strategy::Id | Strategy::Fail(_) => Ok(()),
        Strategy::Seq(all) | Strategy::Choice(all) => {
            all.iter().try_for_each(|s| collect(context, s, depth + 1, out))
        }
        Strategy::At(s, _) => collect(context, s, depth + 1, out),
        Strategy::If { then, other, .. } => {
            collect(context, then, depth + 1, out)?;
            collect(context, other, depth + 1, out)
        }
        Strategy::Call { name, args, span } => {
            if let Some(d) = context.definitions.find(name, context.target) {
                let body = lathe_strategy::bind::call(d, args, context.facts).map_err(|e| mark(e, *span))?;
                let before = out.len();
                collect(context, &body, depth + 1, out)?;
                out[before..].iter_mut().for_each(|w| w.lenient |= is_auto(d));
                return Ok(());
            }
            if name == STEP {
                out.push(Written { args: args.clone(), span: *span, lenient: false });
            }
            args.iter().filter_map(steps_of).try_for_each(|s| collect(context, &s, depth + 1, out))
        }
    }
}
