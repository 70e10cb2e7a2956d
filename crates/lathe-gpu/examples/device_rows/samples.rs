//! The five samples of HCA's evaluation (Rasch, section 3.7) and a heat equation with halos: host code with Lathe and by hand
//! against the driver, on the same kernels. Lines between `begin` and `end` are counted.

use crate::hand::{Cuda, Ptr, at, ok};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Buffer, Devices, Kernel, PinnedBuffer, dim3, read, read_write, write};
use std::time::Instant;

/// Seconds of a whole run without compilation, and a number that says what came out.
pub type Ran = (f64, f64);

pub const REDUCTION: &str = "__global__ void reduction(float *out, const float *in, int n) {
    __shared__ float part[256];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
    part[threadIdx.x] = s;
    for (int h = 128; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}";

pub const MONTE_CARLO: &str =
    "__global__ void monte_carlo(unsigned long long *hits, unsigned int seed, int n) {
    unsigned int id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int s = seed + id * 747796405u + 2891336453u;
    unsigned long long h = 0;
    for (int i = 0; i < n; i++) {
        s = s * 747796405u + 2891336453u; unsigned int a = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
        s = s * 747796405u + 2891336453u; unsigned int b = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
        float x = (a >> 8) * (1.0f / 16777216.0f), y = (b >> 8) * (1.0f / 16777216.0f);
        h += x * x + y * y < 1.0f;
    }
    hits[id] = h;
}";

pub const N_BODY: &str =
    "__global__ void n_body(float4 *next, float4 *speed, const float4 *now, int n, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p = now[i], v = speed[i];
    float ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; j++) {
        float4 q = now[j];
        float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f), w = q.w * r * r * r;
        ax += dx * w; ay += dy * w; az += dz * w;
    }
    v.x += ax * dt; v.y += ay * dt; v.z += az * dt;
    p.x += v.x * dt; p.y += v.y * dt; p.z += v.z * dt;
    speed[i] = v; next[i] = p;
}";

pub const SCALED_DOT: &str = "__global__ void scaled_dot(float *out, const float *x, const float *y, float a, int n) {
    __shared__ float part[256];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += a * x[i] * y[i];
    part[threadIdx.x] = s;
    for (int h = 128; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}";

pub const TONE_MAPPING: &str = "__global__ void luminance(float *out, const float4 *image, int n) {
    __shared__ float part[256];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 p = image[i];
        s += logf(1e-6f + 0.2126f * p.x + 0.7152f * p.y + 0.0722f * p.z);
    }
    part[threadIdx.x] = s;
    for (int h = 128; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
__global__ void tone_map(float4 *image, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = image[i];
    p.x = scale * p.x / (1 + scale * p.x); p.y = scale * p.y / (1 + scale * p.y); p.z = scale * p.z / (1 + scale * p.z);
    image[i] = p;
}";

pub const HEAT: &str = "__global__ void heat(float *next, const float *now, int rows, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y + 1;
    if (j < 1 || j >= n - 1 || i > rows) return;
    next[(i - 1) * n + j] = now[i * n + j] + 0.2f * (now[(i - 1) * n + j] + now[(i + 1) * n + j] + now[i * n + j - 1] + now[i * n + j + 1] - 4 * now[i * n + j]);
}";

pub const N: usize = 1 << 25;
const BLOCKS: usize = 1024;

fn data<const N: usize>(i: usize) -> f32 {
    ((i.wrapping_mul(2_654_435_761) % N) as f32) / N as f32
}

/// The 4-step reduction on all devices: devices, a kernel, inputs, launches.
pub fn reduction(devices: &Devices, kernel: &Kernel) -> Result<Ran, Diagnostic> {
    let start = Instant::now();
    // begin reduction lathe
    let (all, n) = (devices.len(), N / devices.len());
    let input = PinnedBuffer::<f32>::new(devices, n * all)?;
    let output = PinnedBuffer::<f32>::new(devices, BLOCKS * all)?;
    input.fill(data::<N>)?;
    for (d, device) in devices.iter().enumerate() {
        let (to, from) = (output.part(d * BLOCKS..(d + 1) * BLOCKS)?, input.part(d * n..(d + 1) * n)?);
        device.launch(kernel, dim3(BLOCKS as u32, 256), &[write(to), read(from), (n as i32).into()])?;
    }
    let sum: f64 = output.with(0..BLOCKS * all, |p| p.iter().map(|v| f64::from(*v)).sum())?;
    // end
    drop((input, output));
    Ok((start.elapsed().as_secs_f64(), sum))
}

