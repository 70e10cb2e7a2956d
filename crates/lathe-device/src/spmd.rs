//! Phased to SPMD: which statements the host runs, and which become kernels.

use crate::block::{Block, Result, does_nothing, no_kernel};
use crate::distribute::distributed;
use crate::pending::{Touched, View, classes};
use crate::phase::{Chain, any_loop, has_barrier, is_device, is_grid, is_threads};
use lathe_ir::build::{index, sub};
use lathe_ir::visit::{self, loads_of, vars_of};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Label, Loop, Scalar, Space, Stage, Status, Stmt,
    StmtKind, Store, VarId,
};
use lathe_poly::Ranges;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of a block.
    pub threads: i64,
    /// Blocks of a cluster; 1 where there are no clusters. Then their loops are threads of one block.
    pub cluster: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { threads: 1024, cluster: 1 }
    }
}

/// Threads of a block whose thread loops have no constant size.
const THREADS: i64 = 256;

/// The function as kernels: below loops, conditions and buffers of the host stand nests of `grid` loops, each around the
/// buffers that its blocks share and one thread loop. Statements outside of grids become a kernel of one block.
///
/// # Errors
/// `E0831` for what is not a kernel, `E0832` for local buffers without a constant size, `E0833` for barriers that not all
/// threads reach, `E0834` for accesses of distributed arrays by threads that do not hold the element.
pub fn to_spmd(func: &Function, limits: Limits) -> Result<Function> {
    if let Some(wrong) = crate::held::prove_held(func).into_iter().next() {
        return Err(wrong);
    }
    let classes = classes(func);
    let mut host =
        Host { classes: &classes, limits, next_id: func.next_id, ranges: Ranges::of_function(func) };
    let body = host.stmt(&crate::checks::without_proved(&func.body))?;
    Ok(Function { body, stage: Stage::Machine, next_id: host.next_id, ..func.clone() })
}

struct Host<'a> {
    classes: &'a HashMap<BufId, BufId>,
    limits: Limits,
    next_id: u32,
    ranges: Ranges,
}

/// Whether the host has something to decide there: it starts grids, and chooses devices.
fn has_grid(s: &Stmt) -> bool {
    any_loop(s, &|e| is_grid(e) || is_device(e))
}

/// The statement without serial loops of one iteration, which would meet what they touched themselves.
fn without_single(s: &Stmt) -> Stmt {
    visit::map_stmts(s, &mut |s| match s.as_loop() {
        Some(l) if matches!(l.exec, Executor::Serial | Executor::Unrolled) => {
            let ends = l.lo.as_int().zip(l.hi.as_int());
            match ends.and_then(|(lo, hi)| hi.checked_sub(lo).map(|n| (lo, n))) {
                Some((lo, n)) if (1..=l.step).contains(&n) => {
                    visit::substitute_stmt(&l.body, &HashMap::from([(l.binder.id, index(lo))]))
                }
                _ => s,
            }
        }
        _ => s,
    })
}

/// Whether something in it may fail.
fn has_check(s: &Stmt) -> bool {
    matches!(s.kind(), StmtKind::Check { .. }) || s.children().any(has_check)
}

/// Whether a local buffer is the host's: memory of the device between kernels.
fn of_host(s: &Stmt) -> bool {
    s.as_alloc().is_some_and(|(b, _)| matches!(b.space, Space::Global | Space::Host) || has_grid(s))
}

