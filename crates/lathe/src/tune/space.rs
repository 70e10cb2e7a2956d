//! The parameters of a strategy as a search space.

use super::codes;
use crate::applied::How;
use crate::mdh;
use crate::program::{Failure, Program};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_space::{
    Constraint, Expr, Generate, ParamType, Parameter, Range, Space, SpaceDef, TuningParameter, Value,
    ValueRange, Values, eval, names, reduce,
};
use lathe_strategy::{ArgValue, Context, Definition, Strategy};
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What is searched.
#[derive(Clone, Debug)]
pub struct StrategySpace {
    /// The strategy whose parameters they are: the one that was asked for, or the version that it takes for
    /// these sizes.
    pub definition: Definition,
    pub space: Arc<Space>,
    /// Parameters that keep one value.
    pub fixed: Values,
    /// What runs without tuning, where it lies in the space's ranges.
    pub default: Option<Values>,
    /// The definition as text, for keys.
    pub text: String,
}

/// How deep strategies that only choose a version by sizes may nest.
const DEPTH: usize = 100;

/// The space of a strategy for these sizes. `fixed` are parameters that the user has set.
///
/// # Errors
/// `E1085` if nothing is left to search; what the parameters' definitions or the space refuse.
pub fn strategy_space(
    program: &Program,
    kernel: &Function,
    strategy: &str,
    how: &How,
    machine: &Machine,
    fixed: &Values,
) -> Result<StrategySpace, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    let machine = &Machine { threads: how.threads.map_or(machine.threads, |n| n as u64), ..machine.clone() };
    let facts = |n: &str| how.sizes.get(n).map(|v| Value::Int(*v)).or_else(|| machine.fact(n));
    let asked = program.strategy(&kernel.name, strategy)?;
    let (definition, given) = version(program, kernel, asked, &facts).map_err(fail)?;
    let whole = crate::choice::is_auto(asked);
    let decisions = free_decisions(program, kernel, &definition, whole, how, machine)?;
    let known = |n: &String| {
        definition.params.iter().any(|p| p.name == *n) || decisions.def.params.iter().any(|p| p.name == *n)
    };
    if let Some(unknown) = fixed.keys().find(|n| !known(n)) {
        // The message of binding, which lists the parameters.
        let only = [(unknown.clone(), fixed[unknown].clone())].into();
        let of = format!("strategy `{}`", definition.name);
        let e = lathe_space::bind(&of, &definition.params, &[], &only, &facts).err();
        return Err(fail(e.unwrap_or_else(|| nothing(&definition.name))));
    }
    let (mut def, kept) = define(&definition, fixed, &facts).map_err(fail)?;
    for p in decisions.def.params {
        // Fixed ones stay as parameters with one value, since others' constraints may mention them.
        let values = fixed.get(&p.name).map_or(p.values.clone(), |v| ValueRange::Set(vec![v.clone()]));
        def.params.push(TuningParameter { values, ..p });
    }
    if def.params.is_empty() {
        let d = nothing(&definition.name);
        return Err(fail(match definition.span {
            Some(s) => d.at(s, "no parameter of this strategy has a range"),
            None => d,
        }));
    }
    let text = describe(&def, &kept);
    let space = Space::generate(&def, &Generate::default()).map_err(fail)?;
    let of = format!("strategy `{}`", definition.name);
    let own = |n: &String| definition.params.iter().any(|p| p.name == *n);
    let fixed: Values = fixed.iter().filter(|(n, _)| own(n)).map(|(n, v)| (n.clone(), v.clone())).collect();
    let mut start: Values = given;
    start.extend(fixed.clone());
    // The strategy's defaults, if they keep to the ranges and constraints for these sizes.
    let bound = lathe_space::bind(&of, &definition.params, &definition.constraints, &start, &facts)
        .or_else(|_| lathe_space::bind(&of, &definition.params, &[], &fixed, &facts))
        .ok();
    let tuned = |v: Values| {
        let all = v.into_iter().chain(decisions.start.clone());
        all.filter(|(n, _)| space.param(n).is_some()).collect()
    };
    Ok(StrategySpace {
        default: bound.map(|b| tuned(b.values)),
        definition,
        space: Arc::new(space),
        fixed: kept,
        text,
    })
}

/// What the strategy's steps `mdh(…)` leave free for these sizes; `whole`: it is the `auto` of the prelude, which
/// decides for all computes of a function together.
fn free_decisions(
    program: &Program,
    kernel: &Function,
    definition: &Definition,
    whole: bool,
    how: &How,
    machine: &Machine,
) -> Result<mdh::FreeSpace, Failure> {
    let definitions = program.definitions(&kernel.name);
    if !mdh::uses(&definitions, Some(&kernel.name), &definition.body) {
        return Ok(mdh::FreeSpace::default());
    }
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    let facts = |n: &str| how.sizes.get(n).map(|v| Value::Int(*v)).or_else(|| machine.fact(n));
    let func =
        crate::schedule::specialize(&crate::schedule::plain(program, kernel, how.assumptions)?, &how.sizes)
            .map_err(fail)?;
    let set = mdh::Setting {
        module: &program.lang.module,
        func: &func,
        machine,
        model: how.model.as_deref(),
        folder: program.path.parent().unwrap_or(Path::new("")),
        params: &Values::new(),
    };
    // Other models than that of CPUs have the decisions of each compute for itself.
    let context = Context::new(&definitions, Some(&kernel.name), &facts);
    if whole && let Ok(all) = mdh::auto_space(&set, &context) {
        return Ok(all);
    }
    let (body, _) = lathe_strategy::instantiate(definition, &Values::new(), &facts).map_err(fail)?;
    let body = taken(&body, &facts).map_err(fail)?;
    mdh::free_space(&set, &context, &body).map_err(fail)
}

