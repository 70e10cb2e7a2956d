//! Measuring in a process of its own: what crashes, hangs, or eats memory there is an invalid configuration
//! here, with its reason, and nothing else.
//!
//! The parent ([`Worker`]) and the child ([`serve`]) exchange lines of JSON over pipes: the child is told once
//! what it works on, and answers `ready`; then each request gets one answer, between them at most one notice
//! that compiling is over and running begins, since the two have limits of their own.

mod client;
mod race;
mod serve;

pub use client::{Ask, Patience, Spec, Worker};
pub use race::{Race, Rule, Verdict};
pub use serve::serve;

use lathe_diagnostics::Diagnostic;
use lathe_system::process::Ended;
use lathe_tune::Invalid;

/// Why there is no cost.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The configuration is at fault: tuning goes on.
    Invalid(Invalid),
    /// Nothing can be measured at all.
    Fatal(Diagnostic),
    /// The user wants to stop.
    Interrupted,
}

impl From<Invalid> for Fault {
    fn from(i: Invalid) -> Fault {
        Fault::Invalid(i)
    }
}

impl From<Diagnostic> for Fault {
    fn from(d: Diagnostic) -> Fault {
        Fault::Fatal(d)
    }
}

/// Whether what a process left behind says that memory ran out.
pub(crate) fn out_of_memory(ended: &Ended, errors: &str) -> bool {
    const SAID: [&str; 8] = [
        "memory allocation of",
        "out of memory",
        "Out of memory",
        "Cannot allocate memory",
        "std::bad_alloc",
        "MemoryError",
        "memory exhausted",
        "failed to map segment",
    ];
    // A kill that was not ours is the system's, when it has no memory left.
    *ended == Ended::Signal(libc::SIGKILL) || SAID.iter().any(|s| errors.contains(s))
}
