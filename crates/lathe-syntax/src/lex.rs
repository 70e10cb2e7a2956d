//! Text to tokens, which are slices of it. Comments are kept beside the tokens, for formatters and documentation.

use lathe_diagnostics::{Code, Diagnostic, FileId, Span};

/// How a text is cut into tokens.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The reserved words.
    pub words: &'static [&'static str],
    /// Operators and brackets, longest first, so that a prefix never hides a longer one.
    pub symbols: &'static [&'static str],
    /// What quoted texts are in.
    pub quotes: &'static [char],
    /// Whether `2.0i` is a number: a float with that text.
    pub imaginary: bool,
    /// What names are made of; they do not begin with a digit.
    pub letter: fn(char) -> bool,
    /// Whether `#` begins a comment that ends with its line.
    pub comments: bool,
    /// The text of trees: names hold dots (`i.o`), and integers may be hexadecimal.
    pub tree: bool,
    /// What to do where a reserved word stands for a name.
    pub reserved: &'static str,
    /// Texts that mean nothing here, and what to write.
    pub hints: &'static [(&'static str, &'static str)],
}

/// What a parser's messages are called, and how deep a text may nest.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// A character that means nothing.
    pub character: Code,
    /// A number that is none, or does not fit.
    pub number: Code,
    /// Quotes that are not closed.
    pub string: Code,
    /// Something else was expected.
    pub expected: Code,
    /// It nests too deeply.
    pub nesting: Code,
    /// Comparisons in a row.
    pub chain: Code,
    /// Brackets, blocks and signs nest this deep; everything after the parser may recurse.
    pub depth: usize,
    /// What to do about a text that nests deeper.
    pub shallower: &'static str,
}

