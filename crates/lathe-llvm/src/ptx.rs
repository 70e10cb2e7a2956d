//! Kernels of CUDA devices as PTX, for machines that have a driver and nothing else: the SPMD tree that is printed as CUDA C,
//! through the emitter of CPUs and LLVM's NVPTX.
//!
//! A kernel has the parameters of its CUDA C: arrays, sizes and scalars, and the place of a status. What it does is a
//! function of its own that gives the status, as on CPUs; the kernel calls it, and LLVM takes it in. A block's buffers are in the
//! address space of shared memory; that parameters of kernels point to global memory is known to LLVM.

use crate::emit::{Buf, Device, Emitter, Frame, Result, Turns, refused, unsupported};
use crate::ir::{Ir, Ty, Value};
use crate::machine::Machine;
use crate::value::Leaf;
use lathe_device::constants::Constant;
use lathe_device::shuffles::Halving;
use lathe_device::{Argument, KernelPlan, Limits, Plan, resident_blocks};
use lathe_diagnostics::Places;
use lathe_engine::{check_table, needs};
use lathe_ir::lower::inscan::expand_function;
use lathe_ir::lower::storage;
use lathe_ir::visit::walk;
use lathe_ir::{BufId, Buffer, Function, Mode, Module, Scalar, Stmt, StmtKind};
use lathe_lower::{addresses, calls, halves, phases, reductions};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_function;
use llvm_sys::{LLVMAtomicOrdering, LLVMIntPredicate as I};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What the host knows of a kernel's CUDA C, and relies on.
pub struct Kernel {
    pub name: String,
    /// Shared memory is given at the launch.
    pub dynamic: bool,
    /// Behind the arguments stands the memory in which its blocks take turns.
    pub turns: bool,
    /// The last parameter is the place of a status.
    pub status: bool,
    /// The kernel does nothing if this word of the status is not 0.
    pub after: Option<u32>,
}

/// The kernels of a function, phased or SPMD, as the text of PTX for an architecture such as `sm_90a`; `limits` are those
/// that its CUDA C was written for.
///
/// # Errors
/// As `lathe_device::to_spmd` for trees that are no kernels.
pub fn ptx(
    module: &Module,
    func: &Function,
    kernels: &[Kernel],
    arch: &str,
    limits: Limits,
) -> Result<Vec<u8>> {
    let machine = Machine::nvptx(arch)?;
    let inlined = calls::inline(module, func);
    let table = check_table(module, &inlined).map_err(needs::free_size)?;
    let phased = phases::to_phased(&inlined, &lathe_device::is_grid).map_err(refused)?;
    let spmd = simplify_function(&lathe_device::to_spmd(&simplify_function(&phased), limits)?);
    let (constants, spmd) = lathe_device::constants::constants(module, &expand_function(module, &spmd))
        .map_err(needs::free_size)?;
    let func = &addresses::plain(&halves::in_floats(&spmd)).map_err(refused)?;
    let plan: Plan = lathe_device::plan(func)?;
    let ir = Ir::new(&func.name);
    machine.adopt(&ir);
    let arrays: Vec<Value> = constants.iter().map(|c| constant(&ir, c)).collect();
    for (plan, known) in plan.kernels.iter().zip(kernels) {
        let ty = ir.fn_ty(ir.int_ty(32), &mut parameters(&ir, plan, known));
        let body = ir.function(&format!("{}.body", known.name), ty);
        ir.set_internal(body);
        let frame = Frame::new(&ir, body, ir.poison(ir.ptr_ty()));
        let mut e = Emitter {
            bodies: None,
            scope: "",
            ir: &ir,
            module,
            func,
            table: &table,
            machine: (&machine.cpu, &machine.features),
            x86: false,
            bit_masks: false,
            avx2: false,
            avx512: false,
            vscale: 0,
            kernel: true,
            frame,
            ranges: Ranges::of_function(func),
            outlined: 0,
            scheduled: crate::unscheduled::scheduled(func),
            apart: false,
            device: Device { next_id: func.next_id, ..Device::default() },
        };
        // Copy units came with compute capability 8.0.
        if capability(arch) >= 80 {
            e.device.copies = lathe_device::copies::overlapping(func, plan);
        }
        e.function_attributes(body);
        ir.attribute(body, None, "convergent");
        ir.attribute(body, None, "alwaysinline");
        for (c, ptr) in constants.iter().zip(&arrays) {
            e.array(&c.buffer, *ptr)?;
        }
        e.run(plan, known, body)?;
        entry(&e, plan, known, (body, ty));
    }
    machine.verify(&ir)?;
    machine.optimize(&ir, &["default<O3>"])?;
    machine.generate(&ir, true)
}

fn parameters(ir: &Ir, k: &KernelPlan, known: &Kernel) -> Vec<Ty> {
    let each = k.arguments.iter().map(|a| match a {
        Argument::Array(_) => ir.ptr_ty(),
        Argument::Scalar(b) => ir.memory_ty(b.ty),
    });
    each.chain(known.turns.then(|| ir.ptr_ty())).collect()
}

