//! Reductions of tuples whose parts depend on each other: an operator of the module combines the tuple as a whole, so
//! that steps see one reduction. Parts that are combined apart are reductions of their own ([`Lower::assign`]).

use super::Lower;
use super::view::{Arg, Storage};
use crate::types::{Type, TypeKind};
use crate::value::element_type;
use lathe_ir::names::Role;
use lathe_ir::stmt::block::{Item, flat};
use lathe_ir::{BufId, Buffer, CombineOp, Expr, ExprKind, Name, Space, visit};
use std::collections::HashMap;
use std::sync::Arc;

/// Nodes of an operator that is written out; larger ones stay loops.
const MOST: usize = 2000;

/// What the operands are while the operator is read.
const OPERANDS: [BufId; 2] = [BufId(0), BufId(1)];

impl Lower<'_> {
    /// The operator of a reduction of tuples from `z` on: one that the program has, or, if this is asked for, a new one,
    /// which declares what a reduction in any order needs. `None` where parts are combined apart, or anything outside is used.
    pub(super) fn operator(&mut self, op: &Arg, z: &Arg, ty: &Type) -> Option<Name> {
        if !matches!(ty.kind(), TypeKind::Tuple(_)) || !is_closed(op) || !is_closed(z) {
            return None;
        }
        // What a rule made of two functions may combine elements of another type.
        let Arg::Term(t, _) = op else { return None };
        let combined = t.ty().as_fun()?.1.as_fun()?.0;
        if combined != ty {
            return None;
        }
        let elem = element_type(ty)?;
        let [a, b] =
            OPERANDS.map(|id| Buffer::local(id, "operand", elem.clone(), Vec::new(), Space::Register));
        let operands = [&a, &b].map(|b| self.read_buffers(&Storage::Buffer(b.clone()), ty, Vec::new()));
        let body = self.written_out(|l| {
            let v = l.call(op, operands.to_vec())?;
            l.number(&v)
        })?;
        let identity = self.written_out(|l| {
            let v = l.arg(z)?;
            l.number(&v)
        })?;
        if *body.ty() != elem || *identity.ty() != elem || !is_joint(&body, &mut Vec::new()) {
            return None;
        }
        let same = |o: &&CombineOp| o.ty == elem && o.body == body && o.identity.as_ref() == Some(&identity);
        let known = self.program.operators.iter().chain(self.declared.iter().flatten()).find(same);
        if let Some(o) = known {
            return Some(o.name.clone());
        }
        let declared = self.declared.as_mut()?;
        let name = Name::from(Role::Combine.nth(&self.program.name, declared.len()).as_str());
        declared.push(CombineOp {
            name: name.clone(),
            ty: elem,
            a: OPERANDS[0],
            b: OPERANDS[1],
            body,
            associative: true,
            commutative: true,
            identity: Some(identity),
        });
        Some(name)
    }

    /// A number without names for parts of it, and without variables; `None` if it takes statements, or is too large.
    fn written_out(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<Expr, lathe_diagnostics::Diagnostic>,
    ) -> Option<Expr> {
        let mut found = None;
        let emitted = self.block(|l| {
            found = f(l).ok();
            Ok(())
        });
        let mut values = HashMap::new();
        for item in flat(&emitted.ok()?) {
            let Item::Let(binder, value, _) = item else { return None };
            let value = visit::substitute(&value, &values);
            (size(&value) <= MOST).then_some(())?;
            values.insert(binder.id, value);
        }
        let e = visit::substitute(&found?, &values);
        (size(&e) <= MOST && visit::vars_of(&e).is_empty()).then_some(e)
    }

    /// One buffer for a tuple.
    pub(super) fn allocate_whole(&mut self, name: &str, elem: lathe_ir::Type) -> Arc<Buffer> {
        let b = self.buffer(name, elem, &[], Space::Register);
        self.items.push(Item::Alloc(b.clone(), lathe_diagnostics::Places::none()));
        b
    }
}

fn size(e: &Expr) -> usize {
    let mut n = 0;
    visit::walk_expr(e, &mut |_| n += 1);
    n
}

fn is_closed(a: &Arg) -> bool {
    match a {
        Arg::Term(t, _) => t.is_closed(),
        Arg::View(_) | Arg::Hole(_) => false,
    }
}

/// Whether a part of a value reads another part of an operand.
fn is_joint(e: &Expr, at: &mut Vec<u32>) -> bool {
    if let ExprKind::Aggregate(parts) = e.kind() {
        return parts.iter().enumerate().any(|(n, p)| {
            at.push(n as u32);
            let joint = is_joint(p, at);
            at.pop();
            joint
        });
    }
    let mut joint = false;
    reads(e, &mut Vec::new(), &mut |path| joint |= *path != *at);
    joint
}

/// The parts of operands that a value reads.
fn reads(e: &Expr, path: &mut Vec<u32>, found: &mut dyn FnMut(&[u32])) {
    match e.kind() {
        ExprKind::Field(of, n) => {
            path.insert(0, *n);
            reads(of, path, found);
            path.remove(0);
        }
        ExprKind::Load(_) => found(path),
        _ => {
            // What is under an operator is no part of a part.
            let outer = std::mem::take(path);
            e.children().into_iter().for_each(|c| reads(c, &mut Vec::new(), found));
            *path = outer;
        }
    }
}
