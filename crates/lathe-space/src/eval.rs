//! Evaluation of expressions: checked arithmetic, exact division, a few functions.

use crate::expr::{BinOp, EvalError, Expr, UnOp, Value};

/// What names stand for. Machine facts are looked up by their text, for example `vector(f32)`.
pub type Env<'a> = dyn Fn(&str) -> Option<Value> + 'a;

/// The functions that [`eval`] knows, with the number of their arguments (`None`: one or more).
pub const FUNCTIONS: &[(&str, Option<usize>)] = &[
    ("min", None),
    ("max", None),
    ("abs", Some(1)),
    // `divides(a, b)`: `a` divides `b`.
    ("divides", Some(2)),
    // `is_multiple(a, b)`: `a` is a multiple of `b`.
    ("is_multiple", Some(2)),
    ("ceil_div", Some(2)),
    ("is_power_of_two", Some(1)),
    // `pow(b, e)`: `b` to the power of `e`; for integers `e` is not negative.
    ("pow", Some(2)),
    // `int(x)`: 1 for true, 0 for false, a number without its fraction.
    ("int", Some(1)),
];

/// The value of an expression. Integers that overflow 64 bits, divisions by zero and inexact `/` are errors.
pub fn eval(e: &Expr, env: &Env) -> Result<Value, EvalError> {
    match e {
        Expr::Value(v) => Ok(v.clone()),
        Expr::Name(n) => env(n).ok_or_else(|| EvalError::UnknownName(n.clone())),
        Expr::Unary(op, a) => unary(*op, eval(a, env)?),
        Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
            let left = boolean(eval(a, env)?)?;
            // The right side may be undefined where the left one decides.
            if left == (*op == BinOp::Or) {
                Ok(Value::Bool(left))
            } else {
                Ok(Value::Bool(boolean(eval(b, env)?)?))
            }
        }
        Expr::Binary(op, a, b) => binary(*op, eval(a, env)?, eval(b, env)?),
        Expr::Call(name, args) => {
            let Some((_, arity)) = FUNCTIONS.iter().find(|f| f.0 == name) else {
                return env(&e.to_string()).ok_or_else(|| EvalError::UnknownFunction(name.clone()));
            };
            if args.is_empty() || arity.is_some_and(|n| n != args.len()) {
                let wanted = arity.map_or("at least 1".to_string(), |n| n.to_string());
                return Err(EvalError::Type(format!(
                    "`{name}` takes {wanted} arguments, not {}",
                    args.len()
                )));
            }
            let values = args.iter().map(|a| eval(a, env)).collect::<Result<Vec<_>, _>>()?;
            call(name, values)
        }
    }
}

/// As much of an expression as the environment decides: names that it knows are replaced, what is then
/// constant is computed, the rest stays. A dotted name (`loop.o`) whose beginning stands for a name gets that.
pub fn reduce(e: &Expr, env: &dyn Fn(&str) -> Option<Expr>) -> Result<Expr, EvalError> {
    let fold = |e: Expr, constant: bool| {
        if constant { Ok(Expr::Value(eval(&e, &|_| None)?)) } else { Ok(e) }
    };
    let is_value = |e: &Expr| matches!(e, Expr::Value(_));
    match e {
        Expr::Value(_) => Ok(e.clone()),
        Expr::Name(n) => Ok(reduce_name(n, env).unwrap_or_else(|| e.clone())),
        Expr::Unary(op, a) => {
            let a = reduce(a, env)?;
            let constant = is_value(&a);
            fold(Expr::Unary(*op, Box::new(a)), constant)
        }
        Expr::Binary(op, a, b) => {
            let (a, b) = (reduce(a, env)?, reduce(b, env)?);
            match (op, &a, &b) {
                (BinOp::And, Expr::Value(Value::Bool(v)), _) => return Ok(if *v { b } else { a }),
                (BinOp::Or, Expr::Value(Value::Bool(v)), _) => return Ok(if *v { a } else { b }),
                _ => {}
            }
            let constant = is_value(&a) && is_value(&b);
            fold(Expr::Binary(*op, Box::new(a), Box::new(b)), constant)
        }
        Expr::Call(name, args) => {
            if let Some(fact) = env(&e.to_string()) {
                return Ok(fact);
            }
            let args = args.iter().map(|a| reduce(a, env)).collect::<Result<Vec<_>, _>>()?;
            let known = FUNCTIONS.iter().any(|f| f.0 == name);
            let constant = known && args.iter().all(is_value);
            fold(Expr::Call(name.clone(), args), constant)
        }
    }
}

