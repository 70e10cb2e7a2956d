//! The form that functions are compiled to before they run: a register machine.
//!
//! A tree walk could not be paused in the middle of an iteration, which barriers and waits demand; a
//! program counter and registers can. Registers hold the bits described in [`crate::scalar`]; an
//! aggregate takes as many consecutive ones as it has leaves.

use crate::buffer::Space;
use crate::ids::{Label, VarId};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::stmt::MemoryOrder;
use crate::summary::Summary;
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::Places;
use std::collections::HashMap;

pub type Reg = u32;
/// Position in [`Routine::code`].
pub type Pc = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instr {
    Move {
        d: Reg,
        a: Reg,
    },
    Unary {
        op: UnOp,
        ty: Scalar,
        d: Reg,
        a: Reg,
    },
    Binary {
        op: BinOp,
        ty: Scalar,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    AddIndex {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    MulIndex {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    AddF32 {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    MulF32 {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    AddF64 {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    MulF64 {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Math {
        f: MathFn,
        ty: Scalar,
        d: Reg,
        a: Reg,
    },
    Fma {
        ty: Scalar,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Cast {
        from: Scalar,
        to: Scalar,
        d: Reg,
        a: Reg,
    },
    Bitcast {
        from: Scalar,
        to: Scalar,
        d: Reg,
        a: Reg,
    },
    Select {
        d: Reg,
        c: Reg,
        a: Reg,
        b: Reg,
    },
    /// Loads a one-leaf element through `accesses[access]`.
    Load {
        ty: Scalar,
        d: Reg,
        access: u32,
    },
    Store {
        ty: Scalar,
        a: Reg,
        access: u32,
    },
    LoadMany {
        d: Reg,
        access: u32,
    },
    StoreMany {
        a: Reg,
        access: u32,
    },
    /// The address of an element, or of the one after the last in one dimension.
    Address {
        d: Reg,
        access: u32,
    },
    /// Fails unless `0 <= a < b`: subscript `dim` of a reshape.
    Within {
        a: Reg,
        b: Reg,
        dim: u32,
    },
    Jump {
        to: Pc,
    },
    JumpIf {
        c: Reg,
        to: Pc,
    },
    JumpUnless {
        c: Reg,
        to: Pc,
    },
    /// Jumps when `a >= b` as `index`.
    JumpGe {
        a: Reg,
        b: Reg,
        to: Pc,
    },
    /// `i += step`, and back to `to` while `i < hi`.
    Next {
        i: Reg,
        hi: Reg,
        step: Reg,
        to: Pc,
    },
    /// Counts one step of the run (back edges of `while`).
    Step,
    /// Draws a random order of the iterations onto the task's stack of orders.
    Shuffle {
        lo: Reg,
        hi: Reg,
        step: Reg,
    },
    /// Takes the next iteration of the innermost order, or drops the order and jumps.
    Draw {
        i: Reg,
        to: Pc,
    },
    /// Fails when there are more iterations than `width`.
    Width {
        lo: Reg,
        hi: Reg,
        step: Reg,
        width: u32,
    },
    /// Enters a parallel loop, starts one of its iterations, leaves it: for the detection of races.
    EnterParallel {
        executor: u32,
    },
    Iteration {
        i: Reg,
    },
    LeaveParallel,
    /// Names the statement instance that the accesses which follow belong to (races only).
    Instance {
        site: u32,
    },
    Check {
        c: Reg,
        check: u32,
    },
    /// A reduction without identity over nothing.
    EmptyReduction,
    Alloc {
        alloc: u32,
    },
    Free {
        slot: u32,
    },
    /// Builds the view `views[view]` in its slot.
    View {
        view: u32,
    },
    Call {
        call: u32,
    },
    Return,
    /// Makes one task per iteration of `forks[fork]`, and goes on when all are done.
    Fork {
        fork: u32,
    },
    /// Opens a token; what is started under it is awaited before it is closed.
    OpenToken {
        token: Reg,
    },
    CloseToken {
        token: Reg,
    },
    /// Starts the task at `body`.
    Spawn {
        token: Reg,
        body: Pc,
    },
    Barrier {
        barrier: u32,
    },
    /// Goes on once all tasks of the token are done but for the `pending` latest.
    Wait {
        token: Reg,
        pending: u32,
    },
    /// Goes on once the iterations before this one have made the same update: of the loops run by the executor of that
    /// number.
    Turn {
        scope: u32,
        site: u32,
    },
    /// A spin-wait retries: other strands run first.
    Spin,
    /// A place where another task may go on, under a random order.
    Yield,
    EndTask,
    /// End of the code that computes an instance vector.
    EndInstance,
}

/// Where an access goes: a slot of the frame and subscript registers.
#[derive(Clone, Debug)]
pub struct AccessCode {
    pub slot: u32,
    pub index: Box<[Reg]>,
    pub leaves: Box<[(Scalar, u64)]>,
    pub bytes: u64,
    pub places: Places,
    /// Accesses to registers are not memory traffic.
    pub counted: bool,
    pub atomic: Option<AtomicCode>,
    /// Which iteration has the element, where arrays are distributed and that is asked.
    pub held: Option<Box<HeldCode>>,
}

/// Who has an element of a distributed array, and who asks.
#[derive(Clone, Debug)]
pub struct HeldCode {
    /// The loops that the layout names: the number of the iteration that has the element, and the register of the loop's
    /// variable; none outside of such a loop.
    pub owners: Box<[(Name, Reg, Option<Reg>)]>,
    /// The concurrent loops between the array and the access, outermost first.
    pub around: Box<[(Name, Reg)]>,
}

/// How an access is atomic.
#[derive(Clone, Copy, Debug)]
pub struct AtomicCode {
    pub order: MemoryOrder,
    /// Number of the executor that its scope names, in [`super::compile::Compiled::executors`].
    pub scope: u32,
    /// Replaces the value whatever it was: what was published before is not published with it.
    pub fresh: bool,
}

/// A statement as diagnostics name it.
#[derive(Clone, Debug)]
pub struct Site {
    pub label: Option<Label>,
    /// What the site is, where there is no label (`the condition of `if``).
    pub what: &'static str,
    /// Code that computes the instance vector into `instance`.
    pub start: Pc,
    pub instance: Vec<Reg>,
    /// Enclosing loops: name and register.
    pub loops: Vec<(Name, Reg)>,
    pub places: Places,
}

#[derive(Clone, Debug)]
pub struct CheckCode {
    /// `Some(code)`: a `check`; `None`: an `assume`, and `text` is its provenance.
    pub code: Option<Name>,
    pub text: Name,
}

#[derive(Clone, Debug)]
pub struct AllocCode {
    pub slot: u32,
    pub name: Name,
    pub elem: Type,
    pub extents: Vec<Reg>,
    pub space: Space,
}

#[derive(Clone, Debug)]
pub enum ViewCode {
    Slice {
        from: u32,
        offsets: Vec<Reg>,
        steps: Vec<i64>,
    },
    Reshape {
        from: u32,
        extents: Vec<Reg>,
    },
    Reinterpret {
        from: u32,
        elem_bytes: u64,
        align: u32,
    },
    /// What lies from an address on.
    Deref {
        pointer: Reg,
        class: Name,
        elem_bytes: u64,
        align: u64,
    },
}

#[derive(Clone, Debug)]
pub enum ArgCode {
    /// Registers of a value and its type, for a scalar or a 0-dimensional `in` parameter.
    Value(Reg, Type),
    Slot(u32),
}

/// A function, and what it declares.
pub type Declared = (Name, Summary);

#[derive(Clone, Debug)]
pub struct CallCode {
    pub routine: u32,
    pub args: Vec<ArgCode>,
    /// First register of the result.
    pub result: Option<Reg>,
    /// What the callee, or the external function that it stands for, declares, and who that is.
    pub summary: Option<Declared>,
}

#[derive(Clone, Debug)]
pub struct ForkCode {
    pub of: VarId,
    /// Number of the loop's executor.
    pub executor: u32,
    pub name: Name,
    pub i: Reg,
    pub lo: Reg,
    pub hi: Reg,
    pub step: i64,
    pub body: Pc,
}

#[derive(Clone, Debug)]
pub struct BarrierCode {
    pub of: VarId,
    /// One bit per space, in the order of [`Space::ALL`].
    pub spaces: u8,
}

/// A compiled function.
#[derive(Clone, Debug, Default)]
pub struct Routine {
    pub name: Option<Name>,
    pub code: Vec<Instr>,
    /// For each instruction, the site it belongs to.
    pub site_of: Vec<u32>,
    pub sites: Vec<Site>,
    pub accesses: Vec<AccessCode>,
    pub slot_names: Vec<Name>,
    pub checks: Vec<CheckCode>,
    pub allocs: Vec<AllocCode>,
    pub views: Vec<(u32, ViewCode)>,
    pub calls: Vec<CallCode>,
    pub forks: Vec<ForkCode>,
    pub barriers: Vec<BarrierCode>,
    /// Slots of globals, filled at entry.
    pub globals: Vec<(u32, Name)>,
    /// Registers with their values at entry.
    pub constants: Vec<(Reg, u64)>,
    pub registers: u32,
    pub slots: u32,
    /// Where sizes, scalar parameters and array parameters go, in the function's order.
    pub sizes: Vec<Reg>,
    pub params: Vec<ParamCode>,
    /// First register and number of leaves of the result.
    pub result: Option<(Reg, u32)>,
}

#[derive(Clone, Debug)]
pub enum ParamCode {
    Scalar(Reg),
    Array(u32),
}

/// What has been computed in a stretch of straight code. A branch of a lazy select is a scope of its
/// own: what it computed may not have been computed after it.
#[derive(Default)]
pub struct Scope {
    /// By identity of the shared node.
    pub nodes: HashMap<usize, Reg>,
    /// By the instruction with destination 0: finds equal computations in different nodes.
    pub values: HashMap<Instr, Reg>,
}

/// How many registers a value of a type takes.
pub fn leaf_count(ty: &Type) -> u32 {
    match ty {
        Type::Scalar(_) => 1,
        _ => ty.leaves().len() as u32,
    }
}
