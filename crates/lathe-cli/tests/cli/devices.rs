//! `--device` and code for devices, with PoCL and NVRTC, which `scripts/setup.sh` installs.

use crate::common::{Folder, examples};
use serde_json::Value;

/// Kernels of the examples with sizes that fit their strategies, and with others.
const ROWS: [&str; 24] = [
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
    "jacobi.lathe:jacobi3d -D L=8 -D M=8 -D N=128",
    "stencils.lathe:hotspot -D M=8 -D N=512",
    "stencils.lathe:acoustic -D L=8 -D M=8 -D N=64",
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
    }
}

/// Sizes that the forms of `auto` are for, and what their code holds.
const FORMS: [(&str, &str); 14] = [
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
    ("softmax.lathe -D M=1 -D N=100000", "__cluster_dims__(4, 1, 1)"),
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
        assert!(d["features"].is_array() && d["name"] != "" && d["arch"] != "", "{d}");
    }
    let lines = f.ok("devices").stdout;
    assert!(all.iter().all(|d| lines.contains(d["id"].as_str().expect("a name"))), "{lines}");
}
