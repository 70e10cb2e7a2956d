//! Parameters, ranges and constraints as data, shared by strategies and the tuner.

pub mod bind;
pub mod codes;
pub mod eval;
pub mod expr;
pub mod formats;
pub mod param;
pub mod parse;
pub mod space;

pub use bind::{Bound, Values, bind, parse_value};
pub use codes::CODES;
pub use eval::{Env, eval, names, reduce};
pub use expr::{BinOp, EvalError, Expr, UnOp, Value};
pub use param::{ParamType, Parameter, Range};
pub use parse::{ParseError, parse};
pub use space::{
    Blocks, Configuration, Constraint, Generate, Scale, Space, SpaceDef, TuningParameter, ValueRange,
};
