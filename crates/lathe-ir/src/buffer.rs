//! Buffers: arrays with a place in memory.

use crate::digest::Feed;
use crate::expr::Expr;
use crate::ids::BufId;
use crate::layout::Layout;
use crate::types::{Name, Type};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Where a buffer lives; named by the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Ordinary memory; local buffers come from the runtime's scratch.
    Host,
    Global,
    Shared,
    /// Of constant size, in the frame of the code that runs the allocation.
    Stack,
    /// Of constant size and constantly subscripted after unrolling; engines keep it in registers.
    Register,
    Constant,
    Fragment,
}

impl Space {
    pub const ALL: [Space; 7] = [
        Space::Host,
        Space::Global,
        Space::Shared,
        Space::Stack,
        Space::Register,
        Space::Constant,
        Space::Fragment,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Space::Host => "host",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Stack => "stack",
            Space::Register => "register",
            Space::Constant => "constant",
            Space::Fragment => "fragment",
        }
    }

    pub fn from_name(name: &str) -> Option<Space> {
        Space::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// An n-dimensional array with logical subscripts `0..extent` in each dimension.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Buffer {
    pub id: BufId,
    pub name: Name,
    pub elem: Type,
    /// `index` expressions over variables in scope where the buffer is bound.
    pub extents: Vec<Expr>,
    pub space: Space,
    pub layout: Layout,
}

impl Buffer {
    /// A new array in row-major order.
    pub fn local(
        id: BufId,
        name: impl Into<Name>,
        elem: Type,
        extents: Vec<Expr>,
        space: Space,
    ) -> Arc<Buffer> {
        Arc::new(Buffer { id, name: name.into(), elem, extents, space, layout: Layout::row_major() })
    }

    /// Its part of a digest.
    pub(crate) fn feed(&self, h: &mut Feed) {
        (self.id, &self.name, &self.elem, self.space, &self.layout, self.extents.len()).hash(h);
        self.extents.iter().for_each(|e| h.write(e.digest()));
    }
}
