//! Lists the machine files, so that a new one is a file and nothing else.

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=machines");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files: Vec<_> = std::fs::read_dir("machines")
        .expect("the folder of machines")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let mut text = String::from("&[\n");
    for f in files {
        let name = f.file_stem().expect("a name").to_string_lossy().into_owned();
        let path = std::fs::canonicalize(&f).expect("a path");
        let _ = writeln!(text, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    text.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("machines.rs"), text).expect("the list can be written");
}
