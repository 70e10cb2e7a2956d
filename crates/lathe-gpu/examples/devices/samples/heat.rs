//! A heat equation on all devices: each writes its rows and reads one more above and below. Only these rows move, from device
//! to device, and by themselves.

use super::hand::{Cubin, Cuda, Ptr, Session, at, ok};
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Buffer, Devices, Kernel, dim3, read, write};

pub const N: usize = 2048;
const STEPS: usize = 20;

pub const KERNELS: &str = "__global__ void heat(float *next, const float *now, int rows, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y + 1;
    if (j >= n || i > rows) return;
    float here = now[i * n + j];
    if (j > 0 && j < n - 1)
        here += 0.2f * (now[(i - 1) * n + j] + now[(i + 1) * n + j] + now[i * n + j - 1] + now[i * n + j + 1] - 4 * here);
    next[(i - 1) * n + j] = here;
}";

/// The first state.
pub fn start(i: usize, j: usize, n: usize) -> f32 {
    if i.abs_diff(n / 2) < n / 8 && j.abs_diff(n / 2) < n / 8 { 1.0 } else { 0.0 }
}

pub fn lathe(devices: &Devices, kernels: &[Kernel]) -> Result<f64, Diagnostic> {
    grid(devices, &kernels[0], N, STEPS, sum)
}

fn sum(grid: &[f32]) -> f64 {
    grid.iter().enumerate().map(|(i, v)| f64::from(*v) * (i % 7) as f64).sum()
}

/// The state after some steps. The first and the last row stay as they are in both arrays.
pub fn grid<R>(
    devices: &Devices,
    kernel: &Kernel,
    n: usize,
    times: usize,
    see: impl FnOnce(&[f32]) -> R,
) -> Result<R, Diagnostic> {
    // begin
    let (mut now, mut next) = (Buffer::new(devices, n * n)?, Buffer::new(devices, n * n)?);
    now.fill(|k| start(k / n, k % n, n))?;
    for row in [0, n - 1] {
        next.set(row * n, &now.with(row * n..(row + 1) * n, <[f32]>::to_vec)?)?;
    }
    steps(devices, kernel, [&mut now, &mut next], n, times)?;
    now.with(0..n * n, see)
    // end
}

pub fn steps(
    devices: &Devices,
    kernel: &Kernel,
    [now, next]: [&mut Buffer<f32>; 2],
    n: usize,
    times: usize,
) -> Result<(), Diagnostic> {
    // begin
    let each = n.div_ceil(devices.len());
    for _ in 0..times {
        for (d, device) in devices.iter().enumerate() {
            let (lo, hi) = ((d * each).max(1), ((d + 1) * each).min(n - 1));
            let (to, from) = (next.part(lo * n..hi * n)?, now.part((lo - 1) * n..(hi + 1) * n)?);
            let arguments = [write(to), read(from), ((hi - lo) as i32).into(), (n as i32).into()];
            device.launch(kernel, dim3(((n as u32).div_ceil(128), (hi - lo) as u32), 128), &arguments)?;
        }
        std::mem::swap(now, next);
    }
    Ok(())
    // end
}

/// The same against the driver: a context, two arrays with halos, a stream and an event for each device.
pub fn hand(cubins: &[Cubin]) -> f64 {
    // begin by hand
    struct Side {
        session: Session,
        grids: [u64; 2],
        event: Ptr,
        rows: usize,
    }
    let (cu, bytes) = (Cuda::get(), N * 4);
    let first: Vec<f32> = (0..N * N).map(|k| start(k / N, k % N, N)).collect();
    let all = Session::devices();
    let each = N.div_ceil(all);
    let mut sides: Vec<Side> = Vec::new();
    for d in 0..all {
        let mut session = Session::open_on(d as i32, cubins);
        let (lo, hi) = ((d * each).max(1), ((d + 1) * each).min(N - 1));
        let rows = hi - lo;
        let grids = [session.memory((rows + 2) * bytes), session.memory((rows + 2) * bytes)];
        session.copy_to(grids[0], &first[(lo - 1) * N..(hi + 1) * N]);
        // These rows stay as they are.
        if d == 0 {
            session.copy_to(grids[1], &first[..N]);
        }
        if d + 1 == all {
            session.copy_to(grids[1] + ((rows + 1) * bytes) as u64, &first[(N - 1) * N..]);
        }
        let mut event = std::ptr::null_mut();
        ok((cu.cuEventCreate)(&mut event, 2));
        session.wait();
        sides.push(Side { session, grids, event, rows });
    }
    for step in 0..STEPS {
        let (now, next) = (step % 2, 1 - step % 2);
        for s in &mut sides {
            s.session.enter();
            let (mut to, mut from) = (s.grids[next] + bytes as u64, s.grids[now]);
            let (mut rows, mut n) = (s.rows as i32, N as i32);
            let mut arguments = [at(&mut to), at(&mut from), at(&mut rows), at(&mut n)];
            s.session.launch_2d(0, [N.div_ceil(128), s.rows], 128, &mut arguments);
            ok((cu.cuEventRecord)(s.event, s.session.stream));
        }
        for d in 0..sides.len() {
            let below = sides.get(d + 1).map(|o| (o, sides[d].rows + 1, 1));
            let above = d.checked_sub(1).map(|o| (&sides[o], 0, sides[o].rows));
            for (other, to, from) in above.into_iter().chain(below) {
                let (s, row) = (&sides[d], |grid: u64, r: usize| grid + (r * bytes) as u64);
                s.session.enter();
                ok((cu.cuStreamWaitEvent)(s.session.stream, other.event, 0));
                let (to, from) = (row(s.grids[next], to), row(other.grids[next], from));
                let (a, b) = (s.session.context, other.session.context);
                ok((cu.cuMemcpyPeerAsync)(to, a, from, b, bytes, s.session.stream));
            }
            // The neighbours must not overwrite what is being read.
            ok((cu.cuEventRecord)(sides[d].event, sides[d].session.stream));
        }
        for d in 0..sides.len() {
            for other in [d.checked_sub(1), Some(d + 1)].into_iter().flatten().filter_map(|o| sides.get(o)) {
                ok((cu.cuStreamWaitEvent)(sides[d].session.stream, other.event, 0));
            }
        }
    }
    let mut out = first;
    for (d, s) in sides.into_iter().enumerate() {
        let lo = (d * each).max(1);
        s.session.enter();
        s.session.copy_from(&mut out[lo * N..(lo + s.rows) * N], s.grids[STEPS % 2] + bytes as u64);
        s.session.wait();
        s.session.close();
    }
    sum(&out)
    // end
}
