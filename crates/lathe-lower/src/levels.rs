//! Device trees on CPUs: the loops of levels as loops of the host, with [`phases`](crate::phases) in place of barriers.
//!
//! The outermost loop over blocks goes to the threads, unless some are used already; all others, those over devices among
//! them, run their iterations in order, which is one of the orders that they may have. So do the loops that an update
//! `inorder` names, unless threads may take turns ([`turns`]). Local arrays of devices are in ordinary memory, or in the frame where they are registers; a distributed one is there as
//! a whole, which is the parts of all threads.

use crate::phases::to_phased;
use crate::turns;
use lathe_ir::lower::Unsupported;
use lathe_ir::stmt::{Atomic, MemoryOrder};
use lathe_ir::visit::walk;
use lathe_ir::{Buffer, Executor, Function, Layout, Loop, Name, Space, Stmt, StmtKind};
use std::collections::HashSet;
use std::sync::Arc;

/// The function without barriers, levels, and the spaces of devices.
///
/// # Errors
/// As [`to_phased`].
pub fn on_cpus(func: &Function) -> Result<Function, Unsupported> {
    if !of_device(&func.body) {
        return Ok(func.clone());
    }
    let func = to_phased(func, &|_| true)?;
    let mut in_turn = HashSet::new();
    walk(&func.body, &mut |s, _| {
        if let StmtKind::Atomic(a) = s.kind()
            && a.order == MemoryOrder::InOrder
        {
            in_turn.insert(a.scope.clone());
        }
        true
    });
    let levels = Levels { func: &func, in_turn };
    let body = levels.stmt(&func.body, None, false);
    Ok(Function { body, ..func })
}

fn of_device(s: &Stmt) -> bool {
    let here = matches!(s.kind(), StmtKind::Barrier { .. })
        || s.as_loop().is_some_and(|l| matches!(l.exec, Executor::Level(_) | Executor::Device))
        || matches!(s.kind(), StmtKind::Atomic(a) if a.order == MemoryOrder::InOrder)
        || s.allocated().is_some_and(|b| space(b.space) != b.space || b.layout.is_distributed());
    here || s.children().any(of_device)
}

fn space(s: Space) -> Space {
    match s {
        Space::Global | Space::Shared | Space::Constant => Space::Host,
        Space::Fragment => Space::Stack,
        Space::Host | Space::Stack | Space::Register => s,
    }
}

struct Levels<'a> {
    func: &'a Function,
    /// The executors that updates `inorder` name.
    in_turn: HashSet<Name>,
}

impl Levels<'_> {
    /// `turns`: what the loop around was called whose iterations take turns. `within`: in a loop whose iterations threads,
    /// lanes or levels run.
    fn stmt(&self, s: &Stmt, turns: Option<&Name>, within: bool) -> Stmt {
        if let Some(l) = s.as_loop() {
            return self.run(s, l, turns, within);
        }
        let s = s.with_children(s.children().map(|c| self.stmt(c, turns, within)).collect());
        if let StmtKind::Atomic(a) = s.kind()
            && a.order == MemoryOrder::InOrder
        {
            let a = match turns {
                Some(name) if *name == a.scope => Atomic { scope: Executor::Cpu.name(), ..a.clone() },
                _ => Atomic { order: MemoryOrder::AcqRel, ..a.clone() },
            };
            return s.with_kind(StmtKind::Atomic(a));
        }
        if let StmtKind::Alloc { buffer, body } = s.kind() {
            let layout =
                if buffer.layout.is_distributed() { Layout::row_major() } else { buffer.layout.clone() };
            // Registers of all threads of a block are an array with subscripts that vary.
            let space = match space(buffer.space) {
                Space::Register if within => Space::Stack,
                other => other,
            };
            if space != buffer.space || layout != buffer.layout {
                let buffer = Arc::new(Buffer { space, layout, ..(**buffer).clone() });
                return s.with_kind(StmtKind::Alloc { buffer, body: body.clone() });
            }
        }
        s
    }

    fn run(&self, s: &Stmt, l: &Loop, turns: Option<&Name>, within: bool) -> Stmt {
        let name = l.exec.name();
        let threads = l.exec == Executor::Cpu || &*name == "grid";
        let waits = self.in_turn.contains(&name);
        let take = waits && threads && !within && turns::fits(self.func, l);
        let concurrent = !l.exec.is_ordered() && l.exec != Executor::Device;
        let turns = if take { Some(&name) } else { turns };
        let s = s.with_children(s.children().map(|c| self.stmt(c, turns, within || concurrent)).collect());
        let exec = match &l.exec {
            _ if take => Executor::Cpu,
            Executor::Level(_) if &*name == "grid" && !within && !waits => Executor::Cpu,
            Executor::Level(_) | Executor::Device => Executor::Serial,
            exec if waits && !exec.is_ordered() => Executor::Serial,
            _ => return s,
        };
        s.as_loop().map_or(s.clone(), |l| s.with_kind(StmtKind::Loop(Loop { exec, ..l.clone() })))
    }
}
