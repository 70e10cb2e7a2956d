//! A thin layer over LLVM's C interface: a context, a module, a builder; modules that refer to each other share the context.
//!
//! The functions take and give raw references, which are valid as long as the [`Ir`] that made them;
//! nothing outside this crate sees them. Constants fold while they are built, so that written-out
//! loops stay small.

mod control;
mod module;

use lathe_ir::Scalar;
use llvm_sys::LLVMInlineAsmDialect::LLVMInlineAsmDialectATT;
use llvm_sys::LLVMIntPredicate as P;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp};
use std::ffi::CString;
use std::rc::Rc;

pub type Value = LLVMValueRef;
pub type Ty = LLVMTypeRef;
pub type Block = LLVMBasicBlockRef;

/// How many lanes a value has; `None` for one value.
pub type Width = Option<u32>;

/// A module under construction, and the context that owns its types and constants.
pub struct Ir {
    pub ctx: LLVMContextRef,
    pub module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    // After what lives in it.
    context: Rc<Context>,
}

/// Owner of a context.
struct Context(LLVMContextRef);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made in `Ir::new`; the last module of it is gone.
        unsafe { LLVMContextDispose(self.0) }
    }
}

const NO_NAME: *const std::ffi::c_char = c"".as_ptr();

impl Drop for Ir {
    fn drop(&mut self) {
        // SAFETY: made together, disposed of once, users before what they use; the context lives on in its owner.
        unsafe {
            LLVMDisposeBuilder(self.builder);
            LLVMDisposeModule(self.module);
        }
    }
}

/// A C string for LLVM; text with a zero byte inside is cut there.
pub fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// Defines methods that build one two-operand instruction.
macro_rules! two_operands {
    ($($name:ident => $call:ident),* $(,)?) => {
        $(pub fn $name(&self, a: Value, b: Value) -> Value {
            // SAFETY: the operands belong to this context and the builder stands in a block.
            unsafe { $call(self.builder, a, b, NO_NAME) }
        })*
    };
}

/// Defines methods that build one conversion.
macro_rules! conversions {
    ($($name:ident => $call:ident),* $(,)?) => {
        $(pub fn $name(&self, a: Value, to: Ty) -> Value {
            // SAFETY: operand and type belong to this context and the builder stands in a block.
            unsafe { $call(self.builder, a, to, NO_NAME) }
        })*
    };
}

impl Ir {
    pub fn new(name: &str) -> Ir {
        // SAFETY: a plain constructor.
        Ir::within(Rc::new(Context(unsafe { LLVMContextCreate() })), name)
    }

    /// Another module, whose functions have types of this one's context.
    pub fn beside(&self, name: &str) -> Ir {
        Ir::within(Rc::clone(&self.context), name)
    }

    fn within(context: Rc<Context>, name: &str) -> Ir {
        let (ctx, name) = (context.0, c_string(name));
        // SAFETY: plain constructors in a context that lives as long as what they make.
        unsafe {
            let module = LLVMModuleCreateWithNameInContext(name.as_ptr(), ctx);
            Ir { ctx, module, builder: LLVMCreateBuilderInContext(ctx), context }
        }
    }

    // Types.

    pub fn int_ty(&self, bits: u32) -> Ty {
        // SAFETY: the context is alive.
        unsafe { LLVMIntTypeInContext(self.ctx, bits) }
    }

    pub fn ptr_ty(&self) -> Ty {
        // SAFETY: the context is alive.
        unsafe { LLVMPointerTypeInContext(self.ctx, 0) }
    }

    pub fn void_ty(&self) -> Ty {
        // SAFETY: the context is alive.
        unsafe { LLVMVoidTypeInContext(self.ctx) }
    }

    /// The type of a scalar in a register. `bf16` is held as its bits: its rounding is written out,
    /// because the machine's own conversion flushes subnormal numbers.
    pub fn scalar_ty(&self, s: Scalar) -> Ty {
        // SAFETY: the context is alive.
        unsafe {
            match s {
                Scalar::F64 => LLVMDoubleTypeInContext(self.ctx),
                Scalar::F32 => LLVMFloatTypeInContext(self.ctx),
                Scalar::F16 => LLVMHalfTypeInContext(self.ctx),
                Scalar::Bf16 => self.int_ty(16),
                _ => self.int_ty(s.bits()),
            }
        }
    }

    /// The type of a scalar in memory: `bool` takes a byte.
    pub fn memory_ty(&self, s: Scalar) -> Ty {
        if s == Scalar::Bool { self.int_ty(8) } else { self.scalar_ty(s) }
    }

