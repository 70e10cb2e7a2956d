//! What every statement knows about its subtree from the moment it is made: a structural hash and a
//! filter of the names in it.

use crate::ids::{Binder, Label};
use crate::stmt::{Arg, Stmt, StmtKind};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Two bits of a word for one name.
pub(crate) fn bits_of(name: &str) -> u64 {
    let mut h = DefaultHasher::new();
    name.hash(&mut h);
    let h = h.finish();
    (1 << (h & 63)) | (1 << ((h >> 6) & 63))
}

/// A label answers to its own name and to those of its family: `C.init` to `C`, too.
fn bits_of_label(l: &Label) -> u64 {
    let text = l.as_str();
    text.match_indices('.').fold(bits_of(text), |bits, (p, _)| bits | bits_of(&text[..p]))
}

fn binder(b: &Binder, h: &mut DefaultHasher) {
    (b.id, &b.name, b.ty).hash(h);
}

/// The hash and the name filter of a statement of this kind.
pub(crate) fn summarize(kind: &StmtKind) -> (u64, u64) {
    let h = &mut DefaultHasher::new();
    let mut names = 0u64;
    std::mem::discriminant(kind).hash(h);
    let mut child = |s: &Stmt, h: &mut DefaultHasher| {
        s.structural_hash().hash(h);
        names |= s.name_bits();
    };
    match kind {
        StmtKind::Seq(v) => {
            v.len().hash(h);
            v.iter().for_each(|s| child(s, h));
        }
        StmtKind::Let { binder: b, value, body } => {
            binder(b, h);
            value.hash(h);
            child(body, h);
        }
        StmtKind::Store(s) => {
            (&s.label, &s.instance, &s.target, &s.value, s.nontemporal).hash(h);
            names |= bits_of_label(&s.label);
        }
        StmtKind::Reduce(r) => {
            (&r.label, &r.instance, &r.op, &r.targets, &r.values, r.licence, r.contract).hash(h);
            names |= bits_of_label(&r.label);
        }
        StmtKind::Atomic(a) => {
            (&a.label, &a.instance, &a.op, &a.target, &a.value, a.order, &a.scope).hash(h);
            if let Some(b) = &a.old {
                binder(b, h);
            }
            child(&a.body, h);
            names |= bits_of_label(&a.label);
        }
        StmtKind::Loop(l) => {
            binder(&l.binder, h);
            (&l.lo, &l.hi, l.step, &l.exec).hash(h);
            child(&l.body, h);
            names |= bits_of(&l.binder.name);
        }
        StmtKind::If { cond, then, other } => {
            cond.hash(h);
            child(then, h);
            other.is_some().hash(h);
            other.iter().for_each(|s| child(s, h));
        }
        StmtKind::While { cond, body } => {
            cond.hash(h);
            child(body, h);
        }
        StmtKind::Alloc { buffer: b, body } => {
            (b.id, &b.name, &b.elem, &b.extents, b.space, &b.layout).hash(h);
            child(body, h);
            names |= bits_of(&b.name);
        }
        StmtKind::Check { cond, code, message } => (cond, code, message).hash(h),
        StmtKind::Assume { fact, provenance } => (fact, provenance).hash(h),
        StmtKind::Barrier { of, spaces } => (of, spaces).hash(h),
        StmtKind::Prefetch(a) => a.hash(h),
        StmtKind::Async { token, body } => {
            binder(token, h);
            child(body, h);
        }
        StmtKind::Wait { tokens } => tokens.hash(h),
        StmtKind::Call { function, args } => {
            function.hash(h);
            for a in args {
                match a {
                    Arg::Value(e) => e.hash(h),
                    Arg::View(v) => v.hash(h),
                }
            }
        }
        StmtKind::Compute(c) => {
            for d in &c.dims {
                binder(&d.binder, h);
                (&d.lo, &d.hi, &d.combine).hash(h);
            }
            (&c.label, &c.targets, &c.values, &c.guard, &c.update).hash(h);
            names |= bits_of_label(&c.label);
        }
    }
    (h.finish(), names)
}
