//! Target machines and the passes that run over a module.

use crate::emit::Result;
use crate::guarded;
use crate::ir::{Ir, c_string};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Options, codes};
use lathe_target::Code;
use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::core::{
    LLVMDisposeMemoryBuffer, LLVMDisposeMessage, LLVMGetBufferSize, LLVMGetBufferStart, LLVMGetVersion,
    LLVMSetTarget,
};
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use llvm_sys::prelude::LLVMMemoryBufferRef;
use llvm_sys::support::LLVMParseCommandLineOptions;
use llvm_sys::target::LLVMSetModuleDataLayout;
use llvm_sys::target::{
    LLVMInitializeAArch64AsmPrinter, LLVMInitializeAArch64Target, LLVMInitializeAArch64TargetInfo,
    LLVMInitializeAArch64TargetMC,
};
use llvm_sys::target::{
    LLVMInitializeNVPTXAsmPrinter, LLVMInitializeNVPTXTarget, LLVMInitializeNVPTXTargetInfo,
    LLVMInitializeNVPTXTargetMC,
};
use llvm_sys::target::{
    LLVMInitializeX86AsmPrinter, LLVMInitializeX86Target, LLVMInitializeX86TargetInfo,
    LLVMInitializeX86TargetMC,
};
use llvm_sys::target_machine::*;
use llvm_sys::transforms::pass_builder::*;
use std::ffi::{CStr, c_char};
use std::sync::{LazyLock, Mutex, MutexGuard, Once};

/// A machine that code is generated for.
pub struct Machine {
    raw: LLVMTargetMachineRef,
    triple: String,
    pub cpu: String,
    pub features: String,
    opt_level: u8,
    /// Vectors that scale have this many times 128 bits; 0: vectors do not scale.
    pub vscale: u32,
    /// The machine holds masks of lanes as bits.
    pub bit_masks: bool,
    /// It has the instructions of AVX2.
    pub avx2: bool,
    /// It has the instructions of AVX-512 on vectors of every length.
    pub avx512: bool,
}

impl Drop for Machine {
    fn drop(&mut self) {
        idle().put(self.identity(), Idle(self.raw));
    }
}

/// A code generator that nobody uses.
struct Idle(LLVMTargetMachineRef);

// SAFETY: code generators belong to no thread; one thread at a time has it.
unsafe impl Send for Idle {}

/// Code generators between compilations: what they know of a processor takes longer to make than the code of a small kernel.
#[derive(Default)]
struct Generators(Vec<(String, Idle)>);

/// So many are kept; the oldest go first.
const IDLE: usize = 8;

impl Generators {
    fn take(&mut self, identity: &str) -> Option<LLVMTargetMachineRef> {
        let at = self.0.iter().rposition(|g| g.0 == identity)?;
        Some(self.0.remove(at).1.0)
    }

    fn put(&mut self, identity: String, generator: Idle) {
        self.0.push((identity, generator));
        if self.0.len() > IDLE {
            // SAFETY: made in `Machine::of`; nobody has it any more.
            unsafe { LLVMDisposeTargetMachine(self.0.remove(0).1.0) }
        }
    }
}

fn idle() -> MutexGuard<'static, Generators> {
    static GENERATORS: LazyLock<Mutex<Generators>> = LazyLock::new(Mutex::default);
    GENERATORS.lock().unwrap_or_else(|p| p.into_inner())
}

/// The architectures that code is generated for, as machine files call them.
const ARCHITECTURES: &[&str] = &["x86_64", "aarch64"];

/// Architectures of CUDA devices, and the version of PTX that their code is written in: the oldest that has all of it.
const CUDA: &[(&str, &str)] = &[
    ("sm_70", "ptx70"),
    ("sm_75", "ptx70"),
    ("sm_80", "ptx70"),
    ("sm_86", "ptx71"),
    ("sm_87", "ptx74"),
    ("sm_89", "ptx78"),
    ("sm_90", "ptx78"),
    ("sm_90a", "ptx80"),
    ("sm_100", "ptx86"),
    ("sm_100a", "ptx86"),
    ("sm_120", "ptx87"),
    ("sm_120a", "ptx87"),
];

