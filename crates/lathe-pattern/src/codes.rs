//! The diagnostics of patterns.

use lathe_diagnostics::{Code, CodeInfo};

/// Text that is not a term.
pub const SYNTAX: Code = Code("E1101");
/// A name that nothing in scope has.
pub const UNKNOWN: Code = Code("E1102");
/// Two sizes differ.
pub const SIZES: Code = Code("E1103");
/// Two types differ.
pub const TYPES: Code = Code("E1104");
/// A function where data is wanted.
pub const NOT_DATA: Code = Code("E1105");
/// Inference has nothing to go by.
pub const UNDETERMINED: Code = Code("E1106");
/// A size that cannot divide, or a part that is larger than the whole.
pub const DOES_NOT_FIT: Code = Code("E1107");
/// Wrong arguments of a primitive.
pub const ARGUMENTS: Code = Code("E1108");
/// A size beyond 64 bits.
pub const HUGE: Code = Code("E1109");
/// The evaluator has no value for it.
pub const NO_VALUE: Code = Code("E1110");
/// A term that does not say how it is computed.
pub const HIGH_LEVEL: Code = Code("E1111");
/// A result that is kept nowhere.
pub const NOT_STORED: Code = Code("E1112");
/// What the translation does not do.
pub const UNSUPPORTED: Code = Code("E1113");
/// A rule that does not apply.
pub const NO_MATCH: Code = Code("E1114");
/// A rule that changed a type.
pub const TYPE_CHANGED: Code = Code("E1115");
/// `lower` where it cannot stand.
pub const MISPLACED: Code = Code("E1116");
/// A rule that does not hold.
pub const WRONG_RULE: Code = Code("E1117");
/// A rule that nothing shows to hold.
pub const UNTESTED: Code = Code("E1118");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: SYNTAX,
        title: "no term",
        explanation: "The text of a fun, or of a pattern of a rule, cannot be read.",
        wrong: "fun f(xs: f32[N]) -> f32[N] = map(|x x + x, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)",
    },
    CodeInfo {
        code: UNKNOWN,
        title: "unknown name in a fun",
        explanation: "A fun uses a name that is not a parameter, size, fun or primitive.",
        wrong: "fun f(xs: f32[N]) -> f32[N] = mop(|x| x + x, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)",
    },
    CodeInfo {
        code: SIZES,
        title: "sizes differ",
        explanation: "Two arrays must have the same size, but their types have different ones.",
        wrong: "fun f(xs: f32[N], ys: f32[M]) -> f32[N] = zip(xs, ys) |> map(|(x, y)| x + y)",
        right: "fun f(xs: f32[N], ys: f32[N]) -> f32[N] = zip(xs, ys) |> map(|(x, y)| x + y)",
    },
    CodeInfo {
        code: TYPES,
        title: "types differ",
        explanation: "A function is applied to an argument of the wrong type.",
        wrong: "fun f(xs: f32[N]) -> f32[N] = transpose(xs)",
        right: "fun f(xs: f32[N, M]) -> f32[M, N] = transpose(xs)",
    },
    CodeInfo {
        code: NOT_DATA,
        title: "a function where a value is expected",
        explanation: "Arrays and tuples contain data. A function can be passed as an argument, but not stored.",
        wrong: "fun f(xs: f32[N]) -> f32[N] = map(|x| |y| x + y, xs)",
        right: "fun f(xs: f32[N]) -> f32[N] = map(|x| x + x, xs)",
    },
    CodeInfo {
        code: UNDETERMINED,
        title: "type cannot be inferred",
        explanation: "The type or the size of a part of the fun is not determined.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: DOES_NOT_FIT,
        title: "an impossible size",
        explanation: "`split`, `slide` and `asVector` need sizes that divide; `take` and `drop` need enough elements.",
        wrong: "fun f(xs: f32[8]) -> f32[2, 3] = split(3, xs)",
        right: "fun f(xs: f32[8]) -> f32[2, 4] = split(4, xs)",
    },
    CodeInfo {
        code: ARGUMENTS,
        title: "wrong arguments of a primitive",
        explanation: "A primitive is used with wrong arguments.",
        wrong: "fun f(xs: f32[8]) -> f32[2, 4] = split(xs)",
        right: "fun f(xs: f32[8]) -> f32[2, 4] = split(4, xs)",
    },
    CodeInfo {
        code: HUGE,
        title: "size beyond 64 bits",
        explanation: "A size of the program cannot be held in 64 bits.",
        wrong: "fun f(x: f32) -> f32 = reduce(add, 0, generate(9223372036854775807 * 2, |i| x))",
        right: "fun f(x: f32) -> f32 = reduce(add, 0, generate(1024, |i| x))",
    },
    CodeInfo {
        code: NO_VALUE,
        title: "a term without a value",
        explanation: "Evaluation divides by zero, uses an index out of range, or reads an element that does not exist.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: HIGH_LEVEL,
        title: "how to compute it is not decided",
        explanation: "A term can be translated once every `map`, `reduce`, `scan` and `iterate` that computes is replaced by a low-level primitive.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: NOT_STORED,
        title: "a result without memory",
        explanation: "A computed array must be stored in memory before it is read: `toMem(space, e, |x| ...)`.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: UNSUPPORTED,
        title: "not translated",
        explanation: "The term is well typed, but has no translation.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: NO_MATCH,
        title: "the rule does not apply",
        explanation: "A rule was applied to a term that does not match its left side, or does not meet its conditions.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: TYPE_CHANGED,
        title: "the rule changes a type",
        explanation: "A rule must give a term of the type that it was applied to.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: MISPLACED,
        title: "a step on the wrong side of `lower`",
        explanation: "A strategy of a fun is a sequence: steps on terms, `lower`, steps on loops. `lower` cannot be used in a choice, repeated, or applied at a location, and `auto` and `mdh`, which take decisions for a fun as a whole, cannot come after it.",
        wrong: "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)\nstrategy s for f = try(lower) ; vectorize(x, vector(f32))\n",
        right: "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)\nstrategy s for f = lowerToC ; lower\n",
    },
    CodeInfo {
        code: WRONG_RULE,
        title: "the rule does not hold",
        explanation: "Rules are decided when a file is loaded: by a proof for all sizes, types and values, or by tests on special values, values of all magnitudes and those that the rule mentions. The message shows an instance for which the sides differ. A rule that may change rounding says so: `rule name(…) rounds: …`.",
        wrong: "rule swap(x, y): x - y => y - x\n",
        right: "rule swap(x, y): x + y => y + x\n",
    },
    CodeInfo {
        code: UNTESTED,
        title: "the rule could not be tested",
        explanation: "There is no instance of the rule's left side to which it applies: its conditions contradict each other, or its sides have different sizes.",
        wrong: "rule half(x): x |> split(2) |> join => x where 2 <= 1\n",
        right: "rule half(x): x |> split(2) |> join => x\n",
    },
];
