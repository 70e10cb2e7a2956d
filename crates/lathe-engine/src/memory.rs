//! The memory behind descriptors, for engines whose code does not read descriptors itself: the interpreter and devices
//! take dense row-major bytes.

use lathe_abi::Array;

/// What a descriptor says, as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of the element with all subscripts 0.
    pub address: usize,
    pub extents: Vec<i64>,
    /// In elements; may be negative or zero.
    pub strides: Vec<i64>,
    pub dtype: u32,
    pub elem_bytes: u64,
}

impl Shape {
    /// Reads a descriptor.
    ///
    /// # Safety
    /// `shape` and `strides` of the descriptor point at `rank` numbers each.
    pub unsafe fn of(a: &Array) -> Shape {
        let numbers = |from: *const i64| {
            // SAFETY: the caller's promise; nothing is read for rank 0.
            (0..a.rank as usize).map(|d| unsafe { from.add(d).read_unaligned() }).collect::<Vec<i64>>()
        };
        Shape {
            address: a.data as usize,
            extents: numbers(a.shape),
            strides: numbers(a.strides),
            dtype: a.dtype,
            elem_bytes: a.elem_bytes,
        }
    }

    /// First byte and end of the elements; `None` if there are none.
    fn bytes(&self) -> Option<(i128, i128)> {
        let mut range = (self.address as i128, self.address as i128 + i128::from(self.elem_bytes));
        for (n, s) in self.extents.iter().zip(&self.strides) {
            if *n <= 0 {
                return None;
            }
            let reach = i128::from(n - 1) * i128::from(*s) * i128::from(self.elem_bytes);
            range = (range.0 + reach.min(0), range.1 + reach.max(0));
        }
        Some(range)
    }

    /// Whether the byte ranges of two arrays meet.
    pub fn meets(&self, other: &Shape) -> bool {
        match (self.bytes(), other.bytes()) {
            (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
            _ => false,
        }
    }

    /// Whether the elements follow one another in row-major order without gaps.
    pub fn is_dense(&self) -> bool {
        lathe_abi::is_dense(&self.extents, &self.strides)
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.extents.iter().map(|n| (*n).max(0) as usize).product()
    }

    /// Calls `f` with the distance of every element from the one with all subscripts 0, in bytes, in row-major order.
    fn for_each(&self, mut f: impl FnMut(usize, isize)) {
        let mut index = vec![0i64; self.extents.len()];
        let mut at = 0isize;
        for number in 0..self.count() {
            f(number, at);
            for d in (0..index.len()).rev() {
                let step = self.strides[d] as isize * self.elem_bytes as isize;
                index[d] += 1;
                at += step;
                if index[d] < self.extents[d] {
                    break;
                }
                at -= step * self.extents[d] as isize;
                index[d] = 0;
            }
        }
    }

    /// The elements in row-major order, as bytes.
    ///
    /// # Safety
    /// The shape is that of a valid descriptor, whose elements may be read now.
    pub unsafe fn gather(&self) -> Vec<u8> {
        let n = self.elem_bytes as usize;
        let mut out = vec![0u8; self.count() * n];
        self.for_each(|number, at| {
            let from = (self.address as *const u8).wrapping_offset(at);
            // SAFETY: an element of the array; the output has room for every element, and is not part of it.
            unsafe { std::ptr::copy_nonoverlapping(from, out[number * n..].as_mut_ptr(), n) }
        });
        out
    }

    /// Writes elements that are given in row-major order; as many as the bytes hold.
    ///
    /// # Safety
    /// The shape is that of a valid descriptor, whose elements may be written now and lie apart.
    pub unsafe fn scatter(&self, bytes: &[u8]) {
        let n = self.elem_bytes as usize;
        self.for_each(|number, at| {
            let Some(from) = bytes.get(number * n..(number + 1) * n) else { return };
            let to = (self.address as *mut u8).wrapping_offset(at);
            // SAFETY: an element of the array, which is lent for writing and is not part of `bytes`.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, n) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_elements_come_and_go_in_order() {
        let mut data: Vec<i16> = (0..24).collect();
        // Rows backwards, every second column: the element with all subscripts 0 is number 18.
        let shape = |data: &mut Vec<i16>| Shape {
            address: data[18..].as_mut_ptr() as usize,
            extents: vec![3, 3],
            strides: vec![-6, 2],
            dtype: lathe_abi::dtype::I16,
            elem_bytes: 2,
        };
        let s = shape(&mut data);
        // SAFETY: the elements 18, 20, 22, 12, …, 10 of a vector of 24.
        let bytes = unsafe { s.gather() };
        let numbers: Vec<i16> = bytes.chunks(2).map(|c| i16::from_ne_bytes([c[0], c[1]])).collect();
        assert_eq!(numbers, [18, 20, 22, 12, 14, 16, 6, 8, 10]);
        let other: Vec<u8> = numbers.iter().flat_map(|n| (n + 100).to_ne_bytes()).collect();
        let s = shape(&mut data);
        // SAFETY: as above.
        unsafe { s.scatter(&other) };
        assert_eq!(data[18..24], [118, 19, 120, 21, 122, 23]);
        assert_eq!(data[6..12], [106, 7, 108, 9, 110, 11]);
        let empty = Shape { extents: vec![3, 0], ..s };
        // SAFETY: no element is touched.
        assert!(unsafe { empty.gather() }.is_empty());
    }
}
