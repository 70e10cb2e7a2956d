//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

/// A tree that has no form as kernels.
pub const NO_KERNEL: Code = Code("E0831");
/// A local buffer whose size is not a constant where a device needs one.
pub const UNBOUNDED: Code = Code("E0832");
/// A barrier that some threads of its loop would not reach.
pub const DIVERGENT: Code = Code("E0833");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: NO_KERNEL,
        title: "a tree that does not consist of kernels",
        explanation: "Outside of its grids a device function is run by the host, which sees sizes and scalars but no \
                      elements of arrays: loops and conditions around a grid must not load, and the loops must be \
                      serial. A grid may not be inside a `while` or a called function.",
        wrong: "for i in 0..A[0] { for b grid in 0..N { … } }",
        right: "for i in 0..T { for b grid in 0..N { … } }",
    },
    CodeInfo {
        code: UNBOUNDED,
        title: "a local buffer on a device without a constant size",
        explanation: "Shared memory and registers are laid out when the code is made. The size of a buffer that \
                      is private to a block or a thread must be a constant, or have a constant upper bound, such as \
                      that of a tile `min(64, N - 64*i)`.",
        wrong: "stage(A, at: i.o, space: shared)  # a whole row of N elements",
        right: "split(k, 64) ; stage(A, at: k.o, space: shared)",
    },
    CodeInfo {
        code: DIVERGENT,
        title: "a barrier that not all threads reach",
        explanation: "All threads of a block must reach a barrier equally often. A barrier in a thread \
                      loop requires that all thread loops of its kernel have as many iterations as the block has \
                      threads, and that no enclosing condition depends on the thread.",
        wrong: "for t block in 0..32 { if t < 16 { barrier t } }",
        right: "for t block in 0..32 { barrier t }",
    },
];
