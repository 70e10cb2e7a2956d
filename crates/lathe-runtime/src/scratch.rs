//! Scratch memory for kernels: blocks that a thread gives back are kept for its next request, so
//! that an allocation per tile costs a few nanoseconds.

use crate::stop::Thread;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::ffi::c_void;

/// Room in front of each block for its size; keeps the alignment of what follows.
const HEADER: usize = 64;
/// From this size on, blocks are aligned to huge pages and the system is asked for them.
const LARGE: usize = HUGE_PAGE;
const HUGE_PAGE: usize = 2 << 20;
/// Most bytes that one thread keeps.
const KEEP: usize = 256 << 20;
/// Sizes are rounded up to powers of two: `1 << (class + 6)` bytes, header included.
const CLASSES: usize = 42;

struct Cache {
    /// By class, as far as classes were needed: a thread's own memory is scarce in libraries that are loaded late.
    blocks: Vec<Vec<*mut u8>>,
    kept: usize,
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (class, blocks) in self.blocks.iter_mut().enumerate() {
            for b in blocks.drain(..) {
                // SAFETY: the cache owns its blocks, each made by `fresh` for its class.
                unsafe { release(b, class) }
            }
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = const {
        RefCell::new(Cache { blocks: Vec::new(), kept: 0 })
    };
}

fn class_of(bytes: u64) -> Option<usize> {
    let whole = usize::try_from(bytes).ok()?.checked_add(HEADER)?.checked_next_power_of_two()?;
    let class = whole.trailing_zeros() as usize - 6;
    (class < CLASSES).then_some(class)
}

fn layout(class: usize) -> Layout {
    let size = 1usize << (class + 6);
    let align = if size >= LARGE { HUGE_PAGE } else { HEADER };
    // SAFETY: the alignment is a power of two, and `size` (at most 2^47) rounds up without overflow.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

/// A new block of a class, or null.
fn fresh(class: usize) -> *mut u8 {
    let layout = layout(class);
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    if !block.is_null() && layout.size() >= LARGE {
        // SAFETY: the range was just allocated; refused advice costs only speed.
        unsafe { libc::madvise(block.cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    block
}

/// # Safety
/// `block` was made by [`fresh`] for `class` and is not used any more.
unsafe fn release(block: *mut u8, class: usize) {
    // SAFETY: by the caller; the layout is a function of the class.
    unsafe { dealloc(block, layout(class)) }
}

/// `alloc` of the runtime table.
///
/// # Safety
/// None needed; `unsafe` by the type of the table.
pub unsafe extern "C" fn scratch_alloc(_ctx: *mut c_void, bytes: u64) -> *mut c_void {
    let outside = Thread::outside();
    let memory = take(bytes);
    if let Some(o) = &outside {
        o.me.got(memory);
    }
    memory
}

/// Bytes that this thread keeps for its next request.
pub fn kept() -> u64 {
    CACHE.try_with(|c| c.try_borrow().map_or(0, |c| c.kept as u64)).unwrap_or(0)
}

fn take(bytes: u64) -> *mut c_void {
    let Some(class) = class_of(bytes) else { return std::ptr::null_mut() };
    let kept = CACHE.try_with(|c| {
        let mut c = c.try_borrow_mut().ok()?;
        let block = c.blocks.get_mut(class)?.pop()?;
        c.kept -= 1 << (class + 6);
        Some(block)
    });
    let block = match kept {
        Ok(Some(block)) => block,
        _ => fresh(class),
    };
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a block has at least `HEADER` bytes in front of what is handed out.
    unsafe {
        block.cast::<usize>().write(class);
        block.add(HEADER).cast()
    }
}

/// `free` of the runtime table; null is ignored.
///
/// # Safety
/// `memory` came from [`scratch_alloc`] and is not used any more.
pub unsafe extern "C" fn scratch_free(_ctx: *mut c_void, memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    let outside = Thread::outside();
    if let Some(o) = &outside {
        o.me.gave(memory);
    }
    // SAFETY: by the caller.
    unsafe { give_back(memory) }
}

/// # Safety
/// As [`scratch_free`].
pub unsafe fn give_back(memory: *mut c_void) {
    // SAFETY: `take` put the class in front of what it handed out.
    let (block, class) = unsafe {
        let block = memory.cast::<u8>().sub(HEADER);
        (block, block.cast::<usize>().read())
    };
    let size = 1usize << (class + 6);
    let kept = CACHE.try_with(|c| {
        let Ok(mut c) = c.try_borrow_mut() else { return false };
        if c.kept + size > KEEP {
            return false;
        }
        c.kept += size;
        if c.blocks.len() <= class {
            c.blocks.resize_with(class + 1, Vec::new);
        }
        c.blocks[class].push(block);
        true
    });
    if kept != Ok(true) {
        // SAFETY: the block is ours again and goes back to where it came from.
        unsafe { release(block, class) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_reused() {
        let none = std::ptr::null_mut();
        // SAFETY: each block is written within its size and freed once.
        unsafe {
            let a = scratch_alloc(none, 1100);
            assert_eq!(a as usize % 64, 0);
            a.cast::<u8>().write_bytes(7, 1100);
            scratch_free(none, a);
            assert_eq!(scratch_alloc(none, 1500), a);
            let b = scratch_alloc(none, 1500);
            assert_ne!(b, a);
            scratch_free(none, a);
            scratch_free(none, b);
            let z = scratch_alloc(none, 0);
            assert!(!z.is_null());
            scratch_free(none, z);
            assert!(scratch_alloc(none, u64::MAX).is_null());
            assert!(scratch_alloc(none, 1 << 60).is_null());
            let big = scratch_alloc(none, 5 << 20);
            big.cast::<u8>().write_bytes(1, 5 << 20);
            std::thread::scope(|s| {
                let p = big as usize;
                s.spawn(move || scratch_free(std::ptr::null_mut(), p as *mut c_void));
            });
        }
    }
}
