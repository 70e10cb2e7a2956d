//! What a subtree touches: every access with the loops, bindings and conditions around it.

use lathe_ir::expr::{Access, Expr, ExprKind, View};
use lathe_ir::stmt::{AccessMode, Effects, Enters, Touched};
use lathe_ir::visit::{self, Path};
use lathe_ir::{BinOp, Binder, BufId, Executor, Function, Label, Scalar, Stmt, VarId, build};
use lathe_poly::Linear;
use lathe_poly::bounds::{self, Ranged};
use std::collections::{HashMap, HashSet};

/// How an access uses its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    /// Reads and writes: a reduction's target.
    Update,
}

/// One access inside a subtree.
#[derive(Clone, Debug)]
pub struct Found {
    pub access: Access,
    pub usage: Use,
    /// Subscripts with `let`s replaced by their values.
    pub indices: Vec<Linear>,
    /// Loops between the subtree's root and the access, outermost first.
    pub loops: Vec<Ranged>,
    /// Whether each of these loops steps by one.
    pub unit_steps: bool,
    /// It may not run in every iteration: an `if`, `while` or `select` stands around it. Where both branches of an `if`
    /// write the same element, the second one's write stands for both.
    pub guarded: bool,
    /// The subscripts say nothing: the access is inside a call, a compute or a view.
    pub opaque: bool,
    /// Path of the statement, from the subtree's root.
    pub path: Path,
    pub label: Option<Label>,
}

impl Found {
    pub fn buffer(&self) -> Option<BufId> {
        self.access.view.buffer()
    }

    pub fn writes(&self) -> bool {
        self.usage != Use::Read
    }

    pub fn reads(&self) -> bool {
        self.usage != Use::Write
    }
}

/// The loops and sizes around a place.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Outermost first.
    pub loops: Vec<Ranged>,
    pub binders: Vec<Binder>,
    pub executors: Vec<Executor>,
    /// Variables that are never negative.
    pub sizes: HashSet<VarId>,
    pub lets: HashMap<VarId, Expr>,
    /// Path of the outermost loop whose iterations are not ordered.
    pub parallel: Option<Path>,
}

impl Around {
    /// The surroundings of the statement at a path of the body.
    pub fn of(func: &Function, path: &[usize]) -> Around {
        let mut a = Around { sizes: func.sizes.iter().map(|b| b.id).collect(), ..Around::default() };
        let mut here = &func.body;
        for (n, position) in path.iter().enumerate() {
            match here.enters(*position) {
                Enters::Loop(l) => {
                    let (lo, hi) = (visit::substitute(&l.lo, &a.lets), visit::substitute(&l.hi, &a.lets));
                    a.loops.push(Ranged::new(l.binder.id, lo, hi));
                    a.binders.push(l.binder.clone());
                    a.executors.push(l.exec.clone());
                    if !l.exec.is_ordered() && a.parallel.is_none() {
                        a.parallel = Some(path[..n].to_vec());
                    }
                }
                Enters::Let(binder, value) if binder.ty == Scalar::Index => {
                    let value = visit::substitute(value, &a.lets);
                    a.lets.insert(binder.id, value);
                }
                Enters::Condition(cond, true) => {
                    add_facts(&visit::substitute(cond, &a.lets), &mut a.loops);
                }
                Enters::Nothing
                | Enters::Let(..)
                | Enters::Condition(_, false)
                | Enters::While(_)
                | Enters::Alloc(_)
                | Enters::Value(_) => {}
            }
            match here.child(*position) {
                Some(c) => here = c,
                None => break,
            }
        }
        a
    }

    /// The enclosing loop variables as expressions: the first part of a made statement's instance vector.
    pub fn instance(&self) -> Vec<Expr> {
        self.binders.iter().map(build::var).collect()
    }

    /// The loop around whose iterations have no memory of their own: lanes.
    pub fn lanes(&self) -> Option<&Executor> {
        self.executors.iter().find(|e| matches!(e, Executor::Vector(_)))
    }

    /// The surroundings extended by inner loops.
    pub fn with(&self, inner: &[Ranged]) -> Vec<Ranged> {
        self.loops.iter().chain(inner).cloned().collect()
    }
}

/// Adds what a condition says about the upper ends of loop variables.
fn add_facts(cond: &Expr, loops: &mut [Ranged]) {
    visit::distinct_operands(BinOp::And, cond).iter().for_each(|part| add_fact(part, loops));
}

fn add_fact(cond: &Expr, loops: &mut [Ranged]) {
    let ExprKind::Binary(op, a, b) = cond.kind() else { return };
    let (small, large, slack) = match op {
        BinOp::Lt => (a, b, 0),
        BinOp::Le => (a, b, 1),
        BinOp::Gt => (b, a, 0),
        BinOp::Ge => (b, a, 1),
        _ => return,
    };
    if !small.ty().is_index() {
        return;
    }
    // v + rest < large  gives  v < large - rest
    let small = bounds::normal(small);
    for l in loops.iter_mut() {
        if small.factor(l.var) != 1 {
            continue;
        }
        let v = bounds::normal(&build::var_id(l.var, Scalar::Index));
        let end = small.minus(&v).and_then(|rest| bounds::normal(large).offset(slack)?.minus(&rest));
        if let Some(end) = end.filter(|e| !e.mentions(&[l.var].into())) {
            l.below.push(end.to_expr());
        }
    }
}

struct Walker {
    lets: HashMap<VarId, Expr>,
    loops: Vec<Ranged>,
    unit_steps: bool,
    guarded: bool,
    path: Path,
    out: Vec<Found>,
}

