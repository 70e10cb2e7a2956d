//! Constraints of parameters: expressions, aliases, Rust closures, and their combinations.

use crate::eval::{eval, names};
use crate::expr::{BinOp, EvalError, Expr, Value};
use std::fmt;
use std::sync::Arc;

/// A condition on the value of one parameter that may mention other parameters.
#[derive(Clone)]
pub enum Constraint {
    /// An expression that is true or false; the own value goes by the parameter's name.
    Expr(Expr),
    /// A relation between the own value and an expression.
    Alias(Alias, Expr),
    /// Rust code. `f` gets the values of `reads`, in that order; the own value only if its name is among them.
    Closure { reads: Vec<String>, f: ConstraintFn },
    /// All hold. The later ones are not asked where an earlier one does not hold.
    And(Vec<Constraint>),
    /// One holds. The later ones are not asked where an earlier one holds.
    Or(Vec<Constraint>),
}

/// A constraint in Rust.
pub type ConstraintFn = Arc<dyn Fn(&[Value]) -> Result<bool, EvalError> + Send + Sync>;

/// Relations of the own value `v` to an expression `e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// `v` divides `e`.
    Divides,
    /// `v` is a multiple of `e`.
    MultipleOf,
    LessThan,
    GreaterThan,
    Equal,
    Unequal,
    AtMost,
    AtLeast,
}

/// The aliases with their names in the text formats.
pub const ALIASES: &[(&str, Alias)] = &[
    ("divides", Alias::Divides),
    ("multiple_of", Alias::MultipleOf),
    ("is_multiple_of", Alias::MultipleOf),
    ("less_than", Alias::LessThan),
    ("greater_than", Alias::GreaterThan),
    ("equal", Alias::Equal),
    ("unequal", Alias::Unequal),
    ("at_most", Alias::AtMost),
    ("at_least", Alias::AtLeast),
];

impl Alias {
    /// The name in the text formats.
    pub fn name(self) -> &'static str {
        ALIASES.iter().find(|a| a.1 == self).map_or("", |a| a.0)
    }

    /// The relation as an expression about the parameter `own`.
    pub fn expr(self, own: &str, e: &Expr) -> Expr {
        let v = Expr::Name(own.to_string());
        let compare = |op| Expr::Binary(op, Box::new(v.clone()), Box::new(e.clone()));
        match self {
            Alias::Divides => Expr::Call("divides".into(), vec![v, e.clone()]),
            Alias::MultipleOf => Expr::Call("is_multiple".into(), vec![v, e.clone()]),
            Alias::LessThan => compare(BinOp::Lt),
            Alias::GreaterThan => compare(BinOp::Gt),
            Alias::Equal => compare(BinOp::Eq),
            Alias::Unequal => compare(BinOp::Ne),
            Alias::AtMost => compare(BinOp::Le),
            Alias::AtLeast => compare(BinOp::Ge),
        }
    }
}

