//! Statements that combine into elements that data names (`h[x[e]] += 1`): no homomorphism of this library, whose index
//! functions are static, but one by blocks: every thread has a table of its own, and the tables are added up.

use crate::choose::Setting;
use crate::lower::steps::{attempt, call, int, name};
use lathe_ir::interp::evaluate;
use lathe_ir::{Access, Binder, Expr, Function, Label, Reduce, Stmt, StmtKind, VarId, visit};
use lathe_strategy::Strategy;
use std::collections::{BTreeMap, HashMap};

/// Elements that a block has at least, and bytes that all tables take at most.
const BLOCK: i64 = 1 << 16;
const TABLES: i64 = 1 << 26;

/// The labels of such statements of a function, and steps for each, which are left out if a rule refuses them.
pub fn steps(func: &Function, sizes: &BTreeMap<String, i64>, s: &Setting) -> Vec<(String, Strategy)> {
    let known: HashMap<VarId, i64> =
        func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let mut out = Vec::new();
    if s.threads < 2 {
        return out;
    }
    visit::walk(&func.body, &mut |stmt, _| match stmt.kind() {
        StmtKind::Loop(l) => {
            let r = only_reduction(&l.body).filter(|r| r.licence && r.targets.len() == 1);
            out.extend(
                r.and_then(|r| one(func, (&l.binder, &l.lo, &l.hi), (&r.label, &r.targets[0]), &known, s)),
            );
            false
        }
        StmtKind::Compute(c) => {
            if let (Some(_), Some(d), [target]) = (&c.update, c.dims.first(), &c.targets[..]) {
                out.extend(one(func, (&d.binder, &d.lo, &d.hi), (&c.label, target), &known, s));
            }
            false
        }
        _ => true,
    });
    out
}

/// The one statement of a loop's body, if it combines.
fn only_reduction(body: &Stmt) -> Option<&Reduce> {
    match body.kind() {
        StmtKind::Reduce(r) => Some(r),
        StmtKind::Seq(all) if all.len() == 1 => only_reduction(&all[0]),
        StmtKind::Let { body, .. } => only_reduction(body),
        _ => None,
    }
}

/// Blocks of the loop `index`, from `lo` to `hi`, around the statement `label` that combines into `target`.
fn one(
    func: &Function,
    (index, lo, hi): (&Binder, &Expr, &Expr),
    (label, target): (&Label, &Access),
    known: &HashMap<VarId, i64>,
    s: &Setting,
) -> Option<(String, Strategy)> {
    if target.indices.iter().all(|e| visit::loads_of(e).is_empty()) {
        return None;
    }
    let id = target.view.buffer()?;
    let buffer = func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id)?;
    let table = buffer.extents.iter().map(|e| evaluate(e, known)).try_fold(1i64, |n, e| n.checked_mul(e?))?;
    let n = evaluate(hi, known)?.checked_sub(evaluate(lo, known)?)?;
    let block = (n / (8 * s.threads as i64)).max(BLOCK);
    let bytes = (n / block + 1).checked_mul(table)?.checked_mul(buffer.elem.bytes() as i64)?;
    if n < 2 * block || bytes > TABLES {
        return None;
    }
    let at = |rest: &str| name(&format!("{label}.{}{rest}", index.name));
    let steps = attempt(Strategy::Seq(vec![
        call("split", vec![at(""), int(block as u64)]),
        call("privatize", vec![name(&buffer.name), at(".o")]),
        call("parallel", vec![at(".o")]),
    ]));
    Some((label.to_string(), steps))
}
