//! One block: the body of a grid becomes the code of every thread.
//!
//! Thread loops become conditions on the thread's number, serial statements are run by thread 0, loops and
//! conditions around thread loops are run by all threads uniformly. A barrier is inserted before an access that conflicts
//! with one since the previous barrier.

use crate::codes;
use crate::held;
use crate::owner::owned;
use crate::pending::{Touched, View};
use crate::phase::{
    Chain, Dealt, dealt, has_barrier, has_threads, in_order, is_grid, is_threads, iteration, only_if,
};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, eq, index, mul, sub, var};
use lathe_ir::lower::resolve;
use lathe_ir::visit::{map_accesses, vars_of};
use lathe_ir::{Access, Binder, BufId, Buffer, Executor, Expr, Loop, Scalar, Space, Stmt, StmtKind, VarId};
use lathe_poly::Ranges;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Diagnostic>;

/// The state of one kernel's translation.
#[derive(Clone)]
pub struct Block<'a> {
    pub classes: &'a HashMap<BufId, BufId>,
    /// The loops of the grid, without bodies of their own.
    pub grid: &'a [Loop],
    /// The number of the thread in its block.
    pub tid: Binder,
    /// The number of the block in its cluster, and how many blocks that has.
    pub cluster: Option<(Binder, i64)>,
    /// Threads of the block, or of all blocks of the cluster.
    pub threads: i64,
    pub ranges: Ranges,
    pub next_id: u32,
    /// Buffers of the block, or of the cluster, allocated around its threads.
    pub shared: Vec<Arc<Buffer>>,
    /// Buffers of every block of a cluster.
    pub own: Vec<Arc<Buffer>>,
    /// The same, with those that an earlier translation of a loop's body has found: at its beginning, what its end
    /// leaves is pending.
    pub mine: HashSet<BufId>,
    /// Buffers of the block in global memory, one part per block.
    pub global: Vec<Arc<Buffer>>,
    pub private: HashSet<BufId>,
    /// The constant size of the first dimension of buffers that the block shares.
    pub slots: HashMap<BufId, i64>,
    /// Buffers of which every block of a cluster has a whole copy.
    pub copied: HashSet<BufId>,
}

