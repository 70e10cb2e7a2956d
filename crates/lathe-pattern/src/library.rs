//! The library of strategies over terms, and the one call that runs a strategy on a program.

use crate::check::same_type;
use crate::codes;
use crate::decide::{Decision, lawful};
use crate::language::TermState;
use crate::prim::Prim;
use crate::program::Program;
use crate::rules::{self, Equation};
use crate::term::{Term, TermKind};
use lathe_diagnostics::Diagnostic;
use lathe_strategy::Context;
use lathe_strategy::{
    Argument, Definition, Definitions, Outcome, Refusal, StepArg, Strategy, Vocabulary, Why,
    parse_definitions, parse_strategy, rewrite,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The strategies of the library, in the notation of the language.
pub const LIBRARY: &str = include_str!("library.lathe");

/// The definitions of the library; the text is part of the crate, and tests read it.
pub fn definitions() -> Vec<Definition> {
    static READ: LazyLock<Vec<Definition>> = LazyLock::new(|| parse_definitions(LIBRARY).unwrap_or_default());
    READ.clone()
}

/// Everything that strategies over terms can say: rules, predicates, locations, and strategies that take
/// any number of arguments.
pub fn vocabulary() -> Vocabulary<Term> {
    let mut v = rules::vocabulary();
    crate::saturate::add(&mut v);
    v.expands("tileND", tile_nd);
    v.expands("tileStencilND", |sizes| tile_stencil_nd(sizes, true));
    v.expands("tileStencilRestND", |sizes| tile_stencil_nd(sizes, false));
    v.expands("reorder", reorder);
    v.add("reorderNamed", lathe_strategy::Entry::Here(std::rc::Rc::new(reorder_named)));
    v
}

/// Rules of a user, which are decided. What relies on the laws of an operator asks for them where it is applied.
pub fn add_decided(v: &mut Vocabulary<Term>, rules: impl IntoIterator<Item = (Equation, Decision)>) {
    for (e, decision) in rules {
        let name = e.name.clone();
        v.rule(&name, move |t, state, args| {
            for fold in e.operators(t).iter().filter(|_| decision.laws) {
                let text =
                    "an operator depends on variables that the rule binds, so its laws cannot be asked for";
                let (op, start) = fold.as_ref().ok_or_else(|| Why::Condition(text.to_string()))?;
                lawful(op, start).map_err(Why::Condition)?;
            }
            e.apply_with(t, state, args)
        });
    }
}

/// Rules that may add or round in another order than the program says: results may differ in their last bits.
pub const ROUNDS: [&str; 3] = ["blockReduce", "exchangeReduces", "useFma"];

/// What steps in this file, and the end of a strategy over terms, are made of.
const MADE_OF: [&str; 21] = [
    "DFNF",
    "RNF",
    "fmap",
    "function",
    "hoistLoop",
    "inLoop",
    "inNest",
    "inTile",
    "inTileRest",
    "interchange",
    "isLoop",
    "lowerToC",
    "neighbourhoods",
    "normalForm",
    "reorder",
    "reorderNamed",
    "split",
    "tileND",
    "tileStencil",
    "tileStencilRest",
    "topDown",
];

/// The names that strategies of the library are made of: they mean the same in every file.
pub fn taken() -> &'static BTreeSet<String> {
    static TAKEN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let called = definitions().into_iter().flat_map(|d| d.calls());
        called.chain(MADE_OF.map(str::to_string)).collect()
    });
    &TAKEN
}

fn call(name: &str, args: Vec<Argument>) -> Strategy {
    debug_assert!(taken().contains(name), "`{name}` could be captured");
    Strategy::Call { name: name.to_string(), args, span: None }
}

fn step(s: Strategy) -> Argument {
    Argument { name: None, value: lathe_strategy::ArgValue::Strategy(Box::new(s)), span: None }
}

