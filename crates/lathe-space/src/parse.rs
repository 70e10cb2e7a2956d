//! Reads expressions from text: what [`Expr`] prints, and what stored evidence and options hold.

use crate::expr::{BinOp, Expr, UnOp, Value};

/// Where reading failed (a byte offset), and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub at: usize,
    pub message: String,
}

/// The expression of a text. Inverse of `Display`, except that a string value reads as a name.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let mut p = Parser { text, at: 0, depth: 0, operators: 0 };
    let e = p.expr(1)?;
    p.space();
    if p.at < text.len() { Err(p.error("unexpected text after the expression")) } else { Ok(e) }
}

/// The deepest nesting that is read.
const DEPTH: u32 = 200;
/// The most operators in one text; chains of them nest.
const OPERATORS: u32 = 2000;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    operators: u32,
}

impl<'a> Parser<'a> {
    fn error(&self, message: &str) -> ParseError {
        ParseError { at: self.at, message: message.to_string() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, symbol: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    /// A word: letters, digits, underscores; dots join words (`i.o`, `C.2`).
    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let mut end = 0;
        for (i, c) in rest.char_indices() {
            let inside = c == '_' || c.is_alphanumeric();
            let joins =
                c == '.' && i > 0 && rest[i + 1..].starts_with(|c: char| c == '_' || c.is_alphanumeric());
            if !inside && !joins {
                break;
            }
            end = i + c.len_utf8();
        }
        &rest[..end]
    }

    fn operator(&mut self) -> Option<BinOp> {
        use BinOp::*;
        self.space();
        match self.word() {
            "or" => return Some(Or),
            "and" => return Some(And),
            _ => {}
        }
        let all = [Eq, Ne, Le, Ge, Lt, Gt, Add, Sub, FloorDiv, Mul, Div, Mod];
        all.into_iter().find(|op| self.rest().starts_with(op.symbol()))
    }

    fn expr(&mut self, at_least: u8) -> Result<Expr, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let mut left = self.unary(at_least)?;
        while let Some(op) = self.operator() {
            let p = op.precedence();
            if p < at_least {
                break;
            }
            self.at += op.symbol().len();
            self.operators += 1;
            if self.operators > OPERATORS {
                return Err(self.error("too many operators"));
            }
            let right = self.expr(p + 1)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
            if p == 4 && self.operator().is_some_and(|o| o.precedence() == 4) {
                return Err(self.error("comparisons do not chain"));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self, at_least: u8) -> Result<Expr, ParseError> {
        self.space();
        if self.eat("-") {
            let literal = self.rest().starts_with(|c: char| c.is_ascii_digit());
            if literal {
                return self.number(true);
            }
            return Ok(Expr::Unary(UnOp::Neg, Box::new(self.expr(7)?)));
        }
        if self.word() == "not" && at_least <= 3 {
            self.at += 3;
            return Ok(Expr::Unary(UnOp::Not, Box::new(self.expr(3)?)));
        }
        self.primary()
    }

    fn number(&mut self, negative: bool) -> Result<Expr, ParseError> {
        let rest = self.rest();
        let digits = |s: &str| s.len() - s.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut end = digits(rest);
        let mut float = false;
        if rest[end..].starts_with('.') && digits(&rest[end + 1..]) > 0 {
            end += 1 + digits(&rest[end + 1..]);
            float = true;
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[end + 1 + sign..]);
            if exponent > 0 {
                end += 1 + sign + exponent;
                float = true;
            }
        }
        let text = format!("{}{}", if negative { "-" } else { "" }, &rest[..end]);
        let value =
            if float { text.parse().ok().map(Value::Float) } else { text.parse().ok().map(Value::Int) };
        let value = value.ok_or_else(|| self.error("the number does not fit 64 bits"))?;
        self.at += end;
        Ok(Expr::Value(value))
    }

    fn primary(&mut self) -> Result<Expr, ParseError> {
        if self.eat("(") {
            let e = self.expr(1)?;
            return if self.eat(")") { Ok(e) } else { Err(self.error("expected `)`")) };
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(false);
        }
        // A place that is left open.
        if self.eat("?") {
            return Ok(Expr::Name("?".to_string()));
        }
        let word = self.word();
        if word.is_empty() || matches!(word, "and" | "or" | "not") {
            return Err(self.error("expected a number, a name or `(`"));
        }
        self.at += word.len();
        match word {
            "true" => return Ok(Expr::Value(Value::Bool(true))),
            "false" => return Ok(Expr::Value(Value::Bool(false))),
            _ => {}
        }
        if !self.eat("(") {
            return Ok(Expr::Name(word.to_string()));
        }
        let mut args = Vec::new();
        while !self.eat(")") {
            if !args.is_empty() && !self.eat(",") {
                return Err(self.error("expected `,` or `)`"));
            }
            args.push(self.expr(1)?);
        }
        let call = Expr::Call(word.to_string(), args);
        // `copy(A).i` is a name.
        if self.rest().starts_with('.') {
            self.at += 1;
            let tail = self.word();
            if tail.is_empty() {
                return Err(self.error("expected a name after `.`"));
            }
            self.at += tail.len();
            return Ok(Expr::Name(format!("{call}.{tail}")));
        }
        Ok(call)
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
