//! Reading files that may be anything: devices, pipes and endless files are refused, never waited for.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// A source text, a form, a model: what people write.
pub const TEXT: u64 = 64 << 20;

/// Results that programs write for one another.
pub const DATA: u64 = 1 << 30;

/// Opens a regular file. A pipe without a writer does not make this wait, and a device is not touched beyond that.
///
/// # Errors
/// What the system says; `InvalidInput` for what is not a regular file.
pub fn open(path: &Path) -> Result<File> {
    opened(path, OFlags::empty())
}

/// As [`open`], but the last part of the path must not be a link.
///
/// # Errors
/// As [`open`].
pub fn open_no_link(path: &Path) -> Result<File> {
    opened(path, OFlags::NOFOLLOW)
}

fn opened(path: &Path, more: OFlags) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    regular(&file)?;
    Ok(file)
}

pub(crate) fn regular(file: &File) -> Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() { "it is a folder" } else { "it is not a regular file" };
    Err(Error::new(ErrorKind::InvalidInput, what))
}

/// The content of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; `FileTooLarge` beyond the limit.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    contents(open(path)?, limit)
}

/// As [`read`], for UTF-8.
///
/// # Errors
/// As [`read`]; `InvalidData` for what is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let bytes = read(path, limit)?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 text (byte {at})"))
    })
}

/// What an open file, or any stream, still holds, up to a limit.
///
/// # Errors
/// What the system says; `FileTooLarge` beyond the limit.
pub fn contents(mut from: impl Read, limit: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    // A file may grow while it is read, so its length says nothing.
    from.by_ref().take(limit.saturating_add(1)).read_to_end(&mut out)?;
    if out.len() as u64 > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_length_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "text");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        // Nobody ever writes to it.
        for wrong in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            assert_eq!(read(wrong, 100).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong:?}");
        }
        assert_eq!(read(&dir.path().join("none"), 1).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path, [b'a', 0xff]).unwrap();
        assert_eq!(read_text(&path, 9).unwrap_err().kind(), ErrorKind::InvalidData);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open(&link).is_ok() && open_no_link(&link).is_err());
    }
}
