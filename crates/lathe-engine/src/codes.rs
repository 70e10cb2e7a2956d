//! The codes that every engine may use.

use lathe_diagnostics::Code;
pub use lathe_target::codes::MACHINE;

lathe_diagnostics::codes! {
    /// The program is a legal tree, but it contains a construct that the engine does not support: an executor
    /// of another machine, a barrier that not all iterations are shown to reach, an asynchronous copy, a
    /// layout, or a compute that was not lowered to loops. The message names the first such construct with its
    /// place, and notes name the others. The interpreter still runs most such programs (`--engine
    /// interpreter`).
    UNSUPPORTED = Code("E0701"), "the engine does not support this construct",
        wrong: "strategy s for gemm = bind(i, node)",
        right: "strategy s for gemm = parallel(i)";

    /// A statement inside a vector loop writes an element that does not depend on the loop, so all lanes would
    /// write it at once. A reduction must first be split into one partial result per lane.
    LANES_COLLIDE = Code("E0702"), "the lanes of a vector loop update the same element",
        wrong: "strategy s for dot = vectorize(k, vector(f32))",
        right: "strategy s for dot = factor(k, 16) ; vectorize(k.i, vector(f32))";

    /// The engine was given a tree that the verifier rejects, or the compiler behind it rejected the code that
    /// Lathe generated. This is a bug in Lathe; please report it with the program and the strategy.
    DEFECT = Code("E0704"), "the generated code is malformed";

    /// The object is not code for this machine, was compiled by another engine or for another version of the
    /// binary interface, or does not define the kernel's symbol. Objects in the cache are recompiled when they
    /// do not load.
    OBJECT = Code("E0705"), "compiled code cannot be loaded";

    /// `lathe emit --to FORM` uses the engine that produces the form: `llvm`, `asm` and `object` come from
    /// LLVM, `c` and `header` from the C engine.
    FORM = Code("E0706"), "an engine does not produce this form of output",
        wrong: "lathe emit gemm.lathe --to asm --engine c",
        right: "lathe emit gemm.lathe --to asm";

    /// Kernels of devices read arrays in the memory of their own device, in row-major order without gaps,
    /// beginning at a multiple of 16 bytes. Transposed arrays and slices of arrays are copied first.
    DEVICE_ARRAY = Code("E0707"), "an array on a device cannot be used as it is",
        wrong: "kernel(tensor.t())",
        right: "kernel(tensor.t().contiguous())";
}
