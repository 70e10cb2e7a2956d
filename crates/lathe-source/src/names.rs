//! C identifiers for names of the tree.

use std::collections::HashSet;

/// Words that no generated name may be: keywords, what the headers define, and our own locals.
const RESERVED: &[&str] = &[
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "asm", "typeof", "bool", "true", "false", "NULL", "main", "rt", "args", "env",
    "env_", "begin", "end", "linux", "unix", "i386", "errno", "stdin", "stdout", "stderr", "assert", "lane",
];

/// Hands out identifiers, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
}

/// The letters of a name that C allows: `i.o` becomes `i_o`, `copy(A)` becomes `copy_A`.
pub fn sanitize(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    let out = out.trim_end_matches('_');
    match out.chars().next() {
        None => "x".to_string(),
        Some('0'..='9' | '_') => format!("x{out}"),
        Some(_) => out.to_string(),
    }
}

impl Names {
    /// An identifier like the name, with a number where that is taken already.
    pub fn fresh(&mut self, name: &str) -> String {
        let base = sanitize(name);
        let reserved = RESERVED.contains(&base.as_str())
            || base.starts_with("lathe_")
            || base.starts_with("LATHE_")
            || base.starts_with("omp_");
        let mut candidate = base.clone();
        let mut n = 1;
        while (n == 1 && reserved) || self.taken.contains(&candidate) {
            n += 1;
            candidate = format!("{base}_{n}");
        }
        self.taken.insert(candidate.clone());
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_c_and_unique() {
        let mut n = Names::default();
        assert_eq!(n.fresh("i.o"), "i_o");
        assert_eq!(n.fresh("i.o"), "i_o_2");
        assert_eq!(n.fresh("for"), "for_2");
        assert_eq!(n.fresh("copy(A)"), "copy_A");
        assert_eq!(n.fresh("3"), "x3");
        assert_eq!(n.fresh("é"), "x");
    }
}
