//! The entry of a kernel: reads the descriptors, makes the checks, and runs the body for the shape of
//! memory that it found.

use crate::emit::{Buf, Emitter, Frame, Result, defect};
use crate::ir::{Ir, Ty, Value};
use crate::loops;
use crate::parallel::distinct_pointers;
use crate::value::Leaf;
use lathe_abi::{CheckKind, MAX_EXTENT, status};
use lathe_diagnostics::Places;
use lathe_engine::checks::element_type;
use lathe_engine::{CheckTable, dtype_of};
use lathe_ir::{Function, Module, ParamKind, Scalar};
use lathe_poly::Ranges;
use lathe_poly::sizes::{LARGEST, SizeSource};
use llvm_sys::LLVMIntPredicate as I;
use std::collections::HashMap;

/// What to generate, beside the function itself.
pub struct Target<'a> {
    pub cpu: &'a str,
    pub features: &'a str,
    pub x86: bool,
    pub bit_masks: bool,
    pub vscale: u32,
    pub unit_strides_only: bool,
}

/// The fields of one descriptor, loaded.
struct Descriptor {
    data: Value,
    shape: Vec<Value>,
    strides: Vec<Value>,
}

/// Emits a function of the tree under its own name.
///
/// # Errors
/// On constructs that this engine does not take.
pub fn emit(ir: &Ir, module: &Module, func: &Function, table: &CheckTable, target: &Target) -> Result<()> {
    let ptr = ir.ptr_ty();
    let ty = ir.fn_ty(ir.int_ty(32), &mut [ptr, ptr]);
    let function = ir.function(&func.name, ty);
    let frame = Frame::new(ir, function, ir.param(function, 0));
    let code = ir.here();
    let mut e = Emitter {
        ir,
        module,
        func,
        table,
        machine: (target.cpu, target.features),
        x86: target.x86,
        bit_masks: target.bit_masks,
        vscale: target.vscale,
        frame,
        ranges: Ranges::of_function(func),
        physical: HashMap::new(),
        outlined: 0,
    };
    e.function_attributes(function);
    ir.attribute(function, Some(1), "noalias");
    let descriptors = prologue(&mut e)?;
    dispatch(&mut e, &descriptors, target.unit_strides_only)?;
    e.finish(code);
    Ok(())
}

