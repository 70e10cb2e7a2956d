//! From a function to the form that is differentiated: no `let`s of floats, computes that have a rule of their own in
//! index notation and all others as loops, a tree of scopes.

use crate::Request;
use crate::activity::{Activity, activity};
use crate::codes::{self, refuse};
use crate::lets;
use crate::node::{self, Scope};
use crate::{planes, raise, sink};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::visit::loads_of;
use lathe_ir::{Combine, Compute, Function, Mode, Module, Param, ReduceOp, Stage, VarId, View};
use std::collections::HashSet;

pub struct Prepared {
    /// Sizes and parameters as they were; the counter of numbers.
    pub func: Function,
    pub act: Activity,
    pub root: Scope,
}

pub fn prepare(
    module: &Module,
    func: &Function,
    wrt: &[String],
    of: &[String],
    request: &Request,
) -> Result<Prepared, Diagnostic> {
    let no = |text: String, help: &str| {
        Err(refuse(codes::UNSUPPORTED, text, &Places::none()).help(help.to_string()))
    };
    if func.stage != Stage::Plain {
        return no(
            format!("`{}` is scheduled: only plain functions are differentiated", func.name),
            "differentiate first, and schedule the derivative",
        );
    }
    if func.result.is_some() {
        return no(format!("`{}` is a function that returns a value", func.name), "make it a kernel");
    }
    let named = |p: &&Param| wrt.iter().chain(of).any(|n| n == &**p.name());
    if let Some(p) = func.params.iter().find(|p| p.alias.is_some() && (p.mode != Mode::In || named(p))) {
        return no(format!("`{}` may overlap another parameter", p.name()), "pass arrays that are distinct");
    }
    let called = crate::calls::opened(module, func, request.mode)?;
    let called = if request.raise { raise::raised(&called) } else { called };
    let plain = lets::without_lets(&sink::sunk(&planes::apart(&called)));
    let act = activity(module, &plain, wrt, of, request.allow_steps)?;
    let opened =
        lathe_transform::open::open_some(module, &plain, &|c| !stays(c, &act)).map_err(|r| *r.diagnostic)?;
    let act = activity(module, &opened, wrt, of, request.allow_steps)?;
    built(module, opened, act, request.mode)
}

/// A function in the form that is differentiated.
pub fn built(
    module: &Module,
    mut func: Function,
    act: Activity,
    mode: crate::Mode,
) -> Result<Prepared, Diagnostic> {
    let root = node::build(module, &mut func, &act, mode == crate::Mode::Reverse)?;
    Ok(Prepared { func, act, root })
}

/// Whether a compute has a rule of its own: nothing active is written, or it maps, adds up, or selects the smallest or
/// largest, and reads no other element of what it writes.
fn stays(c: &Compute, act: &Activity) -> bool {
    if !c.targets.iter().any(|t| act.of_access(t)) {
        return true;
    }
    let [target] = &c.targets[..] else { return false };
    let reduced = c.dims.iter().any(|d| d.combine != Combine::Concat);
    let fits = c.values.len() == 1
        && matches!(target.view, View::Buffer(_))
        && c.update.as_ref().is_none_or(|u| *u == ReduceOp::Sum)
        && c.dims.iter().all(|d| match &d.combine {
            Combine::Concat | Combine::Reduce(ReduceOp::Sum) => true,
            // The number of the point that is chosen is taken apart again.
            Combine::Reduce(ReduceOp::Min | ReduceOp::Max) => c.update.is_none() && is_box(c, d),
            _ => false,
        });
    let around = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.guard).chain(&target.indices);
    let own = |a: &lathe_ir::Access| a.view.buffer() == target.view.buffer();
    fits && (c.update.is_some() || tells_apart(c))
        && !around.flat_map(loads_of).any(|a| own(&a))
        && loads_of(&c.values[0]).iter().filter(|a| own(a)).all(|a| !reduced && a.indices == target.indices)
}

/// Whether the range of a dimension depends on no other one.
fn is_box(c: &Compute, d: &lathe_ir::Dim) -> bool {
    let vars: HashSet<VarId> = [&d.lo, &d.hi].into_iter().flat_map(lathe_ir::visit::vars_of).collect();
    c.dims.iter().all(|o| !vars.contains(&o.binder.id))
}

/// Every point of the free dimensions writes an element of its own: subscripts determine the indices one by one.
pub fn tells_apart(c: &Compute) -> bool {
    let free = c.dims.iter().filter(|d| d.combine == Combine::Concat).map(|d| d.binder.id);
    crate::arrays::determines(&c.targets[0].indices, &free.collect::<Vec<_>>())
}