impl Host<'_> {
    fn stmt(&mut self, s: &Stmt) -> Result<Stmt> {
        if let Some(all) = s.as_seq() {
            return self.sequence(s, all);
        }
        if let Some(l) = s.as_loop()
            && is_grid(&l.exec)
        {
            return self.kernel(s);
        }
        if let StmtKind::Check { cond, .. } = s.kind()
            && loads_of(cond).is_empty()
        {
            return Ok(s.clone());
        }
        if let Some((buffer, _)) = s.as_alloc()
            && of_host(s)
        {
            let inside = self.child(s, 0)?;
            let buffer = Arc::new(Buffer { space: Space::Global, ..crate::held::whole(buffer) });
            return Ok(s.with_kind(StmtKind::Alloc { buffer, body: inside }));
        }
        if !has_grid(s) {
            return self.one_block(s);
        }
        if let Some((binder, value, body)) = s.as_let()
            && !loads_of(value).is_empty()
        {
            return self.loaded(s, binder, value, body);
        }
        let loads = s.evaluated().into_iter().any(|e| !loads_of(e).is_empty());
        if loads {
            let help = "compute the value on the host and pass it to the function as a scalar";
            return Err(no_kernel("a grid under a bound or condition that loads", s.places()).help(help));
        }
        if let Some(l) = s.as_loop() {
            if !matches!(l.exec, Executor::Serial | Executor::Unrolled | Executor::Device) {
                return Err(no_kernel(format!("a grid in a loop run by `{}`", l.exec.name()), s.places()));
            }
            let body = self.child(s, 0)?;
            let exec = if is_device(&l.exec) { Executor::Device } else { Executor::Serial };
            return Ok(s.with_kind(StmtKind::Loop(Loop { exec, body, ..l.clone() })));
        }
        if s.as_if().is_some() || s.as_let().is_some() {
            let new = (0..s.children().len()).map(|k| self.child(s, k)).collect::<Result<_>>()?;
            return Ok(s.with_children(new));
        }
        Err(no_kernel("a grid inside such a statement", s.places()))
    }

    fn child(&mut self, s: &Stmt, k: usize) -> Result<Stmt> {
        let mark = self.ranges.enter_child(s, k);
        let made = s.child(k).map_or(Ok(Stmt::empty()), |c| self.stmt(c));
        self.ranges.leave(mark);
        made
    }

    /// A name for a value of memory, around grids: these load the value for themselves, from where it is, or from a copy where
    /// something is written there.
    fn loaded(&mut self, s: &Stmt, binder: &Binder, value: &Expr, body: &Stmt) -> Result<Stmt> {
        let (private, slots) = (HashSet::new(), HashMap::new());
        let view = View { classes: self.classes, private: &private, slots: &slots, nest: None };
        if !view.of_exprs([value]).conflicts(&view.of(body)) {
            let body = visit::substitute_stmt(body, &HashMap::from([(binder.id, value.clone())]));
            return self.stmt(&body);
        }
        self.next_id += 1;
        let name = format!("{}.value", binder.name);
        let copy = Buffer::local(BufId(self.next_id - 1), name, binder.ty.into(), Vec::new(), Space::Global);
        let element =
            || Access { status: Status::Proved, ..Access::buffer(copy.id, copy.elem.clone(), Vec::new()) };
        let store = Store::new(Label::new(&copy.name), Vec::new(), element(), value.clone());
        let first = s.with_kind(StmtKind::Store(store));
        let named = lathe_ir::build::load(element());
        let body = visit::substitute_stmt(body, &HashMap::from([(binder.id, named)]));
        let inside = Stmt::seq([self.one_block(&first)?, self.stmt(&body)?]);
        Ok(s.with_kind(StmtKind::Alloc { buffer: copy, body: inside }))
    }

    /// Adjacent statements outside of grids share a kernel; what a grid does not access waits for those behind it.
    fn sequence(&mut self, s: &Stmt, all: &[Stmt]) -> Result<Stmt> {
        let mut out = Vec::new();
        let mut run: Vec<Stmt> = Vec::new();
        for (k, c) in all.iter().enumerate() {
            let check = matches!(c.kind(), StmtKind::Check { .. });
            let hosts =
                of_host(c) || matches!(c.kind(), StmtKind::Check { cond, .. } if loads_of(cond).is_empty());
            if !(has_grid(c) || hosts || c.as_seq().is_some()) {
                run.push(c.clone());
                continue;
            }
            if let Some((buffer, body)) = c.as_alloc()
                && !run.is_empty()
            {
                let body = Stmt::seq(run.drain(..).chain([body.clone()]));
                out.push(self.stmt(&c.with_kind(StmtKind::Alloc { buffer: buffer.clone(), body }))?);
                continue;
            }
            let last = k + 1 == all.len();
            if !run.is_empty() && (last || check || !self.apart(&Stmt::seq(run.clone()), c)) {
                out.push(self.one_block(&Stmt::seq(std::mem::take(&mut run)))?);
            }
            out.push(self.child(s, k)?);
        }
        if !run.is_empty() {
            out.push(self.one_block(&Stmt::seq(run))?);
        }
        Ok(Stmt::seq(out))
    }

    /// Whether two statements may change places.
    fn apart(&self, a: &Stmt, b: &Stmt) -> bool {
        let (private, slots) = (HashSet::new(), HashMap::new());
        let view = View { classes: self.classes, private: &private, slots: &slots, nest: None };
        let mut effects = lathe_ir::stmt::Effects::NONE;
        for s in [a, b] {
            lathe_ir::visit::walk(s, &mut |s, _| {
                effects = effects.and(s.own_effects());
                true
            });
        }
        let plain = effects.without(lathe_ir::stmt::Effects::ALLOCATES).is_none();
        plain && !view.of(a).conflicts(&view.of(b))
    }

    fn one_block(&mut self, s: &Stmt) -> Result<Stmt> {
        if does_nothing(s) {
            return Ok(Stmt::empty());
        }
        let all = s.as_seq().map_or_else(|| vec![s.clone()], <[Stmt]>::to_vec);
        let spread: Option<Vec<Stmt>> =
            all.iter().map(|c| crate::checks::spread(c, &mut |name| self.fresh(name))).collect();
        if let Some(spread) = spread.filter(|all| !all.is_empty()) {
            return spread.iter().map(|c| self.kernel(c)).collect::<Result<Vec<_>>>().map(Stmt::seq);
        }
        let block = |binder, body: &Stmt| {
            Stmt::of(StmtKind::Loop(Loop {
                binder,
                lo: index(0),
                hi: index(1),
                step: 1,
                exec: Executor::Level("grid".into()),
                body: body.clone(),
            }))
        };
        let binder = self.fresh("block");
        let made = self.kernel(&block(binder.clone(), s))?;
        if !(has_barrier(&made) && has_check(s)) {
            return Ok(made);
        }
        // No thread leaves that others wait for: kernels follow one another instead.
        match self.divided(s)? {
            Some(divided) => Ok(divided),
            None => self.kernel(&block(binder, &crate::phase::in_sequence(s))),
        }
    }

    /// Several kernels of one block in the place of one, where the host can run what is around them.
    fn divided(&mut self, s: &Stmt) -> Result<Option<Stmt>> {
        if has_barrier(s) || s.evaluated().into_iter().any(|e| !loads_of(e).is_empty()) {
            return Ok(None);
        }
        let of_host = match (s.as_loop(), s.as_alloc()) {
            (Some(l), _) => matches!(l.exec, Executor::Serial | Executor::Unrolled),
            (_, Some((b, _))) => !b.layout.is_distributed() && b.space != Space::Register,
            _ => s.as_seq().is_some() || s.as_if().is_some() || s.as_let().is_some(),
        };
        if !of_host {
            return Ok(None);
        }
        let mut inside = Vec::new();
        for k in 0..s.children().len() {
            let mark = self.ranges.enter_child(s, k);
            let made = s.child(k).map_or(Ok(Stmt::empty()), |c| self.one_block(c));
            self.ranges.leave(mark);
            inside.push(made?);
        }
        if let Some((buffer, _)) = s.as_alloc() {
            let buffer = Arc::new(Buffer { space: Space::Global, ..(**buffer).clone() });
            return Ok(Some(s.with_kind(StmtKind::Alloc { buffer, body: Stmt::seq(inside) })));
        }
        Ok(Some(s.with_children(inside)))
    }

    fn fresh(&mut self, name: &str) -> Binder {
        self.next_id += 1;
        Binder { id: VarId(self.next_id - 1), name: name.into(), ty: Scalar::Index }
    }

    /// A nest of grid loops with a block inside.
    fn kernel(&mut self, s: &Stmt) -> Result<Stmt> {
        if any_loop(s, &is_device) {
            let d = no_kernel("a loop over devices inside of a grid", s.places());
            return Err(d.help("bind a loop outside of the grid to devices"));
        }
        let (grid, block) = self.grid(s);
        let block = distributed(&without_single(&block), &mut self.next_id);
        let mut mark = None;
        let mut here = s.clone();
        for _ in &grid {
            let m = self.ranges.enter_child(&here, 0);
            mark.get_or_insert(m);
            here = here.child(0).cloned().unwrap_or_else(Stmt::empty);
        }
        let (threads, blocks) = self.shape(&block);
        let cluster = (blocks > 1).then(|| (self.fresh("rank"), blocks));
        let tid = self.fresh("thread");
        if let Some((rank, blocks)) = &cluster {
            self.ranges.enter_loop(rank.id, &index(0), &index(*blocks));
        }
        self.ranges.enter_loop(tid.id, &index(0), &index(threads / blocks));
        let mut b = Block {
            classes: self.classes,
            grid: &grid,
            tid: tid.clone(),
            cluster: cluster.clone(),
            threads,
            ranges: self.ranges.clone(),
            next_id: self.next_id,
            shared: Vec::new(),
            own: Vec::new(),
            mine: HashSet::new(),
            global: Vec::new(),
            private: HashSet::new(),
            slots: HashMap::new(),
            copied: if blocks > 1 { crate::cluster::copied(&block) } else { HashSet::new() },
        };
        let mut out = Vec::new();
        let written = b.stmt(&block, &mut Touched::default(), &mut out);
        let (shared, own, global, next_id) = (b.shared, b.own, b.global, b.next_id);
        self.next_id = next_id;
        if let Some(mark) = mark {
            self.ranges.leave(mark);
        }
        written?;
        let level = |binder: Binder, n: i64, exec: &str, body: Stmt| {
            let (lo, hi, exec) = (index(0), index(n), Executor::Level(exec.into()));
            Stmt::of(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }))
        };
        let alloc = |body: Stmt, b: Arc<Buffer>| Stmt::of(StmtKind::Alloc { buffer: b, body });
        let mut body = Stmt::seq(out);
        if let Some((rank, _)) = &cluster {
            body = crate::cluster::bracketed(body, &shared, rank);
        }
        let mut body = level(tid, threads / blocks, "block", body);
        body = own.into_iter().rev().fold(body, alloc);
        if let Some((rank, blocks)) = cluster {
            body = level(rank, blocks, "cluster", body);
        }
        body = shared.into_iter().rev().fold(body, alloc);
        for l in grid.into_iter().rev() {
            body = s.with_kind(StmtKind::Loop(Loop { body, ..l }));
        }
        Ok(global.into_iter().rev().fold(body, alloc))
    }

    /// The perfectly nested grid loops, with bounds that the host knows.
    fn grid(&self, s: &Stmt) -> (Vec<Loop>, Stmt) {
        let mut out: Vec<Loop> = Vec::new();
        let mut here = s.clone();
        while let Some(l) = here.as_loop().filter(|l| is_grid(&l.exec)) {
            let known = |e: &Expr| {
                let inner = vars_of(e).into_iter().any(|v| out.iter().any(|o| o.binder.id == v));
                !inner && loads_of(e).is_empty()
            };
            if !(out.is_empty() || known(&l.lo) && known(&l.hi)) {
                break;
            }
            let body = l.body.clone();
            out.push(Loop { body: Stmt::empty(), ..l.clone() });
            here = body;
        }
        (out, here)
    }

    /// How many threads a block or a cluster of blocks has, and how many blocks.
    fn shape(&mut self, block: &Stmt) -> (i64, i64) {
        if let Some(n) = crate::cluster::blocks(block, self.limits.cluster) {
            let threads = self.threads(block, self.limits.threads * n);
            if threads % n == 0 {
                return (threads, n);
            }
        }
        (self.threads(block, self.limits.threads), 1)
    }

    /// As many threads as the largest nest of thread loops has, as far as the device allows. What is smaller
    /// leaves threads idle, larger nests are distributed cyclically.
    fn threads(&mut self, block: &Stmt, limit: i64) -> i64 {
        let mut all = Vec::new();
        nests(block, &mut self.ranges, &mut all);
        let usual = THREADS.min(limit);
        let size = |n: &Nest| n.threads.map_or(usual, |t| if t > limit { usual } else { t.max(1) });
        // Where threads wait for one another, all of them must be there.
        let meeting = all.iter().filter(|n| n.meets).map(&size).max();
        let busiest = || all.iter().max_by_key(|n| (n.work, size(n))).map(&size);
        meeting.or_else(busiest).unwrap_or(1)
    }
}

