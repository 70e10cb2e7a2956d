//! A strategy for a whole function: every compute that is a homomorphism gets chosen decisions.

use crate::choose::{Setting, choose};
use crate::decisions::Decisions;
use crate::homomorphism::Homomorphism;
use crate::lower::{self, Options};
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module, StmtKind, visit};
use lathe_strategy::Strategy;
use std::collections::BTreeMap;

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Auto {
    pub strategy: Strategy,
    /// Per compute, in the order of the text: its label, and the decisions or why there are none.
    pub computes: Vec<(String, Result<Decisions, Diagnostic>)>,
}

/// Chooses for every compute of a function. `sizes` are those of the call, or examples where `exact` is not set
/// (then the strategy is good for these, and right for all).
///
/// # Errors
/// E1202 where the model of this CPU is broken, which it is not.
pub fn auto(
    module: &Module,
    func: &Function,
    sizes: &BTreeMap<String, i64>,
    setting: &Setting,
) -> Result<Auto, Diagnostic> {
    let model = Model::named("cpu")?;
    let options = Options { exact: setting.exact, machine: setting.machine.clone() };
    let mut out = Auto { strategy: Strategy::Id, computes: Vec::new() };
    let mut steps = Vec::new();
    for label in labels(func) {
        let one = || -> Result<(Decisions, Strategy), Diagnostic> {
            let h = Homomorphism::of(module, func, Some(&label))?;
            let shaped = h.at(sizes)?;
            let d = choose(&shaped, &model, setting)?;
            let s = lower::strategy(&shaped, &model, &d, &options)?;
            Ok((d, s))
        };
        match one() {
            Ok((d, s)) => {
                match s {
                    Strategy::Seq(all) => steps.extend(all),
                    Strategy::Id => {}
                    other => steps.push(other),
                }
                out.computes.push((label, Ok(d)));
            }
            Err(e) => out.computes.push((label, Err(e))),
        }
    }
    if !steps.is_empty() {
        out.strategy = Strategy::Seq(steps);
    }
    Ok(out)
}

/// The labels of all computes, in the order of the text.
pub fn labels(func: &Function) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        if let StmtKind::Compute(c) = s.kind() {
            out.push(c.label.to_string());
        }
        true
    });
    out
}
