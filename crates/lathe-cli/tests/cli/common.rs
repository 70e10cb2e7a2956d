//! Running the built command in a folder of its own.

use lathe::{Array, npy};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Folder {
    dir: tempfile::TempDir,
}

/// What a command ended with.
pub struct Done {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Folder {
    pub fn new() -> Folder {
        Folder { dir: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("a file");
        name.to_string()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file to read")
    }

    /// `lathe` here, with the words of `line`, to be started.
    pub fn command(&self, line: &str) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_lathe"));
        c.args(line.split_whitespace()).current_dir(self.dir.path()).env("NO_COLOR", "1");
        // The user's own results and compiled code play no part in tests.
        c.env("LATHE_STORE", self.path("results.sqlite")).env("LATHE_CACHE", self.path("cache"));
        c
    }

    /// Runs `lathe` here with the words of `line`.
    pub fn lathe(&self, line: &str) -> Done {
        done(self.command(line).output().expect("lathe starts"))
    }

    /// As [`Folder::lathe`]; it must succeed.
    pub fn ok(&self, line: &str) -> Done {
        let d = self.lathe(line);
        assert_eq!(d.status, 0, "lathe {line}\n{}", d.stderr);
        d
    }

    /// As [`Folder::lathe`]; it must end with `status` and exactly one error, of `code`, and print nothing.
    pub fn fails(&self, line: &str, status: i32, code: &str) -> Done {
        let d = self.lathe(line);
        assert!(!d.stderr.contains("panicked"), "lathe {line}\n{}", d.stderr);
        assert_eq!(d.status, status, "lathe {line}\n{}", d.stderr);
        assert_eq!(d.stderr.matches('×').count(), 1, "lathe {line}\n{}", d.stderr);
        // What the choice of a strategy says comes before.
        let first = d.stderr.lines().find(|l| !l.starts_with("note: ")).unwrap_or_default();
        assert!(first.starts_with(code), "lathe {line}: {code} expected\n{}", d.stderr);
        assert_eq!(d.stdout, "", "lathe {line}");
        d
    }
}

pub fn done(o: Output) -> Done {
    Done {
        status: o.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&o.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&o.stderr).into_owned(),
    }
}

/// The folder of the examples.
pub fn examples() -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    dir.canonicalize().expect("the examples").display().to_string()
}

/// What a command printed with `--json`.
pub fn parsed(d: &Done) -> Value {
    serde_json::from_str(&d.stdout).expect("JSON on standard output")
}

/// A shell script that may be run.
pub fn script(f: &Folder, name: &str, text: &str) {
    f.write(name, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(f.path(name), std::fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// A JSON form.
pub fn form(f: &Folder, name: &str, form: &Value) {
    f.write(name, form.to_string());
}

/// Writes an array for a command to read.
pub fn save(f: &Folder, name: &str, shape: &[i64], data: &[f32]) {
    npy::write(&f.path(name), &Array::from_slice(shape, data).expect("an array")).expect("a file");
}

/// An array that a command wrote.
pub fn load(f: &Folder, name: &str) -> Vec<f32> {
    npy::read(&f.path(name)).expect("an array").to_vec().expect("f32")
}
