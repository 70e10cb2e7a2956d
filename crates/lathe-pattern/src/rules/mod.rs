//! The rules: equations between terms. Each keeps the type of the term that it is applied to, as a function
//! of sizes; what it relies on besides becomes a fact that the call checks.
//!
//! Rules that only move stages past one another are data, read from text ([`EQUATIONS`]); those that compute
//! their result are functions.

mod algorithmic;
pub mod equation;
mod equations;
mod exchange;
mod lambda;
mod lowering;
mod reduction;
mod stated;
mod stencil;
mod storage;
mod trial;

pub use equation::{Equation, parse_equations};
pub use equations::EQUATIONS;
pub use stated::{STATED, Stated};
pub use trial::try_rule;

use crate::language;
use crate::nat::Nat;
use crate::normal;
use crate::term::Term;
use lathe_space::{Expr, Value};
use lathe_strategy::{StepArg, Vocabulary, Why};

/// Everything that strategies over terms can say, but for what is defined in [`crate::library`].
pub fn vocabulary() -> Vocabulary<Term> {
    let mut v = language::vocabulary();
    lambda::add(&mut v);
    algorithmic::add(&mut v);
    reduction::add(&mut v);
    stencil::add(&mut v);
    exchange::add(&mut v);
    storage::add(&mut v);
    lowering::add(&mut v);
    for e in equations::all() {
        let name = e.name.clone();
        v.rule(&name, move |t, state, args| e.apply_with(t, state, args));
    }
    v.rule("DFNF", |t, _, _| {
        let text = "after beta reduction the term exceeds the size limit";
        normal::bounded(t).ok_or(Why::Mistake(text.to_string()))
    });
    v
}

/// The `n`-th argument as a size.
fn size(args: &[StepArg], n: usize) -> Result<Nat, Why> {
    let Some(a) = args.get(n) else { return Err(Why::Mistake(format!("argument {} is missing", n + 1))) };
    match &a.value {
        Expr::Value(Value::Int(v)) if *v >= 1 => Ok(Nat::constant(*v)),
        Expr::Value(Value::Int(v)) => Err(Why::Mistake(format!("the size {v} is not positive"))),
        e => match crate::parse::parse_nat(&e.to_string()) {
            Ok(n) => Ok(n),
            Err(_) => Err(Why::Mistake(format!("`{e}` is not a size"))),
        },
    }
}

const SHAPE: Why = Why::Shape("it does not match the rule's left side");
