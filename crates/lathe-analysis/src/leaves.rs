//! The statements of a subtree that touch memory, with what they touch and what surrounds them.

use crate::env::Item;
use lathe_ir::stmt::{AccessMode, Atomic, AtomicOp, Enters, Part};
use lathe_ir::{Access, BufId, Dim, Executor, Expr, ExprKind, Label, Name, ReduceOp, Stmt, StmtKind, View};
use lathe_ir::{build, ids::Binder};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// How a statement touches an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Role {
    Read,
    Write,
    /// Target number `target` of a reduction: read and written.
    Combine {
        target: usize,
        op: ReduceOp,
        licence: bool,
    },
    Atomic(Indivisible),
}

/// What is to know of an atomic to say which others it may change places with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Indivisible {
    pub writes: bool,
    /// An update whose old value is unused: its operator, and whether it is exact on the element.
    pub update: Option<(ReduceOp, bool)>,
    /// Its scope: the executor among whose iterations it is atomic.
    pub scope: Name,
}

impl Indivisible {
    fn of(a: &Atomic) -> Indivisible {
        let update = match &a.op {
            AtomicOp::Update(op, _) if a.old.is_none() => {
                let picks = matches!(op, ReduceOp::Min | ReduceOp::Max | ReduceOp::All | ReduceOp::Any);
                let whole = a.target.elem.scalar().is_some_and(|s| !s.is_float());
                let exact = picks || whole && !matches!(op, ReduceOp::User(_));
                Some((op.clone(), exact))
            }
            _ => None,
        };
        Indivisible { writes: a.op.writes(), update, scope: a.scope.clone() }
    }
}

impl Role {
    fn of(mode: AccessMode, s: &Stmt) -> Role {
        match mode {
            AccessMode::Read | AccessMode::Prefetch => Role::Read,
            AccessMode::Write => Role::Write,
            AccessMode::Reduce { target, op, licence } => Role::Combine { target, op: op.clone(), licence },
            AccessMode::Atomic { .. } => {
                if let StmtKind::Atomic(a) = s.kind() {
                    return Role::Atomic(Indivisible::of(a));
                }
                Role::Write
            }
            AccessMode::Update => Role::Write,
        }
    }

    /// The scope of an atomic: the executor among whose iterations it is atomic.
    pub fn scope(&self) -> Option<&Name> {
        match self {
            Role::Atomic(a) => Some(&a.scope),
            _ => None,
        }
    }

    pub fn writes(&self) -> bool {
        match self {
            Role::Read => false,
            Role::Atomic(a) => a.writes,
            Role::Write | Role::Combine { .. } => true,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Touch {
    pub buffer: BufId,
    /// Subscripts of the buffer itself; `None`: any element.
    pub indices: Option<Vec<Expr>>,
    pub role: Role,
    /// How many steps of the leaf's path lead to the statement that makes the access: all of them, or fewer
    /// for conditions, bounds and `let` values around the leaf.
    pub depth: usize,
    /// How many of the leaf's surrounding items hold there.
    pub items: usize,
    /// Conditions of the `select`s around a read, and their values where it is evaluated.
    pub when: When,
}

/// One step from a statement into a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub stmt: &'a Stmt,
    pub position: usize,
}

/// A loop around a leaf, or a `while`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level<'a> {
    Loop(&'a Binder, &'a Executor),
    /// By number, outermost first.
    While(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Leaf<'a> {
    pub label: &'a Label,
    pub instance: Vec<Expr>,
    pub stmt: &'a Stmt,
    /// From the root of the subtree to the leaf.
    pub path: Vec<Step<'a>>,
    /// What surrounds the leaf within the subtree, outermost first.
    pub items: Vec<Item<'a>>,
    /// The dimensions of a `compute`.
    pub dims: &'a [Dim],
    pub touches: Vec<Touch>,
}

impl<'a> Leaf<'a> {
    /// The loops among the first steps of the path.
    pub fn levels(&self, steps: usize) -> Vec<Level<'a>> {
        self.stepped(steps).map(|(_, level)| level).collect()
    }

    /// The loops among the first steps of the path, with the number of their step.
    pub fn stepped(&self, steps: usize) -> impl Iterator<Item = (usize, Level<'a>)> {
        let mut whiles = 0;
        self.path.iter().enumerate().take(steps).filter_map(move |(k, step)| {
            let level = match step.stmt.enters(step.position) {
                Enters::Loop(l) => Level::Loop(&l.binder, &l.exec),
                Enters::While(_) => {
                    whiles += 1;
                    Level::While(whiles - 1)
                }
                Enters::Nothing
                | Enters::Let(..)
                | Enters::Condition(..)
                | Enters::Alloc(_)
                | Enters::Value(_) => return None,
            };
            Some((k, level))
        })
    }

    /// The leaf as if the conditions on data around it held.
    pub fn under_no_data(&self) -> Leaf<'a> {
        let items =
            self.items.iter().filter(|i| !matches!(i, Item::Cond(c, _) if on_data(c))).cloned().collect();
        Leaf { items, ..self.clone() }
    }

