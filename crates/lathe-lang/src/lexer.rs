//! Text to tokens. Comments and newlines are kept beside the tokens: newlines because they end the
//! statements of a kernel, comments for the formatter and the documentation of kernels.

use crate::codes;
use lathe_diagnostics::{Diagnostic, FileId, Span};

#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    Name(String),
    /// A reserved word.
    Word(&'static str),
    Int(i64),
    Float(f64),
    Str(String),
    /// An operator or a bracket; `max=` and the like are here too.
    Sym(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
    /// A newline lies between the token before and this one.
    pub newline: bool,
}

#[derive(Clone, Debug)]
pub struct Comment {
    pub span: Span,
    /// Position in the list of tokens of the token that follows.
    pub before: usize,
    /// Nothing but blanks stands before it on its line.
    pub own_line: bool,
}

pub struct Lexed {
    /// Ends with [`Tok::End`].
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub errors: Vec<Diagnostic>,
}

/// The reserved words.
pub const WORDS: &[&str] = &[
    "kernel", "fun", "struct", "op", "rule", "strategy", "use", "test", "for", "in", "where", "step", "let",
    "var", "if", "then", "else", "while", "assume", "inout", "or", "and", "not", "true", "false", "inf",
    "nan",
];

/// Longest first.
const SYMBOLS: &[&str] = &[
    "..=", "..", "->", "=>", "==", "!=", "<=", ">=", "<+", "<<", ">>", "|>", "//", "+=", "*=", ";;", ";",
    ",", ":", ".", "@", "|", "+", "-", "*", "/", "%", "<", ">", "=", "(", ")", "[", "]", "{", "}", "?",
];

/// Words after `#:` that the test harness understands.
pub const DIRECTIVES: &[&str] = &["ok", "error", "warning", "tree"];

pub fn lex(file: FileId, text: &str) -> Lexed {
    let mut out = Lexed { tokens: Vec::new(), comments: Vec::new(), errors: Vec::new() };
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut newline = false;
    // True until the first token of a line.
    let mut fresh_line = true;
    while at < bytes.len() {
        let start = at;
        let c = bytes[at];
        if c == b'\n' {
            newline = true;
            fresh_line = true;
            at += 1;
            continue;
        }
        if c.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if c == b'#' {
            at = text[at..].find('\n').map_or(text.len(), |p| at + p);
            let span = Span::new(file, start, at);
            out.comments.push(Comment { span, before: out.tokens.len(), own_line: fresh_line });
            if let Some(rest) = text[start..at].strip_prefix("#:") {
                let word = rest.split_whitespace().next().unwrap_or("");
                if !DIRECTIVES.contains(&word) {
                    out.errors.push(
                        Diagnostic::error(codes::DIRECTIVE, format!("unknown test directive `{word}`"))
                            .at(span, "not a directive")
                            .help(format!(
                                "directives are {}; a comment begins with `# `",
                                DIRECTIVES.join(", ")
                            )),
                    );
                }
            }
            continue;
        }
        let tok = if c.is_ascii_alphabetic() || c == b'_' {
            at = name_end(bytes, at);
            let word = &text[start..at];
            let op = ["min=", "max=", "any=", "all="].into_iter().find(|o| &o[..3] == word);
            match op {
                Some(op) if bytes.get(at) == Some(&b'=') && bytes.get(at + 1) != Some(&b'=') => {
                    at += 1;
                    Tok::Sym(op)
                }
                _ => match WORDS.iter().find(|w| **w == word) {
                    Some(&"inf") => Tok::Float(f64::INFINITY),
                    Some(&"nan") => Tok::Float(f64::NAN),
                    Some(w) => Tok::Word(w),
                    None => Tok::Name(word.to_string()),
                },
            }
        } else if c.is_ascii_digit() {
            let after_point = matches!(out.tokens.last(), Some(Token { tok: Tok::Sym("."), .. }));
            let (end, tok) = number(text, at, after_point);
            at = end;
            match tok {
                Ok(t) => t,
                Err(why) => {
                    out.errors.push(
                        Diagnostic::error(codes::NUMBER, format!("bad number: {why}"))
                            .at(Span::new(file, start, at), why),
                    );
                    Tok::Int(0)
                }
            }
        } else if c == b'"' {
            match string(text, at) {
                Ok((end, s)) => {
                    at = end;
                    Tok::Str(s)
                }
                Err(end) => {
                    at = end;
                    out.errors.push(
                        Diagnostic::error(codes::STRING, "the string does not end on its line")
                            .at(Span::new(file, start, at), "begins here")
                            .help("close it with `\"`"),
                    );
                    Tok::Str(text[start + 1..at].to_string())
                }
            }
        } else if let Some(s) = SYMBOLS.iter().find(|s| text[at..].starts_with(**s)) {
            at += s.len();
            Tok::Sym(s)
        } else {
            let ch = text[at..].chars().next().unwrap_or(' ');
            at += ch.len_utf8();
            if !ch.is_whitespace() {
                let mut d = Diagnostic::error(codes::CHARACTER, format!("unexpected character `{ch}`"))
                    .at(Span::new(file, start, at), "means nothing here");
                d.help = match ch {
                    '&' => Some("write `and`, or `bitand(a, b)` on integers".into()),
                    '^' => Some("write `pow(a, b)`, or `bitxor(a, b)` on integers".into()),
                    '!' => Some("write `not`".into()),
                    _ => None,
                };
                out.errors.push(d);
            }
            continue;
        };
        out.tokens.push(Token { tok, span: Span::new(file, start, at), newline });
        newline = false;
        fresh_line = false;
    }
    out.tokens.push(Token { tok: Tok::End, span: Span::new(file, text.len(), text.len()), newline: true });
    out
}

fn name_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        at += 1;
    }
    at
}

