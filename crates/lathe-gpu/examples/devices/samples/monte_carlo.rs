//! π by points in a square, on all devices: nothing is copied to them.

use super::BLOCKS;
use super::hand::{Cubin, Session, at};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel, PinnedBuffer, dim3, write};

pub const KERNELS: &str = "__global__ void monte_carlo(unsigned long long *hits, unsigned int seed, int n) {
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

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    // begin
    let (all, threads) = (devices.len(), BLOCKS * 256);
    let hits = PinnedBuffer::<u64>::new(devices, threads * all)?;
    for (d, device) in devices.iter().enumerate() {
        let to = hits.part(d * threads..(d + 1) * threads)?;
        let arguments = [write(to), (d as u32 + 1).into(), 4096i32.into()];
        device.launch(&kernels[0], dim3(BLOCKS as u32, 256), &arguments)?;
    }
    let inside: u64 = hits.with(0..threads * all, |h| h.iter().sum())?;
    let pi = 4.0 * inside as f64 / (threads * all * 4096) as f64;
    Ok(pi)
    // end
}

/// The same against the driver, on one device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    let mut s = Session::open(cubins);
    let threads = BLOCKS * 256;
    let hits = s.pinned::<u64>(threads);
    let (mut to, mut seed, mut each) = (s.memory(threads * 8), 1u32, 4096i32);
    s.launch(0, BLOCKS, 256, &mut [at(&mut to), at(&mut seed), at(&mut each)]);
    s.copy_from(hits, to);
    s.wait();
    let pi = 4.0 * hits.iter().sum::<u64>() as f64 / (threads * 4096) as f64;
    s.close();
    pi
    // end
}
