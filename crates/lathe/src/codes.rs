//! Codes of the session and the command line.

use lathe_diagnostics::Code;

/// Codes that say what the machine or the build lacks: exit status 3.
pub const LACKING: &[Code] = &[
    UNAVAILABLE,
    lathe_source::codes::NO_COMPILER,
    lathe_runtime::codes::NO_ENGINE,
    lathe_runtime::device_codes::NO_DEVICE,
];

lathe_diagnostics::codes! {
    /// The file of a target does not exist, is a folder, or cannot be read. A target is FILE or FILE:NAME.
    NO_FILE = Code("E0901"), "a file cannot be read",
        wrong: "lathe run nowhere.lathe",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// A file with several kernels needs FILE:NAME, unless one has the file's name; the message lists the
    /// kernels.
    NO_KERNEL = Code("E0902"), "no such kernel",
        wrong: "lathe run examples/gemm.lathe:gem",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// A strategy is found by its name and its target (`for gemm`); one without a target applies to every
    /// kernel.
    NO_STRATEGY = Code("E0903"), "no such strategy",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --strategy fastest",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --strategy fast";

    /// Sizes come from the shapes of given inputs and from `-D SIZE=N`; every size of the kernel needs one
    /// value, not negative, and given arrays must agree with it.
    SIZES = Code("E0904"), "a size is missing, unknown or impossible",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// `--param P=V` sets a parameter that the strategy declares, to a value of its range that meets the
    /// constraints.
    PARAMETER = Code("E0905"), "a parameter of the strategy is unknown or out of its range",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --param nonsense=1",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// `--input A=file.npy` names an input or inout parameter of the kernel; dtype and rank must be those of
    /// its type, and the shape must agree with the sizes. An `index` is an `i8`; a struct or tuple is a
    /// structured dtype.
    INPUT = Code("E0906"), "an input does not match the kernel",
        wrong: "lathe run examples/gemm.lathe:gemm --input Z=a.npy",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// `--output C=file.npy` names an output of the kernel and a place that can be written. An existing file is
    /// left intact if writing fails. No command writes a file twice, or overwrites a file that it reads.
    OUTPUT = Code("E0907"), "an output cannot be written",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --output C=/nowhere/c.npy",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";

    /// A bug in Lathe: please report it with the file, the strategy and the seed.
    WRONG_RESULT = Code("E0908"), "the compiled kernel and the reference disagree";

    /// The kernel's result differs from the test's own formula or data by more than its tolerance.
    TEST_FAILED = Code("E0909"), "a `test` of the file failed",
        wrong: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 3 * A[i] }\ntest \"doubles\" for twice { N = 4 expect B[i] = A[i] + A[i] within 0.0 }",
        right: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\ntest \"doubles\" for twice { N = 4 expect B[i] = A[i] + A[i] within 0.0 }";

    /// The requested engine, device or tool is not available; `lathe doctor` lists what is, and how to get the
    /// rest.
    UNAVAILABLE = Code("E0910"), "this machine or this build lacks something";

    /// Where a strategy chooses by sizes (`if M <= 64 then … else …`), emitted code contains all versions and
    /// selects one by the sizes of each call. It computes with integers: the condition may use sizes, `+ - * //
    /// %` (the last two by constants), comparisons, `and`, `or`, `not`, `min`, `max`, `abs`, `ceil_div`,
    /// `divides` and `is_multiple`. The text of trees (`--to tree`) then lists the versions, without code that
    /// selects one.
    VERSIONS = Code("E0912"), "a condition over sizes cannot be decided in emitted code",
        wrong: "strategy fast for dot = if N * 0.5 < 100 then id else vectorize(k, vector(f32))",
        right: "strategy fast for dot = if N < 200 then id else vectorize(k, vector(f32))";

    /// `lathe check` tries a strategy without `for` on every kernel of its file; it must be legal for at least
    /// one. The notes say why it is not for the others. A definition whose parameters have no defaults is
    /// checked where it is called.
    FITS_NOWHERE = Code("E0913"), "a strategy applies to no kernel",
        wrong: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy lanes = vectorize(j, vector(f32))",
        right: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy lanes = vectorize(i, vector(f32))";

    /// `lathe explain --picture` draws the decisions of a step `mdh(…)` or of the strategy `auto`, which
    /// require known sizes: given by `-D`, or because the kernel has none.
    NO_PICTURE = Code("E0914"), "there is nothing to draw",
        wrong: "lathe explain examples/gemm.lathe:gemm --strategy naive --picture gemm.svg",
        right: "lathe explain examples/gemm.lathe:gemm --strategy auto -D M=8 -D N=8 -D K=8 --picture gemm.svg";

    /// `--check` compares results with a run of the program as written. If that would take minutes, only
    /// samples of the results are computed, which is possible if they are in index notation; loops with
    /// loop-carried dependences cannot be sampled.
    TOO_LARGE = Code("E0920"), "a call that is too large to be checked";

    /// The condition of an `assert` in the kernel is false. The call ended there; outputs are partially written. The
    /// values of the names in the condition and of the loops around it are given. An `assert` is run by `--debug`, by
    /// `debug=True` in Python, and by the interpreter; it is no premise of any proof, as `assume` is.
    ASSERT = Code("E0921"), "an `assert` that does not hold",
        wrong: "kernel roots(x: f32[N]) -> (y: f32[N]) {\n    for i in 0..N {\n        assert(x[i] >= 0.0, \"no root\")\n        y[i] = sqrt(x[i])\n    }\n}",
        right: "kernel roots(x: f32[N]) -> (y: f32[N]) {\n    for i in 0..N {\n        y[i] = sqrt(max(x[i], 0.0))\n    }\n}";

    /// An array that requires a gradient was passed where none can be propagated: to a direct call of a kernel,
    /// or to an operator without a rule for this kind of differentiation. `lathe.torch.op` and `lathe.jax.op`
    /// take a rule with `vjp=`; where no gradient is wanted, the array is detached first.
    GRADIENT = Code("E0915"), "a gradient would be lost";

    /// Kernels read arrays in place: all of a call are in the memory of the host, or all in that of one CUDA
    /// device. Arrays of other devices, and ones without data, cannot be read.
    DEVICE = Code("E0916"), "an array is not where a kernel can read it";

    /// Options of a call from Python are `out`, `strategy`, `params`, `threads`, `copy` and `specialize`;
    /// parameters belong to a strategy, so `params` needs one; `threads` is at least 1.
    OPTION = Code("E0917"), "an option of a call is unknown or has an invalid value";

    /// A function of Python under `@lathe.kernel` or `@lathe.fun` is parsed, never run: it may use only
    /// constructs with a counterpart in the language. The message points at the unsupported part, and says what
    /// to write instead.
    PYTHON = Code("E0918"), "a decorated function uses Python that a kernel cannot express";

    /// The folder does not exist, or may not be written, or the disk is full. An existing file is left intact.
    NOT_WRITTEN = Code("E0919"), "a file cannot be written";

    /// A size, parameter, input or output has one value; if it were given twice, one of the two would be
    /// silently ignored.
    TWICE = Code("E0911"), "an option names the same thing twice",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D M=9 -D N=8 -D K=8",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8";
}
