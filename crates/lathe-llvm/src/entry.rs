//! The entry of a kernel: reads the descriptors, makes the checks, and runs the body for the shape of
//! memory that it found.

use crate::emit::{Buf, Device, Emitter, Frame, Result, defect};
use crate::ir::{Ir, Ty, Value};
use crate::loops::counted;
use crate::parallel::distinct_pointers;
use crate::value::Leaf;
use lathe_abi::{Array, CheckKind, MAX_EXTENT, status};
use lathe_diagnostics::Places;
use lathe_engine::checks::element_type;
use lathe_engine::{CheckTable, Entry, Field};
use lathe_ir::build::var;
use lathe_ir::{Binder, Expr, Function, Module, ParamKind, Scalar, VarId, visit};
use lathe_poly::Ranges;
use llvm_sys::LLVMIntPredicate as I;
use std::collections::hash_map::Entry as Entries;
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;

/// What to generate, beside the function itself.
pub struct Target<'a> {
    pub cpu: &'a str,
    pub features: &'a str,
    pub x86: bool,
    pub bit_masks: bool,
    pub avx2: bool,
    pub avx512: bool,
    pub vscale: u32,
    pub unit_strides_only: bool,
}

/// Emits a function of the tree under its own name; its bodies for unit and for any strides to modules of their own, where
/// there are such.
///
/// # Errors
/// On constructs that this engine does not take.
pub fn emit(
    ir: &Ir,
    bodies: Option<&[Ir; 2]>,
    module: &Module,
    func: &Function,
    table: &CheckTable,
    target: &Target,
) -> Result<()> {
    let ptr = ir.ptr_ty();
    let ty = ir.fn_ty(ir.int_ty(32), &mut [ptr, ptr]);
    let function = ir.function(&func.name, ty);
    let frame = Frame::new(ir, function, ir.param(function, 0));
    let code = ir.here();
    let mut e = Emitter {
        ir,
        bodies,
        module,
        func,
        table,
        machine: (target.cpu, target.features),
        x86: target.x86,
        bit_masks: target.bit_masks,
        avx2: target.avx2,
        avx512: target.avx512,
        vscale: target.vscale,
        kernel: false,
        frame,
        ranges: Ranges::of_function(func),
        outlined: 0,
        scope: "",
        scheduled: crate::unscheduled::scheduled(func),
        apart: crate::nests::many(func),
        device: Device::default(),
    };
    e.function_attributes(function);
    ir.attribute(function, Some(1), "noalias");
    let entry = Entry::of(table, func);
    prologue(&mut e, &entry)?;
    dispatch(&mut e, &entry, target.unit_strides_only)?;
    e.finish(code);
    Ok(())
}

/// From so many overlap checks on, a loop goes through a table of them: their number grows with the square of that of the
/// parameters, and so would code and the time that LLVM takes for it.
const PAIRS: usize = 32;

/// Makes the checks in the table's order, and leaves sizes and scalars bound.
fn prologue(e: &mut Emitter, entry: &Entry) -> Result<()> {
    let ir = e.ir;
    let version = ir.load(ir.int_ty(64), e.frame.runtime, 8);
    let other = ir.icmp(I::LLVMIntNE, version, ir.i64(i64::from(lathe_abi::VERSION)));
    e.fail_if(other, ir.i32(status::ABI));
    let pair = |c: &CheckKind, number| match c {
        CheckKind::Overlap { a, b } => Some((number, [*a, *b])),
        _ => None,
    };
    let mut pairs: Vec<(i32, [usize; 2])> =
        e.table.entries.iter().zip(1..).filter_map(|(c, number)| pair(c, number)).collect();
    let many = pairs.len() >= PAIRS;
    let mut places = HashMap::new();
    for ((check, fails), number) in e.table.entries.iter().zip(&entry.fails).zip(1..) {
        let Some(fails) = fails else { continue };
        if many && matches!(check, CheckKind::Overlap { .. }) {
            // All of them where the first one stands: they follow one another.
            let pairs = std::mem::take(&mut pairs);
            if !pairs.is_empty() {
                apart(e, entry, &pairs)?;
            }
            continue;
        }
        let holds = match check {
            CheckKind::Size { param, dim } => {
                let most = moderate(element_type(&e.func.params[*param].kind).bytes());
                let bits = bits(e, entry, *param, *dim..dim + 1)?;
                Some(ir.icmp(I::LLVMIntULT, bits, ir.i64(most)))
            }
            CheckKind::Overlap { a, b } => {
                for p in [*a, *b] {
                    if let Entries::Vacant(free) = places.entry(p) {
                        free.insert(Place::of(e, entry, p)?);
                    }
                }
                Some(places[a].is_apart_from(&places[b], ir))
            }
            _ => None,
        };
        let after = holds.map(|holds| {
            let (exactly, after) = (e.block("exactly"), e.block("holds"));
            ir.likely_br(holds, after, exactly);
            ir.at_end(exactly);
            e.frame.memo.push(HashMap::new());
            after
        });
        // What is computed for the check itself is not there behind it.
        let known = after.map(|_| e.frame.vars.clone());
        let fails = computed(e, entry, fails)?;
        e.fail_if(fails, ir.i32(number));
        if let (Some(after), Some(known)) = (after, known) {
            ir.br(after);
            ir.at_end(after);
            e.frame.vars = known;
            e.frame.memo.pop();
        }
    }
    bound(e.func).try_for_each(|b| computed(e, entry, &var(b)).map(drop))
}

