//! Temporaries: reductions inside of larger expressions become computes of their own.

use super::index::Ranges;
use super::reduction::as_placeholder;
use super::scope::{Cx, Reduction, place};
use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::names::Role;
use lathe_ir::stmt::block::Item;
use lathe_ir::{
    Access, Buffer, Compute, Expr, ExprKind, Label, ReduceOp, Space, Stmt, StmtKind, Type, build, visit,
};
use lathe_poly::Linear;
use std::sync::Arc;

impl Cx<'_> {
    /// The indices that a reduction and those nested right inside it with the same operator reduce, and
    /// the index that it scans.
    pub fn merged(&self, n: usize) -> (Vec<usize>, Option<usize>) {
        let mut indices = self.st.reductions[n].indices.clone();
        let mut at = n;
        while let Some(inner) = self.mergeable(at) {
            indices.extend(&self.st.reductions[inner].indices);
            at = inner;
        }
        (indices, self.st.reductions[n].scan)
    }

    /// The reduction that is the whole body of another and has the same operator.
    fn mergeable(&self, n: usize) -> Option<usize> {
        let outer = &self.st.reductions[n];
        let inner_at = as_placeholder(&outer.body)?;
        let inner = &self.st.reductions[inner_at];
        let user = match &outer.op {
            ReduceOp::User(name) => self.globals.ops.get(&**name).is_some_and(|(o, _)| o.commutative),
            ReduceOp::ArgMin | ReduceOp::ArgMax => false,
            _ => true,
        };
        let nested = inner.op == outer.op && inner.scan.is_none() && inner.guards.len() == outer.guards.len();
        (user && nested && !(outer.indices.is_empty() && outer.scan.is_none())).then_some(inner_at)
    }

    /// Gives every reduction but `keep` a temporary and a compute; returns those and the expressions with
    /// loads in place of the reductions. For `keep`, its placeholder becomes its body.
    pub fn extract(
        &mut self,
        roots: Vec<Expr>,
        keep: Option<usize>,
        prefix: &str,
        ranges: &Ranges,
    ) -> Option<(Vec<Item>, Vec<Expr>)> {
        let count = self.st.reductions.len();
        let inside: Vec<usize> = (0..count).filter_map(|n| self.mergeable(n)).collect();
        let mut pieces = Vec::new();
        let mut done: Vec<Expr> = Vec::new();
        let mut made = 0;
        for n in 0..count {
            let r = self.st.reductions[n].clone();
            let body = replace(&r.body, &done);
            if inside.contains(&n) || keep == Some(n) {
                done.push(body);
                continue;
            }
            made += 1;
            let guards: Vec<Expr> = r.guards.iter().map(|g| replace(g, &done)).collect();
            let (chain, _) = self.merged(n);
            let name = Role::Temporary.numbered(prefix, made);
            done.push(self.own_compute(&r, body, guards, chain, &name, ranges, &mut pieces)?);
        }
        let out = roots.iter().map(|e| replace(e, &done)).collect();
        Some((pieces, out))
    }

    /// A compute of its own for one reduction; returns the load of its result.
    #[allow(clippy::too_many_arguments)]
    fn own_compute(
        &mut self,
        r: &Reduction,
        body: Expr,
        guards: Vec<Expr>,
        chain: Vec<usize>,
        name: &str,
        ranges: &Ranges,
        pieces: &mut Vec<Item>,
    ) -> Option<Expr> {
        let mut used = visit::vars_of(&body);
        guards.iter().for_each(|g| used.extend(visit::vars_of(g)));
        for i in &chain {
            if let Some(range) = ranges.get(&self.st.indices[*i].binder.id) {
                used.extend(visit::vars_of(&range.lo));
                used.extend(visit::vars_of(&range.hi));
            }
        }
        let free: Vec<usize> = (0..self.st.indices.len())
            .filter(|i| {
                !chain.contains(i) && (used.contains(&self.st.indices[*i].binder.id) || r.scan == Some(*i))
            })
            .collect();
        let buffer = self.temporary(name, &r.ty, &free, ranges, r.span)?;
        let at = self.cells(&free, ranges);
        let result = Access::buffer(buffer.id, buffer.elem.clone(), at).at(place(r.span));
        let mut targets = vec![result.clone()];
        let mut values = vec![body];
        if matches!(r.op, ReduceOp::ArgMin | ReduceOp::ArgMax) {
            let best = self.temporary(&Role::Best.of(name), values[0].ty(), &free, ranges, r.span)?;
            let at = self.cells(&free, ranges);
            targets.insert(0, Access::buffer(best.id, best.elem.clone(), at).at(place(r.span)));
            values.push(self.index_value(chain[0]));
            pieces.push(Item::Alloc(best, place(r.span)));
        }
        pieces.push(Item::Alloc(buffer, place(r.span)));
        let dims = self.dims(&free, &chain, &r.op, r.scan, ranges);
        let guard = guards.into_iter().reduce(build::and);
        let label = Label::new(name);
        let whole = Compute { label, dims, targets, values, guard, update: None };
        let whole = Stmt::new(StmtKind::Compute(whole), place(r.span));
        // The indices of the statement stay its own: this compute gets fresh ones.
        pieces.push(Item::Do(visit::refresh(&whole, &mut self.next_id)));
        Some(build::load(result))
    }

    /// A buffer with one dimension per index, counted from the start of its range.
    pub fn temporary(
        &mut self,
        name: &str,
        elem: &Type,
        free: &[usize],
        ranges: &Ranges,
        span: Span,
    ) -> Option<Arc<Buffer>> {
        let vars = self.index_vars();
        let mut extents = Vec::new();
        for i in free {
            let index = self.st.indices[*i].clone();
            let r = ranges.get(&index.binder.id)?;
            let length = Linear::of(&r.hi).minus(&Linear::of(&r.lo))?;
            let e = length.to_expr();
            if visit::vars_of(&e).iter().any(|v| vars.contains(v)) {
                let message = format!("a temporary cannot follow the range of `{}`", index.binder.name);
                self.errors.push(
                    Diagnostic::error(codes::NOT_YET, message)
                        .at(index.span, "its range depends on another index")
                        .at(span, "needs a temporary")
                        .help("compute the inner value into a `var` first, or use loops"),
                );
                return None;
            }
            let never_negative = length.is_natural(&|e| self.natural(e));
            extents.push(if never_negative { e } else { build::max(e, build::index(0)) });
        }
        let space = if extents.is_empty() { Space::Register } else { Space::Host };
        Some(Buffer::local(self.fresh_buf(), name, elem.clone(), extents, space))
    }

    /// Subscripts of a temporary.
    pub fn cells(&self, free: &[usize], ranges: &Ranges) -> Vec<Expr> {
        free.iter()
            .map(|i| {
                let b = &self.st.indices[*i].binder;
                let lo = ranges.get(&b.id).map_or_else(|| build::index(0), |r| r.lo.clone());
                build::sub(build::var(b), lo)
            })
            .collect()
    }

    pub fn index_value(&self, i: usize) -> Expr {
        build::cast(Type::I64, build::var(&self.st.indices[i].binder))
    }
}

/// Puts what stands for reductions in place of their placeholders.
fn replace(e: &Expr, done: &[Expr]) -> Expr {
    visit::map_expr(e, &mut |x| match x.kind() {
        ExprKind::Call(..) => match as_placeholder(&x).and_then(|n| done.get(n)) {
            Some(d) => d.clone(),
            None => x,
        },
        _ => x,
    })
}