/// Every access in a subtree, in the order of the text; the reads of a statement before its writes.
/// `lets` are those around the subtree.
pub fn accesses(root: &Stmt, lets: &HashMap<VarId, Expr>) -> Vec<Found> {
    let mut w = Walker {
        lets: lets.clone(),
        loops: Vec::new(),
        unit_steps: true,
        guarded: false,
        path: Path::new(),
        out: Vec::new(),
    };
    w.stmt(root);
    w.out
}

impl Walker {
    fn found(&mut self, access: &Access, usage: Use, guarded: bool, label: Option<&Label>) {
        let plain = matches!(access.view, View::Buffer(_));
        let indices =
            access.indices.iter().map(|e| bounds::normal(&visit::substitute(e, &self.lets))).collect();
        self.out.push(Found {
            access: access.clone(),
            usage,
            indices,
            loops: self.loops.clone(),
            unit_steps: self.unit_steps,
            guarded: self.guarded || guarded,
            opaque: !plain,
            path: self.path.clone(),
            label: label.cloned(),
        });
    }

    fn expr(&mut self, e: &Expr, guarded: bool, label: Option<&Label>) {
        self.part(e, guarded, label, &mut HashSet::new());
    }

    /// `seen` has the nodes that were looked at, and whether under a condition: each counts once.
    fn part(&mut self, e: &Expr, guarded: bool, label: Option<&Label>, seen: &mut HashSet<(usize, bool)>) {
        if !seen.insert((e.address(), guarded)) {
            return;
        }
        match e.kind() {
            ExprKind::Select(c, a, b) => {
                self.part(c, guarded, label, seen);
                self.part(a, true, label, seen);
                self.part(b, true, label, seen);
            }
            ExprKind::Load(a) => {
                for x in a.exprs() {
                    self.part(x, guarded, label, seen);
                }
                self.found(a, Use::Read, guarded, label);
            }
            _ => {
                for c in e.children() {
                    self.part(c, guarded, label, seen);
                }
            }
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        let label = s.label();
        // Which elements a compute touches is not followed.
        let compute = s.as_compute().is_some();
        let first = self.out.len();
        for e in s.exprs() {
            self.expr(e, compute, label);
        }
        for (touched, mode) in s.touches() {
            self.touched(s, touched, mode, compute);
        }
        if compute {
            self.out[first..].iter_mut().for_each(|f| f.opaque = true);
        }
        let saved = (self.unit_steps, self.guarded);
        let mut bound = None;
        match s.enters(0) {
            Enters::Loop(l) => {
                let (lo, hi) = (visit::substitute(&l.lo, &self.lets), visit::substitute(&l.hi, &self.lets));
                self.loops.push(Ranged::new(l.binder.id, lo, hi));
                self.unit_steps &= l.step == 1;
            }
            Enters::Let(binder, value) if binder.ty == Scalar::Index => {
                let value = visit::substitute(value, &self.lets);
                bound = Some(binder.id);
                self.lets.insert(binder.id, value);
            }
            Enters::Condition(..) | Enters::While(_) => self.guarded = true,
            Enters::Nothing | Enters::Let(..) | Enters::Alloc(_) | Enters::Value(_) => {}
        }
        self.guarded |= s.own_effects().contains(Effects::SYNCHRONIZES);
        let mut starts = Vec::new();
        for (i, c) in s.children().enumerate() {
            starts.push(self.out.len());
            self.path.push(i);
            let before = self.loops.clone();
            if let Enters::Condition(cond, true) = s.enters(i) {
                add_facts(&visit::substitute(cond, &self.lets), &mut self.loops);
            }
            self.stmt(c);
            self.loops = before;
            self.path.pop();
        }
        if let (Some(_), [then, other]) = (s.as_if(), starts.as_slice()) {
            self.in_both_branches(*then, *other, saved.1);
        }
        if s.as_loop().is_some() {
            self.loops.pop();
        }
        if let Some(v) = bound {
            self.lets.remove(&v);
        }
        (self.unit_steps, self.guarded) = saved;
    }
}

impl Walker {
    /// What a statement touches itself.
    fn touched(&mut self, s: &Stmt, touched: Touched, mode: AccessMode, guarded: bool) {
        let (usage, opaque) = match mode {
            AccessMode::Prefetch => return,
            AccessMode::Read => (Use::Read, false),
            AccessMode::Write if !guarded => (Use::Write, false),
            AccessMode::Write | AccessMode::Reduce { .. } => (Use::Update, false),
            AccessMode::Atomic { .. } | AccessMode::Update => (Use::Update, true),
        };
        let access = match touched {
            Touched::Element(a) => a.clone(),
            Touched::Whole(view) => Access {
                view: view.clone(),
                indices: Vec::new(),
                elem: lathe_ir::Type::INDEX,
                status: lathe_ir::Status::Unproved,
                places: s.places().clone(),
            },
        };
        self.found(&access, usage, guarded || opaque, s.label());
        if let Some(f) = self.out.last_mut() {
            f.opaque |= opaque;
        }
    }

    /// What is written by both branches, each of which is a single statement, is written as surely as the `if` runs.
    fn in_both_branches(&mut self, then: usize, other: usize, guarded: bool) {
        let depth = self.path.len();
        let (before, after) = self.out.split_at_mut(other);
        let plain = |f: &Found| f.writes() && !f.opaque && f.path.len() == depth + 1;
        for f in after.iter_mut().filter(|f| plain(f)) {
            let same = |o: &Found| o.access.view == f.access.view && o.indices == f.indices;
            if before[then..].iter().any(|o| plain(o) && same(o)) {
                f.guarded = guarded;
            }
        }
    }
}

/// Variables bound inside a subtree.
pub fn bound_in(root: &Stmt) -> HashSet<VarId> {
    let mut out = HashSet::new();
    visit::walk(root, &mut |s, _| {
        out.extend(s.binders().into_iter().map(|b| b.0.id));
        true
    });
    out
}
