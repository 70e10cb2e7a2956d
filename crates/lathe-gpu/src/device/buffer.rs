//! Buffers: arrays whose parts lie where they were used last.

use super::arguments::{Element, Part};
use super::open::Devices;
use super::shared::Shared;
use crate::work::{HostBytes, HostKind};
use lathe_diagnostics::Diagnostic;
use lathe_host::{Access, BufferId, Mode};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// In which memory of the host a buffer is.
pub trait Kind: 'static {
    #[doc(hidden)]
    const KIND: HostKind;
}

/// Ordinary memory.
#[derive(Debug)]
pub enum Plain {}
/// Page-locked memory of CUDA: copied faster and while kernels run, slow to allocate. Without a device of CUDA, memory that
/// begins with a page.
#[derive(Debug)]
pub enum Pinned {}
/// Memory that devices use themselves: nothing is copied as a whole. For sparse accesses, and for devices that have the
/// memory of the host.
#[derive(Debug)]
pub enum Mapped {}

impl Kind for Plain {
    const KIND: HostKind = HostKind::Plain;
}
impl Kind for Pinned {
    const KIND: HostKind = HostKind::Pinned;
}
impl Kind for Mapped {
    const KIND: HostKind = HostKind::Mapped;
}

/// An array of so many elements, on the host in memory of a kind, and on the devices that use it.
pub struct BufferIn<T, K> {
    shared: Arc<Shared>,
    id: BufferId,
    len: usize,
    of: PhantomData<(T, K)>,
}

/// See [`Plain`].
pub type Buffer<T> = BufferIn<T, Plain>;
/// See [`Pinned`].
pub type PinnedBuffer<T> = BufferIn<T, Pinned>;
/// See [`Mapped`].
pub type MappedBuffer<T> = BufferIn<T, Mapped>;

impl<T, K> Drop for BufferIn<T, K> {
    fn drop(&mut self) {
        self.shared.release(self.id);
    }
}

impl<T: Element, K: Kind> BufferIn<T, K> {
    /// Uninitialized elements: to read one is an error (`E0851`).
    ///
    /// # Errors
    /// `E0853` where the host has no memory.
    pub fn new(devices: &Devices, len: usize) -> Result<BufferIn<T, K>, Diagnostic> {
        BufferIn::made(devices, len, None)
    }

    /// A copy of these elements.
    ///
    /// # Errors
    /// As [`BufferIn::new`].
    pub fn from_slice(devices: &Devices, data: &[T]) -> Result<BufferIn<T, K>, Diagnostic> {
        BufferIn::made(devices, data.len(), Some(data))
    }

