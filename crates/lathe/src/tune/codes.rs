//! Codes of the tuner's session.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The tuner searches the parameters of a strategy that have ranges. If a strategy only selects another one
    /// by sizes, the selected one is searched.
    NOTHING_TO_TUNE = Code("E1085"), "a strategy without parameters to search",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8 in 8..=64 step 8) for copy = split(i, t)";

    /// Every configuration that was tried was refused, failed to compile, crashed, took too long or gave a
    /// wrong result. The message counts the reasons and shows one of each kind.
    NOTHING_VALID = Code("E1086"), "no valid configuration was found",
        wrong: "lathe tune program.json   # whose run script always fails",
        right: "lathe tune program.json   # after ./run.sh works by hand";

    /// `lathe tune FILE` takes a program with `#atf::` directives or a JSON form with tuning parameters and
    /// scripts; `--space FILE` takes these and the T1 format.
    FORM = Code("E1087"), "the file does not describe a tuning problem",
        wrong: "lathe tune notes.txt",
        right: "lathe tune saxpy.json";

    /// An option does not apply to this kind of tuning, for example a strategy for a program that is tuned by
    /// scripts.
    OPTIONS = Code("E1088"), "incompatible options",
        wrong: "lathe tune saxpy.json --strategy fast",
        right: "lathe tune saxpy.json --budget 60s";

    /// There is no valid configuration to draw, or drawing failed.
    PLOT = Code("E1089"), "a picture cannot be drawn",
        wrong: "lathe tune program.json --plot picture.svg   # with no valid configuration",
        right: "lathe tune gemm.lathe:gemm --strategy packed -D M=64 -D N=64 -D K=64 --plot picture.svg";
}
