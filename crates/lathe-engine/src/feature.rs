//! Features that a tree may use and an engine may lack, each with a tag: `stmt.atomic`, `exec.cpu`, `type.f16`.

use lathe_ir::{Executor, LayoutStep, Name, Scalar, Space, StmtKind};
use std::collections::BTreeSet;
use std::fmt;

/// A plain enumeration whose members have words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $member:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$each])* $member),* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$member),*];

            pub fn word(self) -> &'static str {
                match self { $($name::$member => $word),* }
            }
        }
    };
}

words! {
    /// Kinds of statements.
    Statement {
        Let = "let", Store = "store", Reduce = "reduce", Atomic = "atomic", Loop = "loop", If = "if",
        While = "while", Alloc = "alloc", Check = "check", Assume = "assume", Barrier = "barrier",
        Prefetch = "prefetch", Token = "token", Async = "async", Wait = "wait", Call = "call", Compute = "compute",
    }
}

words! {
    /// What an access may look through, beside a buffer as a whole.
    Through {
        Slice = "slice", Reshape = "reshape", Reinterpret = "reinterpret", Deref = "deref", Global = "global",
    }
}

words! {
    /// Steps of layouts.
    Step {
        Permute = "permute", Tile = "tile", Pad = "pad", Swizzle = "swizzle", Distribute = "distribute",
    }
}

words! {
    /// Constructs that only some engines support in their position.
    Form {
        /// Elements and values of several scalars: structs, tuples, arrays, packed vectors.
        Aggregate = "aggregate",
        /// A vector loop inside of another one.
        NestedVectors = "nested_vectors",
        /// A loop on threads inside of a vector loop.
        ThreadsInLanes = "threads_in_lanes",
        /// A vector loop of constantly more iterations than it has lanes.
        WideVector = "wide_vector",
        /// A statement in a vector loop all lanes of which write one element.
        SharedElement = "shared_element",
        /// A loop whose lanes combine in order, of another form than [`lathe_ir::lower::InScan`] allows.
        FreeScan = "free_scan",
        /// A local buffer inside of a vector loop whose size is not a constant, or large.
        LaneArray = "lane_array",
        /// The address of an element.
        Address = "address",
        /// A function that is defined elsewhere, called by a statement.
        External = "external",
        /// A function that is defined elsewhere, called for its value.
        ExternalValue = "external_value",
        /// A function that is defined elsewhere, called in a vector loop.
        ExternalInLanes = "external_in_lanes",
        /// A function that calls itself.
        Recursion = "recursion",
        /// A call that does not tell a size of the called function.
        FreeCallSize = "free_call_size",
        /// A buffer with a layout as an argument of a call.
        ArgumentLayout = "argument_layout",
        /// An array argument of a call that differs between the lanes of a vector loop.
        LaneArgument = "lane_argument",
        /// A view other than a buffer and slices of it as an argument of a call.
        ArgumentView = "argument_view",
        /// A parameter with a layout.
        ParameterLayout = "parameter_layout",
        /// A size that is not a parameter's extent by itself.
        FreeSize = "free_size",
        /// A bitcast from or to `bool`.
        BoolBits = "bool_bits",
        /// An atomic inside of a vector loop.
        AtomicInLanes = "atomic_in_lanes",
        /// An atomic on an element of several scalars.
        AtomicAggregate = "atomic_aggregate",
        /// A `while` around an atomic in a parallel loop: it may wait for another iteration, which need not run yet.
        SpinWait = "spin_wait",
        /// An update in the order of the iterations of a parallel loop, which wait for one another.
        InOrder = "in_order",
    }
}

/// One thing that a tree may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    Statement(Statement),
    /// By the name that the text form has: `serial`, `vector`, `cpu`, `grid`.
    Executor(Name),
    Space(Space),
    Type(Scalar),
    View(Through),
    Layout(Step),
    Form(Form),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Feature::Statement(s) => write!(f, "stmt.{}", s.word()),
            Feature::Executor(n) => write!(f, "exec.{n}"),
            Feature::Space(s) => write!(f, "space.{}", s.name()),
            Feature::Type(s) => write!(f, "type.{}", s.name()),
            Feature::View(t) => write!(f, "view.{}", t.word()),
            Feature::Layout(s) => write!(f, "layout.{}", s.word()),
            Feature::Form(x) => write!(f, "form.{}", x.word()),
        }
    }
}

