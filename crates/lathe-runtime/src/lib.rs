//! Arrays, threads, engines and calls: everything between compiled code and data.
//!
//! * [`array`], [`fill`], [`npy`]: data.
//! * [`pool`]: the threads that run `cpu` loops.

pub mod array;
pub mod codes;
pub mod fill;
pub mod npy;
pub mod pool;
mod scratch;
mod storage;

pub use array::{ArgView, Array, Element};
pub use pool::{Pool, PoolOptions};
