//! System models by name or from a file.

use lathe_diagnostics::Diagnostic;
use lathe_mdh::{Model, codes};
use std::path::Path;

/// A model that comes with Lathe, or the one in a file; a relative path begins at `folder`.
///
/// # Errors
/// `E1202` where there is neither, and what is wrong with the file.
pub fn load(name: &str, folder: &Path) -> Result<Model, Diagnostic> {
    if Model::shipped().any(|n| n == name) {
        return Model::named(name);
    }
    let path = folder.join(name);
    if !(name.ends_with(".json") || name.contains('/') || path.is_file()) {
        return Model::named(name);
    }
    let text = crate::source::read(&path).map_err(|e| {
        Diagnostic::error(codes::MODEL, format!("cannot read the system model `{}`: {e}", path.display()))
    })?;
    Model::parse(&text).map_err(|d| d.note(format!("in {}", path.display())))
}