/// Registers the code generators of these, once.
pub fn initialize() {
    static INIT: Once = Once::new();
    // SAFETY: these only register targets that the library was built with, and set an option that one of them declares. No
    // others are named, so that a binary with LLVM inside holds no others.
    INIT.call_once(|| unsafe {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeAArch64TargetInfo();
        LLVMInitializeAArch64Target();
        LLVMInitializeAArch64TargetMC();
        LLVMInitializeAArch64AsmPrinter();
        LLVMInitializeNVPTXTargetInfo();
        LLVMInitializeNVPTXTarget();
        LLVMInitializeNVPTXTargetMC();
        LLVMInitializeNVPTXAsmPrinter();
        // By default, choices that a loop carries become branches: faster where they can be predicted, several times slower
        // where data decide at random, as in tables of alignments. What the least and the greatest are is data.
        let options = [c"lathe".as_ptr(), c"-x86-cmov-converter=false".as_ptr()];
        LLVMParseCommandLineOptions(options.len() as i32, options.as_ptr(), std::ptr::null());
    });
}

/// Copies a message that LLVM allocated, and gives it back.
fn take_message(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: a C string owned by us until disposed of.
    unsafe {
        let out = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        out
    }
}

/// The text of an error, which is used up; `None` for success.
pub fn take_error(e: LLVMErrorRef) -> Option<String> {
    if e.is_null() {
        return None;
    }
    // SAFETY: a non-null error is consumed by reading its message.
    unsafe {
        let text = LLVMGetErrorMessage(e);
        let out = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        Some(out)
    }
}

/// The processor at hand: its name and its list of features, as LLVM has them.
pub fn host() -> (String, String) {
    // SAFETY: two constructors of messages that `take_message` gives back.
    unsafe { (take_message(LLVMGetHostCPUName()), take_message(LLVMGetHostCPUFeatures())) }
}

/// LLVM's version: major, minor, patch.
pub fn version() -> (u32, u32, u32) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three out-parameters.
    unsafe { LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    (major, minor, patch)
}

/// The names and features that a target machine is made of.
struct Names {
    triple: String,
    cpu: String,
    features: String,
    vscale: u32,
    bit_masks: bool,
    avx2: bool,
    avx512: bool,
}

impl Names {
    /// Of the machine at hand, or of the one that is asked for. LLVM ends the process on names that it does not know:
    /// only those of machine files that come with Lathe pass.
    fn of(options: &Options) -> Result<Names> {
        // SAFETY: a constructor of a message that `take_message` gives back.
        let here = unsafe { take_message(LLVMGetDefaultTargetTriple()) };
        let (cpu, host_features) = host();
        let has = |features: &str, name: &str| features.split(',').any(|f| f == name);
        let masks = |features: &str| has(features, "+avx512f");
        let avx2 = |features: &str| has(features, "+avx2");
        let avx512 = |features: &str| ["+avx512f", "+avx512dq", "+avx512vl"].iter().all(|f| has(features, f));
        let names = match &options.target {
            None => {
                let features = options.features.clone().unwrap_or_else(|| host_features.clone());
                Names {
                    triple: here,
                    cpu,
                    bit_masks: masks(&features),
                    avx2: avx2(&features),
                    avx512: avx512(&features),
                    features,
                    vscale: 0,
                }
            }
            Some(t) => {
                check_target(t)?;
                let native = t.arch == std::env::consts::ARCH;
                let asked = options.features.clone().unwrap_or_default();
                let both = [t.features.as_str(), &asked].into_iter().filter(|f| !f.is_empty());
                Names {
                    triple: if native { here } else { t.triple.clone() },
                    cpu: t.cpu.clone(),
                    features: both.collect::<Vec<_>>().join(","),
                    vscale: t.vscale,
                    bit_masks: t.needs.iter().any(|n| n == "avx512") || masks(&asked),
                    avx2: t.needs.iter().any(|n| n == "avx2") || avx2(&asked),
                    avx512: t.needs.iter().any(|n| n == "avx512") || avx512(&asked),
                }
            }
        };
        check_features(&names.features, &host_features)?;
        Ok(names)
    }
}

impl Machine {
    /// The machine that options ask for.
    ///
    /// # Errors
    /// When LLVM knows no such machine.
    pub fn new(options: &Options) -> Result<Machine> {
        initialize();
        Machine::of(Names::of(options)?, options.opt_level)
    }

