//! Users add rules, predicates, locations and strategies without touching the crate.

use lathe_pattern::language::TermState;
use lathe_pattern::library::{definitions, vocabulary};
use lathe_pattern::rules::parse_equations;
use lathe_pattern::{Prim, Term, program};
use lathe_strategy::Context;
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

/// A primitive of a domain, here a weighted neighbourhood: a fun with its type, whose view and code are those of
/// what it is made of; a rule for it as text; and a strategy. Nothing of the crate changes.
#[test]
fn lift_item_39_a_domain_adds_a_primitive_and_a_rule() {
    let library = "
fun weighted(w: f64[K], x: f64[N + K - 1]) -> f64[N] =
    x |> slide(K, 1) |> map(|v| zip(w, v) |> map(|(a, b)| a * b) |> reduce(add, 0))
fun smooth(w: f64[K], x: f64[N + K - 1]) -> f64[N] = weighted(w, x) |> map(|v| v * 2) |> map(|v| v + 1)";
    let mut words = vocabulary();
    for e in parse_equations("rule commute(x, y): mul(x, y) => mul(y, x)").unwrap() {
        let name = e.name.clone();
        words.rule(&name, move |t, s, _| e.apply(t, s));
    }
    let mine =
        parse_definitions("strategy smoothly = DFNF ; normalize(mapFusion) ; topDown(commute)").unwrap();
    let d = Definitions::new(definitions().into_iter().chain(mine));
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let p = program(library).unwrap_or_else(|d| panic!("{d}"));
    let s = parse_strategy("smoothly ; topDown(fuseReduceMap) ; lowerToC").unwrap();
    let out = rewrite(&c, &words, &s, p.term.clone(), TermState::new(&p.facts))
        .unwrap_or_else(|r| panic!("{}", r.diagnostic));
    let q = p.with_term(out.tree, out.state.facts.all().to_vec());
    assert_eq!(q.term.ty(), p.term.ty());
    crate::support::agree_on(&q, &lathe_pattern::eval::sizes([("K", 3), ("N", 5)]), 2);
    let t = lathe_ir::text::print_module(&crate::support::lowered(&q));
    assert_eq!((t.matches("for ").count(), t.matches("alloc").count()), (2, 1), "{t}");
}

/// Terms that grow without end are noticed long before memory or the stack ends.
#[test]
fn strategies_that_make_terms_grow_are_stopped() {
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1)").unwrap();
    for s in [
        "normalize(addId)",
        "body(repeat(addId))",
        "allTopDown(try(addId))",
        "DFNF ; normalize(splitJoin(1))",
    ] {
        let d = lathe_pattern::library::transform(&p, s).unwrap_err();
        assert_eq!(d.code.0, "E0608", "{s}: {d}");
        // Four rules that came last.
        assert!(d.help.as_deref().is_some_and(|h| h.matches('`').count() == 8), "{s}: {d}");
    }
}

#[test]
fn item_21_arg_of_takes_one_primitive() {
    let p = program("fun f(xs: f32[N]) -> f32 = xs |> map(|x| x + 1) |> reduce(add, 0)").unwrap();
    let run = |s: &str| lathe_pattern::library::transform(&p, s);
    assert!(run("DFNF ; body(argument(function(argOf(map, isLambda))))").is_ok());
    assert!(run("DFNF ; body(argument(function(argOf(reduce, isLambda))))").is_err());
    assert!(run("DFNF ; body(function(function(argOf(reduce, body(body(id))))))").is_ok());
}
