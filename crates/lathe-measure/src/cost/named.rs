//! The files that decide what a program does, beside its source and scripts: those that these name.

use lathe_system::files;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// So much of a file is looked through for names of others.
const SEARCHED: usize = 1 << 20;

/// Hashes of the files of a folder whose names are in the texts, or in files that are named there, each after its
/// name. `written` are the program's own outputs.
pub(super) fn contents(folder: &Path, texts: &[String], written: &[PathBuf]) -> Vec<String> {
    let mut open: Vec<String> = texts.to_vec();
    let mut found: BTreeSet<PathBuf> = BTreeSet::new();
    let mut out = Vec::new();
    while let Some(text) = open.pop() {
        for name in names(&text) {
            if written.contains(&name) || found.contains(&name) {
                continue;
            }
            let Ok(bytes) = files::read(&folder.join(&name), files::DATA) else { continue };
            open.push(String::from_utf8_lossy(&bytes[..bytes.len().min(SEARCHED)]).into_owned());
            out.push(format!("{} {}", name.display(), crate::store::hash_of_bytes(&bytes)));
            found.insert(name);
        }
    }
    out.sort();
    out
}

/// What may be relative paths in a text, without `./` before them.
fn names(text: &str) -> BTreeSet<PathBuf> {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    let words = text.split(|c| !part(c)).filter(|w| !w.is_empty());
    let clean = |w: &str| -> PathBuf {
        Path::new(w).components().filter(|c| matches!(c, Component::Normal(_))).collect()
    };
    words.filter(|w| !w.starts_with('/')).map(clean).filter(|p| !p.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_files_count_also_through_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("src/main.c", "#include \"../tiles.h\"\n#include \"tiles.h\"");
        write("tiles.h", "int a;");
        write("other.h", "int b;");
        write("cost.txt", "1");
        let texts = vec!["cc ./src/main.c -o prog; echo 1 > cost.txt".to_string()];
        let of = || contents(dir.path(), &texts, &["cost.txt".into()]);
        let first = of();
        assert_eq!(first.len(), 2, "{first:?}");
        write("other.h", "int c;");
        write("cost.txt", "2");
        assert_eq!(of(), first);
        write("tiles.h", "int c;");
        assert_ne!(of(), first);
    }
}
