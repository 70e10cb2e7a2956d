//! Math functions that several maps over the same points evaluate are evaluated by the first of them: into an array,
//! or the one that holds the value anyway, which sums read, too.

use super::{Line, is_map, same_range};
use crate::arrays::fill;
use lathe_ir::build::{load, sub, var};
use lathe_ir::visit::{loads_of, map_expr, refresh, substitute, vars_of, walk_expr};
use lathe_ir::{
    Access, BufId, Buffer, Combine, Compute, Expr, ExprKind, Function, Space, Status, Stmt, StmtKind, VarId,
};
use std::collections::{HashMap, HashSet};

pub fn shared(all: &mut Vec<Line>, func: &mut Function) {
    let mut n = 0;
    while n < all.len() {
        if let Some(c) = all[n].compute().filter(|c| is_shareable(c)).cloned() {
            if let Some(value) = held(&c) {
                let target = Access { status: Status::Unproved, ..c.targets[0].clone() };
                let users = users(all, (n, n), &c, &value);
                replace(all, &users, &c, &value, &load(target));
                in_sums(all, n, &c, &value);
            }
            // What is found later is part of what was found before, and is before it.
            let (first, mut count) = (n, 0);
            while let Some((value, mut users)) = common(all, (first, n), &c) {
                count += 1;
                let number = if count > 1 { count.to_string() } else { String::new() };
                let buffer = Buffer::local(
                    func.fresh_buf(),
                    format!("{}.shared{number}", c.label),
                    value.ty().clone(),
                    c.dims.iter().map(super::hoist::extent).collect(),
                    Space::Host,
                );
                let at = c.dims.iter().map(|d| sub(var(&d.binder), d.lo.clone())).collect();
                let target = Access::buffer(buffer.id, value.ty().clone(), at);
                let s = fill(buffer.name.to_string(), c.dims.clone(), target.clone(), value.clone());
                users.push(n);
                replace(all, &users, &c, &value, &load(target));
                all.insert(first, Line::Do(refresh(&s, &mut func.next_id)));
                all.insert(first, Line::Open(Stmt::of(StmtKind::Alloc { buffer, body: Stmt::empty() })));
                n += 2;
            }
        }
        n += 1;
    }
}

/// A map over a box.
fn is_shareable(c: &Compute) -> bool {
    let own: HashSet<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
    let bounds = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]);
    !c.dims.is_empty()
        && c.values.len() == 1
        && c.targets.len() == 1
        && c.guard.is_none()
        && c.dims.iter().all(|d| d.combine == Combine::Concat)
        && bounds.into_iter().all(|e| loads_of(e).is_empty() && vars_of(e).is_disjoint(&own))
}

/// The value that a map's target holds from then on, if it is worth reading.
fn held(c: &Compute) -> Option<Expr> {
    let own = |a: &Access| a.view.buffer() == c.targets[0].view.buffer();
    let value = &c.values[0];
    (is_map(c) && c.update.is_none() && is_worth(value) && !loads_of(value).iter().any(own))
        .then(|| value.clone())
}

fn is_worth(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Math(..)));
    found && e.ty().is_float()
}

/// The indices of one map as those of another one over the same points.
fn onto(from: &Compute, to: &Compute) -> Option<HashMap<VarId, Expr>> {
    let fits =
        from.dims.len() == to.dims.len() && from.dims.iter().zip(&to.dims).all(|(a, b)| same_range(a, b));
    fits.then(|| from.dims.iter().zip(&to.dims).map(|(a, b)| (a.binder.id, var(&b.binder))).collect())
}

/// What a map evaluates, as far as math functions are in it, in the indices of another one.
fn parts(c: &Compute, map: &HashMap<VarId, Expr>) -> HashSet<Expr> {
    let mut out = HashSet::new();
    walk_expr(&substitute(&c.values[0], map), &mut |x| {
        if is_worth(x) {
            out.insert(x.clone());
        }
    });
    out
}

/// The maps from a line on that evaluate a value while what it reads is the same, but for the one at `n` itself.
fn users(all: &[Line], (first, n): (usize, usize), c: &Compute, value: &Expr) -> Vec<usize> {
    let mut read: HashSet<BufId> = loads_of(value).iter().filter_map(|a| a.view.buffer()).collect();
    let target = c.targets[0].view.buffer();
    if held(c).as_ref() == Some(value) {
        read.extend(target);
    } else if target.is_some_and(|t| read.contains(&t)) {
        return Vec::new();
    }
    // Who overwrites it reads but the elements that it writes.
    let in_place = |o: &Compute| {
        let t = &o.targets[0];
        let other = |a: &Access| a.view.buffer() == t.view.buffer() && a.indices != t.indices;
        !t.view.buffer().is_some_and(|b| read.contains(&b))
            || !o.values.iter().flat_map(loads_of).any(|a| other(&a))
    };
    let mut out = Vec::new();
    for (m, l) in all.iter().enumerate().skip(first).filter(|l| l.0 != n) {
        if let Some(o) = l.compute().filter(|o| is_shareable(o) && in_place(o))
            && let Some(map) = onto(o, c)
            && parts(o, &map).contains(value)
        {
            out.push(m);
        }
        if l.written().iter().any(|w| read.contains(w)) {
            break;
        }
    }
    out
}

