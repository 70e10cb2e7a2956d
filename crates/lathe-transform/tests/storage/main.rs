//! The storage rules on whole programs, compared with the interpreter.

mod common;
mod computed;
mod first;
mod gemm;
mod random;
mod rules;
mod scans;
