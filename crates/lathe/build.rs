//! Names this build of Lathe: kept machine code is never loaded by another one. All sources of the compiler take part,
//! since a change of any of them may change the code.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let mut hash = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    let crates = here.parent().expect("a crate lies in a folder");
    let mut folders: Vec<PathBuf> = entries(crates)
        .into_iter()
        // These only use the session.
        .filter(|c| !["lathe-cli", "lathe-python"].iter().any(|n| c.ends_with(n)))
        .map(|c| c.join("src"))
        .filter(|s| s.is_dir())
        .collect();
    if folders.is_empty() {
        folders.push(here.join("src"));
    }
    for folder in folders {
        println!("cargo:rerun-if-changed={}", folder.display());
        add(&folder, &mut hash);
    }
    // The versions of what is depended on.
    let lock = crates.join("../Cargo.lock");
    if let Ok(text) = std::fs::read(&lock) {
        println!("cargo:rerun-if-changed={}", lock.display());
        text.hash(&mut hash);
    }
    println!("cargo:rustc-env=LATHE_BUILD={:016x}", hash.finish());
}

/// The entries of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten();
    let mut all: Vec<PathBuf> = read.filter_map(|e| Some(e.ok()?.path())).collect();
    all.sort();
    all
}

fn add(folder: &Path, hash: &mut DefaultHasher) {
    for path in entries(folder) {
        if path.is_dir() {
            add(&path, hash);
        } else if let Ok(bytes) = std::fs::read(&path) {
            path.file_name().hash(hash);
            bytes.hash(hash);
        }
    }
}