    fn made(devices: &Devices, len: usize, data: Option<&[T]>) -> Result<BufferIn<T, K>, Diagnostic> {
        let shared = Arc::clone(devices.shared());
        let too_large = || {
            Diagnostic::error(lathe_host::codes::MEMORY, format!("a buffer of {len} elements is too large"))
        };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)? as u64;
        let mut host = HostBytes::new(bytes, K::KIND, shared.cuda())
            .map_err(|f| Diagnostic::error(lathe_host::codes::MEMORY, f.text))?;
        if let Some(data) = data {
            // SAFETY: memory that nobody else has yet.
            let to = unsafe { host.slice_mut() };
            to.copy_from_slice(bytes_of(data));
        }
        let id = shared.lock()?.executor.buffer(host, bytes, data.is_some(), K::KIND == HostKind::Mapped);
        Ok(BufferIn { shared, id, len, of: PhantomData })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// These elements of it, for a launch.
    ///
    /// # Errors
    /// `E0852` where they are not all of the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<Part, Diagnostic> {
        if range.start > range.end || range.end > self.len {
            let text = format!("elements {} to {} of a buffer of {}", range.start, range.end, self.len);
            return Err(Diagnostic::error(lathe_host::codes::PART, text));
        }
        Ok(self.part_of(range))
    }

    fn part_of(&self, range: Range<usize>) -> Part {
        let size = size_of::<T>() as u64;
        Part {
            buffer: self.id,
            of: Arc::as_ptr(&self.shared) as usize,
            number: self.id.number() & 0x3fff,
            range: range.start as u64 * size..range.end as u64 * size,
            dtype: T::DTYPE,
            elem_bytes: size,
            shape: None,
        }
    }

    /// All of it as an array of rows, columns, …, for kernels of Lathe.
    pub fn shaped(&self, shape: &[i64]) -> Part {
        self.part_of(0..self.len).shaped(shape)
    }

    /// Shows elements to a function, once everything that writes them has ended. The function must not launch anything.
    ///
    /// # Errors
    /// `E0851` and `E0852`, and `E0854` where a launch failed that should have written them.
    pub fn with<R>(&self, range: Range<usize>, see: impl FnOnce(&[T]) -> R) -> Result<R, Diagnostic> {
        let part = self.part(range)?;
        let mut state = self.shared.lock()?;
        let at = part.range.start as usize..part.range.end as usize;
        let host = state.executor.access(&Access { buffer: self.id, range: part.range, mode: Mode::Read })?;
        // SAFETY: the executor said so, and is locked.
        let all = unsafe { host.slice() };
        Ok(self.shared.seen(|| see(elements(&all[at]))))
    }

    /// Lets a function change elements, once everything that uses them has ended. The function must not launch anything.
    ///
    /// # Errors
    /// As [`BufferIn::with`].
    pub fn update<R>(
        &self,
        range: Range<usize>,
        change: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R, Diagnostic> {
        self.change(range, Mode::ReadWrite, change)
    }

    /// Overwrites elements from a place on.
    ///
    /// # Errors
    /// As [`BufferIn::with`], though nobody need have written them before.
    pub fn set(&self, start: usize, data: &[T]) -> Result<(), Diagnostic> {
        let end = start.saturating_add(data.len());
        self.change(start..end, Mode::Write, |to| to.copy_from_slice(data))
    }

    /// Overwrites all elements, each by its place.
    ///
    /// # Errors
    /// As [`BufferIn::set`].
    pub fn fill(&self, make: impl Fn(usize) -> T) -> Result<(), Diagnostic> {
        let each = |to: &mut [T]| to.iter_mut().enumerate().for_each(|(i, v)| *v = make(i));
        self.change(0..self.len, Mode::Write, each)
    }

    fn change<R>(
        &self,
        range: Range<usize>,
        mode: Mode,
        change: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R, Diagnostic> {
        let part = self.part(range)?;
        let mut state = self.shared.lock()?;
        let at = part.range.start as usize..part.range.end as usize;
        let host = state.executor.access(&Access { buffer: self.id, range: part.range, mode })?;
        // SAFETY: the executor said so, and is locked.
        let all = unsafe { host.slice_mut() };
        Ok(self.shared.seen(|| change(elements_mut(&mut all[at]))))
    }

    /// A copy of all elements.
    ///
    /// # Errors
    /// As [`BufferIn::with`].
    pub fn to_vec(&self) -> Result<Vec<T>, Diagnostic> {
        self.with(0..self.len, <[T]>::to_vec)
    }
}

/// All of it.
impl<T: Element, K: Kind> From<&BufferIn<T, K>> for Part {
    fn from(buffer: &BufferIn<T, K>) -> Part {
        buffer.part_of(0..buffer.len)
    }
}

fn bytes_of<T: Element>(data: &[T]) -> &[u8] {
    // SAFETY: elements have no padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

fn elements<T: Element>(bytes: &[u8]) -> &[T] {
    debug_assert!(bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(align_of::<T>()));
    if bytes.is_empty() {
        return &[];
    }
    // SAFETY: memory of the host begins with a page and parts with an element; every pattern of bits is a value.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    debug_assert!(bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(align_of::<T>()));
    if bytes.is_empty() {
        return &mut [];
    }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}
