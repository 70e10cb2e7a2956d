//! Kernels of devices: an SPMD tree (see `lathe-device`) as CUDA C or OpenCL C.
//!
//! Expressions and statements are written by the printer of C. Arrays are dense and row-major, their addresses multiples
//! of 16; a kernel's parameters are the arrays that it touches, then sizes and scalars, then, if it can fail, the place
//! of a status. The blocks of a grid are numbered in one dimension.

pub(crate) mod cluster;
mod constants;
mod copies;
pub(crate) mod language;
mod shuffles;
mod turns;

pub use language::Language;

use crate::emit::{Buf, Device, Emitter, Place, Result, Var, lift, unsupported};
use crate::helpers::memory_type;
use crate::names::Names;
use crate::writer::bare;
use lathe_abi::CheckKind;
use lathe_device::{Argument, KernelPlan, Limits, Plan, resident_blocks};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_engine::feature::Statement;
use lathe_engine::{Capabilities, Form, accept, check_table, needs};
use lathe_ir::lower::inscan::expand_function;
use lathe_ir::lower::storage;
use lathe_ir::visit::walk;
use lathe_ir::{BufId, Buffer, Function, Mode, Module, Scalar, Space, Stmt, StmtKind};
use lathe_lower::{addresses, halves};
use lathe_poly::simplify::simplify_function;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// More shared memory than this must be asked for at the launch.
pub const STATIC_SHARED: u64 = 48 << 10;

/// A kernel in the source, beside what the plan says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceKernel {
    pub name: String,
    /// Bytes of shared memory of one block.
    pub shared_bytes: u64,
    /// They are given at the launch, rather than by the code.
    pub dynamic: bool,
    /// Its last parameter is the address of a status, 0 before the first launch.
    pub status: bool,
    /// Before that comes the address of that many words of 64 bits per block, and one more, all 0 before the launch;
    /// none if it is 0.
    pub turns: u64,
    /// The kernel does nothing if this word of the status is not 0: a kernel before it has failed, and what that one checked
    /// does not hold. It is word 1 where threads of this kernel may fail themselves while others, which they wait for, look:
    /// then the launch begins with a copy of word 0 there.
    pub after: Option<u32>,
}

/// What [`emit`] makes.
#[derive(Clone, Debug)]
pub struct DeviceSource {
    /// A whole file.
    pub source: String,
    /// In the order of the plan's.
    pub kernels: Vec<DeviceKernel>,
    pub plan: Plan,
    /// The SPMD tree that was printed.
    pub function: Function,
    /// The same before it was lowered, which [`race`] looks at.
    pub threads: Function,
    /// What the numbers of the status stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
}

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    use Statement::*;
    Capabilities::none()
        .statements(&[
            Let, Store, Reduce, Atomic, Loop, If, While, Alloc, Check, Assume, Prefetch, Barrier, Call,
        ])
        .executors(&["serial", "unrolled", "vector", "inscan"])
        .executors(&["device", "grid", "cluster", "block", "warp", "lane"])
        .spaces(&[Space::Host, Space::Global, Space::Shared, Space::Stack, Space::Register])
        .types(&Scalar::ALL)
        .views(&[lathe_engine::Through::Slice, lathe_engine::Through::Reshape, lathe_engine::Through::Global])
        .layouts(lathe_engine::Step::ALL)
        .forms(&[Form::Aggregate, Form::NestedVectors, Form::LaneArray, Form::WideVector, Form::InOrder])
});

/// What both languages take.
pub fn capabilities() -> &'static Capabilities {
    &CAPABILITIES
}

/// Writes the kernels of a function, phased or SPMD.
///
/// # Errors
/// `E0701` naming a construct that devices do not take, `E0831` to `E0833` for trees that are no kernels, `E0505` for
/// kernels with a race: threads that access one element, one writing, without a barrier in between.
pub fn emit(module: &Module, func: &Function, language: Language, limits: Limits) -> Result<DeviceSource> {
    let source = print(module, func, language, limits)?;
    match race(module, &source) {
        Some(race) => Err(race),
        None => Ok(source),
    }
}

/// A race that the kernels surely have. What a phased tree orders, its kernels must order by barriers.
pub fn race(module: &Module, source: &DeviceSource) -> Option<Diagnostic> {
    lathe_analysis::certain_race(module, &source.threads)
}