/// `tileND(n1, …, nd)`: blocks the inner maps, then this one, then sorts the loops.
fn tile_nd(sizes: &[Argument]) -> Result<Strategy, String> {
    let Some((first, rest)) = sizes.split_first() else {
        return Err("`tileND` takes one size per dimension".to_string());
    };
    let block = call("function", vec![step(call("split", vec![first.clone()]))]);
    let normal = call("DFNF", Vec::new());
    if rest.is_empty() {
        return Ok(Strategy::Seq(vec![normal, block]));
    }
    let inner = call("fmap", vec![step(call("tileND", rest.to_vec()))]);
    let d = Argument::positional((sizes.len() as i64).into());
    Ok(Strategy::Seq(vec![normal, inner, block, call("interchange", vec![d])]))
}

/// `tileStencilND(u1, …, ud)`: tiles of so many inputs in each dimension, which overlap; loops over tiles come
/// before those inside of tiles.
/// `tileStencilRestND` leaves the order as it is, and has tiles for any sizes.
fn tile_stencil_nd(sizes: &[Argument], whole: bool) -> Result<Strategy, String> {
    fn go(sizes: &[Argument], words: (&str, &str)) -> Strategy {
        let Some((first, rest)) = sizes.split_first() else { return Strategy::Id };
        let tile = call(words.0, vec![first.clone()]);
        if rest.is_empty() {
            return tile;
        }
        Strategy::Seq(vec![tile, call(words.1, vec![step(go(rest, words))])])
    }
    if sizes.is_empty() {
        return Err("expected one size per dimension".to_string());
    }
    let d = sizes.len() as i64;
    let words = if whole { ("tileStencil", "inTile") } else { ("tileStencilRest", "inTileRest") };
    let tiled =
        Strategy::Seq(vec![call("neighbourhoods", Vec::new()), go(sizes, words), call("DFNF", Vec::new())]);
    if d == 1 || !whole {
        return Ok(tiled);
    }
    // Tiles and what is inside of them alternate.
    let order = (0..d).map(|k| 2 * k + 1).chain((0..d).map(|k| 2 * k + 2));
    let order = order.map(|l| Argument::positional(l.into())).collect();
    Ok(Strategy::Seq(vec![tiled, call("reorder", order)]))
}

/// `reorder(l1, …, ln)`: of the loops of a nest, numbered from 1 outside or named by the parameters of their functions,
/// loop `lk` comes to place `k`. Each is hoisted over its neighbours, one exchange at a time, by whichever rule fits the
/// two loops.
fn reorder(args: &[Argument]) -> Result<Strategy, String> {
    use lathe_space::{Expr, Value};
    use lathe_strategy::ArgValue;
    let numbers: Option<Vec<i64>> = args
        .iter()
        .map(|a| match a.value {
            ArgValue::Expr(Expr::Value(Value::Int(v))) => Some(v),
            _ => None,
        })
        .collect();
    let names = args.iter().all(|a| matches!(a.value, ArgValue::Expr(Expr::Name(_))));
    let here = match numbers {
        Some(order) if is_order(&order) => in_order(&order),
        Some(order) => return Err(no_order(&order)),
        None if names => call("reorderNamed", args.to_vec()),
        None => return Err("it takes loop numbers, or the parameters of the loops' functions".to_string()),
    };
    // As the nest stands, or with every stage in a map of its own.
    let here = call("topDown", vec![step(here)]);
    let apart = Strategy::Seq(vec![call("RNF", Vec::new()), here.clone()]);
    Ok(Strategy::Seq(vec![Strategy::Choice(vec![here, apart]), call("DFNF", Vec::new())]))
}

fn is_order(order: &[i64]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    !order.is_empty() && sorted.into_iter().eq(1..=order.len() as i64)
}

fn no_order(order: &[i64]) -> String {
    format!("{order:?} is not an order of the loops 1 to {}", order.len())
}

