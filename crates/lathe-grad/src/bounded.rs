//! Loops of unknown length that are checkpointed: their iterations are counted beforehand, on copies of the arrays that they
//! write, and become those of a loop with bounds, whose snapshots are placed as for any other.
//!
//! Copies are of whole arrays, of which a program need not have set every element: [`filled`] sets those that it may not have.

use crate::Activity;
use crate::activity::touches_active;
use crate::arrays::{allocated, buffers_of, copy_array, fill, touched, written, zero_array};
use crate::checkpoint::renamed;
use crate::sink::{flat, region};
use lathe_ir::build::{index, load, var};
use lathe_ir::visit::{map_stmts, refresh};
use lathe_ir::{
    Access, BufId, Buffer, Executor, Expr, Function, Label, Loop, Mode, Reduce, ReduceOp, Scalar, Space,
    Stmt, StmtKind, Type,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The function with bounds for outermost loops of unknown length that have active statements.
pub fn bounded(func: &Function, act: &Activity) -> Function {
    let mut out = func.clone();
    let params: Vec<_> = func.params.iter().filter_map(|p| p.array()).cloned().collect();
    let set = func.params.iter().filter(|p| p.mode != Mode::Out).filter_map(|p| p.array());
    let set = set.map(|b| b.id).collect();
    let mut b = Bounded { func: &mut out, act, arrays: params, set, copied: HashSet::new() };
    let body = b.stmt(&func.body);
    let copied = b.copied;
    out.body = body;
    filled(&mut out, &copied);
    out
}

/// The function where arrays that will be copied whole have a value in every element from the beginning: zeros, in
/// those that no statement sets as a whole before anything else touches them.
pub fn filled(func: &mut Function, copied: &HashSet<BufId>) {
    let body = func.body.clone();
    let body = zeroed(&body, func, copied);
    let outs = func.params.iter().filter(|p| p.mode == Mode::Out).filter_map(|p| p.array()).cloned();
    let outs: Vec<_> = outs.filter(|b| copied.contains(&b.id) && !is_set_whole(b, &body)).collect();
    let zeros: Vec<Stmt> = outs.iter().map(|b| zero_array(b, func)).collect();
    func.body = Stmt::seq(zeros.into_iter().chain([body]));
}

fn zeroed(s: &Stmt, func: &mut Function, copied: &HashSet<BufId>) -> Stmt {
    let new: Vec<Stmt> = s.children().map(|c| zeroed(c, func, copied)).collect();
    if let Some((b, body)) = s.as_alloc()
        && copied.contains(&b.id)
        && !is_set_whole(b, body)
    {
        let zero = zero_array(b, func);
        return s.with_children(vec![Stmt::seq([zero].into_iter().chain(new))]);
    }
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    if same { s.clone() } else { s.with_children(new) }
}

/// Whether the first statement that touches an array sets all of it.
fn is_set_whole(b: &Buffer, body: &Stmt) -> bool {
    let mut list = Vec::new();
    flat(body, &mut list);
    let Some(first) = list.iter().find(|s| touched(s).contains(&b.id)) else { return false };
    let own = |a: &Access| a.view.buffer() == Some(b.id);
    if let Some(st) = first.as_store() {
        return b.extents.is_empty()
            && own(&st.target)
            && !first.exprs().into_iter().flat_map(buffers_of).any(|x| x == b.id);
    }
    let Some(c) = first.as_compute() else { return false };
    let reads = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.values).flat_map(buffers_of);
    let whole = |t: &Access| {
        let all = region(c, t).is_some_and(|r| {
            let ends = r.iter().zip(&b.extents);
            ends.clone().all(|((lo, hi), e)| lo.as_constant() == Some(0) && *hi == Linear::of(e))
        });
        own(t) && all
    };
    c.update.is_none()
        && c.guard.is_none()
        && c.targets.iter().any(whole)
        && !reads.into_iter().any(|x| x == b.id)
}

