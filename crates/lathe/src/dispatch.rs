//! Conditions over sizes as they are asked at every call: which version runs, and whether the strategy's constraints
//! hold.
//!
//! A call of a small kernel takes a few microseconds, so names are looked up once. What the quick form does not cover
//! is evaluated as it stands.

use lathe_ir::{Function, Name};
use lathe_poly::sizes::{SizeSource, size_sources};
use lathe_runtime::ArgView;
use lathe_space::{BinOp, Expr, UnOp, Value};
use std::collections::HashMap;

/// Where each size can be read off the arguments.
#[derive(Default)]
pub struct Sizes(Vec<(Name, SizeSource)>);

impl Sizes {
    pub fn of(func: &Function) -> Sizes {
        let named = |s: SizeSource| {
            let size = func.sizes.iter().find(|b| b.id == s.equation.size)?;
            Some((size.name.clone(), s))
        };
        Sizes(size_sources(func, &|_| true).into_iter().filter_map(named).collect())
    }

    fn find(&self, name: &str) -> Option<&SizeSource> {
        Some(&self.0.iter().find(|s| *s.0 == *name)?.1)
    }

    fn value(&self, name: &str, args: &[ArgView]) -> Option<i64> {
        let SizeSource { param, dim, equation } = self.find(name)?;
        let extent = *args.get(*param)?.shape().get(*dim)?;
        let other = |v| {
            let (name, _) = self.0.iter().find(|s| s.1.equation.size == v)?;
            self.value(name, args)
        };
        let known =
            equation.others.iter().map(|(v, _)| Some((*v, other(*v)?))).collect::<Option<HashMap<_, _>>>()?;
        Some(equation.solve(extent, &known))
    }
}

/// A condition over sizes.
pub struct Condition {
    text: Expr,
    quick: Option<Quick>,
}

/// Integer arithmetic and comparisons; truth is 0 or 1, and the types were checked when it was made.
enum Quick {
    Int(i64),
    Size { param: usize, dim: usize },
    Not(Box<Quick>),
    Binary(BinOp, Box<Quick>, Box<Quick>),
}

#[derive(PartialEq)]
enum Kind {
    Int,
    Bool,
}

impl Condition {
    pub fn new(text: &Expr, sizes: &Sizes) -> Condition {
        let quick = quick(text, sizes).filter(|q| q.1 == Kind::Bool).map(|q| q.0);
        Condition { text: text.clone(), quick }
    }

    pub fn text(&self) -> &Expr {
        &self.text
    }

    /// Whether it holds for these arguments; `None` if that cannot be said.
    pub fn holds(&self, sizes: &Sizes, args: &[ArgView]) -> Option<bool> {
        if let Some(v) = self.quick.as_ref().and_then(|q| value(q, args)) {
            return Some(v != 0);
        }
        let size = |name: &str| Some(Value::Int(sizes.value(name, args)?));
        match lathe_space::eval(&self.text, &size) {
            Ok(Value::Bool(b)) => Some(b),
            _ => None,
        }
    }
}

fn quick(e: &Expr, sizes: &Sizes) -> Option<(Quick, Kind)> {
    match e {
        Expr::Value(Value::Int(v)) => Some((Quick::Int(*v), Kind::Int)),
        Expr::Value(Value::Bool(v)) => Some((Quick::Int(i64::from(*v)), Kind::Bool)),
        Expr::Name(n) => {
            let s = sizes.find(n).filter(|s| s.equation.is_plain())?;
            Some((Quick::Size { param: s.param, dim: s.dim }, Kind::Int))
        }
        Expr::Unary(UnOp::Not, a) => {
            let (a, kind) = quick(a, sizes)?;
            (kind == Kind::Bool).then(|| (Quick::Not(Box::new(a)), Kind::Bool))
        }
        Expr::Binary(op, a, b) => {
            let ((a, ka), (b, kb)) = (quick(a, sizes)?, quick(b, sizes)?);
            let (operands, result) = match op {
                BinOp::And | BinOp::Or => (Kind::Bool, Kind::Bool),
                BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => {
                    (Kind::Int, Kind::Bool)
                }
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::FloorDiv | BinOp::Mod => (Kind::Int, Kind::Int),
                // An error where it leaves a remainder.
                BinOp::Div => return None,
            };
            (ka == operands && kb == operands).then(|| (Quick::Binary(*op, Box::new(a), Box::new(b)), result))
        }
        _ => None,
    }
}

