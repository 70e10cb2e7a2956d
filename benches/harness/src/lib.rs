//! Lathe behind a C interface, for `bench.py`.

use lathe::{compile, schedule, Build, Built, How, Machine, Pool, Program};
use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr, CString};

thread_local!(static ERROR: RefCell<CString> = RefCell::default());

fn fail(text: impl ToString) {
    let text = text.to_string().replace('\0', " ");
    ERROR.with(|e| *e.borrow_mut() = CString::new(text).unwrap_or_default());
}

struct Handle {
    built: Built,
    pool: Pool,
    elem: Vec<lathe::ir::Type>,
}

/// The text of the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn lathe_error() -> *const c_char {
    ERROR.with(|e| e.borrow().as_ptr())
}

/// Opens `FILE:KERNEL` with a strategy, perhaps with parameters: `fast`, `auto(parts_i_1=4,dims=2)`; `sizes` such as
/// `N=4096,M=8` specializes. Null on failure.
///
/// # Safety
/// The strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathe_open(
    target: *const c_char,
    strategy: *const c_char,
    threads: i64,
    sizes: *const c_char,
) -> *mut c_void {
    // SAFETY: by the caller.
    let text = |p| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
    match open(&text(target), &text(strategy), threads as usize, &text(sizes)) {
        Ok(h) => Box::into_raw(Box::new(h)).cast(),
        Err(e) => {
            fail(e);
            std::ptr::null_mut()
        }
    }
}

fn open(target: &str, strategy: &str, threads: usize, sizes: &str) -> Result<Handle, String> {
    let (file, name) = lathe::program::split_target(target);
    let program = Program::open(file).map_err(|e| e.to_string())?;
    let kernel = program.kernel(name.as_deref()).map_err(|e| e.to_string())?;
    let specialize = sizes
        .split(',')
        .filter_map(|s| s.split_once('='))
        .map(|(n, v)| (n.to_string(), v.parse().unwrap_or(0)))
        .collect();
    let (strategy, params) = match strategy.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (strategy, ""),
    };
    let params =
        params.split(',').filter_map(|p| p.split_once('=')).map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let how = How {
        strategy: Some(strategy.to_string()),
        params,
        specialize,
        threads: Some(threads),
        ..How::default()
    };
    // With `LATHE_BENCH_ISA=AVX2`, for a machine that has no more, and the caches of this one.
    let machine = match std::env::var("LATHE_BENCH_ISA").as_deref() {
        Ok("AVX2") => lathe::machine::here(lathe::machine::open("x86-64-v3").map_err(|e| e.to_string())?),
        _ => Machine::host(),
    };
    let s = schedule(&program, kernel, &how, &machine).map_err(|e| e.to_string())?;
    let built = compile(&s, &Build::default().on(&machine)).map_err(|e| e.to_string())?;
    let elem = kernel
        .params
        .iter()
        .map(|p| p.array().map_or(lathe::ir::Type::F32, |b| b.elem.clone()))
        .collect();
    Ok(Handle { built, pool: Pool::new(threads).map_err(|e| e.to_string())?, elem })
}

/// A kernel with its arguments, as a program would keep them between calls.
struct Bound {
    kernel: *const Handle,
    views: Vec<lathe::ArgView<'static>>,
    /// Arrays of structs, which are copied here when they are bound and back after the last call.
    structs: Vec<(*mut lathe::Array, *mut u8)>,
}

/// Binds `n` dense arrays given by data, shapes and strides (in elements) to a kernel. Null on failure.
///
/// # Safety
/// `h` came from `lathe_open`; every pointer leads to as much as the shapes and strides say, for as long as the
/// result is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathe_bind(
    h: *mut c_void,
    n: i64,
    data: *const *mut c_void,
    shapes: *const *const i64,
    strides: *const *const i64,
    ranks: *const i64,
) -> *mut c_void {
    // SAFETY: by the caller.
    let kernel = unsafe { &*h.cast::<Handle>() };
    let mut views = Vec::with_capacity(n as usize);
    let mut structs = Vec::new();
    for i in 0..n as usize {
        // SAFETY: by the caller.
        let (shape, strides, p) = unsafe {
            let rank = *ranks.add(i) as usize;
            let shape = std::slice::from_raw_parts(*shapes.add(i), rank);
            let strides = std::slice::from_raw_parts(*strides.add(i), rank);
            (shape, strides, *data.add(i))
        };
        let cells = shape.iter().product::<i64>() as usize;
        if kernel.elem[i].scalar().is_none() {
            match lathe::Array::zeros(kernel.elem[i].clone(), shape) {
                Ok(array) => {
                    // It lives as long as the process, as the kernel does.
                    let array = Box::into_raw(Box::new(array));
                    // SAFETY: just made, and used by nobody else; `p` leads to as many bytes by the caller.
                    unsafe {
                        let bytes = (*array).bytes_mut();
                        bytes.copy_from_slice(std::slice::from_raw_parts(p.cast::<u8>(), bytes.len()));
                        views.push((*array).view_mut());
                    }
                    structs.push((array, p.cast::<u8>()));
                }
                Err(e) => {
                    fail(e);
                    return std::ptr::null_mut();
                }
            }
            continue;
        }
        // SAFETY: by the caller; benchmark arrays are dense.
        let view = unsafe {
            match kernel.elem[i].scalar() {
                Some(lathe::ir::Scalar::F64) => {
                    let s = std::slice::from_raw_parts_mut(p.cast::<f64>(), cells);
                    lathe::ArgView::from_slice_mut(s, 0, shape, strides)
                }
                Some(lathe::ir::Scalar::I32) => {
                    let s = std::slice::from_raw_parts_mut(p.cast::<i32>(), cells);
                    lathe::ArgView::from_slice_mut(s, 0, shape, strides)
                }
                _ => {
                    let s = std::slice::from_raw_parts_mut(p.cast::<f32>(), cells);
                    lathe::ArgView::from_slice_mut(s, 0, shape, strides)
                }
            }
        };
        match view {
            Ok(v) => views.push(v),
            Err(e) => {
                fail(e);
                return std::ptr::null_mut();
            }
        }
    }
    Box::into_raw(Box::new(Bound { kernel, views, structs })).cast()
}

/// Calls a bound kernel `times` times, each with all its checks. 0 on success.
///
/// # Safety
/// `b` came from `lathe_bind` and nobody else calls it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lathe_repeat(b: *mut c_void, times: i64) -> i32 {
    // SAFETY: by the caller.
    let (b, kernel, structs) = unsafe {
        let b = &mut *b.cast::<Bound>();
        (&mut b.views, &*b.kernel, &b.structs)
    };
    let done = (0..times).try_for_each(|_| kernel.built.call_views(&kernel.pool, b));
    for (array, p) in structs {
        // SAFETY: as when they were bound.
        unsafe {
            let bytes = (**array).bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), *p, bytes.len());
        }
    }
    match done {
        Ok(()) => 0,
        Err(e) => {
            fail(e);
            1
        }
    }
}
