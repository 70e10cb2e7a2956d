//! Kernels as foreign functions of XLA: what `jax.jit` calls without Python.
//!
//! The types follow the C header `xla/ffi/api/c_api.h` (version 0 of the interface), as far as they are used. One
//! function serves all kernels; which one is meant is in the call's attributes: `kernel` is the whole content, from
//! which another process makes the same kernel, and `key` is its hash. Arguments may have dimensions before the kernel's
//! own, of a batch: then there is a call for each of its elements.

use crate::code::{Choice, compile, on_large_stack, program_of};
use crate::kernel::Kernel;
use crate::pools::{Compiling, make_ready, pool, pool_anywhere};
use crate::refusals::argument_error;
use crate::signature::{Param, Signature};
use lathe::ir::Mode;
use lathe::{ArgView, Diagnostic, Pool, Prepared};
use lathe_abi::dtype;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: i32,
    next: *mut Extension,
}

#[repr(C)]
struct Version {
    struct_size: usize,
    extension: *mut Extension,
    major: i32,
    minor: i32,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
    traits: u32,
    state_type: i64,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct ErrorArgs {
    struct_size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: i32,
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    error: unsafe extern "C" fn(*mut ErrorArgs) -> *mut c_void,
    /// The functions that follow, as far as `struct_size` says that they are there.
    more: [*const c_void; 17],
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    extension: *mut Extension,
    dtype: i32,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    types: *const i32,
    all: *const *const Buffer,
}

#[repr(C)]
struct Span {
    text: *const c_char,
    length: usize,
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    types: *const i32,
    names: *const *const Span,
    all: *const *const c_void,
}

#[repr(C)]
pub struct Frame {
    struct_size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: i32,
    args: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// The major version of the interface, and the oldest minor one that has all that is used.
const VERSION: (i32, i32) = (0, 1);
const METADATA: i32 = 1;
const EXECUTE: i32 = 3;
const TEXT: i32 = 4;
const S64: i32 = 5;
const INVALID_ARGUMENT: i32 = 3;

/// The interface's code of an element type, by ours.
fn xla_type(code: u32) -> Option<i32> {
    Some(match code {
        dtype::BOOL => 1,
        dtype::I8 => 2,
        dtype::I16 => 3,
        dtype::I32 => 4,
        dtype::I64 | dtype::INDEX => S64,
        dtype::U8 => 6,
        dtype::U16 => 7,
        dtype::U32 => 8,
        dtype::U64 => 9,
        dtype::F16 => 10,
        dtype::F32 => 11,
        dtype::F64 => 12,
        dtype::BF16 => 16,
        dtype::C64 => 15,
        dtype::C128 => 18,
        _ => return None,
    })
}

/// A parameter, as a call of XLA must match it.
pub struct Slot {
    name: String,
    dtype: u32,
    xla: i32,
    pub bytes: u64,
    rank: usize,
    written: bool,
}

/// A kernel that XLA may call.
struct Entry {
    slots: Vec<Slot>,
    code: Arc<Prepared>,
    pool: &'static Pool,
    /// When it was last called, by the clock of [`CLOCK`].
    used: AtomicU64,
}

/// Kernels by the hash of their content. Compiled programs hold hash and content, so a kernel that is not here (it was
/// dropped, or the program was exported by another process) is made again.
static ENTRIES: RwLock<BTreeMap<String, Arc<Entry>>> = RwLock::new(BTreeMap::new());
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Of so many kernels, those that were called last are kept.
const MOST: usize = 512;

/// All that a kernel is, as text: what a program carries with it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Content {
    pub source: String,
    pub kernel: String,
    pub strategy: Option<String>,
    pub params: BTreeMap<String, String>,
    pub specialize: BTreeMap<String, i64>,
    threads: Option<usize>,
}

impl Content {
    /// What a program carries, and the path that stands for its source.
    pub fn read(text: &str) -> Result<(Content, &'static str), String> {
        let given: Content = serde_json::from_str(text).map_err(|e| format!("lathe: no kernel: {e}"))?;
        let path = if lathe::mdh::is_notation_text(&given.source) { "<kernel>.mdh" } else { "<kernel>" };
        Ok((given, path))
    }
}

/// Hash and content of a kernel as an operator of XLA. It is compiled, so that what cannot be compiled is refused here.
#[pyfunction]
#[pyo3(signature = (kernel, how, threads=None))]
pub fn ffi_content(
    py: Python<'_>,
    kernel: &Kernel,
    how: Choice,
    threads: Option<usize>,
) -> PyResult<(String, String)> {
    let program = program_of(py, kernel, &how)?;
    let mut texts: Vec<&str> = program.sources.texts().collect();
    texts.dedup();
    let more = how.more.as_ref().map_or(String::new(), |m| format!("\n{m}"));
    let content = Content {
        source: format!("{}{more}", kernel.text),
        kernel: kernel.name.clone(),
        strategy: how.strategy.clone(),
        params: how.params.clone(),
        specialize: how.specialize.clone(),
        threads,
    };
    let text = serde_json::to_string(&content).map_err(|e| PyValueError::new_err(e.to_string()))?;
    // Files that the source uses are not part of what programs carry, but of what they mean.
    let mut hash = blake3::Hasher::new();
    hash.update(text.as_bytes());
    for t in texts {
        hash.update(t.as_bytes());
    }
    let key = hash.finalize().to_hex()[..32].to_string();
    if found(&key).is_none() {
        let code = compile(py, kernel, &how, false)?;
        let slots = slots(&kernel.signature)
            .map_err(|why| argument_error(py, lathe::runtime_codes::ARGUMENT_DTYPE, why, &[], None))?;
        keep(&key, Entry { slots, code, pool: pool(py, threads)?, used: AtomicU64::new(0) });
    }
    Ok((key, text))
}

pub fn slots(signature: &Signature) -> Result<Vec<Slot>, String> {
    let one = |p: &Param| -> Result<Slot, String> {
        if p.mode == Mode::InOut {
            return Err(format!("`{}` is modified in place, which JAX operators cannot do", p.name));
        }
        let xla = xla_type(p.dtype)
            .ok_or_else(|| format!("`{}` has an element type that JAX does not support", p.name))?;
        let written = p.mode != Mode::In;
        Ok(Slot { name: p.name.clone(), dtype: p.dtype, xla, bytes: p.bytes as u64, rank: p.rank, written })
    };
    signature.params.iter().map(one).collect()
}

fn found(key: &str) -> Option<Arc<Entry>> {
    let all = ENTRIES.read().unwrap_or_else(|p| p.into_inner());
    let entry = all.get(key)?;
    entry.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    Some(Arc::clone(entry))
}

fn keep(key: &str, entry: Entry) -> Arc<Entry> {
    entry.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    let entry = Arc::new(entry);
    let mut all = ENTRIES.write().unwrap_or_else(|p| p.into_inner());
    if all.len() >= MOST {
        let oldest = all.iter().min_by_key(|e| e.1.used.load(Ordering::Relaxed)).map(|e| e.0.clone());
        if let Some(key) = oldest {
            all.remove(&key);
        }
    }
    all.insert(key.to_string(), Arc::clone(&entry));
    entry
}

/// A kernel that is not in the table, from what the program carries. Nothing here is of Python: any thread may ask.
fn made(key: &str, content: &str) -> Result<Arc<Entry>, String> {
    let (given, path) = Content::read(content)?;
    let how = lathe::How {
        strategy: given.strategy.clone(),
        params: given.params.clone(),
        specialize: given.specialize.clone(),
        sizes: given.specialize.clone(),
        ..lathe::How::default()
    };
    let code = {
        let _right = Compiling::begin();
        on_large_stack(|| {
            let program = Arc::new(lathe::Program::from_text(path, &given.source)?);
            let build = lathe::Build { cache: lathe::Cache::user(), ..lathe::Build::default() };
            let function = program.kernel(Some(&given.kernel))?.clone();
            let code = lathe::prepare(&program, &given.kernel, &how, &lathe::Machine::host(), &build)?;
            Ok((function, code))
        })
    };
    let (function, code) = code.map_err(|f| failed(&f))?;
    let slots = slots(&Signature::of(&function)).map_err(|e| format!("lathe: {e}"))?;
    let pool = pool_anywhere(given.threads).map_err(|d| said(&d))?;
    Ok(keep(key, Entry { slots, code: Arc::new(code), pool, used: AtomicU64::new(0) }))
}

/// What went wrong, with its code in front, from which the exception is made again.
pub fn said(d: &Diagnostic) -> String {
    format!("lathe: {d}")
}

/// What went wrong first, likewise.
pub fn failed(f: &lathe::Failure) -> String {
    f.diagnostics.first().map_or_else(|| "lathe: no kernel".to_string(), said)
}

/// The function itself, as `jax.ffi.register_ffi_target` takes it.
#[pyfunction]
pub fn ffi_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    capsule(py, handler)
}

