//! Expressions, by precedence climbing.

use super::{MAX_HEIGHT, Parser};
use crate::ast::{BinOp, CallArg, Expr, ExprKind, Ident, Subscript, UnOp};
use crate::codes;
use crate::lexer::Tok;
use lathe_diagnostics::Span;

impl Parser<'_> {
    /// Makes a node and bounds the height of the tree.
    fn node(&mut self, kind: ExprKind, span: Span) -> Option<Expr> {
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
            _ => 0,
        };
        if below >= MAX_HEIGHT {
            self.error(
                codes::NESTING,
                "this expression is too large",
                span,
                format!("more than {MAX_HEIGHT} nested operations"),
            );
            self.help("name parts of it with `let`");
            return None;
        }
        Some(Expr { kind, span, height: below + 1 })
    }

    /// May the expression go on with the next token? A newline ends it before `-`, `(`, `[` and `.`.
    fn goes_on(&self) -> bool {
        !(self.lines && self.newline())
    }

    /// From `or` on.
    pub(super) fn expr(&mut self) -> Option<Expr> {
        self.left(&[("or", BinOp::Or)], |p| p.left(&[("and", BinOp::And)], Self::negation))
    }

    fn left(
        &mut self,
        ops: &[(&'static str, BinOp)],
        operand: impl Fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        let mut a = operand(self)?;
        while let Some((_, op)) = ops.iter().find(|(s, _)| self.is(s)) {
            // A `-` on a new line begins a statement's value nowhere; it is refused as unfinished.
            if *op == BinOp::Sub && !self.goes_on() {
                break;
            }
            self.advance();
            let b = operand(self)?;
            let span = a.span.to(b.span);
            a = self.node(ExprKind::Binary(*op, Box::new(a), Box::new(b)), span)?;
        }
        Some(a)
    }

    fn negation(&mut self) -> Option<Expr> {
        let start = self.span();
        if self.take("not") {
            let a = self.nested(self.lines, |p| p.negation())?;
            let span = self.since(start);
            return self.node(ExprKind::Unary(UnOp::Not, Box::new(a)), span);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Option<Expr> {
        const OPS: [(&str, BinOp); 6] = [
            ("==", BinOp::Eq),
            ("!=", BinOp::Ne),
            ("<=", BinOp::Le),
            (">=", BinOp::Ge),
            ("<", BinOp::Lt),
            (">", BinOp::Gt),
        ];
        let a = self.sum()?;
        let Some((_, op)) = OPS.iter().find(|(s, _)| self.is(s)) else { return Some(a) };
        self.advance();
        let b = self.sum()?;
        if let Some((s, _)) = OPS.iter().find(|(s, _)| self.is(s)) {
            let here = self.span();
            self.error(
                codes::CHAIN,
                "comparisons cannot be chained",
                here,
                format!("second comparison `{s}`"),
            );
            self.help("join two with `and`: `a < b and b < c`");
            return None;
        }
        let span = a.span.to(b.span);
        self.node(ExprKind::Binary(*op, Box::new(a), Box::new(b)), span)
    }

    /// From `+` and `-` on: what bounds of ranges are made of.
    pub(super) fn sum(&mut self) -> Option<Expr> {
        self.left(&[("+", BinOp::Add), ("-", BinOp::Sub)], |p| {
            p.left(
                &[("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("/", BinOp::Div), ("%", BinOp::Mod)],
                Self::unary,
            )
        })
    }

    fn unary(&mut self) -> Option<Expr> {
        let start = self.span();
        if self.take("-") {
            let a = self.nested(self.lines, |p| p.unary())?;
            let span = self.since(start);
            return self.node(ExprKind::Unary(UnOp::Neg, Box::new(a)), span);
        }
        if self.is("+") || self.is("<+") {
            self.expected("an operand");
            self.help("there is no unary `+`");
            return None;
        }
        self.postfix()
    }

    pub(super) fn postfix(&mut self) -> Option<Expr> {
        let mut e = self.atom()?;
        loop {
            let open = self.span();
            let start = e.span;
            if self.is("(") && self.goes_on() {
                self.advance();
                let args = self.nested(false, |p| p.list(")", |p| p.argument()))?;
                self.close(")", open)?;
                let span = self.since(start);
                e = self.node(ExprKind::Call(Box::new(e), args), span)?;
            } else if self.is("[") && self.goes_on() {
                self.advance();
                let subs = self.nested(false, |p| p.list("]", |p| p.subscript()))?;
                self.close("]", open)?;
                let span = self.since(start);
                e = self.node(ExprKind::Index(Box::new(e), subs), span)?;
            } else if self.is(".") && self.goes_on() {
                self.advance();
                let here = self.span();
                let kind = if let Tok::Int(n) = self.peek() {
                    let n = u32::try_from(*n).unwrap_or(u32::MAX);
                    self.advance();
                    ExprKind::Component(Box::new(e), n, here)
                } else {
                    ExprKind::Field(Box::new(e), self.ident("a field's name or number")?)
                };
                let span = self.since(start);
                e = self.node(kind, span)?;
            } else {
                return Some(e);
            }
        }
    }

    fn argument(&mut self) -> Option<CallArg> {
        let mut name: Option<Ident> = None;
        if matches!(self.peek(), Tok::Name(_)) && self.is_at(1, ":") {
            name = self.ident("a name");
            self.advance();
        }
        Some(CallArg { name, value: self.expr()? })
    }

    fn subscript(&mut self) -> Option<Subscript> {
        if matches!(self.peek(), Tok::Name(_)) && self.is_at(1, "in") {
            return self.range().map(Subscript::Range);
        }
        let e = self.expr()?;
        if self.is("..") {
            let here = self.span();
            self.error(codes::EXPECTED, "arrays have no slices here", here, "a range in a subscript");
            self.help("use an index and say its range: `where i in a..b`");
            return None;
        }
        Some(Subscript::Expr(e))
    }

    fn atom(&mut self) -> Option<Expr> {
        let span = self.span();
        let kind = match self.peek() {
            Tok::Int(v) => ExprKind::Int(*v),
            Tok::Float(v) => ExprKind::Float(*v),
            Tok::Name(n) => ExprKind::Name(n.clone()),
            Tok::Word("true") => ExprKind::Bool(true),
            Tok::Word("false") => ExprKind::Bool(false),
            Tok::Sym("(") => return self.parenthesized(),
            Tok::Sym("[") => {
                self.advance();
                let parts = self.nested(false, |p| p.list("]", |p| p.expr()))?;
                self.close("]", span)?;
                let span = self.since(span);
                return self.node(ExprKind::List(parts), span);
            }
            _ => {
                self.expected("an expression");
                if self.is("if") {
                    self.help("the expression is `select(condition, a, b)`");
                } else if self.is("|") {
                    self.help("lambdas are of funs: `fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + x)`");
                }
                return None;
            }
        };
        self.advance();
        self.node(kind, span)
    }

    /// `(e)`, or the tuples `(a, b)` and `(a,)`.
    fn parenthesized(&mut self) -> Option<Expr> {
        let open = self.expect("(")?;
        let mut trailing = false;
        let mut parts = self.nested(false, |p| {
            let mut out = Vec::new();
            while !p.is(")") {
                out.push(p.expr()?);
                trailing = p.take(",");
                if !trailing {
                    break;
                }
            }
            Some(out)
        })?;
        self.close(")", open)?;
        let span = self.since(open);
        if parts.len() == 1 && !trailing {
            return parts.pop().map(|e| Expr { span, ..e });
        }
        self.node(ExprKind::Tuple(parts), span)
    }
}
