//! One number for a function, to find equal trees quickly. What evidence records is a digest (`digest.rs`).

use crate::func::{Function, ParamKind};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Equal functions have equal hashes, in every process; source places and the status of accesses play
/// no part, numbers of binders do. Takes time proportional to the header only, since statements and
/// expressions know their hashes.
pub fn structural_hash(f: &Function) -> u64 {
    let h = &mut DefaultHasher::new();
    (&f.name, f.stage, f.next_id, &f.result, f.body.structural_hash()).hash(h);
    f.sizes.len().hash(h);
    for b in &f.sizes {
        (b.id, &b.name, b.ty).hash(h);
    }
    for p in &f.params {
        (p.mode, &p.alias).hash(h);
        match &p.kind {
            ParamKind::Scalar(b) => (b.id, &b.name, b.ty).hash(h),
            ParamKind::Array(b) => (b.id, &b.name, &b.elem, &b.extents, b.space, &b.layout).hash(h),
        }
    }
    h.finish()
}
