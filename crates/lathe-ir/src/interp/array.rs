//! Values of arrays: what goes into a run and comes out of it.

use crate::scalar::{self, ScalarValue};
use crate::types::{Scalar, Type};

/// An array in logical row-major order; each element has the bytes of its type's C layout. Scalars
/// are arrays of rank 0. Cells may be undefined (outputs before a run).
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayValue {
    pub ty: Type,
    pub shape: Vec<usize>,
    data: Vec<u8>,
    /// Empty: every byte is defined. Else one byte per byte of `data`, 0xFF where defined.
    shadow: Vec<u8>,
}

/// The number of elements of a shape, if it fits.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, e| n.checked_mul(*e))
}

impl ArrayValue {
    /// All bits zero.
    pub fn zeros(ty: Type, shape: &[usize]) -> ArrayValue {
        let bytes = element_count(shape).unwrap_or(0) * ty.bytes() as usize;
        ArrayValue { ty, shape: shape.to_vec(), data: vec![0; bytes], shadow: Vec::new() }
    }

    /// Every cell undefined: reading one before it is written fails the run.
    pub fn undefined(ty: Type, shape: &[usize]) -> ArrayValue {
        let mut a = ArrayValue::zeros(ty, shape);
        a.shadow = vec![0; a.data.len()];
        a
    }

    /// A scalar argument: an array of rank 0.
    pub fn scalar(v: ScalarValue) -> ArrayValue {
        let mut a = ArrayValue::zeros(v.ty.into(), &[]);
        a.set_leaf(0, 0, v.bits);
        a
    }

    pub fn from_f32(shape: &[usize], values: &[f32]) -> ArrayValue {
        ArrayValue::filled(Scalar::F32, shape, values.iter().map(|v| u64::from(v.to_bits())))
    }

    /// Rounds to the type where it is narrower.
    pub fn from_f64(ty: Scalar, shape: &[usize], values: &[f64]) -> ArrayValue {
        ArrayValue::filled(ty, shape, values.iter().map(|v| scalar::of_f64(ty, *v)))
    }

    /// Wraps to the type where it is narrower; any integer type or `bool`.
    pub fn from_i64(ty: Scalar, shape: &[usize], values: &[i64]) -> ArrayValue {
        let bits = |v: &i64| scalar::cast(Scalar::I64, ty, *v as u64).unwrap_or(0);
        ArrayValue::filled(ty, shape, values.iter().map(bits))
    }

    /// Takes bytes as they are; `None` if their number does not fit.
    pub fn from_bytes(ty: Type, shape: &[usize], data: Vec<u8>) -> Option<ArrayValue> {
        let bytes = element_count(shape)?.checked_mul(ty.bytes() as usize)?;
        (bytes == data.len()).then(|| ArrayValue { ty, shape: shape.to_vec(), data, shadow: Vec::new() })
    }

    fn filled(ty: Scalar, shape: &[usize], values: impl Iterator<Item = u64>) -> ArrayValue {
        let mut a = ArrayValue::zeros(ty.into(), shape);
        let n = a.len();
        for (i, bits) in values.take(n).enumerate() {
            a.set_leaf(i, 0, bits);
        }
        a
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / (self.ty.bytes() as usize).max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The raw bytes, all taken as defined from here on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.shadow = Vec::new();
        &mut self.data
    }

    /// The row-major position of an element; `None` when out of bounds.
    pub fn position(&self, index: &[usize]) -> Option<usize> {
        if index.len() != self.shape.len() {
            return None;
        }
        index.iter().zip(&self.shape).try_fold(0, |at, (i, e)| (i < e).then(|| at * e + i))
    }

    /// The subscripts of a row-major position.
    pub fn index_of(&self, mut position: usize) -> Vec<usize> {
        let mut index = vec![0; self.shape.len()];
        for (i, e) in index.iter_mut().zip(&self.shape).rev() {
            *i = position % (*e).max(1);
            position /= (*e).max(1);
        }
        index
    }

    /// The bits of leaf `leaf` (see [`Type::leaves`]) of the element at a row-major position.
    pub fn leaf(&self, position: usize, leaf: usize) -> Option<ScalarValue> {
        let (ty, offset) = self.place(leaf)?;
        let at = position * self.ty.bytes() as usize + offset as usize;
        let bytes = self.data.get(at..at + ty.bytes() as usize)?;
        Some(ScalarValue { ty, bits: load_bits(bytes, ty) })
    }

    /// Writes a leaf and marks it defined; does nothing out of bounds.
    pub fn set_leaf(&mut self, position: usize, leaf: usize, bits: u64) {
        let Some((ty, offset)) = self.place(leaf) else { return };
        let at = position * self.ty.bytes() as usize + offset as usize;
        let n = ty.bytes() as usize;
        if let Some(cell) = self.data.get_mut(at..at + n) {
            cell.copy_from_slice(&bits.to_le_bytes()[..n]);
        }
        if let Some(cell) = self.shadow.get_mut(at..at + n) {
            cell.fill(0xFF);
        }
    }

