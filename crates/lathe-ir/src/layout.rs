//! Layouts: injective maps from logical indices to storage, applied only at emission.

/// One step of a layout; each works on the list of dimensions that the steps before it left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LayoutStep {
    /// Reorders the dimensions: new dimension `d` is old dimension `order[d]`.
    Permute(Vec<usize>),
    /// Splits dimension `dim` into `(index // size, index % size)` at `dim` and `dim + 1`.
    Tile { dim: usize, size: u64 },
    /// Rounds the extent of a dimension up to a multiple (storage only).
    Pad { dim: usize, multiple: u64 },
    /// `index[dim] ^= index[by] % modulus` (bank conflicts of shared memory); `modulus` a power of two.
    Swizzle { dim: usize, by: usize, modulus: u64 },
    /// Iteration `index[dim]` of the loop of that name has the element: each holds its part of the array, in which the
    /// dimension has no place. Every access is made by the iteration that has the element.
    Distribute { dim: usize, over: crate::types::Name },
}

/// Row-major over what the steps leave; the empty layout is row-major over the logical dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Layout {
    pub steps: Vec<LayoutStep>,
}

impl Layout {
    pub fn row_major() -> Layout {
        Layout::default()
    }

    pub fn is_row_major(&self) -> bool {
        self.steps.is_empty()
    }

    /// The dimension along which elements are next to one another in memory, of an array of that many dimensions; of a tiled
    /// one, within a tile. `None` if there is none.
    pub fn innermost(&self, rank: usize) -> Option<usize> {
        let mut dims: Vec<usize> = (0..rank).collect();
        for step in &self.steps {
            match step {
                LayoutStep::Permute(order) => {
                    dims = order.iter().map(|d| dims.get(*d).copied()).collect::<Option<_>>()?;
                }
                LayoutStep::Tile { dim, .. } => dims.insert(dim + 1, *dims.get(*dim)?),
                LayoutStep::Pad { .. } => {}
                LayoutStep::Swizzle { .. } | LayoutStep::Distribute { .. } => return None,
            }
        }
        dims.last().copied()
    }

    /// Physical subscripts are the logical ones: at most there is room between rows.
    pub fn keeps_subscripts(&self) -> bool {
        self.steps.iter().all(|s| matches!(s, LayoutStep::Pad { .. }))
    }

    /// Iterations of loops hold a part each.
    pub fn is_distributed(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, LayoutStep::Distribute { .. }))
    }

    /// The layout with one more dimension, which comes first and stays there.
    pub fn behind_one(&self) -> Layout {
        let step = |s: &LayoutStep| match s {
            LayoutStep::Permute(order) => {
                LayoutStep::Permute(std::iter::once(0).chain(order.iter().map(|d| d + 1)).collect())
            }
            LayoutStep::Tile { dim, size } => LayoutStep::Tile { dim: dim + 1, size: *size },
            LayoutStep::Pad { dim, multiple } => LayoutStep::Pad { dim: dim + 1, multiple: *multiple },
            LayoutStep::Swizzle { dim, by, modulus } => {
                LayoutStep::Swizzle { dim: dim + 1, by: by + 1, modulus: *modulus }
            }
            LayoutStep::Distribute { dim, over } => {
                LayoutStep::Distribute { dim: dim + 1, over: over.clone() }
            }
        };
        Layout { steps: self.steps.iter().map(step).collect() }
    }
}
