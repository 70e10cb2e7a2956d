//! Terms in an e-graph: classes of terms that rules proved equal.
//!
//! Variables of binders are numbers that count outwards, so that one class serves wherever its terms stand
//! under the same binders, and congruence under a lambda is sound. Nodes hold their types: of primitives and
//! variables, and of parameters of lambdas. Every class knows its smallest term, which stands for it where a
//! rule, which wants terms, is applied.

use crate::term::{Term, TermKind};
use crate::types::Type;
use egg::{Analysis, DidMerge, EGraph, Id, Language};
use lathe_ir::Name;
use std::collections::HashMap;

/// A node: a number of [`Heads`], and the classes of its children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op {
    pub head: u32,
    pub children: Vec<Id>,
}

impl Language for Op {
    type Discriminant = (u32, usize);

    fn discriminant(&self) -> (u32, usize) {
        (self.head, self.children.len())
    }

    fn matches(&self, o: &Op) -> bool {
        self.discriminant() == o.discriminant()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// What is at a node.
#[derive(Clone)]
pub enum Head {
    /// A primitive with as many arguments as the node has children, or a term that is not looked into.
    Leaf(Term),
    /// The hint for the variable's name, and its type.
    Lam(Name, Type),
    /// Of a function that is not a primitive.
    Apply,
}

/// All heads, each once; also the analysis that keeps each class's smallest term.
#[derive(Default)]
pub struct Heads {
    all: Vec<Head>,
    leaves: HashMap<Term, u32>,
    lambdas: HashMap<Type, u32>,
    apply: Option<u32>,
}

pub type Graph = EGraph<Op, Heads>;

impl Heads {
    pub fn get(&self, n: u32) -> &Head {
        &self.all[n as usize]
    }

    fn push(&mut self, h: Head) -> u32 {
        self.all.push(h);
        (self.all.len() - 1) as u32
    }

    fn leaf(&mut self, t: &Term) -> u32 {
        if let Some(n) = self.leaves.get(t) {
            return *n;
        }
        let n = self.push(Head::Leaf(t.clone()));
        self.leaves.insert(t.clone(), n);
        n
    }

    fn lambda(&mut self, hint: &Name, param: &Type) -> u32 {
        if let Some(n) = self.lambdas.get(param) {
            return *n;
        }
        let n = self.push(Head::Lam(hint.clone(), param.clone()));
        self.lambdas.insert(param.clone(), n);
        n
    }

    fn application(&mut self) -> u32 {
        match self.apply {
            Some(n) => n,
            None => {
                let n = self.push(Head::Apply);
                self.apply = Some(n);
                n
            }
        }
    }

    /// The term of a node, given terms of its children.
    pub fn build(&self, head: u32, children: &[Term]) -> Term {
        match (self.get(head), children) {
            (Head::Leaf(t), args) => Term::apps(t.clone(), args.iter().cloned()),
            (Head::Lam(hint, param), [body]) => Term::lam(hint, param.clone(), body.clone()),
            (Head::Apply, [f, a]) => Term::app(f.clone(), a.clone()),
            // Nodes are made below, with the children that their heads want.
            (Head::Lam(..) | Head::Apply, _) => unreachable!("a node with other children"),
        }
    }
}

impl Analysis<Op> for Heads {
    type Data = Term;

    fn make(graph: &mut Graph, node: &Op) -> Term {
        let children: Vec<Term> = node.children.iter().map(|c| graph[*c].data.clone()).collect();
        graph.analysis.build(node.head, &children)
    }

    fn merge(&mut self, a: &mut Term, b: Term) -> DidMerge {
        // Of equally large terms always the same one.
        let key = |t: &Term| (t.size(), t.structural_hash());
        if key(&b) < key(a) {
            *a = b;
            DidMerge(true, false)
        } else {
            DidMerge(false, *a != b)
        }
    }
}

/// Puts a term in.
pub fn add(g: &mut Graph, t: &Term) -> Id {
    let mut memo = HashMap::new();
    go(g, t, &mut memo)
}

fn go(g: &mut Graph, t: &Term, memo: &mut HashMap<usize, Id>) -> Id {
    if let Some(id) = memo.get(&t.address()) {
        return *id;
    }
    let (head, children) = parts(t);
    let head = match head {
        Part::Lambda(hint, param) => g.analysis.lambda(hint, &param),
        Part::Leaf(t) => g.analysis.leaf(t),
        Part::Apply => g.analysis.application(),
    };
    let children = children.into_iter().map(|c| go(g, c, memo)).collect();
    let id = g.add(Op { head, children });
    memo.insert(t.address(), id);
    id
}

/// The class of a term, if all of it is in the graph.
pub fn class_of(g: &Graph, t: &Term) -> Option<Id> {
    let (head, children) = parts(t);
    let head = match head {
        Part::Lambda(_, param) => *g.analysis.lambdas.get(&param)?,
        Part::Leaf(t) => *g.analysis.leaves.get(t)?,
        Part::Apply => g.analysis.apply?,
    };
    let children = children.into_iter().map(|c| class_of(g, c)).collect::<Option<Vec<_>>>()?;
    g.lookup(Op { head, children })
}

enum Part<'a> {
    Leaf(&'a Term),
    Lambda(&'a Name, Type),
    Apply,
}

/// What is at the root of a term, and below it.
fn parts(t: &Term) -> (Part<'_>, Vec<&Term>) {
    match t.kind() {
        TermKind::Lam(hint, body) => {
            let param = t.ty().as_fun().map_or_else(|| t.ty().clone(), |f| f.0.clone());
            (Part::Lambda(hint, param), vec![body])
        }
        TermKind::App(f, a) => match t.spine() {
            Some((_, args)) => {
                let mut head = t;
                while let Some((f, _)) = head.as_app() {
                    head = f;
                }
                (Part::Leaf(head), args)
            }
            None => (Part::Apply, vec![f, a]),
        },
        _ => (Part::Leaf(t), Vec::new()),
    }
}
