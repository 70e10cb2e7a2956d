//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

/// No driver, or no device of that number.
pub const NO_DEVICE: Code = Code("E0841");
/// The compiler of device code is missing, or refused what it was given.
pub const DEVICE_COMPILER: Code = Code("E0842");
/// A call of the driver failed.
pub const DRIVER: Code = Code("E0843");
/// More shared memory, threads or blocks than the device has.
pub const DEVICE_LIMIT: Code = Code("E0844");
/// A kernel that did not end in time.
pub const DEVICE_TIME: Code = Code("E0845");
/// Launches that cannot be written as a list.
pub const LAUNCHES: Code = Code("E0846");

/// A process that was forked from one that uses devices.
pub const FORKED: Code = Code("E0847");
/// A source without the kernel that is wanted.
pub const KERNEL_NAME: Code = Code("E0848");
/// A kernel of the user's that is not translated to the language of a device.
pub const TRANSLATION: Code = Code("E0849");
/// Arguments that are not those of the kernel.
pub const ARGUMENTS: Code = Code("E0850");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: NO_DEVICE,
        title: "no such device",
        explanation: "The driver's library (libcuda.so.1, libOpenCL.so.1) is not on this machine, or the \
                      driver reports no device with the requested number. Devices are numbered from 0.",
        wrong: "lathe run gemm.lathe --device cuda:7",
        right: "lathe run gemm.lathe --device cuda",
    },
    CodeInfo {
        code: DEVICE_COMPILER,
        title: "device code could not be compiled",
        explanation: "CUDA C is compiled by NVRTC, which comes with CUDA or with the Python package nvidia-cuda-nvrtc; it \
                      is searched for at LATHE_NVRTC, in CUDA_HOME, in /usr/local/cuda, among the packages of python3, and \
                      in the system's library path. OpenCL C is compiled by the device's driver.",
        wrong: "LATHE_NVRTC=/nonexistent lathe emit gemm.lathe --to cubin",
        right: "pip install 'nvidia-cuda-nvrtc==13.0.*'",
    },
    CodeInfo {
        code: DRIVER,
        title: "the device's driver reports an error",
        explanation: "A driver call failed; the message quotes the driver. After an invalid \
                      memory access, this process can no longer use the device.",
        wrong: "lathe run big.lathe -D N=1000000000000 --device cuda",
        right: "lathe run big.lathe -D N=1000000 --device cuda",
    },
    CodeInfo {
        code: DEVICE_LIMIT,
        title: "a kernel exceeds a limit of the device",
        explanation: "A block of the kernel has more threads or more shared memory, or the grid has more blocks, than \
                      this device allows. The message has both numbers.",
        wrong: "stage(A, at: i.o, space: shared)  # a tile of 1 MB",
        right: "split(k, 32) ; stage(A, at: k.o, space: shared)",
    },
    CodeInfo {
        code: DEVICE_TIME,
        title: "a kernel timed out",
        explanation: "A call on a device may take 60 seconds, or as many as the environment variable \
                      LATHE_DEVICE_SECONDS sets. A running kernel cannot be stopped; it ends with the process.",
        wrong: "LATHE_DEVICE_SECONDS=1 lathe run slow.lathe --device cuda",
        right: "LATHE_DEVICE_SECONDS=600 lathe run slow.lathe --device cuda",
    },
    CodeInfo {
        code: LAUNCHES,
        title: "launches that cannot be written as a list",
        explanation: "The form `launches` lists every launch with the number of its blocks. The sizes must be known, and \
                      no condition or bound around a grid may depend on a scalar.",
        wrong: "lathe emit gemm.lathe --to launches",
        right: "lathe emit gemm.lathe --to launches --specialize -D M=64 -D N=64 -D K=64",
    },
    CodeInfo {
        code: FORKED,
        title: "a device is used after a fork",
        explanation: "Drivers of devices have threads, and a forked process has none of them. Devices that were opened before \
                      the fork can be used by the parent only.",
        wrong: "multiprocessing with the start method `fork` after the first use of a device",
        right: "multiprocessing.set_start_method(\"spawn\")",
    },
    CodeInfo {
        code: KERNEL_NAME,
        title: "a source does not have the kernel",
        explanation: "A source with one kernel needs no name; of several, one must be named. Kernels are functions with \
                      `__global__` (CUDA C) or `__kernel` (OpenCL C) and a body.",
        wrong: "Kernel::cuda(source) for a source with the kernels `first` and `second`",
        right: "Kernel::of(source, Language::Cuda, Some(\"first\"))",
    },
    CodeInfo {
        code: TRANSLATION,
        title: "a kernel is not translated",
        explanation: "A simple kernel in CUDA C runs on devices of OpenCL, and the other way round: qualifiers, numbers of \
                      threads, barriers, atomics on integers and names of math functions are translated. The message names \
                      what has no counterpart.",
        wrong: "__shfl_down_sync(mask, x, 1) on a device of OpenCL",
        right: "shared memory and barriers",
    },
    CodeInfo {
        code: ARGUMENTS,
        title: "arguments that a kernel does not take",
        explanation: "A launch gives one argument for every parameter, in order: a buffer for a pointer, with what the kernel \
                      does with it, and a scalar of the same size for a scalar. Buffers belong to the devices of the launch.",
        wrong: "device.launch(&scale, grid, &[(&y).into()])",
        right: "device.launch(&scale, grid, &[write(&y), read(&x), 2.0f32.into()])",
    },
];
