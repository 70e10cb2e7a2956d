//! `licm`: loop-invariant code motion.

use super::quiet::{is_quiet, may_fail};
use super::worth::{anywhere, certain, is_computed, is_read, is_total, replaced, replaced_in, roots};
use crate::args::Args;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Memory, Place};
use lathe_ir::stmt::Effects;
use lathe_ir::stmt::block::{Item, flat, rebuilt};
use lathe_ir::visit::{substitute_stmt, vars_of};
use lathe_ir::{BufId, Buffer, Executor, Expr, Function, Loop, Space, Stmt, StmtKind, VarId, build};
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Simplified;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

rule! {
    /// `licm` moves out of serial and parallel loops what does not depend on the iteration: values, loads, and whole
    /// statements that fill local arrays of the iteration, loops among them. What may be undefined if the loop has no
    /// iterations (loads) is computed only if it has some: `if lo < hi { … }` around both.
    ///
    /// **Legal** because nothing in the loop writes what is read, every iteration evaluates it before anything may
    /// fail, and what is moved gives the same each time.
    ///
    /// ```lathe
    /// kernel norm(x: f32[N]) -> (y: f32[N]) {
    ///     for i in 0..N {
    ///         var s: f32
    ///         s = sum[j](x[j] * x[j])
    ///         y[i] = x[i] / sqrt(s)
    ///     }
    /// }
    /// strategy s for norm = licm
    /// ```
    pub static RULE = licm, version 1, (), apply,
        "loop-invariant code motion: computes before a loop what is the same in all of its iterations";
}

fn apply(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    work.pass(Simplified::Invariant, pass)
}

pub fn pass(func: &mut Function) {
    let body = func.body.clone();
    let mut m = Motion { memory: Memory::of(func), func };
    let body = m.stmt(&body);
    func.body = body;
}

struct Motion<'f> {
    memory: Memory,
    func: &'f mut Function,
}

/// What moves in front of a loop.
#[derive(Default)]
struct Before {
    items: Vec<Item>,
    /// Only if the loop runs.
    guarded: bool,
}

