//! Tree to C: a file that people can read and every C compiler with GNU extensions takes, with the
//! same interface, the same checks and the same bits as the LLVM engine.
//!
//! * [`CEngine`]: the engine `c`, which runs the machine's C compiler on that file.
//! * [`emit_c`]: the file. Parallel loops go through the table of `lathe-abi`, or through OpenMP when it
//!   is compiled with `-DLATHE_STANDALONE -fopenmp`.
//! * [`device`]: the kernels of a device tree as CUDA C or OpenCL C, by the same printer.
//! * [`header`]: what callers of either engine's code include.

mod atomics;
mod by_reference;
mod cc;
pub mod codes;
pub mod device;
mod emit;
mod expr;
mod externals;
mod header;
mod helpers;
mod kernel;
mod names;
mod registers;
mod stmt;
mod vector;
mod writer;

pub use cc::CEngine;
pub use codes::CODES;
pub use header::{header, symbol};
pub use kernel::emit_c;

use lathe_abi::CheckKind;

/// How to write C.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    /// Writes vector loops as plain loops over their lanes: slower, and the most readable.
    pub lane_loops_only: bool,
}

/// What [`emit_c`] makes.
#[derive(Clone, Debug)]
pub struct CSource {
    /// A whole C file that needs nothing but the C library.
    pub source: String,
    /// The declarations for callers; `source` contains them.
    pub header: String,
    /// What the numbers that the kernel returns stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
}