    pub fn widen(&self, ty: Ty, width: Width) -> Ty {
        match width {
            None => ty,
            // SAFETY: element types here are scalars; widths are at least 1.
            Some(w) => unsafe { LLVMVectorType(ty, w) },
        }
    }

    pub fn array_ty(&self, ty: Ty, n: u64) -> Ty {
        // SAFETY: the element type is sized.
        unsafe { LLVMArrayType2(ty, n) }
    }

    pub fn fn_ty(&self, result: Ty, params: &mut [Ty]) -> Ty {
        // SAFETY: the pointer covers `params.len()` types.
        unsafe { LLVMFunctionType(result, params.as_mut_ptr(), params.len() as u32, 0) }
    }

    pub fn type_of(&self, v: Value) -> Ty {
        // SAFETY: a value of this context.
        unsafe { LLVMTypeOf(v) }
    }

    // Constants.

    pub fn int(&self, bits: u32, v: i64) -> Value {
        // SAFETY: the type is an integer type of at most 64 bits.
        unsafe { LLVMConstInt(self.int_ty(bits), v as u64, 0) }
    }

    pub fn i64(&self, v: i64) -> Value {
        self.int(64, v)
    }

    pub fn i32(&self, v: i32) -> Value {
        self.int(32, i64::from(v))
    }

    /// A float from the exact value; the type is `half`, `float` or `double`.
    pub fn float(&self, ty: Ty, v: f64) -> Value {
        // SAFETY: a float type.
        unsafe { LLVMConstReal(ty, v) }
    }

    pub fn zero(&self, ty: Ty) -> Value {
        // SAFETY: a type of this context.
        unsafe { LLVMConstNull(ty) }
    }

    pub fn poison(&self, ty: Ty) -> Value {
        // SAFETY: a type of this context.
        unsafe { LLVMGetPoison(ty) }
    }

    pub fn vector(&self, parts: &mut [Value]) -> Value {
        // SAFETY: at least one constant, all of one type.
        unsafe { LLVMConstVector(parts.as_mut_ptr(), parts.len() as u32) }
    }

    /// A constant in all lanes.
    pub fn splat_const(&self, v: Value, width: Width) -> Value {
        match width {
            None => v,
            Some(w) => self.vector(&mut vec![v; w as usize]),
        }
    }

    /// `0, step, 2*step, …` as 64-bit integers.
    pub fn ramp(&self, step: i64, width: u32) -> Value {
        let mut parts: Vec<Value> = (0..i64::from(width)).map(|l| self.i64(l.wrapping_mul(step))).collect();
        self.vector(&mut parts)
    }

    /// The value of an integer constant.
    pub fn as_const(&self, v: Value) -> Option<i64> {
        // SAFETY: a value of this context; the value is read only from constant integers of ≤ 64 bits.
        unsafe { if LLVMIsAConstantInt(v).is_null() { None } else { Some(LLVMConstIntGetSExtValue(v)) } }
    }

    /// The value of an integer constant that is the same in all lanes.
    pub fn as_splat(&self, v: Value, width: Width) -> Option<i64> {
        let Some(w) = width else { return self.as_const(v) };
        // SAFETY: lane 0 of a constant vector; constants are unique, so equal ones have one address.
        let first = unsafe {
            if LLVMIsConstant(v) == 0 {
                return None;
            }
            LLVMGetAggregateElement(v, 0)
        };
        if first.is_null() || self.splat_const(first, Some(w)) != v {
            return None;
        }
        self.as_const(first)
    }

    /// Whether a value is a constant without a set bit.
    pub fn is_zero(&self, v: Value) -> bool {
        self.is_const(v) && v == self.zero(self.type_of(v))
    }

    pub fn is_const(&self, v: Value) -> bool {
        // SAFETY: a value of this context.
        unsafe { LLVMIsConstant(v) != 0 }
    }

    /// The number that a float is, or all lanes of floats are, if it is a constant.
    pub fn real(&self, v: Value) -> Option<f64> {
        // SAFETY: values of this context; elements beyond the last one are none.
        let of = |v: Value| unsafe {
            let mut loses = 0;
            (!v.is_null() && !LLVMIsAConstantFP(v).is_null()).then(|| LLVMConstRealGetDouble(v, &mut loses))
        };
        if !self.is_const(v) || of(v).is_some() {
            return of(v);
        }
        // SAFETY: as above.
        let mut lanes = (0..).map(|n| unsafe { LLVMGetAggregateElement(v, n) }).take_while(|e| !e.is_null());
        let first = of(lanes.next()?)?;
        lanes.all(|e| of(e).is_some_and(|x| x.to_bits() == first.to_bits())).then_some(first)
    }

