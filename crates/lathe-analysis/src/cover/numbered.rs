//! What is numbered when unions of projections are compared: the value of an unknown that bounds leave no other one, and
//! quotients, which then count as unknowns that matter.

use super::{MAX_SHADOW, not_covered};
use crate::isl_set::{Projection, difference};
use crate::solve::{has_least, normalize};
use crate::system::{Con, Conj, Lin};

/// How often constant bounds are passed on.
const ROUNDS: usize = 3;

/// With the value of each unknown from `dims` on that constant bounds leave no other one; none if there are no points.
pub(super) fn fixed(cons: Conj, dims: u32) -> Option<Conj> {
    let columns = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0 + 1)).max().unwrap_or(0);
    let mut bounds: Vec<(Option<i64>, Option<i64>)> = vec![(None, None); columns as usize];
    for _ in 0..ROUNDS {
        for c in &cons {
            for sign in if c.eq { &[1, -1][..] } else { &[1] } {
                for (col, k) in &c.lin.terms {
                    // `k col >= -(what the others are at most)`
                    let most = c.lin.terms.iter().filter(|t| t.0 != *col).try_fold(
                        c.lin.constant.checked_mul(*sign),
                        |sum, (other, k)| {
                            let k = k.checked_mul(*sign)?;
                            let bound = bounds[*other as usize];
                            let v = if k > 0 { bound.1 } else { bound.0 };
                            Some(sum.and_then(|s| s.checked_add(k.checked_mul(v?)?)))
                        },
                    );
                    let (Some(Some(most)), Some(k)) = (most, k.checked_mul(*sign)) else { continue };
                    let (Some(least), Some(size)) = (most.checked_neg(), k.checked_abs()) else { continue };
                    let bound = &mut bounds[*col as usize];
                    if k > 0 {
                        let at = least.div_euclid(size) + i64::from(least.rem_euclid(size) > 0);
                        bound.0 = Some(bound.0.map_or(at, |b| b.max(at)));
                    } else {
                        let at = most.div_euclid(size);
                        bound.1 = Some(bound.1.map_or(at, |b| b.min(at)));
                    }
                }
            }
        }
    }
    if bounds.iter().any(|b| matches!(b, (Some(lo), Some(hi)) if lo > hi)) {
        return None;
    }
    let mut out = cons.clone();
    for (col, bound) in (0..).zip(&bounds).skip(dims as usize) {
        let (Some(lo), Some(hi)) = *bound else { continue };
        if lo == hi {
            for c in &mut out {
                let all = c.lin.coefficient(&col).checked_mul(lo).and_then(|v| c.lin.constant.checked_add(v));
                let Some(constant) = all else { return Some(cons) };
                c.lin = std::mem::take(&mut c.lin).without(&col);
                c.lin.constant = constant;
            }
        }
    }
    if out.iter().any(has_least) { Some(cons) } else { normalize(out) }
}

/// Two unions of which so many unknowns matter.
pub(super) struct Numbered {
    pub dims: u32,
    pub parts: [Vec<Conj>; 2],
}

/// So many quotients become unknowns that matter.
const MAX_QUOTIENTS: usize = 10;

impl Numbered {
    /// Two unions with all quotients as unknowns that matter; none where there are no quotients.
    pub fn of(dims: u32, a: &[Conj], b: &[Conj]) -> Option<Numbered> {
        let mut all = Numbered { dims, parts: [a.to_vec(), b.to_vec()] };
        while let Some(next) = all.further() {
            all = next;
        }
        (all.dims > dims).then_some(all)
    }

    fn projections(&self) -> [Projection<'_>; 2] {
        self.parts.each_ref().map(|parts| Projection { dims: self.dims, parts })
    }

    /// The parts of the first one of which elimination does not show that the second one covers them.
    pub fn left(&self) -> Vec<Conj> {
        let [a, b] = self.projections();
        not_covered(&a, &b)
    }

