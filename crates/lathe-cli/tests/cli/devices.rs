//! `--device` and code for devices, with PoCL and NVRTC, which `scripts/setup.sh` installs.

use crate::common::{Folder, examples};
use serde_json::Value;
use std::process::Command;

/// Kernels of the examples with sizes that fit their strategies, and with others.
const ROWS: [&str; 27] = [
    "elementwise.lathe:copy -D N=2048",
    "elementwise.lathe:axpy -D N=1000",
    "histogram.lathe -D N=262144 -D B=300",
    "histogram.lathe -D N=1000 -D B=7",
    "transpose.lathe -D M=64 -D N=96",
    "transpose.lathe -D M=33 -D N=5",
    "jacobi.lathe:jacobi2d -D M=30 -D N=70",
    "reductions.lathe:sum -D N=5000",
    "reductions.lathe:matvec -D M=40 -D N=50",
    "gemm.lathe -D M=64 -D N=128 -D K=32",
    "gemm.lathe -s two_groups -D M=64 -D N=128 -D K=64",
    "jacobi.lathe:jacobi3d -D L=8 -D M=8 -D N=128",
    "stencils.lathe:hotspot -D M=8 -D N=512",
    "stencils.lathe:acoustic -D L=8 -D M=8 -D N=64",
    "lift.lathe:gaussian -D M=8 -D N=512",
    "lift.lathe:poisson -D L=8 -D M=8 -D N=64",
    "scan.lathe -D N=12288 -D T=i32",
    "scan.lathe -D N=4096 -D T=f64",
    "scan.lathe -D N=768 -D T=f32",
    "srad.lathe:srad -D M=8 -D N=512",
    "srad.lathe:coefficients -D M=8 -D N=512",
    "nbody.lathe -D N=256",
    "batched.lathe -D BATCH=3 -D M=32 -D N=64 -D K=32",
    "softmax.lathe -D M=8 -D N=256",
    "layernorm.lathe -D M=8 -D N=256",
    "layernorm.lathe -D M=3 -D N=1024",
    "attention.lathe -D H=2 -D M=128 -D N=1024 -D D=16 -D E=64",
];

#[test]
fn examples_run_on_a_device() {
    let f = Folder::new();
    for row in ROWS {
        let d = f.ok(&format!("run {}/devices/{row} --device opencl --check", examples()));
        assert!(d.stderr.contains("verified against"), "{row}\n{}", d.stderr);
    }
    let d = f.ok(&format!("bench {}/devices/{} --device opencl --runs 2", examples(), ROWS[0]));
    assert!(d.stderr.contains("engine opencl"), "{}", d.stderr);
    // What is on the device, what ran there, and the least that is copied: inputs once, results once.
    let row = format!("run {}/devices/softmax.lathe -D M=8 -D N=256 --device opencl --json", examples());
    for run in 0..2 {
        let v: Value = serde_json::from_str(&f.ok(&row).stdout).expect("one JSON object");
        assert_eq!((&v["device"]["kind"], &v["device"]["index"]), (&"opencl".into(), &0.into()), "{v}");
        assert!(v["kernel_s"].as_f64().is_some_and(|s| s > 0.0) && v["launches"].as_u64() > Some(0), "{v}");
        let bytes = 4 * 8 * 256;
        assert_eq!(v["transfers"]["to_device_bytes"], bytes);
        assert_eq!(
            (&v["transfers"]["from_device_bytes"], &v["transfers"]["count"]),
            (&bytes.into(), &2.into())
        );
        assert!(v["compiled"] == "cached" || run == 0 && v["compiled"] == "new", "{v}");
    }
}

/// A search that ends when its values say so: threads of a block read a condition before one of them changes what it reads.
#[test]
fn loops_that_data_end_run_on_a_device() {
    let f = Folder::new();
    for (strategy, seed) in [("naive", 1), ("auto", 1), ("auto", 2)] {
        let of = format!("{}/gradients/minimax.lathe:highest -i forward=4", examples());
        let d = f.ok(&format!("run {of} --seed {seed} -s {strategy} --device opencl --check"));
        assert!(d.stderr.contains("verified against the interpreter"), "{strategy} {seed}\n{}", d.stderr);
    }
}

