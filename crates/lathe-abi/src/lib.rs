//! The binary interface between compiled kernels and whoever runs them.
//!
//! A kernel is [`KernelFn`]. It needs nothing but this interface: the runtime of this project, a C
//! program with the header that `lathe emit --to object` writes, or a Rust program can call it.

use std::ffi::c_void;

/// The version of everything here. Kernels compare it with the runtime's, and compiled code that is kept is found by
/// it.
pub const VERSION: u32 = 4;

/// The largest extent, and the largest distance in bytes between elements of one array, that a
/// kernel accepts: more than a process can map, and small enough that sums of a few of them and
/// products with small constants fit 64 bits.
pub const MAX_EXTENT: i64 = 1 << 47;

/// One array argument; scalars are rank-0 arrays. The kernel does not keep any of the pointers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// The element with all subscripts 0 (not necessarily the lowest address).
    pub data: *mut c_void,
    /// `rank` extents, each ≥ 0.
    pub shape: *const i64,
    /// `rank` strides, in elements; may be negative or zero.
    pub strides: *const i64,
    /// A [`dtype`] code.
    pub dtype: u32,
    pub rank: u32,
    /// Size of one element in bytes.
    pub elem_bytes: u64,
}

/// Codes of element types; [`dtype::AGGREGATE`] is checked by size only.
pub mod dtype {
    pub const BOOL: u32 = 0;
    pub const I8: u32 = 1;
    pub const I16: u32 = 2;
    pub const I32: u32 = 3;
    pub const I64: u32 = 4;
    pub const U8: u32 = 5;
    pub const U16: u32 = 6;
    pub const U32: u32 = 7;
    pub const U64: u32 = 8;
    /// 64-bit signed.
    pub const INDEX: u32 = 9;
    pub const F16: u32 = 10;
    pub const BF16: u32 = 11;
    pub const F32: u32 = 12;
    pub const F64: u32 = 13;
    /// Two `f32`: the real and the imaginary part.
    pub const C64: u32 = 14;
    /// Two `f64`.
    pub const C128: u32 = 15;
    pub const AGGREGATE: u32 = 255;
}

/// Body of a parallel loop: runs the iterations `begin..end`; 0, or a status that ends the loop.
pub type LoopBody = unsafe extern "C" fn(env: *mut c_void, begin: i64, end: i64) -> i32;

/// What a kernel may ask of its runtime; the hidden first argument of every kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// [`VERSION`]; a kernel of another version returns [`status::ABI`] before it reads anything else.
    pub version: u64,
    pub ctx: *mut c_void,
    /// Runs `body` over the iterations `0..count`, split among threads in any way; returns the first
    /// non-zero status of a body, else 0. May be called from inside a body (nested loops).
    pub parallel_for:
        unsafe extern "C" fn(ctx: *mut c_void, count: i64, body: LoopBody, env: *mut c_void) -> i32,
    /// Uninitialized memory, aligned to 64 bytes; null if there is none.
    pub alloc: unsafe extern "C" fn(ctx: *mut c_void, bytes: u64) -> *mut c_void,
    /// Gives back what `alloc` gave, from any thread.
    pub free: unsafe extern "C" fn(ctx: *mut c_void, memory: *mut c_void),
    /// Lets a body wait a moment for another one of its loop, which has begun: it is called again and again until that one
    /// has done what is waited for. 0, or a status that ends the waiting.
    pub wait: unsafe extern "C" fn(ctx: *mut c_void) -> i32,
    /// The external functions that the kernel calls, in the order of its checks of the kind [`CheckKind::External`]; may be
    /// null where it calls none. They have the interface of kernels: 0 is success.
    pub externals: *const KernelFn,
}

/// 0, or the 1-based number of the failed check in the kernel's check table, or a [`status`] code.
pub type KernelFn = unsafe extern "C" fn(runtime: *const Runtime, args: *const Array) -> i32;

pub mod status {
    pub const OK: i32 = 0;
    /// `alloc` returned null.
    pub const OUT_OF_MEMORY: i32 = -1;
    /// An integer division by zero.
    pub const DIVISION_BY_ZERO: i32 = -2;
    /// A size computation overflowed.
    pub const SIZE_OVERFLOW: i32 = -3;
    /// The kernel was compiled for unit innermost strides only, and an argument has others.
    pub const STRIDES: i32 = -4;
    /// The kernel was compiled for another version of this interface.
    pub const ABI: i32 = -5;
    /// The call was ended before the kernel was done. Given by the runtime only; kernels hand it on.
    pub const STOPPED: i32 = -6;
}

/// What a check number stands for; every engine numbers the checks of a kernel alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// `dtype` and `elem_bytes` are those of the parameter's element type.
    Dtype { param: usize },
    /// `rank` is the declared one; 0 for scalars.
    Rank { param: usize },
    /// `shape[dim]` equals the declared extent. Not made where the extent is what binds a size.
    Shape { param: usize, dim: usize },
    /// The byte ranges from lowest to highest element are disjoint (an array without elements overlaps nothing).
    /// `a < b`; at least one is written; they share no alias class.
    Overlap { a: usize, b: usize },
    /// `0 <= shape[dim] <= MAX_EXTENT`, and `(shape[dim] - 1) * |strides[dim]| * elem_bytes <= MAX_EXTENT`.
    Size { param: usize, dim: usize },
    /// A `check` statement of the kernel: its code and message.
    User { code: String, message: String },
    /// An external function, which failed or which the runtime's table does not have.
    External { name: String },
}

/// Kernels of devices access several elements at once: their arrays begin at multiples of this many bytes.
pub const DEVICE_ALIGNMENT: usize = 16;

/// Whether the elements of an array follow one another in row-major order without gaps; strides count elements. Along one
/// element a stride plays no part, and an array without elements has no gaps.
pub fn is_dense(extents: &[i64], strides: &[i64]) -> bool {
    let mut step = 1i64;
    extents.contains(&0)
        || extents.iter().zip(strides).rev().all(|(n, s)| {
            let fits = *n == 1 || *s == step;
            step = step.saturating_mul(*n);
            fits
        })
}

#[cfg(test)]
mod tests {
    use super::is_dense;

    #[test]
    fn dense_arrays_have_no_gaps() {
        assert!(is_dense(&[], &[]) && is_dense(&[5], &[1]) && is_dense(&[2, 3], &[3, 1]));
        assert!(is_dense(&[0, 3], &[7, 9]) && is_dense(&[1, 3], &[100, 1]) && is_dense(&[4, 1], &[1, 9]));
        assert!(!is_dense(&[5], &[2]) && !is_dense(&[5], &[-1]) && !is_dense(&[5], &[0]));
        assert!(!is_dense(&[2, 3], &[1, 2]) && !is_dense(&[2, 3], &[4, 1]));
    }
}
