//! `guard`: predication of reductions that often add the identity.

use crate::args::Args;
use crate::codes;
use crate::failing::may_fail;
use crate::laws;
use crate::rule;
use crate::work::Work;
use lathe_ir::expr::{Expr, ExprKind};
use lathe_ir::{Module, Reduce, Stmt, StmtKind, build};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `guard(B)` turns `B op= select(c, v, e)`, where `e` is the identity of the operator, into `if c { B op= v }`:
    /// where the condition does not hold, neither is the value computed nor the result updated. In a vector loop, a
    /// branch skips the update if the condition holds for no lane. Useful if the condition rarely holds and the value
    /// is costly; apply it after `vectorize` and `unroll`.
    ///
    /// **Legal** if the other operand of `select` is the identity of the operator, and the value cannot fail.
    ///
    /// ```lathe
    /// kernel far(x: f32[N], y: f32[N]) -> (s: f32) {
    ///     s = sum[i](select(x[i] > 100.0, sqrt(x[i]) / y[i], 0.0))
    /// }
    /// strategy seldom for far = guard(s)
    /// ```
    pub static RULE = guard, version 1, (label: one Label), apply,
        "predication: executes a reduction of `select(c, value, identity)` only where the condition holds";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let (label, found) = work.labelled(args)?;
    for (path, s) in found.into_iter().rev() {
        let guarded = s.as_reduce().and_then(|r| {
            let (cond, values) = guarded(cursor.module, r)?;
            Some((r, cond, values))
        });
        let Some((r, cond, values)) = guarded else {
            let text = format!("`{label}` does not reduce `select(condition, value, identity)`");
            let help = "the other operand of `select` must be the declared identity of the operator";
            return Err(work.refuse_at(codes::SHAPE, text, help, s.places()));
        };
        if values.iter().any(may_fail) {
            let text = format!("the values of `{label}` may fail, and the step would suppress the failure");
            let help = "only values without integer divisions and calls can be skipped";
            return Err(work.refuse_at(codes::SHAPE, text, help, s.places()));
        }
        let types: Vec<_> = r.targets.iter().map(|t| t.elem.clone()).collect();
        let neutral =
            laws::rely(work.rule(), cursor.module, cursor.func, &r.op, &types, Which::Identity, s.places())?;
        if !neutral.law.is_exact() {
            // A zero keeps its sign where it would have lost it.
            work.changes_rounding(&label);
        }
        work.relies_on(&neutral);
        let then = s.with_kind(StmtKind::Reduce(Reduce { values, ..r.clone() }));
        let new = Stmt::new(StmtKind::If { cond, then, other: None }, s.places().clone());
        work.replace_by_rule(&path, new, Kind::Subset, Construction::Guarded)?;
    }
    work.scheduled();
    Ok(())
}

/// The condition under which a reduction does something, and its values then.
fn guarded(module: &Module, r: &Reduce) -> Option<(Expr, Vec<Expr>)> {
    let types: Vec<_> = r.targets.iter().map(|t| t.elem.clone()).collect();
    let identity = lathe_ir::reduce::identity(module, &r.op, &types)?;
    let mut found: Option<(Expr, Vec<Expr>)> = None;
    for (v, nothing) in r.values.iter().zip(&identity) {
        let ExprKind::Select(c, yes, no) = v.kind() else { return None };
        let (cond, value) = if no == nothing {
            (c.clone(), yes)
        } else if yes == nothing {
            (build::not(c.clone()), no)
        } else {
            return None;
        };
        match &mut found {
            None => found = Some((cond, vec![value.clone()])),
            Some((same, values)) if *same == cond => values.push(value.clone()),
            Some(_) => return None,
        }
    }
    found.filter(|f| f.1.len() == r.values.len())
}
