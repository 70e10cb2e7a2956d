//! Boxes of elements: what a set of accesses touches, in terms of what is fixed outside.
//!
//! Where finer tiles are looped over outside of coarser ones, what lies inside touches every n-th element only. A box
//! may have such a step per dimension: then it holds the elements `lo, lo + step, …`, and not those between.

use super::make;
use super::scope::{Around, Found};
use crate::work::Work;
use lathe_ir::expr::{Access, Expr, View};
use lathe_ir::{BinOp, BufId, Buffer, ExprKind, Function, Stmt, VarId, build, visit};
use lathe_poly::Linear;
use lathe_poly::bounds::{self, Ranged};
use lathe_poly::gcd;
use lathe_strategy::evidence::Range;
use std::collections::HashSet;

/// Per dimension the elements `lo..min(hi)`, or, with a step, `lo + step * (0..min(hi) - lo)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    pub lo: Vec<Linear>,
    /// `lo` plus the number of elements; the least of the forms.
    pub hi: Vec<Vec<Linear>>,
    pub step: Vec<i64>,
}

/// Elements that a clamped subscript is moved by, as far as boxes look.
const CLAMPED: i64 = 8;

/// What one access touches: lower (maximum of) and exclusive upper (minimum of) forms per dimension.
struct Bounds {
    lo: Vec<Vec<Linear>>,
    hi: Vec<Vec<Linear>>,
}

fn bounds_of(
    f: &Found,
    loops: &[Ranged],
    inner: &HashSet<VarId>,
    rank: usize,
    (around, sizes): (&[Ranged], &HashSet<VarId>),
) -> Bounds {
    let keep = |forms: Vec<Linear>| -> Vec<Linear> {
        forms.into_iter().filter(|x| !x.mentions(inner) && !x.reads()).collect()
    };
    let mut b = Bounds { lo: Vec::new(), hi: Vec::new() };
    for d in 0..rank {
        let (mut lo, mut hi) = (Vec::new(), Vec::new());
        if let (false, Some(x)) = (f.opaque, f.indices.get(d)) {
            let both = |plain: Vec<Linear>, low: bool| {
                keep(plain.into_iter().chain(clamped(x, loops, around, sizes, low)).collect())
            };
            lo = both(bounds::lowers(x, loops), true);
            hi = both(bounds::uppers(x, loops), false).iter().filter_map(|x| x.offset(1)).collect();
        }
        b.lo.push(lo);
        b.hi.push(hi);
    }
    b
}

/// A subscript that is clamped to the end of its array is not below what bounds the plain one, up to a constant, where the end
/// is not; likewise above.
fn clamped(
    x: &Linear,
    loops: &[Ranged],
    around: &[Ranged],
    sizes: &HashSet<VarId>,
    low: bool,
) -> Vec<Linear> {
    let [(atom, 1)] = x.terms.as_slice() else { return Vec::new() };
    let ExprKind::Binary(op, a, b) = atom.kind() else { return Vec::new() };
    if *op != if low { BinOp::Min } else { BinOp::Max } {
        return Vec::new();
    }
    let [Some(a), Some(b)] = [a, b].map(|e| bounds::normal(e).offset(x.constant)) else { return Vec::new() };
    let mut out = Vec::new();
    for (side, other) in [(&a, &b), (&b, &a)] {
        let forms = if low { bounds::lowers(side, loops) } else { bounds::uppers(side, loops) };
        out.extend(forms.iter().filter_map(|f| {
            (0..=CLAMPED).filter_map(|k| f.offset(if low { -k } else { k })).find(|f| {
                let gap = if low { other.minus(f) } else { f.minus(other) };
                gap.is_some_and(|g| bounds::nonneg(&g, around, sizes))
            })
        }));
    }
    out
}

