//! Rows that need a device of CUDA: what a launch costs above the driver, host code beside code by hand, copies beside kernels,
//! graphs, counted transfers, faults. Results are lines of JSON.
//!
//!     cargo run --release -p lathe-gpu --example device_rows          # all rows
//!     device_rows launch                                          # one row
//!     device_rows fault | endless | fork                              # one process each, since devices do not survive them

#[path = "../devices/samples/mod.rs"]
mod samples;
mod scaling;

use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{
    Buffer, Devices, Kernel, MappedBuffer, PinnedBuffer, Sequence, dim3, read, read_write, write,
};
use lathe_gpu::nvrtc::nvrtc;
use samples::hand::{Cuda, Ptr, at, ok};
use samples::heat;
use std::time::Instant;

const EMPTY: &str = "extern \"C\" __global__ void empty(float *y, const float *x, int n) {}";
const ADD: &str = "extern \"C\" __global__ void add(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] + x[i];
}";
/// As long as a copy of what it reads.
const WORK: &str = "extern \"C\" __global__ void work(float *y, const float *x, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < rounds; k++) v = v * 0.999f + 0.5f;
    y[i] = v;
}";

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let done = match what.as_str() {
        "fault" => fault(),
        "endless" => endless(),
        "endless_by_hand" => endless_by_hand(),
        "fork" => fork(),
        name => all(name),
    };
    if let Err(d) = done {
        println!(
            "{{\"row\": \"failed\", \"what\": {what:?}, \"code\": \"{}\", \"message\": {:?}}}",
            d.code.0, d.message
        );
        std::process::exit(1);
    }
}

/// All rows, or the one of a name.
fn all(only: &str) -> Result<(), Diagnostic> {
    type Row = fn() -> Result<String, Diagnostic>;
    let rows: [(&str, Row); 11] = [
        ("launch", launches),
        ("launch_null", planning),
        ("graph", graphs),
        ("overlap", overlap),
        ("samples", host_code),
        ("heat", heat_with_halos),
        ("scaling", scaling::rows),
        ("reductions", scaling::reductions),
        ("kinds", kinds),
        ("full", full),
        ("calls", calls),
    ];
    for (name, row) in rows.into_iter().filter(|r| only.is_empty() || r.0 == only) {
        match row() {
            Ok(text) => println!("{{\"row\": \"{name}\", {text}}}"),
            Err(d) => println!(
                "{{\"row\": \"{name}\", \"failed\": \"{}\", \"message\": {:?}, \"notes\": {:?}}}",
                d.code.0, d.message, d.notes
            ),
        }
    }
    Ok(())
}

fn code(devices: &Devices, source: &str, name: &str) -> Result<(String, Vec<u8>), Diagnostic> {
    nvrtc()?.compile_kernel(source, &devices.device(0)?.info().arch, &[], name)
}

