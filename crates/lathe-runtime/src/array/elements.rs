//! Elements of an array, one by one and as a whole.

use super::*;

impl Array {
    /// Byte offset in the storage of the element at `index`, if it is in bounds.
    pub(super) fn offset(&self, index: &[i64]) -> Option<usize> {
        if index.len() != self.shape.len() {
            return None;
        }
        let mut at = 0i64;
        for ((i, e), s) in index.iter().zip(&self.shape).zip(&self.strides) {
            if *i < 0 || i >= e {
                return None;
            }
            at += i * s;
        }
        Some((self.origin as i64 + at * self.ty.bytes() as i64) as usize)
    }

    /// The bytes of one element; `None` out of bounds.
    pub fn element(&self, index: &[i64]) -> Option<&[u8]> {
        let at = self.offset(index)?;
        self.storage.bytes().get(at..at + self.ty.bytes() as usize)
    }

    /// The bytes of one element, to be written; `None` out of bounds.
    pub fn element_mut(&mut self, index: &[i64]) -> Option<&mut [u8]> {
        let at = self.offset(index)?;
        let n = self.ty.bytes() as usize;
        self.storage.bytes_mut().get_mut(at..at + n)
    }

    /// One element; `None` when out of bounds or of another type.
    pub fn get<T: Element>(&self, index: &[i64]) -> Option<T> {
        let bytes = holds::<T>(&self.ty).then(|| self.element(index))??;
        // SAFETY: as many bytes as `T` has; any bits are a value of `T` (`Element`).
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// Sets one element; `false` when out of bounds or of another type.
    pub fn set<T: Element>(&mut self, index: &[i64], value: T) -> bool {
        if !holds::<T>(&self.ty) {
            return false;
        }
        let Some(bytes) = self.element_mut(index) else { return false };
        // SAFETY: as many bytes as `T` has.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
        true
    }

    /// All elements in row-major order of subscripts; `None` if they are of another type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        if !holds::<T>(&self.ty) {
            return None;
        }
        let mut out = Vec::with_capacity(self.len());
        self.for_each_offset(|at| {
            // SAFETY: `for_each_offset` yields offsets of elements inside the storage.
            out.push(unsafe { self.storage.ptr().add(at).cast::<T>().read_unaligned() });
        });
        Some(out)
    }

    /// Calls `f` with the byte offset of every element, in row-major order of subscripts.
    pub(crate) fn for_each_offset(&self, f: impl FnMut(usize)) {
        offsets(&self.shape, &self.strides, self.origin, self.ty.bytes() as i64, f);
    }

    /// Calls `f` with the bytes of every element, in row-major order of subscripts.
    pub(crate) fn for_each_mut(&mut self, mut f: impl FnMut(&mut [u8])) {
        let n = self.ty.bytes() as usize;
        let bytes = self.storage.bytes_mut();
        offsets(&self.shape, &self.strides, self.origin, n as i64, |at| f(&mut bytes[at..at + n]));
    }

    /// A dense row-major copy.
    ///
    /// # Errors
    /// As [`Array::zeros`].
    pub fn to_row_major(&self) -> Result<Array, Diagnostic> {
        let mut out = Array::zeros(self.ty.clone(), &self.shape)?;
        let n = self.ty.bytes() as usize;
        let (from, to) = (self.storage.bytes(), out.storage.bytes_mut());
        if self.is_row_major() && self.origin == 0 && from.len() == to.len() {
            to.copy_from_slice(from);
            return Ok(out);
        }
        let mut next = 0;
        self.for_each_offset(|at| {
            to[next..next + n].copy_from_slice(&from[at..at + n]);
            next += n;
        });
        Ok(out)
    }

    /// A copy in memory of its own, strides kept.
    ///
    /// # Errors
    /// As [`Array::with_strides`].
    pub fn duplicate(&self) -> Result<Array, Diagnostic> {
        let mut out = Array::with_strides(self.ty.clone(), &self.shape, &self.strides)?;
        out.storage.bytes_mut().copy_from_slice(self.storage.bytes());
        Ok(out)
    }
}
