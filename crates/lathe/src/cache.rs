//! A folder of files that can be regenerated, each named by the hash of its inputs.
//!
//! Processes share it without locks: a file is written beside its place and moved there whole. The files hold code that
//! is run, so the folder must be the user's alone; it is opened once, and its files are found in what was opened, never
//! through links. A file says under which key it was written, so that a renamed file is ignored. Damaged files, files
//! of other users, and an unwritable folder count as absent. The folder is kept below a limit; the least recently
//! read files are removed first.

use lathe_system::room::Room;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Where compiled code is kept.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// The folder, opened when it is first used; `None` where it cannot be.
    room: OnceLock<Option<Room>>,
    /// What the user should know.
    notes: Mutex<Vec<String>>,
}

/// Bytes that the folder may take, where `LATHE_CACHE_BYTES` does not say otherwise.
const LIMIT: u64 = 256 << 20;

/// The folder is measured at the first, and then at every so-many-th file that a process adds.
const LOOK: u64 = 32;

/// Files that this process added, to whichever folders.
static ADDED: AtomicU64 = AtomicU64::new(0);

/// The first bytes of each file.
const MAGIC: &[u8] = b"LATHE-2\n";

/// The length of the hash that follows.
const HASH: usize = blake3::OUT_LEN;

/// The folder within the user's that holds the files, and what it says that it is for.
const ROOM: &str = "compiled-2";
const PURPOSE: &str = "Compiled code of Lathe, layout 2: everything here can be removed and is made again";

/// The end of the files' names.
const END: &str = ".bin";

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
        let bytes = std::env::var_os("LATHE_CACHE_BYTES").filter(|v| !v.is_empty());
        let limit = bytes.as_ref().and_then(|v| v.to_str()?.trim().parse().ok());
        let cache = Cache::at(folder, limit.unwrap_or(LIMIT));
        if let (Some(v), None) = (bytes, limit) {
            let v = v.display();
            cache
                .note(format!("LATHE_CACHE_BYTES is `{v}`, which is not a number of bytes: {LIMIT} is used"));
        }
        Some(Arc::new(cache))
    }

    /// A cache in a folder, which is made when something is added.
    pub fn at(folder: impl Into<PathBuf>, limit: u64) -> Cache {
        Cache { folder: folder.into(), limit, room: OnceLock::new(), notes: Mutex::default() }
    }

    /// The folder that the user gave, in which there is one for the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes for the user: why the folder is not used, or a setting has no effect. Each is given once.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().map(|mut n| std::mem::take(&mut *n)).unwrap_or_default()
    }

    fn note(&self, text: String) {
        if let Ok(mut notes) = self.notes.lock() {
            notes.push(text);
        }
    }

    /// The folder, opened; made if something is to be added.
    fn room(&self, make: bool) -> Option<&Room> {
        if let Some(known) = self.room.get() {
            return known.as_ref();
        }
        let path = self.folder.join(ROOM);
        let opened = if make { Room::make(&path, PURPOSE) } else { Room::open(&path, PURPOSE) };
        match opened {
            Ok(room) => self.room.get_or_init(|| Some(room)).as_ref(),
            Err(e) if e.kind() == ErrorKind::NotFound && !make => None,
            Err(e) => {
                // Where it cannot be made (a read-only home), nothing is kept, which is no news.
                if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::AlreadyExists) {
                    self.note(format!("compiled code cannot be cached in `{}`: {e}", path.display()));
                }
                self.room.get_or_init(|| None).as_ref()
            }
        }
    }

    /// What is kept under a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let room = self.room(false)?;
        let name = format!("{key}{END}");
        let all = room.read(&name, self.limit).ok()?;
        let content = Cache::unsealed(key, &all);
        if content.is_none() {
            // Regenerated and rewritten.
            let _ = room.remove(&name);
        }
        content.map(<[u8]>::to_vec)
    }

    /// Keeps a content under a key, if that is possible.
    pub fn put(&self, key: &str, content: &[u8]) {
        let all = Cache::sealed(key, content);
        if all.len() as u64 > self.limit / 4 {
            return;
        }
        let Some(room) = self.room(true) else { return };
        if room.write(&format!("{key}{END}"), &all).is_err() {
            return;
        }
        if ADDED.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK) {
            self.shrink(room);
        }
    }

    /// A content as the file of a key holds it.
    pub fn sealed(key: &str, content: &[u8]) -> Vec<u8> {
        [MAGIC, &seal(key, content), content].concat()
    }

    /// The content of a file that was written under a key.
    pub fn unsealed<'a>(key: &str, file: &'a [u8]) -> Option<&'a [u8]> {
        let (hash, content) = file.strip_prefix(MAGIC)?.split_at_checked(HASH)?;
        (seal(key, content) == hash).then_some(content)
    }

    /// Removes what was not used for longest until a fifth of the limit is free, if the limit is passed.
    fn shrink(&self, room: &Room) {
        let Ok(mut files) = room.list() else { return };
        files.retain(|f| f.name.ends_with(END));
        let mut all: u64 = files.iter().map(|f| f.bytes).sum();
        if all <= self.limit {
            return;
        }
        files.sort_by_key(|f| f.used);
        for f in files {
            if all <= self.limit / 5 * 4 {
                break;
            }
            let _ = room.remove(&f.name);
            all -= f.bytes;
        }
    }
}

