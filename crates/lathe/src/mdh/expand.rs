//! Translates steps `mdh(…)` to steps on loops.

use super::call::{Call, as_call, mark};
use super::calls::{DEEPEST, model_of, steps_of, uses};
use super::setting::{Setting, labels};
use super::{STEP, space};
use crate::choice::is_auto;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_mdh::around::Around;
use lathe_mdh::{Decisions, Homomorphism, Model, codes};
use lathe_space::Values;
use lathe_strategy::{ArgValue, Argument, Context, Strategy};
use serde::Serialize;
use std::collections::BTreeMap;

/// The decisions for one compute, and what they became.
#[derive(Clone, Debug, Serialize)]
pub struct Chosen {
    /// The compute's label.
    pub compute: String,
    pub model: String,
    /// Entries that the strategy fixed, of how many.
    pub fixed: usize,
    pub entries: usize,
    /// In the text form.
    pub decisions: String,
    /// As a step that fixes them all.
    pub step: String,
}

impl Chosen {
    /// Complete decisions, and what of them was fixed.
    pub(crate) fn new(h: &Homomorphism, model: &Model, fixed: &Decisions, full: &Decisions) -> Chosen {
        let entries = Decisions::free(h, model).open();
        Chosen {
            compute: h.name.clone(),
            model: model.name.clone(),
            fixed: entries - fixed.open(),
            entries,
            decisions: lathe_mdh::text::print(h, model, full),
            step: as_call(h, model, full),
        }
    }
}

/// Decisions that became steps.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Taken {
    pub computes: Vec<Chosen>,
    /// The strategy with steps on loops in their place.
    pub strategy: String,
    /// How long choosing took.
    pub seconds: f64,
}

impl Taken {
    /// Nothing was decided.
    pub fn is_nothing(&self) -> bool {
        self.computes.is_empty() && self.strategy.is_empty()
    }
}

/// Replaces steps `mdh(…)` by steps on loops; definitions are unfolded as far as they have some.
pub(crate) struct Expander<'a> {
    pub setting: &'a Setting<'a>,
    pub context: &'a Context<'a>,
    pub chosen: Vec<Chosen>,
    /// What `auto` left as it is written, and why.
    pub notes: Vec<String>,
    /// Definitions that are being unfolded.
    depth: usize,
}

impl<'a> Expander<'a> {
    pub fn new(setting: &'a Setting<'a>, context: &'a Context<'a>) -> Expander<'a> {
        Expander { setting, context, chosen: Vec::new(), notes: Vec::new(), depth: 0 }
    }

    /// The strategy without steps `mdh(…)`. One that is refused where another choice follows becomes `fail`.
    ///
    /// # Errors
    /// What is wrong with a step, and which rule its decisions break.
    pub fn strategy(&mut self, s: &Strategy) -> Result<Strategy, Diagnostic> {
        if !uses(self.context.definitions, self.context.target, s) {
            return Ok(s.clone());
        }
        let or_fail = |e: &mut Self, s: &Strategy| {
            let before = e.chosen.len();
            e.strategy(s).unwrap_or_else(|d| {
                e.chosen.truncate(before);
                Strategy::Fail(format!("{}: {}", d.code, d.message))
            })
        };
        Ok(match s {
            Strategy::Id | Strategy::Fail(_) => s.clone(),
            Strategy::Seq(all) => {
                Strategy::Seq(all.iter().map(|s| self.strategy(s)).collect::<Result<_, _>>()?)
            }
            Strategy::Choice(all) => {
                let Some((last, others)) = all.split_last() else { return Ok(s.clone()) };
                let mut new: Vec<Strategy> = others.iter().map(|s| or_fail(self, s)).collect();
                new.push(self.strategy(last)?);
                Strategy::Choice(new)
            }
            Strategy::At(s, place) => Strategy::At(Box::new(self.strategy(s)?), place.clone()),
            Strategy::If { cond, then, other, span } => Strategy::If {
                cond: cond.clone(),
                then: Box::new(self.strategy(then)?),
                other: Box::new(self.strategy(other)?),
                span: *span,
            },
            Strategy::Call { name, args, span } => {
                if let Some(d) = self.context.definitions.find(name, self.context.target) {
                    if is_auto(d) {
                        return Ok(self.as_far_as_it_goes());
                    }
                    if self.depth > DEEPEST {
                        let text = format!("`{name}` takes decisions and calls itself without terminating");
                        return Err(mark(Diagnostic::error(codes::UNSUPPORTED, text), *span));
                    }
                    let body = lathe_strategy::bind::call(d, args, self.context.facts)
                        .map_err(|e| mark(e, *span))?;
                    self.depth += 1;
                    let made = self.strategy(&body);
                    self.depth -= 1;
                    return made;
                }
                if name == STEP {
                    return self.step(args, *span);
                }
                let attempt = name == "try";
                let args = args.iter().map(|a| {
                    let value = match steps_of(a) {
                        None => a.value.clone(),
                        Some(s) if attempt => ArgValue::Strategy(Box::new(or_fail(self, &s))),
                        Some(s) => ArgValue::Strategy(Box::new(self.strategy(&s)?)),
                    };
                    Ok(Argument { value, ..a.clone() })
                });
                let args = args.collect::<Result<Vec<_>, Diagnostic>>()?;
                Strategy::Call { name: name.clone(), args, span: *span }
            }
        })
    }

    /// `auto` within a strategy: a compute that takes no decisions stays as it is written, with a note.
    fn as_far_as_it_goes(&mut self) -> Strategy {
        let all = labels(self.setting.func);
        let (mut steps, none) = (Vec::new(), []);
        for label in &all {
            let before = self.chosen.len();
            let made = Call::read(&none, None).and_then(|call| self.compute(&call, Some(label), all.len()));
            match made {
                Ok(s) => steps.push(Strategy::Choice(vec![s, Strategy::Id])),
                Err(d) => {
                    self.chosen.truncate(before);
                    self.notes.push(why(label, &d));
                }
            }
        }
        Strategy::Seq(steps)
    }

    fn step(&mut self, args: &[Argument], span: Option<Span>) -> Result<Strategy, Diagnostic> {
        let call = Call::read(args, span)?;
        let all = labels(self.setting.func);
        let mut steps = Vec::new();
        let wanted = match &call.of {
            Some(one) => vec![one.clone()],
            None if all.len() > 1 => all.clone(),
            // One compute, or the message that there is none.
            None => vec![String::new()],
        };
        for label in wanted {
            let label = Some(label.as_str()).filter(|l| !l.is_empty());
            let s = self.compute(&call, label, all.len())?;
            steps.push(s);
        }
        Ok(if steps.len() == 1 { steps.remove(0) } else { Strategy::Seq(steps) })
    }

    /// The steps for one compute.
    fn compute(&mut self, call: &Call, label: Option<&str>, of: usize) -> Result<Strategy, Diagnostic> {
        let set = self.setting;
        let d = decide(set, call, label, of)?;
        let shaped = d.h.at(&BTreeMap::new()).map_err(|d| mark(d, call.span))?;
        let strategy = space::lower(&shaped, &d.model, &d.full, set.machine).map_err(|d| call.blame(d))?;
        self.chosen.push(Chosen::new(&d.h, &d.model, &d.fixed, &d.full));
        Ok(strategy)
    }

    /// Whether a step makes sense for a function whose sizes are not known.
    ///
    /// # Errors
    /// What is wrong in all sizes: the form, names, no homomorphism.
    pub fn check_form(&self, args: &[Argument], span: Option<Span>) -> Result<(), Diagnostic> {
        let call = Call::read(args, span)?;
        let set = self.setting;
        let all = labels(set.func);
        let wanted = match &call.of {
            Some(one) => vec![Some(one.clone())],
            None if all.len() > 1 => all.into_iter().map(Some).collect(),
            None => vec![None],
        };
        for label in wanted {
            let h =
                Homomorphism::of(set.module, set.func, label.as_deref()).map_err(|d| mark(d, call.span))?;
            call.decisions(&h, &model_of(&call, set)?, None)?;
        }
        Ok(())
    }
}

