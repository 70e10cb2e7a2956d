//! Devices for programs: buffers that move by themselves, launches that return at once.
//!
//! ```no_run
//! use lathe_gpu::device::{Buffer, Devices, Kernel, dim3, read, write};
//!
//! let devices = Devices::of_kind("cuda")?;
//! let scale = Kernel::cuda("__global__ void scale(float *y, const float *x, float a) {
//!     y[blockIdx.x * blockDim.x + threadIdx.x] = a * x[blockIdx.x * blockDim.x + threadIdx.x];
//! }")?;
//! let x = Buffer::from_slice(&devices, &vec![1.0f32; 1024])?;
//! let y = Buffer::<f32>::new(&devices, 1024)?;
//! for (n, d) in devices.iter().enumerate() {
//!     let part = n * 256..n * 256 + 256;
//!     d.launch(&scale, dim3(1, 256), &[write(y.part(part.clone())?), read(x.part(part)?), 2.0f32.into()])?;
//! }
//! let sum: f32 = y.to_vec()?.iter().sum();
//! # Ok::<(), lathe_diagnostics::Diagnostic>(())
//! ```
//!
//! The design is HCA's (Rasch, section 3): the user names devices and says what kernels read and write; for kernels of
//! Lathe, the compiler says it.

mod arguments;
mod buffer;
mod collective;
mod found;
mod group;
mod kernel;
mod lent;
mod open;
mod plain;
pub mod profile;
mod sequence;
mod shared;
pub mod source;
mod translate;
mod tuned;

pub use crate::nccl::Combine;
pub use arguments::{Argument, Element, Grid, Part, Seen, dim3, nd_range, read, read_write, write};
pub use buffer::{Buffer, BufferIn, Kind, Mapped, MappedBuffer, Pinned, PinnedBuffer, Plain};
pub use kernel::Kernel;
pub use lathe_source::device::Language;
pub use lent::fetch;
pub use open::{Compiled, Counters, Device, Devices, Launch, Library};
pub use sequence::Sequence;
pub use shared::Keep;
pub use translate::{to_cuda, to_opencl};
pub use tuned::{Parameters, Tuned};
