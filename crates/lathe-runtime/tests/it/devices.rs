//! Device trees: what they mean as kernels, as CUDA C, and on an OpenCL device, against the interpreter, bit for bit.
//!
//! Two things must be on the machine, which `scripts/setup.sh` installs: NVRTC (which needs no device), and PoCL, which
//! runs OpenCL on CPUs.

mod atomics;
mod checked;
mod clusters;
mod constants;
mod owners;
mod random;
mod several;
mod threads;

use crate::support::{agree_with, inputs, normal, parse};
use lathe_device::{Limits, to_spmd};
use lathe_ir::Scalar;
use lathe_ir::interp::{Options as Run, Order, Program};
use lathe_ir::text::print_function;
use lathe_runtime::{Engine, Options};
use lathe_source::device::{Language, emit};

/// The architectures that every kernel is compiled for.
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90a"];

/// The tree as it stands, its kernels in several orders with the detection of races, its CUDA C through NVRTC, and its
/// OpenCL C on a device.
fn agree(text: &str, sizes: &[&[i64]]) {
    orders_agree(text, sizes);
    let (m, f) = parse(text);
    compiles(&m, &f);
    agree_with(&[opencl()], &[false, true], 2, text, sizes);
}

/// The tree as it stands, and its kernels in several orders with the detection of races.
fn orders_agree(text: &str, sizes: &[&[i64]]) {
    [1, 8]
        .into_iter()
        .for_each(|cluster| orders_agree_with(text, sizes, Limits { cluster, ..Limits::default() }));
}

fn orders_agree_with(text: &str, sizes: &[&[i64]], limits: Limits) {
    let (m, f) = parse(text);
    if limits.cluster > 1 && !text.contains("level(cluster)") {
        return;
    }
    let kernels = to_spmd(&f, limits).unwrap_or_else(|d| panic!("{}: {d}", f.name));
    let shown = print_function(&kernels);
    let wrong = lathe_ir::verify::verify_function(&m, &kernels);
    assert!(wrong.is_empty(), "{wrong:?}\n{shown}");
    let plain = Program::new(&m, &f, Order::Reference, false).unwrap();
    let threads = Program::new(&m, &kernels, Order::Seed(0), true).unwrap_or_else(|d| panic!("{d}\n{shown}"));
    for sizes in sizes {
        let given = inputs(&f, sizes, 3);
        let outputs = |all: &[lathe_ir::interp::ArrayValue]| -> Vec<Vec<u8>> {
            all.iter().map(|v| normal(&v.ty, v.bytes())).collect()
        };
        let mut want = given.clone();
        plain.run(&mut want, &Run::default()).unwrap_or_else(|d| panic!("{}: {d:?}", f.name));
        for seed in 1..4 {
            let mut got = given.clone();
            let run = Run { order: Order::Seed(seed), races: true, ..Run::default() };
            threads.run(&mut got, &run).unwrap_or_else(|d| panic!("{} {sizes:?}: {d:?}\n{shown}", f.name));
            assert_eq!(
                outputs(&got),
                outputs(&want),
                "{} {sizes:?} as kernels, seed {seed}\n{shown}",
                f.name
            );
        }
    }
}

