//! What the interpreter of strategies needs to know of a kind of tree.

use crate::evidence::{Evidence, Refusal};
use crate::syntax::{ArgValue, Argument, Strategy};
use lathe_diagnostics::Span;
use lathe_space::Expr;
use std::fmt;

/// An argument of a rule: parameters bound, arithmetic done; names of loops and labels stay names.
#[derive(Clone, Debug, PartialEq)]
pub struct StepArg {
    pub name: Option<String>,
    pub value: Expr,
    pub span: Option<Span>,
}

impl StepArg {
    /// Reads `16`, `i.o` or `at: k.o`.
    pub(crate) fn read(text: &str) -> Option<StepArg> {
        match crate::parse::parse_argument(text).ok()? {
            Argument { name, value: ArgValue::Expr(value), span } => Some(StepArg { name, value, span }),
            _ => None,
        }
    }
}

impl fmt::Display for StepArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(n) => write!(f, "{n}: {}", self.value),
            None => write!(f, "{}", self.value),
        }
    }
}

/// Where `s @ location` looks.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// The largest subtree that holds all of a label's statements and nothing else.
    Stmt(String),
    /// The loops of a name.
    Loop(String),
    Outermost(Box<Location>),
    Innermost(Box<Location>),
}

impl Location {
    /// Reads a step as a location: `stmt(C)`, `loop(i)`, `outermost(…)`, `innermost(…)`.
    pub fn from_strategy(s: &Strategy) -> Option<Location> {
        let Strategy::Call { name, args, .. } = s else { return None };
        let [arg] = args.as_slice() else { return None };
        let nested = || {
            let s = arg.value.as_strategy(arg.span)?;
            Location::from_strategy(&s).map(Box::new)
        };
        let text = || match &arg.value {
            crate::ArgValue::Expr(e @ (Expr::Name(_) | Expr::Call(..))) => Some(e.to_string()),
            crate::ArgValue::Expr(_) => None,
            crate::ArgValue::Strategy(s) => match &**s {
                Strategy::Call { name, args, .. } if args.is_empty() => Some(name.clone()),
                _ => None,
            },
        };
        match name.as_str() {
            "stmt" => text().map(Location::Stmt),
            "loop" => text().map(Location::Loop),
            "outermost" => nested().map(Location::Outermost),
            "innermost" => nested().map(Location::Innermost),
            _ => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Stmt(l) => write!(f, "stmt({l})"),
            Location::Loop(l) => write!(f, "loop({l})"),
            Location::Outermost(l) => write!(f, "outermost({l})"),
            Location::Innermost(l) => write!(f, "innermost({l})"),
        }
    }
}

/// A kind of tree that strategies rewrite. Trees are immutable: a copy is cheap, and a failed step
/// leaves nothing behind.
pub trait Tree: Clone {
    /// The names of all rules.
    fn rules(&self) -> Vec<&'static str>;

    /// Applies a rule at a focus (a path; empty: everything). At a place found by a traversal, a rule of one
    /// loop may leave out which: it is the one that is there.
    fn apply(&self, rule: &str, focus: &[usize], args: &[StepArg]) -> Result<(Self, Evidence), Refusal>;

    /// The places of a location within a focus; `Outermost` and `Innermost` are resolved by the caller.
    fn locate(&self, location: &Location, within: &[usize]) -> Result<Vec<Vec<usize>>, Refusal>;

    /// Number of sub-trees at a path; traversals go through them. Kinds without traversals have none.
    fn arity(&self, _path: &[usize]) -> usize {
        0
    }

    /// The names of the predicates on places.
    fn predicates(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a predicate holds at a path.
    fn holds(&self, _predicate: &str, _path: &[usize], _args: &[StepArg]) -> bool {
        false
    }

    /// The number of its nodes: what one step costs.
    fn size(&self) -> u64;

    /// What the tree owes before any step: it is in the evidence of the first.
    fn owes(&self) -> Vec<crate::evidence::Obligation> {
        Vec::new()
    }

    /// A structural hash: equal trees have equal hashes, in every process.
    fn hash(&self) -> u64;

    /// A BLAKE3 hash in hexadecimal, by which evidence calls the tree: nobody can find another tree with the same one.
    fn digest(&self) -> String;
}

/// The BLAKE3 hash of a text, in hexadecimal.
pub fn digest(text: &str) -> String {
    hexadecimal(*blake3::hash(text.as_bytes()).as_bytes())
}

/// A hash as evidence has it.
pub fn hexadecimal(hash: [u8; 32]) -> String {
    blake3::Hash::from_bytes(hash).to_hex().to_string()
}
