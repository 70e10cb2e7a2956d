//! Fourier–Motzkin elimination with the integer tightening of the Omega test (Pugh, 1991): when one of
//! the two coefficients of every combined pair is a unit, the projection is exact over the integers. Elsewhere it may have points
//! that no integers lead to; values are looked for all the same, and mostly found.

use crate::system::{Con, Conj};
use lathe_poly::gcd;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::HashMap;

pub(crate) enum Outcome {
    /// No integer point.
    Empty,
    /// A value for each unknown that occurs.
    Point(HashMap<u32, i64>),
    /// No values were found, where a projection was inexact, or one was too large.
    Maybe,
}

/// More constraints than this are not worth it.
const MAX_ROWS: usize = 300;

/// Eliminates every unknown of a normalized conjunction.
pub(crate) fn eliminate(cons: &Conj) -> Outcome {
    let mut columns: Vec<u32> = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut table = Table::new(columns.len(), cons.len());
    // Equalities that are left have no unit coefficient; as two inequalities they are a relaxation.
    let (mut row, mut made) = (vec![0; columns.len() + 1], Vec::with_capacity(columns.len() + 1));
    for con in cons {
        row.fill(0);
        for (col, k) in &con.lin.terms {
            if let Ok(at) = columns.binary_search(col) {
                row[at] = *k;
            }
        }
        row[columns.len()] = con.lin.constant;
        if con.eq {
            let Some(mut negated) = row.iter().map(|v| v.checked_neg()).collect::<Option<Vec<i64>>>() else {
                return Outcome::Maybe;
            };
            table.add(&mut negated);
        }
        table.add(&mut row);
    }
    // Each eliminated column with the rows that bounded it.
    let mut trail: Vec<(usize, Vec<usize>)> = Vec::new();
    while !table.alive.is_empty() {
        if table.empty {
            return Outcome::Empty;
        }
        if table.alive.len() > MAX_ROWS {
            return Outcome::Maybe;
        }
        let Some(col) = table.choose() else { break };
        let bounds = table.take(col);
        let (lower, upper): (Vec<usize>, Vec<usize>) = bounds.iter().partition(|r| table.row(**r)[col] > 0);
        for l in &lower {
            for u in &upper {
                if combine(table.row(*l), table.row(*u), col, &mut made).is_none() {
                    return Outcome::Maybe;
                }
                table.add(&mut made);
            }
        }
        trail.push((col, bounds));
    }
    if table.empty {
        return Outcome::Empty;
    }
    match witness(&table, &trail) {
        Some(values) if cons.iter().all(|c| holds(c, &columns, &values)) => {
            Outcome::Point(columns.into_iter().zip(values).collect())
        }
        _ => Outcome::Maybe,
    }
}

/// Inequalities `row . (x, 1) >= 0`, dense, one after the other.
struct Table {
    width: usize,
    rows: Vec<i64>,
    alive: Vec<usize>,
    /// Of the rows that are alive, by column.
    counts: Vec<Count>,
    /// Row of a direction, by its hash, while it is alive.
    known: FxHashMap<u64, usize>,
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
    fn new(width: usize, rows: usize) -> Table {
        Table {
            width,
            rows: Vec::with_capacity(2 * rows * (width + 1)),
            alive: Vec::with_capacity(2 * rows),
            counts: vec![Count::default(); width],
            known: FxHashMap::with_capacity_and_hasher(2 * rows, FxBuildHasher),
            empty: false,
        }
    }

    /// Counts a row in, or out.
    fn tally(&mut self, at: usize, by: i64) {
        let row = &self.rows[at * (self.width + 1)..][..self.width];
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
        &self.rows[at * (self.width + 1)..][..=self.width]
    }

    /// Adds a row, divided by its common factor; of one direction only the tightest stays.
    fn add(&mut self, row: &mut [i64]) {
        let (terms, constant) = row.split_at_mut(self.width);
        let mut g = 0u64;
        for v in terms.iter().filter(|v| **v != 0) {
            g = gcd(g, v.unsigned_abs());
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
        }
        let h = direction(terms);
        if let Some(&at) = self.known.get(&h)
            && self.row(at)[..self.width] == *terms
        {
            let old = &mut self.rows[at * (self.width + 1) + self.width];
            *old = (*old).min(constant[0]);
            return;
        }
        let at = self.rows.len() / (self.width + 1);
        self.known.insert(h, at);
        self.alive.push(at);
        self.rows.extend_from_slice(row);
        self.tally(at, 1);
    }

    /// Removes and returns the rows that mention a column.
    fn take(&mut self, col: usize) -> Vec<usize> {
        let alive = std::mem::take(&mut self.alive);
        let (with, without): (Vec<usize>, Vec<usize>) =
            alive.into_iter().partition(|r| self.row(*r)[col] != 0);
        for r in &with {
            let h = direction(&self.row(*r)[..self.width]);
            if self.known.get(&h) == Some(r) {
                self.known.remove(&h);
            }
            self.tally(*r, -1);
        }
        self.alive = without;
        with
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
}

/// A hash of the factors of a row.
fn direction(terms: &[i64]) -> u64 {
    let step = |h: u64, v: &i64| (h ^ *v as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    terms.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A lower and an upper bound on a column, combined so that it vanishes.
fn combine(lower: &[i64], upper: &[i64], col: usize, out: &mut Vec<i64>) -> Option<()> {
    let (a, b) = (lower[col], upper[col].checked_neg()?);
    let g = gcd(a.unsigned_abs(), b.unsigned_abs()) as i64;
    let (a, b) = (a / g, b / g);
    out.clear();
    for (l, u) in lower.iter().zip(upper) {
        out.push(l.checked_mul(b)?.checked_add(u.checked_mul(a)?)?);
    }
    Some(())
}

/// Values for the eliminated columns, last eliminated first; each as near to zero as it may be.
/// Columns that were never bounded are zero.
fn witness(table: &Table, trail: &[(usize, Vec<usize>)]) -> Option<Vec<i64>> {
    let width = table.width;
    let mut values = vec![0i64; width];
    for (col, bounds) in trail.iter().rev() {
        let (mut lo, mut hi): (Option<i64>, Option<i64>) = (None, None);
        for row in bounds.iter().map(|r| table.row(*r)) {
            let mut rest = row[width];
            for (c, (k, v)) in row.iter().zip(&values).enumerate() {
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
        values[*col] = match (lo, hi) {
            (Some(l), Some(h)) if l > h => return None,
            (Some(l), h) => l.max(h.map_or(0, |h| h.min(0))),
            (None, Some(h)) => h.min(0),
            (None, None) => 0,
        };
    }
    Some(values)
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
