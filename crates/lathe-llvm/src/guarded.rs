//! Values that LLVM's passes must not look through, because what they would make of them is wrong or slow. Each of them passes through
//! a `freeze`, which is no instruction of any machine.
//!
//! - *Masked loads.* `select(m, masked.load(p, m), x)` becomes a masked load with `x` in its other lanes, which LLVM 22 makes where
//!   the `select` stands: behind stores in between, whose elements it then loads (LLVM's issue 215453).
//! - *Selected values that are stored.* `store(select(m, x, load(p)), p)` becomes a masked store, which processors without bit masks
//!   take many cycles for (a dozen on AMD's up to Zen 3), and whose elements cannot be loaded soon (LLVM's issue 213195).

use crate::ir::{Ir, Value};
use llvm_sys::LLVMOpcode;
use llvm_sys::LLVMTypeKind::{LLVMIntegerTypeKind, LLVMVectorTypeKind, LLVMVoidTypeKind};
use llvm_sys::core::*;

/// Before passes that combine instructions: masked loads that could be moved behind what is written are seen through a `freeze`. Others
/// stay parts of the instructions that use them.
pub fn masked_loads(ir: &Ir) {
    let name = "llvm.masked.load";
    // SAFETY: the module is alive; uses are listed before any is changed.
    unsafe {
        let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
        for function in functions(ir).into_iter().filter(|f| LLVMGetIntrinsicID(*f) == id) {
            for load in users(function) {
                if selected_later(load) {
                    through(ir, load);
                }
            }
        }
    }
}

/// Instructions that are looked at for one load.
const MOST: usize = 500;

/// Whether lanes are selected of what is computed from a load, in another block or behind an instruction that may write: passes bring the
/// `select` to the load itself where both of its values are computed alike.
fn selected_later(load: Value) -> bool {
    let (mut all, mut at) = (vec![load], 0);
    while let Some(&value) = all.get(at) {
        at += 1;
        for user in users(value) {
            // SAFETY: the instructions are alive.
            let (passes, selects) = unsafe {
                let opcode = LLVMGetInstructionOpcode(user);
                let kept =
                    matches!(opcode, LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMFreeze | LLVMOpcode::LLVMStore);
                (!kept && is_vector(user), opcode == LLVMOpcode::LLVMSelect || has_mask(user))
            };
            if selects && is_behind_writes(load, user) {
                return true;
            }
            if passes && !all.contains(&user) {
                all.push(user);
            }
        }
        if all.len() > MOST {
            return true;
        }
    }
    false
}

fn is_vector(value: Value) -> bool {
    // SAFETY: the value is alive.
    unsafe { LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind }
}

/// Whether one operand is a mask that became numbers: what is computed of it and another one may be written as a `select`.
fn has_mask(instruction: Value) -> bool {
    // SAFETY: the instruction is alive, and so are its operands.
    unsafe {
        let is_mask = |v: Value| {
            // A vector may also be made of one number's bits.
            !LLVMIsACastInst(v).is_null() && is_vector(LLVMGetOperand(v, 0)) && {
                let from = LLVMGetElementType(LLVMTypeOf(LLVMGetOperand(v, 0)));
                LLVMGetTypeKind(from) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(from) == 1
            }
        };
        (0..LLVMGetNumOperands(instruction)).any(|n| is_mask(LLVMGetOperand(instruction, n as u32)))
    }
}

/// Whether an instruction is in another block than one before it, or may find memory changed since.
fn is_behind_writes(first: Value, second: Value) -> bool {
    // SAFETY: both are in blocks of one function.
    unsafe {
        let mut i = LLVMGetNextInstruction(first);
        while !i.is_null() && i != second {
            let writes = match LLVMGetInstructionOpcode(i) {
                LLVMOpcode::LLVMStore
                | LLVMOpcode::LLVMAtomicRMW
                | LLVMOpcode::LLVMAtomicCmpXchg
                | LLVMOpcode::LLVMFence => true,
                LLVMOpcode::LLVMCall => {
                    let called = LLVMIsAFunction(LLVMGetCalledValue(i));
                    let intrinsic = !called.is_null() && LLVMGetIntrinsicID(called) != 0;
                    !intrinsic || LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMVoidTypeKind
                }
                _ => false,
            };
            if writes {
                return true;
            }
            i = LLVMGetNextInstruction(i);
        }
        i.is_null()
    }
}

