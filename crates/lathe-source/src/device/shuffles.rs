//! Halvings of partial results within one warp, by shuffles: neighbours hand their registers on, and no barrier is needed.
//!
//! The tree says it with shared memory: `if t < 16 { P[t] op= P[t + 16] }`, a barrier, `if t < 8 { P[t] op= P[t + 8] }`,
//! and so on. The first warp does all of them in registers, in the same order, and writes the same elements at the end.
//! Where threads are rows of `n`, `t % n` stands for `t`, and every row does it for itself.

use super::Language;
use crate::emit::{Device, Emitter, Result, Var, ill_formed};
use crate::helpers::memory_type;
use crate::writer::bare;
use lathe_ir::build::var;
use lathe_ir::reduce::combine;
use lathe_ir::visit::{fold, substitute};
use lathe_ir::{Access, BinOp, Binder, Expr, ExprKind, Reduce, Scalar, Space, Stmt, StmtKind, VarId};
use lathe_lower::addresses;
use lathe_poly::Linear;
use std::collections::HashMap;

/// Threads that execute in step.
const WARP: i64 = 32;

/// `if lane < half { targets op= what lies `half` further }`.
struct Halving<'a> {
    half: i64,
    /// The threads of a row; `None` where all threads of the block are one.
    row: Option<i64>,
    reduce: &'a Reduce,
    /// Of every target, in terms of the thread's number.
    indices: Vec<Vec<Expr>>,
}

/// Variables that stand for values, and what is below them.
fn named<'s>(mut s: &'s Stmt, names: &mut HashMap<VarId, Expr>) -> &'s Stmt {
    while let Some((binder, value, inside)) = s.as_let() {
        names.insert(binder.id, substitute(value, names));
        s = inside;
    }
    s
}

/// `thread`, or `thread % row`.
fn row_of(lane: &Expr, thread: VarId) -> Option<Option<i64>> {
    match lane.kind() {
        ExprKind::Var(v) => (*v == thread).then_some(None),
        ExprKind::Binary(BinOp::FloorMod, t, n) => {
            let n = n.as_int().filter(|n| *n > 1 && (WARP % n == 0 || n % WARP == 0));
            n.filter(|_| t.as_var() == Some(thread)).map(Some)
        }
        _ => None,
    }
}

/// Whether all threads of a row compute the same.
fn uniform(e: &Expr, thread: VarId, row: Option<i64>) -> bool {
    fold(e, &mut |e, parts: Vec<bool>| match (e.kind(), row) {
        (ExprKind::Var(v), _) => *v != thread,
        (ExprKind::Binary(BinOp::FloorDiv, t, n), Some(row))
            if t.as_var() == Some(thread) && n.as_int() == Some(row) =>
        {
            true
        }
        _ => !parts.contains(&false),
    })
}