/// A function that XLA calls.
pub type Handler = unsafe extern "C" fn(*mut Frame) -> *mut c_void;

pub fn capsule(py: Python<'_>, handler: Handler) -> PyResult<Bound<'_, PyCapsule>> {
    const NAME: &CStr = c"xla._CUSTOM_CALL_TARGET";
    let function = std::ptr::NonNull::new(handler as *mut c_void);
    let function = function.ok_or_else(|| PyValueError::new_err("a function has no address"))?;
    // SAFETY: a function lives as long as the process.
    unsafe { PyCapsule::new_with_pointer(py, function, NAME) }
}

/// Called by XLA at every stage of a program.
///
/// # Safety
/// `frame` is as the interface says.
unsafe extern "C" fn handler(frame: *mut Frame) -> *mut c_void {
    // SAFETY: by the caller.
    unsafe { handled(frame, execute) }
}

/// Answers what XLA asks at the stages of a program, and executes a call by a function.
///
/// # Safety
/// As [`handler`].
pub unsafe fn handled(frame: *mut Frame, execute: unsafe fn(&Frame) -> Result<(), String>) -> *mut c_void {
    // SAFETY: by the caller, for all that follows.
    unsafe {
        let f = &*frame;
        if let Some(e) = f.extension.as_ref()
            && e.kind == METADATA
        {
            let m = &mut *(*f.extension.cast::<MetadataExtension>()).metadata;
            m.version = Version {
                struct_size: size_of::<Version>(),
                extension: std::ptr::null_mut(),
                major: VERSION.0,
                minor: VERSION.1,
            };
            m.traits = 0;
            if m.struct_size >= size_of::<Metadata>() {
                m.state_type = 0;
            }
            return std::ptr::null_mut();
        }
        if f.stage != EXECUTE {
            return std::ptr::null_mut();
        }
        match execute(f) {
            Ok(()) => std::ptr::null_mut(),
            Err(text) => {
                // The text is copied.
                let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
                let mut args = ErrorArgs {
                    struct_size: size_of::<ErrorArgs>(),
                    extension: std::ptr::null_mut(),
                    message: text.as_ptr(),
                    code: INVALID_ARGUMENT,
                };
                ((*f.api).error)(&mut args)
            }
        }
    }
}

/// A text among the attributes of a call.
///
/// # Safety
/// As [`handler`].
pub unsafe fn attribute<'a>(f: &'a Frame, wanted: &str) -> Option<&'a str> {
    let a = &f.attributes;
    for i in 0..usize::try_from(a.size).ok()? {
        // SAFETY: by the caller: there are `size` of each; what is said to be a text is one.
        unsafe {
            if text(&**a.names.add(i))? == wanted && *a.types.add(i) == TEXT {
                return text(&*(*a.all.add(i)).cast::<Span>());
            }
        }
    }
    None
}