/// An outermost nest of thread loops.
struct Nest {
    /// Its iterations, if there is a constant upper bound.
    threads: Option<i64>,
    /// An estimate of the statements that it runs.
    work: u64,
    meets: bool,
}

/// Iterations of a loop of which nothing is known.
const UNKNOWN: u64 = 1 << 10;

/// An estimate of the statements that are run.
fn work(s: &Stmt, ranges: &mut Ranges) -> u64 {
    let mut sum = 0u64;
    for (k, c) in s.children().enumerate() {
        let mark = ranges.enter_child(s, k);
        sum = sum.saturating_add(work(c, ranges));
        ranges.leave(mark);
    }
    match s.as_loop() {
        Some(l) => {
            let span = crate::phase::bounds(ranges, &sub(l.hi.clone(), l.lo.clone())).1;
            sum.saturating_mul(span.map_or(UNKNOWN, |n| (n.max(0) / l.step.max(1)) as u64))
        }
        None if s.children().len() == 0 => 1,
        None => sum,
    }
}

fn nests(s: &Stmt, ranges: &mut Ranges, out: &mut Vec<Nest>) {
    if s.as_loop().is_some_and(|l| is_threads(&l.exec)) {
        let threads = Chain::of(s, ranges).most();
        out.push(Nest { threads, work: work(s, ranges), meets: has_barrier(s) });
        return;
    }
    for (k, c) in s.children().enumerate() {
        let mark = ranges.enter_child(s, k);
        nests(c, ranges, out);
        ranges.leave(mark);
    }
}
