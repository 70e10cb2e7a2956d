//! Neighbouring loops over one range in one loop: what both of them load is loaded once, and what the first one stores is still in
//! registers where the second one loads it.

use super::made::Made;
use super::setting::Setting;
use lathe_ir::names;
use lathe_ir::stmt::block::{self, Item};
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Executor, Function, Loop, Stmt};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::HashSet;

/// Pairs that are tried in one nest.
const TRIED: usize = 16;

/// The nest with such loops in one, as far as that is legal; `None` if there are none.
pub(super) fn together(set: &Setting, start: &Made, nest: &Path) -> Option<Made> {
    let mut made = start.clone();
    let mut refused = HashSet::new();
    for _ in 0..TRIED {
        let Some(pair) = pair(&made.func, nest, &refused) else { break };
        let mut args = Args::default();
        args.push(None, Arg::Path(pair.0.clone()));
        args.push(None, Arg::Path(pair.1.clone()));
        match made.then(set, nest, "fuse", &args) {
            Ok(next) => made = next,
            Err(_) => drop(refused.insert(pair)),
        }
    }
    (made.steps.len() > start.steps.len()).then_some(made)
}

/// The names of the first loop of a block and the next one behind it that touch a common array, and that nobody has refused to fuse.
fn pair(func: &Function, nest: &Path, refused: &HashSet<(String, String)>) -> Option<(String, String)> {
    let mut found = None;
    visit::walk(visit::at(&func.body, nest)?, &mut |s, _| {
        let Some(l) = s.as_loop() else { return found.is_none() };
        let items = block::flat(&l.body);
        let rows: Vec<&Stmt> = items
            .iter()
            .filter_map(|i| match i {
                Item::Do(s) if s.as_loop().is_some() => Some(s),
                _ => None,
            })
            .collect();
        let names = rows.windows(2).filter_map(|w| {
            let (a, b) = (row(w[0])?, row(w[1])?);
            let same = a.0.lo == b.0.lo && a.0.hi == b.0.hi && a.0.step == b.0.step;
            (same && !a.1.is_disjoint(&b.1)).then_some((a.2, b.2))
        });
        found = found.take().or_else(|| names.into_iter().find(|p| !refused.contains(p)));
        found.is_none()
    });
    found
}

/// A serial loop without loops in it: the arrays that it touches, and its name.
fn row(s: &Stmt) -> Option<(&Loop, HashSet<BufId>, String)> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial)?;
    let (mut inner, mut arrays) = (false, HashSet::new());
    visit::walk(&l.body, &mut |s, _| {
        inner |= s.as_loop().is_some();
        arrays.extend(s.accesses().filter_map(|(a, _)| a.view.buffer()));
        arrays.extend(s.exprs().into_iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer()));
        !inner
    });
    let label = labels_in(s).into_iter().next()?;
    (!inner).then(|| (l, arrays, names::around(label, &l.binder.name)))
}
