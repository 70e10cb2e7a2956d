//! Chains of nests, each of which reads the array that the one before wrote, around every element: the two passes of a
//! blur, the stages of a corner detector. Where that array is larger than the second cache, it is written to memory and read
//! again. Run row block by row block, each block computes the rows of it that it needs, which stay in the cache; rows
//! between two blocks are computed by both (overlapped tiles).

use super::made::Made;
use super::nests;
use super::setting::Setting;
use lathe_ir::interp::evaluate;
use lathe_ir::names::{self, Role};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Executor, Function, Loop, Param, Space, Stmt};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::BTreeMap;

/// Rows of a block, at least and at most, in powers of two.
const ROWS: [u32; 2] = [3, 12];
/// A block is at most one so many-th of all rows.
const BLOCKS: i64 = 4;
/// Intermediate arrays that are looked at.
const ARRAYS: usize = 8;

/// The function with such a chain in blocks, the nests inside scheduled, and the blocks on threads, where there are some;
/// `sizes` are examples of those that the function still has. None, if there is no such chain.
pub(super) fn fused(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let between = between(set, set.func, sizes);
    if between.is_empty() {
        return None;
    }
    let cost = |m: &Made| lathe_model::estimate(&m.func, sizes, set.machine).cycles();
    let start = Made::of(set.func);
    let mut made = start.everywhere(set, "open", &Args::default()).unwrap_or(start);
    let label = last(&made.func)?;
    let (path, l) = nest_of(&made.func, &label)?;
    let known = made.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let rows = evaluate(&l.hi, &known)?.checked_sub(evaluate(&l.lo, &known)?)?;
    let row = between.iter().fold(0i64, |n, b| n.saturating_add(b.1));
    let fits = |n: &i64| row.saturating_mul(n + n / 4) <= set.machine.l2_bytes as i64 / 2;
    let block = (ROWS[0]..=ROWS[1]).rev().map(|n| 1i64 << n).find(fits).filter(|n| n * BLOCKS <= rows)?;
    made = made.then(set, &path, "split", &arguments(&l.binder.name, Some(Arg::Int(block)))).ok()?;
    let at = names::around(&label, Role::Outer.of(&l.binder.name));
    let opened = made.steps.len();
    for (name, _) in between.iter().rev() {
        let mut args = arguments(name, None);
        args.push(Some("at"), Arg::Path(at.clone()));
        made = made.everywhere(set, "compute_at", &args).unwrap_or(made);
    }
    if made.steps.len() == opened {
        return None;
    }
    let (path, outer) = nest_of(&made.func, &label)?;
    made = in_lanes(set, nests::inside(set, made, &path, sizes), &path, &cost);
    if let Ok(next) = made.then(set, &path, "nontemporal", &arguments(&label, None))
        && cost(&next) < cost(&made)
    {
        made = next;
    }
    if set.machine.threads > 1
        && let Ok(next) = made.then(set, &path, "parallel", &arguments(&outer.binder.name, None))
        && cost(&next) < cost(&made)
    {
        made = next;
    }
    Some(made)
}

fn arguments(first: &str, second: Option<Arg>) -> Args {
    let mut args = Args::default();
    args.push(None, Arg::Path(first.to_string()));
    second.into_iter().for_each(|a| args.push(None, a));
    args
}

/// Local arrays that the second cache does not hold, in the order of the text, with the bytes of a row.
fn between(set: &Setting, func: &Function, sizes: &BTreeMap<String, i64>) -> Vec<(String, i64)> {
    let bytes = super::arrays::bytes(func, sizes);
    let known = func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        if let Some(b) = s.allocated().filter(|b| b.space == Space::Host)
            && let Some(rows) = b.extents.first().and_then(|e| evaluate(e, &known)).filter(|n| *n > 0)
            && bytes(b) > set.machine.l2_bytes as i64
        {
            out.push((b.name.to_string(), bytes(b) / rows));
        }
        // Arrays of iterations are no intermediate results.
        s.as_loop().is_none()
    });
    out.truncate(ARRAYS);
    out
}

/// The label of the last store, if it is into a parameter.
fn last(func: &Function) -> Option<String> {
    let results: Vec<_> = func.params.iter().filter_map(Param::array).map(|b| b.id).collect();
    let mut out = None;
    visit::walk(&func.body, &mut |s, _| {
        if let Some(label) = s.label() {
            let stored = s.as_store().and_then(|st| st.target.view.buffer());
            out = stored.filter(|b| results.contains(b)).map(|_| label.to_string());
        }
        true
    });
    out
}

/// The outermost loop around a label.
fn nest_of(func: &Function, label: &str) -> Option<(Path, Loop)> {
    let mut out = None;
    visit::walk(&func.body, &mut |s, p| {
        if let Some(l) = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)
            && out.is_none()
            && labels_in(s).iter().any(|l| l == label)
        {
            out = Some((p.to_vec(), l.clone()));
        }
        out.is_none() && s.as_loop().is_none()
    });
    out
}

/// The innermost loops in a nest that have no lanes yet, in lanes where that is expected to be faster.
fn in_lanes(set: &Setting, start: Made, nest: &Path, cost: &dyn Fn(&Made) -> f64) -> Made {
    let mut inner = Vec::new();
    if let Some(s) = visit::at(&start.func.body, nest) {
        visit::walk(s, &mut |s, p| {
            let plain = s.as_loop().filter(|l| l.exec == Executor::Serial && !has_loop(&l.body));
            inner.extend(plain.map(|l| (nest.iter().chain(p).copied().collect::<Path>(), l.clone())));
            true
        });
    }
    // From the last one to the first: paths of earlier ones stay what they are.
    inner.into_iter().rev().fold(start, |made, (path, l)| {
        let mut bytes = 0;
        visit::walk(&l.body, &mut |s, _| {
            bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, i64::max);
            true
        });
        let lanes = set.machine.vector_bytes as i64 / bytes.max(1);
        let mut args = arguments(&l.binder.name, Some(Arg::Int(lanes)));
        args.push(Some("tail"), Arg::Path("separate".to_string()));
        let next = (lanes > 1).then(|| made.then(set, &path, "vectorize", &args).ok()).flatten();
        next.filter(|next| cost(next) < cost(&made)).unwrap_or(made)
    })
}

fn has_loop(s: &Stmt) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= s.as_loop().is_some();
        !found
    });
    found
}
