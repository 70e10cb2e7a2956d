//! A part of a function that computes blocks of its outputs, and nothing else: computes restricted to the indices that
//! the blocks need, backwards from the outputs.

use lathe_ir::interp::evaluate;
use lathe_ir::visit::{loads_of, vars_of, walk, walk_expr};
use lathe_ir::{
    Access, BufId, Combine, Compute, Dim, Expr, Function, Loop, Mode, Stmt, StmtKind, VarId, View, build,
};
use lathe_model::count::Values;
use lathe_poly::{Interval, Ranges};
use lathe_runtime::fill::Random;
use std::collections::{HashMap, HashSet};

/// A block of one output: half-open per dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The parameter's position.
    pub param: usize,
    pub ranges: Vec<(i64, i64)>,
}

/// Blocks of all outputs, and the function that computes them, and only them.
#[derive(Clone, Debug)]
pub struct Sample {
    pub func: Function,
    pub blocks: Vec<Block>,
}

/// The longest block along the last dimension: a vector of most types on most machines, and a bit of the next.
const RUN: i64 = 20;

/// Blocks at the corners and at random places, as many as the work allows, and at most so many samples: each is for a
/// run of its own. None where even one is too much: where the function is not made of computes, or has few results.
pub fn samples(func: &Function, sizes: &Values, seed: u64, most: f64, runs: usize) -> Vec<Sample> {
    let Some(shapes) = outputs(func, sizes) else { return Vec::new() };
    let mut random = Random::new(seed ^ 0x5EED);
    let whole = work(&func.body, sizes);
    let (mut out, mut used) = (Vec::<Sample>::new(), 0f64);
    for k in 0..runs {
        let mut blocks = Vec::new();
        for (param, shape) in &shapes {
            let ranges = shape.iter().enumerate().map(|(d, n)| {
                let long = if d + 1 == shape.len() { RUN.min(*n) } else { 1 };
                let last = n - long;
                let lo = match k {
                    0 => 0,
                    1 => last,
                    _ => random.below(last as u64 + 1) as i64,
                };
                (lo, lo + long)
            });
            blocks.push(Block { param: *param, ranges: ranges.collect() });
        }
        if out.iter().any(|s| s.blocks == blocks) {
            continue;
        }
        let Some(body) = part(func, sizes, &blocks) else { return Vec::new() };
        let cost = work(&body, sizes);
        // Half of the whole is not a sample of it.
        if cost > whole / 2.0 {
            continue;
        }
        used += cost;
        if used > most {
            break;
        }
        out.push(Sample { func: Function { body, ..func.clone() }, blocks });
    }
    out
}

/// The outputs that have elements, with their shapes.
fn outputs(func: &Function, sizes: &Values) -> Option<Vec<(usize, Vec<i64>)>> {
    let mut out = Vec::new();
    for (n, p) in func.params.iter().enumerate().filter(|(_, p)| p.mode != Mode::In) {
        let shape: Option<Vec<i64>> = p.array()?.extents.iter().map(|e| evaluate(e, sizes)).collect();
        let shape = shape?;
        if !shape.contains(&0) {
            out.push((n, shape));
        }
    }
    Some(out)
}

/// About how many expressions a statement evaluates: never fewer, if its loops end.
pub fn work(s: &Stmt, sizes: &Values) -> f64 {
    Cost { ranges: of_sizes(sizes), known: sizes.keys().copied().collect() }.of(s)
}

/// What is known where sizes have these values.
fn of_sizes(sizes: &Values) -> Ranges {
    let mut ranges = Ranges::default();
    sizes.iter().for_each(|(v, n)| ranges.enter_let(*v, &build::index(*n)));
    ranges
}

struct Cost {
    ranges: Ranges,
    /// Sizes, and variables that depend on nothing else: not on data, nor on values of scalar parameters.
    known: HashSet<VarId>,
}

impl Cost {
    fn knows(&self, e: &Expr) -> bool {
        loads_of(e).is_empty() && vars_of(e).iter().all(|v| self.known.contains(v))
    }

    fn trips(&mut self, v: VarId, lo: &Expr, hi: &Expr, step: i64) -> f64 {
        let (first, end) = (self.ranges.range(lo).lo, self.ranges.range(hi).hi);
        self.ranges.enter_loop(v, lo, hi);
        if !self.knows(lo) || !self.knows(hi) {
            return f64::INFINITY;
        }
        self.known.insert(v);
        ((end - first) as f64 / step.max(1) as f64).max(0.0).ceil()
    }

