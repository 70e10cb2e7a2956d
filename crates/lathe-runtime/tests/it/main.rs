//! The tests of arrays, calls and engines: one program, because each that is linked has LLVM inside.

mod calls;
mod devices;
mod engines;
mod externals;
mod npy;
mod suite;
mod support;
mod turns;
