//! Sizes from the shapes of arguments, and whether arguments fit.

use super::array::{ArrayValue, element_count};
use super::codes;
use crate::expr::{Expr, ExprKind};
use crate::func::{Function, Mode, ParamKind};
use crate::ids::VarId;
use crate::ops::{BinOp, MathFn};
use crate::scalar;
use crate::types::Scalar;
use crate::visit::Memo;
use lathe_diagnostics::Diagnostic;
use std::collections::HashMap;

/// The values of a function's sizes, taken from the shapes of its arguments (one per parameter). An
/// extent that is linear in one unknown size tells it. Fails with E0412 where
/// types, ranks or shapes do not fit, or where a size is told by no argument.
pub fn sizes_from_shapes(func: &Function, args: &[ArrayValue]) -> Result<HashMap<VarId, i64>, Diagnostic> {
    if args.len() != func.params.len() {
        return Err(bad(format!(
            "`{}` takes {} arguments, but {} are given",
            func.name,
            func.params.len(),
            args.len()
        )));
    }
    let mut shapes = Vec::new();
    for (p, a) in func.params.iter().zip(args) {
        let want = match &p.kind {
            ParamKind::Array(b) => b.elem.clone(),
            ParamKind::Scalar(b) => b.ty.into(),
        };
        if a.ty != want {
            let message =
                format!("`{}` has elements of type {want}, but the argument has {}", p.name(), a.ty);
            return Err(bad(message));
        }
        if element_count(&a.shape).and_then(|n| n.checked_mul(want.bytes() as usize)) != Some(a.bytes().len())
        {
            return Err(bad(format!("the data of the array for `{}` does not match its shape", p.name())));
        }
        shapes.push(a.shape.iter().map(|e| *e as i64).collect::<Vec<_>>());
    }
    let scalars = func.params.iter().zip(args).filter_map(|(p, a)| match &p.kind {
        ParamKind::Scalar(b) if b.ty.is_int() => a.leaf(0, 0).map(|v| (b.id, v.to_i64())),
        _ => None,
    });
    sizes(func, &shapes, scalars.collect())
}

/// The same for extents alone; `known` holds the integer scalar parameters.
pub fn sizes(
    func: &Function,
    shapes: &[Vec<i64>],
    mut known: HashMap<VarId, i64>,
) -> Result<HashMap<VarId, i64>, Diagnostic> {
    let arrays = || func.params.iter().zip(shapes).filter_map(|(p, s)| p.array().map(|b| (b, s)));
    for (p, shape) in func.params.iter().zip(shapes) {
        let rank = p.array().map_or(0, |b| b.extents.len());
        if shape.len() != rank {
            return Err(bad(format!(
                "`{}` has {rank} dimensions, but the argument has {}",
                p.name(),
                shape.len()
            )));
        }
    }
    // Extents that are a size first; each further round finds a size, or is the last one.
    for plain in std::iter::once(true).chain(std::iter::repeat(false)) {
        let extents = arrays().flat_map(|(b, shape)| b.extents.iter().zip(shape));
        let mut found = false;
        for (e, have) in extents.filter(|(e, _)| !plain || e.as_var().is_some()) {
            found |= solve(e, *have, func, &mut known);
        }
        if !plain && !found {
            break;
        }
    }
    for size in &func.sizes {
        match known.get(&size.id) {
            None => return Err(bad(format!("no argument determines the size `{}`", size.name))),
            Some(v) if *v < 0 => return Err(bad(format!("size `{}` would be {v}", size.name))),
            Some(_) => {}
        }
    }
    for (b, shape) in arrays() {
        for (d, (e, have)) in b.extents.iter().zip(shape).enumerate() {
            let want = evaluate(e, &known);
            if want != Some(*have) {
                let want = want.map_or("not computable".to_string(), |w| w.to_string());
                return Err(bad(format!(
                    "dimension {d} of `{}` should have the extent {want}, but has {have}",
                    b.name
                )));
            }
        }
    }
    Ok(known)
}

/// Undefined arrays for the `out` parameters, in order, once the sizes are known. Fails with E0412 where
/// a shape is negative or larger than any memory.
pub fn outputs(func: &Function, sizes: &HashMap<VarId, i64>) -> Result<Vec<ArrayValue>, Diagnostic> {
    let mut out = Vec::new();
    for p in func.params.iter().filter(|p| p.mode == Mode::Out) {
        let Some(b) = p.array() else { continue };
        let extent = |e: &Expr| evaluate(e, sizes).and_then(|v| usize::try_from(v).ok());
        let shape: Option<Vec<usize>> = b.extents.iter().map(extent).collect();
        let Some(shape) = shape.filter(|s| {
            element_count(s)
                .and_then(|n| n.checked_mul(b.elem.bytes() as usize))
                .is_some_and(|n| n >> 62 == 0)
        }) else {
            return Err(bad(format!("output `{}` would have an impossible shape", b.name)));
        };
        out.push(ArrayValue::undefined(b.elem.clone(), &shape));
    }
    Ok(out)
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::error(codes::ARGUMENTS, message)
}

