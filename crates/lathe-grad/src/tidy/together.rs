//! A loop whose iterations do not need each other, and the loop of its reverse sweep behind it, as one loop (for parallel
//! loops: Hascoët, Fidanova and Held, "Adjoining independent computations", 2001). What an iteration of the reverse sweep computes again is what
//! that of the forward sweep has just computed, so it is taken from there. Where nothing is, the loops stay apart.

use super::{Line, joined, lines};
use crate::arrays::{touched, written};
use lathe_ir::stmt::{AccessMode, BinderRole, PartMap};
use lathe_ir::visit::{loads_of, map_accesses, map_expr, refresh, substitute_stmt, vars_of, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, ExprKind, Label, Loop, Stmt, StmtKind, VarId, View, build,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A block in which such loops are one.
pub fn together(s: &Stmt, next: &mut u32) -> Stmt {
    let mut all = Vec::new();
    lines(s, &mut all);
    let mut n = 0;
    while n < all.len() {
        match (0..n).rev().find_map(|m| Some((m, one_loop(&all, m, n, next)?))) {
            Some((m, one)) => {
                all[n] = Line::Do(one);
                all.remove(m);
            }
            None => n += 1,
        }
    }
    for line in &mut all {
        if let Line::Do(s) = line
            && s.as_loop().is_none()
            && s.children().len() > 0
        {
            *s = s.with_children(s.children().map(|c| together(c, next)).collect());
        }
    }
    joined(all)
}

/// Two loops as one, at the place of the later one, if that saves something.
fn one_loop(all: &[Line], m: usize, n: usize, next: &mut u32) -> Option<Stmt> {
    let (Line::Do(first), Line::Do(second)) = (&all[m], &all[n]) else { return None };
    let (a, b) = (first.as_loop()?, second.as_loop()?);
    let same = (&a.lo, &a.hi, a.step, &a.exec) == (&b.lo, &b.hi, b.step, &b.exec);
    let simple =
        |l: &Loop| l.exec == Executor::Serial && [&l.lo, &l.hi].iter().all(|e| loads_of(e).is_empty());
    if !same || !simple(a) || !may_meet(all, m, n) {
        return None;
    }
    // Both may have the same numbers.
    let before = refresh(&a.body, next);
    let before = substitute_stmt(&before, &HashMap::from([(a.binder.id, build::var(&b.binder))]));
    let body = Stmt::seq([before, b.body.clone()]);
    let mut saved = Saved { root: body.clone(), instead: HashMap::new(), statements: 0 };
    let body = saved.block(&body, &HashMap::new(), next);
    if saved.statements == 0 {
        return None;
    }
    let body = map_accesses(&body, &mut |a| {
        let id = saved.instead.get(&a.view.buffer()?)?;
        Some(Access { view: View::Buffer(*id), ..a.clone() })
    });
    let body = joined(collected(&body));
    Some(second.with_kind(StmtKind::Loop(Loop { body, ..b.clone() })))
}

fn collected(s: &Stmt) -> Vec<Line> {
    let mut all = Vec::new();
    lines(s, &mut all);
    all
}

/// Whether a line may go down to a later one and do what it does just before that, iteration by iteration: neither
/// writes what the other touches, and nothing between does.
fn may_meet(all: &[Line], m: usize, n: usize) -> bool {
    let (own, writes) = (all[m].touched(), all[m].written());
    let bound: HashSet<VarId> = all[m + 1..n].iter().flat_map(binds).collect();
    let Line::Do(s) = &all[m] else { return false };
    let free = bound.is_empty() || !mentions(s, &bound);
    free && all[m + 1..=n].iter().all(|l| writes.is_disjoint(&l.touched()) && l.written().is_disjoint(&own))
}

fn binds(l: &Line) -> Vec<VarId> {
    match l {
        Line::Open(s) => s.binders().into_iter().map(|b| b.0.id).collect(),
        Line::Do(_) => Vec::new(),
    }
}

fn mentions(s: &Stmt, vars: &HashSet<VarId>) -> bool {
    let mut found = false;
    walk(s, &mut |s, _| {
        found |= s.exprs().into_iter().any(|e| !vars_of(e).is_disjoint(vars));
        !found
    });
    found
}

/// What is saved in an iteration.
struct Saved {
    /// All that the iteration does.
    root: Stmt,
    /// Arrays of the iteration that others stand for.
    instead: HashMap<BufId, BufId>,
    /// Statements that are gone.
    statements: usize,
}

impl Saved {
    /// A block of the iteration; `local` are the arrays that every iteration has of its own around it.
    fn block(&mut self, s: &Stmt, local: &HashMap<BufId, Arc<Buffer>>, next: &mut u32) -> Stmt {
        let mut all = collected(s);
        let mut local = local.clone();
        for l in &all {
            if let Line::Open(s) = l
                && let Some((b, _)) = s.as_alloc()
            {
                local.insert(b.id, b.clone());
            }
        }
        let mut n = 0;
        while n < all.len() {
            let found = (0..n).rev().find_map(|m| {
                one_loop(&all, m, n, next)
                    .inspect(|_| self.statements += 1)
                    .or_else(|| self.one_branch(&all, m, n, &local, next))
                    .map(|one| (m, one))
            });
            match found {
                Some((m, one)) => {
                    all[n] = Line::Do(one);
                    all.remove(m);
                }
                None => n += 1,
            }
        }
        self.twins(&mut all, &local);
        joined(all)
    }

    /// Two branches of one condition.
    fn one_branch(
        &mut self,
        all: &[Line],
        m: usize,
        n: usize,
        local: &HashMap<BufId, Arc<Buffer>>,
        next: &mut u32,
    ) -> Option<Stmt> {
        let (Line::Do(first), Line::Do(second)) = (&all[m], &all[n]) else { return None };
        let StmtKind::If { cond: a, then: x, other: None } = first.kind() else { return None };
        let StmtKind::If { cond: b, then: y, other: None } = second.kind() else { return None };
        let asks: HashSet<BufId> = loads_of(a).iter().filter_map(|l| l.view.buffer()).collect();
        let changed = all[m..n].iter().any(|l| !l.written().is_disjoint(&asks));
        if a != b || changed || !may_meet(all, m, n) {
            return None;
        }
        let before = self.statements;
        let then = self.block(&Stmt::seq([x.clone(), y.clone()]), local, next);
        (self.statements > before)
            .then(|| second.with_kind(StmtKind::If { cond: b.clone(), then, other: None }))
    }

    /// Statements that give local arrays what earlier ones gave others are gone.
    fn twins(&mut self, all: &mut Vec<Line>, local: &HashMap<BufId, Arc<Buffer>>) {
        let mut as_first: HashMap<BufId, BufId> = HashMap::new();
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for q in 0..all.len() {
            let from = pairs.last().map_or(0, |p| p.0 + 1);
            let found = (from..q).find_map(|p| Some((p, twin(all, p, q, local, &as_first)?)));
            if let Some((p, more)) = found {
                pairs.push((p, q));
                as_first.extend(more);
            }
        }
        // Arrays that are what they are by these statements alone; others, and what depends on them, are given up.
        while let Some(bad) = as_first.iter().find(|(b2, b1)| !self.are_twins(all, &pairs, **b2, **b1)) {
            let bad = *bad.0;
            as_first.remove(&bad);
            pairs.retain(|(_, q)| !all[*q].touched().contains(&bad));
        }
        pairs.retain(|(_, q)| all[*q].written().iter().all(|b| as_first.contains_key(b)));
        if as_first.iter().any(|(b2, b1)| !self.are_twins(all, &pairs, *b2, *b1)) {
            return;
        }
        self.statements += pairs.len();
        self.instead.extend(as_first);
        for (_, q) in pairs.into_iter().rev() {
            all.remove(q);
        }
    }

    fn are_twins(&self, all: &[Line], pairs: &[(usize, usize)], b2: BufId, b1: BufId) -> bool {
        let by = |lines: &mut dyn Iterator<Item = usize>, b: BufId| -> usize {
            lines.filter_map(|n| if let Line::Do(s) = &all[n] { Some(writes(s, b)) } else { None }).sum()
        };
        let (first, again) = (by(&mut pairs.iter().map(|p| p.0), b1), by(&mut pairs.iter().map(|p| p.1), b2));
        let last = pairs.iter().rev().find(|(_, q)| all[*q].written().contains(&b2)).map_or(0, |p| p.1);
        let between = (0..last).filter(|n| pairs.iter().all(|p| p.1 != *n));
        first == again
            && first > 0
            && writes(&self.root, b1) == first
            && writes(&self.root, b2) == again
            && between.clone().all(|n| !all[n].touched().contains(&b2))
    }
}

/// How many statements of one write an array.
fn writes(s: &Stmt, b: BufId) -> usize {
    let mut n = 0;
    walk(s, &mut |s, _| {
        n += s.written().filter(|v| v.buffer() == Some(b)).count();
        true
    });
    n
}

/// Whether the later line does what the earlier one does, to other local arrays: which stands for which.
fn twin(
    all: &[Line],
    p: usize,
    q: usize,
    local: &HashMap<BufId, Arc<Buffer>>,
    known: &HashMap<BufId, BufId>,
) -> Option<HashMap<BufId, BufId>> {
    let (Line::Do(first), Line::Do(second)) = (&all[p], &all[q]) else { return None };
    let (a, b) = (targets(first), targets(second));
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let mut as_first = known.clone();
    for (b1, b2) in a.iter().zip(&b) {
        let (x, y) = (local.get(b1)?, local.get(b2)?);
        let fits = x.elem == y.elem && x.extents == y.extents && b1 != b2;
        let taken = as_first.iter().any(|(two, one)| one == b1 && two != b2);
        if !fits || taken || *as_first.entry(*b2).or_insert(*b1) != *b1 {
            return None;
        }
    }
    let (vars, labels) = (bound(first), labelled(first));
    let others = bound(second);
    if vars.len() != others.len() || vars.iter().zip(&others).any(|(x, y)| x.ty != y.ty) {
        return None;
    }
    let vars = others.iter().map(|b| b.id).zip(vars).collect();
    let mut renamed = Renamed { buffers: &as_first, vars, labels: labels.into_iter() };
    let same = renamed.child(second);
    if same != *first {
        return None;
    }
    // What it reads is what it was.
    let mine: HashSet<BufId> = a.into_iter().collect();
    let read: HashSet<BufId> = touched(first)
        .into_iter()
        .filter(|b| !mine.contains(b) && !as_first.values().any(|v| v == b))
        .collect();
    let changed = all[p + 1..q].iter().any(|l| !l.written().is_disjoint(&read));
    (!changed).then_some(as_first)
}

/// The arrays that a statement writes, in the order in which it first does.
fn targets(s: &Stmt) -> Vec<BufId> {
    let mut out = Vec::new();
    walk(s, &mut |s, _| {
        for b in s.written().filter_map(View::buffer) {
            if !out.contains(&b) {
                out.push(b);
            }
        }
        true
    });
    if out.len() == written(s).len() { out } else { Vec::new() }
}

fn bound(s: &Stmt) -> Vec<Binder> {
    let mut out = Vec::new();
    walk(s, &mut |s, _| {
        out.extend(s.binders().into_iter().map(|b| b.0.clone()));
        true
    });
    out
}

fn labelled(s: &Stmt) -> Vec<(Label, Vec<Expr>)> {
    let mut out = Vec::new();
    walk(s, &mut |s, _| {
        out.extend(s.labelled().map(|(l, instance)| (l.clone(), instance.to_vec())));
        true
    });
    out
}

/// A statement with the arrays, variables and labels of another one.
struct Renamed<'a> {
    buffers: &'a HashMap<BufId, BufId>,
    vars: HashMap<VarId, Binder>,
    labels: std::vec::IntoIter<(Label, Vec<Expr>)>,
}

impl Renamed<'_> {
    fn of(&self, a: &Access) -> Access {
        match a.view.as_buffer().and_then(|b| self.buffers.get(&b)) {
            Some(b) => Access { view: View::Buffer(*b), ..a.clone() },
            None => a.clone(),
        }
    }
}

impl PartMap for Renamed<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Var(v) => self.vars.get(v).map_or(x, build::var),
            ExprKind::Load(a) => build::load(self.of(a)),
            _ => x,
        })
    }

    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        self.labels.next().unwrap_or_else(|| (label.clone(), instance.to_vec()))
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        let a = a.map_exprs(&mut |e| self.expr(e));
        self.of(&a)
    }

    fn variable(&mut self, v: VarId) -> VarId {
        self.vars.get(&v).map_or(v, |b| b.id)
    }

    fn binder(&mut self, b: &Binder, _: BinderRole) -> Binder {
        self.vars.get(&b.id).cloned().unwrap_or_else(|| b.clone())
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}
