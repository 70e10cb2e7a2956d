//! Addresses of elements: views are resolved to subscripts of a buffer, and a buffer's layout turns
//! logical subscripts into physical ones. Everything is said in `index` expressions of the tree, so
//! that engines only emit expressions.

use super::Unsupported;
use crate::buffer::Buffer;
use crate::build::{add, binary, ceil_div, floor_div, floor_mod, index, mul};
use crate::expr::{Access, Expr, View};
use crate::ids::BufId;
use crate::layout::{Layout, LayoutStep};
use crate::ops::BinOp;
use crate::types::Name;

/// How a local buffer is stored: row-major over the dimensions that its layout leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Physical extents, outermost first.
    pub extents: Vec<Expr>,
    /// Elements between neighbours, one per physical dimension.
    pub strides: Vec<Expr>,
}

/// The buffer that an access ends in, and its logical subscripts there.
///
/// # Errors
/// On reinterpreted memory, pointers and globals, which engines for CPUs do not take yet.
pub fn resolve(a: &Access) -> Result<(BufId, Vec<Expr>), Unsupported> {
    fn through(v: &View, indices: Vec<Expr>) -> Result<(BufId, Vec<Expr>), Unsupported> {
        match v {
            View::Buffer(b) => Ok((*b, indices)),
            View::Slice { base, offsets, steps } => {
                let inner = offsets
                    .iter()
                    .zip(steps)
                    .zip(indices)
                    .map(|((o, s), i)| add(o.clone(), mul(i, index(*s))))
                    .collect();
                through(base, inner)
            }
            View::Reshape { base, extents } => {
                let mut linear = index(0);
                for (i, e) in indices.into_iter().zip(extents) {
                    linear = add(mul(linear, e.clone()), i);
                }
                through(base, vec![linear])
            }
            View::Reinterpret { .. } => Err(Unsupported::new("memory reinterpreted as another type")),
            View::Deref { .. } => Err(Unsupported::new("an access through a pointer")),
            View::Global(name) => Err(Unsupported::new(format!("the global `{name}`"))),
        }
    }
    through(&a.view, a.indices.clone()).map_err(|u| u.at(&a.places))
}

/// The physical subscripts of logical ones under the buffer's layout.
///
/// # Errors
/// On distributed layouts, of which one owner has only a part: [`part`].
pub fn physical(b: &Buffer, indices: &[Expr]) -> Result<Vec<Expr>, Unsupported> {
    Ok(whole(b, indices.to_vec())?.into_iter().map(|d| d.index).collect())
}

/// Extents and strides of a local buffer.
///
/// # Errors
/// As [`physical`].
pub fn storage(b: &Buffer) -> Result<Storage, Unsupported> {
    let zeros = vec![index(0); b.extents.len()];
    let extents: Vec<Expr> = whole(b, zeros)?.into_iter().map(|d| d.extent).collect();
    let mut strides = vec![index(1); extents.len()];
    for d in (1..extents.len()).rev() {
        // Different subscripts stay different elements in an array that has none, too.
        let extent = if extents[d].as_int() == Some(0) { index(1) } else { extents[d].clone() };
        strides[d - 1] = mul(strides[d].clone(), extent);
    }
    Ok(Storage { extents, strides })
}

fn whole(b: &Buffer, indices: Vec<Expr>) -> Result<Vec<Laid>, Unsupported> {
    let dims = laid(b, indices)?;
    if dims.iter().any(|d| d.over.is_some()) {
        return Err(Unsupported::new(format!("the distributed layout of `{}`", b.name)));
    }
    Ok(dims)
}

/// A dimension of what a layout leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Laid {
    pub index: Expr,
    pub extent: Expr,
    /// The loop whose iteration of that number has the element, and no place for the dimension.
    pub over: Option<Name>,
}

/// Where an element lies under a distributed layout: per dimension that the layout leaves, the subscript, the extent and
/// the loop that it is distributed over, if any. Without those that are, it is the element's place in the part that one
/// iteration holds.
///
/// # Errors
/// Where the layout does not fit the buffer.
pub fn laid(b: &Buffer, indices: Vec<Expr>) -> Result<Vec<Laid>, Unsupported> {
    let defect = || {
        Unsupported::new(format!("the layout of `{}`, which names a dimension that does not exist", b.name))
    };
    if indices.len() != b.extents.len() {
        let (i, e) = (indices.len(), b.extents.len());
        return Err(Unsupported::new(format!("{i} subscripts on `{}` of {e} dimensions", b.name)));
    }
    let dim = |(index, extent): (Expr, &Expr)| Laid { index, extent: extent.clone(), over: None };
    let mut dims: Vec<Laid> = indices.into_iter().zip(&b.extents).map(dim).collect();
    for step in &b.layout.steps {
        match step {
            LayoutStep::Permute(order) => {
                let picked: Option<Vec<Laid>> = order.iter().map(|d| dims.get(*d).cloned()).collect();
                dims = picked.ok_or_else(defect)?;
            }
            LayoutStep::Tile { dim, size } => {
                let d = dims.get_mut(*dim).filter(|_| *size > 0).ok_or_else(defect)?;
                let size = *size as i64;
                let inner =
                    Laid { index: floor_mod(d.index.clone(), index(size)), extent: index(size), over: None };
                d.index = floor_div(d.index.clone(), index(size));
                d.extent = ceil_div(d.extent.clone(), size);
                dims.insert(dim + 1, inner);
            }
            LayoutStep::Pad { dim, multiple } => {
                let d = dims.get_mut(*dim).filter(|_| *multiple > 0).ok_or_else(defect)?;
                d.extent = rounded(&d.extent, *multiple);
            }
            LayoutStep::Swizzle { dim, by, modulus } => {
                let other = dims.get(*by).ok_or_else(defect)?.index.clone();
                let d = dims.get_mut(*dim).filter(|_| *modulus > 0).ok_or_else(defect)?;
                d.index = binary(BinOp::Xor, d.index.clone(), floor_mod(other, index(*modulus as i64)));
                d.extent = rounded(&d.extent, *modulus);
            }
            LayoutStep::Distribute { dim, over } => {
                dims.get_mut(*dim).ok_or_else(defect)?.over = Some(over.clone());
            }
        }
    }
    Ok(dims)
}

