//! The LLVM engine: a function of the tree becomes machine code in this process, an object file, or
//! text.
//!
//! The bits of every result are the interpreter's: no fast-math flags, no contraction that the tree
//! does not say. Nothing outside this process is run.

mod alloc;
mod arith;
mod atomic;
mod cluster;
mod copies;
mod emit;
mod entry;
mod expr;
mod externals;
mod guarded;
mod inscan;
mod interleave;
mod ir;
mod jit;
mod loops;
mod machine;
mod memory;
mod nests;
mod parallel;
mod parts;
pub mod ptx;
mod shuffles;
mod stmt;
mod strided;
mod turns;
mod unscheduled;
mod value;
mod x86;

use ir::Ir;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{
    Capabilities, CheckTable, Code, Engine, Form, Object, Options, accept, check_table, needs, no_form,
};
use lathe_ir::{Executor, Function, Module, Stage, Stmt};
use lathe_poly::bounds::constant_trips;
use machine::Machine;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The engine `llvm`.
pub struct Llvm;

static CAPABILITIES: LazyLock<Capabilities> =
    LazyLock::new(|| Capabilities::plain().executors(&["vector", "inscan", "cpu"]).forms(&[Form::External]));

impl Engine for Llvm {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn compiler(&self) -> String {
        format!("llvm {}", machine::version().0)
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        static HERE: LazyLock<String> = LazyLock::new(|| {
            let (cpu, features) = machine::host();
            let (major, minor, patch) = machine::version();
            format!("LLVM {major}.{minor}.{patch} {cpu} {features}")
        });
        Ok(HERE.clone())
    }

    fn compile(&self, module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
        let Emitted { ir, bodies, machine, table, passes, mut stages } =
            emitted(module, func, options, true)?;
        let all = std::iter::once(&ir).chain(bodies.iter().flatten().filter(|b| !b.is_empty()));
        let parts: Vec<_> = all.map(|part| parts::object(&machine, part, passes, &mut stages)).collect();
        let bytes = parts::join(&parts.into_iter().collect::<Result<Vec<_>, _>>()?);
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: table.entries,
            bytes,
            times: stages.times,
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        Ok(Box::new(jit::load(&object.bytes, &object.symbol)?))
    }

    fn forget(&self) {
        parts::forget();
    }

