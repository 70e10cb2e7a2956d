//! Blocks, branches and values that depend on where control comes from.

use super::{Block, Ir, NO_NAME, Ty, Value, c_string};
use llvm_sys::core::*;
use llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use std::ffi::CStr;

impl Ir {
    pub fn block(&self, function: Value, name: &str) -> Block {
        let name = c_string(name);
        // SAFETY: a function of this module.
        unsafe { LLVMAppendBasicBlockInContext(self.ctx, function, name.as_ptr()) }
    }

    pub fn here(&self) -> Block {
        // SAFETY: the builder stands in a block whenever code is emitted.
        unsafe { LLVMGetInsertBlock(self.builder) }
    }

    pub fn at_end(&self, b: Block) {
        // SAFETY: a block of this module.
        unsafe { LLVMPositionBuilderAtEnd(self.builder, b) }
    }

    pub fn br(&self, to: Block) {
        // SAFETY: the current block has no terminator yet.
        unsafe { LLVMBuildBr(self.builder, to) };
    }

    pub fn cond_br(&self, c: Value, then: Block, other: Block) {
        // SAFETY: the current block has no terminator yet.
        unsafe { LLVMBuildCondBr(self.builder, c, then, other) };
    }

    /// As [`Ir::cond_br`], from the end of a loop to its head: LLVM makes no vectors and no copies of its iterations.
    pub fn scheduled_br(&self, c: Value, head: Block, exit: Block) {
        let text = |s: &CStr| {
            // SAFETY: the text is copied.
            unsafe { LLVMMDStringInContext2(self.ctx, s.as_ptr(), s.count_bytes()) }
        };
        let kind = c"llvm.loop";
        // SAFETY: the branch gets `!{self, !{!"llvm.loop.vectorize.enable", i1 false}, !{!"llvm.loop.unroll.disable"}}`,
        // whose first part stands for the node itself, which makes it one of its own.
        unsafe {
            let br = LLVMBuildCondBr(self.builder, c, head, exit);
            let mut no_vectors = [text(c"llvm.loop.vectorize.enable"), LLVMValueAsMetadata(self.int(1, 0))];
            let mut no_copies = [text(c"llvm.loop.unroll.disable")];
            let itself = LLVMTemporaryMDNode(self.ctx, std::ptr::null_mut(), 0);
            let mut parts = [
                itself,
                LLVMMDNodeInContext2(self.ctx, no_vectors.as_mut_ptr(), no_vectors.len()),
                LLVMMDNodeInContext2(self.ctx, no_copies.as_mut_ptr(), no_copies.len()),
            ];
            let node = LLVMMDNodeInContext2(self.ctx, parts.as_mut_ptr(), parts.len());
            LLVMMetadataReplaceAllUsesWith(itself, node);
            let kind = LLVMGetMDKindIDInContext(self.ctx, kind.as_ptr(), kind.count_bytes() as u32);
            LLVMSetMetadata(br, kind, LLVMMetadataAsValue(self.ctx, node));
        }
    }

    /// As [`Ir::cond_br`], with weights that keep the `other` side out of the way.
    pub fn likely_br(&self, c: Value, then: Block, other: Block) {
        let (prof, weights) = (c"prof", c"branch_weights");
        // SAFETY: the branch gets `!{!"branch_weights", i32, i32}`.
        unsafe {
            let br = LLVMBuildCondBr(self.builder, c, then, other);
            let kind = LLVMGetMDKindIDInContext(self.ctx, prof.as_ptr(), prof.count_bytes() as u32);
            let text = LLVMMDStringInContext2(self.ctx, weights.as_ptr(), weights.count_bytes());
            let mut parts = [text, LLVMValueAsMetadata(self.i32(1 << 20)), LLVMValueAsMetadata(self.i32(1))];
            let node = LLVMMDNodeInContext2(self.ctx, parts.as_mut_ptr(), parts.len());
            LLVMSetMetadata(br, kind, LLVMMetadataAsValue(self.ctx, node));
        }
    }

    pub fn ret(&self, v: Value) {
        // SAFETY: the value is of the function's result type.
        unsafe { LLVMBuildRet(self.builder, v) };
    }

    pub fn ret_void(&self) {
        // SAFETY: the function gives nothing.
        unsafe { LLVMBuildRetVoid(self.builder) };
    }

    pub fn phi(&self, ty: Ty) -> Value {
        // SAFETY: a first-class type.
        unsafe { LLVMBuildPhi(self.builder, ty, NO_NAME) }
    }

    pub fn incoming(&self, phi: Value, v: Value, from: Block) {
        // SAFETY: one value from one predecessor.
        unsafe { LLVMAddIncoming(phi, [v].as_mut_ptr(), [from].as_mut_ptr(), 1) }
    }
}