/// Keeps the forms that all bounds have up to a constant, with the constant that `pick` chooses.
fn common(all: Vec<&Vec<Linear>>, pick: fn(i64, i64) -> i64) -> Vec<Linear> {
    let Some((first, rest)) = all.split_first() else { return Vec::new() };
    let mut out = Vec::new();
    for f in first.iter() {
        let mut constant = Some(f.constant);
        for other in rest {
            let twin = other.iter().find(|g| g.same_terms(f));
            constant = constant.zip(twin).map(|(c, g)| pick(c, g.constant));
        }
        out.extend(constant.map(|constant| Linear { constant, ..f.clone() }));
    }
    out
}

impl Region {
    /// The smallest box known to hold all the accesses, with the loops beyond the first `fixed` ones of each
    /// and all of `inner` eliminated; never beyond `extents`.
    pub fn of(
        found: &[&Found],
        fixed: usize,
        around: &[Ranged],
        inner: &HashSet<VarId>,
        extents: &[Expr],
        sizes: &HashSet<VarId>,
    ) -> Region {
        let all: Vec<Bounds> = found
            .iter()
            .map(|f| {
                let loops = f.loops.get(fixed..).unwrap_or(&[]);
                bounds_of(f, loops, inner, extents.len(), (around, sizes))
            })
            .collect();
        let mut region = Region { lo: Vec::new(), hi: Vec::new(), step: vec![1; extents.len()] };
        for (d, extent) in extents.iter().enumerate() {
            let extent = bounds::normal(extent);
            let mut lows = common(all.iter().map(|b| &b.lo[d]).collect(), i64::min);
            let mut highs = common(all.iter().map(|b| &b.hi[d]).collect(), i64::max);
            // The end of the array is a bound too, unless a better one is known.
            let within = |h: &Linear| extent.minus(h).is_some_and(|g| bounds::nonneg(&g, around, sizes));
            if !highs.iter().any(within) {
                highs.push(extent);
            }
            let highs = bounds::prune(highs, around, sizes);
            if lows.is_empty() {
                lows.push(Linear::constant(0));
            }
            region.lo.push(nearest(lows, &highs, around));
            region.hi.push(highs);
        }
        region
    }

    /// As [`Region::of`], with a step in dimensions where all accesses are so many elements apart; `steps` are the
    /// greatest that are wanted (0: any).
    pub fn strided(
        found: &[&Found],
        fixed: usize,
        around: &[Ranged],
        inner: &HashSet<VarId>,
        extents: &[Expr],
        sizes: &HashSet<VarId>,
        steps: Option<&[i64]>,
    ) -> Region {
        let mut region = Region::of(found, fixed, around, inner, extents, sizes);
        for (d, extent) in extents.iter().enumerate() {
            let wanted = steps.map_or(0, |s| s[d]);
            let Some((base, step)) = apart(found, fixed, inner, d, wanted) else { continue };
            // How many steps from the base.
            let count = |f: &&Found| f.indices[d].minus(&base).and_then(|x| x.divided(step));
            let Some(counts) = found.iter().map(count).collect::<Option<Vec<Linear>>>() else { continue };
            let loops = |n: usize| found[n].loops.get(fixed..).unwrap_or(&[]);
            let keep = |forms: Vec<Linear>| -> Vec<Linear> {
                forms.into_iter().filter(|x| !x.mentions(inner) && !x.reads()).collect()
            };
            let each = |of: fn(&Linear, &[Ranged]) -> Vec<Linear>| -> Vec<Vec<Linear>> {
                counts.iter().enumerate().map(|(n, c)| keep(of(c, loops(n)))).collect()
            };
            let lows = common(each(bounds::lowers).iter().collect(), i64::min);
            let highs: Vec<Linear> = common(each(bounds::uppers).iter().collect(), i64::max)
                .iter()
                .filter_map(|h| h.offset(1))
                .collect();
            if lows.is_empty() || highs.is_empty() {
                continue;
            }
            let at = |n: &Linear| base.plus(n, step);
            // No element beyond the end: unless a bound says so, the end is one.
            let room = bounds::normal(extent).minus(&base).map(|r| build::ceil_div(r.to_expr(), step));
            let within = |h: &Linear| {
                let last = h.offset(-1).as_ref().and_then(at);
                let beyond = last.and_then(|l| bounds::normal(extent).minus(&l)).and_then(|g| g.offset(-1));
                beyond.is_some_and(|g| bounds::nonneg(&g, around, sizes))
            };
            let mut highs = highs;
            if !highs.iter().any(within) {
                let Some(room) = room else { continue };
                highs.push(bounds::normal(&room));
            }
            let highs = bounds::prune(highs, around, sizes);
            let first = nearest(lows, &highs, around);
            let Some(lo) = at(&first).filter(|l| bounds::nonneg(l, around, sizes)) else { continue };
            let end = |h: &Linear| h.minus(&first).and_then(|n| lo.plus(&n, 1));
            let Some(hi) = highs.iter().map(end).collect::<Option<Vec<Linear>>>() else { continue };
            (region.lo[d], region.hi[d], region.step[d]) = (lo, hi, step);
        }
        region
    }

