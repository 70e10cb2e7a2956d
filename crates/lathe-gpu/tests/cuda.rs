//! What the driver of CUDA is asked for, and what becomes of faults there: with a driver that has no device.

mod driver;

use driver::{Named, calls, devices, is_inside};
use lathe_gpu::codes::{ARGUMENTS, NCCL};
use lathe_gpu::device::{
    Buffer, Combine, Device, Devices, Kernel, Part, PinnedBuffer, dim3, read, read_write, write,
};
use lathe_host::codes::{FAILED, LOST};
use std::sync::Arc;

/// Runs the body in a process of its own, with the driver.
macro_rules! inside {
    ($name:literal, $set:expr, $body:block) => {
        if !is_inside() {
            let (well, text) = driver::run(&["--exact", $name, "--nocapture"], $set);
            assert!(well && text.contains("1 passed"), "{text}");
            return;
        }
        $body
    };
}

fn kernel(name: &str) -> Kernel {
    Kernel::cuda(&format!("extern \"C\" __global__ void {name}(float *y, const float *x, int n) {{}}"))
        .expect("a kernel")
}

fn add(device: &Device, kernel: &Kernel, y: &Buffer<f32>, x: &Buffer<f32>) {
    let arguments = [read_write(y), read(x), (y.len() as i32).into()];
    device.launch(kernel, dim3(1, 32), &arguments).expect("a launch");
}

/// A launch that uses what the one before it did costs a launch of the driver and nothing else: no event, no allocation.
#[test]
fn launches_that_follow_one_another_need_no_events() {
    inside!("launches_that_follow_one_another_need_no_events", &[], {
        let devices = devices();
        let device = devices.device(0).expect("a device");
        let kernel = kernel("add");
        let x = Buffer::from_slice(&devices, &[1f32; 64]).expect("a buffer");
        let y = Buffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        add(&device, &kernel, &y, &x);
        let names = ["cuLaunchKernel", "cuEventRecord", "cuEventQuery", "cuMemAlloc_v2", "cuStreamWaitEvent"];
        let before = names.map(calls);
        (0..60).for_each(|_| add(&device, &kernel, &y, &x));
        let made: Vec<i64> = names.iter().zip(before).map(|(n, b)| calls(n) - b).collect();
        assert_eq!(made, [60, 0, 0, 0, 0]);
        assert_eq!(y.to_vec().expect("it was written"), [61.0; 64]);
        // What is still to be seen of another launch has an event of its own.
        let z = Buffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        let before = calls("cuEventRecord");
        add(&device, &kernel, &y, &x);
        add(&device, &kernel, &z, &y);
        assert!(calls("cuEventRecord") > before);
        assert_eq!(z.to_vec().expect("it was written"), [62.0; 64]);
    });
}

/// The error says so, the other device goes on, nothing waits for the kernel, and the process ends by itself.
#[test]
fn a_kernel_that_does_not_end_is_left_behind() {
    inside!("a_kernel_that_does_not_end_is_left_behind", &[("LATHE_DEVICE_SECONDS", "1")], {
        let devices = devices();
        let (one, other) = (devices.device(0).expect("a device"), devices.device(1).expect("a device"));
        let (endless, good) = (kernel("endless"), kernel("add"));
        let x = PinnedBuffer::from_slice(&devices, &[1f32; 64]).expect("a buffer");
        let y = PinnedBuffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        let z = PinnedBuffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        let arguments = |y| [read_write(y), read(&x), 64i32.into()];
        // What ended before it is not blamed.
        one.launch(&good, dim3(1, 32), &arguments(&y)).expect("a launch");
        one.launch(&endless, dim3(1, 32), &arguments(&y)).expect("a launch");
        let d = y.to_vec().expect_err("it does not end");
        assert!(d.code == FAILED && d.message.contains("endless") && !d.message.contains("add"), "{d}");
        let d = one.launch(&good, dim3(1, 32), &arguments(&z)).err().expect("the device is lost");
        assert_eq!(d.code, LOST);
        other.launch(&good, dim3(1, 32), &arguments(&z)).expect("a launch");
        assert_eq!(z.to_vec().expect("the other device goes on"), [1.0; 64]);
        assert_eq!(x.to_vec().expect("the host has it"), [1.0; 64]);
        // Memory, modules, and memory that the lost device may still write to: none is given back to it.
        drop((x, y, z, endless, good, one, other));
        let d = Devices::named("cuda:0").err().expect("it was given up");
        assert_eq!(d.code, LOST);
        drop(devices);
        let rest = Devices::named("cuda:1").expect("a device");
        let again = PinnedBuffer::from_slice(&rest, &[1f32; 64]).expect("a buffer");
        assert_eq!(again.to_vec().expect("the host has it"), [1.0; 64]);
    });
}

