//! What a search space is made of: parameters with ranges and constraints, and constants.

use super::constraint::Constraint;
use crate::bind::Values;
use crate::expr::{EvalError, Expr, Value};
use crate::param::ParamType;
use std::fmt;
use std::sync::Arc;

/// A search space as its author writes it: parameters in the order of their declaration, and what other names
/// in ranges and constraints stand for (sizes, arguments; machine facts by their text, like `vector(f32)`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpaceDef {
    pub params: Vec<TuningParameter>,
    pub constants: Values,
}

/// One tuning parameter: a name, a finite sequence of values of one type, and a constraint on them.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningParameter {
    pub name: String,
    /// The type of the values, after the generator.
    pub ty: ParamType,
    pub values: ValueRange,
    /// Holds for every value that a configuration may give the parameter; may mention other parameters, also
    /// later ones, as long as there is no cycle.
    pub constraint: Option<Constraint>,
    /// The value of the untuned program, where a format tells it. It need not be valid.
    pub default: Option<Value>,
    pub scale: Scale,
}

/// The values of a parameter, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueRange {
    /// `lo`, `lo + step`, ... up to and with `hi`; with a generator, what it makes of them. The bounds may mention
    /// constants and, without a generator, other parameters.
    Interval { lo: Expr, hi: Expr, step: Option<Expr>, generator: Option<Generator> },
    /// As listed; a value listed twice counts once.
    Set(Vec<Value>),
}

/// The function of an expression in one variable, or of Rust code.
#[derive(Clone)]
pub enum Generator {
    /// `pow(b)`: `i` becomes `b` to the power of `i`.
    Pow(Expr),
    /// `multiple_of(n)`: `i` becomes `n * i`.
    MultipleOf(Expr),
    /// `body`, in which `var` stands for `i`.
    Expr {
        var: String,
        body: Expr,
    },
    Closure(GeneratorFn),
}

/// A generator in Rust.
pub type GeneratorFn = Arc<dyn Fn(&Value) -> Result<Value, EvalError> + Send + Sync>;

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Generator::Pow(e) => write!(f, "pow({e})"),
            Generator::MultipleOf(e) => write!(f, "multiple_of({e})"),
            Generator::Expr { var, body } => write!(f, "({var}) -> {body}"),
            Generator::Closure(_) => f.write_str("(closure)"),
        }
    }
}

/// Closures are equal to themselves only.
impl PartialEq for Generator {
    fn eq(&self, other: &Generator) -> bool {
        match (self, other) {
            (Generator::Pow(a), Generator::Pow(b)) | (Generator::MultipleOf(a), Generator::MultipleOf(b)) => {
                a == b
            }
            (Generator::Expr { var: a, body: x }, Generator::Expr { var: b, body: y }) => a == b && x == y,
            (Generator::Closure(a), Generator::Closure(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// How a search may treat the values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Numbers whose differences mean something.
    Linear,
    /// Positive numbers whose quotients mean something: powers, geometric sequences.
    Ratio,
    /// No value is nearer to one than to another.
    Category,
}

impl SpaceDef {
    pub fn new() -> SpaceDef {
        SpaceDef::default()
    }

    /// Adds a constant.
    pub fn constant(mut self, name: impl Into<String>, value: Value) -> SpaceDef {
        self.constants.insert(name.into(), value);
        self
    }

    /// Adds a parameter.
    pub fn param(mut self, p: TuningParameter) -> SpaceDef {
        self.params.push(p);
        self
    }
}

impl TuningParameter {
    /// A parameter with a derived scale, without constraint and default.
    pub fn new(name: impl Into<String>, ty: ParamType, values: ValueRange) -> TuningParameter {
        let scale = derived_scale(ty, &values);
        TuningParameter { name: name.into(), ty, values, constraint: None, default: None, scale }
    }

    /// Integers from `lo` to `hi`.
    pub fn int(name: impl Into<String>, lo: i64, hi: i64) -> TuningParameter {
        let at = |v| Expr::Value(Value::Int(v));
        let values = ValueRange::Interval { lo: at(lo), hi: at(hi), step: None, generator: None };
        TuningParameter::new(name, ParamType::Int, values)
    }

    /// Listed integers.
    pub fn ints(name: impl Into<String>, values: impl IntoIterator<Item = i64>) -> TuningParameter {
        let values = values.into_iter().map(Value::Int).collect();
        TuningParameter::new(name, ParamType::Int, ValueRange::Set(values))
    }

    /// Listed numbers.
    pub fn floats(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> TuningParameter {
        let values = values.into_iter().map(Value::Float).collect();
        TuningParameter::new(name, ParamType::Float, ValueRange::Set(values))
    }

    /// `false` and `true`.
    pub fn bool(name: impl Into<String>) -> TuningParameter {
        let values = ValueRange::Set(vec![Value::Bool(false), Value::Bool(true)]);
        TuningParameter::new(name, ParamType::Bool, values)
    }

    /// Listed words.
    pub fn strings<S: Into<String>>(
        name: impl Into<String>,
        values: impl IntoIterator<Item = S>,
    ) -> TuningParameter {
        let values = values.into_iter().map(|s| Value::Str(s.into())).collect();
        TuningParameter::new(name, ParamType::Str, ValueRange::Set(values))
    }

    /// Adds a constraint to those that are there.
    pub fn such_that(mut self, c: Constraint) -> TuningParameter {
        self.constraint = Some(match self.constraint {
            None => c,
            Some(old) => old.and(c),
        });
        self
    }

    pub fn with_default(mut self, v: Value) -> TuningParameter {
        self.default = Some(v);
        self
    }

    pub fn with_scale(mut self, scale: Scale) -> TuningParameter {
        self.scale = scale;
        self
    }
}

/// Powers and geometric sets are ratios, other numbers linear, words and truth values categories.
pub fn derived_scale(ty: ParamType, values: &ValueRange) -> Scale {
    match (ty, values) {
        (ParamType::Bool | ParamType::Str, _) => Scale::Category,
        (_, ValueRange::Interval { generator: Some(Generator::Pow(_)), .. }) => Scale::Ratio,
        (_, ValueRange::Set(set)) if geometric(set) => Scale::Ratio,
        _ => Scale::Linear,
    }
}

/// At least three positive numbers with the same quotient, not 1, between neighbours.
fn geometric(set: &[Value]) -> bool {
    let numbers: Option<Vec<f64>> = set
        .iter()
        .map(|v| match v {
            Value::Int(v) if *v > 0 => Some(*v as f64),
            Value::Float(v) if *v > 0.0 && v.is_finite() => Some(*v),
            _ => None,
        })
        .collect();
    let Some(n) = numbers.filter(|n| n.len() >= 3) else { return false };
    let q = n[1] / n[0];
    q != 1.0 && n.windows(2).all(|w| (w[1] / w[0] / q - 1.0).abs() < 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_derived() {
        assert_eq!(TuningParameter::ints("a", [1, 2, 4, 8]).scale, Scale::Ratio);
        assert_eq!(TuningParameter::ints("a", [1, 2, 3]).scale, Scale::Linear);
        assert_eq!(TuningParameter::ints("a", [0, 1]).scale, Scale::Linear);
        assert_eq!(TuningParameter::floats("a", [0.1, 0.3, 0.9]).scale, Scale::Ratio);
        assert_eq!(TuningParameter::bool("a").scale, Scale::Category);
        assert_eq!(TuningParameter::strings("a", ["x", "y"]).scale, Scale::Category);
    }
}
