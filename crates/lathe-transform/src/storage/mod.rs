//! Rules that create, re-lay or remove storage.

use crate::rule::Rule;

/// One entry per file of this folder.
pub static RULES: &[&Rule] = &[];
