//! Loops of unknown length that are checkpointed: their iterations are counted beforehand, on copies of the arrays that they
//! write, and become those of a loop with bounds, whose snapshots are placed as for any other.

use crate::Activity;
use crate::activity::touches_active;
use crate::arrays::{allocated, buffers_of, copy_array, fill, touched, written};
use crate::checkpoint::renamed;
use crate::sink::flat;
use lathe_ir::build::{index, load, var};
use lathe_ir::visit::{map_stmts, refresh};
use lathe_ir::{
    Access, BufId, Buffer, Executor, Expr, Function, Label, Loop, Reduce, ReduceOp, Scalar, Space, Stmt,
    StmtKind, Type,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The function with bounds for outermost loops of unknown length that have active statements.
pub fn bounded(func: &Function, act: &Activity) -> Function {
    let mut out = func.clone();
    let params: Vec<_> = func.params.iter().filter_map(|p| p.array()).cloned().collect();
    let body = Bounded { func: &mut out, act, arrays: params }.stmt(&func.body);
    Function { body, ..out }
}

struct Bounded<'f> {
    func: &'f mut Function,
    act: &'f Activity,
    /// Those in scope.
    arrays: Vec<Arc<Buffer>>,
}

impl Bounded<'_> {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let StmtKind::While { cond, body } = s.kind()
            && touches_active(body, self.act)
        {
            return self.until(s, cond, body);
        }
        if s.as_loop().is_some() {
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
            if has_value(b, cond, body) {
                before.push(copy_array(b, &copy, self.func));
            }
            names.insert(b.id, copy.id);
            copies.push(copy);
        }
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