impl Constraint {
    /// The own value divides `e`.
    pub fn divides(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::Divides, e.into())
    }

    /// The own value is a multiple of `e`.
    pub fn multiple_of(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::MultipleOf, e.into())
    }

    pub fn less_than(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::LessThan, e.into())
    }

    pub fn greater_than(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::GreaterThan, e.into())
    }

    pub fn equal(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::Equal, e.into())
    }

    pub fn unequal(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::Unequal, e.into())
    }

    pub fn at_most(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::AtMost, e.into())
    }

    pub fn at_least(e: impl Into<Expr>) -> Constraint {
        Constraint::Alias(Alias::AtLeast, e.into())
    }

    /// Rust code over the values of the named parameters and constants.
    pub fn closure<S: Into<String>>(
        reads: impl IntoIterator<Item = S>,
        f: impl Fn(&[Value]) -> Result<bool, EvalError> + Send + Sync + 'static,
    ) -> Constraint {
        Constraint::Closure { reads: reads.into_iter().map(Into::into).collect(), f: Arc::new(f) }
    }

    pub fn and(self, other: Constraint) -> Constraint {
        match self {
            Constraint::And(mut all) => {
                all.push(other);
                Constraint::And(all)
            }
            first => Constraint::And(vec![first, other]),
        }
    }

    pub fn or(self, other: Constraint) -> Constraint {
        match self {
            Constraint::Or(mut all) => {
                all.push(other);
                Constraint::Or(all)
            }
            first => Constraint::Or(vec![first, other]),
        }
    }

    /// The names that the constraint of the parameter `own` mentions, each once; an alias mentions `own`.
    pub fn names(&self, own: &str) -> Vec<String> {
        fn go(c: &Constraint, own: &str, out: &mut Vec<String>) {
            let mut add = |n: String| {
                if !out.contains(&n) {
                    out.push(n);
                }
            };
            match c {
                Constraint::Expr(e) => names(e).into_iter().for_each(add),
                Constraint::Alias(_, e) => {
                    add(own.to_string());
                    names(e).into_iter().for_each(add);
                }
                Constraint::Closure { reads, .. } => reads.iter().cloned().for_each(add),
                Constraint::And(all) | Constraint::Or(all) => all.iter().for_each(|c| go(c, own, out)),
            }
        }
        let mut out = Vec::new();
        go(self, own, &mut out);
        out
    }

    /// Whether the constraint of `own` holds for the values that `env` knows. The definition that the faster
    /// forms are measured by.
    pub fn holds(&self, own: &str, env: &dyn Fn(&str) -> Option<Value>) -> Result<bool, EvalError> {
        match self {
            Constraint::Expr(e) => truth(eval(e, env)?),
            Constraint::Alias(alias, e) => truth(eval(&alias.expr(own, e), env)?),
            Constraint::Closure { reads, f } => {
                let values: Result<Vec<Value>, EvalError> =
                    reads.iter().map(|n| env(n).ok_or_else(|| EvalError::UnknownName(n.clone()))).collect();
                f(&values?)
            }
            Constraint::And(all) => {
                for c in all {
                    if !c.holds(own, env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Constraint::Or(all) => {
                for c in all {
                    if c.holds(own, env)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// As one expression, unless a closure is part of it.
    pub fn expr(&self, own: &str) -> Option<Expr> {
        let join = |op: BinOp, all: &[Constraint]| {
            let parts: Option<Vec<Expr>> = all.iter().map(|c| c.expr(own)).collect();
            let joined = parts?.into_iter().reduce(|a, b| Expr::Binary(op, Box::new(a), Box::new(b)));
            Some(joined.unwrap_or(Expr::Value(Value::Bool(op == BinOp::And))))
        };
        match self {
            Constraint::Expr(e) => Some(e.clone()),
            Constraint::Alias(alias, e) => Some(alias.expr(own, e)),
            Constraint::Closure { .. } => None,
            Constraint::And(all) => join(BinOp::And, all),
            Constraint::Or(all) => join(BinOp::Or, all),
        }
    }
}

fn truth(v: Value) -> Result<bool, EvalError> {
    match v {
        Value::Bool(b) => Ok(b),
        other => Err(EvalError::Type(format!("`{other}` is not a boolean"))),
    }
}

/// In the notation of the directives, with expressions in that of the language.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, all: &[Constraint], word: &str, none: &str| {
            if all.is_empty() {
                return f.write_str(none);
            }
            for (i, c) in all.iter().enumerate() {
                if i > 0 {
                    write!(f, " {word} ")?;
                }
                match c {
                    Constraint::And(x) | Constraint::Or(x) if x.len() > 1 => write!(f, "({c})")?,
                    Constraint::Expr(Expr::Binary(BinOp::And | BinOp::Or, ..)) => write!(f, "({c})")?,
                    _ => write!(f, "{c}")?,
                }
            }
            Ok(())
        };
        match self {
            Constraint::Expr(e) => write!(f, "{e}"),
            Constraint::Alias(alias, e) => write!(f, "{}({e})", alias.name()),
            Constraint::Closure { reads, .. } => write!(f, "closure({})", reads.join(", ")),
            Constraint::And(all) => join(f, all, "&&", "true"),
            Constraint::Or(all) => join(f, all, "||", "false"),
        }
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constraint({self})")
    }
}

/// Closures are equal to themselves only.
impl PartialEq for Constraint {
    fn eq(&self, other: &Constraint) -> bool {
        match (self, other) {
            (Constraint::Expr(a), Constraint::Expr(b)) => a == b,
            (Constraint::Alias(a, x), Constraint::Alias(b, y)) => a == b && x == y,
            (Constraint::Closure { reads: a, f: x }, Constraint::Closure { reads: b, f: y }) => {
                a == b && Arc::ptr_eq(x, y)
            }
            (Constraint::And(a), Constraint::And(b)) | (Constraint::Or(a), Constraint::Or(b)) => a == b,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn aliases_relate_the_own_value() {
        let v = |n: &str| match n {
            "v" => Some(Value::Int(6)),
            "e" => Some(Value::Int(12)),
            _ => None,
        };
        let holds = |c: Constraint| c.holds("v", &v);
        let e = || parse("e").unwrap();
        assert_eq!(holds(Constraint::divides(e())), Ok(true));
        assert_eq!(holds(Constraint::multiple_of(e())), Ok(false));
        assert_eq!(holds(Constraint::less_than(e())), Ok(true));
        assert_eq!(holds(Constraint::greater_than(e())), Ok(false));
        assert_eq!(holds(Constraint::equal(e())), Ok(false));
        assert_eq!(holds(Constraint::unequal(e())), Ok(true));
        assert_eq!(holds(Constraint::at_most(e())), Ok(true));
        assert_eq!(holds(Constraint::at_least(e())), Ok(false));
    }

    #[test]
    fn later_parts_are_asked_only_where_needed() {
        let zero = |n: &str| (n == "v").then_some(Value::Int(0));
        let fails = || Constraint::divides(parse("12").unwrap());
        let positive = || Constraint::greater_than(parse("0").unwrap());
        assert_eq!(positive().and(fails()).holds("v", &zero), Ok(false));
        assert_eq!(Constraint::at_most(parse("0").unwrap()).or(fails()).holds("v", &zero), Ok(true));
        assert_eq!(fails().holds("v", &zero), Err(EvalError::DivisionByZero));
        assert_eq!(positive().and(fails()).to_string(), "greater_than(0) && divides(12)");
    }

    #[test]
    fn names_are_inspectable() {
        let c = Constraint::divides(parse("N / w").unwrap())
            .and(Constraint::closure(["a", "w"], |v| Ok(v[0] == v[1])));
        assert_eq!(c.names("v"), ["v", "N", "w", "a"]);
        assert!(c.expr("v").is_none());
    }
}
