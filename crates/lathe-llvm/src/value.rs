//! Values while code is emitted: one per scalar leaf, with what is known about its lanes.
//!
//! Inside a vector loop most of a program is the same for all lanes, or grows by a constant from lane
//! to lane. Keeping both apart from the general case is what yields scalar addresses, contiguous
//! accesses and broadcasts without a separate analysis.

use crate::ir::{Ir, Ty, Value, Width};

/// A scalar as seen from a vector loop; outside of vector loops always `Uniform`.
#[derive(Clone, Copy, Debug)]
pub enum Leaf {
    /// The same in all lanes.
    Uniform(Value),
    /// `base + step * lane`, 64-bit, with a step that is not 0.
    Linear { base: Value, step: i64 },
    /// A vector with one element per lane.
    Varying(Value),
}

/// The leaves of an expression's type, depth first.
pub type Val = Vec<Leaf>;

impl Leaf {
    pub fn is_uniform(self) -> bool {
        matches!(self, Leaf::Uniform(_))
    }

    /// The value at a width: `None` only for uniform leaves, whose one value it is.
    pub fn at(self, ir: &Ir, width: Width) -> Value {
        match (self, width) {
            (Leaf::Uniform(v), Some(w)) => ir.splat(v, w),
            (Leaf::Uniform(v) | Leaf::Varying(v), _) => v,
            (Leaf::Linear { base, step }, Some(w)) => ir.add_index(ir.splat(base, w), ir.ramp(step, w)),
            (Leaf::Linear { base, .. }, None) => base,
        }
    }

    pub fn ty(self, ir: &Ir) -> Ty {
        match self {
            Leaf::Uniform(v) | Leaf::Varying(v) | Leaf::Linear { base: v, .. } => ir.type_of(v),
        }
    }

    /// Wraps what was computed at a width.
    pub fn of(v: Value, width: Width) -> Leaf {
        if width.is_some() { Leaf::Varying(v) } else { Leaf::Uniform(v) }
    }
}

/// Sum of two indices.
pub fn add(ir: &Ir, a: Leaf, b: Leaf, width: Width) -> Leaf {
    use Leaf::*;
    match (a, b) {
        (Uniform(x), Uniform(y)) => Uniform(ir.add_index(x, y)),
        (Linear { base, step }, Uniform(y)) | (Uniform(y), Linear { base, step }) => {
            Linear { base: ir.add_index(base, y), step }
        }
        (Linear { base: x, step: s }, Linear { base: y, step: t }) if s.checked_add(t).is_some() => {
            linear(ir.add_index(x, y), s + t)
        }
        _ => Varying(ir.add_index(a.at(ir, width), b.at(ir, width))),
    }
}

/// Difference of two indices.
pub fn sub(ir: &Ir, a: Leaf, b: Leaf, width: Width) -> Leaf {
    use Leaf::*;
    match (a, b) {
        (Uniform(x), Uniform(y)) => Uniform(ir.sub_index(x, y)),
        (Linear { base, step }, Uniform(y)) => Linear { base: ir.sub_index(base, y), step },
        (Uniform(y), Linear { base, step }) if step != i64::MIN => {
            Linear { base: ir.sub_index(y, base), step: -step }
        }
        (Linear { base: x, step: s }, Linear { base: y, step: t }) if s.checked_sub(t).is_some() => {
            linear(ir.sub_index(x, y), s - t)
        }
        _ => Varying(ir.sub_index(a.at(ir, width), b.at(ir, width))),
    }
}

/// Product of two indices.
pub fn mul(ir: &Ir, a: Leaf, b: Leaf, width: Width) -> Leaf {
    use Leaf::*;
    match (a, b) {
        (Uniform(x), Uniform(y)) => Uniform(ir.mul_index(x, y)),
        (Linear { base, step }, Uniform(y)) | (Uniform(y), Linear { base, step }) => {
            match ir.as_const(y).and_then(|c| step.checked_mul(c)) {
                Some(step) => linear(ir.mul_index(base, y), step),
                None => Varying(ir.mul_index(a.at(ir, width), b.at(ir, width))),
            }
        }
        _ => Varying(ir.mul_index(a.at(ir, width), b.at(ir, width))),
    }
}

fn linear(base: Value, step: i64) -> Leaf {
    if step == 0 { Leaf::Uniform(base) } else { Leaf::Linear { base, step } }
}