/// As [`emit`], for callers who ask for a [`race`] themselves, as beside what a compiler takes, or have done so.
///
/// # Errors
/// As [`emit`], but for races.
pub fn print(module: &Module, func: &Function, language: Language, limits: Limits) -> Result<DeviceSource> {
    accept(language.word(), capabilities(), module, func)?;
    let func = &lathe_lower::calls::inline(module, func);
    let table = check_table(module, func).map_err(lift)?;
    // Blocks that wait for one another are blocks of several kernels.
    let func = &lathe_lower::phases::to_phased(func, &lathe_device::is_grid).map_err(lift)?;
    let threads = simplify_function(&lathe_device::to_spmd(&simplify_function(func), limits)?);
    let (constants, lowered) = lathe_device::constants::constants(module, &expand_function(module, &threads))
        .map_err(needs::free_size)?;
    let lowered = halves::in_floats(&lowered);
    let lowered = addresses::plain(&lowered).map_err(lift)?;
    let plan = lathe_device::plan(&lowered)?;
    let mut e = Emitter::new(module, &lowered, &table);
    e.names = Names::of_devices();
    let arrays = Arrays::of(&lowered);
    let declared = constants::declare(&mut e, &constants, language)?;
    let mut printed = Vec::new();
    let base = e.names.clone();
    for (number, k) in plan.kernels.iter().enumerate() {
        e.names = base.clone();
        for (_, name, _) in &e.typedefs {
            e.names.take(name);
        }
        // No name of a function that the language has already.
        let number = if plan.kernels.len() == 1 { String::new() } else { format!("_{number}") };
        let hint = format!("{}_kernel{number}", func.name);
        let name = e.names.fresh(&hint);
        e.copies = match language {
            Language::Cuda => lathe_device::copies::overlapping(&lowered, k),
            Language::OpenCl => Default::default(),
        };
        printed.push(kernel(&mut e, k, language, name, &arrays)?);
    }
    let fails: Vec<bool> = printed.iter().map(|p| p.kernel.status).collect();
    let (mut texts, mut kernels) = (Vec::new(), Vec::new());
    for (p, follows) in printed.into_iter().zip(plan.follows(&fails)) {
        let (kernel, text) = p.finish(language, follows);
        kernels.push(kernel);
        texts.push(text);
    }
    let source = assemble(&e, language, &declared, &texts, kernels.iter().any(|k| k.status));
    Ok(DeviceSource {
        source,
        kernels,
        plan,
        checks: table.entries.clone(),
        function: lathe_device::constants::named(&constants, &lowered),
        threads,
    })
}

/// How the kernels may see arrays of the function.
struct Arrays {
    /// Read-only, and nothing else points there.
    known: HashMap<BufId, (bool, bool)>,
}

impl Arrays {
    fn of(f: &Function) -> Arrays {
        let each =
            f.params.iter().filter_map(|p| Some((p.array()?.id, (p.mode == Mode::In, p.alias.is_none()))));
        Arrays { known: each.collect() }
    }
}

/// A kernel whose place among the others is not looked at yet.
struct Printed {
    kernel: DeviceKernel,
    /// What stands before its name, its parameters but the status, and what is between the braces.
    head: String,
    params: Vec<String>,
    body: String,
    /// Threads, or blocks, wait for one another.
    barriers: bool,
}

impl Printed {
    /// The kernel; one that follows others that may fail asks first whether one has.
    fn finish(self, language: Language, follows: bool) -> (DeviceKernel, String) {
        let Printed { mut kernel, head, mut params, body, barriers } = self;
        let mut first = String::new();
        if follows {
            let word = u32::from(kernel.status && barriers);
            kernel.after = Some(word);
            kernel.status = true;
            first = format!("    if (lathe_status[{word}] != 0) return;\n");
        }
        if kernel.status {
            params.push(language.pointer("int32_t", false, false) + "lathe_status");
        }
        let text = format!("{head} {}({}) {{\n{first}{body}}}\n", kernel.name, params.join(", "));
        (kernel, text)
    }
}

/// Registers that the code of CUDA's compilers has besides a thread's largest array, about.
const BESIDES: i64 = 16;

