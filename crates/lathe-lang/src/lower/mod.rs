//! From syntax to the tree: names, types, ranges, statements.
//!
//! [`types`] declares structs; [`fun`] hands funs to `lathe-pattern`; [`kernel`] lowers signatures and statements, `derived` declares derivatives,
//! `escape` those that end loops, [`expr`], [`call`], `inline` and [`reduction`] expressions; [`index`] turns index notation into computes with the ranges that [`range`] infers, and
//! [`temporary`] makes room for what is reduced on the way; [`tests`] lowers `test` items.

pub mod call;
mod complex;
pub mod data;
pub mod debug;
pub(crate) mod derived;
mod escape;
pub mod expr;
pub mod fun;
pub mod index;
mod inline;
pub mod kernel;
mod kernel_call;
mod log;
pub mod numpy;
pub mod ops;
pub mod range;
pub mod reduction;
pub mod scalar_fun;
pub mod scope;
pub mod temporary;
pub mod tests;
pub mod types;

pub use types::Globals;
