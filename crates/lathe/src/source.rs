//! Reading source text: of regular files, without what is not text.

use lathe_system::files;
use std::io::ErrorKind;
use std::path::Path;

/// The longest source that is read.
pub const LONGEST: u64 = 16 << 20;

/// The text of a file. Pipes and devices, and what is larger than any source, are not read.
///
/// # Errors
/// Why there is no text, for people.
pub fn read(path: &Path) -> Result<String, String> {
    let text = files::read_text(path, LONGEST).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => format!("it has more than {} MiB", LONGEST >> 20),
        _ => e.to_string(),
    })?;
    Ok(without_mark(text))
}

/// The text without a byte order mark, which some editors begin files with.
pub fn without_mark(text: String) -> String {
    match text.strip_prefix(MARK) {
        Some(rest) => rest.to_string(),
        None => text,
    }
}

/// The byte order mark.
pub const MARK: char = '\u{feff}';

/// What files have that use no others: trees, and homomorphisms.
pub(crate) struct Nothing;

impl lathe_lang::Resolver for Nothing {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("`{name}` cannot be used here"))
    }
}
