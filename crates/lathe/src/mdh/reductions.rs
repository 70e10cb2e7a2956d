//! Reductions that are written as stores and conditions are recognized (`to_reduction`), where that keeps the results; where
//! it might not, a note says what to write instead.

use super::made::Made;
use super::setting::Setting;
use lathe_ir::visit;
use lathe_ir::{BinOp, Expr, ExprKind, Stmt, Store};
use lathe_strategy::Claim;
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};

/// The function with all such statements of its loops as reductions. None, if there are none.
pub(super) fn recognized(set: &Setting) -> Option<Made> {
    let mut made = Made::of(set.func);
    for label in labels_in(&set.func.body) {
        if !in_loops(&set.func.body, &label) {
            continue;
        }
        let mut args = Args::default();
        args.push(None, Arg::Path(label));
        if let Ok(next) = made.everywhere(set, "to_reduction", &args) {
            // Sums of floating-point numbers keep their order unless the program permits another one.
            let reorders = |m: &Made| {
                let last = m.steps.last().map(|s| &s.1.obligations);
                last.is_some_and(|all| all.iter().any(|o| matches!(o.claim, Claim::Unordered { .. })))
            };
            if !reorders(&next) {
                made = next;
            }
        }
    }
    Some(made).filter(|m| !m.steps.is_empty())
}

/// What to write instead of reductions that are not recognized, because results might be others.
pub(super) fn hints(set: &Setting) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&set.func.body, &mut |s, path| {
        let around: Vec<&Stmt> =
            (0..path.len()).filter_map(|n| visit::at(&set.func.body, &path[..n])).collect();
        if let Some(st) = s.as_store().filter(|st| st.target.elem.is_float())
            && around.iter().any(|s| s.as_loop().is_some())
        {
            // What else the condition decides about, such as a position, goes with it.
            let cond = around.iter().rev().find_map(|s| s.as_if()).map(|c| c.0);
            out.extend(cond.and_then(|c| extremum(st, c)).or_else(|| sum(st)));
        }
        true
    });
    out
}

/// `x = x + e`, over floating-point numbers.
fn sum(st: &Store) -> Option<String> {
    let ExprKind::Binary(op, a, b) = st.value.kind() else { return None };
    let op = match op {
        BinOp::Add | BinOp::Sub => "+=",
        BinOp::Mul => "*=",
        _ => return None,
    };
    [a, b].into_iter().any(|e| is(e, st)).then(|| {
        format!("the order of `{}` is kept as written: `{op}` permits another one, and thus lanes and partial results", st.label)
    })
}

/// `if e > x { x = e }`, over floating-point numbers.
fn extremum(st: &Store, cond: &Expr) -> Option<String> {
    let ExprKind::Binary(op, a, b) = cond.kind() else { return None };
    let more = match op {
        BinOp::Gt | BinOp::Ge => true,
        BinOp::Lt | BinOp::Le => false,
        _ => return None,
    };
    let more = match () {
        () if *a == st.value && is(b, st) => more,
        () if *b == st.value && is(a, st) => !more,
        () => return None,
    };
    let name = if more { "max" } else { "min" };
    let text = format!(
        "`{}` is no reduction, since comparisons skip NaNs: write `{name}=`, or `arg{name}[i]` for the position, too",
        st.label
    );
    // The best of a row is compared once, after the reduction that found it.
    let found = matches!(st.value.kind(), ExprKind::Load(a) if a.indices.is_empty());
    (!found).then_some(text)
}

fn is(e: &Expr, st: &Store) -> bool {
    matches!(e.kind(), ExprKind::Load(a) if a.view == st.target.view && a.indices == st.target.indices)
}

/// Whether a label is inside of a loop.
fn in_loops(body: &Stmt, label: &str) -> bool {
    let mut found = false;
    visit::walk(body, &mut |s, _| {
        found |= s.as_loop().is_some_and(|l| labels_in(&l.body).iter().any(|l| l == label));
        !found
    });
    found
}
