//! The basis of the parser: errors, names, numbers, binders and types.

use super::scope::Scope;
use super::{MAX_DEPTH, RESERVED};
use crate::codes;
use crate::expr::Expr;
use crate::ids::{Binder, VarId};
use crate::module::Module;
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::{Code, Diagnostic, FileId, Span};
use lathe_syntax::{Cursor, Dialect, Grammar, Lexed, Read, Rules, Tok, lex, unquote};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Parses tree text.
///
/// # Errors
/// Everything that is wrong with the text, in its order; codes E0301 to E0307.
pub fn parse_module(file: FileId, text: &str) -> Result<Module, Vec<Diagnostic>> {
    read(&mut lex(&TREE, &GRAMMAR, file, text)).map(|(module, _)| module)
}

/// Tree text as tokens.
pub(super) fn tokens(file: FileId, text: &str) -> Lexed<'_> {
    lex(&TREE, &GRAMMAR, file, text)
}

/// Where the parts of a text stand, by their positions in the list of its tokens: what a layout needs to know.
#[derive(Default)]
pub(super) struct Outline {
    /// What begins a line, and how much further inside it stands than the block around it.
    pub lines: Vec<(usize, usize)>,
    /// The braces of blocks.
    pub blocks: Vec<(usize, usize)>,
    /// `:` before the type of a value, `<` and `>` around arguments of types, `=` of an operator `sum=`.
    pub joined: Vec<usize>,
}

/// The module that tokens are, and its outline.
pub(super) fn read(lexed: &mut Lexed) -> Result<(Module, Outline), Vec<Diagnostic>> {
    let errors = std::mem::take(&mut lexed.errors);
    let mut p = Parser {
        cursor: Cursor::new(lexed, &TREE, &GRAMMAR),
        errors,
        module: Module::default(),
        scope: Scope::new(),
        next: 0,
        unknown: HashSet::new(),
        scopes: 0,
        leaves: HashMap::new(),
        shared: HashMap::new(),
        heights: HashMap::new(),
        outline: Outline::default(),
    };
    p.items();
    if p.errors.is_empty() {
        return Ok((p.module, p.outline));
    }
    p.errors.sort_by_key(|d| d.marks.first().map(|m| m.span.start));
    Err(p.errors)
}

/// Scalars in a type, aggregates counted through.
pub(crate) const MAX_LEAVES: u64 = 1 << 16;

/// After so many errors the rest is noise.
const MAX_ERRORS: usize = 50;

/// Parses are ended by what is wrong; [`Parser::report`] keeps it where they go on.
pub(crate) type Parsed<T> = Read<T>;

/// Tree text.
static TREE: Dialect = Dialect {
    imaginary: false,
    words: RESERVED,
    symbols: &[
        "..", "->", "==", "!=", "<=", ">=", "//", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=", "<", ">",
        "+", "-", "*", "/", "%", "@", "$", "!", "?", "~", "&",
    ],
    quotes: &['\'', '"', '`'],
    letter: |c| c.is_ascii_alphanumeric() || c == '_',
    comments: true,
    tree: true,
    reserved: "it is a name only in backquotes",
    hints: &[],
};

static GRAMMAR: Grammar = Grammar {
    character: codes::BAD_TOKEN,
    number: codes::BAD_NUMBER,
    string: codes::BAD_TOKEN,
    expected: codes::SYNTAX,
    nesting: codes::TOO_DEEP,
    chain: codes::SYNTAX,
    depth: MAX_DEPTH,
    shallower: "bind parts with `with $1 = … in`, or move them to a function",
};

pub(crate) struct Parser<'a> {
    cursor: Cursor<'a>,
    errors: Vec<Diagnostic>,
    pub module: Module,
    pub scope: Scope,
    /// The number of the next binder that gives none.
    next: u32,
    /// What was said of names of this item that could not be resolved.
    unknown: HashSet<String>,
    /// Open scopes that reach to the end of their block.
    pub scopes: usize,
    /// Numbers of scalars in the structs declared so far.
    pub leaves: HashMap<Name, u64>,
    /// `$` names of the current statement.
    pub shared: HashMap<u32, Expr>,
    /// Heights of the expressions of the current statement, by address.
    pub heights: HashMap<usize, u32>,
    pub(super) outline: Outline,
}

lathe_syntax::parser!(<'a> Parser<'a>);

impl<'a> Parser<'a> {
    // Errors.

    /// Keeps what is wrong, and each unknown name once per item.
    pub(crate) fn report(&mut self, d: Diagnostic) {
        let known = d.code == codes::UNKNOWN_NAME && !self.unknown.insert(d.message.clone());
        if self.errors.len() < MAX_ERRORS && !known {
            self.errors.push(d);
        }
    }

    /// The next token begins a line, so much further inside than the block.
    pub(super) fn begins_line(&mut self, inside: usize) {
        let at = self.at;
        self.outline.lines.push((at, inside));
    }

    /// The next token stands without a blank.
    pub(super) fn joined(&mut self) {
        let at = self.at;
        self.outline.joined.push(at);
    }

    pub(crate) fn wrong<T>(&self, code: Code, span: Span, what: impl Into<String>) -> Parsed<T> {
        Err(Diagnostic::error(code, what).at(span, "here"))
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

    /// Is the next token a name in backquotes?
    pub(crate) fn quoted(&self) -> bool {
        matches!(self.peek(), Tok::Quoted('`', _))
    }

    /// The word that comes next, if it is not in quotes; else none.
    pub(crate) fn word(&self) -> &'a str {
        match self.peek() {
            Tok::Name(w) | Tok::Word(w) => w,
            _ => "",
        }
    }