    /// The type of a leaf, and its offset in bytes within its element.
    fn place(&self, leaf: usize) -> Option<(Scalar, u64)> {
        match &self.ty {
            // Nearly always, and it needs no list.
            Type::Scalar(s) => (leaf == 0).then_some((*s, 0)),
            ty => leaf_offsets(ty).get(leaf).copied(),
        }
    }

    /// The element at a subscript, for scalar element types.
    pub fn get(&self, index: &[usize]) -> Option<ScalarValue> {
        self.leaf(self.position(index)?, 0)
    }

    /// Whether the element at a row-major position is wholly defined.
    pub fn is_defined(&self, position: usize) -> bool {
        self.shadow.is_empty() || self.all_defined(position, &leaf_offsets(&self.ty))
    }

    /// Whether the leaves at these offsets of an element are defined; what lies between them is not asked.
    fn all_defined(&self, position: usize, leaves: &[(Scalar, u64)]) -> bool {
        let at = position * self.ty.bytes() as usize;
        leaves.iter().all(|(ty, offset)| {
            let start = at + *offset as usize;
            self.shadow.get(start..start + ty.bytes() as usize).is_none_or(|s| s.iter().all(|b| *b != 0))
        })
    }

    /// The first leaf of every element as `f64`.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        (0..self.len()).filter_map(|i| self.leaf(i, 0)).map(ScalarValue::to_f64).collect()
    }

    /// The first leaf of every element as `f32`.
    pub fn to_f32_vec(&self) -> Vec<f32> {
        self.to_f64_vec().into_iter().map(|v| v as f32).collect()
    }

    /// The first leaf of every element as `i64` (floats saturate).
    pub fn to_i64_vec(&self) -> Vec<i64> {
        (0..self.len()).filter_map(|i| self.leaf(i, 0)).map(ScalarValue::to_i64).collect()
    }

    pub(super) fn take_parts(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.data), std::mem::take(&mut self.shadow))
    }

    pub(super) fn put_parts(&mut self, data: Vec<u8>, shadow: Vec<u8>) {
        self.data = data;
        self.shadow = shadow;
        let leaves = leaf_offsets(&self.ty);
        if self.shadow.is_empty() || (0..self.len()).all(|i| self.all_defined(i, &leaves)) {
            self.shadow = Vec::new();
        }
    }

    pub(super) fn forget_values(&mut self) {
        self.shadow = vec![0; self.data.len()];
    }
}

/// The scalars of a type, depth first, with their byte offsets.
pub fn leaf_offsets(ty: &Type) -> Vec<(Scalar, u64)> {
    match ty {
        Type::Scalar(s) => vec![(*s, 0)],
        Type::Vector(s, n) => (0..u64::from(*n)).map(|i| (*s, i * s.bytes())).collect(),
        Type::Array(t, n) => {
            let inner = leaf_offsets(t);
            let shifted = |i: u64| inner.iter().map(move |(s, o)| (*s, o + i));
            (0..u64::from(*n)).flat_map(|i| shifted(i * t.bytes())).collect()
        }
        _ => {
            let fields = ty.fields();
            let inner = |(t, o): (&Type, u64)| leaf_offsets(t).into_iter().map(move |(s, p)| (s, o + p));
            fields.iter().zip(ty.offsets()).flat_map(inner).collect()
        }
    }
}

/// Reads the runtime form of a scalar (see [`crate::scalar`]) from its bytes in memory.
#[inline]
pub(super) fn load_bits(bytes: &[u8], ty: Scalar) -> u64 {
    match (bytes, ty) {
        ([a], Scalar::I8) => i64::from(*a as i8) as u64,
        ([a], Scalar::Bool) => u64::from(*a != 0),
        ([a], _) => u64::from(*a),
        ([a, b], Scalar::I16) => i64::from(i16::from_le_bytes([*a, *b])) as u64,
        ([a, b], _) => u64::from(u16::from_le_bytes([*a, *b])),
        ([a, b, c, d], Scalar::I32) => i64::from(i32::from_le_bytes([*a, *b, *c, *d])) as u64,
        ([a, b, c, d], _) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        ([a, b, c, d, e, f, g, h], _) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn subscripts_and_positions_agree() {
        let a = ArrayValue::zeros(Type::F32, &[2, 3, 4]);
        for p in 0..a.len() {
            assert_eq!(a.position(&a.index_of(p)), Some(p));
        }
        assert_eq!(a.position(&[2, 0, 0]), None);
        assert!(ArrayValue::zeros(Type::F32, &[0, 3]).is_empty());
    }

    #[test]
    fn leaves_sit_where_c_puts_them() {
        let pair = Type::Tuple(Arc::from(vec![Scalar::I8.into(), Type::F64]));
        let mut a = ArrayValue::undefined(pair, &[2]);
        a.set_leaf(1, 1, 2.5f64.to_bits());
        assert!(!a.is_defined(1));
        a.set_leaf(1, 0, -3i64 as u64);
        assert!(a.is_defined(1) && !a.is_defined(0));
        assert_eq!(a.leaf(1, 0).map(ScalarValue::to_i64), Some(-3));
        assert_eq!(a.bytes()[24..32], 2.5f64.to_le_bytes());
    }
}
