//! Values of terms.

use crate::prim::Prim;
use crate::term::Term;
use crate::types::{Type, TypeKind};
use lathe_ir::interp::ArrayValue;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Scalar, Type as IrType};
use std::fmt;
use std::rc::Rc;

#[derive(Clone)]
pub enum Value {
    /// Indices are numbers of type `index`.
    Scalar(ScalarValue),
    Tuple(Rc<Vec<Value>>),
    /// Arrays and vectors.
    Array(Rc<Vec<Value>>),
    /// What padding of nothing gives; using it is an error.
    Undefined,
    Fun(Rc<Closure>),
}

/// A function with what it knows already.
pub enum Closure {
    Lam(Term, Scope),
    /// A primitive and its arguments so far.
    Prim(Prim, Type, Vec<Value>),
    Dep(Term, Scope),
}

/// The values of bound variables, innermost first.
#[derive(Clone, Default)]
pub struct Scope(Option<Rc<(Value, Scope)>>);

impl Scope {
    pub fn with(&self, v: Value) -> Scope {
        Scope(Some(Rc::new((v, self.clone()))))
    }

    pub fn get(&self, mut i: u32) -> Option<&Value> {
        let mut s = self;
        loop {
            let node = s.0.as_ref()?;
            if i == 0 {
                return Some(&node.0);
            }
            i -= 1;
            s = &node.1;
        }
    }
}

impl Value {
    pub fn array(v: Vec<Value>) -> Value {
        Value::Array(Rc::new(v))
    }

    pub fn tuple(v: Vec<Value>) -> Value {
        Value::Tuple(Rc::new(v))
    }

    pub fn index(v: i64) -> Value {
        Value::Scalar(ScalarValue::int(Scalar::Index, v))
    }

    pub fn f32(v: f32) -> Value {
        Value::Scalar(ScalarValue::float(Scalar::F32, f64::from(v)))
    }

    pub fn as_scalar(&self) -> Option<ScalarValue> {
        match self {
            Value::Scalar(v) => Some(*v),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }

    /// An array as the interpreter of trees takes it.
    pub fn from_array(a: &ArrayValue) -> Value {
        fn element(a: &ArrayValue, ty: &IrType, at: usize, leaf: &mut usize) -> Value {
            match ty.scalar() {
                Some(_) => {
                    *leaf += 1;
                    a.leaf(at, *leaf - 1).map_or(Value::Undefined, Value::Scalar)
                }
                None => Value::tuple(ty.fields().iter().map(|t| element(a, t, at, leaf)).collect()),
            }
        }
        fn nest(a: &ArrayValue, shape: &[usize], from: usize) -> Value {
            match shape.split_first() {
                None => element(a, &a.ty, from, &mut 0),
                Some((n, rest)) => {
                    let stride: usize = rest.iter().product();
                    Value::array((0..*n).map(|i| nest(a, rest, from + i * stride)).collect())
                }
            }
        }
        nest(a, &a.shape, 0)
    }

    /// The inverse of [`Value::from_array`] for data of arrays around elements; `None` for others.
    pub fn to_array(&self, elem: IrType, shape: &[usize]) -> Option<ArrayValue> {
        fn leaves(v: &Value, out: &mut Vec<u64>) -> Option<()> {
            match v {
                Value::Scalar(s) => out.push(s.bits),
                Value::Tuple(v) | Value::Array(v) => v.iter().try_for_each(|v| leaves(v, out))?,
                Value::Undefined | Value::Fun(_) => return None,
            }
            Some(())
        }
        let mut all = Vec::new();
        leaves(self, &mut all)?;
        let mut a = ArrayValue::zeros(elem, shape);
        let per = a.ty.leaves().len();
        if all.len() != per * a.len() {
            return None;
        }
        for (n, bits) in all.into_iter().enumerate() {
            a.set_leaf(n / per, n % per, bits);
        }
        Some(a)
    }
}

/// The element type of trees for an element type of patterns.
pub fn element_type(t: &Type) -> Option<IrType> {
    match t.kind() {
        TypeKind::Scalar(s) => Some((*s).into()),
        TypeKind::Index(_) => Some(IrType::INDEX),
        TypeKind::Complex(t) => IrType::complex(t.as_scalar()?),
        TypeKind::Tuple(ts) => Some(IrType::Tuple(ts.iter().map(element_type).collect::<Option<_>>()?)),
        _ => None,
    }
}

/// Bit for bit, but all NaNs are one.
impl PartialEq for Value {
    fn eq(&self, o: &Value) -> bool {
        match (self, o) {
            (Value::Scalar(a), Value::Scalar(b)) => {
                a == b || (a.ty == b.ty && a.ty.is_float() && a.to_f64().is_nan() && b.to_f64().is_nan())
            }
            (Value::Tuple(a), Value::Tuple(b)) | (Value::Array(a), Value::Array(b)) => a == b,
            (Value::Undefined, Value::Undefined) => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Scalar(v) => write!(f, "{v}"),
            Value::Tuple(v) => {
                let mut t = f.debug_tuple("");
                v.iter().for_each(|v| {
                    t.field(v);
                });
                t.finish()
            }
            Value::Array(v) => f.debug_list().entries(v.iter()).finish(),
            Value::Undefined => f.write_str("?"),
            Value::Fun(_) => f.write_str("fun"),
        }
    }
}