    pub fn whiles(&self) -> usize {
        self.path.iter().filter(|s| matches!(s.stmt.enters(s.position), Enters::While(_))).count()
    }

    /// The steps that lead to the allocation of a buffer, if it is in the subtree.
    pub fn allocated_at(&self, buffer: BufId) -> Option<usize> {
        self.path.iter().position(|s| s.stmt.allocated().is_some_and(|b| b.id == buffer))
    }
}

/// Which instances run depends on memory, or on what is no integer, where a condition does.
pub(crate) fn on_data(cond: &Expr) -> bool {
    let mut data = false;
    lathe_ir::visit::walk_expr(cond, &mut |e| {
        data |= matches!(e.kind(), ExprKind::Load(_) | ExprKind::Call(..))
            || e.ty().scalar().is_some_and(|s| s.is_float());
    });
    data
}

/// The relative order of two places of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relative {
    First,
    Second,
    /// Two branches of an `if`: never both in one iteration.
    Apart,
    Same,
}

/// The steps that two places share, and which of them runs first within one iteration of the loops
/// among these.
pub(crate) fn relate(a: &[Step], b: &[Step]) -> (usize, Relative) {
    let common = a.iter().zip(b).take_while(|(x, y)| x.position == y.position).count();
    let order = match (a.get(common), b.get(common)) {
        (None, None) => Relative::Same,
        // A condition, bound or atomic is before what it surrounds.
        (None, Some(_)) => Relative::First,
        (Some(_), None) => Relative::Second,
        (Some(x), Some(_)) if x.stmt.as_if().is_some() => Relative::Apart,
        (Some(x), Some(y)) if x.position < y.position => Relative::First,
        _ => Relative::Second,
    };
    (common, order)
}

/// Why a subtree cannot be analysed.
pub(crate) type Obstacle = String;

/// Buffers that any statement of a subtree writes.
pub(crate) fn written_buffers(root: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    lathe_ir::visit::walk(root, &mut |s, _| {
        out.extend(s.written().filter_map(View::buffer));
        true
    });
    out
}

/// The subscripts of the buffer at the bottom of a view; `None`: any element.
pub(crate) fn buffer_indices(view: &View, indices: &[Expr]) -> Option<Vec<Expr>> {
    match view {
        View::Buffer(_) => Some(indices.to_vec()),
        View::Slice { base, offsets, steps } => {
            if indices.len() != offsets.len() || indices.len() != steps.len() {
                return None;
            }
            let inner: Vec<Expr> = indices
                .iter()
                .zip(offsets)
                .zip(steps)
                .map(|((i, o), s)| build::add(o.clone(), build::mul(i.clone(), build::index(*s))))
                .collect();
            buffer_indices(base, &inner)
        }
        View::Reshape { .. } | View::Reinterpret { .. } | View::Deref { .. } | View::Global(_) => None,
    }
}

/// Conditions of `select`s, outermost first, and whether they hold.
type When = Vec<(Expr, bool)>;

/// The loads of an expression, with the conditions of the `select`s around each.
#[derive(Default)]
struct Loads {
    out: Vec<(Access, When)>,
    /// Under which conditions shared parts were looked at.
    seen: HashMap<Expr, Vec<When>>,
}

impl Loads {
    /// Under how many conditions a shared part is told apart: what stands under more is read under any.
    const MOST: usize = 8;

    fn of(&mut self, e: &Expr, when: &When) {
        let seen = self.seen.entry(e.clone()).or_default();
        if seen.iter().any(|s| s.iter().all(|c| when.contains(c))) {
            return;
        }
        let when = if seen.len() < Loads::MOST { when } else { &When::new() };
        seen.push(when.clone());
        match e.kind() {
            ExprKind::Select(c, yes, no) => {
                self.of(c, when);
                for (branch, holds) in [(yes, true), (no, false)] {
                    let mut inner = when.clone();
                    inner.push((c.clone(), holds));
                    self.of(branch, &inner);
                }
            }
            _ => {
                if let ExprKind::Load(a) = e.kind() {
                    self.out.push((a.clone(), when.clone()));
                }
                e.children().into_iter().for_each(|c| self.of(c, when));
            }
        }
    }
}

