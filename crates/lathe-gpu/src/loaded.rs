//! Kernels of Lathe on a device as code that can be called.

use crate::call;
use crate::cuda::open::{Handle, NOT_READY};
use crate::fork;
use crate::kernels::Kernels;
use crate::marks::Opened;
use crate::work::{Line, Queue};
use lathe_abi::{Array, Runtime};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Code, DeviceRun, codes};
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

/// Code on a device.
pub(crate) struct Loaded {
    pub kernels: Arc<Kernels>,
    /// What the last call did.
    last: Mutex<Option<DeviceRun>>,
}

impl Loaded {
    pub fn new(kernels: Kernels) -> Loaded {
        Loaded { kernels: Arc::new(kernels), last: Mutex::default() }
    }

    /// # Safety
    /// As [`Code::call`].
    unsafe fn run(&self, args: &[Array], times: usize) -> Result<call::Called, Diagnostic> {
        fork::check()?;
        // SAFETY: the caller's promise.
        let called = unsafe { call::call(&self.kernels, args, times) }?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(called.run);
        Ok(called)
    }
}

impl Code for Loaded {
    unsafe fn call(&self, _: &Runtime, args: &[Array]) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.run(args, 0) }.map(|c| c.status)
    }

    unsafe fn seconds(&self, args: &[Array], runs: usize) -> Result<Option<Vec<f64>>, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.run(args, runs) }.map(|c| Some(c.seconds))
    }

    fn last_run(&self) -> Option<DeviceRun> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    unsafe fn start(&self, args: &[Array], stream: u64) -> Result<i32, Diagnostic> {
        fork::check()?;
        let Opened::Cuda(device) = self.kernels.device else {
            let text = "arrays in the memory of devices of OpenCL cannot be lent";
            return Err(Diagnostic::error(codes::DEVICE_ARRAY, text).help("use buffers: lathe.device"));
        };
        let _entered = device.enter()?;
        let queue = Queue(Line::Cuda { device, stream: stream as usize });
        let end = Cell::new(0usize);
        let finish = || {
            if end.get() == 0 {
                end.set(device.event(false)?);
                let recorded = (device.calls.record)(end.get() as Handle, stream as usize as Handle);
                device.check("recording an event", recorded)?;
            }
            match (device.calls.query)(end.get() as Handle) {
                NOT_READY => Ok(false),
                result => device.check("running the kernels", result).map(|()| true),
            }
        };
        // SAFETY: the caller's promise.
        let started = unsafe { call::start(&self.kernels, queue, args, &finish) };
        if end.get() != 0 {
            device.give_back(end.get(), false);
        }
        started
    }
}
