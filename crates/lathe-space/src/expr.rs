//! Arithmetic over named values: constraints, bounds of ranges, and arguments of strategy steps.

use lathe_syntax::{EXPRESSIONS, quote};
pub use lathe_syntax::{Operator as BinOp, Sign as UnOp};
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

impl From<Value> for Expr {
    fn from(v: Value) -> Expr {
        Expr::Value(v)
    }
}

impl From<i64> for Expr {
    fn from(v: i64) -> Expr {
        Expr::Value(Value::Int(v))
    }
}

impl Expr {
    fn precedence(&self) -> u8 {
        match self {
            Expr::Binary(op, ..) => op.precedence(),
            Expr::Unary(UnOp::Not, _) => 3,
            // A negative number reads like a negation.
            Expr::Unary(UnOp::Neg, _) | Expr::Value(Value::Int(i64::MIN..=-1)) => 7,
            Expr::Value(Value::Float(v)) if v.is_sign_negative() => 7,
            _ => 8,
        }
    }
}

/// Whether a string stands without quotes.
fn is_name(s: &str) -> bool {
    // After a point there may be a number.
    let part = |p: &str| {
        let number = p.starts_with(|c: char| c.is_ascii_digit());
        let letter = |c: char| if number { c.is_ascii_digit() } else { (EXPRESSIONS.letter)(c) };
        !p.is_empty() && p.chars().all(letter) && !EXPRESSIONS.words.contains(&p)
    };
    !s.starts_with(|c: char| c.is_ascii_digit()) && s.split('.').all(part)
}

/// In the notation of the language; parses back to the same expression.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn child(f: &mut fmt::Formatter<'_>, e: &Expr, at_least: u8) -> fmt::Result {
            if e.precedence() < at_least { write!(f, "({e})") } else { write!(f, "{e}") }
        }
        match self {
            Expr::Value(Value::Str(s)) if !is_name(s) => f.write_str(&quote(s, '"')),
            Expr::Value(v) => write!(f, "{v}"),
            Expr::Name(n) => f.write_str(n),
            Expr::Unary(UnOp::Neg, e) => {
                f.write_str("-")?;
                // A minus before a literal is part of the literal.
                child(f, e, if matches!(**e, Expr::Value(Value::Int(_) | Value::Float(_))) { 9 } else { 7 })
            }
            Expr::Unary(UnOp::Not, e) => {
                f.write_str("not ")?;
                child(f, e, 3)
            }
            Expr::Binary(op, a, b) => {
                let p = op.precedence();
                // Comparisons do not chain; the others group to the left.
                child(f, a, if p == 4 { 5 } else { p })?;
                write!(f, " {} ", op.symbol())?;
                child(f, b, p + 1)
            }
            Expr::Call(n, args) => {
                write!(f, "{n}(")?;
                for (i, a) in args.iter().enumerate() {
                    write!(f, "{}{a}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}
