//! Reading source text: of any file that ends, without what is no text.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest source that is read.
pub const LONGEST: u64 = 16 << 20;

/// The text of a file. What has no end, or is larger than any source, is not read to its end.
///
/// # Errors
/// Why there is no text, for people.
pub fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it has more than {} MiB", LONGEST >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|e| e.utf8_error().to_string())?;
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
