//! The codes of this crate's diagnostics.

use lathe_diagnostics::{Code, CodeInfo};

pub const TOO_LARGE: Code = Code("E0801");
pub const NO_MEMORY: Code = Code("E0802");
pub const NPY_READ: Code = Code("E0803");
pub const NPY_HEADER: Code = Code("E0804");
pub const NPY_DTYPE: Code = Code("E0805");
pub const NPY_LENGTH: Code = Code("E0806");
pub const NPY_WRITE: Code = Code("E0807");
pub const ARGUMENT_COUNT: Code = Code("E0808");
pub const ARGUMENT_DTYPE: Code = Code("E0809");
pub const ARGUMENT_RANK: Code = Code("E0810");
pub const ARGUMENT_SHAPE: Code = Code("E0811");
pub const ARGUMENT_OVERLAP: Code = Code("E0812");
pub const ARGUMENT_SIZE: Code = Code("E0813");
pub const CHECK_FAILED: Code = Code("E0814");
pub const DIVISION_BY_ZERO: Code = Code("E0815");
pub const KERNEL_MEMORY: Code = Code("E0816");
pub const KERNEL_SIZE: Code = Code("E0817");
pub const POOL: Code = Code("E0818");
pub const NOT_WRITABLE: Code = Code("E0822");
pub const NO_ENGINE: Code = Code("E0823");
pub const INTERRUPTED: Code = Code("E0824");
pub const TIME_LIMIT: Code = Code("E0825");

