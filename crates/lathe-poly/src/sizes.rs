//! Sizes of a function, read off the extents of its arguments.
//!
//! An extent is an equation: `extent = times · size + plus + Σ k · other`. Where one size of it is not yet known, the extent
//! tells it. Whether it does so without a remainder is not decided here: who calls a function compares every extent with
//! the declared one under the sizes that were found.

use crate::form::Affine;
use lathe_ir::build::{binary, index, lt, mul, select, sub, var_id};
use lathe_ir::interp::evaluate;
use lathe_ir::{BinOp, Binder, Expr, ExprKind, Function, Param, Scalar, VarId, visit};
use std::collections::HashMap;

/// The largest size that is found: larger than any extent in memory (see `lathe_abi::MAX_EXTENT`).
pub const LARGEST: i64 = 1 << 47;

/// The factors of an equation add up to less than this, so that no step of [`Equation::solve`] overflows 64 bits.
const FACTORS: u64 = 1 << 14;

/// An extent as an equation for one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    pub size: VarId,
    /// Not 0.
    pub times: i64,
    pub plus: i64,
    pub others: Vec<(VarId, i64)>,
}

impl Equation {
    /// The equation of an extent for its only unknown. `None` where there are more or none, the extent is not
    /// linear, or numbers are so large that the arithmetic might overflow 64 bits.
    pub fn of(extent: &Expr, is_known: &dyn Fn(VarId) -> bool) -> Option<Equation> {
        let mut unknown = visit::vars_of(extent).into_iter().filter(|v| !is_known(*v));
        let size = unknown.next().filter(|_| unknown.next().is_none())?;
        let form = Affine::of(extent)?;
        let times = form.coefficient(&size);
        let others: Vec<(VarId, i64)> = form.terms.iter().copied().filter(|t| t.0 != size).collect();
        let factors = form.terms.iter().try_fold(0u64, |sum, t| sum.checked_add(t.1.unsigned_abs()))?;
        let small = factors < FACTORS && form.constant.unsigned_abs() <= 1 << 61;
        (times != 0 && small).then_some(Equation { size, times, plus: form.constant, others })
    }

    /// Whether the extent is the size itself.
    pub fn is_plain(&self) -> bool {
        self.times == 1 && self.plus == 0 && self.others.is_empty()
    }

    /// The size with this extent, rounded towards 0; not yet kept [`within`] its range, in which the extent is.
    pub fn quotient(&self, extent: Expr) -> Expr {
        let less = |n: Expr, (v, k): &(VarId, i64)| sub(n, mul(var_id(*v, Scalar::Index), index(*k)));
        let rest = self.others.iter().fold(sub(extent, index(self.plus)), less);
        if self.times == 1 { rest } else { binary(BinOp::TruncDiv, rest, index(self.times)) }
    }

    /// The size with this extent, where the others have these values.
    pub fn solve(&self, extent: i64, others: &HashMap<VarId, i64>) -> i64 {
        evaluate(&within(self.quotient(index(extent))), others).unwrap_or(0)
    }
}

/// A number kept within `0..=LARGEST`.
pub fn within(n: Expr) -> Expr {
    let low = select(lt(index(LARGEST), n.clone()), index(LARGEST), n.clone());
    select(lt(n, index(0)), index(0), low)
}

/// Where a size is read: in which dimension of which parameter, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSource {
    pub param: usize,
    pub dim: usize,
    pub equation: Equation,
}

/// Where the sizes of a function are read (see [`sources_in`]). `given` says which parameters are there to be read.
pub fn size_sources(f: &Function, given: &dyn Fn(&Param) -> bool) -> Vec<SizeSource> {
    sources_in(&f.sizes, &extents(f, given))
}

/// As [`size_sources`], where extents are assumed to be no smaller than 0: of `max(e, 0)`, `e` is read. Where the extent
/// is 0, the size that is found is the largest of those that give it.
pub fn likely_sources(f: &Function, given: &dyn Fn(&Param) -> bool) -> Vec<SizeSource> {
    let mut extents = extents(f, given);
    for (_, e) in &mut extents {
        if let ExprKind::Binary(BinOp::Max, a, b) = e.kind()
            && b.as_int() == Some(0)
        {
            *e = a;
        }
    }
    sources_in(&f.sizes, &extents)
}

/// A dimension of a parameter, and its extent.
type Extent<'e> = ((usize, usize), &'e Expr);

