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

/// Longer rows than this are loops of their own.
const MAX_ROW: i64 = 64;

/// Emits a written-out loop of `n` iterations from `lo` as whole stores, if lanes fill such rows; `false` if they do not,
/// and then nothing was stored.
///
/// Rows that lie next to each other and are no longer than a vector are stored together. Else they are transposed in
/// squares of as many iterations as there are lanes, which registers hold; of the rest, which fills a part of a vector,
/// each lane's row is stored alone.
///
/// Values are read after others are stored, so the target must be a buffer that nothing else names and that the values do
/// not mention.
pub fn rows(e: &mut Emitter, l: &Loop, lo: Value, n: i64) -> Result<bool> {
    let Some(lanes) = e.frame.lanes.filter(|l| l.mask.is_none()) else { return Ok(false) };
    let Some(st) = l.body.as_store() else { return Ok(false) };
    let width = i64::from(lanes.width);
    if l.step != 1 || !(2..=MAX_ROW).contains(&n) || !lanes.width.is_power_of_two() {
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
    let Some(Leaf::Linear { base, step }) = place.offset() else { return Ok(false) };
    // Rows that overlap would be stored in another order.
    if step < n {
        return Ok(false);
    }
    let store = |v: Value, at: i64| {
        let at = ir.add_index(base, ir.i64(at));
        ir.store(v, ir.element(ir.memory_ty(s), place.buf.ptr, at), s.bytes());
    };
    let mut done = 0;
    while done < n {
        let count = (n - done).min(width);
        let row = (count as u64).next_power_of_two() as i64;
        let mut vectors = Vec::with_capacity(row as usize);
        for k in done..done + count {
            e.frame.vars.insert(l.binder.id, Leaf::Uniform(ir.add_index(lo, ir.i64(k))));
            e.forget();
            vectors.push(e.scalar(&st.value)?.at(ir, Some(lanes.width)));
        }
        // What is beyond the end of a row is not stored.
        vectors.resize(row as usize, ir.poison(ir.type_of(vectors[0])));
        let half = vectors.len() / 2;
        for _ in 0..row.trailing_zeros() {
            let (low, high) = vectors.split_at(half);
            vectors = low.iter().zip(high).flat_map(|(a, b)| ir.merge(*a, *b, lanes.width)).collect();
        }
        for (j, v) in (0..).zip(vectors) {
            if step == row && count == row {
                store(v, j * width);
                continue;
            }
            for lane in 0..width / row {
                for (from, size) in powers(count) {
                    let at = (j * width / row + lane) * step + done + from;
                    store(part(e, v, lane * row + from, size, width), at);
                }
            }
        }
        done += count;
    }
    Ok(true)
}

/// Lanes of a vector: a vector of their number, or a scalar.
fn part(e: &Emitter, v: Value, from: i64, size: i64, width: i64) -> Value {
    match size {
        _ if size == width => v,
        1 => e.ir.lane(v, from as u32),
        _ => e.ir.shuffle(v, v, (from..from + size).map(|l| l as u32)),
    }
}

/// A number as powers of two, the largest first: where each begins, and how large it is.
fn powers(n: i64) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    let mut from = 0;
    for bit in (0..i64::BITS - 1).rev().map(|b| 1 << b).filter(|b| n & b != 0) {
        out.push((from, bit));
        from += bit;
    }
    out
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