    // Instructions.

    two_operands! {
        add => LLVMBuildAdd, sub => LLVMBuildSub, mul => LLVMBuildMul,
        add_index => LLVMBuildNSWAdd, sub_index => LLVMBuildNSWSub, mul_index => LLVMBuildNSWMul,
        sdiv => LLVMBuildSDiv, srem => LLVMBuildSRem, udiv => LLVMBuildUDiv, urem => LLVMBuildURem,
        and => LLVMBuildAnd, or => LLVMBuildOr, xor => LLVMBuildXor,
        shl => LLVMBuildShl, lshr => LLVMBuildLShr, ashr => LLVMBuildAShr,
        fadd => LLVMBuildFAdd, fsub => LLVMBuildFSub, fmul => LLVMBuildFMul, fdiv => LLVMBuildFDiv,
    }

    conversions! {
        trunc => LLVMBuildTrunc, sext => LLVMBuildSExt, zext => LLVMBuildZExt, bitcast => LLVMBuildBitCast,
        fpext => LLVMBuildFPExt, fptrunc => LLVMBuildFPTrunc,
        sitofp => LLVMBuildSIToFP, uitofp => LLVMBuildUIToFP,
        ptr_to_int => LLVMBuildPtrToInt,
    }

    pub fn neg(&self, a: Value) -> Value {
        self.sub(self.zero(self.type_of(a)), a)
    }

    pub fn fneg(&self, a: Value) -> Value {
        // SAFETY: as for the operands of every instruction.
        unsafe { LLVMBuildFNeg(self.builder, a, NO_NAME) }
    }

    pub fn not(&self, a: Value) -> Value {
        // SAFETY: as for the operands of every instruction.
        unsafe { LLVMBuildNot(self.builder, a, NO_NAME) }
    }

    pub fn icmp(&self, p: P, a: Value, b: Value) -> Value {
        // SAFETY: as for the operands of every instruction.
        unsafe { LLVMBuildICmp(self.builder, p, a, b, NO_NAME) }
    }

    pub fn fcmp(&self, p: llvm_sys::LLVMRealPredicate, a: Value, b: Value) -> Value {
        // SAFETY: as for the operands of every instruction.
        unsafe { LLVMBuildFCmp(self.builder, p, a, b, NO_NAME) }
    }

    /// A choice of two integers that are constants stays one: LLVM would make a branch of it where the condition was just
    /// loaded, which saves nothing where it is predicted, and costs much where it is not.
    pub fn select(&self, c: Value, a: Value, b: Value) -> Value {
        let constants = self.as_const(a).is_some() && self.as_const(b).is_some();
        // SAFETY: as for the operands of every instruction; what becomes a select gets `!{}`.
        unsafe {
            let s = LLVMBuildSelect(self.builder, c, a, b, NO_NAME);
            if constants && !LLVMIsASelectInst(s).is_null() {
                let name = c"unpredictable";
                let kind = LLVMGetMDKindIDInContext(self.ctx, name.as_ptr(), name.count_bytes() as u32);
                let node = LLVMMDNodeInContext2(self.ctx, std::ptr::null_mut(), 0);
                LLVMSetMetadata(s, kind, LLVMMetadataAsValue(self.ctx, node));
            }
            s
        }
    }

    pub fn splat(&self, v: Value, width: u32) -> Value {
        if self.is_const(v) {
            return self.splat_const(v, Some(width));
        }
        let ty = self.widen(self.type_of(v), Some(width));
        let mask = self.zero(self.widen(self.int_ty(32), Some(width)));
        // SAFETY: lane 0 exists; the mask is a constant of as many lanes as the result.
        unsafe {
            let one = LLVMBuildInsertElement(self.builder, self.poison(ty), v, self.i64(0), NO_NAME);
            LLVMBuildShuffleVector(self.builder, one, self.poison(ty), mask, NO_NAME)
        }
    }

    pub fn reverse(&self, v: Value, width: u32) -> Value {
        let mut lanes: Vec<Value> = (0..width as i32).rev().map(|l| self.i32(l)).collect();
        let mask = self.vector(&mut lanes);
        // SAFETY: the mask names existing lanes only.
        unsafe { LLVMBuildShuffleVector(self.builder, v, self.poison(self.type_of(v)), mask, NO_NAME) }
    }