/// Extents and strides below this have products that every array of such elements may have: one comparison says of most
/// arguments that their checks of sizes hold. Negative numbers are large ones without a sign.
fn moderate(bytes: u64) -> i64 {
    1 << ((MAX_EXTENT as u64 / bytes.max(1)).max(1).ilog2() / 2)
}

/// Extents and strides of some dimensions of an array, in the bits of one number.
fn bits(e: &mut Emitter, entry: &Entry, param: usize, dims: std::ops::Range<usize>) -> Result<Value> {
    dims.flat_map(|d| [Field::Extent(d), Field::Stride(d)]).try_fold(e.ir.i64(0), |all, f| {
        let value = field(e, entry, param, f)?;
        Ok(e.ir.or(all, value))
    })
}

/// Where the elements of an array lie if its extents and strides are moderate: from an address to somewhat behind the last.
struct Place {
    bits: Value,
    most: i64,
    first: Value,
    end: Value,
}

impl Place {
    fn of(e: &mut Emitter, entry: &Entry, param: usize) -> Result<Place> {
        let ir = e.ir;
        let bytes = element_type(&e.func.params[param].kind).bytes();
        let rank = e.func.params[param].array().map_or(0, |b| b.extents.len());
        let first = field(e, entry, param, Field::Address)?;
        let mut elements = ir.i64(1);
        for d in 0..rank {
            let extent = field(e, entry, param, Field::Extent(d))?;
            let stride = field(e, entry, param, Field::Stride(d))?;
            // Where they are not moderate this may wrap, and is not used.
            elements = ir.add(elements, ir.mul(extent, stride));
        }
        let end = ir.add(first, ir.mul(elements, ir.i64(bytes as i64)));
        Ok(Place { bits: bits(e, entry, param, 0..rank)?, most: moderate(bytes), first, end })
    }

    fn is_apart_from(&self, other: &Place, ir: &Ir) -> Value {
        let before = |a: &Place, b: &Place| ir.icmp(I::LLVMIntSLE, a.end, b.first);
        let most = ir.i64(self.most.min(other.most));
        let moderate = ir.icmp(I::LLVMIntULT, ir.or(self.bits, other.bits), most);
        ir.and(moderate, ir.or(before(self, other), before(other, self)))
    }
}

/// A field of a descriptor as a value that stays bound.
fn field(e: &mut Emitter, entry: &Entry, param: usize, field: Field) -> Result<Value> {
    let known = entry.fields.iter().find(|f| *f.1 == (param, field)).map(|f| *f.0);
    let Some(v) = known else { return Ok(read(e, param, field)) };
    if let Some(leaf) = e.frame.vars.get(&v) {
        return Ok(leaf.at(e.ir, None));
    }
    let value = read(e, param, field);
    e.frame.vars.insert(v, Leaf::Uniform(value));
    Ok(value)
}

