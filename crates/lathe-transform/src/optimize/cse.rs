//! `cse`: common subexpression elimination.

use super::worth::{certain, is_computed, parts, replaced, replaced_in, roots};
use crate::args::Args;
use crate::rule;
use crate::work::Work;
use lathe_analysis::Memory;
use lathe_ir::stmt::block::{Item, map_blocks};
use lathe_ir::{Expr, Function, Stmt, build, visit};
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Simplified;
use std::collections::HashSet;

rule! {
    /// `cse` binds a value that a statement computes and a later statement of the same block, or inside its loops and
    /// branches, computes again. Subscripts and bounds are left as they are, for the sake of the analyses.
    ///
    /// **Legal** because the first statement evaluates it in any case, and nothing that it reads is written up to the
    /// last use.
    ///
    /// ```lathe
    /// kernel k(x: f32[N]) -> (y: f32[N], z: f32[N]) {
    ///     for i in 0..N {
    ///         y[i] = exp(x[i]) + 1.0
    ///         z[i] = exp(x[i]) * 2.0
    ///     }
    /// }
    /// strategy s for k = cse
    /// ```
    pub static RULE = cse, version 1, (), apply,
        "common subexpression elimination: computes a value once that several statements of a block compute";
}

fn apply(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    work.pass(Simplified::Common, pass)
}

pub fn pass(func: &mut Function) {
    let memory = Memory::of(func);
    let body = func.body.clone();
    func.body = map_blocks(&body, &mut |items| block(&memory, func, items));
}

/// What an entry computes.
fn contents(i: &Item) -> HashSet<Expr> {
    let mut out = HashSet::new();
    match i {
        Item::Let(_, e, _) => visit::walk_expr(e, &mut |x| {
            out.insert(x.clone());
        }),
        Item::Alloc(..) => {}
        Item::Do(s) => parts(s, &mut out),
    }
    out
}

fn block(memory: &Memory, func: &mut Function, mut items: Vec<Item>) -> Vec<Item> {
    let mut inside: Vec<HashSet<Expr>> = items.iter().map(contents).collect();
    let mut n = 0;
    while n < items.len() {
        let Some((e, last)) = again(memory, &items, &inside, n) else {
            n += 1;
            continue;
        };
        let mut end = last;
        let value = match &items[n] {
            // It has a name already.
            Item::Let(b, value, _) if *value == e => build::var(b),
            other => {
                let b = func.fresh_var("common", e.ty().scalar().unwrap_or(lathe_ir::Scalar::F64));
                let places = match other {
                    Item::Let(_, _, p) | Item::Alloc(_, p) => p.clone(),
                    Item::Do(s) => s.places().clone(),
                };
                items.insert(n, Item::Let(b.clone(), e.clone(), places));
                inside.insert(n, HashSet::new());
                inside[n] = contents(&items[n]);
                end += 1;
                build::var(&b)
            }
        };
        for at in n + 1..=end {
            if inside[at].contains(&e) {
                items[at] = match &items[at] {
                    Item::Let(b, v, p) => Item::Let(b.clone(), replaced(v, &e, &value), p.clone()),
                    Item::Alloc(..) => items[at].clone(),
                    Item::Do(s) => Item::Do(replaced_in(s, &e, &value)),
                };
                inside[at] = contents(&items[at]);
            }
        }
    }
    items
}

/// The largest expression of an entry that a later one computes, too, and the last entry up to which it has the same
/// value.
fn again(memory: &Memory, items: &[Item], inside: &[HashSet<Expr>], n: usize) -> Option<(Expr, usize)> {
    let all: Vec<Expr> = match &items[n] {
        Item::Let(_, e, _) => vec![e.clone()],
        Item::Alloc(..) => Vec::new(),
        Item::Do(s) => roots(s),
    };
    // Nothing that may fail is named before what else the statement evaluates.
    let mut found: Option<(Expr, usize)> = None;
    for root in &all {
        let mut fits = |e: &Expr| {
            if found.is_some() || !is_computed(e) || crate::failing::may_fail(e) {
                return false;
            }
            let last = until(memory, items, n, e);
            let repeats = (n + 1..=last).any(|at| inside[at].contains(e));
            if repeats {
                found = Some((e.clone(), last));
            }
            repeats
        };
        certain(root, &mut fits, &mut Vec::new());
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The last entry after `n` that sees the value of an expression as `n` sees it.
fn until(memory: &Memory, items: &[Item], n: usize, e: &Expr) -> usize {
    let reads = memory.read_by(e);
    let changes = |s: &Stmt| memory.touched(s).changes(&reads);
    if matches!(&items[n], Item::Do(s) if changes(s)) {
        return n;
    }
    for (at, i) in items.iter().enumerate().skip(n + 1) {
        match i {
            Item::Let(..) | Item::Alloc(..) => {}
            // A store evaluates before it writes.
            Item::Do(s) if s.as_store().is_some() && changes(s) => return at,
            Item::Do(s) if changes(s) => return at - 1,
            Item::Do(_) => {}
        }
    }
    items.len() - 1
}
