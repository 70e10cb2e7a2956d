//! Redundant and dead computations of derived functions, found in its sequences of statements: these rewrites know that
//! cotangents are sums, so that their order and the form of their products are free.
//!
//! `chosen`: what is linear in a shadow that is zero but for a few elements visits those. `outside`: what all terms of
//! a sum share stands outside of it. `dead`: zeros that nobody reads are not written. `merge`: several maps that add to the same elements are one. `inline`: copies are read where they came from.
//! `factor`: a sum of multiples is a multiple of an existing sum. `share`: what several maps evaluate is evaluated
//! once. `direct`: what is only copied into another array is written there. `ahead`: sums read what a map holds. `together`: iterations that do not need each other go backwards at once. `late`: single values are computed behind what does not use them. `hoist`: functions of inputs that a sum evaluates for every element are evaluated once. `short`: sums of a few terms
//! are written out.

mod ahead;
mod apart;
mod chosen;
mod dead;
mod direct;
mod factor;
mod hoist;
mod inline;
mod late;
mod merge;
mod outside;
mod share;
mod short;
mod together;

use crate::arrays::{buffers_of, touched, written};
use lathe_ir::visit::{for_each_load, loads_of};
use lathe_ir::{
    Access, BufId, Buffer, Combine, Compute, Dim, Expr, Function, Name, Stmt, StmtKind, VarId, View, visit,
};
use lathe_poly::Linear;
use std::collections::HashSet;
use std::sync::Arc;

/// Which arrays are of the derivative alone: those with numbers that the function it was made of did not have. Values
/// that the kernel has, too, keep their bits.
#[derive(Clone, Copy)]
pub struct Cotangents {
    since: u32,
}

impl Cotangents {
    /// Of a function that was made of one whose next number was `since`.
    pub fn since(since: u32) -> Cotangents {
        Cotangents { since }
    }

    fn has(self, b: BufId) -> bool {
        b.0 >= self.since
    }
}

/// A function without redundant and dead computations.
pub fn tidied(func: Function, new: Cotangents) -> Function {
    let mut func = hoist::hoisted(func);
    func.body = together::together(&func.body.clone(), &mut func.next_id);
    let body = func.body.clone();
    func.body = short::written_out(&block(&body, new, &mut func));
    under_own_names(func)
}

/// The function with local arrays under names of their own.
pub fn under_own_names(mut func: Function) -> Function {
    func.body = named_apart(&func.body, &func);
    func
}

/// Local arrays under names of their own: strategies say which one they mean.
fn named_apart(body: &Stmt, func: &Function) -> Stmt {
    let mut taken: HashSet<Name> = func.params.iter().map(|p| p.name().clone()).collect();
    visit::map_stmts(body, &mut |s| {
        let Some((buffer, inside)) = s.as_alloc() else { return s };
        if taken.insert(buffer.name.clone()) {
            return s;
        }
        let other =
            (2..).map(|n| Name::from(format!("{}{n}", buffer.name))).find(|n| taken.insert(n.clone()));
        let buffer = Arc::new(Buffer { name: other.unwrap_or_default(), ..(**buffer).clone() });
        s.with_kind(StmtKind::Alloc { buffer, body: inside.clone() })
    })
}

/// What a statement itself touches, without those within it.
fn touches(s: &Stmt) -> impl Iterator<Item = BufId> {
    let read = s.exprs().into_iter().flat_map(buffers_of);
    let all: Vec<BufId> = s.touches().iter().filter_map(|t| t.0.buffer()).chain(read).collect();
    all.into_iter()
}

/// A line of a block: a statement, or what is open until its end (a `let`, a local array) without its body.
#[derive(Clone)]
enum Line {
    Open(Stmt),
    Do(Stmt),
}

impl Line {
    fn compute(&self) -> Option<&Compute> {
        match self {
            Line::Do(s) => s.as_compute(),
            Line::Open(_) => None,
        }
    }

    /// The arrays that it touches, and those that it writes.
    fn touched(&self) -> HashSet<BufId> {
        match self {
            Line::Do(s) => touched(s),
            Line::Open(s) => touches(s).collect(),
        }
    }

    fn written(&self) -> HashSet<BufId> {
        match self {
            Line::Do(s) => written(s),
            Line::Open(_) => HashSet::new(),
        }
    }
}

fn lines(s: &Stmt, out: &mut Vec<Line>) {
    if let Some(list) = s.as_seq() {
        return list.iter().for_each(|c| lines(c, out));
    }
    let body = s.as_alloc().map(|a| a.1).or_else(|| s.as_let().map(|l| l.2));
    match body {
        Some(body) => {
            out.push(Line::Open(s.clone()));
            lines(body, out);
        }
        None => out.push(Line::Do(s.clone())),
    }
}

