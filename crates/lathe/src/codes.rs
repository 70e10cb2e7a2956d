//! Codes of the session and the command line.

use lathe_diagnostics::{Code, CodeInfo};

pub const NO_FILE: Code = Code("E0901");
pub const NO_KERNEL: Code = Code("E0902");
pub const NO_STRATEGY: Code = Code("E0903");
pub const SIZES: Code = Code("E0904");
pub const PARAMETER: Code = Code("E0905");
pub const INPUT: Code = Code("E0906");
pub const OUTPUT: Code = Code("E0907");
pub const WRONG_RESULT: Code = Code("E0908");
pub const TEST_FAILED: Code = Code("E0909");
pub const UNAVAILABLE: Code = Code("E0910");
pub const TWICE: Code = Code("E0911");
pub const VERSIONS: Code = Code("E0912");
pub const FITS_NOWHERE: Code = Code("E0913");
pub const NO_PICTURE: Code = Code("E0914");
pub const GRADIENT: Code = Code("E0915");
pub const DEVICE: Code = Code("E0916");
pub const OPTION: Code = Code("E0917");
pub const PYTHON: Code = Code("E0918");
pub const NOT_WRITTEN: Code = Code("E0919");
pub const TOO_LARGE: Code = Code("E0920");
pub const ASSERT: Code = Code("E0921");

/// Codes that say what the machine or the build lacks: exit status 3.
pub const LACKING: &[Code] = &[
    UNAVAILABLE,
    lathe_source::codes::NO_COMPILER,
    lathe_runtime::codes::NO_ENGINE,
    lathe_runtime::device_codes::NO_DEVICE,
];

