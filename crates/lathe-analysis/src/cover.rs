//! Whether a union of projections covers another.

use crate::isl_set::{Projection, difference};
use crate::solve::{Answer, Reduced, solve_from};
use crate::system::{Con, Conj, System};

/// Alternatives of one system before it gives up.
const MAX_PARTS: usize = 256;

/// The alternatives of a system, each as a conjunction, of which the first `kept` unknowns matter.
pub(crate) fn expand(system: &System, kept: u32, out: &mut Vec<Conj>) -> Result<(), String> {
    let mut base = Reduced::default();
    let mut all = Vec::new();
    if base.absorb(&system.cons) {
        all.push(base);
    }
    for clause in &system.clauses {
        let mut next = Vec::new();
        for (state, alternative) in all.iter().flat_map(|s| clause.iter().map(move |a| (s, a))) {
            let mut state = state.clone();
            if state.absorb(alternative) {
                next.push(state);
            }
        }
        if next.len() > MAX_PARTS {
            return Err("there are too many cases to examine".into());
        }
        all = next;
    }
    for state in all {
        if state.larger {
            return Err("numbers grow too large".into());
        }
        out.push(state.projected(kept).ok_or("numbers grow too large")?);
    }
    Ok(())
}

/// A point of `a` that is not in `b`, both seen as sets of their first `dims` unknowns.
/// `Some(None)`: there is none, `None`: the budget was spent.
pub(crate) fn uncovered(a: &Projection, b: &Projection) -> Option<Option<Vec<i64>>> {
    let mut left: Vec<Conj> = Vec::new();
    for x in a.parts {
        if !left.contains(x) && !within_one(x, b, a.dims) {
            left.push(x.clone());
        }
    }
    if left.is_empty() {
        return Some(None);
    }
    difference(&Projection { dims: a.dims, parts: &left }, b)
}

/// Every point of `x` is one of the same part: decided for parts that are given without projected unknowns.
fn within_one(x: &Conj, of: &Projection, dims: u32) -> bool {
    let plain = |y: &&Conj| y.iter().all(|c| c.lin.terms.iter().all(|t| t.0 < dims));
    let mut reduced = None;
    of.parts.iter().filter(plain).any(|y| {
        // What is said in the same words needs no proof.
        let rest: Vec<&Con> = y.iter().filter(|c| !x.iter().any(|k| says(k, c))).collect();
        if rest.is_empty() {
            return true;
        }
        let state = reduced.get_or_insert_with(|| {
            let mut state = Reduced::default();
            state.absorb(x).then_some(state)
        });
        // Without a point, it is within every part.
        state.as_ref().is_none_or(|state| implies(state, x, &rest, dims))
    })
}

/// Whether a constraint is another one, or a closer bound of the same terms.
fn says(k: &Con, c: &Con) -> bool {
    k.lin.terms == c.lin.terms
        && if c.eq { k.eq && k.lin.constant == c.lin.constant } else { k.lin.constant <= c.lin.constant }
}

/// Whether all points of `x`, of which `state` is the reduced form, satisfy the constraints.
fn implies(state: &Reduced, x: &Conj, rest: &[&Con], dims: u32) -> bool {
    let columns = x.iter().flat_map(|c| c.lin.terms.last()).map(|t| t.0 + 1).max().unwrap_or(0).max(dims);
    let impossible = |lin: Option<crate::system::Lin>| {
        lin.is_some_and(|lin| solve_from(state, &[Con { lin, eq: false }], &[], columns) == Answer::Empty)
    };
    rest.iter().all(|c| {
        let below = c.lin.scaled(-1).and_then(|l| l.offset(-1));
        impossible(below) && (!c.eq || impossible(c.lin.offset(-1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Lin;

    fn at_least_zero(terms: &[(u32, i64)], constant: i64) -> Con {
        Con { lin: Lin { terms: terms.to_vec(), constant }, eq: false }
    }

    #[test]
    fn what_would_leave_64_bits_covers_nothing() {
        let mut system = System::new();
        system.columns = 1;
        system.cons.push(at_least_zero(&[(0, i64::MIN)], 5));
        assert!(expand(&system, 1, &mut Vec::new()).is_err());
    }
}
