//! Derivatives of kernels, run by the interpreter: beside central differences, and beside one another.

mod common;
mod files;
mod points;
mod random;
mod threads;