/// One device in the place of three: each gets what its iterations use, and nothing else moves.
#[test]
fn strategies_split_work_over_devices() {
    let f = Folder::new();
    f.write(
        "scale.lathe",
        "kernel scale(A: f32[N, M]) -> (B: f32[N, M]) { B[i, j] = A[i, j] * 2.0 }
strategy rows for scale = split(i, 4) ; bind(i.o, device) ; bind(i.i, grid) ; bind(j, block)
strategy levels for scale = mdh(parts.i.GPU: 3, parts.i.SMX: 4, parts.j.CC: 32)
kernel total(X: f64[N]) -> (s: f64) { s = sum[i](X[i]) }
strategy parts for total = split(i, 100) ; privatize(s, i.o) ; bind(i.o, device)
strategy racy for total = bind(i, device)",
    );
    let run = |what: &str, devices: &str| {
        let line = format!("run scale.lathe:{what} --device opencl --check --json");
        super::common::done(f.command(&line).env("LATHE_DEVICES", devices).output().expect("it starts"))
    };
    let three = "opencl:0, opencl:0,opencl:0";
    for (what, up, down) in [
        ("scale --strategy rows -D N=13 -D M=20", 4 * 13 * 20, 4 * 13 * 20),
        ("scale --strategy rows -D N=0 -D M=20", 0, 0),
        ("scale --strategy levels --model multi_gpu -D N=200 -D M=130", 4 * 200 * 130, 4 * 200 * 130),
        ("total --strategy parts -D N=310", 8 * 310, 8),
    ] {
        let done = run(what, three);
        let v: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
        let moved = (&v["transfers"]["to_device_bytes"], &v["transfers"]["from_device_bytes"]);
        assert!(v["check"]["ok"] == true && *moved.0 == up && *moved.1 == down, "{what}: {v}");
    }
    f.ok("run scale.lathe:scale --strategy rows -D N=13 -D M=20 --check");
    let far = run("scale --strategy rows -D N=13 -D M=20", "opencl:9");
    assert!(far.stderr.contains("E0841") || far.stdout.contains("E0841"), "{}{}", far.stdout, far.stderr);
    let racy = run("total --strategy racy -D N=13", three);
    assert!(racy.stderr.contains("E0623") || racy.stdout.contains("E0623"), "{}{}", racy.stdout, racy.stderr);
}

#[test]
fn examples_are_emitted_for_devices() {
    let f = Folder::new();
    for row in ROWS {
        let target = format!("{}/devices/{row} --specialize", examples());
        f.ok(&format!("emit {target} --to cubin --arch sm_90a -o k.cubin"));
        assert!(f.ok(&format!("emit {target} --to ptx --arch sm_80")).stdout.contains(".target sm_80"));
        assert!(f.ok(&format!("emit {target} --to cuda")).stdout.contains("__global__"));
        assert!(f.ok(&format!("emit {target} --to opencl")).stdout.contains("__kernel"));
        assert!(f.ok(&format!("emit {target} --to launches")).stdout.contains("\"launches\""));
        // Without NVRTC, by LLVM.
        let own = ptx_by_llvm(&f, &target, "sm_90a");
        assert!(own.contains(".target sm_90a") && own.contains("NVPTX"), "{row}: {own}");
    }
    let long = format!("{}/devices/softmax.lathe --strategy auto --model cuda --specialize", examples());
    for (arch, clusters) in [("sm_90a", true), ("sm_80", false)] {
        let own = ptx_by_llvm(&f, &format!("{long} -D M=1 -D N=100000"), arch);
        assert_eq!(own.contains(".reqnctapercluster 5, 1, 1"), clusters, "{own}");
        assert_eq!(own.contains("mapa.shared::cluster"), clusters, "{own}");
    }
}

fn ptx_by_llvm(f: &Folder, target: &str, arch: &str) -> String {
    let mut c = f.command(&format!("emit {target} --to ptx --arch {arch}"));
    let out = c.env("LATHE_NVRTC", f.path("none")).output().expect("it starts");
    super::common::done(out).stdout
}

