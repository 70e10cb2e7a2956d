//! The program's folder, copied for its runs, and made as it was before the next configuration.

use lathe_system::folder;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{DirBuilder, Metadata};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// So much is copied at most, the folder's own files before those of folders below. What is beyond it is only linked:
/// large inputs, that programs read.
const BYTES: u64 = 64 << 20;
const ENTRIES: usize = 4096;

/// Folders of version control are linked: what they hold is none of the program's.
const LINKED: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// How a file was when it was copied or linked: any change of it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    inode: u64,
    changed: (i64, i64),
    link: bool,
}

/// A copy of a folder.
#[derive(Debug)]
pub(super) struct Copies {
    from: PathBuf,
    to: PathBuf,
    files: BTreeMap<PathBuf, State>,
    folders: BTreeSet<PathBuf>,
}

impl Copies {
    /// Copies a folder, except for what will be rewritten there: `own`, relative paths.
    pub fn new(from: &Path, to: &Path, own: &[&Path]) -> Result<Copies> {
        let mut copies = Copies {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
        };
        let (mut bytes, mut entries) = (BYTES, ENTRIES);
        let mut open = VecDeque::from([PathBuf::new()]);
        while let Some(inside) = open.pop_front() {
            let mut names: Vec<PathBuf> = Vec::new();
            for e in std::fs::read_dir(from.join(&inside))? {
                names.push(inside.join(e?.file_name()));
            }
            names.sort();
            for name in names.into_iter().filter(|n| !own.contains(&n.as_path())) {
                let source = from.join(&name);
                // Through links: a copy of what they lead to cannot change it.
                let Ok(m) = source.metadata() else { continue };
                // The folder for temporary files may be in here.
                if to.starts_with(&source) || folder::is_ours(&source) {
                    continue;
                }
                let linked = name.file_name().is_some_and(|n| LINKED.iter().any(|l| n == *l));
                let copied = entries > 0 && !linked;
                // Where something is rewritten, folders are real ones.
                let needed = own.iter().any(|o| o.starts_with(&name));
                let link = source.symlink_metadata().is_ok_and(|m| m.is_symlink());
                entries = entries.saturating_sub(1);
                if m.is_dir() && (needed || (copied && !link)) {
                    DirBuilder::new().mode(0o700).create(to.join(&name))?;
                    copies.folders.insert(name.clone());
                    open.push_back(name);
                } else if m.is_dir() || (m.is_file() && !(copied && m.len() <= bytes)) {
                    symlink(&source, to.join(&name))?;
                    copies.note(name)?;
                } else if m.is_file() {
                    bytes -= m.len();
                    std::fs::copy(&source, to.join(&name))?;
                    copies.note(name)?;
                }
            }
        }
        Ok(copies)
    }

    fn note(&mut self, name: PathBuf) -> Result<()> {
        let state = state(&self.to.join(&name).symlink_metadata()?);
        self.files.insert(name, state);
        Ok(())
    }

    /// Removes what programs added, and copies again what they changed or removed.
    pub fn restore(&mut self) -> Result<()> {
        let mut same = BTreeSet::new();
        self.clean(Path::new(""), &mut same)?;
        for f in &self.folders {
            if !self.to.join(f).is_dir() {
                DirBuilder::new().mode(0o700).create(self.to.join(f))?;
            }
        }
        let changed = self.files.iter().filter(|f| !same.contains(f.0));
        for (name, old) in changed.map(|(n, s)| (n.clone(), *s)).collect::<Vec<_>>() {
            let (source, copy) = (self.from.join(&name), self.to.join(&name));
            let done = if old.link { symlink(source, copy) } else { std::fs::copy(source, copy).map(drop) };
            // What cannot be read any more is not there any more.
            match done {
                Ok(()) => self.note(name)?,
                Err(_) => _ = self.files.remove(&name),
            }
        }
        Ok(())
    }

