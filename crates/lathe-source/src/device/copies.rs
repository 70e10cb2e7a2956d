//! What copy units do, and loops that are written out: statements that a device's kernel spells in its own way.

use super::language::Language;
use crate::emit::{Emitter, Place, Result};
use crate::writer::bare;
use lathe_device::copies::{Piece, piece};
use lathe_ir::{Access, Loop, Store, VarId};

/// Functions that start a copy, or fill with zeros what is not there, end a group of copies, and wait for all that the
/// thread has started, or for all but the newest groups.
pub const FUNCTIONS: &str = "\
template <int bytes> static __device__ __forceinline__ void lathe_copy(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (bytes == 16) asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(at), \"l\"(from) : \"memory\");
    else asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2;\" :: \"r\"(at), \"l\"(from), \"n\"(bytes) : \"memory\");
#else
    memcpy(to, from, bytes);
#endif
}
template <int bytes> static __device__ __forceinline__ void lathe_copy_if(void *to, const void *from, bool there) {
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to), n = there ? bytes : 0;
    if (bytes == 16) asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"(at), \"l\"(from), \"r\"(n) : \"memory\");
    else asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" :: \"r\"(at), \"l\"(from), \"n\"(bytes), \"r\"(n) : \"memory\");
#else
    if (there) memcpy(to, from, bytes);
    else memset(to, 0, bytes);
#endif
}
static __device__ __forceinline__ void lathe_copied() {
#if __CUDA_ARCH__ >= 800
    asm volatile(\"cp.async.wait_all;\" ::: \"memory\");
#endif
}
static __device__ __forceinline__ void lathe_group() {
#if __CUDA_ARCH__ >= 800
    asm volatile(\"cp.async.commit_group;\" ::: \"memory\");
#endif
}
template <int groups> static __device__ __forceinline__ void lathe_copied_but() {
#if __CUDA_ARCH__ >= 800
    asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(groups) : \"memory\");
#endif
}
";

/// Loops with more iterations than this are left to the compiler of the kernel.
const MOST_UNROLLED: i64 = 4096;

impl Emitter<'_> {
    /// A loop whose iterations the compiler of the kernel writes one after the other.
    pub(crate) fn device_unrolled(&mut self, l: &Loop, trips: i64) -> Result<()> {
        if let Some(st) = l.body.as_store()
            && (l.lo.as_int(), l.step) == (Some(0), 1)
            && self.copied(st, Some((l.binder.id, trips)))?
        {
            return Ok(());
        }
        let all = if trips > MOST_UNROLLED { "#pragma unroll 8" } else { "#pragma unroll" };
        self.serial(l, Some(all))
    }

    /// Leaves a store to the copy units, if it may be: of one element, or of all iterations of a loop over neighbours
    /// that begin at a multiple of their number.
    pub(crate) fn copied(&mut self, st: &Store, all: Option<(VarId, i64)>) -> Result<bool> {
        let cuda = self.device.is_some_and(|d| d.language == Language::Cuda);
        if !cuda || !self.copies.contains(&st.label) {
            return Ok(false);
        }
        let mut strides = |a: &Access| match self.buf_of(a).ok()?.storage {
            Place::Local { strides } => Some(strides),
            _ => None,
        };
        let Some(Piece { cond, to, from, bytes }) = piece(st, all, &mut strides) else { return Ok(false) };
        let mut texts = Vec::new();
        for a in [&to, &from] {
            let b = self.buf_of(a)?;
            self.begin(&a.indices.iter().collect::<Vec<_>>());
            texts.push(self.element(&b, &a.indices)?);
        }
        let (to, from) = (bare(&texts[0]), bare(&texts[1]));
        match &cond {
            Some(cond) => {
                self.begin(&[cond]);
                let cond = self.uniform(cond)?;
                self.line(format!("lathe_copy_if<{bytes}>(&{to}, &{from}, {});", bare(&cond)));
            }
            None => self.line(format!("lathe_copy<{bytes}>(&{to}, &{from});")),
        }
        Ok(true)
    }
}
