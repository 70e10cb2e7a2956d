//! The codes of the interpreter: E0401 to E0499.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// A subscript is negative, or not smaller than the extent of its dimension. The message names the
    /// statement instance, the element and the extent. Views are subject to the bounds of their base.
    OUT_OF_BOUNDS = Code("E0401"), "an access out of bounds",
        wrong: include_str!("../../tests/run/e0401_wrong.tree"),
        right: include_str!("../../tests/run/e0401_right.tree");

    /// Outputs and local buffers start undefined. An element must be written before it is read.
    UNINITIALIZED = Code("E0402"), "a read of an undefined element",
        wrong: include_str!("../../tests/run/e0402_wrong.tree"),
        right: include_str!("../../tests/run/e0402_right.tree");

    /// `//` and `%` (and their truncating variants) are undefined for a zero divisor. Float division follows
    /// IEEE 754 and never fails.
    DIVISION_BY_ZERO = Code("E0403"), "an integer division by zero",
        wrong: include_str!("../../tests/run/e0403_wrong.tree"),
        right: include_str!("../../tests/run/e0403_right.tree");

    /// Values of type `index` are mathematical integers that must fit 64 bits. Use `i64` or `u64` where
    /// wrapping is meant.
    INDEX_OVERFLOW = Code("E0404"), "an index that does not fit 64 bits",
        wrong: include_str!("../../tests/run/e0404_wrong.tree"),
        right: include_str!("../../tests/run/e0404_right.tree");

    /// A `check` statement states a condition, and fails the call if it does not hold.
    CHECK_FAILED = Code("E0405"), "a check of the program failed",
        wrong: include_str!("../../tests/run/e0405_wrong.tree"),
        right: include_str!("../../tests/run/e0405_right.tree");

    /// `assume` is a promise of the user, which transformations rely on; the interpreter checks it.
    ASSUMPTION = Code("E0406"), "an assumption does not hold",
        wrong: include_str!("../../tests/run/e0406_wrong.tree"),
        right: include_str!("../../tests/run/e0406_right.tree");

    /// The iterations of a loop that runs in vector lanes are at most its width.
    VECTOR_WIDTH = Code("E0407"), "a vector loop with too many iterations",
        wrong: include_str!("../../tests/run/e0407_wrong.tree"),
        right: include_str!("../../tests/run/e0407_right.tree");

    /// A local buffer has a negative extent, or all buffers together exceed the limit of the run.
    MEMORY = Code("E0408"), "a buffer that cannot be allocated",
        wrong: include_str!("../../tests/run/e0408_wrong.tree"),
        right: include_str!("../../tests/run/e0408_right.tree");

    /// The run took more steps (iterations and calls) than its options allow, or calls nest too deep. The
    /// program may not end.
    LIMIT = Code("E0409"), "a run that takes too long",
        wrong: include_str!("../../tests/run/e0409_wrong.tree"),
        right: include_str!("../../tests/run/e0409_right.tree");

    /// Two accesses to the same element, at least one of them a write, are unordered: they come from different
    /// iterations of a parallel loop, or from an asynchronous body and code that runs concurrently with it.
    /// Reductions count as accesses. The message names both statement instances.
    RACE = Code("E0410"), "a race",
        wrong: include_str!("../../tests/run/e0410_wrong.tree"),
        right: include_str!("../../tests/run/e0410_right.tree");

    /// All iterations of a parallel loop must reach its barriers equally often, and a barrier must be inside
    /// the loop that it names.
    BARRIER = Code("E0411"), "a deadlock at a barrier",
        wrong: include_str!("../../tests/run/e0411_wrong.tree"),
        right: include_str!("../../tests/run/e0411_right.tree");

    /// The number, types, ranks or shapes of the arrays do not match the function's parameters.
    ARGUMENTS = Code("E0412"), "arguments that do not fit the parameters",
        wrong: include_str!("../../tests/run/e0412_wrong.tree"),
        right: include_str!("../../tests/run/e0412_right.tree");

    /// The tree is malformed, or contains a construct that the interpreter does not support yet.
    UNSUPPORTED = Code("E0413"), "something that the interpreter cannot run",
        wrong: include_str!("../../tests/run/e0413_wrong.tree"),
        right: include_str!("../../tests/run/e0413_right.tree");

    /// A reduction by an operator without an identity starts from the first value, so there must be at least
    /// one.
    EMPTY_REDUCTION = Code("E0414"), "an empty reduction without an identity",
        wrong: include_str!("../../tests/run/e0414_wrong.tree"),
        right: include_str!("../../tests/run/e0414_right.tree");

    /// An asynchronous body uses a local buffer whose block has ended.
    STALE = Code("E0415"), "a buffer used after its block has ended",
        wrong: include_str!("../../tests/run/e0415_wrong.tree"),
        right: include_str!("../../tests/run/e0415_right.tree");

    /// Every element of an output must be written. Make it `inout`, or write a default first.
    UNWRITTEN = Code("E0416"), "an output that is not fully written",
        wrong: include_str!("../../tests/run/e0416_wrong.tree"),
        right: include_str!("../../tests/run/e0416_right.tree");

    /// A function with `effects (…)` accesses nothing outside of the regions that it lists.
    UNDECLARED = Code("E0417"), "an access that the function does not declare",
        wrong: include_str!("../../tests/run/e0417_wrong.tree"),
        right: include_str!("../../tests/run/e0417_right.tree");

    /// The layout of an array says which iterations of concurrent loops hold its elements (`distribute`), each in
    /// registers of its own. An element is accessed by the iteration that holds it, and read by the one that wrote it.
    /// Runs that look for races look for this, too.
    NOT_HELD = Code("E0418"), "an element that another iteration holds",
        wrong: include_str!("../../tests/run/e0418_wrong.tree"),
        right: include_str!("../../tests/run/e0418_right.tree");
}
