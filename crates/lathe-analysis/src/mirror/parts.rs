//! Partial results: every part of a reduction combines into elements of its own, which are combined in the end.

use super::{Check, Loads, Mirror, Staged, covered};
use crate::copy::{Copy, Place};
use crate::env::{Env, Item};
use crate::leaves::{Leaf, Role, Touch, leaves, written_buffers};
use crate::solve::{Answer, solve};
use crate::system::{Lin, gt};
use crate::translate::Builder;
use lathe_ir::{Access, BufId, Buffer, Expr, ExprKind, Loop, Reduce, ReduceOp, Stmt, StmtKind, View, build};
use std::collections::HashSet;

/// A reduction, and what becomes of it.
pub(crate) struct Parts<'a> {
    pub op: &'a ReduceOp,
    /// What combining starts from: the identity of the operator.
    pub start: &'a Expr,
    pub before: &'a Stmt,
    /// Gives all elements of the buffer that value.
    pub init: &'a Stmt,
    /// The statement with the buffer in the place of the array.
    pub used: &'a Stmt,
    /// Combines the elements of the buffer into those of the array.
    pub combine: &'a Stmt,
    /// All arrays of the reduction with their buffers.
    pub pairs: &'a [(BufId, BufId)],
}

/// Whether the array has the value in the end that it had, if the operator is associative and commutative and `start` is
/// its identity: every contribution goes to a position of its element, every such position starts from the identity, and
/// is combined into the element exactly once. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub(crate) fn partial_results(env: &Env, p: &Parts, m: &Mirror) -> Result<usize, String> {
    let s = Staged { before: p.before, enter: &[], used: p.used, leave: &[], lives_on: true };
    let check = Check { env, s: &s, m, pairs: p.pairs, written: written_buffers(p.before) };
    check.ranks()?;
    let (array, buffer) = (m.array, m.buffer);
    let mut examined = reads_apart(env, p.before, p.op, array)? + check.redirected(Loads::Kept)?;
    let of_buffer = |t: &&Touch| t.buffer == buffer.id;
    let filling = leaves(p.init, &[array.id, buffer.id].into())?;
    for l in &filling {
        let starts = l
            .stmt
            .as_store()
            .is_some_and(|st| st.target.view == View::Buffer(buffer.id) && st.value == *p.start);
        if !starts {
            return Err(format!("`{}` does not start from the identity", l.label));
        }
        examined += 1;
    }
    let filled = filling.iter().flat_map(|l| l.touches.iter().filter(of_buffer).map(move |t| (l, t, None)));
    let filled = check.positions(filled, true)?;
    let used = leaves(p.used, &[buffer.id].into())?;
    let touched = used.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t, None)));
    let touched = check.positions(touched, false)?;
    check.inside(&touched)?;
    if !covered(touched.dims, &touched.parts, &filled.parts) {
        return Err(format!("an element of `{}` may not start from the identity", buffer.name));
    }
    let unrolled = in_order(p.combine, p.op);
    let combining = leaves(unrolled.as_ref().unwrap_or(p.combine), &[array.id, buffer.id].into())?;
    for l in &combining {
        let Some(r) = l.stmt.as_reduce().filter(|r| r.op == *p.op) else {
            return Err(format!("`{}` does not combine with `{}`", l.label, p.op));
        };
        let pair = r.targets.iter().zip(&r.values).find(|(t, _)| t.view == View::Buffer(array.id));
        let Some((target, ExprKind::Load(part))) = pair.map(|(t, v)| (t, v.kind())) else {
            return Err(format!("`{}` combines something other than a partial result", l.label));
        };
        let at = part.indices.get(m.own.len()..).unwrap_or(&[]);
        if part.view != View::Buffer(buffer.id) || !check.same_element(&l.items, &target.indices, at) {
            return Err(format!("`{}` combines a partial result into a different element", l.label));
        }
        once(&l.items, &part.indices)
            .ok_or_else(|| format!("`{}` may combine a partial result twice", l.label))?;
        examined += 1;
    }
    let [_] = combining.as_slice() else {
        return Err("partial results are combined in several places".into());
    };
    let read = |t: &&Touch| t.buffer == buffer.id && t.role == Role::Read;
    let combined = combining.iter().flat_map(|l| l.touches.iter().filter(read).map(move |t| (l, t, None)));
    let combined = check.positions(combined, true)?;
    if !covered(touched.dims, &touched.parts, &combined.parts) {
        return Err(format!("a partial result of `{}` may be left uncombined", array.name));
    }
    // Positions that nothing is combined into hold the identity, if anything.
    if !covered(combined.dims, &combined.parts, &filled.parts) {
        return Err(format!("an undefined element of `{}` may be combined", buffer.name));
    }
    Ok(examined)
}

