//! Values of scalar functions and operators: a small evaluator of pure expressions, after the meaning that
//! `lathe_ir::scalar` gives to every operation.

use lathe_ir::interp::ArrayValue;
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{Access, Expr, ExprKind, MathFn, Scalar, Type, VarId};
use std::fmt;

/// A value of any type, as its scalars, depth first.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub ty: Type,
    pub leaves: Vec<ScalarValue>,
}

/// What an expression may ask for.
pub trait Environment {
    fn var(&self, id: VarId) -> Option<ScalarValue>;
    /// The element that an access with these subscripts reads.
    fn load(&self, a: &Access, indices: &[i64]) -> Option<Value>;
}

impl Value {
    fn one(v: ScalarValue) -> Value {
        Value { ty: v.ty.into(), leaves: vec![v] }
    }

    fn bits(&self) -> Option<(Scalar, u64)> {
        self.leaves.first().map(|v| (v.ty, v.bits))
    }

    /// The element at a row-major position of an array.
    pub fn of_array(a: &ArrayValue, position: usize) -> Option<Value> {
        let n = a.ty.leaves().len();
        let leaves = (0..n).map(|l| a.leaf(position, l)).collect::<Option<Vec<_>>>()?;
        Some(Value { ty: a.ty.clone(), leaves })
    }

    /// Writes the element at a row-major position of an array of the same type.
    pub fn store(&self, a: &mut ArrayValue, position: usize) {
        for (n, leaf) in self.leaves.iter().enumerate() {
            a.set_leaf(position, n, leaf.bits);
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.leaves.iter().map(ScalarValue::to_string).collect();
        match all.as_slice() {
            [one] => f.write_str(one),
            _ => write!(f, "{}({})", self.ty, all.join(", ")),
        }
    }
}

/// The value of an expression whose math functions are expanded or exact. None where it has none: a division
/// by zero, an `index` beyond 64 bits, a variable that nobody knows.
pub fn eval(e: &Expr, env: &impl Environment) -> Option<Value> {
    let ty = e.ty().scalar();
    Some(match e.kind() {
        ExprKind::Bool(v) => Value::one(ScalarValue::boolean(*v)),
        ExprKind::Int(v) => Value::one(ScalarValue::int(ty?, *v)),
        ExprKind::Float(v) => Value::one(ScalarValue::float(ty?, v.get())),
        ExprKind::Var(id) => Value::one(env.var(*id)?),
        ExprKind::Unary(op, a) => {
            let (t, a) = eval(a, env)?.bits()?;
            Value::one(ScalarValue { ty: ty?, bits: scalar::unary(*op, t, a).ok()? })
        }
        ExprKind::Binary(op, a, b) => {
            let (t, a) = eval(a, env)?.bits()?;
            let (_, b) = eval(b, env)?.bits()?;
            Value::one(ScalarValue { ty: ty?, bits: scalar::binary(*op, t, a, b).ok()? })
        }
        ExprKind::Select(c, a, b) => {
            let (_, c) = eval(c, env)?.bits()?;
            eval(if c != 0 { a } else { b }, env)?
        }
        ExprKind::Cast(a) => {
            let (t, a) = eval(a, env)?.bits()?;
            Value::one(ScalarValue { ty: ty?, bits: scalar::cast(t, ty?, a).ok()? })
        }
        ExprKind::Bitcast(a) => {
            let (t, a) = eval(a, env)?.bits()?;
            Value::one(ScalarValue { ty: ty?, bits: scalar::bitcast(t, ty?, a).ok()? })
        }
        ExprKind::Math(MathFn::Fma, args) => {
            let v = args.iter().map(|a| eval(a, env)?.bits()).collect::<Option<Vec<_>>>()?;
            let [(t, a), (_, b), (_, c)] = v.as_slice() else { return None };
            Value::one(ScalarValue { ty: *t, bits: scalar::fma(*t, *a, *b, *c) })
        }
        ExprKind::Math(f, args) => {
            let (t, a) = eval(args.first()?, env)?.bits()?;
            Value::one(ScalarValue { ty: t, bits: scalar::exact_math(*f, t, a).ok()? })
        }
        ExprKind::Load(a) => {
            let index = |e: &Expr| eval(e, env)?.leaves.first().map(|v| v.to_i64());
            let indices = a.indices.iter().map(index).collect::<Option<Vec<_>>>()?;
            env.load(a, &indices)?
        }
        ExprKind::Aggregate(parts) => {
            let mut leaves = Vec::new();
            for p in parts {
                leaves.extend(eval(p, env)?.leaves);
            }
            Value { ty: e.ty().clone(), leaves }
        }
        ExprKind::Field(a, i) => {
            let whole = eval(a, env)?;
            let fields = whole.ty.fields();
            let start: usize = fields.iter().take(*i as usize).map(|t| t.leaves().len()).sum();
            let n = fields.get(*i as usize)?.leaves().len();
            Value { ty: e.ty().clone(), leaves: whole.leaves.get(start..start + n)?.to_vec() }
        }
        ExprKind::Call(..) | ExprKind::Address(_) => return None,
    })
}