    /// Where an element lies in a buffer that holds the box.
    pub fn position(&self, d: usize, e: &Expr) -> Expr {
        let lo = &self.lo[d];
        let from = bounds::normal(e).minus(lo);
        if let Some(n) = from.as_ref().and_then(|x| x.divided(self.step[d])) {
            return n.to_expr();
        }
        let from = from.map_or_else(|| build::sub(e.clone(), lo.to_expr()), |l| l.to_expr());
        if self.step[d] == 1 { from } else { build::floor_div(from, build::index(self.step[d])) }
    }

    /// The element at a position of such a buffer.
    pub fn element(&self, d: usize, v: &Expr) -> Expr {
        let at = self.lo[d].plus(&bounds::normal(v), self.step[d]);
        let spelt = || build::add(self.lo[d].to_expr(), build::mul(v.clone(), build::index(self.step[d])));
        at.map_or_else(spelt, |l| l.to_expr())
    }

    pub fn rank(&self) -> usize {
        self.lo.len()
    }

    /// The number of elements along a dimension as forms (their minimum).
    pub fn size(&self, d: usize) -> Vec<Linear> {
        self.hi[d].iter().filter_map(|h| h.minus(&self.lo[d])).collect()
    }

    /// A constant that bounds the number of elements along a dimension.
    pub fn constant_size(&self, d: usize, around: &[Ranged]) -> Option<i64> {
        self.size(d).iter().filter_map(|s| bounds::constant_upper(s, around)).min().map(|c| c.max(0))
    }

    /// The number of elements along a dimension, never negative.
    pub fn size_expr(&self, d: usize, around: &[Ranged], sizes: &HashSet<VarId>) -> Expr {
        let forms = self.size(d);
        let e = bounds::min_expr(&forms).unwrap_or_else(|| build::index(0));
        if forms.iter().all(|f| bounds::nonneg(f, around, sizes)) {
            e
        } else {
            build::max(build::index(0), e)
        }
    }

    /// Whether the lower end is known not to be negative.
    pub fn starts_inside(&self, d: usize, around: &[Ranged], sizes: &HashSet<VarId>) -> bool {
        bounds::nonneg(&self.lo[d], around, sizes)
    }

    /// Whether every element of `o` is known to be in this box.
    pub fn contains(&self, o: &Region, around: &[Ranged], sizes: &HashSet<VarId>) -> bool {
        let le = |a: &Linear, b: &Linear| b.minus(a).is_some_and(|g| bounds::nonneg(&g, around, sizes));
        (0..self.rank()).all(|d| {
            // Where the other one begins and ends, counted in steps of this one from its first element.
            let ends: Option<(Linear, Vec<Linear>)> = if self.step[d] == o.step[d] {
                let from = o.lo[d].minus(&self.lo[d]).and_then(|g| g.divided(self.step[d]));
                from.map(|f| {
                    let ends = o.size(d).iter().filter_map(|n| f.plus(n, 1)).collect();
                    (f, ends)
                })
            } else if self.step[d] == 1 {
                let from = o.lo[d].minus(&self.lo[d]);
                from.map(|f| {
                    let end = |n: &Linear| f.plus(&n.offset(-1)?, o.step[d])?.offset(1);
                    let ends = o.size(d).iter().filter_map(end).collect();
                    (f, ends)
                })
            } else {
                None
            };
            ends.is_some_and(|(from, ends)| {
                bounds::nonneg(&from, around, sizes)
                    && self.size(d).iter().all(|h| ends.iter().any(|g| le(g, h)))
            })
        })
    }
}