/// A token: a slice of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tok<'a> {
    Name(&'a str),
    /// A reserved word.
    Word(&'a str),
    /// Digits; in trees also `0x…`.
    Int(&'a str),
    /// Digits with a point and digits, an exponent, or both.
    Float(&'a str),
    /// What is between quotes of a kind, escapes included: see [`unquote`].
    Quoted(char, &'a str),
    /// An operator or a bracket.
    Sym(&'static str),
    End,
}

/// A token, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub tok: Tok<'a>,
    pub span: Span,
    /// First of its line.
    pub newline: bool,
    /// Nothing is between the token before and this one.
    pub glued: bool,
}

/// A comment: what begins with `#`, to the end of its line.
#[derive(Clone, Copy, Debug)]
pub struct Comment {
    pub span: Span,
    /// Position in the list of tokens of the token that follows.
    pub before: usize,
    /// Nothing but blanks is before it on its line.
    pub own_line: bool,
}

/// A text that was cut into tokens.
pub struct Lexed<'a> {
    /// Ends with [`Tok::End`].
    pub tokens: Vec<Token<'a>>,
    pub comments: Vec<Comment>,
    pub errors: Vec<Diagnostic>,
}

/// Cuts a text into tokens. What cannot be read becomes an error and is left out.
pub fn lex<'a>(dialect: &Dialect, grammar: &Grammar, file: FileId, text: &'a str) -> Lexed<'a> {
    let mut out = Lexed { tokens: Vec::new(), comments: Vec::new(), errors: Vec::new() };
    let error = |code, what: String, start: usize, end: usize, mark: &str| {
        Diagnostic::error(code, what).at(Span::new(file, start, end), mark)
    };
    let mut text = text;
    if u32::try_from(text.len()).is_err() {
        out.errors.push(error(grammar.character, "a file has at most 4 GiB".into(), 0, 0, "here"));
        text = "";
    }
    let (mut at, mut newline, mut glued) = (0, true, false);
    while let Some(c) = text[at..].chars().next() {
        let (start, rest) = (at, &text[at..]);
        if c.is_whitespace() {
            newline |= c == '\n';
            glued = false;
            at += c.len_utf8();
            continue;
        }
        if c == '#' && dialect.comments {
            at += rest.find('\n').unwrap_or(rest.len());
            let (span, before) = (Span::new(file, start, at), out.tokens.len());
            out.comments.push(Comment { span, before, own_line: newline });
            glued = false;
            continue;
        }
        let tok = if c.is_ascii_digit() {
            let after_point = matches!(out.tokens.last(), Some(Token { tok: Tok::Sym("."), .. }));
            let (len, float) = number(rest, after_point, dialect.tree);
            let imaginary = dialect.imaginary && !after_point && span_of(&rest[len..], dialect.letter) == 1;
            let imaginary = imaginary && rest[len..].starts_with('i');
            let (len, float) = if imaginary { (len + 1, true) } else { (len, float) };
            let wrong = span_of(&rest[len..], dialect.letter);
            at += len + wrong;
            if wrong > 0 {
                let what = format!("bad number: `{}` is neither a number nor a name", &text[start..at]);
                out.errors.push(error(grammar.number, what, start, at, "neither a number nor a name"));
            }
            let digits = if wrong > 0 { "0" } else { &rest[..len] };
            if float && wrong == 0 { Tok::Float(digits) } else { Tok::Int(digits) }
        } else if (dialect.letter)(c) {
            let word = &rest[..name(rest, dialect)];
            at += word.len();
            if dialect.words.contains(&word) { Tok::Word(word) } else { Tok::Name(word) }
        } else if dialect.quotes.contains(&c) {
            let (inside, closed, wrong) = quoted(&rest[1..], c);
            at += 1 + inside.len() + usize::from(closed);
            if let Some((what, help)) = wrong {
                out.errors.push(error(grammar.string, what, start, at, "begins here").help(help));
            }
            Tok::Quoted(c, inside)
        } else if let Some(s) = dialect.symbols.iter().find(|s| rest.starts_with(**s)) {
            at += s.len();
            Tok::Sym(s)
        } else {
            at += c.len_utf8();
            let what = format!("unexpected character `{}`", c.escape_default());
            let mut d = error(grammar.character, what, start, at, "means nothing here");
            d.help = dialect.hints.iter().find(|h| rest.starts_with(h.0)).map(|h| h.1.to_string());
            out.errors.push(d);
            glued = true;
            continue;
        };
        out.tokens.push(Token { tok, span: Span::new(file, start, at), newline, glued });
        (newline, glued) = (false, true);
    }
    let span = Span::new(file, text.len(), text.len());
    out.tokens.push(Token { tok: Tok::End, span, newline: true, glued: false });
    out
}

/// How many bytes a run of letters has.
fn span_of(text: &str, letter: fn(char) -> bool) -> usize {
    text.find(|c| !letter(c)).unwrap_or(text.len())
}

/// How many bytes a name has.
fn name(text: &str, dialect: &Dialect) -> usize {
    let mut end = span_of(text, dialect.letter);
    while dialect.tree && text[end..].starts_with('.') {
        let part = &text[end + 1..];
        let len = span_of(part, dialect.letter);
        if len == 0 || part.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        end += 1 + len;
    }
    end
}

/// How many bytes a number has, and whether it is a float: with digits on both sides of the point, or an exponent.
/// Right of a point only digits count, so that `p.0.1` projects twice.
fn number(text: &str, after_point: bool, hexadecimal: bool) -> (usize, bool) {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let hex = text.get(2..).filter(|_| hexadecimal && !after_point && text.starts_with("0x"));
    if let Some(hex) = hex {
        return (2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count(), false);
    }
    let (mut end, mut float) = (digits(0), false);
    if after_point {
        return (end, false);
    }
    if text[end..].starts_with('.') && digits(end + 1) > 0 {
        float = true;
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(end + 1 + sign) > 0 {
            float = true;
            end += 1 + sign + digits(end + 1 + sign);
        }
    }
    (end, float)
}

/// What is in quotes up to their end or that of the line, whether they are closed, and what is wrong.
fn quoted(text: &str, quote: char) -> (&str, bool, Option<(String, String)>) {
    let mut wrong = None;
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\n' => return (&text[..i], false, Some(unclosed(quote))),
            c if c == quote => return (&text[..i], true, wrong),
            '\\' if escape(&mut chars) == Some(None) => {
                let help = "escapes are \\n \\t \\r \\\\ \\\" \\' \\` and \\u{…}".to_string();
                wrong = Some(("an unknown escape in quotes".to_string(), help));
            }
            _ => {}
        }
    }
    (text, false, Some(unclosed(quote)))
}

fn unclosed(quote: char) -> (String, String) {
    let what = format!("the {quote} that opens here is not closed on its line");
    (what, format!("close it with `{quote}`"))
}

/// Takes what follows a backslash: the character that it means, if it means one. `None` at the end of the line.
fn escape(chars: &mut std::str::CharIndices) -> Option<Option<char>> {
    let c = chars.clone().next().filter(|c| c.1 != '\n')?.1;
    chars.next();
    Some(match c {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '\\' | '\'' | '"' | '`' => Some(c),
        'u' => {
            let hex = chars.as_str().strip_prefix('{').and_then(|r| r.split_once('}')).map_or("", |r| r.0);
            let plain = hex.len() <= 8 && hex.bytes().all(|b| b.is_ascii_hexdigit());
            let value = u32::from_str_radix(hex, 16).ok().filter(|_| plain).and_then(char::from_u32);
            if value.is_some() {
                chars.nth(hex.len() + 1);
            }
            value
        }
        _ => None,
    })
}

