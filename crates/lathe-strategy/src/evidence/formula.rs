//! Formulas as evidence holds them: what the tree's expressions are, without the tree.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An expression over loop variables, sizes, scalars and array elements. Variables have their number as well as their
/// name, since names may stand for several of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Formula {
    Bool(bool),
    Int(i64),
    Var {
        var: Arc<str>,
        id: u32,
    },
    Load {
        array: Arc<str>,
        at: Vec<Formula>,
    },
    /// An operator or function by its symbol; `…` is a part that has no short form.
    Apply {
        op: Cow<'static, str>,
        of: Vec<Formula>,
    },
}

impl Formula {
    /// The deepest formula that is read from a file.
    pub const DEPTH: usize = 40;

    pub fn apply(op: impl Into<Cow<'static, str>>, of: Vec<Formula>) -> Formula {
        Formula::Apply { op: op.into(), of }
    }

    /// What cannot be said.
    pub fn unknown() -> Formula {
        Formula::apply("…", Vec::new())
    }

    /// Whether every part of it is said.
    pub fn is_whole(&self) -> bool {
        match self {
            Formula::Bool(_) | Formula::Int(_) | Formula::Var { .. } => true,
            Formula::Load { at, .. } => at.iter().all(Formula::is_whole),
            Formula::Apply { of, .. } => *self != Formula::unknown() && of.iter().all(Formula::is_whole),
        }
    }

    pub fn depth(&self) -> usize {
        match self {
            Formula::Bool(_) | Formula::Int(_) | Formula::Var { .. } => 1,
            Formula::Load { at: of, .. } | Formula::Apply { of, .. } => {
                1 + of.iter().map(Formula::depth).max().unwrap_or(0)
            }
        }
    }
}

/// Whether an operator is between its operands.
fn infix(op: &str) -> bool {
    op == "and"
        || op == "or"
        || (op.chars().count() <= 2 && !op.chars().any(char::is_alphanumeric) && op != "…")
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::Bool(v) => write!(f, "{v}"),
            Formula::Int(v) => write!(f, "{v}"),
            Formula::Var { var, .. } => f.write_str(var),
            Formula::Load { array, at } => write!(f, "{array}[{}]", list(at)),
            Formula::Apply { op, of } => match of.as_slice() {
                [] => f.write_str(op),
                [a] if op == "-" => write!(f, "-{}", Operand(a)),
                [a] if op == "not" => write!(f, "not {}", Operand(a)),
                [a, Formula::Int(c)] if op == "+" && *c < 0 => {
                    write!(f, "{} - {}", Operand(a), c.unsigned_abs())
                }
                [a, b] if infix(op) => write!(f, "{} {op} {}", Operand(a), Operand(b)),
                all => write!(f, "{op}({})", list(all)),
            },
        }
    }
}

/// Formulas between commas.
pub fn list(all: &[Formula]) -> String {
    all.iter().map(Formula::to_string).collect::<Vec<_>>().join(", ")
}

/// In parentheses where it has an operator between operands.
struct Operand<'a>(&'a Formula);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Formula::Apply { op, of } if of.len() == 2 && infix(op) => write!(f, "({})", self.0),
            other => write!(f, "{other}"),
        }
    }
}