/// What `lathe --explain` says about them.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: NO_FILE,
        title: "a file cannot be read",
        explanation: "The file of a target does not exist, is a folder, or cannot be read. A target is FILE or FILE:NAME.",
        wrong: "lathe run nowhere.lathe",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: NO_KERNEL,
        title: "no such kernel",
        explanation: "A file with several kernels needs FILE:NAME, unless one has the file's name; the message lists the kernels.",
        wrong: "lathe run examples/gemm.lathe:gem",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: NO_STRATEGY,
        title: "no such strategy",
        explanation: "A strategy is found by its name and its target (`for gemm`); one without a target applies to every kernel.",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --strategy fastest",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --strategy fast",
    },
    CodeInfo {
        code: SIZES,
        title: "a size is missing, unknown or impossible",
        explanation: "Sizes come from the shapes of given inputs and from `-D SIZE=N`; every size of the kernel needs one value, not negative, and given arrays must agree with it.",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: PARAMETER,
        title: "a parameter of the strategy is unknown or out of its range",
        explanation: "`--param P=V` sets a parameter that the strategy declares, to a value of its range that meets the constraints.",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --param nonsense=1",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: INPUT,
        title: "an input does not match the kernel",
        explanation: "`--input A=file.npy` names an input or inout parameter of the kernel; dtype and rank must be those of its type, and the shape must agree with the sizes. An `index` is an `i8`; a struct or tuple is a structured dtype.",
        wrong: "lathe run examples/gemm.lathe:gemm --input Z=a.npy",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: OUTPUT,
        title: "an output cannot be written",
        explanation: "`--output C=file.npy` names an output of the kernel and a place that can be written. An existing file is left intact if writing fails. No command writes a file twice, or overwrites a file that it reads.",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8 --output C=/nowhere/c.npy",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
    CodeInfo {
        code: WRONG_RESULT,
        title: "the compiled kernel and the reference disagree",
        explanation: "A bug in Lathe: please report it with the file, the strategy and the seed.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: TEST_FAILED,
        title: "a `test` of the file failed",
        explanation: "The kernel's result differs from the test's own formula or data by more than its tolerance.",
        wrong: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 3 * A[i] }\ntest \"doubles\" for twice { N = 4 expect B[i] = A[i] + A[i] within 0.0 }",
        right: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\ntest \"doubles\" for twice { N = 4 expect B[i] = A[i] + A[i] within 0.0 }",
    },
    CodeInfo {
        code: UNAVAILABLE,
        title: "this machine or this build lacks something",
        explanation: "The requested engine, device or tool is not available; `lathe doctor` lists what is, and how to get the rest.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: VERSIONS,
        title: "a condition over sizes cannot be decided in emitted code",
        explanation: "Where a strategy chooses by sizes (`if M <= 64 then … else …`), emitted code contains all versions and selects one by the sizes of each call. It computes with integers: the condition may use sizes, `+ - * // %` (the last two by constants), comparisons, `and`, `or`, `not`, `min`, `max`, `abs`, `ceil_div`, `divides` and `is_multiple`. The text of trees (`--to tree`) then lists the versions, without code that selects one.",
        wrong: "strategy fast for dot = if N * 0.5 < 100 then id else vectorize(k, vector(f32))",
        right: "strategy fast for dot = if N < 200 then id else vectorize(k, vector(f32))",
    },
    CodeInfo {
        code: FITS_NOWHERE,
        title: "a strategy applies to no kernel",
        explanation: "`lathe check` tries a strategy without `for` on every kernel of its file; it must be legal for at least one. The notes say why it is not for the others. A definition whose parameters have no defaults is checked where it is called.",
        wrong: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy lanes = vectorize(j, vector(f32))",
        right: "kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy lanes = vectorize(i, vector(f32))",
    },
    CodeInfo {
        code: NO_PICTURE,
        title: "there is nothing to draw",
        explanation: "`lathe explain --picture` draws the decisions of a step `mdh(…)` or of the strategy `auto`, which require known sizes: given by `-D`, or because the kernel has none.",
        wrong: "lathe explain examples/gemm.lathe:gemm --strategy naive --picture gemm.svg",
        right: "lathe explain examples/gemm.lathe:gemm --strategy auto -D M=8 -D N=8 -D K=8 --picture gemm.svg",
    },
    CodeInfo {
        code: TOO_LARGE,
        title: "a call that is too large to be checked",
        explanation: "`--check` compares results with a run of the program as written. If that would take minutes, only samples of the results are computed, which is possible if they are in index notation; loops with loop-carried dependences cannot be sampled.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: ASSERT,
        title: "an `assert` that does not hold",
        explanation: "The condition of an `assert` in the kernel is false. The call ended there; outputs are partially written. The values of the names in the condition and of the loops around it are given. An `assert` is run by `--debug`, by `debug=True` in Python, and by the interpreter; it is no premise of any proof, as `assume` is.",
        wrong: "kernel roots(x: f32[N]) -> (y: f32[N]) {\n    for i in 0..N {\n        assert(x[i] >= 0.0, \"no root\")\n        y[i] = sqrt(x[i])\n    }\n}",
        right: "kernel roots(x: f32[N]) -> (y: f32[N]) {\n    for i in 0..N {\n        y[i] = sqrt(max(x[i], 0.0))\n    }\n}",
    },
    CodeInfo {
        code: GRADIENT,
        title: "a gradient would be lost",
        explanation: "An array that requires a gradient was passed where none can be propagated: to a direct call of a kernel, or to an operator without a rule for this kind of differentiation. `lathe.torch.op` and `lathe.jax.op` take a rule with `vjp=`; where no gradient is wanted, the array is detached first.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: DEVICE,
        title: "an array is not where a kernel can read it",
        explanation: "Kernels read arrays in place: all of a call are in the memory of the host, or all in that of one CUDA device. Arrays of other devices, and ones without data, cannot be read.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: OPTION,
        title: "an option of a call is unknown or has an invalid value",
        explanation: "Options of a call from Python are `out`, `strategy`, `params`, `threads`, `copy` and `specialize`; parameters belong to a strategy, so `params` needs one; `threads` is at least 1.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: PYTHON,
        title: "a decorated function uses Python that a kernel cannot express",
        explanation: "A function of Python under `@lathe.kernel` or `@lathe.fun` is parsed, never run: it may use only constructs with a counterpart in the language. The message points at the unsupported part, and says what to write instead.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: NOT_WRITTEN,
        title: "a file cannot be written",
        explanation: "The folder does not exist, or may not be written, or the disk is full. An existing file is left intact.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: TWICE,
        title: "an option names the same thing twice",
        explanation: "A size, parameter, input or output has one value; if it were given twice, one of the two would be silently ignored.",
        wrong: "lathe run examples/gemm.lathe:gemm -D M=8 -D M=9 -D N=8 -D K=8",
        right: "lathe run examples/gemm.lathe:gemm -D M=8 -D N=8 -D K=8",
    },
];
