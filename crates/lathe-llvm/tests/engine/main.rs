//! The engine against references and against the interpreter.

mod common;
mod kernel;
mod serial;