/// A tree reduction as loops that combine the same parts one after the other, which is the same if the operator is
/// associative and commutative: each level adds the upper half of the partial results to the lower
/// half, until one is left.
fn in_order(s: &Stmt, op: &ReduceOp) -> Option<Stmt> {
    if let Some(l) = s.as_loop() {
        let body = in_order(&l.body, op)?;
        return Some(s.with_kind(StmtKind::Loop(Loop { body, ..l.clone() })));
    }
    let (last, halvings) = s.as_seq()?.split_last()?;
    let r = last.as_reduce()?;
    let (mut count, mut part) = (1, None);
    for halving in halvings.iter().rev() {
        let l = halving.as_loop().filter(|l| l.step == 1 && l.lo.as_int() == Some(0))?;
        let (pairs, q) = (l.hi.as_int()?, l.body.as_reduce().filter(|q| q.op == *op)?);
        let v = build::var(&l.binder);
        let beyond = build::add(v.clone(), build::index(count));
        let same = q.targets.len() == r.values.len()
            && q.values.len() == r.values.len()
            && q.targets.iter().zip(&q.values).zip(&r.values).all(|((t, from), all)| {
                let at = |e: &Expr, part: &Expr| match e.kind() {
                    ExprKind::Load(a) => {
                        a.view == t.view
                            && a.indices.first() == Some(part)
                            && a.indices[1..] == *t.indices.get(1..).unwrap_or(&[])
                    }
                    _ => false,
                };
                t.indices.first() == Some(&v) && at(from, &beyond) && at(all, &build::index(0))
            });
        if !same || pairs < 0 || pairs > count {
            return None;
        }
        count = count.checked_add(pairs)?;
        part = Some(l);
    }
    let l = part?;
    let values = r.values.iter().map(|e| match e.kind() {
        ExprKind::Load(a) => {
            let indices =
                std::iter::once(build::var(&l.binder)).chain(a.indices[1..].iter().cloned()).collect();
            build::load(Access { indices, ..a.clone() })
        }
        _ => e.clone(),
    });
    let body = last.with_kind(StmtKind::Reduce(Reduce { values: values.collect(), ..r.clone() }));
    Some(s.with_kind(StmtKind::Loop(Loop { hi: build::index(count), body, ..l.clone() })))
}

/// Whether a statement writes an array by licensed reductions with one operator only, and reads, in whatever
/// iteration, no element of it that any iteration combines into. Gives how many pairs of accesses were examined.
///
/// # Errors
/// A message that says what could not be shown.
pub fn reads_apart(env: &Env, s: &Stmt, op: &ReduceOp, array: &Buffer) -> Result<usize, String> {
    let all = leaves(s, &[array.id].into())?;
    let of = |wanted: fn(&Role) -> bool| -> Vec<(&Leaf, &Touch)> {
        let touches = all.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t)));
        touches.filter(|(_, t)| wanted(&t.role)).collect()
    };
    let (reads, writes) = (of(|r| *r == Role::Read), of(|r| *r != Role::Read));
    let combines = |t: &Touch| matches!(&t.role, Role::Combine { op: o, licence: true, .. } if o == op);
    if !writes.iter().all(|w| combines(w.1)) {
        return Err(format!("`{}` is written by something other than a reduction with `{op}`", array.name));
    }
    let written = written_buffers(s);
    for read in &reads {
        if writes.iter().any(|write| meet(env, &written, array, *read, *write)) {
            return Err(format!("an element of `{}` that the reduction updates may be read", array.name));
        }
    }
    Ok(reads.len() * writes.len())
}

/// Whether two accesses may touch one element, each in any iteration.
fn meet(env: &Env, written: &HashSet<BufId>, array: &Buffer, a: (&Leaf, &Touch), b: (&Leaf, &Touch)) -> bool {
    let mut builder = Builder::new(written);
    let outer = builder.surroundings(env);
    let mut subscripts = |(leaf, touch): (&Leaf, &Touch)| -> Option<Vec<Lin>> {
        let mut x = Copy::new(&mut builder, &outer, leaf, &Place::of(touch));
        for (c, holds) in &touch.when {
            builder.assert(&mut x.scope, c, *holds);
        }
        let all = touch.indices.as_ref()?.iter().zip(&array.extents);
        let forms = all.map(|(e, extent)| {
            // Elements that the program touches exist.
            let (at, n) = (builder.value(&mut x.scope, e), builder.value(&mut x.scope, extent));
            builder.system.ge(&at, &Lin::default());
            builder.system.push(gt(&n, &at));
            at
        });
        Some(forms.collect())
    };
    let (Some(x), Some(y)) = (subscripts(a), subscripts(b)) else { return true };
    x.iter().zip(&y).for_each(|(x, y)| builder.system.eq(x, y));
    solve(&builder.system) != Answer::Empty
}

/// Whether different iterations have different subscripts: each is the variable of a loop, or constant, and no loop is
/// without one.
fn once(items: &[Item], at: &[Expr]) -> Option<()> {
    let mut left: HashSet<_> = items.iter().filter_map(Item::binds).collect();
    at.iter().all(|e| e.as_int().is_some() || e.as_var().is_some_and(|v| left.remove(&v))).then_some(())?;
    left.is_empty().then_some(())
}