    pub(crate) fn at_word(&self) -> bool {
        matches!(self.peek(), Tok::Name(_) | Tok::Word(_) | Tok::Quoted('`', _))
    }

    /// A name, perhaps in backquotes.
    pub(crate) fn ident(&mut self, what: &str) -> Parsed<Name> {
        let Tok::Quoted('`', raw) = self.peek() else { return self.name(what).map(Name::from) };
        self.advance();
        Ok(Name::from(unquote(raw)))
    }

    pub(crate) fn text(&mut self, what: &str) -> Parsed<Name> {
        self.string(what).map(Name::from)
    }

    /// A non-negative number below `1 + max`.
    pub(crate) fn number(&mut self, what: &str, max: u64) -> Parsed<u64> {
        let Tok::Int(text) = self.peek() else { return self.expected(what) };
        match text.parse::<u64>() {
            Ok(n) if n <= max => {
                self.advance();
                Ok(n)
            }
            _ => {
                let what = format!("{text} is out of range: {what} is a decimal number up to {max}");
                self.wrong(codes::BAD_NUMBER, self.span(), what)
            }
        }
    }

    pub(crate) fn number32(&mut self, what: &str) -> Parsed<u32> {
        self.number(what, u64::from(u32::MAX)).map(|n| n as u32)
    }

    pub(crate) fn signed_number(&mut self, what: &str) -> Parsed<i64> {
        let start = self.span();
        let negative = self.take("-");
        let n = self.number(what, 1 << 63)?;
        let v = if negative { -i128::from(n) } else { i128::from(n) };
        match i64::try_from(v) {
            Ok(v) => Ok(v),
            Err(_) => self.wrong(codes::BAD_NUMBER, self.since(start), format!("{what} has 64 bits")),
        }
    }

    // Binders and what they are bound to.

    /// Name and number of a binder: `i`, `i%12`, `A@3`.
    pub(crate) fn binder_name(&mut self, sigil: &str, what: &str) -> Parsed<(Name, u32)> {
        let name = self.ident(what)?;
        let mut id = self.next;
        if self.is(sigil) && self.token(0).glued && self.token(1).glued {
            self.advance();
            id = self.number("the number of a binder", u64::from(u32::MAX) - 1)? as u32;
        }
        self.next = id.saturating_add(1);
        Ok((name, id))
    }

    /// A binder with an optional type.
    pub(crate) fn binder(&mut self, what: &str) -> Parsed<Binder> {
        let (name, id) = self.binder_name("%", what)?;
        let ty = if self.take(":") { self.scalar()? } else { Scalar::Index };
        Ok(Binder { id: VarId(id), name, ty })
    }

    /// A name that nothing binds.
    pub(crate) fn unknown<T>(&self, span: Span, kind: &str, name: &str, help: String) -> Parsed<T> {
        let d = Diagnostic::error(codes::UNKNOWN_NAME, format!("no {kind} `{name}` is in scope"));
        Err(d.at(span, "used here").help(help))
    }

    pub(crate) fn scalar(&mut self) -> Parsed<Scalar> {
        let start = self.span();
        match self.ty()? {
            Type::Scalar(s) => Ok(s),
            t => self.wrong(codes::SYNTAX, self.since(start), format!("expected a scalar type, found {t}")),
        }
    }

    pub(crate) fn ty(&mut self) -> Parsed<Type> {
        let start = self.span();
        let ty = self.deeper(Parser::type_node)?;
        if self.count_leaves(&ty) > MAX_LEAVES {
            let what = format!("this type has more than {MAX_LEAVES} scalars");
            return self.wrong(codes::TOO_DEEP, self.since(start), what);
        }
        Ok(ty)
    }

    /// Passes list the scalars of a type, so there must not be too many; structs in structs count fast.
    pub(super) fn count_leaves(&self, t: &Type) -> u64 {
        match t {
            Type::Scalar(_) => 1,
            Type::Tuple(ts) => ts.iter().fold(0, |n, t| n.saturating_add(self.count_leaves(t))),
            Type::Struct(s) => self.leaves.get(&s.name).copied().unwrap_or(s.fields.len() as u64),
            Type::Array(t, n) => self.count_leaves(t).max(1).saturating_mul(u64::from(*n)),
            Type::Vector(_, n) => u64::from(*n),
        }
    }

    fn type_node(&mut self) -> Parsed<Type> {
        if self.is("(") {
            return Ok(Type::Tuple(self.listed("(", ")", Parser::ty)?.into()));
        }
        let start = self.span();
        let quoted = self.quoted();
        let name = self.ident("a type")?;
        if !quoted {
            if let Some(s) = Scalar::from_name(&name) {
                return Ok(s.into());
            }
            if matches!(&*name, "array" | "vector") {
                self.joined();
                self.expect("<")?;
                let inner_span = self.span();
                let inner = self.ty()?;
                self.expect(",")?;
                let n = self.number32("the length")?;
                self.joined();
                self.expect(">")?;
                return match (&*name, inner.scalar()) {
                    ("array", _) => Ok(Type::Array(Arc::new(inner), n)),
                    (_, Some(s)) => Ok(Type::Vector(s, n)),
                    _ => self.wrong(codes::SYNTAX, inner_span, "a vector has scalar elements"),
                };
            }
        }
        let own = self.module.structs.get(&name).cloned().map(Type::Struct);
        match own.or_else(|| Type::complex_named(&name)) {
            Some(t) => Ok(t),
            None => {
                let help = format!("declare it before its use: `struct {name} {{ … }}`");
                self.unknown(start, "struct", &name, help)
            }
        }
    }
}
