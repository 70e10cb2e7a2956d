//! The parser's ground: tokens, errors, names, numbers, lists, binders and types.

use super::lex::{Tok, Token, lex};
use super::scope::Scope;
use super::{MAX_DEPTH, RESERVED};
use crate::codes;
use crate::expr::Expr;
use crate::ids::{Binder, VarId};
use crate::module::Module;
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::{Code, Diagnostic, FileId, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Parses tree text.
///
/// # Errors
/// Everything that is wrong with the text, in its order; codes E0301 to E0307.
pub fn parse_module(file: FileId, text: &str) -> Result<Module, Vec<Diagnostic>> {
    let mut p = Parser::new(file, text);
    p.items();
    if p.errors.is_empty() {
        return Ok(p.module);
    }
    p.errors.sort_by_key(|d| d.marks.first().map(|m| m.span.start));
    Err(p.errors)
}

/// Scalars in a type, aggregates counted through.
pub(crate) const MAX_LEAVES: u64 = 1 << 16;

/// After so many errors the rest is noise.
const MAX_ERRORS: usize = 50;

/// The error was reported; the caller gives up its construct.
#[derive(Debug)]
pub(crate) struct Failed;
pub(crate) type Parsed<T> = Result<T, Failed>;

pub(crate) struct Parser {
    tokens: Vec<Token>,
    pub pos: usize,
    pub errors: Vec<Diagnostic>,
    pub module: Module,
    pub scope: Scope,
    /// The number of the next binder that gives none.
    next: u32,
    /// The names of this item that could not be resolved.
    unknown: HashSet<String>,
    depth: usize,
    /// Open scopes that reach to the end of their block.
    pub scopes: usize,
    /// Numbers of scalars in the structs declared so far.
    pub leaves: HashMap<Name, u64>,
    /// `$` names of the current statement.
    pub shared: HashMap<u32, Expr>,
    /// Heights of the expressions of the current statement, by address.
    pub heights: HashMap<usize, u32>,
}

impl Parser {
    fn new(file: FileId, text: &str) -> Parser {
        let mut errors = Vec::new();
        let tokens = if u32::try_from(text.len()).is_ok() {
            lex(file, text, &mut errors)
        } else {
            let span = Span::new(file, 0, 0);
            errors
                .push(Diagnostic::error(codes::BAD_TOKEN, "a tree text has at most 4 GiB").at(span, "here"));
            lex(file, "", &mut errors)
        };
        Parser {
            tokens,
            pos: 0,
            errors,
            module: Module::default(),
            scope: Scope::new(),
            next: 0,
            unknown: HashSet::new(),
            depth: 0,
            scopes: 0,
            leaves: HashMap::new(),
            shared: HashMap::new(),
            heights: HashMap::new(),
        }
    }

    // Tokens.

    pub(crate) fn peek(&self) -> &Tok {
        &self.token(0).tok
    }

    pub(crate) fn token(&self, ahead: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.pos + ahead).min(last)]
    }

    pub(crate) fn span(&self) -> Span {
        self.token(0).span
    }

    /// From `start` to the last token taken.
    pub(crate) fn span_from(&self, start: Span) -> Span {
        let last = &self.tokens[self.pos.saturating_sub(1)];
        if last.span.end >= start.start { start.to(last.span) } else { start }
    }

    pub(crate) fn bump(&mut self) {
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
    }

    pub(crate) fn at(&self, punct: &str) -> bool {
        matches!(self.peek(), Tok::Punct(p) if *p == punct)
    }

    pub(crate) fn at_ahead(&self, ahead: usize, punct: &str) -> bool {
        matches!(&self.token(ahead).tok, Tok::Punct(p) if *p == punct)
    }

    pub(crate) fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Tok::Name { text, quoted: false } if text == word)
    }

    pub(crate) fn at_keyword(&self) -> bool {
        matches!(self.peek(), Tok::Name { text, quoted: false } if RESERVED.contains(&text.as_str()))
    }

    pub(crate) fn eat(&mut self, punct: &str) -> bool {
        let yes = self.at(punct);
        if yes {
            self.bump();
        }
        yes
    }

    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let yes = self.at_word(word);
        if yes {
            self.bump();
        }
        yes
    }

    pub(crate) fn expect(&mut self, punct: &str) -> Parsed<()> {
        if self.eat(punct) { Ok(()) } else { self.expected(&format!("`{punct}`")) }
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    // Errors.

    pub(crate) fn report(&mut self, d: Diagnostic) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(d);
        }
    }

    pub(crate) fn error<T>(&mut self, code: Code, span: Span, what: impl Into<String>) -> Parsed<T> {
        self.report(Diagnostic::error(code, what).at(span, "here"));
        Err(Failed)
    }

    pub(crate) fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            Tok::Name { text, quoted: false } => format!("`{text}`"),
            Tok::Name { text, quoted: true } => format!("the name `{text}`"),
            Tok::Int(t) | Tok::Float(t) => format!("the number {t}"),
            Tok::Label(_) => "a label".to_string(),
            Tok::Str(_) => "a text in quotes".to_string(),
            Tok::Punct(p) => format!("`{p}`"),
            Tok::Eof => "the end of the file".to_string(),
        };
        self.error(codes::SYNTAX, self.span(), format!("expected {what}, found {found}"))
    }

    /// Runs a parser one level deeper.
    pub(crate) fn nested<T>(&mut self, f: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span();
            self.report(
                Diagnostic::error(codes::TOO_DEEP, format!("this nests deeper than {MAX_DEPTH} levels"))
                    .at(span, "here")
                    .help("bind parts with `with $1 = … in`, or move them to a function"),
            );
            return Err(Failed);
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    /// A new item: nothing is in scope, and numbers begin at 0.
    pub(super) fn item_begins(&mut self) {
        self.scope = Scope::new();
        self.next = 0;
        self.unknown.clear();
        self.depth = 0;
        self.scopes = 0;
        self.statement_ends();
    }

    // Names, numbers and lists.

    pub(crate) fn name(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Tok::Name { text, quoted } if *quoted || !RESERVED.contains(&text.as_str()) => {
                let text = text.clone();
                self.bump();
                Ok(text)
            }
            Tok::Name { .. } => {
                let span = self.span();
                let _ = self.expected::<()>(what);
                if let Some(d) =
                    self.errors.last_mut().filter(|d| d.marks.first().is_some_and(|m| m.span == span))
                {
                    d.help = Some("a reserved word is a name only in backquotes".into());
                }
                Err(Failed)
            }
            _ => self.expected(what),
        }
    }

    pub(crate) fn string(&mut self, what: &str) -> Parsed<Name> {
        match self.peek() {
            Tok::Str(s) => {
                let s = Name::from(s.as_str());
                self.bump();
                Ok(s)
            }
            _ => self.expected(what),
        }
    }

    /// A non-negative number below `1 + max`.
    pub(crate) fn number(&mut self, what: &str, max: u64) -> Parsed<u64> {
        let Tok::Int(text) = self.peek() else { return self.expected(what) };
        match text.parse::<u64>() {
            Ok(n) if n <= max => {
                self.bump();
                Ok(n)
            }
            _ => {
                let what = format!("{text} is out of range: {what} is a decimal number up to {max}");
                self.error(codes::BAD_NUMBER, self.span(), what)
            }
        }
    }

    pub(crate) fn signed(&mut self, what: &str) -> Parsed<i64> {
        let start = self.span();
        let negative = self.eat("-");
        let n = self.number(what, 1 << 63)?;
        let v = if negative { -i128::from(n) } else { i128::from(n) };
        match i64::try_from(v) {
            Ok(v) => Ok(v),
            Err(_) => self.error(codes::BAD_NUMBER, self.span_from(start), format!("{what} has 64 bits")),
        }
    }

    /// `item, item, …` up to `close`, which is taken; a trailing comma is allowed.
    pub(crate) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Parser) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut out = Vec::new();
        while !self.eat(close) {
            out.push(item(self)?);
            if !self.at(close) {
                if !self.at(",") {
                    return self.expected(&format!("`,` or `{close}`"));
                }
                self.bump();
            }
        }
        Ok(out)
    }

    // Binders and what they are bound to.

    /// Name and number of a binder: `i`, `i%12`, `A@3`.
    pub(crate) fn binder_name(&mut self, sigil: &str, what: &str) -> Parsed<(Name, u32)> {
        let name = Name::from(self.name(what)?);
        let mut id = self.next;
        if self.at(sigil) && self.token(0).glued && self.token(1).glued {
            self.bump();
            id = self.number("the number of a binder", u64::from(u32::MAX) - 1)? as u32;
        }
        self.next = id.saturating_add(1);
        Ok((name, id))
    }

    /// A binder with an optional type.
    pub(crate) fn binder(&mut self, what: &str) -> Parsed<Binder> {
        let (name, id) = self.binder_name("%", what)?;
        let ty = if self.eat(":") { self.scalar()? } else { Scalar::Index };
        Ok(Binder { id: VarId(id), name, ty })
    }

    /// Reports a name that nothing binds, once per item.
    pub(crate) fn unknown<T>(&mut self, span: Span, kind: &str, name: &str, help: String) -> Parsed<T> {
        if self.unknown.insert(format!("{kind} {name}")) {
            self.report(
                Diagnostic::error(codes::UNKNOWN_NAME, format!("no {kind} `{name}` is in scope"))
                    .at(span, "used here")
                    .help(help),
            );
        } else if self.errors.is_empty() {
            return self.error(codes::UNKNOWN_NAME, span, format!("no {kind} `{name}` is in scope"));
        }
        Err(Failed)
    }

    pub(crate) fn scalar(&mut self) -> Parsed<Scalar> {
        let start = self.span();
        match self.ty()? {
            Type::Scalar(s) => Ok(s),
            t => {
                self.error(codes::SYNTAX, self.span_from(start), format!("expected a scalar type, found {t}"))
            }
        }
    }

    pub(crate) fn ty(&mut self) -> Parsed<Type> {
        let start = self.span();
        let ty = self.nested(Parser::type_node)?;
        if self.count_leaves(&ty) > MAX_LEAVES {
            let what = format!("this type has more than {MAX_LEAVES} scalars");
            return self.error(codes::TOO_DEEP, self.span_from(start), what);
        }
        Ok(ty)
    }

    /// Passes list the scalars of a type, so there must not be too many; structs in structs count fast.
    pub(super) fn count_leaves(&self, t: &Type) -> u64 {
        match t {
            Type::Scalar(_) => 1,
            Type::Tuple(ts) => ts.iter().fold(0, |n, t| n.saturating_add(self.count_leaves(t))),
            Type::Struct(s) => self.leaves.get(&s.name).copied().unwrap_or(1),
            Type::Array(t, n) => self.count_leaves(t).max(1).saturating_mul(u64::from(*n)),
            Type::Vector(_, n) => u64::from(*n),
        }
    }

    fn type_node(&mut self) -> Parsed<Type> {
        if self.eat("(") {
            let mut parts = Vec::new();
            while !self.eat(")") {
                parts.push(self.ty()?);
                if !self.at(")") {
                    self.expect(",")?;
                }
            }
            return Ok(Type::Tuple(parts.into()));
        }
        let start = self.span();
        let quoted = matches!(self.peek(), Tok::Name { quoted: true, .. });
        let name = self.name("a type")?;
        if !quoted {
            if let Some(s) = Scalar::from_name(&name) {
                return Ok(s.into());
            }
            if name == "array" || name == "vector" {
                self.expect("<")?;
                let inner_span = self.span();
                let inner = self.ty()?;
                self.expect(",")?;
                let n = self.number("the length", u64::from(u32::MAX))? as u32;
                self.expect(">")?;
                return match (name.as_str(), inner.scalar()) {
                    ("array", _) => Ok(Type::Array(Arc::new(inner), n)),
                    (_, Some(s)) => Ok(Type::Vector(s, n)),
                    _ => self.error(codes::SYNTAX, inner_span, "a vector has scalar elements"),
                };
            }
        }
        match self.module.structs.get(name.as_str()) {
            Some(s) => Ok(Type::Struct(s.clone())),
            None => {
                let help = format!("declare it before its use: `struct {name} {{ … }}`");
                self.unknown(start, "struct", &name, help)
            }
        }
    }
}
