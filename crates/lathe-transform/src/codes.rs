//! The diagnostics of the rules (E06xx; E060x and E061x belong to `lathe-strategy`).

use lathe_diagnostics::{Code, CodeInfo};

/// A wrong argument of a step.
pub const ARGUMENT: Code = Code("E0620");
/// No loop, label or array of that name.
pub const UNKNOWN_NAME: Code = Code("E0621");
/// A name denotes several loops where one is needed.
pub const AMBIGUOUS: Code = Code("E0622");
/// The step would swap two conflicting statement instances.
pub const ORDER: Code = Code("E0623");
/// The tree does not have the shape that the step needs.
pub const SHAPE: Code = Code("E0624");
/// Additional iterations of a padded loop would have an effect.
pub const PADDING: Code = Code("E0626");
/// The step produced an ill-formed tree: a bug in Lathe.
pub const ILL_FORMED: Code = Code("E0627");
/// The step would compute indices that may not fit 64 bits.
pub const OVERFLOW: Code = Code("E0628");
/// A copy does not stand for what is copied.
pub const WINDOW: Code = Code("E0629");
/// A read might get another value than it got.
pub const VALUE: Code = Code("E0630");
/// Not supported for this program.
pub const UNSUPPORTED: Code = Code("E0625");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: ARGUMENT,
        title: "wrong argument of a step",
        explanation: "A step of a strategy was given an argument that it does not have, one of the wrong kind, or \
                      one too few. The message shows how the step is written.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 0)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 8)",
    },
    CodeInfo {
        code: UNKNOWN_NAME,
        title: "no loop, label or array of that name",
        explanation: "A step names a loop, a label or an array that does not exist (or no longer exists) at this point of the \
                      strategy. The message lists what there is.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(j, 8)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 8)",
    },
    CodeInfo {
        code: AMBIGUOUS,
        title: "the name denotes several loops",
        explanation: "A step that needs one loop was given a name that several loops have. Qualify it with the \
                      label of a statement inside the loop, or focus the step.",
        wrong: "kernel two(A: f32[N]) -> (B: f32[N], C: f32[N]) {\n    B[i] = A[i]\n    C[i] = 2.0 * A[i]\n}\n\
                strategy s for two = cut(i, 8)",
        right: "kernel two(A: f32[N]) -> (B: f32[N], C: f32[N]) {\n    B[i] = A[i]\n    C[i] = 2.0 * A[i]\n}\n\
                strategy s for two = cut(B.i, 8)",
    },
    CodeInfo {
        code: ORDER,
        title: "the step would change the result",
        explanation: "Two statement instances access the same element, at least one of them writes it, \
                      and the step would reverse their order (or run them concurrently). The message names both, with numbers.",
        wrong: "kernel prefix(A: inout f32[N]) {\n    for i in 1..N { A[i] = A[i] + A[i-1] }\n}\n\
                strategy s for prefix = parallel(i)",
        right: "kernel twice(A: inout f32[N]) {\n    for i in 1..N { A[i] = A[i] + A[i] }\n}\n\
                strategy s for twice = parallel(i)",
    },
    CodeInfo {
        code: SHAPE,
        title: "the tree does not have the shape that the step requires",
        explanation: "The step works on a certain shape of loops, for example a nest without statements between \
                      its loops. The message says which, and often which step makes it.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 4)",
    },
    CodeInfo {
        code: UNSUPPORTED,
        title: "the step does not support this program",
        explanation: "The step does not support these arguments or this part \
                      of the program; the message says why.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 1000000)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 4)",
    },
    CodeInfo {
        code: OVERFLOW,
        title: "the step would compute an index that may overflow 64 bits",
        explanation: "Indices are 64-bit integers. The bounds or subscripts that the step would write contain \
                      an operation that may overflow, for some sizes or inputs of the kernel: the factor is \
                      too large, or a bound depends on an unrestricted input. A smaller factor helps, or \
                      an `assume` that bounds the input; it is checked when the kernel is called.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = shift(i, 9223372036854775807)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = shift(i, 8)",
    },
    CodeInfo {
        code: WINDOW,
        title: "a copy does not cover the array's accesses",
        explanation: "A step that copies a part of an array to a buffer was given, or computed, a window that does \
                      not contain every element that the statement accesses, or that reaches out of the array's bounds. The checker \
                      examines every access and every copy, however the window was determined.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = split(i, 8) ; stage(A, at: i.o, window: range(8 * i.o, 4))",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = split(i, 8) ; stage(A, at: i.o, window: range(8 * i.o, min(8, N - 8 * i.o)))",
    },
    CodeInfo {
        code: VALUE,
        title: "a read might see a different value",
        explanation: "After a step that creates or removes an array or changes its layout, the checker \
                      compares the trees before and after: the value of each read must equal the value that the other tree \
                      computes in its place, and an iteration with its own elements must own all elements that it accesses. \
                      What cannot be shown is refused, for example if elements may be read that no loop stores to.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: ILL_FORMED,
        title: "a step produced an ill-formed tree",
        explanation: "The verifier checks the tree after every step. The fault that it found is a bug in Lathe, \
                      not in the program or the strategy: the step is refused, and the tree is unchanged. Please report it with the \
                      program and the strategy.",
        wrong: "",
        right: "",
    },
];
