//! What copy units do, and loops that are written out: statements that a device's kernel spells in its own way.

use super::language::Language;
use crate::emit::{Buf, Emitter, Place, Result};
use crate::writer::bare;
use lathe_device::copies::source;
use lathe_ir::build::{add, index, mul};
use lathe_ir::visit::substitute;
use lathe_ir::{BinOp, Expr, ExprKind, Loop, Store, VarId};
use lathe_poly::Linear;
use std::collections::HashMap;

/// Functions that start a copy, or fill with zeros what is not there, and wait for all that the thread has started.
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
        let Some((cond, from)) = source(&st.value) else { return Ok(false) };
        if !cuda || !self.copies.contains(&st.label) {
            return Ok(false);
        }
        let count = all.map_or(1, |a| a.1);
        let bytes = count.saturating_mul(st.target.elem.bytes() as i64);
        if !(matches!(bytes, 4 | 8 | 16) && (all.is_some() || bytes < 16)) {
            return Ok(false);
        }
        let mut texts = Vec::new();
        let mut there = None;
        if let Some(cond) = cond {
            if all.is_some_and(|(v, n)| !alike(cond, v, n)) {
                return Ok(false);
            }
            there =
                Some(all.map_or(cond.clone(), |(v, _)| substitute(cond, &HashMap::from([(v, index(0))]))));
        }
        for a in [&st.target, from] {
            let (b, mut indices) = (self.buf_of(a)?, a.indices.clone());
            if let Some((v, n)) = all {
                if !together(&b, &indices, v, n) {
                    return Ok(false);
                }
                let first = HashMap::from([(v, index(0))]);
                indices = indices.iter().map(|i| substitute(i, &first)).collect();
            }
            self.begin(&indices.iter().collect::<Vec<_>>());
            texts.push(self.element(&b, &indices)?);
        }
        let (to, from) = (bare(&texts[0]), bare(&texts[1]));
        match &there {
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

/// Whether a condition is the same for iterations `0..n` of `v`: what it compares is a multiple of `n` but for `v`.
fn alike(cond: &Expr, v: VarId, n: i64) -> bool {
    match cond.kind() {
        _ if !lathe_ir::visit::vars_of(cond).contains(&v) => true,
        ExprKind::Binary(op @ (BinOp::And | BinOp::Or), ..) => {
            lathe_ir::visit::distinct_operands(*op, cond).iter().all(|part| alike(part, v, n))
        }
        ExprKind::Binary(BinOp::Lt, a, b) => {
            let Some(gap) = Linear::of(b).minus(&Linear::of(a)) else { return false };
            let others = |(atom, k): &(Expr, i64)| {
                atom.as_var() == Some(v) || k % n == 0 && !lathe_ir::visit::vars_of(atom).contains(&v)
            };
            gap.factor(v) == -1 && gap.constant % n == 0 && gap.terms.iter().all(others)
        }
        _ => false,
    }
}

/// Whether iterations `0..n` of `v` name neighbours of which the first one's number is a multiple of `n`.
fn together(b: &Buf, indices: &[lathe_ir::Expr], v: VarId, n: i64) -> bool {
    let Place::Local { strides } = &b.storage else { return false };
    let terms = indices.iter().zip(strides);
    let sum = terms.fold(index(0), |sum, (i, s)| add(sum, mul(i.clone(), s.clone())));
    let form = Linear::of(&sum);
    let others = |(atom, k): &(lathe_ir::Expr, i64)| {
        let inside = lathe_ir::visit::vars_of(atom).contains(&v);
        atom.as_var() == Some(v) || k % n == 0 && !inside
    };
    form.factor(v) == 1 && form.constant % n == 0 && form.terms.iter().all(others)
}