/// A tree of the file tests of `lathe-device`, where its kernels can be read.
fn tree(name: &str) -> String {
    let path = format!("{}/../lathe-device/tests/files/{name}.tree", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn compiles(m: &lathe_ir::Module, f: &lathe_ir::Function) {
    let [cuda, _] = Engine::devices();
    for arch in ARCHITECTURES {
        let options = Options {
            target: Some(lathe_target::Code {
                arch: "nvptx64".into(),
                cpu: arch.into(),
                ..Default::default()
            }),
            ..Options::default()
        };
        let cubin = cuda.emit(m, f, "cubin", &options).unwrap_or_else(|d| {
            let source = emit(m, f, Language::Cuda, Limits::default()).unwrap().source;
            panic!("{d:?} (scripts/setup.sh installs NVRTC)\n{source}")
        });
        assert!(cubin.starts_with(b"\x7fELF"), "a cubin is an ELF file");
        becomes_ptx(m, f, arch);
    }
}

/// A function as PTX by LLVM, and the CUDA C that it stands for.
#[cfg(feature = "llvm")]
fn ptx_of(
    m: &lathe_ir::Module,
    f: &lathe_ir::Function,
    arch: &str,
) -> (String, lathe_source::device::DeviceSource) {
    let limits = Limits { cluster: lathe_target::cluster_blocks(arch), ..Limits::default() };
    let source = emit(m, f, Language::Cuda, limits).unwrap_or_else(|d| panic!("{d}"));
    let known = |k: &lathe_source::device::DeviceKernel| lathe_llvm::ptx::Kernel {
        name: k.name.clone(),
        dynamic: k.dynamic,
        turns: k.turns > 0,
        status: k.status,
        after: k.after,
    };
    let kernels: Vec<_> = source.kernels.iter().map(known).collect();
    let text = lathe_llvm::ptx::ptx(m, f, &kernels, arch, limits);
    let text = text.unwrap_or_else(|d| panic!("{}: {d:?}", f.name));
    (String::from_utf8(text).expect("PTX is text"), source)
}

/// Where the assembler of PTX is, if it is on the machine: on the path, or where `scripts/setup.sh` puts it.
#[cfg(feature = "llvm")]
fn assembler() -> Option<&'static std::path::Path> {
    use std::path::{Path, PathBuf};
    static FOUND: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let find = || {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = cache.map(|c| c.join("lathe-ptxas/nvidia/cu13/bin"));
        let all: Vec<PathBuf> = std::env::split_paths(&path).chain(own).collect();
        all.into_iter().map(|folder| folder.join("ptxas")).find(|p| p.is_file())
    };
    FOUND.get_or_init(find).as_deref().map(Path::new)
}

/// Without NVRTC: PTX with the kernels that the host starts, and barriers where they wait.
#[cfg(feature = "llvm")]
fn becomes_ptx(m: &lathe_ir::Module, f: &lathe_ir::Function, arch: &str) {
    let (text, source) = ptx_of(m, f, arch);
    // LLVM keeps names of memory whose size the launch gives, and PTX's have no dots.
    let named =
        |l: &str| l.starts_with(".extern .shared") && l.rsplit(' ').next().is_some_and(|n| n.contains('.'));
    assert!(!text.lines().any(named), "{text}");
    for (k, plan) in source.kernels.iter().zip(&source.plan.kernels) {
        let Some((_, rest)) = text.split_once(&format!(".visible .entry {}(", k.name)) else {
            panic!("no kernel {}\n{text}", k.name)
        };
        let own = rest.split(".visible .entry").next().unwrap_or(rest);
        let params = own.split("\n)").next().unwrap_or("").matches(".param").count();
        assert_eq!(
            params,
            plan.arguments.len() + usize::from(k.turns > 0) + usize::from(k.status),
            "{}\n{text}",
            k.name
        );
        assert!(own.contains(&format!(".maxntid {}", plan.threads)), "{own}");
        // Threads wait for those of their block, or of all blocks of their cluster, which the launch makes one.
        let rank = plan.cluster.as_ref().map(|c| c.rank.id);
        let (mut waits, mut of_cluster) = (false, false);
        lathe_ir::visit::walk(&plan.body, &mut |s, _| {
            if let lathe_ir::StmtKind::Barrier { of, .. } = s.kind() {
                of_cluster |= Some(*of) == rank;
                waits |= Some(*of) != rank;
            }
            true
        });
        assert!(!waits || own.contains("bar.sync"), "{own}");
        assert_eq!(of_cluster, own.contains("barrier.cluster.wait"), "{own}");
        let together = plan.cluster.as_ref().map(|c| format!(".reqnctapercluster {}", c.blocks));
        assert!(together.is_none_or(|t| own.contains(&t)), "{own}");
    }
    if let Some(ptxas) = assembler() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
        std::fs::write(&from, &text).expect("a file");
        let mut c = std::process::Command::new(ptxas);
        let out =
            c.arg(format!("-arch={arch}")).arg("-o").arg(&to).arg(&from).output().expect("ptxas starts");
        assert!(out.status.success(), "{}\n{text}", String::from_utf8_lossy(&out.stderr));
    }
}

