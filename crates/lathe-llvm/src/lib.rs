//! The LLVM engine: a function of the tree becomes machine code in this process, an object file, or
//! text.
//!
//! * [`compile`], [`load_object`]: code that can be called.
//! * [`emit_ir`], [`emit_asm`], [`emit_object`]: the same code to read or to link.
//!
//! The bits of every result are the interpreter's: no fast-math flags, no contraction that the tree
//! does not say. Nothing outside this process is run.

mod alloc;
mod arith;
mod calls;
pub mod codes;
mod emit;
mod entry;
mod expr;
mod inscan;
mod interleave;
mod ir;
mod jit;
mod loops;
mod machine;
mod memory;
mod parallel;
mod pitch;
mod round;
mod scan_checks;
mod stmt;
mod value;

pub use codes::CODES;
pub use jit::{Compiled, load_object};
pub use machine::host;

use ir::Ir;
use lathe_abi::CheckKind;
use lathe_diagnostics::Diagnostic;
use lathe_ir::lower::{Check, check_table};
use lathe_ir::{Function, Module};
use lathe_poly::simplify::simplify_function;
use machine::Machine;
use std::time::{Duration, Instant};

/// How to generate code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// A processor name of LLVM's; `None`: the one at hand.
    pub cpu: Option<String>,
    /// LLVM's list, e.g. `+avx2,-avx512f`; `None`: those of the machine at hand, or the processor's own
    /// if `cpu` is given.
    pub features: Option<String>,
    /// 0: fast compilation; 2: for scheduled trees; 3: with LLVM's own vectorizers.
    pub opt_level: u8,
    /// Leaves the body for any strides out, which halves the compilation; the kernel then returns
    /// [`lathe_abi::status::STRIDES`] where an innermost stride is not 1.
    pub unit_strides_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { cpu: None, features: None, opt_level: 2, unit_strides_only: false }
    }
}

/// The numbers that a kernel returns, in order from 1.
///
/// # Errors
/// `E0701` when a size of the function is no parameter's extent.
pub fn checks(func: &Function) -> Result<Vec<CheckKind>, Diagnostic> {
    let table = check_table(func).map_err(emit::refused)?;
    Ok(table.entries.iter().map(check_kind).collect())
}

fn check_kind(c: &Check) -> CheckKind {
    match c {
        Check::Dtype { param } => CheckKind::Dtype { param: *param },
        Check::Rank { param } => CheckKind::Rank { param: *param },
        Check::Size { param, dim } => CheckKind::Size { param: *param, dim: *dim },
        Check::Shape { param, dim } => CheckKind::Shape { param: *param, dim: *dim },
        Check::Overlap { a, b } => CheckKind::Overlap { a: *a, b: *b },
        Check::User { code, message } => {
            CheckKind::User { code: code.to_string(), message: message.to_string() }
        }
    }
}

/// A stopwatch over stages.
struct Stages {
    last: Instant,
    times: Vec<(String, Duration)>,
}

impl Stages {
    fn end(&mut self, name: &str) {
        let now = Instant::now();
        self.times.push((name.to_string(), now - self.last));
        self.last = now;
    }
}

/// The optimized module, its machine, and what that took.
fn build(module: &Module, func: &Function, options: &Options) -> Result<(Ir, Machine, Stages), Diagnostic> {
    let mut stages = Stages { last: Instant::now(), times: Vec::new() };
    let machine = Machine::new(options.cpu.as_deref(), options.features.as_deref(), options.opt_level)?;
    let table = check_table(func).map_err(emit::refused)?;
    let func = &simplify_function(&scan_checks::in_blocks(func));
    let ir = Ir::new(&func.name);
    machine.adopt(&ir);
    let target = entry::Target {
        cpu: &machine.cpu,
        features: &machine.features,
        x86: machine.is_x86_64(),
        bit_masks: machine.features.split(',').any(|f| f == "+avx512f"),
        unit_strides_only: options.unit_strides_only,
    };
    entry::emit(&ir, module, func, &table, &target)?;
    stages.end("emit");
    machine.verify(&ir)?;
    stages.end("verify");
    machine.optimize(&ir, options.opt_level)?;
    stages.end("passes");
    Ok((ir, machine, stages))
}

/// Machine code of a kernel that is not loaded yet: what can be kept and loaded again.
#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: Vec<u8>,
    /// What the numbers that the entry returns stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
    /// Wall-clock time of every stage of the compilation, in order.
    pub times: Vec<(String, Duration)>,
}

impl Object {
    /// Loads the code into this process; `symbol` is the function's name.
    ///
    /// # Errors
    /// As [`load_object`].
    pub fn load(self, symbol: &str) -> Result<Compiled, Diagnostic> {
        let start = Instant::now();
        let compiled = load_object(&self.bytes, symbol, self.checks)?;
        let mut times = self.times;
        times.push(("load".to_string(), start.elapsed()));
        Ok(compiled.with_times(times))
    }
}

/// Compiles a function to an object. User checks keep their numbers of [`checks`].
///
/// # Errors
/// As [`compile`].
pub fn object(module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
    let (ir, machine, mut stages) = build(module, func, options)?;
    let bytes = machine.generate(&ir, false)?;
    stages.end("code");
    Ok(Object { bytes, checks: checks(func)?, times: stages.times })
}

/// Compiles a function into this process. User checks keep their numbers of [`checks`].
///
/// # Errors
/// `E0701` on constructs that this engine does not take, `E0702` on vector loops whose lanes write one
/// element, `E0703` on unknown machines.
pub fn compile(module: &Module, func: &Function, options: &Options) -> Result<Compiled, Diagnostic> {
    object(module, func, options)?.load(&func.name)
}

/// The optimized LLVM IR, as text.
///
/// # Errors
/// As [`compile`].
pub fn emit_ir(module: &Module, func: &Function, options: &Options) -> Result<String, Diagnostic> {
    Ok(build(module, func, options)?.0.print())
}

/// Assembly text of the machine.
///
/// # Errors
/// As [`compile`].
pub fn emit_asm(module: &Module, func: &Function, options: &Options) -> Result<String, Diagnostic> {
    let (ir, machine, _) = build(module, func, options)?;
    Ok(String::from_utf8_lossy(&machine.generate(&ir, true)?).into_owned())
}

/// A relocatable object file that exports the kernel under the function's name.
///
/// # Errors
/// As [`compile`].
pub fn emit_object(module: &Module, func: &Function, options: &Options) -> Result<Vec<u8>, Diagnostic> {
    let (ir, machine, _) = build(module, func, options)?;
    machine.generate(&ir, false)
}
