//! What a call needs to know of a kernel.

use lathe_ir::{Function, Mode};

/// What a call needs to know of a kernel besides its code.
pub(crate) struct Signature {
    pub function: Function,
    /// Which parameters the kernel writes.
    pub written: Vec<bool>,
}

impl Signature {
    pub fn of(function: &Function) -> Signature {
        let written = function.params.iter().map(|p| p.mode != Mode::In).collect();
        Signature { function: function.clone(), written }
    }

    /// The name of a parameter, for messages.
    pub fn param(&self, at: usize) -> String {
        self.function.params.get(at).map_or_else(|| format!("#{at}"), |p| p.name().to_string())
    }
}
