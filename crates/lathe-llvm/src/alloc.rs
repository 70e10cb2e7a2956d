//! Local buffers: in the frame, or scratch memory of the runtime.

use crate::emit::{Buf, Emitter, Fields, Result, refused, unsupported};
use crate::ir::Value;
use crate::memory::{self, PADDING};
use lathe_abi::{Runtime, status};
use lathe_diagnostics::Places;
use lathe_ir::{Buffer, Space, Stmt, lower};
use lathe_lower::pitches::MAX_FRAME;
use llvm_sys::LLVMIntPredicate as I;
use std::mem::offset_of;
use std::sync::Arc;

pub fn alloc(e: &mut Emitter, buffer: &Arc<Buffer>, body: &Stmt, places: &Places) -> Result<()> {
    let storage = lower::storage(buffer).map_err(refused)?;
    let mut strides = Vec::new();
    for s in &storage.strides {
        strides.push(e.uniform(s, "an extent", places)?);
    }
    let count = storage.extents.iter().try_fold(1u64, |n, x| n.checked_mul(x.as_int()?.max(0) as u64));
    let lanes = e.width().map_or(1, u64::from);
    let in_frame = match buffer.space {
        Space::Stack | Space::Register => true,
        _ if e.kernel => true,
        Space::Host => e.width().is_some(),
        other => {
            let what = format!("buffer `{}` in space `{}`", buffer.name, other.name());
            return Err(unsupported(&what, places).help("CPUs have `host`, `stack` and `register`"));
        }
    };
    let bytes = count.and_then(|n| n.checked_mul(buffer.elem.bytes())?.checked_mul(lanes));
    match (count, bytes) {
        (Some(count), Some(bytes)) if in_frame && (bytes <= MAX_FRAME || e.kernel) => {
            let fields = buffer.elem.scalar().is_none().then(|| Fields {
                count: padded(buffer, count * lanes),
                padding: padding(buffer, count * lanes),
            });
            let ptr = stack(e, buffer, count * lanes, fields);
            let per_lane = e.width();
            let buf = Buf { decl: buffer.clone(), ptr, strides, private: true, per_lane, fields };
            e.frame.bufs.insert(buffer.id, buf);
            return e.stmt(body);
        }
        _ if e.width().is_some() => {
            let what = format!("buffer `{}` of unknown size inside a vector loop", buffer.name);
            return Err(
                unsupported(&what, places).help("allocate it outside of the loop, with one more dimension")
            );
        }
        _ if e.kernel => {
            return Err(unsupported(
                &format!("buffer `{}` of unknown size in a kernel", buffer.name),
                places,
            ));
        }
        _ => {}
    }
    let mut extents = Vec::new();
    for x in &storage.extents {
        extents.push(e.uniform(x, "an extent", places)?);
    }
    let ptr = scratch(e, &extents, buffer.elem.bytes());
    let decl = buffer.clone();
    let buf = Buf { decl, ptr, strides, private: false, per_lane: None, fields: None };
    e.frame.bufs.insert(buffer.id, buf);
    e.frame.scratch.push(ptr);
    if e.apart && !e.frame.of_loop {
        e.keep(ptr);
    }
    e.stmt(body)?;
    e.done_with_scratch();
    e.free(ptr);
    Ok(())
}

/// Elements before and after those of a buffer: lanes can only be apart in a buffer with a dimension, be it of one
/// element.
fn padding(buffer: &Buffer, count: u64) -> u64 {
    if count > 1 || !buffer.extents.is_empty() { PADDING } else { 0 }
}

fn padded(buffer: &Buffer, count: u64) -> u64 {
    count.max(1) + 2 * padding(buffer, count)
}

/// Memory of the frame. Arrays are padded on both sides, so that a vector access of which one lane is
/// inside touches nothing else.
fn stack(e: &mut Emitter, buffer: &Buffer, count: u64, fields: Option<Fields>) -> Value {
    let ir = e.ir;
    let padding = padding(buffer, count);
    let n = padded(buffer, count);
    let (ty, n, align) = match (buffer.elem.scalar(), fields) {
        (Some(s), _) => (ir.memory_ty(s), n, if padding > 0 { 64 } else { s.bytes() }),
        (None, Some(f)) => (ir.int_ty(8), memory::fields_bytes(&buffer.elem, f.count).max(1), 64),
        (None, None) => (ir.int_ty(8), n * buffer.elem.bytes().max(1), 64),
    };
    let here = ir.here();
    ir.at_end(e.frame.allocas);
    let whole = ir.alloca(ir.array_ty(ty, n), align);
    let skip = match fields {
        Some(_) => 0,
        None if buffer.elem.scalar().is_some() => padding,
        None => padding * buffer.elem.bytes(),
    };
    let ptr = ir.element_in_bounds(ty, whole, ir.i64(skip as i64));
    ir.at_end(here);
    ptr
}

/// Memory of the runtime, for a product of extents that is checked against overflow.
fn scratch(e: &mut Emitter, extents: &[Value], elem_bytes: u64) -> Value {
    let ir = e.ir;
    let (i64s, ptr) = (ir.int_ty(64), ir.ptr_ty());
    let mut bytes = ir.i64(elem_bytes as i64);
    let mut overflows = ir.int(1, 0);
    for x in extents {
        let x = ir.intrinsic("llvm.smax", &[i64s], &[*x, ir.i64(0)]);
        let both = ir.intrinsic("llvm.smul.with.overflow", &[i64s], &[bytes, x]);
        bytes = ir.extract_value(both, 0);
        overflows = ir.or(overflows, ir.extract_value(both, 1));
    }
    e.fail_if(overflows, ir.i32(status::SIZE_OVERFLOW));
    // A buffer without elements still has an address.
    let bytes = ir.intrinsic("llvm.smax", &[i64s], &[bytes, ir.i64(1)]);
    let ty = ir.fn_ty(ptr, &mut [ptr, i64s]);
    let (ctx, alloc) =
        (e.runtime_member(offset_of!(Runtime, ctx)), e.runtime_member(offset_of!(Runtime, alloc)));
    let memory = ir.call(ty, alloc, &mut [ctx, bytes]);
    let null = ir.icmp(I::LLVMIntEQ, memory, ir.zero(ptr));
    e.fail_if(null, ir.i32(status::OUT_OF_MEMORY));
    memory
}