/// A float has digits on both sides of the point, or an exponent; right of a point only digits count,
/// so that `p.0.1` projects twice.
fn number(text: &str, start: usize, after_point: bool) -> (usize, Result<Tok, String>) {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = digits(start);
    let mut float = false;
    if !after_point {
        if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
            float = true;
            at = digits(at + 1);
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
                float = true;
                at = digits(at + 1 + sign);
            }
        }
    }
    let end = name_end(bytes, at);
    if end > at {
        return (end, Err(format!("`{}` is neither a number nor a name", &text[start..end])));
    }
    let tok = if float {
        match text[start..at].parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Tok::Float(v)),
            _ => Err("too large for 64-bit floats".to_string()),
        }
    } else {
        text[start..at].parse().map(Tok::Int).map_err(|_| "too large for 64 bits".to_string())
    };
    (at, tok)
}

/// The end and the contents; `\"`, `\\`, `\n` are escapes. An error gives where the line ends.
fn string(text: &str, start: usize) -> Result<(usize, String), usize> {
    let mut out = String::new();
    let mut chars = text[start + 1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((start + 1 + i + 1, out)),
            '\n' => return Err(start + 1 + i),
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((j, '\n')) => return Err(start + 1 + j),
                Some((_, e)) => out.push(e),
                None => break,
            },
            c => out.push(c),
        }
    }
    Err(text.len())
}

impl Tok {
    /// As messages name it.
    pub fn describe(&self) -> String {
        match self {
            Tok::Name(n) => format!("`{n}`"),
            Tok::Word(w) => format!("the reserved word `{w}`"),
            Tok::Int(v) => format!("`{v}`"),
            Tok::Float(v) if !v.is_finite() => {
                format!("the reserved word `{}`", if v.is_nan() { "nan" } else { "inf" })
            }
            Tok::Float(v) => format!("`{v:?}`"),
            Tok::Str(_) => "a string".to_string(),
            Tok::Sym(s) => format!("`{s}`"),
            Tok::End => "the end of the file".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        lex(FileId(0), text).tokens.into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn ranges_projections_and_floats_are_told_apart() {
        use Tok::*;
        assert_eq!(toks("0..9"), vec![Int(0), Sym(".."), Int(9), End]);
        assert_eq!(toks("16..=256"), vec![Int(16), Sym("..="), Int(256), End]);
        assert_eq!(toks("p.0.1"), vec![Name("p".into()), Sym("."), Int(0), Sym("."), Int(1), End]);
        assert_eq!(toks("1.5e3 2e-1"), vec![Float(1500.0), Float(0.2), End]);
    }

    #[test]
    fn reducing_assignments_are_one_token() {
        use Tok::*;
        assert_eq!(toks("max= 1"), vec![Sym("max="), Int(1), End]);
        assert_eq!(toks("max == 1"), vec![Name("max".into()), Sym("=="), Int(1), End]);
        assert_eq!(toks("max==1"), vec![Name("max".into()), Sym("=="), Int(1), End]);
        assert_eq!(toks("a<+b"), vec![Name("a".into()), Sym("<+"), Name("b".into()), End]);
    }

    #[test]
    fn odd_text_gives_errors_not_panics() {
        for text in ["\"abc", "\"a\\", "12x", "99999999999999999999", "ü $", "1e999", "#: frobnicate"] {
            assert!(!lex(FileId(0), text).errors.is_empty(), "{text}");
        }
    }
}
