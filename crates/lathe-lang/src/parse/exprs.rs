//! Expressions, by precedence climbing.

use super::{MAX_HEIGHT, Parser};
use crate::ast::{BinOp, CallArg, Expr, ExprKind, Ident, Subscript, UnOp};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_syntax::{Expressions, Number, Read, Rules, Tok};

impl Parser<'_> {
    /// Makes a node and bounds the height of the tree.
    fn node(&self, kind: ExprKind, span: Span) -> Read<Expr> {
        let of = |e: &Expr| e.height;
        let below = match &kind {
            ExprKind::Unary(_, a) | ExprKind::Field(a, _) | ExprKind::Component(a, ..) => of(a),
            ExprKind::Binary(_, a, b) => of(a).max(of(b)),
            ExprKind::Call(f, args) => args.iter().map(|a| of(&a.value)).max().unwrap_or(0).max(of(f)),
            ExprKind::Index(a, subs) => subs
                .iter()
                .map(|s| match s {
                    Subscript::Expr(e) => of(e),
                    Subscript::Range(r) => r.bounds.as_ref().map_or(1, |(lo, hi)| of(lo).max(of(hi))),
                })
                .max()
                .unwrap_or(0)
                .max(of(a)),
            ExprKind::Tuple(es) | ExprKind::List(es) => es.iter().map(of).max().unwrap_or(0),
            // What has a name can stand in what comes after it.
            ExprKind::Block(lets, e) => lets.iter().fold(of(e), |n, l| n.saturating_add(of(&l.1))),
            _ => 0,
        };
        if below >= MAX_HEIGHT {
            let mark = format!("more than {MAX_HEIGHT} nested operations");
            let d = self.error(codes::NESTING, "this expression is too large", span, mark);
            return Err(d.help("name parts of it with `let`"));
        }
        Ok(Expr { kind, span, height: below + 1 })
    }

    pub(super) fn postfix(&mut self) -> Read<Expr> {
        let mut e = self.atom()?;
        loop {
            let start = e.span;
            if self.is("(") && self.goes_on() {
                let args = self.listed("(", ")", Self::argument)?;
                let span = self.since(start);
                e = self.node(ExprKind::Call(Box::new(e), args), span)?;
            } else if self.is("[") && self.goes_on() {
                let subs = self.listed("[", "]", Self::subscript)?;
                let span = self.since(start);
                e = self.node(ExprKind::Index(Box::new(e), subs), span)?;
            } else if self.is(".") && self.goes_on() {
                self.advance();
                let here = self.span();
                let kind = if let Tok::Int(n) = self.peek() {
                    self.advance();
                    ExprKind::Component(Box::new(e), n.parse().unwrap_or(u32::MAX), here)
                } else {
                    ExprKind::Field(Box::new(e), self.ident("a field's name or number")?)
                };
                let span = self.since(start);
                e = self.node(kind, span)?;
            } else {
                return Ok(e);
            }
        }
    }

    fn argument(&mut self) -> Read<CallArg> {
        let mut name: Option<Ident> = None;
        if self.is_name() && self.is_at(1, ":") {
            name = Some(self.ident("a name")?);
            self.advance();
        }
        Ok(CallArg { name, value: self.expr()? })
    }

    fn subscript(&mut self) -> Read<Subscript> {
        if self.is_name() && self.is_at(1, "in") {
            return self.range().map(Subscript::Range);
        }
        let e = self.expr()?;
        if self.is("..") {
            let text = "arrays have no slices here";
            let d = self.error(codes::EXPECTED, text, self.span(), "a range in a subscript");
            return Err(d.help("use an index and say its range: `where i in a..b`"));
        }
        Ok(Subscript::Expr(e))
    }

    fn atom(&mut self) -> Read<Expr> {
        let start = self.span();
        if let Tok::Int(digits) = self.peek()
            && let Some(v) = digits.parse::<u64>().ok().filter(|v| i64::try_from(*v).is_err())
        {
            self.advance();
            return self.node(ExprKind::Large(v), self.since(start));
        }
        if let Some(v) = self.imaginary()? {
            return self.node(ExprKind::Imaginary(v), self.since(start));
        }
        let kind = match self.peek() {
            Tok::Name(n) => {
                self.advance();
                ExprKind::Name(n.to_string())
            }
            Tok::Word(word @ ("true" | "false")) => {
                self.advance();
                ExprKind::Bool(word == "true")
            }
            // `(e)`, or the tuples `(a, b)` and `(a,)`.
            Tok::Sym("(") => {
                let (mut parts, comma) = self.tuple(Self::expr)?;
                if parts.len() == 1 && !comma {
                    return Ok(Expr { span: self.since(start), ..parts.remove(0) });
                }
                ExprKind::Tuple(parts)
            }
            Tok::Sym("[") => ExprKind::List(self.listed("[", "]", Self::expr)?),
            Tok::Sym("{") => self.inside("{", "}", |p| p.in_lines(Self::named))?,
            _ => match self.numeral(false)? {
                Some(Number::Int(v)) => ExprKind::Int(v),
                Some(Number::Float(v)) => ExprKind::Float(v),
                None => {
                    let mut d = self.unexpected("an expression");
                    d.help = match self.peek() {
                        Tok::Sym("+" | "<+") => Some("there is no unary `+`".into()),
                        Tok::Word("if") => Some("the expression is `select(condition, a, b)`".into()),
                        Tok::Sym("|") => Some(
                            "lambdas are of funs: `fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)`"
                                .into(),
                        ),
                        _ => d.help,
                    };
                    return Err(d);
                }
            },
        };
        self.node(kind, self.since(start))
    }

    /// `let a = e; let b = f; g`: what a block of an expression holds.
    fn named(&mut self) -> Read<ExprKind> {
        let mut lets = Vec::new();
        while self.take("let") {
            let name = self.ident("a name")?;
            self.expect("=")?;
            lets.push((name, self.expr()?));
            if !self.take(";") && self.goes_on() {
                return self.expected("`;` or a new line");
            }
        }
        let value = Box::new(self.expr()?);
        self.take(";");
        Ok(ExprKind::Block(lets, value))
    }
}

impl<'a> Expressions<'a> for Parser<'a> {
    type Expr = Expr;

    fn operand(&mut self) -> Read<Expr> {
        self.postfix()
    }

    /// The least integer of 64 bits, whose magnitude is no such integer.
    fn negative(&mut self) -> Read<Option<Expr>> {
        let least =
            matches!(self.token(1).tok, Tok::Int(digits) if digits.parse() == Ok(i64::MIN.unsigned_abs()));
        if !least {
            return Ok(None);
        }
        let start = self.span();
        self.advance();
        self.advance();
        self.node(ExprKind::Int(i64::MIN), self.since(start)).map(Some)
    }

    fn unary(&mut self, sign: UnOp, a: Expr, span: Span) -> Read<Expr> {
        self.node(ExprKind::Unary(sign, Box::new(a)), span)
    }

    fn binary(&mut self, op: BinOp, a: Expr, b: Expr, span: Span, _: usize) -> Read<Expr> {
        self.node(ExprKind::Binary(op, Box::new(a), Box::new(b)), span)
    }
}
