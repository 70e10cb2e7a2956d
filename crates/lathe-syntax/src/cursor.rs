//! The cursor over the tokens of a text, and what every parser does with it.

use crate::lex::{Dialect, Grammar, Lexed, Tok, Token, lex, unquote};
use lathe_diagnostics::{Code, Diagnostic, FileId, Mark, Span};
use std::ops::DerefMut;

/// What a rule of a grammar gives: the first thing that is wrong ends it. Where to go on is for who recovers.
pub type Read<T> = Result<T, Diagnostic>;

/// Reads a whole text by one rule.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_all<T>(
    dialect: &Dialect,
    grammar: &'static Grammar,
    (file, text): (FileId, &str),
    rule: impl FnOnce(&mut Cursor) -> Read<T>,
) -> Read<T> {
    let lexed = lex(dialect, grammar, file, text);
    if let Some(d) = lexed.errors.first() {
        return Err(d.clone());
    }
    let mut cursor = Cursor::new(&lexed, dialect, grammar);
    let out = rule(&mut cursor)?;
    if cursor.ended() { Ok(out) } else { cursor.expected("the end") }
}

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    /// Finite, or a word such as `inf`.
    Float(f64),
}

/// A place in the tokens of a text.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    tokens: &'a [Token<'a>],
    dialect: &'a Dialect,
    /// Parts of a text may have their own.
    pub grammar: &'static Grammar,
    /// How many tokens were taken.
    pub at: usize,
    /// Newlines end expressions here, before `-`, `(`, `[` and `.`.
    pub lines: bool,
    /// How deep it nests here.
    pub depth: usize,
    /// Positions of `<` and `>` that are brackets, not comparisons.
    pub angles: Vec<usize>,
    /// Operators so far.
    pub operators: u32,
}

