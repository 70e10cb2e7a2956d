//! The diagnostics of patterns.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The text of a fun, or of a pattern of a rule, cannot be read.
    SYNTAX = Code("E1101"), "no term",
        wrong: "fun f(xs: f32[N]) -> f32[N] = map(|x x + x, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)";

    /// A fun uses a name that is not a parameter, size, fun or primitive.
    UNKNOWN = Code("E1102"), "unknown name in a fun",
        wrong: "fun f(xs: f32[N]) -> f32[N] = mop(|x| x + x, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)";

    /// Two arrays must have the same size, but their types have different ones.
    SIZES = Code("E1103"), "sizes differ",
        wrong: "fun f(xs: f32[N], ys: f32[M]) -> f32[N] = zip(xs, ys) |> map(|(x, y)| x + y)",
        right: "fun f(xs: f32[N], ys: f32[N]) -> f32[N] = zip(xs, ys) |> map(|(x, y)| x + y)";

    /// A function is applied to an argument of the wrong type.
    TYPES = Code("E1104"), "types differ",
        wrong: "fun f(xs: f32[N]) -> f32[N] = transpose(xs)",
        right: "fun f(xs: f32[N, M]) -> f32[M, N] = transpose(xs)";

    /// Arrays and tuples contain data. A function can be passed as an argument, but not stored.
    NOT_DATA = Code("E1105"), "a function where a value is expected",
        wrong: "fun f(xs: f32[N]) -> f32[N] = map(|x| |y| x + y, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)";

    /// The type or the size of a part of the fun is not determined.
    UNDETERMINED = Code("E1106"), "type cannot be inferred";

    /// `split`, `slide` and `asVector` need sizes that divide; `take` and `drop` need enough elements.
    DOES_NOT_FIT = Code("E1107"), "an impossible size",
        wrong: "fun f(xs: f32[8]) -> f32[2, 3] = split(3, xs)",
        right: "fun f(xs: f32[8]) -> f32[2, 4] = split(4, xs)";

    /// A primitive is used with wrong arguments.
    ARGUMENTS = Code("E1108"), "wrong arguments of a primitive",
        wrong: "fun f(xs: f32[8]) -> f32[2, 4] = split(xs)",
        right: "fun f(xs: f32[8]) -> f32[2, 4] = split(4, xs)";

    /// A size of the program cannot be held in 64 bits.
    HUGE = Code("E1109"), "size beyond 64 bits",
        wrong: "fun f(x: f32) -> f32 = reduce(add, 0, generate(9223372036854775807 * 2, |i| x))",
        right: "fun f(x: f32) -> f32 = reduce(add, 0, generate(1024, |i| x))";

    /// Evaluation divides by zero, uses an index out of range, or reads an element that does not exist.
    NO_VALUE = Code("E1110"), "a term without a value";

    /// A term can be translated once every `map`, `reduce`, `scan` and `iterate` that computes is replaced by a
    /// low-level primitive.
    HIGH_LEVEL = Code("E1111"), "how to compute it is not decided";

    /// A computed array must be stored in memory before it is read: `toMem(space, e, |x| ...)`.
    NOT_STORED = Code("E1112"), "a result without memory";

    /// The term is well typed, but has no translation.
    UNSUPPORTED = Code("E1113"), "not translated";

    /// A rule was applied to a term that does not match its left side, or does not meet its conditions.
    NO_MATCH = Code("E1114"), "the rule does not apply";

    /// A rule must give a term of the type that it was applied to.
    TYPE_CHANGED = Code("E1115"), "the rule changes a type";

    /// A strategy of a fun is a sequence: steps on terms, `lower`, steps on loops. `lower` cannot be used in a
    /// choice, repeated, or applied at a location, and `auto` and `mdh`, which take decisions for a fun as a
    /// whole, cannot come after it.
    MISPLACED = Code("E1116"), "a step on the wrong side of `lower`",
        wrong: "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)\nstrategy s for f = try(lower) ; vectorize(x, vector(f32))\n",
        right: "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)\nstrategy s for f = lowerToC ; lower\n";

    /// Rules are decided when a file is loaded: by a proof for all sizes, types and values, or by tests on
    /// special values, values of all magnitudes and those that the rule mentions. The message shows an instance
    /// for which the sides differ. A rule that may change rounding says so: `rule name(…) rounds: …`.
    WRONG_RULE = Code("E1117"), "the rule does not hold",
        wrong: "rule swap(x, y): x - y => y - x\n",
        right: "rule swap(x, y): x + y => y + x\n";

    /// There is no instance of the rule's left side to which it applies: its conditions contradict each other,
    /// or its sides have different sizes.
    UNTESTED = Code("E1118"), "the rule could not be tested",
        wrong: "rule half(x): x |> split(2) |> join => x where 2 <= 1\n",
        right: "rule half(x): x |> split(2) |> join => x\n";
}
