//! Loops whose lanes combine in order: running values of a whole vector by doubling, with shuffles in registers. What
//! they mean is written out in `lathe_ir::lower::inscan`; the bits are the same.

use crate::emit::{Emitter, Lanes, Result, unsupported};
use crate::ir::{Ir, Value};
use crate::value::Leaf;
use lathe_diagnostics::Places;
use lathe_ir::lower::{InScan, Recurrence};
use lathe_ir::visit;
use lathe_ir::{Access, BinOp, Loop, Reduce, ReduceOp, Scalar, build};
use std::collections::HashMap;

pub fn run(e: &mut Emitter, l: &Loop, width: u32, places: &Places) -> Result<()> {
    let what = |why: &str| format!("loop `{}`, whose lanes combine in order, because {why}", l.binder.name);
    let recurrence = Recurrence::parts(l);
    let scan = || InScan::parts(l, width).map_err(|why| unsupported(&what(why), places));
    if e.frame.lanes.is_some() {
        return Err(unsupported(&what("it is inside a vector loop"), places).help("vectorize one of the two"));
    }
    if let Some(r) = recurrence {
        return stored(e, l, &r, width, places);
    }
    let s = scan()?;
    let ir = e.ir;
    enter(e, l, width, places)?;
    let place = e.place(&s.reduce.targets[0])?;
    let before = e.load_place(&place);
    let added = e.scalar(&s.reduce.values[0])?.at(ir, Some(width));
    let neutral = neutral(e.ir, &s.reduce.op, s.ty).map(|n| e.ir.splat_const(n, Some(width)));
    let sums = doubled(e, s.reduce, added, neutral, width)?;
    let last = vec![Leaf::Uniform(ir.lane(sums, width - 1))];
    let after = one(e, s.reduce, &before, &last)?;
    let running = one(e, s.reduce, &before, &[Leaf::Varying(sums)])?;
    e.frame.values.insert(s.acc, vec![running]);
    let out = s.uses.iter().try_for_each(|u| e.stmt(u));
    e.frame.values.remove(&s.acc);
    e.frame.lanes = None;
    out?;
    e.store_place(&place, &vec![after], false);
    Ok(())
}

/// The iterations of a loop become lanes.
fn enter(e: &mut Emitter, l: &Loop, width: u32, places: &Places) -> Result<()> {
    let lo = e.uniform(&l.lo, "the first iteration", places)?;
    e.frame.lanes =
        Some(Lanes { width, mask: None, first: Some(i64::from(width)), count: None, maybe_empty: false });
    e.frame.vars.insert(l.binder.id, Leaf::Linear { base: lo, step: 1 });
    e.forget();
    Ok(())
}

/// What each iteration stores takes in what the one before did: by doubling among the lanes, from what was stored before them at last,
/// so that little waits for it.
fn stored(e: &mut Emitter, l: &Loop, r: &Recurrence, width: u32, places: &Places) -> Result<()> {
    let (ir, ty) = (e.ir, crate::expr::scalar_type(r.value)?);
    let (number, lanes) = (|n: i64| ir.int(ty.bytes() as u32 * 8, n), Some(width));
    let types = [r.store.target.elem.clone()];
    let most = if r.op == BinOp::Max { ReduceOp::Max } else { ReduceOp::Min };
    let both = |e: &mut Emitter, op: &ReduceOp, a: Value, b: Value| -> Result<Value> {
        let all = e.reduce(op, &types, &[vec![Leaf::Varying(a)]], &[vec![Leaf::Varying(b)]])?;
        let leaf = all.first().and_then(|v| v.first()).copied();
        Ok(leaf.ok_or_else(|| crate::emit::defect("an operator without a result"))?.at(ir, lanes))
    };
    let first = HashMap::from([(l.binder.id, l.lo.clone())]);
    let before = Access {
        indices: r.before.indices.iter().map(|i| visit::substitute(i, &first)).collect(),
        ..r.before.clone()
    };
    let before = e.scalar(&build::load(before))?.at(ir, lanes);
    enter(e, l, width, places)?;
    let mut v = e.scalar(r.value)?.at(ir, lanes);
    let mut by = 1;
    while by < width {
        let shifted = ir.shift_in(ir.splat_const(number(r.least), lanes), v, by, width);
        let added = ir.splat_const(number(r.step * i64::from(by)), lanes);
        let shifted = both(e, &ReduceOp::Sum, shifted, added)?;
        v = both(e, &most, v, shifted)?;
        by *= 2;
    }
    // At least what all lanes are: sums from there on stay in the type.
    let next = both(e, &ReduceOp::Sum, before, ir.splat_const(number(r.step), lanes))?;
    let next = both(e, &most, next, ir.splat_const(number(r.least), lanes))?;
    let mut far: Vec<Value> = (0..i64::from(width)).map(|k| number(r.step * k)).collect();
    let next = both(e, &ReduceOp::Sum, next, ir.vector(&mut far))?;
    v = both(e, &most, v, next)?;
    let place = e.place(&r.store.target)?;
    e.store_place(&place, &vec![Leaf::Varying(v)], false);
    e.frame.lanes = None;
    e.forget();
    Ok(())
}

/// What changes no bit of anything it is combined with. That is not always the identity: `-0 + 0` is `0`.
fn neutral(ir: &Ir, op: &ReduceOp, s: Scalar) -> Option<Value> {
    let plain = matches!(s, Scalar::F32 | Scalar::F64);
    let ty = ir.scalar_ty(s);
    let bits = |v: i64| ir.int(s.bytes() as u32 * 8, v);
    match op {
        ReduceOp::Sum if plain => Some(ir.float(ty, -0.0)),
        ReduceOp::Prod if plain => Some(ir.float(ty, 1.0)),
        ReduceOp::Sum if s.is_int() => Some(bits(0)),
        ReduceOp::Prod if s.is_int() => Some(bits(1)),
        ReduceOp::All if s == Scalar::Bool => Some(ir.int(1, 1)),
        ReduceOp::Any if s == Scalar::Bool => Some(ir.int(1, 0)),
        _ => None,
    }
}

/// Every lane combined with all before it. Where nothing is before, `neutral` is, or else the lane stays as it is.
fn doubled(e: &mut Emitter, r: &Reduce, mut v: Value, neutral: Option<Value>, width: u32) -> Result<Value> {
    let ir = e.ir;
    let mut by = 1;
    while by < width {
        let before = ir.shift_in(neutral.unwrap_or(v), v, by, width);
        let both = one(e, r, &[Leaf::Varying(before)], &[Leaf::Varying(v)])?.at(ir, Some(width));
        v = match neutral {
            Some(_) => both,
            None => {
                let mut lanes: Vec<Value> = (0..width).map(|l| ir.int(1, i64::from(l >= by))).collect();
                ir.select(ir.vector(&mut lanes), both, v)
            }
        };
        by *= 2;
    }
    Ok(v)
}

/// Two values of one scalar, combined.
fn one(e: &mut Emitter, r: &Reduce, a: &[Leaf], b: &[Leaf]) -> Result<Leaf> {
    let types = [r.targets[0].elem.clone()];
    let both = e.reduce(&r.op, &types, &[a.to_vec()], &[b.to_vec()])?;
    let leaf = both.first().and_then(|v| v.first()).copied();
    leaf.ok_or_else(|| crate::emit::defect("an operator without a result"))
}
