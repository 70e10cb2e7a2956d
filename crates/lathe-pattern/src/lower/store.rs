//! Buffers: made for types, read as views, written as places. Local buffers keep each component of a tuple
//! on its own.

use super::view::{Acc, ArrayView, Storage, View};
use super::{Lower, error};
use crate::codes;
use crate::nat::Nat;
use crate::types::{Type, TypeKind};
use crate::value::element_type;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::expr::{Access, ExprKind, Status};
use lathe_ir::names::Role;
use lathe_ir::stmt::block::Item;
use lathe_ir::{BinOp, Buffer, Executor, Expr, Label, Name, Reduce, ReduceOp, Space, StmtKind, Store, build};
use std::rc::Rc;
use std::sync::Arc;

impl Lower<'_> {
    /// A new buffer, unique by name.
    pub(super) fn buffer(
        &mut self,
        name: &str,
        elem: lathe_ir::Type,
        sizes: &[Nat],
        space: Space,
    ) -> Arc<Buffer> {
        let extents = sizes.iter().map(|n| self.indices.expr(n)).collect();
        let id = self.func.fresh_buf();
        let count = self.names.entry(Name::from(name)).or_insert(0);
        *count += 1;
        let name = if *count == 1 { name.to_string() } else { format!("{name}.{count}") };
        Buffer::local(id, name, elem, extents, space)
    }

    /// Local memory for a value, allocated here.
    pub(super) fn allocate(
        &mut self,
        name: &str,
        ty: &Type,
        space: Space,
        dims: &mut Vec<Nat>,
    ) -> Result<Storage, Diagnostic> {
        match ty.kind() {
            TypeKind::Array(n, e) | TypeKind::Vector(n, e) => {
                dims.push(n.clone());
                let out = self.allocate(name, e, space, dims);
                dims.pop();
                out
            }
            TypeKind::Tuple(ts) => {
                let parts = ts.iter().map(|t| self.allocate(name, t, space, dims));
                Ok(Storage::Tuple(parts.collect::<Result<_, _>>()?))
            }
            _ => {
                let Some(elem) = element_type(ty) else {
                    return Err(self.refuse(codes::UNSUPPORTED, format!("`{ty}` cannot be stored")));
                };
                let constant = dims.iter().all(|d| d.as_constant().is_some());
                if matches!(space, Space::Register | Space::Stack | Space::Fragment) && !constant {
                    let text = format!("memory in `{}` needs constant sizes, not `{ty}`", space.name());
                    return Err(self.refuse(codes::UNSUPPORTED, text));
                }
                let b = self.buffer(name, elem, dims, space);
                self.items.push(Item::Alloc(b.clone(), Places::none()));
                Ok(Storage::Buffer(b))
            }
        }
    }

    pub(super) fn read_buffers(&mut self, s: &Storage, ty: &Type, at: Vec<Nat>) -> View {
        match (ty.kind(), s) {
            (TypeKind::Array(n, e) | TypeKind::Vector(n, e), _) => {
                let (s, e) = (s.clone(), e.clone());
                let origin = Some(Rc::new((s.clone(), at.clone())));
                let all = ArrayView::new(n.clone(), move |l, i| {
                    let mut at = at.clone();
                    at.push(i.clone());
                    Ok(l.read_buffers(&s, &e, at))
                });
                View::Array(ArrayView { origin, ..all })
            }
            (TypeKind::Tuple(ts), Storage::Tuple(parts)) => {
                View::Tuple(parts.iter().zip(ts).map(|(s, t)| self.read_buffers(s, t, at.clone())).collect())
            }
            (_, Storage::Buffer(b)) => {
                let load = build::load(self.access(b, &at));
                self.fields(load, ty)
            }
            (_, Storage::Tuple(_)) => View::Tuple(Vec::new()),
        }
    }

    /// An element that was loaded as a whole, taken apart.
    fn fields(&mut self, e: Expr, ty: &Type) -> View {
        match ty.kind() {
            TypeKind::Tuple(ts) => {
                let parts = ts.iter().enumerate();
                View::Tuple(parts.map(|(n, t)| self.fields(build::field(e.clone(), n as u32), t)).collect())
            }
            TypeKind::Index(n) => View::Index(self.indices.atom(e, Some(n.clone()))),
            _ => View::Number(e),
        }
    }

    pub(super) fn place(s: &Storage, ty: &Type, at: Vec<Nat>) -> Acc {
        match (ty.kind(), s) {
            (TypeKind::Array(_, e) | TypeKind::Vector(_, e), _) => {
                let (s, e) = (s.clone(), e.clone());
                let origin = Some(Rc::new((s.clone(), at.clone())));
                let write = move |_: &mut Lower, i: &Nat| {
                    let mut at = at.clone();
                    at.push(i.clone());
                    Ok(Lower::place(&s, &e, at))
                };
                Acc::Array(Rc::new(write), origin)
            }
            (TypeKind::Tuple(ts), Storage::Tuple(parts)) => {
                Acc::Tuple(parts.iter().zip(ts).map(|(s, t)| Lower::place(s, t, at.clone())).collect())
            }
            (_, Storage::Buffer(b)) => Acc::Cell(b.clone(), at),
            (_, Storage::Tuple(_)) => Acc::Tuple(Vec::new()),
        }
    }

    fn access(&self, b: &Arc<Buffer>, at: &[Nat]) -> Access {
        let indices = at.iter().map(|n| self.indices.expr(n)).collect();
        let mut a = Access::buffer(b.id, b.elem.clone(), indices).at(self.places.clone());
        // Types keep subscripts inside; what a program claims beyond that is checked where it claims it.
        a.status = Status::Proved;
        a
    }

    /// The value of an element.
    pub(super) fn number(&self, v: &View) -> Result<Expr, Diagnostic> {
        match v {
            View::Number(e) => Ok(e.clone()),
            View::Index(n) => Ok(self.indices.expr(n)),
            View::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.number(p)).collect::<Result<Vec<_>, _>>()?;
                let ty = lathe_ir::Type::Tuple(parts.iter().map(|p| p.ty().clone()).collect());
                Ok(whole(&parts, &ty).unwrap_or_else(|| build::aggregate(ty, parts)))
            }
            View::Array(_) => Err(self.refuse(codes::NOT_STORED, "an array is used as a number")),
        }
    }

    /// Writes a value to its place. Arrays are not copied: that takes a loop, which the program must say.
    pub(super) fn assign(&mut self, acc: &Acc, v: &View, ty: &Type) -> Result<(), Diagnostic> {
        // A vector is one value.
        if let (TypeKind::Vector(n, e), Acc::Array(to, _), View::Array(from)) = (ty.kind(), acc, v) {
            let (to, from, e) = (to.clone(), from.clone(), e.clone());
            let lanes = self.lanes(n)?;
            return self.serial_loop("lane", n, Executor::Vector(lanes), |l, i| {
                let (to, from) = (to(l, i)?, (from.at)(l, i)?);
                l.assign(&to, &from, &e)
            });
        }
        let mut cells = Vec::new();
        self.cells(acc, v, &mut cells)?;
        // What reads another part is computed before one is written; what does not may be a reduction of its own.
        let reads_another = |n: usize, e: &Expr| {
            let mut others = cells.iter().enumerate().filter(|(m, _)| *m != n);
            others.any(|(_, c)| loads(e, &c.0))
        };
        let apart: Vec<bool> = cells.iter().enumerate().map(|(n, c)| !reads_another(n, &c.2)).collect();
        for (c, apart) in cells.iter_mut().zip(apart) {
            if !apart {
                c.2 = self.name_number("x", c.2.clone());
            }
        }
        for (b, at, e) in cells {
            self.store(&b, &at, e);
        }
        Ok(())
    }

    fn cells(
        &mut self,
        acc: &Acc,
        v: &View,
        out: &mut Vec<(Arc<Buffer>, Vec<Nat>, Expr)>,
    ) -> Result<(), Diagnostic> {
        match (acc, v) {
            (Acc::Tuple(a), View::Tuple(v)) if a.len() == v.len() => {
                a.iter().zip(v).try_for_each(|(a, v)| self.cells(a, v, out))
            }
            (Acc::Cell(b, at), View::Number(_) | View::Index(_) | View::Tuple(_)) => {
                let e = self.number(v)?;
                out.push((b.clone(), at.clone(), e));
                Ok(())
            }
            _ => {
                let d = self.refuse(
                    codes::NOT_STORED,
                    "an array is copied, but no primitive says how (`mapSeq`, `mapCpu`, …)",
                );
                Err(d.help("use `mapSeq(|x| x)`, or another low-level `map`"))
            }
        }
    }

    pub(super) fn store(&mut self, b: &Arc<Buffer>, at: &[Nat], value: Expr) {
        let target = self.access(b, at);
        let value = of_type(value, &b.elem);
        let label = self.next_label(b);
        let instance = self.loops.iter().map(|l| l.1.clone()).collect();
        // `a = a + e` is said as a reduction, which later steps know more about.
        if let ExprKind::Binary(op, x, e) = value.kind()
            && let Some(reduce) = reduction(*op)
            && let ExprKind::Load(l) = x.kind()
            && *l == target
            && !loads(e, b)
        {
            let (targets, values) = (vec![target], vec![e.clone()]);
            let r = Reduce { label, instance, op: reduce, targets, values, licence: false, contract: false };
            return self.emit(StmtKind::Reduce(r));
        }
        self.emit(StmtKind::Store(Store::new(label, instance, target, value)));
    }

    fn next_label(&mut self, b: &Arc<Buffer>) -> Label {
        let count = self.labels.entry(b.name.clone()).or_insert(0);
        *count += 1;
        Label::new(if *count == 1 { b.name.to_string() } else { Role::Staged.numbered(&b.name, *count) })
    }

    /// Combines a value into an accumulator.
    pub(super) fn combine(&mut self, acc: &Arc<Buffer>, op: ReduceOp, value: Expr) {
        let (targets, values) = (vec![self.access(acc, &[])], vec![value]);
        let label = self.next_label(acc);
        let instance = self.loops.iter().map(|l| l.1.clone()).collect();
        self.emit(StmtKind::Reduce(Reduce {
            label,
            instance,
            op,
            targets,
            values,
            licence: false,
            contract: false,
        }));
    }

    pub(super) fn refuse(&self, code: lathe_diagnostics::Code, text: impl Into<String>) -> Diagnostic {
        error(code, text.into(), &self.places)
    }
}