/// Finds the unknown size in `e == value`, where it can be told: whether it did.
fn solve(e: &Expr, value: i64, func: &Function, known: &mut HashMap<VarId, i64>) -> bool {
    let Some((Some(v), times, plus)) = line(e, known) else { return false };
    let rest = value.checked_sub(plus);
    let exact = rest.filter(|r| r.checked_rem(times) == Some(0)).and_then(|r| r.checked_div(times));
    let Some(n) = exact.filter(|_| func.sizes.iter().any(|s| s.id == v)) else { return false };
    known.insert(v, n);
    true
}

/// `times · v + plus` with the one variable that is not known; `None` if there are others, or it is not linear.
fn line(e: &Expr, known: &HashMap<VarId, i64>) -> Option<Line> {
    line_in(e, known, &mut Memo::default())
}

type Line = (Option<VarId>, i64, i64);

fn line_in(e: &Expr, known: &HashMap<VarId, i64>, memo: &mut Memo<Option<Line>>) -> Option<Line> {
    memo.of(e, |memo| line_of_node(e, known, memo))
}

fn line_of_node(e: &Expr, known: &HashMap<VarId, i64>, memo: &mut Memo<Option<Line>>) -> Option<Line> {
    if let Some(c) = evaluate(e, known) {
        return Some((None, 0, c));
    }
    match e.kind() {
        ExprKind::Var(v) => Some((Some(*v), 1, 0)),
        ExprKind::Binary(op, a, b) => {
            let ((v, m, c), (w, n, d)) = (line_in(a, known, memo)?, line_in(b, known, memo)?);
            match op {
                BinOp::Add | BinOp::Sub if v.is_none() || w.is_none() || v == w => {
                    let sign = if *op == BinOp::Add { 1 } else { -1 };
                    let sum = |x: i64, y: i64| x.checked_add(y.checked_mul(sign)?);
                    Some((v.or(w), sum(m, n)?, sum(c, d)?))
                }
                BinOp::Mul if v.is_none() => Some((w, n.checked_mul(c)?, d.checked_mul(c)?)),
                BinOp::Mul if w.is_none() => Some((v, m.checked_mul(d)?, c.checked_mul(d)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The value of an integer expression over known variables; `None` if it needs others, or fails.
pub fn evaluate(e: &Expr, known: &HashMap<VarId, i64>) -> Option<i64> {
    let ty = e.ty().scalar().filter(|ty| ty.is_int() || *ty == Scalar::Bool)?;
    bits(e, ty, known, &mut Memo::default()).map(|v| v as i64)
}

/// The bits of the value of a scalar expression.
fn bits(e: &Expr, ty: Scalar, known: &HashMap<VarId, i64>, memo: &mut Memo<Option<u64>>) -> Option<u64> {
    memo.of(e, |memo| bits_of_node(e, ty, known, memo))
}

fn bits_of_node(
    e: &Expr,
    ty: Scalar,
    known: &HashMap<VarId, i64>,
    memo: &mut Memo<Option<u64>>,
) -> Option<u64> {
    let mut part = |e: &Expr| bits(e, e.ty().scalar()?, known, memo);
    match e.kind() {
        ExprKind::Int(v) => Some(*v as u64),
        ExprKind::Bool(v) => Some(u64::from(*v)),
        ExprKind::Float(v) => Some(scalar::of_f64(ty, v.get())),
        ExprKind::Var(v) if !ty.is_float() => known.get(v).map(|v| *v as u64),
        ExprKind::Unary(op, a) => scalar::unary(*op, ty, part(a)?).ok(),
        ExprKind::Binary(op, a, b) => scalar::binary(*op, a.ty().scalar()?, part(a)?, part(b)?).ok(),
        ExprKind::Select(c, a, b) => {
            let taken = if part(c)? != 0 { a } else { b };
            part(taken)
        }
        ExprKind::Math(f @ MathFn::Abs, all) => scalar::exact_math(*f, ty, part(all.first()?)?).ok(),
        ExprKind::Cast(a) => scalar::cast(a.ty().scalar()?, ty, part(a)?).ok(),
        _ => None,
    }
}
