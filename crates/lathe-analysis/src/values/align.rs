//! Two trees, walked together: `with` has arrays that `plain` has not.

use crate::env::{Env, Item};
use crate::solve::{Answer, solve};
use crate::system::{Lin, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{Memo, loads_of, vars_of};
use lathe_ir::{Access, BufId, Expr, ExprKind, Loop, Reduce, Stmt, VarId, View, visit};
use lathe_poly::simplify::simplify_expr;
use lathe_poly::{Linear, Ranges};
use std::collections::HashSet;

/// A load from a table, and what stands in its place in the other tree.
pub(crate) struct Use<'a> {
    /// What surrounds it, within the place.
    pub items: Vec<Item<'a>>,
    pub table: BufId,
    pub at: Vec<Expr>,
    pub value: Value<'a>,
}

/// What one tree computes where the other loads.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Is(&'a Expr),
    /// Value number `n` of what the loops in a statement combine, which hold one reduction and nothing else.
    Folded(&'a Stmt, usize),
}

/// The loops of a statement that hold one reduction and nothing else, outermost first, and the reduction.
pub(crate) fn folded(s: &Stmt) -> Option<(Vec<&Loop>, &Reduce)> {
    if let Some(l) = s.as_loop() {
        let (mut loops, r) = folded(&l.body)?;
        loops.insert(0, l);
        return Some((loops, r));
    }
    match s.as_seq() {
        Some([one]) => folded(one),
        _ => Some((Vec::new(), s.as_reduce()?)),
    }
}

/// A sequence in which a table is allocated: its statements, and the uses that each of them holds.
pub(crate) struct Block<'a> {
    /// What surrounds the sequence, within the place.
    pub items: Vec<Item<'a>>,
    pub tables: Vec<&'a Stmt>,
    pub parts: Vec<Part<'a>>,
}

pub(crate) struct Part<'a> {
    pub stmt: &'a Stmt,
    /// It does nothing but fill tables, and stands in one tree only.
    pub fills: bool,
    pub uses: std::ops::Range<usize>,
}

pub(crate) struct Aligner<'e, 'a> {
    pub env: &'e Env<'a>,
    pub written: &'e HashSet<BufId>,
    /// Arrays whose allocations are looked through, in either tree.
    pub through: &'e HashSet<BufId>,
    /// Those of them that `plain` has no accesses to.
    pub tables: &'e HashSet<BufId>,
    pub uses: Vec<Use<'a>>,
    pub blocks: Vec<Block<'a>>,
    /// How many statements were compared.
    pub compared: usize,
}

