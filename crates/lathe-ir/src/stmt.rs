//! Statements: an immutable tree with shared children.
//!
//! What every statement can be asked, whatever its kind, is in [`parts`] (what it evaluates, touches, binds), [`map`]
//! (the same with other parts), [`scope`] (what holds in it and after it) and [`effects`]; [`block`]: blocks as lists; how large
//! they are in `size`.

pub mod block;
mod digest;
pub mod effects;
pub mod map;
pub mod parts;
pub mod scope;
mod size;

pub use effects::Effects;
pub use map::PartMap;
pub use parts::{AccessMode, BinderRole, Children, Part, Touched};
pub use scope::{Enters, Establishes};

use crate::buffer::{Buffer, Space};
use crate::digest::Digest;
use crate::expr::{Access, Expr};
use crate::ids::{Binder, Label, VarId};
use crate::ops::ReduceOp;
use crate::types::Name;
use lathe_diagnostics::Places;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A shared statement with the set of source places it stems from.
#[derive(Clone, Debug)]
pub struct Stmt(Arc<StmtNode>);

#[derive(Clone, Debug)]
pub struct StmtNode {
    pub kind: StmtKind,
    pub places: Places,
    hash: u64,
    names: u64,
    /// Made when somebody asks for it.
    digest: OnceLock<Digest>,
    nodes: OnceLock<u64>,
}

impl PartialEq for Stmt {
    fn eq(&self, o: &Stmt) -> bool {
        Arc::ptr_eq(&self.0, &o.0) || (self.0.hash == o.0.hash && self.0.kind == o.0.kind)
    }
}

impl Hash for Stmt {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash);
    }
}

/// The executor of a loop: what runs its iterations (design, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Executor {
    Serial,
    /// The engine emits the iterations one after the other; the trip count is constant.
    Unrolled,
    /// SIMD lanes. The trip count is at most the width; where it is not constantly equal to it,
    /// lanes beyond it are masked off.
    Vector(u32),
    /// SIMD lanes that combine in order: each iteration adds to a running value and stores what that is by then. The
    /// trip count is the width; [`crate::lower::inscan`] says what is allowed, and writes out what it means.
    InScan(u32),
    /// Threads of the host.
    Cpu,
    Team,
    Device,
    Node,
    /// A level of a target: `grid`, `cluster`, `block`, `warp`, `lane`.
    Level(Name),
}

impl Executor {
    /// The word of the text form, without the number of lanes.
    pub fn name(&self) -> Name {
        match self {
            Executor::Serial => "serial".into(),
            Executor::Unrolled => "unrolled".into(),
            Executor::Vector(_) => "vector".into(),
            Executor::InScan(_) => "inscan".into(),
            Executor::Cpu => "cpu".into(),
            Executor::Team => "team".into(),
            Executor::Device => "device".into(),
            Executor::Node => "node".into(),
            Executor::Level(name) => name.clone(),
        }
    }

    /// Iterations run in order, one after the other.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Executor::Serial | Executor::Unrolled | Executor::InScan(_))
    }
}

/// Order of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOrder {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
    /// Relaxed, and updates take place in the order of the iterations of the loops that the scope names: each such
    /// iteration makes one, and waits for those before it. An engine may combine values of adjacent iterations first.
    InOrder,
}

impl MemoryOrder {
    /// Release: earlier accesses of the strand become visible with it.
    pub fn releases(self) -> bool {
        matches!(self, MemoryOrder::Release | MemoryOrder::AcqRel | MemoryOrder::SeqCst)
    }

    /// Acquire: later accesses of the strand see what was released with the value that it read.
    pub fn acquires(self) -> bool {
        matches!(self, MemoryOrder::Acquire | MemoryOrder::AcqRel | MemoryOrder::SeqCst)
    }
}

/// One dimension of a [`Compute`]: its index runs over `lo..hi`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Dim {
    pub binder: Binder,
    pub lo: Expr,
    pub hi: Expr,
    pub combine: Combine,
}

/// How a dimension's parts combine (MDH, Def. 2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// Concatenation: a free index.
    Concat,
    /// Point-wise combination: the dimension is reduced.
    Reduce(ReduceOp),
    /// Prefix combination (inclusive): the index stays free.
    Scan(ReduceOp),
}