/// A launch of a compiled kernel whose arguments are on the device: batches that fit the driver's queue.
fn launches() -> Result<String, Diagnostic> {
    const BATCH: usize = 500;
    let devices = Devices::of_kind("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(EMPTY)?;
    let (x, y) = (Buffer::from_slice(&devices, &[1f32; 1024])?, Buffer::<f32>::new(&devices, 1024)?);
    let one = || -> Result<f64, Diagnostic> {
        let start = Instant::now();
        for _ in 0..BATCH {
            device.launch(&kernel, dim3(1, 32), &[write(&y), read(&x), 1024i32.into()])?;
        }
        let took = start.elapsed().as_secs_f64();
        devices.finish()?;
        Ok(took / BATCH as f64)
    };
    let cu = Cuda::get();
    let (function, stream) = opened(cu, &devices, EMPTY, "empty")?;
    let (mut a, mut b, mut n) = (0u64, 0u64, 1024i32);
    ok((cu.cuMemAlloc)(&mut a, 4096));
    ok((cu.cuMemAlloc)(&mut b, 4096));
    let mut by_hand = || {
        let start = Instant::now();
        for _ in 0..BATCH {
            let mut arguments = [at(&mut a), at(&mut b), at(&mut n)];
            let none = null();
            ok((cu.cuLaunchKernel)(
                function,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                none.cast(),
            ));
        }
        let took = start.elapsed().as_secs_f64();
        ok((cu.cuStreamSynchronize)(stream));
        took / BATCH as f64
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    one()?;
    by_hand();
    for _ in 0..41 {
        ours.push(one()? * 1e6);
        theirs.push(by_hand() * 1e6);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(format!("\"lathe_us\": {ours:.3}, \"driver_us\": {theirs:.3}, \"above_us\": {:.3}", ours - theirs))
}

/// What of a launch is not the driver's: the same as `launch` with a library that does nothing.
fn planning() -> Result<String, Diagnostic> {
    const BATCH: usize = 500;
    let devices = Devices::of_kind("cuda")?;
    let device = devices.device(0)?;
    let (x, y) = (Buffer::from_slice(&devices, &[1f32; 1024])?, Buffer::<f32>::new(&devices, 1024)?);
    let mut all = Vec::new();
    for _ in 0..41 {
        let start = Instant::now();
        for _ in 0..BATCH {
            device.call("nothing", &[write(&y), read(&x)], |_| Ok(()))?;
        }
        all.push(start.elapsed().as_secs_f64() / BATCH as f64 * 1e6);
        devices.finish()?;
    }
    Ok(format!("\"plan_and_event_us\": {:.3}", median(all)))
}

/// Twenty small kernels, one by one and as a graph.
fn graphs() -> Result<String, Diagnostic> {
    const REPEATS: usize = 200;
    let devices = Devices::of_kind("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(ADD)?;
    let (x, y) = (Buffer::from_slice(&devices, &[1f32; 4096])?, Buffer::from_slice(&devices, &[0f32; 4096])?);
    let mut sequence = Sequence::new(&device, "twenty");
    for _ in 0..20 {
        sequence.add(&kernel, dim3(16, 256), &[read_write(&y), read(&x), 4096i32.into()])?;
    }
    let (mut single, mut graph) = (Vec::new(), Vec::new());
    sequence.launch()?.wait()?;
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..REPEATS {
            for _ in 0..20 {
                device.launch(&kernel, dim3(16, 256), &[read_write(&y), read(&x), 4096i32.into()])?;
            }
        }
        devices.finish()?;
        single.push(start.elapsed().as_secs_f64() / REPEATS as f64 * 1e6);
        let start = Instant::now();
        for _ in 0..REPEATS {
            sequence.launch()?;
        }
        devices.finish()?;
        graph.push(start.elapsed().as_secs_f64() / REPEATS as f64 * 1e6);
    }
    let last = y.with(5..6, |y| y[0])?;
    let want = (20 * (1 + 2 * 15 * REPEATS)) as f32;
    let (a, b) = (median(single), median(graph));
    Ok(format!(
        "\"single_us\": {a:.2}, \"graph_us\": {b:.2}, \"ratio\": {:.3}, \"right\": {}",
        a / b,
        last == want
    ))
}

/// A stream of blocks that are copied to the device, worked on, and copied back.
fn overlap() -> Result<String, Diagnostic> {
    const BLOCKS: usize = 32;
    const LEN: usize = 4 << 20;
    let devices = Devices::of_kind("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(WORK)?;
    let input = PinnedBuffer::<f32>::new(&devices, BLOCKS * LEN)?;
    let output = PinnedBuffer::<f32>::new(&devices, BLOCKS * LEN)?;
    let mut last = String::new();
    for rounds in [1i32, 800, 3000, 6000] {
        let run = |profile: bool| -> Result<(f64, f64, f64, f64), Diagnostic> {
            devices.keep_profile(profile)?;
            input.fill(|i| (i % 1000) as f32)?;
            let start = Instant::now();
            for b in 0..BLOCKS {
                let part = b * LEN..(b + 1) * LEN;
                let arguments = [
                    write(output.part(part.clone())?),
                    read(input.part(part)?),
                    (LEN as i32).into(),
                    rounds.into(),
                ];
                device.launch(&kernel, dim3((LEN / 256) as u32, 256), &arguments)?;
            }
            for b in 0..BLOCKS {
                output.with(b * LEN..b * LEN + LEN, |_| ())?;
            }
            let total = start.elapsed().as_secs_f64();
            let mut sums = [0.0; 3];
            if profile {
                let p = devices.profile()?;
                for s in &p.spans {
                    let n = if s.bytes.is_none() { 1 } else { 2 * usize::from(s.queue == 1) };
                    sums[n] += s.end - s.start;
                }
                std::fs::write(std::env::var("OUT").unwrap_or(".".into()) + "/overlap.svg", p.svg()).ok();
                std::fs::write(std::env::var("OUT").unwrap_or(".".into()) + "/overlap.json", p.chrome()).ok();
            }
            devices.keep_profile(false)?;
            Ok((total, sums[0], sums[1], sums[2]))
        };
        run(false)?;
        // Each alone: copies and kernels that wait for one another.
        let alone = {
            let bytes = BLOCKS * LEN;
            input.fill(|i| i as f32)?;
            let start = Instant::now();
            device.prefetch(&input)?;
            devices.finish()?;
            let up = start.elapsed().as_secs_f64();
            let start = Instant::now();
            let arguments = [write(&output), read(&input), (bytes as i32).into(), rounds.into()];
            device.launch(&kernel, dim3((bytes / 256) as u32, 256), &arguments)?;
            devices.finish()?;
            let work = start.elapsed().as_secs_f64();
            let start = Instant::now();
            output.with(0..bytes, |_| ())?;
            (up, work, start.elapsed().as_secs_f64())
        };
        let mut totals = Vec::new();
        for _ in 0..5 {
            totals.push(run(false)?.0);
        }
        let profile = run(true)?;
        let both = both_ways(BLOCKS * LEN * 4);
        let longest = both.max(alone.1);
        let total = median(totals);
        last += &format!(
            "{}{{\"rounds\": {rounds}, \"total_ms\": {:.3}, \"up_ms\": {:.3}, \"kernel_ms\": {:.3}, \"down_ms\": {:.3}, \"both_ways_ms\": {:.3}, \"ratio\": {:.3}, \"profile_ms\": [{:.3}, {:.3}, {:.3}]}}",
            if last.is_empty() { "" } else { ", " },
            total * 1e3,
            alone.0 * 1e3,
            alone.1 * 1e3,
            alone.2 * 1e3,
            both * 1e3,
            total / longest,
            profile.1 * 1e3,
            profile.2 * 1e3,
            profile.3 * 1e3
        );
    }
    Ok(format!("\"by_work\": [{last}]"))
}

/// Seconds of copies in both directions at once, by hand: what copies alone take.
fn both_ways(bytes: usize) -> f64 {
    let cu = Cuda::get();
    let (mut up, mut down, mut a, mut b) = (null(), null(), 0u64, 0u64);
    let (mut from, mut to) = (null(), null());
    ok((cu.cuStreamCreate)(&mut up, 1));
    ok((cu.cuStreamCreate)(&mut down, 1));
    ok((cu.cuMemAlloc)(&mut a, bytes));
    ok((cu.cuMemAlloc)(&mut b, bytes));
    ok((cu.cuMemHostAlloc)(&mut from, bytes, 0));
    ok((cu.cuMemHostAlloc)(&mut to, bytes, 0));
    let mut all = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        ok((cu.cuMemcpyHtoDAsync)(a, from, bytes, up));
        ok((cu.cuMemcpyDtoHAsync)(to, b, bytes, down));
        ok((cu.cuStreamSynchronize)(up));
        ok((cu.cuStreamSynchronize)(down));
        all.push(start.elapsed().as_secs_f64());
    }
    ok((cu.cuMemFree)(a));
    ok((cu.cuMemFree)(b));
    ok((cu.cuMemFreeHost)(from));
    ok((cu.cuMemFreeHost)(to));
    median(all)
}

/// Time of the samples beside code by hand, lines, and what was moved. By hand all but the last are on one device.
fn host_code() -> Result<String, Diagnostic> {
    let (one, all) = (Devices::named("cuda")?, Devices::of_kind("cuda")?);
    let mut out = Vec::new();
    for sample in &samples::ALL {
        let devices = if sample.name == "heat" { &all } else { &one };
        let kernels = sample.compiled()?;
        let cubins: Vec<_> =
            sample.kernels.iter().map(|k| code(devices, sample.source, k)).collect::<Result<_, _>>()?;
        let timed = |run: &dyn Fn() -> Result<f64, Diagnostic>| {
            let start = Instant::now();
            run().map(|result| (start.elapsed().as_secs_f64() * 1e3, result))
        };
        let ours = || timed(&|| (sample.lathe)(devices, &kernels));
        let theirs = || timed(&|| Ok((sample.hand)(&cubins)));
        let (x, y) = (ours()?.1, theirs()?.1);
        let before = devices.counters()?;
        ours()?;
        let after = devices.counters()?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..11 {
            a.push(ours()?.0);
            b.push(theirs()?.0);
        }
        let (a, b) = (median(a), median(b));
        out.push(format!(
            "{{\"name\": \"{}\", \"lathe_ms\": {a:.3}, \"hand_ms\": {b:.3}, \"ratio\": {:.4}, \"results\": [{x:e}, {y:e}], \"to_device_bytes\": {}, \"from_device_bytes\": {}, \"between_bytes\": {}, \"copies\": {}, \"lines\": {:?}}}",
            sample.name,
            a / b,
            after.to_device_bytes - before.to_device_bytes,
            after.from_device_bytes - before.from_device_bytes,
            after.between_bytes - before.between_bytes,
            after.copies - before.copies,
            sample.lines()
        ));
    }
    Ok(format!("\"samples\": [{}], \"lines_in_common_by_hand\": {}", out.join(", "), samples::common_lines()))
}

/// On all devices, and on one that stands for four.
fn heat_with_halos() -> Result<String, Diagnostic> {
    let (n, steps) = (512, 20);
    let kernel = Kernel::cuda(heat::KERNELS)?;
    let info = lathe_gpu::info::devices_of("cuda")?;
    let one = heat::grid(&Devices::open(vec![info[0].clone()])?, &kernel, n, steps, <[f32]>::to_vec)?;
    let four = heat::grid(&Devices::open(vec![info[0].clone(); 4])?, &kernel, n, steps, <[f32]>::to_vec)?;
    let devices = Devices::open(info)?;
    let all = heat::grid(&devices, &kernel, n, steps, <[f32]>::to_vec)?;
    let mut now: Vec<f32> = (0..n * n).map(|k| heat::start(k / n, k % n, n)).collect();
    for _ in 0..steps {
        let mut next = now.clone();
        for i in 1..n - 1 {
            for j in 1..n - 1 {
                let around =
                    now[(i - 1) * n + j] + now[(i + 1) * n + j] + now[i * n + j - 1] + now[i * n + j + 1];
                next[i * n + j] = now[i * n + j] + 0.2 * (around - 4.0 * now[i * n + j]);
            }
        }
        now = next;
    }
    let parts = heat_parts(&devices, &kernel)?;
    let far = |a: &[f32]| a.iter().zip(&now).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    let c = devices.counters()?;
    Ok(format!(
        "\"devices\": {}, \"same\": {}, \"same_on_four\": {}, \"error\": {:e}, \"between_bytes\": {}, {parts}",
        devices.len(),
        one == all,
        one == four,
        far(&one),
        c.between_bytes
    ))
}

/// What the time of the sample goes to: the first state, the steps, the result on the host; and what the devices were busy with.
fn heat_parts(devices: &Devices, kernel: &Kernel) -> Result<String, Diagnostic> {
    let (n, mut all) = (heat::N, Vec::new());
    let mut busy = Vec::new();
    for round in 0..7 {
        devices.keep_profile(round == 6)?;
        let mut at = vec![Instant::now()];
        let (mut now, mut next) = (Buffer::new(devices, n * n)?, Buffer::new(devices, n * n)?);
        for grid in [&now, &next] {
            grid.fill(|k| heat::start(k / n, k % n, n))?;
        }
        at.push(Instant::now());
        heat::steps(devices, kernel, [&mut now, &mut next], n, 2)?;
        devices.finish()?;
        at.push(Instant::now());
        heat::steps(devices, kernel, [&mut now, &mut next], n, 18)?;
        at.push(Instant::now());
        devices.finish()?;
        at.push(Instant::now());
        now.with(0..n * n, |_| ())?;
        at.push(Instant::now());
        all = at.windows(2).map(|w| (w[1] - w[0]).as_secs_f64() * 1e3).collect();
        if round == 6 {
            let p = devices.profile()?;
            busy = (0..devices.len()).map(|d| p.busy(d)).map(|(c, k)| [c * 1e3, k * 1e3]).collect();
        }
        drop((now, next));
        devices.finish()?;
        at.push(Instant::now());
        all.push((at[at.len() - 1] - at[at.len() - 2]).as_secs_f64() * 1e3);
        if round == 5 {
            busy.push([all[2], all[3]]);
        }
    }
    Ok(format!(
        "\"parts_ms\": {{\"fill\": {:.3}, \"two_steps\": {:.3}, \"launch_18\": {:.3}, \"finish_18\": {:.3}, \"back\": {:.3}, \"free\": {:.3}}}, \"busy_copies_kernels_ms\": {busy:?}",
        all[0], all[1], all[2], all[3], all[4], all[5]
    ))
}

fn kinds() -> Result<String, Diagnostic> {
    let devices = Devices::named("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(ADD)?;
    let x = MappedBuffer::from_slice(&devices, &[1f32; 4096])?;
    let y = MappedBuffer::from_slice(&devices, &[2f32; 4096])?;
    device.launch(&kernel, dim3(16, 256), &[read_write(&y), read(&x), 4096i32.into()])?;
    let sum: f32 = y.with(0..4096, |y| y.iter().sum())?;
    let c = devices.counters()?;
    Ok(format!("\"mapped_right\": {}, \"mapped_copies\": {}", sum == 3.0 * 4096.0, c.copies))
}

/// Buffers that are together larger than the device.
fn full() -> Result<String, Diagnostic> {
    let devices = Devices::named("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(ADD)?;
    devices.bound(0, 100 << 20)?;
    let len = 4 << 20;
    let x = Buffer::from_slice(&devices, &vec![1f32; len])?;
    let all: Vec<Buffer<f32>> =
        (0..8).map(|n| Buffer::from_slice(&devices, &vec![n as f32; len])).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        for y in &all {
            let blocks = (len / 256) as u32;
            device.launch(&kernel, dim3(blocks, 256), &[read_write(y), read(&x), (len as i32).into()])?;
        }
    }
    let mut right = true;
    for (n, y) in all.iter().enumerate() {
        right &= y.with(0..len, |y| y.iter().all(|v| *v == n as f32 + 3.0))?;
    }
    let c = devices.counters()?;
    Ok(format!(
        "\"right\": {right}, \"evictions\": {}, \"notices\": {}",
        c.evictions,
        devices.take_notices()?.len()
    ))
}

/// Memory stays as it is over many calls.
fn calls() -> Result<String, Diagnostic> {
    let devices = Devices::named("cuda")?;
    let device = devices.device(0)?;
    let kernel = Kernel::cuda(ADD)?;
    let x = Buffer::from_slice(&devices, &[1f32; 256])?;
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split(' ').nth(1).and_then(|n| n.parse::<i64>().ok()).unwrap_or(0) * 4
    };
    let mut first = 0;
    for n in 0..100_000 {
        let y = Buffer::from_slice(&devices, &[0f32; 256])?;
        device.launch(&kernel, dim3(1, 256), &[read_write(&y), read(&x), 256i32.into()])?;
        if n == 10_000 {
            devices.finish()?;
            first = resident();
        }
    }
    devices.finish()?;
    Ok(format!("\"kib_after_10000\": {first}, \"kib_after_100000\": {}", resident()))
}

/// A fault in a kernel of the user's: it is named, the host's data is whole.
fn fault() -> Result<(), Diagnostic> {
    let devices = Devices::named("cuda")?;
    let device = devices.device(0)?;
    let good = Kernel::cuda(ADD)?;
    let bad = Kernel::cuda(
        "extern \"C\" __global__ void wild(float *y) { *(float *)(8 + 4096 * (size_t)threadIdx.x) = y[0]; }",
    )?;
    let x = Buffer::from_slice(&devices, &[1f32; 256])?;
    let y = Buffer::from_slice(&devices, &[2f32; 256])?;
    let z = Buffer::<f32>::new(&devices, 1)?;
    device.launch(&good, dim3(1, 256), &[read_write(&y), read(&x), 256i32.into()])?.wait()?;
    y.to_vec()?;
    device.launch(&bad, dim3(1, 32), &[write(&z)])?;
    let d = z.to_vec().err();
    let again = device.launch(&good, dim3(1, 256), &[read_write(&y), read(&x), 256i32.into()]).err();
    println!(
        "{{\"row\": \"fault\", \"code\": {:?}, \"message\": {:?}, \"again\": {:?}, \"host_whole\": {}}}",
        d.as_ref().map(|d| d.code.0),
        d.as_ref().map(|d| d.message.clone()),
        again.as_ref().map(|d| (d.code.0, d.message.clone())),
        x.to_vec()? == [1.0; 256] && y.to_vec()? == [3.0; 256]
    );
    Ok(())
}

const ENDLESS: &str = "extern \"C\" __global__ void endless(volatile float *y) { while (y[0] != 7) {} }";

/// A kernel that does not end (with LATHE_DEVICE_SECONDS=2): the error, what goes on, and the end of the process.
fn endless() -> Result<(), Diagnostic> {
    let devices = Devices::of_kind("cuda")?;
    let device = devices.device(0)?;
    let bad = Kernel::cuda(ENDLESS)?;
    let good = Kernel::cuda(ADD)?;
    let x = PinnedBuffer::from_slice(&devices, &[1f32; 256])?;
    let y = PinnedBuffer::from_slice(&devices, &[2f32; 256])?;
    let z = Buffer::from_slice(&devices, &[2f32; 256])?;
    device.compile(&good)?;
    device.launch(&bad, dim3(1, 32), &[read_write(&y)])?;
    let start = Instant::now();
    let d = y.to_vec().err();
    let after = start.elapsed().as_secs_f64();
    let again = device.launch(&good, dim3(1, 256), &[read_write(&z), read(&x), 256i32.into()]).err();
    let mut other = String::from("none");
    if devices.len() > 1 {
        devices.device(1)?.launch(&good, dim3(1, 256), &[read_write(&z), read(&x), 256i32.into()])?;
        other = format!("{}", z.to_vec()? == [3.0; 256]);
    }
    println!(
        "{{\"row\": \"endless\", \"code\": {:?}, \"message\": {:?}, \"after_s\": {after:.2}, \"again\": {:?}, \"other_device_right\": \"{other}\", \"host_whole\": {}}}",
        d.as_ref().map(|d| d.code.0),
        d.as_ref().map(|d| d.message.clone()),
        again.map(|d| d.code.0),
        x.to_vec()? == [1.0; 256]
    );
    drop((x, y, z, bad, good, device));
    drop(devices);
    println!("{{\"row\": \"endless_end\", \"dropped_after_s\": {:.2}}}", start.elapsed().as_secs_f64());
    Ok(())
}

/// The same by hand: what the driver does at the end of a process whose kernel does not end.
fn endless_by_hand() -> Result<(), Diagnostic> {
    let devices = Devices::named("cuda")?;
    let cu = Cuda::get();
    let (function, stream) = opened(cu, &devices, ENDLESS, "endless")?;
    let mut a = 0u64;
    ok((cu.cuMemAlloc)(&mut a, 4096));
    let mut arguments = [at(&mut a)];
    let none = null();
    ok((cu.cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments.as_mut_ptr(), none.cast()));
    std::thread::sleep(std::time::Duration::from_millis(200));
    println!("{{\"row\": \"endless_by_hand\", \"started\": true}}");
    Ok(())
}

/// A process that is forked after devices were opened.
fn fork() -> Result<(), Diagnostic> {
    let devices = Devices::named("cuda")?;
    let x = Buffer::from_slice(&devices, &[1f32; 256])?;
    // SAFETY: the child uses nothing but what is tested, and leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = x.to_vec().err().map(|d| d.code.0);
        println!("{{\"row\": \"fork\", \"code\": {code:?}}}");
        std::process::exit(0);
    }
    let mut state = 0;
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, &mut state, 0) };
    x.to_vec().map(|_| ())
}

/// A kernel of the first device and a stream there, by the driver alone.
fn opened(cu: &Cuda, devices: &Devices, source: &str, kernel: &str) -> Result<(Ptr, Ptr), Diagnostic> {
    let (name, cubin) = code(devices, source, kernel)?;
    let (mut module, mut function, mut stream, mut context) = (null(), null(), null(), null());
    ok((cu.cuDevicePrimaryCtxRetain)(&mut context, 0));
    ok((cu.cuCtxSetCurrent)(context));
    ok((cu.cuModuleLoadData)(&mut module, cubin.as_ptr().cast()));
    let name = std::ffi::CString::new(name).unwrap_or_default();
    ok((cu.cuModuleGetFunction)(&mut function, module, name.as_ptr()));
    ok((cu.cuStreamCreate)(&mut stream, 1));
    Ok((function, stream))
}

fn null() -> Ptr {
    std::ptr::null_mut()
}
