//! What Lathe depends on has a licence that `deny.toml` allows, comes from the registry, and comes once. Advisories need
//! a network, and are looked up by `cargo deny` in `make lint`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The strings of a list in `deny.toml`.
fn listed(name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml"));
    let text = text.expect("deny.toml");
    let lines = text.lines().skip_while(|l| *l != format!("{name} = [")).skip(1).take_while(|l| *l != "]");
    let all: BTreeSet<String> = lines.map(|l| l.trim().trim_matches([',', '"']).to_string()).collect();
    assert!(!all.is_empty(), "deny.toml has no list `{name}`");
    all
}

fn packages() -> Vec<Value> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let meta: Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let all = meta["packages"].as_array().expect("packages").clone();
    assert!(all.len() > 100, "only {} packages: this looks at the wrong thing", all.len());
    all
}

/// Whether an expression of licences (SPDX; `/` is an old way to write `OR`) is met by what is allowed.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    // Parentheses first, from the inside.
    if let Some(close) = expression.find(')')
        && let Some(open) = expression[..close].rfind('(')
    {
        let inner = if allowed(&expression[open + 1..close], allow) { "yes" } else { "no" };
        return allowed(&format!("{}{inner}{}", &expression[..open], &expression[close + 1..]), allow);
    }
    let expression = expression.replace('/', " OR ");
    let one = |name: &str| name == "yes" || allow.contains(name);
    expression.split(" OR ").any(|part| part.split(" AND ").all(|name| one(name.trim())))
}

#[test]
fn licences_are_allowed_ones() {
    let allow = listed("allow");
    for (expression, fine) in [
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Unicode-3.0", true),
        ("(GPL-3.0 OR LGPL-2.1) AND MIT", false),
        ("GPL-2.0 WITH Classpath-exception-2.0", false),
        ("", false),
    ] {
        assert_eq!(allowed(expression, &allow), fine, "{expression}");
    }
    for p in packages() {
        let licence = p["license"].as_str().unwrap_or_default();
        assert!(
            allowed(licence, &allow),
            "{} has the licence `{licence}`, which deny.toml does not allow",
            p["name"]
        );
    }
}

#[test]
fn packages_come_from_the_registry_and_once() {
    let skip = listed("skip");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for p in packages() {
        let text = |key: &str| p[key].as_str().unwrap_or_default().to_string();
        let source = text("source");
        let ours = p["source"].is_null();
        assert!(ours || source.starts_with("registry+https://"), "{} comes from {source}", p["name"]);
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let twice: BTreeSet<String> = versions.iter().filter(|v| v.1.len() > 1).map(|v| v.0.clone()).collect();
    assert_eq!(twice, skip, "packages in several versions, and what deny.toml says of them");
}
