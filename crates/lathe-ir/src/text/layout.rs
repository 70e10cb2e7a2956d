//! The formatter: the tokens of a text on the lines, and with the blanks, that the printer writes, with the user's
//! comments. It changes nothing but white space, so items keep their order and comments their places; what the printer
//! wrote stays as it is.

use super::parse::{Outline, read, tokens};
use lathe_diagnostics::{Diagnostic, FileId};
use lathe_syntax::{Comment, Lexed, Tok};
use std::collections::{HashMap, HashSet};

/// Lays tree text out: one statement per line, two blanks per block, at most one empty line in a row, and one between
/// items.
///
/// # Errors
/// What the parser says.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut lexed = tokens(FileId(0), text);
    let (_, outline) = read(&mut lexed)?;
    Ok(Layout::new(text, &lexed, outline).run())
}

/// What brackets are for: those of blocks are on lines of their own.
#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    Block,
    /// The fields of a struct.
    Fields,
    Other,
}

struct Layout<'a> {
    text: &'a str,
    lexed: &'a Lexed<'a>,
    /// What begins a line, and how much further inside.
    lines: HashMap<usize, usize>,
    opens: HashSet<usize>,
    closes: HashSet<usize>,
    joined: HashSet<usize>,
    out: String,
    open: Vec<Bracket>,
    /// The word of the item that is being written, and of the one before it.
    item: &'a str,
    before: &'a str,
}

/// How the next token or comment comes.
#[derive(Clone, Copy, PartialEq)]
enum Break {
    None,
    Line,
    /// With an empty line before it.
    Space,
}

