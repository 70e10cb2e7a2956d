//! Arrays of any rank, in memory of their own or borrowed.

mod elements;

use crate::codes;
use crate::storage::Storage;
use lathe_diagnostics::Diagnostic;
use lathe_engine::dtype_of;
use lathe_ir::{Scalar, Type};
use std::ffi::c_void;
use std::marker::PhantomData;

/// A Rust type that is stored like a scalar type of the tree. `bool` is `u8` with 0 or 1.
///
/// # Safety
/// `Self` has the size of `SCALAR`, no padding, and every bit pattern that arrays of `SCALAR` hold
/// is a valid value.
pub unsafe trait Element: Copy + 'static {
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($t:ty => $s:ident),*) => {
        $(
            // SAFETY: a primitive number (or a transparent wrapper of `u16`) of the same width.
            unsafe impl Element for $t {
                const SCALAR: Scalar = Scalar::$s;
            }
        )*
    };
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::f16 => F16, half::bf16 => Bf16, f32 => F32, f64 => F64);

/// Whether elements of Rust type `T` may be read from and written to an array of `ty`.
fn holds<T: Element>(ty: &Type) -> bool {
    match (ty.scalar(), T::SCALAR) {
        (Some(s), t) if s == t => true,
        (Some(Scalar::Index), Scalar::I64) => true,
        // Writing anything but 0 and 1 into a bool array would be a lie; `bool` arrays are written by
        // `set_bool` and read as bytes.
        _ => false,
    }
}

/// An n-dimensional array that owns its memory.
pub struct Array {
    ty: Type,
    shape: Vec<i64>,
    /// In elements; may be negative or zero.
    strides: Vec<i64>,
    /// Bytes from the start of the storage to the element with all subscripts 0.
    origin: usize,
    storage: Storage,
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({}{:?}, strides {:?})", self.ty, self.shape, self.strides)
    }
}

/// Number of elements.
///
/// # Errors
/// `E0801` when an extent is negative or the product, in bytes, does not fit.
pub fn count(ty: &Type, shape: &[i64]) -> Result<usize, Diagnostic> {
    let bad = |why: String| {
        Err(Diagnostic::error(codes::TOO_LARGE, format!("no array can have the shape {shape:?} of {ty}"))
            .note(why)
            .help("extents are at least 0, and the array's bytes must fit the address space"))
    };
    if let Some(e) = shape.iter().find(|e| **e < 0) {
        return bad(format!("the extent {e} is negative"));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let bytes = shape.iter().try_fold(ty.bytes().max(1), |n, e| n.checked_mul(*e as u64));
    match bytes {
        Some(b) if b <= lathe_abi::MAX_EXTENT as u64 => Ok((b / ty.bytes().max(1)) as usize),
        _ => bad("the product of the extents overflows".to_string()),
    }
}

/// Whether two types have the same values in the same places, and the same names for them: `index` is `i64`, a struct
/// is any other with the same fields in the same order, and a tuple is a struct with the fields `f0`, `f1`, ….
pub fn alike(a: &Type, b: &Type) -> bool {
    let name = |t: &Type, n: usize| match t {
        Type::Struct(s) => s.fields.get(n).map(|f| f.0.to_string()),
        _ => Some(format!("f{n}")),
    };
    match (a, b) {
        (Type::Scalar(Scalar::I64 | Scalar::Index), Type::Scalar(Scalar::I64 | Scalar::Index)) => true,
        (Type::Struct(_) | Type::Tuple(_), Type::Struct(_) | Type::Tuple(_)) => {
            let (x, y) = (a.fields(), b.fields());
            let one = |n: usize| name(a, n) == name(b, n) && alike(&x[n], &y[n]);
            x.len() == y.len() && (0..x.len()).all(one)
        }
        _ => a == b,
    }
}

/// Strides of a dense array, last dimension innermost.
pub fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
    }
    strides
}

/// Strides of a dense array, first dimension innermost.
pub fn column_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for d in 1..shape.len() {
        strides[d] = strides[d - 1].saturating_mul(shape[d - 1].max(1));
    }
    strides
}

