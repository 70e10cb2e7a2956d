//! What launches are given: parts of buffers with what happens to them, scalars, and how many threads run.

use lathe_abi::dtype;
use lathe_host::{BufferId, Mode};
use std::ops::Range;

/// A number, or a short vector of numbers as kernels have them (`float4` is `[f32; 4]`).
///
/// # Safety
/// Every pattern of bits is a value, and there is no padding.
pub unsafe trait Element: Copy + Send + Sync + Default + 'static {
    /// The code of [`lathe_abi::dtype`]; none for vectors.
    const DTYPE: Option<u32>;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => {
        $(
            // SAFETY: a number.
            unsafe impl Element for $t {
                const DTYPE: Option<u32> = Some(dtype::$d);
            }
            // SAFETY: numbers without anything in between.
            unsafe impl Element for [$t; 2] {
                const DTYPE: Option<u32> = None;
            }
            // SAFETY: as above.
            unsafe impl Element for [$t; 4] {
                const DTYPE: Option<u32> = None;
            }
            impl From<$t> for Argument {
                fn from(v: $t) -> Argument {
                    Argument::scalar(&v.to_le_bytes(), Some(dtype::$d))
                }
            }
            impl From<[$t; 2]> for Argument {
                fn from(v: [$t; 2]) -> Argument {
                    Argument::scalar(&v.map(<$t>::to_le_bytes).concat(), None)
                }
            }
            impl From<[$t; 4]> for Argument {
                fn from(v: [$t; 4]) -> Argument {
                    Argument::scalar(&v.map(<$t>::to_le_bytes).concat(), None)
                }
            }
        )*
    };
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument(pub(crate) What);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Array { part: Part, mode: Option<Mode> },
    Scalar { bytes: [u8; 32], length: u8, dtype: Option<u32> },
}

impl Argument {
    /// A scalar by its bytes, of which there are at most 32, and the code of its type (see [`lathe_abi::dtype`]), if it has one.
    pub fn scalar(bytes: &[u8], dtype: Option<u32>) -> Argument {
        let mut all = [0u8; 32];
        let length = bytes.len().min(all.len());
        all[..length].copy_from_slice(&bytes[..length]);
        Argument(What::Scalar { bytes: all, length: length as u8, dtype })
    }
}

/// An argument as kernels of Lathe see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen<'a> {
    /// Elements of a type (a code of [`lathe_abi::dtype`], none for vectors) and of so many bytes, at a place that is different
    /// for all parts and is no address.
    Array {
        shape: Option<&'a [i64]>,
        count: i64,
        dtype: Option<u32>,
        elem_bytes: u64,
        place: usize,
    },
    Scalar {
        bytes: &'a [u8],
        dtype: Option<u32>,
    },
}

impl Argument {
    /// What kernels of Lathe are told of it.
    pub fn seen(&self) -> Seen<'_> {
        match &self.0 {
            What::Array { part, .. } => Seen::Array {
                shape: part.shape.as_deref(),
                count: ((part.range.end - part.range.start) / part.elem_bytes.max(1)) as i64,
                dtype: part.dtype,
                elem_bytes: part.elem_bytes,
                // Buffers are apart, parts of one are where they are in it.
                place: ((part.number + 1) << 48) as usize + part.range.start as usize,
            },
            What::Scalar { bytes, length, dtype } => {
                Seen::Scalar { bytes: &bytes[..usize::from(*length)], dtype: *dtype }
            }
        }
    }
}

/// A part of a buffer, with a shape for kernels of Lathe.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub(crate) buffer: BufferId,
    /// Which devices' buffer it is.
    pub(crate) of: usize,
    /// Different for the buffers that are there at once.
    pub(crate) number: u64,
    /// In bytes.
    pub(crate) range: Range<u64>,
    pub(crate) dtype: Option<u32>,
    pub(crate) elem_bytes: u64,
    /// One dimension, if nothing was said.
    pub(crate) shape: Option<Vec<i64>>,
}