fn kernel(
    e: &mut Emitter,
    k: &KernelPlan,
    language: Language,
    name: String,
    arrays: &Arrays,
) -> Result<Printed> {
    let barriers = has_barrier(&k.body);
    if (barriers || k.turns) && contains(&k.body, &|s| matches!(s.kind(), StmtKind::Check { .. })) {
        let text = "a device does not take a check in a kernel whose threads wait for one another";
        return Err(Diagnostic::error(lathe_device::codes::NO_KERNEL, text).help(
            "check on the host, before the grid, or write the loops without phases (`--strategy naive`)",
        ));
    }
    let rank = k.cluster.as_ref().map(|c| c.rank.id);
    // Nor may a block leave that others wait for.
    let barriers = barriers || k.turns;
    e.device = Some(Device { language, barriers, thread: k.thread.id, threads: k.threads, rank });
    e.push_frame(1);
    let mut params = Vec::new();
    let mut first_lines = Vec::new();
    for a in &k.arguments {
        match a {
            Argument::Array(b) => {
                let (constant, alone) = arrays.known.get(&b.id).copied().unwrap_or((false, true));
                let name = e.names.fresh(&b.name);
                let elem = e.element_type(&b.elem)?;
                let pointer = language.pointer(&elem, constant, alone);
                if language == Language::Cuda {
                    let ty = format!("{}{elem} *", if constant { "const " } else { "" });
                    first_lines.push(format!("{name} = ({ty})__builtin_assume_aligned({name}, 16);"));
                }
                params.push(format!("{pointer}{name}"));
                let storage = Place::Local { strides: storage(b).map_err(lift)?.strides };
                e.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
            }
            Argument::Scalar(b) => {
                let name = e.names.fresh(&b.name);
                params.push(format!("const {} {name}", memory_type(b.ty)));
                e.vars.insert(b.id, Var { name, ty: b.ty, frame: 0, lanes: false });
            }
        }
    }
    first_lines.iter().for_each(|l| e.line(l));
    grid(e, k, language)?;
    let (shared_bytes, dynamic) = shared(e, k, language)?;
    if let Some(c) = &k.cluster {
        e.cluster_shared(c)?;
    }
    e.stmt(&k.body)?;
    let body = e.frames.pop().map(|f| f.out.finish()).unwrap_or_default();
    // The builtin keeps its name: both compilers of CUDA C know it.
    let body = body.replace("__builtin_assume_aligned", "lathe_aligned");
    let turns = e.turns.take().map_or(0, |t| t.words);
    if k.turns {
        params.push(language.pointer("uint64_t", false, true) + "lathe_turns");
    }
    let status = body.contains("lathe_status");
    let head = language.kernel(k.threads, cluster::size(k), resident_blocks(k, BESIDES));
    let kernel = DeviceKernel { name, shared_bytes, dynamic, status, turns, after: None };
    Ok(Printed { kernel, head, params, body, barriers })
}

/// The block's place in the grid, and the thread's in the block.
fn grid(e: &mut Emitter, k: &KernelPlan, language: Language) -> Result<()> {
    let (block, thread) = language.numbers();
    let blocks = cluster::size(k);
    let mut at =
        if blocks > 1 { format!("(int64_t)({block} / {blocks})") } else { format!("(int64_t){block}") };
    e.turns = None;
    if k.turns {
        at = e.ticket(language);
    } else if k.grid.len() > 1 {
        let name = e.names.fresh("block");
        e.line(format!("const int64_t {name} = {at};"));
        at = name;
    }
    let mut values = Vec::new();
    // Innermost first: neighbours in its dimension are neighbours.
    for (number, (l, n)) in k.grid.iter().zip(&k.counts).enumerate().rev() {
        e.begin(&[n, &l.lo]);
        let (n, lo) = (e.uniform(n)?, e.uniform(&l.lo)?);
        let here = if number == 0 { at.clone() } else { format!("{at} % {n}") };
        let scaled = if l.step == 1 { here } else { format!("({here}) * {}", l.step) };
        values.push((l, if lo == "0" { scaled } else { format!("{} + {scaled}", bare(&lo)) }));
        if number > 0 {
            let next = e.names.fresh("block");
            e.line(format!("const int64_t {next} = {at} / {n};"));
            at = next;
        }
    }
    for (l, value) in values.into_iter().rev() {
        let name = e.names.fresh(&l.binder.name);
        e.line(format!("const int64_t {name} = {value};"));
        e.vars.insert(l.binder.id, Var { name, ty: l.binder.ty, frame: 0, lanes: false });
        e.ranges.enter_loop(l.binder.id, &l.lo, &l.hi);
    }
    if let Some(c) = &k.cluster {
        e.cluster_rank(c, language);
    }
    let name = e.names.fresh("thread");
    e.line(format!("const int64_t {name} = (int64_t){thread};"));
    e.vars.insert(k.thread.id, Var { name, ty: k.thread.ty, frame: 0, lanes: false });
    let (zero, end) = (lathe_ir::build::index(0), lathe_ir::build::index(k.threads));
    e.ranges.enter_loop(k.thread.id, &zero, &end);
    Ok(())
}