impl<'a> Layout<'a> {
    fn new(text: &'a str, lexed: &'a Lexed<'a>, outline: Outline) -> Layout<'a> {
        Layout {
            text,
            lexed,
            lines: outline.lines.into_iter().collect(),
            opens: outline.blocks.iter().map(|b| b.0).collect(),
            closes: outline.blocks.iter().map(|b| b.1).collect(),
            joined: outline.joined.into_iter().collect(),
            out: String::new(),
            open: Vec::new(),
            item: "",
            before: "",
        }
    }

    fn run(mut self) -> String {
        let lexed = self.lexed;
        let mut comments = lexed.comments.iter().peekable();
        // Where the text goes on, and whether a comment ended the line.
        let (mut end, mut commented) = (0usize, false);
        for (n, t) in lexed.tokens.iter().enumerate() {
            if let Tok::Word(word) | Tok::Name(word) = t.tok
                && self.begins_item(n)
            {
                (self.before, self.item) = (self.item, word);
            }
            let mut first = true;
            while let Some(c) = comments.next_if(|c| c.before == n) {
                self.comment(c, end, n, first);
                (end, commented) = (c.span.end as usize, true);
                first &= !c.own_line;
            }
            if t.tok == Tok::End {
                break;
            }
            let start = t.span.start as usize;
            let last_of_block = self.closes.contains(&n);
            if last_of_block {
                self.open.pop();
            }
            let empty = last_of_block && n > 0 && self.opens.contains(&(n - 1)) && !commented;
            if !empty && (last_of_block || self.begins(n) || commented) {
                let line = if last_of_block { Break::Line } else { self.break_before(end, start, n, first) };
                let inside = self.lines.get(&n).copied();
                // What a comment cuts off goes on further inside.
                self.new_line(line, inside.unwrap_or(usize::from(!last_of_block)));
            } else if n > 0 && !empty && self.blank(n) {
                self.out.push(' ');
            }
            commented = false;
            self.out.push_str(&self.text[start..t.span.end as usize]);
            if last_of_block {
                end = t.span.end as usize;
                continue;
            }
            match t.tok {
                Tok::Sym("{") if self.opens.contains(&n) => self.open.push(Bracket::Block),
                Tok::Sym("{") if self.item == "struct" => self.open.push(Bracket::Fields),
                Tok::Sym("(" | "[" | "{") => self.open.push(Bracket::Other),
                Tok::Sym(")" | "]" | "}") => drop(self.open.pop()),
                _ => {}
            }
            end = t.span.end as usize;
        }
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    fn begins(&self, n: usize) -> bool {
        self.lines.contains_key(&n)
    }

    fn begins_item(&self, n: usize) -> bool {
        self.open.is_empty() && self.lines.get(&n) == Some(&0)
    }

    /// A comment keeps its line: behind what is there, or alone before what follows.
    fn comment(&mut self, c: &Comment, end: usize, next: usize, first: bool) {
        let (start, stop) = (c.span.start as usize, c.span.end as usize);
        if !self.out.is_empty() && !c.own_line {
            self.out.push_str("  ");
        } else {
            let line = self.break_before(end, start, next, first);
            let inside = match self.closes.contains(&next) || self.lexed.tokens[next].tok == Tok::End {
                true => 0,
                false => self.lines.get(&next).copied().unwrap_or(1),
            };
            self.new_line(line, inside);
        }
        self.out.push_str(self.text[start..stop].trim_end());
    }

    /// How far what begins at `start` stands from what ended at `end`: as the user left it, with an empty line at most,
    /// none where a block begins, and one where an item does.
    fn break_before(&self, end: usize, start: usize, n: usize, first: bool) -> Break {
        if self.out.is_empty() {
            return Break::None;
        }
        let item = self.begins_item(n) && !self.before.is_empty();
        if item && first && (self.item != "struct" || self.before != "struct") {
            return Break::Space;
        }
        let apart = self.text[end..start].matches('\n').count() > 1;
        if apart && !self.out.ends_with('{') { Break::Space } else { Break::Line }
    }

    fn new_line(&mut self, line: Break, inside: usize) {
        if line != Break::None {
            self.out.push('\n');
        }
        if line == Break::Space {
            self.out.push('\n');
        }
        let blocks = self.open.iter().filter(|b| **b == Bracket::Block).count();
        self.out.push_str(&"  ".repeat(blocks + inside));
    }

    /// Whether the printer writes a blank before token `n`.
    fn blank(&self, n: usize) -> bool {
        let all = &self.lexed.tokens;
        let (a, b) = (all[n - 1].tok, all[n].tok);
        let joined = self.joined.contains(&(n - 1));
        if self.joined.contains(&n) || joined && !matches!(a, Tok::Sym("=" | ">")) {
            return false;
        }
        match (a, b) {
            (Tok::Sym("%" | "@"), _) if self.numbers(n - 1) => false,
            (_, Tok::Sym("%" | "@")) if self.numbers(n) && self.operand(n - 1) => false,
            (Tok::Sym("(" | "[" | "." | ".." | "$" | "&" | "~"), _) => false,
            (_, Tok::Sym(")" | "]" | "." | ".." | "," | ":" | "!" | "?" | "~")) => false,
            (Tok::Sym("{"), Tok::Sym("}")) => false,
            (Tok::Sym("{"), _) | (_, Tok::Sym("}")) => self.open.last() == Some(&Bracket::Fields),
            (Tok::Sym("-"), _) => n > 1 && self.operand(n - 2),
            (Tok::Sym(">"), Tok::Sym("(" | "[")) => !joined,
            (_, Tok::Sym("[")) => {
                !matches!(a, Tok::Name(_) | Tok::Quoted(..) | Tok::Sym(")" | "]") | Tok::Int(_))
            }
            (_, Tok::Sym("(")) => match a {
                Tok::Name("effects" | "out" | "inout" | "store" | "exchange" | "compare") => true,
                Tok::Name(_) | Tok::Quoted(..) => self.statement(n) == "barrier",
                Tok::Word(w) => !["nan", "global"].contains(&w),
                Tok::Sym(")" | "]") => false,
                _ => true,
            },
            _ => true,
        }
    }

    /// Whether the `%` or `@` at `n` is before the number of a binder: `i%12`, `A@3`, `%12:index`. A remainder has
    /// blanks.
    fn numbers(&self, n: usize) -> bool {
        let glued = |n: usize| self.lexed.tokens.get(n).is_some_and(|t| t.glued);
        let named = matches!(self.lexed.tokens[n - 1].tok, Tok::Name(_) | Tok::Quoted('`', _));
        glued(n + 1) && if self.operand(n - 1) { named && glued(n) } else { true }
    }

    /// Whether token `n` ends an operand, so that a `-` behind it has two.
    fn operand(&self, n: usize) -> bool {
        let a = self.lexed.tokens.get(n).map_or(Tok::End, |t| t.tok);
        match a {
            // These words are before a value.
            Tok::Name(w) => !["store", "exchange", "compare", "step"].contains(&w),
            Tok::Int(_) | Tok::Float(_) | Tok::Quoted(..) => true,
            Tok::Word(w) => ["true", "false", "inf", "nan"].contains(&w),
            // That of a type: `call f():vector<f32, 2> - x`.
            Tok::Sym(">") => self.joined.contains(&n),
            Tok::Sym(s) => [")", "]", "!", "?"].contains(&s),
            Tok::End => false,
        }
    }

    /// The word that the line of token `n` begins with.
    fn statement(&self, n: usize) -> &'a str {
        let from = (0..n).rev().find(|k| self.begins(*k));
        match from.map(|k| self.lexed.tokens[k].tok) {
            Some(Tok::Word(w) | Tok::Name(w)) => w,
            _ => "",
        }
    }
}
