//! What lanes gather in every iteration of a loop although it stays the same there is gathered before the loop: coordinates of sixteen
//! bodies that lie three apart, against which all others are held. Compilers leave a gather where it is as soon as the loop stores anything,
//! since they ask of no vector of addresses what it may not alias; here it is known that the loop writes no such array.

use lathe_ir::build::{divides, index, load, sub, var};
use lathe_ir::stmt::block::{self, Item};
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{
    Access, BinOp, BufId, Buffer, Executor, Expr, ExprKind, Function, Label, Layout, Loop, Param, Space,
    Status, Stmt, StmtKind, Store, VarId,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Vectors that are gathered before one loop, at most: more would not stay in registers.
const MOST: usize = 16;

/// The function with such gathers before loops.
pub fn ahead(func: &Function) -> Function {
    let mut out = func.clone();
    let body = stmt(&mut out, &func.body);
    Function { body, ..out }
}

fn stmt(func: &mut Function, s: &Stmt) -> Stmt {
    let new: Vec<Stmt> = s.children().map(|c| stmt(func, c)).collect();
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    let s = if same { s.clone() } else { s.with_children(new) };
    let serial = s.as_loop().filter(|l| l.exec == Executor::Serial).cloned();
    serial.and_then(|l| moved(func, &s, &l)).unwrap_or(s)
}

/// Gathers of one vector loop, each with the buffer that holds it.
struct Found {
    lanes: Loop,
    width: u32,
    all: Vec<(Access, Arc<Buffer>)>,
}

/// The loop with what its lanes gather alike in all iterations before it.
fn moved(func: &mut Function, s: &Stmt, l: &Loop) -> Option<Stmt> {
    let stays = Stays::of(func, l)?;
    let (mut found, mut count) = (Vec::<Found>::new(), 0);
    let items: Vec<Item> = block::flat(&l.body);
    for item in &items {
        let Item::Do(inner) = item else { continue };
        let lanes = inner.as_loop().filter(|v| v.step == 1 && v.lo.as_int().is_some() && stays.fixed(&v.hi));
        let Some((v, Executor::Vector(width))) = lanes.map(|v| (v, &v.exec)) else { continue };
        let mut all = Vec::new();
        for a in stays.gathered(v) {
            count += 1;
            if count > MOST {
                break;
            }
            let buffer = Buffer {
                id: func.fresh_buf(),
                name: format!("{}.lanes", v.binder.name).into(),
                elem: a.elem.clone(),
                extents: vec![index(i64::from(*width))],
                space: Space::Register,
                layout: Layout::row_major(),
            };
            all.push((a, Arc::new(buffer)));
        }
        if !all.is_empty() {
            found.push(Found { lanes: v.clone(), width: *width, all });
        }
    }
    if found.is_empty() {
        return None;
    }
    let places = s.places();
    let at = |b: &Buffer, v: &Loop, i: Expr| {
        let mut held = Access::buffer(b.id, b.elem.clone(), vec![sub(i, v.lo.clone())]);
        held.status = Status::Proved;
        held
    };
    let mut before = Vec::new();
    for f in &found {
        let lane = func.fresh_var(&f.lanes.binder.name, f.lanes.binder.ty);
        let here = HashMap::from([(f.lanes.binder.id, var(&lane))]);
        let copies = f.all.iter().map(|(a, b)| {
            let value = visit::substitute(&load(a.clone()), &here);
            let target = at(b, &f.lanes, var(&lane));
            Stmt::new(
                StmtKind::Store(Store::new(Label::new(&*b.name), Vec::new(), target, value)),
                places.clone(),
            )
        });
        let body = Stmt::seq(copies.collect::<Vec<_>>());
        let (lo, hi) = (f.lanes.lo.clone(), f.lanes.hi.clone());
        let copy = Loop { binder: lane, lo, hi, step: 1, exec: Executor::Vector(f.width), body };
        before.push(Stmt::new(StmtKind::Loop(copy), places.clone()));
    }
    let body = visit::map_stmts(&l.body, &mut |inner| {
        let of = |v: &Loop| found.iter().find(|f| f.lanes.binder.id == v.binder.id);
        let Some((v, f)) = inner.as_loop().and_then(|v| Some((v.clone(), of(v)?))) else { return inner };
        visit::map_exprs(&inner, &mut |e| {
            visit::map_expr(e, &mut |x| match x.kind() {
                ExprKind::Load(a) => match f.all.iter().find(|(g, _)| g == a) {
                    Some((_, b)) => load(at(b, &v, var(&v.binder))),
                    None => x,
                },
                _ => x,
            })
        })
    });
    // Without an iteration nothing may be read.
    before.push(s.with_kind(StmtKind::Loop(Loop { body, ..l.clone() })));
    let all = Stmt::seq(before);
    let some = lathe_ir::build::lt(l.lo.clone(), l.hi.clone());
    let all = match some.kind() {
        ExprKind::Bool(true) => all,
        _ => Stmt::new(StmtKind::If { cond: some, then: all, other: None }, places.clone()),
    };
    let buffers = found.into_iter().flat_map(|f| f.all).map(|(_, b)| b);
    Some(buffers.fold(all, |body, buffer| Stmt::new(StmtKind::Alloc { buffer, body }, places.clone())))
}

/// What has the same value in all iterations of a loop.
struct Stays {
    moving: HashSet<VarId>,
    /// Arrays that are distinct from all others, not written in the loop, and there before it.
    kept: HashSet<BufId>,
}

impl Stays {
    /// `None` where the loop does more than compute and store, or what is read in it may depend on a check there.
    fn of(func: &Function, l: &Loop) -> Option<Stays> {
        let mut moving = HashSet::from([l.binder.id]);
        let (mut plain, mut written) = (true, visit::local_buffers(&l.body));
        visit::walk(&l.body, &mut |s, _| {
            plain &= s.as_loop().map_or_else(
                || {
                    let computes = s.as_store().is_some() || s.as_reduce().is_some() || s.as_let().is_some();
                    computes || s.as_seq().is_some() || s.as_alloc().is_some() || s.as_if().is_some()
                },
                |l| matches!(l.exec, Executor::Serial | Executor::Unrolled | Executor::Vector(_)),
            );
            moving.extend(s.binders().iter().map(|b| b.0.id));
            written.extend(s.written().filter_map(|v| v.buffer()));
            // Where a view is written, it may be of anything.
            plain &= s.written().all(|v| v.buffer().is_some());
            plain
        });
        let mut stays = Stays { moving, kept: HashSet::new() };
        if !plain || !stays.fixed(&l.lo) || !stays.fixed(&l.hi) {
            return None;
        }
        let alone = |p: &&Param| p.alias.is_none();
        let given = func.params.iter().filter(alone).filter_map(Param::array).map(|b| b.id);
        stays.kept.extend(given.filter(|b| !written.contains(b)));
        Some(stays)
    }

    fn fixed(&self, e: &Expr) -> bool {
        let mut plain = vars_of(e).is_disjoint(&self.moving) && !divides(e);
        visit::walk_expr(e, &mut |x| plain &= !matches!(x.kind(), ExprKind::Load(_) | ExprKind::Call(..)));
        plain
    }

    /// The loads that all iterations of a vector loop make, of elements that do not lie side by side and do not change outside of it.
    fn gathered(&self, v: &Loop) -> Vec<Access> {
        let mut out = Vec::new();
        self.always(&v.body, v, &mut out);
        out
    }

    fn always(&self, s: &Stmt, v: &Loop, out: &mut Vec<Access>) {
        for item in block::flat(s) {
            match item {
                Item::Let(_, value, _) => self.evaluated(&value, v, out),
                Item::Do(s) if s.as_store().is_some() || s.as_reduce().is_some() => {
                    s.exprs().into_iter().for_each(|e| self.evaluated(e, v, out));
                }
                _ => {}
            }
        }
    }

    /// Those of an expression, without what a condition may leave out.
    fn evaluated(&self, e: &Expr, v: &Loop, out: &mut Vec<Access>) {
        match e.kind() {
            ExprKind::Select(cond, ..) => return self.evaluated(cond, v, out),
            ExprKind::Binary(BinOp::And | BinOp::Or, first, _) => return self.evaluated(first, v, out),
            ExprKind::Load(a) if self.is_gather(a, v) && !out.contains(a) => out.push(a.clone()),
            _ => {}
        }
        e.children().into_iter().for_each(|c| self.evaluated(c, v, out));
    }

    fn is_gather(&self, a: &Access, v: &Loop) -> bool {
        let lane = v.binder.id;
        let moves = |e: &Expr| vars_of(e).contains(&lane);
        let Some((last, others)) = a.indices.split_last() else { return false };
        let with: Vec<i64> = Linear::of(last).terms.iter().filter(|t| moves(&t.0)).map(|t| t.1).collect();
        let side_by_side = matches!(with[..], [1 | -1]) && !others.iter().any(moves);
        // The lane itself is bound in the loop, and nothing else may be.
        let fixed = |e: &Expr| {
            let at = HashMap::from([(lane, v.lo.clone())]);
            self.fixed(&visit::substitute(e, &at))
        };
        let held = a.view.buffer().is_some_and(|b| self.kept.contains(&b)) && a.elem.scalar().is_some();
        held && a.indices.iter().any(moves) && !side_by_side && a.indices.iter().all(fixed)
    }
}
