//! The deep embedding: what a `strategy` of a `.lathe` file is after parsing.

use lathe_diagnostics::Span;
use lathe_space::{Expr, Parameter, UnOp};
use std::collections::BTreeSet;

/// One argument of a step: `16`, `j.i`, `i: 64`, `at: k.o`, `pad(0, 8)`, or a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The text before the colon; may be a loop's path (`j.i: 16`) or a keyword (`at: …`).
    pub name: Option<String>,
    pub value: ArgValue,
    pub span: Option<Span>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ArgValue {
    /// Arithmetic, a parameter, or (a name that is not a parameter) a path of loops or labels. A single
    /// call is parsed as this too; [`ArgValue::as_strategy`] reads it as a step where one is wanted.
    Expr(Expr),
    Strategy(Box<Strategy>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Does nothing, succeeds.
    Id,
    /// Fails with a reason.
    Fail(String),
    /// A rule, a definition, or a combinator with arguments (`try(s)`, `repeat(s)`).
    Call { name: String, args: Vec<Argument>, span: Option<Span> },
    /// `a ; b ; c`
    Seq(Vec<Strategy>),
    /// `a <+ b`: `b` only if `a` failed, on the tree as it was before `a`.
    Choice(Vec<Strategy>),
    /// `s @ location`
    At(Box<Strategy>, Box<Strategy>),
    /// By parameters, machine facts, or sizes (then both are compiled and the call dispatches).
    If { cond: Expr, then: Box<Strategy>, other: Box<Strategy>, span: Option<Span> },
}

/// `strategy NAME(params where constraints) for TARGET = body`.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub params: Vec<Parameter>,
    pub constraints: Vec<Expr>,
    /// `None`: for any target.
    pub target: Option<String>,
    pub body: Strategy,
    pub span: Option<Span>,
}

/// The sorts of a rule's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Int,
    /// One loop, by path.
    Loop,
    Label,
    Buffer,
    /// A keyword out of a list that the page gives.
    Word,
    /// Symbolic data, e.g. a layout.
    Data,
}

/// One formal argument of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formal {
    pub name: &'static str,
    pub sort: Sort,
    /// May be left out.
    pub optional: bool,
    /// Takes any number of arguments; `tile(i: 8, j: 8)` gives loops as names and integers as values.
    pub many: bool,
}

impl Formal {
    /// An argument that has to be given.
    pub const fn one(name: &'static str, sort: Sort) -> Formal {
        Formal { name, sort, optional: false, many: false }
    }

    /// An argument that may be left out.
    pub const fn optional(name: &'static str, sort: Sort) -> Formal {
        Formal { optional: true, ..Formal::one(name, sort) }
    }

    /// Any number of arguments.
    pub const fn many(name: &'static str, sort: Sort) -> Formal {
        Formal { many: true, ..Formal::one(name, sort) }
    }
}

/// A rule as data: language checks, menus and documentation are derived from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleSignature {
    pub name: &'static str,
    /// Bumped whenever the rule's meaning changes; part of the evidence.
    pub version: u32,
    pub formals: &'static [Formal],
    /// One line.
    pub summary: &'static str,
    /// The rule's page in the reference, as a comment has it: each line begins with a space.
    pub page: &'static str,
}

impl RuleSignature {
    /// The rule's page in the reference: meaning, legality, an example in ```` ```lathe ```` fences.
    pub fn page(&self) -> String {
        self.page.lines().map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }
}

impl Argument {
    pub fn positional(e: Expr) -> Argument {
        Argument { name: None, value: ArgValue::Expr(e), span: None }
    }
}

impl Definition {
    /// The names of the steps that it is made of, less those of its parameters.
    pub fn calls(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        self.body.collect_calls(&mut out);
        self.params.iter().for_each(|p| {
            out.remove(&p.name);
        });
        out
    }
}

impl Strategy {
    /// The names of its steps, in arguments, too, where a name may be that of a step.
    fn collect_calls(&self, out: &mut BTreeSet<String>) {
        match self {
            Strategy::Id | Strategy::Fail(_) => {}
            Strategy::Call { name, args, .. } => {
                out.insert(name.clone());
                args.iter().filter_map(|a| a.value.as_strategy(None)).for_each(|s| s.collect_calls(out));
            }
            Strategy::Seq(all) | Strategy::Choice(all) => all.iter().for_each(|s| s.collect_calls(out)),
            Strategy::At(a, b) => [a, b].into_iter().for_each(|s| s.collect_calls(out)),
            Strategy::If { then, other, .. } => [then, other].into_iter().for_each(|s| s.collect_calls(out)),
        }
    }

    /// How many steps are written in it, less those of arguments.
    pub(crate) fn written(&self) -> u64 {
        match self {
            Strategy::Id | Strategy::Fail(_) => 0,
            Strategy::Call { .. } => 1,
            Strategy::Seq(all) | Strategy::Choice(all) => all.iter().map(Strategy::written).sum(),
            Strategy::At(s, _) => s.written(),
            Strategy::If { then, other, .. } => then.written() + other.written(),
        }
    }

    /// Whether a step of that name stands anywhere in it, in arguments, too.
    pub fn calls(&self, name: &str) -> bool {
        match self {
            Strategy::Id | Strategy::Fail(_) => false,
            Strategy::Call { name: n, args, .. } => {
                let in_argument = |a: &Argument| match &a.value {
                    ArgValue::Strategy(s) => s.calls(name),
                    value => value.as_strategy(None).is_some_and(|s| s.calls(name)),
                };
                n == name || args.iter().any(in_argument)
            }
            Strategy::Seq(all) | Strategy::Choice(all) => all.iter().any(|s| s.calls(name)),
            Strategy::At(a, b) => a.calls(name) || b.calls(name),
            Strategy::If { then, other, .. } => then.calls(name) || other.calls(name),
        }
    }
}

impl ArgValue {
    /// Reads a single call or name as a step.
    pub fn as_strategy(&self, span: Option<Span>) -> Option<Strategy> {
        match self {
            ArgValue::Strategy(s) => Some((**s).clone()),
            ArgValue::Expr(Expr::Name(n)) => Some(Strategy::Call { name: n.clone(), args: vec![], span }),
            ArgValue::Expr(Expr::Call(n, args)) => Some(Strategy::Call {
                name: n.clone(),
                args: args.iter().cloned().map(Argument::positional).collect(),
                span,
            }),
            // `not p` reads as arithmetic too.
            ArgValue::Expr(Expr::Unary(UnOp::Not, e)) => Some(Strategy::Call {
                name: "not".to_string(),
                args: vec![Argument::positional((**e).clone())],
                span,
            }),
            ArgValue::Expr(_) => None,
        }
    }
}
