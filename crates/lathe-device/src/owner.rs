//! Which thread owns an element of a buffer that a block has in registers.
//!
//! Every phase must reach the buffer through nests of threads of one shape. In each dimension, subscripts
//! `c*t + r + c*n*q` with `0 ≤ r < c` give element `(q, t, r)` to thread `t` of `n`, which keeps it as `c*q + r` (block-cyclic
//! distribution with blocks of `c`); several thread variables may be the digits of one `t`, as where a warp is a rectangle of threads. If
//! every thread variable occurs, no two threads share an element; then each keeps its part in registers of its own, and
//! the thread's variables drop out of the subscripts.

use crate::phase::{Chain, each_access};
use lathe_ir::build::index;
use lathe_ir::lower::resolve;
use lathe_ir::visit::{map_accesses, vars_of};
use lathe_ir::{Access, BufId, Buffer, Expr, Layout, Name, Space, Stmt, VarId};
use lathe_poly::{Linear, Ranges};
use std::collections::HashMap;
use std::sync::Arc;

/// How a dimension of the buffer is spread: over thread loops of these numbers, the finest digit first, in blocks of
/// `block`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Numbers and extents of the loops.
    pub over: Vec<(usize, i64)>,
    pub block: i64,
    pub threads: i64,
}

/// A buffer that is spread over the threads.
#[derive(Clone, Debug)]
pub struct Owned {
    spread: Vec<Option<Spread>>,
    /// Of every nest: which number a thread variable has.
    number: HashMap<VarId, usize>,
    /// One thread's part.
    pub part: Arc<Buffer>,
}

/// Decides whether a block's buffer of the given constant extents can be spread over at most `threads` threads.
pub fn owned(
    buffer: &Arc<Buffer>,
    extents: &[i64],
    body: &Stmt,
    ranges: &Ranges,
    threads: i64,
) -> Option<Owned> {
    let mut all = Accesses::default();
    each_access(buffer.id, body, &mut ranges.clone(), &mut |a, chain, ranges| all.access(a, chain, ranges))?;
    let (shape, spread) = (all.shape?, all.spread?);
    let product = shape.iter().try_fold(1i64, |n, e| n.checked_mul(*e))?;
    let every = (0..shape.len())
        .all(|k| shape[k] <= 1 || spread.iter().flatten().any(|s| s.over.iter().any(|o| o.0 == k)));
    if product > threads || !every {
        return None;
    }
    let parts = extents.iter().zip(&spread).map(|(e, s)| match s {
        Some(s) => {
            let turn = s.block * s.threads;
            index(s.block * ((e + turn - 1) / turn).max(1))
        }
        None => index(*e),
    });
    let part = Buffer {
        extents: parts.collect(),
        space: Space::Register,
        layout: Layout::row_major(),
        ..(**buffer).clone()
    };
    Some(Owned { spread, number: all.number, part: Arc::new(part) })
}

/// The names of the thread loops around the accesses to a buffer, and per dimension how these spread it; `None` where
/// accesses disagree, or threads share elements.
pub fn spread(buffer: BufId, body: &Stmt, ranges: &Ranges) -> Option<(Vec<Name>, Vec<Option<Spread>>)> {
    let mut all = Accesses::default();
    each_access(buffer, body, &mut ranges.clone(), &mut |a, chain, ranges| all.access(a, chain, ranges))?;
    Some((all.names?, all.spread?))
}

impl Owned {
    /// The body with every access to the buffer as one to the thread's part.
    pub fn rewrite(&self, body: &Stmt) -> Stmt {
        map_accesses(body, &mut |a| {
            if a.view.buffer() != Some(self.part.id) {
                return None;
            }
            let (id, indices) = resolve(a).ok()?;
            let local = indices.iter().zip(&self.spread).map(|(i, s)| match s {
                Some(s) => {
                    let (turns, rest) =
                        split(&Linear::of(i), s.block * s.threads, &|v| self.number.contains_key(&v))?;
                    Some(turns.scaled(s.block)?.plus(&rest, 1)?.to_expr())
                }
                None => Some(i.clone()),
            });
            let indices = local.collect::<Option<Vec<_>>>()?;
            Some(Access { view: lathe_ir::View::Buffer(id), indices, ..a.clone() })
        })
    }
}

