//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

pub const NAME: Code = Code("E0751");
pub const ILL_FORMED: Code = Code("E0752");
pub const NO_COMPILER: Code = Code("E0819");
pub const COMPILER_FAILED: Code = Code("E0820");
pub const LOAD_FAILED: Code = Code("E0821");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: NAME,
        title: "a name that cannot be written as C",
        explanation: "The kernel's name has no letter or digit that C allows in an identifier, so that no C \
                      program could call it.",
        wrong: "lathe emit f.lathe:`é` --to header",
        right: "lathe emit f.lathe:e --to header",
    },
    CodeInfo {
        code: ILL_FORMED,
        title: "a tree that breaks an invariant",
        explanation: "The function names a buffer, variable or operator that is not in scope, or an operator that its \
                      operands' type has not. The verifier reports such trees in more detail.",
        wrong: "lathe emit broken.tree:f --to c",
        right: "lathe check broken.tree",
    },
    CodeInfo {
        code: NO_COMPILER,
        title: "no C compiler found",
        explanation: "The engine `c` runs the compiler named by the environment variable CC (a path, or a command with arguments), or `cc`.",
        wrong: "CC=/nonexistent lathe run gemm.lathe:gemm --engine c",
        right: "CC=gcc lathe run gemm.lathe:gemm --engine c",
    },
    CodeInfo {
        code: COMPILER_FAILED,
        title: "the C compiler failed",
        explanation: "The C compiler did not accept the emitted source, which is a defect of Lathe; it does not know \
                      a flag, which happens with compilers other than gcc and clang; it took longer than 300 seconds \
                      (LATHE_CC_SECONDS says otherwise); or there is no folder for its files that nobody else can write.",
        wrong: "CC=false lathe run gemm.lathe:gemm --engine c",
        right: "CC=gcc lathe run gemm.lathe:gemm --engine c",
    },
    CodeInfo {
        code: LOAD_FAILED,
        title: "compiled code cannot be loaded",
        explanation: "The system's loader refused the shared object that the C compiler wrote.",
        wrong: "TMPDIR=/mounted-noexec lathe run gemm.lathe:gemm --engine c",
        right: "TMPDIR=/tmp lathe run gemm.lathe:gemm --engine c",
    },
];
