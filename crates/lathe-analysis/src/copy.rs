//! One iteration of a leaf, as unknowns of a system.

use crate::env::Item;
use crate::leaves::{Leaf, Level, Touch};
use crate::system::{Conj, Lin, eq, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::build::var;
use lathe_ir::visit::{loads_of, substitute, vars_of};
use lathe_ir::{Expr, Stmt, StmtKind, VarId};
use std::collections::{HashMap, HashSet};

/// The unknowns of one iteration of a leaf (or of a condition around it).
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub scope: Scope,
    /// Counters of the `while` loops, outermost first.
    whiles: Vec<Lin>,
}

impl Copy {
    /// A fresh copy of the context of an access of a leaf: the domain of the iteration. Values of names that no subscript,
    /// bound or condition speaks of are left out: a chain of them, as in a generator of random numbers, would be most of it.
    pub fn new(b: &mut Builder, outer: &Scope, leaf: &Leaf, touch: &Place) -> Copy {
        let mut copy = Copy { scope: outer.clone(), whiles: Vec::new() };
        for item in leaf.items.iter().take(touch.items) {
            if let Item::Let(binder, value) = item
                && binder.ty.is_int()
            {
                copy.scope.name(binder.id, value);
            } else if let Some(counter) = b.item(&mut copy.scope, item) {
                copy.whiles.push(Lin::atom(counter));
            }
        }
        if touch.depth >= leaf.path.len() {
            for d in leaf.dims {
                b.range(&mut copy.scope, d.binder.id, &d.lo, &d.hi, 1);
            }
        }
        copy
    }

    /// The position in a loop.
    pub fn level(&self, level: &Level) -> Option<Lin> {
        match level {
            Level::Loop(b, _) => self.scope.col(b.id).map(Lin::atom),
            Level::While(n) => self.whiles.get(*n).cloned(),
        }
    }

    /// The instance vector, with the counters of `while` loops at its end. Components over variables
    /// that are not bound at the touch (it is further out) are unknown.
    pub fn instance(&mut self, b: &mut Builder, leaf: &Leaf) -> Vec<Option<Lin>> {
        let mut out = Vec::with_capacity(leaf.instance.len() + self.whiles.len());
        for e in &leaf.instance {
            let bound = lathe_ir::visit::vars_of(e).iter().all(|v| self.scope.binds(*v));
            out.push(bound.then(|| b.value(&mut self.scope, e)));
        }
        for n in 0..leaf.whiles() {
            out.push(self.whiles.get(n).cloned());
        }
        out
    }
}

/// Whether a statement of the new tree is one of the old tree under the same loops, conditions and
/// bindings, in whatever order: an execution is then the same in both for the same values of all
/// variables, and needs no unknowns of its own.
pub(crate) fn same_iteration(old: &Leaf, new: &Leaf) -> bool {
    if old.stmt != new.stmt || old.whiles() + new.whiles() > 0 {
        return false;
    }
    let stands_in = |x: &Item, list: &[Item]| {
        list.iter().any(|y| match (x, y) {
            (
                Item::Loop { binder: b, lo: l, hi: h, step: s, .. },
                Item::Loop { binder: c, lo: m, hi: i, step: t, .. },
            ) => b == c && l == m && h == i && s == t,
            (Item::Cond(c, v), Item::Cond(d, w)) => c == d && v == w,
            (Item::Let(b, v), Item::Let(c, w)) => b == c && v == w,
            (Item::Opaque(b), Item::Opaque(c)) => b == c,
            _ => false,
        })
    };
    let matters = |i: &&Item| !matches!(i, Item::Alloc(_) | Item::Fact(..) | Item::Checked(_));
    new.items.iter().filter(matters).all(|i| stands_in(i, &old.items))
        && old.items.iter().filter(matters).all(|i| stands_in(i, &new.items))
}