/// Sizes that the forms of `auto` are for, and what their code holds.
const FORMS: [(&str, &str); 35] = [
    ("histogram.lathe -D N=8192 -D B=20", "atomicAdd"),
    ("elementwise.lathe:axpy -D N=4096", "__launch_bounds__(256)"),
    ("transpose.lathe -D M=128 -D N=64", "__shared__"),
    ("jacobi.lathe:jacobi3d -D L=8 -D M=6 -D N=256", "__launch_bounds__(256)"),
    ("reductions.lathe:sum -D N=65536", "__shfl_down_sync"),
    ("scan.lathe -D N=6144 -D T=f32", "__ballot_sync"),
    ("reductions.lathe:matvec -D M=8 -D N=2048", "__shfl_down_sync"),
    ("gemm.lathe -D M=128 -D N=64 -D K=64", "lathe_copy<16>"),
    ("gemm.lathe -D M=70 -D N=68 -D K=64", "lathe_copy_if<16>"),
    ("gemm.lathe -D M=65 -D N=67 -D K=131", "lathe_copy_if<4>"),
    ("softmax.lathe -D M=8 -D N=256", "__shfl_down_sync"),
    ("layernorm.lathe -D M=3 -D N=4096", "__shfl_down_sync"),
    ("softmax.lathe -D M=1 -D N=32768", "__cluster_dims__(2, 1, 1)"),
    ("softmax.lathe -D M=1 -D N=100000", "__cluster_dims__(5, 1, 1)"),
    ("batched.lathe -D BATCH=3 -D M=32 -D N=96 -D K=32", "__launch_bounds__(64)"),
    ("batched.lathe -D BATCH=2 -D M=33 -D N=70 -D K=64", "lathe_copy_if<"),
    ("batched.lathe -D BATCH=2 -D M=10 -D N=100 -D K=64", "__launch_bounds__(125)"),
    ("batched.lathe -D BATCH=3 -D M=72 -D N=26 -D K=26", "__shared__"),
    (
        "../mdh/ccsdt.lathe:abcdef_gfbc_dega -D NA=4 -D NB=6 -D NC=2 -D ND=8 -D NE=3 -D NF=8 -D NG=6",
        "__shared__",
    ),
    // Pairs: whole tiles and partial ones, few results of a row, structs, a row alone.
    ("nbody.lathe -D N=256", "nbody_kernel_1("),
    ("nbody.lathe -D N=100", "__launch_bounds__(100)"),
    ("../mdh/prl.lathe -D I=300 -D J=320", "Record"),
    ("../mdh/prl.lathe -D I=128 -D J=256", "__shared__"),
    ("../mdh/prl.lathe -D I=1 -D J=2048", "__launch_bounds__(256)"),
    // Windows, with rows in registers and without.
    ("../mdh/convolution.lathe:conv2d -D H=12 -D W=68 -D R=5 -D S=5", "__launch_bounds__(32)"),
    ("../mdh/convolution.lathe:conv2d -D H=5 -D W=131 -D R=1 -D S=4", "__launch_bounds__(64)"),
    // Arrays that are computed again, layers in one kernel, chains over rows of matrices of a batch, rows of a table.
    ("srad.lathe:coefficients -D M=16 -D N=512", "__launch_bounds__(256) coefficients_kernel("),
    ("layers.lathe:mlp3 -D B=3 -D N=128 -D O=64 -D P=32 -D Q=2", "__launch_bounds__(1024) mlp3_kernel("),
    ("layers.lathe:mlp3 -D B=2 -D N=100 -D O=70 -D P=30 -D Q=3", "mlp3_kernel("),
    ("attention.lathe -D H=2 -D M=5 -D N=128 -D D=8 -D E=16", "attention_kernel_2("),
    ("layers.lathe:lookup -D E=50 -D D=256 -D B=3 -D L=13", "__launch_bounds__(64)"),
    // Long rows of few results.
    ("reductions.lathe:matvec -D M=3 -D N=32768", "matvec_kernel_1("),
    ("../mdh/convolution.lathe:mcc -D N=2 -D H=10 -D W=10 -D C=3 -D K=32 -D R=3 -D S=3", "__shared__"),
    (
        "../mdh/convolution.lathe:mcc_stride2 -D N=1 -D H=19 -D W=19 -D C=32 -D K=16 -D R=3 -D S=3",
        "__shared__",
    ),
    (
        "../mdh/convolution.lathe:mcc_capsule -D N=1 -D H=10 -D W=6 -D C=3 -D K=8 -D R=3 -D S=3 -D MI=4 -D MJ=4 -D MK=4",
        "__shared__",
    ),
];

