//! The formatter: the user's lines with regular indentation and spaces. It works on the tokens, so comments
//! stay where they are, and formatting twice changes nothing.

use crate::parse::{Parsed, begins_item, parse_all};
use lathe_diagnostics::{Diagnostic, FileId};
use lathe_strategy::words::{RENAMED, Renamed};
use lathe_syntax::{Comment, Tok, Token};

const INDENT: &str = "    ";
/// Symbols between two operands.
const INFIX: &[&str] = &[
    "+", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "<+", ">>", "<<", "|>", "=", "+=", "-=",
    "*=", "@",
];

/// Lays a file out: four blanks per bracket or continued line, one blank around operators, at most one empty
/// line in a row.
///
/// # Errors
/// What the parser says: a file with errors of form is left alone.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let parsed = parse_all(FileId(0), text);
    if !parsed.errors.is_empty() {
        return Err(parsed.errors);
    }
    Ok(Layout::new(text, &parsed).run())
}

struct Layout<'a> {
    text: &'a str,
    parsed: &'a Parsed<'a>,
    out: String,
    /// Per open bracket: did it begin a deeper level of indentation, and is it a brace?
    open: Vec<(bool, bool)>,
    /// The levels of the line that is being written, fixed when it begins.
    level: usize,
    /// Whether the item that is being written is a strategy.
    in_strategy: bool,
}

impl<'a> Layout<'a> {
    fn new(text: &'a str, parsed: &'a Parsed<'a>) -> Layout<'a> {
        Layout { text, parsed, out: String::new(), open: Vec::new(), level: 0, in_strategy: false }
    }

    fn run(mut self) -> String {
        let mut comments = self.parsed.lexed.comments.iter().peekable();
        let mut end = 0usize;
        for (n, t) in self.parsed.lexed.tokens.iter().enumerate() {
            while let Some(c) = comments.next_if(|c| c.before == n) {
                self.comment(c, end, n);
                end = c.span.end as usize;
            }
            if t.tok == Tok::End {
                break;
            }
            let start = t.span.start as usize;
            let breaks = self.text[end..start].matches('\n').count();
            if breaks > 0 || self.out.is_empty() {
                self.new_line(breaks, n);
            } else if n > 0 && self.space(n) {
                self.out.push(' ');
            }
            if self.open.is_empty() && begins_item(t.tok) {
                self.in_strategy = t.tok == Tok::Word("strategy");
            }
            let word = &self.text[start..t.span.end as usize];
            self.out.push_str(self.renamed(n, word).unwrap_or(word));
            self.count(n);
            end = t.span.end as usize;
        }
        let mut out: String = self.out.lines().map(|l| format!("{}\n", l.trim_end())).collect();
        while out.ends_with("\n\n") {
            out.pop();
        }
        out
    }

    /// The new name of a word of strategies that had another one: of a step that is called, or of the value of an argument.
    fn renamed(&self, n: usize, word: &str) -> Option<&'static str> {
        let tokens = &self.parsed.lexed.tokens;
        let text = |k: Option<usize>| {
            let t = tokens.get(k?)?;
            Some(&self.text[t.span.start as usize..t.span.end as usize])
        };
        let (one, two) = (text(n.checked_sub(1)), text(n.checked_sub(2)));
        let stands = |r: &&Renamed| match r.argument {
            // What the file itself calls so is another one.
            None => text(Some(n + 1)) == Some("(") && !self.defines(word),
            Some(a) => one == Some(":") && two == Some(a),
        };
        RENAMED.iter().filter(|r| self.in_strategy && r.old == word).find(stands).map(|r| r.new)
    }

    /// Whether the file has a strategy of a name.
    fn defines(&self, name: &str) -> bool {
        self.parsed.lexed.tokens.windows(2).any(|pair| {
            pair[0].tok == Tok::Word("strategy")
                && &self.text[pair[1].span.start as usize..pair[1].span.end as usize] == name
        })
    }

    fn comment(&mut self, c: &Comment, end: usize, next: usize) {
        let text = self.text[c.span.start as usize..c.span.end as usize].trim_end();
        let breaks = self.text[end..c.span.start as usize].matches('\n').count();
        if breaks > 0 || self.out.is_empty() {
            self.new_line(breaks, next);
        } else {
            // As far from the code as the user wants it, so that columns of comments stay.
            let gap = self.text[end..c.span.start as usize].len().max(1);
            self.out.push_str(&" ".repeat(gap));
        }
        self.out.push_str(text);
    }

    /// Ends the line and indents the next, which begins before token `n`.
    fn new_line(&mut self, breaks: usize, n: usize) {
        if !self.out.is_empty() {
            self.out.push('\n');
            if breaks > 1 {
                self.out.push('\n');
            }
        }
        let tok = self.parsed.lexed.tokens[n].tok;
        let closing = matches!(tok, Tok::Sym(")" | "]" | "}"));
        let item = self.open.is_empty() && begins_item(tok);
        let mut level = self.open.iter().filter(|o| o.0).count();
        if closing && self.open.last().is_some_and(|o| o.0) {
            level -= 1;
        }
        // A line that goes on with what the line before began.
        if !closing && !item && self.continues(n) {
            level += 1;
        }
        self.level = level;
        self.out.push_str(&INDENT.repeat(level));
    }