/// Lowest and highest element offset that subscripts reach; `None` for an array without elements, or
/// when an offset does not fit.
fn reach(shape: &[i64], strides: &[i64]) -> Option<(i64, i64)> {
    let (mut lo, mut hi) = (0i64, 0i64);
    for (e, s) in shape.iter().zip(strides) {
        if *e < 1 {
            return None;
        }
        let far = s.checked_mul(e - 1)?;
        lo = lo.checked_add(far.min(0))?;
        hi = hi.checked_add(far.max(0))?;
    }
    Some((lo, hi))
}

impl Array {
    /// A dense row-major array of zeros.
    ///
    /// # Errors
    /// `E0801` for an impossible shape, `E0802` when memory is short.
    pub fn zeros(ty: impl Into<Type>, shape: &[i64]) -> Result<Array, Diagnostic> {
        let ty = ty.into();
        let n = count(&ty, shape)?;
        let storage = Storage::zeroed(n * ty.bytes() as usize)?;
        Ok(Array { ty, shape: shape.to_vec(), strides: row_major(shape), origin: 0, storage })
    }

    /// Zeros with any strides (in elements, negative and zero allowed).
    ///
    /// # Errors
    /// As [`Array::zeros`]; `E0801` also when strides reach beyond the address space.
    pub fn with_strides(ty: impl Into<Type>, shape: &[i64], strides: &[i64]) -> Result<Array, Diagnostic> {
        let ty = ty.into();
        let n = count(&ty, shape)?;
        let too_large = || {
            Diagnostic::error(
                codes::TOO_LARGE,
                format!("no array can have the shape {shape:?} with strides {strides:?} of {ty}"),
            )
            .help("one stride per extent; the byte offsets of the elements must fit the address space")
        };
        if shape.len() != strides.len() {
            return Err(too_large());
        }
        let (lo, hi) = if n == 0 { (0, -1) } else { reach(shape, strides).ok_or_else(too_large)? };
        let elem = ty.bytes() as i64;
        let bytes = hi.checked_sub(lo).and_then(|d| d.checked_add(1)).and_then(|d| d.checked_mul(elem));
        let bytes = bytes.filter(|b| *b <= lathe_abi::MAX_EXTENT).ok_or_else(too_large)?;
        let storage = Storage::zeroed(bytes as usize)?;
        let origin = (-lo * elem) as usize;
        Ok(Array { ty, shape: shape.to_vec(), strides: strides.to_vec(), origin, storage })
    }

    /// A dense array of the given elements in row-major order.
    ///
    /// # Errors
    /// `E0801` when their number is not the product of the extents.
    pub fn from_slice<T: Element>(shape: &[i64], data: &[T]) -> Result<Array, Diagnostic> {
        let a = Array::zeros(T::SCALAR, shape)?;
        let n = count(&a.ty, shape)?;
        if n != data.len() {
            return Err(Diagnostic::error(
                codes::TOO_LARGE,
                format!("{} elements given for an array of shape {shape:?}, which has {n}", data.len()),
            ));
        }
        // SAFETY: both are `n` elements of `T`; the array's memory is fresh.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), a.storage.ptr().cast::<T>(), n) };
        Ok(a)
    }

    /// A rank-0 array of one value.
    ///
    /// # Errors
    /// `E0802` when memory is short.
    pub fn scalar<T: Element>(value: T) -> Result<Array, Diagnostic> {
        Array::from_slice(&[], &[value])
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.shape.iter().product::<i64>() as usize }
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Dense, last dimension innermost (dimensions of extent 1 aside).
    pub fn is_row_major(&self) -> bool {
        dense(&self.shape, &self.strides, &row_major(&self.shape))
    }

    /// Dense, first dimension innermost.
    pub fn is_column_major(&self) -> bool {
        dense(&self.shape, &self.strides, &column_major(&self.shape))
    }

    /// The bytes in memory order; row-major order if [`Array::is_row_major`].
    pub fn bytes(&self) -> &[u8] {
        self.storage.bytes()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.bytes_mut()
    }