impl Block<'_> {
    fn view(&self) -> View<'_> {
        View { classes: self.classes, private: &self.private, slots: &self.slots, nest: None }
    }

    /// The number of the thread, among all of the cluster.
    fn me(&self) -> Expr {
        match &self.cluster {
            Some((rank, blocks)) => add(mul(var(rank), index(self.threads / blocks)), var(&self.tid)),
            None => var(&self.tid),
        }
    }

    fn fresh(&mut self, name: &str) -> Binder {
        self.next_id += 1;
        Binder { id: VarId(self.next_id - 1), name: name.into(), ty: Scalar::Index }
    }

    /// A barrier, if the next accesses conflict with pending ones.
    fn fence(&self, next: &Touched, pending: &mut Touched, out: &mut Vec<Stmt>) {
        if pending.conflicts(next) {
            self.barrier(next, pending, out);
        }
        pending.add(next);
    }

    /// A barrier of the block if all conflicts are in its own memory, otherwise of the cluster.
    fn barrier(&self, next: &Touched, pending: &mut Touched, out: &mut Vec<Stmt>) {
        let mut of = self.tid.id;
        let mut left = Touched::default();
        if let Some((rank, _)) = &self.cluster {
            left = pending.without(&self.mine);
            if left.conflicts(next) {
                (of, left) = (rank.id, Touched::default());
            }
        }
        if self.threads > 1 {
            out.push(Stmt::of(StmtKind::Barrier { of, spaces: Vec::new() }));
        }
        *pending = left;
    }

    /// Writes a statement of the block, for all of its threads.
    pub fn stmt(&mut self, s: &Stmt, pending: &mut Touched, out: &mut Vec<Stmt>) -> Result<()> {
        if let Some(all) = s.as_seq() {
            return self.sequence(s, all, pending, out);
        }
        if !has_threads(s) {
            return self.alone(std::slice::from_ref(s), pending, out);
        }
        if let Some(l) = s.as_loop() {
            return match &l.exec {
                e if is_threads(e) => self.phase(s, pending, out),
                // A grid that could not be one of the kernel's is run by each block.
                Executor::Serial | Executor::Unrolled => self.repeated(s, l, pending, out),
                e if is_grid(e) => self.repeated(s, l, pending, out),
                e => Err(no_kernel(format!("threads inside a loop run by `{}`", e.name()), s.places())),
            };
        }
        if let Some((buffer, body)) = s.as_alloc() {
            return self.alloc(s, buffer, body, pending, out);
        }
        if let Some((binder, value, body)) = s.as_let() {
            self.fence(&self.view().of_exprs([value]), pending, out);
            let inside = self.within(s, 0, |b, out| b.stmt(body, pending, out))?;
            pending.forget(binder.id);
            let kind = StmtKind::Let { binder: binder.clone(), value: value.clone(), body: inside };
            out.push(s.with_kind(kind));
            return Ok(());
        }
        if let Some((cond, then, other)) = s.as_if() {
            return self.either(s, cond, (then, other), pending, out);
        }
        if let StmtKind::While { cond, body } = s.kind() {
            let read = self.view().of_exprs([cond]);
            self.fence(&read, pending, out);
            let inside = self.again(s, pending, |b, pending, out| {
                b.stmt(body, pending, out)?;
                b.fence(&read, pending, out);
                Ok(())
            })?;
            out.push(s.with_kind(StmtKind::While { cond: cond.clone(), body: inside }));
            return Ok(());
        }
        Err(no_kernel("threads inside such a statement", s.places()))
    }

    /// A condition that all threads decide alike. One barrier stands before both ways where one of them needs it; what they
    /// write of what the condition reads, they write once every thread has read it.
    fn either(
        &mut self,
        s: &Stmt,
        cond: &Expr,
        (then, other): (&Stmt, Option<&Stmt>),
        pending: &mut Touched,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let read = self.view().of_exprs([cond]);
        let mut ways = Touched::default();
        s.children().for_each(|c| ways.add(&self.view().of(c)));
        self.fence(&read, pending, out);
        let mut inside = Vec::new();
        let mut known = None;
        if read.conflicts(&ways) {
            known = Some(Binder { ty: Scalar::Bool, ..self.fresh("holds") });
            self.barrier(&ways, pending, &mut inside);
        } else if pending.conflicts(&ways) {
            self.barrier(&ways, pending, out);
            pending.add(&read);
        }
        let mut second = pending.clone();
        let then = self.within(s, 0, |b, out| b.stmt(then, pending, out))?;
        let other = match other {
            Some(o) => Some(self.within(s, 1, |b, out| b.stmt(o, &mut second, out))?),
            None => None,
        };
        pending.add(&second);
        let Some(known) = known else {
            out.push(s.with_kind(StmtKind::If { cond: cond.clone(), then, other }));
            return Ok(());
        };
        inside.push(s.with_kind(StmtKind::If { cond: var(&known), then, other }));
        let body = Stmt::seq(inside);
        out.push(Stmt::of(StmtKind::Let { binder: known, value: cond.clone(), body }));
        Ok(())
    }

    /// What `write` makes of the `child`-th child of a statement, as one statement.
    fn within(
        &mut self,
        s: &Stmt,
        child: usize,
        write: impl FnOnce(&mut Self, &mut Vec<Stmt>) -> Result<()>,
    ) -> Result<Stmt> {
        let mark = self.ranges.enter_child(s, child);
        let mut inside = Vec::new();
        let written = write(self, &mut inside);
        self.ranges.leave(mark);
        written.map(|()| Stmt::seq(inside))
    }

    /// The body of a loop that all threads run: accesses that are pending at its end are pending at its beginning.
    fn again(
        &mut self,
        s: &Stmt,
        pending: &mut Touched,
        write: impl Fn(&mut Self, &mut Touched, &mut Vec<Stmt>) -> Result<()>,
    ) -> Result<Stmt> {
        loop {
            let mut tried = self.clone();
            let mut end = pending.clone();
            let body = tried.within(s, 0, |b, out| write(b, &mut end, out))?;
            if let Some(l) = s.as_loop() {
                end.next_iteration(l.binder.id, l.step);
            }
            if pending.contains(&end) {
                *self = tried;
                // It may not run at all; then what was pending before still is.
                return Ok(body);
            }
            pending.add(&end);
            self.mine = tried.mine;
        }
    }

    fn repeated(&mut self, s: &Stmt, l: &Loop, pending: &mut Touched, out: &mut Vec<Stmt>) -> Result<()> {
        self.fence(&self.view().of_exprs([&l.lo, &l.hi]), pending, out);
        let body = self.again(s, pending, |b, pending, out| b.stmt(&l.body, pending, out))?;
        pending.forget(l.binder.id);
        let exec = if l.exec == Executor::Unrolled { Executor::Unrolled } else { Executor::Serial };
        out.push(s.with_kind(StmtKind::Loop(Loop { exec, body, ..l.clone() })));
        Ok(())
    }

    fn sequence(&mut self, s: &Stmt, all: &[Stmt], pending: &mut Touched, out: &mut Vec<Stmt>) -> Result<()> {
        let mut serial: Vec<Stmt> = Vec::new();
        for (k, c) in all.iter().enumerate() {
            if !has_threads(c) && c.as_seq().is_none() {
                serial.push(c.clone());
                continue;
            }
            self.alone(&std::mem::take(&mut serial), pending, out)?;
            let mark = self.ranges.enter_child(s, k);
            let written = self.stmt(c, pending, out);
            self.ranges.leave(mark);
            written?;
        }
        self.alone(&serial, pending, out)
    }

    /// Serial statements: thread 0 runs them, of every block where that writes copies that all blocks have.
    fn alone(&mut self, all: &[Stmt], pending: &mut Touched, out: &mut Vec<Stmt>) -> Result<()> {
        let meant = all.iter().filter(|s| !does_nothing(s));
        let meant: Vec<(bool, &Stmt)> = meant.map(|s| (self.repeats(s), s)).collect();
        // An update in the order of blocks is a condition of its own, so that a warp can make it.
        let alike = |a: &(bool, &Stmt), b: &(bool, &Stmt)| {
            a.0 == b.0 && in_order(a.1).is_none() && in_order(b.1).is_none()
        };
        for run in meant.chunk_by(alike) {
            let every = run[0].0;
            let code = run.iter().map(|(_, s)| self.thread_code(s, &[])).collect::<Result<Vec<_>>>()?;
            let body = Stmt::seq(code);
            self.fence(&self.view().of(&body), pending, out);
            let me = if every { var(&self.tid) } else { self.me() };
            out.push(if self.threads == 1 { body } else { only_if(eq(me, index(0)), body) });
        }
        Ok(())
    }

    /// Whether every block of the cluster runs a serial statement.
    fn repeats(&self, s: &Stmt) -> bool {
        let written = crate::cluster::written(s);
        !written.is_empty() && written.is_subset(&self.copied)
    }

    /// A buffer of the block: of each thread where no two share an element of it, else shared by all.
    fn alloc(
        &mut self,
        s: &Stmt,
        buffer: &Arc<Buffer>,
        body: &Stmt,
        pending: &mut Touched,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let global = matches!(buffer.space, Space::Global | Space::Host);
        if buffer.layout.is_distributed() && !global {
            let Some((part, body)) = held::in_parts(buffer, body, &self.ranges, self.threads) else {
                let text = format!(
                    "the loops over which `{}` is distributed are not the same threads everywhere",
                    buffer.name
                );
                return Err(Diagnostic::error(codes::NOT_HELD, text)
                    .at_places(s.places(), "this array")
                    .help(
                        "they begin at 0, have constant extents, and are no more than a block has threads",
                    ));
            };
            self.private.insert(buffer.id);
            let part = self.bounded(&part).map_err(|d| d.at_places(s.places(), "this buffer"))?;
            let part = Buffer { space: Space::Register, ..part };
            let body = self.within(s, 0, |b, out| b.stmt(&body, pending, out))?;
            out.push(s.with_kind(StmtKind::Alloc { buffer: Arc::new(part), body }));
            return Ok(());
        }
        let bounded = self.bounded(buffer).map_err(|d| d.at_places(s.places(), "this buffer"));
        let extents: Option<Vec<i64>> =
            bounded.as_ref().ok().map(|b| b.extents.iter().filter_map(Expr::as_int).collect());
        if let (Space::Register | Space::Stack, Some(extents)) = (buffer.space, &extents)
            && let Some(o) = owned(buffer, extents, body, &self.ranges, self.threads)
        {
            self.private.insert(buffer.id);
            let body = self.within(s, 0, |b, out| b.stmt(&o.rewrite(body), pending, out))?;
            out.push(s.with_kind(StmtKind::Alloc { buffer: o.part, body }));
            return Ok(());
        }
        if global {
            let body = self.spill(buffer, body)?;
            return self.stmt(&body, pending, out);
        }
        let buffer = Arc::new(Buffer { space: Space::Shared, ..bounded? });
        let own = self.cluster.as_ref().and_then(|(_, blocks)| {
            if self.copied.contains(&buffer.id) {
                return Some((buffer.clone(), body.clone()));
            }
            crate::cluster::own(&buffer, body, &self.ranges, (*blocks, self.threads))
        });
        let mine = own.is_some();
        let (buffer, body) = own.unwrap_or_else(|| (buffer, body.clone()));
        let slots = buffer.extents.first().and_then(Expr::as_int).filter(|n| *n > 1);
        self.slots.extend(slots.map(|n| (buffer.id, n)));
        if mine {
            self.mine.insert(buffer.id);
            self.own.push(buffer)
        } else {
            self.shared.push(buffer)
        }
        // The buffer is bound around the threads now.
        let mark = self.ranges.enter_child(s, 0);
        let written = self.stmt(&body, pending, out);
        self.ranges.leave(mark);
        written
    }

    /// A buffer of every block in global memory: the block's numbers are its first subscripts.
    fn spill(&mut self, buffer: &Arc<Buffer>, body: &Stmt) -> Result<Stmt> {
        let inner: HashSet<VarId> = self.grid.iter().map(|l| l.binder.id).collect();
        let free = |e: &Expr| vars_of(e).is_disjoint(&inner);
        let extents = match buffer.extents.iter().all(free) {
            true => buffer.extents.clone(),
            false => self.bounded(buffer)?.extents,
        };
        let count = |l: &Loop| {
            let n = sub(l.hi.clone(), l.lo.clone());
            if l.step == 1 { n } else { lathe_ir::build::ceil_div(n, l.step) }
        };
        let number = |l: &Loop| {
            let n = sub(var(&l.binder), l.lo.clone());
            if l.step == 1 { n } else { lathe_ir::build::floor_div(n, index(l.step)) }
        };
        let first: Vec<Expr> = self.grid.iter().map(number).collect();
        let own = self.grid.iter().map(count).chain(extents).collect();
        let layout = lathe_ir::Layout::row_major();
        self.global.push(Arc::new(Buffer {
            extents: own,
            space: Space::Global,
            layout,
            ..(**buffer).clone()
        }));
        Ok(map_accesses(body, &mut |a| {
            if a.view.buffer() != Some(buffer.id) {
                return None;
            }
            let (id, indices) = resolve(a).ok()?;
            let indices = first.iter().cloned().chain(indices).collect();
            Some(Access { view: lathe_ir::View::Buffer(id), indices, ..a.clone() })
        }))
    }

    /// The buffer with constant upper bounds as its extents.
    fn bounded(&self, b: &Buffer) -> Result<Buffer> {
        let most = b.extents.iter().map(|e| crate::phase::bounds(&self.ranges, e).1.map(|n| index(n.max(0))));
        let extents = most.collect::<Option<Vec<_>>>().ok_or_else(|| {
            let text = format!("the size of `{}`, which a device keeps in `{}`, is not a constant", b.name, b.space.name());
            Diagnostic::error(codes::UNBOUNDED, text)
                .help(
                "split the loops, so that a tile of constant size is kept; bake the sizes in (`--specialize`); or, for \
                 values that a derivative keeps of a loop whose length data decide, take `checkpoint`",
            )
        })?;
        Ok(Buffer { extents, ..b.clone() })
    }

    /// A nest of thread loops: which thread runs what of it.
    fn phase(&mut self, s: &Stmt, pending: &mut Touched, out: &mut Vec<Stmt>) -> Result<()> {
        let mut chain = Chain::of(s, &mut self.ranges);
        let touched = View { nest: Some(&chain), ..self.view() }.of(s);
        self.fence(&touched, pending, out);
        let ids: Vec<VarId> = chain.dims.iter().map(|d| d.binder.id).collect();
        let marks = self.enter_chain(s, chain.dims.len());
        let meets = has_barrier(&chain.body);
        let checked =
            if meets { uniform_barriers(&chain.body, &ids.iter().copied().collect()) } else { Ok(()) };
        let body = checked.and_then(|()| self.thread_code(&chain.body, &ids));
        self.ranges.leave(marks);
        let mut body = self.hoisted(body?, &ids);
        let whole = chain.most() == Some(self.threads) && chain.exact();
        if meets && !whole {
            let text = format!(
                "a barrier in `{}` is not reached by all {} threads",
                chain.dims[0].binder.name, self.threads
            );
            return Err(Diagnostic::error(codes::DIVERGENT, text)
                .at_places(s.places(), "in these loops")
                .help("give all thread loops of the kernel the same constant number of iterations"));
        }
        let cluster = self.cluster.as_ref().filter(|c| crate::cluster::is_blocks(&chain, Some(c)));
        if let Some((rank, blocks)) = cluster {
            // One thread of every block.
            let code = iteration(&chain.dims, &[*blocks], &var(rank), true, body);
            out.push(if self.threads == *blocks {
                code
            } else {
                only_if(eq(var(&self.tid), index(0)), code)
            });
            return Ok(());
        }
        let me = self.me();
        if let Some(most) = chain.most() {
            let extents: Vec<i64> = chain.dims.iter().filter_map(|d| d.most).collect();
            if most <= 0 {
                return Ok(());
            }
            if most <= self.threads {
                out.push(iteration(&chain.dims, &extents, &me, most == self.threads, body));
                return Ok(());
            }
            let names = self.rounds(&chain.dims[0].binder);
            let inside = iteration(&chain.dims, &extents, &var(&names.at), true, body);
            out.push(dealt(&names, &me, self.threads, &index(most), inside));
            return Ok(());
        }
        // All but the outermost loop of constant size: the product is distributed cyclically. Else only the innermost one is.
        let inner: Option<Vec<i64>> = chain.dims[1..].iter().map(|d| d.most).collect();
        let outer =
            if inner.is_some() { Vec::new() } else { chain.dims.drain(..chain.dims.len() - 1).collect() };
        let inner: Vec<i64> = inner.unwrap_or_default();
        let d = chain.dims[0].clone();
        let count = {
            let n = sub(d.hi.clone(), d.lo.clone());
            let n = if d.step == 1 { n } else { lathe_ir::build::ceil_div(n, d.step) };
            mul(n, index(inner.iter().product()))
        };
        let names = self.rounds(&d.binder);
        let exact = [crate::phase::Dim { exact: true, ..d }];
        let dims: Vec<_> = exact.into_iter().chain(chain.dims.iter().skip(1).cloned()).collect();
        let extents: Vec<i64> = std::iter::once(1).chain(inner).collect();
        body = iteration(&dims, &extents, &var(&names.at), true, body);
        body = dealt(&names, &me, self.threads, &count, body);
        for d in outer.into_iter().rev() {
            body = Stmt::of(StmtKind::Loop(Loop {
                binder: d.binder,
                lo: d.lo,
                hi: d.hi,
                step: d.step,
                exec: Executor::Serial,
                body,
            }));
        }
        out.push(body);
        Ok(())
    }

    /// Loads from what the block shares that are the same in all of a thread's loops, in front of them.
    fn hoisted(&mut self, body: Stmt, varying: &[VarId]) -> Stmt {
        let all: HashSet<BufId> = self.shared.iter().chain(&self.own).map(|b| b.id).collect();
        let mut next = self.next_id;
        let mut fresh = |name: &str, ty: Scalar| {
            next += 1;
            Binder { id: VarId(next - 1), name: name.into(), ty }
        };
        let body = crate::invariant::hoisted(body, varying, &|b| all.contains(&b), &mut fresh);
        self.next_id = next;
        body
    }

    fn rounds(&mut self, b: &Binder) -> Dealt {
        Dealt { round: self.fresh(&format!("{}.round", b.name)), at: self.fresh(&format!("{}.at", b.name)) }
    }

    /// Knows the loops of a nest, as its body does.
    fn enter_chain(&mut self, s: &Stmt, depth: usize) -> lathe_poly::ranges::Mark {
        let mark = self.ranges.enter_child(s, 0);
        let mut here = s.child(0).cloned();
        for _ in 1..depth {
            let Some(l) = here else { break };
            self.ranges.enter_child(&l, 0);
            here = l.child(0).cloned();
        }
        mark
    }

    /// Code of one thread: its buffers have constant sizes, thread loops inside are serial, barriers are those of
    /// the nest `around`.
    fn thread_code(&mut self, s: &Stmt, around: &[VarId]) -> Result<Stmt> {
        if let StmtKind::Barrier { of, spaces } = s.kind() {
            if around.contains(of) {
                let of = self.cluster.as_ref().map_or(self.tid.id, |(rank, _)| rank.id);
                return Ok(s.with_kind(StmtKind::Barrier { of, spaces: spaces.clone() }));
            }
            let text = "a barrier whose loop is not a thread loop of this kernel";
            return Err(Diagnostic::error(codes::DIVERGENT, text).at_places(s.places(), "here"));
        }
        let mut new = Vec::new();
        for (k, c) in s.children().enumerate() {
            let mark = self.ranges.enter_child(s, k);
            let made = self.thread_code(c, around);
            self.ranges.leave(mark);
            new.push(made?);
        }
        let s =
            if s.children().zip(&new).all(|(a, b)| a.ptr_eq(b)) { s.clone() } else { s.with_children(new) };
        if let Some((buffer, body)) = s.as_alloc() {
            let space = if buffer.space == Space::Register { Space::Register } else { Space::Stack };
            let bounded = self.bounded(buffer).map_err(|d| d.at_places(s.places(), "this buffer"))?;
            let buffer = Arc::new(Buffer { space, ..held::whole(&bounded) });
            return Ok(s.with_kind(StmtKind::Alloc { buffer, body: body.clone() }));
        }
        match s.as_loop() {
            Some(l) if is_threads(&l.exec) || is_grid(&l.exec) => {
                Ok(s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() })))
            }
            _ => Ok(s),
        }
    }
}

