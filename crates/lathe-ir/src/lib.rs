//! The tree: the one representation of Lathe (design, section 2).
//!
//! * [`types`], [`ops`], [`expr`], [`build`]: typed scalar expressions and their exact meaning.
//! * [`stmt`], [`func`], [`buffer`], [`layout`]: statements, functions, buffers.
//! * [`module`], [`summary`], [`summaries`]: items other than functions, and the effects of functions.
//! * [`names`]: names of generated items.
//! * [`complex`]: arithmetic and functions of complex numbers, as expressions over their parts.
//! * [`visit`]: walks over trees, and rebuilding them.
//! * [`text`]: the text form (`.tree`), both ways.
//! * [`verify`]: what every tree must be.
//! * [`scalar`], [`math`], [`interp`]: the exact meaning of scalars, and of programs.
//! * [`lower`]: lowering that engines share: addresses of elements.

pub mod buffer;
pub mod build;
pub mod codes;
pub mod complex;
pub mod difference;
mod digest;
pub mod expr;
pub mod func;
pub mod functions;
pub mod hash;
pub mod ids;
pub mod interp;
pub mod layout;
pub mod lower;
pub mod math;
pub mod module;
pub mod names;
pub mod ops;
pub mod reduce;
pub mod scalar;
pub mod stmt;
pub mod summaries;
pub mod summary;
pub mod text;
pub mod types;
pub mod verify;
pub mod visit;

pub use buffer::{Buffer, Space};
pub use digest::Digest;
pub use expr::{Access, Expr, ExprKind, Status, View};
pub use func::{Function, Mode, Param, ParamKind, Stage, digest};
pub use hash::structural_hash;
pub use ids::{Binder, BufId, Label, VarId};
pub use layout::{Layout, LayoutStep};
pub use module::{CombineOp, External, Global, Init, Module};
pub use ops::{BinOp, MathFn, ReduceOp, UnOp};
pub use stmt::{Arg, Combine, Compute, Dim, Executor, Loop, Reduce, Stmt, StmtKind, Store};
pub use types::{Name, Scalar, StructType, Type};
