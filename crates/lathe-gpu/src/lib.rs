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
pub mod device;
mod drivers;
mod fork;
mod function;
pub mod host;
pub mod info;
mod kept;
mod kernels;
pub mod launches;
mod library;
mod limit;
mod line;
mod loaded;
mod marks;
mod nccl;
pub mod nvrtc;
mod opencl;
mod split;
pub mod work;

#[cfg(test)]
mod fake;
/// Random programs, as simulated devices run them.
#[cfg(test)]
#[path = "../../lathe-host/tests/it/random.rs"]
mod random;

/// How many random programs: 40, or a tenth of `LATHE_CASES`: each takes milliseconds on a real driver.
#[cfg(test)]
fn cases() -> u64 {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse::<u64>().ok()).map_or(40, |n| (n / 10).max(40))
}

pub use codes::CODES;
pub use cuda::{Cuda, USUAL};
pub use kept::Hosted;
pub use lathe_device::CODES as TREE_CODES;
pub use opencl::OpenCl;

/// The number of devices of each kind that can be named.
pub const MOST_DEVICES: usize = 16;

/// The devices of a kind, with the names that users write: `cuda`, `cuda:1`, and so on.
fn numbered<E>(kind: &str, device: impl Fn(usize, &'static str) -> E) -> Vec<E> {
    let name = |n: usize| if n == 0 { kind.to_string() } else { format!("{kind}:{n}") };
    (0..MOST_DEVICES).map(|n| device(n, name(n).leak())).collect()
}