/// What a name, or the beginning of a dotted name, stands for.
pub fn reduce_name(n: &str, env: &dyn Fn(&str) -> Option<Expr>) -> Option<Expr> {
    if let Some(e) = env(n) {
        return Some(e);
    }
    n.match_indices('.').rev().find_map(|(p, _)| match env(&n[..p]) {
        Some(Expr::Name(base)) => Some(Expr::Name(format!("{base}{}", &n[p..]))),
        Some(Expr::Value(Value::Str(base))) => Some(Expr::Name(format!("{base}{}", &n[p..]))),
        _ => None,
    })
}

/// Names (not functions) that occur in an expression, each once, in order.
pub fn names(e: &Expr) -> Vec<String> {
    fn go(e: &Expr, out: &mut Vec<String>) {
        match e {
            Expr::Value(_) => {}
            Expr::Name(n) => {
                if !out.contains(n) {
                    out.push(n.clone());
                }
            }
            Expr::Unary(_, a) => go(a, out),
            Expr::Binary(_, a, b) => {
                go(a, out);
                go(b, out);
            }
            Expr::Call(_, args) => args.iter().for_each(|a| go(a, out)),
        }
    }
    let mut out = Vec::new();
    go(e, &mut out);
    out
}

fn boolean(v: Value) -> Result<bool, EvalError> {
    match v {
        Value::Bool(b) => Ok(b),
        other => Err(EvalError::Type(format!("`{other}` is not a boolean"))),
    }
}

fn unary(op: UnOp, v: Value) -> Result<Value, EvalError> {
    match (op, v) {
        (UnOp::Neg, Value::Int(v)) => v.checked_neg().map(Value::Int).ok_or(EvalError::Overflow),
        (UnOp::Neg, Value::Float(v)) => Ok(Value::Float(-v)),
        (UnOp::Not, Value::Bool(v)) => Ok(Value::Bool(!v)),
        (UnOp::Neg, v) => Err(EvalError::Type(format!("`{v}` is not a number"))),
        (UnOp::Not, v) => Err(EvalError::Type(format!("`{v}` is not a boolean"))),
    }
}

fn binary(op: BinOp, a: Value, b: Value) -> Result<Value, EvalError> {
    use std::cmp::Ordering;
    let compare = |o: Option<Ordering>| {
        let Some(o) = o else { return Ok(Value::Bool(op == BinOp::Ne)) };
        match op {
            BinOp::Eq => Ok(Value::Bool(o.is_eq())),
            BinOp::Ne => Ok(Value::Bool(o.is_ne())),
            BinOp::Lt => Ok(Value::Bool(o.is_lt())),
            BinOp::Le => Ok(Value::Bool(o.is_le())),
            BinOp::Gt => Ok(Value::Bool(o.is_gt())),
            BinOp::Ge => Ok(Value::Bool(o.is_ge())),
            _ => Err(EvalError::Type(format!("`{a} {} {b}` has no meaning", op.symbol()))),
        }
    };
    match (&a, &b) {
        (Value::Int(x), Value::Int(y)) => integers(op, *x, *y).unwrap_or_else(|| compare(Some(x.cmp(y)))),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let (x, y) = (number(&a), number(&b));
            Ok(Value::Float(match op {
                BinOp::Add => x + y,
                BinOp::Sub => x - y,
                BinOp::Mul => x * y,
                BinOp::Div | BinOp::FloorDiv | BinOp::Mod if y == 0.0 => {
                    return Err(EvalError::DivisionByZero);
                }
                BinOp::Div => x / y,
                BinOp::FloorDiv => (x / y).floor(),
                BinOp::Mod => remainder(x, y),
                _ => return compare(x.partial_cmp(&y)),
            }))
        }
        (Value::Bool(x), Value::Bool(y)) if matches!(op, BinOp::Eq | BinOp::Ne) => compare(Some(x.cmp(y))),
        (Value::Str(x), Value::Str(y)) if matches!(op, BinOp::Eq | BinOp::Ne) => compare(Some(x.cmp(y))),
        _ => Err(EvalError::Type(format!("`{a} {} {b}` has no meaning", op.symbol()))),
    }
}

