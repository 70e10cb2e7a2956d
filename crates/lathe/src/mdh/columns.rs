//! Time steps, or passes, over columns that do not depend on one another, such as the transforms of many sequences at once: block by block of
//! columns, each through all steps, on copies in which a block's rows lie side by side. A block stays in the second cache, and rows
//! whose lengths are powers of two do not compete for the same lines of it.

use super::arrays::{all, bytes};
use super::made::Made;
use super::setting::Setting;
use lathe_ir::names::{self, Role};
use lathe_ir::stmt::block::{self, Item};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Executor, Function, Loop, Stmt};
use lathe_poly::Linear;
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashSet};

/// Bytes of a row of a block, the most first: shorter ones are slower than no blocks, longer ones make blocks of few rows.
const ROWS: [i64; 2] = [256, 128];
/// Passes and arrays that are looked at.
const MOST: usize = 8;

/// One pass: a label in it, its loops, the outermost one first, of which the last one runs over columns.
struct Pass {
    label: String,
    loops: Vec<Loop>,
}

/// The nest with all its steps inside of a loop over blocks of columns, and the name of that loop; `sizes` are examples. `None`:
/// there are no such columns, or a step is refused.
pub(super) fn in_blocks(
    set: &Setting,
    start: &Made,
    nest: &Path,
    sizes: &BTreeMap<String, i64>,
) -> Option<(Made, String)> {
    let steps = visit::at(&start.func.body, nest)?.as_loop().filter(|l| l.exec == Executor::Serial)?;
    let passes = passes(&steps.body)?;
    let columns = passes[0].columns();
    let count = Linear::difference(&columns.hi, &columns.lo)?;
    let (bytes, element) = held(&start.func, &passes, sizes);
    let fits = |w: &i64| (bytes / count.max(1)).saturating_mul(*w) <= set.machine.l2_bytes as i64;
    let width = ROWS.into_iter().map(|row| row / element).find(fits).filter(|w| 2 * w <= count)?;
    let step = |m: &Made, rule: &str, args: Vec<Arg>, named: &[(&str, &str)]| {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        named.iter().for_each(|(n, v)| all.push(Some(n), Arg::Path((*v).to_string())));
        m.then(set, nest, rule, &all).ok()
    };
    let path = |name: &str| Arg::Path(name.to_string());
    let mut made = start.clone();
    let mut blocks: Vec<String> = Vec::new();
    for pass in &passes {
        let of = |l: &Loop| names::around(&pass.label, &l.binder.name);
        let own = of(pass.columns());
        made = step(&made, "split", vec![path(&own), Arg::Int(width)], &[])?;
        let outer = Role::Outer.of(&own);
        let order = std::iter::once(outer.clone()).chain(pass.loops[..pass.loops.len() - 1].iter().map(of));
        let order: Vec<Arg> = order.map(Arg::Path).collect();
        if order.len() > 1 {
            made = step(&made, "reorder", order, &[])?;
        }
        blocks.push(outer);
    }
    for other in &blocks[1..] {
        made = step(&made, "fuse", vec![path(&blocks[0]), path(other)], &[])?;
    }
    let over = names::around(&passes[0].label, &steps.binder.name);
    made = step(&made, "reorder", vec![path(&blocks[0]), path(&over)], &[])?;
    for array in arrays(&start.func, &passes) {
        let named = [("at", over.as_str()), ("space", "host")];
        made = step(&made, "accumulate", vec![path(&array)], &named).unwrap_or(made);
    }
    Some((made, blocks.swap_remove(0)))
}

impl Pass {
    fn columns(&self) -> &Loop {
        &self.loops[self.loops.len() - 1]
    }

    /// Whether an access follows the columns along its rows.
    fn follows(&self, a: &Access) -> bool {
        a.indices.last().is_some_and(|e| e.as_var() == Some(self.columns().binder.id))
    }
}

/// Bytes of the arrays that have the columns, of which a block is a part (factors that all columns share pass by), and of the largest
/// element.
fn held(func: &Function, passes: &[Pass], sizes: &BTreeMap<String, i64>) -> (i64, i64) {
    let mut own = HashSet::new();
    for pass in passes {
        visit::walk(&pass.columns().body, &mut |s, _| {
            let mut add = |a: &Access| own.extend(a.view.buffer().filter(|_| pass.follows(a)));
            s.accesses().for_each(|(a, _)| add(a));
            s.exprs().into_iter().flat_map(visit::loads_of).for_each(|a| add(&a));
            true
        });
    }
    let bytes = bytes(func, sizes);
    let held = all(func).into_iter().filter(|b| own.contains(&b.id));
    held.fold((0, 1), |(sum, most), b| (sum.saturating_add(bytes(&b)), most.max(b.elem.bytes() as i64)))
}

/// The passes of one step, if all run over the same columns and store their elements.
fn passes(body: &Stmt) -> Option<Vec<Pass>> {
    let mut out: Vec<Pass> = Vec::new();
    for item in block::flat(body) {
        let Item::Do(s) = item else { return None };
        let mut loops = Vec::new();
        let mut here = &s;
        while let Some(l) = here.as_loop() {
            let plain = l.exec == Executor::Serial && l.step == 1;
            loops.push(plain.then(|| l.clone())?);
            here = &l.body;
        }
        let columns = loops.last()?;
        let mut label = None;
        let mut stored = true;
        visit::walk(here, &mut |s, _| {
            label = label.take().or_else(|| s.label().map(ToString::to_string));
            let own = |a: &Access| a.indices.last().is_some_and(|e| e.as_var() == Some(columns.binder.id));
            stored &= s.as_loop().is_none() && s.accesses().all(|(a, mode)| !mode.writes() || own(a));
            stored
        });
        let first = out.first().map_or(columns, Pass::columns);
        let same = |a, b| Linear::difference(a, b) == Some(0);
        if !stored || !same(&first.lo, &columns.lo) || !same(&first.hi, &columns.hi) {
            return None;
        }
        out.push(Pass { label: label?, loops });
    }
    (!out.is_empty() && out.len() <= MOST && out.iter().any(|p| p.loops.len() > 1)).then_some(out)
}

/// The arrays that the passes write.
fn arrays(func: &Function, passes: &[Pass]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for pass in passes {
        visit::walk(&pass.columns().body, &mut |s, _| {
            let written = s.accesses().filter(|(_, mode)| mode.writes()).filter_map(|(a, _)| a.view.buffer());
            for name in written.filter_map(|b| super::sums::array(func, b)) {
                if !out.contains(&name) {
                    out.push(name);
                }
            }
            true
        });
    }
    out.truncate(MOST);
    out
}
