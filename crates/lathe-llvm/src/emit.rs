//! The state of emission, and what every part of it needs: failing, refusing, frames.

use crate::ir::{Block, Ir, Value, Width};
use crate::value::{Leaf, Val};
use lathe_abi::Runtime;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_engine::{CheckTable, codes};
use lathe_ir::lower::Unsupported;
use lathe_ir::{BufId, Buffer, Expr, Function, Label, Module, VarId};
use lathe_poly::Ranges;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Diagnostic>;

/// A buffer as the code being emitted reaches it.
#[derive(Clone)]
pub struct Buf {
    pub decl: Arc<Buffer>,
    /// The element with all subscripts 0.
    pub ptr: Value,
    /// One per physical dimension, in elements.
    pub strides: Vec<Value>,
    /// Made in this frame's own stack, seen by no other thread, and padded: lanes that are masked off
    /// may be read and written back.
    pub private: bool,
    /// Made inside the vector loop of this width: every lane has its own.
    pub per_lane: Width,
    /// The scalars of its elements lie apart: first those of one field, then those of the next.
    pub fields: Option<Fields>,
}

/// Where the scalars of a buffer of structs lie that are kept field by field, so that lanes find neighbours.
#[derive(Clone, Copy)]
pub struct Fields {
    /// Scalars of each field.
    pub count: u64,
    /// How many of them come before the first element.
    pub padding: u64,
}

/// The vector loop around the code being emitted.
#[derive(Clone, Copy)]
pub struct Lanes {
    pub width: u32,
    /// Lanes that take part; `None`: all.
    pub mask: Option<Value>,
    /// The mask is known: so many lanes from the first on.
    pub first: Option<i64>,
    /// So many lanes from the first on take part, no more than there are.
    pub count: Option<Value>,
    /// The mask may be empty here, so that nothing may be read without it.
    pub maybe_empty: bool,
}

/// One LLVM function under construction.
pub struct Frame {
    pub function: Value,
    /// Where stack memory is allocated; ends with a jump to the code once that is complete.
    pub allocas: Block,
    pub runtime: Value,
    pub vars: HashMap<VarId, Leaf>,
    pub bufs: HashMap<BufId, Buf>,
    /// 0-dimensional buffers that are values: operands of combine operators.
    pub values: HashMap<BufId, Val>,
    pub lanes: Option<Lanes>,
    /// Masks of the first so many of so many lanes.
    pub first_lanes: HashMap<(i64, u32), Value>,
    /// Eight words of ones with eight of zeros behind them: masks of the first lanes.
    pub ones_and_zeros: Option<Value>,
    /// Two words: zeros, which lanes read that take no part, and what such lanes write, which nobody reads.
    pub idle: Option<Value>,
    /// Scratch memory to give back on every way out.
    pub scratch: Vec<Value>,
    /// Where values are kept that live long.
    slots: HashMap<Value, Value>,
    /// Values of shared expressions of the statement being emitted, one layer per branch.
    pub memo: Vec<HashMap<Expr, Val>>,
    /// Stores that bypass the caches were emitted.
    pub nontemporal: bool,
    /// Inside of loops: whether LLVM's passes make lanes and copies of their iterations.
    pub free: Option<bool>,
    /// Where the function is left with so much scratch memory to give back, and the status that it is left with.
    exits: Vec<Option<(Block, Value)>>,
    /// What is emitted is in a loop.
    pub of_loop: bool,
}

pub struct Emitter<'a> {
    /// The module that is emitted to.
    pub ir: &'a Ir,
    /// Modules of the bodies for unit and for any strides; none where all is in one.
    pub bodies: Option<&'a [Ir; 2]>,
    pub module: &'a Module,
    pub func: &'a Function,
    pub table: &'a CheckTable,
    /// The machine, as attributes of every function: `(cpu, features)`.
    pub machine: (&'a str, &'a str),
    pub x86: bool,
    /// The machine holds masks of lanes as bits.
    pub bit_masks: bool,
    /// It has the instructions of AVX2.
    pub avx2: bool,
    /// It has the instructions of AVX-512 on vectors of every length.
    pub avx512: bool,
    /// Vectors that scale have this many times 128 bits; 0: vectors do not scale.
    pub vscale: u32,
    /// The code is for threads of a device: it has no runtime, and all local arrays are in frames.
    pub kernel: bool,
    pub frame: Frame,
    /// What is known about the variables in scope.
    pub ranges: Ranges,
    /// Number of functions made, for their names.
    pub outlined: u32,
    /// What these names begin with.
    pub scope: &'static str,
    /// The labels of what a schedule has in lanes ([`crate::unscheduled`]).
    pub scheduled: HashSet<Label>,
    /// Nests become functions of their own: there are many.
    pub apart: bool,
    /// Of a kernel: what is peculiar to devices.
    pub device: Device,
}

