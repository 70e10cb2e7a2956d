//! The driver's functions as a program by hand calls them (what `cuda.h` declares), and what such programs have in common.

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

pub type Ptr = *mut c_void;

/// The name that the compiler gave a kernel, and its code.
pub type Cubin = (String, Vec<u8>);

macro_rules! driver {
    ($($field:ident = $symbol:literal ($($a:ty),*);)*) => {
        pub struct Cuda { $(pub $field: extern "C" fn($($a),*) -> c_int,)* }

        impl Cuda {
            pub fn get() -> &'static Cuda {
                static OPEN: OnceLock<Cuda> = OnceLock::new();
                OPEN.get_or_init(|| {
                    // SAFETY: the driver.
                    let l = unsafe { libloading::Library::new("libcuda.so.1") }.expect("a driver");
                    let l = Box::leak(Box::new(l));
                    // SAFETY: the types of `cuda.h`.
                    Cuda { $($field: *unsafe { l.get($symbol.as_bytes()) }.expect($symbol),)* }
                })
            }
        }
    };
}

driver! {
    cuInit = "cuInit" (c_uint);
    cuDeviceGetCount = "cuDeviceGetCount" (*mut c_int);
    cuEventCreate = "cuEventCreate" (*mut Ptr, c_uint);
    cuEventRecord = "cuEventRecord" (Ptr, Ptr);
    cuStreamWaitEvent = "cuStreamWaitEvent" (Ptr, Ptr, c_uint);
    cuMemcpyPeerAsync = "cuMemcpyPeerAsync" (u64, Ptr, u64, Ptr, usize, Ptr);
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

// begin by hand
/// What every program against the driver has: a context, code, a stream, memory.
pub struct Session {
    cu: &'static Cuda,
    pub context: Ptr,
    pub stream: Ptr,
    modules: Vec<Ptr>,
    functions: Vec<Ptr>,
    pinned: Vec<Ptr>,
    memory: Vec<u64>,
}

impl Session {
    pub fn open(cubins: &[Cubin]) -> Session {
        Session::open_on(0, cubins)
    }

    pub fn open_on(number: c_int, cubins: &[Cubin]) -> Session {
        let (cu, mut device, none) = (Cuda::get(), 0, std::ptr::null_mut());
        let (mut context, mut stream) = (none, none);
        ok((cu.cuInit)(0));
        ok((cu.cuDeviceGet)(&mut device, number));
        ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
        ok((cu.cuCtxSetCurrent)(context));
        ok((cu.cuStreamCreate)(&mut stream, 1));
        let (mut modules, mut functions) = (Vec::new(), Vec::new());
        for (name, cubin) in cubins {
            let (mut module, mut function) = (none, none);
            let name = CString::new(name.as_str()).expect("a name");
            ok((cu.cuModuleLoadData)(&mut module, cubin.as_ptr().cast()));
            ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
            modules.push(module);
            functions.push(function);
        }
        Session { cu, context, stream, modules, functions, pinned: Vec::new(), memory: Vec::new() }
    }

    pub fn devices() -> usize {
        let mut n = 0;
        ok((Cuda::get().cuInit)(0));
        ok((Cuda::get().cuDeviceGetCount)(&mut n));
        n as usize
    }

    pub fn enter(&self) {
        ok((self.cu.cuCtxSetCurrent)(self.context));
    }

    pub fn pinned<T>(&mut self, n: usize) -> &'static mut [T] {
        let mut p = std::ptr::null_mut();
        ok((self.cu.cuMemHostAlloc)(&mut p, n * size_of::<T>(), 0));
        self.pinned.push(p);
        // SAFETY: memory of this size, which is used until the session is closed.
        unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
    }

    pub fn memory(&mut self, bytes: usize) -> u64 {
        let mut p = 0;
        ok((self.cu.cuMemAlloc)(&mut p, bytes));
        self.memory.push(p);
        p
    }

    pub fn copy_to<T>(&self, to: u64, from: &[T]) {
        ok((self.cu.cuMemcpyHtoDAsync)(to, from.as_ptr().cast(), size_of_val(from), self.stream));
    }

    pub fn copy_from<T>(&self, to: &mut [T], from: u64) {
        ok((self.cu.cuMemcpyDtoHAsync)(to.as_mut_ptr().cast(), from, size_of_val(to), self.stream));
    }

    pub fn launch(&self, kernel: usize, blocks: usize, threads: u32, arguments: &mut [Ptr]) {
        self.launch_2d(kernel, [blocks, 1], threads, arguments);
    }

    pub fn launch_2d(&self, kernel: usize, [x, y]: [usize; 2], threads: u32, arguments: &mut [Ptr]) {
        let (f, a, s, none) =
            (self.functions[kernel], arguments.as_mut_ptr(), self.stream, std::ptr::null_mut());
        ok((self.cu.cuLaunchKernel)(f, x as u32, y as u32, 1, threads, 1, 1, 0, s, a, none));
    }

    pub fn wait(&self) {
        ok((self.cu.cuStreamSynchronize)(self.stream));
    }

    pub fn close(self) {
        ok((self.cu.cuStreamDestroy)(self.stream));
        self.memory.iter().for_each(|p| ok((self.cu.cuMemFree)(*p)));
        self.pinned.iter().for_each(|p| ok((self.cu.cuMemFreeHost)(*p)));
        self.modules.iter().for_each(|m| ok((self.cu.cuModuleUnload)(*m)));
    }
}
// end
