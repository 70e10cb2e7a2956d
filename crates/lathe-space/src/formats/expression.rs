//! Expressions of other notations: of C++, as in ATF's directives, and of Python, as in the T1 format.
//!
//! Both are read into [`Expr`], whose operators are typed more strictly: truth values used as numbers become
//! `int(…)`, numbers used as truth values `… != 0`. In C++ `/` of integers becomes the division that rounds down
//! (for negative numbers C++ rounds to zero); in Python it is a division of floats.

mod atoms;

pub(crate) use atoms::lambda_head;

use super::typed::{
    Ty, Typed, alike, arithmetic, balanced, binary, joined, literal, number, truth, typed_name, word,
};
use crate::expr::{BinOp, Expr, UnOp, Value};
use crate::param::ParamType;
use crate::parse::ParseError;
use crate::space::{ALIASES, Constraint};
use std::collections::HashMap;

/// The notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `&&`, `||`, `!`; aliases like `divides(e)`; lambdas `(int v) { return e; }`. The words of Python are known too.
    Cpp,
    /// `and`, `or`, `not`, `in`, `**`, chained comparisons.
    Python,
}

/// What names are.
pub(crate) struct Scope<'a> {
    /// The parameter that aliases and lambdas are about.
    pub own: &'a str,
    /// Types of names; unknown names are taken as they are.
    pub types: &'a HashMap<String, ParamType>,
    /// What `$1`, `$2`, … stand for.
    pub args: &'a [Value],
}

/// An operand: a value, a condition on the own value, or a list.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Value(Typed),
    Rule(Constraint),
    List(Vec<Typed>),
}

/// A reader of a text in one of the notations.
pub(crate) struct Reader<'a> {
    pub text: &'a str,
    pub at: usize,
    pub dialect: Dialect,
    pub scope: &'a Scope<'a>,
    depth: u32,
    /// Operators so far.
    operators: u32,
    /// The parameter of a lambda that is being read; it stands for the own value.
    lambda: Option<String>,
}

/// The deepest nesting that is read.
const DEPTH: u32 = 150;
/// The most operators in one text; chains of them nest.
const OPERATORS: u32 = 2000;

/// A whole text as a constraint.
pub(crate) fn constraint(text: &str, dialect: Dialect, scope: &Scope) -> Result<Constraint, ParseError> {
    let mut r = Reader::new(text, dialect, scope);
    let item = r.item()?;
    r.end()?;
    r.rule(item)
}