impl Part {
    /// The part as an array of so many rows, columns, …
    #[must_use]
    pub fn shaped(mut self, shape: &[i64]) -> Part {
        self.shape = Some(shape.to_vec());
        self
    }

    /// The same bytes as elements of a type (a code of [`lathe_abi::dtype`]) and of so many bytes, for kernels of Lathe.
    #[must_use]
    pub fn typed(mut self, dtype: u32, elem_bytes: u64) -> Part {
        (self.dtype, self.elem_bytes) = (Some(dtype), elem_bytes);
        self
    }
}

/// Kernels of Lathe know themselves what they read and write.
impl From<Part> for Argument {
    fn from(part: Part) -> Argument {
        Argument(What::Array { part, mode: None })
    }
}

fn tagged(part: impl Into<Part>, mode: Mode) -> Argument {
    Argument(What::Array { part: part.into(), mode: Some(mode) })
}

/// The kernel reads it.
pub fn read(part: impl Into<Part>) -> Argument {
    tagged(part, Mode::Read)
}

/// The kernel writes all of it: what it does not write is undefined afterwards, and what was there is not copied.
pub fn write(part: impl Into<Part>) -> Argument {
    tagged(part, Mode::Write)
}

/// The kernel reads it, and writes some of it.
pub fn read_write(part: impl Into<Part>) -> Argument {
    tagged(part, Mode::ReadWrite)
}

/// One to three extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents(pub(crate) [u32; 3]);

impl From<u32> for Extents {
    fn from(n: u32) -> Extents {
        Extents([n, 1, 1])
    }
}

impl From<(u32, u32)> for Extents {
    fn from(n: (u32, u32)) -> Extents {
        Extents([n.0, n.1, 1])
    }
}

impl From<(u32, u32, u32)> for Extents {
    fn from(n: (u32, u32, u32)) -> Extents {
        Extents([n.0, n.1, n.2])
    }
}

/// How many threads run, in either of the two ways to say it; each is for devices of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub(crate) form: Form,
    pub(crate) shared: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Dim3 { blocks: [u32; 3], threads: [u32; 3] },
    NdRange { global: [u32; 3], local: [u32; 3] },
}

/// Blocks, and threads in each, as CUDA says it.
pub fn dim3(blocks: impl Into<Extents>, threads: impl Into<Extents>) -> Grid {
    Grid { form: Form::Dim3 { blocks: blocks.into().0, threads: threads.into().0 }, shared: 0 }
}

/// All threads, and those of a group, as OpenCL says it; groups must divide the whole.
pub fn nd_range(global: impl Into<Extents>, local: impl Into<Extents>) -> Grid {
    Grid { form: Form::NdRange { global: global.into().0, local: local.into().0 }, shared: 0 }
}

impl Grid {
    /// With so many bytes of shared memory that a kernel of CUDA declares without a size.
    #[must_use]
    pub fn shared(mut self, bytes: u32) -> Grid {
        self.shared = bytes;
        self
    }

    /// Blocks and threads; none where a group does not divide the whole.
    pub(crate) fn blocks(&self) -> Option<crate::function::Grid> {
        let (blocks, threads) = match self.form {
            Form::Dim3 { blocks, threads } => (blocks, threads),
            Form::NdRange { global, local } => {
                let mut blocks = [0; 3];
                for d in 0..3 {
                    if local[d] == 0 || !global[d].is_multiple_of(local[d]) {
                        return None;
                    }
                    blocks[d] = global[d] / local[d];
                }
                (blocks, local)
            }
        };
        Some(crate::function::Grid { blocks, threads, shared: self.shared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let both = [dim3((4, 2), (32, 4)), nd_range((128, 8), (32, 4))].map(|g| g.blocks());
        assert!(both[0].is_some() && both[0] == both[1]);
        assert_eq!(nd_range(100, 32).blocks(), None);
        assert_eq!(nd_range(100, 0).blocks(), None);
        assert_eq!(dim3(3, 7).shared(64).blocks().map(|g| g.shared), Some(64));
    }
}
