//! Work that is split over the devices of one host: the same program on one and on all.

use crate::median;
use crate::samples::heat;
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Buffer, Combine, Devices, Kernel, PinnedBuffer, dim3, read, write};
use lathe_gpu::info::devices_of;
use std::time::Instant;

const FILL: &str = "__global__ void fill(float *to, unsigned long long first, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) to[i] = ((first + i) * 2654435761ull % 1024) / 1024.0f;
}";

const SUM: &str = "__global__ void sum(double *out, const float4 *in, unsigned long long n) {
    __shared__ double part[512];
    double s = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (unsigned long long)blockDim.x) {
        float4 v = in[i];
        s += (v.x + v.y) + (v.z + v.w);
    }
    part[threadIdx.x] = s;
    for (int h = 256; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}";

/// Tiles of 128 times 128 results, eight times eight of them in each thread.
const GEMM: &str = "__global__ void gemm(float *c, const float *a, const float *b, int n, int k) {
    __shared__ float sa[8][128], sb[8][128];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    a += (size_t)blockIdx.y * 128 * k; b += blockIdx.x * 128; c += (size_t)blockIdx.y * 128 * n + blockIdx.x * 128;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < k; k0 += 8) {
        float4 va = *(const float4 *)&a[(size_t)(t / 2) * k + k0 + t % 2 * 4];
        float4 vb = *(const float4 *)&b[(size_t)(k0 + t / 32) * n + t % 32 * 4];
        __syncthreads();
        sa[t % 2 * 4 + 0][t / 2] = va.x; sa[t % 2 * 4 + 1][t / 2] = va.y;
        sa[t % 2 * 4 + 2][t / 2] = va.z; sa[t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&sb[t / 32][t % 32 * 4] = vb;
        __syncthreads();
        for (int p = 0; p < 8; p++) {
            float x[8], y[8];
            for (int i = 0; i < 8; i++) { x[i] = sa[p][ty * 8 + i]; y[i] = sb[p][tx * 8 + i]; }
            for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) acc[i][j] += x[i] * y[j];
        }
    }
    for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) c[(size_t)(ty * 8 + i) * n + tx * 8 + j] = acc[i][j];
}";

/// Milliseconds of each repetition, and a number that says what came out.
type Timed = (f64, f64);

fn filled(devices: &Devices, fill: &Kernel, len: usize) -> Result<Buffer<f32>, Diagnostic> {
    let buffer = Buffer::<f32>::new(devices, len)?;
    let each = len / devices.len();
    for (d, device) in devices.iter().enumerate() {
        let to = write(buffer.part(d * each..(d + 1) * each)?);
        let arguments = [to, ((d * each) as u64).into(), (each as u64).into()];
        device.launch(fill, dim3(each.div_ceil(256) as u32, 256), &arguments)?;
    }
    Ok(buffer)
}

fn timed(times: usize, mut one: impl FnMut() -> Result<f64, Diagnostic>) -> Result<Timed, Diagnostic> {
    let last = one()?;
    let mut all = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        one()?;
        all.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((median(all), last))
}

fn reduction(devices: &Devices) -> Result<Timed, Diagnostic> {
    const LEN: usize = 1 << 31;
    const BLOCKS: usize = 1056;
    let (fill, sum) = (Kernel::cuda(FILL)?, Kernel::cuda(SUM)?);
    let input = filled(devices, &fill, LEN)?;
    let output = PinnedBuffer::<f64>::new(devices, BLOCKS * devices.len())?;
    let each = LEN / devices.len();
    timed(15, || {
        for (d, device) in devices.iter().enumerate() {
            let to = write(output.part(d * BLOCKS..(d + 1) * BLOCKS)?);
            let from = read(input.part(d * each..(d + 1) * each)?);
            device.launch(&sum, dim3(BLOCKS as u32, 512), &[to, from, ((each / 4) as u64).into()])?;
        }
        output.with(0..output.len(), |p| p.iter().sum())
    })
}

fn stencil(devices: &Devices) -> Result<Timed, Diagnostic> {
    const N: usize = 32768;
    const STEPS: usize = 20;
    let (fill, kernel) = (Kernel::cuda(FILL)?, Kernel::cuda(heat::KERNELS)?);
    let (mut now, mut next) = (filled(devices, &fill, N * N)?, filled(devices, &fill, N * N)?);
    let run = || {
        heat::steps(devices, &kernel, [&mut now, &mut next], N, STEPS)?;
        devices.finish()?;
        Ok(0.0)
    };
    let (ms, _) = timed(5, run)?;
    let (from, rows) = (N / 2 - 2, 4);
    Ok((ms, now.with(from * N..(from + rows) * N, |v| v.iter().map(|v| f64::from(*v)).sum())?))
}

