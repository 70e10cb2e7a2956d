//! Deciding systems: equalities are eliminated, disjunctions searched with pruning, inequalities
//! eliminated by Fourier and Motzkin's method. Where that is exact over the integers the answer
//! stands; where it is not, isl decides.

use crate::budget::spend;
use crate::eliminate::{Outcome, eliminate, impossible};
use crate::isl_set;
use crate::system::{Con, Conj, Lin, System};
use lathe_poly::gcd;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// Whether a system has an integer point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Empty,
    /// A value for every unknown.
    Point(Vec<i64>),
    /// The budget was spent, or numbers grew too large.
    Unknown,
}

/// Nodes of the search over alternatives before it gives up.
const MAX_NODES: usize = 20_000;

/// Values that are tried for unknowns, beyond the nearest ones, before isl is asked for a point: it takes as long as some thousands.
const MAX_VALUES: usize = 128;

/// Finds a point of a system or shows that there is none.
pub(crate) fn solve(system: &System) -> Answer {
    let mut state = Reduced::default();
    if !state.absorb(&system.cons) {
        return Answer::Empty;
    }
    settled(state, &system.clauses, system.columns)
}

/// As [`solve`], for a state already reduced, with more constraints and clauses.
pub(crate) fn solve_from(state: &Reduced, more: &[Con], clauses: &[Vec<Conj>], columns: u32) -> Answer {
    let mut state = state.clone();
    if !state.absorb(more) {
        return Answer::Empty;
    }
    settled(state, clauses, columns)
}

/// Whether elimination alone shows that a state and clauses have no point. Cheap: isl is not asked, so that false says
/// nothing.
pub(crate) fn refuted(state: &Reduced, clauses: &[Vec<Conj>]) -> bool {
    let open: Vec<&[Conj]> = clauses.iter().map(Vec::as_slice).collect();
    none_in(state, &open, &mut 0)
}

fn none_in(state: &Reduced, clauses: &[&[Conj]], nodes: &mut usize) -> bool {
    *nodes += 1;
    if *nodes > MAX_NODES || !spend((state.cons.len() * state.cons.len()) as u64) {
        return false;
    }
    if impossible(&state.cons) {
        return true;
    }
    clauses.split_first().is_some_and(|(first, rest)| {
        first.iter().all(|alternative| {
            let mut next = state.clone();
            !next.absorb(alternative) || none_in(&next, rest, nodes)
        })
    })
}

/// The search, once the clauses that leave no choice are part of the state.
fn settled(mut state: Reduced, clauses: &[Vec<Conj>], columns: u32) -> Answer {
    let mut open: Vec<&[Conj]> = Vec::with_capacity(clauses.len());
    for clause in clauses {
        match clause.as_slice() {
            [] => return Answer::Empty,
            [only] if !state.absorb(only) => return Answer::Empty,
            [_] => {}
            all => open.push(all),
        }
    }
    search(&state, &open, columns, &mut 0)
}

fn search(state: &Reduced, clauses: &[&[Conj]], columns: u32, nodes: &mut usize) -> Answer {
    *nodes += 1;
    if *nodes > MAX_NODES || !spend((state.cons.len() * state.cons.len()) as u64) {
        return Answer::Unknown;
    }
    // Where no alternatives are left, isl would be asked next.
    let others = if clauses.is_empty() { MAX_VALUES } else { 0 };
    let point = match eliminate(&state.cons, others) {
        Outcome::Empty => return Answer::Empty,
        Outcome::Point(p) => Some(state.complete(p, columns)),
        Outcome::Maybe => None,
    };
    if let Some(Some(p)) = &point {
        // A point of the relaxation that happens to satisfy every clause is an answer.
        let fits = |alt: &Conj| alt.iter().all(|c| c.holds(p));
        if clauses.iter().all(|cl| cl.iter().any(fits)) {
            return Answer::Point(p.clone());
        }
    }
    let Some((first, rest)) = clauses.split_first() else {
        if let Some(Some(p)) = point {
            return Answer::Point(p);
        }
        return match isl_set::sample(&state.cons) {
            Some(Some(values)) => match state.complete(values, columns) {
                Some(p) => Answer::Point(p),
                None => Answer::Unknown,
            },
            Some(None) => Answer::Empty,
            None => Answer::Unknown,
        };
    };
    let mut unknown = false;
    for alternative in *first {
        let mut next = state.clone();
        if !next.absorb(alternative) {
            continue;
        }
        match search(&next, rest, columns, nodes) {
            Answer::Empty => {}
            Answer::Unknown => unknown = true,
            found => return found,
        }
    }
    if unknown { Answer::Unknown } else { Answer::Empty }
}