#[test]
fn forms_are_chosen_by_shape() {
    let f = Folder::new();
    for (row, holds) in FORMS {
        let target = format!("{}/devices/{row} --strategy auto --specialize", examples());
        let source = f.ok(&format!("emit {target} --to cuda --model cuda")).stdout;
        assert!(source.contains(holds), "{row}\n{source}");
        let d = f.ok(&format!("run {target} --device opencl --model cuda --check"));
        assert!(d.stderr.contains("verified against"), "{row}\n{}", d.stderr);
    }
    // Without clusters nobody asks for one.
    let old = "emit softmax.lathe --to cuda --arch sm_80 --strategy auto --specialize -D M=1 -D N=32768";
    let source = f.ok(&old.replace("softmax", &format!("{}/devices/softmax", examples()))).stdout;
    assert!(!source.contains("cluster"), "{source}");
}

/// A gradient of a product is two, which share an input: both have tiles of two matrices in shared memory.
#[test]
fn computes_that_share_an_input_have_a_form_each() {
    let f = Folder::new();
    let text = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }\n\
                kernel gemm_vjp = vjp(gemm)\n";
    f.write("gradient.lathe", text);
    for sizes in ["-D M=128 -D K=64 -D N=96", "-D M=70 -D K=68 -D N=66"] {
        let target = format!("gradient.lathe:gemm_vjp {sizes} --strategy auto --specialize");
        let source = f.ok(&format!("emit {target} --to cuda --model cuda")).stdout;
        assert_eq!(source.matches("__shared__").count(), 4, "{source}");
        let d = f.ok(&format!("run {target} --device opencl --model cuda --check"));
        assert!(d.stderr.contains("verified against"), "{sizes}\n{}", d.stderr);
    }
}

/// Kernels of PolyBench at sizes where loops are mapped: how many kernels there are, and how many are launched.
const LOOPS: [(&str, usize, usize); 13] = [
    ("stencils.lathe:jacobi_2d -D N=130", 2, 2),
    ("stencils.lathe:heat_3d -D N=20", 2, 2),
    ("stencils.lathe:fdtd_2d -D NX=60 -D NY=50 -D T=3", 4, 12),
    ("solvers.lathe:lu -D N=40", 2, 80),
    // Tiles along diagonals.
    ("stencils.lathe:seidel_2d -D N=64", 1, 23),
    ("solvers.lathe:cholesky -D N=40", 2, 39),
    ("medley.lathe:floyd_warshall -D N=40", 1, 360),
    ("medley.lathe:deriche -D W=70 -D H=50", 6, 6),
    ("blas.lathe:symm -D M=40 -D N=130", 1, 1),
    ("blas.lathe:gemver -D N=130", 4, 4),
    ("products.lathe:mvt -D N=130", 2, 2),
    // Sums inside of loops over their results: a kernel for all of them.
    ("datamining.lathe:covariance -D N=32 -D M=28", 7, 7),
    ("datamining.lathe:correlation -D N=32 -D M=28", 13, 13),
];

#[test]
fn loops_are_mapped_to_blocks_and_threads() {
    let f = Folder::new();
    for (row, kernels, launched) in LOOPS {
        let target = format!("{}/polybench/{row} --strategy auto --specialize", examples());
        let source = f.ok(&format!("emit {target} --to cuda --model cuda")).stdout;
        assert_eq!(source.matches("__global__ void __launch").count(), kernels, "{row}\n{source}");
        let d = f.ok(&format!("run {target} --device opencl --model cuda --check"));
        assert!(d.stderr.contains("verified against"), "{row}\n{}", d.stderr);
        assert!(d.stderr.contains(&format!(": {launched} kernel")), "{row}\n{}", d.stderr);
    }
}

