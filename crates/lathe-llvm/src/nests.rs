//! Functions with many nests: each nest becomes a function of its own, because passes and register allocation of LLVM take
//! more than twice as long for a function that is twice as long.

use crate::emit::{Buf, Emitter, Frame, Result};
use crate::loops;
use crate::parallel::{capture, distinct_pointers};
use crate::value::Leaf;
use lathe_ir::{Function, Loop, Stmt, visit};
use llvm_sys::LLVMIntPredicate as I;

/// So many nests are in one function; a call costs a few nanoseconds, a nest of code about a millisecond.
const MANY: usize = 24;

/// Whether a function has many nests.
pub fn many(func: &Function) -> bool {
    let mut nests = 0;
    visit::walk(&func.body, &mut |s, _| {
        nests += usize::from(s.as_loop().is_some());
        s.as_loop().is_none() && nests <= MANY
    });
    nests > MANY
}

/// A nest as a function of what it uses, and a call of it.
pub fn apart(e: &mut Emitter, s: &Stmt, l: &Loop) -> Result<()> {
    let ir = e.ir;
    let captured = capture(e, s);
    let values: Vec<_> = std::iter::once(e.frame.runtime).chain(captured.values()).collect();
    let mut args: Vec<_> = values.iter().copied().filter(|v| !ir.is_const(*v)).collect();
    let mut types: Vec<_> = args.iter().map(|v| ir.type_of(*v)).collect();
    let ty = ir.fn_ty(ir.int_ty(32), &mut types);
    e.outlined += 1;
    let f = ir.function(&format!("{}nest.{}.{}", e.scope, l.binder.name, e.outlined), ty);
    ir.set_internal(f);
    e.loop_attributes(f);
    ir.attribute(f, None, "noinline");

    let here = ir.here();
    let mut next = 0;
    let mut inside = |v| {
        if ir.is_const(v) {
            return v;
        }
        next += 1;
        ir.param(f, next - 1)
    };
    let runtime = inside(e.frame.runtime);
    let mut frame = Frame::new(ir, f, runtime);
    frame.of_loop = true;
    frame.free = Some(loops::free(e, l));
    for (id, v) in &captured.vars {
        frame.vars.insert(*id, Leaf::Uniform(inside(*v)));
    }
    for (id, buf) in &captured.bufs {
        let ptr = inside(buf.ptr);
        let strides = buf.strides.iter().map(|s| inside(*s)).collect();
        frame.bufs.insert(*id, Buf { ptr, strides, ..buf.clone() });
    }
    distinct_pointers(e, f, &frame);
    let code = ir.here();
    let outer = std::mem::replace(&mut e.frame, frame);
    e.run_loop(l, s.places())?;
    e.finish(code);
    e.frame = outer;
    ir.at_end(here);
    args.iter_mut().for_each(|v| *v = e.kept(*v));
    let status = ir.call(ty, f, &mut args);
    e.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(0)), status);
    Ok(())
}
