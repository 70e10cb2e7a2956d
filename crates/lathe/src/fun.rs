//! Strategies of funs: steps on terms, the step `lower`, which translates the resulting term, and steps
//! on loops. A strategy that does not say `lower` leaves what is still open in the order of the program: it ends
//! with the library's `lowerToC`, then `lower`.

use crate::applied::{Form, How, Version, on_loops};
use crate::choice::STEP;
use crate::program::Program;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{Function, Name};
use lathe_lang::{Fun, codes::DUPLICATE};
use lathe_pattern::check::same_type;
use lathe_pattern::language::TermState;
use lathe_pattern::{Fact, Term, codes, condition::fact_of, library, lower};
use lathe_space::{BinOp, Expr, Value};
use lathe_strategy::rewrite::{BUILT_IN, TRAVERSALS};
use lathe_strategy::run::at_step;
use lathe_strategy::{
    Applied, ArgValue, Argument, Claim, Context, Definition, Definitions, Evidence, Node, Obligation,
    Strategy, Vocabulary, replay_nodes, rewrite,
};
use std::collections::{BTreeMap, BTreeSet};

/// The step between terms and loops.
const LOWER: &str = "lower";

/// The vocabulary of strategies over terms in this file.
pub fn vocabulary(program: &Program) -> Vocabulary<Term> {
    let mut words = library::vocabulary();
    let decided =
        |r: &lathe_lang::Rule| Some((r.equation.clone(), program.rules.get(&r.equation.name)?.clone()));
    library::add_decided(&mut words, program.lang.rules.iter().filter_map(decided));
    words
}

/// Applies a strategy, whose parameters are bound and whose conditions over sizes are decided, to a fun.
///
/// # Errors
/// What a rule, the translation, or a step on loops refuses.
pub fn version(
    program: &Program,
    fun: &Fun,
    how: &How,
    context: &Context,
    wanted: &lathe_strategy::Version,
) -> Result<Version, Diagnostic> {
    let (on_terms, after) = split(context, &wanted.strategy)?;
    let p = start(fun, how, wanted.cond.as_ref());
    let context_of_terms =
        Context { steps: library::STEPS, ..Context::new(context.definitions, context.target, context.facts) };
    let words = vocabulary(program);
    let out = rewrite(&context_of_terms, &words, &on_terms, p.term.clone(), TermState::new(&p.facts))
        .map_err(|r| *r.diagnostic)?;
    let steps = out.steps;
    let q = p.with_term(out.tree, out.state.facts.all().to_vec());
    if !same_type(&q.facts, q.term.ty(), &p.ty()) {
        let text = format!("`{}` became `{}`", p.term.ty(), q.term.ty());
        return Err(Diagnostic::error(codes::TYPE_CHANGED, text));
    }
    // What changed nothing is not a step.
    let trace: Vec<_> = out.trace.into_iter().filter(|a| a.before != a.after).collect();
    let mut evidence = records(program, &p.term, &trace);
    let mut forms = vec![Form::Term(p.term.clone())];
    let mut term = p.term.clone();
    for a in &trace {
        term = rewrite::replace_at(&term, &a.path, &a.after);
        forms.push(Form::Term(term.clone()));
    }
    let mut func = translated(program, &q)?;
    evidence.push(translation(program, &q, &func));
    forms.push(Form::Tree(func.clone()));
    if let Some(after) = after {
        // What the library says of terms means nothing to loops.
        let kept = program.lang.strategies.iter().filter(|d| !hides_rule(program, &words, d));
        let kept = kept.chain(&program.lang.prelude).cloned();
        let definitions = Definitions::new(kept);
        let context = Context::new(&definitions, context.target, context.facts);
        decided(&context, &after)?;
        let (new, more, trees) =
            on_loops(&program.lang.module, &func, &context, &after).map_err(|r| *r.diagnostic)?;
        func = new;
        evidence.extend(more);
        forms.pop();
        forms.extend(trees);
    }
    Ok(Version { rewriting: Some(steps), ..Version::new(None, func, evidence, forms) })
}