/// Arithmetic on integers; `None` for comparisons.
fn integers(op: BinOp, x: i64, y: i64) -> Option<Result<Value, EvalError>> {
    let checked = |v: Option<i64>| v.map(Value::Int).ok_or(EvalError::Overflow);
    Some(match op {
        BinOp::Add => checked(x.checked_add(y)),
        BinOp::Sub => checked(x.checked_sub(y)),
        BinOp::Mul => checked(x.checked_mul(y)),
        BinOp::Div | BinOp::FloorDiv | BinOp::Mod if y == 0 => Err(EvalError::DivisionByZero),
        BinOp::Div => match x.checked_rem(y) {
            Some(0) => checked(x.checked_div(y)),
            Some(_) => Err(EvalError::Type(format!("`{x} / {y}` has a remainder; `//` rounds down"))),
            None => Err(EvalError::Overflow),
        },
        BinOp::FloorDiv => checked(floor_div(x, y)),
        BinOp::Mod => checked(floor_div(x, y).and_then(|q| x.checked_sub(q.checked_mul(y)?))),
        _ => return None,
    })
}

/// Rounded down; `None` where there is no such number.
pub(crate) fn floor_div(x: i64, y: i64) -> Option<i64> {
    let (q, r) = (x.checked_div(y)?, x.checked_rem(y)?);
    Some(if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q })
}

/// As for integers: with the sign of the divisor. Exact, unlike `x - y * floor(x / y)`.
fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}

fn number(v: &Value) -> f64 {
    match v {
        Value::Int(v) => *v as f64,
        Value::Float(v) => *v,
        Value::Bool(_) | Value::Str(_) => f64::NAN,
    }
}

fn call(name: &str, args: Vec<Value>) -> Result<Value, EvalError> {
    let whole = |v: &Value| match v {
        Value::Int(v) => Ok(*v),
        other => Err(EvalError::Type(format!("`{name}` is for integers, not `{other}`"))),
    };
    match name {
        "min" | "max" => {
            let op = if name == "min" { BinOp::Lt } else { BinOp::Gt };
            let mut it = args.into_iter();
            let first = it.next().ok_or_else(|| EvalError::UnknownFunction(name.to_string()))?;
            it.try_fold(first, |best, v| {
                Ok(if binary(op, v.clone(), best.clone())? == Value::Bool(true) { v } else { best })
            })
        }
        "abs" => match &args[0] {
            Value::Int(v) => v.checked_abs().map(Value::Int).ok_or(EvalError::Overflow),
            Value::Float(v) => Ok(Value::Float(v.abs())),
            other => Err(EvalError::Type(format!("`{other}` is not a number"))),
        },
        "divides" | "is_multiple" => {
            let (divisor, v) = if name == "divides" { (&args[0], &args[1]) } else { (&args[1], &args[0]) };
            match (divisor, v) {
                (Value::Int(d), Value::Int(v)) if *d != 0 => {
                    Ok(Value::Bool(v.checked_rem(*d).unwrap_or(0) == 0))
                }
                (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                    let (d, v) = (number(divisor), number(v));
                    if d == 0.0 { Err(EvalError::DivisionByZero) } else { Ok(Value::Bool(v % d == 0.0)) }
                }
                (a, b) => Err(EvalError::Type(format!("`{name}` is for numbers, not `{a}` and `{b}`"))),
            }
        }
        "ceil_div" => {
            let (a, b) = (whole(&args[0])?, whole(&args[1])?);
            if b == 0 {
                return Err(EvalError::DivisionByZero);
            }
            let down = a.checked_neg().and_then(|a| floor_div(a, b)).and_then(i64::checked_neg);
            down.map(Value::Int).ok_or(EvalError::Overflow)
        }
        "is_power_of_two" => {
            let v = whole(&args[0])?;
            Ok(Value::Bool(v > 0 && (v as u64).is_power_of_two()))
        }
        "pow" => match (&args[0], &args[1]) {
            (Value::Int(b), Value::Int(e)) => power(*b, *e).map(Value::Int),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                Ok(Value::Float(number(&args[0]).powf(number(&args[1]))))
            }
            (b, e) => Err(EvalError::Type(format!("`pow({b}, {e})` has no meaning"))),
        },
        "int" => match &args[0] {
            Value::Int(v) => Ok(Value::Int(*v)),
            Value::Bool(v) => Ok(Value::Int(i64::from(*v))),
            // Both ends are exact: -2^63 fits, 2^63 does not.
            Value::Float(v) if *v >= i64::MIN as f64 && *v < -(i64::MIN as f64) => Ok(Value::Int(*v as i64)),
            Value::Float(_) => Err(EvalError::Overflow),
            other => Err(EvalError::Type(format!("`int({other})` has no meaning"))),
        },
        _ => Err(EvalError::UnknownFunction(name.to_string())),
    }
}

