//! The nodes of value graphs: one table for both trees, so that terms are equal if they have the same number.

use crate::budget;
use crate::memory::Place;
use lathe_ir::visit::walk_expr;
use lathe_ir::{BufId, Combine, Digest, Executor, Expr, ExprKind, Name, ReduceOp, Type, VarId, View, build};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

/// The number of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term(u32);

/// What has a content that statements change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Slot {
    Memory(Place),
    /// What may fail, or acts on others, in its order.
    World,
    /// What somebody states.
    Facts,
}

/// What runs again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Loop(VarId),
    /// In as many loops.
    While(usize),
    Compute,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Loop { step: i64, exec: Executor },
    While,
    Compute { dims: Vec<(VarId, Combine)>, update: Option<ReduceOp>, guarded: bool },
}

/// What a term is, its parts aside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// An expression over variables, which stand for other terms or for themselves.
    Value(Expr),
    /// What is there when the function begins.
    Initial(Slot),
    /// What is there when a local array begins to live.
    Undefined(BufId, Type),
    /// What is overwritten as a whole by the loop that follows.
    Overwritten(BufId),
    /// An element: the view without its expressions. Parts: these, and the subscripts.
    Element(View),
    /// Parts: memory and element.
    Load(Type),
    Address,
    /// Parts: memory, element, value.
    Store,
    /// Target number so and so of an update. Parts: the memory of all targets, the elements, the values.
    Reduced(ReduceOp, usize, bool),
    /// Where an iteration begins.
    Entry(Key, Slot),
    /// What a point of a compute does: elements, values, and the guard.
    Point(usize),
    /// A slot after all iterations. Parts: bounds or condition, then what each slot that matters is before the first
    /// iteration, then what it is after one.
    Around {
        key: Key,
        kind: Kind,
        slots: Vec<Slot>,
        slot: Slot,
    },
    /// Parts: condition, then, otherwise.
    Choice,
    /// A statement with an effect, its expressions aside. Parts: the world before, expressions, memory that it names.
    Event(Digest),
    /// A slot after an event. Parts: the event, the slot before.
    After(Slot),
    /// The value that an event found.
    Found(Type),
    Check(Name, Name),
    Fact(Name),
    /// The value has to exist here. Parts: the world before, the value.
    Need,
    /// Parts: memory of globals, arguments.
    Call(Name, Type),
    /// An element that is written. Part: the element.
    Written(Slot),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub what: What,
    pub of: Vec<Term>,
}

/// What of iterations that go on a term depends on.
type Free = Rc<Vec<(Key, Slot)>>;

struct Known {
    node: Rc<Node>,
    free: Free,
    /// What stands for a value in expressions.
    stands: Option<Expr>,
}

pub(super) struct Graph {
    known: Vec<Known>,
    numbers: FxHashMap<Rc<Node>, Term>,
    none: Free,
    spent: Cell<bool>,
}

/// The first variable that stands for a term.
const FIRST: u32 = 1 << 31;

/// Integers and truths are folded where they are built, so that they are kept as expressions up to this size.
const LARGEST: usize = 64;

impl Graph {
    pub fn new() -> Graph {
        Graph {
            known: Vec::new(),
            numbers: FxHashMap::default(),
            none: Rc::default(),
            spent: Cell::new(false),
        }
    }

    /// Takes work off what this comparison may do: the nodes that are looked up, and those that a search visits.
    pub fn spend(&self, work: usize) {
        if !budget::spend(u64::try_from(work).unwrap_or(u64::MAX)) {
            self.spent.set(true);
        }
    }

    /// Whether there was more to do than may be done. Nothing that terms say counts any more.
    pub fn is_spent(&self) -> bool {
        self.spent.get()
    }

    pub fn node(&self, t: Term) -> &Rc<Node> {
        &self.known[t.0 as usize].node
    }

    /// The iterations that a term is within.
    pub fn free(&self, t: Term) -> &Free {
        &self.known[t.0 as usize].free
    }