impl Feature {
    /// The kind of a statement, and the statement in words; a sequence is none.
    pub fn of_statement(kind: &StmtKind) -> Option<(Feature, String)> {
        let (kind, words) = match kind {
            StmtKind::Seq(_) => return None,
            StmtKind::Let { binder, .. } => (Statement::Let, format!("the variable `{}`", binder.name)),
            StmtKind::Store(s) => (Statement::Store, format!("the store `{}`", s.label)),
            StmtKind::Reduce(r) => (Statement::Reduce, format!("the reduction `{}`", r.label)),
            StmtKind::Atomic(a) => (Statement::Atomic, format!("the atomic `{}`", a.label)),
            StmtKind::Loop(l) => (Statement::Loop, format!("loop `{}`", l.binder.name)),
            StmtKind::If { .. } => (Statement::If, "an `if`".to_string()),
            StmtKind::While { .. } => (Statement::While, "a `while`".to_string()),
            StmtKind::Alloc { buffer, .. } => {
                (Statement::Alloc, format!("the local buffer `{}`", buffer.name))
            }
            StmtKind::Check { code, .. } => (Statement::Check, format!("the check `{code}`")),
            StmtKind::Assume { .. } => (Statement::Assume, "an assumption".to_string()),
            StmtKind::Barrier { .. } => (Statement::Barrier, "a barrier".to_string()),
            StmtKind::Prefetch(_) => (Statement::Prefetch, "a prefetch".to_string()),
            StmtKind::Token { .. } => (Statement::Token, "a token of asynchronous statements".to_string()),
            StmtKind::Async { .. } => (Statement::Async, "an asynchronous statement".to_string()),
            StmtKind::Wait { .. } => (Statement::Wait, "a wait for an asynchronous statement".to_string()),
            StmtKind::Call { function, .. } => (Statement::Call, format!("a call of `{function}`")),
            StmtKind::Compute(c) => {
                (Statement::Compute, format!("the compute `{}`, which was not lowered to loops", c.label))
            }
        };
        Some((Feature::Statement(kind), words))
    }

    pub fn of_executor(exec: &Executor) -> Feature {
        Feature::Executor(exec.name())
    }

    pub fn of_layout(step: &LayoutStep) -> Feature {
        Feature::Layout(match step {
            LayoutStep::Permute(_) => Step::Permute,
            LayoutStep::Tile { .. } => Step::Tile,
            LayoutStep::Pad { .. } => Step::Pad,
            LayoutStep::Swizzle { .. } => Step::Swizzle,
            LayoutStep::Distribute { .. } => Step::Distribute,
        })
    }
}

/// What an engine supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    features: BTreeSet<Feature>,
}

impl Capabilities {
    /// Nothing; the methods add to it.
    pub fn none() -> Capabilities {
        Capabilities::default()
    }

    /// What every CPU engine supports: plain statements on all scalar types, local memory, layouts, and what the passes
    /// of `lathe-lower` take away: calls, and the levels, spaces and barriers of devices.
    pub fn plain() -> Capabilities {
        use Statement::*;
        Capabilities::none()
            .statements(&[
                Let, Store, Reduce, Atomic, Loop, If, While, Alloc, Check, Assume, Prefetch, Call, Barrier,
            ])
            .executors(&["serial", "unrolled", "device", "grid", "cluster", "block", "warp", "lane"])
            .spaces(&Space::ALL)
            .types(&Scalar::ALL)
            .views(&[Through::Slice, Through::Reshape])
            .layouts(&[Step::Permute, Step::Tile, Step::Pad, Step::Swizzle, Step::Distribute])
            .forms(&[Form::Aggregate, Form::InOrder])
    }

    fn with(mut self, more: impl IntoIterator<Item = Feature>) -> Capabilities {
        self.features.extend(more);
        self
    }

    pub fn statements(self, all: &[Statement]) -> Capabilities {
        self.with(all.iter().map(|s| Feature::Statement(*s)))
    }

    pub fn executors(self, all: &[&str]) -> Capabilities {
        self.with(all.iter().map(|n| Feature::Executor((*n).into())))
    }

    pub fn spaces(self, all: &[Space]) -> Capabilities {
        self.with(all.iter().map(|s| Feature::Space(*s)))
    }

    pub fn types(self, all: &[Scalar]) -> Capabilities {
        self.with(all.iter().map(|s| Feature::Type(*s)))
    }

    pub fn views(self, all: &[Through]) -> Capabilities {
        self.with(all.iter().map(|t| Feature::View(*t)))
    }

    pub fn layouts(self, all: &[Step]) -> Capabilities {
        self.with(all.iter().map(|s| Feature::Layout(*s)))
    }

    pub fn forms(self, all: &[Form]) -> Capabilities {
        self.with(all.iter().map(|f| Feature::Form(*f)))
    }

    pub fn has(&self, f: &Feature) -> bool {
        self.features.contains(f)
    }

    /// All of them, in the order of their tags' kinds.
    pub fn features(&self) -> impl Iterator<Item = &Feature> {
        self.features.iter()
    }
}