fn nothing(name: &str) -> Diagnostic {
    Diagnostic::error(codes::NOTHING_TO_TUNE, format!("the strategy `{name}` has no parameter to search"))
        .help("give a parameter a range: `strategy s(t = 8 in 8..=64 step 8) for …`")
}

/// Follows a strategy that only chooses, by sizes and facts, which other one to call: the one that it takes,
/// with the arguments that it gives it.
fn version(
    program: &Program,
    kernel: &Function,
    asked: &Definition,
    facts: &lathe_strategy::Facts,
) -> Result<(Definition, Values), Diagnostic> {
    let definitions = program.definitions(&kernel.name);
    let (mut definition, mut given) = (asked.clone(), Values::new());
    for _ in 0..DEPTH {
        let decides = || mdh::uses(&definitions, Some(&kernel.name), &definition.body);
        if definition.params.iter().any(|p| p.range.is_some()) || decides() {
            return Ok((definition, given));
        }
        // Parameters without ranges have one value each.
        let (body, _) = lathe_strategy::instantiate(&definition, &given, facts)?;
        let Strategy::Call { name, args, .. } = taken(&body, facts)? else { break };
        let Some(called) = definitions.find(&name, Some(&kernel.name)) else { break };
        let mut position = 0;
        given = Values::new();
        for a in args {
            let formal = match &a.name {
                Some(n) => Some(n.clone()),
                None => {
                    position += 1;
                    called.params.get(position - 1).map(|p| p.name.clone())
                }
            };
            if let (Some(formal), ArgValue::Expr(e)) = (formal, &a.value)
                && let Ok(v) = eval(e, facts)
            {
                given.insert(formal, v);
            }
        }
        definition = called.clone();
    }
    Err(nothing(&asked.name))
}

/// The branch of a condition that sizes and facts decide.
fn taken(s: &Strategy, facts: &lathe_strategy::Facts) -> Result<Strategy, Diagnostic> {
    match s {
        Strategy::If { cond, then, other, .. } => match eval(cond, facts) {
            Ok(Value::Bool(yes)) => taken(if yes { then } else { other }, facts),
            Ok(v) => {
                Err(Diagnostic::error(codes::NOTHING_TO_TUNE, format!("`{cond}` is {v}, not true or false")))
            }
            Err(e) => Err(Diagnostic::error(codes::NOTHING_TO_TUNE, format!("`{cond}`: {e}"))),
        },
        Strategy::Seq(v) if v.len() == 1 => taken(&v[0], facts),
        _ => Ok(s.clone()),
    }
}

/// Parameters with ranges become tuning parameters; the rest keep their values, and stand for them in ranges and
/// constraints.
fn define(
    d: &Definition,
    fixed: &Values,
    facts: &lathe_strategy::Facts,
) -> Result<(SpaceDef, Values), Diagnostic> {
    let at = |d2: Diagnostic| match d.span {
        Some(s) => d2.at(s, "of this strategy"),
        None => d2,
    };
    // What a name stands for: a value, or for a parameter whose default follows others, an expression.
    let mut known: BTreeMap<String, Expr> = BTreeMap::new();
    let mut kept = Values::new();
    let mut def = SpaceDef::new();
    for p in &d.params {
        let env = |n: &str| known.get(n).cloned().or_else(|| facts(n).map(Expr::Value));
        if let Some(v) = fixed.get(&p.name) {
            let value = typed(p.ty, v.clone());
            known.insert(p.name.clone(), Expr::Value(value.clone()));
            kept.insert(p.name.clone(), value);
            continue;
        }
        let closed = |e: &Expr| {
            reduce(e, &env).map_err(|err| {
                at(Diagnostic::error(
                    lathe_space::codes::PARAMETER,
                    format!("parameter `{}`, `{e}`: {err}", p.name),
                ))
            })
        };
        match &p.range {
            Some(range) => def.params.push(tuning_parameter(p, range, &closed)?),
            None => {
                if let Some(default) = &p.default {
                    known.insert(p.name.clone(), closed(default)?);
                }
            }
        }
    }
    let env = |n: &str| known.get(n).cloned().or_else(|| facts(n).map(Expr::Value));
    for c in &d.constraints {
        let fail = |why: String| at(Diagnostic::error(lathe_space::codes::CONSTRAINT, why));
        let closed = reduce(c, &env).map_err(|e| fail(format!("the constraint `{c}`: {e}")))?;
        if closed == Expr::Value(Value::Bool(true)) {
            continue;
        }
        // It belongs to the last of its parameters.
        let mentioned = names(&closed);
        match def.params.iter_mut().rev().find(|p| mentioned.contains(&p.name)) {
            Some(last) => {
                let with = last.clone().such_that(Constraint::Expr(closed));
                *last = with;
            }
            None => {
                return Err(fail(format!("the constraint `{c}` does not hold for these sizes: {closed}")));
            }
        }
    }
    Ok((def, kept))
}