/// Binds a content to its key.
fn seal(key: &str, content: &[u8]) -> [u8; HASH] {
    let mut h = blake3::Hasher::new();
    h.update(&(key.len() as u64).to_le_bytes());
    h.update(key.as_bytes());
    h.update(content);
    *h.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_damaged_or_not_ones_own_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let cache = Cache::at(&folder, 1 << 20);
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"content");
        cache.put("empty", b"");
        assert_eq!(cache.get("k").as_deref(), Some(&b"content"[..]));
        assert_eq!(cache.get("empty").as_deref(), Some(&b""[..]));
        let path = folder.join(ROOM).join("k.bin");
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
        allow(&path, 0o666);
        assert_eq!(cache.get("k"), None);
        // A folder that cannot be made.
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let none = Cache::at(file.join("x"), 1 << 20);
        none.put("k", b"content");
        assert_eq!(none.get("k"), None);
        assert!(cache.notes().is_empty() && none.notes().is_empty());
    }

    /// The attacks: an entry copied over another's name, links, a folder that others can write.
    #[test]
    fn entries_are_what_their_names_say_and_the_folder_is_ones_own() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cache");
        let room = folder.join(ROOM);
        let cache = Cache::at(&folder, 1 << 20);
        cache.put("good", b"good");
        cache.put("evil", b"evil");
        std::fs::copy(room.join("evil.bin"), room.join("good.bin")).unwrap();
        assert_eq!(cache.get("good"), None);
        cache.put("good", b"good");
        std::fs::rename(room.join("evil.bin"), dir.path().join("evil.bin")).unwrap();
        symlink(dir.path().join("evil.bin"), room.join("evil.bin")).unwrap();
        assert_eq!(cache.get("evil"), None);
        for mode in [0o777, 0o775] {
            allow(&room, mode);
            let open = Cache::at(&folder, 1 << 20);
            assert_eq!(open.get("good"), None);
            open.put("more", b"more");
            let notes = open.notes();
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(!room.join("more.bin").exists());
        }
        allow(&room, 0o700);
        assert_eq!(Cache::at(&folder, 1 << 20).get("good").as_deref(), Some(&b"good"[..]));
    }

    #[test]
    fn the_limit_is_kept_and_nothing_of_others_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("photo.bin"), vec![1; 200_000]).unwrap();
        let cache = Cache::at(dir.path(), 100_000);
        for i in 0..3 * LOOK {
            cache.put(&format!("k{i}"), &[7; 5_000]);
        }
        cache.put("huge", &[7; 50_000]);
        assert_eq!(cache.get("huge"), None);
        cache.shrink(cache.room(true).unwrap());
        let files = std::fs::read_dir(dir.path().join(ROOM)).unwrap();
        let bytes: u64 = files.map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes > 10_000 && bytes <= 101_000, "{bytes}");
        assert!(dir.path().join("photo.bin").exists());
        // A folder of the room's name that is used for something else.
        let other = tempfile::tempdir().unwrap();
        std::fs::create_dir(other.path().join(ROOM)).unwrap();
        std::fs::write(other.path().join(ROOM).join("photo.bin"), vec![1; 200_000]).unwrap();
        let cache = Cache::at(other.path(), 100_000);
        (0..3 * LOOK).for_each(|i| cache.put(&format!("k{i}"), &[7; 5_000]));
        assert_eq!(std::fs::read_dir(other.path().join(ROOM)).unwrap().count(), 1);
        assert_eq!(cache.notes().len(), 1);
    }
}
