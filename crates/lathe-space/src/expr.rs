//! Arithmetic over named values: constraints, bounds of ranges, and arguments of strategy steps.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnOp {
    Neg,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    /// Exact division: on integers, a remainder is an error; use `FloorDiv`.
    Div,
    FloorDiv,
    Mod,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

/// `Name` may be dotted (`i.o`): names that no environment knows stand for themselves (loops, labels).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    Value(Value),
    Name(String),
    Unary(UnOp, Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `min`, `max`, `abs`, `divides(a, b)`, machine facts like `vector(f32)`; else symbolic.
    Call(String, Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum EvalError {
    UnknownName(String),
    UnknownFunction(String),
    DivisionByZero,
    Overflow,
    Type(String),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::UnknownName(n) => write!(f, "unknown name `{n}`"),
            EvalError::UnknownFunction(n) => write!(f, "unknown function `{n}`"),
            EvalError::DivisionByZero => f.write_str("division by zero"),
            EvalError::Overflow => f.write_str("the value does not fit 64 bits"),
            EvalError::Type(t) => f.write_str(t),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Str(v) => write!(f, "{v}"),
        }
    }
}
