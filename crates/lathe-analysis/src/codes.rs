//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// Every subscript must lie in `0..extent` for all sizes and all iterations. The message names one
    /// iteration and sizes for which it does not. Narrow the range of the index, guard the access with `select`
    /// or `if`, or state what you know with `assume`.
    OUT_OF_BOUNDS = Code("E0501"), "a subscript can lie outside its dimension",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N { B[i] = A[i + 1] }\n}\n",
        right: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N { B[i] = select(i + 1 < N, A[i + 1], 0.0) }\n}\n";

    /// The elements of an output are undefined until the kernel writes them, so every element must be written
    /// on every run. Write the missing elements, or make the parameter `inout`, so that they keep the caller's
    /// values.
    UNWRITTEN = Code("E0502"), "an output has elements that are not written",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 1..N { B[i] = A[i] }\n}\n",
        right: "kernel k(A: f32[N], B: inout f32[N]) {\n    for i in 1..N { B[i] = A[i] }\n}\n";

    /// The elements of a local array are undefined until they are written.
    UNINITIALIZED = Code("E0503"), "a local array is read before it is written",
        wrong: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N {\n        var t: f32\n        B[i] = t + A[i]\n    }\n}\n",
        right: "kernel k(A: f32[N]) -> (B: f32[N]) {\n    for i in 0..N {\n        var t: f32\n        t = 1.0\n        B[i] = t + A[i]\n    }\n}\n";

    /// Subscripts that are not affine, or that depend on data, are checked before the statement that uses them.
    /// Where no check can be inserted (the condition of `while`, the bounds of a compute, a view that is not
    /// analyzed), the access is refused. Guard it with `select`, load the value in a statement before, or state
    /// what you know with `assume`. A call in a tree is also refused if its array arguments cannot be shown to
    /// have the declared extents and not to overlap.
    UNDECIDED = Code("E0504"), "an access can be neither proved in bounds nor checked at run time",
        wrong: "kernel k(A: f32[N], x: inout f32) {\n    for i in 0..N {\n        while A[i * i] > x { x += 1.0 }\n    }\n}\n",
        right: "kernel k(A: f32[N], x: inout f32) {\n    for i in 0..N {\n        while select(i * i < N, A[i * i], x) > x { x += 1.0 }\n    }\n}\n";

    /// A tree itself specifies which loops run concurrently. An element that one iteration of such a loop
    /// writes must not be accessed by another one, unless a barrier of the loop stands between the two; the
    /// message names two such iterations. Engines accept only trees that are proved free of races; the
    /// interpreter runs others too, and detects races. Give each iteration elements of its own, combine with
    /// atomic updates, put a barrier between the two, or make the loop serial.
    RACE = Code("E0505"), "a race: concurrent iterations of a tree access the same element",
        wrong: "func total(N)(x: in i32[N], s: inout i32[]) stage scheduled {\n  for i in 0..N cpu { 's'[i]: s[] sum= x[i] }\n}\n",
        right: "func total(N)(x: in i32[N], s: inout i32[]) stage scheduled {\n  for i in 0..N { 's'[i]: s[] sum= x[i] }\n}\n";

    /// All iterations of a concurrent loop wait for one another at its barriers, so each must reach them
    /// equally often; otherwise the others wait forever. Between the loop and the barrier, conditions and
    /// bounds of loops must not depend on the loop's variable, on those of concurrent loops inside of it, or on
    /// arrays that each iteration has for itself. Put the barrier outside of the condition, and what it guards
    /// inside.
    DIVERGENT = Code("E0506"), "a divergent barrier: not all iterations of its loop reach it equally often",
        wrong: "func f(N)(x: in i32[N], y: inout i32[N]) stage scheduled {\n  for i in 0..N cpu {\n    if i < 3 {\n      'y'[i]: y[i] = x[i]\n      barrier i\n    }\n  }\n}\n",
        right: "func f(N)(x: in i32[N], y: inout i32[N]) stage scheduled {\n  for i in 0..N cpu {\n    if i < 3 {\n      'y'[i]: y[i] = x[i]\n    }\n    barrier i\n  }\n}\n";
}
