//! Calls of definitions: arguments and defaults bound, and substituted into the body.

use crate::codes;
use crate::syntax::{ArgValue, Argument, Definition, Strategy};
use lathe_diagnostics::Diagnostic;
use lathe_space::eval::reduce_name;
use lathe_space::{EvalError, Expr, Value, Values, eval, reduce};
use std::collections::{BTreeMap, HashMap};

/// Machine facts (`threads`, `vector(f32)`), and sizes where they are known.
pub type Facts<'a> = dyn Fn(&str) -> Option<Value> + Sync + 'a;

/// The definitions that strategies may call.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    by_name: HashMap<String, Vec<Definition>>,
}

impl Definitions {
    pub fn new(all: impl IntoIterator<Item = Definition>) -> Definitions {
        let mut out = Definitions::default();
        for d in all {
            out.add(d);
        }
        out
    }

    pub fn add(&mut self, d: Definition) {
        self.by_name.entry(d.name.clone()).or_default().push(d);
    }

    /// The definition for a target, or else the one for any target.
    pub fn find(&self, name: &str, target: Option<&str>) -> Option<&Definition> {
        let all = self.by_name.get(name)?;
        let exact = all.iter().find(|d| d.target.is_some() && d.target.as_deref() == target);
        exact.or_else(|| all.iter().find(|d| d.target.is_none()))
    }

    /// Names of the definitions usable for a target, in alphabetical order.
    pub fn names(&self, target: Option<&str>) -> Vec<&str> {
        let mut out: Vec<&str> =
            self.by_name.keys().map(String::as_str).filter(|n| self.find(n, target).is_some()).collect();
        out.sort_unstable();
        out
    }
}

/// What a formal parameter stands for.
#[derive(Clone, Debug)]
enum Binding {
    Expr(Expr),
    Strategy(Strategy),
}

/// The body of the definition that the user asked for, with parameters set by name.
/// The second part: conditions over sizes that must hold at the call.
pub fn instantiate(
    d: &Definition,
    given: &Values,
    facts: &Facts,
) -> Result<(Strategy, Vec<Expr>), Diagnostic> {
    let of = format!("strategy `{}`", d.name);
    let bound =
        lathe_space::bind(&of, &d.params, &d.constraints, given, facts).map_err(|e| match d.span {
            Some(s) => e.at(s, "this strategy"),
            None => e,
        })?;
    let env: BTreeMap<String, Binding> =
        bound.values.into_iter().map(|(n, v)| (n, Binding::Expr(Expr::Value(v)))).collect();
    Ok((substitute(&d.body, &env, facts)?, bound.open))
}

/// The body of a called definition. Arguments are values, names of loops or labels, or steps.
pub fn call(d: &Definition, args: &[Argument], facts: &Facts) -> Result<Strategy, Diagnostic> {
    let of = format!("strategy `{}`", d.name);
    let mut env: BTreeMap<String, Binding> = BTreeMap::new();
    let mut position = 0;
    for a in args {
        let formal = match &a.name {
            Some(n) => d.params.iter().find(|p| p.name == *n),
            None => {
                position += 1;
                d.params.get(position - 1)
            }
        };
        let Some(formal) = formal else {
            let known: Vec<String> = d.params.iter().map(|p| p.name.clone()).collect();
            let text = match &a.name {
                Some(n) => format!("{of} has no parameter `{n}`"),
                None => format!("{of} takes {} arguments", d.params.len()),
            };
            let e = Diagnostic::error(codes::CALL, text).help(format!(
                "it is `{}({})`",
                d.name,
                known.join(", ")
            ));
            return Err(mark(e, a.span, "this argument"));
        };
        let binding = match &a.value {
            ArgValue::Expr(e) => {
                Binding::Expr(constant(e, facts).map_err(|e| mark(e, a.span, "this argument"))?)
            }
            ArgValue::Strategy(s) => Binding::Strategy((**s).clone()),
        };
        if env.insert(formal.name.clone(), binding).is_some() {
            let e = Diagnostic::error(codes::CALL, format!("{of}: `{}` is given twice", formal.name));
            return Err(mark(e, a.span, "this argument"));
        }
    }
    // Values are checked against ranges and constraints; names and steps have neither.
    let mut given = Values::new();
    let mut valued = Vec::new();
    for p in &d.params {
        match env.get(&p.name) {
            Some(Binding::Expr(Expr::Value(v))) => {
                given.insert(p.name.clone(), v.clone());
                valued.push(p.clone());
            }
            Some(_) => {}
            None => valued.push(p.clone()),
        }
    }
    let constraints: Vec<Expr> = d
        .constraints
        .iter()
        .filter(|c| lathe_space::names(c).iter().all(|n| !env.contains_key(n) || given.contains_key(n)))
        .cloned()
        .collect();
    let bound = lathe_space::bind(&of, &valued, &constraints, &given, facts)?;
    for (n, v) in bound.values {
        env.insert(n, Binding::Expr(Expr::Value(v)));
    }
    substitute(&d.body, &env, facts)
}

