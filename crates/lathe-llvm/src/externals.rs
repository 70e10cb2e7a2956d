//! Calls of external functions: a descriptor for each argument, in the frame, and the runtime's table.

use crate::emit::{Buf, Emitter, Result, defect, refused};
use crate::ir::Value;
use crate::memory::Place;
use crate::value::Leaf;
use lathe_abi::{Array, KernelFn, Runtime};
use lathe_diagnostics::Places;
use lathe_engine::dtype_of;
use lathe_ir::stmt::Arg;
use lathe_ir::{Access, Buffer, Name, Space, Type};
use lathe_lower::externals::{Passed, arguments};
use llvm_sys::LLVMIntPredicate as I;
use std::mem::{offset_of, size_of};

/// What a descriptor says.
struct Described {
    data: Value,
    elem: Type,
    shape: Vec<Value>,
    strides: Vec<Value>,
}

pub fn call(e: &mut Emitter, name: &Name, args: &[Arg], places: &Places) -> Result<()> {
    let ir = e.ir;
    let (place, number) = e
        .table
        .external(name)
        .ok_or_else(|| defect(format!("the external function `{name}` has no number")))?;
    let decl = |id| e.frame.bufs.get(&id).map(|b| b.decl.clone());
    let passed = arguments(e.module, name, args, &decl, places).map_err(refused)?;
    let mut all = Vec::new();
    for p in passed {
        all.push(described(e, p, places)?);
    }
    let (i64s, ptr) = (ir.int_ty(64), ir.ptr_ty());
    let table = e.runtime_member(offset_of!(Runtime, externals));
    let none = ir.icmp(I::LLVMIntEQ, table, ir.zero(ptr));
    e.fail_if(none, ir.i32(number));
    let words = size_of::<Array>() / 8;
    let record = frame_words(e, words * all.len());
    for (k, d) in all.iter().enumerate() {
        let numbers = frame_words(e, 2 * d.shape.len());
        let at = |word: usize| ir.element_in_bounds(i64s, numbers, ir.i64(word as i64));
        for (n, v) in d.shape.iter().chain(&d.strides).enumerate() {
            ir.store(*v, at(n), 8);
        }
        let set = |member: usize, v: Value, align: u64| {
            let byte = (k * size_of::<Array>() + member) as i64;
            ir.store(v, ir.element_in_bounds(ir.int_ty(8), record, ir.i64(byte)), align);
        };
        set(offset_of!(Array, data), d.data, 8);
        set(offset_of!(Array, shape), numbers, 8);
        set(offset_of!(Array, strides), at(d.shape.len()), 8);
        set(offset_of!(Array, dtype), ir.i32(dtype_of(&d.elem) as i32), 4);
        set(offset_of!(Array, rank), ir.i32(d.shape.len() as i32), 4);
        set(offset_of!(Array, elem_bytes), ir.i64(d.elem.bytes() as i64), 8);
    }
    let at = ir.element_in_bounds(ptr, table, ir.i64(place as i64));
    let function = ir.load(ptr, at, size_of::<KernelFn>() as u64);
    let ty = ir.fn_ty(ir.int_ty(32), &mut [ptr, ptr]);
    let status = ir.call(ty, function, &mut [e.frame.runtime, record]);
    e.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(lathe_abi::status::OK)), ir.i32(number));
    Ok(())
}

fn described(e: &mut Emitter, p: Passed, places: &Places) -> Result<Described> {
    let ir = e.ir;
    match p {
        Passed::Value { value, ty } => {
            let v = e.expr(&value)?;
            let data = frame_words(e, (ty.bytes() as usize).div_ceil(8));
            // An array of rank 0 at that place.
            let id = lathe_ir::BufId(u32::MAX);
            let decl = Buffer::local(id, "value", ty.clone(), Vec::new(), Space::Stack);
            let buf =
                Buf { decl, ptr: data, strides: Vec::new(), private: true, per_lane: None, fields: None };
            e.store_place(&Place::new(buf, Leaf::Uniform(ir.i64(0))), &v, false);
            Ok(Described { data, elem: ty, shape: Vec::new(), strides: Vec::new() })
        }
        Passed::Elements { buffer, elem, first, steps, extents } => {
            let access = Access::buffer(buffer, elem.clone(), first);
            let place = e.place(&access)?;
            let Some(Leaf::Uniform(offset)) = place.offset() else {
                return Err(defect("an array of lanes is passed to an external function"));
            };
            let bytes = ir.mul_index(offset, ir.i64(elem.bytes() as i64));
            let data = ir.element(ir.int_ty(8), e.kept(place.buf.ptr), bytes);
            let mut shape = Vec::new();
            for x in &extents {
                let n = e.uniform(x, "an extent", places)?;
                shape.push(ir.intrinsic("llvm.smax", &[ir.int_ty(64)], &[n, ir.i64(0)]));
            }
            let strides = place.buf.strides.iter().zip(&steps);
            let strides = strides.map(|(s, step)| ir.mul_index(*s, ir.i64(*step))).collect();
            Ok(Described { data, elem, shape, strides })
        }
    }
}

/// So many words of 8 bytes in the frame.
fn frame_words(e: &Emitter, words: usize) -> Value {
    let ir = e.ir;
    let here = ir.here();
    ir.at_end(e.frame.allocas);
    let memory = ir.alloca(ir.array_ty(ir.int_ty(64), words.max(1) as u64), 16);
    ir.at_end(here);
    memory
}
