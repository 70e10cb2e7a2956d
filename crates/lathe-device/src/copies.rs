//! Copies from global to shared memory that may be asynchronous, so that threads compute in the
//! meantime (NVIDIA's `cp.async`).
//!
//! Until the next barrier, nothing of the same thread may touch what is copied to, or write what is copied from; other
//! threads are held back by the barrier anyway. Which barrier waits for a copy, `groups` says.

use crate::groups::{Copies, groups};
use crate::pending::{Touched, View, classes};
use crate::phase::has_barrier;
use crate::plan::{Argument, KernelPlan};
use lathe_ir::build::{add, index, mul};
use lathe_ir::lower::{physical, resolve, storage};
use lathe_ir::visit::{distinct_operands, loads_of, substitute, vars_of};
use lathe_ir::{Access, BinOp, BufId, Buffer, Expr, ExprKind, Function, Label, Stmt, StmtKind, Store, VarId};
use lathe_poly::simplify::simplify_expr;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a store of this value copies, if it does no more: an element, and the condition without which it is zero.
pub fn source(value: &Expr) -> Option<(Option<&Expr>, &Access)> {
    match value.kind() {
        ExprKind::Load(a) => Some((None, a)),
        ExprKind::Select(cond, a, zero) if loads_of(cond).is_empty() => {
            let zero = match zero.kind() {
                ExprKind::Int(v) => *v == 0,
                ExprKind::Float(v) => v.0 == 0,
                _ => false,
            };
            match a.kind() {
                ExprKind::Load(a) if zero => Some((Some(cond), a)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What one instruction of a copy unit copies.
pub struct Piece {
    /// Without this it fills with zeros.
    pub cond: Option<Expr>,
    /// The first element.
    pub to: Access,
    pub from: Access,
    pub bytes: i64,
}

/// The piece that a store is: of one element, or, of all iterations of a loop from 0 on, neighbours that begin at a
/// multiple of their number. `strides`: of the buffer of an access, if it is stored row by row.
pub fn piece(
    st: &Store,
    all: Option<(VarId, i64)>,
    strides: &mut dyn FnMut(&Access) -> Option<Vec<Expr>>,
) -> Option<Piece> {
    let (cond, from) = source(&st.value)?;
    let count = all.map_or(1, |a| a.1);
    let bytes = count.checked_mul(i64::try_from(st.target.elem.bytes()).ok()?)?;
    if !(matches!(bytes, 4 | 8 | 16) && (all.is_some() || bytes < 16)) {
        return None;
    }
    let Some((v, n)) = all else {
        return Some(Piece { cond: cond.cloned(), to: st.target.clone(), from: from.clone(), bytes });
    };
    if cond.is_some_and(|c| !alike(c, v, n)) {
        return None;
    }
    let first = HashMap::from([(v, index(0))]);
    let mut at_first = |a: &Access| {
        let indices = a.indices.iter().map(|i| substitute(i, &first)).collect();
        together(&a.indices, &strides(a)?, v, n).then(|| Access { indices, ..a.clone() })
    };
    let cond = cond.map(|c| substitute(c, &first));
    Some(Piece { cond, to: at_first(&st.target)?, from: at_first(from)?, bytes })
}

/// Whether a condition is the same for iterations `0..n` of `v`: what it compares is a multiple of `n` but for `v`.
fn alike(cond: &Expr, v: VarId, n: i64) -> bool {
    match cond.kind() {
        _ if !vars_of(cond).contains(&v) => true,
        ExprKind::Binary(op @ (BinOp::And | BinOp::Or), ..) => {
            distinct_operands(*op, cond).iter().all(|part| alike(part, v, n))
        }
        ExprKind::Binary(BinOp::Lt, a, b) => {
            let Some(gap) = Linear::of(b).minus(&Linear::of(a)) else { return false };
            let others = |(atom, k): &(Expr, i64)| {
                atom.as_var() == Some(v) || k % n == 0 && !vars_of(atom).contains(&v)
            };
            gap.factor(v) == -1 && gap.constant % n == 0 && gap.terms.iter().all(others)
        }
        _ => false,
    }
}

/// Whether iterations `0..n` of `v` name neighbours of which the first one's number is a multiple of `n`.
fn together(indices: &[Expr], strides: &[Expr], v: VarId, n: i64) -> bool {
    let terms = indices.iter().zip(strides);
    let sum = terms.fold(index(0), |sum, (i, s)| add(sum, mul(i.clone(), s.clone())));
    let form = Linear::of(&sum);
    let others = |(atom, k): &(Expr, i64)| {
        let inside = vars_of(atom).contains(&v);
        atom.as_var() == Some(v) || k % n == 0 && !inside
    };
    form.factor(v) == 1 && form.constant % n == 0 && form.terms.iter().all(others)
}

/// The stores in the kernel that may be asynchronous and have arithmetic to overlap with, and where it waits for them.
pub fn overlapping(func: &Function, k: &KernelPlan) -> Copies {
    let classes = classes(func);
    let private = HashSet::new();
    let first = |b: &Arc<Buffer>| b.extents.first().and_then(Expr::as_int).filter(|n| *n > 1);
    let slots = k.shared.iter().filter_map(|b| Some((b.id, first(b)?))).collect();
    let global = k.arguments.iter().filter_map(|a| match a {
        Argument::Array(b) => Some(b.id),
        Argument::Scalar(_) => None,
    });
    let mut ranges = Ranges::of_function(func);
    for l in &k.grid {
        ranges.enter_loop(l.binder.id, &l.lo, &l.hi);
    }
    if let Some(c) = &k.cluster {
        let (zero, end) = (lathe_ir::build::index(0), lathe_ir::build::index(c.blocks));
        ranges.enter_loop(c.rank.id, &zero, &end);
    }
    ranges.enter_loop(k.thread.id, &lathe_ir::build::index(0), &lathe_ir::build::index(k.threads));
    let mut w = Walk {
        view: View { classes: &classes, private: &private, slots: &slots, nest: None },
        shared: k.shared.iter().map(|b| (b.id, b.clone())).collect(),
        global: global.collect(),
        ranges,
        lets: HashMap::new(),
        loops: Vec::new(),
        wrong: HashSet::new(),
        hidden: HashSet::new(),
    };
    w.stmt(&k.body, &mut Vec::new());
    groups(k, &w.view, &w.hidden - &w.wrong)
}

/// A copy under way.
#[derive(Clone, PartialEq)]
struct Copy {
    label: Label,
    touched: Touched,
    /// It was begun in an earlier iteration of a loop in which threads may wait for one another.
    earlier: bool,
}

type Pending = Vec<Copy>;

struct Walk<'a> {
    view: View<'a>,
    shared: HashMap<BufId, Arc<Buffer>>,
    global: HashSet<BufId>,
    ranges: Ranges,
    lets: HashMap<VarId, Expr>,
    /// Loops around that hold no barrier, with their steps.
    loops: Vec<(VarId, i64)>,
    wrong: HashSet<Label>,
    /// Something is computed before the next barrier.
    hidden: HashSet<Label>,
}

/// More rounds than this find nothing new.
const ROUNDS: usize = 4;

impl Walk<'_> {
    fn stmt(&mut self, s: &Stmt, pending: &mut Pending) {
        if matches!(s.kind(), StmtKind::Barrier { .. }) {
            pending.clear();
            return;
        }
        let own = self.view.of_exprs(s.evaluated());
        if s.children().len() > 0 {
            self.meets(&own, None, pending);
        }
        if let Some((binder, value, _)) = s.as_let() {
            let value = substitute(value, &self.lets);
            self.lets.insert(binder.id, value);
        }
        match (s.as_loop(), s.as_if()) {
            (Some(l), _) => {
                let free = !has_barrier(&l.body);
                if free {
                    self.loops.push((l.binder.id, l.step));
                }
                let outer = (!free).then(|| std::mem::take(&mut self.loops));
                for _ in 0..ROUNDS {
                    let before = pending.clone();
                    self.child(s, 0, pending);
                    for p in pending.iter_mut() {
                        p.touched.next_iteration(l.binder.id, l.step);
                        p.earlier |= !free;
                    }
                    union(pending, &before);
                    if *pending == before {
                        break;
                    }
                }
                match outer {
                    Some(outer) => self.loops = outer,
                    None => drop(self.loops.pop()),
                }
                pending.iter_mut().for_each(|p| p.touched.forget(l.binder.id));
            }
            (_, Some(_)) => {
                let before = pending.clone();
                let mut after = Pending::new();
                for k in 0..s.children().len() {
                    let mut way = before.clone();
                    self.child(s, k, &mut way);
                    union(&mut after, &way);
                }
                if s.children().len() < 2 {
                    union(&mut after, &before);
                }
                *pending = after;
            }
            _ if s.children().len() > 0 => {
                (0..s.children().len()).for_each(|k| self.child(s, k, pending));
            }
            _ => self.leaf(s, pending),
        }
        if let Some((binder, ..)) = s.as_let() {
            pending.iter_mut().for_each(|p| p.touched.forget(binder.id));
        }
    }

    fn child(&mut self, s: &Stmt, k: usize, pending: &mut Pending) {
        let mark = self.ranges.enter_child(s, k);
        if let Some(c) = s.child(k) {
            self.stmt(c, pending);
        }
        self.ranges.leave(mark);
    }

    fn leaf(&mut self, s: &Stmt, pending: &mut Pending) {
        let touched = self.view.of(s);
        let copy = s.as_store().filter(|st| self.copies(st));
        self.meets(&touched, copy, pending);
        match copy {
            Some(st) => union(pending, &vec![Copy { label: st.label.clone(), touched, earlier: false }]),
            None => {
                if let Some(st) = s.as_store() {
                    self.wrong.insert(st.label.clone());
                }
                if s.labelled().is_some() {
                    self.hidden.extend(pending.iter().map(|p| p.label.clone()));
                }
            }
        }
    }

    /// What is touched while copies are under way.
    fn meets(&mut self, touched: &Touched, copy: Option<&Store>, pending: &Pending) {
        for p in pending.iter().filter(|p| p.touched.conflicts(touched)) {
            // Of one loop nest without barriers, every element is copied once.
            if p.earlier || copy.is_none_or(|st| st.label != p.label || p.touched != *touched) {
                self.wrong.insert(p.label.clone());
            }
        }
    }

    /// Whether a store copies elements of 4 or 8 bytes as they are, each thread every one once between two barriers.
    fn copies(&self, st: &Store) -> bool {
        let Some((_, from)) = source(&st.value) else { return false };
        let (to, source) = (st.target.view.buffer(), from.view.buffer());
        let plain = st.target.elem.scalar().is_some() && st.target.elem == from.elem;
        let bytes = matches!(st.target.elem.bytes(), 4 | 8);
        let known = source.is_some_and(|b| self.global.contains(&b));
        let Some(to) = to.and_then(|b| self.shared.get(&b)).filter(|_| plain && bytes && known) else {
            return false;
        };
        let offset = |indices: &[Expr]| {
            let (at, s) = (physical(to, indices).ok()?, storage(to).ok()?);
            let terms = at.into_iter().zip(s.strides);
            let sum = terms.fold(lathe_ir::build::index(0), |sum, (i, s)| {
                lathe_ir::build::add(sum, lathe_ir::build::mul(i, s))
            });
            Some(Linear::of(&simplify_expr(&substitute(&sum, &self.lets), &self.ranges)))
        };
        let Some(form) = resolve(&st.target).ok().and_then(|(_, i)| offset(&i)) else { return false };
        self.once(&form)
    }

    /// Whether the loops without barriers around give an offset every value at most once.
    fn once(&self, form: &Linear) -> bool {
        let mut steps = Vec::new();
        for (v, step) in &self.loops {
            let range = self.ranges.range(&lathe_ir::build::var_id(*v, lathe_ir::Scalar::Index));
            let trips = (range.hi - range.lo) / i128::from(*step);
            let factor = i128::from(form.factor(*v)) * i128::from(*step);
            let nested = form
                .terms
                .iter()
                .any(|(atom, _)| atom.as_var() != Some(*v) && lathe_ir::visit::vars_of(atom).contains(v));
            if nested || factor == 0 && trips > 0 || trips > i128::from(u32::MAX) {
                return false;
            }
            steps.push((factor.abs(), trips));
        }
        steps.sort_unstable();
        let mut reach = 0i128;
        steps.into_iter().all(|(factor, trips)| {
            let apart = trips == 0 || factor > reach;
            reach += factor * trips;
            apart
        })
    }
}

fn union(to: &mut Pending, from: &Pending) {
    for p in from {
        if !to.contains(p) {
            to.push(p.clone());
        }
    }
}
