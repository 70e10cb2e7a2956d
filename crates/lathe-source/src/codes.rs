//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

pub const UNSUPPORTED: Code = Code("E0751");
pub const ILL_FORMED: Code = Code("E0752");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNSUPPORTED,
        title: "a construct that cannot be written as C",
        explanation: "C with OpenMP is emitted for functions of serial, unrolled, vector and cpu loops. Barriers, \
                      asynchronous statements, atomics, device executors, swizzled layouts and sizes that no \
                      parameter's extent gives are refused by name.",
        wrong: "lathe emit barrier.tree:f --to c",
        right: "lathe emit gemm.lathe:gemm --to c",
    },
    CodeInfo {
        code: ILL_FORMED,
        title: "a tree that breaks an invariant",
        explanation: "The function names a buffer, variable or operator that is not in scope, or an operator that its \
                      operands' type has not. The verifier reports such trees in more detail.",
        wrong: "lathe emit broken.tree:f --to c",
        right: "lathe check broken.tree",
    },
];