    /// A dense array seen with the first dimension innermost.
    pub(crate) fn into_column_major(mut self) -> Array {
        self.strides = column_major(&self.shape);
        self
    }

    /// The same memory seen as an [`alike`] type; unchanged where the types are not alike.
    pub fn retyped(mut self, ty: &Type) -> Array {
        if alike(&self.ty, ty) {
            self.ty = ty.clone();
        }
        self
    }

    /// As an argument that a kernel reads.
    pub fn view(&self) -> ArgView<'_> {
        self.arg(false)
    }

    /// As an argument that a kernel may write.
    pub fn view_mut(&mut self) -> ArgView<'_> {
        self.arg(true)
    }

    fn arg(&self, writable: bool) -> ArgView<'_> {
        // SAFETY: the origin lies in the storage, or at its start when there are no elements.
        let data = unsafe { self.storage.ptr().add(self.origin) };
        let raw = descriptor(data.cast(), &self.ty, &self.shape, &self.strides);
        ArgView { raw, writable, life: PhantomData }
    }
}

/// Byte offsets of all elements, in row-major order of subscripts.
fn offsets(shape: &[i64], strides: &[i64], origin: usize, elem: i64, mut f: impl FnMut(usize)) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0i64; shape.len()];
    let mut at = origin as i64;
    loop {
        f(at as usize);
        let mut d = shape.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            at += strides[d] * elem;
            if index[d] < shape[d] {
                break;
            }
            at -= strides[d] * elem * shape[d];
            index[d] = 0;
        }
    }
}

fn dense(shape: &[i64], strides: &[i64], want: &[i64]) -> bool {
    shape.contains(&0) || shape.iter().zip(strides).zip(want).all(|((e, s), w)| *e == 1 || s == w)
}

fn descriptor(data: *mut c_void, ty: &Type, shape: &[i64], strides: &[i64]) -> lathe_abi::Array {
    lathe_abi::Array {
        data,
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        dtype: dtype_of(ty),
        rank: shape.len() as u32,
        elem_bytes: ty.bytes(),
    }
}

/// A borrowed argument of a call: a descriptor that its lender keeps valid.
pub struct ArgView<'a> {
    pub(crate) raw: lathe_abi::Array,
    pub(crate) writable: bool,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> ArgView<'a> {
    /// A dense or strided view of a slice, to be read. `shape` and `strides` have one entry per
    /// dimension; the element with all subscripts 0 is `data[origin]`.
    ///
    /// # Errors
    /// `E0801` when some subscript would lie outside of the slice.
    pub fn from_slice<T: Element>(
        data: &'a [T],
        origin: usize,
        shape: &'a [i64],
        strides: &'a [i64],
    ) -> Result<ArgView<'a>, Diagnostic> {
        // SAFETY (of the cast to `*mut`): `writable` is false, so calls refuse to write through it.
        ArgView::of_parts::<T>(data.as_ptr().cast_mut(), data.len(), origin, shape, strides, false)
    }

    /// As [`ArgView::from_slice`], to be written.
    ///
    /// # Errors
    /// As [`ArgView::from_slice`].
    pub fn from_slice_mut<T: Element>(
        data: &'a mut [T],
        origin: usize,
        shape: &'a [i64],
        strides: &'a [i64],
    ) -> Result<ArgView<'a>, Diagnostic> {
        ArgView::of_parts::<T>(data.as_mut_ptr(), data.len(), origin, shape, strides, true)
    }

    /// A scalar argument.
    pub fn scalar<T: Element>(value: &'a T) -> ArgView<'a> {
        let data = std::ptr::from_ref(value).cast_mut().cast();
        let raw = descriptor(data, &T::SCALAR.into(), &[], &[]);
        ArgView { raw, writable: false, life: PhantomData }
    }

    /// An argument by its descriptor.
    ///
    /// # Safety
    /// `raw` has `rank` extents and strides, and describes memory that lives, and is not changed by others, for `'a`;
    /// with `writable` nobody else reads it either.
    pub unsafe fn from_raw(raw: lathe_abi::Array, writable: bool) -> ArgView<'a> {
        ArgView { raw, writable, life: PhantomData }
    }

    fn of_parts<T: Element>(
        data: *mut T,
        len: usize,
        origin: usize,
        shape: &'a [i64],
        strides: &'a [i64],
        writable: bool,
    ) -> Result<ArgView<'a>, Diagnostic> {
        let ty = Type::Scalar(T::SCALAR);
        let n = count(&ty, shape)?;
        let inside = shape.len() == strides.len()
            && (n == 0
                || reach(shape, strides).is_some_and(|(lo, hi)| {
                    let at = origin as i64;
                    at.checked_add(lo).is_some_and(|v| v >= 0)
                        && at.checked_add(hi).is_some_and(|v| v < len as i64)
                }));
        if !inside || origin > len {
            return Err(Diagnostic::error(
                codes::TOO_LARGE,
                format!(
                    "shape {shape:?} with strides {strides:?} reaches outside of a slice of {len} elements"
                ),
            ));
        }
        // SAFETY: `origin <= len`.
        let data = unsafe { data.add(origin) };
        Ok(ArgView { raw: descriptor(data.cast(), &ty, shape, strides), writable, life: PhantomData })
    }

    pub fn shape(&self) -> &[i64] {
        // SAFETY: the lender's slice of `rank` extents lives for `'a`.
        unsafe { slice(self.raw.shape, self.raw.rank) }
    }

    pub fn strides(&self) -> &[i64] {
        // SAFETY: as in `shape`.
        unsafe { slice(self.raw.strides, self.raw.rank) }
    }

    pub fn dtype(&self) -> u32 {
        self.raw.dtype
    }

    /// The descriptor, valid as long as the view.
    pub fn raw(&self) -> &lathe_abi::Array {
        &self.raw
    }
}

