//! The machine's ceilings, measured: fused multiply-adds and streaming copies of one thread.
//!
//! The loop of multiply-adds is inline assembly, because compilers remove operations whose results are
//! not used; sixteen independent chains hide the latency.

use crate::stats::median;
use lathe_target::{Machine, has};
use std::time::Instant;

/// Floating-point operations per second of one thread, in f32 fused multiply-adds of the widest vectors that
/// the machine has; `None` where this crate has no loop for it, or where such code does not run here. f64 is half of it.
pub fn peak_flops_f32(machine: &Machine) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        const ITERATIONS: u64 = 1 << 20;
        let lanes = match machine.vector_bytes {
            64 if has("avx512") => 16,
            32 if has("avx2") && has("fma") => 8,
            _ => return None,
        };
        let rates: Vec<f64> = (0..9)
            .map(|_| {
                let start = Instant::now();
                // SAFETY: the feature that each loop needs was detected above.
                unsafe { if lanes == 16 { x86::fma512(ITERATIONS) } else { x86::fma256(ITERATIONS) } }
                (ITERATIONS * x86::CHAINS * lanes * 2) as f64 / start.elapsed().as_secs_f64()
            })
            .collect();
        median(&rates)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (machine, has);
        None
    }
}

/// Bytes per second of a streaming copy by one thread (read plus written, no write-allocate), over arrays
/// larger than any cache; `None` if there is no memory for it.
pub fn copy_bytes_per_second() -> Option<f64> {
    const N: usize = 1 << 25;
    let mut from: Vec<f32> = Vec::new();
    let mut to: Vec<f32> = Vec::new();
    from.try_reserve_exact(N).ok()?;
    to.try_reserve_exact(N + 16).ok()?;
    from.resize(N, 1.0);
    to.resize(N + 16, 0.0);
    let rates: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            copy(&from, &mut to);
            (2 * N * 4) as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    std::hint::black_box(&to);
    median(&rates)
}

fn copy(from: &[f32], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was detected; `to` is longer than `from` by one vector.
        unsafe { x86::stream512(from, to) };
        return;
    }
    to[..from.len()].copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    pub const CHAINS: u64 = 16;

    #[target_feature(enable = "avx512f")]
    pub unsafe fn fma512(iterations: u64) {
        // SAFETY: touches only registers that are declared as clobbered.
        unsafe {
            asm!(
                "2:",
                "vfmadd231ps zmm0, zmm16, zmm17", "vfmadd231ps zmm1, zmm16, zmm17",
                "vfmadd231ps zmm2, zmm16, zmm17", "vfmadd231ps zmm3, zmm16, zmm17",
                "vfmadd231ps zmm4, zmm16, zmm17", "vfmadd231ps zmm5, zmm16, zmm17",
                "vfmadd231ps zmm6, zmm16, zmm17", "vfmadd231ps zmm7, zmm16, zmm17",
                "vfmadd231ps zmm8, zmm16, zmm17", "vfmadd231ps zmm9, zmm16, zmm17",
                "vfmadd231ps zmm10, zmm16, zmm17", "vfmadd231ps zmm11, zmm16, zmm17",
                "vfmadd231ps zmm12, zmm16, zmm17", "vfmadd231ps zmm13, zmm16, zmm17",
                "vfmadd231ps zmm14, zmm16, zmm17", "vfmadd231ps zmm15, zmm16, zmm17",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) iterations => _,
                out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _,
                options(nostack, nomem),
            );
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn fma256(iterations: u64) {
        // SAFETY: touches only registers that are declared as clobbered. Fourteen accumulators and two
        // operands are all that AVX2 has, so two chains are used twice.
        unsafe {
            asm!(
                "2:",
                "vfmadd231ps ymm0, ymm14, ymm15", "vfmadd231ps ymm1, ymm14, ymm15",
                "vfmadd231ps ymm2, ymm14, ymm15", "vfmadd231ps ymm3, ymm14, ymm15",
                "vfmadd231ps ymm4, ymm14, ymm15", "vfmadd231ps ymm5, ymm14, ymm15",
                "vfmadd231ps ymm6, ymm14, ymm15", "vfmadd231ps ymm7, ymm14, ymm15",
                "vfmadd231ps ymm8, ymm14, ymm15", "vfmadd231ps ymm9, ymm14, ymm15",
                "vfmadd231ps ymm10, ymm14, ymm15", "vfmadd231ps ymm11, ymm14, ymm15",
                "vfmadd231ps ymm12, ymm14, ymm15", "vfmadd231ps ymm13, ymm14, ymm15",
                "vfmadd231ps ymm0, ymm14, ymm15", "vfmadd231ps ymm1, ymm14, ymm15",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) iterations => _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack, nomem),
            );
        }
    }

    #[target_feature(enable = "avx512f")]
    pub unsafe fn stream512(from: &[f32], to: &mut [f32]) {
        use std::arch::x86_64::{_mm_sfence, _mm512_loadu_ps, _mm512_stream_ps};
        let skip = to.as_ptr().align_offset(64);
        // SAFETY: `skip < 16` and `to` has 16 elements more than `from`, so every block lies inside both.
        unsafe {
            for i in (0..from.len() / 16 * 16).step_by(16) {
                _mm512_stream_ps(to.as_mut_ptr().add(skip + i), _mm512_loadu_ps(from.as_ptr().add(i)));
            }
            _mm_sfence();
        }
    }
}
