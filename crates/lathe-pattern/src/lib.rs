//! Functional patterns: programs as compositions of a few data-parallel functions.

pub mod facts;
mod hash;
pub mod nat;
pub mod prim;
pub mod term;
pub mod types;

pub use facts::{Fact, Facts, Known};
pub use nat::{Atom, Nat};
pub use prim::{FoldKind, MapKind, PadMode, Prim};
pub use term::{Term, TermKind};
pub use types::{DepArg, Kind, Type, TypeKind};