impl Motion<'_> {
    /// A statement whose loops, inner ones first, have moved out what is invariant.
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        let items = flat(s).into_iter().map(|i| match i {
            Item::Do(s) => {
                let children: Vec<Stmt> = s.children().map(|c| self.stmt(c)).collect();
                let s = if children.is_empty() { s } else { s.with_children(children) };
                Item::Do(self.loop_(&s))
            }
            other => other,
        });
        rebuilt(items.collect())
    }

    fn loop_(&mut self, s: &Stmt) -> Stmt {
        let Some(l) = s.as_loop().filter(|l| matches!(l.exec, Executor::Serial | Executor::Cpu)) else {
            return s.clone();
        };
        let mut l = l.clone();
        let mut before = Before::default();
        self.statements(&mut l, &mut before);
        self.numbers(&mut l, &mut before);
        if before.items.is_empty() {
            return s.clone();
        }
        let runs = match (l.lo.as_int(), l.hi.as_int()) {
            (Some(lo), Some(hi)) => lo < hi,
            _ => false,
        };
        let cond = build::lt(l.lo.clone(), l.hi.clone());
        before.items.push(Item::Do(s.with_kind(StmtKind::Loop(l))));
        let moved = rebuilt(before.items);
        if before.guarded && !runs {
            return s.with_kind(StmtKind::If { cond, then: moved, other: None });
        }
        moved
    }

    /// Moves numbers.
    fn numbers(&mut self, l: &mut Loop, before: &mut Before) {
        let touched = self.memory.touched(&l.body);
        let (mut bound, mut local) = (HashSet::from([l.binder.id]), HashSet::new());
        bound_in(&l.body, &mut bound, &mut local);
        let stays = |m: &Memory, e: &Expr| {
            let reads = m.read_by(e);
            vars_of(e).is_disjoint(&bound)
                && !crate::failing::may_fail(e)
                && !touched.changes(&reads)
                && reads.is_disjoint(&local)
        };
        let mut found: Vec<Expr> = Vec::new();
        // Without a load it has a value anywhere: wherever it stands, also in index notation.
        self.total(&l.body, &mut |m, e| is_total(e) && stays(m, e), &mut found);
        // With one, it has if each iteration evaluates it.
        for item in flat(&l.body) {
            let (exprs, ends) = match &item {
                Item::Let(_, e, _) => (vec![e.clone()], crate::failing::may_fail(e)),
                Item::Alloc(..) => (Vec::new(), false),
                Item::Do(s) => (roots(s), ends(s)),
            };
            for e in &exprs {
                certain(e, &mut |e| is_read(e) && stays(&self.memory, e), &mut found);
            }
            if ends {
                break;
            }
        }
        let mut named: Vec<(Expr, Expr)> = Vec::new();
        for e in found {
            before.guarded |= !is_total(&e);
            // One may be a part of another.
            let e = named.iter().fold(e, |e, (part, by)| replaced(&e, part, by));
            let b = self.func.fresh_var("invariant", e.ty().scalar().unwrap_or(lathe_ir::Scalar::F64));
            l.body = replaced_in(&l.body, &e, &build::var(&b));
            named.push((e.clone(), build::var(&b)));
            before.items.push(Item::Let(b, e, l.body.places().clone()));
        }
    }

    /// Computed numbers anywhere in a statement.
    fn total(&self, s: &Stmt, fits: &mut impl FnMut(&Memory, &Expr) -> bool, out: &mut Vec<Expr>) {
        for e in s.evaluated() {
            // Sums and products of variables cost less than a name.
            let mut worth = |e: &Expr| is_computed(e) && calls(e) && fits(&self.memory, e);
            anywhere(e, &mut worth, out);
        }
        s.children().for_each(|c| self.total(c, fits, out));
    }

    /// Moves statements that fill local arrays of the iteration.
    fn statements(&mut self, l: &mut Loop, before: &mut Before) {
        let mut items = flat(&l.body);
        let mut tried: HashSet<BufId> = HashSet::new();
        loop {
            let next = items.iter().find_map(|i| match i {
                Item::Alloc(b, _) if !tried.contains(&b.id) => Some(b.id),
                _ => None,
            });
            let Some(b) = next else { break };
            tried.insert(b);
            let Some((statements, arrays)) = self.filling(&items, b, l) else { continue };
            let shared = l.exec != Executor::Serial;
            let first = HashMap::from([(l.binder.id, l.lo.clone())]);
            let mut at = 0;
            items.retain(|i| {
                at += 1;
                match i {
                    Item::Alloc(a, places) if arrays.contains(&a.id) => {
                        // All threads see one array.
                        let space = if shared { Space::Host } else { a.space };
                        let a = Arc::new(Buffer { space, ..(**a).clone() });
                        before.items.push(Item::Alloc(a, places.clone()));
                        false
                    }
                    Item::Do(s) if statements.contains(&(at - 1)) => {
                        // It runs once, in the name of the first iteration.
                        before.items.push(Item::Do(substitute_stmt(s, &first)));
                        false
                    }
                    _ => true,
                }
            });
            before.guarded = true;
            // What others were waiting for may be there now.
            tried.retain(|t| arrays.contains(t));
        }
        l.body = rebuilt(items);
    }

    /// The statements that fill a local array, and the others that they fill, if all iterations fill them alike.
    fn filling(&self, items: &[Item], b: BufId, l: &Loop) -> Option<(HashSet<usize>, HashSet<BufId>)> {
        let own: HashMap<BufId, &Arc<Buffer>> = items
            .iter()
            .filter_map(|i| match i {
                Item::Alloc(b, _) => Some((b.id, b)),
                _ => None,
            })
            .collect();
        let mut bound: HashSet<VarId> = HashSet::from([l.binder.id]);
        bound.extend(items.iter().filter_map(|i| match i {
            Item::Let(b, ..) => Some(b.id),
            _ => None,
        }));
        let mut arrays = HashSet::from([b]);
        let mut statements: HashSet<usize> = HashSet::new();
        // Who writes one of the arrays fills all that it writes.
        loop {
            let known = (arrays.len(), statements.len());
            for (n, i) in items.iter().enumerate() {
                let Item::Do(s) = i else { continue };
                let touched = self.memory.touched(s);
                if touched.anything {
                    return None;
                }
                if !arrays.iter().any(|a| touched.writes(Place::Buffer(*a))) {
                    continue;
                }
                statements.insert(n);
                for w in &touched.writes {
                    match w {
                        Place::Buffer(w) if own.contains_key(w) => arrays.insert(*w),
                        _ => return None,
                    };
                }
            }
            if known == (arrays.len(), statements.len()) {
                break;
            }
        }
        let last = *statements.iter().max()?;
        let alike = |e: &Expr| vars_of(e).is_disjoint(&bound);
        for a in &arrays {
            if !own[a].extents.iter().all(|e| alike(e) && self.memory.read_by(e).is_empty()) {
                return None;
            }
        }
        for (n, i) in items.iter().enumerate().take(last + 1) {
            let filled = |p: &Place| matches!(p, Place::Buffer(b) if arrays.contains(b));
            match i {
                Item::Alloc(..) => {}
                Item::Let(_, value, _) => {
                    if crate::failing::may_fail(value) || self.memory.read_by(value).iter().any(filled) {
                        return None;
                    }
                }
                Item::Do(s) if statements.contains(&n) => {
                    if !is_quiet(s) || !is_invariant(s, &bound) {
                        return None;
                    }
                    // Reads of what the iteration writes otherwise.
                    let touched = self.memory.touched(s);
                    let others = items.iter().enumerate().filter(|(m, _)| !statements.contains(m));
                    let changed = others.into_iter().any(|(_, i)| match i {
                        Item::Do(o) => self.memory.touched(o).changes(&touched.reads),
                        _ => false,
                    });
                    let local = touched
                        .reads
                        .iter()
                        .any(|p| matches!(p, Place::Buffer(b) if own.contains_key(b) && !arrays.contains(b)));
                    if changed || local {
                        return None;
                    }
                }
                // What reads before all is filled, and what may end the iteration before.
                Item::Do(s) => {
                    if ends(s) || self.memory.touched(s).reads.iter().any(filled) {
                        return None;
                    }
                }
            }
        }
        Some((statements, arrays))
    }
}

