//! `lathe devices`.

use crate::Outcome;
use crate::say::{self, note};
use crate::target::Common;
use std::fmt::Write;

pub fn devices(common: &Common) -> Outcome {
    let (all, why) = lathe::device::devices();
    if common.json {
        let list: Vec<_> = all
            .iter()
            .map(|d| {
                serde_json::json!({
                    "id": d.id, "kind": d.kind, "name": d.name, "platform": d.platform, "arch": d.arch,
                    "memory_bytes": d.memory_bytes,
                    "multiprocessors": d.multiprocessors, "shared_bytes": d.shared_bytes, "features": d.features,
                })
            })
            .collect();
        let missing: Vec<_> = why.iter().map(|d| &d.message).collect();
        return say::json(&serde_json::json!({ "devices": list, "missing": missing }));
    }
    let mut out = String::new();
    for d in &all {
        let _ = writeln!(out, "{:10} {} of {}, {}", d.id, d.name, d.platform, d.arch);
        let _ = writeln!(
            out,
            "{:10} {:.1} GiB, {} multiprocessors, {} KiB of shared memory per block",
            "",
            d.memory_bytes as f64 / f64::from(1 << 30),
            d.multiprocessors,
            d.shared_bytes >> 10
        );
        if !d.features.is_empty() {
            let _ = writeln!(out, "{:10} {}", "", d.features.join(", "));
        }
    }
    for d in &why {
        note!("note: {}", d.message);
    }
    say::text(&out)
}