fn gemm(devices: &Devices) -> Result<Timed, Diagnostic> {
    const N: usize = 8192;
    let (fill, gemm) = (Kernel::cuda(FILL)?, Kernel::cuda(GEMM)?);
    let (a, b) = (filled(devices, &fill, N * N)?, filled(devices, &fill, N * N)?);
    let c = Buffer::<f32>::new(devices, N * N)?;
    let each = N / devices.len();
    let (ms, _) = timed(5, || {
        for (d, device) in devices.iter().enumerate() {
            let rows = d * each * N..(d + 1) * each * N;
            let sizes = [(N as i32).into(), (N as i32).into()];
            let [n, k] = sizes;
            let arguments = [write(c.part(rows.clone())?), read(a.part(rows)?), read(&b), n, k];
            device.launch(&gemm, dim3((N as u32 / 128, each as u32 / 128), 256), &arguments)?;
        }
        devices.finish()?;
        Ok(0.0)
    })?;
    Ok((ms, c.with((N - 1) * N..N * N, |v| v.iter().map(|v| f64::from(*v)).sum())?))
}

/// Sums of what the devices have, by NCCL.
pub fn reductions() -> Result<String, Diagnostic> {
    const LEN: usize = 1 << 27;
    let devices = Devices::of_kind("cuda")?;
    let all = filled(&devices, &Kernel::cuda(FILL)?, LEN * devices.len())?;
    let part = |d: usize| all.part(d * LEN..(d + 1) * LEN);
    let parts = (0..devices.len()).map(part).collect::<Result<Vec<_>, _>>()?;
    let (before, after) = (all.to_vec()?, {
        devices.all_reduce(Combine::Sum, &parts)?;
        all.to_vec()?
    });
    let want = |i: usize| (0..devices.len()).map(|d| before[d * LEN + i]).sum::<f32>();
    let right = (0..LEN * devices.len()).step_by(997).all(|i| (after[i] - want(i % LEN)).abs() < 1e-3);
    let (ms, _) = timed(9, || {
        devices.all_reduce(Combine::Max, &parts)?;
        devices.finish()?;
        Ok(0.0)
    })?;
    let n = devices.len() as f64;
    let bus = (LEN * 4) as f64 * 2.0 * (n - 1.0) / n / ms / 1e6;
    let nccl = lathe_gpu::info::libraries().into_iter().find(|l| l.0 == "NCCL").map(|l| l.1);
    let found = format!("{nccl:?}");
    Ok(format!(
        "\"devices\": {n}, \"right\": {right}, \"ms\": {ms:.3}, \"bus_gb_s\": {bus:.1}, \"nccl\": {found:?}"
    ))
}

pub fn rows() -> Result<String, Diagnostic> {
    let infos = devices_of("cuda")?;
    let counts: Vec<usize> = [1, 2, 4].into_iter().filter(|n| *n <= infos.len()).collect();
    type Work = fn(&Devices) -> Result<Timed, Diagnostic>;
    let all: [(&str, Work); 3] = [("reduction", reduction), ("stencil", stencil), ("gemm", gemm)];
    let mut out = Vec::new();
    for (name, work) in all {
        let mut seen = Vec::new();
        for n in &counts {
            let devices = Devices::open(infos[..*n].to_vec())?;
            let (ms, result) = work(&devices)?;
            let c = devices.counters()?;
            seen.push((*n, ms, result, c.between_bytes, c.to_device_bytes));
        }
        let (first, one) = (seen[0].2, seen[0].1);
        let each = seen.iter().map(|(n, ms, result, between, up)| {
            format!(
                "{{\"devices\": {n}, \"ms\": {ms:.3}, \"times\": {:.3}, \"same\": {}, \"result\": {result:e}, \"between_bytes\": {between}, \"to_device_bytes\": {up}}}",
                one / ms,
                (result - first).abs() <= 1e-9 * first.abs()
            )
        });
        out.push(format!("{{\"name\": \"{name}\", \"on\": [{}]}}", each.collect::<Vec<_>>().join(", ")));
    }
    Ok(format!("\"work\": [{}]", out.join(", ")))
}