    fn of(&mut self, s: &Stmt) -> f64 {
        let own: f64 = s.evaluated().into_iter().map(nodes).sum::<f64>() + 1.0;
        if let Some(c) = s.as_compute() {
            let mut n = 1.0;
            for d in &c.dims {
                let trips = self.trips(d.binder.id, &d.lo, &d.hi, 1);
                n = if trips == 0.0 { 0.0 } else { n * trips };
            }
            return 1.0 + n * own;
        }
        if let Some(l) = s.as_loop() {
            let trips = self.trips(l.binder.id, &l.lo, &l.hi, l.step);
            return if trips == 0.0 { own } else { own + trips * self.of(&l.body) };
        }
        if matches!(s.kind(), StmtKind::While { .. }) {
            return f64::INFINITY;
        }
        if let Some((binder, value, _)) = s.as_let() {
            self.ranges.enter_let(binder.id, value);
            if self.knows(value) {
                self.known.insert(binder.id);
            }
        }
        own + s.children().map(|c| self.of(c)).sum::<f64>()
    }
}

/// Nodes of an expression.
fn nodes(e: &Expr) -> f64 {
    let mut n = 0f64;
    walk_expr(e, &mut |_| n += 1.0);
    n
}

/// What of a buffer is needed by what follows: where it lies in each dimension, or all of it.
type Need = Option<Vec<Interval>>;

struct Slicer {
    ranges: Ranges,
    need: HashMap<BufId, Need>,
}

/// The body restricted to what blocks need.
fn part(func: &Function, sizes: &Values, blocks: &[Block]) -> Option<Stmt> {
    let mut s = Slicer { ranges: of_sizes(sizes), need: HashMap::new() };
    for b in blocks {
        let buffer = func.params.get(b.param)?.array()?;
        let ranges = b.ranges.iter().map(|(lo, hi)| Interval::new(*lo, *hi - 1));
        s.need.insert(buffer.id, Some(ranges.collect()));
    }
    Some(s.stmt(&func.body).unwrap_or_else(Stmt::empty))
}

impl Slicer {
    /// The statement as far as it is needed.
    fn stmt(&mut self, s: &Stmt) -> Option<Stmt> {
        if let Some(all) = s.as_seq() {
            // Backwards: what follows says what is needed.
            let mut kept: Vec<Stmt> = all.iter().rev().filter_map(|s| self.stmt(s)).collect();
            kept.reverse();
            return Some(Stmt::seq(kept));
        }
        if let Some((binder, value, body)) = s.as_let() {
            self.ranges.enter_let(binder.id, value);
            let body = self.stmt(body)?;
            self.read(value);
            return Some(s.with_children(vec![body]));
        }
        if let Some((buffer, body)) = s.as_alloc() {
            let body = self.stmt(body)?;
            self.need.remove(&buffer.id);
            buffer.extents.iter().for_each(|e| self.read(e));
            return Some(s.with_children(vec![body]));
        }
        if let Some(c) = s.as_compute() {
            return Some(s.with_kind(StmtKind::Compute(self.compute(c)?)));
        }
        // Checks and facts write nothing: the run that is compared was checked, and the interpreter checks subscripts.
        if !self.is_written(s) {
            return None;
        }
        if let Some(l) = s.as_loop()
            && let Some(positions) = independent(l)
        {
            return self.iterations(s, l, &positions);
        }
        let mut exprs = Vec::new();
        walk(s, &mut |s, _| {
            exprs.extend(s.exprs().into_iter().cloned());
            let read = s.accesses().filter(|(_, mode)| mode.reads());
            exprs.extend(read.map(|(a, _)| build::load(a.clone())));
            true
        });
        exprs.iter().for_each(|e| self.read(e));
        Some(s.clone())
    }

    /// The iterations of a loop that are needed, each of which has elements of its own.
    fn iterations(&mut self, s: &Stmt, l: &Loop, positions: &HashMap<BufId, usize>) -> Option<Stmt> {
        let needed = positions.iter().filter_map(|(b, at)| Some((self.need.get(b)?, *at)));
        let (lo, hi) = match hull(needed.map(|(need, at)| need.as_ref()?.get(at).copied())) {
            Some(all) => (above(&l.lo, all), below(&l.hi, all)),
            None => (l.lo.clone(), l.hi.clone()),
        };
        self.ranges.enter_loop(l.binder.id, &lo, &hi);
        let body = self.stmt(&l.body)?;
        self.read(&l.lo);
        self.read(&l.hi);
        Some(s.with_kind(StmtKind::Loop(Loop { lo, hi, body, ..l.clone() })))
    }

    /// Whether a statement writes something that is needed.
    fn is_written(&self, s: &Stmt) -> bool {
        let mut written = false;
        walk(s, &mut |s, _| {
            written |= targets(s).into_iter().any(|b| self.need.contains_key(&b));
            true
        });
        written
    }