    /// Every lane has what the lane `by` before it had; the first ones have those of another vector.
    pub fn shift_in(&self, fill: Value, v: Value, by: u32, width: u32) -> Value {
        let from = |l: u32| self.i32(l.checked_sub(by).map_or(l, |from| width + from) as i32);
        let mut lanes: Vec<Value> = (0..width).map(from).collect();
        let mask = self.vector(&mut lanes);
        // SAFETY: the mask names existing lanes of two vectors of one type.
        unsafe { LLVMBuildShuffleVector(self.builder, fill, v, mask, NO_NAME) }
    }

    /// One lane of a vector that has it.
    pub fn lane(&self, v: Value, lane: u32) -> Value {
        // SAFETY: the lane exists.
        unsafe { LLVMBuildExtractElement(self.builder, v, self.i64(i64::from(lane)), NO_NAME) }
    }

    /// A vector with another value in a lane that it has.
    pub fn insert(&self, v: Value, one: Value, lane: u32) -> Value {
        // SAFETY: the lane exists, and callers give a value of the vector's elements.
        unsafe { LLVMBuildInsertElement(self.builder, v, one, self.i64(i64::from(lane)), NO_NAME) }
    }

    /// Lanes of two vectors of one type by their numbers; those of the second one are counted on.
    pub fn shuffle(&self, a: Value, b: Value, lanes: impl Iterator<Item = u32>) -> Value {
        let mut lanes: Vec<Value> = lanes.map(|l| self.i32(l as i32)).collect();
        let mask = self.vector(&mut lanes);
        // SAFETY: callers name existing lanes only.
        unsafe { LLVMBuildShuffleVector(self.builder, a, b, mask, NO_NAME) }
    }

    /// The lanes of two vectors in turn, `a0 b0 a1 b1 …`, as two vectors of their width.
    pub fn merge(&self, a: Value, b: Value, width: u32) -> [Value; 2] {
        let w = width as i32;
        [0, w / 2].map(|from| {
            let mut lanes: Vec<Value> =
                (from..from + w / 2).flat_map(|l| [self.i32(l), self.i32(l + w)]).collect();
            let mask = self.vector(&mut lanes);
            // SAFETY: the mask names existing lanes only.
            unsafe { LLVMBuildShuffleVector(self.builder, a, b, mask, NO_NAME) }
        })
    }

    pub fn extract_value(&self, v: Value, i: u32) -> Value {
        // SAFETY: `v` is a struct with more than `i` members.
        unsafe { LLVMBuildExtractValue(self.builder, v, i, NO_NAME) }
    }

    /// A pointer as one to an address space, in which it points.
    pub fn to_space(&self, ptr: Value, space: u32) -> Value {
        // SAFETY: a pointer of this context.
        unsafe {
            let ty = LLVMPointerTypeInContext(self.ctx, space);
            if LLVMTypeOf(ptr) == ty { ptr } else { LLVMBuildAddrSpaceCast(self.builder, ptr, ty, NO_NAME) }
        }
    }

    /// Address of element `index` from `base`, for a base that need not be the lowest address.
    pub fn element(&self, ty: Ty, base: Value, index: Value) -> Value {
        if self.as_const(index) == Some(0) {
            return base;
        }
        // SAFETY: one index into a sized element type.
        unsafe { LLVMBuildGEP2(self.builder, ty, base, [index].as_mut_ptr(), 1, NO_NAME) }
    }

    pub fn element_in_bounds(&self, ty: Ty, base: Value, index: Value) -> Value {
        if self.as_const(index) == Some(0) {
            return base;
        }
        // SAFETY: one index into a sized element type.
        unsafe { LLVMBuildInBoundsGEP2(self.builder, ty, base, [index].as_mut_ptr(), 1, NO_NAME) }
    }

    /// A value as passes see it that do not look at where it comes from, before an instruction of a finished block.
    pub fn freeze_before(&self, value: Value, instruction: Value) -> Value {
        // SAFETY: both are of this context, and the instruction is in a block.
        unsafe {
            LLVMPositionBuilderBefore(self.builder, instruction);
            LLVMBuildFreeze(self.builder, value, NO_NAME)
        }
    }

    pub fn load(&self, ty: Ty, ptr: Value, align: u64) -> Value {
        // SAFETY: a sized type and a pointer.
        unsafe {
            let v = LLVMBuildLoad2(self.builder, ty, ptr, NO_NAME);
            LLVMSetAlignment(v, align as u32);
            v
        }
    }

    /// A load that stays where and what it is.
    pub fn volatile_load(&self, ty: Ty, ptr: Value, align: u64) -> Value {
        let v = self.load(ty, ptr, align);
        // SAFETY: a load.
        unsafe { LLVMSetVolatile(v, 1) };
        v
    }

