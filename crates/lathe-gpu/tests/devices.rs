//! Buffers and kernels of the user's on a device of OpenCL (PoCL, which `scripts/setup.sh` installs), or of the kind that
//! `LATHE_TEST_KIND` names.

use lathe_gpu::codes;
use lathe_gpu::device::{
    Buffer, BufferIn, Devices, Keep, Kernel, MappedBuffer, Parameters, PinnedBuffer, Sequence, dim3,
    nd_range, read, read_write, write,
};
use lathe_source::device::Language;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const SUM: &str = "// Each block sums its part.
__kernel void sum(__global float *out, __global const float *in, int n) {
    __local float part[64];
    int t = get_local_id(0), b = get_group_id(0);
    float s = 0;
    for (int i = b * 64 + t; i < n; i += 64 * get_num_groups(0)) s += in[i];
    part[t] = s;
    for (int h = 32; h > 0; h /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < h) part[t] += part[t + h];
    }
    if (t == 0) out[b] = part[0];
}";

const SCALE: &str = "extern \"C\" __global__ void scale(float *y, const float *x, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i];
}";

fn kind() -> String {
    std::env::var("LATHE_TEST_KIND").unwrap_or_else(|_| "opencl".to_string())
}

/// The same device several times over would be one: two entries of the list have buffers of their own.
fn devices(n: usize) -> Devices {
    let one = lathe_gpu::info::devices_of(&kind()).expect("PoCL (scripts/setup.sh installs it)");
    Devices::open(vec![one[0].clone(); n]).expect("devices")
}

/// The four steps of the thesis: devices, a kernel, inputs, launches; the counters show that no byte moved twice.
#[test]
fn a_sum_on_all_devices() {
    let devices = devices(4);
    let kernel = Kernel::opencl(SUM).expect("a kernel");
    let (n, groups) = (4096usize, 8usize);
    let data: Vec<f32> = (0..4 * n).map(|i| (i % 7) as f32).collect();
    let input = Buffer::from_slice(&devices, &data).expect("a buffer");
    let out = Buffer::<f32>::new(&devices, 4 * 32 * groups).expect("a buffer");
    for _ in 0..3 {
        for (d, device) in devices.iter().enumerate() {
            let to = out.part(d * 32 * groups..d * 32 * groups + groups).expect("a part");
            let from = input.part(d * n..(d + 1) * n).expect("a part");
            let arguments = [write(to), read(from), (n as i32).into()];
            device.launch(&kernel, dim3(groups as u32, 64), &arguments).expect("a launch");
        }
    }
    let mut sum = 0.0;
    for d in 0..4 {
        sum += out
            .with(d * 32 * groups..d * 32 * groups + groups, |p| p.iter().sum::<f32>())
            .expect("it was written");
    }
    assert_eq!(sum, data.iter().sum::<f32>());
    let c = devices.counters().expect("counters");
    assert_eq!((c.to_device_bytes, c.from_device_bytes, c.copies), (16 * n as u64, 16 * groups as u64, 8));
    assert_eq!((c.launches, c.compiled), (12, 1));
    let d = out.to_vec().expect_err("the rest is uninitialized");
    assert_eq!(d.code, lathe_host::codes::UNDEFINED);
}

