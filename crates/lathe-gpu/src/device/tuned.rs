//! Tuning parameters of the user's kernels: a tuner is asked once for each kernel, device and values (HCA's hook for tuners,
//! Rasch, section 3.6), and what it found is kept.

use super::kernel::Kernel;
use super::open::Device;
use super::shared::Keep;
use crate::codes;
use crate::function::Made;
use lathe_diagnostics::Diagnostic;
use std::sync::{Arc, PoisonError};

/// Names of macros in a kernel's source, and their values.
pub type Parameters = Vec<(String, i64)>;

/// A kernel with its tuning parameters. Its clones share what was compiled.
#[derive(Clone)]
pub struct Tuned {
    /// The kernel with a flag for each parameter.
    pub kernel: Kernel,
    /// For the grid, which often depends on them.
    pub parameters: Parameters,
}

impl Tuned {
    /// The value of a parameter.
    ///
    /// # Errors
    /// `E0850` where the tuner gave none of this name.
    pub fn value(&self, name: &str) -> Result<i64, Diagnostic> {
        self.parameters.iter().find(|p| p.0 == name).map(|p| p.1).ok_or_else(|| {
            let text = format!("the tuner of `{}` gave no value of `{name}`", self.kernel.name());
            Diagnostic::error(codes::ARGUMENTS, text)
        })
    }
}

impl Device {
    /// A kernel with what a tuner finds for it on this device, for these values of the program (sizes, mostly): `-DNAME=value`
    /// for each parameter. The tuner is called only where neither this process nor what is kept for others
    /// ([`super::Devices::keep_code`]) knows what it found before, for the same source, flags, device and values. It may
    /// launch whatever it likes on the device.
    ///
    /// # Errors
    /// What the tuner says; `E0850` for parameters whose names are no identifiers.
    pub fn tuned(
        &self,
        kernel: &Kernel,
        values: &[i64],
        tuner: impl FnOnce(&Device) -> Result<Parameters, Diagnostic>,
    ) -> Result<Tuned, Diagnostic> {
        let info = self.info();
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        let parts = kernel.identity();
        let device = [info.kind, &info.name, &info.arch].map(str::to_string);
        let key: Vec<String> =
            ["tuned".to_string()].into_iter().chain(parts).chain(device).chain([values.join(" ")]).collect();
        let place = self.shared.found.place(key.clone());
        // Whoever asks for the same meanwhile waits for this tuner.
        let mut known = place.lock().unwrap_or_else(PoisonError::into_inner);
        let tuned = |(parameters, made): &(Parameters, Made)| {
            let flags = parameters.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
            Tuned { kernel: kernel.flagged(flags, Arc::clone(made)), parameters: parameters.clone() }
        };
        if let Some(known) = &*known {
            return Ok(tuned(known));
        }
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let keep: Option<Arc<dyn Keep>> = self.shared.keep();
        let kept = keep.as_ref().and_then(|k| k.get(&key)).and_then(|bytes| read(&bytes));
        let parameters = match kept {
            Some(parameters) => parameters,
            None => {
                let parameters = tuner(self)?;
                if let Some((name, _)) = parameters.iter().find(|p| !is_name(&p.0)) {
                    let text = format!("the tuner of `{}` gave a value of `{name}`", kernel.name());
                    return Err(
                        Diagnostic::error(codes::ARGUMENTS, text).help("parameters are names of macros")
                    );
                }
                if let Some(keep) = keep {
                    let lines: String = parameters.iter().map(|(n, v)| format!("{n} {v}\n")).collect();
                    keep.put(&key, lines.as_bytes());
                }
                parameters
            }
        };
        Ok(tuned(known.insert((parameters, Made::default()))))
    }
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// What was kept; none where it is anything else.
fn read(bytes: &[u8]) -> Option<Parameters> {
    let text = std::str::from_utf8(bytes).ok()?;
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        is_name(name).then_some((name.to_string(), value.parse().ok()?))
    };
    text.lines().map(line).collect()
}
