//! Fourier–Motzkin elimination with the integer tightening of the Omega test (Pugh, 1991): when one of
//! the two coefficients of every combined pair is a unit, the projection is exact over the integers. Elsewhere it may have points
//! that no integers lead to; values are looked for all the same, and mostly found.

use crate::system::{Con, Conj};
use lathe_poly::gcd;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::ops::Range;

pub(crate) enum Outcome {
    /// No integer point.
    Empty,
    /// A value for each unknown that occurs.
    Point(Vec<(u32, i64)>),
    /// No values were found, where a projection was inexact, or one was too large.
    Maybe,
}

/// More constraints than this are not worth it.
const MAX_ROWS: usize = 300;

/// Numbers of a table whose memory is kept.
const KEPT: usize = 1 << 16;

thread_local! {
    /// The memory of the last elimination, which the next one uses again.
    static SPARE: Cell<Option<Box<Table>>> = const { Cell::new(None) };
}

/// Eliminates every unknown of a normalized conjunction. Where the nearest values are none of a point, so many others are tried.
pub(crate) fn eliminate(cons: &Conj, mut others: usize) -> Outcome {
    with_table(|table| match table.eliminate(cons) {
        Some(true) => Outcome::Empty,
        Some(false) => {
            let mut values = vec![0; table.width()];
            if table.place(cons, table.trail.len(), &mut values, &mut others) {
                Outcome::Point(table.columns.iter().copied().zip(values).collect())
            } else {
                Outcome::Maybe
            }
        }
        None => Outcome::Maybe,
    })
}

/// Whether elimination shows that a normalized conjunction has no integer point.
pub(crate) fn impossible(cons: &Conj) -> bool {
    with_table(|table| table.eliminate(cons) == Some(true))
}

fn with_table<T>(then: impl FnOnce(&mut Table) -> T) -> T {
    let mut table = SPARE.take().unwrap_or_default();
    let out = then(&mut table);
    if table.rows.capacity() <= KEPT {
        SPARE.set(Some(table));
    }
    out
}

/// Inequalities `row . (x, 1) >= 0`, dense, one after the other.
#[derive(Default)]
struct Table {
    /// The unknowns that occur, in order.
    columns: Vec<u32>,
    rows: Vec<i64>,
    /// Of the factors of each row ([`direction`]).
    hashes: Vec<u64>,
    alive: Vec<usize>,
    /// Of the rows that are alive, by column.
    counts: Vec<Count>,
    /// Row of a direction, by its hash, while it is alive.
    known: FxHashMap<u64, usize>,
    /// Each eliminated column with the rows that bounded it, by their places among `bounds`.
    trail: Vec<(usize, Range<usize>)>,
    bounds: Vec<usize>,
    /// A row without unknowns is false.
    empty: bool,
}

/// How many rows bound a column, and how many of them by another factor than a unit.
#[derive(Clone, Copy, Default)]
struct Count {
    lower: i64,
    upper: i64,
    coarse_lower: i64,
    coarse_upper: i64,
}

