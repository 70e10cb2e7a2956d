//! Fourier–Motzkin elimination with the integer tightening of the Omega test (Pugh, 1991): when one of
//! the two coefficients of every combined pair is a unit, the projection is exact over the integers.

use crate::solve::normalize;
use crate::system::{Con, Conj, Lin};
use std::collections::HashMap;

pub(crate) enum Outcome {
    /// No integer point.
    Empty,
    /// A value for each unknown that occurs.
    Point(HashMap<u32, i64>),
    /// A projection was inexact, or too large.
    Maybe,
}

/// More constraints than this are not worth it.
const MAX_CONS: usize = 300;

/// Bounds that an eliminated unknown had: `coefficient * unknown + rest >= 0`.
struct Eliminated {
    col: u32,
    bounds: Conj,
}

/// Eliminates every unknown of a normalized conjunction.
pub(crate) fn eliminate(cons: &Conj) -> Outcome {
    // Equalities that are left have no unit coefficient; as two inequalities they are a relaxation.
    let mut exact = true;
    let mut work: Conj = Vec::with_capacity(cons.len() + 4);
    for con in cons {
        if con.eq {
            exact = false;
            let Some(neg) = con.lin.scale(-1) else { return Outcome::Maybe };
            work.push(Con { lin: neg, eq: false });
        }
        work.push(Con { lin: con.lin.clone(), eq: false });
    }
    let mut trail: Vec<Eliminated> = Vec::new();
    while !work.is_empty() {
        if work.len() > MAX_CONS {
            return Outcome::Maybe;
        }
        let Some((col, is_exact)) = choose(&work) else { break };
        exact &= is_exact;
        let (with, mut without): (Conj, Conj) = work.into_iter().partition(|c| c.lin.coefficient(col) != 0);
        let (lower, upper): (Vec<&Con>, Vec<&Con>) = with.iter().partition(|c| c.lin.coefficient(col) > 0);
        for l in &lower {
            for u in &upper {
                let (a, b) = (l.lin.coefficient(col), -u.lin.coefficient(col));
                let Some(lin) = l.lin.combine(b, &u.lin, a) else { return Outcome::Maybe };
                without.push(Con { lin, eq: false });
            }
        }
        trail.push(Eliminated { col, bounds: with });
        let Some(normal) = normalize(without) else { return Outcome::Empty };
        work = Vec::with_capacity(normal.len());
        for con in normal {
            if con.eq {
                let Some(neg) = con.lin.scale(-1) else { return Outcome::Maybe };
                work.push(Con { lin: neg, eq: false });
            }
            work.push(Con { lin: con.lin, eq: false });
        }
    }
    if !exact {
        return Outcome::Maybe;
    }
    match witness(&trail) {
        Some(p) if cons.iter().all(|c| holds(c, &p)) => Outcome::Point(p),
        _ => Outcome::Maybe,
    }
}

fn holds(con: &Con, values: &HashMap<u32, i64>) -> bool {
    match at(&con.lin, u32::MAX, values) {
        Some((_, v)) if con.eq => v == 0,
        Some((_, v)) => v >= 0,
        None => false,
    }
}

/// The unknown whose elimination makes the fewest constraints, exact eliminations first.
fn choose(work: &Conj) -> Option<(u32, bool)> {
    #[derive(Default)]
    struct Count {
        lower: usize,
        upper: usize,
        /// Bounds with a coefficient other than one.
        lower_coarse: bool,
        upper_coarse: bool,
    }
    let mut counts: Vec<(u32, Count)> = Vec::new();
    for con in work {
        for (col, k) in &con.lin.terms {
            let at = match counts.iter().position(|c| c.0 == *col) {
                Some(i) => i,
                None => {
                    counts.push((*col, Count::default()));
                    counts.len() - 1
                }
            };
            let count = &mut counts[at].1;
            if *k > 0 {
                count.lower += 1;
                count.lower_coarse |= *k != 1;
            } else {
                count.upper += 1;
                count.upper_coarse |= *k != -1;
            }
        }
    }
    let rated = counts.into_iter().map(|(col, c)| {
        let free = c.lower == 0 || c.upper == 0;
        let exact = free || !c.lower_coarse || !c.upper_coarse;
        let growth = (c.lower * c.upper) as i64 - (c.lower + c.upper) as i64;
        (!exact, growth, col)
    });
    rated.min().map(|(inexact, _, col)| (col, !inexact))
}

/// Values for the eliminated unknowns, last eliminated first; each as near to zero as it may be.
fn witness(trail: &[Eliminated]) -> Option<HashMap<u32, i64>> {
    let mut values: HashMap<u32, i64> = HashMap::new();
    for step in trail.iter().rev() {
        let (mut lo, mut hi): (Option<i64>, Option<i64>) = (None, None);
        for con in &step.bounds {
            let (k, rest) = at(&con.lin, step.col, &values)?;
            if k > 0 {
                // `k x >= -rest`
                let b = rest.checked_neg()?.checked_add(k - 1)?.div_euclid(k);
                lo = Some(lo.map_or(b, |l| l.max(b)));
            } else {
                let b = rest.div_euclid(k.checked_neg()?);
                hi = Some(hi.map_or(b, |h| h.min(b)));
            }
        }
        let v = match (lo, hi) {
            (Some(l), Some(h)) if l > h => return None,
            (Some(l), h) => l.max(h.map_or(0, |h| h.min(0))),
            (None, Some(h)) => h.min(0),
            (None, None) => 0,
        };
        values.insert(step.col, v);
    }
    Some(values)
}

/// The coefficient of `col` and the value of everything else.
fn at(lin: &Lin, col: u32, values: &HashMap<u32, i64>) -> Option<(i64, i64)> {
    let (mut k, mut rest) = (0, lin.c);
    for (c, v) in &lin.terms {
        if *c == col {
            k = *v;
        } else {
            // Unknowns without a value were dropped as unbounded before: zero is as good as any.
            let x = values.get(c).copied().unwrap_or(0);
            rest = rest.checked_add(v.checked_mul(x)?)?;
        }
    }
    Some((k, rest))
}