    /// All of what an expression loads is needed, as far as its subscripts do not tell.
    fn read(&mut self, e: &Expr) {
        for a in loads_of(e) {
            let Some(b) = a.view.buffer() else { continue };
            let plain = matches!(a.view, View::Buffer(_));
            let new: Need = plain.then(|| a.indices.iter().map(|i| self.ranges.range(i)).collect());
            let all = match (self.need.remove(&b), new) {
                (None, new) => new,
                (Some(Some(old)), Some(new)) if old.len() == new.len() => {
                    Some(old.iter().zip(&new).map(|(x, y)| x.join(*y)).collect())
                }
                _ => None,
            };
            self.need.insert(b, all);
        }
    }

    fn compute(&mut self, c: &Compute) -> Option<Compute> {
        let need = |t: &Access| t.view.buffer().and_then(|b| self.need.get(&b)).cloned();
        let wanted: Vec<(&Access, Need)> = c.targets.iter().filter_map(|t| Some((t, need(t)?))).collect();
        if wanted.is_empty() {
            return None;
        }
        let mut dims: Vec<Dim> = Vec::new();
        for d in &c.dims {
            let mut d = d.clone();
            // The hull of what each target needs.
            let of = |(t, need): &(&Access, Need)| {
                let plain = matches!(t.view, View::Buffer(_));
                let at = t.indices.iter().position(|i| plain && i.as_var() == Some(d.binder.id))?;
                need.as_ref()?.get(at).copied()
            };
            if let Some(all) = hull(wanted.iter().map(of)) {
                if d.combine == Combine::Concat {
                    d.lo = above(&d.lo, all);
                }
                if matches!(d.combine, Combine::Concat | Combine::Scan(_)) {
                    d.hi = below(&d.hi, all);
                }
            }
            self.ranges.enter_loop(d.binder.id, &d.lo, &d.hi);
            dims.push(d);
        }
        let new = Compute { dims, ..c.clone() };
        let s = Stmt::of(StmtKind::Compute(new.clone()));
        s.exprs().into_iter().for_each(|e| self.read(e));
        for (a, _) in s.accesses().filter(|(_, mode)| mode.reads()) {
            self.read(&build::load(a.clone()));
        }
        Some(new)
    }
}

/// The smallest range that holds all; none where one is not known, or there is none.
fn hull(all: impl Iterator<Item = Option<Interval>>) -> Option<Interval> {
    all.collect::<Option<Vec<_>>>()?.into_iter().reduce(Interval::join)
}

/// A first index, from the start of what is needed.
fn above(lo: &Expr, needed: Interval) -> Expr {
    i64::try_from(needed.lo).map_or(lo.clone(), |n| build::max(lo.clone(), build::index(n)))
}

/// An end of indices, up to the end of what is needed.
fn below(hi: &Expr, needed: Interval) -> Expr {
    i64::try_from(needed.hi + 1).map_or(hi.clone(), |n| build::min(hi.clone(), build::index(n)))
}

/// For a loop each of whose iterations touches elements of its own of all that it writes: of each of these buffers the
/// dimension that the loop runs through.
fn independent(l: &Loop) -> Option<HashMap<BufId, usize>> {
    let (mut written, mut inside, mut accesses) = (HashMap::new(), Vec::new(), Vec::new());
    walk(&l.body, &mut |s, _| {
        written.extend(targets(s).into_iter().map(|b| (b, None)));
        inside.extend(s.allocated().map(|b| b.id));
        accesses.extend(s.accesses().map(|(a, _)| a.clone()));
        accesses.extend(s.exprs().into_iter().flat_map(loads_of));
        true
    });
    inside.iter().for_each(|b| {
        written.remove(b);
    });
    for a in &accesses {
        let Some(at) = a.view.buffer().and_then(|b| written.get_mut(&b)) else { continue };
        let plain = matches!(a.view, View::Buffer(_));
        let here = a.indices.iter().position(|i| plain && i.as_var() == Some(l.binder.id))?;
        if *at.get_or_insert(here) != here {
            return None;
        }
    }
    let serial = l.step == 1 && l.exec == lathe_ir::Executor::Serial;
    written.into_iter().map(|(b, at)| Some((b, at?))).collect::<Option<_>>().filter(|_| serial)
}

/// The buffers that a statement itself writes.
fn targets(s: &Stmt) -> Vec<BufId> {
    s.written().filter_map(View::buffer).collect()
}