#[cfg(not(feature = "llvm"))]
fn becomes_ptx(_: &lathe_ir::Module, _: &lathe_ir::Function, _: &str) {}

fn opencl() -> Engine {
    let [_, opencl] = Engine::devices();
    if let Err(d) = opencl.fingerprint() {
        panic!("{d:?} (scripts/setup.sh installs PoCL)");
    }
    opencl
}

#[test]
fn kernels_of_the_file_tests() {
    let all: [(&str, &[&[i64]]); 11] = [
        ("partial_blocks", &[&[1], &[0], &[127], &[128], &[1000]]),
        ("backwards", &[&[0], &[1], &[33], &[100]]),
        ("shared", &[&[8, 8], &[1, 1], &[35, 50], &[0, 3]]),
        ("registers_and_tiles", &[&[8, 8, 4], &[33, 40, 19], &[1, 1, 1], &[5, 70, 0]]),
        ("digits", &[&[1], &[3]]),
        ("one_thread", &[&[3, 8], &[2, 1], &[1, 300], &[0, 4]]),
        ("host", &[&[100, 5], &[1, 1], &[64, 0]]),
        ("dealt_out", &[&[3, 4], &[7, 300], &[400, 1]]),
        ("barriers_of_the_user", &[&[1], &[3]]),
        ("spilled", &[&[3, 4], &[1, 1], &[5, 300]]),
        ("complex_numbers", &[&[0], &[1], &[64], &[300]]),
    ];
    for (name, sizes) in all {
        agree(&tree(name), sizes);
    }
}

/// Slots are filled for the next iteration while this one reads its own: one barrier is enough, and copy units may fill.
#[test]
fn one_barrier_where_buffers_have_slots() {
    let text = "func ahead(M, N)(A: in i32[M, 64 * N], B: out i32[M, 64]) stage scheduled {
  for i in 0..M level(grid) {
    alloc F: i32[64] register
    for t in 0..64 level(block) { 'F.init'[i, t]: F[t] = 0:i32 }
    alloc S: i32[2, 64] shared
    if 0 < N { for t in 0..64 level(block) { 'S'[i, 0, t]: S[0, t] = A[i, t] } }
    for k in 0..N {
      if k + 1 < N { for t in 0..64 level(block) { 'S'[i, k + 1, t]: S[(k + 1) % 2, t] = A[i, 64 * (k + 1) + t] } }
      for t in 0..64 level(block) { for r in 0..64 { 'F'[i, k, t, r]: F[t] sum= S[k % 2, r] * S[k % 2, t] licensed } }
    }
    for t in 0..64 level(block) { 'B'[i, t]: B[i, t] = F[t] }
  }
}";
    // The size is not an extent by itself: give it an array of its own.
    let text = text.replace("(M, N)(A:", "(M, N)(Z: in i32[N], A:");
    agree(&text, &[&[1, 1], &[3, 2], &[2, 5], &[1, 0]]);
    let (m, f) = parse(&text);
    let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
    assert!(source.contains("lathe_copy<4>(&S"), "{source}");
    // What is not there is filled with zeros by the copy units, one by one where rows may begin anywhere.
    let four = "for t in 0..16 level(block) { for v in 0..4 unrolled { 'S'[i, k + 1, t, v]: S[(k + 1) % 2, 4 * t + v] = select(4 * t + v < 60, A[i, 64 * (k + 1) + (4 * t + v)], 0:i32) } }";
    let one = "for t in 0..64 level(block) { 'S'[i, k + 1, t]: S[(k + 1) % 2, t] = A[i, 64 * (k + 1) + t] }";
    assert!(text.contains(one), "{text}");
    for end in ["< 60", "< 58", "< N"] {
        let masked = text.replace(one, &four.replace("< 60", end));
        agree(&masked, &[&[1, 1], &[3, 2], &[2, 5], &[1, 0]]);
        let (m, f) = parse(&masked);
        let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
        assert!(source.contains("lathe_copy_if<4>(&S"), "{end}\n{source}");
    }
}

