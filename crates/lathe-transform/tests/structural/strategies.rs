//! Strategies on trees: locations, choice, versions by size, traces and replay.

use crate::support::*;
use lathe_ir::visit;
use lathe_space::{ParamType, Parameter, Range, Value, parse as expr};
use lathe_strategy::{Context, Definition, Definitions, Discharge, Strategy, instantiate, plan};
use std::collections::{BTreeMap, BTreeSet};

const TWO: &str = "
func two(N)(A: in i32[N], B: out i32[N], C: out i32[N]) stage plain {
  compute 'B' over i in 0..N { B[i] = A[i] * 2:i32 }
  compute 'C' over i in 0..N { C[i] = A[i] + 1:i32 }
}";

#[test]
fn locations_select() {
    let m = parse(TWO);
    let f = apply(&m, "split(i, 4) @ stmt(C)");
    let text = show(&f);
    assert!(text.contains("C[i.o * 4 + i.i]") && text.contains("B[i] "), "{text}");
    same(&m, &f, &[6]);
    let f = apply(&m, "split(i, 4) ; unroll(i.i, 2) @ outermost(loop(i.o))");
    assert_eq!(show(&f).matches("unrolled").count(), 1, "{}", show(&f));
    assert_eq!(refused(&m, "split(i, 4) @ stmt(D)"), "E0621");
    assert_eq!(refused(&m, "split(i, 4) @ loop(i)"), "E0609");
}

#[test]
fn a_failed_choice_leaves_the_tree_as_it_was() {
    let m = parse(TWO);
    let (f, steps) = run(&m, "try(split(i, 4); unroll(i)) ; split(i, 2) <+ fail").expect("runs");
    assert_eq!(steps.iter().map(|e| e.rule.as_str()).collect::<Vec<_>>(), ["open", "split"]);
    assert!(show(&f).contains("i.o * 2"), "{}", show(&f));
    let (f, _) = run(&m, "repeat(split(B.i, 2))").expect("ends");
    assert!(show(&f).contains("B[i.o * 2 + i.i]"), "{}", show(&f));
}

#[test]
fn evidence_is_complete_and_replays() {
    let m = parse(TWO);
    let (f, steps) = run(&m, "split(B.i, 4) ; parallel(i.o) ; split(C.i, 2, a, b)").expect("runs");
    assert_eq!(steps[1].args, ["B.i", "4"]);
    let relation = &steps[1].relations[0];
    let text = relation.to_string();
    assert!(text.starts_with("B bijection: { B[i] -> B[") && text.contains("i.o"), "{text}");
    assert!(steps[2].obligations.iter().any(|o| o.by == Discharge::ByDependence));
    assert!(steps.windows(2).all(|w| w[0].after == w[1].before));
    let again = lathe_transform::replay(&m, only(&m), &steps).expect("replays");
    assert_eq!(lathe_ir::structural_hash(&again), lathe_ir::structural_hash(&f));
    let mut wrong = steps.clone();
    wrong[1].args[1] = "3".to_string();
    let text =
        lathe_transform::replay(&m, only(&m), &wrong).expect_err("another tree").diagnostic.to_string();
    assert!(text.contains("step 2 (`split`)"), "{text}");
}

fn definition(name: &str, params: &[(&str, &str)], body: Strategy) -> Definition {
    let params = params.iter().map(|(n, d)| Parameter {
        name: n.to_string(),
        ty: ParamType::Int,
        default: Some(expr(d).unwrap()),
        range: Some(Range::Interval { lo: expr("1").unwrap(), hi: expr("64").unwrap(), step: None }),
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

fn when(cond: &str, then: Strategy, other: Strategy) -> Strategy {
    Strategy::If { cond: expr(cond).unwrap(), then: Box::new(then), other: Box::new(other), span: None }
}

#[test]
fn versions_by_size_and_by_parameter() {
    let m = parse(TWO);
    let small = definition("small", &[], strategy("unroll(i, 2)"));
    let large = definition("large", &[("t", "8")], when("t > 4", strategy("split(i, t)"), strategy("id")));
    let fast = definition("fast", &[("t", "16")], when("N <= 100", call("small"), call("large(t // 2)")));
    let all = Definitions::new([small, large, fast.clone()]);
    let facts = |_: &str| None;
    let context = Context::new(&all, Some("two"), &facts);
    let sizes = BTreeSet::from(["N".to_string()]);
    let (body, open) =
        instantiate(&fast, &BTreeMap::from([("t".to_string(), Value::Int(32))]), &facts).unwrap();
    assert!(open.is_empty());
    let plan = plan(&context, &body, &sizes).unwrap();
    assert_eq!(plan.versions.len(), 2);
    assert_eq!(plan.versions[0].cond.as_ref().map(ToString::to_string), Some("N <= 100".to_string()));
    assert_eq!(plan.versions[1].cond, None);
    let (f, _) = lathe_transform::run(&m, only(&m), &context, &plan.versions[1].strategy).unwrap();
    assert!(show(&f).contains("i.o * 16"), "{}", show(&f));
    let error = instantiate(&fast, &BTreeMap::from([("t".to_string(), Value::Int(65))]), &facts).unwrap_err();
    assert!(error.message.contains("64"), "{error}");
}

#[test]
fn mistakes_are_not_caught_by_try() {
    let m = parse(TWO);
    assert_eq!(refused(&m, "try(spilt(i, 4))"), "E0605");
    let looping = definition("more", &[], call("again"));
    let again = definition("again", &[], Strategy::Seq(vec![call("try(split(i, 2))"), call("more")]));
    let all = Definitions::new([looping, again]);
    let facts = |_: &str| None;
    let context = Context::new(&all, None, &facts);
    let error = lathe_transform::run(&m, only(&m), &context, &call("more")).unwrap_err();
    let text = error.diagnostic.to_string();
    assert!(text.contains("E0608") && text.contains("`more`") && text.contains("`again`"), "{text}");
}

#[test]
fn steps_cost_what_they_touch() {
    // A chain of statements: a step on one shares all others.
    let n = 200;
    let mut text = String::from("func chain(N)(A0: in i32[N]");
    for k in 1..=n {
        text += &format!(", A{k}: out i32[N]");
    }
    text += ") stage plain {";
    for k in 1..=n {
        text += &format!("compute 'A{k}' over i in 0..N {{ A{k}[i] = A{}[i] + 1:i32 }}\n", k - 1);
    }
    let m = parse(&(text + "}"));
    let before = apply(&m, "id");
    let after = apply(&m, "split(A7.i, 8)");
    let shared = before
        .body
        .children()
        .zip(after.body.children())
        .filter(|(a, b)| a.structural_hash() == b.structural_hash())
        .count();
    assert_eq!(shared, n - 1);
    let mut loops = 0;
    visit::walk(&after.body, &mut |s, _| {
        loops += usize::from(s.as_loop().is_some());
        true
    });
    assert_eq!(loops, n + 1);
}
