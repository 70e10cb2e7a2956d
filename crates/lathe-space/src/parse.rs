//! Reads expressions from text: what [`Expr`] prints, and what stored evidence and options hold.

use crate::expr::{BinOp, Expr, UnOp, Value};
use lathe_diagnostics::{FileId, Span};
use lathe_syntax::{
    Cursor, EXPRESSIONS, Expressions, Grammar, KERNELS, Number, Read, Rules, Tok, read_all, unquote,
};

/// Where reading failed (a byte offset), and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub at: usize,
    pub message: String,
}

/// The form of expressions and strategies by themselves.
pub static FORM: Grammar = Grammar { depth: 200, shallower: "give parts of it a name", ..KERNELS };

/// The most operators in one text; chains of them nest.
pub const OPERATORS: u32 = 2000;

/// The expression of a text. Inverse of `Display`, except that a string that could be a name reads as one.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    read_all(&EXPRESSIONS, &FORM, (FileId(0), text), expression).map_err(|d| ParseError {
        at: d.marks.first().map_or(0, |m| m.span.start as usize),
        message: d.message,
    })
}

/// The expression that begins at a cursor.
///
/// # Errors
/// The first thing that is wrong.
pub fn expression(cursor: &mut Cursor) -> Read<Expr> {
    Parser { cursor }.expr()
}

/// The value that comes next, if one does: a number, negated or not, a truth value, a string, or the open place `?` of a
/// sketch.
///
/// # Errors
/// A number that does not fit.
pub fn literal(cursor: &mut Cursor, negative: bool) -> Read<Option<Expr>> {
    Ok(match cursor.peek() {
        Tok::Word(word @ ("true" | "false")) => {
            cursor.advance();
            Some(Expr::Value(Value::Bool(word == "true")))
        }
        Tok::Quoted(_, raw) => {
            cursor.advance();
            Some(Expr::Value(Value::Str(unquote(raw))))
        }
        Tok::Sym("?") => {
            cursor.advance();
            Some(Expr::Name("?".to_string()))
        }
        _ => cursor.numeral(negative)?.map(|n| {
            Expr::Value(match n {
                Number::Int(v) => Value::Int(v),
                Number::Float(v) => Value::Float(v),
            })
        }),
    })
}

/// A number with its sign, where the cursor is at the sign.
///
/// # Errors
/// A number that does not fit.
pub fn negative(cursor: &mut Cursor) -> Read<Option<Expr>> {
    if !cursor.is_number(cursor.at + 1) {
        return Ok(None);
    }
    cursor.advance();
    literal(cursor, true)
}

/// The rest of a name whose first part was taken: `.o`, `.2`.
///
/// # Errors
/// Something else after a dot.
pub fn path(cursor: &mut Cursor, first: String) -> Read<String> {
    let mut path = first;
    while cursor.take(".") {
        let (Tok::Int(part) | Tok::Name(part)) = cursor.peek() else {
            return cursor.expected("a part of a loop's name");
        };
        cursor.advance();
        path = format!("{path}.{part}");
    }
    Ok(path)
}

/// An operation, if the text does not have too many.
///
/// # Errors
/// If it does.
pub fn operation(cursor: &Cursor, op: BinOp, a: Expr, b: Expr, span: Span) -> Read<Expr> {
    if cursor.operators > OPERATORS {
        let what = "this expression is too large";
        return Err(cursor.error(cursor.grammar.nesting, what, span, "too many operators"));
    }
    Ok(Expr::Binary(op, Box::new(a), Box::new(b)))
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
}

lathe_syntax::parser!(<'a> Parser<'_, 'a>);

impl<'a> Expressions<'a> for Parser<'_, 'a> {
    type Expr = Expr;

    fn operand(&mut self) -> Read<Expr> {
        if self.is("(") {
            return self.inside("(", ")", Self::expr);
        }
        if let Some(e) = literal(self, false)? {
            return Ok(e);
        }
        let name = self.name("a number, a name or `(`")?.to_string();
        if !self.is("(") {
            return path(self, name).map(Expr::Name);
        }
        let call = Expr::Call(name, self.listed("(", ")", Self::expr)?);
        // `copy(A).i` is a name.
        if self.is(".") { path(self, call.to_string()).map(Expr::Name) } else { Ok(call) }
    }

    fn negative(&mut self) -> Read<Option<Expr>> {
        negative(self)
    }

    fn unary(&mut self, sign: UnOp, a: Expr, _: Span) -> Read<Expr> {
        Ok(Expr::Unary(sign, Box::new(a)))
    }

    fn binary(&mut self, op: BinOp, a: Expr, b: Expr, span: Span, _: usize) -> Read<Expr> {
        operation(self, op, a, b, span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_expressions_read_back() {
        for text in [
            "1 + 2 * 3",
            "(1 + 2) * 3",
            "a - (b - c)",
            "a - b - c",
            "not (a and b) or c",
            "-(3) * -4",
            "-x // 2 % 3",
            "min(i.o, C.2, vector(f32)) <= 8",
            "1.5 + 1e20 - -2.5",
            "copy(A).i + 1",
            "(a < b) == true",
            "i.o.i",
            "---x - --y",
            "-(-3)",
            "not not a or not not not (a or b)",
            // As deep as texts may nest.
            &format!("{}x", "-".repeat(99)),
        ] {
            let e = parse(text).unwrap();
            assert_eq!(e.to_string(), text);
            assert_eq!(parse(&e.to_string()).unwrap(), e);
        }
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse("1 +").unwrap_err().at, 3);
        assert!(parse("(1").unwrap_err().message.contains("`)`"));
        assert!(parse("a < b < c").is_err());
        assert!(parse("99999999999999999999").is_err());
        assert!(parse(&"(".repeat(5000)).is_err());
    }
}