/// Any lower form serves; one that gives a constant extent serves best.
fn nearest(lows: Vec<Linear>, highs: &[Linear], around: &[Ranged]) -> Linear {
    let gap = |l: &Linear| -> (bool, i64) {
        let sizes = highs.iter().filter_map(|h| h.minus(l));
        let least = sizes.filter_map(|g| bounds::constant_upper(&g, around)).min();
        (least.is_none(), least.unwrap_or(l.terms.len() as i64))
    };
    lows.into_iter().min_by_key(gap).unwrap_or(Linear::constant(0))
}

/// An element that the accesses touch in a dimension when all loops inside are at zero, and how far apart all that
/// they touch is: more than one element, and at most `wanted` if that is not 0.
fn apart(
    found: &[&Found],
    fixed: usize,
    inner: &HashSet<VarId>,
    d: usize,
    wanted: i64,
) -> Option<(Linear, i64)> {
    let mut step = wanted;
    let mut base: Option<Linear> = None;
    for f in found {
        if f.opaque {
            return None;
        }
        let mut here = f.indices.get(d)?.clone();
        for r in f.loops.get(fixed..).unwrap_or(&[]) {
            step = common_step(step, here.factor(r.var))?;
        }
        here.terms.retain(|t| t.0.as_var().is_none_or(|v| !inner.contains(&v)));
        if here.mentions(inner) || here.reads() {
            return None;
        }
        let first = base.get_or_insert_with(|| here.clone());
        step = common_step(step, here.minus(first)?.as_constant()?)?;
    }
    base.filter(|_| step > 1).map(|b| (b, step))
}

/// The greatest common divisor, where it fits 64 bits.
fn common_step(a: i64, b: i64) -> Option<i64> {
    i64::try_from(gcd(a.unsigned_abs(), b.unsigned_abs())).ok()
}

/// Whether an access touches every element of its box, with steps or without, once its loops beyond the first `fixed` have run: each
/// of them serves one dimension only, and the values of each dimension are contiguous. Knows the loops
/// that `split` makes. Loops that serve no dimension surely have iterations.
pub fn fills(f: &Found, fixed: usize) -> bool {
    dimensions(f, fixed).is_some_and(|used| others_run(f, fixed, &used))
}

fn others_run(f: &Found, fixed: usize, used: &HashSet<VarId>) -> bool {
    let inner = f.loops.get(fixed..).unwrap_or(&[]);
    // A loop that no subscript mentions does not change the box, but without iterations nothing is touched.
    inner.iter().filter(|r| !used.contains(&r.var)).all(|r| {
        let last = bounds::normal(&r.hi).minus(&bounds::normal(&r.lo)).and_then(|trips| trips.offset(-1));
        last.is_some_and(|l| lathe_poly::bounds::nonneg(&l, &f.loops, &HashSet::new()))
    })
}

/// As [`fills`], but for loops that serve no dimension and may be empty.
pub fn fills_if_run(f: &Found, fixed: usize) -> bool {
    dimensions(f, fixed).is_some()
}

