//! From syntax to the tree: names, types, ranges, statements.
//!
//! [`types`] declares structs; [`kernel`] lowers signatures and statements, [`expr`] expressions;
//! [`index`] turns index notation into computes with the ranges that [`range`] infers; [`tests`] lowers
//! `test` items.

pub mod data;
pub mod expr;
pub mod index;
pub mod kernel;
pub mod linear;
pub mod ops;
pub mod range;
pub mod scope;
pub mod tests;
pub mod types;

pub use types::Globals;
