//! `lathe doctor`.

use crate::Outcome;
use crate::say;
use crate::target::Common;
use lathe::{Machine, ceilings};
use std::fmt::Write;

pub fn doctor(common: &Common) -> Outcome {
    let m = Machine::host();
    let findings = lathe::doctor::findings();
    let peak = ceilings::peak_flops_f32(&m);
    let copy = ceilings::copy_bytes_per_second();
    if common.json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| serde_json::json!({ "what": f.what, "found": f.found, "detail": f.detail, "help": f.help }))
            .collect();
        return say::json(&serde_json::json!({
            "threads": m.threads, "vector_bytes": m.vector_bytes, "fma": m.fma,
            "l1_bytes": m.l1_bytes, "l2_bytes": m.l2_bytes, "l3_bytes": m.l3_bytes,
            "peak_gflops_f32": peak.map(|p| p / 1e9), "copy_gbytes_per_s": copy.map(|p| p / 1e9),
            "findings": list,
        }));
    }
    let mut out = String::new();
    let _ = writeln!(out, "threads        {}", m.threads);
    let _ = writeln!(
        out,
        "vectors        {} bits{}",
        m.vector_bytes * 8,
        if m.fma { ", fused multiply-add" } else { "" }
    );
    let _ = writeln!(
        out,
        "caches         L1 {} KiB, L2 {} KiB, L3 {} KiB",
        m.l1_bytes >> 10,
        m.l2_bytes >> 10,
        m.l3_bytes >> 10
    );
    if let Some(p) = peak {
        let _ = writeln!(out, "peak           {:.1} GFLOP/s (f32, one thread, measured)", p / 1e9);
    }
    if let Some(c) = copy {
        let _ = writeln!(out, "copy           {:.1} GB/s (streaming, one thread, measured)", c / 1e9);
    }
    for f in findings {
        let _ = writeln!(out, "{:14} {}{}", f.what, if f.found { "" } else { "missing: " }, f.detail);
        if let (false, Some(h)) = (f.found, f.help) {
            let _ = writeln!(out, "{:14} get it: {h}", "");
        }
    }
    say::text(&out)
}