/// Whether what follows a statement may not be reached.
fn ends(s: &Stmt) -> bool {
    let may = Effects::ALL.without(Effects::ALLOCATES);
    s.effects() != s.effects().without(may) || may_fail(s)
}

/// Whether a statement evaluates nothing that mentions some variables. (Its instance may: it is only a name.)
fn is_invariant(s: &Stmt, bound: &HashSet<VarId>) -> bool {
    s.evaluated().into_iter().all(|e| vars_of(e).is_disjoint(bound))
        && s.children().all(|c| is_invariant(c, bound))
}

/// The variables and the local arrays that are bound in a statement.
fn bound_in(s: &Stmt, vars: &mut HashSet<VarId>, arrays: &mut HashSet<Place>) {
    vars.extend(s.binders().into_iter().map(|b| b.0.id));
    arrays.extend(s.allocated().map(|b| Place::Buffer(b.id)));
    s.children().for_each(|c| bound_in(c, vars, arrays));
}

/// Whether a math function or a division is in an expression.
fn calls(e: &Expr) -> bool {
    let mut found = false;
    lathe_ir::visit::walk_expr(e, &mut |x| {
        found |= matches!(
            x.kind(),
            lathe_ir::ExprKind::Math(..) | lathe_ir::ExprKind::Binary(lathe_ir::BinOp::Div, ..)
        );
    });
    found
}
