//! Strategies on the simplest of trees, a number: combinators, definitions, traces.

use lathe_diagnostics::{Code, Diagnostic};
use lathe_space::{Expr, ParamType, Parameter, Value, parse};
use lathe_strategy::{
    ArgValue, Argument, Context, Definition, Definitions, Evidence, Location, Refusal, StepArg, Strategy,
    Tree, plan, replay, run,
};
use std::collections::BTreeSet;

/// Rules: `add(n)`, and `half`, which odd numbers refuse.
#[derive(Clone, Debug, PartialEq)]
struct Number(i64);

impl Tree for Number {
    fn rules(&self) -> Vec<&'static str> {
        vec!["add", "half"]
    }

    fn apply(&self, rule: &str, _: &[usize], args: &[StepArg]) -> Result<(Self, Evidence), Refusal> {
        let refuse = |text: &str| Refusal::new(rule, Diagnostic::error(Code("E0000"), text));
        let new = match (rule, args) {
            ("add", [StepArg { value: Expr::Value(Value::Int(n)), .. }]) => self.0 + n,
            ("half", []) if self.0 % 2 == 0 => self.0 / 2,
            ("half", []) => return Err(refuse("the number is odd")),
            _ => return Err(refuse("wrong arguments")),
        };
        Ok((Number(new), Evidence::new(rule, 1)))
    }

    fn locate(&self, location: &Location, _: &[usize]) -> Result<Vec<Vec<usize>>, Refusal> {
        match location {
            Location::Stmt(_) => Ok(vec![vec![]]),
            _ => Ok(vec![vec![0], vec![0, 0]]),
        }
    }

    fn size(&self) -> u64 {
        1
    }

    fn digest(&self) -> String {
        lathe_strategy::digest(&self.hash().to_string())
    }

    fn hash(&self) -> u64 {
        self.0 as u64
    }
}

fn step(text: &str) -> Strategy {
    ArgValue::Expr(parse(text).unwrap()).as_strategy(None).unwrap()
}

fn seq(steps: &[&str]) -> Strategy {
    Strategy::Seq(steps.iter().map(|s| step(s)).collect())
}

fn define(name: &str, params: &[&str], body: Strategy) -> Definition {
    let params = params.iter().map(|p| Parameter {
        name: p.to_string(),
        ty: ParamType::Int,
        default: None,
        range: None,
    });
    Definition {
        name: name.into(),
        params: params.collect(),
        constraints: vec![],
        target: None,
        body,
        span: None,
    }
}

fn with(definitions: Vec<Definition>, s: &Strategy, start: i64) -> Result<(i64, Vec<String>), &'static str> {
    let all = Definitions::new(definitions);
    let facts = |n: &str| (n == "threads").then_some(Value::Int(2));
    let context = Context { steps: 100, ..Context::new(&all, None, &facts) };
    match run(&context, s, Number(start)) {
        Ok((n, trace)) => Ok((n.0, trace.steps.iter().map(|e| format!("{}{:?}", e.rule, e.args)).collect())),
        Err(r) => Err(r.diagnostic.code.0),
    }
}

#[test]
fn sequences_choices_and_repetition() {
    assert_eq!(with(vec![], &seq(&["add(2 * 3)", "half"]), 4).unwrap().0, 5);
    let choice = Strategy::Choice(vec![seq(&["add(1)", "half"]), step("add(10)")]);
    let (n, steps) = with(vec![], &choice, 4).unwrap();
    assert_eq!((n, steps), (14, vec!["add[\"10\"]".to_string()]), "nothing is left of the first choice");
    assert_eq!(with(vec![], &step("repeat(half)"), 48).unwrap().0, 3);
    assert_eq!(with(vec![], &step("repeat(add(0))"), 1).unwrap().1.len(), 0);
    assert_eq!(with(vec![], &step("try(half)"), 3).unwrap().0, 3);
    assert_eq!(with(vec![], &step("half"), 3).unwrap_err(), "E0000");
    assert_eq!(with(vec![], &step("repeat(add(1))"), 0).unwrap_err(), "E0608");
}

#[test]
fn definitions_take_values_and_steps() {
    let twice = define("twice", &["s"], Strategy::Seq(vec![step("s"), step("s")]));
    let more = define("more", &["n"], step("add(n + threads)"));
    let all = vec![twice, more];
    assert_eq!(with(all.clone(), &step("twice(add(3))"), 1).unwrap().0, 7);
    assert_eq!(with(all.clone(), &step("twice(twice(half))"), 32).unwrap().0, 2);
    assert_eq!(with(all.clone(), &step("more(4)"), 1).unwrap().0, 7);
    assert_eq!(with(all.clone(), &step("more"), 1).unwrap_err(), "E0601");
    let named = Strategy::Call {
        name: "more".into(),
        args: vec![Argument { name: Some("m".into()), ..Argument::positional(parse("1").unwrap()) }],
        span: None,
    };
    assert_eq!(with(all, &named, 1).unwrap_err(), "E0606");
}

#[test]
fn locations_are_one_place() {
    let at = |place: &str| Strategy::At(Box::new(step("half")), Box::new(step(place)));
    assert_eq!(with(vec![], &at("stmt(C)"), 4).unwrap().0, 2);
    assert_eq!(with(vec![], &at("innermost(loop(i))"), 4).unwrap().0, 2);
    assert_eq!(with(vec![], &at("loop(i)"), 4).unwrap_err(), "E0609");
    assert_eq!(with(vec![], &at("half"), 4).unwrap_err(), "E0609");
}

#[test]
fn plans_partition_the_sizes() {
    let when = |c: &str, a: Strategy, b: Strategy| Strategy::If {
        cond: parse(c).unwrap(),
        then: Box::new(a),
        other: Box::new(b),
        span: None,
    };
    let small = define("small", &[], when("M < 8", step("half"), step("add(1)")));
    let all = Definitions::new([small]);
    let facts = |n: &str| (n == "threads").then_some(Value::Int(2));
    let context = Context::new(&all, None, &facts);
    let sizes = BTreeSet::from(["M".to_string(), "N".to_string()]);
    let body = Strategy::Seq(vec![
        when("N < 4 and threads > 1", step("small"), step("add(2)")),
        when("threads > 4", step("half"), step("try(small)")),
    ]);
    let p = plan(&context, &body, &sizes).unwrap();
    let conds: Vec<Option<String>> =
        p.versions.iter().map(|v| v.cond.as_ref().map(Expr::to_string)).collect();
    // Sizes that were decided before are not asked about again.
    assert_eq!(conds.len(), 4, "{conds:?}");
    assert!(conds[0].as_deref().unwrap().contains("M < 8") && conds[3].is_none(), "{conds:?}");
    let bad = when("Q < 4", step("half"), step("half"));
    assert!(plan(&context, &bad, &sizes).unwrap_err().diagnostic.message.contains("`Q`"));
}

#[test]
fn replay_checks_every_tree() {
    let definitions = Definitions::default();
    let facts = |_: &str| None;
    let context = Context::new(&definitions, None, &facts);
    let (end, trace) = run(&context, &seq(&["add(3)", "half"]), Number(5)).unwrap();
    assert_eq!(replay(Number(5), &trace.steps), Ok(end));
    assert!(replay(Number(7), &trace.steps).unwrap_err().diagnostic.message.contains("step 1"));
}
