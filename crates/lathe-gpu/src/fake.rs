//! Random programs on a device of OpenCL, or of the kind that `LATHE_TEST_KIND` names, which stands for all devices of a
//! program.

use crate::device::to_cuda;
use crate::drivers::Drivers;
use crate::function::{Argument, Function, Grid, Module};
use crate::marks::Opened;
use crate::nvrtc::nvrtc;
use crate::work::{HostBytes, HostKind, Memory, Outcome, Queue, Start};
use lathe_diagnostics::Diagnostic;
use lathe_host::simulated::Ending;
use lathe_host::{Access, BufferId, Device, Event, Executor, Mode};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use lathe_host::simulated::mix;

/// `mix` of `lathe_host::simulated`, for up to four accesses.
const SOURCE: &str = "
void take(__global const uchar *p, ulong a, ulong b, uchar *seen, int *n) {
    for (ulong i = a; i < b; i++) seen[(*n)++] = p[i];
}
void make(__global uchar *p, ulong a, ulong b, ulong seed, const uchar *seen, int n) {
    for (ulong i = a; i < b; i++) {
        ulong h = (seed * 0x9e3779b97f4a7c15UL) ^ i;
        for (int k = 0; k < n; k++) h = (h ^ seen[k]) * 0x0100000001b3UL;
        p[i] = (uchar)(h >> 24);
    }
}
#define ONE(k) __global uchar *p##k, ulong a##k, ulong b##k, int m##k
__kernel void mix_all(ulong seed, ONE(0), ONE(1), ONE(2), ONE(3)) {
    uchar seen[256];
    int n = 0;
    if (m0 & 1) take(p0, a0, b0, seen, &n);
    if (m1 & 1) take(p1, a1, b1, seen, &n);
    if (m2 & 1) take(p2, a2, b2, seen, &n);
    if (m3 & 1) take(p3, a3, b3, seen, &n);
    if (m0 & 2) make(p0, a0, b0, seed, seen, n);
    if (m1 & 2) make(p1, a1, b1, seed, seen, n);
    if (m2 & 2) make(p2, a2, b2, seed, seen, n);
    if (m3 & 2) make(p3, a3, b3, seed, seen, n);
}
";

fn function() -> (Opened, Arc<Function>) {
    static MADE: OnceLock<Arc<Function>> = OnceLock::new();
    let kind = std::env::var("LATHE_TEST_KIND").unwrap_or_else(|_| "opencl".to_string());
    let opened = Opened::new(&kind, 0).expect("a device of OpenCL (scripts/setup.sh installs PoCL)");
    let made = MADE.get_or_init(|| {
        let (module, kernel) = match opened {
            Opened::OpenCl(device) => {
                let program = device.program(SOURCE, "").expect("it compiles");
                (Module::OpenCl { device, program }, device.kernel(program, "mix_all").expect("a kernel"))
            }
            Opened::Cuda(device) => {
                let source = format!("#define __global\n{}", to_cuda(SOURCE).expect("it is simple"));
                let made = nvrtc().and_then(|n| n.compile_kernel(&source, &device.arch, &[], "mix_all"));
                let (name, cubin) = made.expect("it compiles");
                let _entered = device.enter().expect("its context");
                let module = device.load_module(&cubin).expect("it loads");
                (Module::Cuda { device, module }, device.function(module, &name).expect("a kernel"))
            }
        };
        Arc::new(Function::new(Arc::new(module), kernel, "mix_all"))
    });
    (opened, Arc::clone(made))
}

struct Mix {
    function: Arc<Function>,
    seed: u64,
    accesses: Vec<Access>,
}

impl Start for Mix {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let seed = self.seed.to_ne_bytes();
        let numbers: Vec<[[u8; 8]; 2]> =
            self.accesses.iter().map(|a| [a.range.start.to_ne_bytes(), a.range.end.to_ne_bytes()]).collect();
        let modes: Vec<[u8; 4]> = (self.accesses.iter())
            .map(|a| (i32::from(a.mode.reads()) + 2 * i32::from(a.mode.writes())).to_ne_bytes())
            .collect();
        let mut arguments = vec![Argument::Bytes(&seed)];
        for n in 0..4 {
            match self.accesses.get(n).filter(|a| !a.range.is_empty()) {
                Some(_) => {
                    arguments.push(memory[n].map_or(Argument::Null, |m| Argument::Memory(m, 0)));
                    arguments.extend(numbers[n].iter().map(|b| Argument::Bytes(b)));
                    arguments.push(Argument::Bytes(&modes[n]));
                }
                None => {
                    arguments.push(Argument::Null);
                    arguments.extend([&[0u8; 8][..], &[0; 8], &[0; 4]].map(Argument::Bytes));
                }
            }
        }
        let grid = Grid { blocks: [1; 3], threads: [1; 3], shared: 0 };
        self.function.run(queue, &grid, &arguments)?;
        Ok(Outcome::None)
    }
}

pub struct Fake {
    pub executor: Executor<Drivers>,
}

impl Fake {
    pub fn new(devices: Vec<Device>, _: u64) -> Fake {
        let opened = vec![function().0; devices.len()];
        let streams = devices.iter().map(|d| d.streams).max().unwrap_or(1);
        Fake { executor: Executor::new(devices, Drivers::new(&opened, streams).1) }
    }

    pub fn buffer(&mut self, bytes: u64, data: Option<&[u8]>) -> BufferId {
        self.made(bytes, data, HostKind::Plain)
    }

    pub fn shared(&mut self, bytes: u64, data: Option<&[u8]>) -> BufferId {
        self.made(bytes, data, HostKind::Mapped)
    }

    fn made(&mut self, bytes: u64, data: Option<&[u8]>, kind: HostKind) -> BufferId {
        let mut host = HostBytes::new(bytes, kind, function().0.cuda()).expect("memory");
        if let Some(data) = data {
            // SAFETY: nobody else has it yet.
            unsafe { host.slice_mut() }.copy_from_slice(data);
        }
        self.executor.buffer(host, bytes, data.is_some(), kind == HostKind::Mapped)
    }

    pub fn launch(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        seed: u64,
        _: Ending,
    ) -> Result<Event, Diagnostic> {
        let work = Mix { function: function().1, seed, accesses: accesses.to_vec() };
        self.executor.launch(name, device, accesses, &work)
    }

    pub fn read(&mut self, buffer: BufferId, range: Range<u64>) -> Result<Vec<u8>, Diagnostic> {
        let host = self.executor.access(&Access { buffer, range: range.clone(), mode: Mode::Read })?;
        // SAFETY: the executor said so.
        Ok(unsafe { host.slice() }[range.start as usize..range.end as usize].to_vec())
    }

    pub fn write(&mut self, buffer: BufferId, at: u64, data: &[u8]) -> Result<(), Diagnostic> {
        let range = at..at + data.len() as u64;
        let host = self.executor.access(&Access { buffer, range, mode: Mode::Write })?;
        // SAFETY: the executor said so.
        let all = unsafe { host.slice_mut() };
        all[at as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    pub fn release(&mut self, buffer: BufferId) {
        self.executor.release(buffer);
    }

    pub fn finish(&mut self) {
        self.executor.finish();
        assert_eq!(self.executor.host().events().pending(), 0);
    }
}