fn tuning_parameter(
    p: &Parameter,
    range: &Range,
    closed: &dyn Fn(&Expr) -> Result<Expr, Diagnostic>,
) -> Result<TuningParameter, Diagnostic> {
    let values = match range {
        Range::Set(set) => ValueRange::Set(set.iter().map(|v| typed(p.ty, v.clone())).collect()),
        Range::Interval { lo, hi, step } => ValueRange::Interval {
            lo: closed(lo)?,
            hi: closed(hi)?,
            step: step.as_ref().map(closed).transpose()?,
            generator: None,
        },
    };
    Ok(TuningParameter::new(p.name.clone(), p.ty, values))
}

fn typed(ty: ParamType, v: Value) -> Value {
    match (ty, v) {
        (ParamType::Float, Value::Int(i)) => Value::Float(i as f64),
        (_, v) => v,
    }
}

/// The definition as text: equal definitions, and only they, have equal texts.
pub(super) fn describe(def: &SpaceDef, kept: &Values) -> String {
    let mut out = String::new();
    for p in &def.params {
        out += &format!("{}: {:?} in {:?}", p.name, p.ty, p.values);
        if let Some(c) = &p.constraint {
            out += &format!(" where {c}");
        }
        out.push('\n');
    }
    for (n, v) in kept {
        out += &format!("{n} = {v}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kernel f(A: f32[N, M]) -> (B: f32[N, M]) { B[i, j] = 2 * A[i, j] }
        strategy tiled(ti = 64 in 16..=256 step 16, w = 16, tj = ti // 2 in w..=M step w where ti * tj <= 4096,
                       divides(tj, N)) for f = tile(i: ti, j: tj)
        strategy small(t = 4 in 1..=8 step 1) for f = split(i, t)
        strategy fast for f = if N <= 10 then small(6) else if M <= 64 then small else tiled
        strategy fixed(t = 8) for f = split(i, t)";

    fn space(strategy: &str, n: i64, m: i64, fixed: &[(&str, i64)]) -> Result<StrategySpace, String> {
        let p = Program::from_text("f.lathe", TEXT).map_err(|f| f.to_string())?;
        let f = p.kernel(Some("f")).map_err(|f| f.to_string())?;
        let sizes = [("N".to_string(), n), ("M".to_string(), m)].into();
        let fixed = fixed.iter().map(|(n, v)| (n.to_string(), Value::Int(*v))).collect();
        let how = How { sizes, ..How::default() };
        strategy_space(&p, f, strategy, &how, &Machine::host(), &fixed).map_err(|f| f.to_string())
    }

    /// All pairs that the text above allows.
    fn brute(n: i64, m: i64) -> usize {
        let ti = (16..=256).step_by(16);
        let pairs = ti.flat_map(|a| (16..=m).step_by(16).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a * b <= 4096 && n % b == 0).count()
    }

    #[test]
    fn ranges_and_constraints_are_those_of_the_strategy() {
        for (n, m) in [(64, 64), (96, 1024), (1024, 16), (48, 100)] {
            let s = space("tiled", n, m, &[]).unwrap();
            assert_eq!(s.space.size().to_string(), brute(n, m).to_string(), "{n} {m}");
        }
        let s = space("tiled", 64, 64, &[("ti", 32)]).unwrap();
        assert_eq!(s.space.dimensions(), 1);
        assert_eq!(s.fixed["ti"], Value::Int(32));
        let unknown = space("tiled", 64, 64, &[("tk", 32)]).unwrap_err();
        assert!(unknown.contains("E0601") && unknown.contains("`tk`"), "{unknown}");
        assert!(space("fixed", 64, 64, &[]).unwrap_err().contains("E1085"));
        assert!(space("nowhere", 64, 64, &[]).unwrap_err().contains("E0903"));
        assert!(space("tiled", 7, 64, &[]).is_err(), "no tile divides 7");
    }

    #[test]
    fn the_version_for_the_sizes_is_tuned() {
        let s = space("fast", 8, 1000, &[]).unwrap();
        assert_eq!((s.definition.name.as_str(), s.default.unwrap()["t"].clone()), ("small", Value::Int(6)));
        let s = space("fast", 80, 64, &[]).unwrap();
        assert_eq!((s.definition.name.as_str(), s.default.unwrap()["t"].clone()), ("small", Value::Int(4)));
        assert_eq!(space("fast", 96, 96, &[]).unwrap().definition.name, "tiled");
        // Another range is another text.
        assert_ne!(space("tiled", 96, 96, &[]).unwrap().text, space("tiled", 96, 112, &[]).unwrap().text);
    }
}
