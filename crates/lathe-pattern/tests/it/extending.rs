//! Users add rules, predicates, locations and strategies without touching the crate.

use lathe_pattern::language::TermState;
use lathe_pattern::library::{definitions, vocabulary};
use lathe_pattern::rules::parse_equations;
use lathe_pattern::{Prim, Term, program};
use lathe_strategy::run::Context;
use lathe_strategy::{Definitions, Why, parse_definitions, parse_strategy, rewrite};

#[test]
fn item_30_users_add_rules_and_use_them_in_existing_strategies() {
    let mut words = vocabulary();
    // A rule as data, one as a function, a predicate, and a location.
    for e in parse_equations("rule negateTwice(x): neg(neg(x)) => x").unwrap() {
        let name = e.name.clone();
        words.rule(&name, move |t, s, _| e.apply(t, s));
    }
    words.rule("double", |t: &Term, _, _| match t.kind() {
        lathe_pattern::TermKind::Lit(v) if t.ty().as_scalar() == Some(lathe_ir::Scalar::F32) => {
            Ok(Term::lit(lathe_ir::scalar::ScalarValue::float(lathe_ir::Scalar::F32, v.to_f64() * 2.0)))
        }
        _ => Err(Why::Shape("not a number")),
    });
    words.predicate("isMul", |t: &Term| matches!(t.as_prim(), Some(Prim::Binary(lathe_ir::BinOp::Mul))));
    words.location("lastFactor", |t: &Term| {
        let (p, args) = t.spine()?;
        (matches!(p, Prim::Binary(lathe_ir::BinOp::Mul)) && args.len() == 2).then_some(1)
    });
    let mine =
        parse_definitions("strategy doubleFactor = outermost(lastFactor(id), lastFactor(double))").unwrap();
    let d = Definitions::new(definitions().into_iter().chain(mine));
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| neg(neg(x)) * 3 + 1)").unwrap();
    let s = parse_strategy("doubleFactor ; normalize(negateTwice) ;; contains(isMul)").unwrap();
    let out = rewrite(&c, &words, &s, p.term.clone(), TermState::new(&p.facts))
        .unwrap_or_else(|r| panic!("{}", r.diagnostic));
    assert_eq!(out.tree.to_string(), "|xs| xs |> map(|x| x * 6.0 + 1.0)");
    assert_eq!(out.tree.ty(), p.term.ty());
}

#[test]
fn item_21_arg_of_takes_one_primitive() {
    let p = program("fun f(xs: f32[N]) -> f32 = xs |> map(|x| x + 1) |> reduce(add, 0)").unwrap();
    let run = |s: &str| lathe_pattern::library::transform(&p, s);
    assert!(run("DFNF ; body(argument(function(argOf(map, isLambda))))").is_ok());
    assert!(run("DFNF ; body(argument(function(argOf(reduce, isLambda))))").is_err());
    assert!(run("DFNF ; body(function(function(argOf(reduce, body(body(id))))))").is_ok());
}
