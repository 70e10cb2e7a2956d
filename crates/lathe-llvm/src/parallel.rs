//! Loops that the host's threads run: the body becomes a function over a range of iterations, and its
//! free names travel in a record.

use crate::emit::{Buf, Emitter, Frame, Result, unsupported};
use crate::ir::Value;
use crate::loops;
use crate::value::Leaf;
use lathe_abi::Runtime;
use lathe_diagnostics::Places;
use lathe_ir::{BufId, Expr, Loop, Stmt, VarId, visit};
use lathe_lower::addresses;
use llvm_sys::LLVMIntPredicate as I;
use std::collections::BTreeSet;
use std::mem::offset_of;

pub fn cpu_loop(e: &mut Emitter, l: &Loop, places: &Places) -> Result<()> {
    let ir = e.ir;
    if e.frame.lanes.is_some() {
        let what = format!("loop `{}` on `cpu` inside a vector loop", l.binder.name);
        return Err(unsupported(&what, places));
    }
    let what = format!("a bound of loop `{}`", l.binder.name);
    let lo = e.uniform(&l.lo, &what, places)?;
    let hi = e.uniform(&l.hi, &what, places)?;
    let some = ir.icmp(I::LLVMIntSLT, lo, hi);
    let extent = ir.sub(hi, lo);
    let trips = if l.step == 1 {
        extent
    } else {
        ir.add(ir.udiv(ir.sub(extent, ir.i64(1)), ir.i64(l.step)), ir.i64(1))
    };
    let trips = ir.select(some, trips, ir.i64(0));

    let captured = capture(e, &l.body);
    let mut record = vec![e.frame.runtime, lo];
    record.extend(captured.values());
    let env = store_record(e, &record);
    let body = outline(e, l, &captured, &record)?;

    let (ptr, i64s, i32s) = (ir.ptr_ty(), ir.int_ty(64), ir.int_ty(32));
    let ty = ir.fn_ty(i32s, &mut [ptr, i64s, ptr, ptr]);
    let (ctx, run) =
        (e.runtime_member(offset_of!(Runtime, ctx)), e.runtime_member(offset_of!(Runtime, parallel_for)));
    let status = ir.call(ty, run, &mut [ctx, trips, body, env]);
    e.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(0)), status);
    Ok(())
}

/// What a body uses of its surroundings, in a fixed order; constants need not travel.
pub struct Captured {
    pub vars: Vec<(VarId, Value)>,
    pub bufs: Vec<(BufId, Buf)>,
}

impl Captured {
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        let vars = self.vars.iter().map(|v| v.1);
        vars.chain(self.bufs.iter().flat_map(|b| std::iter::once(b.1.ptr).chain(b.1.strides.iter().copied())))
    }
}

pub fn capture(e: &Emitter, body: &Stmt) -> Captured {
    let (mut vars, mut bufs) = (BTreeSet::new(), BTreeSet::new());
    let mut note = |x: &Expr| {
        vars.extend(visit::vars_of(x));
        bufs.extend(visit::loads_of(x).iter().filter_map(addresses::buffer));
    };
    let mut targets = Vec::new();
    visit::walk(body, &mut |s, _| {
        s.exprs().into_iter().for_each(&mut note);
        targets.extend(s.touches().into_iter().filter_map(|t| t.0.buffer()));
        true
    });
    bufs.extend(targets);
    // Extents of captured buffers are needed where their layouts are applied.
    for b in bufs.iter().filter_map(|b| e.frame.bufs.get(b)) {
        b.decl.extents.iter().for_each(|x| vars.extend(visit::vars_of(x)));
    }
    let var = |v: VarId| match e.frame.vars.get(&v) {
        Some(Leaf::Uniform(x)) => Some((v, *x)),
        _ => None,
    };
    Captured {
        vars: vars.into_iter().filter_map(var).collect(),
        bufs: bufs.into_iter().filter_map(|b| Some((b, e.frame.bufs.get(&b)?.clone()))).collect(),
    }
}

/// Slots of 8 bytes in the frame, one per value that is no constant.
fn store_record(e: &mut Emitter, record: &[Value]) -> Value {
    let ir = e.ir;
    let i64s = ir.int_ty(64);
    let here = ir.here();
    ir.at_end(e.frame.allocas);
    let env = ir.alloca(ir.array_ty(i64s, record.len() as u64), 64);
    ir.at_end(here);
    for (k, v) in record.iter().enumerate() {
        if !ir.is_const(*v) {
            ir.store(e.kept(*v), ir.element_in_bounds(i64s, env, ir.i64(k as i64)), 8);
        }
    }
    env
}