    /// What stands for a value in other values.
    pub fn stands(&self, t: Term) -> Option<&Expr> {
        self.known[t.0 as usize].stands.as_ref()
    }

    pub fn make(&mut self, what: What, of: Vec<Term>) -> Term {
        self.spend(1 + of.len());
        let node = Node { what, of };
        if let Some(t) = self.numbers.get(&node) {
            return *t;
        }
        let t = Term(u32::try_from(self.known.len()).unwrap_or(u32::MAX).min(FIRST - 2));
        let free = self.free_of(&node);
        let stands = match &node.what {
            What::Value(e) if e.children().is_empty() => Some(e.clone()),
            What::Value(e) if !e.ty().is_float() && e.ty().scalar().is_some() && size(e) <= LARGEST => {
                Some(e.clone())
            }
            What::Value(e) => Some(placeholder(t, e.ty())),
            What::Load(ty) | What::Found(ty) | What::Call(_, ty) => Some(placeholder(t, ty)),
            What::Address => Some(placeholder(t, &Type::Scalar(lathe_ir::Scalar::U64))),
            What::Initial(_)
            | What::Undefined(..)
            | What::Overwritten(_)
            | What::Element(_)
            | What::Store
            | What::Reduced(..)
            | What::Entry(..)
            | What::Point(_)
            | What::Around { .. }
            | What::Choice
            | What::Event(_)
            | What::After(_)
            | What::Check(..)
            | What::Fact(_)
            | What::Need
            | What::Written(_) => None,
        };
        let node = Rc::new(node);
        self.known.push(Known { node: node.clone(), free, stands });
        self.numbers.insert(node, t);
        t
    }

    /// The value of an expression over what stands for values.
    pub fn value(&mut self, e: Expr) -> Term {
        if let Some(t) = e.as_var().and_then(term_of) {
            return t;
        }
        let mut of = Vec::new();
        walk_expr(&e, &mut |x| of.extend(x.as_var().and_then(term_of)));
        self.make(What::Value(e), of)
    }

    fn free_of(&self, node: &Node) -> Free {
        if let What::Entry(key, slot) = node.what {
            return Rc::new(vec![(key, slot)]);
        }
        let mut all: Option<Free> = None;
        for t in &node.of {
            let own = self.free(*t);
            all = Some(match all {
                Some(all) if own.is_empty() || Rc::ptr_eq(&all, own) => all,
                Some(all) if !all.is_empty() => {
                    let mut both: Vec<(Key, Slot)> = all.iter().chain(own.iter()).copied().collect();
                    both.sort_unstable();
                    both.dedup();
                    Rc::new(both)
                }
                Some(_) | None => own.clone(),
            });
        }
        let all = all.unwrap_or_else(|| self.none.clone());
        match &node.what {
            What::Around { key, .. } if all.iter().any(|f| f.0 == *key) => {
                Rc::new(all.iter().filter(|f| f.0 != *key).copied().collect())
            }
            _ => all,
        }
    }

    /// A slot after all iterations: what it depends on, of what they change, and nothing else.
    pub fn around(
        &mut self,
        (key, kind): (Key, &Kind),
        head: &[Term],
        changed: &BTreeMap<Slot, (Term, Term)>,
        slot: Slot,
    ) -> Term {
        let (before, end) = changed[&slot];
        if end == self.make(What::Entry(key, slot), Vec::new()) {
            return before;
        }
        let mut slots = vec![slot];
        let mut left: Vec<Term> = head.iter().copied().chain([end]).collect();
        while let Some(t) = left.pop() {
            self.spend(1 + self.free(t).len() + slots.len());
            for (_, s) in self.free(t).iter().filter(|f| f.0 == key) {
                if let Some((_, end)) = changed.get(s).filter(|_| !slots.contains(s)) {
                    slots.push(*s);
                    left.push(*end);
                }
            }
        }
        slots.sort_unstable();
        let before = slots.iter().map(|s| changed[s].0);
        let end = slots.iter().map(|s| changed[s].1);
        let of = head.iter().copied().chain(before).chain(end).collect();
        self.make(What::Around { key, kind: kind.clone(), slots, slot }, of)
    }

