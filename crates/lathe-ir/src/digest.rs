//! Data that every statement stores about its subtree: a structural hash and a filter of the names in it from the
//! moment it is made, and a digest on demand.

use crate::expr::Expr;
use crate::func::{Buffer, Function, ParamKind};
use crate::stmt::{BinderRole, Part, Stmt, StmtKind};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Two bits of a word for one name.
pub(crate) fn bits_of(name: &str) -> u64 {
    let mut h = DefaultHasher::new();
    name.hash(&mut h);
    let h = h.finish();
    (1 << (h & 63)) | (1 << ((h >> 6) & 63))
}

/// A label answers to its own name and to those of its family: `C.init` to `C`, too.
fn bits_of_label(text: &str) -> u64 {
    text.match_indices('.').fold(bits_of(text), |bits, (p, _)| bits | bits_of(&text[..p]))
}

/// The hash and the name filter of a statement: what it is made of, names of binders included.
pub(crate) fn summarize(kind: &StmtKind) -> (u64, u64) {
    let h = &mut DefaultHasher::new();
    kind.hash(h);
    let mut names = kind.children().fold(0, |names, c| names | c.name_bits());
    kind.for_each_part(&mut |p| match p {
        Part::Instance(label, _) => names |= bits_of_label(label.as_str()),
        // Equality of binders is that of their numbers; a statement that names them otherwise is another.
        Part::Bind(b, role) => {
            (&b.name, b.ty).hash(h);
            if role == BinderRole::Loop {
                names |= bits_of(&b.name);
            }
        }
        Part::Buffer(b) => names |= bits_of(&b.name),
        Part::Expr(_) | Part::Touch(..) | Part::Variable(_) => {}
    });
    (h.finish(), names)
}

/// A BLAKE3 hash.
pub type Digest = [u8; 32];

/// Takes what [`Hash`] says of a node itself; its children's digests follow.
struct Feed(blake3::Hasher);

impl Hasher for Feed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl Feed {
    fn new() -> Feed {
        Feed(blake3::Hasher::new())
    }

    fn buffer(&mut self, b: &Buffer) {
        (b.id, &b.name, &b.elem, b.space, &b.layout, b.extents.len()).hash(self);
        b.extents.iter().for_each(|e| self.write(e.digest()));
    }

    fn done(self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

pub(crate) fn of_expr(e: &Expr) -> Digest {
    let mut h = Feed::new();
    (e.kind(), e.ty()).hash(&mut h);
    e.children().into_iter().for_each(|c| h.write(c.digest()));
    h.done()
}

pub(crate) fn of_stmt(s: &Stmt) -> Digest {
    let mut h = Feed::new();
    s.kind().hash(&mut h);
    s.kind().for_each_part(&mut |p| match p {
        Part::Bind(b, _) => (b.id, &b.name, b.ty).hash(&mut h),
        Part::Buffer(b) => h.buffer(b),
        Part::Instance(..) | Part::Expr(_) | Part::Touch(..) | Part::Variable(_) => {}
    });
    s.exprs().into_iter().for_each(|e| h.write(e.digest()));
    s.children().for_each(|c| h.write(c.digest()));
    h.done()
}

/// The digest of a function: equal functions have equal ones, in every process; places and the status of accesses play no
/// part, numbers of binders do.
pub fn digest(f: &Function) -> Digest {
    let mut h = Feed::new();
    (&f.name, f.stage, f.next_id, f.result.is_some()).hash(&mut h);
    f.result.iter().for_each(|e| h.write(e.digest()));
    f.sizes.len().hash(&mut h);
    for b in &f.sizes {
        (b.id, &b.name, b.ty).hash(&mut h);
    }
    f.params.len().hash(&mut h);
    for p in &f.params {
        (p.mode, &p.alias).hash(&mut h);
        match &p.kind {
            ParamKind::Scalar(b) => (0u8, b.id, &b.name, b.ty).hash(&mut h),
            ParamKind::Array(b) => {
                1u8.hash(&mut h);
                h.buffer(b);
            }
        }
    }
    h.write(f.body.digest());
    h.done()
}