/// # Safety
/// `rank` values at `p` live and do not change for `'a`.
unsafe fn slice<'a>(p: *const i64, rank: u32) -> &'a [i64] {
    if rank == 0 {
        return &[];
    }
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(p, rank as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_shapes_are_refused() {
        for shape in [vec![-1], vec![i64::MAX, 2], vec![1 << 40, 1 << 40, 0, -3]] {
            assert_eq!(Array::zeros(Type::F32, &shape).unwrap_err().code, codes::TOO_LARGE, "{shape:?}");
        }
        assert_eq!(Array::zeros(Type::F32, &[1 << 40, 1 << 40, 0]).unwrap().len(), 0);
        assert_eq!(Array::zeros(Type::F64, &[1 << 43]).unwrap_err().code, codes::NO_MEMORY);
    }

    #[test]
    fn strides_may_be_negative_or_zero() {
        let mut a = Array::with_strides(Type::I32, &[2, 3], &[3, -1]).unwrap();
        for i in 0..2 {
            for j in 0..3 {
                assert!(a.set(&[i, j], (10 * i + j) as i32));
            }
        }
        assert_eq!(a.to_vec::<i32>().unwrap(), [0, 1, 2, 10, 11, 12]);
        assert_eq!(a.to_row_major().unwrap().to_vec::<i32>().unwrap(), [0, 1, 2, 10, 11, 12]);
        assert!(!a.set(&[2, 0], 1i32) && !a.set(&[0, 0], 1.0f32) && a.get::<i32>(&[0, 3]).is_none());
        let z = Array::with_strides(Type::F32, &[4], &[0]).unwrap();
        assert_eq!(z.bytes().len(), 4);
        assert!(Array::with_strides(Type::F32, &[4, 4], &[i64::MAX, 1]).is_err());
    }

    #[test]
    fn slices_are_bounded() {
        let v = [1.0f32, 2.0, 3.0];
        assert!(ArgView::from_slice(&v, 2, &[3], &[-1]).is_ok());
        assert!(ArgView::from_slice(&v, 0, &[4], &[1]).is_err());
        assert!(ArgView::from_slice(&v, 1, &[3], &[1]).is_err());
        assert!(ArgView::from_slice(&v, 3, &[0], &[1]).is_ok());
        assert!(ArgView::from_slice(&v, 4, &[0], &[1]).is_err());
    }
}
