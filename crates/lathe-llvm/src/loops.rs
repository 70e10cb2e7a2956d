//! Loops that one thread runs: serial, written out, and lanes of a vector.

use crate::emit::{Emitter, Lanes, Result, unsupported};
use crate::interleave;
use crate::ir::Value;
use crate::unscheduled;
use crate::value::Leaf;
use lathe_diagnostics::Places;
use lathe_ir::visit::leaves_lanes;
use lathe_ir::{Expr, Loop, Stage, Stmt};
use lathe_poly::{Interval, Linear, MOST_GUARDED};
use llvm_sys::LLVMIntPredicate as I;

/// Unrolled loops longer than this are run as loops.
const MAX_UNROLL: i64 = 1 << 16;

/// Emits `body` for `lo`, `lo + step`, … below `hi`, with the current value as its argument. Where `hi + step` may not
/// fit 64 bits (`near_end`), the distance decides whether there is a next one.
pub fn counted(
    e: &mut Emitter,
    (lo, hi): (Value, Value),
    (step, near_end): (i64, bool),
    body: impl FnOnce(&mut Emitter, Value) -> Result<()>,
) -> Result<()> {
    let ir = e.ir;
    let (head, exit) = (e.block("loop"), e.block("done"));
    let before = ir.here();
    ir.cond_br(ir.icmp(I::LLVMIntSLT, lo, hi), head, exit);
    ir.at_end(head);
    let i = ir.phi(ir.int_ty(64));
    ir.incoming(i, lo, before);
    body(e, i)?;
    let next = if near_end {
        let more = ir.icmp(I::LLVMIntUGT, ir.sub(hi, i), ir.i64(step));
        ir.select(more, ir.add(i, ir.i64(step)), hi)
    } else {
        ir.add_index(i, ir.i64(step))
    };
    ir.incoming(i, next, ir.here());
    let more = ir.icmp(I::LLVMIntSLT, next, hi);
    match e.frame.free {
        Some(false) => ir.scheduled_br(more, head, exit),
        _ => ir.cond_br(more, head, exit),
    }
    ir.at_end(exit);
    Ok(())
}

fn bounds(e: &mut Emitter, l: &Loop, places: &Places) -> Result<(Value, Value)> {
    let what = format!("a bound of loop `{}`", l.binder.name);
    Ok((e.uniform(&l.lo, &what, places)?, e.uniform(&l.hi, &what, places)?))
}

/// The bounds of a loop where all lanes agree on them.
fn shared_bounds(e: &mut Emitter, l: &Loop) -> Result<std::result::Result<(Value, Value), (Leaf, Leaf)>> {
    Ok(match (e.scalar(&l.lo)?, e.scalar(&l.hi)?) {
        (Leaf::Uniform(lo), Leaf::Uniform(hi)) => Ok((lo, hi)),
        apart => Err(apart),
    })
}

/// A loop whose bounds differ between the lanes of the vector loop around: all lanes go through it together, each
/// from its own start, and those that are past their end are masked off for good (they count on, and may wrap), until
/// none is left.
fn staggered(e: &mut Emitter, l: &Loop, lanes: Lanes, (lo, hi): (Leaf, Leaf)) -> Result<()> {
    let ir = e.ir;
    let width = Some(lanes.width);
    let (head, run, exit) = (e.block("loop"), e.block("body"), e.block("done"));
    let end = hi.at(ir, width);
    let (Leaf::Uniform(start) | Leaf::Varying(start) | Leaf::Linear { base: start, .. }) = lo;
    let before = ir.here();
    let all = lanes.mask.unwrap_or_else(|| ir.splat_const(ir.int(1, 1), width));
    ir.br(head);
    ir.at_end(head);
    let at = ir.phi(ir.type_of(start));
    ir.incoming(at, start, before);
    let running = ir.phi(ir.type_of(all));
    ir.incoming(running, all, before);
    let (i, step) = match lo {
        Leaf::Uniform(_) => (Leaf::Uniform(at), ir.i64(l.step)),
        Leaf::Linear { step, .. } => (Leaf::Linear { base: at, step }, ir.i64(l.step)),
        Leaf::Varying(_) => (Leaf::Varying(at), ir.splat(ir.i64(l.step), lanes.width)),
    };
    let mask = ir.and(running, ir.icmp(I::LLVMIntSLT, i.at(ir, width), end));
    let any = e.any_lane(mask);
    ir.cond_br(any, run, exit);
    ir.at_end(run);
    e.frame.lanes = Some(Lanes { mask: Some(mask), first: None, count: None, maybe_empty: false, ..lanes });
    e.frame.vars.insert(l.binder.id, i);
    e.stmt(&l.body)?;
    ir.incoming(at, ir.add(at, step), ir.here());
    ir.incoming(running, mask, ir.here());
    ir.br(head);
    ir.at_end(exit);
    e.frame.lanes = Some(lanes);
    Ok(())
}

