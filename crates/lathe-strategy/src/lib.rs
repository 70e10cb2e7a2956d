//! Strategies as data, traces and evidence, generic in the tree that they rewrite.
//!
//! `instantiate` binds the parameters of a definition, `plan` unfolds what it decides by size, `run`
//! interprets it on a tree and keeps the evidence, `replay` checks stored evidence.

pub mod bind;
pub mod codes;
pub mod evidence;
pub mod plan;
pub mod run;
pub mod syntax;
pub mod tree;

pub use bind::{Definitions, Facts, instantiate};
pub use codes::CODES;
pub use evidence::{Discharge, Evidence, Obligation, Refusal, Relation};
pub use plan::{Plan, Version, plan};
pub use run::{Context, Trace, replay, run};
pub use syntax::{ArgValue, Argument, Definition, RuleSignature, Strategy};
pub use tree::{Location, StepArg, Tree, hash_text};
