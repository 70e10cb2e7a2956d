//! The diagnostics of binding parameters.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// A parameter of a strategy was set that it does not have, has no value, or got a value of another type.
    PARAMETER = Code("E0601"), "unknown or invalid parameter",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 0.5) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t: int = 8) for copy = split(i, t)";

    /// A parameter with a range was given a value that is not in it.
    RANGE = Code("E0602"), "value out of the parameter's range",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 9 in 8..=64 step 8) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 16 in 8..=64 step 8) for copy = split(i, t)";

    /// The parameters of a strategy violate its `where` condition.
    CONSTRAINT = Code("E0603"), "constraint of a strategy does not hold",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8, u = 3 where divides(u, t)) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8, u = 4 where divides(u, t)) for copy = split(i, t)";

    /// Every tuning parameter needs a name that no other parameter and no constant has.
    SPACE_NAME = Code("E1001"), "duplicate or missing name of a tuning parameter",
        wrong: "{ \"tuning_parameters\": [ { \"name\": \"t\", \"range\": [1, 2] }, { \"name\": \"t\", \"range\": [4] } ] }",
        right: "{ \"tuning_parameters\": [ { \"name\": \"t\", \"range\": [1, 2] }, { \"name\": \"u\", \"range\": [4] } ] }";

    /// Ranges and constraints mention tuning parameters, constants with a value, and known functions.
    SPACE_UNKNOWN = Code("E1002"), "unknown name in a range or constraint",
        wrong: "#atf::tp name \"T\" range interval<int>(1, 64) constraint divides(N)",
        right: "#atf::var::N 64\n#atf::tp name \"T\" range interval<int>(1, 64) constraint divides(N)";

    /// Constraints may refer to other parameters in any order, but not cyclically: a condition is written at
    /// one of the parameters that it mentions.
    SPACE_CYCLE = Code("E1003"), "circular constraints",
        wrong: "#atf::tp name \"A\" range interval<int>(1, 8) constraint divides(B)\n#atf::tp name \"B\" range interval<int>(1, 8) constraint multiple_of(A)",
        right: "#atf::tp name \"A\" range interval<int>(1, 8)\n#atf::tp name \"B\" range interval<int>(1, 8) constraint multiple_of(A)";

    /// The range of a tuning parameter has no values, infinitely or too many, values of another type, or bounds
    /// that cannot be evaluated.
    SPACE_RANGE = Code("E1004"), "unusable range",
        wrong: "#atf::tp name \"T\" range interval<int>(8, 1)",
        right: "#atf::tp name \"T\" range interval<int>(1, 8)";

    /// No combination of values satisfies all constraints, so there is nothing to search.
    SPACE_EMPTY = Code("E1005"), "no valid configuration",
        wrong: "#atf::tp name \"T\" range set<int>{3, 5} constraint divides(8)",
        right: "#atf::tp name \"T\" range set<int>{2, 4} constraint divides(8)";

    /// For values that no other constraint excludes, a constraint divides by zero, overflows 64 bits, or is not
    /// a boolean.
    SPACE_CONSTRAINT = Code("E1006"), "constraint that cannot be evaluated",
        wrong: "#atf::tp name \"T\" range interval<int>(0, 8) constraint divides(64)",
        right: "#atf::tp name \"T\" range interval<int>(0, 8) constraint greater_than(0) && divides(64)";

    /// The tree of valid combinations of a group of interdependent parameters exceeds the limit on nodes.
    /// Independent parameters are not affected, however many values they have.
    SPACE_LARGE = Code("E1007"), "too many combinations of dependent parameters";

    /// An `#atf::` directive is unknown, incomplete, given twice, or mentions an argument (`$1`) that was not
    /// given.
    DIRECTIVE = Code("E1010"), "directive that cannot be read",
        wrong: "#atf::tp name \"T\" interval<int>(1, 8)",
        right: "#atf::tp name \"T\" range interval<int>(1, 8)";

    /// The file is not JSON, or its keys or types do not match the JSON form of tuned programs.
    JSON = Code("E1011"), "JSON file that is not a tuning program",
        wrong: "{ \"tuning_parameters\": { \"name\": \"T\", \"range\": { 1, 2 } } }",
        right: "{ \"tuning_parameters\": [ { \"name\": \"T\", \"range\": [1, 2] } ] }";

    /// A T1 file has `ConfigurationSpace` with `TuningParameters` (`Name`, `Type`, `Values`) and `Conditions`,
    /// whose expressions are in a subset of Python: arithmetic, comparisons, `and`, `or`, `not`, `in`.
    T1 = Code("E1012"), "file that is not a T1 space",
        wrong: "{ \"ConfigurationSpace\": { \"TuningParameters\": [ { \"Name\": \"T\", \"Values\": \"[1, 2\" } ] } }",
        right: "{ \"ConfigurationSpace\": { \"TuningParameters\": [ { \"Name\": \"T\", \"Type\": \"int\", \"Values\": \"[1, 2]\" } ] } }";
}
