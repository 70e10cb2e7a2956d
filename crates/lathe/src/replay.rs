//! Stored evidence applied again: every term and tree on the way must be the recorded one.

use crate::program::{Failure, Program};
use crate::schedule::{How, plain, specialize};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_space::Expr;
use lathe_strategy::Evidence;
use std::collections::BTreeMap;

/// The tree that the recorded steps of one version of a schedule make of a kernel or fun. `baked` are the sizes that
/// were constants before its first step (see [`crate::Version`]).
///
/// # Errors
/// `E0612` where a term, tree, rule or argument is not what was recorded.
pub fn replay(
    program: &Program,
    kernel: &Function,
    how: &How,
    condition: Option<&Expr>,
    baked: &BTreeMap<String, i64>,
    steps: &[Evidence],
) -> Result<Function, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    if let Some(fun) = program.lang.funs.get(&*kernel.name) {
        if baked.is_empty() {
            return crate::fun::replay(program, fun, how, condition, steps).map_err(fail);
        }
        let specialize = how.specialize.iter().chain(baked).map(|(n, v)| (n.clone(), *v)).collect();
        let how = How { specialize, ..how.clone() };
        return crate::fun::replay(program, fun, &how, None, steps).map_err(fail);
    }
    let mut func = plain(program, kernel, how.assumptions)?;
    if !how.specialize.is_empty() {
        func = specialize(&func, &how.specialize).map_err(fail)?;
    }
    if !baked.is_empty() {
        func = specialize(&func, baked).map_err(fail)?;
    } else if let Some(c) = condition {
        func = crate::version::under(&func, c);
    }
    lathe_transform::replay(&program.lang.module, &func, steps).map_err(|r| fail(*r.diagnostic))
}