    fn clean(&self, inside: &Path, same: &mut BTreeSet<PathBuf>) -> Result<()> {
        for e in std::fs::read_dir(self.to.join(inside))? {
            let e = e?;
            let (name, path) = (inside.join(e.file_name()), e.path());
            let m = path.symlink_metadata()?;
            if m.is_dir() {
                if self.folders.contains(&name) {
                    self.clean(&name, same)?;
                } else {
                    folder::remove(&path)?;
                }
                continue;
            }
            match self.files.get_key_value(&name) {
                Some((_, old)) if *old == state(&m) => _ = same.insert(name),
                _ => std::fs::remove_file(&path)?,
            }
        }
        Ok(())
    }
}

fn state(m: &Metadata) -> State {
    State { inode: m.ino(), changed: (m.ctime(), m.ctime_nsec()), link: m.is_symlink() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn all(folder: &Path) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for e in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if e.is_dir() && !e.is_symlink() {
                out.push((e.display().to_string(), String::new()));
                out.extend(all(&e));
            } else {
                let text = std::fs::read(&e).unwrap_or_default();
                out.push((e.display().to_string(), String::from_utf8_lossy(&text).into_owned()));
            }
        }
        out.sort();
        out
    }

    #[test]
    fn whatever_a_program_does_the_next_one_sees_the_folder_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for d in ["a/b", "out", ".git"] {
            std::fs::create_dir_all(from.join(d)).unwrap();
        }
        std::fs::create_dir(&to).unwrap();
        for (f, text) in [("x", "1"), ("a/y", "2"), ("a/b/z", "3"), ("out/old", "4"), (".git/HEAD", "5")] {
            std::fs::write(from.join(f), text).unwrap();
        }
        symlink("../x", from.join("a/link")).unwrap();
        std::fs::set_permissions(from.join("x"), PermissionsExt::from_mode(0o444)).unwrap();
        let before = all(&from);
        let mut copies = Copies::new(&from, &to, &[Path::new("out/old"), Path::new("none")]).unwrap();
        let first = all(&to);
        let names: Vec<&str> = first.iter().map(|f| f.0.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, [".git", "a", "b", "z", "link", "y", "out", "x"], "{first:?}");
        std::fs::write(to.join("new"), "").unwrap();
        std::fs::create_dir(to.join("made")).unwrap();
        std::fs::write(to.join("made/file"), "").unwrap();
        std::fs::write(to.join("a/y"), "changed").unwrap();
        std::fs::write(to.join("a/link"), "changed").unwrap();
        std::fs::remove_dir_all(to.join("a/b")).unwrap();
        std::fs::remove_file(to.join("x")).unwrap();
        symlink("/", to.join("x")).unwrap();
        std::fs::remove_dir_all(to.join("out")).unwrap();
        std::fs::write(to.join("out"), "").unwrap();
        copies.restore().unwrap();
        assert_eq!(all(&to), first);
        assert_eq!(all(&from), before);
    }

    #[test]
    fn what_is_large_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(from.join("deep")).unwrap();
        std::fs::create_dir(&to).unwrap();
        let large = std::fs::File::create(from.join("data")).unwrap();
        large.set_len(BYTES + 1).unwrap();
        std::fs::write(from.join("small"), "s").unwrap();
        std::fs::write(from.join("deep/small"), "s").unwrap();
        let mut copies = Copies::new(&from, &to, &[]).unwrap();
        assert!(to.join("data").is_symlink());
        assert!(!to.join("small").is_symlink() && !to.join("deep/small").is_symlink());
        std::fs::remove_file(to.join("data")).unwrap();
        copies.restore().unwrap();
        assert!(to.join("data").is_symlink());
    }

    #[test]
    fn a_folder_is_not_copied_into_itself() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().canonicalize().unwrap();
        let scratch = folder::Folder::new_in(&from, "test").unwrap();
        let other = folder::Folder::new_in(&from, "test").unwrap();
        let to = scratch.path().join("work");
        std::fs::create_dir(&to).unwrap();
        std::fs::write(from.join("x"), "").unwrap();
        Copies::new(&from, &to, &[]).unwrap();
        let names: Vec<_> = std::fs::read_dir(&to).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["x"]);
        drop(other);
    }
}