/// The kind of memory is a matter of the type alone; both forms of grids and both languages are for all devices.
#[test]
fn kinds_of_memory_and_forms_of_grids() {
    fn run<K: lathe_gpu::device::Kind>(devices: &Devices) -> Vec<f32> {
        let device = devices.device(0).expect("a device");
        let kernel = Kernel::cuda(SCALE).expect("a kernel");
        let x = BufferIn::<f32, K>::from_slice(devices, &[1.0; 128]).expect("a buffer");
        let y = BufferIn::<f32, K>::new(devices, 128).expect("a buffer");
        device.launch(&kernel, dim3(2, 64), &[write(&y), read(&x), 3.0f32.into()]).expect("a launch");
        x.set(0, &[2.0; 5]).expect("it waits for who reads it");
        device
            .launch(&kernel, nd_range(128, 32), &[read_write(&y), read(&x), 4.0f32.into()])
            .expect("a launch");
        y.update(7..8, |y| y[0] += 1.0).expect("it waits");
        y.to_vec().expect("it was written")
    }
    let mut want = vec![4.0; 128];
    want[..5].fill(8.0);
    want[7] = 5.0;
    let devices = devices(1);
    assert_eq!(run::<lathe_gpu::device::Plain>(&devices), want);
    let plain = devices.counters().expect("counters");
    assert_eq!(run::<lathe_gpu::device::Pinned>(&devices), want);
    let pinned = devices.counters().expect("counters");
    assert_eq!(pinned.copies, 2 * plain.copies);
    assert_eq!(run::<lathe_gpu::device::Mapped>(&devices), want);
    assert_eq!(devices.counters().expect("counters").copies, pinned.copies, "shared memory is not copied");
    let _: (PinnedBuffer<i32>, MappedBuffer<[f32; 4]>) =
        (PinnedBuffer::new(&devices, 0).expect("empty"), MappedBuffer::new(&devices, 3).expect("a buffer"));
}

#[test]
fn what_is_wrong_is_refused() {
    let devices = devices(1);
    let device = devices.device(0).expect("a device");
    let kernel = Kernel::cuda(SCALE).expect("a kernel");
    let x = Buffer::from_slice(&devices, &[1.0f32; 64]).expect("a buffer");
    let y = Buffer::<f32>::new(&devices, 64).expect("a buffer");
    let code =
        |grid, arguments: &[_]| device.launch(&kernel, grid, arguments).err().expect("it is wrong").code;
    assert_eq!(code(dim3(1, 64), &[write(&y), read(&x)]), codes::ARGUMENTS);
    assert_eq!(code(dim3(1, 64), &[write(&y), read(&x), 1.0f64.into()]), codes::ARGUMENTS);
    assert_eq!(code(dim3(1, 64), &[write(&y), 1.0f32.into(), 1.0f32.into()]), codes::ARGUMENTS);
    assert_eq!(code(dim3(1, 64), &[write(&y), read(&x), read(&x)]), codes::ARGUMENTS);
    assert_eq!(
        code(dim3(1, 64), &[write(&y), lathe_gpu::device::Part::from(&x).into(), 1.0f32.into()]),
        codes::ARGUMENTS
    );
    assert_eq!(code(nd_range(100, 64), &[write(&y), read(&x), 1.0f32.into()]), codes::ARGUMENTS);
    assert_eq!(code(dim3(1, 1 << 20), &[write(&y), read(&x), 1.0f32.into()]), codes::DEVICE_LIMIT);
    assert_eq!(code(dim3(1, 64), &[write(&x), read(&y), 1.0f32.into()]), lathe_host::codes::UNDEFINED);
    let other = self::devices(1);
    let z = Buffer::<f32>::new(&other, 64).expect("a buffer");
    assert_eq!(code(dim3(1, 64), &[write(&z), read(&x), 1.0f32.into()]), codes::ARGUMENTS);
    assert_eq!(x.part(3..65).expect_err("too long").code, lathe_host::codes::PART);
    assert_eq!(
        x.with(0..1, |_| devices.finish()).expect("seen").expect_err("locked").code,
        lathe_host::codes::PART
    );
    let bad = Kernel::opencl("__kernel void f(__global int *p) { p[0] = undeclared; }").expect("a kernel");
    let p = Buffer::<i32>::new(&devices, 1).expect("a buffer");
    assert_eq!(
        device.launch(&bad, dim3(1, 1), &[write(&p)]).err().expect("wrong").code,
        codes::DEVICE_COMPILER
    );
    assert_eq!(Devices::named("opencl:15").err().expect("none").code, codes::NO_DEVICE);
    assert_eq!(Devices::named("a name that no device has").err().expect("none").code, codes::NO_DEVICE);
    for far in ["opencl@node7", "tcp://node7/cuda:0", "remote"] {
        let d = Devices::named(far).err().expect("another machine");
        assert!(d.code == codes::NO_DEVICE && d.message.contains("daemon"), "{d}");
    }
    // Nothing of that was done.
    assert_eq!(devices.counters().expect("counters").launches, 0);
    x.to_vec().expect("it is whole");
}