/// # Safety
/// The span's text lives as long as the span.
unsafe fn text(span: &Span) -> Option<&str> {
    // SAFETY: by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(span.text.cast::<u8>(), span.length) };
    std::str::from_utf8(bytes).ok()
}

/// One buffer, as it is for one call of the kernel out of a batch.
pub struct Place {
    pub data: *mut c_void,
    /// Extents of the whole buffer: those of the batch, then those of one array.
    dims: *const i64,
    /// Strides of one array, in elements.
    strides: SmallVec<[i64; 6]>,
    /// Elements from one call to the next, for each dimension of the batch.
    steps: SmallVec<[i64; 2]>,
}

/// The buffers of a call: one for each parameter, and the extents of the batch.
pub struct Arranged {
    pub places: SmallVec<[Place; 8]>,
    pub batch: SmallVec<[i64; 2]>,
}

/// # Safety
/// As [`handler`].
unsafe fn execute(f: &Frame) -> Result<(), String> {
    // SAFETY: by the caller.
    let (key, content) = unsafe { (attribute(f, "key"), attribute(f, "kernel")) };
    let (Some(key), Some(content)) = (key, content) else {
        return Err("lathe: a call that names no kernel".to_string());
    };
    let entry = match found(key) {
        Some(e) => e,
        None => made(key, content)?,
    };
    // SAFETY: by the caller.
    let all = unsafe { arranged(f, &entry.slots) }?;
    let count = all.count();
    if count > 0 {
        make_ready(&entry.code.built, &all.views(&entry.slots, 0, &|_, data| data)).map_err(|d| said(&d))?;
    }
    let one = |at: i64| -> Result<(), Diagnostic> {
        entry.code.built.call_views(entry.pool, &mut all.views(&entry.slots, at, &|_, data| data))
    };
    if count == 1 {
        return one(0).map_err(|d| said(&d));
    }
    in_parallel(entry.pool, count, &one).map_err(|d| said(&d))
}

