//! Steps and arguments of strategies, written shortly.

use lathe_ir::names::Role;
use lathe_space::{BinOp, Expr, Value};
use lathe_strategy::{ArgValue, Argument, Strategy};

/// `rule(a, b, …)`
pub fn call(rule: &str, args: Vec<Expr>) -> Strategy {
    with(rule, args.into_iter().map(Argument::positional).collect())
}

/// A rule with arguments that may be named.
pub fn with(rule: &str, args: Vec<Argument>) -> Strategy {
    Strategy::Call { name: rule.to_string(), args, span: None }
}

/// The loops that `split`, `vectorize` and `unroll` by a number make of one.
pub struct Blocks {
    pub outer: String,
    pub inner: String,
}

impl Blocks {
    pub fn of(l: &str) -> Blocks {
        Blocks { outer: Role::Outer.of(l), inner: Role::Inner.of(l) }
    }
}

/// `split(l, size)`, and what it makes.
pub fn split(l: &str, size: u64) -> (Strategy, Blocks) {
    (call("split", vec![name(l), int(size)]), Blocks::of(l))
}

/// `vectorize(l, lanes)`, and what it makes where the loop has more iterations.
pub fn vectorize(l: &str, lanes: u64) -> (Strategy, Blocks) {
    (call("vectorize", vec![name(l), int(lanes)]), Blocks::of(l))
}

/// `unroll(l)`
pub fn unroll(l: &str) -> Strategy {
    call("unroll", vec![name(l)])
}

/// `unroll(l, tail: guarded)`: of partial tiles, of which only the most iterations are known.
pub fn unroll_partial(l: &str) -> Strategy {
    with("unroll", vec![Argument::positional(name(l)), word("tail", "guarded")])
}

/// The step, if it can be done: for steps that only make code better.
pub fn attempt(s: Strategy) -> Strategy {
    let value = ArgValue::Strategy(Box::new(s));
    with("try", vec![Argument { name: None, value, span: None }])
}

pub fn name(n: &str) -> Expr {
    Expr::Name(n.to_string())
}

pub fn int(v: u64) -> Expr {
    Expr::Value(Value::Int(i64::try_from(v).unwrap_or(i64::MAX)))
}

pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

/// `rule(a, b)` as data: steps of layouts.
pub fn data(rule: &str, args: impl IntoIterator<Item = usize>) -> Expr {
    Expr::Call(rule.to_string(), args.into_iter().map(|k| int(k as u64)).collect())
}

/// `key: value`
pub fn named(key: &str, value: Expr) -> Argument {
    Argument { name: Some(key.to_string()), value: ArgValue::Expr(value), span: None }
}

/// `key: word`
pub fn word(key: &str, w: &str) -> Argument {
    named(key, name(w))
}

pub fn truth(key: &str) -> Argument {
    named(key, Expr::Value(Value::Bool(true)))
}