    /// A CUDA device of an architecture such as `sm_90a`.
    ///
    /// # Errors
    /// `E0703` for architectures that are not in the list: LLVM ends the process on names that it does not know.
    pub fn nvptx(arch: &str) -> Result<Machine> {
        initialize();
        let known = CUDA.iter().find(|(name, _)| *name == arch);
        let Some((cpu, isa)) = known else {
            let all: Vec<&str> = CUDA.iter().map(|c| c.0).collect();
            let text = format!("the engine `llvm` makes no PTX for `{}`", arch.escape_debug());
            return Err(Diagnostic::error(codes::MACHINE, text).help(format!("one of {}", all.join(", "))));
        };
        let (triple, features) = ("nvptx64-nvidia-cuda".to_string(), format!("+{isa}"));
        let names = Names {
            triple,
            cpu: (*cpu).to_string(),
            features,
            vscale: 0,
            bit_masks: false,
            avx2: false,
            avx512: false,
        };
        Machine::of(names, 3)
    }

    fn of(names: Names, opt_level: u8) -> Result<Machine> {
        let error = |text: String| Diagnostic::error(codes::MACHINE, text);
        let Names { triple, cpu, features, vscale, bit_masks, avx2, avx512 } = names;
        let of = |raw, triple, cpu, features| Machine {
            raw,
            triple,
            cpu,
            features,
            opt_level,
            vscale,
            bit_masks,
            avx2,
            avx512,
        };
        let identity = identity(&triple, &cpu, &features, opt_level);
        if let Some(raw) = idle().take(&identity) {
            return Ok(of(raw, triple, cpu, features));
        }
        let mut target = std::ptr::null_mut();
        let mut message = std::ptr::null_mut();
        let c_triple = c_string(&triple);
        // SAFETY: out-parameters of the right types.
        if unsafe { LLVMGetTargetFromTriple(c_triple.as_ptr(), &mut target, &mut message) } != 0 {
            return Err(error(format!("no code generator for `{triple}`: {}", take_message(message))));
        }
        let level = match opt_level {
            0 => LLVMCodeGenOptLevel::LLVMCodeGenLevelNone,
            1 => LLVMCodeGenOptLevel::LLVMCodeGenLevelLess,
            2 => LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault,
            _ => LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive,
        };
        let (c_cpu, c_features) = (c_string(&cpu), c_string(&features));
        // SAFETY: a target found above and C strings.
        let raw = unsafe {
            LLVMCreateTargetMachine(
                target,
                c_triple.as_ptr(),
                c_cpu.as_ptr(),
                c_features.as_ptr(),
                level,
                LLVMRelocMode::LLVMRelocPIC,
                LLVMCodeModel::LLVMCodeModelDefault,
            )
        };
        if raw.is_null() {
            return Err(error(format!("LLVM has no machine `{cpu}`")));
        }
        Ok(of(raw, triple, cpu, features))
    }

    /// All that the code of a module depends on besides the module and the passes.
    pub fn identity(&self) -> String {
        identity(&self.triple, &self.cpu, &self.features, self.opt_level)
    }

    pub fn is_x86_64(&self) -> bool {
        self.triple.starts_with("x86_64")
    }

    /// Gives a module this machine's triple and data layout.
    pub fn adopt(&self, ir: &Ir) {
        let triple = c_string(&self.triple);
        // SAFETY: the module is alive; the layout is copied.
        unsafe {
            LLVMSetTarget(ir.module, triple.as_ptr());
            let layout = LLVMCreateTargetDataLayout(self.raw);
            LLVMSetModuleDataLayout(ir.module, layout);
            llvm_sys::target::LLVMDisposeTargetData(layout);
        }
    }

    /// # Errors
    /// With LLVM's words and the module, when the module is malformed.
    pub fn verify(&self, ir: &Ir) -> Result<()> {
        let mut message = std::ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        // SAFETY: out-parameter of the right type.
        let bad = unsafe { LLVMVerifyModule(ir.module, action, &mut message) } != 0;
        let text = take_message(message);
        if !bad {
            return Ok(());
        }
        Err(Diagnostic::error(codes::DEFECT, format!("the generated code is malformed: {}", text.trim()))
            .help("this is a defect of Lathe; please report it with the program and the strategy"))
    }

