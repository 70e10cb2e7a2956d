//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

/// A part that no one has written is read.
pub const UNDEFINED: Code = Code("E0851");
/// A part that is not of the buffer, or a buffer that was released.
pub const PART: Code = Code("E0852");
/// What a launch uses does not fit its device.
pub const MEMORY: Code = Code("E0853");
/// A launch or a copy failed; reported where the host waits for its result.
pub const FAILED: Code = Code("E0854");
/// A device that does not answer any more.
pub const LOST: Code = Code("E0855");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNDEFINED,
        title: "an uninitialized part of a buffer is read",
        explanation: "The buffer was allocated without data, and neither the host nor a kernel has written \
                      this part, or the write failed.",
        wrong: "read of bytes 0 to 64 of a buffer that was only allocated",
        right: "write it first, or declare the access as a write",
    },
    CodeInfo {
        code: PART,
        title: "a part outside of its buffer",
        explanation: "The part begins or ends outside of the buffer, or the buffer was released.",
        wrong: "bytes 0 to 80 of a buffer of 64",
        right: "bytes 0 to 64",
    },
    CodeInfo {
        code: MEMORY,
        title: "a launch does not fit its device",
        explanation: "The buffers of one launch must be on its device together. Other buffers are evicted to make room, \
                      but these buffers alone exceed the device's memory.",
        wrong: "one launch over two buffers of 50 GB each, on a device with 80 GB",
        right: "launches over chunks in buffers of their own",
    },
    CodeInfo {
        code: FAILED,
        title: "a launch failed",
        explanation: "A launch returns at once; a failure on the device is reported where the host waits \
                      for the launch's results. Work that depends on it was not run. Data on the host is unchanged.",
        wrong: "a kernel that writes outside of its memory",
        right: "run it with the interpreter: --device interpreter",
    },
    CodeInfo {
        code: LOST,
        title: "a device was lost",
        explanation: "The device does not answer: it was reset or removed. Data that only this device held is lost; \
                      data that is current on the host or on other devices can still be used.",
        wrong: "a device that was reset while kernels ran",
        right: "launch on another device",
    },
];
