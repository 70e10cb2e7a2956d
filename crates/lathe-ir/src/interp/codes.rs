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
/// An access that the function does not declare.
pub const UNDECLARED: Code = Code("E0417");

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
        include_str!("../../tests/run/e0401_wrong.tree"),
        include_str!("../../tests/run/e0401_right.tree"),
    ),
    info(
        UNINITIALIZED,
        "a read of an undefined element",
        "Outputs and local buffers start undefined. An element must be written before it is read.",
        include_str!("../../tests/run/e0402_wrong.tree"),
        include_str!("../../tests/run/e0402_right.tree"),
    ),
    info(
        DIVISION_BY_ZERO,
        "an integer division by zero",
        "`//` and `%` (and their truncating variants) are undefined for a zero divisor. Float division \
         follows IEEE 754 and never fails.",
        include_str!("../../tests/run/e0403_wrong.tree"),
        include_str!("../../tests/run/e0403_right.tree"),
    ),
    info(
        INDEX_OVERFLOW,
        "an index that does not fit 64 bits",
        "Values of type `index` are mathematical integers that must fit 64 bits. Use `i64` or `u64` where \
         wrapping is meant.",
        include_str!("../../tests/run/e0404_wrong.tree"),
        include_str!("../../tests/run/e0404_right.tree"),
    ),
    info(
        CHECK_FAILED,
        "a check of the program failed",
        "A `check` statement states a condition, and fails the call if it does not hold.",
        include_str!("../../tests/run/e0405_wrong.tree"),
        include_str!("../../tests/run/e0405_right.tree"),
    ),
    info(
        ASSUMPTION,
        "an assumption does not hold",
        "`assume` is a promise of the user, which transformations rely on; the interpreter checks it.",
        include_str!("../../tests/run/e0406_wrong.tree"),
        include_str!("../../tests/run/e0406_right.tree"),
    ),
    info(
        VECTOR_WIDTH,
        "a vector loop with too many iterations",
        "The iterations of a loop that runs in vector lanes are at most its width.",
        include_str!("../../tests/run/e0407_wrong.tree"),
        include_str!("../../tests/run/e0407_right.tree"),
    ),
    info(
        MEMORY,
        "a buffer that cannot be allocated",
        "A local buffer has a negative extent, or all buffers together exceed the limit of the run.",
        include_str!("../../tests/run/e0408_wrong.tree"),
        include_str!("../../tests/run/e0408_right.tree"),
    ),
    info(
        LIMIT,
        "a run that takes too long",
        "The run took more steps (iterations and calls) than its options allow, or calls nest too deep. The \
         program may not end.",
        include_str!("../../tests/run/e0409_wrong.tree"),
        include_str!("../../tests/run/e0409_right.tree"),
    ),
    info(
        RACE,
        "a race",
        "Two accesses to the same element, at least one of them a write, are unordered: they come from different \
         iterations of a parallel loop, or from an asynchronous body and code that runs concurrently with it. \
         Reductions count as accesses. The message names both statement instances.",
        include_str!("../../tests/run/e0410_wrong.tree"),
        include_str!("../../tests/run/e0410_right.tree"),
    ),
    info(
        BARRIER,
        "a deadlock at a barrier",
        "All iterations of a parallel loop must reach its barriers equally often, and a barrier must \
         be inside the loop that it names.",
        include_str!("../../tests/run/e0411_wrong.tree"),
        include_str!("../../tests/run/e0411_right.tree"),
    ),
    info(
        ARGUMENTS,
        "arguments that do not fit the parameters",
        "The number, types, ranks or shapes of the arrays do not match the function's parameters.",
        include_str!("../../tests/run/e0412_wrong.tree"),
        include_str!("../../tests/run/e0412_right.tree"),
    ),
    info(
        UNSUPPORTED,
        "something that the interpreter cannot run",
        "The tree is malformed, or contains a construct that the interpreter does not support yet.",
        include_str!("../../tests/run/e0413_wrong.tree"),
        include_str!("../../tests/run/e0413_right.tree"),
    ),
    info(
        EMPTY_REDUCTION,
        "an empty reduction without an identity",
        "A reduction by an operator without an identity starts from the first value, so there must be at least one.",
        include_str!("../../tests/run/e0414_wrong.tree"),
        include_str!("../../tests/run/e0414_right.tree"),
    ),
    info(
        STALE,
        "a buffer used after its block has ended",
        "An asynchronous body uses a local buffer whose block has ended.",
        include_str!("../../tests/run/e0415_wrong.tree"),
        include_str!("../../tests/run/e0415_right.tree"),
    ),
    info(
        UNWRITTEN,
        "an output that is not fully written",
        "Every element of an output must be written. Make it `inout`, or write a default first.",
        include_str!("../../tests/run/e0416_wrong.tree"),
        include_str!("../../tests/run/e0416_right.tree"),
    ),
    info(
        UNDECLARED,
        "an access that the function does not declare",
        "A function with `effects (…)` accesses nothing outside of the regions that it lists.",
        include_str!("../../tests/run/e0417_wrong.tree"),
        include_str!("../../tests/run/e0417_right.tree"),
    ),
];
