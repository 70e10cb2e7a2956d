//! The recovering parser: one error per broken statement or item, then on with the next.
//!
//! [`items`], [`kernels`], [`exprs`] and [`tests`] hold the rules of the grammar; terms and strategies are read by their
//! own crates, at the same cursor.

mod exprs;
mod items;
mod kernels;
mod tests;

use crate::ast;
use crate::codes;
use lathe_diagnostics::{Diagnostic, FileId};
use lathe_syntax::{Comment, Cursor, Expressions, KERNELS, Lexed, Read, SOURCE, Tok, lex};

/// Height of expression trees: `a + b + c + …` included.
pub(crate) const MAX_HEIGHT: u32 = 400;
/// After so many errors the rest is noise.
const MAX_ERRORS: usize = 40;
/// Words after `#:` that the test harness understands.
const DIRECTIVES: &[&str] = &["ok", "error", "warning", "tree"];

/// Parses a file. Whatever is wrong, a tree of the rest comes back.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    let parsed = parse_all(file, text);
    (parsed.file, parsed.errors)
}

/// An expression by itself: sizes of funs, as text. Places in it mean nothing.
pub(crate) fn expression(file: FileId, text: &str) -> Option<ast::Expr> {
    Parser::new(text, &lex(&SOURCE, &KERNELS, file, text)).expr().ok()
}

pub(crate) struct Parsed<'a> {
    pub file: ast::File,
    pub errors: Vec<Diagnostic>,
    /// Tokens and comments.
    pub lexed: Lexed<'a>,
    /// Positions of `<` and `>` tokens that are brackets of types, not comparisons.
    pub angles: Vec<usize>,
}

pub(crate) fn parse_all(file: FileId, text: &str) -> Parsed<'_> {
    let mut lexed = lex(&SOURCE, &KERNELS, file, text);
    let mut errors = std::mem::take(&mut lexed.errors);
    errors.extend(lexed.comments.iter().filter_map(|c| directive(c, text)));
    let mut p = Parser::new(text, &lexed);
    p.errors = errors;
    let file = p.file();
    let Parser { mut errors, cursor, .. } = p;
    errors.truncate(MAX_ERRORS);
    let angles = cursor.angles;
    Parsed { file, errors, lexed, angles }
}

/// What is wrong with a comment that begins as those of the test harness do.
fn directive(c: &Comment, text: &str) -> Option<Diagnostic> {
    let rest = text[c.span.start as usize..c.span.end as usize].strip_prefix("#:")?;
    let word = rest.split_whitespace().next().unwrap_or("");
    let help = format!("directives are {}; a comment begins with `# `", DIRECTIVES.join(", "));
    let wrong = || Diagnostic::error(codes::DIRECTIVE, format!("unknown test directive `{word}`"));
    (!DIRECTIVES.contains(&word)).then(|| wrong().at(c.span, "not a directive").help(help))
}

pub(crate) struct Parser<'a> {
    cursor: Cursor<'a>,
    text: &'a str,
    comments: &'a [Comment],
    errors: Vec<Diagnostic>,
}

lathe_syntax::parser!(<'a> Parser<'a>);

impl<'a> Parser<'a> {
    fn new(text: &'a str, lexed: &'a Lexed<'a>) -> Parser<'a> {
        let cursor = Cursor::new(lexed, &SOURCE, &KERNELS);
        Parser { cursor, text, comments: &lexed.comments, errors: Vec::new() }
    }

    fn ident(&mut self, what: &str) -> Read<ast::Ident> {
        let span = self.span();
        Ok(ast::Ident { text: self.name(what)?.to_string(), span })
    }

    /// Runs a rule where newlines end expressions.
    fn in_lines<T>(&mut self, rule: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.lines, true);
        let out = rule(self);
        self.lines = before;
        out
    }

    /// What each rule gives, until the block ends; a broken one is skipped. `ends` is what ends one beside a newline.
    fn recovering<T>(
        &mut self,
        ends: &[&str],
        what: &str,
        mut one: impl FnMut(&mut Self) -> Read<T>,
    ) -> Vec<T> {
        let mut out = Vec::new();
        loop {
            while ends.iter().any(|end| self.take(end)) {}
            if self.is("}") || self.at_item() {
                return out;
            }
            let start = self.at;
            let wrong = match one(self) {
                Ok(parsed) => {
                    out.push(parsed);
                    let ended = self.is("}") || self.newline() || self.at_item();
                    if ended || ends.iter().any(|end| self.is(end)) {
                        continue;
                    }
                    self.unexpected(what)
                }
                Err(d) => d,
            };
            self.errors.push(wrong);
            if self.at == start {
                self.advance();
            }
            self.skip_statement();
        }
    }

    /// Is the next token a word that begins an item?
    fn at_item(&self) -> bool {
        begins_item(self.peek())
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

pub(crate) fn begins_item(tok: Tok) -> bool {
    matches!(
        tok,
        Tok::Word("kernel" | "fun" | "struct" | "op" | "rule" | "strategy" | "use" | "test" | "derivative")
            | Tok::End
    )
}