    /// What a slot that iterations change was before them.
    pub fn before(&self, t: Term) -> Option<Term> {
        let node = self.node(t);
        let What::Around { slots, slot, .. } = &node.what else { return None };
        let head = node.of.len() - 2 * slots.len();
        Some(node.of[head + slots.iter().position(|s| s == slot)?])
    }

    /// Whether iterations read nothing of the slot that this is of.
    pub fn blind(&self, t: Term) -> bool {
        let node = self.node(t);
        let What::Around { key, slots, slot, .. } = &node.what else { return false };
        let own = (*key, *slot);
        let mut left: Vec<Term> = node.of[node.of.len() - slots.len()..].to_vec();
        left.extend(&node.of[..node.of.len() - 2 * slots.len()]);
        let mut seen: HashSet<Term> = left.iter().copied().collect();
        while let Some(t) = left.pop() {
            let node = self.node(t);
            self.spend(1 + node.of.len());
            if self.is_spent() {
                return false;
            }
            let reads = match &node.what {
                What::Load(_) => self.free(node.of[0]).contains(&own),
                What::Reduced(..) | What::Event(_) | What::Call(..) => self.free(t).contains(&own),
                _ => false,
            };
            if reads {
                return false;
            }
            left.extend(node.of.iter().filter(|t| self.free(**t).contains(&own) && seen.insert(**t)));
        }
        true
    }

    /// The same iterations, where a slot was something else before.
    pub fn starting(&mut self, t: Term, before: Term) -> Term {
        let node = self.node(t).clone();
        let What::Around { slots, slot, .. } = &node.what else { return t };
        let mut of = node.of.clone();
        let first = of.len() - 2 * slots.len();
        for (n, s) in slots.iter().enumerate() {
            if s == slot {
                of[first + n] = before;
            }
        }
        self.make(node.what.clone(), of)
    }

    /// One or the other.
    pub fn choice(&mut self, cond: Term, then: Term, other: Term) -> Term {
        if then == other {
            return then;
        }
        if let Some(turned) = self.turned(cond) {
            return self.choice(turned, other, then);
        }
        // A loop that does not run changes nothing, and an array that it would overwrite has no elements.
        let gone = |t: Term| matches!(self.node(t).what, What::Overwritten(_));
        if self.before(then).is_some_and(|t| t == other || gone(t)) && self.runs_where(then, cond) {
            return then;
        }
        self.make(What::Choice, vec![cond, then, other])
    }

    /// The operand, if it is a negation.
    pub fn turned(&mut self, cond: Term) -> Option<Term> {
        let ExprKind::Unary(lathe_ir::UnOp::Not, of) = self.stands(cond)?.kind() else { return None };
        let of = of.clone();
        Some(self.value(of))
    }

    /// Whether it is a loop that has iterations where a condition holds, and no others.
    fn runs_where(&self, t: Term, cond: Term) -> bool {
        let node = self.node(t);
        let What::Around { kind: Kind::Loop { .. }, .. } = &node.what else { return false };
        self.says(cond, node.of[0], node.of[1])
    }

    /// Whether a condition is that one value is less than the other.
    pub fn says(&self, cond: Term, less: Term, than: Term) -> bool {
        match (self.stands(cond), self.stands(less), self.stands(than)) {
            (Some(c), Some(a), Some(b)) => *c == build::lt(a.clone(), b.clone()),
            _ => false,
        }
    }

    /// A value if it is one number.
    pub fn int(&self, t: Term) -> Option<i64> {
        self.stands(t)?.as_int()
    }
}

fn placeholder(t: Term, ty: &Type) -> Expr {
    Expr::new(ExprKind::Var(VarId(FIRST + t.0)), ty.clone())
}

fn term_of(v: VarId) -> Option<Term> {
    v.0.checked_sub(FIRST).map(Term)
}

fn size(e: &Expr) -> usize {
    let mut n = 0;
    walk_expr(e, &mut |_| n += 1);
    n
}
