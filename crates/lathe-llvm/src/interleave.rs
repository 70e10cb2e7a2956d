//! Lanes that each fill a short row of their own, side by side in memory: the transposing copies of packing.
//!
//! `for k vector(16) { for i in 0..8 unrolled { P[k, i] = A[i, k] } }` would scatter eight times with stride 8. All
//! lanes together fill one contiguous block, so the eight vectors are interleaved in registers and stored whole.
//! Interleaving n = 2^m vectors takes m rounds; a round merges vector i with vector i + n/2, and the two halves of
//! each merge become neighbours (a perfect shuffle).

use crate::emit::{Emitter, Result};
use crate::ir::Value;
use crate::value::Leaf;
use lathe_ir::{ExprKind, Loop, Scalar, Store, VarId, visit};
use lathe_lower::addresses;
use lathe_poly::Linear;

/// Rows longer than this would not stay in registers.
const MAX_ROW: i64 = 16;

/// Emits a written-out loop of `n` iterations from `lo` as whole stores, if it fills such rows; `false` if it does not,
/// and then nothing was stored.
///
/// All values are read before the first is stored, so the target must be a buffer that nothing else names and that the
/// values do not mention.
pub fn rows(e: &mut Emitter, l: &Loop, lo: Value, n: i64) -> Result<bool> {
    let Some(lanes) = e.frame.lanes.filter(|l| l.mask.is_none()) else { return Ok(false) };
    let Some(st) = l.body.as_store() else { return Ok(false) };
    if l.step != 1
        || !(2..=MAX_ROW).contains(&n)
        || !(n as u64).is_power_of_two()
        || !lanes.width.is_power_of_two()
    {
        return Ok(false);
    }
    let Some(s) = owned_target(e, st) else { return Ok(false) };
    let ir = e.ir;
    e.frame.vars.insert(l.binder.id, Leaf::Uniform(lo));
    e.forget();
    if !grows_by_one(e, st, l.binder.id) {
        return Ok(false);
    }
    let place = e.place(&st.target)?;
    let Leaf::Linear { base, step } = place.offset() else { return Ok(false) };
    if step != n {
        return Ok(false);
    }
    let mut vectors = Vec::with_capacity(n as usize);
    for k in 0..n {
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(ir.add_index(lo, ir.i64(k))));
        e.forget();
        vectors.push(e.scalar(&st.value)?.at(ir, Some(lanes.width)));
    }
    let half = vectors.len() / 2;
    for _ in 0..n.trailing_zeros() {
        let (low, high) = vectors.split_at(half);
        vectors = low.iter().zip(high).flat_map(|(a, b)| ir.merge(*a, *b, lanes.width)).collect();
    }
    for (j, v) in vectors.into_iter().enumerate() {
        let at = ir.add_index(base, ir.i64(j as i64 * i64::from(lanes.width)));
        ir.store(v, ir.element(ir.memory_ty(s), place.buf.ptr, at), s.bytes());
    }
    Ok(true)
}

/// The scalar type of a target that belongs to this function alone and is not read by the value.
fn owned_target(e: &Emitter, st: &Store) -> Option<Scalar> {
    let id = addresses::buffer(&st.target)?;
    let s = st.target.elem.scalar().filter(|s| *s != Scalar::Bool)?;
    let given = e.func.params.iter().any(|p| p.array().is_some_and(|a| a.id == id));
    let per_lane = e.frame.bufs.get(&id).is_none_or(|b| b.per_lane.is_some());
    let mut harmless = true;
    visit::walk_expr(&st.value, &mut |x| match x.kind() {
        ExprKind::Load(a) => harmless &= addresses::buffer(a).is_some_and(|b| b != id),
        ExprKind::Call(..) => harmless = false,
        _ => {}
    });
    (!given && !per_lane && !st.nontemporal && harmless).then_some(s)
}

/// Whether the next iteration writes the next element in memory.
fn grows_by_one(e: &Emitter, st: &Store, var: VarId) -> bool {
    let buf = addresses::buffer(&st.target).and_then(|b| e.frame.bufs.get(&b));
    let Some((buf, (last, others))) = buf.zip(st.target.indices.split_last()) else { return false };
    let form = Linear::of(last);
    let moves: Vec<_> = form.terms.iter().filter(|(atom, _)| visit::vars_of(atom).contains(&var)).collect();
    let one = moves == [&(lathe_ir::build::var_id(var, Scalar::Index), 1)];
    let unit = buf.strides.last().is_some_and(|s| e.ir.as_const(*s) == Some(1));
    one && unit && others.iter().all(|i| !visit::vars_of(i).contains(&var))
}
