//! Index arithmetic at the ends of 64 bits: interpreter, LLVM and C agree with each other, and with integers that have
//! no end.

mod faults;
mod kernels;
mod random;
mod run;
mod sanitized;
mod steps;