/// The loops that serve a dimension; `None` where the box, with steps or without, has holes.
fn dimensions(f: &Found, fixed: usize) -> Option<HashSet<VarId>> {
    if f.guarded || f.opaque || !f.unit_steps {
        return None;
    }
    let inner = f.loops.get(fixed..).unwrap_or(&[]);
    let vars: HashSet<VarId> = inner.iter().map(|r| r.var).collect();
    let mut used: HashSet<VarId> = HashSet::new();
    for index in &f.indices {
        let mut here: Vec<(i64, &Ranged)> = Vec::new();
        let mut rest = index.clone();
        rest.terms.retain(|t| t.0.as_var().is_none_or(|v| !vars.contains(&v)));
        if rest.mentions(&vars) || rest.reads() {
            return None;
        }
        for r in inner {
            let c = index.factor(r.var);
            if c != 0 {
                if !used.insert(r.var) {
                    return None;
                }
                here.push((c, r));
            }
        }
        let step = here.iter().try_fold(0, |g, t| common_step(g, t.0))?;
        if step > 1 {
            here.iter_mut().for_each(|t| t.0 /= step);
        }
        here.sort_by_key(|t| t.0);
        if !contiguous(&here, &vars) {
            return None;
        }
    }
    Some(used)
}

/// Whether `Σ c·v` takes every value between its ends, for variables whose loops `split` or `remap` made: sorted by
/// coefficient, what those so far add up to takes the values from 0 to the least of some forms.
fn contiguous(parts: &[(i64, &Ranged)], inner: &HashSet<VarId>) -> bool {
    let Some(((c, first), outer)) = parts.split_first() else { return true };
    let trip = |r: &Ranged| bounds::normal(&r.hi).minus(&bounds::normal(&r.lo));
    let Some(length) = trip(first) else { return false };
    if outer.is_empty() {
        return c.abs() == 1 && !length.mentions(inner);
    }
    if *c != 1 {
        return false;
    }
    let mut forms = bounds::mins(&length);
    for (n, (c, o)) in outer.iter().enumerate() {
        if bounds::normal(&o.lo) != Linear::constant(0) {
            return false;
        }
        let Some(longer) = continued(&forms, &parts[..=n], *c, o) else { return false };
        forms = longer;
    }
    forms.iter().all(|f| !f.mentions(inner))
}

/// The values `0..min(forms)` of finer parts, continued by `c` times another loop's variable.
fn continued(forms: &[Linear], finer: &[(i64, &Ranged)], c: i64, o: &Ranged) -> Option<Vec<Linear>> {
    // Each of its iterations takes the next `c` values, or fewer where all end at `x`: min(c, x - c·o).
    if !forms.iter().any(|f| f.as_constant() == Some(c)) {
        return None;
    }
    let rest = forms.iter().filter(|f| f.as_constant() != Some(c));
    let own: HashSet<VarId> = [o.var].into();
    let end = |f: &Linear| {
        let x = f.plus(&bounds::normal(&build::var_id(o.var, lathe_ir::Scalar::Index)), c)?;
        (!x.mentions(&own)).then_some(x)
    };
    let mut out = rest.map(end).collect::<Option<Vec<Linear>>>()?;
    let vars: HashSet<VarId> = finer.iter().map(|p| p.1.var).collect();
    for h in bounds::mins(&bounds::normal(&o.hi)) {
        let quotient = match h.terms.as_slice() {
            [(atom, 1)] => quotient(atom, c).and_then(|x| x.plus(&Linear::constant(h.constant), c)),
            _ => None,
        };
        if !h.mentions(&vars) {
            // Whole runs of `c` values, but for what is cut off anyway.
            if quotient.is_none_or(|x| !out.contains(&x)) {
                out.push(h.scaled(c)?);
            }
            continue;
        }
        // ceil((x - some of the finer parts) / c): the others end at `x`, too, or there are none.
        let mut x = quotient?;
        let mut all = true;
        for (k, f) in finer {
            match x.factor(f.var) {
                n if n == -k => x.terms.retain(|t| t.0.as_var() != Some(f.var)),
                0 => all = false,
                _ => return None,
            }
        }
        if x.mentions(&vars) || !(all || out.contains(&x)) {
            return None;
        }
        if !out.contains(&x) {
            out.push(x);
        }
    }
    Some(out)
}