/// Collects the leaves of a subtree, in the order in which they stand. Of accesses, only those to
/// buffers in `conflicting` are kept.
pub(crate) fn leaves<'a>(root: &'a Stmt, conflicting: &HashSet<BufId>) -> Result<Vec<Leaf<'a>>, Obstacle> {
    collected(root, conflicting, false)
}

/// As [`leaves`], for whoever knows what barriers and waits order.
pub(crate) fn leaves_between_barriers<'a>(
    root: &'a Stmt,
    conflicting: &HashSet<BufId>,
) -> Result<Vec<Leaf<'a>>, Obstacle> {
    collected(root, conflicting, true)
}

fn collected<'a>(
    root: &'a Stmt,
    conflicting: &HashSet<BufId>,
    barriers: bool,
) -> Result<Vec<Leaf<'a>>, Obstacle> {
    let (path, items, headers, out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut c = Collector { conflicting, barriers, path, items, headers, out };
    c.visit(root)?;
    Ok(c.out)
}

/// Why a view is not followed.
fn obstacle(view: &View) -> Obstacle {
    match view.global() {
        Some(name) => format!("the statement accesses the global `{name}`"),
        None => "the statement accesses memory through a pointer".into(),
    }
}

struct Collector<'a, 'c> {
    conflicting: &'c HashSet<BufId>,
    /// Barriers and waits are passed over.
    barriers: bool,
    path: Vec<Step<'a>>,
    items: Vec<Item<'a>>,
    /// Reads of conditions, bounds and `let` values around the current place.
    headers: Vec<Touch>,
    out: Vec<Leaf<'a>>,
}

