//! The codes of this crate: E0301 to E0309 for tree text, from E0310 on for the verifier.

use lathe_diagnostics::Code;

/// A character or quoted text that means nothing.
pub const BAD_TOKEN: Code = Code("E0301");
/// Something else was expected here.
pub const SYNTAX: Code = Code("E0302");
/// A name that nothing in scope has.
pub const UNKNOWN_NAME: Code = Code("E0303");
/// Brackets, blocks or operators nest too deep.
pub const TOO_DEEP: Code = Code("E0304");
/// One name or number for two things.
pub const BOUND_TWICE: Code = Code("E0305");
/// A number that does not fit, or does not say its type.
pub const BAD_NUMBER: Code = Code("E0306");
