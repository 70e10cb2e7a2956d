//! The diagnostics of binding parameters.

use lathe_diagnostics::{Code, CodeInfo};

/// An unknown parameter, a missing value, or one of the wrong type.
pub const PARAMETER: Code = Code("E0601");
/// A value out of the parameter's range.
pub const RANGE: Code = Code("E0602");
/// A `where` condition that does not hold.
pub const CONSTRAINT: Code = Code("E0603");

/// A duplicate or missing name.
pub const SPACE_NAME: Code = Code("E1001");
/// An unknown name or function in a range or constraint.
pub const SPACE_UNKNOWN: Code = Code("E1002");
/// Constraints that refer to each other cyclically.
pub const SPACE_CYCLE: Code = Code("E1003");
/// An empty range, or one whose values cannot be found.
pub const SPACE_RANGE: Code = Code("E1004");
/// No configuration satisfies the constraints.
pub const SPACE_EMPTY: Code = Code("E1005");
/// A constraint that cannot be evaluated.
pub const SPACE_CONSTRAINT: Code = Code("E1006");
/// More nodes than memory may hold.
pub const SPACE_LARGE: Code = Code("E1007");
/// A directive that cannot be read.
pub const DIRECTIVE: Code = Code("E1010");
/// A JSON file that is not ATF's form.
pub const JSON: Code = Code("E1011");
/// A file that is not T1.
pub const T1: Code = Code("E1012");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: PARAMETER,
        title: "unknown or invalid parameter",
        explanation: "A parameter of a strategy was set that it does not have, has no value, or got a value of \
                      another type.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 0.5) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 8) for copy = split(i, t)",
    },
    CodeInfo {
        code: RANGE,
        title: "value out of the parameter's range",
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
    CodeInfo {
        code: SPACE_NAME,
        title: "duplicate or missing name of a tuning parameter",
        explanation: "Every tuning parameter needs a name that no other parameter and no constant has.",
        wrong: "{ \"tuning_parameters\": [ { \"name\": \"t\", \"range\": [1, 2] }, { \"name\": \"t\", \"range\": [4] } ] }",
        right: "{ \"tuning_parameters\": [ { \"name\": \"t\", \"range\": [1, 2] }, { \"name\": \"u\", \"range\": [4] } ] }",
    },
    CodeInfo {
        code: SPACE_UNKNOWN,
        title: "unknown name in a range or constraint",
        explanation: "Ranges and constraints mention tuning parameters, constants with a value, and known functions.",
        wrong: "#atf::tp name \"T\" range interval<int>(1, 64) constraint divides(N)",
        right: "#atf::var::N 64\n#atf::tp name \"T\" range interval<int>(1, 64) constraint divides(N)",
    },
    CodeInfo {
        code: SPACE_CYCLE,
        title: "circular constraints",
        explanation: "Constraints may refer to other parameters in any order, but not cyclically: a condition \
                      is written at one of the parameters that it mentions.",
        wrong: "#atf::tp name \"A\" range interval<int>(1, 8) constraint divides(B)\n#atf::tp name \"B\" range interval<int>(1, 8) constraint multiple_of(A)",
        right: "#atf::tp name \"A\" range interval<int>(1, 8)\n#atf::tp name \"B\" range interval<int>(1, 8) constraint multiple_of(A)",
    },
    CodeInfo {
        code: SPACE_RANGE,
        title: "unusable range",
        explanation: "The range of a tuning parameter has no values, infinitely or too many, values of another type, \
                      or bounds that cannot be evaluated.",
        wrong: "#atf::tp name \"T\" range interval<int>(8, 1)",
        right: "#atf::tp name \"T\" range interval<int>(1, 8)",
    },
    CodeInfo {
        code: SPACE_EMPTY,
        title: "no valid configuration",
        explanation: "No combination of values satisfies all constraints, so there is nothing to search.",
        wrong: "#atf::tp name \"T\" range set<int>{3, 5} constraint divides(8)",
        right: "#atf::tp name \"T\" range set<int>{2, 4} constraint divides(8)",
    },
    CodeInfo {
        code: SPACE_CONSTRAINT,
        title: "constraint that cannot be evaluated",
        explanation: "For values that no other constraint excludes, a constraint divides by zero, overflows \
                      64 bits, or is not a boolean.",
        wrong: "#atf::tp name \"T\" range interval<int>(0, 8) constraint divides(64)",
        right: "#atf::tp name \"T\" range interval<int>(0, 8) constraint greater_than(0) && divides(64)",
    },
    CodeInfo {
        code: SPACE_LARGE,
        title: "too many combinations of dependent parameters",
        explanation: "The tree of valid combinations of a group of interdependent parameters exceeds the \
                      limit on nodes. Independent parameters are not affected, however many values they have.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: DIRECTIVE,
        title: "directive that cannot be read",
        explanation: "An `#atf::` directive is unknown, incomplete, given twice, or mentions an argument (`$1`) that was \
                      not given.",
        wrong: "#atf::tp name \"T\" interval<int>(1, 8)",
        right: "#atf::tp name \"T\" range interval<int>(1, 8)",
    },
    CodeInfo {
        code: JSON,
        title: "JSON file that is not a tuning program",
        explanation: "The file is not JSON, or its keys or types do not match the JSON form of tuned programs.",
        wrong: "{ \"tuning_parameters\": { \"name\": \"T\", \"range\": { 1, 2 } } }",
        right: "{ \"tuning_parameters\": [ { \"name\": \"T\", \"range\": [1, 2] } ] }",
    },
    CodeInfo {
        code: T1,
        title: "file that is not a T1 space",
        explanation: "A T1 file has `ConfigurationSpace` with `TuningParameters` (`Name`, `Type`, `Values`) and `Conditions`, \
                      whose expressions are in a subset of Python: arithmetic, comparisons, `and`, `or`, `not`, `in`.",
        wrong: "{ \"ConfigurationSpace\": { \"TuningParameters\": [ { \"Name\": \"T\", \"Values\": \"[1, 2\" } ] } }",
        right: "{ \"ConfigurationSpace\": { \"TuningParameters\": [ { \"Name\": \"T\", \"Type\": \"int\", \"Values\": \"[1, 2]\" } ] } }",
    },
];
