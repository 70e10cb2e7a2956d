//! Data that every statement stores about its subtree: a structural hash and a filter of the names in it from the
//! moment it is made, and a digest on demand.

use super::{BinderRole, Part, Stmt, StmtKind};
use crate::digest::{Digest, Feed};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Two bits of a word for one name.
pub(super) fn bits_of(name: &str) -> u64 {
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
pub(super) fn summarize(kind: &StmtKind) -> (u64, u64) {
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

pub(super) fn of_stmt(s: &Stmt) -> Digest {
    let mut h = Feed::new();
    s.kind().hash(&mut h);
    s.kind().for_each_part(&mut |p| match p {
        Part::Bind(b, _) => (b.id, &b.name, b.ty).hash(&mut h),
        Part::Buffer(b) => b.feed(&mut h),
        Part::Instance(..) | Part::Expr(_) | Part::Touch(..) | Part::Variable(_) => {}
    });
    s.exprs().into_iter().for_each(|e| h.write(e.digest()));
    s.children().for_each(|c| h.write(c.digest()));
    h.done()
}