    /// A point of the first one that is not in the second one, as values of the first `dims` unknowns.
    pub fn difference(&self, dims: u32) -> Option<Option<Vec<i64>>> {
        let [_, b] = self.projections();
        let found = difference(&Projection { dims: self.dims, parts: &self.left() }, &b)?;
        Some(found.map(|p| p.into_iter().take(dims as usize).collect()))
    }

    /// The same with an unknown more that matters for each quotient of those that do, such as the tile that an element is in: parts
    /// of one tile cover it together then, which their projections do not show. No points come or go, because what is divided
    /// determines the quotient. None where there are no more.
    pub fn further(&self) -> Option<Numbered> {
        let mut found: Vec<(Lin, i64)> = Vec::new();
        for cons in self.parts.iter().rev().flatten() {
            for (_, q) in determined(cons, self.dims) {
                if !found.contains(&q.of) {
                    found.push(q.of);
                }
            }
        }
        let more = found.len() as u32;
        if found.is_empty() || found.len() > MAX_QUOTIENTS || self.dims as usize > MAX_SHADOW {
            return None;
        }
        let one = |cons: &Conj| -> Option<Conj> {
            let known = determined(cons, self.dims);
            let place = |of: &(Lin, i64)| found.iter().position(|f| f == of).map(|n| self.dims + n as u32);
            let mut out = Conj::new();
            for c in cons {
                let mut lin = Lin::constant(c.lin.constant);
                for (col, k) in &c.lin.terms {
                    match known.iter().find(|q| q.0 == *col) {
                        Some((_, q)) => lin = lin.plus(&q.more, *k)?.plus(&Lin::atom(place(&q.of)?), *k)?,
                        None if *col < self.dims => lin.add_term(*col, *k)?,
                        None => lin.add_term(col + more, *k)?,
                    }
                }
                out.push(Con { lin, eq: c.eq });
            }
            for of in &found {
                let rest = of.0.combine(1, &Lin::atom(place(of)?), of.1.checked_neg()?)?;
                out.push(Con { lin: Lin::constant(of.1 - 1).minus(&rest)?, eq: false });
                out.push(Con { lin: rest, eq: false });
            }
            (!out.iter().any(has_least)).then_some(out)
        };
        // What normalization finds to be empty has no part in it.
        let all = |parts: &[Conj]| -> Option<Vec<Conj>> {
            Some(
                parts
                    .iter()
                    .map(one)
                    .collect::<Option<Vec<_>>>()?
                    .into_iter()
                    .filter_map(normalize)
                    .collect(),
            )
        };
        Some(Numbered { dims: self.dims + more, parts: [all(&self.parts[0])?, all(&self.parts[1])?] })
    }
}

/// `more` and what is divided by what, rounded down. Numbers that are divided are less than what they are divided by: the same
/// quotient is written one way.
struct Quotient {
    of: (Lin, i64),
    more: Lin,
}

impl Quotient {
    fn new(f: &Lin, k: i64) -> Option<Quotient> {
        let mut all = Quotient {
            of: (Lin::constant(f.constant.rem_euclid(k)), k),
            more: Lin::constant(f.constant.div_euclid(k)),
        };
        for (col, c) in &f.terms {
            all.of.0.add_term(*col, c.rem_euclid(k))?;
            all.more.add_term(*col, c.div_euclid(k))?;
        }
        Some(all)
    }
}