/// `form = turn * turns + rest` without the threads' terms.
fn split(form: &Linear, turn: i64, is_thread: &dyn Fn(VarId) -> bool) -> Option<(Linear, Linear)> {
    let (mut turns, mut rest) =
        (Linear::constant(form.constant.div_euclid(turn)), Linear::constant(form.constant.rem_euclid(turn)));
    for (atom, k) in &form.terms {
        match atom.as_var() {
            Some(v) if is_thread(v) => {}
            _ if k % turn == 0 => turns.add_term(atom.clone(), k / turn)?,
            _ => rest.add_term(atom.clone(), *k)?,
        }
    }
    Some((turns, rest))
}

/// What the accesses seen so far have in common.
#[derive(Default)]
struct Accesses {
    /// Extents of the nests of threads.
    shape: Option<Vec<i64>>,
    spread: Option<Vec<Option<Spread>>>,
    number: HashMap<VarId, usize>,
    /// What the loops are called, if all nests agree.
    names: Option<Vec<Name>>,
}

impl Accesses {
    /// `None` where an access rules the buffer out.
    fn access(&mut self, a: &Access, chain: &Chain, ranges: &Ranges) -> Option<()> {
        let shape = chain.dims.iter().map(|d| d.most).collect::<Option<Vec<_>>>()?;
        let plain = |d: &crate::phase::Dim| d.lo.as_int() == Some(0) && d.step == 1;
        if !chain.dims.iter().all(plain) || self.shape.as_ref().is_some_and(|s| *s != shape) {
            return None;
        }
        let names: Vec<Name> = chain.dims.iter().map(|d| d.binder.name.clone()).collect();
        self.names = match &self.names {
            Some(before) if self.shape.is_some() && *before != names => Some(Vec::new()),
            _ => Some(names),
        };
        self.number.extend(chain.dims.iter().enumerate().map(|(k, d)| (d.binder.id, k)));
        let (_, indices) = resolve(a).ok()?;
        let spread =
            indices.iter().map(|i| spread_of(i, chain, &shape, ranges)).collect::<Option<Vec<_>>>()?;
        if self.spread.as_ref().is_some_and(|s| *s != spread) {
            return None;
        }
        (self.shape, self.spread) = (Some(shape), Some(spread));
        Some(())
    }
}

fn spread_of(i: &Expr, chain: &Chain, shape: &[i64], ranges: &Ranges) -> Option<Option<Spread>> {
    let position = |v: VarId| chain.dims.iter().position(|d| d.binder.id == v);
    let form = Linear::of(i);
    let mut digits: Vec<(i64, usize)> = Vec::new();
    for (atom, k) in &form.terms {
        match atom.as_var().and_then(position) {
            Some(over) if *k > 0 => digits.push((*k, over)),
            Some(_) => return None,
            None if vars_of(atom).into_iter().any(|v| position(v).is_some()) => return None,
            None => {}
        }
    }
    digits.sort_unstable();
    let Some(&(block, _)) = digits.first() else { return Some(None) };
    let mut turn = block;
    for (factor, over) in &digits {
        if *factor != turn {
            return None;
        }
        turn = turn.checked_mul(shape[*over])?;
    }
    if turn == 0 {
        return None;
    }
    let (threads, over) = (turn / block, digits.iter().map(|d| (d.1, shape[d.1])).collect());
    let (_, rest) = split(&form, turn, &|v| position(v).is_some())?;
    let (lo, hi) = crate::phase::bounds(ranges, &rest.to_expr());
    (lo? >= 0 && hi? < block).then_some(Some(Spread { over, block, threads }))
}
