//! Functional patterns: programs as compositions of a few data-parallel functions, optimized by rewriting.
//!
//! * [`nat`], [`facts`], [`types`], [`prim`], [`term`]: sizes, types, and typed terms.
//! * [`ast`], [`parse`], [`mod@infer`], [`mod@program`], [`mod@print`]: from text to typed terms and back.
//! * [`eval`], [`value`]: what terms mean.
//! * [`mod@lower`]: from low-level terms to the tree.
//! * [`mod@decide`]: whether a rule holds, before anyone uses it.
//! * [`rules`], [`normal`], [`make`], [`language`]: rewriting; [`saturate`]: by equality saturation.
//! * [`scheme`], [`solve`], [`check`]: the types of primitives, unification, and the check of a typed term.

pub mod ast;
pub mod check;
pub mod codes;
pub mod condition;
pub mod decide;
mod drops;
pub mod eval;
pub mod facts;
mod hash;
pub mod infer;
pub mod language;
pub mod library;
pub mod lower;
pub mod make;
pub mod names;
pub mod nat;
pub mod normal;
pub mod parse;
pub mod prim;
pub mod print;
pub mod program;
pub mod random;
pub mod rules;
pub mod saturate;
mod scalars;
pub mod scheme;
pub mod solve;
mod sugar;
pub mod term;
pub mod types;
pub mod value;

pub use codes::CODES;
pub use decide::{Decision, decide_rule};
pub use eval::{Sizes, evaluate};
pub use facts::{Fact, Facts, Known};
pub use lower::lower;
pub use nat::{Atom, Nat};
pub use parse::{parse_term, parse_type};
pub use prim::{FoldKind, MapKind, PadMode, Prim};
pub use program::{Param, Program, program, programs};
pub use term::{Term, TermKind};
pub use types::{DepArg, Kind, Type, TypeKind};
pub use value::Value;
