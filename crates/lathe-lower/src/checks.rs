//! Loops over nothing but one check, as they stand before a kernel whose subscripts come from data: they pass over
//! whole arrays, so vectors do it, and threads where the kernel has some. Such a loop writes nothing, and whichever
//! iteration fails, it fails with the same message: order does not matter.

use lathe_ir::build::{add, floor_div, index, lt, min, mul, select, sub, var};
use lathe_ir::stmt::Establishes;
use lathe_ir::{Access, BinOp, Executor, Expr, ExprKind, Function, Loop, Stmt, StmtKind, visit};
use lathe_poly::Linear;
use std::collections::HashMap;

/// Lanes of a vector: several registers, which branch once.
const LANES: u32 = 32;
/// Iterations that one thread takes at a time.
const BLOCK: i64 = 1 << 16;

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
    let plain = s.as_loop().filter(|l| l.step == 1 && l.exec == Executor::Serial);
    // A split loop: the threads have the outer one already, or none.
    if plain.is_some_and(|l| l.body.as_loop().is_some()) {
        let inner = s.children().map(|s| top(func, s, false)).collect();
        return s.with_children(inner);
    }
    let check = plain.and_then(|l| Some((l, l.body.establishes()?)));
    match check {
        Some((l, Establishes::Checked(cond))) if fits(cond, l) => spread(func, l, s, threads),
        _ => s.clone(),
    }
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
    let made = |binder, lo, hi, exec, body| {
        Stmt::new(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }), s.places().clone())
    };
    let mut fresh = |what: &str| func.fresh_var(format!("{}.{what}", l.binder.name), l.binder.ty);
    let (block, vector, lane, rest) = (fresh("o"), fresh("v"), fresh("l"), fresh("rest"));
    let check = |at: Expr| {
        let here = HashMap::from([(l.binder.id, at)]);
        let exprs = l.body.exprs().into_iter().map(|e| visit::substitute(e, &here)).collect();
        l.body.with_exprs(exprs)
    };
    let (width, size) = (index(i64::from(LANES)), index(BLOCK));
    // Bounds of an empty loop may be so far apart that their difference leaves 64 bits; of any other one the elements
    // that it reads are as many.
    let count = select(lt(l.lo.clone(), l.hi.clone()), sub(l.hi.clone(), l.lo.clone()), index(0));
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
    let exec = if threads { Executor::Cpu } else { Executor::Serial };
    made(block, index(0), blocks, exec, Stmt::seq([vectors, one]))
}