/// A multi-dimensional homomorphism before it is given loops: for all indices, the values are
/// combined into the targets. All reduced and scanned dimensions of one compute share one operator.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Compute {
    pub label: Label,
    pub dims: Vec<Dim>,
    /// One per component of the operator (two for `argmin`/`argmax`), or one per output.
    pub targets: Vec<Access>,
    pub values: Vec<Expr>,
    /// Only instances where it holds take part; with no reduction, other cells stay as they are.
    pub guard: Option<Expr>,
    /// `Some(op)`: combines into the existing value; `None`: starts from the identity, and
    /// overwrites.
    pub update: Option<ReduceOp>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Loop {
    pub binder: Binder,
    pub lo: Expr,
    pub hi: Expr,
    /// A positive constant.
    pub step: i64,
    pub exec: Executor,
    pub body: Stmt,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Store {
    pub label: Label,
    /// Which instance of the label is executed here, in the variables in scope (see [`Label`]).
    pub instance: Vec<Expr>,
    pub target: Access,
    pub value: Expr,
    /// Bypasses the caches; set by the `nontemporal` step.
    pub nontemporal: bool,
}

impl Store {
    /// A store through the caches.
    pub fn new(label: Label, instance: Vec<Expr>, target: Access, value: Expr) -> Store {
        Store { label, instance, target, value, nontemporal: false }
    }
}

/// `targets op= values`. Licensed to be reassociated and reordered against other instances of the
/// same label if `licence` is set (`sum[k]`, `reduce`, `x op= e`; not `x = x + e`).
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Reduce {
    pub label: Label,
    pub instance: Vec<Expr>,
    pub op: ReduceOp,
    pub targets: Vec<Access>,
    pub values: Vec<Expr>,
    pub licence: bool,
    /// Set by the `fma` step: with `Sum`, a value `x * y` is added as `fma(x, y, target)`.
    pub contract: bool,
}

/// The atomic operation on the element.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum AtomicOp {
    Load,
    Store(Expr),
    Exchange(Expr),
    /// Stores `desired` where the element has the very bits of `expected`; it did so if the old value is these.
    CompareExchange {
        expected: Expr,
        desired: Expr,
    },
    /// `target op= value`.
    Update(ReduceOp, Expr),
}

impl AtomicOp {
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            AtomicOp::Load => {}
            AtomicOp::Store(e) | AtomicOp::Exchange(e) | AtomicOp::Update(_, e) => f(e),
            AtomicOp::CompareExchange { expected, desired } => {
                f(expected);
                f(desired);
            }
        }
    }

    /// The same with other expressions, in the order of [`AtomicOp::for_each_expr`].
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> AtomicOp {
        match self {
            AtomicOp::Load => AtomicOp::Load,
            AtomicOp::Store(e) => AtomicOp::Store(f(e)),
            AtomicOp::Exchange(e) => AtomicOp::Exchange(f(e)),
            AtomicOp::CompareExchange { expected, desired } => {
                AtomicOp::CompareExchange { expected: f(expected), desired: f(desired) }
            }
            AtomicOp::Update(op, e) => AtomicOp::Update(op.clone(), f(e)),
        }
    }

    /// Whether the element may have another value afterwards.
    pub fn writes(&self) -> bool {
        *self != AtomicOp::Load
    }
}

