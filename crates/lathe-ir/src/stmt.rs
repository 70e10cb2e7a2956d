//! Statements: an immutable tree with shared children.

use crate::expr::{Access, Expr};
use crate::func::Buffer;
use crate::ids::{Binder, Label};
use crate::ops::ReduceOp;
use crate::types::Name;
use lathe_diagnostics::Places;
use std::sync::Arc;

/// A shared statement with the set of source places it stems from.
#[derive(Clone, Debug)]
pub struct Stmt(Arc<StmtNode>);

#[derive(Clone, Debug)]
pub struct StmtNode {
    pub kind: StmtKind,
    pub places: Places,
    hash: u64,
    names: u64,
}

impl PartialEq for Stmt {
    fn eq(&self, o: &Stmt) -> bool {
        Arc::ptr_eq(&self.0, &o.0) || (self.0.hash == o.0.hash && self.0.kind == o.0.kind)
    }
}

/// Who runs the iterations of a loop (design, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Executor {
    Serial,
    /// The engine writes the iterations one after the other; constant trip count.
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
}

/// One dimension of a [`Compute`]: its index runs over `lo..hi`.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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

#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub binder: Binder,
    pub lo: Expr,
    pub hi: Expr,
    /// A positive constant.
    pub step: i64,
    pub exec: Executor,
    pub body: Stmt,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    pub label: Label,
    /// Which instance of the label is executed here, in the variables in scope (see [`Label`]).
    pub instance: Vec<Expr>,
    pub target: Access,
    pub value: Expr,
    /// Bypasses the caches; set by the `nontemporal` step.
    pub nontemporal: bool,
}

/// `targets op= values`. Licensed to be reassociated and reordered against other instances of the
/// same label if `licence` is set (`sum[k]`, `reduce`, `x op= e`; not `x = x + e`).
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    pub label: Label,
    pub instance: Vec<Expr>,
    pub op: ReduceOp,
    pub targets: Vec<Access>,
    pub values: Vec<Expr>,
    pub licence: bool,
    /// Set by the `contract` step: with `Sum`, a value `x * y` is added as `fma(x, y, target)`.
    pub contract: bool,
}

/// Read-modify-write; the old value is bound to `old` in `body`.
#[derive(Clone, Debug, PartialEq)]
pub struct Atomic {
    pub label: Label,
    pub instance: Vec<Expr>,
    pub op: ReduceOp,
    pub target: Access,
    pub value: Expr,
    pub order: MemoryOrder,
    pub scope: Name,
    pub old: Option<Binder>,
    pub body: Stmt,
}

#[derive(Clone, Debug, PartialEq)]
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
    /// A fact that holds here, and who says so.
    Assume {
        fact: Expr,
        provenance: Name,
    },
    /// Synchronizes the iterations of the enclosing parallel loop `of`.
    Barrier {
        of: crate::ids::VarId,
        spaces: Vec<crate::func::Space>,
    },
    /// Hints that the element will be read soon: means nothing, and the element need not exist.
    Prefetch(Access),
    /// Starts `body`; `token` names its completion in what follows within the same block.
    Async {
        token: Binder,
        body: Stmt,
    },
    Wait {
        tokens: Vec<crate::ids::VarId>,
    },
    Call {
        function: Name,
        args: Vec<Arg>,
    },
    Compute(Compute),
}

/// An argument of a [`StmtKind::Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    Value(Expr),
    /// A whole buffer (or slice of it) for an array parameter.
    View(crate::expr::View),
}

impl Stmt {
    pub fn new(kind: StmtKind, places: Places) -> Stmt {
        let (hash, names) = crate::summary::summarize(&kind);
        Stmt(Arc::new(StmtNode { kind, places, hash, names }))
    }

