//! The diagnostics of the interpreter of strategies.

use lathe_diagnostics::{Code, CodeInfo};

/// A step where a value is wanted, or the other way round; `lathe-lang` documents it.
pub const KIND: Code = Code("E0109");
/// A parameter that is none; `lathe-lang` documents it.
pub const PARAMETER: Code = Code("E0110");
/// A step that no rule, definition or combinator has.
pub const UNKNOWN_STEP: Code = Code("E0605");
/// Wrong arguments of a definition or combinator.
pub const CALL: Code = Code("E0606");
/// A condition that cannot be decided.
pub const CONDITION: Code = Code("E0607");
/// A strategy without end.
pub const DIVERGES: Code = Code("E0608");
/// A location that is none, or that denotes no or several places.
pub const LOCATION: Code = Code("E0609");
/// Arithmetic in an argument that fails.
pub const ARITHMETIC: Code = Code("E0610");
/// `fail`.
pub const FAILED: Code = Code("E0611");
/// Stored evidence that does not lead to the same tree.
pub const REPLAY: Code = Code("E0612");

/// A kernel with a strategy, joined at compile time.
macro_rules! with {
    ($text:literal) => {
        concat!("kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n", $text)
    };
}

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNKNOWN_STEP,
        title: "unknown step",
        explanation: "A strategy uses a step that is neither a rule, nor a strategy in scope, nor a combinator.",
        wrong: with!("strategy s for copy = spilt(i, 8)"),
        right: with!("strategy s for copy = split(i, 8)"),
    },
    CodeInfo {
        code: CALL,
        title: "wrong arguments of a strategy",
        explanation: "A strategy or a combinator is called with arguments that it does not accept.",
        wrong: with!("strategy blocks(t = 8) = split(i, t)\nstrategy s for copy = blocks(8, 9)"),
        right: with!("strategy blocks(t = 8) = split(i, t)\nstrategy s for copy = blocks(16)"),
    },
    CodeInfo {
        code: CONDITION,
        title: "condition of a strategy cannot be decided",
        explanation: "The condition of an `if` in a strategy may use parameters, machine facts and sizes.",
        wrong: with!("strategy s for copy = if Q > 8 then split(i, 8) else id"),
        right: with!("strategy s for copy = if N > 8 then split(i, 8) else id"),
    },
    CodeInfo {
        code: DIVERGES,
        title: "strategy without end",
        explanation: "A strategy calls itself, or repeats a step, without terminating.",
        wrong: with!("strategy more = split(i, 8) <+ more\nstrategy s for copy = parallel(i) ; more"),
        right: with!("strategy s for copy = split(i, 8) ; try(parallel(i.o))"),
    },
    CodeInfo {
        code: LOCATION,
        title: "no such place",
        explanation: "A step is applied at a place that does not exist, or is ambiguous.",
        wrong: with!("strategy s for copy = split(i, 8) @ stmt(C)"),
        right: with!("strategy s for copy = split(i, 8) @ stmt(B)"),
    },
    CodeInfo {
        code: ARITHMETIC,
        title: "arithmetic in a strategy fails",
        explanation: "An argument of a step divides by zero, overflows, or divides with `/` and has a remainder.",
        wrong: with!("strategy s(t = 7) for copy = split(i, t / 2)"),
        right: with!("strategy s(t = 7) for copy = split(i, t // 2)"),
    },
    CodeInfo {
        code: FAILED,
        title: "the strategy fails",
        explanation: "The strategy reached `fail`.",
        wrong: with!("strategy s for copy = fail"),
        right: with!("strategy s for copy = fail <+ split(i, 8)"),
    },
    CodeInfo {
        code: REPLAY,
        title: "stored evidence does not match",
        explanation: "Evidence was replayed on another program, or with another version of a rule.",
        wrong: "",
        right: "",
    },
];