/// Makes the checks in the table's order.
fn prologue(e: &mut Emitter) -> Result<Vec<Descriptor>> {
    let (ir, func, table) = (e.ir, e.func, e.table);
    let version = ir.load(ir.int_ty(64), e.frame.runtime, 8);
    let other = ir.icmp(I::LLVMIntNE, version, ir.i64(i64::from(lathe_abi::VERSION)));
    e.fail_if(other, ir.i32(status::ABI));
    let args = ir.param(e.frame.function, 1);
    let size = std::mem::size_of::<lathe_abi::Array>() as i64;
    let field = |param: usize, at: usize, ty: Ty, align: u64| {
        let at = ir.i64(param as i64 * size + at as i64);
        ir.load(ty, ir.element(ir.int_ty(8), args, at), align)
    };
    let (i32s, i64s, ptr) = (ir.int_ty(32), ir.int_ty(64), ir.ptr_ty());
    use std::mem::offset_of;
    let mut descriptors: Vec<Descriptor> = (0..func.params.len())
        .map(|p| Descriptor {
            data: field(p, offset_of!(lathe_abi::Array, data), ptr, 8),
            shape: Vec::new(),
            strides: Vec::new(),
        })
        .collect();
    for (number, check) in table.entries.iter().enumerate() {
        let number = ir.i32(number as i32 + 1);
        match check {
            CheckKind::Dtype { param } => {
                let ty = element_type(&func.params[*param].kind);
                let code = field(*param, offset_of!(lathe_abi::Array, dtype), i32s, 4);
                let bytes = field(*param, offset_of!(lathe_abi::Array, elem_bytes), i64s, 8);
                let bad_code = ir.icmp(I::LLVMIntNE, code, ir.i32(dtype_of(&ty) as i32));
                let bad_size = ir.icmp(I::LLVMIntNE, bytes, ir.i64(ty.bytes() as i64));
                e.fail_if(ir.or(bad_code, bad_size), number);
            }
            CheckKind::Rank { param } => {
                let rank = func.params[*param].array().map_or(0, |b| b.extents.len());
                let given = field(*param, offset_of!(lathe_abi::Array, rank), i32s, 4);
                e.fail_if(ir.icmp(I::LLVMIntNE, given, ir.i32(rank as i32)), number);
                let shape = field(*param, offset_of!(lathe_abi::Array, shape), ptr, 8);
                let strides = field(*param, offset_of!(lathe_abi::Array, strides), ptr, 8);
                for d in 0..rank as i64 {
                    let at = |base| ir.load(i64s, ir.element(i64s, base, ir.i64(d)), 8);
                    descriptors[*param].shape.push(at(shape));
                    descriptors[*param].strides.push(at(strides));
                }
            }
            CheckKind::Size { param, dim } => {
                let bytes = element_type(&func.params[*param].kind).bytes();
                let (x, stride) = (descriptors[*param].shape[*dim], descriptors[*param].strides[*dim]);
                let most = ir.i64(MAX_EXTENT);
                let bad_extent = ir.icmp(I::LLVMIntUGT, x, most);
                let steps = ir.intrinsic("llvm.smax", &[i64s], &[ir.sub(x, ir.i64(1)), ir.i64(0)]);
                let stride = ir.intrinsic("llvm.abs", &[i64s], &[stride, ir.int(1, 0)]);
                let elements = ir.intrinsic("llvm.umul.with.overflow", &[i64s], &[steps, stride]);
                let distance = ir.extract_value(elements, 0);
                let span =
                    ir.intrinsic("llvm.umul.with.overflow", &[i64s], &[distance, ir.i64(bytes as i64)]);
                let mut bad = ir.or(bad_extent, ir.extract_value(elements, 1));
                bad = ir.or(bad, ir.extract_value(span, 1));
                bad = ir.or(bad, ir.icmp(I::LLVMIntUGT, ir.extract_value(span, 0), most));
                e.fail_if(bad, number);
            }
            CheckKind::Shape { param, dim } => {
                let declared = func.params[*param].array().and_then(|b| b.extents.get(*dim));
                let declared = declared.ok_or_else(|| defect("a check of an extent that is not there"))?;
                load_sizes(e, &descriptors);
                load_scalars(e, &descriptors);
                let declared = e.uniform(declared, "an extent", &Places::none())?;
                let given = descriptors[*param].shape[*dim];
                e.fail_if(ir.icmp(I::LLVMIntNE, given, declared), number);
            }
            // All at once below: they are the last before those of the body.
            CheckKind::Overlap { .. } | CheckKind::User { .. } => {}
        }
    }
    overlaps(e, &descriptors)?;
    load_sizes(e, &descriptors);
    load_scalars(e, &descriptors);
    Ok(descriptors)
}

/// Binds the sizes, once all extents are known to be in range (see [`lathe_poly::sizes::Equation::solve`]).
fn load_sizes(e: &mut Emitter, descriptors: &[Descriptor]) {
    let ir = e.ir;
    for SizeSource { param, dim, equation } in &e.table.sizes {
        if e.frame.vars.contains_key(&equation.size) {
            continue;
        }
        let mut n = descriptors[*param].shape[*dim];
        if !equation.is_plain() {
            n = ir.sub(n, ir.i64(equation.plus));
            for (v, k) in &equation.others {
                if let Some(Leaf::Uniform(other)) = e.frame.vars.get(v) {
                    n = ir.sub(n, ir.mul(*other, ir.i64(*k)));
                }
            }
            n = ir.sdiv(n, ir.i64(equation.times));
            n = ir.intrinsic("llvm.smax", &[ir.int_ty(64)], &[n, ir.i64(0)]);
            n = ir.intrinsic("llvm.smin", &[ir.int_ty(64)], &[n, ir.i64(LARGEST)]);
        }
        e.frame.vars.insert(equation.size, Leaf::Uniform(n));
    }
}