/// Decisions are taken for a fun as a whole, and not for the loops that it became.
fn decided(context: &Context, after: &Strategy) -> Result<(), Diagnostic> {
    let steps = match after {
        Strategy::Seq(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let decides = |s: &&Strategy| reaches(context.definitions, context.target, s, STEP, &mut BTreeSet::new());
    match steps.iter().find(decides) {
        Some(s) => {
            let text = format!("`{s}` takes decisions, which nothing does after `lower`");
            let help = "write `auto` alone, without `lower`, or the steps on loops";
            Err(at_step(Diagnostic::error(codes::MISPLACED, text), span_of(s)).help(help))
        }
        None => Ok(()),
    }
}

/// The records of steps on terms.
fn records(program: &Program, start: &Term, trace: &[Applied<Term>]) -> Vec<Evidence> {
    let equation = |rule: &str| match program.rules.get(rule) {
        Some(d) if !d.is_proved() => Obligation::tested_equation(rule),
        _ => Obligation::equation(rule),
    };
    let mut evidence = rewrite::evidence(start, trace, &equation);
    for e in &mut evidence {
        let rounds = program.rules.get(&e.rule).is_some_and(|d| d.rounds);
        if rounds || library::ROUNDS.contains(&e.rule.as_str()) {
            e.reassociates.push("out".to_string());
        }
    }
    evidence
}

/// The record of the translation.
fn translation(program: &Program, q: &lathe_pattern::Program, func: &Function) -> Evidence {
    let mut e = Evidence::new(LOWER, 1);
    e.oblige(Obligation::by_rule(Claim::Translated));
    // What is known of sizes, and does not hold for all of them, is a check in front of the loops.
    let owed = lathe_transform::claims::claims(&program.lang.module, func);
    owed.into_iter().filter(|o| matches!(o.claim, Claim::Fact { .. })).for_each(|o| e.oblige(o));
    e.before = q.term.digest();
    e.after = lathe_strategy::hexadecimal(lathe_ir::digest(func));
    e
}

/// The strategies of a file that would be taken for what others are made of: the combinators, the steps, and the
/// strategies that the library's own call. Names mean the same in the library and in every file.
pub fn captures(program: &Program) -> Vec<Diagnostic> {
    if program.lang.strategies.is_empty() {
        return Vec::new();
    }
    let words = vocabulary(program);
    let combinator = |n: &str| BUILT_IN.contains(&n) || TRAVERSALS.contains(&n);
    let of_loops = |d: &Definition| {
        let step = lathe_transform::rule(&d.name).is_some() || d.name == STEP;
        step && !hides_rule(program, &words, d)
    };
    let on_terms = |d: &Definition| match &d.target {
        Some(t) => program.lang.funs.contains_key(t),
        None => !program.lang.funs.is_empty(),
    };
    let captured = |d: &&Definition| {
        combinator(&d.name) || of_loops(d) || (on_terms(d) && library::taken().contains(&d.name))
    };
    let twice = |d: &Definition| {
        let text = format!("`{}` is a step that the library's strategies are made of", d.name);
        let e = Diagnostic::error(DUPLICATE, text);
        match d.span {
            Some(span) => e.at(span, "choose another name"),
            None => e,
        }
    };
    program.lang.strategies.iter().filter(captured).map(twice).collect()
}

/// Whether a definition over terms has the name of a step on loops: there the step is meant.
fn hides_rule(program: &Program, words: &Vocabulary<Term>, d: &Definition) -> bool {
    let of_loops =
        |n: &str| lathe_transform::rule(n).is_some() || lathe_transform::predicates::NAMES.contains(&n);
    let of_terms: Vec<&str> =
        program.lang.library.iter().map(|d| d.name.as_str()).chain(words.names()).collect();
    fn on_terms(program: &Program, of_terms: &[&str], d: &Definition, seen: &mut Vec<String>) -> bool {
        of_terms.iter().any(|w| d.body.calls(w))
            || program.lang.strategies.iter().any(|o| {
                let new = !seen.contains(&o.name) && d.body.calls(&o.name);
                if new {
                    seen.push(o.name.clone());
                }
                new && on_terms(program, of_terms, o, seen)
            })
    }
    let of_terms: Vec<&str> = of_terms.into_iter().filter(|w| !of_loops(w)).collect();
    lathe_transform::rule(&d.name).is_some() && on_terms(program, &of_terms, d, &mut vec![d.name.clone()])
}

/// The loops of a term, with checks where their `index` arithmetic needs some.
fn translated(program: &Program, p: &lathe_pattern::Program) -> Result<Function, Diagnostic> {
    let first = |mut all: Vec<Diagnostic>| all.swap_remove(0);
    lathe_analysis::prove_arithmetic(&program.lang.module, &lower(p)?).map_err(first)
}

/// The fun before the first step.
fn start(fun: &Fun, how: &How, condition: Option<&Expr>) -> lathe_pattern::Program {
    let sizes: BTreeMap<Name, i64> = how.specialize.iter().map(|(n, v)| (n.as_str().into(), *v)).collect();
    let mut p = if sizes.is_empty() { fun.program.clone() } else { fun.program.at_sizes(&sizes) };
    // A version may rely on the condition under which the call takes it; its code checks it all the same.
    for f in condition.map(facts_of).unwrap_or_default() {
        p.facts.learn(f);
    }
    p
}

/// Applies recorded steps again: on terms, the translation, on loops.
///
/// # Errors
/// Where something is not what was recorded.
pub fn replay(
    program: &Program,
    fun: &Fun,
    how: &How,
    condition: Option<&Expr>,
    steps: &[Evidence],
) -> Result<Function, Diagnostic> {
    let p = start(fun, how, condition);
    let at = steps.iter().position(|e| e.rule == LOWER).unwrap_or(steps.len());
    let definitions = program.definitions(&p.name);
    let facts = |_: &str| None;
    let context = Context::new(&definitions, Some(&p.name), &facts);
    let state = TermState::new(&p.facts);
    let out = replay_nodes(&context, &vocabulary(program), &p.term, state, &steps[..at])
        .map_err(|r| *r.diagnostic)?;
    let q = p.with_term(out.tree, out.state.facts.all().to_vec());
    let func = translated(program, &q)?;
    let mut again = records(program, &p.term, &out.trace);
    again.push(translation(program, &q, &func));
    for (n, (e, again)) in steps.iter().zip(&again).enumerate() {
        if let Some(what) = e.differs(again) {
            let text = format!("replay of step {} (`{}`): {what}", n + 1, e.rule);
            return Err(Diagnostic::error(lathe_strategy::codes::REPLAY, text));
        }
    }
    match steps.get(at..).and_then(<[Evidence]>::split_first) {
        Some((_, rest)) => {
            lathe_transform::replay(&program.lang.module, &func, rest).map_err(|r| *r.diagnostic)
        }
        None => Ok(func),
    }
}

/// What of a condition is a fact about sizes.
fn facts_of(condition: &Expr) -> Vec<Fact> {
    if let Expr::Binary(BinOp::And, a, b) = condition {
        return [facts_of(a), facts_of(b)].concat();
    }
    let read = lathe_pattern::parse_term(&condition.to_string()).and_then(|e| fact_of(&e));
    read.unwrap_or_default()
}

/// The steps on terms, and those on loops if there are any.
fn split(context: &Context, s: &Strategy) -> Result<(Strategy, Option<Strategy>), Diagnostic> {
    match at_lower(context, s)? {
        Some((before, after)) => {
            Ok((Strategy::Seq(before), Some(after).filter(|v| !v.is_empty()).map(Strategy::Seq)))
        }
        None => {
            let step = |name: &str| Strategy::Call { name: name.to_string(), args: Vec::new(), span: None };
            Ok((Strategy::Seq(vec![s.clone(), step("normalForm"), step("lowerToC")]), None))
        }
    }
}

type Sides = (Vec<Strategy>, Vec<Strategy>);

/// What is before and after `lower`, with definitions unfolded as far as needed; `None` if it is not there.
fn at_lower(context: &Context, s: &Strategy) -> Result<Option<Sides>, Diagnostic> {
    if !reaches(context.definitions, context.target, s, LOWER, &mut BTreeSet::new()) {
        return Ok(None);
    }
    match s {
        Strategy::Call { name, args, .. } if name == LOWER && args.is_empty() => {
            Ok(Some((Vec::new(), Vec::new())))
        }
        Strategy::Call { name, args, span } => {
            if let Some(d) = context.definitions.find(name, context.target) {
                let body =
                    lathe_strategy::bind::call(d, args, context.facts).map_err(|e| at_step(e, *span))?;
                return at_lower(context, &body);
            }
            Err(misplaced(*span))
        }
        Strategy::Seq(all) => {
            let (mut before, mut found): (Vec<Strategy>, Option<Vec<Strategy>>) = (Vec::new(), None);
            for s in all {
                // After `lower` the name of a step on loops means that step, whatever else has it.
                if let (Some(after), Strategy::Call { name, .. }) = (&mut found, s)
                    && lathe_transform::rule(name).is_some()
                {
                    after.push(s.clone());
                    continue;
                }
                match (at_lower(context, s)?, &mut found) {
                    (None, None) => before.push(s.clone()),
                    (None, Some(after)) => after.push(s.clone()),
                    (Some((terms, loops)), None) => {
                        before.extend(terms);
                        found = Some(loops);
                    }
                    (Some(_), Some(_)) => return Err(misplaced(span_of(s))),
                }
            }
            Ok(found.map(|after| (before, after)))
        }
        Strategy::If { cond, then, other, span } => match lathe_space::eval(cond, context.facts) {
            Ok(Value::Bool(yes)) => at_lower(context, if yes { then } else { other }),
            _ => Err(misplaced(*span)),
        },
        _ => Err(misplaced(span_of(s))),
    }
}

fn misplaced(span: Option<Span>) -> Diagnostic {
    let text = "`lower` occurs once, between the steps on terms and those on loops";
    at_step(Diagnostic::error(codes::MISPLACED, text), span)
        .help("write `steps on terms ; lower ; steps on loops`")
}

fn span_of(s: &Strategy) -> Option<Span> {
    match s {
        Strategy::Call { span, .. } | Strategy::If { span, .. } => *span,
        Strategy::Seq(all) | Strategy::Choice(all) => all.iter().find_map(span_of),
        Strategy::At(s, _) => span_of(s),
        Strategy::Id | Strategy::Fail(_) => None,
    }
}

/// Whether a strategy, or a definition that it calls, has a step of this name.
fn reaches(
    d: &Definitions,
    target: Option<&str>,
    s: &Strategy,
    step: &str,
    seen: &mut BTreeSet<String>,
) -> bool {
    match s {
        Strategy::Id | Strategy::Fail(_) => false,
        Strategy::Call { name, args, .. } => {
            if name == step && (step != LOWER || args.is_empty()) {
                return true;
            }
            let in_argument = |a: &Argument, seen: &mut BTreeSet<String>| match &a.value {
                ArgValue::Strategy(s) => reaches(d, target, s, step, seen),
                v @ ArgValue::Expr(_) => {
                    v.as_strategy(None).is_some_and(|s| reaches(d, target, &s, step, seen))
                }
            };
            if args.iter().any(|a| in_argument(a, seen)) {
                return true;
            }
            let Some(found) = d.find(name, target) else { return false };
            if !seen.insert(name.clone()) {
                return false;
            }
            // What its parameters stand for are arguments, not definitions of the same name.
            let hidden: Vec<String> =
                found.params.iter().map(|p| p.name.clone()).filter(|p| seen.insert(p.clone())).collect();
            let yes = reaches(d, target, &found.body, step, seen);
            hidden.iter().for_each(|p| {
                seen.remove(p);
            });
            yes
        }
        Strategy::Seq(all) | Strategy::Choice(all) => all.iter().any(|s| reaches(d, target, s, step, seen)),
        Strategy::At(s, place) => reaches(d, target, s, step, seen) || reaches(d, target, place, step, seen),
        Strategy::If { then, other, .. } => {
            reaches(d, target, then, step, seen) || reaches(d, target, other, step, seen)
        }
    }
}