impl<'a> Cursor<'a> {
    /// Before the first token.
    pub fn new(lexed: &'a Lexed<'a>, dialect: &'a Dialect, grammar: &'static Grammar) -> Cursor<'a> {
        let tokens = &lexed.tokens;
        Cursor { tokens, dialect, grammar, at: 0, lines: false, depth: 0, angles: Vec::new(), operators: 0 }
    }

    /// The token that comes next, or `ahead` after it.
    pub fn token(&self, ahead: usize) -> Token<'a> {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    /// The token that comes next.
    pub fn peek(&self) -> Tok<'a> {
        self.token(0).tok
    }

    /// Where the next token stands.
    pub fn span(&self) -> Span {
        self.token(0).span
    }

    /// Where the token before stands.
    pub fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// From a start to the last token taken.
    pub fn since(&self, start: Span) -> Span {
        let last = self.last_span();
        if last.end >= start.start { start.to(last) } else { start }
    }

    /// Is the next token the first of its line?
    pub fn newline(&self) -> bool {
        self.token(0).newline
    }

    /// Whether an expression may go on with the next token.
    pub fn goes_on(&self) -> bool {
        !(self.lines && self.newline())
    }

    /// Takes the next token; at the end, nothing.
    pub fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Is there no token left?
    pub fn ended(&self) -> bool {
        self.peek() == Tok::End
    }

    /// Is the next token this symbol, word or name?
    pub fn is(&self, text: &str) -> bool {
        self.is_at(0, text)
    }

    /// The same of the token that comes `ahead` after the next.
    pub fn is_at(&self, ahead: usize, text: &str) -> bool {
        matches!(self.token(ahead).tok, Tok::Sym(t) | Tok::Word(t) | Tok::Name(t) if t == text)
    }

    /// Is the token at a position a number without a sign?
    pub fn is_number(&self, at: usize) -> bool {
        matches!(self.tokens.get(at), Some(Token { tok: Tok::Int(_) | Tok::Float(_), .. }))
    }

    /// Is the next token a name that is not a reserved word?
    pub fn is_name(&self) -> bool {
        matches!(self.peek(), Tok::Name(_))
    }

    /// Takes a symbol, word or name if it comes next.
    pub fn take(&mut self, text: &str) -> bool {
        let yes = self.is(text);
        if yes {
            self.advance();
        }
        yes
    }

    /// Takes a symbol, word or name, which must come next; gives its place.
    pub fn expect(&mut self, text: &str) -> Read<Span> {
        let span = self.span();
        if self.take(text) { Ok(span) } else { self.expected(&format!("`{text}`")) }
    }

    /// A name that is not a reserved word.
    pub fn name(&mut self, what: &str) -> Read<&'a str> {
        let Tok::Name(n) = self.peek() else { return self.expected(what) };
        self.advance();
        Ok(n)
    }

    /// A text in double quotes.
    pub fn string(&mut self, what: &str) -> Read<String> {
        let Tok::Quoted('"', raw) = self.peek() else { return self.expected(what) };
        self.advance();
        Ok(unquote(raw))
    }

    /// The imaginary number that comes next, if one does.
    pub fn imaginary(&mut self) -> Read<Option<f64>> {
        let Tok::Float(text) = self.peek() else { return Ok(None) };
        let Some(number) = text.strip_suffix('i') else { return Ok(None) };
        let span = self.span();
        self.advance();
        match number.parse() {
            Ok(v) if f64::is_finite(v) => Ok(Some(v)),
            _ => {
                let why = "too large for 64-bit floats";
                Err(self.error(self.grammar.number, format!("bad number: {why}"), span, why))
            }
        }
    }

    /// The number that comes next, negated or not, if one does.
    pub fn numeral(&mut self, negative: bool) -> Read<Option<Number>> {
        let sign = if negative { "-" } else { "" };
        let why = match self.peek() {
            Tok::Int(digits) => format!("{sign}{digits}").parse().map(Number::Int).map_err(|_| {
                if digits.parse::<u64>().is_ok() { "signed integers of 64 bits" } else { "64 bits" }
            }),
            Tok::Float(text) if text.ends_with('i') => Err(""),
            Tok::Float(text) => match format!("{sign}{text}").parse() {
                Ok(v) if f64::is_finite(v) => Ok(Number::Float(v)),
                _ => Err("64-bit floats"),
            },
            Tok::Word("inf") => Ok(Number::Float(if negative { -f64::INFINITY } else { f64::INFINITY })),
            Tok::Word("nan") => Ok(Number::Float(if negative { -f64::NAN } else { f64::NAN })),
            _ => return Ok(None),
        };
        let span = self.span();
        self.advance();
        why.map(Some).map_err(|of| {
            let why = match of {
                "" => "imaginary numbers stand in expressions of kernels only".to_string(),
                of => format!("too large for {of}"),
            };
            self.error(self.grammar.number, format!("bad number: {why}"), span, why)
        })
    }

    /// Runs a rule of another language in the same text.
    pub fn switched<T>(&mut self, grammar: &'static Grammar, rule: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.grammar, grammar);
        let out = rule(self);
        self.grammar = before;
        out
    }

    /// A message with one place.
    pub fn error(
        &self,
        code: Code,
        message: impl Into<String>,
        span: Span,
        mark: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::error(code, message).at(span, mark)
    }

    /// What is wrong where something else was expected.
    pub fn unexpected(&self, what: &str) -> Diagnostic {
        let found = self.peek();
        let message = format!("expected {what}, found {}", found.describe());
        let mut d = self.error(self.grammar.expected, message, self.span(), format!("expected {what}"));
        d.help = match found {
            Tok::Word(w) if what.contains("name") => {
                Some(format!("`{w}` is a reserved word; {}", self.dialect.reserved))
            }
            Tok::Sym(s) => self.dialect.hints.iter().find(|h| h.0 == s).map(|h| h.1.to_string()),
            _ => None,
        };
        d
    }

    /// Something else was expected here.
    pub fn expected<T>(&self, what: &str) -> Read<T> {
        Err(self.unexpected(what))
    }
}

