//! What the host does to run an SPMD function.

use crate::block::{Result, no_kernel};
use crate::phase::{is_cluster, is_device, is_grid, is_threads};
use lathe_ir::build::{ceil_div, sub};
use lathe_ir::visit::{loads_of, vars_of, walk};
use lathe_ir::{Binder, BufId, Buffer, Expr, Function, Loop, Name, ParamKind, Space, Stmt, StmtKind, VarId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One step of the host. Expressions are over sizes, scalar parameters, and what the host has bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Memory of the device for `body`.
    Alloc {
        buffer: Arc<Buffer>,
        body: Vec<Item>,
    },
    Let {
        binder: Binder,
        value: Expr,
        body: Vec<Item>,
    },
    Loop {
        binder: Binder,
        lo: Expr,
        hi: Expr,
        step: i64,
        /// Its iterations are independent, and each may run on a device of its own.
        devices: bool,
        body: Vec<Item>,
    },
    If {
        cond: Expr,
        then: Vec<Item>,
        other: Vec<Item>,
    },
    /// The call fails with the check's number unless the condition holds.
    Check {
        cond: Expr,
        code: Name,
        message: Name,
    },
    /// The kernel of that number.
    Launch(usize),
}

/// What a kernel is given, in the order of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The address of an array's first element; arrays are dense and row-major.
    Array(Arc<Buffer>),
    Scalar(Binder),
}

/// Blocks that run at the same time and see each other's shared memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The number of the block in it, and how many there are.
    pub rank: Binder,
    pub blocks: i64,
    /// Buffers in the memory of its first block, which all of its blocks reach.
    pub shared: Vec<Arc<Buffer>>,
}

/// One kernel: a grid of blocks of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelPlan {
    /// Loops of the grid, outermost first; bodies are empty.
    pub grid: Vec<Loop>,
    /// The iterations of each.
    pub counts: Vec<Expr>,
    /// An iteration of the grid is a cluster of blocks, rather than one.
    pub cluster: Option<Cluster>,
    /// The number of the thread in its block, and how many there are.
    pub thread: Binder,
    pub threads: i64,
    /// Buffers of each block.
    pub shared: Vec<Arc<Buffer>>,
    /// What every thread runs.
    pub body: Stmt,
    /// Blocks wait for updates of those before them: they are numbered in the order in which they start, so that those
    /// that are waited for run.
    pub turns: bool,
    pub arguments: Vec<Argument>,
}

/// All kernels of a function and how the host runs them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub kernels: Vec<KernelPlan>,
    pub items: Vec<Item>,
}

impl Plan {
    /// Whether it has loops over devices.
    pub fn has_devices(&self) -> bool {
        fn any(items: &[Item]) -> bool {
            items.iter().any(|i| match i {
                Item::Loop { devices: true, .. } => true,
                Item::Loop { body, .. } | Item::Alloc { body, .. } | Item::Let { body, .. } => any(body),
                Item::If { then, other, .. } => any(then) || any(other),
                Item::Check { .. } | Item::Launch(_) => false,
            })
        }
        any(&self.items)
    }

    /// For each kernel, whether one that may fail can have run before it.
    pub fn follows(&self, fails: &[bool]) -> Vec<bool> {
        let mut out = vec![false; self.kernels.len()];
        follows(&self.items, fails, false, &mut out);
        out
    }
}

/// Whether a kernel may have failed behind these items, if one `may` have before them.
fn follows(items: &[Item], fails: &[bool], may: bool, out: &mut [bool]) -> bool {
    items.iter().fold(may, |may, item| match item {
        Item::Launch(n) => {
            out[*n] |= may;
            may || fails[*n]
        }
        Item::Alloc { body, .. } | Item::Let { body, .. } => follows(body, fails, may, out),
        Item::Loop { body, .. } => {
            let once = follows(body, fails, may, out);
            follows(body, fails, once, out)
        }
        Item::If { then, other, .. } => {
            let one = follows(then, fails, may, out);
            follows(other, fails, may, out) || one
        }
        Item::Check { .. } => may,
    })
}