impl<'a> Collector<'a, '_> {
    fn visit(&mut self, s: &'a Stmt) -> Result<(), Obstacle> {
        match s.kind() {
            StmtKind::Seq(list) => {
                let items = self.items.len();
                for (position, child) in list.iter().enumerate() {
                    self.step(s, position, child, None)?;
                    self.items.extend(Item::after(child));
                }
                self.items.truncate(items);
                Ok(())
            }
            StmtKind::Let { .. } | StmtKind::Loop(_) | StmtKind::If { .. } | StmtKind::Alloc { .. } => {
                let evaluated = s.evaluated();
                s.children().enumerate().try_for_each(|(n, child)| self.around(s, n, child, &evaluated))
            }
            StmtKind::While { cond, body } => {
                // The condition is evaluated in every iteration: it counts as standing in the body.
                let headers = self.headers.len();
                self.items.push(Item::While(cond));
                self.read(&[cond], self.path.len() + 1)?;
                self.items.pop();
                self.step(s, 0, body, Some(Item::While(cond)))?;
                self.headers.truncate(headers);
                Ok(())
            }
            StmtKind::Store(_) | StmtKind::Reduce(_) | StmtKind::Compute(_) => self.leaf(s),
            StmtKind::Atomic(a) => {
                self.leaf(s)?;
                self.step(s, 0, &a.body, Item::entering(s, 0))
            }
            StmtKind::Check { cond, .. } => self.unlabelled(&[cond], "a check"),
            StmtKind::Assume { fact, .. } => self.unlabelled(&[fact], "an assumption"),
            StmtKind::Prefetch(_) => Ok(()),
            StmtKind::Barrier { .. } if self.barriers => {
                self.barrier(s);
                Ok(())
            }
            StmtKind::Barrier { .. } => Err("the statement contains a barrier".into()),
            StmtKind::Token { body, .. } | StmtKind::Async { body, .. } if self.barriers => {
                self.step(s, 0, body, None)
            }
            StmtKind::Wait { .. } if self.barriers => Ok(()),
            StmtKind::Token { .. } | StmtKind::Async { .. } | StmtKind::Wait { .. } => {
                Err("the statement contains an asynchronous statement".into())
            }
            StmtKind::Call { function, .. } => {
                Err(format!("the statement contains a call of `{function}`, whose accesses are unknown"))
            }
        }
    }

    /// Goes into a child; `item` is what the statement binds for it.
    fn step(
        &mut self,
        s: &'a Stmt,
        position: usize,
        child: &'a Stmt,
        item: Option<Item<'a>>,
    ) -> Result<(), Obstacle> {
        let items = self.items.len();
        self.path.push(Step { stmt: s, position });
        self.items.extend(item);
        self.visit(child)?;
        self.items.truncate(items);
        self.path.pop();
        Ok(())
    }

    /// As `step`, for a statement that evaluates expressions before its child.
    fn around(
        &mut self,
        s: &'a Stmt,
        position: usize,
        child: &'a Stmt,
        evaluates: &[&Expr],
    ) -> Result<(), Obstacle> {
        let headers = self.headers.len();
        self.read(evaluates, self.path.len())?;
        self.step(s, position, child, Item::entering(s, position))?;
        self.headers.truncate(headers);
        Ok(())
    }

    fn read(&mut self, es: &[&Expr], depth: usize) -> Result<(), Obstacle> {
        let mut found = Vec::new();
        self.loads(es, depth, &mut found)?;
        self.headers.append(&mut found);
        Ok(())
    }

    /// The loads of expressions, as far as their buffers are written somewhere.
    fn loads(&self, es: &[&Expr], depth: usize, out: &mut Vec<Touch>) -> Result<(), Obstacle> {
        if es.iter().any(|e| lathe_ir::visit::takes_address(e)) {
            return Err("the statement takes the address of an element".into());
        }
        let mut all = Loads::default();
        es.iter().for_each(|e| all.of(e, &When::new()));
        for (load, when) in all.out {
            let Some(buffer) = load.view.buffer() else {
                return Err(obstacle(&load.view));
            };
            if self.conflicting.contains(&buffer) {
                let indices = buffer_indices(&load.view, &load.indices);
                let known = out.iter().any(|t| {
                    t.buffer == buffer
                        && (&t.role, t.depth) == (&Role::Read, depth)
                        && t.indices == indices
                        && t.when == when
                });
                if !known {
                    let items = self.items.len();
                    out.push(Touch { buffer, indices, role: Role::Read, depth, items, when });
                }
            }
        }
        Ok(())
    }

    fn touch(&self, a: &Access, role: Role) -> Result<Touch, Obstacle> {
        match a.view.buffer() {
            Some(buffer) => Ok(Touch {
                buffer,
                indices: buffer_indices(&a.view, &a.indices),
                role,
                depth: self.path.len(),
                items: self.items.len(),
                when: Vec::new(),
            }),
            None => Err(obstacle(&a.view)),
        }
    }

    fn unlabelled(&self, es: &[&Expr], what: &str) -> Result<(), Obstacle> {
        let mut found = Vec::new();
        self.loads(es, 0, &mut found)?;
        if found.is_empty() {
            Ok(())
        } else {
            Err(format!("{what} inside the statement reads an array that is also written there"))
        }
    }

    /// A barrier touches what the conditions and bounds around it read.
    fn barrier(&mut self, stmt: &'a Stmt) {
        static LABEL: LazyLock<Label> = LazyLock::new(|| Label::new("barrier"));
        let (path, items, touches) = (self.path.clone(), self.items.clone(), self.headers.clone());
        self.out.push(Leaf { label: &LABEL, instance: Vec::new(), stmt, path, items, dims: &[], touches });
    }

    /// A statement with a label: what it touches itself, then what it reads for its values, then for subscripts.
    fn leaf(&mut self, stmt: &'a Stmt) -> Result<(), Obstacle> {
        let Some((label, instance)) = stmt.labelled() else { return Ok(()) };
        let dims = stmt.as_compute().map_or(&[][..], |c| &c.dims);
        let mut touches = Vec::new();
        for (a, mode) in stmt.accesses() {
            touches.push(self.touch(a, Role::of(mode, stmt))?);
        }
        let (mut values, mut subscripts) = (Vec::new(), Vec::new());
        stmt.for_each_part(&mut |p| match p {
            Part::Instance(..) => {}
            Part::Touch(..) => p.for_each_expr(&mut |e| subscripts.push(e)),
            Part::Expr(_) | Part::Variable(_) | Part::Bind(..) | Part::Buffer(_) => {
                p.for_each_expr(&mut |e| values.push(e));
            }
        });
        self.loads(&values, self.path.len(), &mut touches)?;
        self.loads(&subscripts, self.path.len(), &mut touches)?;
        touches.extend(self.headers.iter().cloned());
        touches.retain(|t| self.conflicting.contains(&t.buffer));
        let instance = match stmt.as_compute() {
            Some(c) => c.dims.iter().map(|d| build::var(&d.binder)).collect(),
            None => instance.to_vec(),
        };
        self.out.push(Leaf {
            label,
            instance,
            stmt,
            path: self.path.clone(),
            items: self.items.clone(),
            dims,
            touches,
        });
        Ok(())
    }
}