impl Table {
    /// The constraints as rows, and nothing else; `None` if their numbers do not fit.
    fn begin(&mut self, cons: &Conj) -> Option<()> {
        self.columns.clear();
        self.columns.extend(cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)));
        self.columns.sort_unstable();
        self.columns.dedup();
        self.rows.clear();
        self.hashes.clear();
        self.alive.clear();
        self.counts.clear();
        self.counts.resize(self.columns.len(), Count::default());
        self.known.clear();
        self.trail.clear();
        self.bounds.clear();
        self.empty = false;
        let mut row = vec![0; self.columns.len() + 1];
        for con in cons {
            row.fill(0);
            for (col, k) in &con.lin.terms {
                if let Ok(at) = self.columns.binary_search(col) {
                    row[at] = *k;
                }
            }
            row[self.columns.len()] = con.lin.constant;
            let hash = direction(&row[..self.columns.len()]);
            // Equalities that are left have no unit coefficient; as two inequalities they are a relaxation.
            if con.eq {
                let mut negated = row.iter().map(|v| v.checked_neg()).collect::<Option<Vec<i64>>>()?;
                self.add(&mut negated, hash.wrapping_neg());
            }
            self.add(&mut row, hash);
        }
        Some(())
    }

    /// Eliminates every column; whether that shows that there is no point. `None`: there are too many rows, or too large numbers.
    fn eliminate(&mut self, cons: &Conj) -> Option<bool> {
        self.begin(cons)?;
        let mut made = vec![0; self.columns.len() + 1];
        while !self.alive.is_empty() {
            if self.empty {
                return Some(true);
            }
            if self.alive.len() > MAX_ROWS {
                return None;
            }
            let Some(col) = self.choose() else { break };
            let bounds = self.take(col);
            for l in bounds.clone() {
                let l = self.bounds[l];
                if self.row(l)[col] < 0 {
                    continue;
                }
                for u in bounds.clone() {
                    let u = self.bounds[u];
                    if self.row(u)[col] < 0 {
                        let by = combine(self.row(l), self.row(u), col, &mut made)?;
                        let part = |row: usize, k: i64| self.hashes[row].wrapping_mul(k as u64);
                        self.add(&mut made, part(l, by.0).wrapping_add(part(u, by.1)));
                    }
                }
            }
            self.trail.push((col, bounds));
        }
        Some(self.empty)
    }

    fn width(&self) -> usize {
        self.columns.len()
    }

    /// Counts a row in, or out.
    fn tally(&mut self, at: usize, by: i64) {
        let width = self.width();
        let row = &self.rows[at * (width + 1)..][..width];
        for (v, c) in row.iter().zip(&mut self.counts) {
            if *v > 0 {
                c.lower += by;
                c.coarse_lower += if *v == 1 { 0 } else { by };
            } else if *v < 0 {
                c.upper += by;
                c.coarse_upper += if *v == -1 { 0 } else { by };
            }
        }
    }

    fn row(&self, at: usize) -> &[i64] {
        &self.rows[at * (self.width() + 1)..][..=self.width()]
    }

    /// Adds a row whose factors have the given hash, divided by its common factor; of one direction only the tightest stays.
    fn add(&mut self, row: &mut [i64], mut hash: u64) {
        let width = self.width();
        let (terms, constant) = row.split_at_mut(width);
        let mut g = 0u64;
        for v in terms.iter().map(|v| v.unsigned_abs()).filter(|v| *v != 0) {
            g = if v == 1 { 1 } else { gcd(g, v) };
            if g == 1 {
                break;
            }
        }
        let Ok(g) = i64::try_from(g) else { return };
        if g == 0 {
            self.empty |= constant[0] < 0;
            return;
        }
        if g > 1 {
            terms.iter_mut().for_each(|v| *v /= g);
            constant[0] = constant[0].div_euclid(g);
            hash = direction(terms);
        }
        if let Some(&at) = self.known.get(&hash)
            && self.row(at)[..width] == *terms
        {
            let old = &mut self.rows[at * (width + 1) + width];
            *old = (*old).min(constant[0]);
            return;
        }
        let at = self.hashes.len();
        self.known.insert(hash, at);
        self.hashes.push(hash);
        self.alive.push(at);
        self.rows.extend_from_slice(row);
        self.tally(at, 1);
    }

    /// Removes the rows that mention a column; where they are among `bounds`.
    fn take(&mut self, col: usize) -> Range<usize> {
        let (from, width) = (self.bounds.len(), self.width());
        let (bounds, rows) = (&mut self.bounds, &self.rows);
        self.alive.retain(|r| {
            let without = rows[r * (width + 1) + col] == 0;
            if !without {
                bounds.push(*r);
            }
            without
        });
        for at in from..self.bounds.len() {
            let r = self.bounds[at];
            if self.known.get(&self.hashes[r]) == Some(&r) {
                self.known.remove(&self.hashes[r]);
            }
            self.tally(r, -1);
        }
        from..self.bounds.len()
    }

    /// The column whose elimination makes the fewest rows, exact eliminations first.
    fn choose(&self) -> Option<usize> {
        let mut best: Option<((bool, i64), usize)> = None;
        for (col, c) in self.counts.iter().enumerate() {
            if c.lower + c.upper == 0 {
                continue;
            }
            if c.lower == 0 || c.upper == 0 {
                return Some(col);
            }
            let coarse = c.coarse_lower > 0 && c.coarse_upper > 0;
            let rating = (coarse, c.lower * c.upper - c.lower - c.upper);
            if best.is_none_or(|b| rating < b.0) {
                best = Some((rating, col));
            }
        }
        best.map(|b| b.1)
    }

    /// Values for the first `open` of the eliminated columns, last eliminated first; each as near to zero as it may be, or further
    /// away where that leaves none for another, as long as so many of these are `left`. Columns that were never bounded are
    /// zero.
    fn place(&self, cons: &Conj, open: usize, values: &mut [i64], left: &mut usize) -> bool {
        let Some(at) = open.checked_sub(1) else {
            return cons.iter().all(|c| holds(c, &self.columns, values));
        };
        let Some((lo, hi)) = self.range(at, values) else { return false };
        let col = self.trail[at].0;
        let nearest = lo.unwrap_or(i64::MIN).max(hi.map_or(0, |h| h.min(0)));
        let may = |v: &i64| lo.is_none_or(|l| l <= *v) && hi.is_none_or(|h| *v <= h);
        for away in 0.. {
            let below = if away > 0 { nearest.checked_sub(away) } else { None };
            let mut none = true;
            for value in [nearest.checked_add(away), below].into_iter().flatten().filter(may) {
                none = false;
                values[col] = value;
                if self.place(cons, at, values, left) {
                    return true;
                }
                if *left == 0 {
                    return false;
                }
                *left -= 1;
            }
            if none {
                return false;
            }
        }
        false
    }

    /// Where an eliminated column may lie, by the values of those that were eliminated after it; `None` if they do not fit.
    fn range(&self, at: usize, values: &[i64]) -> Option<(Option<i64>, Option<i64>)> {
        let width = self.width();
        let (col, bounds) = &self.trail[at];
        let (mut lo, mut hi): (Option<i64>, Option<i64>) = (None, None);
        for row in self.bounds[bounds.clone()].iter().map(|r| self.row(*r)) {
            let mut rest = row[width];
            for (c, (k, v)) in row.iter().zip(values).enumerate() {
                if c != *col && *k != 0 {
                    rest = rest.checked_add(k.checked_mul(*v)?)?;
                }
            }
            let k = row[*col];
            if k > 0 {
                // `k x >= -rest`
                let b = rest.checked_neg()?.checked_add(k - 1)?.div_euclid(k);
                lo = Some(lo.map_or(b, |l| l.max(b)));
            } else {
                let b = rest.div_euclid(k.checked_neg()?);
                hi = Some(hi.map_or(b, |h| h.min(b)));
            }
        }
        Some((lo, hi))
    }
}

