//! Kernels in programs of others: the examples in `examples/embed`, where the machine has a C compiler.

use crate::common::{Folder, examples};
use std::process::Command;

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
}

#[test]
fn a_c_program_calls_a_kernel_as_object_and_as_source() {
    if !has("make") || !has("cc") {
        return;
    }
    let f = Folder::new();
    let o = Command::new("make")
        .arg("-C")
        .arg(format!("{}/embed", examples()))
        .arg(format!("LATHE={}", env!("CARGO_BIN_EXE_lathe")))
        .arg(format!("B={}", f.path("build").display()))
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make starts");
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success(), "{text}{}", String::from_utf8_lossy(&o.stderr));
    assert_eq!(text.matches("gemm: 37 x 45 x 29 as expected").count(), 2, "{text}");
}

/// A kernel needs nothing of Lathe: the symbols that an object lacks are those of the C library.
#[test]
fn emitted_c_compiles_without_warnings() {
    if !has("cc") {
        return;
    }
    let f = Folder::new();
    for (target, strategy) in [
        ("gemm.lathe:gemm", "naive"),
        ("gather.lathe", "fast"),
        ("softmax.lathe", "fast"),
        ("argmax.lathe", "naive"),
        ("histogram.lathe", "fast"),
        ("jacobi.lathe:jacobi2d", "fast"),
    ] {
        f.ok(&format!("emit {}/{target} --strategy {strategy} --to c -o k.c", examples()));
        for compiler in ["cc", "clang-22"].into_iter().filter(|c| has(c)) {
            let o = Command::new(compiler)
                .args(["-std=gnu11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "k.c", "-o", "k.o"])
                .current_dir(f.path("."))
                .output()
                .expect("cc starts");
            let said = String::from_utf8_lossy(&o.stderr);
            assert!(o.status.success() && said.is_empty(), "{compiler} on {target}: {said}");
        }
    }
}
