//! Diagnostics on standard error, with the source they point at.

use lathe::{Diagnostic, Severity, SourceMap};

/// Prints each diagnostic; returns how many were errors. Coloured if standard error is a terminal and `NO_COLOR` is not
/// set.
pub fn print(map: &SourceMap, diagnostics: &[Diagnostic]) -> usize {
    let colours =
        std::env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    for d in diagnostics {
        crate::say::coloured(&lathe::render::to_text(map, d, colours));
    }
    diagnostics.iter().filter(|d| d.severity == Severity::Error).count()
}
