//! Kernels that XLA calls on devices of CUDA: started on the stream of the call, on the memory that XLA gives them.
//!
//! Code is compiled at the first call with a device and sizes, since shapes of tiles depend on both. Nothing here is of
//! Python: XLA calls from threads of its own.

use crate::code::{DeviceId, on_large_stack, winners_on};
use crate::ffi::{Content, Frame, Slot, arranged, attribute, capsule, failed, handled, queue, said, slots};
use crate::pools::Compiling;
use crate::signature::Signature;
use lathe::ir::Scalar;
use lathe::{Prepared, Program};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel on one device.
struct Entry {
    program: Arc<Program>,
    content: Content,
    signature: Signature,
    slots: Vec<Slot>,
    sized: Mutex<Vec<(Vec<i64>, Arc<Prepared>)>>,
}

/// Kernels by the hash of their content, and the device.
static ENTRIES: Mutex<BTreeMap<(String, i32), Arc<Entry>>> = Mutex::new(BTreeMap::new());

/// More kernels than this are not kept; neither is code for more sizes of one.
const MOST: usize = 512;
const MOST_SIZES: usize = 32;

/// The function for devices of CUDA, as `jax.ffi.register_ffi_target` takes it.
#[pyfunction]
pub fn ffi_cuda_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    capsule(py, handler)
}

/// Called by XLA at every stage of a program.
///
/// # Safety
/// `frame` is as the interface says.
unsafe extern "C" fn handler(frame: *mut Frame) -> *mut c_void {
    // SAFETY: by the caller.
    unsafe { handled(frame, execute) }
}

fn entry(key: &str, content: &str, device: i32) -> Result<Arc<Entry>, String> {
    let key = (key.to_string(), device);
    let find = || ENTRIES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(e) = find() {
        return Ok(e);
    }
    let (content, path) = Content::read(content)?;
    let source = content.source.clone();
    let program = on_large_stack(|| Program::from_text(path, &source)).map_err(|f| failed(&f))?;
    let program = Arc::new(program);
    let signature = Signature::of(program.kernel(Some(&content.kernel)).map_err(|f| failed(&f))?);
    let slots = slots(&signature).map_err(|e| format!("lathe: {e}"))?;
    let made = Arc::new(Entry { program, content, signature, slots, sized: Mutex::default() });
    let mut all = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST {
        all.pop_first();
    }
    Ok(Arc::clone(all.entry(key).or_insert(made)))
}

impl Entry {
    /// The code for some sizes, in the order of the signature.
    fn code(&self, device: i32, sizes: Vec<i64>) -> Result<Arc<Prepared>, String> {
        let mut all = self.sized.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(c) = all.iter().find(|s| s.0 == sizes) {
            return Ok(Arc::clone(&c.1));
        }
        let named: BTreeMap<String, i64> =
            self.signature.sizes.iter().map(|s| s.0.clone()).zip(sizes.iter().copied()).collect();
        let name = DeviceId::cuda(device).name();
        let build = lathe::Build {
            cache: lathe::Cache::user(),
            engine: lathe::Engine::device(&name).map_err(|d| said(&d))?,
            ..lathe::Build::default()
        };
        let made = {
            let _right = Compiling::begin();
            on_large_stack(|| {
                let function = self.program.kernel(Some(&self.content.kernel))?;
                let mut how = lathe::How {
                    strategy: self.content.strategy.clone(),
                    params: self.content.params.clone(),
                    specialize: self.content.specialize.clone(),
                    sizes: named.clone(),
                    model: Some("cuda".to_string()),
                    ..lathe::How::default()
                };
                if how.strategy.is_none() {
                    // As calls of the kernel with arrays of a device: the winner of tuning, else its strategy for devices.
                    let winners = winners_on(DeviceId::cuda(device), &self.program, &self.content.kernel);
                    let usual = || lathe::which::of_device(&self.program, function).to_string();
                    match winners.into_iter().find(|w| w.0 == named) {
                        Some((_, won)) => (how.strategy, how.params) = (won.strategy, won.params),
                        None => how.strategy = Some(usual()),
                    }
                    how.specialize.clone_from(&named);
                }
                let machine = lathe::machine::with_device(lathe::Machine::host(), &name);
                lathe::prepare(&self.program, &self.content.kernel, &how, &machine, &build)
            })
        };
        let made = Arc::new(made.map_err(|f| failed(&f))?);
        if all.len() >= MOST_SIZES {
            all.remove(0);
        }
        all.push((sizes, Arc::clone(&made)));
        Ok(made)
    }
}

/// # Safety
/// As [`handler`].
unsafe fn execute(f: &Frame) -> Result<(), String> {
    // SAFETY: by the caller.
    let (key, content) = unsafe { (attribute(f, "key"), attribute(f, "kernel")) };
    let (Some(key), Some(content)) = (key, content) else {
        return Err("lathe: a call that names no kernel".to_string());
    };
    // SAFETY: by the caller.
    let (stream, device) = unsafe { queue(f) }?;
    let entry = entry(key, content, device)?;
    // SAFETY: by the caller.
    let all = unsafe { arranged(f, &entry.slots) }?;
    let shape = |p: usize| all.extents(&entry.slots, p);
    let sizes = (0..entry.signature.sizes.len()).map(|i| entry.signature.size(i, &shape)).collect();
    let code = entry.code(device, sizes)?;
    // XLA has scalars on the device, launches need their values.
    let mut values: SmallVec<[u64; 8]> = SmallVec::from_elem(0, entry.slots.len());
    for call in 0..all.count() {
        for (n, view) in all.views(&entry.slots, call, &|_, data| data).iter().enumerate() {
            let is: Option<Scalar> = entry.signature.params[n].scalar;
            if is.is_none() {
                continue;
            }
            let mut bytes = [0u8; 8];
            let length = (entry.slots[n].bytes as usize).min(8);
            // SAFETY: a scalar that XLA holds until the call returns.
            let done = unsafe {
                lathe::device::fetch(device as usize, stream, view.raw().data as u64, &mut bytes[..length])
            };
            done.map_err(|d| said(&d))?;
            values[n] = u64::from_le_bytes(bytes);
        }
        let own = |n: usize, data: *mut c_void| match entry.signature.params[n].scalar {
            Some(_) => std::ptr::from_ref(&values[n]).cast_mut().cast(),
            None => data,
        };
        let mut views = all.views(&entry.slots, call, &own);
        // SAFETY: memory of the device that XLA holds until the stream has reached the end of what is started on it.
        unsafe { code.built.start(&mut views, stream) }.map_err(|d| said(&d))?;
    }
    Ok(())
}
