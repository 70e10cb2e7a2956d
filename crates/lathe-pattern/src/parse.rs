//! The text of terms, types, funs and rules.

mod items;
mod terms;

use crate::ast::{Ast, AstKind, FunAst, HEIGHT, RuleAst};
use crate::codes;
use crate::nat::Nat;
use crate::types::Type;
use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::{BinOp, Name, UnOp};
use lathe_syntax::{Cursor, Grammar, Read, SOURCE, lex, read_all};
use std::ops::Range;

/// The form of terms; their words and symbols are those of `.lathe` files.
static TERMS: Grammar = Grammar {
    character: codes::SYNTAX,
    number: codes::SYNTAX,
    string: codes::SYNTAX,
    expected: codes::SYNTAX,
    nesting: codes::SYNTAX,
    chain: codes::SYNTAX,
    depth: 200,
    shallower: "move parts of it to other funs",
};

/// One term. Spans count from the start of the text.
pub fn parse_term(text: &str) -> Result<Ast, Diagnostic> {
    parse_term_in(FileId(0), text)
}

/// One term of a file.
pub fn parse_term_in(file: FileId, text: &str) -> Result<Ast, Diagnostic> {
    whole(file, text, |p| p.term())
}

/// One type.
pub fn parse_type(text: &str) -> Result<Type, Diagnostic> {
    parse_type_over(&[], text)
}

/// One type, in which some names are data types.
pub(crate) fn parse_type_over(data: &[Name], text: &str) -> Result<Type, Diagnostic> {
    whole(FileId(0), text, |p| {
        p.data_vars.extend(data.iter().cloned());
        p.ty()
    })
}

/// A size.
pub fn parse_nat(text: &str) -> Result<Nat, Diagnostic> {
    nat_of(&parse_term(text)?)
}

/// Funs, one after the other.
pub fn parse_funs(file: FileId, text: &str) -> Result<Vec<FunAst>, Diagnostic> {
    whole(file, text, |p| p.all(Parser::fun))
}

/// Rules, one after the other.
pub fn parse_rules(file: FileId, text: &str) -> Result<Vec<RuleAst>, Diagnostic> {
    whole(file, text, |p| p.all(Parser::rule))
}

/// The fun that begins at a cursor.
///
/// # Errors
/// E1101 and what types and sizes say.
pub fn fun(cursor: &mut Cursor) -> Read<FunAst> {
    cursor.switched(&TERMS, |cursor| Parser { cursor, data_vars: Vec::new() }.fun())
}

/// The rule that begins at a cursor.
///
/// # Errors
/// E1101 and what types and sizes say.
pub fn rule(cursor: &mut Cursor) -> Read<RuleAst> {
    cursor.switched(&TERMS, |cursor| Parser { cursor, data_vars: Vec::new() }.rule())
}

fn whole<T>(file: FileId, text: &str, read: impl FnOnce(&mut Parser) -> Read<T>) -> Read<T> {
    read_all(&SOURCE, &TERMS, (file, text), |cursor| read(&mut Parser { cursor, data_vars: Vec::new() }))
}

/// The size that an expression over sizes says.
pub fn nat_of(e: &Ast) -> Result<Nat, Diagnostic> {
    let wrong = || {
        Diagnostic::error(codes::ARGUMENTS, "this is not a size")
            .at(e.span, "sizes are made of names, numbers, `+ - * //` and `%`")
    };
    Ok(match &*e.kind {
        AstKind::Name(n) => Nat::var(n),
        AstKind::Int(v) => {
            let huge =
                |_| Diagnostic::error(codes::HUGE, "a size does not fit 64 bits").at(e.span, "this size");
            Nat::constant(i64::try_from(*v).map_err(huge)?)
        }
        AstKind::Unary(UnOp::Neg, a) => nat_of(a)?.scaled(-1),
        AstKind::Binary(op, a, b) => {
            let (a, b) = (nat_of(a)?, nat_of(b)?);
            match op {
                BinOp::Add => a.plus(&b),
                BinOp::Sub => a.minus(&b),
                BinOp::Mul => a.times(&b),
                BinOp::FloorDiv => a.floor_div(&b),
                BinOp::FloorMod => a.modulo(&b),
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    })
}

/// A part of a file without comments, and with one blank between tokens: the same for texts that mean the same.
pub fn normalized(file: FileId, text: &str, part: Range<usize>) -> String {
    // Only the part is read: a file may have thousands.
    let Some(part) = text.get(part) else { return String::new() };
    let lexed = lex(&SOURCE, &TERMS, file, part);
    let words = lexed.tokens.iter().map(|t| &part[t.span.start as usize..t.span.end as usize]);
    words.filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

pub(crate) struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    /// Types that dependent functions take.
    data_vars: Vec<Name>,
}

lathe_syntax::parser!(<'a> Parser<'_, 'a>);

impl Parser<'_, '_> {
    /// A name that is not a word of kinds either.
    fn ident(&mut self) -> Read<Name> {
        if self.is("nat") || self.is("data") {
            self.expected("a name")
        } else {
            self.name("a name").map(Name::from)
        }
    }

    fn all<T>(&mut self, one: impl Fn(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut out = Vec::new();
        while !self.ended() {
            out.push(one(self)?);
        }
        Ok(out)
    }

    /// Long chains nest as deep as brackets do.
    fn low(&self, e: Ast) -> Read<Ast> {
        if e.height <= HEIGHT {
            return Ok(e);
        }
        let d = Diagnostic::error(codes::SYNTAX, format!("the term nests deeper than {HEIGHT}"));
        Err(d.at(e.span, "here").help("move parts of it to other funs, and store the intermediate results"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_alone() {
        let rule = "rule r(x): x + 0 # nothing\n    =>  x";
        let text = format!("# before\nrule a(x): x => x\n{rule}\nrule b(x): x => x\n");
        let at = text.find(rule).unwrap_or_default();
        let words = "rule r ( x ) : x + 0 => x";
        assert_eq!(normalized(FileId(0), &text, at..at + rule.len()), words);
        assert_eq!(normalized(FileId(0), rule, 0..rule.len()), words);
        assert_eq!(normalized(FileId(0), rule, 5..1000), "");
    }
}
