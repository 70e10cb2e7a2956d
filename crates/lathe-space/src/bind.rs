//! Binding: every parameter gets a value, from the user or its default, within its range and the constraints.

use crate::codes;
use crate::eval::{Env, eval, names, reduce};
use crate::expr::{EvalError, Expr, Value};
use crate::param::{ParamType, Parameter, Range};
use lathe_diagnostics::Diagnostic;
use std::collections::BTreeMap;

/// Values of parameters by name.
pub type Values = BTreeMap<String, Value>;

/// What binding gives: a value for every parameter, and the conditions that could not be decided because
/// they mention names that are not known yet (sizes).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bound {
    pub values: Values,
    pub open: Vec<Expr>,
}

/// Gives every parameter the value set in `given`, or else its default; checks ranges and constraints.
/// `facts` knows machine facts, and sizes where they are known; `of` names the owner in messages.
pub fn bind(
    of: &str,
    params: &[Parameter],
    constraints: &[Expr],
    given: &Values,
    facts: &Env,
) -> Result<Bound, Diagnostic> {
    if let Some(unknown) = given.keys().find(|k| !params.iter().any(|p| p.name == **k)) {
        let known: Vec<String> = params.iter().map(|p| format!("`{}`", p.name)).collect();
        let d = Diagnostic::error(codes::PARAMETER, format!("{of} has no parameter `{unknown}`"));
        return Err(if known.is_empty() {
            d.help("it has no parameters")
        } else {
            d.help(format!("its parameters: {}", known.join(", ")))
        });
    }
    let mut out = Bound::default();
    for p in params {
        let value = match (given.get(&p.name), &p.default) {
            (Some(v), _) => typed(of, p, v.clone())?,
            (None, Some(default)) => {
                let v = eval(default, &|n| out.values.get(n).cloned().or_else(|| facts(n))).map_err(|e| {
                    Diagnostic::error(
                        codes::PARAMETER,
                        format!("the default of parameter `{}` of {of}, `{default}`: {e}", p.name),
                    )
                })?;
                typed(of, p, v)?
            }
            (None, None) => {
                let d = Diagnostic::error(codes::PARAMETER, format!("{of} needs a value for `{}`", p.name));
                return Err(d.help(format!("set it, for example with `--param {}=…`", p.name)));
            }
        };
        out.values.insert(p.name.clone(), value);
        if let Some(range) = &p.range {
            check_range(of, p, range, &mut out, facts)?;
        }
    }
    for c in constraints {
        let result = eval(c, &|n| out.values.get(n).cloned().or_else(|| facts(n)));
        match result {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => {
                let parts: Vec<String> = names(c)
                    .into_iter()
                    .filter_map(|n| {
                        out.values.get(&n).cloned().or_else(|| facts(&n)).map(|v| format!("{n} = {v}"))
                    })
                    .collect();
                return Err(Diagnostic::error(
                    codes::CONSTRAINT,
                    format!("{of} requires `{c}`, which does not hold for {}", parts.join(", ")),
                ));
            }
            Ok(v) => {
                let text = format!("the constraint `{c}` of {of} is `{v}`, not a boolean");
                return Err(Diagnostic::error(codes::CONSTRAINT, text));
            }
            // What is left mentions sizes: it is asked at the call, with the parameters filled in.
            Err(EvalError::UnknownName(_)) => {
                let known = |n: &str| out.values.get(n).cloned().or_else(|| facts(n)).map(Expr::Value);
                let rest = reduce(c, &known).map_err(|e| {
                    Diagnostic::error(codes::CONSTRAINT, format!("the constraint `{c}` of {of}: {e}"))
                })?;
                out.open.push(rest);
            }
            Err(e) => {
                return Err(Diagnostic::error(
                    codes::CONSTRAINT,
                    format!("the constraint `{c}` of {of}: {e}"),
                ));
            }
        }
    }
    Ok(out)
}

/// The value in the parameter's type; integers are floats where floats are wanted.
fn typed(of: &str, p: &Parameter, v: Value) -> Result<Value, Diagnostic> {
    let word = match (p.ty, &v) {
        (ParamType::Bool, Value::Bool(_))
        | (ParamType::Int, Value::Int(_))
        | (ParamType::Float, Value::Float(_))
        | (ParamType::Str, Value::Str(_)) => return Ok(v),
        (ParamType::Float, Value::Int(i)) => return Ok(Value::Float(*i as f64)),
        (ParamType::Bool, _) => "true or false",
        (ParamType::Int, _) => "an integer",
        (ParamType::Float, _) => "a number",
        (ParamType::Str, _) => "a word",
    };
    Err(Diagnostic::error(codes::PARAMETER, format!("parameter `{}` of {of} is {word}, not `{v}`", p.name)))
}

