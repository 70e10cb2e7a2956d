//! The files that one command writes: each another one, and none that it reads.

use crate::Outcome;
use lathe::{Diagnostic, codes};
use std::path::{Path, PathBuf};

/// A file and what it is for, as a message says it: `the output C`.
#[derive(Clone)]
pub struct Used {
    pub path: PathBuf,
    pub what: String,
}

impl Used {
    pub fn new(path: impl AsRef<Path>, what: impl Into<String>) -> Used {
        Used { path: path.as_ref().to_path_buf(), what: what.into() }
    }
}

/// Refuses to write one file twice, where the first content would be lost, and to replace a file that is read.
///
/// # Errors
/// `E0907`, with both uses.
pub fn apart(written: &[Used], read: &[Used]) -> Outcome {
    for (n, w) in written.iter().enumerate() {
        let place = place(&w.path);
        let same = |o: &&Used| self::place(&o.path) == place;
        let text = match (written[..n].iter().find(same), read.iter().find(same)) {
            (Some(o), _) => format!("`{}` cannot be both {} and {}", w.path.display(), o.what, w.what),
            (_, Some(r)) => {
                format!("`{}` is {}: {} would overwrite it", w.path.display(), r.what, w.what)
            }
            _ => continue,
        };
        return Err(Diagnostic::error(codes::OUTPUT, text).help("use a different file").into());
    }
    Ok(())
}

/// So many links are followed, as by the system.
const LINKS: usize = 40;

/// The same for every spelling of a path, whether there is such a file or not: a link to nothing is the file that it
/// names, which another output may make.
fn place(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        if let Ok(p) = path.canonicalize() {
            return p;
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (Ok(folder), Some(name)) = (folder.canonicalize(), path.file_name()) else { break };
        let whole = folder.join(name);
        match whole.read_link() {
            Ok(to) => path = folder.join(to),
            Err(_) => return whole,
        }
    }
    path
}
