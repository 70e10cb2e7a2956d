//! The laws of built-in operators. A test decides them all again.

use super::{Broken, Law, Which};
use lathe_ir::{Module, ReduceOp, Type, reduce};

pub(super) fn law(module: &Module, op: &ReduceOp, types: &[Type], which: Which) -> Result<Law, Broken> {
    let Some(_) = reduce::identity(module, op, types) else {
        return Err(Broken::Undefined(format!("`{op}` is not defined on these types")));
    };
    let floats = types.iter().any(|t| t.leaves().iter().any(|s| s.is_float()));
    let rounds = Law { rounds: true, zeros: true, ..Law::EXACT };
    let zeros = Law { zeros: true, ..Law::EXACT };
    let (associative, commutative, identity) = match op {
        // 0 + -0 is +0.
        ReduceOp::Sum if floats => (rounds, Law::EXACT, zeros),
        // 1 times -0 - 0i is -0 + 0i, and infinite parts leave no number beside them.
        ReduceOp::Prod if types.iter().any(|t| t.complex_part().is_some()) => (rounds, Law::EXACT, zeros),
        ReduceOp::Prod if floats => (rounds, Law::EXACT, Law::EXACT),
        // Of two zeros at one index the first is kept.
        ReduceOp::ArgMin | ReduceOp::ArgMax if floats => (Law::EXACT, zeros, Law::EXACT),
        _ => (Law::EXACT, Law::EXACT, Law::EXACT),
    };
    Ok(match which {
        Which::Associative => associative,
        Which::Commutative => commutative,
        Which::Identity => identity,
    })
}
