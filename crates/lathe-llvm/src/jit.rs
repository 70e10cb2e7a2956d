//! Object files loaded into this process through ORC.

use crate::emit::Result;
use crate::ir::c_string;
use crate::machine::take_error;
use crate::parts;
use lathe_abi::{Array, KernelFn, Runtime};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Code, codes};
use llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use llvm_sys::error::LLVMErrorRef;
use llvm_sys::orc2::lljit::*;
use llvm_sys::orc2::*;

/// A kernel in memory. The code lives as long as this value.
pub struct Loaded {
    jit: LLVMOrcLLJITRef,
    entry: KernelFn,
}

// SAFETY: after loading, the session is touched only by `drop`; the code itself is immutable.
unsafe impl Send for Loaded {}
// SAFETY: as above: shared references give out a function pointer only.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: made in `load`, disposed of once; an error here leaves nothing to be done.
        unsafe {
            take_error(LLVMOrcDisposeLLJIT(self.jit));
        }
    }
}

impl Code for Loaded {
    unsafe fn call(&self, runtime: &Runtime, args: &[Array]) -> Result<i32> {
        // SAFETY: the caller's promise is that of the ABI.
        Ok(unsafe { (self.entry)(runtime, args.as_ptr()) })
    }

    fn entry(&self) -> Option<KernelFn> {
        Some(self.entry)
    }
}

/// What goes wrong comes back as the result of a call too; LLVM's own report would be printed.
extern "C" fn drop_report(_: *mut std::ffi::c_void, error: LLVMErrorRef) {
    take_error(error);
}

/// Loads an object file for this machine.
///
/// # Errors
/// `E0705` when it is no object file for this machine or does not define the symbol.
pub fn load(bytes: &[u8], symbol: &str) -> Result<Loaded> {
    let error = |text: String| Diagnostic::error(codes::OBJECT, format!("loading `{symbol}`: {text}"));
    // LLVM's loader does not check what it is given.
    let whole = |part: &&[u8]| part.starts_with(b"\x7fELF") || !cfg!(target_os = "linux");
    let Some(parts) = parts::split(bytes).filter(|all| !all.is_empty() && all.iter().all(whole)) else {
        return Err(error("these bytes are no object files of this machine".into()));
    };
    let name = c_string(symbol);
    let mut jit = std::ptr::null_mut();
    // SAFETY: LLJIT takes over the generator and the buffers (copies of the bytes); on every error
    // path the session is disposed of.
    unsafe {
        crate::machine::initialize();
        if let Some(text) = take_error(LLVMOrcCreateLLJIT(&mut jit, std::ptr::null_mut())) {
            return Err(error(text));
        }
        let session = LLVMOrcLLJITGetExecutionSession(jit);
        LLVMOrcExecutionSessionSetErrorReporter(session, drop_report, std::ptr::null_mut());
        let dylib = LLVMOrcLLJITGetMainJITDylib(jit);
        let mut process = std::ptr::null_mut();
        let prefix = LLVMOrcLLJITGetGlobalPrefix(jit);
        let mut failed = take_error(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
            &mut process,
            prefix,
            None,
            std::ptr::null_mut(),
        ));
        let mut address = 0;
        if failed.is_none() {
            LLVMOrcJITDylibAddGenerator(dylib, process);
            failed = parts.iter().find_map(|part| {
                let (start, n) = (part.as_ptr().cast(), part.len());
                let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(start, n, name.as_ptr());
                take_error(LLVMOrcLLJITAddObjectFile(jit, dylib, buffer))
            });
        }
        if failed.is_none() {
            failed = take_error(LLVMOrcLLJITLookup(jit, &mut address, name.as_ptr()));
        }
        if let Some(text) = failed {
            take_error(LLVMOrcDisposeLLJIT(jit));
            return Err(error(text));
        }
        // The symbol is defined by `emit`, with the type of a kernel.
        let entry = std::mem::transmute::<*const (), KernelFn>(address as usize as *const ());
        Ok(Loaded { jit, entry })
    }
}
