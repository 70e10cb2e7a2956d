//! Nests that nobody scheduled: LLVM's passes over loops do with them what they do with C. Those are the outermost loops in which a
//! schedule makes no lanes, and, beside nests in lanes in one loop around, as in a loop over time, those whose statements are nowhere in
//! lanes: what a schedule leaves over behind its lanes has the same statements, and belongs to it, and so does what fills up with a
//! constant the end of an array of the function's own that lanes write.

use lathe_ir::visit::{self, leaves_lanes};
use lathe_ir::{BufId, Executor, Expr, ExprKind, Function, Label, Space, Stmt, Store};
use std::collections::HashSet;

/// The labels of what is in lanes, or unrolled, or works on arrays that are no memory of the host, and of what fills up copies that lanes
/// make: few elements behind the last ones, for which the passes of nobody's nests take longer than for all else in the function.
pub fn scheduled(func: &Function) -> HashSet<Label> {
    fn go(s: &Stmt, lanes: bool, near: &HashSet<BufId>, out: &mut HashSet<Label>) {
        let touches = || {
            let loads = s.exprs().into_iter().flat_map(visit::loads_of);
            let mut all = s.accesses().map(|(a, _)| a.clone()).chain(loads);
            all.any(|a| a.view.buffer().is_some_and(|b| near.contains(&b)))
        };
        if let Some(label) = s.label().filter(|_| lanes || touches()) {
            out.insert(label.clone());
        }
        let lanes = lanes || s.as_loop().is_some_and(|l| !is_plain(&l.exec));
        s.children().for_each(|c| go(c, lanes, near, out));
    }
    let (mut near, mut own) = (HashSet::new(), HashSet::new());
    visit::walk(&func.body, &mut |s, _| {
        let is_near = |b: &&std::sync::Arc<lathe_ir::Buffer>| b.space != Space::Host && !b.extents.is_empty();
        near.extend(s.allocated().filter(is_near).map(|b| b.id));
        own.extend(s.allocated().map(|b| b.id));
        true
    });
    let mut out = HashSet::new();
    go(&func.body, false, &near, &mut out);
    let mut filled = HashSet::new();
    visit::walk(&func.body, &mut |s, _| {
        let to = s.as_store().filter(|s| out.contains(&s.label)).and_then(|s| s.target.view.buffer());
        filled.extend(to.filter(|b| own.contains(b)));
        true
    });
    fill_up(&func.body, false, &filled, &mut out);
    out
}

/// Adds the labels of what stores constants to some arrays from an element on that is not constant.
fn fill_up(s: &Stmt, behind: bool, arrays: &HashSet<BufId>, out: &mut HashSet<Label>) {
    let is_constant =
        |e: &Expr| matches!(e.kind(), ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_));
    let fills =
        |s: &&Store| s.target.view.buffer().is_some_and(|b| arrays.contains(&b)) && is_constant(&s.value);
    out.extend(s.as_store().filter(|_| behind).filter(fills).map(|s| s.label.clone()));
    let behind = behind || s.as_loop().is_some_and(|l| l.lo.as_int().is_none());
    s.children().for_each(|c| fill_up(c, behind, arrays, out));
}

fn is_plain(exec: &Executor) -> bool {
    matches!(exec, Executor::Serial | Executor::Cpu)
}

/// Whether a nest inside of one with lanes has statements, of which none is one of these.
pub fn apart(nest: &Stmt, scheduled: &HashSet<Label>) -> bool {
    let (mut some, mut own) = (false, leaves_lanes(nest));
    visit::walk(nest, &mut |s, _| {
        some |= s.label().is_some();
        own &= s.label().is_none_or(|l| !scheduled.contains(l));
        own
    });
    some && own
}

/// Whether a function has a nest that nobody scheduled and that computes something.
pub fn some(func: &Function) -> bool {
    fn go(s: &Stmt, outside: bool, scheduled: &HashSet<Label>) -> bool {
        if s.as_loop().is_none() {
            return s.children().any(|c| go(c, outside, scheduled));
        }
        let none = HashSet::new();
        let own = apart(s, if outside { &none } else { scheduled });
        own || s.children().any(|c| go(c, false, scheduled))
    }
    go(&func.body, true, &scheduled(func))
}
