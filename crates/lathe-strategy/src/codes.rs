//! The diagnostics of the interpreter of strategies.

use lathe_diagnostics::Code;

/// A step where a value is wanted, or the other way round; `lathe-lang` documents it.
pub const KIND: Code = Code("E0109");
/// A parameter that is none; `lathe-lang` documents it.
pub const PARAMETER: Code = Code("E0110");

/// A kernel with a strategy, joined at compile time.
macro_rules! with {
    ($text:literal) => {
        concat!("kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\n", $text)
    };
}

lathe_diagnostics::codes! {
    /// A strategy uses a step that is neither a rule, nor a strategy in scope, nor a combinator.
    UNKNOWN_STEP = Code("E0605"), "unknown step",
        wrong: with!("strategy s for copy = spilt(i, 8)"),
        right: with!("strategy s for copy = split(i, 8)");

    /// A strategy or a combinator is called with arguments that it does not accept.
    CALL = Code("E0606"), "wrong arguments of a strategy",
        wrong: with!("strategy blocks(t = 8) = split(i, t)\nstrategy s for copy = blocks(8, 9)"),
        right: with!("strategy blocks(t = 8) = split(i, t)\nstrategy s for copy = blocks(16)");

    /// The condition of an `if` in a strategy may use parameters, machine facts and sizes.
    CONDITION = Code("E0607"), "condition of a strategy cannot be decided",
        wrong: with!("strategy s for copy = if Q > 8 then split(i, 8) else id"),
        right: with!("strategy s for copy = if N > 8 then split(i, 8) else id");

    /// A strategy calls itself, or repeats a step, without terminating.
    DIVERGES = Code("E0608"), "strategy without end",
        wrong: with!("strategy more = split(i, 8) <+ more\nstrategy s for copy = parallel(i) ; more"),
        right: with!("strategy s for copy = split(i, 8) ; try(parallel(i.o))");

    /// A step is applied at a place that does not exist, or is ambiguous.
    LOCATION = Code("E0609"), "no such place",
        wrong: with!("strategy s for copy = split(i, 8) @ stmt(C)"),
        right: with!("strategy s for copy = split(i, 8) @ stmt(B)");

    /// An argument of a step divides by zero, overflows, or divides with `/` and has a remainder.
    ARITHMETIC = Code("E0610"), "arithmetic in a strategy fails",
        wrong: with!("strategy s(t = 7) for copy = split(i, t / 2)"),
        right: with!("strategy s(t = 7) for copy = split(i, t // 2)");

    /// The strategy reached `fail`.
    FAILED = Code("E0611"), "the strategy fails",
        wrong: with!("strategy s for copy = fail"),
        right: with!("strategy s for copy = fail <+ split(i, 8)");

    /// Evidence was replayed on another program, or with another version of a rule.
    REPLAY = Code("E0612"), "stored evidence does not match";
}
