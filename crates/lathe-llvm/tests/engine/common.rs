//! A runtime table made of plain threads and `malloc`, arrays with any strides, and calls.

use lathe_abi::{Array, LoopBody, Runtime};
use lathe_diagnostics::FileId;
use lathe_engine::{Code, Engine, Object, Options};
use lathe_ir::{Function, Module, Scalar};
use lathe_llvm::Llvm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub static LIVE: AtomicI64 = AtomicI64::new(0);
/// `alloc` gives null when this is set.
pub static NO_MEMORY: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
struct Shared(LoopBody, *mut c_void);
// SAFETY: bodies of parallel loops may run on any thread.
unsafe impl Send for Shared {}
impl Shared {
    fn run(self, begin: i64, end: i64) -> i32 {
        // SAFETY: the kernel gave body and environment for ranges of this loop.
        unsafe { (self.0)(self.1, begin, end) }
    }
}

unsafe extern "C" fn parallel_for(_: *mut c_void, count: i64, body: LoopBody, env: *mut c_void) -> i32 {
    let shared = Shared(body, env);
    let half = count / 2;
    std::thread::scope(|s| {
        let first = s.spawn(move || if half > 0 { shared.run(0, half) } else { 0 });
        let second = if count > half { shared.run(half, count) } else { 0 };
        match first.join().expect("a body does not panic") {
            0 => second,
            status => status,
        }
    })
}

unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64) -> *mut c_void {
    if NO_MEMORY.load(Ordering::SeqCst) != 0 {
        return std::ptr::null_mut();
    }
    LIVE.fetch_add(1, Ordering::SeqCst);
    // Garbage, with the size in front, so that nobody relies on zeros.
    let layout = std::alloc::Layout::from_size_align(bytes as usize + 64, 64).expect("a sane size");
    // SAFETY: the size is not 0.
    unsafe {
        let p = std::alloc::alloc(layout);
        std::ptr::write_bytes(p, 0xa5, bytes as usize + 64);
        p.cast::<u64>().write(bytes);
        p.add(64).cast()
    }
}

unsafe extern "C" fn free(_: *mut c_void, memory: *mut c_void) {
    LIVE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: made by `alloc`, which left the size in front.
    unsafe {
        let p = memory.cast::<u8>().sub(64);
        let bytes = p.cast::<u64>().read() as usize;
        std::alloc::dealloc(p, std::alloc::Layout::from_size_align(bytes + 64, 64).expect("as allocated"));
    }
}

unsafe extern "C" fn wait(_: *mut c_void) -> i32 {
    std::thread::yield_now();
    0
}

pub fn runtime() -> Runtime {
    let version = u64::from(lathe_abi::VERSION);
    Runtime {
        version,
        ctx: std::ptr::null_mut(),
        parallel_for,
        alloc,
        free,
        wait,
        externals: std::ptr::null(),
    }
}