/// What the parsers of all grammars have: a type that derefs to a [`Cursor`] has these rules.
pub trait Rules<'a>: DerefMut<Target = Cursor<'a>> + Sized {
    /// Runs a rule one level deeper.
    ///
    /// # Errors
    /// Those of the rule; where it nests too deeply.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let grammar = self.grammar;
        if self.depth >= grammar.depth {
            let mark = format!("more than {} levels", grammar.depth);
            let d = self.error(grammar.nesting, "this nests too deeply", self.span(), mark);
            return Err(d.help(grammar.shallower));
        }
        self.depth += 1;
        let out = rule(self);
        self.depth -= 1;
        out
    }

    /// Runs a rule between brackets, one level deeper.
    ///
    /// # Errors
    /// Those of the rule; where a bracket is missing.
    fn inside<T>(&mut self, open: &str, close: &str, rule: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.enclosed(open, close, &format!("`{close}`"), rule)
    }

    /// `(a, b, c)`: what is between commas between brackets; a trailing comma is allowed.
    ///
    /// # Errors
    /// Those of the rule; where a comma or bracket is missing.
    fn listed<T>(&mut self, open: &str, close: &str, one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        self.enclosed(open, close, &format!("`,` or `{close}`"), |p| p.commas(close, one))
    }

    /// `(a)`, `(a, b)` or `(a,)`: the parts, and whether the last one has a comma after it.
    ///
    /// # Errors
    /// Those of the rule; where a comma or bracket is missing.
    fn tuple<T>(&mut self, one: impl FnMut(&mut Self) -> Read<T>) -> Read<(Vec<T>, bool)> {
        self.enclosed("(", ")", "`,` or `)`", |p| {
            let parts = p.commas(")", one)?;
            Ok((parts, p.tokens[p.at - 1].tok == Tok::Sym(",")))
        })
    }

    /// A rule between brackets; `what` is expected after it. Newlines mean nothing in there.
    ///
    /// # Errors
    /// Those of the rule; where a bracket is missing.
    fn enclosed<T>(
        &mut self,
        open: &str,
        close: &str,
        what: &str,
        rule: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        self.deeper(|p| {
            let first = p.at;
            let opened = p.expect(open)?;
            let lines = std::mem::replace(&mut p.lines, false);
            let out = rule(p);
            p.lines = lines;
            let (out, last) = (out?, p.at);
            if !p.take(close) {
                let mut d = p.unexpected(what);
                d.marks.push(Mark { span: opened, text: "opened here".into() });
                return Err(d);
            }
            if open == "<" {
                p.angles.extend([first, last]);
            }
            Ok(out)
        })
    }

    /// `a, b, c` up to a closing bracket, which is left.
    ///
    /// # Errors
    /// Those of the rule.
    fn commas<T>(&mut self, close: &str, mut one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut out = Vec::new();
        while !self.is(close) {
            out.push(one(self)?);
            if !self.take(",") {
                break;
            }
        }
        Ok(out)
    }
}

impl<'a, P: DerefMut<Target = Cursor<'a>>> Rules<'a> for P {}

/// Makes a type a parser: it derefs to its field `cursor`, which is a [`Cursor`] or borrows one mutably.
///
/// ```
/// use lathe_syntax::{Cursor, Read, Rules};
///
/// struct Names<'c, 'a> {
///     cursor: &'c mut Cursor<'a>,
/// }
/// lathe_syntax::parser!(<'a> Names<'_, 'a>);
///
/// impl Names<'_, '_> {
///     fn all(&mut self) -> Read<Vec<String>> {
///         self.listed("(", ")", |p| p.name("a name").map(String::from))
///     }
/// }
/// ```
#[macro_export]
macro_rules! parser {
    (<$text:lifetime> $parser:ty) => {
        impl<$text> ::std::ops::Deref for $parser {
            type Target = $crate::Cursor<$text>;

            fn deref(&self) -> &$crate::Cursor<$text> {
                &self.cursor
            }
        }

        impl<$text> ::std::ops::DerefMut for $parser {
            fn deref_mut(&mut self) -> &mut $crate::Cursor<$text> {
                &mut self.cursor
            }
        }
    };
}