fn extents<'f>(f: &'f Function, given: &dyn Fn(&Param) -> bool) -> Vec<Extent<'f>> {
    let params = f.params.iter().enumerate().filter(|p| given(p.1));
    let each = |(param, p): (usize, &'f Param)| {
        let extents = p.array().map_or(&[][..], |b| &b.extents);
        extents.iter().enumerate().map(move |(dim, e)| ((param, dim), e))
    };
    params.flat_map(each).collect()
}

/// Where sizes are read, each after those that its equation needs: extents that are a size itself come first. Sizes that
/// nothing tells are left out.
pub fn sources_in(sizes: &[Binder], extents: &[Extent]) -> Vec<SizeSource> {
    let mut out: Vec<SizeSource> = Vec::new();
    let is_size = |v: VarId| sizes.iter().any(|s| s.id == v);
    let mut read = |plain: bool| {
        let before = out.len();
        for ((param, dim), e) in extents {
            let known = |v: VarId| is_size(v) && out.iter().any(|s| s.equation.size == v);
            let Some(equation) = Equation::of(e, &known) else { continue };
            if is_size(equation.size) && (!plain || equation.is_plain()) {
                out.push(SizeSource { param: *param, dim: *dim, equation });
            }
        }
        out.len() > before
    };
    read(true);
    while read(false) {}
    out
}

/// The values of the sizes, where `extent` gives that of a dimension of a parameter.
pub fn solve(sources: &[SizeSource], extent: &dyn Fn(usize, usize) -> i64) -> HashMap<VarId, i64> {
    let mut out = HashMap::new();
    for s in sources {
        let n = s.equation.solve(extent(s.param, s.dim), &out);
        out.insert(s.equation.size, n);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::build::{add, max, var};
    use lathe_ir::{Buffer, Mode, ParamKind, Space, Stage, Type};

    fn function(extents: impl Fn(&[Binder]) -> Vec<Expr>) -> Function {
        let mut f = Function::empty("f", Stage::Plain);
        for name in ["N", "M"] {
            let n = f.fresh_var(name, Scalar::Index);
            f.sizes.push(n);
        }
        for extent in extents(&f.sizes.clone()) {
            let id = f.fresh_buf();
            let b = Buffer::local(id, "A", Type::F32, vec![extent], Space::Host);
            f.params.push(Param { kind: ParamKind::Array(b), mode: Mode::In, alias: None });
        }
        f
    }

    fn solved(f: &Function, extents: &[i64]) -> Vec<Option<i64>> {
        let found = solve(&size_sources(f, &|_| true), &|p, _| extents[p]);
        f.sizes.iter().map(|s| found.get(&s.id).copied()).collect()
    }

    #[test]
    fn sizes_follow_from_one_another() {
        // 4 N - M + 3, and 1 - 2 M behind it: M first.
        let f = function(|s| {
            let (n, m) = (var(&s[0]), var(&s[1]));
            vec![sub(add(mul(index(4), n), index(3)), m.clone()), sub(index(1 << 20), mul(index(2), m))]
        });
        assert_eq!(solved(&f, &[4 * 7 + 3 - 5, (1 << 20) - 10]), [Some(7), Some(5)]);
        // What has a remainder or is negative is near by; the declared extents tell.
        assert_eq!(solved(&f, &[0, (1 << 20) + 9]), [Some(0), Some(0)]);
        assert_eq!(solved(&f, &[LARGEST, 0]), [Some(((1i64 << 47) - 3 + (1 << 19)) / 4), Some(1 << 19)]);
    }

    #[test]
    fn an_extent_that_is_the_size_is_read_before_others() {
        let f = function(|s| vec![add(var(&s[0]), index(1)), var(&s[0]), var(&s[1])]);
        let sources = size_sources(&f, &|_| true);
        let at: Vec<(usize, bool)> = sources.iter().map(|s| (s.param, s.equation.is_plain())).collect();
        assert_eq!(at, [(1, true), (2, true)]);
    }

    #[test]
    fn what_is_ambiguous_or_may_overflow_tells_nothing() {
        let f = function(|s| {
            let (n, m) = (var(&s[0]), var(&s[1]));
            vec![
                max(sub(n.clone(), index(2)), index(0)),
                add(n.clone(), m.clone()),
                mul(n.clone(), m),
                mul(index(1 << 40), n.clone()),
                add(n, index(i64::MAX)),
            ]
        });
        assert_eq!(solved(&f, &[0; 5]), [None, None]);
        let likely = likely_sources(&f, &|_| true);
        assert_eq!(likely.iter().map(|s| s.param).collect::<Vec<_>>(), [0, 1]);
    }
}