    /// Runs lists of passes, and keeps them from what they would make wrong or slow ([`guarded`]): none may combine instructions
    /// behind one in it that makes masked loads.
    ///
    /// # Errors
    /// When LLVM refuses a list.
    pub fn optimize(&self, ir: &Ir, passes: &[&str]) -> Result<()> {
        for list in passes {
            guarded::masked_loads(ir);
            self.run(ir, list)?;
        }
        if self.is_x86_64() && !self.bit_masks {
            guarded::stored(ir);
        }
        Ok(())
    }

    fn run(&self, ir: &Ir, passes: &str) -> Result<()> {
        let passes = c_string(passes);
        // SAFETY: module and machine are alive; the options are disposed of.
        let failed = unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let e = LLVMRunPasses(ir.module, passes.as_ptr(), self.raw, options);
            LLVMDisposePassBuilderOptions(options);
            take_error(e)
        };
        match failed {
            None => Ok(()),
            Some(text) => Err(Diagnostic::error(codes::DEFECT, format!("LLVM's passes: {text}"))),
        }
    }

    /// Generates code: an object file, or assembly text.
    ///
    /// # Errors
    /// When the machine cannot express the module.
    pub fn generate(&self, ir: &Ir, assembly: bool) -> Result<Vec<u8>> {
        let kind = if assembly {
            LLVMCodeGenFileType::LLVMAssemblyFile
        } else {
            LLVMCodeGenFileType::LLVMObjectFile
        };
        let mut message = std::ptr::null_mut();
        let mut buffer: LLVMMemoryBufferRef = std::ptr::null_mut();
        // SAFETY: out-parameters of the right types.
        let bad = unsafe {
            LLVMTargetMachineEmitToMemoryBuffer(self.raw, ir.module, kind, &mut message, &mut buffer)
        } != 0;
        if bad {
            return Err(Diagnostic::error(
                codes::DEFECT,
                format!("code generation: {}", take_message(message)),
            ));
        }
        // SAFETY: the buffer is copied, then disposed of.
        unsafe {
            let start = LLVMGetBufferStart(buffer).cast::<u8>();
            let bytes = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
            LLVMDisposeMemoryBuffer(buffer);
            Ok(bytes)
        }
    }
}

fn identity(triple: &str, cpu: &str, features: &str, opt_level: u8) -> String {
    let (major, minor, patch) = version();
    format!("LLVM {major}.{minor}.{patch} {triple} {cpu} {features} O{opt_level}")
}

/// A machine of a file: its processor is one that the files of Lathe name, for one of the architectures that this engine
/// generates code for.
fn check_target(t: &Code) -> Result<()> {
    let error = |text: String| Err(Diagnostic::error(codes::MACHINE, text));
    if !ARCHITECTURES.contains(&t.arch.as_str()) {
        return error(format!("the engine `llvm` makes no code for `{}`", t.arch.escape_debug()));
    }
    let same = |m: lathe_target::Machine| m.code.arch == t.arch && m.code.cpu == t.cpu;
    let known =
        lathe_target::Machine::names().iter().filter_map(|n| lathe_target::Machine::named(n)).any(same);
    if !known || !t.triple.starts_with(&t.arch) || t.vscale > 16 {
        return error(format!("unknown processor `{}` of `{}`", t.cpu.escape_debug(), t.arch));
    }
    Ok(())
}

/// Features are `+name` or `-name`, with names that the machine at hand has or lacks, or that a machine file of Lathe
/// asks for; those that every program of 64 bits needs cannot be taken away.
fn check_features(features: &str, host: &str) -> Result<()> {
    const BASE: &[&str] = &["64bit", "cmov", "cx8", "fxsr", "sse", "sse2"];
    const OTHERS: &[&str] = &["sve", "sve2"];
    for f in features.split(',').filter(|f| !f.is_empty()) {
        let name = f.strip_prefix(['+', '-']).unwrap_or("");
        let known =
            OTHERS.contains(&name) || host.split(',').any(|h| h.strip_prefix(['+', '-']) == Some(name));
        if !known || (f.starts_with('-') && BASE.contains(&name)) {
            return Err(Diagnostic::error(codes::MACHINE, format!("no feature `{f}` to ask for"))
                .help("features are written `+avx2,-avx512f`"));
        }
    }
    Ok(())
}
