//! The codes of this crate's diagnostics.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// An extent is negative, or the number of bytes that the extents ask for does not fit the address space.
    TOO_LARGE = Code("E0801"), "impossible shape of an array",
        wrong: "lathe run gemm.lathe:gemm -D M=4611686018427387904 -D N=8 -D K=8",
        right: "lathe run gemm.lathe:gemm -D M=1024 -D N=8 -D K=8";

    /// The machine does not have enough free memory for the array. Nothing was run.
    NO_MEMORY = Code("E0802"), "not enough memory for an array",
        wrong: "lathe run gemm.lathe:gemm -D M=4000000 -D N=4000000 -D K=8",
        right: "lathe run gemm.lathe:gemm -D M=4000 -D N=4000 -D K=8";

    /// The system refused to open or read the file; its reason is quoted.
    NPY_READ = Code("E0803"), "a `.npy` file cannot be read",
        wrong: "lathe run gemm.lathe:gemm --input A=missing.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy";

    /// The file does not start with the magic bytes of the format, or its header is damaged: an unknown
    /// version, a length beyond the file's end, or a description that does not parse.
    NPY_HEADER = Code("E0804"), "not a well-formed `.npy` file",
        wrong: "lathe run gemm.lathe:gemm --input A=notes.txt",
        right: "lathe run gemm.lathe:gemm --input A=a.npy";

    /// The `.npy` file holds Python objects, text or dates. Arrays of bools, integers of 8 to 64 bits, f2, f4,
    /// f8, c8 and c16 can be read, and records of these: the fields of a struct by their names, those of a
    /// tuple as `f0`, `f1`, ….
    NPY_DTYPE = Code("E0805"), "an element type that no kernel accepts",
        wrong: "lathe run gemm.lathe:gemm --input A=objects.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy";

    /// The number of bytes after the header is not what the header says: the file was cut off while it was
    /// written or copied, or something was appended to it.
    NPY_LENGTH = Code("E0806"), "a `.npy` file of the wrong length",
        wrong: "lathe run gemm.lathe:gemm --input A=truncated.npy",
        right: "lathe run gemm.lathe:gemm --input A=a.npy";

    /// The system refused to create or write the file. An existing file is unchanged: data is written to a
    /// temporary file next to it, which replaces it only when it is complete.
    NPY_WRITE = Code("E0807"), "a `.npy` file cannot be written",
        wrong: "lathe run gemm.lathe:gemm --output C=/no/such/folder/c.npy",
        right: "lathe run gemm.lathe:gemm --output C=c.npy";

    /// A kernel is called with one argument per parameter, in the order of its declaration.
    ARGUMENT_COUNT = Code("E0808"), "wrong number of arguments",
        wrong: "kernel.call(&pool, &mut [a.view(), c.view_mut()])",
        right: "kernel.call(&pool, &mut [a.view(), b.view(), c.view_mut()])";

    /// The array's element type is not the parameter's. There are no implicit conversions.
    ARGUMENT_DTYPE = Code("E0809"), "an argument of the wrong element type",
        wrong: "lathe run gemm.lathe:gemm --input A=doubles.npy",
        right: "lathe run gemm.lathe:gemm_f64 --input A=doubles.npy";

    /// The array has more or fewer dimensions than the parameter.
    ARGUMENT_RANK = Code("E0810"), "an argument with the wrong number of dimensions",
        wrong: "lathe run gemm.lathe:gemm --input A=vector.npy",
        right: "lathe run gemm.lathe:gemm --input A=matrix.npy";

    /// An extent of the array is not what the parameter's type says, given the sizes that other arguments fix.
    ARGUMENT_SHAPE = Code("E0811"), "an argument with the wrong extent",
        wrong: "lathe run gemm.lathe:gemm --input A=a_10x20.npy --input B=b_30x40.npy",
        right: "lathe run gemm.lathe:gemm --input A=a_10x20.npy --input B=b_20x40.npy";

    /// Two arguments, at least one of them written, overlap in memory; or two elements of a written argument
    /// have the same address. Parameters are distinct unless declared `may_alias`. Interleaved views of one
    /// buffer count as overlapping.
    ARGUMENT_OVERLAP = Code("E0812"), "arguments share memory",
        wrong: "kernel.call(&pool, &mut [view of x, mutable view of x])",
        right: "kernel.call(&pool, &mut [x.view(), y.view_mut()])";

    /// An extent is negative, or the distance between elements of one argument exceeds 2^47 bytes.
    ARGUMENT_SIZE = Code("E0813"), "an extent or stride out of range",
        wrong: "an array descriptor with shape {-1}",
        right: "an array descriptor with shape {0}";

    /// The kernel contains a `check` whose condition did not hold for these arguments.
    CHECK_FAILED = Code("E0814"), "a check of the kernel failed",
        wrong: "lathe run softmax.lathe:softmax -D M=0 -D N=0",
        right: "lathe run softmax.lathe:softmax -D M=4 -D N=4";

    /// The kernel divided an integer by zero, or took a remainder of such a division.
    DIVISION_BY_ZERO = Code("E0815"), "integer division by zero",
        wrong: "kernel f(a: i32[N]) -> (c: i32[N]) { c[i] = 1 // a[i] }",
        right: "kernel f(a: i32[N]) -> (c: i32[N]) { c[i] = select(a[i] == 0, 0, 1 // a[i]) }";

    /// The machine has less memory than the kernel's local arrays take at these sizes. Where extents follow from the
    /// arguments, the call is refused before the kernel runs; the message says what each array takes. Derivatives keep
    /// values of every iteration on tapes, or, with `checkpoint`, few states.
    KERNEL_MEMORY = Code("E0816"), "no memory for a kernel's local array",
        wrong: "lathe run big.lathe:f -D N=10000000000",
        right: "lathe run big.lathe:f -D N=1000";

    /// An extent of a local array is negative, or the product of its extents does not fit 64 bits.
    KERNEL_SIZE = Code("E0817"), "the size of a local array overflows",
        wrong: "lathe run big.lathe:f -D N=4000000000",
        right: "lathe run big.lathe:f -D N=1000";

    /// The system refused to start the threads of the pool; its reason is quoted.
    POOL = Code("E0818"), "threads cannot be started",
        wrong: "lathe run gemm.lathe:gemm --threads 1000000",
        right: "lathe run gemm.lathe:gemm --threads 2";

    /// The kernel writes the parameter, so its argument must be a mutable view.
    NOT_WRITABLE = Code("E0822"), "an output was passed as a read-only view",
        wrong: "kernel.call(&pool, &mut [a.view(), c.view()])",
        right: "kernel.call(&pool, &mut [a.view(), c.view_mut()])";

    /// The engines are `llvm`, `c` and `interpreter`; `llvm` is available if Lathe was built with the cargo
    /// feature of that name; otherwise kernels are compiled by the C compiler.
    NO_ENGINE = Code("E0823"), "the engine is not part of this build",
        wrong: "lathe run gemm.lathe:gemm --engine gcc",
        right: "lathe run gemm.lathe:gemm --engine c";

    /// Whoever called the kernel asked to end the call before it was done. The contents of outputs are
    /// unspecified then.
    INTERRUPTED = Code("E0824"), "a call was interrupted",
        wrong: "kernel.call_within(&pool, &mut args, &Limits { interrupt: Some(&|| true), ..Limits::default() })",
        right: "kernel.call(&pool, &mut args)";

    /// The call had a time limit, and the kernel was not done when it was over. The contents of outputs are
    /// unspecified then.
    TIME_LIMIT = Code("E0825"), "a call took longer than its time limit",
        wrong: "lathe run gemm.lathe:gemm -D M=20000 -D N=20000 -D K=20000 --time-limit 0.1",
        right: "lathe run gemm.lathe:gemm -D M=200 -D N=200 -D K=200 --time-limit 60";

    /// A function that a `.tree` file declares as `extern` is defined by whoever runs the kernel: by a shared library, or by a
    /// function of Rust or Python. Without it only a `meaning` can be run.
    NO_EXTERNAL = Code("E0826"), "an external function is not given",
        wrong: "lathe run ramp.tree:loss -D N=4",
        right: "lathe run ramp.tree:loss -D N=4 --link ./libramp.so";

    /// The external function returned another number than 0, or raised an exception.
    EXTERNAL_FAILED = Code("E0827"), "an external function failed",
        wrong: "int32_t lathe_ramp(const lathe_runtime *rt, const lathe_array *args) { return 1; }",
        right: "int32_t lathe_ramp(const lathe_runtime *rt, const lathe_array *args) { return 0; }";
}
