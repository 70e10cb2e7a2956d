//! The laws of operators, as steps rely on them: asked of [`lathe_prove`], and recorded with how they hold.

use crate::codes;
use lathe_diagnostics::Places;
use lathe_ir::{Function, Module, ReduceOp, Type};
use lathe_prove::operator::{Broken, Law, Which, elements, law};
use lathe_strategy::{Discharge, Evidence, Refusal};

/// A law that a step relies on.
#[derive(Clone, Debug)]
pub struct Relied {
    /// For example "`sum` is associative (proved, up to rounding)".
    pub what: String,
    pub law: Law,
}

impl Relied {
    pub fn by(&self) -> Discharge {
        if self.law.proof.is_some() { Discharge::ByRule } else { Discharge::Tested }
    }

    pub fn record(&self, evidence: Evidence) -> Evidence {
        evidence.oblige(self.what.clone(), self.by())
    }
}

/// Asks for a law of an operator; `func` is the function in which it combines.
///
/// # Errors
/// `E0624` where the law is not declared, `E1208` where it does not hold.
pub fn rely(
    rule: &str,
    module: &Module,
    func: &Function,
    op: &ReduceOp,
    types: &[Type],
    which: Which,
    places: &Places,
) -> Result<Relied, Refusal> {
    let elements = if which == Which::Identity { elements(module, func, op, types) } else { Vec::new() };
    match law(module, op, types, which, &elements) {
        Ok(law) => {
            let what = match which {
                Which::Identity => "has a neutral identity".to_string(),
                which => format!("is {which}"),
            };
            Ok(Relied { what: format!("`{op}` {what} ({law})"), law })
        }
        Err(broken) => Err(refusal(rule, &broken, places)),
    }
}

fn refusal(rule: &str, broken: &Broken, places: &Places) -> Refusal {
    let mut d = broken.diagnostic();
    if matches!(broken, Broken::Undeclared { .. }) {
        d.code = codes::SHAPE;
    }
    d.message = format!("`{rule}`: {}", d.message);
    Refusal::new(rule, d.at_places(places, "the reduction"))
}