/// An array in memory of its own.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub dtype: u32,
    pub elem: usize,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    /// Of the element with all subscripts 0, in bytes.
    pub first: usize,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Row-major, from raw bytes.
    pub fn of(dtype: u32, elem: usize, shape: &[i64], bytes: Vec<u8>) -> Tensor {
        let mut strides = vec![1; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d];
        }
        Tensor { dtype, elem, shape: shape.to_vec(), strides, first: 0, bytes }
    }

    pub fn f32(shape: &[i64], f: impl Fn(usize) -> f32) -> Tensor {
        let n = shape.iter().product::<i64>() as usize;
        let bytes = (0..n).flat_map(|i| f(i).to_ne_bytes()).collect();
        Tensor::of(lathe_abi::dtype::F32, 4, shape, bytes)
    }

    pub fn i32(shape: &[i64], f: impl Fn(usize) -> i32) -> Tensor {
        let n = shape.iter().product::<i64>() as usize;
        let bytes = (0..n).flat_map(|i| f(i).to_ne_bytes()).collect();
        Tensor::of(lathe_abi::dtype::I32, 4, shape, bytes)
    }

    pub fn i64(shape: &[i64], f: impl Fn(usize) -> i64) -> Tensor {
        let n = shape.iter().product::<i64>() as usize;
        let bytes = (0..n).flat_map(|i| f(i).to_ne_bytes()).collect();
        Tensor::of(lathe_abi::dtype::I64, 8, shape, bytes)
    }

    /// The same elements with other strides in a larger memory.
    pub fn strided(&self, strides: &[i64]) -> Tensor {
        let reach = |down: bool| -> i64 {
            let far = |(x, s): (&i64, &i64)| (x - 1).max(0) * s;
            self.shape.iter().zip(strides).map(far).filter(|r| (*r < 0) == down).sum()
        };
        let first = (-reach(true)) as usize * self.elem;
        let size = first + (reach(false) as usize + 1) * self.elem;
        let mut t = Tensor { strides: strides.to_vec(), first, bytes: vec![0; size], ..self.clone() };
        for (n, v) in self.elements().into_iter().enumerate() {
            let at = t.position(n);
            t.bytes[at..at + self.elem].copy_from_slice(&v);
        }
        t
    }

    fn position(&self, mut n: usize) -> usize {
        let mut at = self.first as i64;
        for d in (0..self.shape.len()).rev() {
            at += (n as i64 % self.shape[d]) * self.strides[d] * self.elem as i64;
            n /= self.shape[d] as usize;
        }
        at as usize
    }

    /// Elements in row-major order.
    pub fn elements(&self) -> Vec<Vec<u8>> {
        let n = self.shape.iter().product::<i64>() as usize;
        (0..n).map(|n| self.bytes[self.position(n)..][..self.elem].to_vec()).collect()
    }

    pub fn as_i32(&self) -> Vec<i32> {
        let v = self.elements();
        v.iter().map(|b| i32::from_ne_bytes(b[..].try_into().expect("four bytes"))).collect()
    }

    pub fn as_f32(&self) -> Vec<f32> {
        let v = self.elements();
        v.iter().map(|b| f32::from_ne_bytes(b[..].try_into().expect("four bytes"))).collect()
    }

    pub fn as_i64(&self) -> Vec<i64> {
        let v = self.elements();
        v.iter().map(|b| i64::from_ne_bytes(b[..].try_into().expect("eight bytes"))).collect()
    }

    pub fn descriptor(&mut self) -> Array {
        Array {
            // SAFETY: `first` lies inside or at the end of the bytes.
            data: unsafe { self.bytes.as_mut_ptr().add(self.first) }.cast(),
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            dtype: self.dtype,
            rank: self.shape.len() as u32,
            elem_bytes: self.elem as u64,
        }
    }
}

pub fn parse(text: &str) -> (Module, Function) {
    let module = lathe_ir::text::parse_module(FileId(0), text)
        .unwrap_or_else(|e| panic!("{}", e.iter().map(|d| format!("{d}\n")).collect::<String>()));
    let func = module.functions.values().last().expect("a function").clone();
    (module, func)
}

/// Code with what its numbers mean.
pub struct Compiled {
    pub object: Object,
    code: Box<dyn Code>,
}

impl Compiled {
    pub fn of(text: &str, options: &Options) -> Compiled {
        let (module, func) = parse(text);
        let object = Llvm.compile(&module, &func, options).unwrap_or_else(|d| panic!("{d}\n{text}"));
        let code = Llvm.load(&object, &func).unwrap_or_else(|d| panic!("{d}\n{text}"));
        Compiled { object, code }
    }

    /// # Safety
    /// As [`Code::call`].
    pub unsafe fn run(&self, runtime: &Runtime, args: &[Array]) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { self.code.call(runtime, args) }.expect("machine code only has numbers")
    }
}

pub fn compile(text: &str) -> Compiled {
    Compiled::of(text, &Options::default())
}

/// Why a function is refused.
pub fn refused(text: &str, options: &Options) -> lathe_diagnostics::Diagnostic {
    let (module, func) = parse(text);
    Llvm.compile(&module, &func, options).expect_err(text)
}

pub fn emit(text: &str, form: &str, options: &Options) -> String {
    let (module, func) = parse(text);
    let bytes = Llvm.emit(&module, &func, form, options).unwrap_or_else(|d| panic!("{d}\n{text}"));
    String::from_utf8(bytes).expect("text")
}

pub fn call(c: &Compiled, args: &mut [&mut Tensor]) -> i32 {
    let descriptors: Vec<Array> = args.iter_mut().map(|t| t.descriptor()).collect();
    // SAFETY: the descriptors describe live memory.
    unsafe { c.run(&runtime(), &descriptors) }
}

/// A scalar argument.
pub fn scalar(s: Scalar, bytes: &[u8]) -> Tensor {
    let codes = [0u32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
    let at = Scalar::ALL.iter().position(|x| *x == s).expect("a scalar type");
    Tensor::of(codes[at], bytes.len(), &[], bytes.to_vec())
}