impl<'a> Aligner<'_, 'a> {
    /// The trees say the same but for what fills tables and reads them, which is collected.
    pub fn stmts(
        &mut self,
        items: &mut Vec<Item<'a>>,
        with: &'a Stmt,
        plain: &'a Stmt,
    ) -> Result<(), String> {
        if with.ptr_eq(plain) || (self.through.is_empty() && with == plain) {
            return Ok(());
        }
        let (mut parts, mut others) = (Vec::new(), Vec::new());
        let (mut allocated, mut there) = (Vec::new(), Vec::new());
        flat(with, &mut parts, &mut allocated);
        flat(plain, &mut others, &mut there);
        let is_through = |s: &&Stmt| s.allocated().is_some_and(|b| self.through.contains(&b.id));
        let (allocated, both): (Vec<_>, Vec<_>) = allocated.into_iter().partition(is_through);
        there.retain(|s| !is_through(s));
        let has = |all: &[&Stmt], s: &Stmt| all.iter().any(|o| o.allocated() == s.allocated());
        if both.len() != there.len() || !both.iter().all(|s| has(&there, s)) {
            return Err("other arrays are allocated".into());
        }
        let around = items.len();
        let mut block = Block { items: items.clone(), tables: allocated, parts: Vec::new() };
        let mut others = others.into_iter();
        for stmt in parts {
            let from = self.uses.len();
            let fills = self.fills(stmt);
            if !fills {
                let other = others.next().ok_or("a statement was added")?;
                self.one(items, stmt, other)?;
            }
            block.parts.push(Part { stmt, fills, uses: from..self.uses.len() });
            items.extend(Item::after(stmt));
        }
        items.truncate(around);
        if others.next().is_some() {
            return Err("a statement was left out".into());
        }
        if !block.tables.is_empty() || block.parts.iter().any(|p| p.fills) {
            self.blocks.push(block);
        }
        Ok(())
    }

    fn fills(&self, s: &Stmt) -> bool {
        if self.tables.is_empty() {
            return false;
        }
        let (mut plain, mut own, mut some) = (true, HashSet::new(), false);
        visit::walk(s, &mut |s, _| {
            own.extend(s.allocated().map(|b| b.id));
            plain &= s.own_effects().without(Effects::ALLOCATES).is_none() && s.as_compute().is_none();
            for v in s.written() {
                let table = v.buffer().is_some_and(|b| self.tables.contains(&b));
                some |= table;
                plain &= table || v.buffer().is_some_and(|b| own.contains(&b));
            }
            plain
        });
        plain && some
    }

    fn one(&mut self, items: &mut Vec<Item<'a>>, with: &'a Stmt, plain: &'a Stmt) -> Result<(), String> {
        if with.ptr_eq(plain) {
            return Ok(());
        }
        self.compared += 1;
        if self.fold(items, with, plain) {
            return Ok(());
        }
        let changed = || match with.label().or(plain.label()) {
            Some(l) => format!("`{l}` was changed"),
            None => "a statement was changed".to_string(),
        };
        let (children, others) = (with.children(), plain.children());
        if children.len() != others.len() || with.exprs().len() != plain.exprs().len() {
            return Err(changed());
        }
        // The same statement, around what it holds.
        let cast = plain.exprs().into_iter().cloned().collect();
        let cast = with.with_exprs(cast).with_children(plain.children().cloned().collect());
        if cast != *plain {
            return Err(changed());
        }
        for (a, b) in with.evaluated().into_iter().zip(plain.evaluated()) {
            if !self.same(items, a, b) {
                return Err(changed());
            }
        }
        for (n, (a, b)) in children.zip(others).enumerate() {
            let around = items.len();
            items.extend(Item::entering(plain, n));
            self.stmts(items, a, b)?;
            items.truncate(around);
        }
        Ok(())
    }

    /// Whether a reduction takes from tables what the loops of the other tree combine.
    fn fold(&mut self, items: &mut Vec<Item<'a>>, with: &'a Stmt, plain: &'a Stmt) -> bool {
        let (Some(new), Some((loops, old))) = (with.as_reduce(), folded(plain)) else { return false };
        let own: HashSet<VarId> = loops.iter().map(|l| l.binder.id).collect();
        if loops.is_empty()
            || new.op != old.op
            || new.label != old.label
            || new.values.len() != old.values.len()
        {
            return false;
        }
        let targets = new.targets.len() == old.targets.len()
            && new.targets.iter().zip(&old.targets).all(|(a, b)| {
                let fixed = b.indices.iter().all(|e| vars_of(e).is_disjoint(&own));
                fixed
                    && a.view == b.view
                    && a.indices.len() == b.indices.len()
                    && !matches!(a.view, View::Slice { .. })
            });
        if !targets || new.licence != old.licence {
            return false;
        }
        for (a, b) in new.targets.iter().zip(&old.targets) {
            if !a.indices.iter().zip(&b.indices).all(|(x, y)| self.same(items, x, y)) {
                return false;
            }
        }
        for (n, v) in new.values.iter().enumerate() {
            let ExprKind::Load(l) = v.kind() else { return false };
            if !self.is_table(l) || l.indices.iter().any(|e| self.reads_tables(e)) {
                return false;
            }
            let (table, at) = (l.view.buffer().unwrap_or(BufId(0)), l.indices.clone());
            self.uses.push(Use { items: items.clone(), table, at, value: Value::Folded(plain, n) });
        }
        true
    }

    /// Whether expressions have the same value wherever they are evaluated, if loads from tables have that of what stands
    /// in their place.
    pub fn same(&mut self, items: &mut Vec<Item<'a>>, a: &Expr, b: &'a Expr) -> bool {
        self.same_in(items, a, b, &mut Memo::default())
    }

    /// `agreed` has, for parts of `a`, the parts of `b` that were found to have their values.
    fn same_in(
        &mut self,
        items: &mut Vec<Item<'a>>,
        a: &Expr,
        b: &'a Expr,
        agreed: &mut Memo<Vec<Expr>>,
    ) -> bool {
        let known = agreed.get(a).cloned().unwrap_or_default();
        if known.contains(b) {
            return true;
        }
        agreed.visit();
        let same = !agreed.is_long() && self.same_node(items, a, b, agreed);
        if same {
            agreed.insert(a, known.into_iter().chain([b.clone()]).collect());
        }
        same
    }

    fn same_node(
        &mut self,
        items: &mut Vec<Item<'a>>,
        a: &Expr,
        b: &'a Expr,
        agreed: &mut Memo<Vec<Expr>>,
    ) -> bool {
        if let ExprKind::Load(l) = a.kind()
            && self.is_table(l)
        {
            let plain = !l.indices.iter().any(|e| self.reads_tables(e));
            let at = l.indices.clone();
            self.uses.push(Use {
                items: items.clone(),
                table: l.view.buffer().unwrap_or(BufId(0)),
                at,
                value: Value::Is(b),
            });
            return plain;
        }
        let reads = self.reads_tables(a);
        if !reads
            && (a == b
                || a.ty().is_index() && b.ty().is_index() && equal(self.env, self.written, items, a, b))
        {
            return true;
        }
        let (old, new) = (a.children(), b.children());
        if old.len() != new.len() || old.is_empty() {
            return false;
        }
        if a.with_children(new.iter().map(|e| (*e).clone()).collect()) != *b {
            return false;
        }
        let condition = if let ExprKind::Select(c, ..) = b.kind() { Some(c) } else { None };
        for (n, (x, y)) in old.into_iter().zip(new).enumerate() {
            let around = items.len();
            items.extend(condition.filter(|_| n > 0).map(|c| Item::Cond(c, n == 1)));
            let same = match condition.filter(|_| n > 0) {
                Some(_) => agreed.under(|agreed| self.same_in(items, x, y, agreed)),
                None => self.same_in(items, x, y, agreed),
            };
            items.truncate(around);
            if !same {
                return false;
            }
        }
        true
    }

    fn is_table(&self, a: &Access) -> bool {
        matches!(&a.view, View::Buffer(b) if self.tables.contains(b))
    }

    fn reads_tables(&self, e: &Expr) -> bool {
        !self.tables.is_empty()
            && loads_of(e).iter().any(|a| a.view.buffer().is_none_or(|b| self.tables.contains(&b)))
    }
}