    /// Does token `n` at the start of a line go on with a statement or item?
    fn continues(&self, n: usize) -> bool {
        let Some(before) = n.checked_sub(1).map(|b| self.parsed.lexed.tokens[b].tok) else { return false };
        let tok = self.parsed.lexed.tokens[n].tok;
        if self.open.is_empty() {
            // Comments before an item stand at its level.
            return !begins_item(tok) && tok != Tok::End;
        }
        // Inside parentheses the bracket indents enough.
        if self.open.last().is_some_and(|o| !o.1) {
            return false;
        }
        let infix = |n: usize| match self.parsed.lexed.tokens[n].tok {
            Tok::Sym(s) => INFIX.contains(&s),
            Tok::Word(w) => ["and", "or", "where", "in", "step", "then"].contains(&w),
            _ => self.reduces(n),
        };
        infix(n) || infix(n - 1) || matches!(before, Tok::Sym("-") | Tok::Word("not"))
    }

    /// Is the name at `n` the first part of an operator such as `max=`?
    fn reduces(&self, n: usize) -> bool {
        let tokens = &self.parsed.lexed.tokens;
        let word = matches!(tokens[n].tok, Tok::Name("min" | "max" | "any" | "all"));
        let touched = tokens.get(n + 1).is_some_and(|t| t.glued && t.tok == Tok::Sym("="));
        word && touched && n > 0 && !tokens[n].newline && self.binary(n)
    }

    /// Follows brackets: the first one left open on a line indents the next line, further ones do not.
    fn count(&mut self, n: usize) {
        match self.parsed.lexed.tokens[n].tok {
            Tok::Sym("(" | "[" | "{") => {
                let deep = self.open.iter().filter(|o| o.0).count();
                // Indent relative to the line, not once per bracket.
                let brace = self.parsed.lexed.tokens[n].tok == Tok::Sym("{");
                self.open.push((deep <= self.level, brace));
            }
            Tok::Sym(")" | "]" | "}") => {
                self.open.pop();
            }
            _ => {}
        }
    }

    /// Does a blank stand before token `n`?
    fn space(&self, n: usize) -> bool {
        let tokens: &[Token] = &self.parsed.lexed.tokens;
        let (a, b) = (tokens[n - 1].tok, tokens[n].tok);
        let angle = |i: usize| self.parsed.angles.contains(&i);
        match (a, b) {
            (_, Tok::Sym("=")) if self.reduces(n - 1) => false,
            // Between steps of a strategy a blank stands on both sides, between statements on one.
            (_, Tok::Sym(";")) => !self.open.last().is_some_and(|o| o.1),
            (Tok::Sym("."), _) | (_, Tok::Sym("." | "," | ":" | ")" | "]")) => false,
            (Tok::Sym("(" | "["), _) => false,
            (Tok::Sym(".." | "..="), _) | (_, Tok::Sym(".." | "..=")) => false,
            (_, Tok::Sym("<" | ">")) if angle(n) => false,
            (Tok::Sym("<"), _) if angle(n - 1) => false,
            // Braces of blocks have blanks inside, those of sets do not.
            (Tok::Sym("{"), Tok::Sym("}")) => false,
            (Tok::Sym("{"), _) => !self.set_at(n - 1),
            (_, Tok::Sym("}")) => !self.set_before(n),
            (_, Tok::Sym("(" | "[")) => {
                let call = match a {
                    Tok::Name(_) | Tok::Sym(")" | "]") => true,
                    Tok::Sym(">") => angle(n - 1),
                    Tok::Word("assume") => true,
                    Tok::Word("where") => self.is_step(n - 1),
                    Tok::Sym("-") => !self.binary(n - 1),
                    Tok::Sym("|") => !self.closes_lambda(n - 1),
                    _ => false,
                };
                !call
            }
            (Tok::Sym("-"), _) => self.binary(n - 1),
            (Tok::Sym("|"), _) => self.closes_lambda(n - 1),
            (_, Tok::Sym("|")) => !self.closes_lambda(n),
            _ => true,
        }
    }

    /// Is the `-` at `n` between two operands?
    fn binary(&self, n: usize) -> bool {
        let Some(before) = n.checked_sub(1).map(|b| self.parsed.lexed.tokens[b].tok) else { return false };
        matches!(
            before,
            Tok::Name(_)
                | Tok::Int(_)
                | Tok::Float(_)
                | Tok::Quoted(..)
                | Tok::Word("true" | "false" | "inf" | "nan")
                | Tok::Sym(")" | "]" | "}")
        )
    }

    /// Is the `where` at `n` the step `where(p)`?
    fn is_step(&self, n: usize) -> bool {
        let Some(before) = n.checked_sub(1).map(|b| self.parsed.lexed.tokens[b].tok) else { return false };
        matches!(before, Tok::Sym("(" | "," | "=" | ";" | ";;" | "<+" | "@") | Tok::Word("then" | "else"))
    }

    /// Is the `{` at `n` that of a set of values: `in {1, 2}`?
    fn set_at(&self, n: usize) -> bool {
        n > 0 && self.parsed.lexed.tokens[n - 1].tok == Tok::Word("in")
    }

    fn set_before(&self, n: usize) -> bool {
        let mut depth = 0;
        for i in (0..n).rev() {
            match self.parsed.lexed.tokens[i].tok {
                Tok::Sym("}") => depth += 1,
                Tok::Sym("{") if depth == 0 => return self.set_at(i),
                Tok::Sym("{") => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// Is the `|` at `n` the second of a lambda's pair? Bars mean nothing else, and pairs do not nest.
    fn closes_lambda(&self, n: usize) -> bool {
        self.parsed.lexed.tokens[..n].iter().filter(|t| t.tok == Tok::Sym("|")).count() % 2 == 1
    }
}
