//! Single values are computed behind the computes that neither use them nor change what they read: what is named, or stored in a cell,
//! between two loops keeps these apart.

use super::{Line, touches};
use crate::arrays::{touched, written};
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{BufId, Expr, ExprKind, Function, Param, Stmt, VarId, View};
use std::collections::HashSet;

/// Moves floating-point values with names, and those of local cells, as far behind as the computes after them let them.
pub(super) fn moved(all: &mut [Line], func: &Function) {
    if func.params.iter().any(|p| p.alias.is_some()) {
        return;
    }
    for n in (0..all.len()).rev() {
        let Some(value) = Single::of(&all[n], func) else { continue };
        let behind = all[n + 1..].iter().take_while(|l| value.may_pass(l));
        let computes = behind.enumerate().filter(|(_, l)| matches!(l, Line::Do(_)));
        if let Some((last, _)) = computes.last() {
            all[n..=n + 1 + last].rotate_left(1);
        }
    }
}

/// A value: its name or its cell, and the arrays that it reads.
struct Single {
    name: Option<VarId>,
    cell: Option<BufId>,
    reads: HashSet<BufId>,
}

impl Single {
    fn of(line: &Line, func: &Function) -> Option<Single> {
        let (value, name, cell) = match line {
            Line::Open(s) => {
                let (binder, value, _) = s.as_let()?;
                (value, Some(binder.id), None)
            }
            Line::Do(s) => {
                let st = s.as_store().filter(|st| st.target.indices.is_empty())?;
                let View::Buffer(b) = st.target.view else { return None };
                let local = !func.params.iter().filter_map(Param::array).any(|p| p.id == b);
                (&st.value, None, Some(b).filter(|_| local))
            }
        };
        let some = name.is_some() || cell.is_some();
        let reads = visit::loads_of(value).iter().filter_map(|a| a.view.buffer()).collect();
        (some && value.ty().is_float() && !calls(value)).then_some(Single { name, cell, reads })
    }

    fn may_pass(&self, line: &Line) -> bool {
        let mentions =
            |s: &Stmt| s.exprs().into_iter().any(|e| self.name.is_some_and(|v| vars_of(e).contains(&v)));
        match line {
            Line::Do(s) => {
                s.as_compute().is_some()
                    && !mentions(s)
                    && written(s).is_disjoint(&self.reads)
                    && !self.cell.is_some_and(|c| touched(s).contains(&c))
            }
            Line::Open(s) => !mentions(s) && !touches(s).any(|b| self.cell == Some(b)),
        }
    }
}

fn calls(e: &Expr) -> bool {
    let mut found = false;
    visit::walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Call(..)));
    found
}