/// The value; `None` where the full evaluation has the last word (overflow, division by zero, missing arguments).
fn value(q: &Quick, args: &[ArgView]) -> Option<i64> {
    Some(match q {
        Quick::Int(v) => *v,
        Quick::Size { param, dim } => *args.get(*param)?.shape().get(*dim)?,
        Quick::Not(a) => 1 - value(a, args)?,
        Quick::Binary(op, a, b) => {
            let x = value(a, args)?;
            match (op, x) {
                (BinOp::And, 0) => return Some(0),
                (BinOp::Or, 1) => return Some(1),
                _ => {}
            }
            let y = value(b, args)?;
            match op {
                BinOp::And | BinOp::Or => y,
                BinOp::Eq => i64::from(x == y),
                BinOp::Ne => i64::from(x != y),
                BinOp::Lt => i64::from(x < y),
                BinOp::Le => i64::from(x <= y),
                BinOp::Gt => i64::from(x > y),
                BinOp::Ge => i64::from(x >= y),
                BinOp::Add => x.checked_add(y)?,
                BinOp::Sub => x.checked_sub(y)?,
                BinOp::Mul => x.checked_mul(y)?,
                // Sizes and literals are rarely negative: those go the long way.
                BinOp::FloorDiv if x >= 0 && y > 0 => x / y,
                BinOp::Mod if x >= 0 && y > 0 => x % y,
                BinOp::FloorDiv | BinOp::Mod | BinOp::Div => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_runtime::Array;

    /// The quick form, the evaluation of the text, and what is right agree.
    #[test]
    fn the_quick_form_says_what_the_text_says() {
        let text = "func f(M, K, P)(A: in f32[M, K], B: in f32[2 * P - K]) stage plain { seq { } }";
        let module = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).unwrap();
        let sizes = Sizes::of(module.functions.values().next().unwrap());
        let mut a = Array::zeros(lathe_ir::Scalar::F32, &[24, 7]).unwrap();
        let mut b = Array::zeros(lathe_ir::Scalar::F32, &[15]).unwrap();
        let args = [a.view_mut(), b.view_mut()];
        for (text, want, is_quick) in [
            ("M <= 64 and M % 8 == 0", Some(true), true),
            ("M * K <= 100 or not K > 7", Some(true), true),
            ("M - 3 * K == 3 and M // K == 3 and K != 8", Some(true), true),
            ("K < 7 or M >= 25", Some(false), true),
            ("true and M == 24", Some(true), true),
            ("M * 9223372036854775807 > 0", None, true),
            ("M % 0 == 0", None, true),
            ("(K - 9) % 4 == 2", Some(true), true),
            ("M / 5 == 4", None, false),
            ("max(M, K) == 24", Some(true), false),
            ("M == 24.0", Some(true), false),
            ("P == 11 and K == 7", Some(true), false),
            ("Q == 1", None, false),
            ("M + 1", None, false),
        ] {
            let c = Condition::new(&lathe_space::parse(text).unwrap(), &sizes);
            assert_eq!(c.quick.is_some(), is_quick, "{text}");
            assert_eq!(c.holds(&sizes, &args), want, "{text}");
            let slow = Condition { quick: None, text: c.text };
            assert_eq!(slow.holds(&sizes, &args), want, "{text}, evaluated");
        }
    }
}
