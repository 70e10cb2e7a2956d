//! Parameters' names in a program's text become their values.

use super::shell;
use lathe_space::{Value, Values};

/// What counts as a part of a word, beside letters, digits and underscores, and what a value turns into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Program text: `N-TILE` is a difference of two names.
    Code,
    /// Scripts: `-ftile-loops` is one word, in which no parameter is named; `$TILE` is the environment's.
    Script,
    /// Scripts that a shell reads: values are quoted as their place asks for, so that they stay words.
    Shell,
}

/// Shells whose quoting [`shell`] knows.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"];

impl Tokens {
    /// By how a text begins and what its file is called.
    pub fn of(name: &str, text: &str) -> Tokens {
        let Some(first) = text.strip_prefix("#!") else {
            return if name.ends_with(".sh") { Tokens::Shell } else { Tokens::Code };
        };
        let mut words = first.lines().next().unwrap_or_default().split_whitespace();
        let base = |w: &str| w.rsplit('/').next().unwrap_or(w).to_string();
        let mut interpreter = words.next().map(base).unwrap_or_default();
        if interpreter == "env" {
            // `env -S` and assignments come before the interpreter's name.
            interpreter =
                words.find(|w| !w.starts_with('-') && !w.contains('=')).map(base).unwrap_or_default();
        }
        if SHELLS.contains(&interpreter.as_str()) { Tokens::Shell } else { Tokens::Script }
    }
}

/// A value as programs read it: C has no `true`.
pub fn printed(v: &Value) -> String {
    match v {
        Value::Bool(b) => u8::from(*b).to_string(),
        // Neither texts nor environments can hold a zero byte.
        v => v.to_string().replace('\0', ""),
    }
}

/// Replaces every whole word that is a parameter's name by its value, once: a value that is another parameter's
/// name stays.
pub fn substitute(text: &str, values: &Values, tokens: Tokens) -> String {
    match tokens {
        Tokens::Code => {
            let values: Vec<(String, String)> = values.iter().map(|(n, v)| (n.clone(), printed(v))).collect();
            lathe_space::formats::substitute::substitute(text, &values)
        }
        Tokens::Script => words(text, values, |_, value| value),
        Tokens::Shell => {
            let mut state = shell::State::default();
            words(text, values, |between, value| {
                state.read(between);
                state.quoted(&value)
            })
        }
    }
}

/// Words reach over hyphens, and those after a `$` are the environment's. `put` gets the text since the last value, and
/// says how the next value is written.
fn words(text: &str, values: &Values, mut put: impl FnMut(&str, String) -> String) -> String {
    let part = |c: char| c == '_' || c == '-' || c.is_alphanumeric();
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut read) = (text, 0);
    while !rest.is_empty() {
        let word = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let at = text.len() - rest.len();
        let variable = text[..at].ends_with('$') || text[..at].ends_with("${");
        match values.get(word).filter(|_| !variable) {
            Some(value) => {
                out += &put(&text[read..at], printed(value));
                read = at + word.len();
            }
            None => out += word,
        }
        rest = &rest[word.len()..];
        let between = &rest[..rest.find(part).unwrap_or(rest.len())];
        out += between;
        rest = &rest[between.len()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let v = |n: &str, v| (n.to_string(), v);
        [
            v("UNROLL", Value::Int(4)),
            v("U", Value::Int(9)),
            v("loops", Value::Str("-fpeel-loops".into())),
            v("OTHER", Value::Str("UNROLL".into())),
            v("-fx", Value::Str("-fno-x".into())),
            v("F", Value::Float(0.5)),
            v("YES", Value::Bool(true)),
            v("NO", Value::Bool(false)),
        ]
        .into()
    }

    #[test]
    fn whole_words_only() {
        let code = |t: &str| substitute(t, &values(), Tokens::Code);
        assert_eq!(
            code("for (i = 0; i < N-UNROLL; i += UNROLL) UNROLLED(U);"),
            "for (i = 0; i < N-4; i += 4) UNROLLED(9);"
        );
        assert_eq!(
            code("x_UNROLL UNROLL_x UNROLL2 2UNROLL éUNROLL UNROLL"),
            "x_UNROLL UNROLL_x UNROLL2 2UNROLL éUNROLL 4"
        );
        assert_eq!(code("OTHER F F.5"), "UNROLL 0.5 0.5.5");
        assert_eq!(code("#if YES && !NO"), "#if 1 && !0");
        assert_eq!(code(""), "");
    }

    #[test]
    fn checklist_36_flags_in_scripts_are_one_word() {
        for tokens in [Tokens::Shell, Tokens::Script] {
            let shell = |t: &str| substitute(t, &values(), tokens);
            assert_eq!(
                shell("gcc -funroll-loops loops -DUNROLL=UNROLL -fx -fxy a.c"),
                "gcc -funroll-loops -fpeel-loops -DUNROLL=4 -fno-x -fxy a.c"
            );
            assert_eq!(shell("echo $((8-2)) UNROLL; U YES"), "echo $((8-2)) 4; 9 1");
            assert_eq!(
                shell("echo $UNROLL ${UNROLL} $(UNROLL) $((UNROLL)) {UNROLL}"),
                "echo $UNROLL ${UNROLL} $(4) $((4)) {4}"
            );
        }
    }

    #[test]
    fn which_texts_a_shell_reads() {
        for (name, text, tokens) in [
            ("run", "#!/bin/sh\n", Tokens::Shell),
            ("run", "#! /usr/bin/env -S bash -e\n", Tokens::Shell),
            ("run.sh", "echo", Tokens::Shell),
            ("run.sh", "#!/usr/bin/env python3\n", Tokens::Script),
            ("run.py", "#!/usr/bin/python3 -u", Tokens::Script),
            ("run.c", "int main", Tokens::Code),
        ] {
            assert_eq!(Tokens::of(name, text), tokens, "{name} {text}");
        }
    }
}
