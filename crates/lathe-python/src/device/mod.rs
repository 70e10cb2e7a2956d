//! Devices for programs in Python: `lathe.device`.
//!
//! * `open`: devices, what they count, and their profile; `launch`: launches on one of them, and calls of libraries.
//! * `part`: buffers and their parts; `elements`: the types of their elements.
//! * `kernel`: kernels in CUDA C and OpenCL C; `compiled`: kernels of Lathe on buffers.
//! * `arguments`: what launches are given. `memory`: buffers as a library sees them during a call.
//! * `away`: how the interpreter's lock is released while devices are used.

mod arguments;
mod away;
mod compiled;
mod elements;
mod kernel;
mod launch;
mod memory;
mod open;
mod part;

pub use arguments::{Grid, Tagged, dim3, nd_range, read, read_write, write};
pub use kernel::{DeviceKernel, to_cuda, to_opencl};
pub use launch::{Device, Launch, Sequence};
pub use memory::DeviceMemory;
pub use open::{DeviceProfile, Devices};
pub use part::Part;
