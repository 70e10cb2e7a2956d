//! The values of a parameter, numbered.

use super::def::{Generator, TuningParameter, ValueRange};
use crate::bind::Values;
use crate::codes;
use crate::eval::eval;
use crate::expr::{EvalError, Expr, Value};
use crate::param::ParamType;
use lathe_diagnostics::Diagnostic;

/// The values of one parameter in their order; none occurs twice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Domain {
    /// `lo + step * i`, kept as that.
    Range {
        lo: i64,
        step: i64,
        n: u32,
    },
    Ints {
        values: Vec<i64>,
        ascending: bool,
    },
    Floats {
        values: Vec<f64>,
        ascending: bool,
    },
    Words(Vec<Value>),
}

/// More values than this are kept only as a plain range of integers.
const LISTED: u64 = 1 << 24;

impl Domain {
    pub fn len(&self) -> u32 {
        match self {
            Domain::Range { n, .. } => *n,
            Domain::Ints { values, .. } => values.len() as u32,
            Domain::Floats { values, .. } => values.len() as u32,
            Domain::Words(values) => values.len() as u32,
        }
    }

    /// The value with a number below `len`.
    pub fn value(&self, i: u32) -> Value {
        match self {
            Domain::Range { lo, step, .. } => Value::Int(lo + step * i64::from(i)),
            Domain::Ints { values, .. } => Value::Int(values[i as usize]),
            Domain::Floats { values, .. } => Value::Float(values[i as usize]),
            Domain::Words(values) => values[i as usize].clone(),
        }
    }

    pub fn position(&self, v: &Value) -> Option<u32> {
        match (self, v) {
            (Domain::Floats { .. }, Value::Int(v)) => self.position(&Value::Float(*v as f64)),
            (_, Value::Int(v)) => self.int_position(*v),
            (Domain::Floats { values, ascending }, Value::Float(v)) => {
                let at = if *ascending {
                    values.binary_search_by(|x| x.total_cmp(v)).ok()
                } else {
                    values.iter().position(|x| x == v)
                };
                at.map(|i| i as u32)
            }
            (Domain::Words(values), v) => values.iter().position(|x| x == v).map(|i| i as u32),
            _ => None,
        }
    }

    pub fn int_position(&self, v: i64) -> Option<u32> {
        match self {
            Domain::Range { lo, step, n } => {
                let away = v.checked_sub(*lo)?;
                let i = away.checked_div(*step)?;
                (i >= 0 && i < i64::from(*n) && i * step == away).then_some(i as u32)
            }
            Domain::Ints { values, ascending: true } => values.binary_search(&v).ok().map(|i| i as u32),
            Domain::Ints { values, .. } => values.iter().position(|x| *x == v).map(|i| i as u32),
            _ => None,
        }
    }

    /// Memory of the listed values.
    pub fn bytes(&self) -> usize {
        match self {
            Domain::Range { .. } => 0,
            Domain::Ints { values, .. } => values.len() * 8,
            Domain::Floats { values, .. } => values.len() * 8,
            Domain::Words(values) => {
                let text = |v: &Value| if let Value::Str(s) = v { s.len() } else { 0 };
                values.iter().map(|v| size_of::<Value>() + text(v)).sum()
            }
        }
    }
}

/// The values of a parameter whose range mentions constants only.
pub(crate) fn domain(p: &TuningParameter, constants: &Values) -> Result<Domain, Diagnostic> {
    let values = match &p.values {
        ValueRange::Set(set) => set.clone(),
        ValueRange::Interval { lo, hi, step, generator } => {
            let at = |e: &Expr| bound(p, e, constants);
            let (lo, hi) = (at(lo)?, at(hi)?);
            let step = step.as_ref().map(at).transpose()?.unwrap_or(Value::Int(1));
            let numbers = interval(p, &lo, &hi, &step)?;
            match generator {
                None if p.ty == ParamType::Int => return not_empty(p, numbers),
                None => listed(p, &numbers)?,
                Some(g) => listed(p, &numbers)?
                    .iter()
                    .map(|i| {
                        apply(g, i, constants)
                            .map_err(|e| unusable(p, format!("the generator {g:?} fails for {i}: {e}")))
                    })
                    .collect::<Result<_, _>>()?,
            }
        }
    };
    not_empty(p, typed(p, values)?)
}

/// What the generator makes of a value.
fn apply(g: &Generator, i: &Value, constants: &Values) -> Result<Value, EvalError> {
    let call = |name: &str, e: &Expr| {
        let own = Expr::Value(i.clone());
        let e = match name {
            "pow" => Expr::Call("pow".into(), vec![e.clone(), own]),
            _ => Expr::Binary(crate::BinOp::Mul, Box::new(e.clone()), Box::new(own)),
        };
        eval(&e, &|n| constants.get(n).cloned())
    };
    match g {
        Generator::Pow(base) => call("pow", base),
        Generator::MultipleOf(n) => call("*", n),
        Generator::Expr { var, body } => {
            eval(body, &|n| if n == var { Some(i.clone()) } else { constants.get(n).cloned() })
        }
        Generator::Closure(f) => f(i),
    }
}

