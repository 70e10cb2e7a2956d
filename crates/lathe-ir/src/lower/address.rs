//! Addresses of elements: views are resolved to subscripts of a buffer, and a buffer's layout turns
//! logical subscripts into physical ones. Everything is said in `index` expressions of the tree, so
//! that engines only emit expressions.

use super::Unsupported;
use crate::buffer::Buffer;
use crate::build::{add, ceil_div, floor_div, floor_mod, index, mul};
use crate::expr::{Access, Expr, View};
use crate::ids::BufId;
use crate::layout::LayoutStep;

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
/// On swizzled and distributed layouts.
pub fn physical(b: &Buffer, indices: &[Expr]) -> Result<Vec<Expr>, Unsupported> {
    Ok(apply(b, indices.to_vec(), b.extents.clone())?.0)
}

/// Extents and strides of a local buffer.
///
/// # Errors
/// As [`physical`].
pub fn storage(b: &Buffer) -> Result<Storage, Unsupported> {
    let zeros = vec![index(0); b.extents.len()];
    let (_, extents) = apply(b, zeros, b.extents.clone())?;
    let mut strides = vec![index(1); extents.len()];
    for d in (1..extents.len()).rev() {
        // Different subscripts stay different elements in an array that has none, too.
        let extent = if extents[d].as_int() == Some(0) { index(1) } else { extents[d].clone() };
        strides[d - 1] = mul(strides[d].clone(), extent);
    }
    Ok(Storage { extents, strides })
}

/// Applies the layout's steps to subscripts and extents together.
fn apply(
    b: &Buffer,
    mut indices: Vec<Expr>,
    mut extents: Vec<Expr>,
) -> Result<(Vec<Expr>, Vec<Expr>), Unsupported> {
    let defect = || {
        Unsupported::new(format!("the layout of `{}`, which names a dimension that does not exist", b.name))
    };
    if indices.len() != extents.len() {
        let (i, e) = (indices.len(), extents.len());
        return Err(Unsupported::new(format!("{i} subscripts on `{}` of {e} dimensions", b.name)));
    }
    for step in &b.layout.steps {
        match step {
            LayoutStep::Permute(order) => {
                let pick =
                    |v: &[Expr]| -> Option<Vec<Expr>> { order.iter().map(|d| v.get(*d).cloned()).collect() };
                let (i, e) = (pick(&indices), pick(&extents));
                (indices, extents) = i.zip(e).ok_or_else(defect)?;
            }
            LayoutStep::Tile { dim, size } => {
                if *dim >= indices.len() || *size == 0 {
                    return Err(defect());
                }
                let size = *size as i64;
                let (i, e) = (indices[*dim].clone(), extents[*dim].clone());
                indices[*dim] = floor_div(i.clone(), index(size));
                indices.insert(dim + 1, floor_mod(i, index(size)));
                extents[*dim] = ceil_div(e, size);
                extents.insert(dim + 1, index(size));
            }
            LayoutStep::Pad { dim, multiple } => {
                let e = extents.get_mut(*dim).filter(|_| *multiple > 0).ok_or_else(defect)?;
                let m = *multiple as i64;
                *e = mul(ceil_div(e.clone(), m), index(m));
            }
            LayoutStep::Swizzle { .. } => {
                return Err(Unsupported::new(format!("the swizzled layout of `{}`", b.name)));
            }
            LayoutStep::Distribute { .. } => {
                return Err(Unsupported::new(format!("the distributed layout of `{}`", b.name)));
            }
        }
    }
    Ok((indices, extents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Space;
    use crate::ids::VarId;
    use crate::layout::Layout;
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
}