/// A constant array, in constant memory where that has room for it.
fn constant(ir: &Ir, c: &Constant) -> Value {
    // A name as PTX has them.
    let name = format!(
        "{}_constant_{}",
        c.buffer.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"),
        c.buffer.id.0
    );
    ir.constant_array(&name, 8 * c.word as u32, &c.words, c.fits)
}

/// The number in the name of an architecture.
fn capability(arch: &str) -> u32 {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Registers that LLVM's code has besides a thread's largest array, about.
const BESIDES: i64 = 24;

/// The kernel around a body.
fn entry(e: &Emitter, k: &KernelPlan, known: &Kernel, (body, ty): (Value, Ty)) {
    let ir = e.ir;
    let mut params = parameters(ir, k, known);
    let arguments = params.len();
    if known.status {
        params.push(ir.ptr_ty());
    }
    let f = ir.function(&known.name, ir.fn_ty(ir.void_ty(), &mut params));
    ir.set_kernel(f);
    e.function_attributes(f);
    ir.attribute(f, None, "convergent");
    ir.string_attribute(f, "nvvm.maxntid", &k.threads.to_string());
    if let Some(c) = &k.cluster {
        ir.string_attribute(f, "nvvm.cluster_dim", &format!("{},1,1", c.blocks));
        if let Some(blocks) = resident_blocks(k, BESIDES) {
            ir.string_attribute(f, "nvvm.minctasm", &blocks.to_string());
        }
    }
    let modes: HashMap<BufId, (Mode, bool)> =
        e.func.params.iter().filter_map(|p| Some((p.array()?.id, (p.mode, p.alias.is_none())))).collect();
    let mut shared = HashSet::new();
    walk(&k.body, &mut |s, _| {
        if let StmtKind::Atomic(a) = s.kind() {
            shared.extend(a.target.view.buffer());
        }
        true
    });
    for (n, a) in k.arguments.iter().enumerate() {
        let Argument::Array(b) = a else { continue };
        // As the host gives them.
        ir.valued_attribute(f, Some(n), "align", 16);
        ir.valued_attribute(body, Some(n), "align", 16);
        let (mode, alone) = modes.get(&b.id).copied().unwrap_or((Mode::InOut, true));
        // LLVM 22 ends the process on an atomic load of what it takes for memory that nobody writes.
        if shared.contains(&b.id) {
            continue;
        }
        for (set, name) in [(alone, "noalias"), (mode == Mode::In, "readonly")] {
            if set {
                ir.attribute(f, Some(n), name);
                ir.attribute(body, Some(n), name);
            }
        }
    }
    ir.at_end(ir.block(f, "entry"));
    let done = ir.block(f, "done");
    if let Some(word) = known.after {
        let at = ir.element(ir.int_ty(32), ir.param(f, arguments), ir.i64(i64::from(word)));
        let before = ir.atomic_load(ir.int_ty(32), at, LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic, 4);
        let go_on = ir.block(f, "body");
        ir.likely_br(ir.icmp(I::LLVMIntEQ, before, ir.i32(lathe_abi::status::OK)), go_on, done);
        ir.at_end(go_on);
    }
    let mut args: Vec<Value> = (0..arguments).map(|n| ir.param(f, n)).collect();
    let status = ir.call(ty, body, &mut args);
    if known.status {
        let fail = ir.block(f, "fail");
        ir.likely_br(ir.icmp(I::LLVMIntEQ, status, ir.i32(lathe_abi::status::OK)), done, fail);
        ir.at_end(fail);
        let relaxed = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        ir.compare_exchange(ir.param(f, arguments), ir.i32(0), status, relaxed, relaxed);
    }
    ir.br(done);
    ir.at_end(done);
    ir.ret_void();
}

impl Emitter<'_> {
    /// The body of a kernel, in a frame of its own.
    fn run(&mut self, k: &KernelPlan, known: &Kernel, function: Value) -> Result<()> {
        let code = self.ir.here();
        // Extents of arrays are made of scalars.
        for (n, a) in k.arguments.iter().enumerate() {
            if let Argument::Scalar(b) = a {
                let given = self.ir.param(function, n);
                let v = match b.ty {
                    Scalar::Bool => self.ir.icmp(I::LLVMIntNE, given, self.ir.int(8, 0)),
                    _ => given,
                };
                self.frame.vars.insert(b.id, Leaf::Uniform(v));
            }
        }
        for (n, a) in k.arguments.iter().enumerate() {
            if let Argument::Array(b) = a {
                self.array(b, self.ir.param(function, n))?;
            }
        }
        let ir = self.ir;
        let mut barriers = known.turns;
        walk(&k.body, &mut |s, _| {
            barriers |= matches!(s.kind(), StmtKind::Barrier { .. });
            !barriers
        });
        if barriers {
            ir.at_end(self.frame.allocas);
            let place = ir.alloca(ir.int_ty(32), 4);
            ir.store(ir.i32(lathe_abi::status::OK), place, 4);
            ir.at_end(code);
            self.device.failed = Some(place);
        }
        let turns = known.turns.then(|| self.ir.param(function, k.arguments.len()));
        self.numbers(k, known, turns)?;
        self.shared(k, known)?;
        let thread = k.thread.id;
        self.device.threads = Some((thread, k.threads));
        let halving = |s: &Stmt| Halving::of(s, thread).is_some();
        let body = reductions::within(self.module, &k.body, &mut self.device.next_id, &halving);
        self.stmt(&halves::stmt(&body))?;
        if let Some(place) = self.device.failed.take() {
            let status = ir.load(ir.int_ty(32), place, 4);
            self.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(lathe_abi::status::OK)), status);
        }
        self.finish(code);
        Ok(())
    }

    fn array(&mut self, b: &Arc<Buffer>, ptr: Value) -> Result<()> {
        let mut strides = Vec::new();
        for s in &storage(b).map_err(refused)?.strides {
            strides.push(self.uniform(s, "an extent", &Places::none())?);
        }
        let decl = b.clone();
        self.frame
            .bufs
            .insert(b.id, Buf { decl, ptr, strides, private: false, per_lane: None, fields: None });
        Ok(())
    }

    /// The block's place in the grid, and the thread's in the block.
    fn numbers(&mut self, k: &KernelPlan, known: &Kernel, turns: Option<Value>) -> Result<()> {
        let ir = self.ir;
        let read = |name: &str| ir.zext(ir.intrinsic(name, &[], &[]), ir.int_ty(64));
        let thread = read("llvm.nvvm.read.ptx.sreg.tid.x");
        let mut at = match turns {
            Some(memory) => self.ticket(&known.name, thread, memory),
            None => read("llvm.nvvm.read.ptx.sreg.ctaid.x"),
        };
        if let Some(memory) = turns {
            let blocks = read("llvm.nvvm.read.ptx.sreg.nctaid.x");
            self.device.turns = Some(Turns { block: at, blocks, memory, words: 0 });
        }
        if let Some(c) = &k.cluster {
            at = self.cluster(c, at);
        }
        let mut values = Vec::new();
        // Innermost first: neighbours in its dimension are neighbours.
        for (number, (l, n)) in k.grid.iter().zip(&k.counts).enumerate().rev() {
            let n = self.uniform(n, "a bound", &Places::none())?;
            let lo = self.uniform(&l.lo, "a bound", &Places::none())?;
            let here = if number == 0 { at } else { ir.urem(at, n) };
            values.push((l, ir.add_index(lo, ir.mul_index(here, ir.i64(l.step)))));
            if number > 0 {
                at = ir.udiv(at, n);
            }
        }
        for (l, value) in values.into_iter().rev() {
            self.frame.vars.insert(l.binder.id, Leaf::Uniform(value));
            self.ranges.enter_loop(l.binder.id, &l.lo, &l.hi);
        }
        self.frame.vars.insert(k.thread.id, Leaf::Uniform(thread));
        let (zero, end) = (lathe_ir::build::index(0), lathe_ir::build::index(k.threads));
        self.ranges.enter_loop(k.thread.id, &zero, &end);
        Ok(())
    }

    /// The buffers of a block, those of its cluster before them: by the code, or one piece whose size is given at the
    /// launch.
    fn shared(&mut self, k: &KernelPlan, known: &Kernel) -> Result<()> {
        let ir = self.ir;
        let bytes = ir.int_ty(8);
        // A name as PTX has them: LLVM mends those of its own only.
        let piece = known.dynamic.then(|| ir.shared_memory(&format!("{}_shared", known.name), None));
        let mut offset = 0;
        let of_cluster = k.cluster.iter().flat_map(|c| &c.shared).map(|b| (b, true));
        for (b, first) in of_cluster.chain(k.shared.iter().map(|b| (b, false))) {
            let st = storage(b).map_err(refused)?;
            let count = st.extents.iter().try_fold(1u64, |n, x| n.checked_mul(x.as_int()?.max(0) as u64));
            let size = count.and_then(|n| n.max(1).checked_mul(b.elem.bytes()));
            let Some(size) = size else {
                return Err(unsupported(&format!("the size of `{}`", b.name), &Places::none()));
            };
            let ptr = match piece {
                Some(piece) => ir.element_in_bounds(bytes, piece, ir.i64(offset as i64)),
                None => ir.shared_memory(&format!("{}.{}", known.name, b.name), Some(size)),
            };
            // As the host counts them.
            offset += (count.unwrap_or(0) * b.elem.bytes()).next_multiple_of(16);
            self.array(b, if first { self.of_first_block(ptr) } else { ptr })?;
        }
        Ok(())
    }
}
