//! The command line as data.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Parser, Debug)]
#[command(
    name = "lathe",
    version,
    about = "A compiler for array computations: what to compute, how, and a proof that the schedule preserves the result"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Explains an error code, e.g. `--explain E0601`
    #[arg(long, value_name = "CODE")]
    pub explain: Option<String>,
    /// Prints how long each stage took
    #[arg(long, global = true)]
    pub time_passes: bool,
    /// One JSON object on standard output; everything else goes to standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// A shared library of yours, whose functions `lathe_NAME` are those of `extern NAME` in trees
    #[arg(long, global = true, value_name = "LIBRARY")]
    pub link: Vec<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Runs a kernel on arrays from files (or random ones)
    Run(RunArgs),
    /// Measures strategies in interleaved rounds
    Bench(BenchArgs),
    /// Searches the parameters of a strategy, or of any program; manages what was found
    Tune(Box<TuneArgs>),
    /// The measuring process of `tune`
    #[command(hide = true)]
    TuneWorker,
    /// Parses, type-checks, applies every strategy and runs the tests of each file
    Check(CheckArgs),
    /// Shows every step of a strategy: rule, place, evidence
    Explain(ExplainArgs),
    /// Writes the tree, LLVM IR, assembly, an object file or C
    Emit(EmitArgs),
    /// Runs steps on a tree in text form
    Opt(OptArgs),
    /// Formats `.lathe` and `.tree` files
    Fmt(FmtArgs),
    /// Differentiates a kernel
    Grad(GradArgs),
    /// What this machine has, what is missing and how to get it
    Doctor,
    /// The devices that `--device` can name
    Devices,
}

/// What to run and how; shared by all commands on a target.
#[derive(Args, Debug, Clone)]
pub struct TargetArgs {
    /// `FILE` or `FILE:NAME`; the file ends in `.lathe`, `.mdh` or `.tree`
    pub target: String,
    #[command(flatten)]
    pub how: KernelArgs,
    /// Trusts every `assume` in a loop or about data; if one does not hold, behaviour is undefined
    #[arg(long)]
    pub trust_assumptions: bool,
}

/// Which code of a kernel is generated.
#[derive(Args, Debug, Clone)]
pub struct KernelArgs {
    /// The value of a size, or an element type: `-D N=1024`, `-D T=f64`
    #[arg(short = 'D', value_name = "SIZE=N", value_parser = assignment)]
    pub sizes: Vec<(String, String)>,
    /// Specializes the code to the sizes
    #[arg(long)]
    pub specialize: bool,
    /// The strategy; default: the winner of tuning exactly this, else what the model expects to be the fastest of `fast`, `auto` and `naive`
    #[arg(long, short = 's', value_name = "S")]
    pub strategy: Option<String>,
    /// A parameter of the strategy, which `tune` then does not search: `--param ti=64`
    #[arg(long = "param", short = 'p', value_name = "P=V", value_parser = assignment)]
    pub params: Vec<(String, String)>,
    /// The system model of decisions that name none: `openmp`, `openmp_l3_simd`, …, or a file
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// The engine that generates and runs the code: `llvm`, `c`, or `interpreter`
    #[arg(long, value_name = "E", value_parser = ["llvm", "c", "interpreter"])]
    pub engine: Option<String>,
    /// The device that runs it: `cpu`, `cuda`, `cuda:1`, `opencl`, `opencl:1`, or `interpreter`
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Generates code for another machine: `x86-64-v3`, `znver4`, `aarch64`, …, or a file
    #[arg(long, value_name = "M")]
    pub cpu: Option<String>,
}

/// Where arrays come from, and what they are computed by.
#[derive(Args, Debug, Clone)]
pub struct InputArgs {
    /// An input: `--input A=a.npy`; inputs that are not given are random
    #[arg(long = "input", short = 'i', value_name = "A=FILE", value_parser = assignment)]
    pub inputs: Vec<(String, String)>,
    /// Seed of the random inputs, and of a search
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads of `parallel` loops; default: all processors
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
}

