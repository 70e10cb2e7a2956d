//! Spaces and costs that the tests share.

use lathe_space::{Configuration, Constraint, Generate, Space, SpaceDef, TuningParameter, Value, parse};
use std::sync::Arc;

pub fn space(params: Vec<TuningParameter>) -> Arc<Space> {
    let def = SpaceDef { params, ..SpaceDef::new() };
    Arc::new(Space::generate(&def, &Generate::default()).unwrap())
}

pub fn such_that(p: TuningParameter, condition: &str) -> TuningParameter {
    p.such_that(Constraint::Expr(parse(condition).unwrap()))
}

/// Four parameters, of which three depend on each other; 3,000 configurations.
pub fn constrained() -> Arc<Space> {
    space(vec![
        TuningParameter::int("a", 1, 30),
        such_that(TuningParameter::int("b", 1, 30), "a + b <= 40"),
        such_that(TuningParameter::ints("c", [1, 2, 4, 8]), "a % c == 0"),
        TuningParameter::strings("mode", ["x", "y"]),
    ])
}

pub fn one_point() -> Arc<Space> {
    space(vec![TuningParameter::int("a", 7, 7)])
}

pub fn number(c: &Configuration, name: &str) -> f64 {
    match c.get(name) {
        Some(Value::Int(v)) => *v as f64,
        Some(Value::Float(v)) => *v,
        _ => 0.0,
    }
}

/// A bowl over [`constrained`] with its bottom at a = 16, b = 20, c = 8, mode y: cost 1.
pub fn smooth(c: &Configuration) -> f64 {
    let mode = if c.get("mode") == Some(&Value::Str("y".into())) { 0.0 } else { 3.0 };
    let at = |name: &str| number(c, name);
    let (a, b) = ((at("a") - 16.0) / 30.0, (at("b") - 20.0) / 30.0);
    1.0 + 10.0 * (a * a + b * b) + 0.5 * (8.0 / at("c")).log2() + mode
}