/// Sums that evaluate what a map holds, for all of its points and maybe for more, read it from there.
fn in_sums(all: &mut [Line], n: usize, c: &Compute, value: &Expr) {
    let mut read: HashSet<BufId> = loads_of(value).iter().filter_map(|a| a.view.buffer()).collect();
    read.extend(c.targets[0].view.buffer());
    for line in &mut all[n + 1..] {
        if line.written().iter().any(|w| read.contains(w)) {
            break;
        }
        let Line::Do(s) = line else { continue };
        let sums = |o: &&Compute| {
            o.guard.is_none() && o.dims.iter().any(|d| d.combine == Combine::Reduce(lathe_ir::ReduceOp::Sum))
        };
        let Some(o) = s.as_compute().filter(sums) else { continue };
        let evaluated = o.values.iter().map(|v| in_terms(o, v)).fold(HashSet::new(), |a, b| &a | &b);
        let found = among(&c.dims, &o.dims).into_iter().find_map(|map| {
            let value = substitute(value, &map);
            evaluated.contains(&value).then_some((map, value))
        });
        let Some((map, value)) = found else { continue };
        let target = &c.targets[0];
        let indices = target.indices.iter().map(|i| substitute(i, &map)).collect();
        let held = load(Access { indices, status: Status::Unproved, ..target.clone() });
        let values = o
            .values
            .iter()
            .map(|v| map_expr(v, &mut |x| if x == value { held.clone() } else { x }))
            .collect();
        let compute = Compute { values, ..o.clone() };
        *s = s.with_kind(StmtKind::Compute(compute));
    }
}

/// All that a value evaluates, as far as it is worth reading.
fn in_terms(o: &Compute, value: &Expr) -> HashSet<Expr> {
    parts(&Compute { values: vec![value.clone()], ..o.clone() }, &HashMap::new())
}

/// Dimensions as others with the same ranges, each as one of its own, in all ways.
pub(super) fn among(dims: &[lathe_ir::Dim], others: &[lathe_ir::Dim]) -> Vec<HashMap<VarId, Expr>> {
    let Some((first, rest)) = dims.split_first() else { return vec![HashMap::new()] };
    let mut out = Vec::new();
    for (n, o) in others.iter().enumerate().filter(|o| same_range(first, o.1)) {
        let mut left = others.to_vec();
        left.remove(n);
        for mut map in among(rest, &left) {
            map.insert(first.binder.id, var(&o.binder));
            out.push(map);
        }
    }
    out
}

/// The largest part of the value of a map, `c` as it was first, that later maps evaluate, too.
fn common(all: &[Line], at: (usize, usize), c: &Compute) -> Option<(Expr, Vec<usize>)> {
    let now = all[at.1].compute()?;
    let mut open = vec![now.values[0].clone()];
    // What was taken out of this one before precedes it.
    let before = all[at.0..at.1].iter().filter_map(Line::compute);
    open.extend(before.filter_map(|o| Some(substitute(&o.values[0], &onto(o, c)?))));
    while let Some(e) = open.pop() {
        if !is_worth(&e) || matches!(e.kind(), ExprKind::Load(_)) {
            continue;
        }
        let found = users(all, at, c, &e);
        let own = usize::from(parts(now, &HashMap::new()).contains(&e));
        if found.len() + own > 1 && held(c).as_ref() != Some(&e) {
            return Some((e, found));
        }
        // What is evaluated in one branch only is left alone.
        if !matches!(e.kind(), ExprKind::Select(..)) {
            open.extend(e.children().into_iter().cloned());
        }
    }
    None
}

/// Maps with a part of their values read instead.
fn replace(all: &mut [Line], users: &[usize], c: &Compute, value: &Expr, by: &Expr) {
    for m in users {
        let Line::Do(s) = &all[*m] else { continue };
        let Some((o, map)) = s.as_compute().and_then(|o| Some((o, onto(o, c)?))) else { continue };
        let back: HashMap<VarId, Expr> = match onto(c, o) {
            Some(back) => back,
            None => continue,
        };
        let new =
            map_expr(&substitute(&o.values[0], &map), &mut |x| if x == *value { by.clone() } else { x });
        let values = vec![substitute(&new, &back)];
        let compute = Compute { values, ..o.clone() };
        all[*m] = Line::Do(s.with_kind(StmtKind::Compute(compute)));
    }
}
