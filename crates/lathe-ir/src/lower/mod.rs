//! What every engine decides alike when it turns a function into code: where an element lies in memory, and what loops
//! whose lanes combine in order mean.

pub mod address;
pub mod inscan;

pub use address::{Storage, physical, resolve, storage};
pub use inscan::InScan;

use lathe_diagnostics::Places;

/// A construct that no engine for CPUs takes; engines turn it into their own diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// E.g. "a swizzled layout of `A`".
    pub construct: String,
    pub help: Option<String>,
    pub places: Places,
}

impl Unsupported {
    pub fn new(construct: impl Into<String>) -> Unsupported {
        Unsupported { construct: construct.into(), help: None, places: Places::none() }
    }

    pub fn help(mut self, text: impl Into<String>) -> Unsupported {
        self.help = Some(text.into());
        self
    }

    pub fn at(mut self, places: &Places) -> Unsupported {
        self.places = places.clone();
        self
    }
}