/// A conjunction with its equalities eliminated as far as unit coefficients allow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reduced {
    /// Unknowns that equalities determine, each by later ones of the list and by free ones.
    defined: Vec<(u32, Lin)>,
    /// What is left: normalized, no two constraints of one direction.
    pub cons: Conj,
    /// A constraint was left out, because its numbers do not fit.
    pub larger: bool,
}

impl Reduced {
    /// Adds constraints; false if they contradict each other evidently.
    pub fn absorb(&mut self, more: &[Con]) -> bool {
        // Numbers too large: leaving a constraint out only enlarges the system.
        let mut todo = Vec::with_capacity(more.len() + self.cons.len());
        todo.extend_from_slice(more);
        self.substitute_all(&mut todo, 0);
        todo.append(&mut self.cons);
        loop {
            let known = self.defined.len();
            if !self.define(&mut todo) {
                return false;
            }
            if self.defined.len() > known {
                self.substitute_all(&mut todo, known);
            }
            self.larger |= todo.iter().any(has_least);
            let Some(normal) = normalize(todo) else { return false };
            if !normal.iter().any(|c| c.eq && definition(&c.lin).is_some()) {
                self.cons = normal;
                return true;
            }
            todo = normal;
        }
    }

    /// Puts the definitions from the given one on into constraints, as far as their numbers fit.
    fn substitute_all(&mut self, all: &mut Conj, from: usize) {
        let before = all.len();
        all.retain_mut(|con| self.substitute(&mut con.lin, from).is_some());
        self.larger |= all.len() < before;
    }

    /// Takes the equalities with a unit coefficient out of the list, as definitions. False: one of
    /// them is a contradiction.
    fn define(&mut self, todo: &mut Conj) -> bool {
        let known = self.defined.len();
        let (eqs, mut rest): (Conj, Conj) = std::mem::take(todo).into_iter().partition(|c| c.eq);
        for Con { mut lin, .. } in eqs {
            if self.substitute(&mut lin, known).is_none() {
                self.larger = true;
                continue;
            }
            if lin.terms.is_empty() {
                if lin.constant != 0 {
                    return false;
                }
                continue;
            }
            match definition(&lin) {
                Some(definition) => self.defined.push(definition),
                None => rest.push(Con { lin, eq: true }),
            }
        }
        *todo = rest;
        true
    }

    /// Puts the definitions from the given one on in. `None`, and only some of them in, if the numbers do not fit.
    fn substitute(&self, lin: &mut Lin, from: usize) -> Option<()> {
        for (col, value) in self.defined.get(from..).unwrap_or(&[]) {
            let k = lin.coefficient(col);
            if k != 0 {
                *lin = lin.combine(1, value, k)?;
                lin.terms.retain(|t| t.0 != *col);
            }
        }
        Some(())
    }

    /// The same set over fewer unknowns, for which the first `kept` ones stay.
    pub fn projected(&self, kept: u32) -> Option<Conj> {
        let mut out = self.cons.clone();
        for (i, (col, value)) in self.defined.iter().enumerate() {
            if *col < kept {
                let mut value = value.clone();
                self.substitute(&mut value, i + 1)?;
                out.push(Con { lin: Lin::atom(*col).minus(&value)?, eq: true });
            }
        }
        Some(out)
    }

    /// Values of all unknowns from those of the free ones (the others are zero).
    fn complete(&self, free: Vec<(u32, i64)>, columns: u32) -> Option<Vec<i64>> {
        let mut point = vec![0; columns as usize];
        for (col, v) in free {
            *point.get_mut(col as usize)? = v;
        }
        for (col, value) in self.defined.iter().rev() {
            let v = value.at(&point)?;
            *point.get_mut(*col as usize)? = v;
        }
        Some(point)
    }
}

/// An unknown of `lin == 0` with its value. The latest one with a unit coefficient goes, so that the leading ones, which
/// matter to callers, stay. None where the value would overflow 64 bits.
fn definition(lin: &Lin) -> Option<(u32, Lin)> {
    // `k * col + rest == 0`, so `col == -k * rest`.
    let (col, k) = lin.terms.iter().rfind(|t| matches!(t.1, 1 | -1)).copied()?;
    let mut value = lin.clone();
    value.terms.retain(|t| t.0 != col);
    Some((col, value.scaled(-k)?))
}

