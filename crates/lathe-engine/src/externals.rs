//! External functions: those that are given to a process, and what stands for the others.
//!
//! Compiled code calls them through the table of the runtime ([`lathe_abi::Runtime::externals`]), by the interface of
//! kernels: an array for each parameter, results in place. What they are called with and where is a matter of the tree, which
//! knows nothing of addresses, so code can be kept and shipped.

use lathe_abi::{CheckKind, KernelFn, Runtime};
use lathe_ir::interp::ArrayValue;
use lathe_ir::{External, Function, Module, Stage, Stmt};
use std::borrow::Cow;

/// The module in which external functions that are not given are what they mean, where they say that.
pub fn with_meanings<'m>(module: &'m Module, given: &dyn Fn(&str) -> bool) -> Cow<'m, Module> {
    replaced(module, &|x| {
        let meaning = module.functions.get(x.meaning.as_ref()?).filter(|_| !given(&x.name))?;
        Some(Function { name: x.name.clone(), ..meaning.clone() })
    })
}

/// The module in which functions without statements stand for the external ones that mean nothing.
pub(crate) fn with_places(module: &Module) -> Cow<'_, Module> {
    let next_id = module.functions.values().map(|f| f.next_id).max().unwrap_or_default();
    replaced(module, &|x| {
        let free = x.meaning.is_none() && x.result.is_none();
        free.then(|| Function {
            name: x.name.clone(),
            sizes: x.sizes.clone(),
            params: x.params.clone(),
            result: None,
            body: Stmt::empty(),
            stage: Stage::Plain,
            summary: Some(x.summary.clone()),
            next_id,
        })
    })
}

fn replaced<'m>(module: &'m Module, by: &dyn Fn(&External) -> Option<Function>) -> Cow<'m, Module> {
    let found: Vec<Function> = module.externals.values().filter_map(by).collect();
    if found.is_empty() {
        return Cow::Borrowed(module);
    }
    let mut module = module.clone();
    for f in found {
        module.externals.remove(&f.name);
        module.functions.insert(f.name.clone(), f);
    }
    Cow::Owned(module)
}

/// The names of the external functions that code calls, in the order of the runtime's table.
pub fn called(checks: &[CheckKind]) -> impl Iterator<Item = &str> {
    checks.iter().filter_map(|c| match c {
        CheckKind::External { name } => Some(name.as_str()),
        _ => None,
    })
}

/// Calls the external function at a place of the runtime's table, which may be missing as a whole.
///
/// # Safety
/// The table of the runtime, if it has one, has that place.
pub(crate) unsafe fn call(runtime: &Runtime, place: usize, args: &mut [ArrayValue]) -> Option<i32> {
    if runtime.externals.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let function: KernelFn = unsafe { *runtime.externals.add(place) };
    let shapes: Vec<Vec<i64>> = args.iter().map(|a| a.shape.iter().map(|n| *n as i64).collect()).collect();
    let strides: Vec<Vec<i64>> = shapes.iter().map(|s| row_major(s)).collect();
    let mut arrays = Vec::new();
    for ((a, shape), strides) in args.iter_mut().zip(&shapes).zip(&strides) {
        let (dtype, elem_bytes) = (crate::checks::dtype_of(&a.ty), a.ty.bytes());
        arrays.push(lathe_abi::Array {
            data: a.bytes_mut().as_mut_ptr().cast(),
            shape: shape.as_ptr(),
            strides: strides.as_ptr(),
            dtype,
            rank: shape.len() as u32,
            elem_bytes,
        });
    }
    // SAFETY: whoever gave the function promised that it has this interface; the descriptors are valid through the call.
    Some(unsafe { function(runtime, arrays.as_ptr()) })
}

fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
    }
    strides
}
