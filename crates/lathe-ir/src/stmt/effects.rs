//! The interface of statements, effects: what a statement does besides reading and writing memory.

use super::{Combine, Stmt, StmtKind};
use crate::buffer::Space;
use crate::ops::ReduceOp;
use std::fmt;

/// A set of effects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u8);

impl Effects {
    /// Reads, writes and computes at most.
    pub const NONE: Effects = Effects(0);
    /// May fail the call (`check`, or an empty reduction without an identity).
    pub const FAILS: Effects = Effects(1);
    /// May run forever.
    pub const DIVERGES: Effects = Effects(1 << 1);
    /// Takes memory that is neither a register nor a stack frame.
    pub const ALLOCATES: Effects = Effects(1 << 2);
    /// Orders or starts other work: barriers, asynchronous bodies, waits.
    pub const SYNCHRONIZES: Effects = Effects(1 << 3);
    /// Reads and writes in one indivisible step.
    pub const ATOMIC: Effects = Effects(1 << 4);
    /// Input or output.
    pub const IO: Effects = Effects(1 << 5);

    pub const NAMES: [(Effects, &'static str); 6] = [
        (Effects::FAILS, "fail"),
        (Effects::DIVERGES, "diverge"),
        (Effects::ALLOCATES, "alloc"),
        (Effects::SYNCHRONIZES, "sync"),
        (Effects::ATOMIC, "atomic"),
        (Effects::IO, "io"),
    ];

    pub const ALL: Effects = Effects((1 << 6) - 1);

    pub fn from_name(name: &str) -> Option<Effects> {
        Effects::NAMES.iter().find(|n| n.1 == name).map(|n| n.0)
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Effects::NAMES.into_iter().filter(move |n| self.contains(n.0)).map(|n| n.1)
    }

    pub fn is_none(self) -> bool {
        self == Effects::NONE
    }

    pub fn contains(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn and(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }

    pub fn without(self, other: Effects) -> Effects {
        Effects(self.0 & !other.0)
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

impl Stmt {
    /// The effects of the statement itself, children excluded.
    pub fn own_effects(&self) -> Effects {
        match self.kind() {
            StmtKind::Seq(_)
            | StmtKind::Let { .. }
            | StmtKind::Store(_)
            | StmtKind::Reduce(_)
            | StmtKind::Loop(_)
            | StmtKind::If { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Prefetch(_) => Effects::NONE,
            StmtKind::Check { .. } => Effects::FAILS,
            // Where the operator has no identity, a reduction over nothing fails.
            StmtKind::Compute(c) => {
                let known = |op: &ReduceOp| !matches!(op, ReduceOp::User(_));
                let whole = c.dims.iter().all(|d| match &d.combine {
                    Combine::Reduce(op) => known(op),
                    Combine::Concat | Combine::Scan(_) => true,
                });
                if whole { Effects::NONE } else { Effects::FAILS }
            }
            StmtKind::While { .. } => Effects::DIVERGES,
            StmtKind::Alloc { buffer, .. } => match buffer.space {
                Space::Register | Space::Stack | Space::Fragment => Effects::NONE,
                Space::Host | Space::Global | Space::Shared | Space::Constant => Effects::ALLOCATES,
            },
            StmtKind::Atomic(_) => Effects::ATOMIC,
            StmtKind::Barrier { .. }
            | StmtKind::Token { .. }
            | StmtKind::Async { .. }
            | StmtKind::Wait { .. } => Effects::SYNCHRONIZES,
            StmtKind::Call { .. } => Effects::ALL,
        }
    }

    /// The effects of the statement with all that it holds.
    pub fn effects(&self) -> Effects {
        self.children().fold(self.own_effects(), |all, c| all.and(c.effects()))
    }
}
