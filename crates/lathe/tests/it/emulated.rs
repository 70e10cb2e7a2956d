//! Code for AArch64 runs: under QEMU's user-mode emulation where this machine is another one. For one tree it gives the
//! bits that this machine's code gives.

use lathe::{Build, Data, Emit, Function, How, Machine, Pool, Program, Schedule, data};
use lathe_ir::{Scalar, Type};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// The machines whose code is run, and the processor that is emulated for each.
const MACHINES: [(&str, &[&str]); 2] = [
    ("aarch64", &["-cpu", "cortex-a72"]),
    ("aarch64-sve256", &["-cpu", "max,sve256=on,sve-default-vector-length=32"]),
];

fn files() -> Vec<PathBuf> {
    crate::files::examples(&[".", "patterns"], &["lathe"])
}

/// A kernel that was compiled for the emulated machine and linked with `driver.c`.
struct Emulated {
    program: PathBuf,
    options: &'static [&'static str],
}

impl Emulated {
    /// Compiles the schedule, as machine code or as C, in a folder.
    fn build(schedule: &Schedule, at: usize, form: Emit, folder: &Path) -> Emulated {
        let (name, options) = MACHINES[at];
        let machine = Machine::find(name).expect("a machine");
        let build = Build { opt_level: 1, ..Build::default() }.on(&machine);
        let emit = |form| {
            lathe::emit(schedule, form, &build)
                .unwrap_or_else(|e| panic!("{} as {form:?} for {name}: {e}", schedule.plain.name))
        };
        let write = |file: &str, bytes: &[u8]| {
            let path = folder.join(file);
            std::fs::write(&path, bytes).expect("a file");
            path
        };
        let text = emit(Emit::Header);
        let header = write("kernel.h", &text);
        let kernel = write(if form == Emit::C { "kernel.c" } else { "kernel.o" }, &emit(form));
        let text = String::from_utf8(text).expect("a header");
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/emulated/driver.c");
        let program = folder.join("program");
        let mut c = Command::new(COMPILER);
        c.args(["-std=c11", "-O0", "-ffp-contract=off", "-static", "-DLATHE_STANDALONE"]);
        if name == "aarch64-sve256" {
            c.args(["-march=armv8.2-a+sve", "-msve-vector-bits=256"]);
        }
        let done = c
            .arg(format!("-DKERNEL={}", symbol(&text)))
            .arg("-include")
            .arg(&header)
            .args([&driver, &kernel])
            .arg("-lm")
            .arg("-o")
            .arg(&program)
            .output();
        let done = done.expect("the cross compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Emulated { program, options }
    }

    /// The status, and what the arguments hold afterwards.
    fn call(&self, data: &Data) -> (i64, Vec<u8>) {
        let mut given = Vec::new();
        let put = |given: &mut Vec<u8>, n: i64| given.extend(n.to_le_bytes());
        put(&mut given, data.arrays.len() as i64);
        for a in &data.arrays {
            let view = a.view();
            let raw = view.raw();
            for n in [i64::from(raw.dtype), i64::from(raw.rank), raw.elem_bytes as i64] {
                put(&mut given, n);
            }
            a.shape().iter().chain(a.strides()).for_each(|n| put(&mut given, *n));
            put(&mut given, a.bytes().len() as i64);
            given.extend(a.bytes());
        }
        let mut child = Command::new(EMULATOR)
            .args(self.options)
            .arg(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the emulator");
        let mut input = child.stdin.take().expect("its input");
        let fed = std::thread::spawn(move || input.write_all(&given));
        let out = child.wait_with_output().expect("its output");
        fed.join().expect("a thread").expect("it reads its input");
        assert!(
            out.status.success() && out.stdout.len() >= 8,
            "the emulated program ended with {}",
            out.status
        );
        let (status, rest) = out.stdout.split_at(8);
        (i64::from_le_bytes(status.try_into().expect("8 bytes")), rest.to_vec())
    }
}

/// The elements' bits. The sign and payload of what is not a number are the processor's own.
fn numbers(ty: &Type, bytes: &[u8]) -> Vec<u64> {
    let width = (ty.bytes() as usize).min(8);
    let element = |b: &[u8]| b.iter().rev().fold(0, |bits, b| bits << 8 | u64::from(*b));
    let plain = |bits: u64| match ty {
        Type::Scalar(Scalar::F32) if f32::from_bits(bits as u32).is_nan() => f32::NAN.to_bits().into(),
        Type::Scalar(Scalar::F64) if f64::from_bits(bits).is_nan() => f64::NAN.to_bits(),
        _ => bits,
    };
    bytes.chunks(width).map(|b| plain(element(b))).collect()
}

/// What the header calls the kernel.
fn symbol(header: &str) -> &str {
    let line = header
        .lines()
        .filter(|l| !l.starts_with("typedef"))
        .find(|l| l.ends_with("(const lathe_runtime *rt, const lathe_array *args);"));
    let line = line.expect("a declaration");
    line.trim_start_matches("int32_t ").split('(').next().expect("a name")
}

fn schedule(
    p: &Program,
    kernel: &Function,
    strategy: &str,
    sizes: &BTreeMap<String, i64>,
    at: usize,
) -> Schedule {
    let how =
        How { strategy: Some(strategy.into()), sizes: sizes.clone(), threads: Some(2), ..How::default() };
    let machine = Machine::find(MACHINES[at].0).expect("a machine");
    lathe::schedule(p, kernel, &how, &machine).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

/// Each test of the examples, by its strategy `fast` or by `auto` for the emulated machine; every fourth as C.
#[test]
fn examples_give_the_same_bits_on_aarch64() {
    let there =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(
        there(COMPILER) && there(EMULATOR),
        "{COMPILER} and {EMULATOR} are missing: scripts/setup.sh installs them"
    );
    let pool = Pool::new(2).expect("a pool");
    let (mut next, mut compared) = (0, [0; 4]);
    for f in files() {
        let p = Program::open(&f).unwrap_or_else(|e| panic!("{}: {e}", f.display()));
        for t in &p.lang.tests {
            let sizes: BTreeMap<String, i64> = t.sizes.iter().cloned().collect();
            let kernel = p.kernel(Some(&t.kernel)).expect("a kernel");
            let Ok(mut here) =
                data::make(kernel, &data::Given { sizes: sizes.clone(), inputs: BTreeMap::new(), seed: 7 })
            else {
                continue;
            };
            next += 1;
            let (at, auto, c) = (next % 2, next % 3 == 0, next % 4 == 0);
            let s = schedule(&p, kernel, if auto { "auto" } else { "fast" }, &sizes, at);
            let folder = tempfile::tempdir().expect("a folder");
            let there = Emulated::build(&s, at, if c { Emit::C } else { Emit::Object }, folder.path());
            let (status, got) = there.call(&here);
            let built = lathe::compile(&s, &Build { opt_level: 0, ..Build::default() })
                .unwrap_or_else(|e| panic!("{}: {e}", t.kernel));
            // Made-up data may break what the kernel demands; then both refuse it.
            let done = built.call(&pool, &mut here.arrays).is_ok();
            let name = format!(
                "{} of {} on {} ({}{})",
                t.name,
                t.kernel,
                MACHINES[at].0,
                s.strategy,
                if c { ", C" } else { "" }
            );
            assert_eq!(status == 0, done, "{name} ends with status {status}");
            if done {
                let mut got = &got[..];
                for a in &here.arrays {
                    let (this, rest) = got.split_at(a.bytes().len());
                    got = rest;
                    assert!(numbers(a.ty(), this) == numbers(a.ty(), a.bytes()), "{name} differs");
                }
                compared[at] += 1;
                compared[2] += usize::from(auto);
                compared[3] += usize::from(c);
            }
        }
    }
    assert!(compared.iter().all(|n| *n > 5), "{compared:?}");
}
