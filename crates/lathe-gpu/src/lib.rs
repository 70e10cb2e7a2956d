//! Devices as engines. Every library is opened at run time: one binary runs everywhere and says what it did not find.
//!
//! * [`Cuda`]: CUDA C through NVRTC, run by the driver `libcuda`.
//! * [`OpenCl`]: OpenCL C, compiled and run by `libOpenCL`.
//! * [`host`]: what both do at a call: checks, memory, launches.
//! * [`launches`]: the same written down, for programs that load a cubin themselves.

mod call;
pub mod codes;
mod cuda;
pub mod host;
pub mod info;
mod kept;
pub mod launches;
mod library;
pub mod nvrtc;
mod opencl;

pub use codes::CODES;
pub use cuda::Cuda;
pub use lathe_device::CODES as TREE_CODES;
pub use opencl::OpenCl;

/// So many devices of each kind can be named.
pub const MOST_DEVICES: usize = 16;
