//! Libraries that are opened at run time.

use crate::{MOST_DEVICES, codes, fork};
use lathe_diagnostics::Diagnostic;
use libloading::Library;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The first of the names that can be opened.
pub fn open(names: &[&str]) -> Result<Library, String> {
    let mut why = String::new();
    for name in names {
        // SAFETY: drivers' libraries, whose initializers do what loading them means on this system.
        match unsafe { Library::new(*name) } {
            Ok(l) => return Ok(l),
            Err(e) => why = e.to_string(),
        }
    }
    Err(why)
}

/// A function of a library by its name; the type is the caller's promise.
macro_rules! function {
    ($library:expr, $name:literal, $ty:ty) => {{
        // SAFETY: the type is that of the function in the library's documentation.
        let found = unsafe { $library.get::<$ty>($name.as_bytes()) };
        found.map(|f| *f).map_err(|e| format!("the library has no {}: {e}", $name))
    }};
}
pub(crate) use function;

/// There is no such device here.
pub fn missing(text: String) -> Diagnostic {
    Diagnostic::error(codes::NO_DEVICE, text)
        .help("`--device cpu` runs everywhere; `lathe doctor` lists what is available")
}

/// Devices by number, each opened once, and by no process that was forked after one was.
pub struct Devices<T>([OnceLock<Result<T, Diagnostic>>; MOST_DEVICES]);

impl<T> Devices<T> {
    pub const fn new() -> Devices<T> {
        Devices([const { OnceLock::new() }; MOST_DEVICES])
    }

    pub fn get(
        &self,
        number: usize,
        opened: impl FnOnce(usize) -> Result<T, Diagnostic>,
    ) -> Result<&T, Diagnostic> {
        fork::check()?;
        let open = || {
            fork::watch();
            opened(number)
        };
        self.0[number].get_or_init(open).as_ref().map_err(Clone::clone)
    }
}

/// Folders of Python packages of NVIDIA: those of an active environment, then those of the `python3` on the path.
pub fn python_packages() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = std::env::split_paths(&path).map(|d| d.join("python3")).find(|p| p.is_file());
    // `/usr/bin/python3` is a link into the same root; that of an environment is in the environment.
    roots.extend(python.iter().filter_map(|p| Some(p.parent()?.parent()?.to_path_buf())));
    let real = python.and_then(|p| p.canonicalize().ok());
    roots.extend(real.iter().filter_map(|p| Some(p.parent()?.parent()?.to_path_buf())));
    let list = |d: PathBuf| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            std::fs::read_dir(d).into_iter().flatten().flatten().map(|e| e.path()).collect();
        all.sort();
        all
    };
    let mut out = Vec::new();
    for root in roots {
        for lib in ["lib", "lib64", "local/lib"] {
            for version in list(root.join(lib)) {
                for packages in ["site-packages", "dist-packages"] {
                    out.extend(
                        list(version.join(packages).join("nvidia")).into_iter().map(|d| d.join("lib")),
                    );
                }
            }
        }
    }
    out
}