fn bound(p: &TuningParameter, e: &Expr, constants: &Values) -> Result<Value, Diagnostic> {
    eval(e, &|n| constants.get(n).cloned()).map_err(|err| match err {
        EvalError::UnknownName(n) => unknown(&p.name, &n, "range"),
        err => unusable(p, format!("`{e}`: {err}")),
    })
}

/// The error about a name that means nothing in a range or constraint.
pub(crate) fn unknown(param: &str, name: &str, place: &str) -> Diagnostic {
    Diagnostic::error(
        codes::SPACE_UNKNOWN,
        format!("unknown name `{name}` in the {place} of parameter `{param}`"),
    )
    .help("names refer to other parameters and constants; constants need a value before the space is built")
}

/// The error about a range that gives no values.
pub(crate) fn unusable(p: &TuningParameter, why: String) -> Diagnostic {
    Diagnostic::error(codes::SPACE_RANGE, format!("the range of parameter `{}` is unusable: {why}", p.name))
}

/// The values of an interval before the generator.
fn interval(p: &TuningParameter, lo: &Value, hi: &Value, step: &Value) -> Result<Domain, Diagnostic> {
    if let (Value::Int(lo), Value::Int(hi), Value::Int(step)) = (lo, hi, step) {
        if *step == 0 {
            return Err(unusable(p, "its step is 0".into()));
        }
        let way = i128::from(*hi) - i128::from(*lo);
        let n = if (way < 0) == (*step < 0) || way == 0 { way / i128::from(*step) + 1 } else { 0 };
        let n = u32::try_from(n)
            .map_err(|_| unusable(p, format!("it has {n} values, more than {}", u32::MAX)))?;
        return Ok(Domain::Range { lo: *lo, step: *step, n });
    }
    let number = |v: &Value| match v {
        Value::Int(v) => Ok(*v as f64),
        Value::Float(v) if v.is_finite() => Ok(*v),
        other => Err(unusable(p, format!("`{other}` is not a finite number"))),
    };
    let (lo, hi, step) = (number(lo)?, number(hi)?, number(step)?);
    if step == 0.0 {
        return Err(unusable(p, "its step is 0".into()));
    }
    // Counted once: adding up would drift. A last value that misses the end by rounding belongs to it.
    let n = ((hi - lo) / step + 1e-9).floor() + 1.0;
    if n > LISTED as f64 {
        return Err(unusable(p, format!("it has {n} values, more than {LISTED}")));
    }
    let values: Vec<f64> = (0..n.max(0.0) as u64).map(|i| lo + step * i as f64).collect();
    Ok(Domain::Floats { values, ascending: step > 0.0 })
}

fn listed(p: &TuningParameter, d: &Domain) -> Result<Vec<Value>, Diagnostic> {
    if u64::from(d.len()) > LISTED {
        return Err(unusable(p, format!("it has {} values, more than {LISTED}", d.len())));
    }
    Ok((0..d.len()).map(|i| d.value(i)).collect())
}

/// The values in the parameter's type, each once.
fn typed(p: &TuningParameter, values: Vec<Value>) -> Result<Domain, Diagnostic> {
    let wrong = |v: &Value| {
        let word = match p.ty {
            ParamType::Bool => "true or false",
            ParamType::Int => "an integer",
            ParamType::Float => "a number",
            ParamType::Str => "a word",
        };
        unusable(p, format!("`{v}` is not {word}"))
    };
    match p.ty {
        ParamType::Int => {
            let whole = |v: &Value| if let Value::Int(v) = v { Ok(*v) } else { Err(wrong(v)) };
            let values = unique(values.iter().map(whole).collect::<Result<_, _>>()?, |v| *v);
            let ascending = values.is_sorted();
            Ok(Domain::Ints { values, ascending })
        }
        ParamType::Float => {
            let number = |v: &Value| match v {
                Value::Int(v) => Ok(*v as f64),
                Value::Float(v) if !v.is_nan() => Ok(*v + 0.0),
                v => Err(wrong(v)),
            };
            let values = unique(values.iter().map(number).collect::<Result<_, _>>()?, |v: &f64| v.to_bits());
            let ascending = values.is_sorted();
            Ok(Domain::Floats { values, ascending })
        }
        ParamType::Bool | ParamType::Str => {
            if let Some(v) = values.iter().find(|v| match v {
                Value::Bool(_) => p.ty != ParamType::Bool,
                Value::Str(_) => p.ty != ParamType::Str,
                _ => true,
            }) {
                return Err(wrong(v));
            }
            Ok(Domain::Words(unique(values, Value::to_string)))
        }
    }
}

/// The first occurrences.
fn unique<T, K: Ord>(values: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = std::collections::BTreeSet::new();
    values.into_iter().filter(|v| seen.insert(key(v))).collect()
}

fn not_empty(p: &TuningParameter, d: Domain) -> Result<Domain, Diagnostic> {
    if d.len() == 0 {
        return Err(unusable(p, "it is empty".into()));
    }
    Ok(d)
}
