//! Devices as engines. Every library is opened at run time: one binary runs everywhere and reports the libraries that
//! it did not find.
//!
//! * [`Cuda`]: CUDA C through NVRTC, run by the driver `libcuda`.
//! * [`OpenCl`]: OpenCL C, compiled and run by `libOpenCL`.
//! * [`host`]: what both do in a call: checks, memory, launches.
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
pub use cuda::{Cuda, USUAL};
pub use lathe_device::CODES as TREE_CODES;
pub use opencl::OpenCl;

/// The number of devices of each kind that can be named.
pub const MOST_DEVICES: usize = 16;

/// The devices of a kind, with the names that users write: `cuda`, `cuda:1`, and so on.
fn numbered<E>(kind: &str, device: impl Fn(usize, &'static str) -> E) -> Vec<E> {
    let name = |n: usize| if n == 0 { kind.to_string() } else { format!("{kind}:{n}") };
    (0..MOST_DEVICES).map(|n| device(n, name(n).leak())).collect()
}
