//! Terms as trees that strategies rewrite: children, predicates, locations.

use crate::ast::HEIGHT;
use crate::facts::{Fact, Facts, Known};
use crate::prim::{MapKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::TypeKind;
use lathe_strategy::{Entry, Node, StepArg, Vocabulary, Why};
use std::rc::Rc;

/// What rules know of sizes, and what they learn: a call of the program must check it.
#[derive(Clone, Debug, Default)]
pub struct TermState {
    pub facts: Rc<Facts>,
    /// Refuse what is not known instead of relying on it.
    pub strict: bool,
}

impl TermState {
    pub fn new(facts: &Facts) -> TermState {
        TermState { facts: Rc::new(facts.clone()), strict: false }
    }

    /// Makes sure that a fact holds: it is known, or the call will check it.
    pub fn need(&mut self, f: Fact) -> Result<(), Why> {
        match self.facts.holds(&f) {
            Known::Yes => Ok(()),
            Known::No => Err(Why::Condition(format!("`{f}` does not hold"))),
            Known::Maybe if self.strict => Err(Why::Condition(format!("`{f}` is not known"))),
            Known::Maybe => {
                Rc::make_mut(&mut self.facts).learn(f);
                Ok(())
            }
        }
    }
}

impl Node for Term {
    type State = TermState;

    fn arity(&self) -> usize {
        match self.kind() {
            TermKind::App(..) => 2,
            TermKind::Lam(..) | TermKind::DepLam(..) | TermKind::DepApp(..) => 1,
            _ => 0,
        }
    }

    fn child(&self, n: usize) -> Option<Term> {
        Term::child(self, n).cloned()
    }

    fn with_child(&self, n: usize, new: Term) -> Term {
        Term::with_child(self, n, new)
    }

    /// Of an application the argument first: data before who uses it.
    fn visited(&self, k: usize) -> usize {
        if matches!(self.kind(), TermKind::App(..)) { 1 - k.min(1) } else { k }
    }

    fn hash(&self) -> u64 {
        self.structural_hash()
    }

    fn address(&self) -> Option<usize> {
        Some(Term::address(self))
    }

    fn same(&self, o: &Term) -> bool {
        self == o
    }

    fn outgrown(&self) -> Option<String> {
        let (size, height) = (self.size(), self.height());
        (size > SIZE || height > 2 * HEIGHT)
            .then(|| format!("the term has grown to {size} nodes, nested {height} deep"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// The most nodes of a term that is being rewritten.
pub(crate) const SIZE: u32 = 1_000_000;

/// Whether a name of the text means this primitive, whatever its sizes.
fn is_named(t: &Term, name: &str) -> bool {
    t.as_prim().is_some_and(|p| p.name() == name)
}

/// Predicates and locations of terms; [`crate::rules::vocabulary`] adds the rules.
pub fn vocabulary() -> Vocabulary<Term> {
    let mut v = Vocabulary::default();
    v.location("body", |t: &Term| matches!(t.kind(), TermKind::Lam(..)).then_some(0));
    v.location("function", |t: &Term| matches!(t.kind(), TermKind::App(..)).then_some(0));
    v.location("argument", |t: &Term| matches!(t.kind(), TermKind::App(..)).then_some(1));
    // argOf(map, s): of an application of exactly that primitive.
    let of = |t: &Term, args: &[StepArg]| {
        let (f, _) = t.as_app()?;
        is_named(f, &args.first()?.value.to_string()).then_some(1)
    };
    v.add("argOf", Entry::Into(Rc::new(of)));
    let prim = |f: fn(&Prim) -> bool| move |t: &Term| t.as_prim().is_some_and(f);
    v.predicate("isMap", prim(|p| matches!(p, Prim::Map(MapKind::High))));
    v.predicate("isMapSeq", prim(|p| matches!(p, Prim::Map(MapKind::Seq))));
    v.predicate("isAnyMap", prim(|p| matches!(p, Prim::Map(_) | Prim::MapVec(_))));
    // A reduction is one whether or not it says how: fusion makes it sequential.
    v.predicate("isReduce", prim(|p| matches!(p, Prim::Reduce(..))));
    v.predicate("isTranspose", prim(|p| matches!(p, Prim::Transpose)));
    v.predicate("isSplit", prim(|p| matches!(p, Prim::Split(_))));
    v.predicate("isJoin", prim(|p| matches!(p, Prim::Join)));
    v.predicate("isSlide", prim(|p| matches!(p, Prim::Slide(..))));
    v.predicate("isGenerate", prim(|p| matches!(p, Prim::Generate(_))));
    v.predicate("isZip", prim(|p| matches!(p, Prim::Zip)));
    v.predicate("isToMem", prim(|p| matches!(p, Prim::ToMem(_))));
    v.predicate("isLambda", |t: &Term| matches!(t.kind(), TermKind::Lam(..)));
    v.predicate("isFun", |t: &Term| matches!(t.kind(), TermKind::Lam(..)));
    v.predicate("isApplication", |t: &Term| matches!(t.kind(), TermKind::App(..)));
    v.predicate("isIdentifier", |t: &Term| matches!(t.kind(), TermKind::Bound(_) | TermKind::Free(_)));
    v.predicate("isScalarFun", is_scalar_function);
    v.predicate("isArray", |t: &Term| matches!(t.ty().kind(), TypeKind::Array(..)));
    v.predicate("computes", computes);
    v
}

/// From elements to elements, by type.
pub fn is_scalar_function(t: &Term) -> bool {
    match t.ty().kind() {
        TypeKind::Fun(a, b) => {
            a.is_element()
                && (b.is_element()
                    || matches!(b.kind(), TypeKind::Fun(x, y) if x.is_element() && y.is_element()))
        }
        _ => false,
    }
}

/// Has a scalar operation or a loop inside: such a map is a loop, another one a view.
pub fn computes(t: &Term) -> bool {
    t.any(&mut |t| {
        t.as_prim().is_some_and(|p| {
            !p.is_layout() && !matches!(p, Prim::Map(MapKind::High) | Prim::NatValue(_) | Prim::AsIndex(_))
        }) || matches!(t.kind(), TermKind::Free(_) if !t.ty().is_data())
    })
}