/// Whether the arrays of each pair lie apart, by a loop over pairs with the numbers of their checks.
fn apart(e: &mut Emitter, entry: &Entry, pairs: &[(i32, [usize; 2])]) -> Result<()> {
    let ir = e.ir;
    let (i32s, i64s) = (ir.int_ty(32), ir.int_ty(64));
    let params: BTreeSet<usize> = pairs.iter().flat_map(|p| p.1).collect();
    let here = ir.here();
    ir.at_end(e.frame.allocas);
    let ends = ir.alloca(ir.array_ty(i64s, 2 * params.len() as u64), 8);
    ir.at_end(here);
    let mut place = HashMap::new();
    for (n, p) in params.iter().enumerate() {
        place.insert(*p, n as u32);
        let range = entry
            .ranges
            .get(p)
            .ok_or_else(|| defect("an overlap check of a parameter that is not an array"))?;
        for (k, end) in range.iter().enumerate() {
            let end = computed(e, entry, end)?;
            ir.store(end, ir.element(i64s, ends, ir.i64((2 * n + k) as i64)), 8);
        }
    }
    let numbers: Vec<u32> =
        pairs.iter().flat_map(|(number, ab)| [*number as u32, place[&ab[0]], place[&ab[1]]]).collect();
    let table = ir.table("pairs", &numbers);
    counted(e, (ir.i64(0), ir.i64(pairs.len() as i64)), (1, false), |e, pair| {
        let ir = e.ir;
        let first = ir.mul(pair, ir.i64(3));
        let number = |k: i64| ir.load(i32s, ir.element(i32s, table, ir.add(first, ir.i64(k))), 4);
        let end = |of: i64, k: i64| {
            let at = ir.add(ir.shl(ir.zext(number(of), i64s), ir.i64(1)), ir.i64(k));
            ir.load(i64s, ir.element(i64s, ends, at), 8)
        };
        let before = |a: Value, b: Value| ir.icmp(I::LLVMIntSLT, a, b);
        let meet = ir.and(before(end(1, 0), end(2, 1)), before(end(2, 0), end(1, 1)));
        e.fail_if(meet, number(0));
        Ok(())
    })
}

/// Sizes and scalar parameters.
fn bound(func: &Function) -> impl Iterator<Item = &Binder> {
    let scalars = func.params.iter().filter_map(|p| match &p.kind {
        ParamKind::Scalar(b) => Some(b),
        ParamKind::Array(_) => None,
    });
    func.sizes.iter().chain(scalars)
}

/// The value of an expression of the entry. What it needs is read and computed here, where all that it relies on is checked.
fn computed(e: &mut Emitter, entry: &Entry, x: &Expr) -> Result<Value> {
    let mut vars: Vec<VarId> = visit::vars_of(x).into_iter().collect();
    vars.sort();
    for v in vars {
        if e.frame.vars.contains_key(&v) {
            continue;
        }
        let value = if let Some((param, field)) = entry.fields.get(&v) {
            read(e, *param, *field)
        } else if let Some((_, value)) = entry.values.iter().find(|x| x.0.id == v) {
            computed(e, entry, value)?
        } else {
            let param = *entry.scalars.get(&v).ok_or_else(|| defect("a check of what is no argument"))?;
            let (ir, ty) = (e.ir, element_type(&e.func.params[param].kind).scalar());
            let ty = ty.ok_or_else(|| defect("a scalar parameter without a scalar type"))?;
            let v = ir.load(ir.memory_ty(ty), data(e, param), ty.bytes());
            if ty == Scalar::Bool { ir.icmp(I::LLVMIntNE, v, ir.int(8, 0)) } else { v }
        };
        e.frame.vars.insert(v, Leaf::Uniform(value));
    }
    e.uniform(x, "a check of arguments", &Places::none())
}

/// A field of a descriptor; LLVM reads it once, since nothing is written before the body.
fn read(e: &Emitter, param: usize, field: Field) -> Value {
    let (ir, i64s) = (e.ir, e.ir.int_ty(64));
    let short = |at: usize| ir.zext(member(e, param, at, ir.int_ty(32), 4), i64s);
    let element = |at: usize, d: usize| {
        let numbers = member(e, param, at, ir.ptr_ty(), 8);
        ir.load(i64s, ir.element(i64s, numbers, ir.i64(d as i64)), 8)
    };
    match field {
        Field::Dtype => short(offset_of!(Array, dtype)),
        Field::Rank => short(offset_of!(Array, rank)),
        Field::ElemBytes => member(e, param, offset_of!(Array, elem_bytes), i64s, 8),
        Field::Address => ir.ptr_to_int(data(e, param), i64s),
        Field::Extent(d) => element(offset_of!(Array, shape), d),
        Field::Stride(d) => element(offset_of!(Array, strides), d),
    }
}

