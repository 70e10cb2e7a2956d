//! The laws of operators, as steps rely on them: asked of [`lathe_prove`], and recorded with how they hold.

use crate::codes;
use lathe_diagnostics::Places;
use lathe_ir::{Function, Module, ReduceOp, Type};
use lathe_prove::operator::{Broken, Law, Which, elements, law};
use lathe_strategy::evidence::claim;
use lathe_strategy::{Claim, Discharge, Obligation, Refusal, Witness};

/// A law that a step relies on.
#[derive(Clone, Debug)]
pub struct Relied {
    pub operator: String,
    pub which: Which,
    pub law: Law,
}

impl Relied {
    /// For example "`sum` is associative (proved, up to rounding)".
    pub fn obligation(&self) -> Obligation {
        let law = match self.which {
            Which::Associative => claim::Law::Associative,
            Which::Commutative => claim::Law::Commutative,
            Which::Identity => claim::Law::Identity,
        };
        let Law { proof, rounds, zeros, numbers, elements } = self.law;
        Obligation {
            claim: Claim::Law { operator: self.operator.clone(), law },
            by: if proof.is_some() { Discharge::ByRule } else { Discharge::Tested },
            witness: Witness::Law {
                up_to_rounding: rounds,
                up_to_zero_sign: zeros,
                nan_aside: numbers,
                on_elements: elements,
            },
        }
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
    let known = match law(module, op, types, which, &[]) {
        Err(Broken::Refuted { .. }) => law(module, op, types, which, &elements(module, func, op, types)),
        known => known,
    };
    match known {
        Ok(law) => Ok(Relied { operator: op.to_string(), which, law }),
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
