//! Expressions, by precedence climbing: what they have in common in kernels, terms, strategies, constraints and trees.

use crate::cursor::{Read, Rules};
use crate::lex::Tok;
use lathe_diagnostics::Span;
use serde::{Deserialize, Serialize};

/// The operators between two operands, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    /// Exact division: on integers, a remainder is an error; use `FloorDiv`.
    Div,
    FloorDiv,
    Mod,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

impl Operator {
    pub const ALL: [Operator; 14] = {
        use Operator::*;
        [Add, Sub, Mul, Div, FloorDiv, Mod, Eq, Ne, Lt, Le, Gt, Ge, And, Or]
    };

    /// How tightly the operator binds: `or` 1, `and` 2, (`not` 3,) comparisons 4, sums 5, products 6.
    pub const fn precedence(self) -> u8 {
        use Operator::*;
        match self {
            Or => 1,
            And => 2,
            Eq | Ne | Lt | Le | Gt | Ge => 4,
            Add | Sub => 5,
            Mul | Div | FloorDiv | Mod => 6,
        }
    }

    pub fn symbol(self) -> &'static str {
        use Operator::*;
        match self {
            Or => "or",
            And => "and",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            FloorDiv => "//",
            Mod => "%",
        }
    }

    /// Comparisons, which do not chain.
    pub fn compares(self) -> bool {
        self.precedence() == COMPARISON
    }
}

/// The operators before an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sign {
    Neg,
    Not,
}

/// What `not` reaches over.
const NEGATION: u8 = 3;
const COMPARISON: u8 = 4;
/// Sums: bounds of ranges, and what is in angle brackets, where a comparison would end.
pub const SUM: u8 = 5;

/// A grammar of expressions: what operands are, and what is made of them.
pub trait Expressions<'a>: Rules<'a> {
    type Expr;

    /// Whether `not` is an operator before an operand.
    const NOT: bool = true;

    /// What binds tighter than every operator, with all that follows it: `f(a)`, `a[i]`, `a.0`.
    fn operand(&mut self) -> Read<Self::Expr>;

    /// A number with its sign, if the sign before it is part of it: the cursor is at `-`.
    fn negative(&mut self) -> Read<Option<Self::Expr>> {
        Ok(None)
    }

    /// What a sign makes of an operand.
    ///
    /// # Errors
    /// Where it makes nothing.
    fn unary(&mut self, sign: Sign, a: Self::Expr, span: Span) -> Read<Self::Expr>;

    /// What an operator makes of two operands. `right` is the position of the token that the right one begins with.
    ///
    /// # Errors
    /// Where it makes nothing.
    fn binary(
        &mut self,
        op: Operator,
        a: Self::Expr,
        b: Self::Expr,
        span: Span,
        right: usize,
    ) -> Read<Self::Expr>;

    /// From `or` on.
    fn expr(&mut self) -> Read<Self::Expr> {
        self.climb(1)
    }

    /// From `+` and `-` on: bounds of ranges, and what is in angle brackets, which a comparison would end.
    fn sum(&mut self) -> Read<Self::Expr> {
        self.climb(SUM)
    }

    /// Operators of at least that precedence.
    fn climb(&mut self, at_least: u8) -> Read<Self::Expr> {
        let start = self.span();
        let mut left = self.signed(at_least)?;
        let mut compared = false;
        while let Some(op) = self.operator() {
            let precedence = op.precedence();
            // A `-` on a new line begins what is not a statement: it is refused as unfinished.
            if precedence < at_least || (op == Operator::Sub && !self.goes_on()) {
                break;
            }
            if op.compares() && std::mem::replace(&mut compared, true) {
                let mark = format!("second comparison `{}`", op.symbol());
                let d = self.error(self.grammar.chain, "comparisons cannot be chained", self.span(), mark);
                return Err(d.help("join two with `and`: `a < b and b < c`"));
            }
            self.advance();
            self.operators += 1;
            let right = self.at;
            let b = self.climb(precedence + 1)?;
            let span = self.since(start);
            left = self.binary(op, left, b, span, right)?;
        }
        Ok(left)
    }

    /// An operand with the signs before it.
    fn signed(&mut self, at_least: u8) -> Read<Self::Expr> {
        let start = self.span();
        let (sign, of) = if Self::NOT && at_least <= NEGATION && self.is("not") {
            (Sign::Not, NEGATION)
        } else if self.is("-") {
            if let Some(number) = self.negative()? {
                return Ok(number);
            }
            (Sign::Neg, u8::MAX)
        } else {
            return self.operand();
        };
        self.advance();
        let a = self.deeper(|p| p.climb(of))?;
        let span = self.since(start);
        self.unary(sign, a, span)
    }

    /// The operator that comes next.
    fn operator(&self) -> Option<Operator> {
        let (Tok::Sym(text) | Tok::Word(text)) = self.peek() else { return None };
        Operator::ALL.into_iter().find(|op| op.symbol() == text)
    }
}