/// Partial results are combined by a tree reduction, the last of them within a warp.
#[test]
fn halves_within_a_warp_are_shuffled() {
    let halves: String = [32, 16, 8, 4, 2, 1]
        .map(|h| {
            format!("    for p in 0..{h} level(block) {{ 'P.{h}'[i, p]: P[p] sum= P[p + {h}] licensed }}\n")
        })
        .concat();
    let text = format!(
        "func sums(M)(A: in f32[M, 64], B: out f32[M, 64]) stage scheduled {{
  for i in 0..M level(grid) {{
    alloc P: f32[64] shared
    for t in 0..64 level(block) {{ 'P'[i, t]: P[t] = A[i, t] * A[i, t] }}
{halves}    for t in 0..64 level(block) {{ 'B'[i, t]: B[i, t] = P[t] }}
  }}
}}"
    );
    agree(&text, &[&[1], &[5]]);
    let (m, f) = parse(&text);
    let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
    assert_eq!(source.matches("__shfl_down_sync").count(), 5, "{source}");
    assert_eq!(source.matches("__syncthreads").count(), 3, "{source}");
}

/// A tree reduction of the partial results `P` of so many threads.
fn halves(threads: i64, around: &str) -> String {
    let mut out = String::new();
    let mut h = threads / 2;
    while h > 0 {
        out += &format!(
            "        for p in 0..{h} level(block) {{ 'P.{h}'[{around}, p]: P[p] sum= P[p + {h}] licensed }}\n"
        );
        h /= 2;
    }
    out
}

/// Rows of threads work on rows of data: each sums its row by a tree reduction and divides by the sum, and no row waits for
/// the number of threads of another phase.
#[test]
fn rows_of_threads_go_through_phases_together() {
    let rows = |threads: i64, loads: &str| {
        let halves = halves(threads, "g, w");
        format!(
            "func rows(M)(A: in f32[M, 4, 64], k: in index, B: out f32[M, 4, 64]) stage scheduled {{
  for g in 0..M level(grid) {{
    for w in 0..4 level(block) {{
      alloc P: f32[{threads}] shared
      alloc s: f32[1] shared
        for t in 0..{threads} level(block) {{ 'P.init'[g, w, t]: P[t] = 0.0:f32 }}
        for r in 0..{} {{
          for t in 0..{threads} level(block) {{ 'P'[g, w, r, t]: P[t] sum= {loads} licensed }}
        }}
{halves}        's.init'[g, w]: s[0] = 1.0:f32
        if w < k {{
          's'[g, w]: s[0] sum= P[0] * P[0] licensed
        }}
        for j in 0..64 level(block) {{ 'B'[g, w, j]: B[g, w, j] = A[g, w, j] / s[0] }}
    }}
  }}
}}",
            64 / threads
        )
    };
    for threads in [8, 32, 64] {
        let text = rows(threads, &format!("A[g, w, {threads} * r + t] * A[g, w, {threads} * r + t]"));
        agree(&text, &[&[1], &[3]]);
        let (m, f) = parse(&text);
        let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
        // A row has 64 threads, because that many write it; its partial results are in the first warp of them.
        let shuffles = threads.min(32).ilog2() as usize;
        assert_eq!(source.matches("__shfl_down_sync").count(), shuffles, "{source}");
        assert!(source.contains("__launch_bounds__(256)"), "{source}");
    }
    let narrow = rows(32, "A[g, w, 32 * r + t]").replace(
        "for j in 0..64 level(block) { 'B'[g, w, j]: B[g, w, j] = A[g, w, j] / s[0] }",
        "for j in 0..32 level(block) { for q in 0..2 { 'B'[g, w, j, q]: B[g, w, 2 * j + q] = A[g, w, 2 * j + q] / s[0] } }",
    );
    agree(&narrow, &[&[1], &[2]]);
    let (m, f) = parse(&narrow);
    let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
    assert_eq!(source.matches("__shfl_down_sync").count(), 5, "{source}");
    // A bound that differs from row to row: the threads of a row take turns.
    agree(&narrow.replace("for r in 0..2", "for r in 0..w // 2 + 1"), &[&[1], &[2]]);
}

