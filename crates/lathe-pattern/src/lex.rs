//! Tokens of terms and funs, as `GRAMMAR.md` of the language decides them.

use crate::codes;
use lathe_diagnostics::{Diagnostic, FileId, Span};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    Name(String),
    Int(i64),
    Float(f64),
    /// An operator, bracket or separator.
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
}

/// Longest first.
const SIGNS: [&str; 35] = [
    "=>", "->", "|>", ">>", "<<", "<=", ">=", "==", "!=", "//", "..", "(", ")", "[", "]", "{", "}", "<", ">",
    ",", ":", ";", "|", "+", "-", "*", "/", "%", "=", ".", "@", "#", "&", "^", "?",
];

/// The tokens of a part of a file; places are those in the file.
pub fn lex(file: FileId, text: &str, part: Range<usize>) -> Result<Vec<Token>, Diagnostic> {
    let text = text.get(..part.end).unwrap_or(text);
    let bytes = text.as_bytes();
    let mut out: Vec<Token> = Vec::new();
    let mut at = part.start;
    while at < bytes.len() {
        let start = at;
        let c = bytes[at];
        let error = |end: usize, what: &str| {
            Err(Diagnostic::error(codes::SYNTAX, what.to_string())
                .at(Span::new(file, start, end), "cannot be read"))
        };
        let while_ = |mut at: usize, f: &dyn Fn(u8) -> bool| {
            while at < bytes.len() && f(bytes[at]) {
                at += 1;
            }
            at
        };
        let tok = if c.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if c == b'#' {
            at = while_(at, &|b| b != b'\n');
            continue;
        } else if c.is_ascii_alphabetic() || c == b'_' {
            at = while_(at, &|b| b.is_ascii_alphanumeric() || b == b'_');
            match &text[start..at] {
                "inf" => Tok::Float(f64::INFINITY),
                "nan" => Tok::Float(f64::NAN),
                name => Tok::Name(name.to_string()),
            }
        } else if c.is_ascii_digit() {
            at = while_(at, &|b| b.is_ascii_digit());
            // `p.0.1` projects twice.
            let after_point = out.last().is_some_and(|t| t.tok == Tok::Sign("."));
            let digit = |n: usize| bytes.get(n).is_some_and(u8::is_ascii_digit);
            let mut float = false;
            if !after_point && bytes.get(at) == Some(&b'.') && digit(at + 1) {
                at = while_(at + 1, &|b| b.is_ascii_digit());
                float = true;
            }
            if !after_point && matches!(bytes.get(at), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
                if digit(at + 1 + sign) {
                    at = while_(at + 1 + sign, &|b| b.is_ascii_digit());
                    float = true;
                }
            }
            let word = &text[start..at];
            match (float, word.parse::<i64>(), word.parse::<f64>()) {
                (false, Ok(v), _) => Tok::Int(v),
                (true, _, Ok(v)) => Tok::Float(v),
                _ => return error(at, "a number that does not fit 64 bits"),
            }
        } else {
            match SIGNS.iter().find(|s| text[at..].starts_with(**s)) {
                Some(s) => {
                    at += s.len();
                    Tok::Sign(s)
                }
                None => {
                    let wide = text[at..].chars().next().map_or(1, char::len_utf8);
                    return error(at + wide, "a character that means nothing");
                }
            }
        };
        out.push(Token { tok, span: Span::new(file, start, at) });
    }
    out.push(Token { tok: Tok::End, span: Span::new(file, at, at) });
    Ok(out)
}
