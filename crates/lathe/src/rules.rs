//! Rules of a file, tested with random instances; a rule that held is not tested again until its text changes.
//!
//! The cache is a folder with one small file per rule that held, named after the hash of its text: in
//! `$XDG_CACHE_HOME/lathe/rules`, or `~/.cache/lathe/rules`. Without either nothing is kept. What cannot be read
//! or written is tested again.

use crate::program::{Failure, Program};
use lathe_lang::Rule;
use lathe_measure::store::hash_of;
use lathe_pattern::rules::try_rule;
use std::path::PathBuf;

/// Bumped when the test changes, so that all rules are tested anew.
const VERSION: &str = "1";

/// Tests every rule of a file and of the files that it uses; those that fail.
pub fn check_rules(program: &Program) -> Vec<Failure> {
    let folder = folder();
    let wrong = |r: &Rule| {
        let known = folder.as_ref().map(|f| f.join(hash_of(&[VERSION, env!("CARGO_PKG_VERSION"), &r.text])));
        if known.as_ref().is_some_and(|k| k.exists()) {
            return None;
        }
        match try_rule(&r.equation, r.span) {
            Ok(held) => {
                if let Some(file) = known {
                    // A folder that cannot be made or written costs time, and nothing else.
                    let made = file.parent().map(std::fs::create_dir_all);
                    let _ = made.map(|_| std::fs::write(file, format!("{held}\n")));
                }
                None
            }
            Err(d) => Some(Failure::one(&program.sources, d)),
        }
    };
    program.lang.rules.iter().filter_map(wrong).collect()
}

fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // A relative XDG_CACHE_HOME is to be ignored (XDG base directory specification).
    let cache = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
    Some(cache.or_else(|| set("HOME").map(|h| h.join(".cache")))?.join("lathe/rules"))
}
