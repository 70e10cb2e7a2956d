//! Parameters, ranges and constraints as data, shared by strategies and the tuner.

pub mod expr;
pub mod param;

pub use expr::{BinOp, EvalError, Expr, UnOp, Value};
pub use param::{ParamType, Parameter, Range};