/// Where arrays come from, and whether results are compared.
#[derive(Args, Debug, Clone)]
pub struct DataArgs {
    #[command(flatten)]
    pub given: InputArgs,
    /// Compares the result with the interpreter, or with unoptimized code where that would take too long
    #[arg(long)]
    pub check: bool,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub data: DataArgs,
    /// Writes an output: `--output C=c.npy`
    #[arg(long = "output", short = 'o', value_name = "C=FILE", value_parser = assignment)]
    pub outputs: Vec<(String, String)>,
    /// Runs the `print` and `assert` of the kernel, by default as it is written; `--engine interpreter` does, too
    #[arg(long, conflicts_with = "check")]
    pub debug: bool,
    /// Ends the kernel if it takes longer than so many seconds; without `--check`, which runs it again
    #[arg(long, value_name = "SECONDS", value_parser = duration, conflicts_with = "check")]
    pub time_limit: Option<std::time::Duration>,
}

/// A time above 0.
fn duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| std::time::Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| "a number of seconds above 0".to_string())
}

#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub data: DataArgs,
    /// Rounds; in each, every strategy (comma-separated in `--strategy`) is timed once
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

#[derive(Args, Debug, Clone)]
pub struct TuneArgs {
    /// `FILE.lathe:KERNEL`, a program with `#atf::` directives, or a JSON form
    pub target: Option<String>,
    /// What the directives of a program call `$1`, `$2`, …
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub how: KernelArgs,
    #[command(flatten)]
    pub data: InputArgs,
    /// Wall time of the search: `60s`, `5min`; checking the winner comes on top
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// The search technique; default: a bandit over a portfolio
    #[arg(long, value_name = "T")]
    pub technique: Option<String>,
    /// When to stop: `200 evaluations || cost <= 0.5`
    #[arg(long, value_name = "COND")]
    pub until: Option<String>,
    /// Draws cost over time and the distribution of costs
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Writes every evaluation in the T4 format of the auto-tuning benchmarks
    #[arg(long, value_name = "FILE.json")]
    pub t4: Option<PathBuf>,
    /// The store of results; default: LATHE_STORE, else in the user's data folder
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Measures again what the store already has
    #[arg(long)]
    pub fresh: bool,
    #[command(flatten)]
    pub scripts: ScriptArgs,
    #[command(flatten)]
    pub manage: ManageArgs,
    #[command(flatten)]
    pub look: SpaceArgs,
}

/// For programs that are tuned by scripts.
#[derive(Args, Debug, Clone)]
pub struct ScriptArgs {
    /// How many configurations are compiled in parallel; default: all processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Also runs that many in parallel: for costs that do not depend on the load of the machine
    #[arg(long)]
    pub side_by_side: bool,
    /// How many times each configuration runs (the median counts); default: once where the program writes its cost, else
    /// until its time is known
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: Option<u16>,
    /// Costs that the program writes may be below zero; otherwise such a configuration is invalid
    #[arg(long)]
    pub negative_costs: bool,
    /// Takes costs from a T4 file (packed by gzip or not) instead of running anything
    #[arg(long, value_name = "FILE.json")]
    pub recorded: Option<PathBuf>,
    /// How several costs are compared: `lexicographic`, `lexicographic(0.05)` where costs within 5 % of the least are
    /// equal, `pareto`, or by an expression of them, `c1 + 0.1 * c2`
    #[arg(long, value_name = "ORDER")]
    pub order: Option<String>,
    /// The right result: a file of numbers, with which every configuration's result is compared
    #[arg(long, value_name = "FILE")]
    pub gold: Option<PathBuf>,
    /// Where the program writes its result; default: standard output
    #[arg(long, value_name = "FILE", requires = "gold")]
    pub result: Option<PathBuf>,
    /// The allowed relative difference from the right result
    #[arg(long, value_name = "T", requires = "gold", default_value_t = 0.0)]
    pub tolerance: f64,
    /// Memory for each process of the program, in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory: Option<u64>,
    /// Time for one run while there is no best to derive it from
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub timeout: String,
}

/// Other operations of `tune` on its store; one at a time.
#[derive(Args, Debug, Clone)]
#[group(multiple = false)]
pub struct ManageArgs {
    /// Lists the entries of the store
    #[arg(long)]
    pub list: bool,
    /// Shows an entry: every search and every configuration
    #[arg(long, value_name = "ENTRY")]
    pub show: Option<String>,
    /// Writes the store as JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub export: Option<PathBuf>,
    /// Adds what `--export` wrote
    #[arg(long, value_name = "FILE")]
    pub import: Option<PathBuf>,
    /// Removes an entry, or `all`
    #[arg(long, value_name = "ENTRY")]
    pub forget: Option<String>,
}