/// The buffers of a call, which match the parameters.
///
/// # Safety
/// As [`handler`].
pub unsafe fn arranged(f: &Frame, slots: &[Slot]) -> Result<Arranged, String> {
    let outputs = slots.iter().filter(|s| s.written).count();
    if f.args.size != (slots.len() - outputs) as i64 || f.results.size != outputs as i64 {
        return Err("lathe: a call with another number of arguments".to_string());
    }
    let mut places: SmallVec<[Place; 8]> = SmallVec::new();
    // The extents of the batch: those that are before the kernel's own, the same for all. What does not differ within
    // the batch has 1 there.
    let mut batch: Option<SmallVec<[i64; 2]>> = None;
    let (mut input, mut output) = (0, 0);
    for slot in slots {
        let (buffers, n) = if slot.written { (&f.results, &mut output) } else { (&f.args, &mut input) };
        // SAFETY: by the caller: there are as many buffers, with as many extents.
        let (buffer, shape) = unsafe {
            let b = &**buffers.all.add(*n);
            let rank = usize::try_from(b.rank).unwrap_or(0);
            (b, if rank == 0 { &[][..] } else { std::slice::from_raw_parts(b.dims, rank) })
        };
        *n += 1;
        let outer = shape.len().wrapping_sub(slot.rank);
        if buffer.dtype != slot.xla
            || outer > shape.len()
            || outer != batch.get_or_insert_with(|| SmallVec::from_elem(1, outer)).len()
        {
            return Err(format!("lathe: `{}` has another element type or number of dimensions", slot.name));
        }
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, slot.rank);
        let mut step = 1i64;
        for d in (0..slot.rank).rev() {
            strides[d] = step;
            step = step.saturating_mul(shape[outer + d].max(1));
        }
        let empty = shape[outer..].contains(&0);
        let mut steps: SmallVec<[i64; 2]> = SmallVec::from_elem(0, outer);
        for d in (0..outer).rev() {
            if shape[d] != 1 {
                steps[d] = if empty { 0 } else { step };
                if let Some(b) = &mut batch {
                    if b[d] != 1 && b[d] != shape[d] {
                        return Err(format!("lathe: `{}` has another number of arrays", slot.name));
                    }
                    b[d] = shape[d];
                }
            }
            step = step.saturating_mul(shape[d].max(1));
        }
        places.push(Place { data: buffer.data, dims: buffer.dims, strides, steps });
    }
    Ok(Arranged { places, batch: batch.unwrap_or_default() })
}

impl Arranged {
    /// How many calls there are.
    pub fn count(&self) -> i64 {
        self.batch.iter().product()
    }

    /// The extents of a parameter in each call.
    pub fn extents(&self, slots: &[Slot], parameter: usize) -> &[i64] {
        let (Some(place), Some(slot)) = (self.places.get(parameter), slots.get(parameter)) else {
            return &[];
        };
        if slot.rank == 0 {
            return &[];
        }
        // SAFETY: there are extents of the batch, then of the array, which live as long as the call of XLA.
        unsafe { std::slice::from_raw_parts(place.dims.add(self.batch.len()), slot.rank) }
    }

