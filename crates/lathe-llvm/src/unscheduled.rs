//! Nests that nobody scheduled: LLVM's passes over loops do with them what they do with C. Those are the outermost loops in which a
//! schedule makes no lanes, and, beside nests in lanes in one loop around, as in a loop over time, those whose statements are nowhere in
//! lanes: what a schedule leaves over behind its lanes has the same statements, and belongs to it.

use lathe_ir::visit::{self, leaves_lanes};
use lathe_ir::{BufId, Executor, Function, Label, Space, Stmt};
use std::collections::HashSet;

/// The labels of what is in lanes, or unrolled, or works on arrays that are no memory of the host.
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
    let mut near = HashSet::new();
    visit::walk(&func.body, &mut |s, _| {
        let is_near = |b: &&std::sync::Arc<lathe_ir::Buffer>| b.space != Space::Host && !b.extents.is_empty();
        near.extend(s.allocated().filter(is_near).map(|b| b.id));
        true
    });
    let mut out = HashSet::new();
    go(&func.body, false, &near, &mut out);
    out
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
