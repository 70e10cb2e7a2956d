//! Terms as they are written: names, sugar, no types. [`crate::infer`] makes typed terms of them.

use crate::types::{Kind, Type};
use lathe_diagnostics::Span;
use lathe_ir::{BinOp, Name, UnOp};

#[derive(Clone, Debug, PartialEq)]
pub struct Ast {
    pub kind: Box<AstKind>,
    pub span: Span,
    /// How deep it nests.
    pub height: u32,
}

/// The deepest nesting of a term that is read or typed: what walks over terms stays within an ordinary
/// stack.
pub const HEIGHT: u32 = 400;

#[derive(Clone, Debug, PartialEq)]
pub enum AstKind {
    Name(Name),
    /// As written, whatever type it gets.
    Int(i128),
    Float(f64),
    /// So many times the imaginary unit.
    Imaginary(f64),
    Bool(bool),
    /// `|x, y| body`; at least one parameter.
    Lam(Vec<LamParam>, Ast),
    /// `f(a, b)`, which is `f(a)(b)`; also `x |> f(a)`, which is `f(a)(x)`.
    Call(Ast, Vec<Ast>),
    /// `f >> g`: first `f`, then `g`.
    Then(Ast, Ast),
    Unary(UnOp, Ast),
    Binary(BinOp, Ast, Ast),
    /// `xs[i, j]`
    Index(Ast, Vec<Ast>),
    /// `p.0`
    Part(Ast, usize),
    Tuple(Vec<Ast>),
    /// `let p = e in b`
    Let(Pattern, Ast, Ast),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Name),
    Tuple(Vec<Pattern>),
    /// `_`
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LamParam {
    Data(Pattern, Option<Type>),
    /// `|n: nat|`, `|d: data|`
    Dep(Kind, Name),
}

/// A parameter of a fun.
#[derive(Clone, Debug, PartialEq)]
pub struct FunParam {
    pub name: Name,
    pub ty: Type,
    pub span: Span,
}

/// `fun name<types>(params) -> result where facts = body`
#[derive(Clone, Debug, PartialEq)]
pub struct FunAst {
    pub name: Name,
    pub name_span: Span,
    /// Types of data that are found where it is used.
    pub types: Vec<(Name, Span)>,
    pub params: Vec<FunParam>,
    pub result: Type,
    pub result_span: Span,
    /// Conditions over sizes.
    pub facts: Vec<Ast>,
    pub body: Ast,
    pub span: Span,
}

/// `rule name(metavariables) rounds: left => right where conditions`
#[derive(Clone, Debug, PartialEq)]
pub struct RuleAst {
    pub name: Name,
    pub name_span: Span,
    pub metas: Vec<Name>,
    /// Declared to hold up to rounding.
    pub rounds: bool,
    pub left: Ast,
    pub right: Ast,
    /// Conditions over sizes.
    pub conditions: Vec<Ast>,
    pub span: Span,
}

impl Ast {
    pub fn new(kind: AstKind, span: Span) -> Ast {
        let over = |v: &[Ast]| v.iter().map(|a| a.height).max().unwrap_or(0);
        let below = match &kind {
            AstKind::Name(_)
            | AstKind::Int(_)
            | AstKind::Float(_)
            | AstKind::Imaginary(_)
            | AstKind::Bool(_) => 0,
            AstKind::Lam(_, a) | AstKind::Unary(_, a) | AstKind::Part(a, _) => a.height,
            AstKind::Then(a, b) | AstKind::Binary(_, a, b) | AstKind::Let(_, a, b) => a.height.max(b.height),
            AstKind::Call(f, args) | AstKind::Index(f, args) => f.height.max(over(args)),
            AstKind::Tuple(v) => over(v),
        };
        Ast { kind: Box::new(kind), span, height: below + 1 }
    }

    /// Visits the term and all its parts.
    pub fn walk(&self, visit: &mut dyn FnMut(&Ast)) {
        visit(self);
        match &*self.kind {
            AstKind::Name(_)
            | AstKind::Int(_)
            | AstKind::Float(_)
            | AstKind::Imaginary(_)
            | AstKind::Bool(_) => {}
            AstKind::Call(f, args) | AstKind::Index(f, args) => {
                f.walk(visit);
                args.iter().for_each(|a| a.walk(visit));
            }
            AstKind::Then(a, b) | AstKind::Binary(_, a, b) | AstKind::Let(_, a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            AstKind::Lam(_, a) | AstKind::Unary(_, a) | AstKind::Part(a, _) => a.walk(visit),
            AstKind::Tuple(parts) => parts.iter().for_each(|a| a.walk(visit)),
        }
    }
}
