//! Files of the benchmark hub, which come packed by gzip.

use flate2::read::MultiGzDecoder;
use lathe_diagnostics::Diagnostic;
use lathe_system::files;
use std::path::Path;

/// The first bytes of what gzip has packed.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The content of a file, unpacked if it is packed.
///
/// # Errors
/// `E0901` if it cannot be read, or has more than a gibibyte, packed or not.
pub fn read(file: &Path) -> Result<Vec<u8>, Diagnostic> {
    let failed = |e: std::io::Error| {
        Diagnostic::error(crate::codes::NO_FILE, format!("cannot read `{}`: {e}", file.display()))
    };
    files::read(file, files::DATA).and_then(|bytes| unpacked(bytes, files::DATA)).map_err(failed)
}

/// Bytes, unpacked if they are packed.
///
/// # Errors
/// What is wrong with the packing; `FileTooLarge` for more than `limit` bytes.
pub fn unpacked(bytes: Vec<u8>, limit: u64) -> std::io::Result<Vec<u8>> {
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes);
    }
    files::contents(MultiGzDecoder::new(bytes.as_slice()), limit)
}

/// As `read`, for text.
///
/// # Errors
/// `E0901` also for what is not UTF-8.
pub fn read_text(file: &Path) -> Result<String, Diagnostic> {
    String::from_utf8(read(file)?).map_err(|e| {
        let text = format!(
            "cannot read `{}`: it is not UTF-8 text (byte {})",
            file.display(),
            e.utf8_error().valid_up_to()
        );
        Diagnostic::error(crate::codes::NO_FILE, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn packed_or_not_and_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json.gz");
        let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        pack.write_all(b"{\"results\": []}").unwrap();
        let packed = pack.finish().unwrap();
        for content in [&packed[..], b"{\"results\": []}"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read_text(&path).unwrap(), "{\"results\": []}");
        }
        std::fs::write(&path, &packed[..packed.len() - 9]).unwrap();
        assert_eq!(read(&path).unwrap_err().code, crate::codes::NO_FILE);
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().code, crate::codes::NO_FILE);
    }
}
