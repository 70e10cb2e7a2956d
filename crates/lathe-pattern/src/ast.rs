//! Terms as they are written: names, sugar, no types. [`crate::infer`] makes typed terms of them.

use crate::term::Term;
use crate::types::{Kind, Type};
use lathe_diagnostics::Span;
use lathe_ir::{BinOp, Name, UnOp};

#[derive(Clone, Debug, PartialEq)]
pub struct Ast {
    pub kind: Box<AstKind>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AstKind {
    Name(Name),
    Int(i64),
    Float(f64),
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
    /// A typed term in place; variables that are bound outside of it count the binders around it.
    Typed(Term),
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

/// `fun name(params) -> result where facts = body`
#[derive(Clone, Debug, PartialEq)]
pub struct FunAst {
    pub name: Name,
    pub params: Vec<FunParam>,
    pub result: Type,
    pub result_span: Span,
    /// Conditions over sizes.
    pub facts: Vec<Ast>,
    pub body: Ast,
    pub span: Span,
}

impl Ast {
    pub fn new(kind: AstKind, span: Span) -> Ast {
        Ast { kind: Box::new(kind), span }
    }
}
