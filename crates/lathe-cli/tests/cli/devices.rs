//! `--device` and code for devices, with PoCL and NVRTC, which `scripts/setup.sh` installs.

use crate::common::{Folder, examples};

/// Kernels of the examples with sizes that fit their strategies, and with others.
const ROWS: [&str; 8] = [
    "elementwise.lathe:copy -D N=2048",
    "elementwise.lathe:axpy -D N=1000",
    "transpose.lathe -D M=64 -D N=96",
    "transpose.lathe -D M=33 -D N=5",
    "jacobi.lathe -D M=30 -D N=70",
    "reductions.lathe:sum -D N=5000",
    "reductions.lathe:matvec -D M=40 -D N=50",
    "gemm.lathe -D M=64 -D N=128 -D K=32",
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