/// Binds the scalar parameters, once all descriptors are known to be right.
fn load_scalars(e: &mut Emitter, descriptors: &[Descriptor]) {
    let (ir, func) = (e.ir, e.func);
    for (p, d) in func.params.iter().zip(descriptors) {
        let ParamKind::Scalar(b) = &p.kind else { continue };
        if e.frame.vars.contains_key(&b.id) {
            continue;
        }
        let v = ir.load(ir.memory_ty(b.ty), d.data, b.ty.bytes());
        let v = if b.ty == Scalar::Bool { ir.icmp(I::LLVMIntNE, v, ir.int(8, 0)) } else { v };
        e.frame.vars.insert(b.id, Leaf::Uniform(v));
    }
}

/// From this many pairs on, the overlap checks are a loop over a table, since they grow with the square of the number
/// of parameters.
const TABLE_OF_PAIRS: usize = 32;

/// Makes all overlap checks of the table, in its order.
fn overlaps(e: &mut Emitter, descriptors: &[Descriptor]) -> Result<()> {
    let (ir, func, table) = (e.ir, e.func, e.table);
    let pairs: Vec<(usize, usize, i32)> = (1..)
        .zip(&table.entries)
        .filter_map(|(number, c)| match c {
            CheckKind::Overlap { a, b } => Some((*a, *b, number)),
            _ => None,
        })
        .collect();
    let mut ranges = HashMap::new();
    for p in pairs.iter().flat_map(|p| [p.0, p.1]) {
        ranges.entry(p).or_insert_with(|| byte_range(e, &descriptors[p], func, p));
    }
    let meet = |a: (Value, Value), b: (Value, Value)| {
        ir.and(ir.icmp(I::LLVMIntULT, a.0, b.1), ir.icmp(I::LLVMIntULT, b.0, a.1))
    };
    if pairs.len() < TABLE_OF_PAIRS {
        for (a, b, number) in pairs {
            e.fail_if(meet(ranges[&a], ranges[&b]), ir.i32(number));
        }
        return Ok(());
    }
    let (i32s, i64s) = (ir.int_ty(32), ir.int_ty(64));
    let here = ir.here();
    ir.at_end(e.frame.allocas);
    let held = ir.alloca(ir.array_ty(i64s, 2 * descriptors.len() as u64), 8);
    ir.at_end(here);
    let mut params: Vec<_> = ranges.into_iter().collect();
    params.sort_by_key(|p| p.0);
    for (p, (lo, hi)) in params {
        for (k, v) in [lo, hi].into_iter().enumerate() {
            ir.store(v, ir.element(i64s, held, ir.i64(2 * p as i64 + k as i64)), 8);
        }
    }
    let flat: Vec<Value> =
        pairs.iter().flat_map(|(a, b, number)| [*a as i32, *b as i32, *number]).map(|v| ir.i32(v)).collect();
    let pairs_table = ir.constant_array("pairs", i32s, &flat);
    loops::counted(e, (ir.i64(0), ir.i64(pairs.len() as i64)), (1, false), |e, i| {
        let entry = |k: i64| {
            ir.load(
                i32s,
                ir.element(i32s, pairs_table, ir.add_index(ir.mul_index(i, ir.i64(3)), ir.i64(k))),
                4,
            )
        };
        let range = |p: Value| {
            let at = ir.mul_index(ir.sext(p, i64s), ir.i64(2));
            let lo = ir.load(i64s, ir.element(i64s, held, at), 8);
            (lo, ir.load(i64s, ir.element(i64s, held, ir.add_index(at, ir.i64(1))), 8))
        };
        let (a, b, number) = (entry(0), entry(1), entry(2));
        e.fail_if(meet(range(a), range(b)), number);
        Ok(())
    })
}

/// First byte and end of an array's elements; an empty range where it has none.
fn byte_range(e: &Emitter, d: &Descriptor, func: &Function, param: usize) -> (Value, Value) {
    let ir = e.ir;
    let i64s = ir.int_ty(64);
    let bytes = ir.i64(element_type(&func.params[param].kind).bytes() as i64);
    let base = ir.ptr_to_int(d.data, i64s);
    let (mut lo, mut hi) = (base, ir.add(base, bytes));
    let mut empty = ir.int(1, 0);
    for (x, stride) in d.shape.iter().zip(&d.strides) {
        empty = ir.or(empty, ir.icmp(I::LLVMIntEQ, *x, ir.i64(0)));
        let reach = ir.mul(ir.mul(ir.sub(*x, ir.i64(1)), *stride), bytes);
        lo = ir.add(lo, ir.intrinsic("llvm.smin", &[i64s], &[reach, ir.i64(0)]));
        hi = ir.add(hi, ir.intrinsic("llvm.smax", &[i64s], &[reach, ir.i64(0)]));
    }
    // An empty range lies in no other: it begins at the end of memory and ends at its start.
    (ir.select(empty, ir.i64(-1), lo), ir.select(empty, ir.i64(0), hi))
}