    /// The descriptors of one of the calls. `at` may put another address in the place of that of a parameter's array.
    pub fn views(
        &self,
        slots: &[Slot],
        call: i64,
        at: &dyn Fn(usize, *mut c_void) -> *mut c_void,
    ) -> SmallVec<[ArgView<'_>; 8]> {
        let mut views: SmallVec<[ArgView; 8]> = SmallVec::new();
        for (n, (slot, place)) in slots.iter().zip(&self.places).enumerate() {
            let (mut rest, mut offset) = (call, 0);
            for (extent, step) in self.batch.iter().zip(&place.steps).rev() {
                offset += rest.rem_euclid(*extent) * step;
                rest = rest.div_euclid(*extent);
            }
            let bytes = offset * slot.bytes as i64;
            let raw = lathe_abi::Array {
                data: at(n, place.data.cast::<u8>().wrapping_offset(bytes as isize).cast()),
                shape: place.dims.wrapping_add(self.batch.len()),
                strides: place.strides.as_ptr(),
                dtype: slot.dtype,
                rank: slot.rank as u32,
                elem_bytes: slot.bytes,
            };
            // SAFETY: the buffers live until the call of XLA returns; it lets nobody else touch results meanwhile, and the
            // calls of a batch write parts of their own.
            views.push(unsafe { ArgView::from_raw(raw, slot.written) });
        }
        views
    }
}

/// What XLA gives a call on a device: the stream, and the number of the device.
///
/// # Safety
/// As [`handler`].
pub unsafe fn queue(f: &Frame) -> Result<(u64, i32), String> {
    #[repr(C)]
    struct Args {
        struct_size: usize,
        extension: *mut Extension,
        context: *mut c_void,
        out: u64,
    }
    type Get = unsafe extern "C" fn(*mut Args) -> *mut c_void;
    // Among the functions behind `error`.
    const STREAM: usize = 3;
    const ORDINAL: usize = 16;
    let ask = |which: usize| -> Option<Result<u64, String>> {
        // SAFETY: by the caller: the interface has so many bytes, its functions take what is given here, and write what they
        // find at the end.
        unsafe {
            let api = &*f.api;
            let before = std::mem::offset_of!(Api, more) + (which + 1) * size_of::<*const c_void>();
            if api.struct_size < before || api.more[which].is_null() {
                return None;
            }
            let get = std::mem::transmute::<*const c_void, Get>(api.more[which]);
            let struct_size = if which == STREAM { size_of::<Args>() } else { size_of::<Args>() - 4 };
            let mut args = Args { struct_size, extension: std::ptr::null_mut(), context: f.context, out: 0 };
            let error = get(&mut args);
            // What it was is not asked: the error would have to be given back.
            Some(if error.is_null() { Ok(args.out) } else { Err("lathe: XLA gives no stream".to_string()) })
        }
    };
    let stream = ask(STREAM).ok_or("lathe: this version of XLA gives no stream")??;
    // Versions without it have programs on the first device only.
    let ordinal = ask(ORDINAL).transpose()?.unwrap_or(0) as u32;
    Ok((stream, ordinal as i32))
}

/// The calls of a batch, shared among the threads of a pool.
fn in_parallel(
    pool: &Pool,
    count: i64,
    one: &dyn Fn(i64) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    struct Shared<'a> {
        one: &'a dyn Fn(i64) -> Result<(), Diagnostic>,
        failed: Mutex<Option<Diagnostic>>,
    }
    unsafe extern "C" fn body(env: *mut c_void, begin: i64, end: i64) -> i32 {
        // SAFETY: what `in_parallel` lends, which waits for all bodies.
        let shared = unsafe { &*env.cast_const().cast::<Shared<'_>>() };
        for at in begin..end {
            if let Err(d) = (shared.one)(at) {
                shared.failed.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(d);
                return 1;
            }
        }
        0
    }
    let shared = Shared { one, failed: Mutex::new(None) };
    let runtime = pool.runtime();
    // SAFETY: the body gets what it expects, which lives until all of its calls have ended; calls write parts of
    // their own.
    unsafe {
        (runtime.parallel_for)(runtime.ctx, count, body, std::ptr::from_ref(&shared).cast_mut().cast());
    }
    match shared.failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some(d) => Err(d),
        None => Ok(()),
    }
}
