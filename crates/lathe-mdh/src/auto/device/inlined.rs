//! Intermediate values that are better computed again than kept in memory: an array disappears into the computes that
//! read it where that costs less time than to write it, to read it, and to launch a kernel. Neighbours that a stencil reads of it
//! are computed again for every reader.

use crate::choose::facts::work;
use crate::lower::steps::{call, name};
use lathe_ir::{Buffer, Combine, Compute, Expr, ExprKind, Function, Stmt, StmtKind, VarId, View, visit};
use lathe_strategy::Strategy;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Operations that a device does in the time of a byte from its memory, and in the time of a launch.
const PER_BYTE: f64 = 8.0;
const LAUNCH: f64 = 1e8;
/// Nodes of an expression that one kernel may still compute.
const LARGEST: usize = 4096;

/// The function without such arrays, and the steps that remove them from its loops; `kept` has those that stay.
pub fn inlined(func: &Function, kept: &HashSet<String>) -> (Function, Vec<Strategy>) {
    let (mut new, mut steps) = (func.clone(), Vec::new());
    let mut locals: Vec<Arc<Buffer>> = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        locals.extend(s.allocated().cloned());
        true
    });
    // The first ones first: what they are made of stands in those that read them.
    let order = written(func);
    locals.sort_by_key(|b| order.iter().position(|w| *w == b.id));
    for b in locals.iter().filter(|b| !kept.contains(&*b.name)) {
        if let Some(body) = without(&new, b) {
            new.body = body;
            steps.push(call("inline", vec![name(&b.name)]));
        }
    }
    (new, steps)
}

/// What the computes write, in the order of the text.
fn written(func: &Function) -> Vec<lathe_ir::BufId> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        let targets = s.as_compute().into_iter().flat_map(|c| &c.targets);
        out.extend(targets.filter_map(|t| t.view.buffer()));
        true
    });
    out
}

fn without(func: &Function, b: &Buffer) -> Option<Stmt> {
    let mut computes: Vec<Compute> = Vec::new();
    let mut plain = true;
    visit::walk(&func.body, &mut |s, _| {
        match s.as_compute() {
            Some(c) => computes.push(c.clone()),
            None => plain &= s.as_seq().is_some() || s.as_alloc().is_some(),
        }
        true
    });
    let writes = |c: &&Compute| c.targets.iter().any(|t| t.view == View::Buffer(b.id));
    let mut writers = computes.iter().filter(writes);
    let (made, None) = (writers.next()?, writers.next()) else { return None };
    let (dims, value) = definition(made).filter(|_| plain)?;
    let mut evaluated = 0.0;
    for c in computes.iter().filter(|c| c.label.as_str() != made.label.as_str()) {
        let loads: Vec<Vec<Expr>> = c
            .values
            .iter()
            .flat_map(visit::loads_of)
            .filter(|a| a.view == View::Buffer(b.id))
            .map(|a| a.indices)
            .collect();
        // Guards and subscripts are not worth it.
        if touches(c, b) != loads.len() {
            return None;
        }
        let sites: HashSet<&Vec<Expr>> = loads.iter().collect();
        evaluated += points(c)? * sites.len() as f64;
    }
    let (elements, bytes) = (points(made)?, b.elem.bytes() as f64);
    let again = (evaluated - elements) * work(value);
    if evaluated == 0.0 || again > 2.0 * elements * bytes * PER_BYTE + LAUNCH {
        return None;
    }
    let of = |indices: &[Expr]| {
        let map: HashMap<VarId, Expr> = dims.iter().copied().zip(indices.iter().cloned()).collect();
        visit::substitute(value, &map)
    };
    let read = |e: &Expr| {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) if a.view == View::Buffer(b.id) => of(&a.indices),
            _ => x,
        })
    };
    let mut room = LARGEST;
    let new = visit::map_stmts(&func.body, &mut |s| match s.as_compute() {
        Some(c) if c.label.as_str() == made.label.as_str() => Stmt::empty(),
        Some(c) => {
            let values: Vec<Expr> = c.values.iter().map(read).collect();
            let mut here = LARGEST;
            values.iter().for_each(|v| count(v, &mut here));
            room = room.min(here);
            s.with_kind(StmtKind::Compute(Compute { values, ..c.clone() }))
        }
        None => s,
    });
    (room > 0).then_some(new)
}

/// `P[i, j] = value`: the variables in the order of the subscripts, and the value.
fn definition(c: &Compute) -> Option<(Vec<VarId>, &Expr)> {
    let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return None };
    let dims: Vec<VarId> = target.indices.iter().map(Expr::as_var).collect::<Option<_>>()?;
    let own: HashSet<VarId> = dims.iter().copied().collect();
    let all = c.dims.iter().all(|d| own.contains(&d.binder.id) && matches!(d.combine, Combine::Concat));
    let once = dims.len() == c.dims.len() && own.len() == dims.len();
    let itself = visit::loads_of(value).iter().any(|a| a.view == target.view);
    (all && once && !itself && c.guard.is_none() && c.update.is_none()).then_some((dims, value))
}

/// How often a compute reads an array, wherever it does.
fn touches(c: &Compute, b: &Buffer) -> usize {
    let bounds = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]);
    let subscripts = c.targets.iter().flat_map(|t| &t.indices);
    let all = c.values.iter().chain(&c.guard).chain(bounds).chain(subscripts);
    all.flat_map(visit::loads_of).filter(|a| a.view == View::Buffer(b.id)).count()
}

fn points(c: &Compute) -> Option<f64> {
    let extent = |d: &lathe_ir::Dim| Some((d.hi.as_int()? - d.lo.as_int()?).max(0) as f64);
    c.dims.iter().map(extent).product()
}

/// Takes the nodes of an expression, what is shared as often as it stands there, from what there may be.
fn count(e: &Expr, left: &mut usize) {
    *left = left.saturating_sub(1);
    if *left > 0 {
        e.children().into_iter().for_each(|c| count(c, left));
    }
}
