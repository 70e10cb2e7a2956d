//! A function as a tree of scopes and numbered sites: what both modes walk over.
//!
//! A *site* is a place where expressions are evaluated: a statement, the header of a loop, a condition. Sites are
//! numbered in the order of the text. A *scope* is the function or one iteration of a loop: local arrays live as long
//! as it does, wherever in it they are made.

use crate::activity::{Activity, touches_active};
use crate::arrays::buffers_of;
use crate::calls::{self, Call};
use crate::codes::{self, refuse};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, and, binary, cast, eq, index, load, mul, not, or, select, sub, var};
use lathe_ir::visit::{loads_of, vars_of};
use lathe_ir::{
    Access, BinOp, Binder, BufId, Buffer, Combine, Compute, Dim, Executor, Expr, Function, Label, Loop,
    Module, Reduce, ReduceOp, Scalar, Space, Stmt, StmtKind, Type, VarId,
};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

/// The number of a scope; 0 is the function.
pub type ScopeId = usize;

/// A loop around a site.
#[derive(Clone, Debug)]
pub struct Around {
    pub binder: Binder,
    pub lo: Expr,
    pub hi: Expr,
    pub step: i64,
    /// The scope that one iteration is.
    pub body: ScopeId,
    /// The site of its bounds, and how many branches are around that.
    pub header: usize,
    pub branches: usize,
    /// Whether the bounds say how often it runs: not so for `while`, whose variable means nothing.
    pub is_bounded: bool,
}

#[derive(Clone, Debug)]
pub struct Site {
    pub id: usize,
    pub label: Label,
    pub places: Places,
    /// Outermost first.
    pub loops: Vec<Around>,
    /// The branches around, by the sites of their conditions, outermost first.
    pub branches: Vec<(usize, bool)>,
    /// What holds in them.
    pub conditions: Vec<Expr>,
}

impl Site {
    /// How many loops around the site are around a scope, with the one whose iteration it is.
    pub fn depth(&self, scope: ScopeId) -> usize {
        self.loops.iter().position(|l| l.body == scope).map_or(0, |p| p + 1)
    }

    /// The loops around the site that lie in a scope.
    pub fn loops_in(&self, scope: ScopeId) -> &[Around] {
        let from = self.loops.iter().position(|l| l.body == scope).map_or(0, |p| p + 1);
        &self.loops[from..]
    }
}

pub enum Node {
    Seq(Vec<Node>),
    /// An integer or a condition that reads memory.
    Let {
        site: Rc<Site>,
        binder: Binder,
        value: Expr,
        /// Local arrays in it, in forward mode.
        buffers: Vec<Arc<Buffer>>,
        body: Box<Node>,
    },
    Loop {
        site: Rc<Site>,
        l: Loop,
        body: Box<Scope>,
    },
    If {
        site: Rc<Site>,
        cond: Expr,
        then: Box<Node>,
        other: Option<Box<Node>>,
    },
    While {
        site: Rc<Site>,
        /// Among those of the function, in the order of the text.
        number: usize,
        cond: Expr,
        body: Box<Scope>,
        /// How often it ran, in reverse mode.
        trips: Option<Trips>,
    },
    /// Checks and stated facts.
    Keep(Rc<Site>, Stmt),
    Leaf(Rc<Leaf>),
}

/// The trip count of a `while`, which the body counts.
pub struct Trips {
    pub cell: Access,
    /// Where it has been counted: right behind the loop.
    pub site: Rc<Site>,
}

pub struct Scope {
    pub id: ScopeId,
    pub buffers: Vec<Arc<Buffer>>,
    pub body: Node,
}

/// A statement that writes.
pub struct Leaf {
    pub site: Rc<Site>,
    pub stmt: Stmt,
    pub work: Work,
    /// What a call is.
    pub call: Option<Call>,
}

/// What a statement does, as far as its derivative goes.
pub enum Work {
    /// Writes nothing active.
    Inactive,
    /// What the derivative of the called function does.
    Call,
    /// Values, all taken before anything is written, go to targets.
    Assign { targets: Vec<Access>, values: Vec<Expr> },
    /// `target += value`.
    Add { target: Access, value: Expr },
    /// Index notation that maps or adds up.
    Compute(Compute),
    /// Index notation that selects the smallest or largest, found before; `at` is where the number of the first such
    /// point is, counted over the reduced dimensions.
    Choice { compute: Compute, at: Access },
}