    pub fn store(&self, v: Value, ptr: Value, align: u64) -> Value {
        // SAFETY: a sized value and a pointer.
        unsafe {
            let s = LLVMBuildStore(self.builder, v, ptr);
            LLVMSetAlignment(s, align as u32);
            s
        }
    }

    pub fn atomic_load(&self, ty: Ty, ptr: Value, order: LLVMAtomicOrdering, align: u64) -> Value {
        let v = self.load(ty, ptr, align);
        // SAFETY: an integer load of a size that the machine has.
        unsafe { LLVMSetOrdering(v, order) };
        v
    }

    pub fn atomic_store(&self, v: Value, ptr: Value, order: LLVMAtomicOrdering, align: u64) {
        let s = self.store(v, ptr, align);
        // SAFETY: an integer store of a size that the machine has.
        unsafe { LLVMSetOrdering(s, order) };
    }

    /// Combines an integer in memory with `v`, and gives what was there.
    pub fn atomic_rmw(
        &self,
        op: LLVMAtomicRMWBinOp,
        ptr: Value,
        v: Value,
        order: LLVMAtomicOrdering,
    ) -> Value {
        // SAFETY: an integer and a pointer to such.
        unsafe { LLVMBuildAtomicRMW(self.builder, op, ptr, v, order, 0) }
    }

    /// What was there, and whether that was `expected` and is `desired` now.
    pub fn compare_exchange(
        &self,
        ptr: Value,
        expected: Value,
        desired: Value,
        order: LLVMAtomicOrdering,
        otherwise: LLVMAtomicOrdering,
    ) -> Value {
        // SAFETY: two integers of one type and a pointer to such; the second order releases nothing.
        unsafe { LLVMBuildAtomicCmpXchg(self.builder, ptr, expected, desired, order, otherwise, 0) }
    }

    /// Marks a store as bypassing the caches.
    pub fn set_nontemporal(&self, store: Value) {
        let name = c"nontemporal";
        // SAFETY: a store of this module gets `!{i32 1}`.
        unsafe {
            let kind = LLVMGetMDKindIDInContext(self.ctx, name.as_ptr(), name.count_bytes() as u32);
            let one = LLVMValueAsMetadata(self.i32(1));
            let node = LLVMMDNodeInContext2(self.ctx, [one].as_mut_ptr(), 1);
            LLVMSetMetadata(store, kind, LLVMMetadataAsValue(self.ctx, node));
        }
    }

    pub fn alloca(&self, ty: Ty, align: u64) -> Value {
        // SAFETY: a sized type; the builder stands in the entry block.
        unsafe {
            let v = LLVMBuildAlloca(self.builder, ty, NO_NAME);
            LLVMSetAlignment(v, align as u32);
            v
        }
    }

    pub fn call(&self, ty: Ty, f: Value, args: &mut [Value]) -> Value {
        // SAFETY: the arguments are those of the function type.
        unsafe { LLVMBuildCall2(self.builder, ty, f, args.as_mut_ptr(), args.len() as u32, NO_NAME) }
    }

    /// The same integer or pointer, of which optimizations know nothing.
    pub fn opaque(&self, v: Value) -> Value {
        let ty = self.fn_ty(self.type_of(v), &mut [self.type_of(v)]);
        let how = b"=r,0";
        // SAFETY: assembly without text, whose result is the register of its argument.
        let same = unsafe {
            let text = how.as_ptr().cast();
            LLVMGetInlineAsm(ty, text, 0, text, how.len(), 0, 0, LLVMInlineAsmDialectATT, 0)
        };
        self.call(ty, same, &mut [v])
    }

    /// Calls an intrinsic that is overloaded on `overloads`.
    pub fn intrinsic(&self, name: &str, overloads: &[Ty], args: &[Value]) -> Value {
        let (mut overloads, mut args) = (overloads.to_vec(), args.to_vec());
        // SAFETY: every name in this crate is an intrinsic of this LLVM, with the overloads that it wants.
        let (ty, f) = unsafe {
            let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            let n = overloads.len();
            let f = LLVMGetIntrinsicDeclaration(self.module, id, overloads.as_mut_ptr(), n);
            (LLVMIntrinsicGetType(self.ctx, id, overloads.as_mut_ptr(), n), f)
        };
        self.call(ty, f, &mut args)
    }

    /// States the alignment of argument `arg` of a call.
    pub fn align_argument(&self, call: Value, arg: u32, align: u64) {
        let name = c"align";
        // SAFETY: an attribute of a pointer argument; positions count from 1.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr(), name.count_bytes());
            LLVMAddCallSiteAttribute(call, arg + 1, LLVMCreateEnumAttribute(self.ctx, kind, align));
        }
    }
}
