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

/// Before passes that combine instructions: every masked load is seen through a `freeze`.
pub fn masked_loads(ir: &Ir) {
    let name = "llvm.masked.load";
    // SAFETY: the module is alive; uses are listed before any is changed.
    unsafe {
        let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
        let mut function = LLVMGetFirstFunction(ir.module);
        while !function.is_null() {
            if LLVMGetIntrinsicID(function) == id {
                for load in users(function) {
                    let guarded =
                        users(load).iter().all(|u| LLVMGetInstructionOpcode(*u) == LLVMOpcode::LLVMFreeze);
                    if !guarded {
                        through(ir, load);
                    }
                }
            }
            function = LLVMGetNextFunction(function);
        }
    }
}

/// Before code is generated without bit masks: what a vector store takes of a `select` or a minimum that a load is part of.
pub fn stored(ir: &Ir) {
    for store in instructions(ir, LLVMOpcode::LLVMStore) {
        // SAFETY: a store has a value.
        unsafe {
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

/// The instructions of a module that have an opcode.
fn instructions(ir: &Ir, opcode: LLVMOpcode) -> Vec<Value> {
    let mut out = Vec::new();
    // SAFETY: the module is alive and does not change here.
    unsafe {
        let mut function = LLVMGetFirstFunction(ir.module);
        while !function.is_null() {
            let mut block = LLVMGetFirstBasicBlock(function);
            while !block.is_null() {
                let mut i = LLVMGetFirstInstruction(block);
                while !i.is_null() {
                    if LLVMGetInstructionOpcode(i) == opcode {
                        out.push(i);
                    }
                    i = LLVMGetNextInstruction(i);
                }
                block = LLVMGetNextBasicBlock(block);
            }
            function = LLVMGetNextFunction(function);
        }
    }
    out
}