/// The buffers of a block: by the code, or, where they are large, one piece whose size is given at the launch.
fn shared(e: &mut Emitter, k: &KernelPlan, language: Language) -> Result<(u64, bool)> {
    let mut all = Vec::new();
    let mut total = 0u64;
    let clusters = k.cluster.iter().flat_map(|c| &c.shared);
    for b in clusters.chain(&k.shared) {
        let n = elements(b)?;
        all.push((b, n, total));
        total += (n as u64 * b.elem.bytes()).next_multiple_of(16);
    }
    let dynamic = language == Language::Cuda && total > STATIC_SHARED;
    if dynamic {
        e.line("extern __shared__ __align__(16) unsigned char lathe_shared[];");
    }
    for (b, n, offset) in all {
        let (elem, name) = (e.element_type(&b.elem)?, e.names.fresh(&b.name));
        if dynamic {
            e.line(format!("{elem} *{name} = ({elem} *)(lathe_shared + {offset});"));
        } else {
            e.line(language.array(&elem, &name, n.max(1), true));
        }
        let storage = Place::Local { strides: storage(b).map_err(lift)?.strides };
        e.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
    }
    Ok((total, dynamic))
}

/// The number of elements of a buffer whose size is constant.
fn elements(b: &Buffer) -> Result<i64> {
    let st = storage(b).map_err(lift)?;
    let n = st.extents.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?.max(0)));
    n.ok_or_else(|| unsupported(format!("the size of `{}`", b.name), &Places::none()))
}

impl Emitter<'_> {
    /// Ends a branch. PoCL's loops over work items (its method `loopvec`) do not end where one with a barrier ends without.
    pub(crate) fn end_of_branch(&mut self, branch: &Stmt) {
        if let Some(d) = self.device.filter(|d| d.language == Language::OpenCl)
            && has_barrier(branch)
        {
            self.line(d.language.barrier());
        }
    }

    /// A buffer of one thread.
    pub(crate) fn thread_array(&mut self, language: Language, b: &Arc<Buffer>, body: &Stmt) -> Result<()> {
        let n = elements(b)?;
        let (elem, name) = (self.element_type(&b.elem)?, self.names.fresh(&b.name));
        self.line(language.array(&elem, &name, n.max(1), false));
        let storage = Place::Local { strides: storage(b).map_err(lift)?.strides };
        let old = self.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
        self.stmt(body)?;
        match old {
            Some(old) => self.bufs.insert(b.id, old),
            None => self.bufs.remove(&b.id),
        };
        Ok(())
    }
}

/// Whether threads wait for one another inside.
fn has_barrier(s: &Stmt) -> bool {
    contains(s, &|s| matches!(s.kind(), StmtKind::Barrier { .. }))
}

fn contains(s: &Stmt, wanted: &dyn Fn(&Stmt) -> bool) -> bool {
    let mut found = false;
    walk(s, &mut |s, _| {
        found |= wanted(s);
        !found
    });
    found
}

fn assemble(e: &Emitter, language: Language, constants: &str, kernels: &[String], fails: bool) -> String {
    let typedefs: String = e.typedefs.iter().map(|t| format!("{}\n", t.2)).collect();
    let helpers = e.helpers.text();
    let all = typedefs.clone() + &helpers + &kernels.concat();
    let doubles = all.contains("double");
    let how = match language {
        Language::Cuda => {
            "nvrtc or nvcc with --fmad=false (products and sums are contracted only where the source says so)"
        }
        Language::OpenCl => {
            "clBuildProgram with -cl-fp32-correctly-rounded-divide-sqrt where the device has it"
        }
    };
    let mut out = format!(
        "/*\n * `{}`, generated by Lathe for {}.\n * Arrays are dense and row-major, at addresses that 16 divides.\n * {how}.\n */\n",
        e.function.name,
        language.word()
    );
    out.push_str(&language.preamble(doubles));
    if language == Language::OpenCl && all.contains("atom_") {
        out.push_str("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n");
    }
    for part in [&typedefs, &helpers] {
        if !part.is_empty() {
            out.push('\n');
            out.push_str(&language.adapt(part));
        }
    }
    if !constants.is_empty() {
        out.push('\n');
        out.push_str(&language.adapt(constants));
    }
    if fails {
        out.push('\n');
        out.push_str(language.fail());
    }
    if kernels.iter().any(|k| k.contains("lathe_cop")) {
        out.push('\n');
        out.push_str(copies::FUNCTIONS);
    }
    if kernels.iter().any(|k| k.contains("lathe_cluster")) {
        out.push('\n');
        out.push_str(cluster::FUNCTIONS);
    }
    for k in kernels {
        out.push('\n');
        out.push_str(&language.adapt(k).replace("lathe_aligned", "__builtin_assume_aligned"));
    }
    out.replace("LATHE_DIVISION_BY_ZERO", &format!("({})", lathe_abi::status::DIVISION_BY_ZERO))
}
