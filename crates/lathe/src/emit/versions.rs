//! The versions of a schedule as one function that decides by its sizes, for code that leaves the house.

use crate::codes;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{
    add, and, boolean, ceil_div, eq, floor_div, floor_mod, index, le, lt, max, min, mul, neg, not, or, sub,
    var,
};
use lathe_ir::{Function, Stmt, StmtKind, visit};
use lathe_space::{BinOp, Expr, UnOp, Value};

/// One function: the first version whose condition holds runs; sizes that the strategy is not for fail the call.
///
/// # Errors
/// `E0912` for a condition that machine code does not express.
pub(super) fn one_function(schedule: &Schedule) -> Result<Function, Diagnostic> {
    let Some((last, others)) = schedule.versions.split_last() else {
        return Err(Diagnostic::error(codes::VERSIONS, "the strategy has no version"));
    };
    let mut out = last.func.clone();
    out.next_id = schedule.versions.iter().map(|v| v.func.next_id).max().unwrap_or(out.next_id);
    let mut body = last.func.body.clone();
    for v in others.iter().rev() {
        let Some(condition) = &v.condition else { continue };
        let cond = truth(condition, &out)?;
        // Every binder of a function has an identity of its own.
        let then = visit::refresh(&v.func.body, &mut out.next_id);
        body = Stmt::of(StmtKind::If { cond, then, other: Some(body) });
    }
    let mut all = Vec::new();
    for c in &schedule.requires {
        all.push(Stmt::of(StmtKind::Check {
            cond: truth(c, &out)?,
            code: "sizes".into(),
            message: format!("the strategy is for sizes with {c}").into(),
        }));
    }
    all.push(body);
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
