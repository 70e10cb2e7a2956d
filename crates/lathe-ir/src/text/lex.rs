//! The lexer of tree text. Never fails: what it cannot read becomes a diagnostic and is left out.

use crate::codes;
use lathe_diagnostics::{Diagnostic, FileId, Span};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    /// A name, dots included; `quoted` ones are never keywords.
    Name {
        text: String,
        quoted: bool,
    },
    /// Decimal digits or `0x…`.
    Int(String),
    Float(String),
    /// `'…'`
    Label(String),
    /// `"…"`
    Str(String),
    Punct(&'static str),
    Eof,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub span: Span,
    /// Nothing stands between this token and the one before.
    pub glued: bool,
    /// First of its line.
    pub first: bool,
}

/// Longest first, so that a prefix never hides a longer one.
const PUNCT: &[&str] = &[
    "..", "->", "==", "!=", "<=", ">=", "//", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=", "<", ">",
    "+", "-", "*", "/", "%", "@", "$", "!", "?", "~", "&",
];

pub(crate) fn lex(file: FileId, text: &str, errors: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut pos = 0;
    let (mut glued, mut first) = (false, true);
    while let Some(c) = text[pos..].chars().next() {
        let rest = &text[pos..];
        if c.is_whitespace() {
            first |= c == '\n';
            glued = false;
            pos += c.len_utf8();
            continue;
        }
        if c == '#' {
            pos += rest.find('\n').unwrap_or(rest.len());
            glued = false;
            continue;
        }
        let after_dot = matches!(out.last(), Some(Token { tok: Tok::Punct("."), .. }));
        let (tok, len) = match c {
            'a'..='z' | 'A'..='Z' | '_' => {
                let len = name_len(rest);
                (Some(Tok::Name { text: rest[..len].to_string(), quoted: false }), len)
            }
            '0'..='9' => {
                let (tok, len) = number(rest, after_dot);
                (Some(tok), len)
            }
            '\'' | '"' | '`' => match quoted(rest) {
                Ok((text, len)) => {
                    let tok = match c {
                        '\'' => Tok::Label(text),
                        '"' => Tok::Str(text),
                        _ => Tok::Name { text, quoted: true },
                    };
                    (Some(tok), len)
                }
                Err((why, len)) => {
                    let span = Span::new(file, pos, pos + len);
                    errors.push(Diagnostic::error(codes::BAD_TOKEN, why).at(span, "here"));
                    (None, len)
                }
            },
            _ => match PUNCT.iter().find(|p| rest.starts_with(**p)) {
                Some(p) => (Some(Tok::Punct(p)), p.len()),
                None => {
                    let span = Span::new(file, pos, pos + c.len_utf8());
                    let what = format!("`{}` has no meaning in tree text", c.escape_default());
                    errors.push(Diagnostic::error(codes::BAD_TOKEN, what).at(span, "here"));
                    (None, c.len_utf8())
                }
            },
        };
        if let Some(tok) = tok {
            out.push(Token { tok, span: Span::new(file, pos, pos + len), glued, first });
            first = false;
        }
        glued = true;
        pos += len;
    }
    out.push(Token { tok: Tok::Eof, span: Span::new(file, pos, pos), glued: false, first: true });
    out
}

fn name_len(s: &str) -> usize {
    let b = s.as_bytes();
    let word = |mut i: usize| {
        while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'_') {
            i += 1;
        }
        i
    };
    let mut end = word(0);
    while b.get(end) == Some(&b'.') && b.get(end + 1).is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_') {
        end = word(end + 1);
    }
    end
}

/// After a dot only digits are taken, so that `p.0.1` projects twice.
fn number(s: &str, after_dot: bool) -> (Tok, usize) {
    let b = s.as_bytes();
    let digits = |mut i: usize| {
        while b.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    if !after_dot && (s.starts_with("0x") || s.starts_with("0X")) {
        let len = 2 + s[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        return (Tok::Int(s[..len].to_string()), len);
    }
    let mut end = digits(0);
    if after_dot {
        return (Tok::Int(s[..end].to_string()), end);
    }
    let mut float = false;
    if b.get(end) == Some(&b'.') && b.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
        float = true;
    }
    if matches!(b.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(end + 1), Some(b'+' | b'-')));
        if b.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
            float = true;
        }
    }
    let text = s[..end].to_string();
    (if float { Tok::Float(text) } else { Tok::Int(text) }, end)
}

/// A quoted text of one line; the error carries how much to skip.
fn quoted(s: &str) -> Result<(String, usize), (String, usize)> {
    let mut it = s.char_indices();
    let Some((_, quote)) = it.next() else { return Err(("an empty text".into(), 0)) };
    let mut out = String::new();
    while let Some((i, c)) = it.next() {
        match c {
            _ if c == quote => return Ok((out, i + c.len_utf8())),
            '\n' => return Err((format!("the {quote} that opens here is not closed on its line"), i)),
            '\\' => {
                let escape = match it.next() {
                    Some((_, 'n')) => Some('\n'),
                    Some((_, 't')) => Some('\t'),
                    Some((_, 'r')) => Some('\r'),
                    Some((_, c @ ('\\' | '\'' | '"' | '`'))) => Some(c),
                    Some((j, 'u')) => {
                        let hex: String =
                            s[j + 1..].chars().skip(1).take_while(|c| *c != '}').take(8).collect();
                        let skip = hex.chars().count() + 2;
                        let c = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        let braces = s[j + 1..].starts_with('{') && s[j + 2 + hex.len()..].starts_with('}');
                        c.filter(|_| braces).inspect(|_| {
                            it.nth(skip - 1);
                        })
                    }
                    _ => None,
                };
                match escape {
                    Some(c) => out.push(c),
                    None => {
                        let line = s.find('\n').unwrap_or(s.len());
                        return Err((r"unknown escape (there are \n \t \r \\ \' \u{…})".to_string(), line));
                    }
                }
            }
            c => out.push(c),
        }
    }
    Err((format!("the {quote} that opens here is not closed"), s.len()))
}

/// Writes a text in quotes such that [`lex`] reads it back.
pub(crate) fn quote(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        let mut errors = Vec::new();
        let out = lex(FileId(0), text, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        out.into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn ranges_floats_and_projections_are_told_apart() {
        let int = |s: &str| Tok::Int(s.into());
        assert_eq!(toks("0..5"), [int("0"), Tok::Punct(".."), int("5"), Tok::Eof]);
        assert_eq!(toks("0.5e-3"), [Tok::Float("0.5e-3".into()), Tok::Eof]);
        assert_eq!(
            toks("].0.1"),
            [Tok::Punct("]"), Tok::Punct("."), int("0"), Tok::Punct("."), int("1"), Tok::Eof]
        );
    }

    #[test]
    fn quoting_is_inverse_to_lexing() {
        for text in ["", "a'b\"c`d\\", "\n\t\r\u{7}ü", "copy(A).i"] {
            assert_eq!(toks(&quote(text, '\'')), [Tok::Label(text.into()), Tok::Eof]);
            assert_eq!(toks(&quote(text, '"')), [Tok::Str(text.into()), Tok::Eof]);
        }
    }
}
