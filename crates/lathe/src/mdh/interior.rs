//! Loops over an array with borders, such as padded stencils: the iterations at either end, for which conditions, selections
//! and clamped subscripts turn out otherwise than for those in between, get loops of their own (index-set splitting). What is
//! left in the interior has no guards, and becomes vectors.

use super::made::Made;
use super::setting::Setting;
use lathe_ir::interp::evaluate;
use lathe_ir::visit::{self, Path};
use lathe_ir::{BinOp, Executor, Expr, ExprKind, Function, Loop, Stmt, VarId};
use lathe_poly::Affine;
use lathe_space as space;
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashMap};

/// Loops that are cut in one nest.
const LOOPS: usize = 8;
/// A border is at most one so many-th of a loop.
const BORDER: i64 = 4;

/// The nest with every loop cut at its borders, the interior in lanes, and on threads where there are some; none, if there
/// are no borders. `sizes` are examples of those that the function still has.
pub(super) fn interior(
    set: &Setting,
    start: &Made,
    nest: &Path,
    sizes: &BTreeMap<String, i64>,
    threads: bool,
) -> Option<Made> {
    let known = start.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let mut cuts = Cuts { set, made: start.clone(), known, left: LOOPS };
    let inside = cuts.nest(nest.clone())?;
    if cuts.left == LOOPS {
        return None;
    }
    let outer = visit::at(&cuts.made.func.body, &inside)?.as_loop()?.binder.name.to_string();
    let mut args = Args::default();
    args.push(None, Arg::Path(outer));
    if threads { cuts.made.then(set, &inside, "parallel", &args).ok() } else { Some(cuts.made) }
}

struct Cuts<'a> {
    set: &'a Setting<'a>,
    made: Made,
    known: HashMap<VarId, i64>,
    /// Loops that may still be cut.
    left: usize,
}

impl Cuts<'_> {
    /// Cuts the loop at a place, then those inside of it. Where its interior is.
    fn nest(&mut self, path: Path) -> Option<Path> {
        let path = self.cut(path)?;
        let l = self.at(&path)?;
        let mut inner = Vec::new();
        visit::walk(&l.body, &mut |s, p| {
            inner.extend(
                s.as_loop()
                    .map(|_| path.iter().copied().chain([0]).chain(p.iter().copied()).collect::<Path>()),
            );
            s.as_loop().is_none()
        });
        if inner.is_empty() && self.left < LOOPS {
            self.in_lanes(&path, &l);
        }
        // From the last one to the first: paths of earlier ones stay what they are.
        for p in inner.into_iter().rev() {
            self.nest(p);
        }
        Some(path)
    }

    fn at(&self, path: &Path) -> Option<Loop> {
        visit::at(&self.made.func.body, path)?.as_loop().filter(|l| l.exec == Executor::Serial).cloned()
    }

    fn cut(&mut self, mut path: Path) -> Option<Path> {
        let l = self.at(&path)?;
        let Some((low, high)) = (self.left > 0 && l.step == 1).then(|| self.borders(&l)).flatten() else {
            return Some(path);
        };
        // The second part of the first cut, the first one of the second.
        for (at, second) in [(low, true), (high, false)] {
            let Some(at) = at else { continue };
            let mut args = Args::default();
            args.push(None, Arg::Path(self.at(&path)?.binder.name.to_string()));
            args.push(None, argument(&self.made.func, &at)?);
            self.made = self.made.then(self.set, &path, "cut", &args).ok()?;
            let parts = visit::at(&self.made.func.body, &path)?.as_seq().map_or(0, <[Stmt]>::len);
            path.extend((parts > 0).then_some(if second { parts - 1 } else { 0 }));
        }
        self.left -= 1;
        Some(path)
    }

    /// Where the interior of a loop begins and ends, as far as there are borders.
    fn borders(&self, l: &Loop) -> Option<(Option<Affine>, Option<Affine>)> {
        let value = |e: &Expr| evaluate(e, &self.known);
        let (lo, hi) = (value(&l.lo)?, value(&l.hi)?);
        let most = hi.checked_sub(lo)? / BORDER;
        let mut low: Option<(i64, Affine)> = None;
        let mut high: Option<(i64, Affine)> = None;
        let mut add = |first: Affine, second: Affine| {
            if let Some(n) = value(&first.to_expr()).filter(|n| *n > lo && *n - lo <= most)
                && low.as_ref().is_none_or(|l| n > l.0)
            {
                low = Some((n, first));
            }
            if let Some(n) = value(&second.to_expr()).filter(|n| *n < hi && hi - *n <= most)
                && high.as_ref().is_none_or(|h| n < h.0)
            {
                high = Some((n, second));
            }
        };
        visit::walk(&l.body, &mut |s, _| {
            for e in s.evaluated() {
                visit::walk_expr(e, &mut |e| {
                    if let Some((first, second)) = self.turns(e, l.binder.id) {
                        add(first, second);
                    }
                });
            }
            true
        });
        (low.is_some() || high.is_some()).then(|| (low.map(|l| l.1), high.map(|h| h.1)))
    }

    /// From where on, and up to where, a comparison, minimum or maximum is the same for all iterations of a loop.
    fn turns(&self, e: &Expr, v: VarId) -> Option<(Affine, Affine)> {
        let ExprKind::Binary(op, a, b) = e.kind() else { return None };
        let d = Affine::of(a)?.plus(&Affine::of(b)?, -1)?;
        let (k, rest) = (d.coefficient(&v), d.without(&v));
        if k.abs() != 1 || !rest.terms.iter().all(|t| self.known.contains_key(&t.0)) {
            return None;
        }
        // Both sides are equal there.
        let same = Affine::constant(0).plus(&rest, -k)?;
        let next = same.offset(1)?;
        Some(match op {
            BinOp::Min | BinOp::Max => (same, next),
            BinOp::Eq | BinOp::Ne => (next, same),
            BinOp::Lt | BinOp::Ge if k > 0 => (same.clone(), same),
            BinOp::Le | BinOp::Gt if k < 0 => (same.clone(), same),
            BinOp::Lt | BinOp::Ge | BinOp::Le | BinOp::Gt => (next.clone(), next),
            _ => return None,
        })
    }

    /// The innermost loop of the interior as vectors, where it can be.
    fn in_lanes(&mut self, path: &Path, l: &Loop) {
        let mut bytes = 0;
        visit::walk(&l.body, &mut |s, _| {
            bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, i64::max);
            true
        });
        let lanes = self.set.machine.vector_bytes as i64 / bytes.max(1);
        let mut args = Args::default();
        args.push(None, Arg::Path(l.binder.name.to_string()));
        args.push(None, Arg::Int(lanes));
        args.push(Some("tail"), Arg::Path("separate".to_string()));
        if lanes > 1
            && let Ok(next) = self.made.then(self.set, path, "vectorize", &args)
        {
            self.made = next;
        }
    }
}

/// A form as an argument of a step.
pub(super) fn argument(func: &Function, form: &Affine) -> Option<Arg> {
    if form.terms.is_empty() {
        return Some(Arg::Int(form.constant));
    }
    let number = |n: i64| space::Expr::Value(space::Value::Int(n));
    let both = |op, a, b| space::Expr::Binary(op, Box::new(a), Box::new(b));
    let mut out = number(form.constant);
    for (v, k) in &form.terms {
        let name = func.sizes.iter().find(|b| b.id == *v)?.name.to_string();
        let term = both(space::BinOp::Mul, number(*k), space::Expr::Name(name));
        out = both(space::BinOp::Add, out, term);
    }
    Some(Arg::Data(out))
}
