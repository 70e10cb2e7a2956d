//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

/// A subscript can lie outside its dimension.
pub const OUT_OF_BOUNDS: Code = Code("E0501");
/// An output has cells that are not written on every run.
pub const UNWRITTEN: Code = Code("E0502");
/// A local array is read where nothing was written.
pub const UNINITIALIZED: Code = Code("E0503");
/// An access that can be neither proved nor checked.
pub const UNDECIDED: Code = Code("E0504");
/// Iterations of a tree that run at the same time touch one element.
pub const RACE: Code = Code("E0505");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: OUT_OF_BOUNDS,
        title: "a subscript can lie outside its dimension",
        explanation: "Every subscript must lie in `0..extent` for all sizes and all iterations. The message names one \
                      iteration and sizes for which it does not. Narrow the range of the index, guard the access with \
                      `select` or `if`, or state what you know with `assume`.",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N { B[i] = A[i + 1] }\n}\n",
        right: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N { B[i] = select(i + 1 < N, A[i + 1], 0.0) }\n}\n",
    },
    CodeInfo {
        code: UNWRITTEN,
        title: "an output has cells that are not written",
        explanation: "The cells of an output have no value before the kernel writes them, so every one must be written \
                      on every run. Write the missing cells, or make the parameter `inout`, so that they keep what the \
                      caller put there.",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 1..N { B[i] = A[i] }\n}\n",
        right: "kernel k(A: f32[N], B: inout f32[N]) {\n    for i in 1..N { B[i] = A[i] }\n}\n",
    },
    CodeInfo {
        code: UNINITIALIZED,
        title: "a local array is read before it is written",
        explanation: "The cells of a local array have no value until they are written.",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N {\n        var t: f32\n        B[i] = t + A[i]\n    }\n}\n",
        right: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N {\n        var t: f32\n        t = 1.0\n        B[i] = t + A[i]\n    }\n}\n",
    },
    CodeInfo {
        code: UNDECIDED,
        title: "an access can be neither proved nor checked",
        explanation: "Subscripts that are not affine, or that depend on data, are checked before the statement that \
                      uses them. Where there is no place for such a check (the condition of `while`, the bounds of \
                      a compute, a view that is not followed), the access is refused. Guard it with `select`, load \
                      the value in a statement before, or state what you know with `assume`. A call in a tree is refused, \
                      too, where its arrays are not shown to have the declared extents and to be apart.",
        wrong: "kernel k(A: f32[N], x: inout f32) {\n    for i in 0..N {\n        while A[i * i] > x { x += 1.0 }\n    }\n}\n",
        right: "kernel k(A: f32[N], x: inout f32) {\n    for i in 0..N {\n        while select(i * i < N, A[i * i], x) > x { x += 1.0 }\n    }\n}\n",
    },
    CodeInfo {
        code: RACE,
        title: "iterations of a tree that run at the same time touch one element",
        explanation: "A tree says by itself what runs at the same time. What one iteration of such a loop writes, no other \
                      one may touch; the message names two. Engines take only trees of which that is shown; the \
                      interpreter runs others, and looks for races. Give each iteration elements of its own, combine \
                      with atomic updates, or make the loop serial.",
        wrong: "func total(N)(x: in i32[N], s: inout i32[]) stage scheduled {\n  for i in 0..N cpu { 's'[i]: s[] sum= x[i] }\n}\n",
        right: "func total(N)(x: in i32[N], s: inout i32[]) stage scheduled {\n  for i in 0..N { 's'[i]: s[] sum= x[i] }\n}\n",
    },
];