fn data(e: &Emitter, param: usize) -> Value {
    member(e, param, offset_of!(Array, data), e.ir.ptr_ty(), 8)
}

fn member(e: &Emitter, param: usize, at: usize, ty: Ty, align: u64) -> Value {
    let at = e.ir.i64((param * size_of::<Array>() + at) as i64);
    e.ir.load(ty, e.ir.element(e.ir.int_ty(8), e.ir.param(e.frame.function, 1), at), align)
}

/// Calls the body for unit innermost strides where they are, else the one for any strides.
fn dispatch(e: &mut Emitter, entry: &Entry, unit_only: bool) -> Result<()> {
    let ir = e.ir;
    let unit = computed(e, entry, &entry.unit)?;
    let (fast, general) = (e.block("unit"), e.block("strided"));
    let always = ir.as_const(unit) == Some(1);
    if !always {
        ir.likely_br(unit, fast, general);
        ir.at_end(general);
        if unit_only {
            ir.ret(ir.i32(status::STRIDES));
        } else {
            let status = body(e, false)?;
            ir.ret(status);
        }
    } else {
        ir.br(fast);
        ir.at_end(general);
        ir.ret(ir.i32(status::OK));
    }
    ir.at_end(fast);
    let status = body(e, true)?;
    e.fail_if(ir.icmp(I::LLVMIntNE, status, ir.i32(0)), status);
    Ok(())
}

/// Emits one body as a function and calls it. Constants (unit strides) are not passed.
fn body(e: &mut Emitter, unit: bool) -> Result<Value> {
    let ir = e.ir;
    let func = e.func;
    let here = ir.here();
    let name = format!("{}.{}", func.name, if unit { "unit" } else { "strided" });

    let bound = bound(func).filter_map(|b| Some((b.id, e.frame.vars.get(&b.id)?.at(ir, None))));
    let mut vars: Vec<(VarId, Value)> = bound.collect();
    vars.sort_by_key(|v| v.0);
    let mut args = vec![e.frame.runtime];
    args.extend(vars.iter().map(|v| v.1));
    for (at, p) in func.params.iter().enumerate() {
        if let Some(b) = p.array() {
            args.push(data(e, at));
            let n = b.extents.len();
            args.extend((0..n - usize::from(unit && n > 0)).map(|d| read(e, at, Field::Stride(d))));
        }
    }
    let mut types: Vec<Ty> = args.iter().map(|a| ir.type_of(*a)).collect();
    let ty = ir.fn_ty(ir.int_ty(32), &mut types);
    let called = ir.function(&name, ty);
    let (outside, inside) = (e.ir, e.bodies.map(|b| &b[usize::from(!unit)]));
    let f = match inside {
        None => {
            ir.set_internal(called);
            called
        }
        Some(own) => {
            let f = own.function(&name, ty);
            [called, f].iter().for_each(|f| ir.set_hidden(*f));
            // Names that do not depend on what else is emitted, and of which there is one in all modules.
            (e.outlined, e.scope) = (0, if unit { "unit." } else { "strided." });
            e.ir = own;
            f
        }
    };
    let ir = e.ir;
    e.loop_attributes(f);
    ir.attribute(f, None, "noinline");

    let mut next = 0;
    let mut take = || {
        next += 1;
        ir.param(f, next - 1)
    };
    let mut frame = Frame::new(ir, f, take());
    let code = ir.here();
    frame.vars = vars.iter().map(|(id, _)| (*id, Leaf::Uniform(take()))).collect::<HashMap<_, _>>();
    for p in &func.params {
        if let Some(decl) = p.array() {
            let ptr = take();
            let n = decl.extents.len();
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
    (e.frame, e.ir) = (outer, outside);
    e.ir.at_end(here);
    Ok(e.ir.call(ty, called, &mut args))
}
