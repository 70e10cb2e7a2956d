//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// Outside of its grids a device function is run by the host, which sees sizes and scalars but no elements
    /// of arrays: loops and conditions around a grid must not load, and the loops must be serial. A grid may
    /// not be inside a `while` or a called function.
    NO_KERNEL = Code("E0831"), "a tree that does not consist of kernels",
        wrong: "for i in 0..A[0] { for b grid in 0..N { … } }",
        right: "for i in 0..T { for b grid in 0..N { … } }";

    /// Shared memory and registers are laid out when the code is made. The size of a buffer that is private to
    /// a block or a thread must be a constant, or have a constant upper bound, such as that of a tile `min(64,
    /// N - 64*i)`.
    UNBOUNDED = Code("E0832"), "a local buffer on a device without a constant size",
        wrong: "stage(A, at: i.o, space: shared)  # a whole row of N elements",
        right: "split(k, 64) ; stage(A, at: k.o, space: shared)";

    /// All threads of a block must reach a barrier equally often. A barrier in a thread loop requires that all
    /// thread loops of its kernel have as many iterations as the block has threads, and that no enclosing
    /// condition depends on the thread.
    DIVERGENT = Code("E0833"), "a barrier that not all threads reach",
        wrong: "for t block in 0..32 { if t < 16 { barrier t } }",
        right: "for t block in 0..32 { barrier t }";

    /// An array whose layout distributes dimensions over loops (`distribute(dim, t)`) has its elements in the registers of
    /// the threads that run these loops: iteration `k` of `t` has those whose coordinate is `k`. Producers and consumers must
    /// agree on it: each accesses the elements that it holds, in loops of the same names, order and bounds, and no other concurrent
    /// loop is between the array and the access. Other threads get a value through shared memory, or the layout changes.
    NOT_HELD = Code("E0834"), "an access of a distributed array by a thread that may not hold the element",
        wrong: "func f()(x: in f32[32], y: out f32[32]) stage scheduled {\n  for g in 0..1 level(grid) {\n    alloc r: f32[32] register layout distribute(0, t)\n    for t in 0..32 level(block) { 'r'[t]: r[t] = x[t] }\n    for t in 0..32 level(block) { 'y'[t]: y[t] = r[31 - t] }\n  }\n}\n",
        right: "func f()(x: in f32[32], y: out f32[32]) stage scheduled {\n  for g in 0..1 level(grid) {\n    alloc r: f32[32] register layout distribute(0, t)\n    for t in 0..32 level(block) { 'r'[t]: r[t] = x[t] }\n    for t in 0..32 level(block) { 'y'[t]: y[t] = r[t] }\n  }\n}\n";
}
