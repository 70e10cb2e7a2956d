//! Open devices, the ends of actions on them, and what errors leave of a device.

use crate::cuda::open as cuda;
use crate::opencl::open as opencl;
use crate::work::Outcome;
use lathe_diagnostics::Diagnostic;
use lathe_host::{Fault, FaultKind, Stream};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that is open.
#[derive(Clone, Copy)]
pub(crate) enum Opened {
    Cuda(&'static cuda::Opened),
    OpenCl(&'static opencl::Opened),
}

impl Opened {
    /// The device of a kind and a number.
    ///
    /// # Errors
    /// `E0841` where there is none, `E0855` where it was given up.
    pub fn new(kind: &str, number: usize) -> Result<Opened, Diagnostic> {
        match kind {
            "cuda" => {
                let device = cuda::device(number)?;
                device.answers()?;
                Ok(Opened::Cuda(device))
            }
            _ => opencl::device(number).map(Opened::OpenCl),
        }
    }

    /// Whether it is the same device.
    pub fn is(self, other: Opened) -> bool {
        match (self, other) {
            (Opened::Cuda(a), Opened::Cuda(b)) => a.number == b.number,
            (Opened::OpenCl(a), Opened::OpenCl(b)) => a.number == b.number,
            _ => false,
        }
    }

    pub fn cuda(self) -> Option<&'static cuda::Opened> {
        match self {
            Opened::Cuda(d) => Some(d),
            Opened::OpenCl(_) => None,
        }
    }

    /// Nothing is asked of this device any more by this process.
    pub fn give_up(self) {
        if let Opened::Cuda(d) = self {
            d.give_up();
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Opened::Cuda(d) => &d.name,
            Opened::OpenCl(d) => &d.name,
        }
    }
}

/// The end of an action: its place in the order of its stream, and what else is known about it.
#[derive(Clone)]
pub(crate) struct Mark {
    pub stream: Stream,
    /// Actions of a stream count from 1.
    pub at: u64,
    /// None for launches that report nothing and whose times are not taken.
    pub known: Option<Arc<Known>>,
}

/// What is known about an action besides its end.
pub(crate) struct Known {
    /// Where times are taken: before and behind it.
    pub times: Option<(Event, Arc<Event>)>,
    pub outcome: Outcome,
    /// It was seen to have ended.
    pub ended: AtomicBool,
}

impl Drop for Known {
    fn drop(&mut self) {
        // A device that did not get there may still write to the status.
        if !self.ended.load(Ordering::Relaxed) {
            std::mem::forget(std::mem::replace(&mut self.outcome, Outcome::None));
        }
    }
}

/// An event of a driver, behind what a stream was given.
pub(crate) struct Event {
    pub device: Opened,
    pub handle: usize,
    pub times: bool,
}

impl Drop for Event {
    fn drop(&mut self) {
        match self.device {
            Opened::Cuda(d) => d.give_back(self.handle, self.times),
            Opened::OpenCl(d) => {
                (d.calls.release_event)(self.handle as opencl::Handle);
            }
        }
    }
}

pub(crate) fn failed(d: Diagnostic) -> Fault {
    let kind = if d.code == lathe_host::codes::LOST { FaultKind::Lost } else { FaultKind::Failed };
    Fault::new(kind, d.message)
}

/// What an error of CUDA leaves of the device: after a fault in a kernel its context does nothing any more.
pub(crate) fn fault_of_cuda(device: &cuda::Opened, what: &str, result: c_int) -> Fault {
    let text = device.check(what, result).err().map_or_else(String::new, |d| d.message);
    let kind = match result {
        2 => FaultKind::Memory,
        // Illegal address, exceptions, traps, ECC, reset, lost, unknown.
        4 | 46 | 100 | 101 | 201 | 214 | 219 | 220 | 226 | 700..=702 | 709..=719 | 999 => FaultKind::Lost,
        _ => FaultKind::Failed,
    };
    Fault::new(kind, text)
}

pub(crate) fn cuda_result(device: &cuda::Opened, what: &str, result: c_int) -> Result<(), Fault> {
    if result == 0 { Ok(()) } else { Err(fault_of_cuda(device, what, result)) }
}