/// Where constraints with some factors are in a list, found without a copy of these.
struct Directions(FxHashMap<u64, usize>);

impl Directions {
    /// The constraint with these factors, or their negatives; or the key of one that would have them.
    fn of(&self, all: &[Con], terms: &[(u32, i64)], sign: i64) -> Result<usize, u64> {
        let step = |h: u64, t: &(u32, i64)| {
            let h = (h ^ u64::from(t.0)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
            (h ^ (sign * t.1) as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
        };
        let mut key = terms.iter().fold(0xcbf2_9ce4_8422_2325, step);
        while let Some(&at) = self.0.get(&key) {
            let known = &all[at].lin.terms;
            let same = |(a, b): (&(u32, i64), &(u32, i64))| a.0 == b.0 && a.1 == sign * b.1;
            if known.len() == terms.len() && known.iter().zip(terms).all(same) {
                return Ok(at);
            }
            // Another one has the same hash.
            key = key.wrapping_add(1);
        }
        Err(key)
    }
}

/// Whether a number has no negative of 64 bits; [`normalize`] leaves such constraints out.
pub(crate) fn has_least(c: &Con) -> bool {
    c.lin.constant == i64::MIN || c.lin.terms.iter().any(|t| t.1 == i64::MIN)
}

/// Divides by common factors (tightening constants), keeps the tightest of one direction, turns two
/// opposite inequalities that meet into an equality. `None`: there is no integer point.
pub(crate) fn normalize(cons: Conj) -> Option<Conj> {
    let mut seen = Directions(FxHashMap::with_capacity_and_hasher(cons.len(), FxBuildHasher));
    let mut out: Conj = Vec::with_capacity(cons.len());
    for mut con in cons {
        if con.lin.terms.is_empty() {
            let fine = if con.eq { con.lin.constant == 0 } else { con.lin.constant >= 0 };
            if !fine {
                return None;
            }
            continue;
        }
        let g = con.lin.terms.iter().fold(0, |g, t| gcd(g, t.1.unsigned_abs()));
        let Ok(g) = i64::try_from(g) else { continue };
        if g > 1 {
            if con.eq && con.lin.constant % g != 0 {
                return None;
            }
            con.lin.terms.iter_mut().for_each(|t| t.1 /= g);
            con.lin.constant = con.lin.constant.div_euclid(g);
        }
        if con.lin.terms.iter().any(|t| t.1 == i64::MIN) {
            continue;
        }
        if con.eq && con.lin.terms[0].1 < 0 {
            let Some(constant) = con.lin.constant.checked_neg() else { continue };
            con.lin.terms.iter_mut().for_each(|t| t.1 = -t.1);
            con.lin.constant = constant;
        }
        match seen.of(&out, &con.lin.terms, 1) {
            Ok(i) => {
                let old = &mut out[i];
                match (old.eq, con.eq) {
                    (true, true) if old.lin.constant != con.lin.constant => return None,
                    (true, true) => {}
                    // The direction is fixed at `-c`: is the inequality true there?
                    (true, false) if con.lin.constant < old.lin.constant => return None,
                    (true, false) => {}
                    (false, true) if old.lin.constant < con.lin.constant => return None,
                    (false, true) => *old = con,
                    (false, false) => old.lin.constant = old.lin.constant.min(con.lin.constant),
                }
            }
            Err(key) => {
                seen.0.insert(key, out.len());
                out.push(con);
            }
        }
    }
    // Opposite directions: `t + a >= 0` and `-t + b >= 0` give `-a <= t <= b`.
    let mut dropped = vec![false; out.len()];
    for i in 0..out.len() {
        if dropped[i] {
            continue;
        }
        let Ok(j) = seen.of(&out, &out[i].lin.terms, -1) else { continue };
        if dropped[j] {
            continue;
        }
        match (out[i].eq, out[j].eq) {
            // `t == -a`, `-t + b >= 0`: `a + b >= 0`.
            (true, false) => {
                if i128::from(out[i].lin.constant) + i128::from(out[j].lin.constant) < 0 {
                    return None;
                }
                dropped[j] = true;
            }
            (false, false) => {
                let slack = i128::from(out[i].lin.constant) + i128::from(out[j].lin.constant);
                if slack < 0 {
                    return None;
                }
                if slack == 0 {
                    out[i].eq = true;
                    dropped[j] = true;
                }
            }
            _ => {}
        }
    }
    let mut keep = dropped.into_iter();
    out.retain(|_| !keep.next().unwrap_or(false));
    Some(out)
}
