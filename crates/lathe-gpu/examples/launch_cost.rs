//! What the host does itself at a launch: with a driver that does nothing (`tests/driver/libcuda.c`), which needs no device.
//!
//!     cargo run --release -p lathe-gpu --example launch_cost                    # nanoseconds of a launch
//!     valgrind --tool=callgrind --toggle-collect='*launch_cost*rounds*' …       # instructions, by function

#[path = "../tests/driver/mod.rs"]
mod driver;

use driver::{calls, devices, is_inside};
use lathe_gpu::device::{Buffer, Device, Kernel, dim3, read, write};
use std::time::Instant;

const BATCH: u32 = 500;

fn main() {
    if !is_inside() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (well, text) = driver::run(&arguments, &[]);
        print!("{text}");
        std::process::exit(i32::from(!well));
    }
    let devices = devices();
    let device = devices.device(0).expect("a device");
    let source = "extern \"C\" __global__ void empty(float *y, const float *x, int n) {}";
    let kernel = Kernel::cuda(source).expect("a kernel");
    let make = || Buffer::from_slice(&devices, &[1f32; 1024]).expect("a buffer");
    let (x, y, z) = (make(), make(), make());
    for (name, targets) in [("the same again", [&y, &y]), ("two in turn", [&y, &z])] {
        let (mut all, before) = (Vec::new(), ["cuEventRecord", "cuEventQuery"].map(calls));
        for _ in 0..41 {
            let start = Instant::now();
            rounds(&device, &kernel, targets, &x);
            all.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
            devices.finish().expect("it ends");
        }
        all.sort_by(f64::total_cmp);
        let [recorded, asked] = ["cuEventRecord", "cuEventQuery"].map(calls);
        let each = |n: i64| n as f64 / f64::from(41 * BATCH);
        println!(
            "{{\"launches\": \"{name}\", \"ns\": {:.0}, \"events\": {:.3}, \"queries\": {:.3}}}",
            all[all.len() / 2],
            each(recorded - before[0]),
            each(asked - before[1])
        );
    }
}

#[inline(never)]
fn rounds(device: &Device, kernel: &Kernel, targets: [&Buffer<f32>; 2], x: &Buffer<f32>) {
    for n in 0..BATCH {
        let arguments = [write(targets[n as usize % 2]), read(x), 1024i32.into()];
        device.launch(kernel, dim3(1, 32), &arguments).expect("a launch");
    }
}
