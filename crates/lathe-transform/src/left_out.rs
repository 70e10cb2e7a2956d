//! Trees without stores that others overwrite.

use crate::failing::may_fail;
use lathe_analysis::{Change, overwritten};
use lathe_ir::difference::Difference;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Function, Module, Stmt};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;

/// Where stores of a label stand that do nothing that matters.
pub(crate) fn removable(module: &Module, func: &Function, label: &str) -> Vec<Path> {
    let mut out = overwritten(module, func, label);
    out.retain(|p| visit::at(&func.body, p).is_some_and(|s| !s.evaluated().into_iter().any(may_fail)));
    out
}

/// Whether nothing but stores of a label that are overwritten was removed. Gives how many they are.
pub(crate) fn is_left_out(c: &Change, label: &str) -> Result<usize, String> {
    if c.before.sizes != c.after.sizes || c.before.params != c.after.params {
        return Err("the parameters were changed".into());
    }
    let Difference { path, old, new, .. } = Difference::between(&c.before.body, &c.after.body);
    let mut paths = removable(c.module, c.before, label);
    paths.retain(|p| p.starts_with(&path));
    let left = without(old, &mut path.clone(), &paths).unwrap_or_else(Stmt::empty);
    let simplified = |s: &Stmt| simplify_stmt(s, &mut Ranges::at(c.before, &path));
    // What rules make is simplified.
    if left == *new || simplified(&left) == *new || simplified(&left) == simplified(new) {
        return Ok(paths.len());
    }
    Err(format!("more was changed than stores of `{label}` that others overwrite before anything reads them"))
}

/// A statement, which stands at a path, without those that stand at others, and without loops that held nothing else; none, if
/// nothing is left.
pub(crate) fn without(s: &Stmt, here: &mut Path, paths: &[Path]) -> Option<Stmt> {
    if paths.contains(here) {
        return None;
    }
    if !paths.iter().any(|p| p.starts_with(here)) {
        return Some(s.clone());
    }
    let mut left = Vec::new();
    for (n, child) in s.children().enumerate() {
        here.push(n);
        left.push(without(child, here, paths));
        here.pop();
    }
    if s.as_seq().is_some() {
        return Some(Stmt::seq(left.into_iter().flatten())).filter(|s| !s.is_empty());
    }
    let holds =
        s.as_loop().is_some() || s.as_let().is_some() || s.as_alloc().is_some() || s.as_if().is_some();
    if holds && left.iter().all(Option::is_none) && !s.evaluated().into_iter().any(may_fail) {
        return None;
    }
    Some(s.with_children(left.into_iter().map(|c| c.unwrap_or_else(Stmt::empty)).collect()))
}
