//! The same statements in the same order, by other loops: blocks, parts of a range, iterations written out.
//!
//! A loop that became something else is held against what stands in its place. That runs iterations one after the other:
//! a copy of the body runs the next one, a loop in which every iteration goes on where the one before ended runs those from
//! its beginning to its end, and so do statements in a sequence. If all of them are those from the first to the last, in
//! their order, nothing else is to be shown, whatever the body does.

use super::align::{Aligner, equal, shown};
use super::{Change, Place};
use crate::env::{Env, Item};
use lathe_ir::visit::{self, Path, refresh, substitute, substitute_stmt, vars_of};
use lathe_ir::{BinOp, Binder, Executor, Expr, ExprKind, Label, Loop, Stmt, StmtKind, VarId, build};
use lathe_poly::simplify::simplify_stmt;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};

/// Minima, maxima and selections in a bound of a loop before it is not followed any more: each has two cases.
const MOST_CASES: usize = 12;

/// Whether the tree after runs the statements of the tree before in their order, each as often, with the instances that
/// they had. Gives how many statements were compared; none where bounds of loops have too many cases to be followed.
pub fn same_runs(c: &Change) -> Option<Result<usize, String>> {
    let place = match c.place() {
        Ok(place) => place,
        Err(why) => return Some(Err(why)),
    };
    if [place.old, place.new].into_iter().any(has_long_bounds) {
        return None;
    }
    let env = c.env(&place.path);
    let first = c.before.next_id.max(c.after.next_id);
    let mut runs = Runs { c, place: &place, env: &env, first, compared: 0 };
    let same = runs.stmts(&mut Vec::new(), place.old, place.new, &mut place.path.clone());
    Some(same.map(|()| runs.compared))
}

fn has_long_bounds(s: &Stmt) -> bool {
    let mut long = false;
    visit::walk(s, &mut |s, _| {
        long |= s
            .as_loop()
            .is_some_and(|l| [&l.lo, &l.hi].into_iter().any(|e| !few_cases(e, &mut { MOST_CASES })));
        !long
    });
    long
}

/// Bounds may share parts, and be long where they are written out: this ends early.
fn few_cases(e: &Expr, left: &mut usize) -> bool {
    if matches!(e.kind(), ExprKind::Select(..) | ExprKind::Binary(BinOp::Min | BinOp::Max, ..)) {
        if *left == 0 {
            return false;
        }
        *left -= 1;
    }
    e.children().into_iter().all(|c| few_cases(c, left))
}

struct Runs<'e, 'a> {
    c: &'e Change<'a>,
    place: &'e Place<'a>,
    env: &'e Env<'a>,
    /// No binder of either tree has this number, or a larger one.
    first: u32,
    compared: usize,
}

/// A loop of the tree before.
struct Old<'l> {
    l: &'l Loop,
    body: Vec<&'l Stmt>,
    /// How many loops stand around what its body runs first.
    depth: usize,
}

/// The statements of a sequence, with the way to each.
fn flat<'s>(s: &'s Stmt, path: &Path, out: &mut Vec<(&'s Stmt, Path)>) {
    match s.as_seq() {
        Some(all) => {
            for (n, s) in all.iter().enumerate() {
                flat(s, &path.iter().copied().chain([n]).collect(), out);
            }
        }
        None => out.push((s, path.clone())),
    }
}

fn parts(s: &Stmt) -> Vec<&Stmt> {
    let mut out = Vec::new();
    flat(s, &Path::new(), &mut out);
    out.into_iter().map(|x| x.0).collect()
}

fn changed(s: &Stmt) -> String {
    match (s.label(), s.as_loop()) {
        (Some(l), _) => format!("`{l}` was changed"),
        (_, Some(l)) => format!("the iterations of `{}` may be others, or in another order", l.binder.name),
        _ => "a statement was changed".to_string(),
    }
}

