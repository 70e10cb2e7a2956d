//! Tree to C.

pub mod codes;
mod names;

pub use codes::CODES;

use lathe_abi::CheckKind;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {}

/// What [`emit_c`] makes.
#[derive(Clone, Debug)]
pub struct CSource {
    /// A whole C file that needs nothing but the C library.
    pub source: String,
    /// The declarations for callers.
    pub header: String,
    /// What the numbers that the kernel returns stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
}

/// The C name of a function's kernel.
pub fn symbol(func: &Function) -> String {
    names::Names::default().fresh(&func.name)
}

pub fn emit_c(_module: &Module, func: &Function, _options: &Options) -> Result<CSource, Diagnostic> {
    Err(Diagnostic::error(codes::UNSUPPORTED, format!("`{}` cannot be written as C", func.name)))
}

pub fn header(func: &Function) -> Result<String, Diagnostic> {
    Err(Diagnostic::error(codes::UNSUPPORTED, format!("`{}` cannot be written as C", func.name)))
}