/// `b` to the power of a non-negative `e`.
pub(crate) fn power(b: i64, e: i64) -> Result<i64, EvalError> {
    if e < 0 {
        return Err(EvalError::Type(format!("`pow({b}, {e})` is not an integer")));
    }
    match b {
        0 | 1 => Ok(if e == 0 { 1 } else { b }),
        -1 => Ok(if e % 2 == 0 { 1 } else { -1 }),
        _ => u32::try_from(e).ok().and_then(|e| b.checked_pow(e)).ok_or(EvalError::Overflow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn value(text: &str) -> Result<Value, EvalError> {
        let env = |n: &str| match n {
            "N" => Some(Value::Int(10)),
            "vector(f32)" => Some(Value::Int(16)),
            _ => None,
        };
        eval(&parse(text).unwrap(), &env)
    }

    #[test]
    fn arithmetic_is_exact_or_an_error() {
        assert_eq!(value("N * 3 - 4"), Ok(Value::Int(26)));
        assert_eq!(value("-7 // 2"), Ok(Value::Int(-4)));
        assert_eq!(value("-7 % 2"), Ok(Value::Int(1)));
        for (text, wanted) in [
            ("7.5 % 2", 1.5),
            ("-7.5 % 2", 0.5),
            ("7.5 % -2.0", -0.5),
            ("6.0 % 2.0", 0.0),
            ("1e300 % 0.75", 0.0),
        ] {
            assert_eq!(value(text), Ok(Value::Float(wanted)), "{text}");
        }
        assert_eq!(value("1.5 % 0.0"), Err(EvalError::DivisionByZero));
        assert_eq!(value("divides(1.5, 4.5) and not is_multiple(4.5, 2)"), Ok(Value::Bool(true)));
        assert_eq!(value("N / 5"), Ok(Value::Int(2)));
        assert!(matches!(value("N / 3"), Err(EvalError::Type(_))));
        assert_eq!(value("1 // 0"), Err(EvalError::DivisionByZero));
        assert_eq!(value("9223372036854775807 + 1"), Err(EvalError::Overflow));
        assert_eq!(value("M + 1"), Err(EvalError::UnknownName("M".into())));
    }

    #[test]
    fn functions_and_facts() {
        assert_eq!(value("min(N, 4, 7)"), Ok(Value::Int(4)));
        assert_eq!(value("divides(5, N) and not is_multiple(N, 3)"), Ok(Value::Bool(true)));
        assert_eq!(value("ceil_div(N, 4) * vector(f32)"), Ok(Value::Int(48)));
        assert_eq!(value("N > 3 or 1 // 0 == 1"), Ok(Value::Bool(true)));
        assert_eq!(value("pow(2, N) + int(N > 3) + int(-2.5)"), Ok(Value::Int(1023)));
        assert_eq!(value("pow(3, 1000)"), Err(EvalError::Overflow));
        assert_eq!(value("pow(-1, 1000000000000)"), Ok(Value::Int(1)));
        assert_eq!(value("frob(1)"), Err(EvalError::UnknownFunction("frob".into())));
    }

    #[test]
    fn what_is_unknown_stays() {
        let env = |n: &str| match n {
            "T" => Some(Expr::Value(Value::Int(8))),
            "l" => Some(Expr::Name("i.o".into())),
            _ => None,
        };
        let reduced = |text: &str| reduce(&parse(text).unwrap(), &env).unwrap().to_string();
        assert_eq!(reduced("T * 2"), "16");
        assert_eq!(reduced("l.i"), "i.o.i");
        assert_eq!(reduced("x + T * t"), "x + 8 * t");
        assert_eq!(reduced("pad(0, T)"), "pad(0, 8)");
    }
}