/// Everything that this crate can report.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: TOO_LARGE,
        title: "impossible shape of an array",
        explanation: "An extent is negative, or the number of bytes that the extents ask for does not fit the \
                      address space.",
        wrong: "lathe run gemm.lathe:gemm -D M=4611686018427387904 -D N=8 -D K=8",
        right: "lathe run gemm.lathe:gemm -D M=1024 -D N=8 -D K=8",
    },
    CodeInfo {
        code: NO_MEMORY,
        title: "not enough memory for an array",
        explanation: "The machine does not have enough free memory for the array. Nothing was run.",
        wrong: "lathe run gemm.lathe:gemm -D M=4000000 -D N=4000000 -D K=8",
        right: "lathe run gemm.lathe:gemm -D M=4000 -D N=4000 -D K=8",
    },
    CodeInfo {
        code: NPY_READ,
        title: "a `.npy` file cannot be read",
        explanation: "The system refused to open or read the file; its reason is quoted.",
        wrong: "lathe run gemm.lathe:gemm --input A=missing.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy",
    },
    CodeInfo {
        code: NPY_HEADER,
        title: "not a well-formed `.npy` file",
        explanation: "The file does not start with the magic bytes of the format, or its header is damaged: an \
                      unknown version, a length beyond the file's end, or a description that does not parse.",
        wrong: "lathe run gemm.lathe:gemm --input A=notes.txt",
        right: "lathe run gemm.lathe:gemm --input A=a.npy",
    },
    CodeInfo {
        code: NPY_DTYPE,
        title: "an element type that no kernel accepts",
        explanation: "The `.npy` file holds Python objects, text or dates. Arrays of bools, integers \
                      of 8 to 64 bits, f2, f4, f8, c8 and c16 can be read, and records of these: the fields of a struct by \
                      their names, those of a tuple as `f0`, `f1`, ….",
        wrong: "lathe run gemm.lathe:gemm --input A=objects.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy",
    },
    CodeInfo {
        code: NPY_LENGTH,
        title: "a `.npy` file of the wrong length",
        explanation: "The number of bytes after the header is not what the header says: the file was cut off while it \
                      was written or copied, or something was appended to it.",
        wrong: "lathe run gemm.lathe:gemm --input A=truncated.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy",
    },
    CodeInfo {
        code: NPY_WRITE,
        title: "a `.npy` file cannot be written",
        explanation: "The system refused to create or write the file. An existing file is unchanged: data \
                      is written to a temporary file next to it, which replaces it only when it is complete.",
        wrong: "lathe run gemm.lathe:gemm --output C=/no/such/folder/c.npy",
        right: "lathe run gemm.lathe:gemm --output C=c.npy",
    },
    CodeInfo {
        code: ARGUMENT_COUNT,
        title: "wrong number of arguments",
        explanation: "A kernel is called with one argument per parameter, in the order of its declaration.",
        wrong: "kernel.call(&pool, &mut [a.view(), c.view_mut()])",
        right: "kernel.call(&pool, &mut [a.view(), b.view(), c.view_mut()])",
    },
    CodeInfo {
        code: ARGUMENT_DTYPE,
        title: "an argument of the wrong element type",
        explanation: "The array's element type is not the parameter's. There are no implicit conversions.",
        wrong: "lathe run gemm.lathe:gemm --input A=doubles.npy",
        right: "lathe run gemm.lathe:gemm_f64 --input A=doubles.npy",
    },
    CodeInfo {
        code: ARGUMENT_RANK,
        title: "an argument with the wrong number of dimensions",
        explanation: "The array has more or fewer dimensions than the parameter.",
        wrong: "lathe run gemm.lathe:gemm --input A=vector.npy",
        right: "lathe run gemm.lathe:gemm --input A=matrix.npy",
    },
    CodeInfo {
        code: ARGUMENT_SHAPE,
        title: "an argument with the wrong extent",
        explanation: "An extent of the array is not what the parameter's type says, given the sizes that other \
                      arguments fix.",
        wrong: "lathe run gemm.lathe:gemm --input A=a_10x20.npy --input B=b_30x40.npy",
        right: "lathe run gemm.lathe:gemm --input A=a_10x20.npy --input B=b_20x40.npy",
    },
    CodeInfo {
        code: ARGUMENT_OVERLAP,
        title: "arguments share memory",
        explanation: "Two arguments, at least one of them written, overlap in memory; or two elements \
                      of a written argument have the same address. Parameters are distinct unless declared `may_alias`. \
                      Interleaved views of one buffer count as overlapping.",
        wrong: "kernel.call(&pool, &mut [view of x, mutable view of x])",
        right: "kernel.call(&pool, &mut [x.view(), y.view_mut()])",
    },
    CodeInfo {
        code: ARGUMENT_SIZE,
        title: "an extent or stride out of range",
        explanation: "An extent is negative, or the distance between elements of one argument exceeds 2^47 bytes.",
        wrong: "an array descriptor with shape {-1}",
        right: "an array descriptor with shape {0}",
    },
    CodeInfo {
        code: CHECK_FAILED,
        title: "a check of the kernel failed",
        explanation: "The kernel contains a `check` whose condition did not hold for these arguments.",
        wrong: "lathe run softmax.lathe:softmax -D M=0 -D N=0",
        right: "lathe run softmax.lathe:softmax -D M=4 -D N=4",
    },
    CodeInfo {
        code: DIVISION_BY_ZERO,
        title: "integer division by zero",
        explanation: "The kernel divided an integer by zero, or took a remainder of such a division.",
        wrong: "kernel f(a: i32[N]) -> (c: i32[N]) { c[i] = 1 // a[i] }",
        right: "kernel f(a: i32[N]) -> (c: i32[N]) { c[i] = select(a[i] == 0, 0, 1 // a[i]) }",
    },
    CodeInfo {
        code: KERNEL_MEMORY,
        title: "no memory for a kernel's local array",
        explanation: "The runtime could not allocate the scratch memory that the kernel requested.",
        wrong: "lathe run big.lathe:f -D N=10000000000",
        right: "lathe run big.lathe:f -D N=1000",
    },
    CodeInfo {
        code: KERNEL_SIZE,
        title: "the size of a local array overflows",
        explanation: "An extent of a local array is negative, or the product of its extents does not fit 64 bits.",
        wrong: "lathe run big.lathe:f -D N=4000000000",
        right: "lathe run big.lathe:f -D N=1000",
    },
    CodeInfo {
        code: POOL,
        title: "threads cannot be started",
        explanation: "The system refused to start the threads of the pool; its reason is quoted.",
        wrong: "lathe run gemm.lathe:gemm --threads 1000000",
        right: "lathe run gemm.lathe:gemm --threads 2",
    },
    CodeInfo {
        code: NOT_WRITABLE,
        title: "an output was passed as a read-only view",
        explanation: "The kernel writes the parameter, so its argument must be a mutable view.",
        wrong: "kernel.call(&pool, &mut [a.view(), c.view()])",
        right: "kernel.call(&pool, &mut [a.view(), c.view_mut()])",
    },
    CodeInfo {
        code: NO_ENGINE,
        title: "the engine is not part of this build",
        explanation: "The engines are `llvm`, `c` and `interpreter`; `llvm` is available if Lathe was built with the \
                      cargo feature of that name; otherwise kernels are compiled by the C compiler.",
        wrong: "lathe run gemm.lathe:gemm --engine gcc",
        right: "lathe run gemm.lathe:gemm --engine c",
    },
    CodeInfo {
        code: INTERRUPTED,
        title: "a call was interrupted",
        explanation: "Whoever called the kernel asked to end the call before it was done. The contents of outputs are \
                      unspecified then.",
        wrong: "kernel.call_within(&pool, &mut args, &Limits { interrupt: Some(&|| true), ..Limits::default() })",
        right: "kernel.call(&pool, &mut args)",
    },
    CodeInfo {
        code: TIME_LIMIT,
        title: "a call took longer than its time limit",
        explanation: "The call had a time limit, and the kernel was not done when it was over. The contents of outputs \
                      are unspecified then.",
        wrong: "lathe run gemm.lathe:gemm -D M=20000 -D N=20000 -D K=20000 --time-limit 0.1",
        right: "lathe run gemm.lathe:gemm -D M=200 -D N=200 -D K=200 --time-limit 60",
    },
];
