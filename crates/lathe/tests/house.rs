//! The arrows between crates: a crate imports only from lower floors.

use std::collections::BTreeMap;
use std::process::Command;

/// The floors of `ARCHITECTURE.md`.
const FLOORS: &[(&str, u32)] = &[
    ("lathe-diagnostics", 0),
    ("lathe-space", 1),
    ("lathe-ir", 1),
    ("lathe-strategy", 2),
    ("lathe-target", 2),
    ("lathe-abi", 1),
    ("lathe-tune", 2),
    ("lathe-analysis", 2),
    ("lathe-pattern", 3),
    ("lathe-model", 2),
    ("lathe-transform", 3),
    ("lathe-autodiff", 3),
    ("lathe-c", 3),
    ("lathe-llvm", 3),
    ("lathe-source", 3),
    ("lathe-mdh", 4),
    ("lathe-lang", 4),
    ("lathe-runtime", 4),
    ("lathe-measure", 5),
    ("lathe", 6),
    ("lathe-cli", 7),
    ("lathe-python", 7),
    ("lathe-ui", 7),
];

#[test]
fn crates_import_only_from_lower_floors() {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let meta: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let packages = meta["packages"].as_array().expect("packages");
    let mut arrows = 0;
    for p in packages {
        let name = p["name"].as_str().expect("a name");
        let from = floors.get(name).unwrap_or_else(|| panic!("{name} has no floor in ARCHITECTURE.md"));
        for d in p["dependencies"].as_array().expect("dependencies") {
            let to_name = d["name"].as_str().expect("a name");
            if d["kind"] == "dev" {
                continue;
            }
            if let Some(to) = floors.get(to_name) {
                arrows += 1;
                assert!(to < from, "{name} (floor {from}) must not import {to_name} (floor {to})");
            }
        }
    }
    assert!(arrows > 10, "only {arrows} arrows seen: the test looks at the wrong thing");
}
