//! Strategies as data, traces and evidence, generic in the tree that they rewrite.
//!
//! `instantiate` binds the parameters of a definition, `plan` unfolds what it decides by size. One engine,
//! `rewrite`, has all combinators and traversals, for every kind of tree: terms and strategies, whose sub-trees are
//! trees ([`Node`]), and trees of loops, whose rules need the root ([`Tree`]; a place in one is [`Rooted`]). `run` is
//! the engine on these, with evidence as its trace; `replay` checks stored evidence.

pub mod bind;
pub mod codes;
pub mod context;
pub mod evidence;
pub mod meta;
pub mod node;
pub mod parse;
pub mod plan;
pub mod rewrite;
pub mod rooted;
pub mod run;
pub mod syntax;
mod text;
pub mod tree;
pub mod words;

pub use bind::{Definitions, Facts, instantiate};
pub use codes::CODES;
pub use context::Context;
pub use evidence::{
    Claim, Construction, Discharge, Evidence, Formula, Obligation, Refusal, Relation, Witness,
};
pub use meta::Meta;
pub use node::{Entry, Moves, Node, Vocabulary, Why};
pub use parse::{parse_definitions, parse_strategy};
pub use plan::{Plan, Version, plan};
pub use rewrite::{Applied, Outcome, replay_nodes, rewrite};
pub use rooted::Rooted;
pub use run::{Trace, go_on, replay, replay_step, run};
pub use syntax::{ArgValue, Argument, Definition, RuleSignature, Strategy};
pub use tree::{Location, StepArg, Tree, digest, hexadecimal};
