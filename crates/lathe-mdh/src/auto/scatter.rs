//! Updates with indirect subscripts (`h[x[e]] += 1`, histograms): not a homomorphism of this library, whose index
//! functions are static, but one over blocks: every thread has a table of its own, and the tables are added up.

use crate::choose::Setting;
use crate::lower::steps::{attempt, call, name, split};
use lathe_ir::interp::evaluate;
use lathe_ir::names;
use lathe_ir::{Access, Binder, Expr, Function, Label, Reduce, Stmt, VarId, visit};
use lathe_strategy::Strategy;
use std::collections::{BTreeMap, HashMap};

/// Elements that a block has at least, and bytes that all tables take at most.
const BLOCK: i64 = 1 << 16;
const TABLES: i64 = 1 << 26;

/// Such a statement, and the loop that is cut into blocks.
pub struct Table {
    pub label: String,
    index: String,
    buffer: String,
    pub block: u64,
    elements: u64,
    /// The fewest elements of a block with which all tables fit.
    least: u64,
}

impl Table {
    /// Other sizes of a block that a search may try.
    pub fn blocks(&self) -> Vec<u64> {
        let sizes = (12..=24).map(|n| 1u64 << n);
        sizes.filter(|b| *b >= self.least && *b <= self.elements / 2).collect()
    }

    /// Steps, which are left out if a rule refuses them.
    pub fn steps(&self) -> Strategy {
        let (cut, blocks) = split(&names::around(&self.label, &self.index), self.block);
        attempt(Strategy::Seq(vec![
            cut,
            call("privatize", vec![name(&self.buffer), name(&blocks.outer)]),
            call("parallel", vec![name(&blocks.outer)]),
        ]))
    }
}

/// All such statements of a function that threads share.
pub fn tables(func: &Function, sizes: &BTreeMap<String, i64>, s: &Setting) -> Vec<Table> {
    let known: HashMap<VarId, i64> =
        func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let mut out = Vec::new();
    if s.threads < 2 {
        return out;
    }
    visit::walk(&func.body, &mut |stmt, _| {
        if let Some(l) = stmt.as_loop() {
            let r = only_reduction(&l.body).filter(|r| r.licence && r.targets.len() == 1);
            out.extend(
                r.and_then(|r| one(func, (&l.binder, &l.lo, &l.hi), (&r.label, &r.targets[0]), &known, s)),
            );
        }
        if let Some(c) = stmt.as_compute()
            && let (Some(_), Some(d), [target]) = (&c.update, c.dims.first(), &c.targets[..])
        {
            out.extend(one(func, (&d.binder, &d.lo, &d.hi), (&c.label, target), &known, s));
        }
        stmt.as_loop().is_none()
    });
    out
}

/// The one statement of a loop's body, if it combines.
fn only_reduction(body: &Stmt) -> Option<&Reduce> {
    match (body.as_seq(), body.as_let()) {
        (Some([one]), _) => only_reduction(one),
        (_, Some((_, _, body))) => only_reduction(body),
        _ => body.as_reduce(),
    }
}

/// Blocks of the loop `index`, from `lo` to `hi`, around the statement `label` that combines into `target`.
fn one(
    func: &Function,
    (index, lo, hi): (&Binder, &Expr, &Expr),
    (label, target): (&Label, &Access),
    known: &HashMap<VarId, i64>,
    s: &Setting,
) -> Option<Table> {
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
    let entry = table.checked_mul(buffer.elem.bytes() as i64)?.max(1);
    Some(Table {
        label: label.to_string(),
        index: index.name.to_string(),
        buffer: buffer.name.to_string(),
        block: block as u64,
        elements: n as u64,
        least: (n / (TABLES / entry).max(1)).max(1) as u64,
    })
}
