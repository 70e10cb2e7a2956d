//! A folder of files that can be made again, each under the hash of all that it was made of.
//!
//! Processes share it without locks: a file is written beside its place and moved there whole. What is damaged, of
//! another user, or cannot be written counts as not there. The folder is kept below a limit; what was not read for
//! longest goes first.

use lathe_measure::store::hash_of_bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Where compiled code is kept.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Files that this process added.
    added: AtomicU64,
}

/// Bytes that the folder may take, where `LATHE_CACHE_BYTES` does not say otherwise.
const LIMIT: u64 = 256 << 20;

/// The folder is measured at the first, and then at every so-many-th file that a process adds.
const LOOK: u64 = 32;

/// The first bytes of each file.
const MAGIC: &[u8] = b"LATHE-1\n";

/// The length of the hash that follows.
const HASH: usize = 32;

impl Cache {
    /// The user's cache: the folder `LATHE_CACHE`, else `lathe` in `XDG_CACHE_HOME` or in `~/.cache`. `None` where
    /// there is no such folder to be found, or `LATHE_CACHE` is empty.
    pub fn user() -> Option<Arc<Cache>> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let filled = |name: &str| set(name).filter(|v| !v.as_os_str().is_empty());
        let folder = match set("LATHE_CACHE") {
            Some(f) if f.as_os_str().is_empty() => return None,
            Some(f) => f,
            // A relative XDG_CACHE_HOME is to be ignored (XDG base directory specification).
            None => filled("XDG_CACHE_HOME")
                .filter(|p| p.is_absolute())
                .or_else(|| Some(filled("HOME")?.join(".cache")))?
                .join("lathe"),
        };
        let limit = std::env::var("LATHE_CACHE_BYTES").ok().and_then(|v| v.parse().ok());
        Some(Arc::new(Cache::at(folder, limit.unwrap_or(LIMIT))))
    }

    /// A cache in a folder, which is made when something is added.
    pub fn at(folder: impl Into<PathBuf>, limit: u64) -> Cache {
        Cache { folder: folder.into(), limit, added: AtomicU64::new(0) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.bin"))
    }

    /// What is kept under a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        let file = std::fs::File::open(&path).ok()?;
        // Code is run, so nobody else may have written it.
        if !own(&file.metadata().ok()?) {
            return None;
        }
        let all = std::fs::read(&path).ok()?;
        let rest = all.strip_prefix(MAGIC)?;
        let (hash, content) = rest.split_at_checked(HASH)?;
        if hash_of_bytes(content).as_bytes() != hash {
            // Made again, and written anew.
            let _ = std::fs::remove_file(&path);
            return None;
        }
        // The time of the last use, by which old files are found.
        let _ = file.set_modified(SystemTime::now());
        Some(content.to_vec())
    }

    /// Keeps a content under a key, if that is possible.
    pub fn put(&self, key: &str, content: &[u8]) {
        let mut all = MAGIC.to_vec();
        all.extend(hash_of_bytes(content).bytes());
        all.extend(content);
        if all.len() as u64 > self.limit / 4 || self.write(key, &all).is_err() {
            return;
        }
        if self.added.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK) {
            self.shrink();
        }
    }

    fn write(&self, key: &str, all: &[u8]) -> std::io::Result<()> {
        use std::io::Write;
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&self.folder)?;
        if !own(&self.folder.metadata()?) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(all)?;
        file.persist(self.path(key)).map_err(|e| e.error)?;
        Ok(())
    }

    /// Removes what was not used for longest until a fifth of the limit is free, if the limit is passed; and what a
    /// process left that was ended while it wrote.
    fn shrink(&self) {
        let Ok(read) = std::fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for e in read.filter_map(Result::ok) {
            let path = e.path();
            let Ok(m) = e.metadata() else { continue };
            let at = m.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let name = e.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(".new-") {
                let old = at.elapsed().is_ok_and(|t| t > Duration::from_secs(3600));
                if old {
                    let _ = std::fs::remove_file(&path);
                }
            } else if name.ends_with(".bin") {
                files.push((at, m.len(), path));
            }
        }
        let mut all: u64 = files.iter().map(|f| f.1).sum();
        if all <= self.limit {
            return;
        }
        files.sort();
        for (_, bytes, path) in files {
            if all <= self.limit / 5 * 4 {
                break;
            }
            let _ = std::fs::remove_file(path);
            all -= bytes;
        }
    }
}

/// Whether something belongs to this user, and nobody else may write it.
#[cfg(unix)]
fn own(m: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    // What a process makes belongs to the user that it runs as.
    let me = std::fs::metadata("/proc/self").map(|m| m.uid());
    m.mode() & 0o022 == 0 && me.is_ok_and(|uid| uid == m.uid())
}

#[cfg(not(unix))]
fn own(_: &std::fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_or_not_ones_own_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("a/b"), 1 << 20);
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"content");
        cache.put("empty", b"");
        assert_eq!(cache.get("k").as_deref(), Some(&b"content"[..]));
        assert_eq!(cache.get("empty").as_deref(), Some(&b""[..]));
        let path = cache.path("k");
        let whole = std::fs::read(&path).unwrap();
        for n in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get("k"), None, "byte {n}");
            std::fs::write(&path, &whole[..n]).unwrap();
            assert_eq!(cache.get("k"), None, "cut at {n}");
        }
        cache.put("k", b"again");
        assert_eq!(cache.get("k").as_deref(), Some(&b"again"[..]));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
            assert_eq!(cache.get("k"), None);
        }
        // A folder that cannot be made.
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let none = Cache::at(file.join("x"), 1 << 20);
        none.put("k", b"content");
        assert_eq!(none.get("k"), None);
    }

    #[test]
    fn the_limit_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path(), 100_000);
        for i in 0..3 * LOOK {
            cache.put(&format!("k{i}"), &[7; 5_000]);
        }
        cache.put("huge", &[7; 50_000]);
        assert_eq!(cache.get("huge"), None);
        cache.shrink();
        let bytes: u64 =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes > 10_000 && bytes <= 100_000, "{bytes}");
    }
}
