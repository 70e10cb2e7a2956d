//! The recovering parser: one error per broken statement or item, then on with the next.
//!
//! [`Parser`] is the cursor over the tokens; [`items`], [`kernels`], [`exprs`], [`strategies`] and [`tests`]
//! hold the rules of the grammar. Rules return `None` after they have reported an error.

mod exprs;
mod items;
mod kernels;
pub(crate) mod strategies;
mod tests;

use crate::ast;
use crate::codes;
use crate::lexer::{Comment, Lexed, Tok, Token, lex};
use lathe_diagnostics::{Code, Diagnostic, FileId, Span};

/// Brackets and blocks may nest this deep; everything after the parser may recurse.
const MAX_DEPTH: u32 = 100;
/// Height of expression trees: `a + b + c + …` included.
pub(crate) const MAX_HEIGHT: u32 = 400;
/// After so many errors the rest is noise.
const MAX_ERRORS: usize = 40;

/// Parses a file. Whatever is wrong, a tree of the rest comes back.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    let parsed = parse_all(file, text);
    (parsed.file, parsed.errors)
}

/// An expression by itself: sizes of funs, as text. Places in it mean nothing.
pub(crate) fn expression(file: FileId, text: &str) -> Option<ast::Expr> {
    let Lexed { tokens, comments, errors } = lex(file, text);
    let angles = Vec::new();
    let mut p =
        Parser { text, tokens: &tokens, comments: &comments, at: 0, lines: false, depth: 0, errors, angles };
    p.expr()
}

pub(crate) struct Parsed {
    pub file: ast::File,
    pub errors: Vec<Diagnostic>,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    /// Positions of `<` and `>` tokens that are brackets of types, not comparisons.
    pub angles: Vec<usize>,
}

pub(crate) fn parse_all(file: FileId, text: &str) -> Parsed {
    let Lexed { tokens, comments, errors } = lex(file, text);
    let mut p = Parser {
        text,
        tokens: &tokens,
        comments: &comments,
        at: 0,
        lines: false,
        depth: 0,
        errors,
        angles: Vec::new(),
    };
    let file = p.file();
    let Parser { mut errors, angles, .. } = p;
    errors.truncate(MAX_ERRORS);
    Parsed { file, errors, tokens, comments, angles }
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    comments: &'a [Comment],
    at: usize,
    /// Newlines end expressions here: inside a kernel's braces, outside brackets.
    lines: bool,
    depth: u32,
    errors: Vec<Diagnostic>,
    angles: Vec<usize>,
}

impl Parser<'_> {
    fn peek(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    fn peek_at(&self, n: usize) -> &Tok {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].tok
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Place of the token before.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// From a start to the last token taken.
    fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    fn newline(&self) -> bool {
        self.tokens[self.at].newline
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn is(&self, s: &str) -> bool {
        matches!(self.peek(), Tok::Sym(x) | Tok::Word(x) if *x == s)
    }

    fn is_at(&self, n: usize, s: &str) -> bool {
        matches!(self.peek_at(n), Tok::Sym(x) | Tok::Word(x) if *x == s)
    }

    fn is_name(&self, s: &str) -> bool {
        matches!(self.peek(), Tok::Name(x) if x == s)
    }

    fn take(&mut self, s: &str) -> bool {
        let yes = self.is(s);
        if yes {
            self.advance();
        }
        yes
    }

    fn error(&mut self, code: Code, message: impl Into<String>, span: Span, mark: impl Into<String>) {
        self.errors.push(Diagnostic::error(code, message).at(span, mark));
    }

    fn help(&mut self, text: impl Into<String>) {
        if let Some(d) = self.errors.last_mut() {
            d.help = Some(text.into());
        }
    }

    /// Reports that something else was expected here.
    fn expected(&mut self, what: &str) {
        let found = self.peek().describe();
        let span = self.span();
        self.error(
            codes::EXPECTED,
            format!("expected {what}, found {found}"),
            span,
            format!("expected {what}"),
        );
        if let Tok::Word(w) = self.peek()
            && what.contains("name")
        {
            let text = format!("`{w}` is a reserved word; choose another name");
            self.help(text);
        }
        if self.is("?") {
            self.help("a choice is `select(condition, a, b)`");
        }
    }

    fn expect(&mut self, s: &'static str) -> Option<Span> {
        if self.is(s) {
            let span = self.span();
            self.advance();
            Some(span)
        } else {
            self.expected(&format!("`{s}`"));
            None
        }
    }

    /// A closing bracket; the message marks the opening one too.
    fn close(&mut self, s: &'static str, open: Span) -> Option<()> {
        if self.take(s) {
            return Some(());
        }
        self.expected(&format!("`{s}`"));
        if let Some(d) = self.errors.last_mut() {
            d.marks.push(lathe_diagnostics::Mark { span: open, text: "opened here".into() });
        }
        None
    }

    fn ident(&mut self, what: &str) -> Option<ast::Ident> {
        if let Tok::Name(n) = self.peek() {
            let id = ast::Ident { text: n.clone(), span: self.span() };
            self.advance();
            Some(id)
        } else {
            self.expected(what);
            None
        }
    }

    /// Runs a rule one level deeper, with newlines meaning nothing or something.
    fn nested<T>(&mut self, lines: bool, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span();
            self.error(
                codes::NESTING,
                "this nests too deeply",
                span,
                format!("more than {MAX_DEPTH} levels"),
            );
            self.help("name parts of it with `let`");
            return None;
        }
        let before = self.lines;
        self.depth += 1;
        self.lines = lines;
        let out = rule(self);
        self.lines = before;
        self.depth -= 1;
        out
    }

    /// `a, b, c` up to a closing bracket that the caller takes; a trailing comma is allowed.
    fn list<T>(&mut self, end: &str, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut out = Vec::new();
        while !self.is(end) {
            out.push(one(self)?);
            if !self.take(",") {
                break;
            }
        }
        Some(out)
    }

    /// Is the next token a word that begins an item?
    fn at_item(&self) -> bool {
        matches!(
            self.peek(),
            Tok::Word("kernel" | "fun" | "struct" | "op" | "rule" | "strategy" | "use" | "test") | Tok::End
        )
    }

    /// Skips to where the next statement may begin.
    fn skip_statement(&mut self) {
        let mut open = 0;
        while !self.at_item() {
            if open == 0 && (self.is("}") || self.is(";") || (self.newline() && !self.is(")"))) {
                return;
            }
            if self.is("{") || self.is("(") || self.is("[") {
                open += 1;
            } else if (self.is("}") || self.is(")") || self.is("]")) && open > 0 {
                open -= 1;
            }
            self.advance();
        }
    }

    fn skip_item(&mut self) {
        while !self.at_item() {
            self.advance();
        }
    }
}
