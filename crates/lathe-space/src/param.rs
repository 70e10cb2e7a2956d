//! Parameters and their ranges.

use crate::expr::{Expr, Value};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParamType {
    Bool,
    Int,
    Float,
    Str,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Range {
    /// `lo..=hi step s`; bounds may mention earlier parameters, sizes and machine facts.
    Interval {
        lo: Expr,
        hi: Expr,
        step: Option<Expr>,
    },
    Set(Vec<Value>),
}

/// `name [: type] [= default] [in range]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: String,
    pub ty: ParamType,
    /// May mention sizes and machine facts.
    pub default: Option<Expr>,
    pub range: Option<Range>,
}