impl<'a> Halving<'a> {
    fn of(s: &'a Stmt, thread: VarId) -> Option<Halving<'a>> {
        let mut names = HashMap::new();
        let (cond, then, None) = named(s, &mut names).as_if()? else { return None };
        let ExprKind::Binary(BinOp::Lt, lane, half) = cond.kind() else { return None };
        let (lane, half) = (substitute(lane, &names), half.as_int()?);
        let row = row_of(&lane, thread)?;
        if row.is_some_and(|n| 2 * half > n) {
            return None;
        }
        let reduce = named(then, &mut names).as_reduce()?;
        let here = |a: &Access| {
            Some((addresses::buffer(a)?, a.indices.iter().map(|i| substitute(i, &names)).collect::<Vec<_>>()))
        };
        let mut out = Vec::new();
        for (target, value) in reduce.targets.iter().zip(&reduce.values) {
            let ExprKind::Load(from) = value.kind() else { return None };
            let ((id, to), (source, from)) = (here(target)?, here(from)?);
            if id != source || to.len() != from.len() {
                return None;
            }
            // One subscript is the lane; the others are the same for the row.
            let at = to.iter().position(|e| *e == lane)?;
            let apart = Linear::difference(&from[at], &lane) == Some(half);
            let others = |k: usize| k == at || (to[k] == from[k] && uniform(&to[k], thread, row));
            if !apart || !(0..to.len()).all(others) {
                return None;
            }
            out.push(to);
        }
        Some(Halving { half, row, reduce, indices: out })
    }

    /// The same operator on the same partial results.
    fn goes_on(&self, next: &Halving) -> bool {
        let buffers = |h: &Halving| h.reduce.targets.iter().map(addresses::buffer).collect::<Vec<_>>();
        next.half * 2 == self.half
            && self.row == next.row
            && self.reduce.op == next.reduce.op
            && buffers(self) == buffers(next)
            && self.indices == next.indices
    }
}

/// Whether the threads of the block wait for one another here.
fn is_barrier(s: &Stmt, thread: VarId) -> bool {
    matches!(s.kind(), StmtKind::Barrier { of, .. } if *of == thread)
}

/// Whether nobody of the block goes on before all have come here.
fn waits(s: &Stmt, d: &Device) -> bool {
    matches!(s.kind(), StmtKind::Barrier { of, .. } if *of == d.thread || Some(*of) == d.rank)
}

/// How many statements of a sequence, from its first, are halvings within a warp; and these.
fn halvings(all: &[Stmt], thread: VarId) -> Option<(usize, Vec<Halving<'_>>)> {
    // Within rows that are parts of a warp, every thread has an element.
    let fits = |h: &Halving| h.half * 2 <= WARP && h.row.is_none_or(|n| n > WARP || h.half * 2 == n);
    let first = Halving::of(all.first()?, thread).filter(fits)?;
    let (mut count, mut out) = (1, vec![first]);
    while let [barrier, next, ..] = &all[count..] {
        let next = Halving::of(next, thread).filter(|h| out.last().is_some_and(|l| l.goes_on(h)));
        let Some(next) = next.filter(|_| is_barrier(barrier, thread)) else { break };
        out.push(next);
        count += 2;
    }
    (out.len() > 1).then_some((count, out))
}

/// What shuffles take.
fn in_registers(ty: Scalar) -> bool {
    matches!(
        ty,
        Scalar::F32 | Scalar::F64 | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 | Scalar::Index
    )
}

impl Emitter<'_> {
    /// Statements of a kernel, one after the other.
    pub(crate) fn device_sequence(&mut self, all: &[Stmt]) -> Result<()> {
        let mut at = 0;
        while at < all.len() {
            let thread = self.device.filter(|d| d.language == Language::Cuda && d.threads >= WARP);
            // Right behind a barrier nothing else waits for those that shuffles leave out.
            let behind = |d: &Device| at > 0 && waits(&all[at - 1], d);
            let found = thread.filter(behind).and_then(|d| halvings(&all[at..], d.thread));
            let found = found.filter(|(_, h)| {
                let shared = |t: &Access| {
                    let b = addresses::buffer(t).and_then(|b| self.bufs.get(&b));
                    b.is_some_and(|b| b.decl.space == Space::Shared)
                };
                let scalar = |t: &Access| t.elem.scalar().is_some_and(in_registers);
                let full = h[0].row.is_none() || thread.is_some_and(|d| d.threads % WARP == 0);
                full && h[0].reduce.targets.iter().all(|t| shared(t) && scalar(t))
            });
            match (found, thread) {
                (Some((count, halvings)), Some(d)) => {
                    self.shuffled(&halvings, d.thread)?;
                    at += count;
                }
                _ => {
                    self.stmt(&all[at])?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn shuffled(&mut self, all: &[Halving], thread: VarId) -> Result<()> {
        let first = &all[0];
        let name = self.vars.get(&thread).map(|v| v.name.clone());
        let thread = name.ok_or_else(|| ill_formed("a kernel without threads"))?;
        let lane = first.row.map_or(thread.clone(), |n| format!("({thread} % {n})"));
        let mut elements = Vec::new();
        // Rows within a warp: all of its threads take part.
        let within = first.row.filter(|n| *n <= WARP);
        match within {
            Some(_) => self.open("{"),
            None => self.open(format!("if ({lane} < {}) {{", 2 * first.half)),
        }
        let mut mine = Vec::new();
        for (target, indices) in first.reduce.targets.iter().zip(&first.indices) {
            let b = self.buf_of(target)?;
            self.begin(&indices.iter().collect::<Vec<_>>());
            let element = self.element(&b, indices)?;
            let v = self.value_in_register(target, "mine");
            self.line(format!("{} {} = {element};", memory_type(v.ty), self.name_of(&v)));
            elements.push(element);
            mine.push(v);
        }
        let mask = match within {
            None if 2 * first.half < WARP => format!("{:#x}u", (1u64 << (2 * first.half)) - 1),
            _ => "0xffffffffu".to_string(),
        };
        let width = within.map_or(String::new(), |n| format!(", {n}"));
        for h in all {
            self.open("{");
            let mut theirs = Vec::new();
            for (target, v) in h.reduce.targets.iter().zip(&mine) {
                let other = self.value_in_register(target, "theirs");
                let (ty, name, v) = (memory_type(other.ty), self.name_of(&other), self.name_of(v));
                self.line(format!("const {ty} {name} = __shfl_down_sync({mask}, {v}, {}{width});", h.half));
                theirs.push(other);
            }
            self.open(format!("if ({lane} < {}) {{", h.half));
            let (olds, values): (Vec<Expr>, Vec<Expr>) =
                (mine.iter().map(var).collect(), theirs.iter().map(var).collect());
            let news = combine(self.module, &h.reduce.op, &olds, &values)
                .ok_or_else(|| ill_formed(format!("`{}` is not defined here", h.reduce.op)))?;
            self.begin(&news.iter().collect::<Vec<_>>());
            let mut texts = Vec::new();
            for (n, v) in news.iter().zip(&mine) {
                let text = self.uniform(n)?;
                let name = self.names.fresh("new");
                self.line(format!("const {} {name} = {};", memory_type(v.ty), bare(&text)));
                texts.push(name);
            }
            for (v, text) in mine.iter().zip(texts) {
                let name = self.name_of(v);
                self.line(format!("{name} = {text};"));
            }
            self.close("}");
            self.close("}");
        }
        self.open(format!("if ({lane} < {}) {{", first.half));
        for (element, v) in elements.iter().zip(&mine) {
            let name = self.name_of(v);
            self.line(format!("{element} = {name};"));
        }
        self.close("}");
        self.close("}");
        for v in &mine {
            self.vars.remove(&v.id);
        }
        Ok(())
    }

    /// A variable of the kernel for an element.
    fn value_in_register(&mut self, of: &Access, hint: &str) -> Binder {
        let ty = of.elem.scalar().unwrap_or(Scalar::F32);
        let id = VarId(self.next_id);
        self.next_id += 1;
        let name = self.names.fresh(hint);
        let frame = self.frames.len() - 1;
        self.vars.insert(id, Var { name: name.clone(), ty, frame, lanes: false });
        Binder { id, name: name.into(), ty }
    }

    fn name_of(&self, b: &Binder) -> String {
        self.vars.get(&b.id).map_or_else(|| b.name.to_string(), |v| v.name.clone())
    }
}
