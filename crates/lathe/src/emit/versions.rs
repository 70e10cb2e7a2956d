//! The versions of a schedule as one function that decides by its sizes, for emitted code: with their bodies
//! in it, or with calls of them.

use crate::codes;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{
    add, and, boolean, ceil_div, eq, floor_div, floor_mod, index, le, lt, max, min, mul, neg, not, or, sub,
    var,
};
use lathe_ir::{Arg, Executor, Function, Name, ParamKind, Stmt, StmtKind, View, visit};
use lathe_space::{BinOp, Expr, UnOp, Value};

/// One function: the first version whose condition holds runs; sizes that the strategy is not for fail the call.
///
/// # Errors
/// `E0912` for a condition that machine code does not express.
pub(super) fn one_function(schedule: &Schedule) -> Result<Function, Diagnostic> {
    let next_id = schedule.versions.iter().map(|v| v.func.next_id).max().unwrap_or_default();
    let mut next_id = next_id;
    let mut out = chosen(schedule, |n, v, into| match n + 1 == schedule.versions.len() {
        true => v.body.clone(),
        // Every binder of a function has an identity of its own, and versions of a fun were translated apart.
        false => visit::refresh_into(v, into, &mut next_id),
    })?;
    out.next_id = next_id;
    Ok(out)
}

/// A function that calls the first version whose condition holds, each under a name of its own: where calls can be. A
/// called function reads its sizes off its arrays, and has no grid.
///
/// # Errors
/// `E0912` for a condition that a tree does not express.
pub(super) fn chooser(schedule: &Schedule, names: &[Name]) -> Result<Option<Function>, Diagnostic> {
    if !schedule.versions.iter().all(|v| can_be_called(&v.func)) {
        return Ok(None);
    }
    let call = |n: usize, _: &Function, into: &Function| {
        let args = into.params.iter().map(|p| match &p.kind {
            ParamKind::Array(b) => Arg::View(View::Buffer(b.id)),
            ParamKind::Scalar(b) => Arg::Value(var(b)),
        });
        Stmt::of(StmtKind::Call { function: names[n].clone(), args: args.collect() })
    };
    let mut out = chosen(schedule, call)?;
    out.stage = schedule.versions.iter().map(|v| v.func.stage).max().unwrap_or(out.stage);
    // Nothing is bound but sizes and parameters.
    let bound = out.sizes.iter().map(|s| s.id.0).chain(out.params.iter().map(|p| match &p.kind {
        ParamKind::Array(b) => b.id.0,
        ParamKind::Scalar(b) => b.id.0,
    }));
    out.next_id = bound.max().map_or(0, |n| n.saturating_add(1));
    Ok(Some(out))
}

fn can_be_called(f: &Function) -> bool {
    let extents = || f.params.iter().filter_map(|p| p.array()).flat_map(|b| &b.extents);
    let told = f.sizes.iter().all(|s| extents().any(|e| e.as_var() == Some(s.id)));
    let mut levels = false;
    visit::walk(&f.body, &mut |s, _| {
        levels |= s.as_loop().is_some_and(|l| matches!(l.exec, Executor::Level(_) | Executor::Device));
        !levels
    });
    told && !levels
}

/// What `body` says of the first version, by its number, whose condition holds, with the parameters of the last one.
fn chosen(
    schedule: &Schedule,
    mut body: impl FnMut(usize, &Function, &Function) -> Stmt,
) -> Result<Function, Diagnostic> {
    let Some((last, others)) = schedule.versions.split_last() else {
        return Err(Diagnostic::error(codes::VERSIONS, "the strategy has no version"));
    };
    let mut out = last.func.clone();
    let mut here = body(others.len(), &last.func, &last.func);
    for (n, v) in others.iter().enumerate().rev() {
        let Some(condition) = &v.condition else { continue };
        let cond = truth(condition, &out)?;
        here = Stmt::of(StmtKind::If { cond, then: body(n, &v.func, &last.func), other: Some(here) });
    }
    let mut all = Vec::new();
    for c in &schedule.requires {
        all.push(Stmt::of(StmtKind::Check {
            cond: truth(c, &out)?,
            code: "sizes".into(),
            message: format!("the strategy is for sizes with {c}").into(),
        }));
    }
    all.push(here);
    out.body = Stmt::seq(all);
    Ok(out)
}