    /// A structural hash, ids included and places aside: equal statements have equal hashes, in every
    /// process. Known when the node is made, so that a step costs no walk over what it did not touch.
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    /// False only if the subtree has no loop, local buffer, label or family of labels (`C` for `C.init`)
    /// of that name: a one-word Bloom filter, which makes looking up a name cheap in large trees.
    pub fn may_name(&self, name: &str) -> bool {
        let bits = crate::summary::bits_of(name);
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
            match s.kind() {
                StmtKind::Seq(inner) => flat.extend(inner.iter().cloned()),
                _ => flat.push(s),
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

    pub fn as_loop(&self) -> Option<&Loop> {
        match self.kind() {
            StmtKind::Loop(l) => Some(l),
            _ => None,
        }
    }

    /// Identity of the shared node, for memo tables that live no longer than the statement.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Child statements in order; a path is a list of positions in these lists.
    pub fn children(&self) -> Vec<&Stmt> {
        match self.kind() {
            StmtKind::Seq(v) => v.iter().collect(),
            StmtKind::Let { body, .. }
            | StmtKind::While { body, .. }
            | StmtKind::Alloc { body, .. }
            | StmtKind::Async { body, .. } => vec![body],
            StmtKind::Loop(l) => vec![&l.body],
            StmtKind::Atomic(a) => vec![&a.body],
            StmtKind::If { then, other, .. } => std::iter::once(then).chain(other.as_ref()).collect(),
            _ => vec![],
        }
    }

    /// The inverse of [`Stmt::children`].
    pub fn with_children(&self, new: Vec<Stmt>) -> Stmt {
        let mut it = new.into_iter();
        let mut next = || it.next().expect("as many children as before");
        let kind = match self.kind() {
            StmtKind::Seq(_) => StmtKind::Seq(it.collect()),
            StmtKind::Let { binder, value, .. } => {
                StmtKind::Let { binder: binder.clone(), value: value.clone(), body: next() }
            }
            StmtKind::While { cond, .. } => StmtKind::While { cond: cond.clone(), body: next() },
            StmtKind::Alloc { buffer, .. } => StmtKind::Alloc { buffer: buffer.clone(), body: next() },
            StmtKind::Async { token, .. } => StmtKind::Async { token: token.clone(), body: next() },
            StmtKind::Loop(l) => StmtKind::Loop(Loop { body: next(), ..l.clone() }),
            StmtKind::Atomic(a) => StmtKind::Atomic(Atomic { body: next(), ..a.clone() }),
            StmtKind::If { cond, other, .. } => {
                let then = next();
                StmtKind::If { cond: cond.clone(), then, other: other.as_ref().map(|_| next()) }
            }
            _ => return self.clone(),
        };
        self.with_kind(kind)
    }

    /// The expressions that stand directly in this statement, children excluded, in a fixed order:
    /// instance, targets' expressions, values, bounds, conditions.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self.kind() {
            StmtKind::Let { value, .. } => vec![value],
            StmtKind::Store(s) => {
                let mut v: Vec<&Expr> = s.instance.iter().collect();
                v.extend(s.target.exprs());
                v.push(&s.value);
                v
            }
            StmtKind::Reduce(r) => {
                let mut v: Vec<&Expr> = r.instance.iter().collect();
                v.extend(r.targets.iter().flat_map(|t| t.exprs()));
                v.extend(&r.values);
                v
            }
            StmtKind::Atomic(a) => {
                let mut v: Vec<&Expr> = a.instance.iter().collect();
                v.extend(a.target.exprs());
                v.push(&a.value);
                v
            }
            StmtKind::Loop(l) => vec![&l.lo, &l.hi],
            StmtKind::If { cond, .. } | StmtKind::While { cond, .. } | StmtKind::Check { cond, .. } => {
                vec![cond]
            }
            StmtKind::Assume { fact, .. } => vec![fact],
            StmtKind::Prefetch(a) => a.exprs(),
            StmtKind::Alloc { buffer, .. } => buffer.extents.iter().collect(),
            StmtKind::Call { args, .. } => args
                .iter()
                .flat_map(|a| match a {
                    Arg::Value(e) => vec![e],
                    Arg::View(v) => v.exprs(),
                })
                .collect(),
            StmtKind::Compute(c) => {
                let mut v: Vec<&Expr> = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).collect();
                v.extend(c.targets.iter().flat_map(|t| t.exprs()));
                v.extend(&c.values);
                v.extend(&c.guard);
                v
            }
            StmtKind::Seq(_) | StmtKind::Async { .. } | StmtKind::Wait { .. } | StmtKind::Barrier { .. } => {
                vec![]
            }
        }
    }

    /// The inverse of [`Stmt::exprs`].
    pub fn with_exprs(&self, new: Vec<Expr>) -> Stmt {
        let mut it = new.into_iter();
        let mut take = |n: usize| -> Vec<Expr> { it.by_ref().take(n).collect() };
        let access = |a: &Access, take: &mut dyn FnMut(usize) -> Vec<Expr>| {
            let n = a.exprs().len();
            a.with_exprs(take(n))
        };
        let kind = match self.kind() {
            StmtKind::Let { binder, body, .. } => {
                StmtKind::Let { binder: binder.clone(), value: take(1).remove(0), body: body.clone() }
            }
            StmtKind::Store(s) => {
                let instance = take(s.instance.len());
                let target = access(&s.target, &mut take);
                StmtKind::Store(Store { instance, target, value: take(1).remove(0), ..s.clone() })
            }
            StmtKind::Reduce(r) => {
                let instance = take(r.instance.len());
                let targets = r.targets.iter().map(|t| access(t, &mut take)).collect();
                StmtKind::Reduce(Reduce { instance, targets, values: take(r.values.len()), ..r.clone() })
            }
            StmtKind::Atomic(a) => {
                let instance = take(a.instance.len());
                let target = access(&a.target, &mut take);
                StmtKind::Atomic(Atomic { instance, target, value: take(1).remove(0), ..a.clone() })
            }
            StmtKind::Loop(l) => {
                let (lo, hi) = (take(1).remove(0), take(1).remove(0));
                StmtKind::Loop(Loop { lo, hi, ..l.clone() })
            }
            StmtKind::If { then, other, .. } => {
                StmtKind::If { cond: take(1).remove(0), then: then.clone(), other: other.clone() }
            }
            StmtKind::While { body, .. } => StmtKind::While { cond: take(1).remove(0), body: body.clone() },
            StmtKind::Check { code, message, .. } => {
                StmtKind::Check { cond: take(1).remove(0), code: code.clone(), message: message.clone() }
            }
            StmtKind::Assume { provenance, .. } => {
                StmtKind::Assume { fact: take(1).remove(0), provenance: provenance.clone() }
            }
            StmtKind::Prefetch(a) => StmtKind::Prefetch(access(a, &mut take)),
            StmtKind::Alloc { buffer, body } => {
                let extents = take(buffer.extents.len());
                let buffer = if extents == buffer.extents {
                    buffer.clone()
                } else {
                    Arc::new(Buffer { extents, ..(**buffer).clone() })
                };
                StmtKind::Alloc { buffer, body: body.clone() }
            }
            StmtKind::Call { function, args } => StmtKind::Call {
                function: function.clone(),
                args: args
                    .iter()
                    .map(|a| match a {
                        Arg::Value(_) => Arg::Value(take(1).remove(0)),
                        Arg::View(v) => {
                            let n = v.exprs().len();
                            Arg::View(v.with_exprs(&mut take(n).into_iter()))
                        }
                    })
                    .collect(),
            },
            StmtKind::Compute(c) => {
                let dims = c
                    .dims
                    .iter()
                    .map(|d| {
                        let (lo, hi) = (take(1).remove(0), take(1).remove(0));
                        Dim { lo, hi, ..d.clone() }
                    })
                    .collect();
                let targets = c.targets.iter().map(|t| access(t, &mut take)).collect();
                let values = take(c.values.len());
                let guard = c.guard.as_ref().map(|_| take(1).remove(0));
                StmtKind::Compute(Compute { dims, targets, values, guard, ..c.clone() })
            }
            StmtKind::Seq(_) | StmtKind::Async { .. } | StmtKind::Wait { .. } | StmtKind::Barrier { .. } => {
                return self.clone();
            }
        };
        self.with_kind(kind)
    }
}
