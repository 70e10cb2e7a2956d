//! What this machine has, for `lathe doctor`.

use std::process::Command;

/// One line of the report.
pub struct Finding {
    pub what: &'static str,
    pub found: bool,
    pub detail: String,
    /// How to get it.
    pub help: Option<&'static str>,
}

/// Looks for engines and tools; nothing is installed or changed.
pub fn findings() -> Vec<Finding> {
    let llvm = cfg!(feature = "llvm");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let version = Command::new(&cc).arg("--version").output().ok().filter(|o| o.status.success());
    let first = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or("").to_string();
    vec![
        Finding {
            what: "engine llvm",
            found: llvm,
            detail: if llvm { "LLVM 22, in process".into() } else { "this build has none".into() },
            help: Some("build with the cargo feature `llvm` (needs llvm-22-dev)"),
        },
        Finding {
            what: "engine c",
            found: version.is_some(),
            detail: version.map_or_else(|| format!("`{cc}` does not run"), |o| first(&o.stdout)),
            help: Some("install gcc or clang, or set CC"),
        },
        Finding {
            what: "CUDA, OpenCL",
            found: false,
            detail: "this version makes no code for GPUs".into(),
            help: None,
        },
        Finding { what: "MPI", found: false, detail: "this version runs on one machine".into(), help: None },
    ]
}