/// The same by hand, on one device.
pub fn reduction_by_hand(cu: &Cuda, cubin: &(String, Vec<u8>)) -> Ran {
    let start = Instant::now();
    // begin reduction hand
    let (mut device, mut context, mut module, mut function) = (0, null(), null(), null());
    ok((cu.cuInit)(0));
    ok((cu.cuDeviceGet)(&mut device, 0));
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
    ok((cu.cuCtxSetCurrent)(context));
    let name = std::ffi::CString::new(cubin.0.as_str()).expect("a name");
    ok((cu.cuModuleLoadData)(&mut module, cubin.1.as_ptr().cast()));
    ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
    let (mut input, mut output) = (null(), null());
    ok((cu.cuMemHostAlloc)(&mut input, N * 4, 0));
    ok((cu.cuMemHostAlloc)(&mut output, BLOCKS * 4, 0));
    let from = unsafe { std::slice::from_raw_parts_mut(input.cast::<f32>(), N) };
    let make = data::<N>;
    for (i, v) in from.iter_mut().enumerate() {
        *v = make(i);
    }
    let (mut on_device, mut result) = (0u64, 0u64);
    ok((cu.cuMemAlloc)(&mut on_device, N * 4));
    ok((cu.cuMemAlloc)(&mut result, BLOCKS * 4));
    let mut stream = null();
    ok((cu.cuStreamCreate)(&mut stream, 1));
    ok((cu.cuMemcpyHtoDAsync)(on_device, input, N * 4, stream));
    let mut count = N as i32;
    let mut arguments = [at(&mut result), at(&mut on_device), at(&mut count)];
    let none = null();
    ok((cu.cuLaunchKernel)(
        function,
        BLOCKS as u32,
        1,
        1,
        256,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        none.cast(),
    ));
    ok((cu.cuMemcpyDtoHAsync)(output, result, BLOCKS * 4, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let parts = unsafe { std::slice::from_raw_parts(output.cast::<f32>(), BLOCKS) };
    let sum: f64 = parts.iter().map(|v| f64::from(*v)).sum();
    ok((cu.cuStreamDestroy)(stream));
    ok((cu.cuMemFree)(on_device));
    ok((cu.cuMemFree)(result));
    ok((cu.cuMemFreeHost)(input));
    ok((cu.cuMemFreeHost)(output));
    ok((cu.cuModuleUnload)(module));
    // end
    (start.elapsed().as_secs_f64(), sum)
}

pub fn monte_carlo(devices: &Devices, kernel: &Kernel) -> Result<Ran, Diagnostic> {
    let start = Instant::now();
    // begin monte_carlo lathe
    let (all, threads) = (devices.len(), BLOCKS * 256);
    let hits = PinnedBuffer::<u64>::new(devices, threads * all)?;
    for (d, device) in devices.iter().enumerate() {
        let to = hits.part(d * threads..(d + 1) * threads)?;
        let arguments = [write(to), (d as u32 + 1).into(), 4096i32.into()];
        device.launch(kernel, dim3(BLOCKS as u32, 256), &arguments)?;
    }
    let inside: u64 = hits.with(0..threads * all, |h| h.iter().sum())?;
    let pi = 4.0 * inside as f64 / (threads * all * 4096) as f64;
    // end
    drop(hits);
    Ok((start.elapsed().as_secs_f64(), pi))
}

pub fn monte_carlo_by_hand(cu: &Cuda, cubin: &(String, Vec<u8>)) -> Ran {
    let start = Instant::now();
    // begin monte_carlo hand
    let (mut device, mut context, mut module, mut function) = (0, null(), null(), null());
    ok((cu.cuInit)(0));
    ok((cu.cuDeviceGet)(&mut device, 0));
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
    ok((cu.cuCtxSetCurrent)(context));
    let name = std::ffi::CString::new(cubin.0.as_str()).expect("a name");
    ok((cu.cuModuleLoadData)(&mut module, cubin.1.as_ptr().cast()));
    ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
    let threads = BLOCKS * 256;
    let (mut hits, mut on_device, mut stream) = (null(), 0u64, null());
    ok((cu.cuMemHostAlloc)(&mut hits, threads * 8, 0));
    ok((cu.cuMemAlloc)(&mut on_device, threads * 8));
    ok((cu.cuStreamCreate)(&mut stream, 1));
    let (mut seed, mut each) = (1u32, 4096i32);
    let mut arguments = [at(&mut on_device), at(&mut seed), at(&mut each)];
    let none = null();
    ok((cu.cuLaunchKernel)(
        function,
        BLOCKS as u32,
        1,
        1,
        256,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        none.cast(),
    ));
    ok((cu.cuMemcpyDtoHAsync)(hits, on_device, threads * 8, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let inside: u64 = unsafe { std::slice::from_raw_parts(hits.cast::<u64>(), threads) }.iter().sum();
    let pi = 4.0 * inside as f64 / (threads * 4096) as f64;
    ok((cu.cuStreamDestroy)(stream));
    ok((cu.cuMemFree)(on_device));
    ok((cu.cuMemFreeHost)(hits));
    ok((cu.cuModuleUnload)(module));
    // end
    (start.elapsed().as_secs_f64(), pi)
}

const BODIES: usize = 1 << 14;
const STEPS: usize = 10;

pub fn n_body(devices: &Devices, kernel: &Kernel) -> Result<Ran, Diagnostic> {
    let start = Instant::now();
    // begin n_body lathe
    let make = data::<BODIES>;
    let device = devices.device(0)?;
    let mut now = PinnedBuffer::<[f32; 4]>::new(devices, BODIES)?;
    let mut next = PinnedBuffer::<[f32; 4]>::new(devices, BODIES)?;
    let speed = PinnedBuffer::<[f32; 4]>::new(devices, BODIES)?;
    now.fill(|i| [make(i), make(i + 1), make(i + 2), 1.0])?;
    speed.fill(|_| [0.0; 4])?;
    for _ in 0..STEPS {
        let arguments =
            [write(&next), read_write(&speed), read(&now), (BODIES as i32).into(), 1e-6f32.into()];
        device.launch(kernel, dim3(BODIES as u32 / 256, 256), &arguments)?;
        std::mem::swap(&mut now, &mut next);
    }
    let sum: f64 = now.with(0..BODIES, |p| p.iter().map(|p| f64::from(p[0] + p[1] + p[2])).sum())?;
    // end
    drop((now, next, speed));
    Ok((start.elapsed().as_secs_f64(), sum))
}

pub fn n_body_by_hand(cu: &Cuda, cubin: &(String, Vec<u8>)) -> Ran {
    let start = Instant::now();
    // begin n_body hand
    let (mut device, mut context, mut module, mut function) = (0, null(), null(), null());
    ok((cu.cuInit)(0));
    ok((cu.cuDeviceGet)(&mut device, 0));
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
    ok((cu.cuCtxSetCurrent)(context));
    let name = std::ffi::CString::new(cubin.0.as_str()).expect("a name");
    ok((cu.cuModuleLoadData)(&mut module, cubin.1.as_ptr().cast()));
    ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
    let bytes = BODIES * 16;
    let (mut place, mut speed) = (null(), null());
    ok((cu.cuMemHostAlloc)(&mut place, bytes, 0));
    ok((cu.cuMemHostAlloc)(&mut speed, bytes, 0));
    let make = data::<BODIES>;
    let places = unsafe { std::slice::from_raw_parts_mut(place.cast::<[f32; 4]>(), BODIES) };
    for (i, p) in places.iter_mut().enumerate() {
        *p = [make(i), make(i + 1), make(i + 2), 1.0];
    }
    unsafe { std::slice::from_raw_parts_mut(speed.cast::<[f32; 4]>(), BODIES) }.fill([0.0; 4]);
    let (mut now, mut next, mut speeds, mut stream) = (0u64, 0u64, 0u64, null());
    ok((cu.cuMemAlloc)(&mut now, bytes));
    ok((cu.cuMemAlloc)(&mut next, bytes));
    ok((cu.cuMemAlloc)(&mut speeds, bytes));
    ok((cu.cuStreamCreate)(&mut stream, 1));
    ok((cu.cuMemcpyHtoDAsync)(now, place, bytes, stream));
    ok((cu.cuMemcpyHtoDAsync)(speeds, speed, bytes, stream));
    let (mut count, mut dt) = (BODIES as i32, 1e-6f32);
    for _ in 0..STEPS {
        let mut arguments = [at(&mut next), at(&mut speeds), at(&mut now), at(&mut count), at(&mut dt)];
        let (none, blocks) = (null(), BODIES as u32 / 256);
        ok((cu.cuLaunchKernel)(
            function,
            blocks,
            1,
            1,
            256,
            1,
            1,
            0,
            stream,
            arguments.as_mut_ptr(),
            none.cast(),
        ));
        std::mem::swap(&mut now, &mut next);
    }
    ok((cu.cuMemcpyDtoHAsync)(place, now, bytes, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let places = unsafe { std::slice::from_raw_parts(place.cast::<[f32; 4]>(), BODIES) };
    let sum: f64 = places.iter().map(|p| f64::from(p[0] + p[1] + p[2])).sum();
    ok((cu.cuStreamDestroy)(stream));
    ok((cu.cuMemFree)(now));
    ok((cu.cuMemFree)(next));
    ok((cu.cuMemFree)(speeds));
    ok((cu.cuMemFreeHost)(place));
    ok((cu.cuMemFreeHost)(speed));
    ok((cu.cuModuleUnload)(module));
    // end
    (start.elapsed().as_secs_f64(), sum)
}

pub fn scaled_dot(devices: &Devices, kernel: &Kernel) -> Result<Ran, Diagnostic> {
    let start = Instant::now();
    // begin scaled_dot lathe
    let (all, n) = (devices.len(), N / devices.len());
    let x = PinnedBuffer::<f32>::new(devices, N)?;
    let y = PinnedBuffer::<f32>::new(devices, N)?;
    let output = PinnedBuffer::<f32>::new(devices, BLOCKS * all)?;
    x.fill(data::<N>)?;
    y.fill(|_| 0.5)?;
    for (d, device) in devices.iter().enumerate() {
        let (part, to) = (d * n..(d + 1) * n, output.part(d * BLOCKS..(d + 1) * BLOCKS)?);
        let (x, y) = (x.part(part.clone())?, y.part(part)?);
        device.launch(
            kernel,
            dim3(BLOCKS as u32, 256),
            &[write(to), read(x), read(y), 2.0f32.into(), (n as i32).into()],
        )?;
    }
    let sum: f64 = output.with(0..BLOCKS * all, |p| p.iter().map(|v| f64::from(*v)).sum())?;
    // end
    drop((x, y, output));
    Ok((start.elapsed().as_secs_f64(), sum))
}

pub fn scaled_dot_by_hand(cu: &Cuda, cubin: &(String, Vec<u8>)) -> Ran {
    let start = Instant::now();
    // begin scaled_dot hand
    let (mut device, mut context, mut module, mut function) = (0, null(), null(), null());
    ok((cu.cuInit)(0));
    ok((cu.cuDeviceGet)(&mut device, 0));
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
    ok((cu.cuCtxSetCurrent)(context));
    let name = std::ffi::CString::new(cubin.0.as_str()).expect("a name");
    ok((cu.cuModuleLoadData)(&mut module, cubin.1.as_ptr().cast()));
    ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
    let (mut x, mut y, mut output) = (null(), null(), null());
    ok((cu.cuMemHostAlloc)(&mut x, N * 4, 0));
    ok((cu.cuMemHostAlloc)(&mut y, N * 4, 0));
    ok((cu.cuMemHostAlloc)(&mut output, BLOCKS * 4, 0));
    let make = data::<N>;
    for (i, v) in unsafe { std::slice::from_raw_parts_mut(x.cast::<f32>(), N) }.iter_mut().enumerate() {
        *v = make(i);
    }
    unsafe { std::slice::from_raw_parts_mut(y.cast::<f32>(), N) }.fill(0.5);
    let (mut on_x, mut on_y, mut result, mut stream) = (0u64, 0u64, 0u64, null());
    ok((cu.cuMemAlloc)(&mut on_x, N * 4));
    ok((cu.cuMemAlloc)(&mut on_y, N * 4));
    ok((cu.cuMemAlloc)(&mut result, BLOCKS * 4));
    ok((cu.cuStreamCreate)(&mut stream, 1));
    ok((cu.cuMemcpyHtoDAsync)(on_x, x, N * 4, stream));
    ok((cu.cuMemcpyHtoDAsync)(on_y, y, N * 4, stream));
    let (mut a, mut count) = (2.0f32, N as i32);
    let mut arguments = [at(&mut result), at(&mut on_x), at(&mut on_y), at(&mut a), at(&mut count)];
    let none = null();
    ok((cu.cuLaunchKernel)(
        function,
        BLOCKS as u32,
        1,
        1,
        256,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        none.cast(),
    ));
    ok((cu.cuMemcpyDtoHAsync)(output, result, BLOCKS * 4, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let parts = unsafe { std::slice::from_raw_parts(output.cast::<f32>(), BLOCKS) };
    let sum: f64 = parts.iter().map(|v| f64::from(*v)).sum();
    ok((cu.cuStreamDestroy)(stream));
    ok((cu.cuMemFree)(on_x));
    ok((cu.cuMemFree)(on_y));
    ok((cu.cuMemFree)(result));
    ok((cu.cuMemFreeHost)(x));
    ok((cu.cuMemFreeHost)(y));
    ok((cu.cuMemFreeHost)(output));
    ok((cu.cuModuleUnload)(module));
    // end
    (start.elapsed().as_secs_f64(), sum)
}

const PIXELS: usize = 3840 * 2160;

pub fn tone_mapping(devices: &Devices, kernels: &[Kernel; 2]) -> Result<Ran, Diagnostic> {
    let start = Instant::now();
    // begin tone_mapping lathe
    let make = data::<PIXELS>;
    let device = devices.device(0)?;
    let image = PinnedBuffer::<[f32; 4]>::new(devices, PIXELS)?;
    let parts = PinnedBuffer::<f32>::new(devices, BLOCKS)?;
    image.fill(|i| [4.0 * make(i), 2.0 * make(i + 1), make(i + 2), 1.0])?;
    let count = PIXELS as i32;
    device.launch(&kernels[0], dim3(BLOCKS as u32, 256), &[write(&parts), read(&image), count.into()])?;
    let logs: f64 = parts.with(0..BLOCKS, |p| p.iter().map(|v| f64::from(*v)).sum())?;
    let scale = 0.18 / (logs / PIXELS as f64).exp() as f32;
    let blocks = (PIXELS as u32).div_ceil(256);
    device.launch(&kernels[1], dim3(blocks, 256), &[read_write(&image), scale.into(), count.into()])?;
    let sum: f64 = image.with(0..PIXELS, |p| p.iter().step_by(97).map(|p| f64::from(p[0] + p[1])).sum())?;
    // end
    drop((image, parts));
    Ok((start.elapsed().as_secs_f64(), sum))
}

pub fn tone_mapping_by_hand(cu: &Cuda, cubins: &[(String, Vec<u8>); 2]) -> Ran {
    let start = Instant::now();
    // begin tone_mapping hand
    let (mut device, mut context) = (0, null());
    ok((cu.cuInit)(0));
    ok((cu.cuDeviceGet)(&mut device, 0));
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, device));
    ok((cu.cuCtxSetCurrent)(context));
    let (mut modules, mut functions) = ([null(); 2], [null(); 2]);
    for n in 0..2 {
        let name = std::ffi::CString::new(cubins[n].0.as_str()).expect("a name");
        ok((cu.cuModuleLoadData)(&mut modules[n], cubins[n].1.as_ptr().cast()));
        ok((cu.cuModuleGetFunction)(&mut functions[n], modules[n], name.as_ptr()));
    }
    let (mut image, mut parts) = (null(), null());
    ok((cu.cuMemHostAlloc)(&mut image, PIXELS * 16, 0));
    ok((cu.cuMemHostAlloc)(&mut parts, BLOCKS * 4, 0));
    let make = data::<PIXELS>;
    let pixels = unsafe { std::slice::from_raw_parts_mut(image.cast::<[f32; 4]>(), PIXELS) };
    for (i, p) in pixels.iter_mut().enumerate() {
        *p = [4.0 * make(i), 2.0 * make(i + 1), make(i + 2), 1.0];
    }
    let (mut on_device, mut result, mut stream) = (0u64, 0u64, null());
    ok((cu.cuMemAlloc)(&mut on_device, PIXELS * 16));
    ok((cu.cuMemAlloc)(&mut result, BLOCKS * 4));
    ok((cu.cuStreamCreate)(&mut stream, 1));
    ok((cu.cuMemcpyHtoDAsync)(on_device, image, PIXELS * 16, stream));
    let mut count = PIXELS as i32;
    let mut arguments = [at(&mut result), at(&mut on_device), at(&mut count)];
    let none = null();
    ok((cu.cuLaunchKernel)(
        functions[0],
        BLOCKS as u32,
        1,
        1,
        256,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        none.cast(),
    ));
    ok((cu.cuMemcpyDtoHAsync)(parts, result, BLOCKS * 4, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let logs = unsafe { std::slice::from_raw_parts(parts.cast::<f32>(), BLOCKS) };
    let logs: f64 = logs.iter().map(|v| f64::from(*v)).sum();
    let mut scale = 0.18 / (logs / PIXELS as f64).exp() as f32;
    let mut arguments = [at(&mut on_device), at(&mut scale), at(&mut count)];
    let blocks = (PIXELS as u32).div_ceil(256);
    ok((cu.cuLaunchKernel)(
        functions[1],
        blocks,
        1,
        1,
        256,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        none.cast(),
    ));
    ok((cu.cuMemcpyDtoHAsync)(image, on_device, PIXELS * 16, stream));
    ok((cu.cuStreamSynchronize)(stream));
    let pixels = unsafe { std::slice::from_raw_parts(image.cast::<[f32; 4]>(), PIXELS) };
    let sum: f64 = pixels.iter().step_by(97).map(|p| f64::from(p[0] + p[1])).sum();
    ok((cu.cuStreamDestroy)(stream));
    ok((cu.cuMemFree)(on_device));
    ok((cu.cuMemFree)(result));
    ok((cu.cuMemFreeHost)(image));
    ok((cu.cuMemFreeHost)(parts));
    ok((cu.cuModuleUnload)(modules[0]));
    ok((cu.cuModuleUnload)(modules[1]));
    // end
    (start.elapsed().as_secs_f64(), sum)
}

/// A heat equation on rows that are split over devices: each writes its rows and reads one more above and below, and those
/// are what moves.
pub fn heat(devices: &Devices, kernel: &Kernel, n: usize, steps: usize) -> Result<Vec<f32>, Diagnostic> {
    // begin heat lathe
    let first: Vec<f32> = (0..n * n).map(|k| start(k / n, k % n, n)).collect();
    let mut now = Buffer::from_slice(devices, &first)?;
    let mut next = Buffer::from_slice(devices, &first)?;
    heat_steps(devices, kernel, [&mut now, &mut next], n, steps)?;
    now.to_vec()
    // end
}

pub fn heat_steps(
    devices: &Devices,
    kernel: &Kernel,
    [now, next]: [&mut Buffer<f32>; 2],
    n: usize,
    steps: usize,
) -> Result<(), Diagnostic> {
    // begin heat lathe
    let each = n.div_ceil(devices.len());
    for _ in 0..steps {
        for (d, device) in devices.iter().enumerate() {
            let (lo, hi) = ((d * each).max(1), ((d + 1) * each).min(n - 1));
            let (to, from) = (next.part(lo * n..hi * n)?, now.part((lo - 1) * n..(hi + 1) * n)?);
            let arguments = [read_write(to), read(from), ((hi - lo) as i32).into(), (n as i32).into()];
            device.launch(kernel, dim3(((n as u32).div_ceil(128), (hi - lo) as u32), 128), &arguments)?;
        }
        std::mem::swap(now, next);
    }
    Ok(())
    // end
}

/// The first state.
pub fn start(i: usize, j: usize, n: usize) -> f32 {
    if i.abs_diff(n / 2) < n / 8 && j.abs_diff(n / 2) < n / 8 { 1.0 } else { 0.0 }
}

fn null() -> Ptr {
    std::ptr::null_mut()
}