    fn forms(&self) -> &'static [&'static str] {
        &["llvm", "asm", "object"]
    }

    fn emit(
        &self,
        module: &Module,
        func: &Function,
        form: &str,
        options: &Options,
    ) -> Result<Vec<u8>, Diagnostic> {
        if !self.forms().contains(&form) {
            return Err(no_form(self.name(), form, self.forms()));
        }
        let Emitted { ir, machine, passes, .. } = emitted(module, func, options, false)?;
        machine.optimize(&ir, passes)?;
        match form {
            "llvm" => Ok(ir.print().into_bytes()),
            _ => machine.generate(&ir, form == "asm"),
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

/// What LLVM gets, before any pass.
struct Emitted {
    /// The entry, and everything else where there are no modules of bodies.
    ir: Ir,
    bodies: Option<[Ir; 2]>,
    machine: Machine,
    table: CheckTable,
    /// Lists that run one after the other.
    passes: &'static [&'static str],
    stages: Stages,
}

/// The verified modules of a function (one, unless it may be in parts), its machine and checks, and what that took.
fn emitted(
    module: &Module,
    func: &Function,
    options: &Options,
    may_part: bool,
) -> Result<Emitted, Diagnostic> {
    let mut stages = Stages { last: Instant::now(), times: Vec::new() };
    let machine = Machine::new(options)?;
    accept("llvm", &CAPABILITIES, module, func)?;
    let table = check_table(module, func).map_err(needs::free_size)?;
    let func = &lathe_lower::lower_for_vectors(module, func).map_err(emit::refused)?;
    let ir = Ir::new(&func.name);
    let passes = passes(options.opt_level, func);
    // Passes that look at one function at a time lose nothing where functions are in several modules.
    let apart = may_part && passes.iter().all(|list| list.starts_with("function("));
    let bodies = apart.then(|| [ir.beside(&func.name), ir.beside(&func.name)]);
    let all = || std::iter::once(&ir).chain(bodies.iter().flatten());
    all().for_each(|ir| machine.adopt(ir));
    let target = entry::Target {
        cpu: &machine.cpu,
        features: &machine.features,
        x86: machine.is_x86_64(),
        bit_masks: machine.bit_masks,
        avx2: machine.avx2,
        avx512: machine.avx512,
        vscale: machine.vscale,
        unit_strides_only: options.unit_strides_only,
    };
    entry::emit(&ir, bodies.as_ref(), module, func, &table, &target)?;
    stages.end("emit");
    all().try_for_each(|ir| machine.verify(ir))?;
    stages.end("verify");
    Ok(Emitted { ir, bodies, machine, table, passes, stages })
}

/// As many statements that unrolled loops write out are in the body of one loop: the dependence analysis of LLVM's
/// passes over loops compares all of a body with each other.
const LONG: i64 = 512;

/// Whether unrolled loops write out more than LLVM's passes over loops take in reasonable time.
fn some_long(func: &Function) -> bool {
    fn longest(s: &Stmt) -> i64 {
        let own = i64::from(s.label().is_some());
        let inside = s.children().map(longest).fold(own, i64::saturating_add);
        match s.as_loop().filter(|l| l.exec == Executor::Unrolled) {
            Some(l) => inside.saturating_mul(constant_trips(l).unwrap_or(1).max(1)),
            None => inside,
        }
    }
    longest(&func.body) > LONG
}

/// What every tree with a schedule gets: values in registers, shared addresses, and out of loops what does not change there.
macro_rules! scheduled {
    () => {
        "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
         loop-mssa(licm<no-allowspeculation>),gvn,instcombine<no-verify-fixpoint>,\
         loop-mssa(licm),simplifycfg,dse,adce"
    };
}

/// What nests that nobody scheduled get besides, of what LLVM does with C: conditions that are known from others, short loops written
/// out before anything is made of what they then are, lanes of iterations. Not lanes of neighbouring statements, which put together
/// what scatters store one by one (1.6 times slower for the derivative of a bundle adjustment).
macro_rules! free {
    () => {
        "jump-threading,correlated-propagation,simplifycfg,instcombine<no-verify-fixpoint>,\
         loop-mssa(loop-rotate,licm<no-allowspeculation>,simple-loop-unswitch<no-nontrivial;trivial>),\
         simplifycfg,instcombine<no-verify-fixpoint>,loop(indvars,loop-idiom,loop-deletion,loop-unroll-full),\
         sroa,mldst-motion,gvn,sccp,bdce,instcombine<no-verify-fixpoint>,jump-threading,correlated-propagation,\
         adce,dse,loop-mssa(licm<no-allowspeculation>),simplifycfg,instcombine<no-verify-fixpoint>,\
         loop-vectorize,loop-load-elim"
    };
}

/// What follows these lanes: a list of its own, since masked loads are new.
const BEHIND: &str = "function(instcombine<no-verify-fixpoint>,simplifycfg,loop-unroll,instcombine<no-verify-fixpoint>,\
    loop-mssa(licm<no-allowspeculation>),simplifycfg,adce)";

/// Whether statements run under conditions, of which lanes make masks.
fn has_conditions(s: &Stmt) -> bool {
    s.as_if().is_some() || s.children().any(has_conditions)
}

/// A nest with lanes arrives with its loops, vectors and unrolling decided, so that what is left to do is to keep
/// values in registers, to share addresses, and to move what does not change out of loops. Other nests, and all of a
/// tree without a schedule, are nobody's yet: LLVM's own passes over loops, its vectorizers among them, do with them
/// what they do with C.
fn passes(opt_level: u8, func: &Function) -> &'static [&'static str] {
    match opt_level {
        0 => &["function(sroa)"],
        // Without conditions there are no masks.
        1 | 2 if func.stage == Stage::Plain && !has_conditions(&func.body) => &["default<O2>"],
        _ if func.stage == Stage::Plain => {
            &[concat!("cgscc(inline),function(", scheduled!(), ",", free!(), ")"), BEHIND]
        }
        _ if !unscheduled::some(func) || some_long(func) => &[concat!("function(", scheduled!(), ")")],
        _ => &[concat!("function(", scheduled!(), ",", free!(), ")"), BEHIND],
    }
}
