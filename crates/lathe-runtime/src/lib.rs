//! Arrays, threads, engines and calls: everything between compiled code and data.
//!
//! * [`mod@array`], [`fill`], [`npy`]: data.
//! * [`pool`]: the threads that run `cpu` loops.
//! * [`engine`], [`call`]: functions of the tree become kernels; kernels are called.

pub mod array;
pub mod call;
mod cc;
pub mod codes;
pub mod engine;
pub mod fill;
pub mod npy;
pub mod pool;
mod region;
mod scratch;
mod storage;
mod watch;

pub use array::{ArgView, Array, Element};
pub use call::check_message;
pub use codes::CODES;
pub use engine::{Engine, General, Kernel, Object, Options, compile};
#[cfg(feature = "llvm")]
pub use engine::{host, object};
pub use pool::{Pool, PoolOptions};
pub use storage::available_memory;