/// The plan of what [`crate::to_spmd`] made.
///
/// # Errors
/// `E0831` for trees of another form.
pub fn plan(func: &Function) -> Result<Plan> {
    let mut p =
        Planner { kernels: Vec::new(), vars: BTreeMap::new(), bufs: BTreeMap::new(), again: Vec::new() };
    for b in &func.sizes {
        p.vars.insert(b.id, b.clone());
    }
    for param in &func.params {
        match &param.kind {
            ParamKind::Array(b) => {
                p.bufs.insert(b.id, b.clone());
            }
            ParamKind::Scalar(b) => {
                p.vars.insert(b.id, b.clone());
            }
        }
    }
    let items = p.items(&func.body)?;
    Ok(Plan { kernels: p.kernels, items })
}

/// Buffers of blocks that are here, and what is below them.
fn buffers(here: &mut Stmt, out: &mut Vec<Arc<Buffer>>) {
    while let Some((b, body)) = here.as_alloc() {
        debug_assert_eq!(b.space, Space::Shared);
        out.push(b.clone());
        *here = body.clone();
    }
}

/// A kernel whose threads begin with some values, as far as they use them.
fn computing(s: &Stmt, values: &[(Binder, Expr)]) -> Stmt {
    if values.is_empty() {
        return s.clone();
    }
    let l = s.as_loop();
    if let Some(l) = l.filter(|l| is_threads(&l.exec) && !is_cluster(&l.exec)) {
        let used = |s: &Stmt, v: VarId| {
            let mut found = false;
            walk(s, &mut |s, _| {
                found |= s.evaluated().into_iter().any(|e| vars_of(e).contains(&v));
                !found
            });
            found
        };
        let body = values.iter().rev().fold(l.body.clone(), |body, (binder, value)| {
            if !used(&body, binder.id) {
                return body;
            }
            Stmt::of(StmtKind::Let { binder: binder.clone(), value: value.clone(), body })
        });
        return s.with_children(vec![body]);
    }
    let inside: Vec<Stmt> = s.children().map(|c| computing(c, values)).collect();
    if inside.len() == 1 { s.with_children(inside) } else { s.clone() }
}

struct Planner {
    kernels: Vec<KernelPlan>,
    vars: BTreeMap<VarId, Binder>,
    bufs: BTreeMap<BufId, Arc<Buffer>>,
    /// Floating-point values, which every thread computes: the host computes integers only.
    again: Vec<(Binder, Expr)>,
}

impl Planner {
    fn items(&mut self, s: &Stmt) -> Result<Vec<Item>> {
        if let Some(all) = s.as_seq() {
            let each = all.iter().map(|s| self.items(s)).collect::<Result<Vec<_>>>()?;
            return Ok(each.into_iter().flatten().collect());
        }
        if let Some((buffer, body)) = s.as_alloc() {
            self.bufs.insert(buffer.id, buffer.clone());
            return Ok(vec![Item::Alloc { buffer: buffer.clone(), body: self.items(body)? }]);
        }
        if let Some((binder, value, body)) = s.as_let() {
            if binder.ty.is_float() && loads_of(value).is_empty() {
                self.again.push((binder.clone(), value.clone()));
                let inside = self.items(body);
                self.again.pop();
                return inside;
            }
            self.vars.insert(binder.id, binder.clone());
            let (binder, value) = (binder.clone(), value.clone());
            return Ok(vec![Item::Let { binder, value, body: self.items(body)? }]);
        }
        if let Some((cond, then, other)) = s.as_if() {
            let other = other.map_or(Ok(Vec::new()), |o| self.items(o))?;
            return Ok(vec![Item::If { cond: cond.clone(), then: self.items(then)?, other }]);
        }
        if let StmtKind::Check { cond, code, message } = s.kind() {
            let (cond, code, message) = (cond.clone(), code.clone(), message.clone());
            return Ok(vec![Item::Check { cond, code, message }]);
        }
        match s.as_loop() {
            Some(l) if is_grid(&l.exec) => Ok(vec![self.kernel(s)?]),
            Some(l) => {
                self.vars.insert(l.binder.id, l.binder.clone());
                let body = self.items(&l.body)?;
                let (binder, lo, hi) = (l.binder.clone(), l.lo.clone(), l.hi.clone());
                let devices = is_device(&l.exec);
                Ok(vec![Item::Loop { binder, lo, hi, step: l.step, devices, body }])
            }
            None => Err(no_kernel("such a statement outside of a grid", s.places())),
        }
    }

