//! How many blocks a multiprocessor is to hold at a time: while the blocks of one cluster wait for one another, those of another
//! one load. Compilers decide on registers without knowing of that, and a few of them too many leave room for one block less.

use crate::plan::KernelPlan;
use lathe_ir::lower::storage;
use lathe_ir::visit::walk;
use lathe_ir::{Buffer, Space};

/// Of a multiprocessor, on all devices with clusters: registers, threads, bytes of shared memory, and of these what each block
/// takes besides.
const REGISTERS: i64 = 65536;
const THREADS: i64 = 2048;
const SHARED: i64 = 228 * 1024;
const RESERVED: i64 = 1024;
const WARP: i64 = 32;
/// Registers of a thread, whatever its arrays are; more blocks than these find nothing left to load.
const LEAST: i64 = 40;
const MOST: i64 = 4;
/// Blocks that wait for one other only do so too shortly for it.
const PAIR: i64 = 2;

/// The number of blocks of a cluster that registers, threads and shared memory of a multiprocessor have room for, by what a
/// thread's largest array takes and the registers that the compiler uses `besides`; `None` if that is one block, or if the
/// kernel has no clusters of more than two blocks: then compilers know best.
pub fn resident_blocks(k: &KernelPlan, besides: i64) -> Option<i64> {
    let c = k.cluster.as_ref().filter(|c| c.blocks > PAIR)?;
    let mut largest = 0;
    walk(&k.body, &mut |s, _| {
        if let Some(b) = s.allocated().filter(|b| matches!(b.space, Space::Register | Space::Stack)) {
            largest = largest.max(bytes(b).unwrap_or(0).min(REGISTERS) / 4);
        }
        true
    });
    let shared: i64 =
        c.shared.iter().chain(&k.shared).filter_map(|b| bytes(b)).fold(RESERVED, i64::saturating_add);
    let threads = (k.threads.clamp(1, THREADS) + WARP - 1) / WARP * WARP;
    let registers = (largest + besides).max(LEAST);
    let rooms = [REGISTERS / (threads * registers), THREADS / threads, SHARED / shared, MOST];
    rooms.into_iter().min().filter(|n| *n > 1)
}

/// What a buffer of constant size takes.
fn bytes(b: &Buffer) -> Option<i64> {
    let extents = storage(b).ok()?.extents;
    let n = extents.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?.max(0)))?;
    n.checked_mul(b.elem.bytes() as i64)
}