/// The text that the inside of quotes means.
pub fn unquote(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.char_indices();
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => out.extend(escape(&mut chars).flatten()),
            c => out.push(c),
        }
    }
    out
}

/// Writes a text in quotes such that [`lex`] and [`unquote`] read it back.
pub fn quote(text: &str, quote: char) -> String {
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

impl Tok<'_> {
    /// As messages name it.
    pub fn describe(&self) -> String {
        match self {
            Tok::Word(w) => format!("the reserved word `{w}`"),
            Tok::Name(t) | Tok::Int(t) | Tok::Float(t) => format!("`{t}`"),
            Tok::Sym(s) => format!("`{s}`"),
            Tok::Quoted('"', _) => "a string".to_string(),
            Tok::Quoted(q, raw) => format!("{q}{raw}{q}"),
            Tok::End => "the end of the text".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EXPRESSIONS, KERNELS, SOURCE};

    static TREE: Dialect = Dialect { tree: true, quotes: &['\'', '"', '`'], ..SOURCE };

    fn toks<'a>(dialect: &Dialect, text: &'a str) -> Vec<Tok<'a>> {
        let lexed = lex(dialect, &KERNELS, FileId(0), text);
        assert!(lexed.errors.is_empty(), "{text}: {:?}", lexed.errors);
        lexed.tokens.into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn ranges_projections_and_floats_are_told_apart() {
        use Tok::*;
        for dialect in [&SOURCE, &TREE, &EXPRESSIONS] {
            assert_eq!(toks(dialect, "0..9"), [Int("0"), Sym(".."), Int("9"), End]);
            assert_eq!(toks(dialect, "16..=256"), [Int("16"), Sym("..="), Int("256"), End]);
            assert_eq!(toks(dialect, "].0.1"), [Sym("]"), Sym("."), Int("0"), Sym("."), Int("1"), End]);
            assert_eq!(toks(dialect, "1.5e3 2e-1"), [Float("1.5e3"), Float("2e-1"), End]);
            assert_eq!(toks(dialect, "a<+b"), [Name("a"), Sym("<+"), Name("b"), End]);
        }
        assert_eq!(toks(&SOURCE, "i.o.2"), [Name("i"), Sym("."), Name("o"), Sym("."), Int("2"), End]);
        assert_eq!(toks(&TREE, "i.o.2 0xfF"), [Name("i.o"), Sym("."), Int("2"), Int("0xfF"), End]);
        assert_eq!(toks(&SOURCE, "for fo"), [Word("for"), Name("fo"), End]);
        assert_eq!(toks(&EXPRESSIONS, "for é"), [Name("for"), Name("é"), End]);
    }

    #[test]
    fn odd_text_gives_errors_not_panics() {
        for text in
            ["\"abc", "\"a\\", "\"", "12x", "0x1f", "ü $", "\"\\q\"", "\"\\u{110000}\"", "\"\\u{\"", "\"a\nb"]
        {
            assert!(!lex(&SOURCE, &KERNELS, FileId(0), text).errors.is_empty(), "{text}");
        }
    }

    #[test]
    fn quoting_is_inverse_to_lexing() {
        for text in ["", "a'b\"c`d\\", "\n\t\r\u{7}ü", "copy(A).i", "''", "\"\""] {
            for q in ['\'', '"', '`'] {
                let quoted = quote(text, q);
                let toks = toks(&TREE, &quoted);
                let [Tok::Quoted(kind, raw), Tok::End] = toks[..] else { panic!("{toks:?}") };
                assert_eq!((kind, unquote(raw).as_str()), (q, text));
            }
        }
    }

    #[test]
    fn comments_know_what_they_stand_before() {
        let lexed = lex(&SOURCE, &KERNELS, FileId(0), "a # b\n# c\nd");
        let all: Vec<_> = lexed.comments.iter().map(|c| (c.before, c.own_line)).collect();
        assert_eq!(all, [(1, false), (1, true)]);
        let lines: Vec<_> = lexed.tokens.iter().map(|t| (t.newline, t.glued)).collect();
        assert_eq!(lines, [(true, false), (true, false), (true, false)]);
    }
}