/// What is known of a kernel of a device.
#[derive(Clone, Default)]
pub struct Device {
    /// The thread's number in its block, and how many there are.
    pub threads: Option<(VarId, i64)>,
    /// The block's number in its cluster.
    pub rank: Option<VarId>,
    /// Where a thread keeps its status, if threads wait for one another: all of them go on.
    pub failed: Option<Value>,
    /// Stores that copy units may do.
    pub copies: lathe_device::Copies,
    /// Blocks that make updates in their order.
    pub turns: Option<Turns>,
    /// Numbers from here on are free for variables.
    pub next_id: u32,
}

/// The blocks of a kernel that take turns.
#[derive(Clone, Copy)]
pub struct Turns {
    /// The number that the block took when it started, and how many blocks there are.
    pub block: Value,
    pub blocks: Value,
    /// A counter of blocks, and the words behind it.
    pub memory: Value,
    /// Words of a block that updates before this one have.
    pub words: i64,
}

/// A construct that this engine does not take.
pub fn unsupported(construct: &str, places: &Places) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED, format!("the engine `llvm` does not take {construct}"))
        .at_places(places, "here")
}

/// The diagnostic for what the shared lowering refused.
pub fn refused(u: Unsupported) -> Diagnostic {
    let d = unsupported(&u.construct, &u.places);
    match u.help {
        Some(h) => d.help(h),
        None => d,
    }
}

/// A tree that the verifier would not let pass.
pub fn defect(what: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::DEFECT, what).note("the verifier refuses such trees; this one did not pass it")
}

impl Frame {
    pub fn new(ir: &Ir, function: Value, runtime: Value) -> Frame {
        let allocas = ir.block(function, "entry");
        let code = ir.block(function, "code");
        ir.at_end(code);
        Frame {
            function,
            allocas,
            runtime,
            vars: HashMap::new(),
            bufs: HashMap::new(),
            values: HashMap::new(),
            lanes: None,
            first_lanes: HashMap::new(),
            ones_and_zeros: None,
            idle: None,
            scratch: Vec::new(),
            slots: HashMap::new(),
            memo: vec![HashMap::new()],
            nontemporal: false,
            free: None,
            exits: Vec::new(),
            of_loop: false,
        }
    }
}

impl<'a> Emitter<'a> {
    pub fn width(&self) -> Width {
        self.frame.lanes.map(|l| l.width)
    }

    pub fn block(&self, name: &str) -> Block {
        self.ir.block(self.frame.function, name)
    }

    /// Ends the function being emitted: `OK`, and the entry block's jump to the code.
    pub fn finish(&mut self, code: Block) {
        self.fence();
        self.ir.ret(self.ir.i32(lathe_abi::status::OK));
        if let Some((exit, status)) = self.frame.exits.first().copied().flatten() {
            self.ir.at_end(exit);
            self.fence();
            self.ir.ret(status);
        }
        self.ir.at_end(self.frame.allocas);
        self.ir.br(code);
    }

    /// Makes stores that bypass the caches visible to whoever is told that the function has ended.
    fn fence(&mut self) {
        if self.frame.nontemporal && self.x86 {
            self.ir.intrinsic("llvm.x86.sse.sfence", &[], &[]);
        }
    }

    /// Leaves the function with a status if the condition holds; code goes on where it does not.
    pub fn fail_if(&mut self, cond: Value, status: Value) {
        if self.ir.as_const(cond) == Some(0) {
            return;
        }
        if let Some(place) = self.device.failed {
            let ir = self.ir;
            let old = ir.load(ir.int_ty(32), place, 4);
            let none = ir.icmp(llvm_sys::LLVMIntPredicate::LLVMIntEQ, old, ir.i32(lathe_abi::status::OK));
            ir.store(ir.select(ir.and(cond, none), status, old), place, 4);
            return;
        }
        let (go_on, here) = (self.block("ok"), self.ir.here());
        let (exit, result) = self.exit(self.frame.scratch.len());
        self.ir.likely_br(self.ir.not(cond), go_on, exit);
        self.ir.incoming(result, status, here);
        self.ir.at_end(go_on);
    }

