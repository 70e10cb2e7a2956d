//! Temporary folders that only this user can enter, from their creation on.
//!
//! A folder is made and locked under a hidden name and then renamed, so that a visible one has a process that owns it:
//! the one that holds the lock on its file `.owner`. The system drops that lock however the process ends, so whatever
//! can be locked belongs to nobody any more, and the next process removes it.

use std::fs::{DirBuilder, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// Holds the lock that says that a folder is in use.
const OWNER: &str = ".owner";

/// The beginning of the names of all our folders, and of those that are not finished.
const PREFIX: &str = "lathe-";
const UNFINISHED: &str = ".lathe-";

/// So long a folder may take from its creation to its lock.
const SETTLED: Duration = Duration::from_secs(3600);

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _owner: File,
}

impl Folder {
    /// A new folder in the system's place for temporary files. Its path is absolute. `kind` becomes a part of its name.
    /// The first one of a process also removes what killed processes left.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` where others could exchange the folder.
    pub fn new(kind: &str) -> Result<Folder> {
        let parent = std::env::temp_dir();
        let named = |e: Error| Error::new(e.kind(), format!("`{}`: {e}", parent.display()));
        // A relative one (TMPDIR=-x) would look like an option in a command line.
        let parent = parent.canonicalize().map_err(named)?;
        static COLLECTED: Once = Once::new();
        let folder = Folder::new_in(&parent, kind)?;
        COLLECTED.call_once(|| collect(&parent));
        Ok(folder)
    }

    /// As [`Folder::new`], in a folder of the caller's choice, an absolute path without links.
    ///
    /// # Errors
    /// As [`Folder::new`].
    pub fn new_in(parent: &Path, kind: &str) -> Result<Folder> {
        trusted(parent)?;
        for _ in 0..100 {
            let word = RandomState::new().hash_one(std::process::id());
            let hidden = parent.join(format!("{UNFINISHED}{kind}-{word:016x}"));
            match DirBuilder::new().mode(0o700).create(&hidden) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
            // A mask may have taken rights from the owner; it gives none to others.
            std::fs::set_permissions(&hidden, Permissions::from_mode(0o700))?;
            let owner = File::create_new(hidden.join(OWNER))?;
            owner.lock()?;
            let path = parent.join(format!("{PREFIX}{kind}-{word:016x}"));
            std::fs::rename(&hidden, &path)?;
            return Ok(Folder { path, _owner: owner });
        }
        Err(Error::new(ErrorKind::AlreadyExists, "no unused name for a temporary folder was found"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is collected by a later process.
        let _ = remove(&self.path);
    }
}

/// Removes a folder with all that is in it, also where programs took themselves the right to change folders.
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> Result<()> {
    if std::fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    open_up(path);
    std::fs::remove_dir_all(path)
}

fn open_up(path: &Path) {
    let Ok(m) = path.symlink_metadata() else { return };
    if !m.is_dir() {
        return;
    }
    let _ = std::fs::set_permissions(path, Permissions::from_mode(m.mode() | 0o700));
    for e in std::fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&e.path());
    }
}

/// Whether a folder is one of these temporary ones.
pub fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    (name.starts_with(PREFIX) || name.starts_with(UNFINISHED)) && path.join(OWNER).is_file()
}

/// Removes the folders of this user that no process owns any more.
pub fn collect(parent: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for e in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = e.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(m) = e.metadata() else { continue };
        if !m.is_dir() || m.uid() != me {
            continue;
        }
        let path = e.path();
        if name.starts_with(UNFINISHED) {
            let settled = m.modified().is_ok_and(|t| t.elapsed().is_ok_and(|t| t > SETTLED));
            if settled && path.join(OWNER).exists() {
                let _ = remove(&path);
            }
        } else if name.starts_with(PREFIX)
            && let Ok(owner) = crate::files::open_no_link(&path.join(OWNER))
            && owner.try_lock().is_ok()
        {
            let _ = remove(&path);
        }
    }
}

/// Whether nobody but this user and the system's administrator can exchange what lies in a folder: the folder and all
/// above belong to one of the two, and others may not write there, or only what is their own (`/tmp`).
///
/// # Errors
/// `PermissionDenied` with the folder that others can write; what the system says.
pub fn trusted(folder: &Path) -> Result<()> {
    const STICKY: u32 = 0o1000;
    let me = rustix::process::geteuid().as_raw();
    for f in folder.ancestors() {
        let m = f.metadata()?;
        let ours = m.uid() == me || m.uid() == 0;
        let closed = m.mode() & 0o022 == 0 || m.mode() & STICKY != 0;
        if !(ours && closed) {
            let text = format!("other users can write to `{}`", f.display());
            return Err(Error::new(ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn a_folder_is_private_and_ends_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new_in(dir.path(), "test").unwrap();
        assert_eq!(mode(folder.path()), 0o700);
        collect(dir.path());
        assert!(folder.path().exists(), "it is in use");
        let path = folder.path().to_path_buf();
        std::fs::create_dir(path.join("a")).unwrap();
        std::fs::write(path.join("a/b"), "").unwrap();
        std::fs::set_permissions(path.join("a"), Permissions::from_mode(0o500)).unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_nobody_owns_is_collected_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new_in(dir.path(), "test").unwrap();
        let path = folder.path().to_path_buf();
        let Folder { _owner, .. } = &folder;
        _owner.unlock().unwrap();
        std::mem::forget(folder);
        // Others may call their folders as they like.
        for foreign in ["lathe-notes", "lathe-tune-1"] {
            std::fs::create_dir(dir.path().join(foreign)).unwrap();
        }
        std::os::unix::fs::symlink("/", dir.path().join("lathe-link")).unwrap();
        collect(dir.path());
        assert!(!path.exists());
        assert!(dir.path().join("lathe-notes").exists() && dir.path().join("lathe-tune-1").exists());
    }

    #[test]
    fn a_place_where_others_can_exchange_folders_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        for (mode, fine) in [(0o777, false), (0o770, false), (0o1777, true), (0o755, true)] {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            for f in [dir.path(), inner.as_path()] {
                assert_eq!(Folder::new_in(f, "test").is_ok(), fine, "{mode:o} {f:?}");
            }
        }
    }
}
