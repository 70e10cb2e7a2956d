//! Inputs at which comparisons are nearly decided otherwise: a search down the distance between the two sides,
//! measured in neighbouring values (the branch distance of search-based testing; floats ordered as in XSat, Fu and Su,
//! CAV 2016). Random values alone would never meet `x * 3 == 111`.

use crate::formula::{Formulas, Id, Op};
use crate::machine::{Machine, vars_of};
use crate::sample::{Draw, any, at_place, mentioned, place};
use lathe_ir::Scalar;

/// Comparisons that are looked at, and rounds of a search.
const COMPARISONS: usize = 24;
const ROUNDS: usize = 30;
/// Random starts, and how many of them are followed.
const STARTS: usize = 96;
const FOLLOWED: usize = 2;

/// Rows of values for the variables of the roots, near ties of their comparisons.
pub(crate) fn near_ties(f: &Formulas, roots: &[Id], draw: &mut Draw) -> Vec<Vec<u64>> {
    let vars = vars_of(f, roots);
    let compares = |id: &Id| match f.get(*id).op {
        Op::Binary(op, a, b) if op.is_comparison() && f.ty(a) != Scalar::Bool => Some((a, b)),
        _ => None,
    };
    let all: Vec<(Id, Id)> = f.under(roots).iter().filter_map(compares).collect();
    let mut out = Vec::new();
    for (a, b) in all.into_iter().take(COMPARISONS) {
        let m = Machine::new(f, &[a, b]);
        if m.vars.is_empty() {
            continue;
        }
        let search = Search { m: &m, ty: f.ty(a), f, roots };
        for row in search.run(draw) {
            // The other variables are free.
            let value = |&(n, ty): &(u32, Scalar)| match m.vars.iter().position(|v| v.0 == n) {
                Some(k) => row[k],
                None => any(ty, draw.next()),
            };
            out.push(vars.iter().map(value).collect());
        }
    }
    out
}

struct Search<'a> {
    m: &'a Machine,
    /// Of the two sides.
    ty: Scalar,
    f: &'a Formulas,
    roots: &'a [Id],
}

impl Search<'_> {
    fn run(&self, draw: &mut Draw) -> Vec<Vec<u64>> {
        let types: Vec<Scalar> = self.m.vars.iter().map(|v| v.1).collect();
        let pools: Vec<Vec<u64>> = types.iter().map(|t| mentioned(self.f, self.roots, *t)).collect();
        let start = |draw: &mut Draw| -> Vec<u64> {
            let value = |(t, pool): (&Scalar, &Vec<u64>)| match (pool.is_empty(), draw.below(3)) {
                (false, 0) => pool[draw.below(pool.len())],
                _ => any(*t, draw.next()),
            };
            types.iter().zip(&pools).map(value).collect()
        };
        let starts: Vec<Vec<u64>> = (0..STARTS).map(|_| start(draw)).collect();
        let mut best: Vec<(i128, Vec<u64>)> = self.distances(&starts).into_iter().zip(starts).collect();
        best.sort();
        best.truncate(FOLLOWED);
        let mut out = Vec::new();
        for (distance, row) in best {
            let row = self.descend(distance, row, &types);
            out.extend(neighbours(&row, &types));
            out.push(row);
        }
        out
    }

    fn distances(&self, rows: &[Vec<u64>]) -> Vec<i128> {
        let columns: Vec<Vec<u64>> =
            (0..self.m.vars.len()).map(|k| rows.iter().map(|r| r[k]).collect()).collect();
        let sides = self.m.run(&columns, 1);
        let one = |(a, b): (&Option<u64>, &Option<u64>)| match (a, b) {
            (Some(a), Some(b)) => (place(self.ty, *a) - place(self.ty, *b)).abs(),
            _ => i128::MAX,
        };
        sides[0].iter().zip(&sides[1]).map(one).collect()
    }

    /// One variable at a time, by any power of two.
    fn descend(&self, mut distance: i128, mut row: Vec<u64>, types: &[Scalar]) -> Vec<u64> {
        for _ in 0..ROUNDS {
            if distance == 0 {
                break;
            }
            let mut moves = Vec::new();
            for (k, ty) in types.iter().enumerate() {
                let here = place(*ty, row[k]);
                for step in (0..ty.bits()).map(|s| 1i128 << s) {
                    for to in [here + step, here - step] {
                        let mut next = row.clone();
                        next[k] = at_place(*ty, to);
                        moves.push(next);
                    }
                }
                let mut opposite = row.clone();
                opposite[k] = at_place(*ty, -here);
                moves.push(opposite);
            }
            let best = self.distances(&moves).into_iter().zip(moves).min();
            match best {
                Some((d, next)) if d < distance => (distance, row) = (d, next),
                _ => break,
            }
        }
        row
    }
}

fn neighbours(row: &[u64], types: &[Scalar]) -> Vec<Vec<u64>> {
    let mut out = Vec::new();
    for (k, ty) in types.iter().enumerate() {
        for d in [-1, 1] {
            let mut next = row.to_vec();
            next[k] = at_place(*ty, place(*ty, row[k]) + d);
            out.push(next);
        }
    }
    out
}
