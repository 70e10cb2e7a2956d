//! Strategies on trees whose rules need the root: what [`mod@crate::rewrite`] did, as evidence, and doing it again.

use crate::bind::mark;
use crate::codes;
use crate::context::Context;
use crate::evidence::{Discharge, Evidence, Obligation, Refusal};
use crate::rewrite::rewrite;
use crate::rooted::{Log, Rooted, vocabulary};
use crate::syntax::Strategy;
use crate::tree::{StepArg, Tree};
use lathe_diagnostics::{Diagnostic, Span};
use std::collections::BTreeMap;

/// What was done, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace<T> {
    pub steps: Vec<Evidence>,
    /// The tree before each step.
    pub trees: Vec<T>,
}

impl<T> Trace<T> {
    /// Number of obligations by how they were discharged.
    pub fn counts(&self) -> BTreeMap<Discharge, usize> {
        let mut out = BTreeMap::new();
        for o in self.steps.iter().flat_map(|e| &e.obligations) {
            *out.entry(o.by).or_insert(0) += 1;
        }
        out
    }

    /// Labels whose rounding may differ from the reference: a step reassociated or contracted them.
    pub fn reassociates(&self) -> Vec<&str> {
        let mut out: Vec<&str> =
            self.steps.iter().flat_map(|e| &e.reassociates).map(String::as_str).collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// Runs a strategy whose parameters are bound (see [`crate::instantiate`]).
///
/// # Errors
/// What no choice made up for; mistakes in the strategy; strategies without end.
pub fn run<T: Tree + 'static>(
    context: &Context,
    strategy: &Strategy,
    tree: T,
) -> Result<(T, Trace<T>), Refusal> {
    let (tree, mut trace) = go_on(context, strategy, tree)?;
    if let (Some(first), Some(tree)) = (trace.steps.first_mut(), trace.trees.first()) {
        tree.owes().into_iter().for_each(|o| first.oblige(o));
    }
    Ok((tree, trace))
}

/// As [`run`], on what a run left: what the tree owes before any step stands in the first step of that one.
///
/// # Errors
/// As [`run`].
pub fn go_on<T: Tree + 'static>(
    context: &Context,
    strategy: &Strategy,
    tree: T,
) -> Result<(T, Trace<T>), Refusal> {
    let out = rewrite(context, &vocabulary(&tree), strategy, Rooted::new(tree), Log::default())?;
    let mut trace = Trace { steps: Vec::new(), trees: Vec::new() };
    for (evidence, before) in out.state.steps() {
        trace.steps.push(evidence.clone());
        trace.trees.push(before.clone());
    }
    Ok(((*out.tree.tree).clone(), trace))
}

/// Applies the recorded steps again. Each must be legal, and leave just the record that is given: the same trees, the
/// same relations, the same obligations discharged in the same way.
pub fn replay<T: Tree>(mut tree: T, steps: &[Evidence]) -> Result<T, Refusal> {
    let mut owed = tree.owes();
    for (n, e) in steps.iter().enumerate() {
        tree = replay_step(tree, e, n, &mut owed)?;
    }
    Ok(tree)
}

/// Applies one recorded step again, as [`replay`] does; `n` is how many came before it, and `owed` what the tree owes
/// that no step before has told.
pub fn replay_step<T: Tree>(
    tree: T,
    e: &Evidence,
    n: usize,
    owed: &mut Vec<Obligation>,
) -> Result<T, Refusal> {
    let wrong = |what: &str| {
        let text = format!("replay of step {} (`{}`): {what}", n + 1, e.rule);
        Refusal::new(&e.rule, Diagnostic::error(codes::REPLAY, text))
    };
    let before = tree.digest();
    if before != e.before {
        return Err(wrong("the tree before it is another one"));
    }
    let args = e.args.iter().map(|a| StepArg::read(a)).collect::<Option<Vec<_>>>();
    let args = args.ok_or_else(|| wrong("an argument cannot be read"))?;
    let (next, mut again) = tree.apply(&e.rule, &e.path, &args)?;
    again.args.clone_from(&e.args);
    again.path.clone_from(&e.path);
    again.before = before;
    again.after = next.digest();
    owed.drain(..).for_each(|o| again.oblige(o));
    match e.differs(&again) {
        Some(what) => Err(wrong(what)),
        None => Ok(next),
    }
}

/// Adds the place of a step to a message made outside of a run.
pub fn at_step(d: Diagnostic, span: Option<Span>) -> Diagnostic {
    mark(d, span, "this step")
}
