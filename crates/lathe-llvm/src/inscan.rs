//! Loops whose lanes combine in order: running values of a whole vector by doubling, with shuffles in registers. What
//! they mean is written out in `lathe_ir::lower::inscan`; the bits are the same.

use crate::emit::{Emitter, Lanes, Result, unsupported};
use crate::ir::{Ir, Value};
use crate::value::Leaf;
use lathe_diagnostics::Places;
use lathe_ir::lower::InScan;
use lathe_ir::{Loop, Reduce, ReduceOp, Scalar};

pub fn run(e: &mut Emitter, l: &Loop, width: u32, places: &Places) -> Result<()> {
    let what = |why: &str| format!("loop `{}`, whose lanes combine in order, because {why}", l.binder.name);
    let s = InScan::parts(l, width).map_err(|why| unsupported(&what(why), places))?;
    if e.frame.lanes.is_some() {
        return Err(unsupported(&what("it is inside a vector loop"), places).help("vectorize one of the two"));
    }
    let ir = e.ir;
    let lo = e.uniform(&l.lo, "the first iteration", places)?;
    e.frame.lanes =
        Some(Lanes { width, mask: None, first: Some(i64::from(width)), count: None, maybe_empty: false });
    e.frame.vars.insert(l.binder.id, Leaf::Linear { base: lo, step: 1 });
    e.forget();
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