/// A hash of the factors of a row: the sum of multiples of one number per column, so that the hash of a sum of rows is the sum of
/// theirs.
fn direction(terms: &[i64]) -> u64 {
    let number = |col: usize| {
        let mixed = (col as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    };
    let factors = terms.iter().enumerate().filter(|t| *t.1 != 0);
    factors.fold(0, |h, (col, v)| h.wrapping_add(number(col).wrapping_mul(*v as u64)))
}

/// A lower and an upper bound on a column, combined so that it vanishes; what each was multiplied by.
fn combine(lower: &[i64], upper: &[i64], col: usize, out: &mut [i64]) -> Option<(i64, i64)> {
    let (a, b) = (lower[col], upper[col].checked_neg()?);
    let g = gcd(a.unsigned_abs(), b.unsigned_abs()) as i64;
    let (a, b) = (a / g, b / g);
    // Nothing branches on one number alone.
    let mut fits = true;
    let rows = out.iter_mut().zip(lower.iter().zip(upper));
    if (a, b) == (1, 1) {
        for (o, (l, u)) in rows {
            let sum = l.wrapping_add(*u);
            fits &= (l ^ sum) & (u ^ sum) >= 0;
            *o = sum;
        }
    } else {
        for (o, (l, u)) in rows {
            let ((l, p), (u, q)) = (l.overflowing_mul(b), u.overflowing_mul(a));
            let (sum, r) = l.overflowing_add(u);
            fits &= !(p | q | r);
            *o = sum;
        }
    }
    fits.then_some((b, a))
}

fn holds(con: &Con, columns: &[u32], values: &[i64]) -> bool {
    let mut sum = con.lin.constant;
    for (col, k) in &con.lin.terms {
        let v = columns.binary_search(col).map_or(0, |at| values[at]);
        match k.checked_mul(v).and_then(|t| sum.checked_add(t)) {
            Some(s) => sum = s,
            None => return false,
        }
    }
    if con.eq { sum == 0 } else { sum >= 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Lin;

    #[test]
    fn values_further_away_are_tried_where_the_nearest_are_none() {
        let at_least_zero =
            |terms: &[(u32, i64)], constant| Con { lin: Lin { terms: terms.to_vec(), constant }, eq: false };
        // `10 y + 3 <= 7 x <= 10 y + 4`: what is nearest to zero is 2 and 1.
        let cons = vec![
            at_least_zero(&[(0, 7), (1, -10)], -3),
            at_least_zero(&[(0, -7), (1, 10)], 4),
            at_least_zero(&[(0, 1)], 0),
            at_least_zero(&[(1, 1)], 0),
        ];
        assert!(matches!(eliminate(&cons, 0), Outcome::Maybe));
        assert!(matches!(eliminate(&cons, 8), Outcome::Point(p) if p == [(0, 2), (1, 1)]));
        // What has no point is found to have none, or is left open.
        let none = [cons, vec![at_least_zero(&[(0, -1)], 1)]].concat();
        assert!(!matches!(eliminate(&none, 8), Outcome::Point(_)));
    }

    #[test]
    fn the_hash_of_a_sum_is_the_sum_of_hashes() {
        let (a, b) = ([3, 0, -7, 1], [-2, 5, 0, 4]);
        let sum: Vec<i64> = a.iter().zip(&b).map(|(a, b)| 2 * a - 3 * b).collect();
        let of = |k: i64, row: &[i64]| direction(row).wrapping_mul(k as u64);
        assert_eq!(direction(&sum), of(2, &a).wrapping_add(of(-3, &b)));
        assert_ne!(direction(&a), direction(&b));
    }
}