/// The loops of the nest that begins here, in this order.
fn in_order(order: &[i64]) -> Strategy {
    let Some((first, rest)) = order.split_first() else { return Strategy::Id };
    // Nothing moves any more: the loops must be there all the same.
    let rest: Vec<i64> = rest.iter().map(|l| if l > first { l - 1 } else { *l }).collect();
    let down = if rest.is_empty() {
        call("isLoop", Vec::new())
    } else {
        call("inLoop", vec![step(in_order(&rest))])
    };
    if *first == 1 {
        return down;
    }
    let hoist = call("hoistLoop", vec![Argument::positional((*first).into())]);
    Strategy::Seq(vec![hoist, call("inNest", vec![step(down)])])
}

/// `reorderNamed(x1, …, xn)`: the `n` outermost loops of the nest that begins here, if these are their names.
fn reorder_named(t: &Term, args: &[StepArg]) -> Result<Strategy, Why> {
    let names: Vec<String> = args.iter().map(|a| a.value.to_string()).collect();
    let nest = loops(t);
    if nest.is_empty() {
        return Err(Why::Shape("there is no loop here"));
    }
    let outer = &nest[..names.len().min(nest.len())];
    let number = |n: &String| outer.iter().position(|l| l == n).map(|k| k as i64 + 1);
    let order: Option<Vec<i64>> = names.iter().map(number).collect();
    match order {
        Some(order) if is_order(&order) => Ok(in_order(&order)),
        Some(order) => Err(Why::Mistake(no_order(&order))),
        None => {
            let nest = nest.join(", ");
            Err(Why::Condition(format!("the nest here has, from outside, the loops {nest}")))
        }
    }
}

/// The loops of the nest that begins here, from outside, by the parameter of what a map applies and the last parameter of
/// what a reduction does; as `lower` calls them: `x`, `x2`, `x3` where they are called the same.
fn loops(t: &Term) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut here = t;
    while let Some((p, args)) = here.spine() {
        let f = match (p, args.as_slice()) {
            (Prim::Map(_), [f, _]) => Some(*f),
            (Prim::Reduce(..), [op, _, _]) => op.as_lam(),
            _ => None,
        };
        let Some(TermKind::Lam(name, body)) = f.map(Term::kind) else { break };
        let name = if &**name == "_" { "i" } else { name };
        let numbered = (2..).map(|k| format!("{name}{k}"));
        let name = std::iter::once(name.to_string()).chain(numbered).find(|n| !out.contains(n));
        out.extend(name);
        here = body;
    }
    out
}

/// Enough for every strategy over terms that ends.
pub const STEPS: u64 = 20_000_000;

/// Applies a strategy to a term.
pub fn apply(
    s: &Strategy,
    more: &[Definition],
    t: &Term,
    state: TermState,
) -> Result<Outcome<Term>, Refusal> {
    let definitions = Definitions::new(definitions().into_iter().chain(more.iter().cloned()));
    let facts = |_: &str| None;
    let mut context = Context::new(&definitions, None, &facts);
    context.steps = STEPS;
    rewrite(&context, &vocabulary(), s, t.clone(), state)
}

/// Applies a strategy, given as text, to a program. The result has the same type, and may rely on more
/// facts about its sizes.
pub fn transform(p: &Program, strategy: &str) -> Result<(Program, Outcome<Term>), Diagnostic> {
    let s = parse_strategy(strategy)?;
    let out = apply(&s, &[], &p.term, TermState::new(&p.facts)).map_err(|r| *r.diagnostic)?;
    let q = p.with_term(out.tree.clone(), out.state.facts.all().to_vec());
    if !same_type(&q.facts, q.term.ty(), &p.term.ty().clone()) {
        let text = format!("`{}` became `{}`", p.term.ty(), q.term.ty());
        return Err(Diagnostic::error(codes::TYPE_CHANGED, text));
    }
    Ok((q, out))
}
