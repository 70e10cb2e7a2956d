//! Lowering that all engines share: addresses of elements, and the meaning of loops
//! whose lanes combine in order.

pub mod address;
pub mod inscan;
pub mod recurrence;

pub use address::{Laid, Storage, laid, part, physical, resolve, storage};
pub use inscan::InScan;
pub use recurrence::Recurrence;

use lathe_diagnostics::Places;

/// Whether the lanes of a loop may combine in order.
///
/// # Errors
/// Why they may not.
pub fn in_order(l: &crate::stmt::Loop, width: u32) -> Result<(), &'static str> {
    // A loop that stores only has no running value.
    match Recurrence::parts(l) {
        Some(_) => Recurrence::of(l, width).map(|_| ()),
        None => InScan::of(l, width).map(|_| ()),
    }
}

/// A construct that no CPU engine supports; engines turn it into their own diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// E.g. "the distributed layout of `A`".
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