pub fn serial(e: &mut Emitter, l: &Loop, places: &Places) -> Result<()> {
    let (lo, hi) = match (shared_bounds(e, l)?, e.frame.lanes) {
        (Ok(bounds), _) => bounds,
        (Err(apart), Some(lanes)) => return staggered(e, l, lanes, apart),
        (Err(_), None) => bounds(e, l, places)?,
    };
    // What is left over after tiles often is one iteration.
    if constant_trips(e, l, lo, hi) == Some(1) {
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(lo));
        return e.stmt(&l.body);
    }
    let outside = e.frame.free;
    if lathe_poly::most_trips(l, &e.ranges).is_some_and(|n| n <= 1) {
        // As a loop it would have numbers that grow, and places for what does not change in it.
        let (once, done) = (e.block("once"), e.block("done"));
        e.ir.cond_br(e.ir.icmp(I::LLVMIntSLT, lo, hi), once, done);
        e.ir.at_end(once);
        e.frame.free = Some(free(e, l));
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(lo));
        e.stmt(&l.body)?;
        e.frame.free = outside;
        e.ir.br(done);
        e.ir.at_end(done);
        return Ok(());
    }
    let near_end = l.step != 1 && e.ranges.range(&l.hi).hi + i128::from(l.step) > Interval::INDEX.hi;
    e.frame.free = Some(free(e, l));
    counted(e, (lo, hi), (l.step, near_end), |e, i| {
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(i));
        e.stmt(&l.body)
    })?;
    e.frame.free = outside;
    Ok(())
}

/// Whether LLVM's passes are to make lanes and copies of the iterations of a loop and of those in it: in nests that nobody scheduled.
pub fn free(e: &Emitter, l: &Loop) -> bool {
    match e.frame.free {
        Some(true) => true,
        _ if e.frame.lanes.is_some() => false,
        None => e.func.stage == Stage::Plain || leaves_lanes(&l.body),
        Some(false) => unscheduled::apart(&l.body, &e.scheduled),
    }
}

/// The constant trip count of a loop: of its emitted bounds, or else of the difference of the
/// expressions.
fn constant_trips(e: &Emitter, l: &Loop, lo: Value, hi: Value) -> Option<i64> {
    let extent = match (e.ir.as_const(lo), e.ir.as_const(hi)) {
        (Some(a), Some(b)) => b.checked_sub(a)?,
        _ => Linear::difference(&l.hi, &l.lo)?,
    };
    Some(lathe_poly::trips_over(l, extent))
}

