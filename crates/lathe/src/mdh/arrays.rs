//! The arrays of a function, and what memory they take.

use lathe_ir::interp::evaluate;
use lathe_ir::visit;
use lathe_ir::{Buffer, Function, Param};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Arrays are large that are so many times as large as the second cache.
pub(super) const LARGE: i64 = 2;

/// All arrays of a function: those that are given, and those that it allocates.
pub(super) fn all(func: &Function) -> Vec<Arc<Buffer>> {
    let mut out: Vec<Arc<Buffer>> = func.params.iter().filter_map(Param::array).cloned().collect();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.allocated().cloned());
        true
    });
    out
}

/// How many bytes a buffer takes.
pub(super) fn bytes(func: &Function, sizes: &BTreeMap<String, i64>) -> impl Fn(&Buffer) -> i64 + use<> {
    let values: HashMap<_, _> =
        func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    move |b| {
        let cells = b.extents.iter().map(|e| evaluate(e, &values).unwrap_or(i64::MAX));
        cells.fold(b.elem.bytes() as i64, i64::saturating_mul)
    }
}