/// Machine facts and arithmetic done.
fn constant(e: &Expr, facts: &Facts) -> Result<Expr, Diagnostic> {
    reduce(e, &|n| facts(n).map(Expr::Value)).map_err(|err| arithmetic(e, &err))
}

fn arithmetic(e: &Expr, err: &EvalError) -> Diagnostic {
    Diagnostic::error(codes::ARITHMETIC, format!("`{e}`: {err}"))
}

pub(crate) fn mark(d: Diagnostic, span: Option<lathe_diagnostics::Span>, text: &str) -> Diagnostic {
    match span {
        Some(s) => d.at(s, text),
        None => d,
    }
}

/// A strategy with parameters replaced by what they stand for.
fn substitute(s: &Strategy, env: &BTreeMap<String, Binding>, facts: &Facts) -> Result<Strategy, Diagnostic> {
    let lookup = |n: &str| match env.get(n) {
        Some(Binding::Expr(e)) => Some(e.clone()),
        Some(Binding::Strategy(_)) => None,
        None => facts(n).map(Expr::Value),
    };
    let expr = |e: &Expr| reduce(e, &lookup).map_err(|err| arithmetic(e, &err));
    let all = |v: &[Strategy]| v.iter().map(|s| substitute(s, env, facts)).collect::<Result<Vec<_>, _>>();
    Ok(match s {
        Strategy::Id | Strategy::Fail(_) => s.clone(),
        Strategy::Seq(v) => Strategy::Seq(all(v)?),
        Strategy::Choice(v) => Strategy::Choice(all(v)?),
        Strategy::At(s, place) => {
            Strategy::At(Box::new(substitute(s, env, facts)?), Box::new(substitute(place, env, facts)?))
        }
        Strategy::If { cond, then, other, span } => {
            // Only the branch taken must make sense.
            let cond = expr(cond).map_err(|d| mark(d, *span, "this condition"))?;
            match eval(&cond, &|_| None) {
                Ok(Value::Bool(true)) => substitute(then, env, facts)?,
                Ok(Value::Bool(false)) => substitute(other, env, facts)?,
                _ => Strategy::If {
                    cond,
                    then: Box::new(substitute(then, env, facts)?),
                    other: Box::new(substitute(other, env, facts)?),
                    span: *span,
                },
            }
        }
        Strategy::Call { name, args, span } => {
            if args.is_empty() {
                match env.get(name) {
                    Some(Binding::Strategy(s)) => return Ok(s.clone()),
                    // A parameter that was given a name: of a definition or a rule.
                    Some(Binding::Expr(e)) => {
                        let as_step = ArgValue::Expr(e.clone()).as_strategy(*span);
                        return as_step.ok_or_else(|| {
                            let d = Diagnostic::error(
                                codes::CALL,
                                format!("`{name}` is `{e}`, which is not a step"),
                            );
                            mark(d, *span, "used as a step here")
                        });
                    }
                    None => {}
                }
            }
            let mut new = Vec::new();
            for a in args {
                let name = a.name.as_ref().map(|n| match reduce_name(n, &lookup) {
                    Some(e @ Expr::Name(_)) => e.to_string(),
                    _ => n.clone(),
                });
                let value = match &a.value {
                    ArgValue::Strategy(s) => ArgValue::Strategy(Box::new(substitute(s, env, facts)?)),
                    ArgValue::Expr(Expr::Name(n)) if matches!(env.get(n), Some(Binding::Strategy(_))) => {
                        let Some(Binding::Strategy(s)) = env.get(n) else { continue };
                        ArgValue::Strategy(Box::new(s.clone()))
                    }
                    // `function(body(s))`, where `s` stands for steps.
                    v @ ArgValue::Expr(e)
                        if lathe_space::names(e)
                            .iter()
                            .any(|n| matches!(env.get(n), Some(Binding::Strategy(_)))) =>
                    {
                        match v.as_strategy(a.span) {
                            Some(s) => ArgValue::Strategy(Box::new(substitute(&s, env, facts)?)),
                            None => ArgValue::Expr(expr(e).map_err(|d| mark(d, a.span, "this argument"))?),
                        }
                    }
                    // `try(split(i, t))`: a call whose arguments are reduced, whatever it turns out to be.
                    ArgValue::Expr(e) => {
                        ArgValue::Expr(expr(e).map_err(|d| mark(d, a.span, "this argument"))?)
                    }
                };
                new.push(Argument { name, value, span: a.span });
            }
            Strategy::Call { name: name.clone(), args: new, span: *span }
        }
    })
}
