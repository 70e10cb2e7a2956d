//! Equality saturation as one more strategy: `reach(sketch, move, …)` gives the cheapest term, equal to the
//! one that it is applied to, that the sketch describes (Kœhler and others, "Sketch-Guided Equality
//! Saturation: Scaling Equality Saturation to Complex Optimizations of Functional Programs").
//!
//! Moves are rules and strategies as everywhere else. They are functions from terms to terms, so each class
//! offers terms that stand for it (`offers`): every way in which a chain of a few of its nodes can be
//! chosen, the rest being as small as it can. What a move makes is brought to data-flow normal form; so
//! λ-calculus costs nothing, and equal terms are found to be equal.
//!
//! The e-graph only proposes: `derive` finds which moves lead to the term, and these are run once more, as
//! steps of the strategy like any others. Facts that the moves relied on are those of the steps. Where no
//! short way is found, the search is in the trace as one step.

mod derive;
mod graph;
mod offers;
mod options;
mod reach;
mod search;
mod sketch;

pub use sketch::Sketch;

use crate::term::Term;
use lathe_strategy::{Entry, Vocabulary};
use std::rc::Rc;

/// Adds `reach`.
pub(crate) fn add(v: &mut Vocabulary<Term>) {
    v.add("reach", Entry::Search(Rc::new(search::search), &["DFNF"]));
}