/// What was loaded as a whole and taken apart.
fn whole(parts: &[Expr], ty: &lathe_ir::Type) -> Option<Expr> {
    let of = |n: usize, p: &Expr| match p.kind() {
        ExprKind::Field(e, m) if *m as usize == n && e.ty() == ty => Some(e.clone()),
        _ => None,
    };
    let first = of(0, parts.first()?)?;
    parts.iter().enumerate().all(|(n, p)| of(n, p).as_ref() == Some(&first)).then_some(first)
}

/// A value whose parts are in memory of this type: pairs are stored as complex numbers where these are declared.
fn of_type(e: Expr, ty: &lathe_ir::Type) -> Expr {
    if e.ty() == ty {
        return e;
    }
    let parts = ty.fields().into_iter().enumerate();
    let parts = parts.map(|(n, t)| of_type(build::field(e.clone(), n as u32), &t)).collect();
    build::aggregate(ty.clone(), parts)
}

fn reduction(op: BinOp) -> Option<ReduceOp> {
    Some(match op {
        BinOp::Add => ReduceOp::Sum,
        BinOp::Mul => ReduceOp::Prod,
        BinOp::Min => ReduceOp::Min,
        BinOp::Max => ReduceOp::Max,
        _ => return None,
    })
}

/// Whether an expression reads a buffer.
pub(super) fn loads(e: &Expr, b: &Arc<Buffer>) -> bool {
    lathe_ir::visit::loads_of(e).iter().any(|l| l.view.buffer() == Some(b.id))
}