/// `x`, if this is `ceil(x / c)`.
fn quotient(e: &Expr, c: i64) -> Option<Linear> {
    let lathe_ir::ExprKind::Binary(lathe_ir::BinOp::FloorDiv, a, b) = e.kind() else { return None };
    (b.as_int() == Some(c)).then(|| bounds::normal(a).offset(1 - c))?
}

/// The extents of a local array that holds the box: constants where some are known.
pub fn shape(r: &Region, around: &Around) -> Vec<Expr> {
    let extent = |d| {
        let constant = r.constant_size(d, &around.loops);
        constant.map_or_else(|| r.size_expr(d, &around.loops, &around.sizes), build::index)
    };
    (0..r.rank()).map(extent).collect()
}

/// The box as evidence holds it; `path` is where it is used.
pub fn window(work: &Work, path: &[usize], r: &Region, around: &Around) -> Vec<Range> {
    let size = |d| r.size_expr(d, &around.loops, &around.sizes);
    (0..r.rank()).map(|d| work.range(path, &r.lo[d].to_expr(), &size(d), r.step[d])).collect()
}

/// The statement with every access to an array that is taken going to a local one that holds the box.
pub fn redirect(s: &Stmt, old: BufId, new: &Buffer, r: &Region, takes: &dyn Fn(&Access) -> bool) -> Stmt {
    visit::map_accesses(s, &mut |a| {
        if a.view != View::Buffer(old) || !takes(a) {
            return None;
        }
        let indices = a.indices.iter().enumerate().map(|(d, e)| r.position(d, e));
        Some(Access { places: a.places.clone(), ..make::proved(new.id, &new.elem, indices.collect()) })
    })
}

/// Whether everything the read may touch was surely written before: an earlier exact write in the same
/// iteration of their common loops covers its box.
pub fn covered(read: &Found, writes: &[&Found], around: &Around, extents: &[Expr]) -> bool {
    writes.iter().any(|w| {
        if w.usage != super::scope::Use::Write || !before(&w.path, &read.path) {
            return false;
        }
        let fixed = w.loops.iter().zip(&read.loops).take_while(|(a, b)| a.var == b.var).count();
        if !fills(w, fixed) || read.opaque {
            return false;
        }
        let scope = around.with(&w.loops[..fixed]);
        let inner = |f: &Found| f.loops[fixed..].iter().map(|r| r.var).collect::<HashSet<_>>();
        let region =
            |f: &Found| Region::strided(&[f], fixed, &scope, &inner(f), extents, &around.sizes, None);
        region(w).contains(&region(read), &scope, &around.sizes)
    })
}

/// Whether the first path comes before the second in the text, in one sequence.
pub fn before(a: &[usize], b: &[usize]) -> bool {
    let n = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    match (a.get(n), b.get(n)) {
        (Some(x), Some(y)) => x < y,
        _ => false,
    }
}

/// Whether the whole box is surely written before the statement at a path: by an exact nest earlier in the
/// text, in the same iteration of their common loops.
pub fn defined_before(func: &Function, path: &[usize], buffer: &Buffer, region: &Region) -> bool {
    let all = super::scope::accesses(&func.body, &Default::default());
    let target = Around::of(func, path);
    let extents: Vec<Expr> = buffer.extents.iter().map(|e| visit::substitute(e, &target.lets)).collect();
    all.iter().filter(|w| w.buffer() == Some(buffer.id) && w.usage == super::scope::Use::Write).any(|w| {
        let fixed = w.loops.iter().zip(&target.loops).take_while(|(a, b)| a.var == b.var).count();
        if !before(&w.path, path) || !fills(w, fixed) {
            return false;
        }
        let inner = w.loops[fixed..].iter().map(|r| r.var).collect();
        let scope = &target.loops[..fixed];
        let written = Region::strided(&[w], fixed, scope, &inner, &extents, &target.sizes, None);
        written.contains(region, &target.loops, &target.sizes)
    })
}