fn check_range(
    of: &str,
    p: &Parameter,
    range: &Range,
    out: &mut Bound,
    facts: &Env,
) -> Result<(), Diagnostic> {
    let v = out.values.get(&p.name).cloned().unwrap_or(Value::Bool(false));
    let outside = |what: String| {
        let text = format!("parameter `{}` of {of} cannot be {v}: it is {what}", p.name);
        Err(Diagnostic::error(codes::RANGE, text))
    };
    match range {
        Range::Set(set) if set.contains(&v) => Ok(()),
        Range::Set(set) => {
            let all: Vec<String> = set.iter().map(Value::to_string).collect();
            outside(format!("one of {}", all.join(", ")))
        }
        Range::Interval { lo, hi, step } => {
            let values = out.values.clone();
            let at = |e: &Expr| match eval(e, &|n| values.get(n).cloned().or_else(|| facts(n))) {
                Ok(v) => Ok(Some(v)),
                Err(EvalError::UnknownName(_)) => Ok(None),
                Err(err) => {
                    let text = format!("the range of parameter `{}` of {of}, `{e}`: {err}", p.name);
                    Err(Diagnostic::error(codes::RANGE, text))
                }
            };
            let (low, high) = (at(lo)?, at(hi)?);
            let step = step.as_ref().map(at).transpose()?.flatten();
            let number = |v: &Value| match v {
                Value::Int(v) => Some(*v as f64),
                Value::Float(v) => Some(*v),
                _ => None,
            };
            let below = low.as_ref().is_some_and(|l| number(&v) < number(l));
            let above = high.as_ref().is_some_and(|h| number(&v) > number(h));
            let between = match (&v, &low, &step) {
                (Value::Int(v), Some(Value::Int(l)), Some(Value::Int(s))) if *s > 0 => {
                    v.checked_sub(*l).is_none_or(|d| d % s != 0)
                }
                _ => false,
            };
            if below || above || between {
                let step = step.map_or(String::new(), |s| format!(" in steps of {s}"));
                return outside(format!("between {lo} and {hi}{step}"));
            }
            let me = Expr::Name(p.name.clone());
            let ge = |a: Expr, b: &Expr| Expr::Binary(crate::BinOp::Ge, Box::new(a), Box::new(b.clone()));
            if low.is_none() {
                out.open.push(ge(me.clone(), lo));
            }
            if high.is_none() {
                out.open.push(ge(hi.clone(), &me));
            }
            Ok(())
        }
    }
}

/// Reads a value as it is on a command line: `64`, `0.5`, `true`, or a word.
pub fn parse_value(text: &str) -> Value {
    match crate::parse::parse(text) {
        Ok(Expr::Value(v)) if !matches!(v, Value::Str(_)) => v,
        _ => Value::Str(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn params() -> Vec<Parameter> {
        let range = |lo: &str, hi: &str, step: &str| {
            Some(Range::Interval {
                lo: parse(lo).unwrap(),
                hi: parse(hi).unwrap(),
                step: Some(parse(step).unwrap()),
            })
        };
        let int = |name: &str, default: &str, range| Parameter {
            name: name.into(),
            ty: ParamType::Int,
            default: Some(parse(default).unwrap()),
            range,
        };
        vec![int("ti", "64", range("16", "256", "16")), int("tj", "ti // 2", range("16", "N", "16"))]
    }

    fn run(given: &[(&str, i64)], n: Option<i64>) -> Result<Bound, Diagnostic> {
        let given = given.iter().map(|(k, v)| (k.to_string(), Value::Int(*v))).collect();
        let facts = |name: &str| if name == "N" { n.map(Value::Int) } else { None };
        let constraints = [parse("ti * tj <= 4096").unwrap()];
        bind("strategy `tiled`", &params(), &constraints, &given, &facts)
    }

    #[test]
    fn defaults_and_overrides() {
        let b = run(&[], Some(100)).unwrap();
        assert_eq!(b.values["tj"], Value::Int(32));
        assert!(b.open.is_empty());
        let b = run(&[("ti", 32)], None).unwrap();
        assert_eq!(b.values["tj"], Value::Int(16));
        assert_eq!(b.open.len(), 1, "the bound N is not known yet");
    }

    #[test]
    fn wrong_values_are_named() {
        let d = run(&[("tk", 1)], None).unwrap_err();
        assert!(d.code == codes::PARAMETER && d.message.contains("`tk`"), "{d:?}");
        let d = run(&[("ti", 20)], None).unwrap_err();
        assert!(d.code == codes::RANGE && d.message.contains("`ti`") && d.message.contains("20"), "{d:?}");
        let d = run(&[("ti", 512)], None).unwrap_err();
        assert!(d.code == codes::RANGE && d.message.contains("512"), "{d:?}");
        let d = run(&[("ti", 256), ("tj", 32)], Some(64)).unwrap_err();
        assert_eq!(d.code, codes::CONSTRAINT, "{d:?}");
        let named = d.message.contains("`ti * tj <= 4096`") && d.message.contains("ti = 256, tj = 32");
        assert!(named, "{d:?}");
    }

    #[test]
    fn values_of_the_command_line() {
        assert_eq!(parse_value("64"), Value::Int(64));
        assert_eq!(parse_value("-0.5"), Value::Float(-0.5));
        assert_eq!(parse_value("true"), Value::Bool(true));
        assert_eq!(parse_value("row"), Value::Str("row".into()));
    }
}