/// Two values of every operator and type, as one thread computes them.
fn elementwise(ty: Scalar, exprs: &[(String, Scalar)]) {
    let each = |f: &dyn Fn(usize, &str, Scalar) -> String| -> String {
        exprs.iter().enumerate().map(|(i, (e, t))| f(i, e, *t)).collect()
    };
    let outs = each(&|i, _, t| format!(", o{i}: out {t}[N]"));
    let stores = each(&|i, e, _| format!("      'o{i}'[i]: o{i}[i] = {e}\n"));
    let text = format!(
        "func of_{ty}(N)(Sa: in {ty}[N], Sb: in {ty}[N], Sc: in {ty}[N]{outs}) stage scheduled {{\n  \
         for b in 0..(N + 31) // 32 level(grid) {{\n    for i in 32 * b..min(32 * b + 32, N) level(block) {{\n{stores}    }}\n  }}\n}}\n"
    );
    agree(&text, &[&[39], &[1]]);
}

#[test]
fn operators_of_all_types() {
    for ty in Scalar::ALL {
        let (x, y, z) = match ty {
            Scalar::Index => ("shr(Sa[i], 40)", "shr(Sb[i], 40)", "shr(Sc[i], 40)"),
            _ => ("Sa[i]", "Sb[i]", "Sc[i]"),
        };
        let mut e: Vec<(String, Scalar)> = Vec::new();
        let c = |v: i64| if ty == Scalar::Index { format!("{v}") } else { format!("{v}:{ty}") };
        if ty == Scalar::Bool {
            e.extend(["and", "or"].map(|op| (format!("{x} {op} {y}"), ty)));
            e.push((format!("not({x})"), ty));
        } else {
            e.extend(["+", "-", "*"].map(|op| (format!("{x} {op} {y}"), ty)));
            e.extend(["<", "<=", "==", "!="].map(|op| (format!("select({x} {op} {y}, {x}, {z})"), ty)));
            e.extend(["min", "max"].map(|f| (format!("{f}({x}, {y})"), ty)));
        }
        if ty.is_float() {
            e.push((format!("{x} / {y}"), ty));
            e.push((format!("fma({x}, {y}, {z})"), ty));
            e.extend(
                ["abs", "sqrt", "floor", "ceil", "round", "trunc", "exp", "tanh", "log"]
                    .map(|f| (format!("{f}({x})"), ty)),
            );
        } else if ty.is_int() {
            let nonzero = format!("select({y} == {}, {}, {y})", c(0), c(3));
            e.extend(["//", "%"].map(|op| (format!("{x} {op} {nonzero}"), ty)));
            e.extend(["//", "%"].map(|op| (format!("{x} {op} {}", c(7)), ty)));
        }
        elementwise(ty, &e);
    }
}

#[test]
fn casts_between_all_types() {
    for from in Scalar::ALL {
        // Not every u64 is an index.
        let to =
            Scalar::ALL.into_iter().filter(|to| *to != from && (from, *to) != (Scalar::U64, Scalar::Index));
        let e: Vec<(String, Scalar)> = to.map(|to| (format!("cast<{to}>(Sa[i])"), to)).collect();
        elementwise(from, &e);
    }
}

#[test]
fn kernels_with_races_are_not_emitted() {
    let tree = |barrier: &str| {
        format!(
            "func f(N)(A: in i32[N, 8], B: out i32[N, 8]) stage scheduled {{ for g in 0..N level(grid) {{ alloc S: i32[8] shared \
             for t in 0..8 level(block) {{ 'S'[g, t]: S[t] = A[g, t] {barrier} 'B'[g, t]: B[g, t] = S[7 - t] }} }} }}"
        )
    };
    for (barrier, code) in [
        ("barrier t", None),
        ("barrier t(shared)", None),
        ("", Some("E0505")),
        ("barrier t(global)", Some("E0505")),
    ] {
        let (m, f) = parse(&tree(barrier));
        let emitted = emit(&m, &f, Language::Cuda, Limits::default());
        assert_eq!(emitted.err().map(|d| d.code.0), code, "{barrier}");
    }
}

