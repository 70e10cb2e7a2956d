//! `reassociate`: a chain of additions or multiplications becomes a balanced tree.

use crate::args::Args;
use crate::codes;
use crate::rule;
use crate::work::Work;
use lathe_ir::expr::{Expr, ExprKind};
use lathe_ir::visit::Memo;
use lathe_ir::{BinOp, Reduce, StmtKind, Store, build};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Obligation, Refusal};

rule! {
    /// `reassociate(B)` rewrites `((a + b) + c) + d` in the statements labelled `B` to `(a + b) + (c + d)`, and chains
    /// of `*`, `min` and `max` likewise: shorter chains of dependent operations. The operands keep their order.
    ///
    /// On integers, `min` and `max` the result is the same; sums and products of floating-point numbers may differ in
    /// their last bits, which asking for the step declares acceptable, and which is recorded. Refused where there is no
    /// chain of at least four operands.
    ///
    /// ```lathe
    /// kernel avg(A: f32[N + 3]) -> (B: f32[N]) {
    ///     B[i] = A[i] + A[i+1] + A[i+2] + A[i+3]
    /// }
    /// strategy trees for avg = reassociate(B)
    /// ```
    pub static REASSOCIATE = reassociate, version 1, (label: one Label), apply,
        "turns chains of an associative operator into balanced trees";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (label, found) = work.labelled(args)?;
    let mut effect = Effect::default();
    let mut places = lathe_diagnostics::Places::none();
    for (path, s) in found {
        places = places.union(s.places());
        let new = match (s.as_store(), s.as_reduce()) {
            (Some(st), _) => StmtKind::Store(Store { value: balance(&st.value, &mut effect), ..st.clone() }),
            (_, Some(r)) => {
                let values = r.values.iter().map(|v| balance(v, &mut effect)).collect();
                StmtKind::Reduce(Reduce { values, ..r.clone() })
            }
            (None, None) => continue,
        };
        work.replace_as_is(&path, s.with_kind(new), Kind::Bijection)?;
    }
    if !effect.changed {
        let text = format!("`{label}` holds no chain of at least four operands");
        return Err(work.refuse_at(codes::SHAPE, text, "leave the step out", &places));
    }
    if effect.rounds {
        work.changes_rounding(&label);
        work.oblige(Obligation::stated(Claim::Associated { label }));
    } else {
        work.oblige(Obligation::by_rule(Claim::Associated { label }));
    }
    Ok(())
}

#[derive(Default)]
struct Effect {
    changed: bool,
    rounds: bool,
}

fn balance(e: &Expr, effect: &mut Effect) -> Expr {
    balance_in(e, effect, &mut Memo::default())
}

fn balance_in(e: &Expr, effect: &mut Effect, memo: &mut Memo<Expr>) -> Expr {
    memo.of(e, |memo| balance_node(e, effect, memo))
}

fn balance_node(e: &Expr, effect: &mut Effect, memo: &mut Memo<Expr>) -> Expr {
    let op = match e.kind() {
        ExprKind::Binary(op @ (BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max), ..) => *op,
        _ => {
            let old = e.children();
            if old.is_empty() {
                return e.clone();
            }
            let new = old.into_iter().map(|c| balance_in(c, effect, memo)).collect();
            return e.with_children(new);
        }
    };
    let mut operands = Vec::new();
    flatten(op, e, &mut operands);
    let operands: Vec<Expr> = operands.iter().map(|o| balance_in(o, effect, memo)).collect();
    if operands.len() < 4 || e.ty().is_index() {
        return operands.into_iter().reduce(|a, b| build::binary(op, a, b)).unwrap_or_else(|| e.clone());
    }
    let new = tree(op, &operands);
    if new != *e {
        effect.changed = true;
        effect.rounds |= e.ty().is_float() && matches!(op, BinOp::Add | BinOp::Mul);
    }
    new
}

/// The operands of a chain that leans left, as `a + b + c` parses.
fn flatten(op: BinOp, e: &Expr, out: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Binary(o, a, b) if *o == op => {
            flatten(op, a, out);
            out.push(b.clone());
        }
        _ => out.push(e.clone()),
    }
}

fn tree(op: BinOp, operands: &[Expr]) -> Expr {
    match operands {
        [one] => one.clone(),
        _ => {
            let (l, r) = operands.split_at(operands.len().div_ceil(2));
            build::binary(op, tree(op, l), tree(op, r))
        }
    }
}
