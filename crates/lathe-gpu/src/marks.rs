//! Open devices, the ends of actions on them, and what errors leave of a device.

use crate::cuda::open as cuda;
use crate::opencl::open as opencl;
use crate::work::Outcome;
use lathe_diagnostics::Diagnostic;
use lathe_host::{Fault, FaultKind};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that is open.
#[derive(Clone, Copy)]
pub(crate) enum Opened {
    Cuda(&'static cuda::Opened),
    OpenCl(&'static opencl::Opened),
}

impl Opened {
    /// The device of a kind and a number.
    pub fn new(kind: &str, number: usize) -> Result<Opened, Diagnostic> {
        match kind {
            "cuda" => cuda::device(number).map(Opened::Cuda),
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

    pub fn name(self) -> &'static str {
        match self {
            Opened::Cuda(d) => &d.name,
            Opened::OpenCl(d) => &d.name,
        }
    }
}

/// The end of an action, and what is known about it.
pub(crate) struct Marked {
    pub device: Opened,
    /// With times: the event before the action.
    pub begin: usize,
    pub end: usize,
    pub times: bool,
    pub outcome: Outcome,
    /// It was seen to have been reached.
    pub reached: AtomicBool,
}

impl Drop for Marked {
    fn drop(&mut self) {
        match self.device {
            Opened::Cuda(d) => {
                let used = [self.begin, self.end].into_iter().filter(|e| *e != 0);
                used.for_each(|e| d.give_back(e, self.times));
            }
            Opened::OpenCl(d) => {
                for e in [self.begin, self.end].into_iter().filter(|e| *e != 0) {
                    (d.calls.release_event)(e as opencl::Handle);
                }
            }
        }
        // A device that did not get there may still write to the status.
        if !self.reached.load(Ordering::Relaxed) {
            std::mem::forget(std::mem::replace(&mut self.outcome, Outcome::None));
        }
    }
}

pub(crate) fn failed(d: Diagnostic) -> Fault {
    Fault::new(FaultKind::Failed, d.message)
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
