//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

/// A part that no one has written is read.
pub const UNDEFINED: Code = Code("E0851");
/// A part that is not of the buffer, or a buffer that was released.
pub const PART: Code = Code("E0852");
/// What a launch uses does not fit its device.
pub const MEMORY: Code = Code("E0853");
/// A launch or a copy failed; told where the host waits for what it should have made.
pub const FAILED: Code = Code("E0854");
/// A device that does not answer any more.
pub const LOST: Code = Code("E0855");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNDEFINED,
        title: "a part of a buffer is read that nobody has written",
        explanation: "The buffer was made without data, and neither the host nor a kernel has written this part, or what \
                      wrote it failed.",
        wrong: "read of bytes 0 to 64 of a buffer that was only allocated",
        right: "write it first, or declare the access as a write",
    },
    CodeInfo {
        code: PART,
        title: "no such part of a buffer",
        explanation: "The part begins or ends outside of the buffer, or the buffer was released.",
        wrong: "bytes 0 to 80 of a buffer of 64",
        right: "bytes 0 to 64",
    },
    CodeInfo {
        code: MEMORY,
        title: "a launch does not fit its device",
        explanation: "The buffers of one launch must be on its device together. Others leave it to make room, but here \
                      these alone are more than it has.",
        wrong: "one launch over two buffers of 50 GB each, on a device with 80 GB",
        right: "launches over chunks in buffers of their own",
    },
    CodeInfo {
        code: FAILED,
        title: "a launch failed",
        explanation: "A launch returns at once; what goes wrong on the device is told where the host waits for what the \
                      launch should have written. What depends on it was not run. Data on the host is as it was.",
        wrong: "a kernel that writes outside of its memory",
        right: "run it with the interpreter: --device interpreter",
    },
    CodeInfo {
        code: LOST,
        title: "a device was lost",
        explanation: "The device does not answer: it was reset or removed. What only it held is gone; whatever else is \
                      current on the host or on other devices can be used.",
        wrong: "a device that was reset while kernels ran",
        right: "launch on another device",
    },
];