/// Facts, hints, empty sequences.
pub fn does_nothing(s: &Stmt) -> bool {
    let leaf = s.children().len() == 0 && s.own_effects().is_none();
    leaf && s.touches().iter().all(|(_, mode)| !mode.reads() && !mode.writes())
}

/// Refuses barriers under bounds and conditions that may differ between the threads.
fn uniform_barriers(s: &Stmt, varying: &HashSet<VarId>) -> Result<()> {
    if !has_barrier(s) {
        return Ok(());
    }
    let differs = |e: &Expr| {
        let mut loads = false;
        lathe_ir::visit::walk_expr(e, &mut |x| loads |= matches!(x.kind(), lathe_ir::ExprKind::Load(_)));
        loads || !vars_of(e).is_disjoint(varying)
    };
    let mut inside = varying.clone();
    if let Some((binder, value, _)) = s.as_let() {
        if differs(value) {
            inside.insert(binder.id);
        }
    } else if s.exprs().into_iter().any(differs) {
        let text = "a barrier is in divergent control flow: threads of its block may not all reach it";
        return Err(Diagnostic::error(codes::DIVERGENT, text)
            .at_places(s.places(), "this may differ between the threads")
            .help("move the barrier out, or make the bound or the condition the same for all threads"));
    }
    s.children().try_for_each(|c| uniform_barriers(c, &inside))
}

pub fn no_kernel(what: impl AsRef<str>, places: &Places) -> Diagnostic {
    Diagnostic::error(codes::NO_KERNEL, format!("a device does not support {}", what.as_ref()))
        .at_places(places, "here")
}