/// What is a comparison and a `select` where no instruction does it.
const COMPARED: [&str; 8] = [
    "llvm.minnum",
    "llvm.maxnum",
    "llvm.minimum",
    "llvm.maximum",
    "llvm.smin",
    "llvm.smax",
    "llvm.umin",
    "llvm.umax",
];

/// Before code is generated without bit masks: what a vector store takes of a `select` or a minimum that a load is part of.
pub fn stored(ir: &Ir) {
    // SAFETY: names with their lengths.
    let compared = COMPARED.map(|name| unsafe { LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()) });
    for store in functions(ir).into_iter().flat_map(all_of) {
        // SAFETY: the instruction is alive; a store has a value.
        unsafe {
            if LLVMGetInstructionOpcode(store) != LLVMOpcode::LLVMStore {
                continue;
            }
            let value = LLVMGetOperand(store, 0);
            if !is_vector(value) || LLVMIsAInstruction(value).is_null() {
                continue;
            }
            let selects = match LLVMGetInstructionOpcode(value) {
                LLVMOpcode::LLVMSelect => true,
                LLVMOpcode::LLVMCall => {
                    let called = LLVMIsAFunction(LLVMGetCalledValue(value));
                    !called.is_null() && compared.contains(&LLVMGetIntrinsicID(called))
                }
                _ => false,
            };
            let loaded = |n: i32| !LLVMIsALoadInst(LLVMGetOperand(value, n as u32)).is_null();
            if selects && (0..LLVMGetNumOperands(value)).any(loaded) {
                LLVMSetOperand(store, 0, ir.freeze_before(value, store));
            }
        }
    }
}

/// The instructions that use a value, each once.
fn users(value: Value) -> Vec<Value> {
    let mut out = Vec::new();
    // SAFETY: the value is alive, and so are its uses.
    unsafe {
        let mut of = LLVMGetFirstUse(value);
        while !of.is_null() {
            let user = LLVMGetUser(of);
            if !LLVMIsAInstruction(user).is_null() && !out.contains(&user) {
                out.push(user);
            }
            of = LLVMGetNextUse(of);
        }
    }
    out
}

/// Replaces all uses of an instruction's value by those of a `freeze` behind it.
fn through(ir: &Ir, value: Value) {
    // SAFETY: a load is no terminator, so that there is a next instruction; the new one alone keeps the value.
    unsafe {
        let frozen = ir.freeze_before(value, LLVMGetNextInstruction(value));
        LLVMReplaceAllUsesWith(value, frozen);
        LLVMSetOperand(frozen, 0, value);
    }
}

/// The instructions of a function.
fn all_of(function: Value) -> Vec<Value> {
    let mut out = Vec::new();
    // SAFETY: the function is alive and does not change here.
    unsafe {
        let mut block = LLVMGetFirstBasicBlock(function);
        while !block.is_null() {
            let mut i = LLVMGetFirstInstruction(block);
            while !i.is_null() {
                out.push(i);
                i = LLVMGetNextInstruction(i);
            }
            block = LLVMGetNextBasicBlock(block);
        }
    }
    out
}

/// The functions of a module.
fn functions(ir: &Ir) -> Vec<Value> {
    let mut out = Vec::new();
    // SAFETY: the module is alive and does not change here.
    unsafe {
        let mut function = LLVMGetFirstFunction(ir.module);
        while !function.is_null() {
            out.push(function);
            function = LLVMGetNextFunction(function);
        }
    }
    out
}
