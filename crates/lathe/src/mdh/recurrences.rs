//! Rows of which each element takes in the one before it, as in the table of an alignment: `t[i, j] = max(0, e, t[i, j - 1] - 2)`. What is beside
//! such a store gets a loop of its own, so that its lanes combine in order (`inscan`), and what is combined there has lanes, too.

use super::made::{Cost, Made};
use super::setting::Setting;
use super::sums;
use lathe_ir::names;
use lathe_ir::visit::{self, Path};
use lathe_ir::{BinOp, Executor, ExprKind, Stmt, Store};
use lathe_transform::{Arg, Args};

/// The nest with such rows in lanes; `None` if it has none.
pub(super) fn in_lanes(set: &Setting, start: &Made, nest: &Path, cost: Cost) -> Option<Made> {
    let mut made = start.clone();
    for row in rows(visit::at(&start.func.body, nest)?) {
        made = one(set, &made, nest, &row).unwrap_or(made);
    }
    if made.steps.len() == start.steps.len() {
        return None;
    }
    Some(sums::in_lanes(set, &made, nest, cost).unwrap_or(made))
}

/// A loop around such a store.
struct Row {
    /// The loop's variable.
    var: String,
    /// The labels of its statements, and which of them is the store.
    labels: Vec<String>,
    at: usize,
    buffer: lathe_ir::BufId,
    bytes: i64,
}

fn rows(nest: &Stmt) -> Vec<Row> {
    let mut out = Vec::new();
    visit::walk(nest, &mut |s, _| {
        out.extend(row(s));
        true
    });
    out
}

fn row(s: &Stmt) -> Option<Row> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)?;
    let all = l.body.as_seq().unwrap_or(std::slice::from_ref(&l.body));
    let labels = all.iter().map(|s| s.label().map(|l| l.to_string())).collect::<Option<Vec<_>>>()?;
    let at = all.iter().position(|s| s.as_store().is_some_and(takes_in))?;
    let store = all[at].as_store()?;
    let (buffer, bytes) = (store.target.view.buffer()?, store.target.elem.bytes().max(1) as i64);
    Some(Row { var: l.binder.name.to_string(), labels, at, buffer, bytes })
}

/// Whether a store has the form of one that takes in an element of its own array last. The step knows whether it is the one before.
fn takes_in(s: &Store) -> bool {
    let ExprKind::Binary(BinOp::Max | BinOp::Min, _, last) = s.value.kind() else { return false };
    let ExprKind::Binary(BinOp::Add, before, _) = last.kind() else { return false };
    matches!(before.kind(), ExprKind::Load(a) if a.view == s.target.view)
}

fn one(set: &Setting, start: &Made, nest: &Path, row: &Row) -> Option<Made> {
    let lanes = set.machine.vector_bytes as i64 / row.bytes;
    if lanes < 2 {
        return None;
    }
    let own = |n: usize| names::around(&row.labels[n], &row.var);
    let mut made = start.clone();
    let parts = [row.at.checked_sub(1), Some(row.at).filter(|n| n + 1 < row.labels.len())];
    for n in parts.into_iter().flatten() {
        let mut args = Args::default();
        args.push(None, Arg::Path(row.labels[n].clone()));
        args.push(Some("at"), Arg::Path(own(n)));
        made = made.then(set, nest, "fission", &args).ok()?;
    }
    let mut args = Args::default();
    args.push(None, Arg::Path(sums::array(&start.func, row.buffer)?));
    args.push(None, Arg::Path(own(row.at)));
    args.push(None, Arg::Int(lanes));
    made.then(set, nest, "inscan", &args).ok()
}