fn rounded(extent: &Expr, multiple: u64) -> Expr {
    let m = multiple as i64;
    mul(ceil_div(extent.clone(), m), index(m))
}

/// What one iteration holds of a buffer that is distributed over loops, stored row by row.
///
/// # Errors
/// As [`laid`].
pub fn part(b: &Buffer) -> Result<Buffer, Unsupported> {
    let zeros = vec![index(0); b.extents.len()];
    let kept = laid(b, zeros)?.into_iter().filter(|d| d.over.is_none());
    Ok(Buffer { extents: kept.map(|d| d.extent).collect(), layout: Layout::row_major(), ..b.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Space;
    use crate::ids::VarId;
    use crate::types::{Scalar, Type};

    #[test]
    fn packed_panels() {
        let x = crate::build::var_id(VarId(7), Scalar::Index);
        let b = Buffer {
            id: BufId(0),
            name: "P".into(),
            elem: Type::F32,
            extents: vec![index(10), index(35)],
            space: Space::Host,
            layout: Layout {
                steps: vec![LayoutStep::Tile { dim: 1, size: 16 }, LayoutStep::Permute(vec![1, 0, 2])],
            },
        };
        let s = storage(&b).unwrap();
        let ints = |v: &[Expr]| v.iter().map(|e| e.as_int().unwrap()).collect::<Vec<_>>();
        assert_eq!(ints(&s.extents), [3, 10, 16]);
        assert_eq!(ints(&s.strides), [160, 16, 1]);
        assert_eq!(ints(&physical(&b, &[index(2), index(33)]).unwrap()), [2, 2, 1]);
        let a = Access {
            view: View::Slice {
                base: Box::new(View::Buffer(b.id)),
                offsets: vec![index(1), x.clone()],
                steps: vec![1, 2],
            },
            ..Access::buffer(b.id, Type::F32, vec![index(3), index(4)])
        };
        assert_eq!(resolve(&a).unwrap(), (b.id, vec![index(4), add(x, index(8))]));
    }

    #[test]
    fn elements_of_an_array_without_elements_differ() {
        let b = Buffer {
            id: BufId(0),
            name: "B".into(),
            elem: Type::Scalar(Scalar::F32),
            extents: vec![index(3), index(16), index(0)],
            space: Space::Host,
            layout: Layout::row_major(),
        };
        let s = storage(&b).expect("no steps");
        assert_eq!(s.strides, [index(16), index(1), index(1)]);
        assert_eq!(s.extents, b.extents);
    }
    #[test]
    fn swizzled_rows_and_distributed_tiles() {
        let mut b = Buffer {
            id: BufId(0),
            name: "S".into(),
            elem: Type::F32,
            extents: vec![index(8), index(30)],
            space: Space::Shared,
            layout: Layout { steps: vec![LayoutStep::Swizzle { dim: 1, by: 0, modulus: 4 }] },
        };
        let ints = |v: &[Expr]| v.iter().map(|e| e.as_int().unwrap()).collect::<Vec<_>>();
        assert_eq!(ints(&storage(&b).unwrap().extents), [8, 32]);
        assert_eq!(ints(&physical(&b, &[index(7), index(29)]).unwrap()), [7, 29 ^ 3]);
        let tiles =
            [LayoutStep::Tile { dim: 1, size: 4 }, LayoutStep::Distribute { dim: 1, over: "t".into() }];
        b.layout = Layout { steps: tiles.into() };
        assert_eq!(ints(&part(&b).unwrap().extents), [8, 4]);
        let at = laid(&b, vec![index(2), index(29)]).unwrap();
        assert_eq!(at.iter().map(|d| d.index.as_int().unwrap()).collect::<Vec<_>>(), [2, 7, 1]);
        assert_eq!(at.iter().map(|d| d.over.is_some()).collect::<Vec<_>>(), [false, true, false]);
        assert!(physical(&b, &[index(0), index(0)]).is_err());
    }
}