/// A whole text as an expression.
pub(crate) fn expression(text: &str, dialect: Dialect, scope: &Scope) -> Result<Typed, ParseError> {
    let mut r = Reader::new(text, dialect, scope);
    let value = r.value()?;
    r.end()?;
    Ok(value)
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, dialect: Dialect, scope: &'a Scope<'a>) -> Reader<'a> {
        Reader { text, at: 0, dialect, scope, depth: 0, operators: 0, lambda: None }
    }

    pub fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, message: message.into() })
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    pub fn end(&mut self) -> Result<(), ParseError> {
        self.space();
        if self.rest().is_empty() { Ok(()) } else { self.error("unexpected text") }
    }

    /// Takes a symbol if it comes next.
    pub fn eat(&mut self, symbol: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.eat(symbol) { Ok(()) } else { self.error(format!("expected `{symbol}`")) }
    }

    /// The identifier that comes next; empty if none does.
    pub fn peek_word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let inside = |c: char| c == '_' || c.is_alphanumeric();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return "";
        }
        &rest[..rest.find(|c| !inside(c)).unwrap_or(rest.len())]
    }

    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// A value; conditions on the own value are not values.
    pub fn value(&mut self) -> Result<Typed, ParseError> {
        match self.item()? {
            Item::Value(v) => Ok(v),
            Item::Rule(c) => match c.expr(self.scope.own) {
                Some(e) => Ok(Typed { e, ty: Ty::Bool }),
                None => self.error("a condition is not a value"),
            },
            Item::List(_) => self.error("a list is not a value here"),
        }
    }

    /// An operand as a condition.
    pub fn rule(&self, item: Item) -> Result<Constraint, ParseError> {
        match item {
            Item::Rule(c) => Ok(c),
            Item::Value(v) => Ok(Constraint::Expr(truth(v).e)),
            Item::List(_) => self.error("a list is not a condition"),
        }
    }

    pub fn item(&mut self) -> Result<Item, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.error("nested too deeply");
        }
        let item = self.logic(BinOp::Or);
        self.depth -= 1;
        item
    }

    /// `a || b || …` of `a && b && …` of negations and comparisons.
    fn logic(&mut self, op: BinOp) -> Result<Item, ParseError> {
        let (symbol, word) = if op == BinOp::Or { ("||", "or") } else { ("&&", "and") };
        let mut left = self.operand(op)?;
        while self.eat(symbol) || self.eat_word(word) {
            self.count()?;
            let right = self.operand(op)?;
            left = match (left, right) {
                (Item::Value(a), Item::Value(b)) => Item::Value(binary(op, truth(a), truth(b), Ty::Bool)),
                (a, b) => {
                    let (a, b) = (self.rule(a)?, self.rule(b)?);
                    Item::Rule(if op == BinOp::Or { a.or(b) } else { a.and(b) })
                }
            };
        }
        Ok(left)
    }

    fn operand(&mut self, op: BinOp) -> Result<Item, ParseError> {
        if op == BinOp::Or { self.logic(BinOp::And) } else { self.negation() }
    }

    fn negation(&mut self) -> Result<Item, ParseError> {
        self.space();
        let bang = self.rest().starts_with('!') && !self.rest().starts_with("!=");
        if !bang && self.peek_word() != "not" {
            return self.comparison();
        }
        self.at += if bang { 1 } else { 3 };
        self.depth += 1;
        if self.depth > DEPTH {
            return self.error("nested too deeply");
        }
        // In C++ `!` binds to the next operand, in Python `not` reaches over comparisons.
        let inner = if bang { self.unary()? } else { self.negation()? };
        self.depth -= 1;
        let inner = match inner {
            Item::Value(v) => truth(v).e,
            other => {
                let rule = self.rule(other)?;
                match rule.expr(self.scope.own) {
                    Some(e) => e,
                    None => return self.error("this condition cannot be negated"),
                }
            }
        };
        Ok(Item::Value(Typed { e: Expr::Unary(UnOp::Not, Box::new(inner)), ty: Ty::Bool }))
    }

    fn count(&mut self) -> Result<(), ParseError> {
        self.operators += 1;
        if self.operators > OPERATORS { self.error("too many operators") } else { Ok(()) }
    }

    fn comparison_operator(&mut self) -> Option<BinOp> {
        use BinOp::*;
        self.space();
        [Eq, Ne, Le, Ge, Lt, Gt].into_iter().find(|op| self.eat(op.symbol()))
    }

    fn comparison(&mut self) -> Result<Item, ParseError> {
        let mut left = self.sum()?;
        let mut all: Option<Typed> = None;
        loop {
            self.count()?;
            let (found, link) = if let Some(op) = self.comparison_operator() {
                let right = self.sum()?;
                let (a, b) = (self.only_value(left)?, self.only_value(right)?);
                let (x, y) = alike(a, b.clone());
                (binary(op, x, y, Ty::Bool), Item::Value(b))
            } else if self.eat_word("in") {
                let a = self.only_value(left)?;
                (self.member(a.clone())?, Item::Value(a))
            } else if self.peek_word() == "not" {
                let before = self.at;
                self.at += 3;
                if !self.eat_word("in") {
                    self.at = before;
                    return Ok(all.map_or(left, Item::Value));
                }
                let a = self.only_value(left)?;
                let e = Expr::Unary(UnOp::Not, Box::new(self.member(a.clone())?.e));
                (Typed { e, ty: Ty::Bool }, Item::Value(a))
            } else {
                return Ok(all.map_or(left, Item::Value));
            };
            all = Some(match all {
                None => found,
                Some(before) if self.dialect == Dialect::Python => {
                    binary(BinOp::And, before, found, Ty::Bool)
                }
                Some(_) => return self.error("comparisons do not chain"),
            });
            left = link;
        }
    }

    fn only_value(&self, item: Item) -> Result<Typed, ParseError> {
        match item {
            Item::Value(v) => Ok(v),
            _ => self.error("only values can be compared and computed with"),
        }
    }

    /// `a in [b, c]` is `a == b or a == c`.
    fn member(&mut self, a: Typed) -> Result<Typed, ParseError> {
        let list = match self.sum()? {
            Item::List(list) => list,
            _ => return self.error("expected a list"),
        };
        let parts = list.into_iter().map(|v| {
            let (a, v) = alike(a.clone(), v);
            binary(BinOp::Eq, a, v, Ty::Bool)
        });
        let none = Typed { e: Expr::Value(Value::Bool(false)), ty: Ty::Bool };
        Ok(balanced(parts.collect()).unwrap_or(none))
    }

    fn sum(&mut self) -> Result<Item, ParseError> {
        let mut left = self.product()?;
        loop {
            let op = if self.eat("+") {
                BinOp::Add
            } else if self.eat("-") {
                BinOp::Sub
            } else {
                return Ok(left);
            };
            self.count()?;
            let right = self.product()?;
            left = match (left, right) {
                (Item::List(mut a), Item::List(b)) if op == BinOp::Add => {
                    a.extend(b);
                    Item::List(a)
                }
                (a, b) => Item::Value(arithmetic(op, self.only_value(a)?, self.only_value(b)?)),
            };
        }
    }

    fn product(&mut self) -> Result<Item, ParseError> {
        let mut left = self.unary()?;
        loop {
            self.space();
            let rest = self.rest();
            let op = if rest.starts_with("//") {
                BinOp::FloorDiv
            } else if rest.starts_with('*') && !rest.starts_with("**") {
                BinOp::Mul
            } else if rest.starts_with('/') {
                BinOp::Div
            } else if rest.starts_with('%') {
                BinOp::Mod
            } else {
                return Ok(left);
            };
            self.at += op.symbol().len();
            self.count()?;
            let right = self.unary()?;
            let (a, b) = (self.only_value(left)?, self.only_value(right)?);
            left = Item::Value(if op == BinOp::Div { self.division(a, b) } else { arithmetic(op, a, b) });
        }
    }

    fn division(&self, a: Typed, b: Typed) -> Typed {
        if self.dialect == Dialect::Cpp {
            let float = a.ty == Ty::Float || b.ty == Ty::Float;
            return arithmetic(if float { BinOp::Div } else { BinOp::FloorDiv }, a, b);
        }
        // A float on the left makes it a division of floats.
        let one = Typed { e: Expr::Value(Value::Float(1.0)), ty: Ty::Float };
        let a = if a.ty == Ty::Float { a } else { arithmetic(BinOp::Mul, a, one) };
        arithmetic(BinOp::Div, a, b)
    }

    fn unary(&mut self) -> Result<Item, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.error("nested too deeply");
        }
        self.space();
        let item = if self.rest().starts_with('!') && !self.rest().starts_with("!=") {
            self.negation()
        } else if self.eat("-") {
            let inner = self.unary()?;
            let v = number(self.only_value(inner)?);
            let e = match v.e {
                Expr::Value(Value::Int(i)) if i != i64::MIN => Expr::Value(Value::Int(-i)),
                Expr::Value(Value::Float(f)) => Expr::Value(Value::Float(-f)),
                e => Expr::Unary(UnOp::Neg, Box::new(e)),
            };
            Ok(Item::Value(Typed { e, ty: v.ty }))
        } else if self.eat("+") {
            self.unary()
        } else {
            self.power()
        };
        self.depth -= 1;
        item
    }

    fn power(&mut self) -> Result<Item, ParseError> {
        let base = self.primary()?;
        if !self.eat("**") {
            return Ok(base);
        }
        let exponent = self.unary()?;
        let (a, b) = (number(self.only_value(base)?), number(self.only_value(exponent)?));
        let ty = joined(a.ty, b.ty);
        Ok(Item::Value(Typed { e: Expr::Call("pow".into(), vec![a.e, b.e]), ty }))
    }
}
