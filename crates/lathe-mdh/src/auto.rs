//! A strategy for a whole function: every compute that is a homomorphism gets chosen decisions, and computes that
//! follow one another are done block by block, so that what one makes for the next stays in a cache.

mod chains;
mod scatter;

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
    /// Per compute, in the order of the text: its label, and the decisions or why there are none; without those that
    /// combine into elements that data names and get tables.
    pub computes: Vec<(String, Result<Decisions, Diagnostic>)>,
    /// Computes that are done together, and how many rows at a time.
    pub chains: Vec<(Vec<String>, u64)>,
}

/// Chooses for every compute of a function. `sizes` are those of the call, or examples where `exact` is not set
/// (then the strategy is good for these, and right for all). What is no homomorphism stays as it is written,
/// but for statements that combine into elements that data names: they get a table per block.
///
/// # Errors
/// E1202 where the model of a CPU that comes with Lathe is broken.
pub fn auto(
    module: &Module,
    func: &Function,
    sizes: &BTreeMap<String, i64>,
    setting: &Setting,
) -> Result<Auto, Diagnostic> {
    let model = Model::named("cpu")?;
    let labels = labels(func);
    let read: Vec<Result<Homomorphism, Diagnostic>> =
        labels.iter().map(|l| Homomorphism::of(module, func, Some(l))).collect();
    let mut out = Auto { strategy: Strategy::Id, computes: Vec::new(), chains: Vec::new() };
    // First: with whole loops before them, their tables are seen to begin with values that were computed.
    let (tabled, mut steps): (Vec<_>, Vec<_>) = scatter::steps(func, sizes, setting).into_iter().unzip();
    let chains = chains::find(func, &labels, &read, sizes, setting);
    for c in &chains {
        steps.extend(c.begin());
        out.chains.push((c.labels.clone(), c.rows));
    }
    for (label, h) in labels.iter().zip(read) {
        let chain = chains.iter().find(|c| c.labels.contains(label));
        let one = |h: Homomorphism| -> Result<(Decisions, Strategy), Diagnostic> {
            let mut shaped = h.at(sizes)?;
            let mut setting = *setting;
            let mut inside = lower::Inside::default();
            if let Some(c) = chain {
                setting.threads = 1;
                setting.exact &= c.divides;
                inside = c.inside(label, &mut shaped);
            }
            let d = choose(&shaped, &model, &setting)?;
            let options = Options { exact: setting.exact, machine: setting.machine.clone(), inside };
            let s = lower::strategy(&shaped, &model, &d, &options)?;
            Ok((d, s))
        };
        match h.and_then(one) {
            Ok((d, s)) => {
                match s {
                    Strategy::Seq(all) => steps.extend(all),
                    Strategy::Id => {}
                    other => steps.push(other),
                }
                out.computes.push((label.clone(), Ok(d)));
            }
            Err(_) if tabled.contains(label) => {}
            Err(e) => out.computes.push((label.clone(), Err(e))),
        }
    }
    chains.iter().filter(|_| setting.threads > 1).for_each(|c| steps.extend(c.end()));
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