#[test]
fn devices_are_listed_with_what_they_have() {
    let f = Folder::new();
    let v: Value = serde_json::from_str(&f.ok("devices --json").stdout).expect("JSON");
    let all = v["devices"].as_array().expect("a list");
    // A kind that has no device says why.
    assert!(all.len() + v["missing"].as_array().expect("a list").len() >= 2, "{v}");
    for d in all {
        let id = d["id"].as_str().expect("a name");
        assert!(id.starts_with(d["kind"].as_str().expect("a kind")) && id.contains(':'), "{d}");
        assert!(
            ["memory_bytes", "multiprocessors", "shared_bytes"].iter().all(|n| d[n].as_u64() > Some(0)),
            "{d}"
        );
        assert!(d["features"].is_array() && d["name"] != "" && d["arch"] != "" && d["platform"] != "", "{d}");
    }
    let lines = f.ok("devices").stdout;
    assert!(all.iter().all(|d| lines.contains(d["id"].as_str().expect("a name"))), "{lines}");
}

/// A kernel in OpenCL C without a host program: one value does not compile, one hangs, one is wrong, one does not divide the
/// threads, one asks for more threads than there are.
#[test]
fn checklist_28_a_kernel_in_opencl_c_is_tuned_on_its_device() {
    let f = Folder::new();
    let x: Vec<String> = (0..64).map(|n| format!("{n}.5")).collect();
    f.write("x.txt", x.join("\n"));
    let twice: Vec<String> = (0..64).map(|n| (2 * n + 1).to_string()).collect();
    f.write("gold", twice.join(" "));
    f.write("two.h", "#define TWO 2.0f\n");
    f.write(
        "scale.cl",
        "// #atf::var::N $1
// #atf::tp name \"WPT\" range set(1, 2, 4, 7, 8)
// #atf::tp name \"LS\" range set(4, 100000) constraint LS == 4 || WPT == 1
// #atf::ocl::platform \"Portable Computing Language\"
// #atf::ocl::device 0
// #atf::ocl::input scalar<int>(N)
// #atf::ocl::input buffer<float>(N)
// #atf::ocl::input buffer<float>(file_name(\"x.txt\"))
// #atf::ocl::global_size N / WPT
// #atf::ocl::local_size LS
// #atf::search_technique exhaustive
#include \"two.h\"
__kernel void scale(const int N, __global float *y, __global const float *x) {
#if WPT == 4
  this is no C
#endif
  for (int i = get_global_id(0); i < N; i += get_global_size(0)) {
    while (WPT == 2 && ((volatile __global float *)x)[0] == 0.5f) {}
    y[i] = (WPT == 8 ? 3.0f : TWO) * x[i];
  }
}
",
    );
    let tune = "tune scale.cl 64 --gold gold --result y --timeout 2s --json";
    let v: Value = serde_json::from_str(&f.ok(tune).stdout).expect("one JSON object");
    assert_eq!(
        (&v["params"]["WPT"], &v["valid"], &v["evaluations"]),
        (&1.into(), &1.into(), &6.into()),
        "{v}"
    );
    assert!(v["costs"][0].as_f64().is_some_and(|s| s > 0.0 && s < 1.0), "{v}");
    for (kind, count) in [("compile", 1), ("timeout", 1), ("wrong", 1), ("refused", 2)] {
        assert_eq!(v["invalid"][kind]["count"], count, "{kind}: {v}");
    }
    // Known for this device, and for these inputs only.
    let v: Value = serde_json::from_str(&f.ok(tune).stdout).expect("one JSON object");
    assert_eq!(v["known"], 6, "{v}");
    f.write("x.txt", x.iter().rev().map(String::as_str).collect::<Vec<_>>().join("\n"));
    let again = f.fails(tune, 1, "E1086");
    assert!(again.stderr.contains("wrong"), "{}", again.stderr);
    f.fails("tune scale.cl 64 --device opencl:7", 3, "E0841");
    f.fails("tune scale.cl 64 --device cuda", 3, "E0841");
    f.fails("tune scale.cl 64 --side-by-side", 1, "E1088");
    // What directives leave open.
    let text = std::fs::read_to_string(f.path("scale.cl")).expect("the file");
    f.write("open.cl", text.replace("#atf::ocl::local_size", "local_size"));
    let d = f.fails("tune open.cl 64", 1, "E1087");
    assert!(d.stderr.contains("ocl::local_size"), "{}", d.stderr);
    f.write("other.cl", text.replace("Portable", "Other"));
    let d = f.fails("tune other.cl 64", 3, "E0841");
    assert!(d.stderr.contains("opencl:0"), "{}", d.stderr);
    f.write("type.cl", text.replace("scalar<int>", "scalar<matrix>"));
    let d = f.fails("tune type.cl 64 --fresh", 1, "E1086");
    assert!(d.stderr.contains("`matrix`"), "{}", d.stderr);
}