/// Kernels on buffers of a device: what is read and written is known, and what their checks say comes with the argument's name.
#[test]
fn kernels_run_on_buffers() {
    use lathe_runtime::device::{Buffer, Devices, Part, Sequence, add, start};
    let (m, f) = parse(
        "func scaled(N)(A: in i32[N], k: in i32, B: out i32[N]) stage scheduled {
  for g in 0..(N + 31) // 32 level(grid) { for t in 32 * g..min(32 * g + 32, N) level(block) { 'B'[t]: B[t] = A[t] // k } }
}",
    );
    let kernel = lathe_runtime::compile(opencl(), &m, &f, &Options::default()).expect("a kernel");
    let devices = Devices::named("opencl").expect("a device");
    let device = devices.device(0).expect("a device");
    let a = Buffer::from_slice(&devices, &[6i32, 12, 18, 24, 30]).expect("a buffer");
    let b = Buffer::<i32>::new(&devices, 5).expect("a buffer");
    let arguments = |k: i32| -> [lathe_runtime::device::Argument; 3] {
        [Part::from(&a).into(), k.into(), Part::from(&b).into()]
    };
    for _ in 0..3 {
        start(&kernel, &device, &arguments(3)).expect("a launch");
    }
    assert_eq!(b.to_vec().expect("written"), [2, 4, 6, 8, 10]);
    let c = devices.counters().expect("counters");
    assert_eq!((c.launches, c.to_device_bytes, c.from_device_bytes), (3, 20, 20));
    // A part of a buffer, with another shape than the one of the result.
    let part = a.part(0..4).expect("a part");
    let d = start(&kernel, &device, &[part.into(), 3i32.into(), Part::from(&b).into()])
        .err()
        .expect("4 and 5 elements");
    assert_eq!(d.code.0, "E0811");
    assert_eq!(start(&kernel, &device, &arguments(3)[..2]).err().expect("one is missing").code.0, "E0808");
    let d = start(&kernel, &device, &[Part::from(&a).into(), 3.0f32.into(), Part::from(&b).into()])
        .err()
        .expect("another type");
    assert_eq!(d.code.0, "E0809");
    // What the kernel finds is told where its result is read, under its name; the host's data stays.
    start(&kernel, &device, &arguments(0)).expect("it returns at once");
    let d = b.to_vec().expect_err("a division by zero");
    assert!(d.code.0 == "E0854" && d.message.contains("scaled"), "{d}");
    assert_eq!(a.to_vec().expect("it is whole"), [6, 12, 18, 24, 30]);
    start(&kernel, &device, &arguments(6)).expect("the device goes on");
    assert_eq!(b.to_vec().expect("written"), [1, 2, 3, 4, 5]);
    // Several launches as one, and what one of them finds is told in the same way.
    let c = Buffer::<i32>::new(&devices, 5).expect("a buffer");
    for (last, good) in [(2, true), (0, false)] {
        let mut sequence = Sequence::new(&device, "twice");
        add(&kernel, &mut sequence, &arguments(3)).expect("it fits");
        let second = [Part::from(&b).into(), last.into(), Part::from(&c).into()];
        add(&kernel, &mut sequence, &second).expect("it fits");
        let wrong = [a.part(0..4).expect("a part").into(), 3i32.into(), Part::from(&b).into()];
        assert_eq!(add(&kernel, &mut sequence, &wrong).expect_err("4 and 5 elements").code.0, "E0811");
        assert_eq!(sequence.len(), 2);
        for _ in 0..3 {
            sequence.launch().expect("a launch");
        }
        match c.to_vec() {
            Ok(c) => assert!(good && c == [1, 2, 3, 4, 5], "{c:?}"),
            Err(d) => assert!(!good && d.code.0 == "E0854" && d.message.contains("twice"), "{d}"),
        }
    }
}