/// The row-major positions of a block's elements.
pub fn positions(b: &Block, shape: &[usize]) -> Vec<usize> {
    let mut out = vec![0usize];
    for ((lo, hi), n) in b.ranges.iter().zip(shape) {
        let run = |at: &usize| (*lo..*hi).map(move |i| at * n + i as usize).collect::<Vec<_>>();
        out = out.iter().flat_map(run).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;
    use lathe_ir::interp::{self, ArrayValue};

    /// Sampled blocks hold what the whole function computes there.
    #[test]
    fn blocks_are_what_the_whole_computes_there() {
        for (text, sizes) in [
            (
                "kernel k(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }",
                [9, 40, 7],
            ),
            (
                "kernel k(A: f32[M, K], B: f32[N]) -> (C: f32[M, K], s: f32) { var t: f32[M, K]\n\
              t[i, j] = 2 * A[i, j]\n C[i, j] = t[i, j] + t[i, K - 1 - j]\n s = sum[n in 0..K](t[0, n]) }",
                [9, 30, 7],
            ),
            (
                "kernel k(U: inout f32[M, K], B: f32[N]) { U[i, j] = U[i, j] + U[M - 1 - i, j]\n U[i, j] += B[0] }",
                [9, 30, 7],
            ),
            (
                "kernel k(A: f32[M, K], B: f32[N]) -> (C: f32[M, K]) { C[i, j] = scan(sum)[j](A[i, j]) }",
                [9, 30, 7],
            ),
            (
                "kernel k(A: f32[K], B: f32[N]) -> (C: f32[M]) { C[i] = 0\n C[i] += A[k] * B[i % N] where k in 0..K }",
                [90, 3, 7],
            ),
            (
                "kernel k(A: f32[M, K], B: f32[N]) -> (C: f32[M]) { var m: f32[M]\n m[i] = max[k](A[i, k])\n\
              var e: f32[M, K]\n e[i, k] = exp(A[i, k] - m[i])\n C[i] = sum[k](e[i, k]) }",
                [90, 30, 1],
            ),
            (
                "kernel k(A: f32[M, K], B: f32[N]) -> (C: f32[M]) { for i in 0..M { C[i] = A[i, 0] }\n C[i] += A[i, k] }",
                [50, 4, 7],
            ),
            // A conversion to a narrow type wraps within a block.
            (
                "kernel k(A: f32[M, K], B: f32[N]) -> (C: f32[M, K]) { var t: f32[K]\n t[j] = 2 * A[0, j]\n\
              C[i, j] = t[index(u8(j))] }",
                [3, 300, 7],
            ),
        ] {
            let p = Program::from_text("k.lathe", text).unwrap_or_else(|f| panic!("{f}"));
            let func = p.kernel(None).unwrap();
            let named = [("M", sizes[0]), ("K", sizes[1]), ("N", sizes[2])];
            let given =
                named.iter().filter(|(n, _)| func.size(n).is_some()).map(|(n, v)| (n.to_string(), *v));
            let given = crate::Given { sizes: given.collect(), ..Default::default() };
            let data = crate::data::make(func, &given).unwrap();
            let values = || -> Vec<ArrayValue> {
                let all = crate::convert::to_values(&data.arrays).unwrap();
                let undefined = |(p, v): (&lathe_ir::Param, ArrayValue)| match p.mode {
                    Mode::Out => ArrayValue::undefined(v.ty.clone(), &v.shape),
                    _ => v,
                };
                func.params.iter().zip(all).map(undefined).collect()
            };
            let mut whole = values();
            interp::run(&p.lang.module, func, &mut whole, &interp::Options::default()).unwrap();
            let mut seen = 0;
            for sample in samples(func, &data.sizes, 3, 1e9, 8) {
                let mut some = values();
                interp::run(&p.lang.module, &sample.func, &mut some, &interp::Options::default()).unwrap();
                for b in &sample.blocks {
                    for at in positions(b, &whole[b.param].shape) {
                        assert!(some[b.param].is_defined(at), "{text}");
                        assert_eq!(some[b.param].leaf(at, 0), whole[b.param].leaf(at, 0), "{text}");
                        seen += 1;
                    }
                }
            }
            assert!(seen > 20, "{text}");
        }
    }

    /// What one block takes is a small part of the whole.
    #[test]
    fn blocks_are_small() {
        let text =
            "kernel k(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }";
        let p = Program::from_text("k.lathe", text).unwrap_or_else(|f| panic!("{f}"));
        let func = p.kernel(None).unwrap();
        let sizes: Values = func.sizes.iter().map(|b| (b.id, 1 << 20)).collect();
        assert!(samples(func, &sizes, 1, 1e6, 8).is_empty());
        let s = samples(func, &sizes, 1, 2e9, 8);
        assert!(s.len() >= 2 && s.iter().map(|s| work(&s.func.body, &sizes)).sum::<f64>() <= 2e9);
        assert!(work(&func.body, &sizes) > 1e18);
        assert_eq!(s[0].blocks[0].ranges, [(0, 1), (0, RUN)]);
        assert_eq!(s[1].blocks[0].ranges, [((1 << 20) - 1, 1 << 20), ((1 << 20) - RUN, 1 << 20)]);
        // The same seed, the same blocks.
        assert_eq!(samples(func, &sizes, 1, 2e9, 8)[1].blocks, s[1].blocks);
    }
}
