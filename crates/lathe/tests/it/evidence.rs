//! What `lathe explain --json` prints is read again and leads to the same trees; what was changed in it is refused.

use lathe::{How, Program, Schedule, load_evidence, replay};
use serde_json::Value;
use std::path::Path;

const CASES: [(&str, Option<&str>, &str); 4] = [
    ("matvec.lathe", None, "fast"),
    ("histogram.lathe", None, "fast"),
    ("scan.lathe", None, "fast"),
    ("patterns/matmul.lathe", Some("mm"), "baseline"),
];

fn account(file: &str, kernel: Option<&str>, strategy: &str) -> (Program, How, Schedule, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let program = Program::open(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
    let how = How { strategy: Some(strategy.to_string()), ..How::default() };
    let k = program.kernel(kernel).expect("a kernel");
    let schedule =
        lathe::schedule(&program, k, &how, &lathe::Machine::host()).unwrap_or_else(|e| panic!("{file}: {e}"));
    let json = lathe::explain_json(&k.name, "", &schedule);
    (program, how, schedule, json)
}

#[test]
fn what_is_printed_is_read_and_replayed() {
    for (file, kernel, strategy) in CASES {
        let (program, how, schedule, json) = account(file, kernel, strategy);
        let stored = load_evidence(&json.to_string()).unwrap_or_else(|d| panic!("{file}: {d}"));
        assert_eq!(stored.len(), schedule.versions.len());
        let k = program.kernel(kernel).expect("a kernel");
        for (s, v) in stored.iter().zip(&schedule.versions) {
            assert_eq!(s.steps, v.steps, "{file}");
            let again = replay(&program, k, &how, s.condition.as_ref(), &s.baked, &s.steps);
            again.unwrap_or_else(|e| panic!("{file}: {e}"));
        }
    }
}

/// Every change of an obligation, of how it was discharged, of a relation or of a hash is found, if not by the reader
/// then by the steps.
#[test]
fn what_was_changed_is_refused() {
    for (file, kernel, strategy) in CASES {
        let (program, how, _, json) = account(file, kernel, strategy);
        let k = program.kernel(kernel).expect("a kernel");
        let steps = json["versions"][0]["steps"].as_array().expect("steps").len();
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut wrong = json.clone();
            change(&mut wrong["versions"][0]);
            assert_ne!(wrong, json, "{file}: nothing was changed");
            let code = match load_evidence(&wrong.to_string()) {
                Err(d) => d.code.0.to_string(),
                Ok(stored) => {
                    let s = &stored[0];
                    let again = replay(&program, k, &how, s.condition.as_ref(), &s.baked, &s.steps);
                    again.expect_err("a changed record").diagnostics[0].code.0.to_string()
                }
            };
            assert_eq!(code, "E0612", "{file}");
        };
        refused(&|v| v["evidence_version"] = 1.into());
        let told = &json["versions"][0]["steps"];
        let relations = |n: usize| told[n]["relations"].as_array().map_or(0, Vec::len);
        let related: Vec<usize> = (0..steps).filter(|n| relations(*n) > 0).collect();
        // Steps on terms have none; what comes after the translation has.
        assert!(!related.is_empty() || kernel.is_some(), "{file}: no step has relations");
        for n in related.iter().copied().step_by(1 + related.len() / 4) {
            let last = relations(n) - 1;
            refused(&|v| v["steps"][n]["relations"] = serde_json::json!([]));
            refused(&|v| v["steps"][n]["relations"][last]["label"] = "no such label".into());
            let kind = if told[n]["relations"][last]["kind"] == "subset" { "bijection" } else { "subset" };
            refused(&|v| v["steps"][n]["relations"][last]["kind"] = kind.into());
            for side in ["before", "after"] {
                if told[n]["relations"][last][side].as_array().is_some_and(|copies| !copies.is_empty()) {
                    refused(&|v| v["steps"][n]["relations"][last][side] = serde_json::json!([]));
                    let first = |v: &mut Value| v["steps"][n]["relations"][last][side][0].clone();
                    refused(&|v| {
                        let copy = first(v);
                        v["steps"][n]["relations"][last][side] = serde_json::json!([copy, copy]);
                    });
                    refused(&|v| v["steps"][n]["relations"][last][side][0]["path"] = serde_json::json!([7]));
                    refused(&|v| {
                        v["steps"][n]["relations"][last][side][0]["instance"] = serde_json::json!([1, 2, 3])
                    });
                }
            }
        }
        for n in (0..steps).step_by(1 + steps / 4) {
            refused(&|v| v["steps"][n]["obligations"] = serde_json::json!([]));
            refused(&|v| v["steps"][n]["obligations"][0]["by"] = "trusted".into());
            refused(&|v| v["steps"][n]["obligations"][0]["witness"] = "stated".into());
            refused(&|v| v["steps"][n]["obligations"][0]["claim"] = "all_is_well".into());
            refused(&|v| v["steps"][n]["obligations"][0]["why"] = "because".into());
            refused(&|v| v["steps"][n]["after"] = "0".into());
            refused(&|v| v["steps"][n]["version"] = 99.into());
        }
    }
}