impl Leaf {
    /// What the statement reads, as far as its derivative goes.
    pub fn reads(&self) -> Vec<Access> {
        let chosen = match &self.work {
            Work::Choice { compute, .. } => loads_of(&compute.values[0]),
            _ => Vec::new(),
        };
        let chosen = chosen.into_iter().chain(self.call.iter().flat_map(Call::reads));
        self.stmt.exprs().into_iter().flat_map(loads_of).chain(chosen).collect()
    }

    /// The elements that the statement writes, with whether it only adds to them.
    pub fn writes(&self) -> Vec<(Access, bool)> {
        if let Some(c) = &self.call {
            return c.writes().into_iter().map(|a| (a, false)).collect();
        }
        self.stmt
            .accesses()
            .filter(|(_, mode)| mode.writes())
            .map(|(a, mode)| {
                let adds = matches!(mode, lathe_ir::stmt::AccessMode::Reduce { op: ReduceOp::Sum, .. });
                (a.clone(), adds)
            })
            .collect()
    }
}

/// In reverse mode, loops of unknown length count their iterations.
pub fn build(
    module: &Module,
    func: &mut Function,
    act: &Activity,
    is_reverse: bool,
) -> Result<Scope, Diagnostic> {
    let body = func.body.clone();
    let mut b = Builder {
        module,
        func,
        act,
        is_reverse,
        sites: 0,
        whiles: 0,
        scopes: 1,
        loops: Vec::new(),
        branches: Vec::new(),
        conditions: Vec::new(),
        lets: Vec::new(),
        buffers: vec![Vec::new()],
    };
    let body = b.node(&body)?;
    let buffers = b.buffers.pop().unwrap_or_default();
    Ok(Scope { id: 0, buffers, body })
}

struct Builder<'a> {
    module: &'a Module,
    func: &'a mut Function,
    act: &'a Activity,
    is_reverse: bool,
    sites: usize,
    whiles: usize,
    scopes: usize,
    loops: Vec<Around>,
    branches: Vec<(usize, bool)>,
    conditions: Vec<Expr>,
    /// Variables in scope whose values come from memory.
    lets: Vec<VarId>,
    /// Of the scopes around, innermost last.
    buffers: Vec<Vec<Arc<Buffer>>>,
}

