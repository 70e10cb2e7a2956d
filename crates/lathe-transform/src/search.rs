//! Loops that look for the largest or smallest element: `for i { if e > x { x = e; p = f(i) } }`, and whether a reduction that
//! finds the first such element, followed by one comparison, does the same.

use crate::failing::may_fail;
use lathe_analysis::Change;
use lathe_ir::visit::{self, loads_of, substitute, vars_of};
use lathe_ir::{
    Access, BinOp, BufId, Executor, Expr, ExprKind, Function, Loop, ReduceOp, Stmt, Store, Type, VarId, View,
    build, reduce,
};
use std::collections::HashMap;

/// Such a loop.
pub struct Search<'s> {
    /// The store of the element that was found, and those beside it, such as of its position.
    pub best: &'s Store,
    pub others: Vec<&'s Store>,
    /// All of them in their order.
    pub stores: Vec<(&'s Stmt, &'s Store)>,
    /// The element of an iteration.
    pub value: Expr,
    /// Whether it is the largest that is looked for.
    pub larger: bool,
    names: HashMap<VarId, Expr>,
}

impl<'s> Search<'s> {
    /// None, unless each iteration compares an element of its own with the best one so far, takes it where it is strictly
    /// better, and changes nothing that the loop reads elsewhere.
    pub fn of(func: &Function, l: &'s Loop) -> Option<Search<'s>> {
        let (mut here, mut names) = (&l.body, HashMap::new());
        while let Some((binder, value, body)) = here.as_let() {
            names.insert(binder.id, substitute(value, &names));
            here = body;
        }
        let (cond, then, None) = here.as_if()? else { return None };
        let all = then.as_seq().unwrap_or(std::slice::from_ref(then));
        let stores = all.iter().map(|s| Some((s, s.as_store()?))).collect::<Option<Vec<_>>>()?;
        let ExprKind::Binary(op, a, b) = cond.kind() else { return None };
        let more = match op {
            BinOp::Gt => true,
            BinOp::Lt => false,
            _ => return None,
        };
        let fits = |st: &Store| {
            let x = build::load(st.target.clone());
            match () {
                () if *a == st.value && is(b, &st.target) && *a != x => Some(more),
                () if *b == st.value && is(a, &st.target) && *b != x => Some(!more),
                () => None,
            }
        };
        let (best, larger) = stores.iter().find_map(|(_, st)| Some((*st, fits(st)?)))?;
        let others: Vec<&Store> = stores.iter().map(|s| s.1).filter(|st| !std::ptr::eq(*st, best)).collect();
        let value = substitute(&best.value, &names);
        let search = Search { best, others, stores, value, larger, names };
        search.stands_alone(func, l).then_some(search)
    }

    fn stands_alone(&self, func: &Function, l: &Loop) -> bool {
        let stores = || self.stores.iter().map(|s| s.1);
        let written: Option<Vec<BufId>> = stores().map(|st| st.target.view.buffer()).collect();
        let Some(written) = written else { return false };
        let aliased =
            |b: BufId| func.params.iter().any(|p| p.alias.is_some() && p.array().is_some_and(|a| a.id == b));
        let own = |a: &Access| a.view.buffer().is_none_or(|b| written.contains(&b) || aliased(b));
        let still = |e: &Expr| !vars_of(e).contains(&l.binder.id) && !self.named(e) && loads_of(e).is_empty();
        let fixed = |st: &Store| {
            let plain = !st.nontemporal && matches!(st.target.elem, Type::Scalar(_));
            plain && st.target.indices.iter().all(still)
        };
        // What else is stored follows from where the element is.
        let follows = |st: &&Store| {
            let value = self.written(&st.value);
            let apart = st.target.view != self.best.target.view;
            apart && loads_of(&value).is_empty() && !may_fail(&value)
        };
        let number = self.value.ty().is_float() || self.value.ty().is_int();
        number
            && !written.iter().any(|b| aliased(*b))
            && stores().all(fixed)
            && self.others.iter().all(follows)
            && !loads_of(&self.value).iter().any(own)
            && !may_fail(&self.value)
    }

    fn named(&self, e: &Expr) -> bool {
        vars_of(e).iter().any(|v| self.names.contains_key(v))
    }

    /// An expression with what names stand for.
    pub fn written(&self, e: &Expr) -> Expr {
        if self.names.is_empty() { e.clone() } else { substitute(e, &self.names) }
    }

    /// `>` or `<`.
    pub fn op(&self) -> BinOp {
        if self.larger { BinOp::Gt } else { BinOp::Lt }
    }
}

fn is(e: &Expr, x: &Access) -> bool {
    matches!(e.kind(), ExprKind::Load(a) if a.view == x.view && a.indices == x.indices)
}

/// Whether a tree does what a loop that looks for an element does: local cells begin as nothing, take the first of the best
/// elements with its position in a reduction over the same iterations, and one comparison decides about the same stores.
/// A NaN is never taken by the loop, and neither is an infinite element at the end of the order; both count as nothing.
pub fn same_search(c: &Change, old: &Stmt, new: &Stmt) -> bool {
    let Some(l) = old.as_loop().filter(|l| l.exec == Executor::Serial) else { return false };
    let Some(search) = Search::of(c.before, l) else { return false };
    same(c, l, &search, new).is_some_and(|same| same)
}

fn same(c: &Change, l: &Loop, search: &Search, new: &Stmt) -> Option<bool> {
    let (value, inner) = new.as_alloc()?;
    let (place, inner) = inner.as_alloc()?;
    let [first, second, nest, last] = inner.as_seq()? else { return None };
    let [first, second] = [first.as_store()?, second.as_store()?];
    let new_loop = nest.as_loop()?;
    let r = new_loop.body.as_reduce()?;
    let (cond, then, None) = last.as_if()? else { return None };

    let elem = &search.best.target.elem;
    let op = if search.larger { ReduceOp::ArgMax } else { ReduceOp::ArgMin };
    let start = reduce::identity(c.module, &op, &[elem.clone(), Type::INDEX])?;
    let cell = |a: &Access, id: BufId| a.view == View::Buffer(id) && a.indices.is_empty();
    let reads = |e: &Expr, id: BufId| matches!(e.kind(), ExprKind::Load(a) if cell(a, id));

    // The cells are new, and are of the types that hold what they are given.
    let known = |id: BufId| {
        let mut hit = c.before.params.iter().any(|p| p.array().is_some_and(|a| a.id == id));
        visit::walk(&c.before.body, &mut |s, _| {
            hit |= s.allocated().is_some_and(|b| b.id == id);
            !hit
        });
        hit
    };
    let cells = value.id != place.id
        && !known(value.id)
        && !known(place.id)
        && value.elem == *elem
        && place.elem == Type::INDEX
        && value.extents.is_empty()
        && place.extents.is_empty();
    let begins = cell(&first.target, value.id)
        && first.value == start[0]
        && cell(&second.target, place.id)
        && second.value == start[1];

    let same_range = Loop { body: l.body.clone(), ..new_loop.clone() } == *l;
    let ([to_value, to_place], [e, at]) = (&r.targets[..], &r.values[..]) else { return None };
    let counted = match elem.is_float() {
        // Left out where the comparison with nothing does not hold.
        true => matches!(e.kind(), ExprKind::Select(cond, yes, no)
            if *yes == search.value && *no == start[0]
                && *cond == build::binary(search.op(), search.value.clone(), start[0].clone())),
        false => *e == search.value,
    };
    let reduces = r.op == op
        && !r.contract
        && cell(to_value, value.id)
        && cell(to_place, place.id)
        && counted
        && at.as_var() == Some(l.binder.id);

    let ExprKind::Binary(compare, a, b) = cond.kind() else { return None };
    let compares = *compare == search.op() && reads(a, value.id) && is(b, &search.best.target);
    let all = then.as_seq().unwrap_or(std::slice::from_ref(then));
    let position = HashMap::from([(l.binder.id, build::load(to_place.clone()))]);
    let stored = |(old, new): (&(&Stmt, &Store), &Stmt)| {
        let Some(st) = new.as_store() else { return false };
        let to = st.label == old.1.label && st.target == old.1.target && !st.nontemporal;
        let what = match std::ptr::eq(old.1, search.best) {
            true => reads(&st.value, value.id),
            false => st.value == substitute(&search.written(&old.1.value), &position),
        };
        to && what
    };
    let stores = all.len() == search.stores.len() && search.stores.iter().zip(all).all(stored);
    Some(cells && begins && same_range && reduces && compares && stores)
}
