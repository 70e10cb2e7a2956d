//! Where elements lie: accesses name a buffer and subscripts of its storage.
//!
//! Views are resolved, and layouts of local arrays that move elements (permuted, tiled) become the extents of what is
//! stored and subscripts into that, simplified by what is known at the place: quotients and remainders of split subscripts
//! disappear here. Room between rows stays a layout: that nothing is there is worth knowing where vectors are masked.

use lathe_ir::lower::{Unsupported, physical, resolve, storage};
use lathe_ir::stmt::{AccessMode, PartMap};
use lathe_ir::visit::map_expr;
use lathe_ir::{Access, BufId, Buffer, Expr, ExprKind, Function, Layout, Stmt, StmtKind, View, build};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_expr;
use std::collections::HashMap;
use std::sync::Arc;

/// The buffer that an access of a lowered tree names. `None`: a view is left, which no printer takes.
pub fn buffer(a: &Access) -> Option<BufId> {
    match a.view {
        View::Buffer(id) => Some(id),
        _ => None,
    }
}

/// The function without views, and without layouts that move elements.
///
/// # Errors
/// As [`resolve`] and [`physical`].
pub fn plain(func: &Function) -> Result<Function, Unsupported> {
    let mut p = Places { ranges: Ranges::of_function(func), moved: HashMap::new(), failed: None };
    let body = p.stmt(&func.body);
    match p.failed {
        Some(u) => Err(u),
        None => Ok(Function { body, ..func.clone() }),
    }
}

struct Places {
    ranges: Ranges,
    /// Buffers whose storage has other subscripts, as they were.
    moved: HashMap<BufId, Arc<Buffer>>,
    failed: Option<Unsupported>,
}

impl Places {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let StmtKind::Alloc { buffer, .. } = s.kind()
            && !buffer.layout.keeps_subscripts()
        {
            self.moved.insert(buffer.id, buffer.clone());
        }
        let own = s.map_changed(self);
        let mut children = Vec::new();
        for (position, c) in s.children().enumerate() {
            let mark = self.ranges.enter_child(s, position);
            children.push(self.stmt(c));
            self.ranges.leave(mark);
        }
        let same = s.children().zip(&children).all(|(a, b)| a.ptr_eq(b));
        if same { own } else { own.with_children(children) }
    }

    /// The access as one of storage; `None` if it is.
    fn stored(&mut self, a: &Access) -> Option<Access> {
        if matches!(&a.view, View::Buffer(b) if !self.moved.contains_key(b)) {
            return None;
        }
        let stored = resolve(a).and_then(|(id, indices)| {
            let Some(b) = self.moved.get(&id) else { return Ok((id, indices)) };
            let indices = physical(b, &indices).map_err(|u| u.at(&a.places))?;
            Ok((id, indices.iter().map(|i| simplify_expr(i, &self.ranges)).collect()))
        });
        match stored {
            Ok((id, indices)) => Some(Access { view: View::Buffer(id), indices, ..a.clone() }),
            Err(u) => {
                self.failed.get_or_insert(u);
                None
            }
        }
    }
}

impl PartMap for Places {
    fn expr(&mut self, e: &Expr) -> Expr {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => self.stored(a).map_or(x, build::load),
            ExprKind::Address(a) => self.stored(a).map_or(x, build::address),
            _ => x,
        })
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        let a = a.map_exprs(&mut |e| self.expr(e));
        self.stored(&a).unwrap_or(a)
    }

    fn buffer(&mut self, b: &Arc<Buffer>) -> Arc<Buffer> {
        if b.layout.keeps_subscripts() {
            return b.clone();
        }
        match storage(b) {
            Ok(s) => Arc::new(Buffer { extents: s.extents, layout: Layout::row_major(), ..(**b).clone() }),
            Err(u) => {
                self.failed.get_or_insert(u);
                b.clone()
            }
        }
    }
}
