//! Values that LLVM's passes must not look through, because what they would make of them is wrong or slow. Each of them passes through
//! a `freeze`, which is no instruction of any machine.
//!
//! - *Masked loads.* `select(m, masked.load(p, m), x)` becomes a masked load with `x` in its other lanes, which LLVM 22 makes where
//!   the `select` stands: behind stores in between, whose elements it then loads (LLVM's issue 215453).
//! - *Selected values that are stored.* `store(select(m, x, load(p)), p)` becomes a masked store, which processors without bit masks
//!   take many cycles for (a dozen on AMD's up to Zen 3), and whose elements cannot be loaded soon (LLVM's issue 213195).

use crate::ir::{Ir, Value};
use llvm_sys::LLVMOpcode;
use llvm_sys::LLVMTypeKind::LLVMVectorTypeKind;
use llvm_sys::core::*;
use std::collections::HashMap;

/// Before passes that combine instructions: every masked load is seen through a `freeze` in functions that may come to select lanes.
/// Elsewhere it would keep loads out of the instructions that use them.
pub fn masked_loads(ir: &Ir) {
    let name = "llvm.masked.load";
    // SAFETY: the module is alive; uses are listed before any is changed.
    unsafe {
        let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
        let mut selecting: HashMap<Value, bool> = HashMap::new();
        for function in functions(ir) {
            if LLVMGetIntrinsicID(function) == id {
                for load in users(function) {
                    let within = LLVMGetBasicBlockParent(LLVMGetInstructionParent(load));
                    let selects = *selecting
                        .entry(within)
                        .or_insert_with(|| all_of(within).into_iter().any(selects_lanes));
                    let frozen = |u: &Value| LLVMGetInstructionOpcode(*u) == LLVMOpcode::LLVMFreeze;
                    if selects && !users(load).iter().all(frozen) {
                        through(ir, load);
                    }
                }
            }
        }
    }
}

/// Before code is generated without bit masks: what a vector store takes of a `select` or a minimum that a load is part of.
pub fn stored(ir: &Ir) {
    for store in functions(ir).into_iter().flat_map(all_of) {
        // SAFETY: the instruction is alive; a store has a value.
        unsafe {
            if LLVMGetInstructionOpcode(store) != LLVMOpcode::LLVMStore {
                continue;
            }
            let value = LLVMGetOperand(store, 0);
            let vector = LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
            if !vector || LLVMIsAInstruction(value).is_null() {
                continue;
            }
            let selects = match LLVMGetInstructionOpcode(value) {
                LLVMOpcode::LLVMSelect => true,
                // `minnum` and the like are comparisons and a `select` where no instruction is one.
                LLVMOpcode::LLVMCall => {
                    let called = LLVMIsAFunction(LLVMGetCalledValue(value));
                    !called.is_null() && LLVMGetIntrinsicID(called) != 0
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

/// Whether lanes of a vector are selected, or a mask becomes numbers, of which products and the like are lanes that are selected.
fn selects_lanes(instruction: Value) -> bool {
    // SAFETY: the instruction is alive.
    unsafe {
        let vector = |v: Value| LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
        match LLVMGetInstructionOpcode(instruction) {
            LLVMOpcode::LLVMSelect => vector(instruction),
            LLVMOpcode::LLVMSExt | LLVMOpcode::LLVMZExt | LLVMOpcode::LLVMSIToFP | LLVMOpcode::LLVMUIToFP => {
                let from = LLVMTypeOf(LLVMGetOperand(instruction, 0));
                vector(instruction) && LLVMGetIntTypeWidth(LLVMGetElementType(from)) == 1
            }
            _ => false,
        }
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