    /// The block that gives so much of the scratch memory back, the last one first, and leaves the function with a status.
    /// Every way out shares them: with a way of its own for each, code grows with the square of the local arrays.
    fn exit(&mut self, depth: usize) -> (Block, Value) {
        let exits = &mut self.frame.exits;
        exits.resize(exits.len().max(depth + 1), None);
        if let Some(known) = exits[depth] {
            return known;
        }
        let here = self.ir.here();
        let exit = self.block("exit");
        self.ir.at_end(exit);
        let status = self.ir.phi(self.ir.int_ty(32));
        self.frame.exits[depth] = Some((exit, status));
        // The last one is finished with the function.
        if let Some(next) = depth.checked_sub(1) {
            self.free(self.frame.scratch[next]);
            let (to, result) = self.exit(next);
            self.ir.br(to);
            self.ir.incoming(result, status, exit);
        }
        self.ir.at_end(here);
        (exit, status)
    }

    /// Keeps a pointer in the frame, for those who need it far from here: where hundreds of values live in registers up to
    /// the end of a function, register allocation takes time that grows with the square of their number.
    pub fn keep(&mut self, ptr: Value) {
        let ir = self.ir;
        let here = ir.here();
        ir.at_end(self.frame.allocas);
        let slot = ir.alloca(ir.ptr_ty(), 8);
        ir.at_end(here);
        ir.store(ptr, slot, 8);
        self.frame.slots.insert(ptr, slot);
    }

    /// A value, read again if it is kept in the frame.
    pub fn kept(&self, v: Value) -> Value {
        match self.frame.slots.get(&v) {
            // Else passes would put it in a register again.
            Some(slot) => self.ir.volatile_load(self.ir.ptr_ty(), *slot, 8),
            None => v,
        }
    }

    /// Scratch memory that code which follows need not give back.
    pub fn done_with_scratch(&mut self) {
        self.frame.scratch.pop();
        self.frame.exits.truncate(self.frame.scratch.len() + 1);
    }

    /// Whether any lane of a vector of `i1` that takes part is set.
    pub fn any_lane(&self, v: Value) -> Value {
        let v = match self.frame.lanes.and_then(|l| l.mask) {
            Some(m) => self.ir.and(v, m),
            None => v,
        };
        self.ir.intrinsic("llvm.vector.reduce.or", &[self.ir.type_of(v)], &[v])
    }

    /// Sets the attributes that every function carries.
    pub fn function_attributes(&self, f: Value) {
        self.ir.string_attribute(f, "target-cpu", self.machine.0);
        self.ir.string_attribute(f, "target-features", self.machine.1);
        self.ir.string_attribute(f, "prefer-vector-width", "512");
        if self.vscale > 0 {
            let v = u64::from(self.vscale);
            self.ir.valued_attribute(f, None, "vscale_range", v << 32 | v);
        }
        self.ir.attribute(f, None, "nounwind");
    }

    /// As above, for functions with loops. Vectors that registers have no room for lie in the frame, which begins at any 16 bytes
    /// where nobody asks for more. One of them across the border of two pages makes a loop up to twice as slow, so that one
    /// process in eight would be, as its stack happens to begin.
    pub fn loop_attributes(&self, f: Value) {
        self.function_attributes(f);
        if self.x86 {
            self.ir.string_attribute(f, "stackrealign", "");
        }
    }

    /// One member of the runtime's table, by its distance in bytes.
    pub fn runtime_member(&self, at: usize) -> Value {
        let byte = self.ir.int_ty(8);
        let at = self.ir.element_in_bounds(byte, self.frame.runtime, self.ir.i64(at as i64));
        self.ir.load(self.ir.ptr_ty(), at, 8)
    }

    /// Waits a moment for another thread.
    pub fn wait(&mut self) {
        let ir = self.ir;
        let (ctx, wait) =
            (self.runtime_member(offset_of!(Runtime, ctx)), self.runtime_member(offset_of!(Runtime, wait)));
        let status = ir.call(ir.fn_ty(ir.int_ty(32), &mut [ir.ptr_ty()]), wait, &mut [ctx]);
        self.fail_if(ir.icmp(llvm_sys::LLVMIntPredicate::LLVMIntNE, status, ir.i32(0)), status);
    }

    pub fn free(&self, memory: Value) {
        let (ptr, void) = (self.ir.ptr_ty(), self.ir.void_ty());
        let ty = self.ir.fn_ty(void, &mut [ptr, ptr]);
        let memory = self.kept(memory);
        let (ctx, free) =
            (self.runtime_member(offset_of!(Runtime, ctx)), self.runtime_member(offset_of!(Runtime, free)));
        self.ir.call(ty, free, &mut [ctx, memory]);
    }
}
