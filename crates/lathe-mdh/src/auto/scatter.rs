//! Loops that combine into elements that data names (`h[x[e]] += 1`): no homomorphism of this library, whose index
//! functions are static, but one by blocks: every thread has a table of its own, and the tables are added up.

use crate::choose::Setting;
use crate::lower::steps::{attempt, call, int, name};
use lathe_ir::interp::evaluate;
use lathe_ir::{Function, Loop, Reduce, Stmt, StmtKind, VarId, visit};
use lathe_strategy::Strategy;
use std::collections::{BTreeMap, HashMap};

/// Elements that a block has at least, and bytes that all tables take at most.
const BLOCK: i64 = 1 << 16;
const TABLES: i64 = 1 << 26;

/// Steps for every such loop of a function; each is left out if a rule refuses it.
pub fn steps(func: &Function, sizes: &BTreeMap<String, i64>, s: &Setting) -> Vec<Strategy> {
    let known: HashMap<VarId, i64> =
        func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let mut out = Vec::new();
    if s.threads < 2 {
        return out;
    }
    visit::walk(&func.body, &mut |stmt, _| {
        let Some(l) = stmt.as_loop() else { return true };
        if let Some(r) = only_reduction(&l.body) {
            out.extend(one(func, l, r, &known, s));
        }
        false
    });
    out
}

/// The one statement of a loop's body, if it combines into a subscript that data decides.
fn only_reduction(body: &Stmt) -> Option<&Reduce> {
    match body.kind() {
        StmtKind::Reduce(r) if r.licence && r.targets.len() == 1 => {
            let by_data = r.targets[0].indices.iter().any(|e| !visit::loads_of(e).is_empty());
            by_data.then_some(r)
        }
        StmtKind::Seq(all) if all.len() == 1 => only_reduction(&all[0]),
        StmtKind::Let { body, .. } => only_reduction(body),
        _ => None,
    }
}

fn one(func: &Function, l: &Loop, r: &Reduce, known: &HashMap<VarId, i64>, s: &Setting) -> Option<Strategy> {
    let id = r.targets[0].view.buffer()?;
    let buffer = func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id)?;
    let table = buffer.extents.iter().map(|e| evaluate(e, known)).try_fold(1i64, |n, e| n.checked_mul(e?))?;
    let n = evaluate(&l.hi, known)?.checked_sub(evaluate(&l.lo, known)?)?;
    let block = (n / (8 * s.threads as i64)).max(BLOCK);
    let bytes = (n / block + 1).checked_mul(table)?.checked_mul(buffer.elem.bytes() as i64)?;
    if n < 2 * block || bytes > TABLES {
        return None;
    }
    let at = |rest: &str| name(&format!("{}.{}{rest}", r.label, l.binder.name));
    Some(attempt(Strategy::Seq(vec![
        call("split", vec![at(""), int(block as u64)]),
        call("privatize", vec![name(&buffer.name), at(".o")]),
        call("parallel", vec![at(".o")]),
    ])))
}
