//! What this machine has, for `lathe doctor`.

use lathe_runtime::Engine;

/// One line of the report.
pub struct Finding {
    pub what: String,
    pub found: bool,
    pub detail: String,
    /// How to get it.
    pub help: Option<&'static str>,
}

/// Looks for engines and tools; nothing is installed or changed.
pub fn findings() -> Vec<Finding> {
    let mut out = vec![Finding {
        what: "engine llvm".to_string(),
        found: false,
        detail: "not in this build".into(),
        help: Some("build with the cargo feature `llvm` (needs llvm-22-dev)"),
    }];
    out.retain(|_| Engine::named("llvm").is_err());
    for e in Engine::ALL {
        let made = e.fingerprint();
        out.push(Finding {
            what: format!("engine {e}"),
            found: made.is_ok(),
            detail: made.map_or_else(|d| d.message, |_| e.compiler()),
            help: Some("install gcc or clang, or set CC"),
        });
    }
    for d in Engine::devices() {
        let made = d.fingerprint();
        out.push(Finding {
            what: format!("device {d}"),
            found: made.is_ok(),
            detail: made.unwrap_or_else(|d| d.message),
            help: Some("install the device's driver; to use the CPU as an OpenCL device: pocl-opencl-icd"),
        });
    }
    for (what, found, help) in lathe_runtime::device::libraries() {
        let (found, detail) = match found {
            Ok(detail) => (true, detail),
            Err(why) => (false, why),
        };
        out.push(Finding { what: what.to_string(), found, detail, help: Some(help) });
    }
    out.extend([Finding {
        what: "MPI".to_string(),
        found: false,
        detail: "this version runs on one machine".into(),
        help: None,
    }]);
    out
}
