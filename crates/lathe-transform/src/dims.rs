//! The dimensions of a compute in the order of the loops that they open to.

use crate::nest::mentions;
use lathe_ir::{Combine, Compute, Dim};

/// The dimensions so that each range mentions only those before it; none where ranges depend on one another.
fn ordered(mut dims: Vec<&Dim>) -> Option<Vec<&Dim>> {
    let mut out = Vec::new();
    while !dims.is_empty() {
        let ready = dims.iter().position(|d| {
            dims.iter().all(|o| !mentions(&d.lo, o.binder.id) && !mentions(&d.hi, o.binder.id))
        })?;
        out.push(dims.remove(ready));
    }
    Some(out)
}

/// The dimensions of a compute of one kind, in the order of the loops that they open to.
pub fn of_kind(c: &Compute, is: fn(&Combine) -> bool) -> Option<Vec<&Dim>> {
    ordered(c.dims.iter().filter(|d| is(&d.combine)).collect())
}

pub fn is_scan(c: &Combine) -> bool {
    matches!(c, Combine::Scan(_))
}

pub fn is_reduced(c: &Combine) -> bool {
    matches!(c, Combine::Reduce(_))
}

/// The dimensions of a compute in the order in which instances of the statement that it opens to name them.
pub fn instance_dims(c: &Compute) -> Option<Vec<&Dim>> {
    let all = [of_kind(c, |k| *k == Combine::Concat)?, of_kind(c, is_scan)?, of_kind(c, is_reduced)?];
    Some(all.concat())
}