/// What a step decides for one compute.
pub(crate) struct Decided {
    pub h: Homomorphism,
    pub model: Model,
    pub fixed: Decisions,
    pub full: Decisions,
}

/// The decisions of a step for one compute of a function with `of` of them: what it fixes, completed by values of a
/// search, or else by the cost model.
pub(crate) fn decide(
    set: &Setting,
    call: &Call,
    label: Option<&str>,
    of: usize,
) -> Result<Decided, Diagnostic> {
    let h = Homomorphism::of(set.module, set.func, label).map_err(|d| mark(d, call.span))?;
    let model = model_of(call, set)?;
    let shaped = h.at(&BTreeMap::new()).map_err(|d| mark(d, call.span))?;
    let usual = space::usual(&shaped, &model, set.machine);
    let fixed = call.decisions(&h, &model, Some(&usual))?;
    let facts = |n: &str| set.machine.fact(n);
    if let Some(first) = lathe_mdh::check(&shaped, &model, &fixed, &facts).into_iter().next() {
        return Err(call.blame(first));
    }
    let prefix = if of > 1 { format!("{}.", h.name) } else { String::new() };
    let own: Values = set
        .params
        .iter()
        .filter_map(|(n, v)| Some((n.strip_prefix(&prefix)?.to_string(), v.clone())))
        .collect();
    let chosen = space::choose(&shaped, &model, &fixed, &usual, call.tiles, set.machine);
    let around = Around { h: &shaped, model: &model, fixed: &fixed, chosen: &chosen };
    let known = around.space().params;
    if let Some(n) = own.keys().find(|n| !known.iter().any(|p| p.name == **n)) {
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        let text = format!("the decisions for `{}` have no parameter `{n}`", h.name);
        return Err(mark(Diagnostic::error(codes::DECISIONS_SHAPE, text), call.span)
            .help(format!("their parameters: {}", names.join(", "))));
    }
    let full = if own.is_empty() { chosen.clone() } else { around.bind(&own) };
    lathe_mdh::require(&shaped, &model, &full, &facts).map_err(|d| call.blame(d))?;
    Ok(Decided { h, model, fixed, full })
}

/// Why a compute takes no decisions.
pub(super) fn why(label: &str, d: &Diagnostic) -> String {
    format!("`{label}` is left as written: {}: {}", d.code, d.message)
}