fn refused(e: &Expr) -> Diagnostic {
    Diagnostic::error(codes::VERSIONS, format!("the condition `{e}` cannot be decided in emitted code"))
        .help("write it with sizes, integers, `+ - * // %`, comparisons, `and`, `or`, `not`, `min` and `max`")
}

fn truth(e: &Expr, f: &Function) -> Result<lathe_ir::Expr, Diagnostic> {
    let whole = |a: &Expr, b: &Expr| Ok::<_, Diagnostic>((number(a, f)?, number(b, f)?));
    Ok(match e {
        Expr::Value(Value::Bool(b)) => boolean(*b),
        Expr::Unary(UnOp::Not, a) => not(truth(a, f)?),
        Expr::Binary(BinOp::And, a, b) => and(truth(a, f)?, truth(b, f)?),
        Expr::Binary(BinOp::Or, a, b) => or(truth(a, f)?, truth(b, f)?),
        Expr::Binary(op, a, b) => {
            let (a, b) = whole(a, b)?;
            match op {
                BinOp::Eq => eq(a, b),
                BinOp::Ne => not(eq(a, b)),
                BinOp::Lt => lt(a, b),
                BinOp::Le => le(a, b),
                BinOp::Gt => lt(b, a),
                BinOp::Ge => le(b, a),
                _ => return Err(refused(e)),
            }
        }
        Expr::Call(name, args) => match (name.as_str(), args.as_slice()) {
            ("divides", [d, n]) | ("is_multiple", [n, d]) => {
                eq(floor_mod(number(n, f)?, index(divisor(d).ok_or_else(|| refused(e))?)), index(0))
            }
            _ => return Err(refused(e)),
        },
        _ => return Err(refused(e)),
    })
}

fn number(e: &Expr, f: &Function) -> Result<lathe_ir::Expr, Diagnostic> {
    let by = |d: &Expr| divisor(d).ok_or_else(|| refused(e));
    Ok(match e {
        Expr::Value(Value::Int(v)) => index(*v),
        Expr::Name(n) => match f.size(n) {
            Some(b) => var(b),
            None => return Err(refused(e)),
        },
        Expr::Unary(UnOp::Neg, a) => neg(number(a, f)?),
        Expr::Binary(op, a, b) => {
            let x = number(a, f)?;
            match op {
                BinOp::Add => add(x, number(b, f)?),
                BinOp::Sub => sub(x, number(b, f)?),
                BinOp::Mul => mul(x, number(b, f)?),
                BinOp::FloorDiv => floor_div(x, index(by(b)?)),
                BinOp::Mod => floor_mod(x, index(by(b)?)),
                _ => return Err(refused(e)),
            }
        }
        Expr::Call(name, args) => match (name.as_str(), args.as_slice()) {
            ("min" | "max", [first, rest @ ..]) => {
                let of = if name == "min" { min } else { max };
                rest.iter().try_fold(number(first, f)?, |m, x| Ok::<_, Diagnostic>(of(m, number(x, f)?)))?
            }
            ("abs", [a]) => {
                let x = number(a, f)?;
                max(x.clone(), neg(x))
            }
            ("ceil_div", [a, b]) if by(b)? > 0 => ceil_div(number(a, f)?, by(b)?),
            _ => return Err(refused(e)),
        },
        _ => return Err(refused(e)),
    })
}

/// A constant that may be divided by.
fn divisor(e: &Expr) -> Option<i64> {
    match e {
        Expr::Value(Value::Int(v)) if *v != 0 => Some(*v),
        _ => None,
    }
}
