//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The driver's library (libcuda.so.1, libOpenCL.so.1) is not on this machine, or the driver reports no
    /// device with the requested number. Devices are numbered from 0.
    NO_DEVICE = Code("E0841"), "no such device",
        wrong: "lathe run gemm.lathe --device cuda:7",
        right: "lathe run gemm.lathe --device cuda";

    /// CUDA C is compiled by NVRTC, which comes with CUDA or with the Python package nvidia-cuda-nvrtc; it is
    /// searched for at LATHE_NVRTC, in CUDA_HOME, in /usr/local/cuda, among the packages of python3, and in the
    /// system's library path. OpenCL C is compiled by the device's driver.
    DEVICE_COMPILER = Code("E0842"), "device code could not be compiled",
        wrong: "LATHE_NVRTC=/nonexistent lathe emit gemm.lathe --to cubin",
        right: "pip install 'nvidia-cuda-nvrtc==13.0.*'";

    /// A driver call failed; the message quotes the driver. After an invalid memory access, this process can no
    /// longer use the device.
    DRIVER = Code("E0843"), "the device's driver reports an error",
        wrong: "lathe run big.lathe -D N=1000000000000 --device cuda",
        right: "lathe run big.lathe -D N=1000000 --device cuda";

    /// A block of the kernel has more threads or more shared memory, or the grid has more blocks, than this
    /// device allows. The message has both numbers.
    DEVICE_LIMIT = Code("E0844"), "a kernel exceeds a limit of the device",
        wrong: "stage(A, at: i.o, space: shared)  # a tile of 1 MB",
        right: "split(k, 32) ; stage(A, at: k.o, space: shared)";

    /// A call on a device may take 60 seconds, or as many as the environment variable LATHE_DEVICE_SECONDS
    /// sets. A running kernel cannot be stopped; it ends with the process.
    DEVICE_TIME = Code("E0845"), "a kernel timed out",
        wrong: "LATHE_DEVICE_SECONDS=1 lathe run slow.lathe --device cuda",
        right: "LATHE_DEVICE_SECONDS=600 lathe run slow.lathe --device cuda";

    /// The form `launches` lists every launch with the number of its blocks. The sizes must be known, and no
    /// condition or bound around a grid may depend on a scalar.
    LAUNCHES = Code("E0846"), "launches that cannot be written as a list",
        wrong: "lathe emit gemm.lathe --to launches",
        right: "lathe emit gemm.lathe --to launches --specialize -D M=64 -D N=64 -D K=64";

    /// Drivers of devices have threads, and a forked process has none of them. Devices that were opened before
    /// the fork can be used by the parent only.
    FORKED = Code("E0847"), "a device is used after a fork",
        wrong: "multiprocessing with the start method `fork` after the first use of a device",
        right: "multiprocessing.set_start_method(\"spawn\")";

    /// A source with one kernel needs no name; of several, one must be named. Kernels are functions with
    /// `__global__` (CUDA C) or `__kernel` (OpenCL C) and a body.
    KERNEL_NAME = Code("E0848"), "a source does not have the kernel",
        wrong: "Kernel::cuda(source) for a source with the kernels `first` and `second`",
        right: "Kernel::of(source, Language::Cuda, Some(\"first\"))";

    /// A simple kernel in CUDA C runs on devices of OpenCL, and the other way round: qualifiers, numbers of
    /// threads, barriers, atomics on integers and names of math functions are translated. The message names
    /// what has no counterpart.
    TRANSLATION = Code("E0849"), "a kernel is not translated",
        wrong: "__shfl_down_sync(mask, x, 1) on a device of OpenCL",
        right: "shared memory and barriers";

    /// A launch gives one argument for every parameter, in order: a buffer for a pointer, with what the kernel
    /// does with it, and a scalar of the same size for a scalar. Buffers belong to the devices of the launch.
    ARGUMENTS = Code("E0850"), "arguments that a kernel does not take",
        wrong: "device.launch(&scale, grid, &[(&y).into()])",
        right: "device.launch(&scale, grid, &[write(&y), read(&x), 2.0f32.into()])";

    /// Reductions over several devices of CUDA are done by NCCL, a library of NVIDIA that connects devices of one host, each
    /// once. It is opened when it is first needed; `lathe doctor` says where it was found.
    NCCL = Code("E0856"), "a reduction over devices cannot be done",
        wrong: "devices.all_reduce(Combine::Sum, &parts) on a machine without libnccl.so.2",
        right: "pip install nvidia-nccl-cu13, or a launch that reads the parts of all devices";
}
