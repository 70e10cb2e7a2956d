//! What all who use the same devices share: the executor, locked, and what was compiled.

use super::found::Found;
use super::group::{Group, Groups};
use crate::cuda::open::Opened as CudaDevice;
use crate::drivers::Drivers;
use crate::fork;
use crate::function::Made;
use crate::info::DeviceInfo;
use crate::marks::Opened;
use lathe_diagnostics::Diagnostic;
use lathe_host::{BufferId, Executor};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where compiled code is kept for other processes.
pub trait Keep: Send + Sync {
    /// What was kept under these texts.
    fn get(&self, key: &[&str]) -> Option<Vec<u8>>;
    fn put(&self, key: &[&str], bytes: &[u8]);
}

pub(crate) struct Shared {
    pub infos: Vec<DeviceInfo>,
    opened: Vec<Opened>,
    state: Mutex<State>,
    keep: Mutex<Option<Arc<dyn Keep>>>,
    groups: Groups,
    /// What tuners found, and kernels that were compiled with it.
    pub found: Found<(Vec<(String, i64)>, Made)>,
}

pub(crate) struct State {
    pub executor: Executor<Drivers>,
    pub compiled: u64,
    pub reused: u64,
    /// Seconds that compilers took, and opening the devices.
    pub compiling: Vec<(String, f64)>,
    pub opening: f64,
}

thread_local! {
    /// The devices that a function of this thread sees a buffer of.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

impl Shared {
    pub(crate) fn new(infos: Vec<DeviceInfo>, opened: Vec<Opened>, state: State) -> Shared {
        Shared {
            infos,
            opened,
            state: Mutex::new(state),
            keep: Mutex::new(None),
            groups: Groups::default(),
            found: Found::default(),
        }
    }

    pub(crate) fn keep_code(&self, keep: Arc<dyn Keep>) {
        *self.keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(keep);
    }

    /// # Errors
    /// `E0847` in a process that was forked from the one that opened the devices; `E0852` within a function that sees a
    /// buffer of these devices.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, Diagnostic> {
        fork::check()?;
        if SEEN.get() == std::ptr::from_ref(self) as usize {
            let text = "a function that sees elements of a buffer uses its devices";
            let d = Diagnostic::error(lathe_host::codes::PART, text);
            return Err(d.help("copy what it needs, and use the devices behind it"));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a function that sees elements of a buffer, for which the devices are locked.
    pub(crate) fn seen<R>(&self, function: impl FnOnce() -> R) -> R {
        struct Back(usize);
        impl Drop for Back {
            fn drop(&mut self) {
                SEEN.set(self.0);
            }
        }
        let _back = Back(SEEN.replace(std::ptr::from_ref(self) as usize));
        function()
    }

    pub(crate) fn release(&self, buffer: BufferId) {
        if let Ok(mut state) = self.lock() {
            state.executor.release(buffer);
        }
    }

    /// The first device of CUDA that answers, whose driver pins memory of the host.
    pub(crate) fn cuda(&self) -> Option<&'static CudaDevice> {
        self.opened.iter().filter_map(|d| d.cuda()).find(|d| d.answers().is_ok())
    }

    /// The communicators of all devices.
    ///
    /// # Errors
    /// `E0856`.
    pub(crate) fn group(&self) -> Result<Arc<Group>, Diagnostic> {
        self.groups.get(self.opened.iter().map(|d| d.cuda().map(|d| d.ordinal)).collect())
    }

    /// The communicators are not used any more.
    pub(crate) fn disband(&self) {
        self.groups.forget();
    }

    pub(crate) fn opened(&self, device: usize) -> Opened {
        self.opened[device]
    }

    pub(crate) fn keep(&self) -> Option<Arc<dyn Keep>> {
        self.keep.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