struct Bounded<'f> {
    func: &'f mut Function,
    act: &'f Activity,
    /// Those in scope.
    arrays: Vec<Arc<Buffer>>,
    /// Those that something may have set before the statement that is looked at.
    set: HashSet<BufId>,
    /// Those that are copied.
    copied: HashSet<BufId>,
}

impl Bounded<'_> {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let StmtKind::While { cond, body } = s.kind()
            && touches_active(body, self.act)
        {
            return self.until(s, cond, body);
        }
        if s.as_loop().is_some() || s.children().next().is_none() {
            self.set.extend(written(s));
            return s.clone();
        }
        let known = self.arrays.len();
        self.arrays.extend(s.allocated().cloned());
        let new: Vec<Stmt> = s.children().map(|c| self.stmt(c)).collect();
        self.arrays.truncate(known);
        let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
        if same { s.clone() } else { s.with_children(new) }
    }

    fn until(&mut self, s: &Stmt, cond: &Expr, body: &Stmt) -> Stmt {
        let count =
            Buffer::local(self.func.fresh_buf(), "while.count", Type::INDEX, Vec::new(), Space::Register);
        let cell = Access::buffer(count.id, Type::INDEX, Vec::new());
        let (changed, used) = (written(body), touched(s));
        let (mut copies, mut before, mut names) = (Vec::new(), Vec::new(), HashMap::<BufId, BufId>::new());
        for b in self.arrays.iter().filter(|b| changed.contains(&b.id) && used.contains(&b.id)) {
            let space = if b.extents.is_empty() { Space::Register } else { Space::Host };
            let name = format!("{}.counted", b.name).into();
            let copy = Arc::new(Buffer { id: self.func.fresh_buf(), name, space, ..(**b).clone() });
            if self.set.contains(&b.id) && has_value(b, cond, body) {
                before.push(copy_array(b, &copy, self.func));
                self.copied.insert(b.id);
            }
            names.insert(b.id, copy.id);
            copies.push(copy);
        }
        self.set.extend(changed);
        let one = Reduce {
            label: Label::new("while.count"),
            instance: Vec::new(),
            op: ReduceOp::Sum,
            targets: vec![cell.clone()],
            values: vec![index(1)],
            licence: false,
            contract: false,
        };
        let inside = Stmt::seq([body.clone(), Stmt::of(StmtKind::Reduce(one))]);
        let run = s.with_kind(StmtKind::While { cond: cond.clone(), body: inside });
        let run = map_stmts(&renamed(&run, &names), &mut |s| match (s.label(), s.instance()) {
            (Some(label), instance) => {
                s.relabelled(Label::new(format!("{label}.counted")), instance.to_vec())
            }
            (None, _) => s,
        });
        let run = refresh(&run, &mut self.func.next_id);
        let zero = fill("while.count.zero".into(), Vec::new(), cell.clone(), index(0));
        let counted = allocated(copies, Stmt::seq([zero].into_iter().chain(before).chain([run])));
        let runs = self.func.fresh_var("while.runs", Scalar::Index);
        let binder = self.func.fresh_var("while", Scalar::Index);
        let exec = Executor::Serial;
        let turned = Loop { binder, lo: index(0), hi: var(&runs), step: 1, exec, body: body.clone() };
        let body = s.with_kind(StmtKind::Loop(turned));
        let bound = Stmt::of(StmtKind::Let { binder: runs, value: load(cell), body });
        allocated([count], Stmt::seq([counted, bound]))
    }
}

/// Whether a loop may use the value that an array has before it: not so for a number that every iteration sets first.
fn has_value(b: &Buffer, cond: &Expr, body: &Stmt) -> bool {
    if !b.extents.is_empty() || buffers_of(cond).any(|x| x == b.id) {
        return true;
    }
    let mut list = Vec::new();
    flat(body, &mut list);
    let sets = |s: &Stmt| {
        s.as_store().is_some_and(|st| st.target.view.buffer() == Some(b.id))
            && !s.exprs().into_iter().flat_map(buffers_of).any(|x| x == b.id)
    };
    list.iter().find(|s| touched(s).contains(&b.id)).is_some_and(|s| !sets(s))
}