impl Runs<'_, '_> {
    /// Both run the same.
    fn stmts<'s>(
        &mut self,
        items: &mut Vec<Item<'s>>,
        old: &'s Stmt,
        new: &'s Stmt,
        path: &mut Path,
    ) -> Result<(), String> {
        if old.ptr_eq(new) || old == new {
            return Ok(());
        }
        let mut now = Vec::new();
        flat(new, path, &mut now);
        let mut left = now.as_slice();
        for s in parts(old) {
            if let Some(((n, _), rest)) = left.split_first()
                && (s.ptr_eq(n) || s == *n)
            {
                left = rest;
                continue;
            }
            left = self.one(items, s, left)?;
        }
        if left.is_empty() { Ok(()) } else { Err("a statement was added".to_string()) }
    }

    /// The first statements of a sequence run what one did; what is left of them.
    fn one<'s, 'p>(
        &mut self,
        items: &mut Vec<Item<'s>>,
        old: &'s Stmt,
        new: &'p [(&'s Stmt, Path)],
    ) -> Result<&'p [(&'s Stmt, Path)], String> {
        self.compared += 1;
        if let Some(((n, at), rest)) = new.split_first()
            && same_header(old, n)
        {
            let around = items.len();
            let mut kept = Ok(());
            for (k, (a, b)) in old.children().zip(n.children()).enumerate() {
                items.extend(Item::entering(n, k));
                kept =
                    kept.and_then(|()| self.stmts(items, a, b, &mut at.iter().copied().chain([k]).collect()));
                items.truncate(around);
            }
            if kept.is_ok() || old.as_loop().is_none() {
                return kept.map(|()| rest);
            }
        }
        let l = old.as_loop().ok_or_else(|| changed(old))?;
        let body = parts(&l.body);
        let depth = body.first().map_or(0, |s| loops_around(s));
        let loops = Old { l, body, depth };
        let (used, to) = self.run(items, &loops, new, l.lo.clone());
        let rest = &new[used..];
        let some = build::lt(l.lo.clone(), l.hi.clone());
        let after = build::add(build::sub(l.hi.clone(), build::index(1)), build::index(l.step));
        let off = build::floor_mod(
            build::sub(build::sub(l.hi.clone(), build::index(1)), l.lo.clone()),
            build::index(l.step),
        );
        // The first value that is not below the end.
        let end = build::select(some, build::sub(after, off), l.lo.clone());
        if self.equal(items, &to, &end) { Ok(rest) } else { Err(changed(old)) }
    }

    fn equal(&self, items: &[Item], a: &Expr, b: &Expr) -> bool {
        a == b || equal(self.env, &self.place.written, items, a, b)
    }

    /// How many statements run iterations of the loop from one on, as many as do, and which iteration is next.
    fn run(&mut self, items: &[Item], old: &Old, new: &[(&Stmt, Path)], from: Expr) -> (usize, Expr) {
        let (mut used, mut at) = (0, from);
        while used < new.len() {
            let Some((n, next)) = self.next(items, old, &new[used..], &at) else { break };
            used += n;
            at = next;
        }
        (used, at)
    }

    /// The same for the first statements only.
    fn next(
        &mut self,
        items: &[Item],
        old: &Old,
        new: &[(&Stmt, Path)],
        from: &Expr,
    ) -> Option<(usize, Expr)> {
        let (s, path) = new.first()?;
        if loops_around(s) <= old.depth
            && let Some(used) = self.body(items, old, new, from)
        {
            return Some((used, build::add(from.clone(), build::index(old.l.step))));
        }
        if let Some((cond, then, other)) = s.as_if() {
            let branch = |this: &mut Self, s: Option<&Stmt>, n: usize| {
                let Some(s) = s else { return Some(from.clone()) };
                let mut items = items.to_vec();
                items.push(Item::Cond(cond, n == 0));
                this.all(&items, old, s, &path.iter().copied().chain([n]).collect(), from.clone())
            };
            let (yes, no) = (branch(self, Some(then), 0)?, branch(self, other, 1)?);
            return Some((1, build::select(cond.clone(), yes, no)));
        }
        let l = s.as_loop().filter(|l| one_by_one(&l.exec) || l.exec == old.l.exec)?;
        let start = start(old, &l.body)?;
        let at = |e: &Expr, v: Expr| substitute(e, &HashMap::from([(l.binder.id, v)]));
        let some = build::lt(l.lo.clone(), l.hi.clone());
        {
            let mut items = items.to_vec();
            items.push(Item::Cond(&some, true));
            if !self.equal(&items, &at(&start, l.lo.clone()), from) {
                return None;
            }
        }
        let mut inside = items.to_vec();
        inside.extend(Item::entering(s, 0));
        let body: Path = path.iter().copied().chain([0]).collect();
        let end = self.all(&inside, old, &l.body, &body, start.clone())?;
        // Every iteration goes on where the one before ended.
        let following = build::add(build::var(&l.binder), build::index(l.step));
        let next = at(&start, following.clone());
        let earlier = build::sub(l.hi.clone(), build::index(l.step));
        let mut before = items.to_vec();
        let (binder, lo, hi, step, exec) = (&l.binder, &l.lo, &earlier, l.step, &l.exec);
        before.push(Item::Loop { binder, lo, hi, step, exec });
        if end != next && !shown(self.env, &before, &end, &next) {
            let another = build::lt(following, l.hi.clone());
            inside.push(Item::Cond(&another, true));
            if !self.equal(&inside, &end, &next) {
                return None;
            }
        }
        let before = build::sub(l.hi.clone(), build::index(1));
        let off = build::floor_mod(build::sub(before.clone(), l.lo.clone()), build::index(l.step));
        let last = at(&end, build::sub(before, off));
        Some((1, build::select(some, last, from.clone())))
    }

    /// Everything in a statement runs iterations; which one is next.
    fn all(&mut self, items: &[Item], old: &Old, s: &Stmt, path: &Path, from: Expr) -> Option<Expr> {
        let mut new = Vec::new();
        flat(s, path, &mut new);
        let (used, to) = self.run(items, old, &new, from);
        (used == new.len()).then_some(to)
    }

    /// How many statements are the body of the loop in an iteration.
    fn body(&mut self, items: &[Item], old: &Old, new: &[(&Stmt, Path)], at: &Expr) -> Option<usize> {
        let map = HashMap::from([(old.l.binder.id, at.clone())]);
        let there = substitute_stmt(&old.l.body, &map);
        let raw = parts(&there);
        let now: Vec<&Stmt> = new.iter().map(|n| n.0).collect();
        if begins_with(&raw, &now) {
            return Some(raw.len());
        }
        // Rules simplify what they make: in most cases that leaves nothing to be shown.
        let simpler = simplify_stmt(&there, &mut Ranges::at(self.c.after, &new.first()?.1));
        let simpler = parts(&simpler);
        if begins_with(&simpler, &now) {
            self.compared += simpler.len();
            return Some(simpler.len());
        }
        // The same but for the names of what is bound, and then but for what is equal there.
        let canonical =
            |all: &[&Stmt]| unnamed(&refresh(&Stmt::seq(all.iter().copied().cloned()), &mut { self.first }));
        let mut ways: Vec<(usize, Stmt, Stmt)> = Vec::new();
        for there in [&simpler, &raw] {
            let Some(now) = now.get(..there.len()).filter(|now| !now.is_empty()) else { continue };
            let (a, b) = (canonical(there), canonical(now));
            self.compared += there.len();
            if a == b {
                return Some(there.len());
            }
            ways.push((there.len(), a, b));
        }
        ways.iter().rev().find(|(_, a, b)| self.alike(items, a, b)).map(|w| w.0)
    }

    fn alike(&self, items: &[Item], old: &Stmt, new: &Stmt) -> bool {
        if old == new {
            return true;
        }
        let none = HashSet::new();
        let mut aligner = Aligner {
            env: self.env,
            written: &self.place.written,
            through: &none,
            tables: &none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        aligner.stmts(&mut items.to_vec(), new, old).is_ok() && self.instances(items, old, new)
    }

    /// Statements that are otherwise alike run the same instances.
    fn instances(&self, items: &[Item], old: &Stmt, new: &Stmt) -> bool {
        let (a, b) = (instances_in(old), instances_in(new));
        a.len() == b.len()
            && a.iter().zip(&b).all(|((_, a), (_, b))| {
                let same = |(x, y): (&Expr, &Expr)| {
                    x == y || Linear::of(x) == Linear::of(y) || self.equal(items, x, y)
                };
                a.len() == b.len() && a.iter().zip(b).all(same)
            })
    }
}

