//! Derivatives of kernels, run by the interpreter: beside central differences, and beside one another.

mod common;
mod kernels;
mod random;
mod refusals;
mod shapes;
