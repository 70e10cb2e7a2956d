//! A scaled dot product, a part of it on each device.

use super::hand::{Cubin, Session, at};
use super::{BLOCKS, N, data};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel, PinnedBuffer, dim3, read, write};

pub const KERNELS: &str = "__global__ void scaled_dot(float *out, const float *x, const float *y, float a, int n) {
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

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    // begin
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
            &kernels[0],
            dim3(BLOCKS as u32, 256),
            &[write(to), read(x), read(y), 2.0f32.into(), (n as i32).into()],
        )?;
    }
    let sum: f64 = output.with(0..BLOCKS * all, |p| p.iter().map(|v| f64::from(*v)).sum())?;
    Ok(sum)
    // end
}

/// The same against the driver, on one device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    let mut s = Session::open(cubins);
    let (x, y, output) = (s.pinned::<f32>(N), s.pinned::<f32>(N), s.pinned::<f32>(BLOCKS));
    x.iter_mut().enumerate().for_each(|(i, v)| *v = data::<N>(i));
    y.fill(0.5);
    let (mut a, mut b, mut to) = (s.memory(N * 4), s.memory(N * 4), s.memory(BLOCKS * 4));
    let (mut scale, mut n) = (2.0f32, N as i32);
    s.copy_to(a, x);
    s.copy_to(b, y);
    let mut arguments = [at(&mut to), at(&mut a), at(&mut b), at(&mut scale), at(&mut n)];
    s.launch(0, BLOCKS, 256, &mut arguments);
    s.copy_from(output, to);
    s.wait();
    let sum: f64 = output.iter().map(|v| f64::from(*v)).sum();
    s.close();
    sum
    // end
}