    fn kernel(&mut self, s: &Stmt) -> Result<Item> {
        let s = &computing(s, &self.again);
        let (mut grid, mut counts, mut shared) = (Vec::new(), Vec::new(), Vec::new());
        let mut here = s.clone();
        while let Some(l) = here.as_loop().filter(|l| is_grid(&l.exec)) {
            let n = sub(l.hi.clone(), l.lo.clone());
            counts.push(if l.step == 1 { n } else { ceil_div(n, l.step) });
            grid.push(Loop { body: Stmt::empty(), ..l.clone() });
            here = l.body.clone();
        }
        buffers(&mut here, &mut shared);
        let mut cluster = None;
        if let Some(l) = here.as_loop().filter(|l| is_cluster(&l.exec)).cloned()
            && let Some(blocks) = l.hi.as_int()
        {
            cluster = Some(Cluster { rank: l.binder, blocks, shared: std::mem::take(&mut shared) });
            here = l.body;
            buffers(&mut here, &mut shared);
        }
        let threads = here.as_loop().filter(|l| is_threads(&l.exec) && !is_cluster(&l.exec));
        let Some((l, Some(n))) = threads.map(|l| (l, l.hi.as_int())) else {
            return Err(no_kernel("a grid that does not contain exactly one thread loop", s.places()));
        };
        let (thread, body) = (l.binder.clone(), l.body.clone());
        let arguments = self.arguments(s);
        let blocks = counts.iter().try_fold(1i64, |n, c| n.checked_mul(c.as_int()?));
        let (body, turns) = crate::turns::turns(&body, &thread, n, blocks, &|b| self.bufs.contains_key(&b))?;
        if turns && cluster.is_some() {
            return Err(no_kernel("updates in the order of blocks in a grid of clusters", s.places()));
        }
        let kernel = KernelPlan { grid, counts, cluster, thread, threads: n, shared, body, turns, arguments };
        self.kernels.push(kernel);
        Ok(Item::Launch(self.kernels.len() - 1))
    }

    /// What a kernel uses of what the host has: arrays in the order of their numbers, then scalars.
    fn arguments(&self, s: &Stmt) -> Vec<Argument> {
        let (mut vars, mut bufs) = (BTreeMap::new(), BTreeMap::new());
        walk(s, &mut |s, _| {
            let evaluated = s.evaluated();
            for e in evaluated {
                for v in vars_of(e) {
                    vars.extend(self.vars.get(&v).map(|b| (v, b.clone())));
                }
                for a in loads_of(e) {
                    bufs.extend(a.view.buffer().and_then(|b| Some((b, self.bufs.get(&b)?.clone()))));
                }
            }
            for (t, _) in s.touches() {
                bufs.extend(t.buffer().and_then(|b| Some((b, self.bufs.get(&b)?.clone()))));
            }
            true
        });
        // The addresses of elements need extents.
        for b in bufs.values() {
            for v in b.extents.iter().flat_map(vars_of) {
                vars.extend(self.vars.get(&v).map(|b| (v, b.clone())));
            }
        }
        let arrays = bufs.into_values().map(Argument::Array);
        arrays.chain(vars.into_values().map(Argument::Scalar)).collect()
    }
}