/// The iteration that a statement runs first, over the variables around it: what an instance says that the variable of the
/// loop has a part in. Whoever asks shows that these iterations run.
fn start(old: &Old, s: &Stmt) -> Option<Expr> {
    let v = old.l.binder.id;
    old.body.iter().flat_map(|s| instances_in(s)).find_map(|(of, was)| {
        if !was.iter().any(|e| vars_of(e).contains(&v)) {
            return None;
        }
        let mut around: Vec<(VarId, Expr)> = Vec::new();
        let now = first_instance(s, Some(&of), &mut around)?.1;
        was.iter().zip(&now).find_map(|(was, now)| start_by(old, was, now, &around))
    })
}

/// The same by one index of an instance, before and now, with the loops around it now.
fn start_by(old: &Old, was: &Expr, now: &Expr, around: &[(VarId, Expr)]) -> Option<Expr> {
    let v = old.l.binder.id;
    let form = Linear::of(was);
    let factor = form.factor(v);
    if factor == 0 {
        return None;
    }
    // Inner loops begin where they begin.
    let rest = form.without(&build::var(&old.l.binder));
    let rest = Linear::of(&begin(&rest.to_expr(), &inner_starts(&old.l.body)));
    if rest.mentions(&HashSet::from([v])) {
        return None;
    }
    let outwards = around.iter().rev();
    let now = outwards.fold(now.clone(), |e, (v, lo)| substitute(&e, &HashMap::from([(*v, lo.clone())])));
    let at = Linear::of(&now).minus(&rest)?;
    let whole = at.constant % factor == 0 && at.terms.iter().all(|t| t.1 % factor == 0);
    Some(whole.then(|| at.divided(factor)).flatten()?.to_expr())
}