/// Writes the iterations one after the other. Where the trip count is not constant but small, each is
/// guarded, so that subscripts are constant all the same; else the loop is run as a loop.
pub fn unrolled(e: &mut Emitter, l: &Loop, places: &Places) -> Result<()> {
    let ir = e.ir;
    let Ok((lo, hi)) = shared_bounds(e, l)? else { return serial(e, l, places) };
    let exact = constant_trips(e, l, lo, hi);
    if e.kernel
        && (l.lo.as_int(), l.step) == (Some(0), 1)
        && let (Some(n), Some(st)) = (exact, l.body.as_store())
        && e.copied(st, Some((l.binder.id, n)))?
    {
        return Ok(());
    }
    if let Some(n) = exact
        && interleave::rows(e, l, lo, n)?
    {
        return Ok(());
    }
    let most = exact.or_else(|| lathe_poly::most_trips(l, &e.ranges).filter(|n| *n <= MOST_GUARDED));
    // The first one may be known to run.
    let some = exact.is_none() && e.ranges.lt(&l.lo, &l.hi);
    // Guarded iterations are compared with the end, so the one behind it must have a number.
    let last = |n: i64| e.ranges.range(&l.lo).hi + i128::from(n) * i128::from(l.step);
    let counts = |n: &i64| *n <= MAX_UNROLL && (exact.is_some() || last(*n) <= Interval::INDEX.hi);
    let Some(n) = most.filter(counts) else {
        return serial(e, l, places);
    };
    let done = exact.is_none().then(|| e.block("done"));
    for k in 0..n {
        let i = ir.add(lo, ir.i64(k.wrapping_mul(l.step)));
        if let Some(done) = done.filter(|_| k > 0 || !some) {
            let next = e.block("next");
            ir.cond_br(ir.icmp(I::LLVMIntSLT, i, hi), next, done);
            ir.at_end(next);
        }
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(i));
        e.stmt(&l.body)?;
    }
    if let Some(done) = done {
        ir.br(done);
        ir.at_end(done);
    }
    Ok(())
}

/// The mask of the lanes `0, step, …` below an extent that is at least 1 wherever the mask is used.
fn first_lanes(e: &Emitter, extent: Value, step: i64, width: u32) -> Value {
    let ir = e.ir;
    if e.bit_masks && step == 1 && width <= 64 {
        // Mask registers hold bits; unlike a comparison, these are not computed anew at every use.
        let most = ir.intrinsic("llvm.smin", &[ir.int_ty(64)], &[extent, ir.i64(i64::from(width))]);
        let ones = ir.lshr(ir.i64(-1), ir.sub(ir.i64(64), most));
        let bits = if width < 64 { ir.trunc(ones, ir.int_ty(width)) } else { ones };
        return ir.bitcast(bits, ir.widen(ir.int_ty(1), Some(width)));
    }
    ir.icmp(I::LLVMIntSLT, ir.ramp(step, width), ir.splat(extent, width))
}

/// The mask of the first `n` of at most 32 lanes, all or none of them included.
pub fn first_of(e: &Emitter, n: Value, width: u32) -> Value {
    let ir = e.ir;
    if e.bit_masks {
        let ones = ir.sub(ir.shl(ir.i64(1), n), ir.i64(1));
        return ir.bitcast(ir.trunc(ones, ir.int_ty(width)), ir.widen(ir.int_ty(1), Some(width)));
    }
    ir.icmp(I::LLVMIntSLT, ir.ramp(1, width), ir.splat(n, width))
}

/// The mask of a known number of lanes, fewer than there are; made once in a function. As a constant it would turn
/// masked arithmetic into arithmetic and a blend.
fn known_lanes(e: &mut Emitter, n: i64, width: u32) -> Value {
    let ir = e.ir;
    let allocas = e.frame.allocas;
    *e.frame.first_lanes.entry((n, width)).or_insert_with(|| {
        let here = ir.here();
        ir.at_end(allocas);
        let ones = ir.opaque(ir.i64((1 << n) - 1));
        let ones = if width < 64 { ir.trunc(ones, ir.int_ty(width)) } else { ones };
        let mask = ir.bitcast(ones, ir.widen(ir.int_ty(1), Some(width)));
        ir.at_end(here);
        mask
    })
}

