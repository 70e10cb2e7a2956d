//! Scalar expressions as one list of operations, each of its own register: what is evaluated at every call.

use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp, VarId, scalar};
use std::collections::HashMap;

/// The number of a register.
pub(crate) type Register = usize;

/// Operations in the order in which they are computed; each writes the register of its own position. Equal expressions
/// are computed once.
#[derive(Clone, Debug)]
pub(crate) struct Program<Input> {
    operations: Vec<Operation<Input>>,
}

#[derive(Clone, Debug)]
enum Operation<Input> {
    Input(Input),
    Constant(u64),
    Unary(UnOp, Scalar, Register),
    Binary(BinOp, Scalar, Register, Register),
    Select(Register, Register, Register),
    Abs(Scalar, Register),
    Cast(Scalar, Scalar, Register),
    /// What has no value on the host.
    Unknown,
}

/// Translates expressions.
pub(crate) struct Assembler<Input> {
    pub program: Program<Input>,
    known: HashMap<Expr, Register>,
    /// Where variables are.
    pub variables: HashMap<VarId, Register>,
}

impl<Input> Assembler<Input> {
    pub fn new() -> Self {
        let program = Program { operations: Vec::new() };
        Assembler { program, known: HashMap::new(), variables: HashMap::new() }
    }

    /// How many registers there are by now.
    pub fn len(&self) -> usize {
        self.program.len()
    }

    fn push(&mut self, operation: Operation<Input>) -> Register {
        self.program.operations.push(operation);
        self.program.len() - 1
    }

    pub fn input(&mut self, v: VarId, input: Input) {
        let at = self.push(Operation::Input(input));
        self.variables.insert(v, at);
    }

    /// The register that holds the bits of the expression's value.
    pub fn expression(&mut self, e: &Expr) -> Register {
        let variable = if let ExprKind::Var(v) = e.kind() { self.variables.get(v) } else { None };
        if let Some(at) = variable.or_else(|| self.known.get(e)) {
            return *at;
        }
        let operation = self.operation(e).unwrap_or(Operation::Unknown);
        let at = self.push(operation);
        self.known.insert(e.clone(), at);
        at
    }

    fn operation(&mut self, e: &Expr) -> Option<Operation<Input>> {
        let ty = e.ty().scalar()?;
        Some(match e.kind() {
            ExprKind::Int(v) => Operation::Constant(*v as u64),
            ExprKind::Bool(v) => Operation::Constant(u64::from(*v)),
            ExprKind::Float(v) => Operation::Constant(scalar::of_f64(ty, v.get())),
            ExprKind::Unary(op, a) => Operation::Unary(*op, ty, self.expression(a)),
            ExprKind::Binary(op, a, b) => {
                Operation::Binary(*op, a.ty().scalar()?, self.expression(a), self.expression(b))
            }
            ExprKind::Select(c, a, b) => {
                Operation::Select(self.expression(c), self.expression(a), self.expression(b))
            }
            ExprKind::Math(MathFn::Abs, all) => Operation::Abs(ty, self.expression(all.first()?)),
            ExprKind::Cast(a) => Operation::Cast(a.ty().scalar()?, ty, self.expression(a)),
            _ => return None,
        })
    }
}

impl<Input> Program<Input> {
    /// How many registers it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Computes the registers up to `end` that are not computed yet. What fails, or has an input without value, has none.
    pub fn run(
        &self,
        registers: &mut Vec<Option<u64>>,
        end: usize,
        input: &mut dyn FnMut(&Input) -> Option<i64>,
    ) {
        let from = registers.len();
        for operation in self.operations.iter().take(end).skip(from) {
            let at = |r: &Register| registers.get(*r).copied().flatten();
            let value = match operation {
                Operation::Input(i) => input(i).map(|v| v as u64),
                Operation::Constant(v) => Some(*v),
                Operation::Unary(op, ty, a) => at(a).and_then(|a| scalar::unary(*op, *ty, a).ok()),
                Operation::Binary(op, ty, a, b) => {
                    at(a).zip(at(b)).and_then(|(a, b)| scalar::binary(*op, *ty, a, b).ok())
                }
                Operation::Select(c, a, b) => at(c).and_then(|c| at(if c != 0 { a } else { b })),
                Operation::Abs(ty, a) => at(a).and_then(|a| scalar::exact_math(MathFn::Abs, *ty, a).ok()),
                Operation::Cast(from, to, a) => at(a).and_then(|a| scalar::cast(*from, *to, a).ok()),
                Operation::Unknown => None,
            };
            registers.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::Type;
    use lathe_ir::build::{add, and, cast, eq, float, index, le, lt, math, max, min, mul, select, sub, var};
    use lathe_ir::interp::evaluate;

    /// The oracle is the evaluator of the interpreter, which shares no code with this one but the arithmetic.
    #[test]
    fn registers_hold_what_evaluation_gives() {
        let text = "func f()() { }";
        let mut f = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text)
            .expect("a function")
            .functions["f"]
            .clone();
        let [a, b, c] = ["a", "b", "c"].map(|n| f.fresh_var(n, Scalar::Index));
        let (x, y, z) = (var(&a), var(&b), var(&c));
        let real = |e: &Expr| cast(Type::F64, e.clone());
        let far = math(MathFn::Abs, vec![mul(real(&x), real(&y))]);
        let all = [
            add(mul(x.clone(), y.clone()), sub(z.clone(), index(7))),
            select(
                lt(x.clone(), y.clone()),
                min(x.clone(), z.clone()),
                max(add(y.clone(), z.clone()), x.clone()),
            ),
            le(far, float(Scalar::F64, 9.0e15)),
            and(eq(x.clone(), y.clone()), lt(mul(z.clone(), z.clone()), x.clone())),
        ];
        let mut assembler = Assembler::new();
        for (at, b) in [&a, &b, &c].into_iter().enumerate() {
            assembler.input(b.id, at);
        }
        let registers: Vec<Register> = all.iter().map(|e| assembler.expression(e)).collect();
        let few = assembler.len();
        assert_eq!(all.iter().map(|e| assembler.expression(e)).collect::<Vec<_>>(), registers);
        assert_eq!(few, assembler.len(), "equal expressions are computed once");
        let special =
            [Some(0), Some(1), Some(-1), Some(5), Some(1 << 31), Some(i64::MAX), Some(i64::MIN), None];
        let mut failed = 0;
        let n = special.len();
        for at in 0..n * n * n {
            let given = [special[at % n], special[at / n % n], special[at / n / n]];
            let mut held = Vec::new();
            assembler.program.run(&mut held, few / 2, &mut |at: &usize| given[*at]);
            assembler.program.run(&mut held, usize::MAX, &mut |at: &usize| given[*at]);
            let known = [&a, &b, &c].iter().zip(given).filter_map(|(b, v)| Some((b.id, v?))).collect();
            for (e, at) in all.iter().zip(&registers) {
                let value = evaluate(e, &known);
                failed += usize::from(value.is_none());
                assert_eq!(held[*at].map(|v| v as i64), value, "{given:?} {e:?}");
            }
        }
        assert!(failed > 0, "some overflow");
    }
}
