//! Loops over nothing but one check, as they stand before a kernel whose subscripts come from data: they pass over
//! whole arrays, so vectors do it, and threads where the kernel has some. Such a loop writes nothing, and whichever
//! iteration fails, it fails with the same message: order does not matter.

use lathe_ir::build::{add, floor_div, index, lt, max, min, mul, select, sub, var};
use lathe_ir::stmt::Establishes;
use lathe_ir::visit::vars_of;
use lathe_ir::{Access, BinOp, Binder, Executor, Expr, ExprKind, Function, Loop, Stmt, StmtKind, visit};
use lathe_poly::Linear;
use std::collections::HashMap;

/// Lanes of a vector: several registers, which branch once.
const LANES: u32 = 32;
/// Checks that one thread takes at a time.
const BLOCK: i64 = 1 << 15;

/// The function with such loops cut into vectors and blocks.
pub fn in_blocks(func: &Function) -> Function {
    let mut threads = false;
    visit::walk(&func.body, &mut |s, _| {
        threads |= s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
        !threads
    });
    let mut out = func.clone();
    out.body = top(&mut out, &func.body, threads);
    out
}

/// Only where nothing but loops is around: inside there is other work to share.
fn top(func: &mut Function, s: &Stmt, threads: bool) -> Stmt {
    if s.as_seq().is_some() || s.as_alloc().is_some() {
        let inner = s.children().map(|s| top(func, s, threads)).collect();
        return s.with_children(inner);
    }
    // Rows of a loop that has threads already.
    if let Some(l) = s.as_loop().filter(|l| l.exec == Executor::Cpu && l.body.as_loop().is_some()) {
        let inner = top(func, &l.body, false);
        return s.with_children(vec![inner]);
    }
    let Some(l) = s.as_loop().filter(|l| l.step == 1 && l.exec == Executor::Serial) else { return s.clone() };
    if let Some(row) = l.body.as_loop() {
        let rows = if threads { checks_of(row, l) } else { None };
        let inner = top(func, &l.body, rows.is_some());
        return match rows {
            Some(each) if inner != l.body => in_rows(func, l, s, each, inner),
            _ => s.with_children(vec![inner]),
        };
    }
    match l.body.establishes() {
        Some(Establishes::Checked(cond)) if fits(cond, l) => spread(func, l, s, threads),
        _ => s.clone(),
    }
}

/// How many checks a nest makes in one iteration of a loop around, up to a block of them; none if each iteration makes another
/// number of them.
fn checks_of(l: &Loop, around: &Loop) -> Option<Expr> {
    if [&l.lo, &l.hi].iter().any(|e| vars_of(e).contains(&around.binder.id)) {
        return None;
    }
    let block = |n| min(n, index(BLOCK));
    let here = block(count(l));
    match l.body.as_loop() {
        None => Some(here),
        Some(inner) => Some(block(mul(here, checks_of(inner, around)?))),
    }
}

/// How often a loop runs: its bounds may be so far apart that their difference leaves 64 bits where it is empty; of any other one
/// the elements that it reads are as many.
fn count(l: &Loop) -> Expr {
    select(lt(l.lo.clone(), l.hi.clone()), sub(l.hi.clone(), l.lo.clone()), index(0))
}

/// A variable for a part of a loop.
fn fresh(func: &mut Function, l: &Loop, what: &str) -> Binder {
    func.fresh_var(format!("{}.{what}", l.binder.name), l.binder.ty)
}

/// A loop in the place of a statement.
fn part(s: &Stmt, binder: Binder, lo: Expr, hi: Expr, exec: Executor, body: Stmt) -> Stmt {
    Stmt::new(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }), s.places().clone())
}

/// Rows for the threads, as many at a time as make a block of checks, of which each row makes `each`.
fn in_rows(func: &mut Function, l: &Loop, s: &Stmt, each: Expr, inner: Stmt) -> Stmt {
    let made = |binder, lo, hi, exec, body| part(s, binder, lo, hi, exec, body);
    let block = fresh(func, l, "o");
    let rows = floor_div(index(BLOCK), max(each.clone(), index(1)));
    // Rows without checks may be any number.
    let count = select(lt(index(0), each), count(l), index(0));
    let blocks = floor_div(add(count, sub(rows.clone(), index(1))), rows.clone());
    let first = add(l.lo.clone(), mul(var(&block), rows.clone()));
    let last = min(l.hi.clone(), add(first.clone(), rows));
    let row = made(l.binder.clone(), first, last, Executor::Serial, inner);
    made(block, index(0), blocks, Executor::Cpu, row)
}

/// Lanes compute it without failing, and what they read lies side by side.
fn fits(cond: &Expr, l: &Loop) -> bool {
    let next = HashMap::from([(l.binder.id, add(var(&l.binder), index(1)))]);
    let by = |e: &Expr| {
        let step = Linear::of(&visit::substitute(e, &next)).minus(&Linear::of(e))?;
        step.as_constant()
    };
    let row = |a: &Access| match a.indices.split_last() {
        Some((last, others)) => by(last) == Some(1) && others.iter().all(|e| by(e) == Some(0)),
        None => false,
    };
    let (mut reads, mut fits) = (false, true);
    visit::walk_expr(cond, &mut |e| match e.kind() {
        ExprKind::Load(a) => {
            reads = true;
            fits &= a.view.buffer().is_some() && a.elem.scalar().is_some() && row(a);
        }
        ExprKind::Binary(BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem, ..)
        | ExprKind::Select(..)
        | ExprKind::Call(..) => fits = false,
        _ => {}
    });
    reads && fits
}

/// Blocks for the threads, in each whole vectors, and what is left of them one by one.
fn spread(func: &mut Function, l: &Loop, s: &Stmt, threads: bool) -> Stmt {
    let made = |binder, lo, hi, exec, body| part(s, binder, lo, hi, exec, body);
    let [block, vector, lane, rest] = ["o", "v", "l", "rest"].map(|what| fresh(func, l, what));
    let check = |at: Expr| {
        let here = HashMap::from([(l.binder.id, at)]);
        let exprs = l.body.exprs().into_iter().map(|e| visit::substitute(e, &here)).collect();
        l.body.with_exprs(exprs)
    };
    let (width, size) = (index(i64::from(LANES)), index(BLOCK));
    let count = count(l);
    let first = mul(var(&block), size.clone());
    let here = min(size.clone(), sub(count.clone(), first.clone()));
    let whole = floor_div(here.clone(), width.clone());
    let first = add(l.lo.clone(), first);
    let start = add(first.clone(), mul(var(&vector), width.clone()));
    let lanes = check(add(start, var(&lane)));
    let lanes = made(lane, index(0), width.clone(), Executor::Vector(LANES), lanes);
    let vectors = made(vector, index(0), whole.clone(), Executor::Serial, lanes);
    let one = check(add(first, var(&rest)));
    let one = made(rest, mul(whole, width), here, Executor::Serial, one);
    let blocks = floor_div(add(count, index(BLOCK - 1)), size);
    // One block is no work to share.
    let single = Linear::difference(&l.hi, &l.lo).is_some_and(|n| n <= BLOCK);
    let exec = if threads && !single { Executor::Cpu } else { Executor::Serial };
    made(block, index(0), blocks, exec, Stmt::seq([vectors, one]))
}