/// Calls the body for unit innermost strides where they are, else the one for any strides.
fn dispatch(e: &mut Emitter, descriptors: &[Descriptor], unit_only: bool) -> Result<()> {
    let ir = e.ir;
    let mut unit = ir.int(1, 1);
    for d in descriptors {
        if let (Some(x), Some(stride)) = (d.shape.last(), d.strides.last()) {
            let one = ir.icmp(I::LLVMIntEQ, *stride, ir.i64(1));
            // Along at most one element the stride does not matter.
            let short = ir.icmp(I::LLVMIntSLE, *x, ir.i64(1));
            unit = ir.and(unit, ir.or(one, short));
        }
    }
    let (fast, general) = (e.block("unit"), e.block("strided"));
    let always = ir.as_const(unit) == Some(1);
    if !always {
        ir.likely_br(unit, fast, general);
        ir.at_end(general);
        if unit_only {
            ir.ret(ir.i32(status::STRIDES));
        } else {
            let status = body(e, descriptors, false)?;
            ir.ret(status);
        }
    } else {
        ir.br(fast);
        ir.at_end(general);
        ir.ret(ir.i32(status::OK));
    }
    ir.at_end(fast);
    let status = body(e, descriptors, true)?;
    e.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(0)), status);
    Ok(())
}

/// Emits one body as a function and calls it. Constants (unit strides) are not passed.
fn body(e: &mut Emitter, descriptors: &[Descriptor], unit: bool) -> Result<Value> {
    let ir = e.ir;
    let func = e.func;
    let here = ir.here();
    let name = format!("{}.{}", func.name, if unit { "unit" } else { "strided" });

    let mut vars: Vec<_> = e.frame.vars.iter().map(|(id, l)| (*id, l.at(ir, None))).collect();
    vars.sort_by_key(|v| v.0);
    let mut args = vec![e.frame.runtime];
    args.extend(vars.iter().map(|v| v.1));
    for (p, d) in func.params.iter().zip(descriptors) {
        if p.array().is_some() {
            args.push(d.data);
            let n = d.strides.len();
            args.extend(&d.strides[..if unit { n.saturating_sub(1) } else { n }]);
        }
    }
    let mut types: Vec<Ty> = args.iter().map(|a| ir.type_of(*a)).collect();
    let ty = ir.fn_ty(ir.int_ty(32), &mut types);
    let f = ir.function(&name, ty);
    ir.set_internal(f);
    e.function_attributes(f);
    ir.attribute(f, None, "noinline");

    let mut next = 0;
    let mut take = || {
        next += 1;
        ir.param(f, next - 1)
    };
    let mut frame = Frame::new(ir, f, take());
    let code = ir.here();
    frame.vars = vars.iter().map(|(id, _)| (*id, Leaf::Uniform(take()))).collect::<HashMap<_, _>>();
    for (p, d) in func.params.iter().zip(descriptors) {
        if let Some(decl) = p.array() {
            let ptr = take();
            let n = d.strides.len();
            let strides = (0..n).map(|k| if unit && k + 1 == n { ir.i64(1) } else { take() }).collect();
            let (id, decl) = (decl.id, decl.clone());
            let buf = Buf { decl, ptr, strides, private: false, per_lane: None, fields: None };
            frame.bufs.insert(id, buf);
        }
    }
    distinct_pointers(e, f, &frame);
    ir.attribute(f, Some(0), "noalias");
    let outer = std::mem::replace(&mut e.frame, frame);
    e.stmt(&func.body)?;
    e.finish(code);
    e.frame = outer;
    ir.at_end(here);
    Ok(ir.call(ty, f, &mut args))
}
