//! Expressions of a strategy as `index` expressions of the tree.

use crate::args::Arg;
use crate::names::loops_around;
use lathe_ir::{Expr, Function, ParamKind, build};
use lathe_space as space;

/// An argument as an expression.
pub fn arg_expr(arg: &Arg) -> space::Expr {
    match arg {
        Arg::Int(v) => space::Expr::Value(space::Value::Int(*v)),
        Arg::Float(v) => space::Expr::Value(space::Value::Float(*v)),
        Arg::Bool(v) => space::Expr::Value(space::Value::Bool(*v)),
        Arg::Path(p) => space::Expr::Name(p.clone()),
        Arg::Data(e) => e.clone(),
    }
}

/// The tree's expression; names are looked up by `var`. An error says in words what cannot be expressed.
pub fn to_index(e: &space::Expr, var: &dyn Fn(&str) -> Option<Expr>) -> Result<Expr, String> {
    use space::{BinOp, Expr as E, UnOp, Value};
    let positive = |e: &Expr| e.as_int().is_some_and(|c| c > 0);
    match e {
        E::Value(Value::Int(v)) => Ok(build::index(*v)),
        E::Name(n) => var(n).ok_or_else(|| format!("`{n}` is not a loop or size here")),
        E::Unary(UnOp::Neg, a) => Ok(build::neg(to_index(a, var)?)),
        E::Binary(op, a, b) => {
            let (a, b) = (to_index(a, var)?, to_index(b, var)?);
            match op {
                BinOp::Add => Ok(build::add(a, b)),
                BinOp::Sub => Ok(build::sub(a, b)),
                BinOp::Mul => Ok(build::mul(a, b)),
                BinOp::FloorDiv if positive(&b) => Ok(build::floor_div(a, b)),
                BinOp::Mod if positive(&b) => Ok(build::floor_mod(a, b)),
                BinOp::FloorDiv | BinOp::Mod => {
                    Err(format!("`{e}` divides by something that is not a positive constant"))
                }
                BinOp::Div => Err(format!("`{e}`: use `//`, which rounds down")),
                _ => Err(format!("`{e}` is not a number")),
            }
        }
        E::Call(f, args) if (f == "min" || f == "max") && !args.is_empty() => {
            let op = if f == "min" { build::min } else { build::max };
            let mut all = args.iter().map(|a| to_index(a, var)).collect::<Result<Vec<_>, _>>()?.into_iter();
            let first = all.next().ok_or_else(|| format!("`{e}` has no arguments"))?;
            Ok(all.fold(first, op))
        }
        _ => Err(format!("`{e}` is not an integer expression")),
    }
}

/// What a name stands for at a place: a loop around it (the innermost), a size, or an `index` parameter.
pub fn variable_at(func: &Function, path: &[usize], name: &str) -> Option<Expr> {
    let around = loops_around(&func.body, path).into_iter().rev().find_map(|p| {
        let l = lathe_ir::visit::at(&func.body, &p)?.as_loop()?;
        (&*l.binder.name == name).then(|| build::var(&l.binder))
    });
    around.or_else(|| func.size(name).map(build::var)).or_else(|| {
        func.params.iter().find_map(|p| match &p.kind {
            ParamKind::Scalar(b) if &*b.name == name && b.ty == lathe_ir::Scalar::Index => {
                Some(build::var(b))
            }
            _ => None,
        })
    })
}
