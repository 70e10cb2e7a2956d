//! The four steps of HCA (Rasch, section 3.2): devices, a kernel, inputs, launches. The sum of an array, a part of it on each
//! device.

use super::hand::{Cubin, Session, at};
use super::{BLOCKS, N, data};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel, PinnedBuffer, dim3, read, write};

pub const KERNELS: &str = "__global__ void reduction(float *out, const float *in, int n) {
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

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    // begin
    let (all, n) = (devices.len(), N / devices.len());
    let input = PinnedBuffer::<f32>::new(devices, n * all)?;
    let output = PinnedBuffer::<f32>::new(devices, BLOCKS * all)?;
    input.fill(data::<N>)?;
    for (d, device) in devices.iter().enumerate() {
        let (to, from) = (output.part(d * BLOCKS..(d + 1) * BLOCKS)?, input.part(d * n..(d + 1) * n)?);
        device.launch(&kernels[0], dim3(BLOCKS as u32, 256), &[write(to), read(from), (n as i32).into()])?;
    }
    let sum: f64 = output.with(0..BLOCKS * all, |p| p.iter().map(|v| f64::from(*v)).sum())?;
    Ok(sum)
    // end
}

/// The same against the driver, on one device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    let mut s = Session::open(cubins);
    let (input, output) = (s.pinned::<f32>(N), s.pinned::<f32>(BLOCKS));
    input.iter_mut().enumerate().for_each(|(i, v)| *v = data::<N>(i));
    let (mut from, mut to, mut n) = (s.memory(N * 4), s.memory(BLOCKS * 4), N as i32);
    s.copy_to(from, input);
    s.launch(0, BLOCKS, 256, &mut [at(&mut to), at(&mut from), at(&mut n)]);
    s.copy_from(output, to);
    s.wait();
    let sum: f64 = output.iter().map(|v| f64::from(*v)).sum();
    s.close();
    sum
    // end
}
