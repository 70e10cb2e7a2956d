//! The codes that every engine may use.

use lathe_diagnostics::{Code, CodeInfo};
pub use lathe_target::codes::MACHINE;

/// A construct that an engine does not take.
pub const UNSUPPORTED: Code = Code("E0701");
/// A vector loop several lanes of which update one place.
pub const LANES_COLLIDE: Code = Code("E0702");
/// The compiler behind an engine rejected the generated code: a bug in Lathe.
pub const DEFECT: Code = Code("E0704");
/// Compiled code that cannot be loaded.
pub const OBJECT: Code = Code("E0705");
/// A form of output that an engine does not have.
pub const FORM: Code = Code("E0706");
/// An array in the memory of a device that the code does not take.
pub const DEVICE_ARRAY: Code = Code("E0707");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNSUPPORTED,
        title: "the engine does not support this construct",
        explanation: "The program is a legal tree, but it contains a construct that the engine does \
                      not support: an executor of another machine, a barrier that not all iterations are shown to reach, an \
                      asynchronous copy, a layout, or a compute that was not lowered to loops. The message names the first such construct with \
                      its place, and notes name the others. The interpreter still runs most such programs \
                      (`--engine interpreter`).",
        wrong: "strategy s for gemm = bind(i, node)",
        right: "strategy s for gemm = parallel(i)",
    },
    CodeInfo {
        code: LANES_COLLIDE,
        title: "the lanes of a vector loop update the same element",
        explanation: "A statement inside a vector loop writes an element that does not depend on the loop, so \
                      all lanes would write it at once. A reduction must first be split into one partial result \
                      per lane.",
        wrong: "strategy s for dot = vectorize(k, vector(f32))",
        right: "strategy s for dot = factor(k, 16) ; vectorize(k.i, vector(f32))",
    },
    CodeInfo {
        code: DEFECT,
        title: "the generated code is malformed",
        explanation: "The engine was given a tree that the verifier rejects, or the compiler behind it \
                      rejected the code that Lathe generated. This is a bug in Lathe; please report it with the program and the \
                      strategy.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: OBJECT,
        title: "compiled code cannot be loaded",
        explanation: "The object is not code for this machine, was compiled by another engine or \
                      for another version of the binary interface, or does not define the kernel's symbol. Objects in \
                      the cache are recompiled when they do not load.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: FORM,
        title: "an engine does not produce this form of output",
        explanation: "`lathe emit --to FORM` uses the engine that produces the form: `llvm`, `asm` and `object` come \
                      from LLVM, `c` and `header` from the C engine.",
        wrong: "lathe emit gemm.lathe --to asm --engine c",
        right: "lathe emit gemm.lathe --to asm",
    },
    CodeInfo {
        code: DEVICE_ARRAY,
        title: "an array on a device cannot be used as it is",
        explanation: "Kernels of devices read arrays in the memory of their own device, in row-major order without gaps, \
                      beginning at a multiple of 16 bytes. Transposed arrays and slices of arrays are copied first.",
        wrong: "kernel(tensor.t())",
        right: "kernel(tensor.t().contiguous())",
    },
];