/// Makes `body(env, begin, end)`. It unpacks the record and calls the function that does the work,
/// whose pointers are parameters and can be declared distinct.
fn outline(e: &mut Emitter, l: &Loop, captured: &Captured, record: &[Value]) -> Result<Value> {
    let ir = e.ir;
    let (ptr, i64s, i32s) = (ir.ptr_ty(), ir.int_ty(64), ir.int_ty(32));
    e.outlined += 1;
    let number = e.outlined;
    let here = ir.here();

    let passed: Vec<Value> = record.iter().copied().filter(|v| !ir.is_const(*v)).collect();
    let mut types: Vec<_> = passed.iter().map(|v| ir.type_of(*v)).collect();
    let n = types.len();
    types.extend([i64s, i64s]);
    let work_ty = ir.fn_ty(i32s, &mut types);
    let work = ir.function(&format!("{}work.{}.{number}", e.scope, l.binder.name), work_ty);
    ir.set_internal(work);
    e.loop_attributes(work);

    let entry = ir.function(
        &format!("{}body.{}.{number}", e.scope, l.binder.name),
        ir.fn_ty(i32s, &mut [ptr, i64s, i64s]),
    );
    ir.set_internal(entry);
    e.loop_attributes(entry);
    ir.at_end(ir.block(entry, "entry"));
    let env = ir.param(entry, 0);
    let mut args = Vec::new();
    for (k, v) in record.iter().enumerate() {
        if !ir.is_const(*v) {
            let at = ir.element_in_bounds(i64s, env, ir.i64(k as i64));
            args.push(ir.load(ir.type_of(*v), at, 8));
        }
    }
    args.extend([ir.param(entry, 1), ir.param(entry, 2)]);
    let status = ir.call(work_ty, work, &mut args);
    ir.ret(status);

    // The values of the record, as the working function sees them.
    let mut next = 0;
    let mut inside = record.iter().map(|v| {
        if ir.is_const(*v) {
            return *v;
        }
        next += 1;
        ir.param(work, next - 1)
    });
    let (Some(runtime), Some(lo)) = (inside.next(), inside.next()) else {
        return Err(crate::emit::defect("an empty record"));
    };
    let mut frame = Frame::new(ir, work, runtime);
    frame.free = Some(loops::free(e, l));
    frame.of_loop = true;
    for ((id, _), v) in
        captured.vars.iter().zip(inside.by_ref().take(captured.vars.len()).collect::<Vec<_>>())
    {
        frame.vars.insert(*id, Leaf::Uniform(v));
    }
    for (id, buf) in &captured.bufs {
        let Some(p) = inside.next() else { break };
        let strides = inside.by_ref().take(buf.strides.len()).collect();
        // What was private to the frame outside is shared by the threads inside.
        let inner = Buf { ptr: p, strides, private: false, per_lane: None, ..buf.clone() };
        frame.bufs.insert(*id, inner);
    }
    drop(inside);
    distinct_pointers(e, work, &frame);

    let code = ir.here();
    let outer = std::mem::replace(&mut e.frame, frame);
    let (begin, end) = (ir.param(work, n), ir.param(work, n + 1));
    loops::counted(e, (begin, end), (1, false), |e, k| {
        let i = ir.add_index(lo, ir.mul_index(k, ir.i64(l.step)));
        e.frame.vars.insert(l.binder.id, Leaf::Uniform(i));
        e.stmt(&l.body)
    })?;
    e.finish(code);
    e.frame = outer;
    ir.at_end(here);
    Ok(entry)
}

/// Declares pointer parameters of a function as distinct, except those of one alias class.
pub fn distinct_pointers(e: &Emitter, f: Value, frame: &Frame) {
    for buf in frame.bufs.values() {
        let aliased =
            e.func.params.iter().any(|p| p.alias.is_some() && p.array().is_some_and(|a| a.id == buf.decl.id));
        let at = e.ir.param_number(f, buf.ptr).filter(|_| !aliased);
        if let Some(at) = at {
            e.ir.attribute(f, Some(at), "noalias");
        }
    }
}
