//! What the command prints: results on standard output, everything else on standard error.
//!
//! Names, source, and what stores hold come from files of others: control characters in them are shown, not sent. A
//! reader who closes either output wants no more of it, which is not a failure of this command.

use crate::Outcome;
use lathe::{Diagnostic, codes, is_obeyed, visible};
use std::io::{ErrorKind, IsTerminal, Write};

/// A line on standard error, written like `println!`.
macro_rules! note {
    ($($part:tt)*) => { $crate::say::line(&format!($($part)*)) };
}
pub(crate) use note;

/// A line on standard error.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
}

/// A text on standard error that may change colours.
pub fn coloured(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A text for people on standard output.
pub fn text(text: &str) -> Outcome {
    write(visible(text).as_bytes())
}

/// One JSON value on standard output.
pub fn json(value: &impl serde::Serialize) -> Outcome {
    match serde_json::to_string_pretty(value) {
        Ok(text) => {
            // JSON has a form of its own for what a terminal would obey.
            let mut out = String::with_capacity(text.len() + 1);
            for c in text.chars() {
                match is_obeyed(c) {
                    true => out += &format!("\\u{:04x}", c as u32),
                    false => out.push(c),
                }
            }
            out.push('\n');
            write(out.as_bytes())
        }
        Err(e) => Err(Diagnostic::error(codes::OUTPUT, format!("cannot print JSON: {e}")).into()),
    }
}

/// Something for other programs on standard output, as it is; on a terminal it is a text for people.
pub fn data(bytes: &[u8]) -> Outcome {
    match std::str::from_utf8(bytes) {
        Ok(shown) if std::io::stdout().is_terminal() => text(shown),
        _ => write(bytes),
    }
}

/// A closed pipe is the reader's choice (`lathe explain … | head`); any other failure is one of this command.
fn write(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(codes::OUTPUT, format!("cannot write to standard output: {e}")).into())
        }
        _ => Ok(()),
    }
}
