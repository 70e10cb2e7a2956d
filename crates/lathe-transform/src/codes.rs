//! The diagnostics of the rules (E06xx; E060x and E061x belong to `lathe-strategy`).

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// A step of a strategy was given an argument that it does not have, one of the wrong kind, or one too few.
    /// The message shows how the step is written.
    ARGUMENT = Code("E0620"), "wrong argument of a step",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 0)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 8)";

    /// A step names a loop, a label or an array that does not exist (or no longer exists) at this point of the
    /// strategy. The message lists what there is.
    UNKNOWN_NAME = Code("E0621"), "no loop, label or array of that name",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(j, 8)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 8)";

    /// A step that needs one loop was given a name that several loops have. Qualify it with the label of a
    /// statement inside the loop, or focus the step.
    AMBIGUOUS = Code("E0622"), "the name denotes several loops",
        wrong: "kernel two(A: f32[N]) -> (B: f32[N], C: f32[N]) {\n    B[i] = A[i]\n    C[i] = 2.0 * A[i]\n}\n\
                strategy s for two = cut(i, 8)",
        right: "kernel two(A: f32[N]) -> (B: f32[N], C: f32[N]) {\n    B[i] = A[i]\n    C[i] = 2.0 * A[i]\n}\n\
                strategy s for two = cut(B.i, 8)";

    /// Two statement instances access the same element, at least one of them writes it, and the step would
    /// reverse their order (or run them concurrently). The message names both, with numbers.
    ORDER = Code("E0623"), "the step would change the result",
        wrong: "kernel prefix(A: inout f32[N]) {\n    for i in 1..N { A[i] = A[i] + A[i-1] }\n}\n\
                strategy s for prefix = parallel(i)",
        right: "kernel twice(A: inout f32[N]) {\n    for i in 1..N { A[i] = A[i] + A[i] }\n}\n\
                strategy s for twice = parallel(i)";

    /// The step works on a certain shape of loops, for example a nest without statements between its loops. The
    /// message says which, and often which step makes it.
    SHAPE = Code("E0624"), "the tree does not have the shape that the step requires",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 4)";

    /// The step does not support these arguments or this part of the program; the message says why.
    UNSUPPORTED = Code("E0625"), "the step does not support this program",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 1000000)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = unroll(i, 4)";

    /// `pad` runs a partial tile in full. Its additional iterations may compute what nobody reads, from elements that
    /// exist and are defined, and nothing else: what the tile reads is staged with room for them, and so is what it
    /// writes, before the loop is padded.
    PADDING = Code("E0626"), "additional iterations of a padded loop would have an effect",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = split(i, 8) ; pad(i.i)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = split(i, 8) ; stage(A, at: i.o, pad: true) ; stage(B, at: i.o) ; pad(i.i)";

    /// Indices are 64-bit integers. The bounds or subscripts that the step would write contain an operation
    /// that may overflow, for some sizes or inputs of the kernel: the factor is too large, or a bound depends
    /// on an unrestricted input. A smaller factor helps, or an `assume` that bounds the input; it is checked
    /// when the kernel is called.
    OVERFLOW = Code("E0628"), "the step would compute an index that may overflow 64 bits",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = shift(i, 9223372036854775807)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s for copy = shift(i, 8)";

    /// A step that copies a part of an array to a buffer was given, or computed, a window that does not contain
    /// every element that the statement accesses, or that reaches out of the array's bounds. The checker
    /// examines every access and every copy, however the window was determined.
    WINDOW = Code("E0629"), "a copy does not cover the array's accesses",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = split(i, 8) ; stage(A, at: i.o, window: range(8 * i.o, 4))",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n\
                strategy s for copy = split(i, 8) ; stage(A, at: i.o, window: range(8 * i.o, min(8, N - 8 * i.o)))";

    /// After a step that creates or removes an array or changes its layout, the checker compares the trees
    /// before and after: the value of each read must equal the value that the other tree computes in its place,
    /// and an iteration with its own elements must own all elements that it accesses. What cannot be shown is
    /// refused, for example if elements may be read that no loop stores to.
    VALUE = Code("E0630"), "a read might see a different value";

    /// The verifier checks the tree after every step. The fault that it found is a bug in Lathe, not in the
    /// program or the strategy: the step is refused, and the tree is unchanged. Please report it with the
    /// program and the strategy.
    ILL_FORMED = Code("E0627"), "a step produced an ill-formed tree";
}
