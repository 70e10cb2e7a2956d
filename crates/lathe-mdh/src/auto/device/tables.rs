//! Updates with indirect subscripts (histograms): every block has a table in shared memory, whose
//! elements its threads share by atomic updates, and adds it to the result at its end.

use super::Form;
use super::shape::{Steps, divisor};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_ir::{Access, Expr, Function, Label, Stmt, StmtKind, visit};
use lathe_strategy::Strategy;

/// The largest table, in bytes: shared memory that a kernel has without asking.
const TABLE: i64 = 32 << 10;
/// Elements that a block has.
const BLOCK: [u64; 6] = [1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13];
/// Blocks that keep all processors of a device busy.
const BLOCKS: u64 = 128;
/// Elements that the threads of a block take at a time: four neighbours each.
const ROUND: u64 = 4096;

/// One for each loop or compute that combines so.
pub fn forms(func: &Function) -> Vec<Form> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        if let Some(l) = s.as_loop()
            && let Some((lo, hi)) = l.lo.as_int().zip(l.hi.as_int()).filter(|_| l.step == 1)
            && let Some((label, target, computes)) = only(&l.body)
        {
            let made = steps(func, hi - lo, &l.binder.name, label, target);
            let labels = Vec::from_iter(computes.then(|| label.to_string()));
            out.extend(made.map(|strategy| Form { labels, strategy }));
        }
        if let Some(c) = s.as_compute()
            && let (Some(_), [d], [target]) = (&c.update, &c.dims[..], &c.targets[..])
            && let (Some(lo), Some(hi)) = (d.lo.as_int(), d.hi.as_int())
        {
            let made = steps(func, hi - lo, &d.binder.name, &c.label, target);
            out.extend(made.map(|strategy| Form { labels: vec![c.label.to_string()], strategy }));
        }
        s.as_loop().is_none()
    });
    out
}

/// The one statement of a loop's body, under conditions or none, if it combines: its label and target, and whether it is
/// a compute.
fn only(body: &Stmt) -> Option<(&Label, &Access, bool)> {
    if let Some(all) = body.as_seq() {
        // Checks of subscripts are beside it.
        let mut rest = all.iter().filter(|s| !matches!(s.kind(), StmtKind::Check { .. }));
        let (one, None) = (rest.next()?, rest.next()) else { return None };
        return only(one);
    }
    if let Some((_, _, body)) = body.as_let() {
        return only(body);
    }
    if let Some((_, then, None)) = body.as_if() {
        return only(then);
    }
    if let Some(c) = body.as_compute()
        && let (Some(_), [], [target]) = (&c.update, &c.dims[..], &c.targets[..])
    {
        return Some((&c.label, target, true));
    }
    let r = body.as_reduce().filter(|r| r.licence)?;
    let [target] = &r.targets[..] else { return None };
    Some((&r.label, target, false))
}

fn steps(func: &Function, n: i64, index: &str, label: &Label, target: &Access) -> Option<Strategy> {
    if target.indices.iter().all(|e| visit::loads_of(e).is_empty()) {
        return None;
    }
    let id = target.view.buffer()?;
    let buffer = func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id)?;
    let [extent] = &buffer.extents[..] else { return None };
    let bytes = Expr::as_int(extent)?.checked_mul(buffer.elem.bytes() as i64)?;
    let n = u64::try_from(n).ok()?;
    let mut sizes = BLOCK.into_iter().filter(|b| n.is_multiple_of(*b));
    let block = sizes.clone().find(|b| n / b >= BLOCKS).or_else(|| sizes.next_back())?;
    if bytes > TABLE {
        return None;
    }
    let at = |l: &str| format!("{label}.{l}");
    let (h, one, mut t) = (&buffer.name, at("one"), Steps::default());
    // The loop `one` has one iteration per block, so that the table is the block's.
    t.split(&at(index), block, "bx", "one");
    t.split(&one, block, "one", "rx");
    t.split(&at("rx"), ROUND, "rx", "tx");
    t.split(&at("tx"), 4, "tx", "vx");
    t.reorder(&["tx", "rx", "vx"].map(at));
    t.add("privatize", &[h, &one], [word("at", &one), word("space", "shared")]);
    t.add("atomic", &[&label.to_string()], []);
    t.add("atomic", &[&Role::Combine.of(label)], []);
    t.split(&at("rx"), divisor(block / ROUND, &[8, 4, 2]), "rx", "ux");
    t.unroll(&at("ux"));
    t.unroll(&at("vx"));
    t.bind(&at("bx"), "grid");
    for l in [at("tx"), names::dimension(names::private(h), 1), at("combine.0")] {
        t.bind(&l, "block");
    }
    Some(t.strategy())
}
