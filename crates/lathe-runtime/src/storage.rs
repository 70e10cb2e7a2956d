//! Memory of arrays: aligned, zeroed, and never more than the machine has.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of every array: a cache line, and the widest vector.
pub const ALIGN: usize = 64;
/// From this size on, memory comes in huge pages where the system grants them.
const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// Zeroed bytes, aligned to 64 (large ones to 2 MiB).
pub struct Storage {
    start: NonNull<u8>,
    bytes: usize,
    /// The whole mapping, for large storage.
    mapping: Option<(NonNull<u8>, usize)>,
}

// SAFETY: a `Storage` is plain memory that it owns alone; access goes through `&`/`&mut` of its owner.
unsafe impl Send for Storage {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Storage {}

impl Storage {
    /// # Errors
    /// `E0802` when the machine has not so much memory.
    pub fn zeroed(bytes: usize) -> Result<Storage, Diagnostic> {
        if bytes >= LARGE {
            if let Some(free) = available_memory()
                && bytes as u64 > free
            {
                return Err(too_much(bytes).note(format!("the machine has {} available", human(free))));
            }
            return Storage::map(bytes);
        }
        let layout = small_layout(bytes).ok_or_else(|| too_much(bytes))?;
        // SAFETY: the layout's size is at least 1.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| too_much(bytes))?;
        Ok(Storage { start, bytes, mapping: None })
    }

    fn map(bytes: usize) -> Result<Storage, Diagnostic> {
        let whole = bytes.checked_add(HUGE_PAGE).filter(|n| *n < isize::MAX as usize);
        let whole = whole.ok_or_else(|| too_much(bytes))?;
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                whole,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(too_much(bytes));
        }
        let at = NonNull::new(at.cast::<u8>()).ok_or_else(|| too_much(bytes))?;
        let skip = at.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: `skip < HUGE_PAGE`, so `skip + bytes` stays within the mapping of `whole` bytes.
        let start = unsafe { at.add(skip) };
        // SAFETY: the range lies in the mapping; the advice may be refused, which costs only speed.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Storage { start, bytes, mapping: Some((at, whole)) })
    }

    pub fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` bytes from `start` are ours, initialized (zeroed at birth) and not written
        // while `&self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the access the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        match self.mapping {
            // SAFETY: exactly the mapping that `map` made, not yet unmapped.
            Some((at, whole)) => unsafe {
                libc::munmap(at.as_ptr().cast(), whole);
            },
            None => {
                if let Some(layout) = small_layout(self.bytes) {
                    // SAFETY: allocated in `zeroed` with this same layout.
                    unsafe { dealloc(self.start.as_ptr(), layout) }
                }
            }
        }
    }
}

fn small_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

fn too_much(bytes: usize) -> Diagnostic {
    Diagnostic::error(codes::NO_MEMORY, format!("no memory for an array of {}", human(bytes as u64)))
        .help("use smaller sizes, or a machine with more memory")
}

/// E.g. `1.5 GiB`.
pub fn human(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut v = bytes as f64;
    let mut unit = 0;
    while v >= 1024.0 && unit + 1 < units.len() {
        v /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{v:.1} {}", units[unit]) }
}

/// What the system says it can still give without swapping; `None` where it does not say.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let free = kib.checked_mul(1024)?;
    let group = |file: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    match (group("memory.max"), group("memory.current")) {
        (Some(max), Some(now)) => Some(free.min(max.saturating_sub(now))),
        _ => Some(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_aligned() {
        for bytes in [0, 1, 1000, LARGE + 5] {
            let mut s = Storage::zeroed(bytes).unwrap();
            assert_eq!(s.ptr() as usize % ALIGN, 0);
            assert!(s.bytes().iter().all(|b| *b == 0));
            s.bytes_mut().fill(1);
            assert_eq!(s.bytes().len(), bytes);
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert_eq!(Storage::zeroed(1 << 50).err().unwrap().code, codes::NO_MEMORY);
        assert_eq!(Storage::zeroed(usize::MAX).err().unwrap().code, codes::NO_MEMORY);
    }
}
