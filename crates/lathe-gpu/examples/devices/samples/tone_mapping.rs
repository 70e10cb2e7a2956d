//! Tone mapping of an image with a high dynamic range: two kernels, and a number that the host computes between them.

use super::hand::{Cubin, Session, at};
use super::{BLOCKS, data};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel, PinnedBuffer, dim3, read, read_write, write};

const PIXELS: usize = 3840 * 2160;

pub const KERNELS: &str = "__global__ void luminance(float *out, const float4 *image, int n) {
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

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    // begin
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
    Ok(sum)
    // end
}

/// The same against the driver, on one device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    let mut s = Session::open(cubins);
    let (image, parts) = (s.pinned::<[f32; 4]>(PIXELS), s.pinned::<f32>(BLOCKS));
    let make = data::<PIXELS>;
    image.iter_mut().enumerate().for_each(|(i, p)| *p = [4.0 * make(i), 2.0 * make(i + 1), make(i + 2), 1.0]);
    let (mut pixels, mut to, mut n) = (s.memory(PIXELS * 16), s.memory(BLOCKS * 4), PIXELS as i32);
    s.copy_to(pixels, image);
    s.launch(0, BLOCKS, 256, &mut [at(&mut to), at(&mut pixels), at(&mut n)]);
    s.copy_from(parts, to);
    s.wait();
    let logs: f64 = parts.iter().map(|v| f64::from(*v)).sum();
    let mut scale = 0.18 / (logs / PIXELS as f64).exp() as f32;
    s.launch(1, PIXELS.div_ceil(256), 256, &mut [at(&mut pixels), at(&mut scale), at(&mut n)]);
    s.copy_from(image, pixels);
    s.wait();
    let sum: f64 = image.iter().step_by(97).map(|p| f64::from(p[0] + p[1])).sum();
    s.close();
    sum
    // end
}