#[test]
fn a_fault_takes_its_device_and_is_told_by_its_name() {
    inside!("a_fault_takes_its_device_and_is_told_by_its_name", &[], {
        let devices = devices();
        let (one, other) = (devices.device(0).expect("a device"), devices.device(1).expect("a device"));
        let (wild, good) = (kernel("wild"), kernel("add"));
        let x = Buffer::from_slice(&devices, &[1f32; 64]).expect("a buffer");
        let y = Buffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        (0..3).for_each(|_| add(&one, &good, &y, &x));
        assert_eq!(y.to_vec().expect("it was written"), [3.0; 64]);
        add(&one, &good, &y, &x);
        y.to_vec().expect("it was written");
        let z = Buffer::<f32>::new(&devices, 64).expect("a buffer");
        one.launch(&wild, dim3(1, 32), &[write(&z), read(&x), 64i32.into()]).expect("a launch");
        let d = z.to_vec().expect_err("a fault");
        assert!(d.code == FAILED && d.message.contains("wild"), "{d}");
        add(&other, &good, &y, &x);
        assert_eq!(y.to_vec().expect("the other device goes on"), [5.0; 64]);
    });
}

#[test]
fn reductions_over_devices_are_begun_together() {
    inside!("reductions_over_devices_are_begun_together", &[("FAKE_CUDA_DEVICES", "3")], {
        let devices = devices();
        let add_one = kernel("add");
        let data: Vec<f32> = (0..24).map(|n| n as f32).collect();
        let all = Buffer::from_slice(&devices, &data).expect("a buffer");
        let ones = Buffer::from_slice(&devices, &[1f32; 8]).expect("a buffer");
        for profile in [false, true] {
            devices.keep_profile(profile).expect("devices");
            all.set(0, &data).expect("it is the host's");
            let part = |d: usize| all.part(8 * d..8 * d + 8).expect("a part");
            for (d, device) in devices.iter().enumerate() {
                let arguments = [read_write(part(d)), read(&ones), 8i32.into()];
                device.launch(&add_one, dim3(1, 32), &arguments).expect("a launch");
            }
            let parts: Vec<_> = (0..3).map(part).collect();
            let launches = devices.all_reduce(Combine::Sum, &parts).expect("a reduction");
            launches.iter().for_each(|l| l.wait().expect("it went well"));
            let want: Vec<f32> = (0..24).map(|n| (n % 8 * 3 + 24 + 3) as f32).collect();
            assert_eq!(all.to_vec().expect("it was written"), want);
        }
        let refused =
            |parts: &[Part]| devices.all_reduce(Combine::Sum, parts).err().expect("it is wrong").code;
        let part = |at: std::ops::Range<usize>| all.part(at).expect("a part");
        assert_eq!(refused(&[part(0..8), part(8..16)]), ARGUMENTS);
        assert_eq!(refused(&[part(0..8), part(8..16), part(16..23)]), ARGUMENTS);
        assert_eq!(refused(&[part(0..8), part(8..16), part(15..23)]), ARGUMENTS);
    });
}

/// Every device gets what all have; the library is given one call for each device.
#[test]
fn broadcasts_gathers_and_scattered_sums() {
    inside!("broadcasts_gathers_and_scattered_sums", &[("FAKE_CUDA_DEVICES", "3")], {
        let devices = devices();
        collectives(&devices);
        // A device that is there three times needs no library.
        let one = devices.device(0).expect("a device").info().clone();
        let same = Devices::open(vec![one; 3]).expect("devices");
        same.keep_code(Arc::new(Named));
        collectives(&same);
    });
}

#[test]
fn reductions_without_the_library_are_refused_by_its_name() {
    inside!("reductions_without_the_library_are_refused_by_its_name", &[("LATHE_NCCL", "/nowhere")], {
        let devices = devices();
        let all = Buffer::from_slice(&devices, &[1f32; 8]).expect("a buffer");
        let parts = [all.part(0..4).expect("a part"), all.part(4..8).expect("a part")];
        let d = devices.all_reduce(Combine::Sum, &parts).err().expect("there is none");
        assert!(d.code == NCCL && d.message.contains("libnccl"), "{d}");
        assert_eq!(all.to_vec().expect("the host has it"), [1.0; 8]);
    });
}