/// Whether a statement of the new tree runs the instances of one of the old tree because its loops, conditions and bindings
/// are those of the old tree in another order and under other names: then each execution of the one is one of the other.
/// Nothing that depends on data is among them.
pub(crate) fn same_up_to_names(old: &Leaf, new: &Leaf) -> bool {
    if old.whiles() + new.whiles() > 0 || old.instance.len() != new.instance.len() {
        return false;
    }
    let matters = |i: &&Item| !matches!(i, Item::Alloc(_) | Item::Fact(..) | Item::Checked(_));
    let mut left: Vec<&Item> = old.items.iter().filter(matters).collect();
    let all: Vec<&Item> = new.items.iter().filter(matters).collect();
    if left.len() != all.len() {
        return false;
    }
    let mut names: HashMap<VarId, Expr> = HashMap::new();
    // An expression of the new tree in the old one's variables.
    let renamed = |e: &Expr, names: &HashMap<VarId, Expr>| {
        if names.is_empty() { e.clone() } else { substitute(e, names) }
    };
    let fixed = |e: &Expr| loads_of(e).is_empty();
    for item in all {
        let found = match item {
            Item::Loop { binder, lo, hi, step, .. } => {
                let (lo, hi) = (renamed(lo, &names), renamed(hi, &names));
                let is = |x: &&Item| match x {
                    Item::Loop { binder: b, lo: l, hi: h, step: s, .. } => {
                        b.name == binder.name && *s == *step && **l == lo && **h == hi
                    }
                    _ => false,
                };
                // Of several that could be meant, which one it is would be a guess.
                if !fixed(&lo) || !fixed(&hi) || left.iter().filter(|x| is(x)).count() != 1 {
                    return false;
                }
                left.iter().position(is)
            }
            Item::Cond(c, v) => {
                let c = renamed(c, &names);
                left.iter().position(|x| matches!(x, Item::Cond(d, w) if fixed(d) && **d == c && w == v))
            }
            Item::Let(binder, value) => {
                let value = renamed(value, &names);
                let is = |x: &&Item| matches!(x, Item::Let(b, w) if fixed(w) && b.name == binder.name && **w == value);
                left.iter().position(is)
            }
            _ => None,
        };
        let Some(at) = found else { return false };
        if let (
            Item::Loop { binder: now, .. } | Item::Let(now, _),
            Item::Loop { binder: was, .. } | Item::Let(was, _),
        ) = (item, left.remove(at))
            && now.id != was.id
        {
            names.insert(now.id, var(was));
        }
    }
    old.instance.iter().zip(&new.instance).all(|(x, y)| *x == renamed(y, &names))
}

/// Where a leaf touches memory: at itself, or at a condition or bound around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub depth: usize,
    pub items: usize,
}

impl Place {
    pub fn of(touch: &Touch) -> Place {
        Place { depth: touch.depth, items: touch.items }
    }

    pub fn own(leaf: &Leaf) -> Place {
        Place { depth: leaf.path.len(), items: leaf.items.len() }
    }
}

impl Leaf<'_> {
    /// The conditions, bounds and values that are evaluated at a place around the leaf. The condition of a `while` stands in
    /// its body.
    fn evaluated_at(&self, place: &Place) -> Vec<&Expr> {
        let begun = place.depth.checked_sub(1).and_then(|k| self.path.get(k)).map(|s| s.stmt);
        let begun = begun.filter(|s| matches!(s.kind(), StmtKind::While { .. }));
        let here = self.path.get(place.depth).map(|s| s.stmt);
        begun.into_iter().chain(here).flat_map(Stmt::evaluated).collect()
    }
}

/// Whether what is evaluated at a place around a leaf of the old tree is what is evaluated at one around the same leaf of the
/// new tree: the same expressions, whose variables have one meaning for both.
pub(crate) fn same_header((old, was): (&Leaf, &Place), (new, now): (&Leaf, &Place)) -> bool {
    let (before, after) = (old.evaluated_at(was), new.evaluated_at(now));
    let mut meant = HashSet::new();
    before == after
        && old.instance == new.instance
        && (same_iteration(old, new) || before.iter().all(|e| same_meaning(e, old, new, &mut meant)))
}

/// Whether the variables of an expression have the same values in executions of the same instance of two leaves: they come
/// from outside, are components of the instance, or are names for values of which that holds.
fn same_meaning(e: &Expr, old: &Leaf, new: &Leaf, meant: &mut HashSet<VarId>) -> bool {
    vars_of(e).into_iter().all(|v| {
        let bound = |leaf: &Leaf| leaf.items.iter().any(|i| binds(i) == Some(v));
        let named = |leaf: &Leaf| {
            leaf.items.iter().find_map(|i| match i {
                Item::Let(b, value) if b.id == v => Some((*value).clone()),
                _ => None,
            })
        };
        let component = old.instance.iter().any(|c| c.as_var() == Some(v));
        if !meant.insert(v) || component || !bound(old) && !bound(new) {
            return true;
        }
        match (named(old), named(new)) {
            (Some(x), Some(y)) => x == y && same_meaning(&x, old, new, meant),
            _ => false,
        }
    })
}

/// The variable that something around a leaf binds.
fn binds(item: &Item) -> Option<VarId> {
    match item {
        Item::Loop { binder, .. } | Item::Let(binder, _) | Item::Opaque(binder) => Some(binder.id),
        Item::Size(b) | Item::Scalar(b) => Some(b.id),
        Item::Cond(..) | Item::While(_) | Item::Alloc(_) | Item::Fact(..) | Item::Checked(_) => None,
    }
}

/// `a` and `b` agree in the given loops.
pub(crate) fn equal(levels: &[Level], a: &Copy, b: &Copy) -> Conj {
    levels.iter().filter_map(|l| eq(&a.level(l)?, &b.level(l)?)).collect()
}

/// `a` and `b` agree in the loops before `at`, where `a` comes first.
pub(crate) fn earlier(levels: &[Level], at: usize, a: &Copy, b: &Copy) -> Conj {
    let mut out = equal(levels.get(..at).unwrap_or(levels), a, b);
    out.extend(levels.get(at).and_then(|l| gt(&b.level(l)?, &a.level(l)?)));
    out
}