/// The statement that lines are. Arrays that nothing uses any more are gone.
fn joined(all: Vec<Line>) -> Stmt {
    let mut rest: Vec<Stmt> = Vec::new();
    // What the lines behind touch, all of which are within what is open before them.
    let mut used: HashSet<BufId> = HashSet::new();
    for line in all.into_iter().rev() {
        let own = line.touched();
        match line {
            Line::Do(s) => rest.push(s),
            Line::Open(s) => {
                rest.reverse();
                let body = Stmt::seq(std::mem::take(&mut rest));
                let kind = match (s.as_alloc(), s.as_let()) {
                    (Some((b, _)), _) if !used.contains(&b.id) => None,
                    (Some((b, _)), _) => Some(StmtKind::Alloc { buffer: b.clone(), body: body.clone() }),
                    (_, Some((b, v, _))) => {
                        Some(StmtKind::Let { binder: b.clone(), value: v.clone(), body: body.clone() })
                    }
                    _ => None,
                };
                rest.push(kind.map_or(body, |k| s.with_kind(k)));
            }
        }
        used.extend(own);
    }
    rest.reverse();
    Stmt::seq(rest)
}

fn block(s: &Stmt, new: Cotangents, func: &mut Function) -> Stmt {
    let mut all = Vec::new();
    lines(s, &mut all);
    for line in &mut all {
        if let Line::Do(s) = line {
            let inner: Vec<Stmt> = s.children().map(|c| block(c, new, func)).collect();
            if !inner.is_empty() {
                *s = s.with_children(inner);
            }
        }
    }
    factor::factored(&mut all);
    chosen::visited(&mut all, new, &mut func.next_id);
    outside::taken(&mut all, new, &mut func.next_id);
    dead::removed(&mut all);
    merge::merged(&mut all, &mut func.next_id);
    inline::inlined(&mut all);
    merge::merged(&mut all, &mut func.next_id);
    outside::taken(&mut all, new, &mut func.next_id);
    share::shared(&mut all, func);
    all.retain(|l| !l.compute().is_some_and(keeps_its_target));
    direct::written(&mut all, &direct::given(&func.params));
    ahead::read(&mut all, new, func);
    late::moved(&mut all, func);
    joined(all)
}

/// Whether every element becomes what it is.
fn keeps_its_target(c: &Compute) -> bool {
    let own = |(target, value): (&lathe_ir::Access, &Expr)| matches!(value.kind(), lathe_ir::ExprKind::Load(a) if a.view == target.view && a.indices == target.indices);
    c.update.is_none()
        && c.dims.iter().all(|d| d.combine == Combine::Concat)
        && c.targets.iter().zip(&c.values).all(own)
}

/// A compute that gives every point of a box an element of its own: one target, whose subscripts are its indices.
fn is_map(c: &Compute) -> bool {
    c.dims.iter().all(|d| d.combine == Combine::Concat) && c.guard.is_none() && names_its_points(c)
}

/// As [`is_map`], of elements with some constant subscripts.
fn is_map_of_plane(c: &Compute) -> bool {
    let free = |t: &Access| {
        let indices = t.indices.iter().filter(|i| i.as_int().is_none()).cloned().collect();
        Access { indices, ..t.clone() }
    };
    is_map(&Compute { targets: c.targets.iter().map(free).collect(), ..c.clone() })
}

/// Whether the subscripts of the target are the free indices, each once.
fn names_its_points(c: &Compute) -> bool {
    let [target] = &c.targets[..] else { return false };
    let free: Vec<VarId> = free(c).map(|d| d.binder.id).collect();
    let named: Vec<VarId> = target.indices.iter().filter_map(Expr::as_var).collect();
    let all: HashSet<VarId> = named.iter().copied().collect();
    let bounds = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]);
    matches!(target.view, View::Buffer(_))
        && c.values.len() == 1
        && named.len() == target.indices.len()
        && named.len() == free.len()
        && all.len() == named.len()
        && free.iter().all(|v| all.contains(v))
        && bounds.into_iter().all(|e| loads_of(e).is_empty() && visit::vars_of(e).is_disjoint(&all_of(c)))
}

fn all_of(c: &Compute) -> HashSet<VarId> {
    c.dims.iter().map(|d| d.binder.id).collect()
}

fn free(c: &Compute) -> impl Iterator<Item = &Dim> {
    c.dims.iter().filter(|d| d.combine == Combine::Concat)
}

fn same_range(a: &Dim, b: &Dim) -> bool {
    Linear::of(&a.lo) == Linear::of(&b.lo) && Linear::of(&a.hi) == Linear::of(&b.hi)
}

fn loads_from(e: &Expr, b: BufId) -> Vec<Access> {
    let mut out = Vec::new();
    for_each_load(e, &mut |a| out.extend((a.view.buffer() == Some(b)).then(|| a.clone())));
    out
}
