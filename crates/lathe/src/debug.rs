//! Kernels with their `print` and `assert`: [`Program::debugging`] makes them, and [`Program::shown`] says what a call showed.

use crate::codes;
use crate::failure::Failure;
use crate::program::Program;
use crate::{Array, Diagnostic, Scalar};
use lathe_lang::lower::debug::{SLOTS, Site, shown};

pub use lathe_lang::lower::debug::{Failed, LOG, Shown};

impl Program {
    /// The same file with the `print` and `assert` of one kernel, which has one parameter more: the last one, an array
    /// of [`log`] that they write to. `None` if it has no such statements.
    ///
    /// # Errors
    /// What the front end says.
    pub fn debugging(&self, kernel: &str) -> Result<Option<Program>, Failure> {
        match self.lang.file.filter(|_| !self.sites(kernel).is_empty()) {
            Some(file) => Program::for_debugging(&self.path, self.sources.text(file), kernel).map(Some),
            None => Ok(None),
        }
    }

    /// What a call of the kernel showed, by the array that it got as its last argument.
    pub fn shown(&self, kernel: &str, log: &[i64]) -> Shown {
        shown(self.sites(kernel), log)
    }

    /// Whether this is what [`Program::debugging`] made of a file.
    pub(crate) fn is_debugging(&self, kernel: &str) -> bool {
        let function = self.lang.module.functions.get(kernel);
        function.and_then(|f| f.params.last()).is_some_and(|p| &**p.name() == LOG)
    }

    fn sites(&self, kernel: &str) -> &[Site] {
        self.lang.kernels.iter().find(|k| k.name == kernel).map_or(&[], |k| &k.sites)
    }
}

/// An array for the last parameter: nothing was shown yet.
///
/// # Errors
/// When memory is short.
pub fn log() -> Result<Array, Diagnostic> {
    Array::zeros(Scalar::I64, &[SLOTS])
}

/// The diagnostic for an `assert` that failed.
pub fn failed(kernel: &str, failed: &Failed) -> Diagnostic {
    let text = match failed.text.as_str() {
        "" => format!("an `assert` of `{kernel}` does not hold"),
        text => format!("an `assert` of `{kernel}` does not hold: {text}"),
    };
    let d = Diagnostic::error(codes::ASSERT, text).at(failed.span, "is false");
    failed.values.iter().fold(d, |d, value| d.note(value.clone()))
}

/// Refuses what a kernel that is debugged cannot do.
///
/// # Errors
/// `E0917`, on a device.
pub fn on_host(device: bool) -> Result<(), Diagnostic> {
    if !device {
        return Ok(());
    }
    let text = "`print` and `assert` of a kernel run on the host, and not on devices";
    Err(Diagnostic::error(codes::OPTION, text).help("run it without a device, or without `--debug`"))
}
