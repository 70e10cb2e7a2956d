//! A folder that this user keeps files in and that nobody else can write. It is opened once and stays open; files are
//! found relative to it and never through links, so that whatever happens to names outside, the files are these.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Names its purpose to people and to programs that make backups (<https://bford.info/cachedir/>), and marks the folder
/// as made by us: nothing is ever removed from a folder without it.
const TAG: &str = "CACHEDIR.TAG";
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06e886806bc55\n";

/// The beginning of names of files that are being written.
const UNFINISHED: &str = ".new-";

/// So long a file may be written.
const SETTLED: Duration = Duration::from_secs(3600);

/// A folder of files that can be made again.
#[derive(Debug)]
pub struct Room {
    folder: OwnedFd,
}

/// A file of a private folder.
#[derive(Clone, Debug)]
pub struct Kept {
    pub used: SystemTime,
    pub bytes: u64,
    pub name: String,
}

impl Room {
    /// Opens a private folder for a purpose (one line), and creates it if it does not exist: the folder, those above
    /// it, and its tag.
    ///
    /// # Errors
    /// `PermissionDenied` for a folder that others own or can write; `AlreadyExists` for one that is not tagged for
    /// this purpose; what the system says.
    pub fn make(path: &Path, purpose: &str) -> Result<Room> {
        if let Some(above) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(above)?;
        }
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => return Err(e),
        };
        let room = Room::enter(path)?;
        let tag = format!("{SIGNATURE}# {purpose}\n");
        // Another process may be about to write the tag; an empty folder is nobody's.
        if made || room.is_empty()? {
            room.write(TAG, tag.as_bytes())?;
        }
        room.tagged(&tag).map(|()| room)
    }

    /// Opens an existing one.
    ///
    /// # Errors
    /// As [`Room::make`].
    pub fn open(path: &Path, purpose: &str) -> Result<Room> {
        let room = Room::enter(path)?;
        room.tagged(&format!("{SIGNATURE}# {purpose}\n"))?;
        Ok(room)
    }

    fn enter(path: &Path) -> Result<Room> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        own(&File::from(folder.try_clone()?)).map_err(|e| Error::new(e.kind(), format!("the folder {e}")))?;
        Ok(Room { folder })
    }

    fn tagged(&self, tag: &str) -> Result<()> {
        match self.read(TAG, 1000) {
            Ok(text) if text == tag.as_bytes() => Ok(()),
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::FileTooLarge) => Err(e),
            _ => Err(Error::new(ErrorKind::AlreadyExists, "the folder is used for something else")),
        }
    }

    fn is_empty(&self) -> Result<bool> {
        let nothing = |name: &[u8]| matches!(name, b"." | b"..") || name.starts_with(UNFINISHED.as_bytes());
        Ok(Dir::read_from(&self.folder)?.flatten().all(|e| nothing(e.file_name().to_bytes())))
    }

    /// The content of a file of at most `limit` bytes; marks it as used now.
    ///
    /// # Errors
    /// `PermissionDenied` for a file that others own or can write, `InvalidInput` for what is not a regular file;
    /// what the system says.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.folder, name, flags, Mode::empty())?);
        crate::files::regular(&file)?;
        own(&file)?;
        let bytes = crate::files::contents(&file, limit)?;
        let _ = file.set_modified(SystemTime::now());
        Ok(bytes)
    }

    /// Writes a file: whole, or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let new = format!("{UNFINISHED}{:016x}", RandomState::new().hash_one(std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let done = file
            .write_all(bytes)
            .and_then(|()| Ok(rustix::fs::renameat(&self.folder, &new, &self.folder, name)?));
        if done.is_err() {
            let _ = self.remove(&new);
        }
        done
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// Its files, without the tag. What a process left that was killed while it wrote is removed.
    ///
    /// # Errors
    /// What the system says.
    pub fn list(&self) -> Result<Vec<Kept>> {
        let mut out = Vec::new();
        for e in Dir::read_from(&self.folder)? {
            let e = e?;
            let Ok(name) = e.file_name().to_str() else { continue };
            let Ok(s) = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(s.st_mode) != FileType::RegularFile || name == TAG {
                continue;
            }
            let used =
                SystemTime::UNIX_EPOCH + Duration::new(s.st_mtime.max(0) as u64, s.st_mtime_nsec as u32);
            if name.starts_with(UNFINISHED) {
                if used.elapsed().is_ok_and(|t| t > SETTLED) {
                    let _ = self.remove(name);
                }
                continue;
            }
            out.push(Kept { used, bytes: s.st_size.max(0) as u64, name: name.to_string() });
        }
        Ok(out)
    }
}

/// Whether an open file or folder belongs to this user, and nobody else may write it.
fn own(file: &File) -> Result<()> {
    let m = file.metadata()?;
    let me = rustix::process::geteuid().as_raw();
    let why = match (m.uid() == me, m.mode() & 0o022 == 0) {
        (true, true) => return Ok(()),
        (false, _) => "belongs to another user",
        (true, false) => "can be written by other users",
    };
    Err(Error::new(ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const PURPOSE: &str = "a test";

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_are_kept_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(Room::open(&path, PURPOSE).is_err());
        let room = Room::make(&path, PURPOSE).unwrap();
        room.write("x", b"one").unwrap();
        room.write("x", b"two").unwrap();
        let again = Room::open(&path, PURPOSE).unwrap();
        assert_eq!(again.read("x", 3).unwrap(), b"two");
        assert_eq!(again.read("x", 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let all = again.list().unwrap();
        assert_eq!(all.iter().map(|k| (k.name.as_str(), k.bytes)).collect::<Vec<_>>(), [("x", 3)]);
        again.remove("x").unwrap();
        assert_eq!(room.read("x", 3).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn links_pipes_and_what_others_can_write_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("room");
        let room = Room::make(&path, PURPOSE).unwrap();
        room.write("x", b"one").unwrap();
        symlink(path.join("x"), path.join("link")).unwrap();
        let pipe = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(&room.folder, "pipe", FileType::Fifo, pipe, 0).unwrap();
        std::fs::create_dir(path.join("folder")).unwrap();
        for wrong in ["link", "pipe", "folder"] {
            assert!(room.read(wrong, 100).is_err(), "{wrong}");
        }
        assert_eq!(room.list().unwrap().len(), 1);
        allow(&path.join("x"), 0o666);
        assert_eq!(room.read("x", 100).unwrap_err().kind(), ErrorKind::PermissionDenied);
        for mode in [0o777, 0o770, 0o1777] {
            allow(&path, mode);
            assert_eq!(Room::open(&path, PURPOSE).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_folder_that_is_used_for_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("photo.bin"), "x").unwrap();
        assert_eq!(Room::make(dir.path(), PURPOSE).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let path = dir.path().join("other");
        Room::make(&path, "another").unwrap();
        assert_eq!(Room::make(&path, PURPOSE).unwrap_err().kind(), ErrorKind::AlreadyExists);
        // A room is the folder that was opened, whatever its name leads to later.
        let room = Room::make(&dir.path().join("room"), PURPOSE).unwrap();
        room.write("x", b"one").unwrap();
        std::fs::rename(dir.path().join("room"), dir.path().join("moved")).unwrap();
        std::fs::create_dir(dir.path().join("room")).unwrap();
        assert_eq!(room.read("x", 3).unwrap(), b"one");
    }
}