#[derive(Default)]
struct Kept(Mutex<HashMap<String, Vec<u8>>>);

impl Keep for Kept {
    fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        self.0.lock().expect("no panics").get(&key.join("\n")).cloned()
    }

    fn put(&self, key: &[&str], bytes: &[u8]) {
        self.0.lock().expect("no panics").insert(key.join("\n"), bytes.to_vec());
    }
}

/// A second program compiles nothing that the first one compiled, and damaged code is compiled again.
#[test]
fn compiled_kernels_are_kept() {
    let kept = Arc::new(Kept::default());
    let run = || {
        let devices = devices(1);
        devices.keep_code(Arc::clone(&kept) as Arc<dyn Keep>);
        let kernel = Kernel::cuda(SCALE).expect("a kernel").flag("-DUNUSED=1");
        let x = Buffer::from_slice(&devices, &[1.0f32; 64]).expect("a buffer");
        let y = Buffer::<f32>::new(&devices, 64).expect("a buffer");
        for _ in 0..2 {
            let arguments = [write(&y), read(&x), 3.0f32.into()];
            devices.device(0).and_then(|d| d.launch(&kernel, dim3(1, 64), &arguments)).expect("a launch");
        }
        assert_eq!(y.to_vec().expect("written"), [3.0; 64]);
        let c = devices.counters().expect("counters");
        (c.compiled, c.reused)
    };
    assert_eq!(run(), (1, 0));
    assert_eq!(run(), (0, 1));
    kept.0.lock().expect("no panics").values_mut().for_each(|b| b.truncate(10));
    assert_eq!(run(), (1, 0));
}

/// Repeated launches as one: only what is read before it is written comes from the host.
#[test]
fn sequences_are_one_launch() {
    let devices = devices(1);
    let device = devices.device(0).expect("a device");
    let kernel = Kernel::cuda(SCALE).expect("a kernel");
    let x = Buffer::from_slice(&devices, &[1.0f32; 64]).expect("a buffer");
    let y = Buffer::<f32>::new(&devices, 64).expect("a buffer");
    let mut all = Sequence::new(&device, "doubled");
    for _ in 0..3 {
        all.add(&kernel, dim3(1, 64), &[write(&y), read(&x), 2.0f32.into()]).expect("a step");
        all.add(&kernel, dim3(1, 64), &[write(&x), read(&y), 1.0f32.into()]).expect("a step");
    }
    assert_eq!(devices.counters().expect("counters").launches, 0);
    for _ in 0..4 {
        all.launch().expect("a launch");
    }
    assert_eq!(x.to_vec().expect("written"), [4096.0; 64]);
    let c = devices.counters().expect("counters");
    assert_eq!((c.launches, c.to_device_bytes, c.from_device_bytes), (4, 256, 256));
}

#[test]
fn profiles_say_what_ran() {
    let devices = devices(2);
    let kernel = Kernel::opencl(SUM).expect("a kernel");
    devices.keep_profile(true).expect("a profile");
    let x = Buffer::from_slice(&devices, &[1.0f32; 512]).expect("a buffer");
    let y = Buffer::<f32>::new(&devices, 64).expect("a buffer");
    for (n, d) in devices.iter().enumerate() {
        let part = y.part(32 * n..32 * n + 2).expect("a part");
        d.launch(&kernel, dim3(2, 64), &[write(part), read(&x), 512i32.into()]).expect("a launch");
        y.with(32 * n..32 * n + 2, |y| assert_eq!(y.iter().sum::<f32>(), 512.0)).expect("written");
    }
    let p = devices.profile().expect("a profile");
    for d in 0..2 {
        let of: Vec<_> = p.spans.iter().filter(|s| s.device == Some(d)).collect();
        assert_eq!(of.iter().map(|s| s.bytes).collect::<Vec<_>>(), [Some(2048), None, Some(8)], "{of:?}");
        assert!(of.windows(2).all(|w| w[0].start <= w[1].start) && of[1].name == "sum", "{of:?}");
    }
    assert_eq!(p.compilation.len(), 1);
    assert!(
        p.chrome().contains("\"ph\": \"X\"")
            && p.svg().contains("<rect")
            && p.json().contains("\"kernel_s\"")
    );
    assert!(devices.profile().expect("empty").spans.is_empty());
}

