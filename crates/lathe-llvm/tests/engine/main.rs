//! The engine against references and against the interpreter.

mod checks;
mod common;
mod kernel;
mod lanes;
mod oracle;
mod parts;
mod structure;