/// Without the names of loops: copies have others.
fn unnamed(s: &Stmt) -> Stmt {
    visit::map_stmts(s, &mut |s| match s.as_loop() {
        Some(l) => {
            let binder = Binder { name: "".into(), ..l.binder.clone() };
            s.with_kind(StmtKind::Loop(Loop { binder, ..l.clone() }))
        }
        None => s,
    })
}

/// Whether some statements are the first ones of others.
fn begins_with(there: &[&Stmt], new: &[&Stmt]) -> bool {
    !there.is_empty() && new.len() >= there.len() && there.iter().zip(new).all(|(a, b)| a == b)
}

/// The instance that runs first in a statement, of all or of a label, and the loops around it with their beginnings.
fn first_instance(
    s: &Stmt,
    of: Option<&Label>,
    around: &mut Vec<(VarId, Expr)>,
) -> Option<(Label, Vec<Expr>)> {
    if let Some((l, i)) = s.labelled().filter(|x| of.is_none_or(|of| of == x.0)) {
        return Some((l.clone(), i.to_vec()));
    }
    if let Some(l) = s.as_loop() {
        around.push((l.binder.id, l.lo.clone()));
    }
    let depth = around.len();
    s.children().find_map(|c| {
        around.truncate(depth);
        first_instance(c, of, around)
    })
}

/// The instances in a statement, in their order.
fn instances_in(s: &Stmt) -> Vec<(Label, Vec<Expr>)> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.labelled().map(|(l, i)| (l.clone(), i.to_vec())));
        true
    });
    out
}

/// How many loops stand around what a statement runs first.
fn loops_around(s: &Stmt) -> usize {
    let mut around = Vec::new();
    first_instance(s, None, &mut around).map_or(0, |_| around.len())
}

/// The loops in a statement with their beginnings.
fn inner_starts(s: &Stmt) -> Vec<(VarId, Expr)> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.as_loop().map(|l| (l.binder.id, l.lo.clone())));
        true
    });
    out
}

fn begin(e: &Expr, starts: &[(VarId, Expr)]) -> Expr {
    starts.iter().rev().fold(e.clone(), |e, (v, lo)| {
        if vars_of(&e).contains(v) { substitute(&e, &HashMap::from([(*v, lo.clone())])) } else { e }
    })
}

/// Whether iterations run in the order of their numbers, and so do the sums that they take part in.
fn one_by_one(e: &Executor) -> bool {
    matches!(e, Executor::Serial | Executor::Unrolled)
}

/// Whether two statements say the same to their children, and run them alike.
fn same_header(old: &Stmt, new: &Stmt) -> bool {
    if old.children().len() == 0 || old.children().len() != new.children().len() {
        return false;
    }
    if let (Some(a), Some(b)) = (old.as_loop(), new.as_loop()) {
        let same = a.binder == b.binder && a.lo == b.lo && a.hi == b.hi && a.step == b.step;
        // Iterations one after the other are what every other way to run them means.
        return same && (a.exec == b.exec || one_by_one(&b.exec));
    }
    old.with_children(new.children().cloned().collect()) == *new
}