impl Builder<'_> {
    fn site(&mut self, label: &str, places: &Places) -> Rc<Site> {
        self.sites += 1;
        let label = Label::new(label);
        let (loops, branches) = (self.loops.clone(), self.branches.clone());
        let (places, conditions) = (places.clone(), self.conditions.clone());
        Rc::new(Site { id: self.sites, label, places, loops, branches, conditions })
    }

    fn boxed(&mut self, s: &Stmt) -> Result<Box<Node>, Diagnostic> {
        Ok(Box::new(self.node(s)?))
    }

    /// The body of a loop: a scope of its own.
    fn scope(
        &mut self,
        around: impl FnOnce(ScopeId) -> Around,
        body: &Stmt,
    ) -> Result<Box<Scope>, Diagnostic> {
        let id = self.scopes;
        self.scopes += 1;
        self.loops.push(around(id));
        self.buffers.push(Vec::new());
        let body = self.node(body)?;
        self.loops.pop();
        let buffers = self.buffers.pop().unwrap_or_default();
        Ok(Box::new(Scope { id, buffers, body }))
    }

    fn node(&mut self, s: &Stmt) -> Result<Node, Diagnostic> {
        if let Some(list) = s.as_seq() {
            return Ok(Node::Seq(list.iter().map(|c| self.node(c)).collect::<Result<_, _>>()?));
        }
        if let Some((binder, value, body)) = s.as_let() {
            let site = self.site(&binder.name, s.places());
            self.lets.push(binder.id);
            if !self.is_reverse {
                self.buffers.push(Vec::new());
            }
            let body = self.boxed(body)?;
            self.lets.pop();
            let buffers = if self.is_reverse { None } else { self.buffers.pop() }.unwrap_or_default();
            return Ok(Node::Let { site, binder: binder.clone(), value: value.clone(), buffers, body });
        }
        if let Some((buffer, body)) = s.as_alloc() {
            // In reverse mode, both sweeps need it, whatever surrounds it.
            let bound = |e: &Expr| vars_of(e).iter().any(|v| self.lets.contains(v));
            let data = |e: &Expr| !loads_of(e).is_empty() || self.is_reverse && bound(e);
            if buffer.extents.iter().any(data) {
                let text = format!("the extents of the local array `{}` depend on data values", buffer.name);
                return Err(refuse(codes::UNSUPPORTED, text, s.places()));
            }
            // Where its extents are known further out already, it lives there: in the scope around all the same.
            if let Some(here) = self.buffers.last_mut() {
                here.push(buffer.clone());
            }
            return self.node(body);
        }
        if let Some(l) = s.as_loop() {
            if l.exec != Executor::Serial && touches_active(&l.body, self.act) {
                let text = format!("the loop `{}` is {}", l.binder.name, l.exec.name());
                return Err(refuse(codes::UNSUPPORTED, text, s.places())
                    .help("differentiate the plain kernel, and schedule the derivative"));
            }
            let site = self.site(&l.binder.name, s.places());
            let (binder, lo, hi, step) = (l.binder.clone(), l.lo.clone(), l.hi.clone(), l.step);
            let (header, branches) = (site.id, site.branches.len());
            let around = |body| Around { binder, lo, hi, step, body, header, branches, is_bounded: true };
            let body = self.scope(around, &l.body)?;
            return Ok(Node::Loop { site, l: l.clone(), body });
        }
        if let Some((cond, then, other)) = s.as_if() {
            let site = self.site("if", s.places());
            self.branches.push((site.id, true));
            self.conditions.push(cond.clone());
            let then = self.boxed(then)?;
            self.branches.pop();
            self.conditions.pop();
            self.branches.push((site.id, false));
            self.conditions.push(not(cond.clone()));
            let other = other.map(|o| self.boxed(o)).transpose()?;
            self.branches.pop();
            self.conditions.pop();
            return Ok(Node::If { site, cond: cond.clone(), then, other });
        }
        if let StmtKind::While { cond, body } = s.kind() {
            return self.until(cond, body, s.places());
        }
        if s.establishes().is_some() {
            let site = self.site("check", s.places());
            return Ok(Node::Keep(site, s.clone()));
        }
        self.leaf(s)
    }

    /// `while`.
    fn until(&mut self, cond: &Expr, body: &Stmt, places: &Places) -> Result<Node, Diagnostic> {
        // Its iterations have no number; the variable is never mentioned.
        let binder = self.func.fresh_var("while", Scalar::Index);
        let number = self.whiles;
        self.whiles += 1;
        let branches = self.branches.len();
        let around = |header: usize| {
            let (lo, hi, step) = (index(0), index(0), 1);
            move |body| Around { binder, lo, hi, step, body, header, branches, is_bounded: false }
        };
        if !self.is_reverse || !touches_active(body, self.act) {
            let site = self.site("while", places);
            let body = self.scope(around(site.id), body)?;
            return Ok(Node::While { site, number, cond: cond.clone(), body, trips: None });
        }
        let elem = Type::INDEX;
        let name = "while.trips";
        let buffer = Buffer::local(self.func.fresh_buf(), name, elem.clone(), Vec::new(), Space::Register);
        let cell = Access::buffer(buffer.id, elem, Vec::new());
        let home = self.home(cond, body);
        self.buffers[home].push(buffer);
        let one = Reduce {
            label: Label::new(name),
            instance: Vec::new(),
            op: ReduceOp::Sum,
            targets: vec![cell.clone()],
            values: vec![index(1)],
            licence: false,
            contract: false,
        };
        let one = Stmt::new(StmtKind::Reduce(one), places.clone());
        let start = crate::arrays::fill(format!("{name}.zero"), Vec::new(), cell.clone(), index(0));
        let start = self.leaf(&start.with_places(places.clone()))?;
        let site = self.site("while", places);
        let body = self.scope(around(site.id), &Stmt::seq([body.clone(), one]))?;
        let after = self.site("while", places);
        let trips = Some(Trips { cell, site: after });
        Ok(Node::Seq(vec![start, Node::While { site, number, cond: cond.clone(), body, trips }]))
    }

    /// The scope that the trip count of a `while` belongs to: that of the values which decide it. Where these are local
    /// to an iteration around the loop, so is the count, which is computed again together with them.
    fn home(&self, cond: &Expr, body: &Stmt) -> usize {
        // What any statement writes, and what decides that and the value.
        let mut flows: Vec<(Vec<BufId>, Vec<BufId>)> = Vec::new();
        let mut decides: Vec<BufId> = buffers_of(cond).collect();
        lathe_ir::visit::walk(body, &mut |s, _| {
            let read: Vec<BufId> = s.exprs().into_iter().flat_map(buffers_of).collect();
            let written: Vec<BufId> = s.written().filter_map(lathe_ir::View::buffer).collect();
            if written.is_empty() {
                // Conditions and bounds decide about all that is in them.
                decides.extend(read);
            } else {
                flows.push((written, read));
            }
            true
        });
        let mut known: HashSet<BufId> = decides.iter().copied().collect();
        while let Some(b) = decides.pop() {
            for (_, read) in flows.iter().filter(|(written, _)| written.contains(&b)) {
                decides.extend(read.iter().copied().filter(|r| known.insert(*r)));
            }
        }
        let written = flows.iter().flat_map(|f| &f.0).filter(|b| known.contains(b));
        // Parameters belong to the function; what is not found is made in the loop.
        let is_param = |b: BufId| self.func.params.iter().filter_map(|p| p.array()).any(|a| a.id == b);
        let scope_of = |b: &BufId| {
            let local = self.buffers.iter().position(|all| all.iter().any(|x| x.id == *b));
            local.or_else(|| is_param(*b).then_some(0))
        };
        let innermost = self.buffers.len() - 1;
        written.filter_map(scope_of).min().unwrap_or(innermost)
    }

    fn leaf(&mut self, s: &Stmt) -> Result<Node, Diagnostic> {
        let known = s.as_store().is_some() || s.as_reduce().is_some() || s.as_compute().is_some();
        let find = |b: BufId| self.buffers.iter().flatten().find(|x| x.id == b).cloned();
        let mode = if self.is_reverse { crate::Mode::Reverse } else { crate::Mode::Forward };
        if let Some(call) = calls::of_stmt(self.module, self.func, &find, s, mode)? {
            let active = call.writes().iter().any(|a| self.act.of_access(a));
            let site = self.site(&call.of.name, s.places());
            let work = if active { Work::Call } else { Work::Inactive };
            return Ok(Node::Leaf(Rc::new(Leaf { site, stmt: s.clone(), work, call: Some(call) })));
        }
        let active = s.written().any(|v| v.buffer().is_none_or(|b| self.act.of_buffer(b)));
        if !known {
            let text = "this statement is not differentiated";
            let help = "only kernels as written are differentiated: without atomics and asynchronous bodies";
            return Err(refuse(codes::UNSUPPORTED, text, s.places()).help(help));
        }
        let label = s.label().map_or_else(|| "s".to_string(), |l| l.to_string());
        if !active {
            let site = self.site(&label, s.places());
            let leaf = Leaf { site, stmt: s.clone(), work: Work::Inactive, call: None };
            return Ok(Node::Leaf(Rc::new(leaf)));
        }
        let mut before = Vec::new();
        let mut stmt = s.clone();
        let work = if let Some(st) = s.as_store() {
            Work::Assign { targets: vec![st.target.clone()], values: vec![st.value.clone()] }
        } else if let Some(r) = s.as_reduce() {
            match (&r.op, &r.targets[..], &r.values[..]) {
                (ReduceOp::Sum, [target], [value]) => {
                    Work::Add { target: target.clone(), value: value.clone() }
                }
                _ => {
                    let old: Vec<Expr> = r.targets.iter().cloned().map(load).collect();
                    let values =
                        crate::parts::combined(self.module, &r.op, &old, &r.values).ok_or_else(|| {
                            let text = format!("the operator `{}` is not differentiated here", r.op);
                            refuse(codes::UNSUPPORTED, text, s.places())
                        })?;
                    Work::Assign { targets: r.targets.clone(), values }
                }
            }
        } else if let Some(c) = s.as_compute() {
            let chooses = |d: &Dim| matches!(d.combine, Combine::Reduce(ReduceOp::Min | ReduceOp::Max));
            if c.dims.iter().any(chooses) {
                let (found, taken, at) = self.choice(c, s.places());
                before = found;
                stmt = taken;
                Work::Choice { compute: c.clone(), at }
            } else {
                Work::Compute(c.clone())
            }
        } else {
            Work::Inactive
        };
        let site = self.site(&label, s.places());
        before.push(Node::Leaf(Rc::new(Leaf { site, stmt, work, call: None })));
        Ok(Node::Seq(before))
    }

    /// Finds the smallest or largest, and the number of the first point that has it, into arrays of their own: two
    /// reductions that are done in any order, where one that tracks both would be done in sequence. Returns what stands
    /// before the statement, the statement as one that takes the result over, and the number.
    fn choice(&mut self, c: &Compute, places: &Places) -> (Vec<Node>, Stmt, Access) {
        let target = &c.targets[0];
        let extents = target.view.buffer().and_then(|b| self.extents(b)).unwrap_or_default();
        let mut local = |suffix: &str, elem: Type| {
            let buffer = Buffer::local(
                self.func.fresh_buf(),
                format!("{}.{suffix}", c.label),
                elem.clone(),
                extents.clone(),
                if extents.is_empty() { Space::Register } else { Space::Host },
            );
            if let Some(here) = self.buffers.last_mut() {
                here.push(buffer.clone());
            }
            Access { view: lathe_ir::View::Buffer(buffer.id), elem, ..target.clone() }
        };
        let (top, at) = (local("top", target.elem.clone()), local("at", Type::I64));
        let value = c.values[0].clone();
        let is_nan = |e: Expr| binary(BinOp::Ne, e.clone(), e);
        let best = load(top.clone());
        let chosen = or(eq(value.clone(), best.clone()), and(is_nan(value), is_nan(best.clone())));
        let (position, points) = numbers(&reduced(c));
        let position = cast(Type::I64, select(chosen, position, points));
        let first = c.dims.iter().map(|d| match d.combine {
            Combine::Reduce(_) => Dim { combine: Combine::Reduce(ReduceOp::Min), ..d.clone() },
            _ => d.clone(),
        });
        let first = Compute {
            label: Label::new(format!("{}.at", c.label)),
            dims: first.collect(),
            targets: vec![at.clone()],
            values: vec![position],
            ..c.clone()
        };
        let label = Label::new(format!("{}.top", c.label));
        let best_of = Compute { label, targets: vec![top.clone()], ..c.clone() };
        let before = [best_of, first].map(|c| {
            // Fresh indices: the statement itself keeps its own.
            let site = self.site(c.label.as_str(), places);
            let stmt = Stmt::new(StmtKind::Compute(c), places.clone());
            let stmt = lathe_ir::visit::refresh(&stmt, &mut self.func.next_id);
            Node::Leaf(Rc::new(Leaf { site, stmt, work: Work::Inactive, call: None }))
        });
        let free = c.dims.iter().filter(|d| d.combine == Combine::Concat).cloned().collect();
        let taken = crate::arrays::fill(c.label.to_string(), free, target.clone(), best);
        (before.into(), taken.with_places(places.clone()), at)
    }

    fn extents(&self, id: BufId) -> Option<Vec<Expr>> {
        let local = self.buffers.iter().flatten().find(|b| b.id == id);
        let param = || self.func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id);
        Some(local.or_else(param)?.extents.clone())
    }
}

/// The reduced dimensions of a compute.
pub fn reduced(c: &Compute) -> Vec<Dim> {
    c.dims.iter().filter(|d| d.combine != Combine::Concat).cloned().collect()
}

/// The position of a point in the box of some dimensions, the last one fastest, and how many points there are.
fn numbers(dims: &[Dim]) -> (Expr, Expr) {
    dims.iter().fold((index(0), index(1)), |(n, all), d| {
        let extent = sub(d.hi.clone(), d.lo.clone());
        (add(mul(n, extent.clone()), sub(var(&d.binder), d.lo.clone())), mul(all, extent))
    })
}