/// A library gets what it needs to start something itself.
#[test]
fn libraries_get_addresses_and_queues() {
    let devices = devices(1);
    let device = devices.device(0).expect("a device");
    let x = Buffer::from_slice(&devices, &[5i32; 64]).expect("a buffer");
    let seen = Arc::new(Mutex::new(None));
    let to = Arc::clone(&seen);
    let done = device.call("a library", &[read(x.part(32..64).expect("a part"))], move |l| {
        *to.lock().expect("no panics") =
            Some((l.kind(), l.pointer(0).is_some(), l.pointer(1), l.offset(0), l.queue() != 0));
        Ok(())
    });
    done.and_then(|l| l.wait()).expect("a call");
    assert_eq!(*seen.lock().expect("no panics"), Some((kind().as_str(), true, None, 128, true)));
    let failed = device.call("a library", &[read_write(&x)], |_| Err("no handle".to_string()));
    let d = failed.err().expect("it failed");
    assert!(d.code == lathe_host::codes::FAILED && d.message.contains("a library"), "{d}");
    assert_eq!(Kernel::of(SUM, Language::OpenCl, Some("sum")).expect("named").name(), "sum");
}

/// A tuner is called once for each kernel, device and values, by this process or another.
#[test]
fn tuners_are_called_once() {
    const SET: &str = "__kernel void set(__global int *y) { y[get_global_id(0)] = WIDTH + EXTRA; }";
    let keep = Arc::new(Kept::default());
    let calls = std::cell::Cell::new(0);
    let tuner = |width: i64| {
        calls.set(calls.get() + 1);
        Ok(vec![("WIDTH".to_string(), width)])
    };
    for round in 0..2 {
        let devices = devices(1);
        devices.keep_code(Arc::clone(&keep) as Arc<dyn Keep>);
        let device = devices.device(0).expect("a device");
        let y = Buffer::<i32>::new(&devices, 8).expect("a buffer");
        let kernel = Kernel::opencl(SET).expect("a kernel");
        for (extra, values, width) in [(1, [8, 8], 4), (1, [8, 9], 2), (2, [8, 8], 8), (1, [8, 8], 4)] {
            let kernel = kernel.clone().flag(&format!("-DEXTRA={extra}"));
            let tuned = device.tuned(&kernel, &values, |_| tuner(width)).expect("it was tuned");
            let threads = tuned.value("WIDTH").expect("a value") as u32;
            device.launch(&tuned.kernel, nd_range(8, threads), &[write(&y)]).expect("a launch");
            assert_eq!(y.to_vec().expect("it was written"), [width as i32 + extra; 8]);
            assert!(tuned.value("HEIGHT").is_err());
        }
        assert_eq!(calls.get(), 3, "round {round}");
        // What is kept is not trusted.
        let all: Vec<_> = keep.0.lock().expect("no panic").keys().cloned().collect();
        let spoilt = all.iter().filter(|k| round == 1 && k.starts_with("tuned"));
        spoilt.for_each(|k| {
            keep.0.lock().expect("no panic").insert(k.clone(), b"WIDTH 4 -Dinjected=1\n".to_vec());
        });
    }
    let again = devices(1);
    again.keep_code(keep);
    let device = again.device(0).expect("a device");
    let kernel = Kernel::opencl(SET).expect("a kernel").flag("-DEXTRA=1");
    let tuned = device.tuned(&kernel, &[8, 8], |_| tuner(2)).expect("it was tuned");
    assert_eq!((tuned.parameters, calls.get()), (vec![("WIDTH".to_string(), 2)], 4));
    let bad: Parameters = vec![("A B".to_string(), 1)];
    assert_eq!(device.tuned(&kernel, &[1], |_| Ok(bad)).err().expect("no name").code, codes::ARGUMENTS);
}
