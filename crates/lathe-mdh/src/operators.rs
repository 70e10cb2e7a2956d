//! What is known of combine operators: associativity and commutativity, declared by users and tested here.

use crate::codes;
use crate::value::{Environment, Value, eval};
use lathe_diagnostics::Diagnostic;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Access, BufId, Expr, Module, ReduceOp, Scalar, Type, VarId, build, reduce};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laws {
    pub commutative: bool,
}

/// Triples that are tested.
const TESTS: u64 = 400;

/// The laws of an operator on values of these types. Built-in operators are known; what a user declares is
/// tested on random values: small integers, so that floating-point sums and products of them are exact.
///
/// # Errors
/// E1208 for an operator that is not declared associative, or whose declaration is refuted.
pub fn laws(module: &Module, op: &ReduceOp, types: &[Type]) -> Result<Laws, Diagnostic> {
    let ReduceOp::User(name) = op else { return Ok(Laws { commutative: true }) };
    let Some(user) = module.ops.get(name) else {
        return Err(Diagnostic::error(codes::OPERATOR, format!("there is no operator `{name}`")));
    };
    if !user.associative {
        return Err(Diagnostic::error(codes::OPERATOR, format!("`{name}` is not declared associative"))
            .help(
                "parts can be combined only by an associative operator; declare it `associative` if it is",
            ));
    }
    let Some(combine) = Combiner::new(module, op, types) else {
        return Err(Diagnostic::error(codes::OPERATOR, format!("`{name}` is not defined on these types")));
    };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..TESTS {
        let [a, b, c] = [0; 3].map(|_| random.values(types));
        let Some(test) = test(&combine, &a, &b, &c) else { continue };
        let show = |v: &[Value]| v.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        if !same(&test.left, &test.right) {
            return Err(Diagnostic::error(
                codes::OPERATOR,
                format!("`{name}` is declared associative, but is not"),
            )
            .note(format!("for a = {}, b = {}, c = {}:", show(&a), show(&b), show(&c)))
            .note(format!(
                "(a · b) · c = {}, but a · (b · c) = {}",
                show(&test.left),
                show(&test.right)
            )));
        }
        if user.commutative && !same(&test.ab, &test.ba) {
            return Err(Diagnostic::error(
                codes::OPERATOR,
                format!("`{name}` is declared commutative, but is not"),
            )
            .note(format!("for a = {}, b = {}:", show(&a), show(&b)))
            .note(format!("a · b = {}, but b · a = {}", show(&test.ab), show(&test.ba))));
        }
    }
    Ok(Laws { commutative: user.commutative })
}

struct Test {
    left: Vec<Value>,
    right: Vec<Value>,
    ab: Vec<Value>,
    ba: Vec<Value>,
}

/// None where the operator has no value (a division by zero).
fn test(combine: &Combiner, a: &[Value], b: &[Value], c: &[Value]) -> Option<Test> {
    let of = |x: &[Value], y: &[Value]| combine.apply(x, y);
    let ab = of(a, b)?;
    Some(Test { left: of(&ab, c)?, right: of(a, &of(b, c)?)?, ba: of(b, a)?, ab })
}

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

fn same(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(x, y)| {
        let nan = |v: &ScalarValue| v.ty.is_float() && v.to_f64().is_nan();
        x.leaves.iter().zip(&y.leaves).all(|(p, q)| p == q || (nan(p) && nan(q)) || zero(p, q))
    })
}

/// Zeros of both signs are taken as equal.
fn zero(p: &ScalarValue, q: &ScalarValue) -> bool {
    p.ty.is_float() && p.to_f64() == 0.0 && q.to_f64() == 0.0
}

/// Small numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn values(&mut self, types: &[Type]) -> Vec<Value> {
        types
            .iter()
            .map(|t| {
                let leaves = t.leaves().into_iter().map(|s| {
                    let v = (self.next() % 9) as i64 - 4;
                    match s {
                        Scalar::Bool => ScalarValue::boolean(v > 0),
                        s if s.is_float() => ScalarValue::float(s, v as f64),
                        s => ScalarValue::int(s, v),
                    }
                });
                Value { ty: t.clone(), leaves: leaves.collect() }
            })
            .collect()
    }
}
