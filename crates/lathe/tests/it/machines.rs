//! Code for every machine from any of them, and which strategy runs on machines that are made up.

use lathe::{
    Build, Data, Emit, Engine, Function, How, Machine, Pool, Program, Schedule, StrategySource, data,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    crate::files::examples(&[".", "patterns"], &["lathe"])
}

fn open(file: &Path) -> Program {
    Program::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn how(strategy: Option<&str>, sizes: &BTreeMap<String, i64>) -> How {
    let strategy = strategy.map(str::to_string);
    How { strategy, sizes: sizes.clone(), threads: Some(2), ..How::default() }
}

fn scheduled(p: &Program, kernel: &Function, how: &How, m: &Machine) -> Schedule {
    lathe::schedule(p, kernel, how, m).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

/// The machines that LLVM makes code for, with the number that ELF has for their architecture.
#[cfg(feature = "llvm")]
const TARGETS: [(&str, u16); 6] = [
    ("x86-64", 62),
    ("x86-64-v2", 62),
    ("x86-64-v3", 62),
    ("x86-64-v4", 62),
    ("aarch64", 183),
    ("aarch64-sve256", 183),
];

/// Each example becomes an object file for AArch64 and for one more machine; which one, changes from one to the next.
#[cfg(feature = "llvm")]
#[test]
fn examples_become_objects_for_every_machine() {
    let mut made = [0; TARGETS.len()];
    let mut next = 0;
    for f in files() {
        let p = open(&f);
        for kernel in p.lang.kernels.iter().map(|k| p.kernel(Some(&k.name)).expect("a kernel")) {
            if !p.strategies(&kernel.name).iter().any(|d| d.name == "fast") {
                continue;
            }
            next += 1;
            for at in [4, next % TARGETS.len()] {
                let (name, elf) = TARGETS[at];
                let machine = Machine::find(name).expect("a machine");
                let mut schedule = scheduled(&p, kernel, &how(Some("fast"), &BTreeMap::new()), &machine);
                // An object holds one version: the last one, which serves all sizes.
                schedule.versions.drain(..schedule.versions.len() - 1);
                let build = Build { opt_level: 0, ..Build::default() }.on(&machine);
                let object = lathe::emit(&schedule, Emit::Object, &build)
                    .unwrap_or_else(|e| panic!("{} for {name}: {e}", kernel.name));
                assert_eq!((&object[..4], u16::from(object[18])), (&b"\x7fELF"[..], elf), "{}", kernel.name);
                made[at] += 1;
            }
        }
    }
    assert!(made.iter().all(|n| *n > 3), "{made:?}");
}

#[cfg(feature = "llvm")]
#[test]
fn each_machine_gets_its_own_instructions() {
    let p = Program::from_text(
        "f.lathe",
        "kernel axpy(a: f32, x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = fma(a, x[i], y[i]) }
strategy fast for axpy = vectorize(i, vector(f32), tail: separate)",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(None).expect("a kernel");
    for (name, has, lacks) in [
        ("x86-64", "mulss|fmaf", "ymm"),
        ("x86-64-v3", "vfmadd|ymm", "zmm"),
        ("x86-64-v4", "vfmadd|zmm", "nothing"),
        ("aarch64", "fmla|fmad", "vfmadd"),
        ("aarch64-sve256", "z0", "vfmadd"),
    ] {
        let machine = Machine::find(name).expect("a machine");
        let schedule = scheduled(&p, kernel, &how(Some("fast"), &BTreeMap::new()), &machine);
        let asm = lathe::emit(&schedule, Emit::Asm, &Build::default().on(&machine)).expect(name);
        let asm = String::from_utf8(asm).expect("text");
        assert!(has.split('|').any(|w| asm.contains(w)) && !asm.contains(lacks), "{name}:\n{asm}");
    }
}

/// One tree gives the same bits on every instruction set that this machine runs, for each test of the examples.
#[cfg(feature = "llvm")]
#[test]
fn instruction_sets_give_the_same_bits() {
    let pool = Pool::new(2).expect("a pool");
    let here: Vec<Machine> = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
        .iter()
        .filter_map(|n| Machine::named(n))
        .filter(|m| m.lacking_here().is_empty())
        .collect();
    assert!(!here.is_empty());
    let mut next = 0;
    for f in files() {
        let p = open(&f);
        for t in &p.lang.tests {
            let sizes: BTreeMap<String, i64> = t.sizes.iter().cloned().collect();
            let kernel = p.kernel(Some(&t.kernel)).expect("a kernel");
            next += 1;
            let other = &here[next % here.len()];
            let schedule = scheduled(&p, kernel, &how(Some("fast"), &sizes), &Machine::host());
            let given = data::Given { sizes, inputs: BTreeMap::new(), seed: 7 };
            let run = |build: Build| -> Option<Data> {
                let mut d = data::make(kernel, &given).ok()?;
                let built = lathe::compile(&schedule, &build).unwrap_or_else(|e| panic!("{}: {e}", t.kernel));
                // Made-up data may break what the kernel demands; then all refuse it.
                built.call(&pool, &mut d.arrays).ok()?;
                Some(d)
            };
            let build = Build { opt_level: 0, ..Build::default() };
            let (want, got) = (run(build.clone()), run(build.on(other)));
            assert_eq!(want.is_some(), got.is_some(), "{} on {}", t.kernel, other.name);
            for (a, b) in want.iter().flat_map(|d| &d.arrays).zip(got.iter().flat_map(|d| &d.arrays)) {
                assert!(a.bytes() == b.bytes(), "{} of {} on {}", t.name, t.kernel, other.name);
            }
        }
    }
}

#[test]
fn the_c_engine_crosses_with_a_compiler_of_the_other_machine() {
    let p = Program::from_text("f.lathe", "kernel f(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] + 1.0 }")
        .unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(None).expect("a kernel");
    let foreign = if cfg!(target_arch = "aarch64") { "x86-64-v3" } else { "aarch64" };
    let machine = Machine::find(foreign).expect("a machine");
    let schedule = scheduled(&p, kernel, &how(Some("naive"), &BTreeMap::new()), &machine);
    let build = Build { engine: Engine::C, ..Build::default() }.on(&machine);
    // The source is for every machine; what it needs to be compiled here may be missing.
    let source = lathe::emit(&schedule, Emit::C, &build).expect("C");
    assert!(String::from_utf8(source).expect("text").contains("lathe_array"));
    if let Err(d) = lathe::compile(&schedule, &build) {
        assert!(["E0819", "E0820", "E0821"].contains(&d.code.0), "{d}");
    }
}

/// Each version of a fun was translated from its terms, with numbers of its own for the parameters.
#[cfg(feature = "llvm")]
#[test]
fn versions_of_a_fun_become_one_function() {
    let p = open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/patterns/acoustic.lathe"));
    let kernel = p.kernel(Some("acoustic")).expect("a fun");
    let some = sizes(&[("L", 4), ("M", 5), ("N", 17)]);
    let schedule = scheduled(&p, kernel, &how(Some("auto"), &some), &Machine::host());
    assert!(schedule.versions.len() > 1, "{} versions", schedule.versions.len());
    let emit =
        |form| lathe::emit(&schedule, form, &Build::default()).unwrap_or_else(|e| panic!("{form:?}: {e}"));
    emit(Emit::Object);
    emit(Emit::C);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("acoustic.tree");
    std::fs::write(&file, emit(Emit::Tree)).expect("a file");
    let tree = open(&file);
    // Reading it verified it; nothing is left to prove.
    let kernel = tree.kernel(Some("acoustic")).expect("a function");
    scheduled(&tree, kernel, &how(None, &some), &Machine::host()).proved().unwrap_or_else(|e| panic!("{e}"));
}

fn sizes(all: &[(&str, i64)]) -> BTreeMap<String, i64> {
    all.iter().map(|(n, v)| (n.to_string(), *v)).collect()
}

fn taken(p: &Program, all: &[(&str, i64)], m: &Machine) -> Schedule {
    let kernel = p.kernel(None).expect("a kernel");
    let threads = Some(m.threads as usize);
    scheduled(p, kernel, &How { sizes: sizes(all), threads, ..How::default() }, m)
}

/// A tile of 8 x 64 results is written for 32 registers of 16 lanes.
const TILED: &str = "
kernel product(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy fast for product =
    tile(i: 8, j: 48) ; reorder(C.i.o, C.j.o, k, C.i.i, C.j.i)
";

#[test]
fn the_default_is_what_the_machine_runs_fastest() {
    let p = Program::from_text("f.lathe", TILED).unwrap_or_else(|e| panic!("{e}"));
    let large = [("M", 512), ("N", 480), ("K", 512)];
    // Nothing in `fast` becomes lanes: whatever the machine, decisions for it are better.
    for name in ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"] {
        let s = taken(&p, &large, &Machine::find(name).expect("a machine"));
        assert_eq!((s.source, s.strategy.as_str()), (StrategySource::Auto, "auto"), "{name}: {}", s.reason);
        assert!(s.reason.contains("`fast`") && s.reason.contains("`naive`"), "{}", s.reason);
    }
    // Asked for by name, it runs.
    let kernel = p.kernel(None).expect("a kernel");
    let named = How { strategy: Some("fast".into()), sizes: sizes(&large), ..How::default() };
    let s = scheduled(&p, kernel, &named, &Machine::host());
    assert_eq!((s.source, s.reason.as_str()), (StrategySource::Requested, ""));
}

const STENCIL: &str = "
kernel wave(u: inout f32[T, N]) {
    for t in 1..T { for x in 1..N - 1 { u[t, x] = u[t - 1, x - 1] + u[t - 1, x] + u[t - 1, x + 1] } }
}
strategy fast for wave = vectorize(x, 16, tail: separate)
";

#[test]
fn a_strategy_for_wide_vectors_is_not_taken_where_they_cost_more_than_none() {
    let p = Program::from_text("f.lathe", STENCIL).unwrap_or_else(|e| panic!("{e}"));
    let s = taken(&p, &[("T", 50), ("N", 5000)], &Machine::find("x86-64-v4").expect("a machine"));
    // `auto` looks at loops, too.
    assert!(s.reason.contains("`auto`"), "{}", s.reason);
}

#[test]
fn what_refuses_the_sizes_is_not_taken() {
    let text = "
kernel twice(A: f32[N]) -> (B: f32[N]) { B[i] = 2.0 * A[i] }
strategy fast(w = 8 in {8} where N % w == 0) for twice = vectorize(i, w)
";
    let p = Program::from_text("f.lathe", text).unwrap_or_else(|e| panic!("{e}"));
    let s = taken(&p, &[("N", 1001)], &Machine::find("x86-64-v3").expect("a machine"));
    assert!(s.source != StrategySource::Fast && s.reason.contains("`fast` is refused"), "{}", s.reason);
}

#[test]
fn threads_are_for_work_that_is_worth_them() {
    let text = "
kernel rows(A: f32[M, N]) -> (B: f32[M, N]) { B[i, j] = exp(A[i, j]) }
strategy fast for rows = parallel(i)
";
    let p = Program::from_text("f.lathe", text).unwrap_or_else(|e| panic!("{e}"));
    let many = Machine { threads: 64, ..Machine::find("x86-64-v4").expect("a machine") };
    let small = taken(&p, &[("M", 4), ("N", 8)], &many);
    assert_ne!(small.source, StrategySource::Fast, "{}", small.reason);
    let large = taken(&p, &[("M", 4096), ("N", 4096)], &many);
    assert_ne!(large.source, StrategySource::Naive, "{}", large.reason);
}

/// A server: 16 cores with 2 MB each, and vectors of 64 bytes.
fn server(threads: u64) -> Machine {
    let m = Machine::find("x86-64-v4").expect("a machine");
    Machine { threads, l1_bytes: 48 << 10, l2_bytes: 2 << 20, l3_bytes: 300 << 20, ..m }
}

#[test]
fn threads_are_not_taken_where_they_would_wait_for_one_another() {
    let at = |file: &str, kernel: &str, all: &[(&str, i64)], threads: u64| {
        let p = open(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/polybench")).join(file));
        let kernel = p.kernel(Some(kernel)).expect("a kernel");
        let strategy = Some("auto".to_string());
        let how = How { strategy, sizes: sizes(all), threads: Some(threads as usize), ..How::default() };
        scheduled(&p, kernel, &how, &server(threads)).versions.swap_remove(0).taken.strategy
    };
    // Loops that take less than fork and join, in a serial loop.
    let short = |threads| at("solvers.lathe", "gramschmidt", &[("M", 60), ("N", 50)], threads);
    let steps = |threads| at("stencils.lathe", "jacobi_1d", &[("N", 2000)], threads);
    for threads in [2, 4, 8, 16] {
        assert_eq!(short(threads), short(1), "{threads}");
        assert_eq!(steps(threads), steps(1), "{threads}");
    }
    // Tiles of the columns beyond a block, which do not depend on one another.
    let long = at("solvers.lathe", "gramschmidt", &[("M", 1200), ("N", 1000)], 16);
    assert!(long.contains("parallel(j.rest.o)"), "{long}");
    // Factorizations in blocks: the products, the copies that they read, and rows that do not depend on one another.
    for kernel in ["lu", "cholesky"] {
        let made = at("solvers.lathe", kernel, &[("N", 2000)], 16);
        assert!(made.contains("jam: 8, parallel: outer)"), "{made}");
        assert!(made.matches("parallel").count() > 2, "{made}");
    }
}

/// A map that gains by threads, before a recurrence that reads all of it on one: worth the threads where lines go from core to core at once,
/// and not where that takes long.
#[test]
fn threads_are_left_where_lines_take_longer_than_they_gain() {
    let p = Program::from_text(
        "f.lathe",
        "kernel chained(A: f64[256, 256]) -> (x: f64) {
    var T: f64[256, 256]
    T[i, j] = exp(A[i, j])
    x = 0
    for i in 0..256 { for j in 0..256 { x = x * 0.5 + T[j, i] } }
}",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(None).expect("a kernel");
    let mut machine = Machine::find("x86-64-v4").expect("a machine");
    machine.threads = 2;
    machine.l2_bytes = 2 << 20;
    let mut made = |handed: f64| {
        machine.costs.handed = handed;
        let schedule = scheduled(&p, kernel, &how(Some("auto"), &BTreeMap::new()), &machine);
        schedule.versions[0].taken.strategy.clone()
    };
    let (near, far) = (made(0.001), made(500.0));
    assert!(near.contains("parallel") && !near.contains("serial("), "{near}");
    assert!(!far.contains("parallel") && far.contains("vectorize"), "{far}");
}

/// A short map beside long work on one thread takes little off the whole function, and hands its lines over: it stays on one thread.
#[test]
fn threads_are_left_where_the_function_gains_little() {
    let p = Program::from_text(
        "f.lathe",
        "kernel long(A: f64[64, 256], T: i32) -> (x: f64) {
    var B: f64[64, 256]
    B[i, j] = exp(A[i, j])
    x = 0
    for t in 0..T { for i in 0..64 { for j in 0..256 { x = x * 0.5 + B[i, j] } } }
}",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(None).expect("a kernel");
    let mut machine = Machine::find("x86-64-v4").expect("a machine");
    (machine.threads, machine.l2_bytes) = (2, 2 << 20);
    let mut made = |handed: f64| {
        machine.costs.handed = handed;
        let schedule = scheduled(&p, kernel, &how(Some("auto"), &BTreeMap::new()), &machine);
        schedule.versions[0].taken.strategy.clone()
    };
    let (free, dear) = (made(0.0), made(10.0));
    assert!(free.contains("parallel"), "{free}");
    assert!(!dear.contains("parallel") && dear.contains("vectorize"), "{dear}");
}

/// Loops between loops on threads run there, too, though each alone gains too little: what they read and write stays where it is.
#[test]
fn loops_between_loops_on_threads_keep_lines_where_they_are() {
    let p = Program::from_text(
        "f.lathe",
        "kernel steps(A: inout f64[256, 256], T: i32) {
    var B: f64[256, 256]
    for t in 0..T {
        B[i, j] = exp(A[i, j])
        for i in 1..255 { for j in 1..255 { A[i, j] = B[i, j] } }
    }
}",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let kernel = p.kernel(None).expect("a kernel");
    let mut machine = Machine::find("x86-64-v4").expect("a machine");
    (machine.threads, machine.l2_bytes, machine.costs.handed) = (4, 2 << 20, 100.0);
    let how = How { threads: Some(4), ..how(Some("auto"), &BTreeMap::new()) };
    let schedule = scheduled(&p, kernel, &how, &machine);
    let strategy = &schedule.versions[0].taken.strategy;
    let tree = lathe::text::print_function(&schedule.versions[0].func);
    assert_eq!(tree.matches(" cpu {").count(), 2, "{strategy}\n{tree}");
}