/// The driver in place of the machine's: its clock goes on by a microsecond for each block.
#[test]
fn checklist_27_a_kernel_in_cuda_c_is_tuned_on_its_device() {
    let f = Folder::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../lathe-gpu/tests/driver/libcuda.c");
    let driver = f.path("libcuda.so.1");
    let cc = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&driver).arg(source).status();
    assert!(cc.is_ok_and(|s| s.success()));
    f.write(
        "add.cu",
        "// #atf::var::N $1
// #atf::tp name \"WPT\" range interval<int>(1, 8) constraint divides(N)
// #atf::cuda::device \"Fake 1\"
// #atf::cuda::input buffer<float>(N)
// #atf::cuda::input buffer<float>(N)
// #atf::cuda::input scalar<int>(N)
// #atf::cuda::grid_dim N / WPT / 32
// #atf::cuda::block_dim 32
extern \"C\" __global__ void add(float *y, const float *x, int n) {
  for (int i = 0; i < WPT; i++) { int at = (blockIdx.x * WPT + i) * 32 + threadIdx.x; y[at] += x[at]; }
}
",
    );
    let tune = |more: &str| {
        let mut c = f.command(&format!("tune add.cu 1024 --timeout 2s --json {more}"));
        c.env("LD_LIBRARY_PATH", f.path(".")).env("FAKE_CUDA_ENDLESS", "16").env("FAKE_CUDA_WILD", "8");
        let out = c.output().expect("it starts");
        let text = String::from_utf8_lossy(&out.stdout);
        serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text} {out:?}"))
    };
    // Two blocks hang, eight end the process: neither ends the search.
    let v = tune("");
    assert_eq!(
        (&v["params"]["WPT"], &v["valid"], &v["evaluations"]),
        (&8.into(), &2.into(), &4.into()),
        "{v}"
    );
    let cost = v["costs"][0].as_f64().expect("a cost");
    assert!((cost - 4e-6).abs() < 1e-9, "{v}");
    let (runtime, timeout) = (&v["invalid"]["runtime"], &v["invalid"]["timeout"]);
    assert_eq!((&runtime["count"], &timeout["count"]), (&1.into(), &1.into()), "{v}");
    assert!(runtime["first"].as_str().is_some_and(|t| t.contains("(700)")), "{v}");
    // The device is a part of the key.
    assert_eq!((&tune("")["known"], &tune("--device cuda:0")["known"]), (&4.into(), &0.into()));
    let list = f.ok("tune --list --json").stdout;
    assert!(list.contains("Fake 1 (cuda, sm_9"), "{list}");
}

#[test]
fn strategies_are_tuned_on_a_device_and_used_there() {
    let f = Folder::new();
    f.write(
        "scale.lathe",
        "kernel scale(A: f32[N]) -> (B: f32[N]) {
    B[i] = 2.0 * A[i]
}
strategy s(t = 64 in 32..=128 step 32) for scale = split(i, t) ; bind(i.o, grid) ; bind(i.i, block)
",
    );
    let tune = "tune scale.lathe --strategy s -D N=4096 --device opencl --json";
    let v: Value = serde_json::from_str(&f.ok(tune).stdout).expect("one JSON object");
    assert_eq!(
        (&v["engine"], &v["evaluations"], &v["valid"]),
        (&"opencl".into(), &4.into(), &4.into()),
        "{v}"
    );
    let d = f.ok("run scale.lathe -D N=4096 --device opencl --check");
    assert!(d.stderr.contains("[stored]"), "{}", d.stderr);
    // The processor has no result of the device.
    let d = f.ok("run scale.lathe -D N=4096 --check");
    assert!(!d.stderr.contains("[stored]"), "{}", d.stderr);
}

