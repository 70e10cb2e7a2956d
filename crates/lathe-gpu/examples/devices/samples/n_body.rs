//! Bodies that attract one another: two buffers that take turns, nothing moves between the steps.

use super::data;
use super::hand::{Cubin, Session, at};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel, PinnedBuffer, dim3, read, read_write, write};

const BODIES: usize = 1 << 14;
const STEPS: usize = 10;

pub const KERNELS: &str =
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

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    // begin
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
        device.launch(&kernels[0], dim3(BODIES as u32 / 256, 256), &arguments)?;
        std::mem::swap(&mut now, &mut next);
    }
    let sum: f64 = now.with(0..BODIES, |p| p.iter().map(|p| f64::from(p[0] + p[1] + p[2])).sum())?;
    Ok(sum)
    // end
}

/// The same against the driver, on one device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    let mut s = Session::open(cubins);
    let (place, speed) = (s.pinned::<[f32; 4]>(BODIES), s.pinned::<[f32; 4]>(BODIES));
    let make = data::<BODIES>;
    place.iter_mut().enumerate().for_each(|(i, p)| *p = [make(i), make(i + 1), make(i + 2), 1.0]);
    speed.fill([0.0; 4]);
    let (mut now, mut next) = (s.memory(BODIES * 16), s.memory(BODIES * 16));
    let (mut speeds, mut n, mut dt) = (s.memory(BODIES * 16), BODIES as i32, 1e-6f32);
    s.copy_to(now, place);
    s.copy_to(speeds, speed);
    for _ in 0..STEPS {
        let mut arguments = [at(&mut next), at(&mut speeds), at(&mut now), at(&mut n), at(&mut dt)];
        s.launch(0, BODIES / 256, 256, &mut arguments);
        std::mem::swap(&mut now, &mut next);
    }
    s.copy_from(place, now);
    s.wait();
    let sum: f64 = place.iter().map(|p| f64::from(p[0] + p[1] + p[2])).sum();
    s.close();
    sum
    // end
}
