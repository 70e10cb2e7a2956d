//! Whether two trees compute the same, decided from value graphs: what every array holds at the end is a term over what
//! the function was given, and two trees with the same terms give the same results. A name for a value, a store that is
//! overwritten or that nobody reads, a load of what was just stored, and what is computed before a loop instead of in
//! it are in no term, so that trees that differ in these alone have the same ones. (Tristan, Govereau and Morrisett,
//! *Evaluating Value-Graph Translation Validation for LLVM*, PLDI 2011.)
//!
//! * `term`: the terms. Whatever runs again and again is one term per array that it changes, around what an iteration
//!   makes of the arrays as it finds them.
//! * `run`, `statement`, `value`: a tree, followed from beginning to end.
//! * `reach`: the new tree evaluates nothing that may not exist where the old one evaluated nothing.

mod reach;
mod run;
mod statement;
mod term;
mod value;

pub use value::{only_value, reaches};

use crate::budget::within_work;
use crate::values::Change;
use lathe_ir::{Function, ParamKind};
use run::Run;
use std::collections::BTreeSet;
use term::{Graph, Slot, Term, What};

/// So many nodes may be made and visited to compare two trees: some seconds.
const WORK: u64 = 20_000_000;

const SPENT: &str = "the trees compute too much to be compared within the budget";

/// Whether two trees give the same results, fail alike, and act alike on others. Gives how many statements and values
/// were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn computes_the_same(c: &Change) -> Result<usize, String> {
    within_work(WORK, || compared(c))
}

fn compared(c: &Change) -> Result<usize, String> {
    if c.before.sizes != c.after.sizes || c.before.params != c.after.params {
        return Err("the parameters were changed".into());
    }
    if c.before.body == c.after.body && c.before.result == c.after.result {
        return Ok(0);
    }
    let mut graph = Graph::new();
    let (mut old, result) = followed(&mut graph, c, c.before);
    let was = old.outcome();
    let old = old.reached();
    let (mut new, other) = followed(&mut graph, c, c.after);
    let is = new.outcome();
    if new.graph.is_spent() {
        return Err(SPENT.into());
    }
    let slots: BTreeSet<Slot> = was.keys().chain(is.keys()).copied().collect();
    for slot in slots {
        let initial = new.graph.make(What::Initial(slot), Vec::new());
        if was.get(&slot).unwrap_or(&initial) != is.get(&slot).unwrap_or(&initial) {
            return Err(differs(c.before, slot));
        }
    }
    if result != other {
        return Err("the result may be another value".into());
    }
    let examined = new.statements + new.demands().len();
    old.covers(&new)?;
    // What was found with nothing left to spend was not found.
    if new.graph.is_spent() {
        return Err(SPENT.into());
    }
    Ok(old.statements + examined)
}

/// A function with its result.
fn followed<'g, 'm>(graph: &'g mut Graph, c: &Change<'m>, func: &Function) -> (Run<'g, 'm>, Option<Term>) {
    let mut run = Run::of(graph, c.module, func);
    run.begin();
    let result = func.result.as_ref().map(|e| run.one(e));
    (run, result)
}

fn differs(func: &Function, slot: Slot) -> String {
    match slot {
        Slot::World => "what may fail, or acts on others, may happen otherwise".into(),
        Slot::Facts => "what is stated differs".into(),
        Slot::Memory(crate::Place::Shared) => "arrays that may overlap may get other values".into(),
        Slot::Memory(crate::Place::Buffer(b)) => {
            let own = func.params.iter().find_map(|p| match &p.kind {
                ParamKind::Array(a) if a.id == b => Some(a.name.clone()),
                ParamKind::Array(_) | ParamKind::Scalar(_) => None,
            });
            format!("`{}` may get other values", own.unwrap_or_else(|| "an array".into()))
        }
    }
}