/// With a driver in place of the machine's, and without one: what a device cannot do is told with its name and both numbers.
#[test]
fn what_devices_do_not_take_is_told_by_name() {
    let f = Folder::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../lathe-gpu/tests/driver/libcuda.c");
    std::fs::create_dir(f.path("driver")).expect("a folder");
    let driver = f.path("driver/libcuda.so.1");
    let cc = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(driver).arg(source).status();
    assert!(cc.is_ok_and(|s| s.success()));
    f.write(
        "scale.lathe",
        "kernel scale(A: f32[N]) -> (B: f32[N]) { B[i] = 2.0 * A[i] }
strategy s for scale = split(i, 64) ; bind(i.o, grid) ; bind(i.i, block)
strategy large for scale = split(i, 100000) ; bind(i.o, grid) ; stage(A, at: i.o, space: shared)
    ; bind(i.i, block) ; bind(copy(A).0, block)",
    );
    let tree = |name: &str, barrier: &str| {
        let text = format!(
            "func f(N)(A: in f32[N], B: out f32[N, 64]) stage scheduled {{
  for g in 0..N level(grid) {{
    alloc s: f32[64] shared
    for t in 0..64 level(block) {{
      'i'[g, t]: s[t] = 0.0:f32
      barrier t
      'w'[g, t]: s[t] = A[g]
      {barrier}
      'B'[g, t]: B[g, t] = s[t] + s[(t + 1) % 64]
    }}
  }}
}}"
        );
        f.write(name, text);
    };
    tree("racy.tree", "");
    tree("divergent.tree", "if A[g] < f32(t) { barrier t }");
    let run = "run scale.lathe -D N=1024 -s s --device cuda";
    /// Variables of the environment, the program, the command, and what the message says.
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a [&'a str]);
    let wrong: [Row; 10] = [
        (
            &[("LD_LIBRARY_PATH", "/nowhere"), ("CUDA_VISIBLE_DEVICES", "")],
            &format!("{run}:14"),
            "E0841",
            &[],
        ),
        (&[("FAKE_CUDA_DEVICES", "0")], run, "E0841", &["`cuda:0`", "has 0"]),
        (&[], &format!("{run}:7"), "E0841", &["`cuda:7`", "has 2"]),
        (&[], "emit scale.lathe -s s --to cubin --arch sm_35 -o k.cubin", "E0842", &["`sm_35`"]),
        (&[("FAKE_CUDA_OTHER", "1")], run, "E0843", &["no kernel image", "code for sm_9"]),
        (&[], "run scale.lathe -D N=200000 -s large --device cuda", "E0844", &["`A.s`", "400000", "232448"]),
        (&[], run, "E0854", &["`scale`", "(500)"]),
        (
            &[("FAKE_CUDA_ENDLESS", "16"), ("LATHE_DEVICE_SECONDS", "1")],
            run,
            "E0845",
            &["`scale`", "within 1 s"],
        ),
        (&[], "run racy.tree -D N=9 --device cuda", "E0505", &["`w[0, 1]`", "`s[1]`"]),
        (&[], "run divergent.tree -D N=9 --device cuda", "E0506", &["barrier"]),
    ];
    for (set, arguments, code, words) in wrong {
        let mut c = f.command(arguments);
        c.env("LD_LIBRARY_PATH", f.path("driver")).envs(set.iter().copied());
        let d = super::common::done(c.output().expect("it starts"));
        assert!(d.status != 0 && d.stderr.contains(code), "{arguments}: {} {}", d.status, d.stderr);
        for w in words {
            assert!(d.stderr.contains(w), "{arguments}: no {w} in {}", d.stderr);
        }
    }
}
