//! What a kernel that is debugged shows, and where.

use lathe_diagnostics::Span;
use lathe_ir::{Buffer, Type};
use std::sync::Arc;

/// A `print` or an `assert`.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    pub span: Span,
    /// Whether it is an `assert`; its record says that it failed.
    pub is_assert: bool,
    /// What it says.
    pub parts: Vec<Part>,
    /// The names in the condition of an `assert` and the loops around it, by what they are called in the source.
    pub named: Vec<(String, Type)>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Value(Type),
}

/// What a kernel shows, while it is made.
#[derive(Default)]
pub struct Log {
    /// The array that sites write to, if the kernel is debugged.
    pub buffer: Option<Arc<Buffer>>,
    pub sites: Vec<Site>,
}
