//! Arrays, threads, engines and calls: everything between compiled code and data.
//!
//! * [`mod@array`], [`fill`], [`npy`]: data.
//! * [`pool`]: the threads that run `cpu` loops.
//! * `stop`: limits of calls, and how code is left before its end.
//! * [`externals`]: functions of others that kernels call.
//! * [`engine`], [`call`]: the engines of this build; kernels and how they are called; `locals`: what their arrays take.

pub mod array;
pub mod call;
pub mod codes;
pub mod engine;
pub mod externals;
pub mod fill;
mod launch;
mod locals;
pub mod npy;
pub mod pool;
mod region;
mod scratch;
mod signature;
mod stop;
mod storage;
mod watch;

pub use array::{ArgView, Array, Element};
pub use call::check_message;
pub use codes::CODES;
pub use engine::{Engine, General, Kernel, compile};
pub use lathe_engine::{DeviceRun, Object, Options};
pub use locals::Locals;
pub use pool::{PLACEMENT, Placement, Pool, PoolOptions};
pub use stop::Limits;
pub use storage::available_memory;

/// Devices: which there are, buffers, launches.
pub mod device {
    pub use crate::launch::{Views, add, start, start_on};
    pub use lathe_gpu::USUAL;
    pub use lathe_gpu::device::*;
    pub use lathe_gpu::info::{DeviceInfo, architecture, devices, devices_of, libraries};
}

/// The codes of devices.
pub mod device_codes {
    pub use lathe_gpu::CODES;
    pub use lathe_gpu::TREE_CODES;
    pub use lathe_gpu::codes::{ARGUMENTS, DEVICE_COMPILER, DEVICE_LIMIT, DEVICE_TIME, DRIVER, NO_DEVICE};
    pub use lathe_host::CODES as HOST_CODES;
    pub use lathe_host::codes::{FAILED, LOST, MEMORY, PART};
}
