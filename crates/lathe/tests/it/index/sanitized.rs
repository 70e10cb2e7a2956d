//! Emitted C under the address and undefined-behaviour sanitizers, as a program of its own: whatever they find ends it.

use lathe::ir::interp::ArrayValue;
use lathe::ir::{Function, Mode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FLAGS: [&str; 6] = [
    "-std=c11",
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-ffp-contract=off",
];

/// A C compiler with sanitizers, and the driver of kernels, compiled once.
pub struct Compiler {
    name: &'static str,
    folder: tempfile::TempDir,
}

/// A kernel as a program.
pub struct Program {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Compiler {
    /// The first of the usual ones that can make and run a program with sanitizers.
    pub fn find() -> Option<Compiler> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("empty.c"), "int main(void) { return 0; }\n").expect("a file");
        std::fs::write(folder.path().join("driver.c"), include_str!("driver.c")).expect("a file");
        let works = |name: &&str| {
            let run = |args: &[&str]| {
                let out = Command::new(name).args(FLAGS).args(args).current_dir(folder.path()).output();
                out.is_ok_and(|o| o.status.success())
            };
            run(&["empty.c", "-o", "empty"])
                && Command::new(folder.path().join("empty")).status().is_ok_and(|s| s.success())
                && run(&[&format!("-DVERSION={}", lathe_abi::VERSION), "-c", "driver.c", "-o", "driver.o"])
        };
        let name = ["cc", "gcc", "clang"].into_iter().find(works)?;
        Some(Compiler { name, folder })
    }

    pub fn program(&self, text: &str, kernel: &Function) -> Program {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, path) = (folder.path().join("kernel.c"), folder.path().join("kernel"));
        std::fs::write(&source, text).expect("a file");
        let mut command = Command::new(self.name);
        command.args(FLAGS).arg("-w").arg(&source).arg(self.folder.path().join("driver.o"));
        let out = command.arg("-o").arg(&path).arg("-lm").output().expect("a compiler");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{}: {said}\n{text}", kernel.name);
        Program { _folder: folder, path }
    }
}

impl Program {
    /// What the call leaves in the arrays that it may write; `None` if it fails.
    ///
    /// # Errors
    /// What a sanitizer says.
    pub fn call(&self, arguments: &[ArrayValue], kernel: &Function) -> Result<Option<Vec<Vec<i64>>>, String> {
        let mut input = format!("{}\n", arguments.len());
        for a in arguments {
            let ty = a.ty.scalar().expect("a scalar");
            let _ = write!(input, "{} {}", lathe::dtype_of(&ty.into()), a.shape.len());
            for n in a.shape.iter().map(|n| *n as i64).chain(a.to_i64_vec()) {
                let _ = write!(input, " {n}");
            }
            input.push('\n');
        }
        let mut command = Command::new(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).map_err(|e| e.to_string())?;
        let out = child.wait_with_output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&out.stdout);
        if !out.status.success() {
            return Err(format!("{}\n{}", out.status, String::from_utf8_lossy(&out.stderr)));
        }
        let mut lines = said.lines();
        if lines.next() != Some("0") {
            return Ok(None);
        }
        let arrays = lines.map(|l| l.split_whitespace().map(|v| v.parse().expect("a number")).collect());
        let written = kernel.params.iter().zip(arrays.collect::<Vec<Vec<i64>>>());
        Ok(Some(written.filter(|(p, _)| p.mode != Mode::In).map(|(_, a)| a).collect()))
    }
}
