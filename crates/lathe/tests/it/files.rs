//! The examples of the repository.

use std::path::{Path, PathBuf};

/// The files of some folders of `examples` that end in one of these, sorted.
pub fn examples(folders: &[&str], ends: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = folders.iter().flat_map(|d| std::fs::read_dir(root.join(d)).expect("examples"));
    let mut all: Vec<PathBuf> = entries
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| ends.iter().any(|end| e == *end)))
        .collect();
    all.sort();
    all
}
