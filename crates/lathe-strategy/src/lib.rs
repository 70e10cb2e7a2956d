//! Strategies as data, traces and evidence, generic in the tree that they rewrite.

pub mod evidence;
pub mod syntax;

pub use evidence::{Discharge, Evidence, Obligation, Refusal, Relation};
pub use syntax::{ArgValue, Argument, Definition, RuleSignature, Strategy};
