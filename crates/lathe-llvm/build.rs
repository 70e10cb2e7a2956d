//! Links LLVM: the system's `libLLVM.so`, or (feature `static`) the archives of the parts that are used, with what they
//! need, so that a binary runs where none of it is installed.

use std::path::PathBuf;
use std::process::Command;

/// Of LLVM's components: loading objects, the pass pipelines, and the code generators.
const COMPONENTS: [&str; 5] = ["orcjit", "passes", "x86codegen", "aarch64codegen", "nvptxcodegen"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    let config = llvm_config();
    let ask = |args: &[&str]| -> String {
        let out = Command::new(&config).args(args).output();
        let out = out.unwrap_or_else(|e| panic!("{} does not run: {e}", config.display()));
        let text = String::from_utf8_lossy(&out.stdout).trim().to_string();
        assert!(
            out.status.success(),
            "{} {args:?}: {}",
            config.display(),
            String::from_utf8_lossy(&out.stderr)
        );
        text
    };
    println!("cargo:rustc-link-search=native={}", ask(&["--libdir"]));
    if std::env::var_os("CARGO_FEATURE_STATIC").is_none() {
        for name in ask(&["--link-shared", "--libnames"]).split_whitespace() {
            println!("cargo:rustc-link-lib=dylib={}", stem(name));
        }
        return;
    }
    let mut args = vec!["--link-static", "--libnames"];
    args.extend(COMPONENTS);
    for name in ask(&args).split_whitespace() {
        // The archives stay where they are; the linker takes from them what is used.
        println!("cargo:rustc-link-lib=static:-bundle={}", stem(name));
    }
    for name in ["zstd", "z", "stdc++"] {
        match archive_folder(name) {
            Some(folder) => {
                println!("cargo:rustc-link-search=native={}", folder.display());
                println!("cargo:rustc-link-lib=static:-bundle={name}");
            }
            None => println!("cargo:rustc-link-lib=dylib={name}"),
        }
    }
    for name in ["dl", "m", "rt"] {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}

/// LLVM's own account of where it is.
fn llvm_config() -> PathBuf {
    let given = std::env::var_os("LLVM_SYS_221_PREFIX").map(PathBuf::from);
    let debian = Some(PathBuf::from("/usr/lib/llvm-22"));
    let found = [given, debian].into_iter().flatten().map(|p| p.join("bin/llvm-config")).find(|p| p.exists());
    found.unwrap_or_else(|| PathBuf::from("llvm-config-22"))
}

/// A library's name as the linker takes it.
fn stem(file: &str) -> &str {
    let name = file.strip_prefix("lib").unwrap_or(file);
    name.split_once(".a")
        .or_else(|| name.split_once(".so"))
        .or_else(|| name.split_once(".dylib"))
        .map_or(name, |n| n.0)
}

/// Where the C++ compiler finds a static library.
fn archive_folder(name: &str) -> Option<PathBuf> {
    let cxx = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
    let asked = Command::new(cxx).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    let path = path.is_absolute().then_some(path)?.canonicalize().ok()?;
    Some(path.parent()?.to_path_buf())
}
