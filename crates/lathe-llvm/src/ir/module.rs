//! What a module holds: functions with their parameters and attributes, constants in memory, shared memory.

use super::{Ir, Ty, Value, c_string};
use llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use llvm_sys::core::*;
use std::ffi::CStr;

impl Ir {
    pub fn function(&self, name: &str, ty: Ty) -> Value {
        let name = c_string(name);
        // SAFETY: a function type of this context.
        unsafe { LLVMAddFunction(self.module, name.as_ptr(), ty) }
    }

    pub fn set_internal(&self, f: Value) {
        // SAFETY: a function of this module.
        unsafe { LLVMSetLinkage(f, llvm_sys::LLVMLinkage::LLVMInternalLinkage) }
    }

    /// Other modules of the same code may call the function, and nobody else.
    pub fn set_hidden(&self, f: Value) {
        // SAFETY: a function of this module.
        unsafe { LLVMSetVisibility(f, llvm_sys::LLVMVisibility::LLVMHiddenVisibility) }
    }

    /// Whether the module has no functions.
    pub fn is_empty(&self) -> bool {
        // SAFETY: the module is alive.
        unsafe { LLVMGetFirstFunction(self.module).is_null() }
    }

    /// The module in LLVM's binary form.
    pub fn bitcode(&self) -> Vec<u8> {
        // SAFETY: the bytes are copied, then disposed of.
        unsafe {
            let buffer = LLVMWriteBitcodeToMemoryBuffer(self.module);
            let start = LLVMGetBufferStart(buffer).cast::<u8>();
            let out = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
            LLVMDisposeMemoryBuffer(buffer);
            out
        }
    }

    /// Marks a function as one that the host starts on a CUDA device.
    pub fn set_kernel(&self, f: Value) {
        // LLVM's number of the calling convention `ptx_kernel`.
        const PTX_KERNEL: u32 = 71;
        // SAFETY: a function of this module.
        unsafe { LLVMSetFunctionCallConv(f, PTX_KERNEL) }
    }

    /// The address of memory that the threads of a block share, aligned to 16: of that many bytes, or of as many as the
    /// launch gives.
    pub fn shared_memory(&self, name: &str, bytes: Option<u64>) -> Value {
        // The number of this address space.
        const SHARED: u32 = 3;
        let name = c_string(name);
        let ty = self.array_ty(self.int_ty(8), bytes.unwrap_or(0));
        // SAFETY: a sized type, and a constant of this module.
        unsafe {
            let v = LLVMAddGlobalInAddressSpace(self.module, ty, name.as_ptr(), SHARED);
            LLVMSetAlignment(v, 16);
            if bytes.is_some() {
                LLVMSetLinkage(v, llvm_sys::LLVMLinkage::LLVMInternalLinkage);
                LLVMSetInitializer(v, LLVMGetUndef(ty));
            }
            v
        }
    }

    /// The address of constant words of so many bits in a device's memory: constant memory, or global memory.
    pub fn constant_array(&self, name: &str, bits: u32, words: &[u64], constant: bool) -> Value {
        // The numbers of these address spaces.
        const GLOBAL: u32 = 1;
        const CONSTANT: u32 = 4;
        let name = c_string(name);
        let ty = self.int_ty(bits);
        let mut parts: Vec<Value> = words.iter().map(|n| self.int(bits, *n as i64)).collect();
        let space = if constant { CONSTANT } else { GLOBAL };
        // SAFETY: constants of this context, as many as the array has.
        unsafe {
            let all = LLVMConstArray2(ty, parts.as_mut_ptr(), parts.len() as u64);
            let v = LLVMAddGlobalInAddressSpace(self.module, LLVMTypeOf(all), name.as_ptr(), space);
            LLVMSetInitializer(v, all);
            LLVMSetGlobalConstant(v, 1);
            LLVMSetLinkage(v, llvm_sys::LLVMLinkage::LLVMInternalLinkage);
            LLVMSetAlignment(v, 16);
            v
        }
    }

    /// The address of constant numbers of 32 bits.
    pub fn table(&self, name: &str, numbers: &[u32]) -> Value {
        let name = c_string(name);
        let mut parts: Vec<Value> = numbers.iter().map(|n| self.int(32, i64::from(*n))).collect();
        // SAFETY: constants of this context, as many as the array has.
        unsafe {
            let all = LLVMConstArray2(self.int_ty(32), parts.as_mut_ptr(), parts.len() as u64);
            let v = LLVMAddGlobal(self.module, LLVMTypeOf(all), name.as_ptr());
            LLVMSetInitializer(v, all);
            LLVMSetGlobalConstant(v, 1);
            LLVMSetLinkage(v, llvm_sys::LLVMLinkage::LLVMPrivateLinkage);
            LLVMSetAlignment(v, 4);
            v
        }
    }

    pub fn param(&self, f: Value, i: usize) -> Value {
        // SAFETY: the function has more than `i` parameters.
        unsafe { LLVMGetParam(f, i as u32) }
    }

    /// Which parameter of a function a value is.
    pub fn param_number(&self, f: Value, v: Value) -> Option<usize> {
        // SAFETY: a function of this module.
        let n = unsafe { LLVMCountParams(f) } as usize;
        (0..n).find(|i| self.param(f, *i) == v)
    }

    /// Sets an attribute without a value on parameter `param`, or on the function.
    pub fn attribute(&self, f: Value, param: Option<usize>, name: &str) {
        let at = param.map_or(llvm_sys::LLVMAttributeFunctionIndex, |p| p as u32 + 1);
        // SAFETY: every name in this crate is an attribute of this LLVM that may stand there.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
            LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(self.ctx, kind, 0));
        }
    }

    /// Sets an attribute that has a value on parameter `param`, or on the function.
    pub fn valued_attribute(&self, f: Value, param: Option<usize>, name: &str, value: u64) {
        let at = param.map_or(llvm_sys::LLVMAttributeFunctionIndex, |p| p as u32 + 1);
        // SAFETY: every name in this crate is an attribute of this LLVM that may stand there.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
            LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(self.ctx, kind, value));
        }
    }

    pub fn string_attribute(&self, f: Value, key: &str, value: &str) {
        // SAFETY: both texts are given with their lengths.
        unsafe {
            let a = LLVMCreateStringAttribute(
                self.ctx,
                key.as_ptr().cast(),
                key.len() as u32,
                value.as_ptr().cast(),
                value.len() as u32,
            );
            LLVMAddAttributeAtIndex(f, llvm_sys::LLVMAttributeFunctionIndex, a);
        }
    }

    /// The module as text.
    pub fn print(&self) -> String {
        // SAFETY: the message is copied, then given back.
        unsafe {
            let text = LLVMPrintModuleToString(self.module);
            let out = CStr::from_ptr(text).to_string_lossy().into_owned();
            LLVMDisposeMessage(text);
            out
        }
    }
}
