//! The codes of the interpreter: E0401 to E0499.

use lathe_diagnostics::{Code, CodeInfo};

pub const OUT_OF_BOUNDS: Code = Code("E0401");
pub const UNINITIALIZED: Code = Code("E0402");
pub const DIVISION_BY_ZERO: Code = Code("E0403");
pub const INDEX_OVERFLOW: Code = Code("E0404");
pub const CHECK_FAILED: Code = Code("E0405");
pub const ASSUMPTION: Code = Code("E0406");
pub const VECTOR_WIDTH: Code = Code("E0407");
pub const MEMORY: Code = Code("E0408");
pub const LIMIT: Code = Code("E0409");
pub const RACE: Code = Code("E0410");
pub const BARRIER: Code = Code("E0411");
pub const ARGUMENTS: Code = Code("E0412");
pub const UNSUPPORTED: Code = Code("E0413");
pub const EMPTY_REDUCTION: Code = Code("E0414");
pub const STALE: Code = Code("E0415");
pub const UNWRITTEN: Code = Code("E0416");

const fn info(
    code: Code,
    title: &'static str,
    explanation: &'static str,
    wrong: &'static str,
    right: &'static str,
) -> CodeInfo {
    CodeInfo { code, title, explanation, wrong, right }
}

/// What each code means, with a program that runs into it and one that does not.
pub static CODES: &[CodeInfo] = &[
    info(
        OUT_OF_BOUNDS,
        "an access out of bounds",
        "A subscript is negative, or not smaller than the extent of its dimension. The message names the \
         statement instance, the element and the extent. Views are subject to the bounds of their base.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[i] = A[i + 1] where i in 0..N\n}",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[i] = select(i + 1 < N, A[i + 1], 0.0) where i in 0..N\n}",
    ),
    info(
        UNINITIALIZED,
        "a read of a cell that was never written",
        "Outputs and local buffers start undefined. A cell must be written before it is read.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    for i in 0..N { C[i] = C[i] + A[i] }\n}",
        "kernel k(A: f32[N], C: inout f32[N]) {\n    for i in 0..N { C[i] = C[i] + A[i] }\n}",
    ),
    info(
        DIVISION_BY_ZERO,
        "an integer division by zero",
        "`//` and `%` (and their truncating relatives) have no value for a zero divisor. Floats divide as \
         IEEE 754 says, and never fail.",
        "kernel k(A: i32[N]) -> (C: i32[N]) {\n    C[i] = 10 // A[i]\n}",
        "kernel k(A: i32[N]) -> (C: i32[N]) {\n    C[i] = select(A[i] == 0, 0, 10 // A[i])\n}",
    ),
    info(
        INDEX_OVERFLOW,
        "an index that does not fit 64 bits",
        "Values of type `index` are mathematical integers that must fit 64 bits. Use `i64` or `u64` where \
         wrapping is meant.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[i] = select(i * 9223372036854775807 > 0, A[i], 0.0)\n}",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[i] = select(i > 0, A[i], 0.0)\n}",
    ),
    info(
        CHECK_FAILED,
        "a check of the program failed",
        "A `check` statement states what must hold, and fails the call where it does not.",
        "kernel k(I: i32[N], A: f32[M]) -> (C: f32[N]) {\n    C[i] = A[I[i]]\n}   # with a subscript beyond M",
        "kernel k(I: i32[N], A: f32[M]) -> (C: f32[N]) {\n    C[i] = A[I[i] % M]\n}",
    ),
    info(
        ASSUMPTION,
        "an assumption does not hold",
        "`assume` is a promise of the user, which transformations rely on; the interpreter checks it.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    assume(N % 8 == 0)\n    C[i] = A[i]\n}   # called with N = 7",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[i] = A[i]\n}",
    ),
    info(
        VECTOR_WIDTH,
        "a vector loop with too many iterations",
        "The iterations of a loop that runs in vector lanes are at most its width.",
        "tree: a loop `vector(8)` over 0..16",
        "tree: a serial loop over 0..2 around a loop `vector(8)` over 0..8",
    ),
    info(
        MEMORY,
        "a buffer that cannot be made",
        "A local buffer has a negative extent, or all buffers together exceed the limit of the run.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    var t: f32[N, 1000000000000]\n    C[i] = A[i]\n}",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    var t: f32[N]\n    C[i] = A[i]\n}",
    ),
    info(
        LIMIT,
        "a run that takes too long",
        "The run took more steps (iterations and calls) than its options allow, or calls nest too deep. The \
         program may not end.",
        "kernel k(x: inout f32) {\n    while true { x = x + 1.0 }\n}",
        "kernel k(x: inout f32) {\n    while x < 10.0 { x = x + 1.0 }\n}",
    ),
    info(
        RACE,
        "a race",
        "Two accesses of one element, at least one of which writes, are ordered by nothing: they are made by \
         different iterations of a parallel loop, or by an asynchronous body and what runs beside it. \
         Reductions are accesses like others. The message names both statement instances.",
        "kernel k(A: f32[N]) -> (s: f32) {\n    s = sum[i](A[i])\n}\nstrategy p for k = parallel(i)",
        "kernel k(A: f32[N]) -> (s: f32) {\n    s = sum[i](A[i])\n}\nstrategy p for k = baseline",
    ),
    info(
        BARRIER,
        "iterations that wait for each other forever",
        "All iterations of a parallel loop must reach its barriers equally often, and a barrier must stand \
         inside the loop that it names.",
        "tree: a parallel loop over t with `if t == 0 { barrier t }`",
        "tree: a parallel loop over t with `barrier t` outside of conditions",
    ),
    info(
        ARGUMENTS,
        "arguments that do not fit the parameters",
        "The number, types, ranks or shapes of the arrays are not those of the function's parameters.",
        "kernel k(A: f32[N], B: f32[N]) -> (C: f32[N]) {\n    C[i] = A[i] + B[i]\n}   # A and B differ in length",
        "kernel k(A: f32[N], B: f32[N]) -> (C: f32[N]) {\n    C[i] = A[i] + B[i]\n}   # both have N elements",
    ),
    info(
        UNSUPPORTED,
        "something that the interpreter does not run",
        "The tree is malformed, or says something that has a place in the tree but no interpretation yet.",
        "tree: an access through a pointer",
        "tree: an access of a buffer, a slice, a reshape or reinterpreted bytes",
    ),
    info(
        EMPTY_REDUCTION,
        "a reduction over nothing without identity",
        "An operator without identity starts from the first value, so that there must be one.",
        "op pick(a: f32, b: f32) -> f32 associative = a\n\
         kernel k(A: f32[N]) -> (s: f32) {\n    s = pick[i](A[i])\n}   # with N = 0",
        "op pick(a: f32, b: f32) -> f32 associative identity(0.0) = a\n\
         kernel k(A: f32[N]) -> (s: f32) {\n    s = pick[i](A[i])\n}",
    ),
    info(
        STALE,
        "a buffer used after its block",
        "An asynchronous body uses a local buffer whose block has ended.",
        "tree: `alloc t { async a { t[0] = 1 } }` without `wait a` in the block",
        "tree: `alloc t { async a { t[0] = 1 }; wait a }`",
    ),
    info(
        UNWRITTEN,
        "an output that is not wholly written",
        "Every element of an output must be written. Make it `inout`, or write a default first.",
        "kernel k(A: f32[N]) -> (C: f32[N]) {\n    C[2 * i] = A[i] where i in 0..N // 2\n}",
        "kernel k(A: f32[N], C: inout f32[N]) {\n    C[2 * i] = A[i] where i in 0..N // 2\n}",
    ),
];