/// Inspecting a space without searching it.
#[derive(Args, Debug, Clone)]
pub struct SpaceArgs {
    /// A space to look at: a program with directives, a JSON form, or T1
    #[arg(long, value_name = "FILE")]
    pub space: Option<PathBuf>,
    /// Counts its points and its valid points
    #[arg(long, requires = "space")]
    pub count: bool,
    /// Samples this many configurations
    #[arg(long, value_name = "N", requires = "space", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub sample: Option<u64>,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Shows what the kernels of tests print
    #[arg(long)]
    pub debug: bool,
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Also shows the tree before and after each step
    #[arg(long)]
    pub diff: bool,
    /// Draws the decisions that the strategy takes
    #[arg(long, value_name = "OUT.svg")]
    pub picture: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum Form {
    Tree,
    Llvm,
    Asm,
    Object,
    C,
    Header,
    Cuda,
    Opencl,
    /// For the architecture that `--arch` names
    Ptx,
    /// Machine code, by NVRTC
    Cubin,
    /// The launches as JSON, for programs that load a cubin themselves
    Launches,
}

#[derive(Args, Debug)]
pub struct EmitArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[arg(long, value_enum)]
    pub to: Form,
    /// The architecture of PTX and cubins: `sm_80`, `sm_90a`, …; default: that of `--cpu`, or `sm_90a`
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Output file; default: standard output (an object needs a file)
    #[arg(long, short = 'o')]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct OptArgs {
    /// `FILE` or `FILE:NAME`: a `.tree` file, or a kernel
    #[arg(value_name = "TARGET")]
    pub file: String,
    /// Steps as in a `.lathe` strategy: `--step 'open ; tile(i: 8, j: 8)'`
    #[arg(long, short = 's')]
    pub step: Vec<String>,
    /// Passes of the optimizer on the tree as it is: `--passes 'inline, cse, forward, licm, dse, dce, promote'`; before
    /// the steps
    #[arg(long, value_name = "PASSES")]
    pub passes: Option<String>,
    /// The function; default: the only one that no other one calls
    #[arg(long)]
    pub function: Option<String>,
}

#[derive(Args, Debug)]
pub struct GradArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub data: InputArgs,
    /// Inputs to differentiate by: `--wrt A,B`; default: all of float types
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// Outputs to differentiate: `--of C`; default: all of float types
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub of: Vec<String>,
    /// Cotangents of the inputs, or tangents of the outputs
    #[arg(long, default_value = "reverse", value_parser = ["reverse", "forward"])]
    pub mode: String,
    /// Reverse mode: gives the outputs of the kernel, too
    #[arg(long)]
    pub value: bool,
    /// `steps`: `floor`, `round` and conversions to integers count as locally constant
    #[arg(long, value_parser = ["steps"])]
    pub allow: Vec<String>,
    /// Passes of the optimizer before and after differentiation, `raise` (loops to index notation) as the last before and `tidy`
    /// (what both sweeps compute) as the first after it; default: `'inline, licm, raise : tidy, cse, forward, cse, dse, dce,
    /// promote'`, none: `:`
    #[arg(long, value_name = "PASSES")]
    pub passes: Option<String>,
    /// Runs loops in threads, and says how cotangents that iterations share are added up: by partial results of chunks where
    /// all share them (`reduce`), by copies of arrays (`private`), by atomic updates, or as it suits (`auto`: copies of arrays of at most
    /// 1024 elements); `plain` leaves loops that share any in order
    #[arg(long, value_name = "HOW", value_parser = ["auto", "plain", "reduce", "private", "atomic"])]
    pub accumulate: Option<String>,
    /// Loops in threads whose results have the same bits for every number of threads: no atomic updates
    #[arg(long)]
    pub deterministic: bool,
    /// What is kept of outermost loops that carry arrays: `none` (values of every iteration), `revolve:N` (N states at a time), or
    /// as many states as fit in a number of bytes (`64M`; sizes by `-D`); the iterations between states run again
    #[arg(long, value_name = "C", default_value = "none")]
    pub checkpoint: String,
    /// Compares with central differences and with the other mode, in f64; sizes that are not given are small
    #[arg(long)]
    pub check: bool,
    /// Measures kernel and derivative in this many interleaved rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Writes the derivative as a tree; default: standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct FmtArgs {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Only says which files would change; exit status 1 if any would
    #[arg(long)]
    pub check: bool,
}

/// `NAME=VALUE`.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((n, v)) if !n.trim().is_empty() && !v.trim().is_empty() => {
            Ok((n.trim().to_string(), v.trim().to_string()))
        }
        _ => Err(format!("`{text}` is not of the form NAME=VALUE")),
    }
}
