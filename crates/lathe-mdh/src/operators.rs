//! Combine operators on values.

use crate::value::{Environment, Value, eval};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Access, BufId, Expr, Module, ReduceOp, Type, VarId, build, reduce};

/// `a ⊕ b` on values.
pub struct Combiner {
    results: Vec<Expr>,
}

/// Operands are 0-dimensional buffers with numbers that no function has.
const OPERANDS: u32 = u32::MAX / 2;

struct Operands<'a> {
    a: &'a [Value],
    b: &'a [Value],
}

impl Environment for Operands<'_> {
    fn var(&self, _: VarId) -> Option<ScalarValue> {
        None
    }

    fn load(&self, a: &Access, _: &[i64]) -> Option<Value> {
        let n = a.view.buffer()?.0.checked_sub(OPERANDS)? as usize;
        if n.is_multiple_of(2) { self.a } else { self.b }.get(n / 2).cloned()
    }
}

impl Combiner {
    /// None where the operator is not defined on the types.
    pub fn new(module: &Module, op: &ReduceOp, types: &[Type]) -> Option<Combiner> {
        let operand = |n: usize, t: &Type, side: u32| {
            build::load(Access::buffer(BufId(OPERANDS + 2 * n as u32 + side), t.clone(), Vec::new()))
        };
        let side = |s: u32| types.iter().enumerate().map(|(n, t)| operand(n, t, s)).collect::<Vec<_>>();
        let results = reduce::combine(module, op, &side(0), &side(1))?;
        Some(Combiner { results: results.iter().map(lathe_ir::math::expand_expr).collect() })
    }

    /// None where the operator has no value on these.
    pub fn apply(&self, a: &[Value], b: &[Value]) -> Option<Vec<Value>> {
        let env = Operands { a, b };
        self.results.iter().map(|e| eval(e, &env)).collect()
    }
}
