//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The kernel's name has no letter or digit that C allows in an identifier, so that no C program could call
    /// it.
    NAME = Code("E0751"), "a name that cannot be written as C",
        wrong: "lathe emit f.lathe:`é` --to header",
        right: "lathe emit f.lathe:e --to header";

    /// The function names a buffer, variable or operator that is not in scope, or an operator that its
    /// operands' type has not. The verifier reports such trees in more detail.
    ILL_FORMED = Code("E0752"), "a tree that breaks an invariant",
        wrong: "lathe emit broken.tree:f --to c",
        right: "lathe check broken.tree";

    /// The engine `c` runs the compiler named by the environment variable CC (a path, or a command with
    /// arguments), or `cc`.
    NO_COMPILER = Code("E0819"), "no C compiler found",
        wrong: "CC=/nonexistent lathe run gemm.lathe:gemm --engine c",
        right: "CC=gcc lathe run gemm.lathe:gemm --engine c";

    /// The C compiler did not accept the emitted source, which is a defect of Lathe; it does not know a flag,
    /// which happens with compilers other than gcc and clang; it took longer than 300 seconds (LATHE_CC_SECONDS
    /// says otherwise); or there is no folder for its files that nobody else can write.
    COMPILER_FAILED = Code("E0820"), "the C compiler failed",
        wrong: "CC=false lathe run gemm.lathe:gemm --engine c",
        right: "CC=gcc lathe run gemm.lathe:gemm --engine c";

    /// The system's loader refused the shared object that the C compiler wrote.
    LOAD_FAILED = Code("E0821"), "compiled code cannot be loaded",
        wrong: "TMPDIR=/mounted-noexec lathe run gemm.lathe:gemm --engine c",
        right: "TMPDIR=/tmp lathe run gemm.lathe:gemm --engine c";
}
