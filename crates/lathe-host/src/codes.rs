//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The buffer was allocated without data, and neither the host nor a kernel has written this part, or the
    /// write failed.
    UNDEFINED = Code("E0851"), "an uninitialized part of a buffer is read",
        wrong: "read of bytes 0 to 64 of a buffer that was only allocated",
        right: "write it first, or declare the access as a write";

    /// The part begins or ends outside of the buffer, or the buffer was released.
    PART = Code("E0852"), "a part outside of its buffer",
        wrong: "bytes 0 to 80 of a buffer of 64",
        right: "bytes 0 to 64";

    /// The buffers of one launch must be on its device together. Other buffers are evicted to make room, but
    /// these buffers alone exceed the device's memory.
    MEMORY = Code("E0853"), "a launch does not fit its device",
        wrong: "one launch over two buffers of 50 GB each, on a device with 80 GB",
        right: "launches over chunks in buffers of their own";

    /// A launch returns at once; a failure on the device is reported where the host waits for the launch's
    /// results. Work that depends on it was not run. Data on the host is unchanged.
    FAILED = Code("E0854"), "a launch failed",
        wrong: "a kernel that writes outside of its memory",
        right: "run it with the interpreter: --device interpreter";

    /// The device does not answer: it was reset or removed. Data that only this device held is lost; data that
    /// is current on the host or on other devices can still be used.
    LOST = Code("E0855"), "a device was lost",
        wrong: "a device that was reset while kernels ran",
        right: "launch on another device";
}
