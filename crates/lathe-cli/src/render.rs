//! Diagnostics on standard error, with the source they point at.

use crate::say;
use lathe::{Diagnostic, Severity, SourceMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Errors that a command prints; of more, how many there are. `--json` has them all.
const MOST: usize = 20;

/// Errors that this command printed, and those that it did not.
static PRINTED: AtomicUsize = AtomicUsize::new(0);
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

/// Whether all are printed.
static ALL: AtomicBool = AtomicBool::new(false);

/// Prints every diagnostic from here on, for programs that read them.
pub fn print_all() {
    ALL.store(true, Ordering::Relaxed);
}

/// Prints each diagnostic, up to [`MOST`] errors of a command and as many warnings of each call; returns how many were
/// errors. Coloured if standard error is a terminal and `NO_COLOR` is not set.
pub fn print(map: &SourceMap, diagnostics: &[Diagnostic]) -> usize {
    let colours =
        std::env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let (mut errors, mut others) = (0, 0);
    let most = if ALL.load(Ordering::Relaxed) { usize::MAX } else { MOST };
    for d in diagnostics {
        let room = if d.severity == Severity::Error {
            errors += 1;
            let room = PRINTED.load(Ordering::Relaxed) < most;
            if room { &PRINTED } else { &LEFT_OUT }.fetch_add(1, Ordering::Relaxed);
            room
        } else {
            others += 1;
            others <= most
        };
        if room {
            say::coloured(&lathe::render::to_text(map, d, colours));
        }
    }
    match others.saturating_sub(most) {
        0 => {}
        1 => say::note!("1 more warning"),
        n => say::note!("{n} more warnings"),
    }
    errors
}

/// Says at the end of a command how many errors were not printed.
pub fn left_out() {
    match LEFT_OUT.load(Ordering::Relaxed) {
        0 => {}
        1 => say::note!("1 more error"),
        n => say::note!("{n} more errors"),
    }
}