/// An indivisible access; the value that it found is bound to `old` in `body`.
///
/// Atomics on one element never race with one another, as far as each is within the other's `scope`: the name of the
/// executor of a loop around, among whose iterations it is indivisible (`block`: among the threads of one block);
/// a name that no loop around has means all iterations that there are. What a strand did before an atomic that
/// releases is ordered before what another does after one that acquires and sees it, or what followed from it by
/// updates.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Atomic {
    pub label: Label,
    pub instance: Vec<Expr>,
    pub target: Access,
    pub op: AtomicOp,
    pub order: MemoryOrder,
    pub scope: Name,
    pub old: Option<Binder>,
    pub body: Stmt,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub enum StmtKind {
    /// In order; the empty sequence does nothing.
    Seq(Vec<Stmt>),
    Let {
        binder: Binder,
        value: Expr,
        body: Stmt,
    },
    /// A `let` of an aggregate is a 0-d buffer in `register`, so binders stay scalar.
    Store(Store),
    Reduce(Reduce),
    Atomic(Atomic),
    Loop(Loop),
    If {
        cond: Expr,
        then: Stmt,
        other: Option<Stmt>,
    },
    /// Runs while the condition (which may load) holds.
    While {
        cond: Expr,
        body: Stmt,
    },
    /// A buffer that lives in `body`; its cells start undefined.
    Alloc {
        buffer: Arc<Buffer>,
        body: Stmt,
    },
    /// Fails the call with a code and a message; may be hoisted, never sunk.
    Check {
        cond: Expr,
        code: Name,
        message: Name,
    },
    /// A fact that holds here, and its provenance.
    Assume {
        fact: Expr,
        provenance: Name,
    },
    /// Synchronizes the iterations of the parallel loop `of` around it: each continues once all have reached it, and
    /// what was done in the given spaces before is ordered before what is done there afterwards (none given: in all
    /// spaces). The loop's executor is the barrier's level. All iterations reach it equally often.
    Barrier {
        of: VarId,
        spaces: Vec<Space>,
    },
    /// Hints that the element will be read soon (software prefetch): no effect on results, and the element need not
    /// exist.
    Prefetch(Access),
    /// A token, under which asynchronous bodies are started and awaited in `body` (Tapir's sync region); where `body`
    /// ends, all of them have completed. A token belongs to the strand that opens it: neither the iterations of a
    /// parallel loop inside nor an asynchronous body may use it.
    Token {
        token: Binder,
        body: Stmt,
    },
    /// Starts `body` and continues; the two are unordered until `token` is awaited.
    Async {
        token: VarId,
        body: Stmt,
    },
    /// Continues once all bodies that were started under `token` have completed, except for the `pending` latest.
    Wait {
        token: VarId,
        pending: u32,
    },
    Call {
        function: Name,
        args: Vec<Arg>,
    },
    Compute(Compute),
}

/// An argument of a [`StmtKind::Call`].
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Arg {
    Value(Expr),
    /// A whole buffer (or slice of it) for an array parameter.
    View(crate::expr::View),
}

impl Stmt {
    pub fn new(kind: StmtKind, places: Places) -> Stmt {
        let (hash, names) = digest::summarize(&kind);
        let (digest, nodes) = Default::default();
        Stmt(Arc::new(StmtNode { kind, places, hash, names, digest, nodes }))
    }

    /// A structural hash, ids included and places aside: equal statements have equal hashes, in every
    /// process. Known when the node is made, so that a step need not walk unchanged subtrees.
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    /// A collision-resistant hash (BLAKE3), of what [`Stmt::structural_hash`] is made of. Nodes keep
    /// theirs, so that after a step only what is new is looked at.
    pub fn digest(&self) -> &Digest {
        self.0.digest.get_or_init(|| digest::of_stmt(self))
    }

    /// The parts of the subtree, and the nodes of each one's expressions, of which what one part shares counts once. Kept as
    /// the digest is.
    pub fn nodes(&self) -> u64 {
        *self.0.nodes.get_or_init(|| size::nodes(self))
    }

    /// False only if the subtree has no loop, local buffer, label or family of labels (`C` for `C.init`)
    /// of that name: a one-word Bloom filter, which makes looking up a name cheap in large trees.
    pub fn may_name(&self, name: &str) -> bool {
        let bits = digest::bits_of(name);
        self.0.names & bits == bits
    }

    pub(crate) fn name_bits(&self) -> u64 {
        self.0.names
    }

    /// A statement made by the compiler, with no place of its own.
    pub fn of(kind: StmtKind) -> Stmt {
        Stmt::new(kind, Places::none())
    }

    /// A flattened sequence; one statement stands for itself.
    pub fn seq(stmts: impl IntoIterator<Item = Stmt>) -> Stmt {
        let mut flat = Vec::new();
        for s in stmts {
            match s.as_seq() {
                Some(inner) => flat.extend(inner.iter().cloned()),
                None => flat.push(s),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Stmt::of(StmtKind::Seq(flat)) }
    }

    pub fn empty() -> Stmt {
        Stmt::of(StmtKind::Seq(Vec::new()))
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.kind(), StmtKind::Seq(v) if v.is_empty())
    }

    pub fn kind(&self) -> &StmtKind {
        &self.0.kind
    }

    pub fn places(&self) -> &Places {
        &self.0.places
    }

    /// Same places, another kind.
    pub fn with_kind(&self, kind: StmtKind) -> Stmt {
        Stmt::new(kind, self.0.places.clone())
    }

    pub fn with_places(&self, places: Places) -> Stmt {
        Stmt::new(self.0.kind.clone(), places)
    }

    pub fn ptr_eq(&self, o: &Stmt) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }

    /// Identity of the shared node, for memo tables that live no longer than the statement.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