pub fn vector(e: &mut Emitter, l: &Loop, width: u32, places: &Places) -> Result<()> {
    let ir = e.ir;
    if e.frame.lanes.is_some() {
        let what = format!("vector loop `{}` inside another vector loop", l.binder.name);
        return Err(unsupported(&what, places).help("vectorize one of the two"));
    }
    if width < 2 {
        return serial(e, l, places);
    }
    let (lo, hi) = bounds(e, l, places)?;
    let lane = Leaf::Linear { base: lo, step: l.step };
    let w = i64::from(width);
    let trips = constant_trips(e, l, lo, hi);
    let body = |e: &mut Emitter, mask: Option<Value>, count: Option<Value>| {
        e.frame.lanes = Some(Lanes { width, mask, first: trips, count, maybe_empty: false });
        e.frame.vars.insert(l.binder.id, lane);
        let out = e.stmt(&l.body);
        e.frame.lanes = None;
        out
    };
    match trips {
        Some(0) => Ok(()),
        Some(n) if n == w => body(e, None, None),
        Some(n) if n > w => {
            let what = format!("loop `{}` of {n} iterations on {w} lanes", l.binder.name);
            Err(unsupported(&what, places).help("split the loop by the number of lanes first"))
        }
        Some(n) if e.bit_masks && width <= 64 => {
            let mask = known_lanes(e, n, width);
            body(e, Some(mask), None)
        }
        Some(n) => {
            let mut lanes: Vec<Value> = (0..w).map(|k| ir.int(1, i64::from(k < n))).collect();
            body(e, Some(ir.vector(&mut lanes)), None)
        }
        None => {
            // Without an iteration, the difference may not fit 64 bits; nothing uses it then.
            let extent = ir.sub(hi, lo);
            let some = e.ranges.lt(&l.lo, &l.hi);
            if some && e.bit_masks {
                let mask = first_lanes(e, extent, l.step, width);
                return body(e, Some(mask), None);
            }
            let done = e.block("done");
            if !some {
                // Without an iteration nothing may be read, not even what is the same for all lanes.
                let lanes = e.block("lanes");
                ir.cond_br(ir.icmp(I::LLVMIntSLT, lo, hi), lanes, done);
                ir.at_end(lanes);
            }
            if !e.bit_masks {
                // Masks are dear: blocks whose lanes all run do without.
                let (full, rest) = (e.block("full"), e.block("rest"));
                ir.cond_br(ir.icmp(I::LLVMIntSGT, extent, ir.i64((w - 1) * l.step)), full, rest);
                ir.at_end(full);
                body(e, None, None)?;
                ir.br(done);
                ir.at_end(rest);
            }
            let mask = first_lanes(e, extent, l.step, width);
            body(e, Some(mask), (l.step == 1).then_some(extent))?;
            ir.br(done);
            ir.at_end(done);
            Ok(())
        }
    }
}

/// `while`: lanes drop out one by one until none is left.
pub fn while_loop(e: &mut Emitter, cond: &Expr, body: &Stmt) -> Result<()> {
    let ir = e.ir;
    let (head, run, exit) = (e.block("while"), e.block("body"), e.block("done"));
    let Some(lanes) = e.frame.lanes else {
        ir.br(head);
        ir.at_end(head);
        e.forget();
        let c = e.scalar(cond)?.at(ir, None);
        ir.cond_br(c, run, exit);
        ir.at_end(run);
        e.stmt(body)?;
        if lathe_lower::turns::waits(body) && !e.kernel {
            e.forget();
            let again = e.block("wait");
            let c = e.scalar(cond)?.at(ir, None);
            ir.cond_br(c, again, exit);
            ir.at_end(again);
            e.wait();
        }
        ir.br(head);
        ir.at_end(exit);
        return Ok(());
    };
    let all = ir.splat_const(ir.int(1, 1), Some(lanes.width));
    let start = lanes.mask.unwrap_or(all);
    let before = ir.here();
    ir.br(head);
    ir.at_end(head);
    let active = ir.phi(ir.type_of(start));
    ir.incoming(active, start, before);
    e.frame.lanes = Some(Lanes { mask: Some(active), first: None, count: None, maybe_empty: false, ..lanes });
    e.forget();
    let c = e.scalar(cond)?.at(ir, Some(lanes.width));
    let still = ir.and(active, c);
    let any = e.any_lane(c);
    ir.cond_br(any, run, exit);
    ir.at_end(run);
    e.frame.lanes = Some(Lanes { mask: Some(still), first: None, count: None, maybe_empty: false, ..lanes });
    e.stmt(body)?;
    ir.incoming(active, still, ir.here());
    ir.br(head);
    ir.at_end(exit);
    e.frame.lanes = Some(lanes);
    Ok(())
}