/// The unknowns from `dims` on that are quotients of those before, rounded down:
/// `lo <= f - k q <= hi`, where there are fewer than `k` numbers in between.
fn determined(cons: &Conj, dims: u32) -> Vec<(u32, Quotient)> {
    let mut out: Vec<(u32, Quotient)> = Vec::new();
    // `f - k q >= 0`, and `f - k q <= 0`
    let (mut lower, mut upper): (Vec<(u32, i64, Lin)>, Vec<_>) = Default::default();
    for c in cons {
        let mut inner = c.lin.terms.iter().filter(|t| t.0 >= dims);
        let (Some((col, k)), None) = (inner.next(), inner.next()) else { continue };
        let rest = c.lin.clone().without(col).scaled(-k.signum());
        let (Some(f), Some(width)) = (rest, k.checked_abs()) else { continue };
        if width < 2 || f.terms.is_empty() {
            continue;
        }
        if c.eq || *k < 0 {
            lower.push((*col, width, f.clone()));
        }
        if c.eq || *k > 0 {
            upper.push((*col, width, f));
        }
    }
    for (col, k, f) in &lower {
        let other = upper.iter().find(|u| u.0 == *col && u.1 == *k && u.2.same_terms(f));
        let Some((_, _, g)) = other else { continue };
        let (Some(lo), Some(hi)) = (f.constant.checked_neg(), g.constant.checked_neg()) else { continue };
        if out.iter().any(|q| q.0 == *col) || hi.checked_sub(lo).is_none_or(|n| n >= *k) {
            continue;
        }
        // Adding any number from `-lo` to `k - 1 - hi` gives the quotient; best none, or a multiple of `k`.
        let Some(least) = lo.checked_neg() else { continue };
        let none = least.checked_add(k - 1).map(|n| n - n.rem_euclid(*k));
        let shift = match none.and_then(|n| Some((n, hi.checked_add(n)?))) {
            Some((n, most)) if most < *k => n,
            _ => least,
        };
        if let Some(q) = Quotient::new(&Lin { terms: f.terms.clone(), constant: shift }, *k) {
            out.push((*col, q));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_least_zero(terms: &[(u32, i64)], constant: i64) -> Con {
        Con { lin: Lin { terms: terms.to_vec(), constant }, eq: false }
    }

    #[test]
    fn quotients_of_sums_are_written_one_way() {
        // (2 x + 17 y + 19) / 8 is 2 y + 2 + (2 x + y + 3) / 8.
        let sum = Lin { terms: vec![(0, 2), (1, 17)], constant: 19 };
        let q = Quotient::new(&sum, 8).expect("small numbers");
        assert_eq!(q.more, Lin { terms: vec![(1, 2)], constant: 2 });
        assert_eq!(q.of, (Lin { terms: vec![(0, 2), (1, 1)], constant: 3 }, 8));
        for (x, y) in (-9..9).flat_map(|x| (-9..9).map(move |y| (x, y))) {
            let at = |l: &Lin| l.at(&[x, y]).expect("small numbers");
            assert_eq!(at(&sum).div_euclid(8), at(&q.more) + at(&q.of.0).div_euclid(8));
        }
    }

    #[test]
    fn what_bounds_leave_one_value_is_that_value() {
        // Where 64 o < v <= 4, o is 0; where 60 <= v <= 64 o + 3 and o < 2, it is 1.
        let first = [
            at_least_zero(&[(0, 1), (1, -64)], -1),
            at_least_zero(&[(0, -1)], 4),
            at_least_zero(&[(1, 1)], 0),
        ];
        let second = [
            at_least_zero(&[(0, 1)], -60),
            at_least_zero(&[(0, -1), (1, 64)], 3),
            at_least_zero(&[(1, -1)], 1),
        ];
        let ends = |cons: &[Con], at: i64| {
            let out = fixed(cons.to_vec(), 1).expect("points");
            assert!(out.iter().all(|c| c.lin.coefficient(&1) == 0), "{out:?}");
            out.iter().all(|c| c.holds(&[at]))
        };
        assert_eq!([0, 1, 4, 5].map(|v| ends(&first, v)), [false, true, true, false]);
        assert_eq!([59, 60, 67, 68].map(|v| ends(&second, v)), [false, true, true, false]);
        // No value is left.
        let none = [&first[..], &[at_least_zero(&[(1, 1)], -1)]].concat();
        assert_eq!(fixed(none, 1), None);
    }
}
