//! Completing decisions of which some are fixed from others that are complete.

use lathe_mdh::decisions::Table;
use lathe_mdh::{AsmLevel, Decisions, Phase};

/// What is fixed stays; the rest is taken from `from`, as far as both go together: ranks and levels of the model that
/// are taken already are replaced by the next ones that are not. Phases about which nothing is said do as those about
/// which something is, so that one nest stays one nest.
pub fn complete(fixed: &Decisions, from: &Decisions) -> Decisions {
    let mut out = fixed.clone();
    let said = |p: &Phase| fixed.steps(*p).order.iter().flatten().any(Option::is_some);
    let order =
        Phase::ALL.into_iter().find(said).map(|p| permutation(&fixed.steps(p).order, &from.steps(p).order));
    let said = |p: &Phase| fixed.steps(*p).assignment.iter().flatten().any(Option::is_some);
    let by = Phase::ALL.into_iter().find(said);
    let by = by.map(|p| bijection(&fixed.steps(p).assignment, &from.steps(p).assignment));
    for p in Phase::ALL {
        let (orders, whose) = (&fixed.steps(p).order, &fixed.steps(p).assignment);
        let free = orders.iter().flatten().all(Option::is_none);
        let order = match &order {
            Some(o) if free => o.clone(),
            _ => permutation(orders, &from.steps(p).order),
        };
        let free = whose.iter().flatten().all(Option::is_none);
        let assignment = match &by {
            Some(a) if free => a.clone(),
            _ => bijection(whose, &from.steps(p).assignment),
        };
        let s = out.steps_mut(p);
        (s.order, s.assignment) = (order, assignment);
    }
    out.complete_from(from);
    out
}

/// Free entries take the ranks that are left, in the order of `from`.
fn permutation(fixed: &Table<usize>, from: &Table<usize>) -> Table<usize> {
    let mut out = fixed.clone();
    let n = fixed.iter().map(Vec::len).sum::<usize>();
    let taken: Vec<usize> = fixed.iter().flatten().flatten().copied().collect();
    let mut left = (0..n).filter(|r| !taken.contains(r));
    let mut open: Vec<(usize, usize, usize)> = Vec::new();
    for (l, row) in fixed.iter().enumerate() {
        for (d, e) in row.iter().enumerate() {
            if e.is_none() {
                open.push((from[l][d].unwrap_or(n), l, d));
            }
        }
    }
    open.sort_unstable();
    for (_, l, d) in open {
        out[l][d] = left.next();
    }
    out
}

/// Free entries take what `from` gives them if it is left, else the next that is.
fn bijection(fixed: &Table<AsmLevel>, from: &Table<AsmLevel>) -> Table<AsmLevel> {
    let mut out = fixed.clone();
    let mut taken: Vec<AsmLevel> = fixed.iter().flatten().flatten().copied().collect();
    for (l, row) in fixed.iter().enumerate() {
        for (d, e) in row.iter().enumerate() {
            if let (None, Some(a)) = (e, from[l][d])
                && !taken.contains(&a)
            {
                out[l][d] = Some(a);
                taken.push(a);
            }
        }
    }
    let all = from.iter().flatten().flatten().copied();
    let mut left: Vec<AsmLevel> = all.filter(|a| !taken.contains(a)).collect();
    for e in out.iter_mut().flatten().filter(|e| e.is_none()) {
        if !left.is_empty() {
            *e = Some(left.remove(0));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fixed_stays_and_the_rest_fits() {
        let from = vec![vec![Some(0), Some(1)], vec![Some(3), Some(2)]];
        let fixed = vec![vec![None, Some(0)], vec![None, None]];
        assert_eq!(permutation(&fixed, &from), vec![vec![Some(1), Some(0)], vec![Some(3), Some(2)]]);
        let a = |layer| Some(AsmLevel { layer, dim: 0 });
        let (fixed, from) =
            (vec![vec![a(1)], vec![None], vec![None]], vec![vec![a(0)], vec![a(1)], vec![a(2)]]);
        assert_eq!(bijection(&fixed, &from), vec![vec![a(1)], vec![a(0)], vec![a(2)]]);
    }
}
