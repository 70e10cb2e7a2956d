//! Sums of a few terms are written out: a loop over two or three coordinates has nothing to tile, and stands in the way of
//! those around it.

use crate::arrays::fill;
use lathe_ir::build::{add, index};
use lathe_ir::visit::{loads_of, map_stmts, substitute, vars_of};
use lathe_ir::{Combine, Compute, Dim, Expr, ReduceOp, Scalar, Stmt, StmtKind};
use std::collections::HashMap;

const TERMS: i64 = 4;
/// Operations of a sum that is written out.
const NODES: u64 = 400;

/// The statement without sums of at most [`TERMS`] terms.
pub fn written_out(body: &Stmt) -> Stmt {
    map_stmts(body, &mut |s| {
        let Some(mut c) = s.as_compute().filter(|c| may_be(c)).cloned() else { return s };
        let (before, size) = (c.dims.len(), s.nodes());
        // Where another sum remains, the loop over the terms is one more to tile.
        if !c.dims.iter().all(|d| d.combine == Combine::Concat || is_short(d) && stands_alone(d, &c)) {
            return s;
        }
        while let Some(n) = c.dims.iter().position(|d| is_short(d) && stands_alone(d, &c)) {
            let d = c.dims[n].clone();
            let Some(value) = terms(&d, &c.values[0], size) else { break };
            c.dims.remove(n);
            c.values = vec![value];
        }
        if c.dims.len() == before {
            return s;
        }
        if c.dims.is_empty() {
            if c.update.is_some() || c.guard.is_some() {
                return s;
            }
            let places = s.places().clone();
            return fill(c.label.to_string(), Vec::new(), c.targets[0].clone(), c.values[0].clone())
                .with_places(places);
        }
        s.with_kind(StmtKind::Compute(c))
    })
}

fn may_be(c: &Compute) -> bool {
    // Half types are added up in a wider one.
    let wide = |e: &Expr| matches!(e.ty().scalar(), Some(Scalar::F32 | Scalar::F64));
    let own = |e: &Expr| loads_of(e).iter().any(|a| a.view == c.targets[0].view);
    c.targets.len() == 1 && c.values.iter().all(|v| wide(v) && !own(v)) && c.guard.is_none()
}

fn is_short(d: &Dim) -> bool {
    d.combine == Combine::Reduce(ReduceOp::Sum)
        && d.lo.as_int().zip(d.hi.as_int()).is_some_and(|(lo, hi)| (1..=TERMS).contains(&(hi - lo)))
}

/// Whether only the value mentions a dimension.
fn stands_alone(d: &Dim, c: &Compute) -> bool {
    let around = c.dims.iter().flat_map(|o| [&o.lo, &o.hi]).chain(c.targets[0].exprs());
    !around.flat_map(vars_of).any(|v| v == d.binder.id)
}

fn terms(d: &Dim, value: &Expr, size: u64) -> Option<Expr> {
    let (lo, hi) = (d.lo.as_int()?, d.hi.as_int()?);
    if size.saturating_mul(u64::try_from(hi - lo).ok()?) > NODES {
        return None;
    }
    (lo..hi).map(|n| substitute(value, &HashMap::from([(d.binder.id, index(n))]))).reduce(add)
}
