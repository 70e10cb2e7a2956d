//! Six programs on devices: `samples/` has a file for each, with the same program by hand beside it.
//!
//!     cargo run --release -p lathe-gpu --example devices                    # all of them, on all devices of CUDA
//!     cargo run --release -p lathe-gpu --example devices -- heat opencl     # one, on devices of OpenCL

#[allow(dead_code, reason = "the programs by hand are for the measurements")]
mod samples;

use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::Devices;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let known = |a: &&String| samples::ALL.iter().any(|s| s.name == **a);
    let kind = arguments.iter().find(|a| !known(a)).map_or("cuda", String::as_str);
    let chosen = arguments.iter().find(known);
    if let Err(d) = run(kind, chosen.map(String::as_str)) {
        eprintln!("{d}");
        std::process::exit(1);
    }
}

fn run(kind: &str, chosen: Option<&str>) -> Result<(), Diagnostic> {
    let devices = Devices::of_kind(kind)?;
    for sample in samples::ALL.iter().filter(|s| chosen.is_none_or(|c| c == s.name)) {
        let kernels = sample.compiled()?;
        let before = devices.counters()?;
        let result = (sample.lathe)(&devices, &kernels)?;
        let after = devices.counters()?;
        println!(
            "{}: {result} ({} bytes to devices, {} from them, {} between them, in {} copies)",
            sample.name,
            after.to_device_bytes - before.to_device_bytes,
            after.from_device_bytes - before.from_device_bytes,
            after.between_bytes - before.between_bytes,
            after.copies - before.copies
        );
    }
    Ok(())
}
