//! Codes of the tuner's session.

use lathe_diagnostics::{Code, CodeInfo};

/// A strategy without parameters to search.
pub const NOTHING_TO_TUNE: Code = Code("E1085");
/// Every configuration that was tried is invalid.
pub const NOTHING_VALID: Code = Code("E1086");
/// A file that is none of the forms of tuning programs and spaces.
pub const FORM: Code = Code("E1087");
/// Options that do not go together.
pub const OPTIONS: Code = Code("E1088");
/// A picture cannot be drawn.
pub const PLOT: Code = Code("E1089");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: NOTHING_TO_TUNE,
        title: "a strategy without parameters to search",
        explanation: "The tuner searches the parameters of a strategy that have ranges. If a strategy only \
                      selects another one by sizes, the selected one is searched.",
        wrong: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8) for copy = split(i, t)",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}\nstrategy s(t = 8 in 8..=64 step 8) for copy = split(i, t)",
    },
    CodeInfo {
        code: NOTHING_VALID,
        title: "no valid configuration was found",
        explanation: "Every configuration that was tried was refused, failed to compile, crashed, took too long or \
                      gave a wrong result. The message counts the reasons and shows one of each kind.",
        wrong: "lathe tune program.json   # whose run script always fails",
        right: "lathe tune program.json   # after ./run.sh works by hand",
    },
    CodeInfo {
        code: FORM,
        title: "the file does not describe a tuning problem",
        explanation: "`lathe tune FILE` takes a program with `#atf::` directives or a JSON form with tuning \
                      parameters and scripts; `--space FILE` takes these and the T1 format.",
        wrong: "lathe tune notes.txt",
        right: "lathe tune saxpy.json",
    },
    CodeInfo {
        code: OPTIONS,
        title: "incompatible options",
        explanation: "An option does not apply to this kind of tuning, for example a strategy for a program \
                      that is tuned by scripts.",
        wrong: "lathe tune saxpy.json --strategy fast",
        right: "lathe tune saxpy.json --budget 60s",
    },
    CodeInfo {
        code: PLOT,
        title: "a picture cannot be drawn",
        explanation: "There is no valid configuration to draw, or drawing failed.",
        wrong: "lathe tune program.json --plot picture.svg   # with no valid configuration",
        right: "lathe tune gemm.lathe:gemm --strategy packed -D M=64 -D N=64 -D K=64 --plot picture.svg",
    },
];