fn collectives(devices: &Devices) {
    let data: Vec<f32> = (0..36).map(|n| n as f32).collect();
    let (all, parts) = (Buffer::from_slice(devices, &data), Buffer::from_slice(devices, &[0f32; 12]));
    let (all, parts) = (all.expect("a buffer"), parts.expect("a buffer"));
    let array = |d: usize| all.part(12 * d..12 * d + 12).expect("a part");
    let part = |d: usize| parts.part(4 * d..4 * d + 4).expect("a part");
    let (arrays, own): (Vec<Part>, Vec<Part>) = (0..3).map(|d| (array(d), part(d))).unzip();
    let done = |launches: Vec<lathe_gpu::device::Launch>| {
        launches.iter().for_each(|l| l.wait().expect("it went well"));
    };
    done(devices.reduce_scatter(Combine::Sum, &arrays, &own).expect("a reduction"));
    let sums: Vec<f32> = (0..12).map(|n| (3 * n + 36) as f32).collect();
    assert_eq!(parts.to_vec().expect("it was written"), sums);
    done(devices.all_gather(&own, &arrays).expect("a gather"));
    assert_eq!(all.to_vec().expect("it was written"), sums.repeat(3));
    // In place: every device has its own piece already.
    all.set(0, &data).expect("it is the host's");
    let pieces: Vec<Part> = (0..3).map(|d| all.part(16 * d..16 * d + 4).expect("a part")).collect();
    done(devices.all_gather(&pieces, &arrays).expect("a gather"));
    let want: Vec<f32> = (0..12).map(|n| data[n / 4 * 16 + n % 4]).collect();
    assert_eq!(all.to_vec().expect("it was written"), want.repeat(3));
    done(devices.broadcast(1, &own).expect("a broadcast"));
    assert_eq!(parts.to_vec().expect("it was written"), sums[4..8].repeat(3));
    done(devices.all_reduce(Combine::Sum, &own).expect("a reduction"));
    let want: Vec<f32> = sums[4..8].iter().map(|v| 3.0 * v).collect();
    assert_eq!(parts.to_vec().expect("it was written"), want.repeat(3));
    let refused = [
        devices.broadcast(0, &own[..2]).err(),
        devices.all_gather(&own, &own).err(),
        devices.all_gather(&[pieces[1].clone(), pieces[0].clone(), pieces[2].clone()], &arrays).err(),
        devices.reduce_scatter(Combine::Sum, &arrays, &pieces).err(),
    ];
    refused.into_iter().for_each(|d| assert_eq!(d.expect("it is wrong").code, ARGUMENTS));
    assert!(devices.broadcast(3, &own).is_err());
    assert_eq!(parts.to_vec().expect("it is whole"), want.repeat(3));
}

/// Several threads use the same devices and kernels: each finds what it launched, and what is shared is summed up.
#[test]
fn threads_share_devices() {
    inside!("threads_share_devices", &[], {
        const ROUNDS: usize = 200;
        let devices = devices();
        let kernel = kernel("add");
        let ones = PinnedBuffer::from_slice(&devices, &[1f32; 64]).expect("a buffer");
        let shared = PinnedBuffer::from_slice(&devices, &[0f32; 64]).expect("a buffer");
        let (devices, kernel, ones, shared) = (&devices, &kernel, &ones, &shared);
        let one = |t: usize| {
            let device = devices.device(t % 2).expect("a device");
            let own = Buffer::from_slice(devices, &[t as f32; 64]).expect("a buffer");
            for n in 0..ROUNDS {
                let launch = |to| {
                    let arguments = [read_write(to), read(ones), 64i32.into()];
                    device.launch(kernel, dim3(1, 32), &arguments).expect("a launch")
                };
                launch(Part::from(&own));
                let last = launch(Part::from(shared));
                match n % 3 {
                    0 => last.wait().expect("it went well"),
                    1 => own.with(3..4, |v| assert_eq!(v[0], (t + n + 1) as f32)).expect("it was written"),
                    _ => drop(Buffer::from_slice(devices, &[0f32; 16]).expect("a buffer")),
                }
            }
            assert_eq!(own.to_vec().expect("it was written"), [(t + ROUNDS) as f32; 64]);
        };
        std::thread::scope(|s| (0..4).for_each(|t| drop(s.spawn(move || one(t)))));
        assert_eq!(shared.to_vec().expect("it was written"), [4.0 * ROUNDS as f32; 64]);
        devices.finish().expect("it ends");
    });
}
