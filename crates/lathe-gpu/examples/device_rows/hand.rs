//! The driver's functions as a program by hand calls them (what `cuda.h` declares).

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub type Ptr = *mut c_void;

macro_rules! driver {
    ($($field:ident = $symbol:literal ($($a:ty),*);)*) => {
        pub struct Cuda { $(pub $field: extern "C" fn($($a),*) -> c_int,)* }

        impl Cuda {
            pub fn open() -> Cuda {
                // SAFETY: the driver.
                let l = Box::leak(Box::new(unsafe { libloading::Library::new("libcuda.so.1") }.expect("a driver")));
                // SAFETY: the types of `cuda.h`.
                Cuda { $($field: *unsafe { l.get($symbol.as_bytes()) }.expect($symbol),)* }
            }
        }
    };
}

driver! {
    cuInit = "cuInit" (c_uint);
    cuDeviceGet = "cuDeviceGet" (*mut c_int, c_int);
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut Ptr, c_int);
    cuCtxSetCurrent = "cuCtxSetCurrent" (Ptr);
    cuModuleLoadData = "cuModuleLoadData" (*mut Ptr, *const c_void);
    cuModuleGetFunction = "cuModuleGetFunction" (*mut Ptr, Ptr, *const c_char);
    cuModuleUnload = "cuModuleUnload" (Ptr);
    cuMemAlloc = "cuMemAlloc_v2" (*mut u64, usize);
    cuMemFree = "cuMemFree_v2" (u64);
    cuMemHostAlloc = "cuMemHostAlloc" (*mut Ptr, usize, c_uint);
    cuMemFreeHost = "cuMemFreeHost" (Ptr);
    cuStreamCreate = "cuStreamCreate" (*mut Ptr, c_uint);
    cuStreamDestroy = "cuStreamDestroy_v2" (Ptr);
    cuStreamSynchronize = "cuStreamSynchronize" (Ptr);
    cuMemcpyHtoDAsync = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Ptr);
    cuMemcpyDtoHAsync = "cuMemcpyDtoHAsync_v2" (Ptr, u64, usize, Ptr);
    cuLaunchKernel = "cuLaunchKernel" (Ptr, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Ptr, *mut Ptr, *mut Ptr);
}

pub fn ok(result: c_int) {
    assert_eq!(result, 0, "the driver failed");
}

/// The address of an argument.
pub fn at<T>(v: &mut T) -> Ptr {
    std::ptr::from_mut(v).cast()
}