/// The statements of a sequence, and the allocations that live around some of them.
pub(super) fn flat<'a>(s: &'a Stmt, out: &mut Vec<&'a Stmt>, allocated: &mut Vec<&'a Stmt>) {
    match (s.as_seq(), s.as_alloc()) {
        (Some(all), _) => all.iter().for_each(|s| flat(s, out, allocated)),
        (_, Some((_, body))) => {
            allocated.push(s);
            flat(body, out, allocated);
        }
        _ => out.push(s),
    }
}

/// Whether two index expressions are equal wherever they are evaluated within the surroundings.
pub(crate) fn equal(env: &Env, written: &HashSet<BufId>, items: &[Item], a: &Expr, b: &Expr) -> bool {
    let difference = |builder: &mut Builder, scope: &mut Scope| {
        let (x, y) = (builder.value(scope, a), builder.value(scope, b));
        x.minus(&y)
    };
    // Most are equal whatever surrounds them.
    let mut builder = Builder::new(written);
    if difference(&mut builder, &mut Scope::default()).is_some_and(|d| d == Lin::default()) {
        return true;
    }
    if shown(env, items, a, b) {
        return true;
    }
    let mut builder = Builder::new(written);
    let mut scope = builder.surroundings(env);
    for item in items {
        builder.item(&mut scope, item);
    }
    let Some(d) = difference(&mut builder, &mut scope) else { return false };
    [gt(&d, &Lin::default()), gt(&Lin::default(), &d)].into_iter().all(|apart| {
        let Some(apart) = apart else { return false };
        let mut system = builder.system.clone();
        system.cons.push(apart);
        solve(&system) == Answer::Empty
    })
}

/// The same as far as ranges show it, which is cheap. What memory holds is not followed.
pub(super) fn shown(env: &Env, items: &[Item], a: &Expr, b: &Expr) -> bool {
    if [a, b].into_iter().any(|e| !e.ty().is_index() || !loads_of(e).is_empty()) {
        return false;
    }
    same_in_cases(&entered(env, items), a, b, MOST_SELECTIONS)
}

/// The ranges of what is bound in the surroundings.
pub(crate) fn entered(env: &Env, items: &[Item]) -> Ranges {
    let mut ranges = Ranges::of_function(env.func);
    env.items.iter().chain(items).for_each(|item| enter(&mut ranges, item));
    ranges
}

/// Selections of two values that are gone through before they are not shown to be equal.
const MOST_SELECTIONS: usize = 4;

/// What surrounds a place, as far as ranges take it.
fn enter(ranges: &mut Ranges, item: &Item) {
    match item {
        Item::Loop { binder, lo, hi, .. } => ranges.enter_loop(binder.id, lo, hi),
        Item::Cond(cond, holds) => {
            ranges.learn(cond, *holds);
        }
        Item::Let(b, value) => ranges.enter_let(b.id, value),
        Item::Alloc(b) => ranges.enter_alloc(b),
        Item::Size(_)
        | Item::Scalar(_)
        | Item::Opaque(_)
        | Item::While(_)
        | Item::Fact(..)
        | Item::Checked(_) => {}
    }
}

/// Whether two values are the same, whichever of their selections are made.
fn same_in_cases(ranges: &Ranges, a: &Expr, b: &Expr, left: usize) -> bool {
    let (a, b) = (simplify_expr(a, ranges), simplify_expr(b, ranges));
    if a == b || Linear::of(&a) == Linear::of(&b) {
        return true;
    }
    let mut first = None;
    for e in [&a, &b] {
        visit::walk_expr(e, &mut |e| {
            if first.is_none() && matches!(e.kind(), ExprKind::Select(..)) {
                first = Some(e.clone());
            }
        });
    }
    let Some(first) = first else { return ranges.le(&a, &b) && ranges.le(&b, &a) };
    let ExprKind::Select(cond, yes, no) = first.kind() else { return false };
    left > 0
        && [(yes, true), (no, false)].into_iter().all(|(value, holds)| {
            let mut ranges = ranges.clone();
            let chosen = |e: &Expr| visit::map_expr(e, &mut |e| if e == first { value.clone() } else { e });
            !ranges.learn(cond, holds) || same_in_cases(&ranges, &chosen(&a), &chosen(&b), left - 1)
        })
}
