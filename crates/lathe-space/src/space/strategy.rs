//! The parameters of a strategy as a search space.

use super::constraint::Constraint;
use super::def::{SpaceDef, TuningParameter, ValueRange};
use crate::bind::Values;
use crate::codes;
use crate::eval::{Env, FUNCTIONS, eval, names};
use crate::expr::{Expr, Value};
use crate::param::{Parameter, Range};
use lathe_diagnostics::Diagnostic;

/// The space of a strategy's parameters. `facts` knows sizes and machine facts, as for [`crate::bind()`].
///
/// Parameters without a range keep their default (with the defaults of those it mentions); each constraint
/// belongs to the last parameter that it mentions. Errors: a parameter with neither range nor default, and a
/// default that cannot be evaluated.
pub fn strategy_space(
    of: &str,
    params: &[Parameter],
    constraints: &[Expr],
    facts: &Env,
) -> Result<SpaceDef, Diagnostic> {
    let mut def = SpaceDef::new();
    let mut defaults = Values::new();
    for p in params {
        let default = match &p.default {
            None => None,
            Some(e) => {
                let v = eval(e, &|n| defaults.get(n).cloned().or_else(|| facts(n))).map_err(|err| {
                    let text = format!("the default of parameter `{}` of {of}, `{e}`: {err}", p.name);
                    Diagnostic::error(codes::PARAMETER, text)
                })?;
                defaults.insert(p.name.clone(), v.clone());
                Some(v)
            }
        };
        let values = match (&p.range, &default) {
            (Some(Range::Set(set)), _) => ValueRange::Set(set.clone()),
            (Some(Range::Interval { lo, hi, step }), _) => {
                ValueRange::Interval { lo: lo.clone(), hi: hi.clone(), step: step.clone(), generator: None }
            }
            (None, Some(v)) => ValueRange::Set(vec![v.clone()]),
            (None, None) => {
                let text = format!("parameter `{}` of {of} has neither a range nor a default", p.name);
                return Err(Diagnostic::error(codes::PARAMETER, text)
                    .help("give it a range, for example `in 8..=64 step 8`, or set its value"));
            }
        };
        let mut t = TuningParameter::new(p.name.clone(), p.ty, values);
        t.default = default;
        def.params.push(t);
    }
    for c in constraints {
        let mentioned = names(c);
        let last = def.params.iter().rposition(|p| mentioned.contains(&p.name)).unwrap_or(0);
        if let Some(p) = def.params.get_mut(last) {
            *p = p.clone().such_that(Constraint::Expr(c.clone()));
        } else if eval(c, facts) == Ok(Value::Bool(false)) {
            let text = format!("{of} requires `{c}`, which does not hold");
            return Err(Diagnostic::error(codes::CONSTRAINT, text));
        }
    }
    let mut known = Values::new();
    for p in params {
        if let Some(Range::Interval { lo, hi, step }) = &p.range {
            [Some(lo), Some(hi), step.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|e| collect(e, facts, &mut known));
        }
    }
    constraints.iter().for_each(|c| collect(c, facts, &mut known));
    known.retain(|n, _| !params.iter().any(|p| p.name == *n));
    def.constants = known;
    Ok(def)
}

/// The facts that an expression mentions.
fn collect(e: &Expr, facts: &Env, out: &mut Values) {
    let mut add = |n: String| {
        if let Some(v) = facts(&n) {
            out.insert(n, v);
        }
    };
    match e {
        Expr::Value(_) => {}
        Expr::Name(n) => add(n.clone()),
        Expr::Unary(_, a) => collect(a, facts, out),
        Expr::Binary(_, a, b) => {
            collect(a, facts, out);
            collect(b, facts, out);
        }
        Expr::Call(n, args) if FUNCTIONS.iter().any(|f| f.0 == n) => {
            args.iter().for_each(|a| collect(a, facts, out));
        }
        Expr::Call(..) => add(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::ParamType;
    use crate::parse::parse;
    use crate::space::{Generate, Space};

    fn parameter(name: &str, default: Option<&str>, range: Option<(&str, &str, &str)>) -> Parameter {
        let e = |t: &str| parse(t).unwrap();
        Parameter {
            name: name.into(),
            ty: ParamType::Int,
            default: default.map(e),
            range: range.map(|(lo, hi, step)| Range::Interval { lo: e(lo), hi: e(hi), step: Some(e(step)) }),
        }
    }

    #[test]
    fn ranges_defaults_and_conditions() {
        let params = [
            parameter("ti", Some("64"), Some(("16", "N", "16"))),
            parameter("tj", Some("ti // 2"), Some(("vector(f32)", "ti", "16"))),
            parameter("u", Some("ti // 16"), None),
        ];
        let constraints = [parse("ti * tj <= 4096 and divides(u, tj)").unwrap()];
        let facts = |n: &str| match n {
            "N" => Some(Value::Int(128)),
            "vector(f32)" => Some(Value::Int(16)),
            _ => None,
        };
        let def = strategy_space("strategy `s`", &params, &constraints, &facts).unwrap();
        let s = Space::generate(&def, &Generate::default()).unwrap();
        let mut valid = 0;
        for ti in (16..=128).step_by(16) {
            valid += (16..=ti).step_by(16).filter(|tj| ti * tj <= 4096 && tj % 4 == 0).count();
        }
        assert_eq!(s.size(), &valid.into());
        let default = s.default_configuration().unwrap();
        assert_eq!(default.to_string(), "ti = 64, tj = 32, u = 4");
        assert!(s.index_of(&default).is_some());
        let open = strategy_space("strategy `s`", &params, &constraints, &|_| None).unwrap();
        assert_eq!(Space::generate(&open, &Generate::default()).unwrap_err().code.0, "E1002");
        let bare = [parameter("t", None, None)];
        assert!(strategy_space("strategy `s`", &bare, &[], &facts).is_err());
    }
}
