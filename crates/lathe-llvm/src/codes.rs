//! The codes of this crate's messages.

use lathe_diagnostics::{Code, CodeInfo};

/// A construct that this engine does not take.
pub const UNSUPPORTED: Code = Code("E0701");
/// A vector loop that several lanes of which update one place.
pub const LANES_COLLIDE: Code = Code("E0702");
/// Options that name an unknown machine.
pub const MACHINE: Code = Code("E0703");
/// LLVM rejected what this crate made: a defect of Lathe.
pub const DEFECT: Code = Code("E0704");
/// An object file that cannot be loaded.
pub const OBJECT: Code = Code("E0705");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: UNSUPPORTED,
        title: "the LLVM engine does not take this construct",
        explanation: "The program is a legal tree, but it holds something that this engine cannot turn into \
                      machine code yet: an executor of another machine, an atomic, a barrier, an asynchronous \
                      copy, or a compute that was not opened into loops. The message names it. The interpreter \
                      still runs such programs.",
        wrong: "strategy s for gemm = parallel(i, team)",
        right: "strategy s for gemm = parallel(i)",
    },
    CodeInfo {
        code: LANES_COLLIDE,
        title: "the lanes of a vector loop update one place",
        explanation: "A statement inside a vector loop writes an element that does not depend on the loop, so \
                      all lanes would write it at once. A reduction must first be split into one partial result \
                      per lane.",
        wrong: "strategy s for dot = vectorize(k, 16)",
        right: "strategy s for dot = factor(k, 16) ; vectorize(k.i, 16)",
    },
    CodeInfo {
        code: MACHINE,
        title: "LLVM does not know the machine",
        explanation: "The processor or the list of its features that was asked for is not one that LLVM can \
                      generate code for. Leave both out to compile for the machine at hand.",
        wrong: "lathe emit gemm.lathe --to asm --cpu nonesuch",
        right: "lathe emit gemm.lathe --to asm",
    },
    CodeInfo {
        code: DEFECT,
        title: "the generated code is malformed",
        explanation: "LLVM's verifier rejected the code that Lathe generated. This is a defect of Lathe; please \
                      report it with the program and the strategy.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: OBJECT,
        title: "the object file cannot be loaded",
        explanation: "The bytes are no object file for this machine, or the kernel's symbol is not defined in \
                      it. Objects in the store are made anew when they do not load.",
        wrong: "",
        right: "",
    },
];
