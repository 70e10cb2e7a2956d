//! The diagnostics of binding parameters.

use lathe_diagnostics::{Code, CodeInfo};

/// An unknown parameter, a missing value, or one of the wrong type.
pub const PARAMETER: Code = Code("E0601");
/// A value outside of the parameter's range.
pub const RANGE: Code = Code("E0602");
/// A `where` condition that does not hold.
pub const CONSTRAINT: Code = Code("E0603");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: PARAMETER,
        title: "unknown or unusable parameter",
        explanation: "A parameter of a strategy was set that it does not have, has no value, or got a value of \
                      another type.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 0.5) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 8) for copy = split(i, t)",
    },
    CodeInfo {
        code: RANGE,
        title: "value outside of the parameter's range",
        explanation: "A parameter with a range was given a value that is not in it.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 9 in 8..=64 step 8) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 16 in 8..=64 step 8) for copy = split(i, t)",
    },
    CodeInfo {
        code: CONSTRAINT,
        title: "constraint of a strategy does not hold",
        explanation: "The parameters of a strategy violate its `where` condition.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8, u = 3 where divides(u, t)) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8, u = 4 where divides(u, t)) for copy = split(i, t)",
    },
];
