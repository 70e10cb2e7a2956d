//! Whether a union of projections covers another.

mod numbered;

use crate::budget::within_half;
use crate::isl_set::{Projection, difference};
use crate::solve::{Reduced, has_least, normalize, refuted};
use crate::system::{Con, Conj, Lin, System};
use numbered::{Numbered, fixed};

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
    let parts: Vec<Conj> = b.parts.iter().filter_map(|y| fixed(y.clone(), b.dims)).collect();
    let b = &Projection { dims: b.dims, parts: &parts };
    let left = not_covered(a, b);
    if left.is_empty() {
        return Some(None);
    }
    // Elimination may show it of parts of tiles; isl, which takes longer, gives a point besides.
    let numbered = Numbered::of(a.dims, &left, b.parts);
    if numbered.as_ref().is_some_and(|n| n.left().is_empty()) {
        return Some(None);
    }
    let first = || difference(&Projection { dims: a.dims, parts: &left }, b);
    // Half of what may be done is for the case that isl gives up.
    within_half(first).or_else(|| numbered.and_then(|n| n.difference(a.dims))).or_else(first)
}

/// The parts of `a` of which elimination does not show that `b` covers them.
fn not_covered(a: &Projection, b: &Projection) -> Vec<Conj> {
    let shadows: Vec<Conj> = b.parts.iter().filter_map(|y| shadow(y, a.dims)).collect();
    let mut left: Vec<Conj> = Vec::new();
    for x in a.parts {
        if !left.contains(x) && !covered(x, &shadows) {
            left.push(x.clone());
        }
    }
    left
}

/// Questions about one part before isl is asked at once.
const MAX_QUESTIONS: usize = 1000;

/// Whether every point of a part is in one of the others.
fn covered(x: &Conj, parts: &[Conj]) -> bool {
    // What is said in the same words needs no proof.
    let open =
        |y: &'_ Conj| -> Vec<usize> { (0..y.len()).filter(|c| !x.iter().any(|k| says(k, &y[*c]))).collect() };
    let open: Vec<(&Conj, Vec<usize>)> = parts.iter().map(|y| (y, open(y))).collect();
    if open.iter().any(|y| y.1.is_empty()) {
        return true;
    }
    let mut state = Reduced::default();
    // Without a point, it is within every part.
    !state.absorb(x) || within(&state, open, &mut { MAX_QUESTIONS })
}

/// The same for what is known of a state: the constraints of each part that it may not satisfy are open.
fn within(state: &Reduced, mut parts: Vec<(&Conj, Vec<usize>)>, left: &mut usize) -> bool {
    let mut ask = |state: &Reduced| -> Option<bool> {
        *left = left.checked_sub(1)?;
        Some(refuted(state, &[]))
    };
    match ask(state) {
        Some(true) => return true,
        Some(false) => {}
        None => return false,
    }
    let mut at = 0;
    while let Some((part, open)) = parts.get_mut(at) {
        // A part without a point here covers nothing.
        let mut both = state.clone();
        if !open.iter().all(|c| both.absorb(std::slice::from_ref(&part[*c]))) {
            parts.swap_remove(at);
            continue;
        }
        match ask(&both) {
            Some(true) => {
                parts.swap_remove(at);
                continue;
            }
            Some(false) => {}
            None => return false,
        }
        open.retain(|c| {
            !others(&part[*c]).into_iter().all(|beyond| {
                let mut state = state.clone();
                beyond.is_some_and(|beyond| !state.absorb(&[beyond]) || ask(&state).unwrap_or(false))
            })
        });
        if open.is_empty() {
            return true;
        }
        at += 1;
    }
    // The fewest cases first. What is not in a part is on the other side of one of its constraints, and in the others of it.
    let Some(first) = (0..parts.len()).min_by_key(|p| parts[*p].1.len()) else { return false };
    let (part, open) = parts.swap_remove(first);
    if parts.is_empty() {
        return false;
    }
    let mut here = state.clone();
    for c in open.iter().map(|c| &part[*c]) {
        for beyond in others(c) {
            let Some(beyond) = beyond else { return false };
            let mut state = here.clone();
            if state.absorb(&[beyond]) && !within(&state, parts.clone(), left) {
                return false;
            }
        }
        if !here.absorb(std::slice::from_ref(c)) {
            return true;
        }
    }
    true
}

/// Whether a constraint is another one, or a closer bound of the same terms.
fn says(k: &Con, c: &Con) -> bool {
    k.lin.terms == c.lin.terms
        && if c.eq { k.eq && k.lin.constant == c.lin.constant } else { k.lin.constant <= c.lin.constant }
}

/// The alternatives of which one holds where a constraint does not.
fn others(c: &Con) -> Vec<Option<Con>> {
    let con = |lin: Option<Lin>| lin.map(|lin| Con { lin, eq: false });
    let below = con(c.lin.scaled(-1).and_then(|l| l.offset(-1)));
    if c.eq { vec![below, con(c.lin.offset(-1))] } else { vec![below] }
}

/// Constraints beyond which a shadow is not worth it.
const MAX_SHADOW: usize = 60;

/// What the first `dims` unknowns of a conjunction satisfy so that it has a point, or more than that: the dark shadow of
/// the Omega test (Pugh, 1991). None where numbers grow too large, or nothing is known of it.
fn shadow(cons: &Conj, dims: u32) -> Option<Conj> {
    let mut cons = merged(cons.clone(), dims)?;
    loop {
        let mut columns: Vec<u32> = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)).collect();
        columns.retain(|c| *c >= dims);
        columns.sort_unstable();
        columns.dedup();
        let pairs = |col: &u32| {
            let signs = cons.iter().map(|c| c.lin.coefficient(col).signum());
            let (mut up, mut down) = (0usize, 0usize);
            signs.for_each(|s| {
                up += usize::from(s > 0);
                down += usize::from(s < 0);
            });
            up * down
        };
        let Some(col) = columns.iter().copied().min_by_key(pairs) else { return Some(cons) };
        let (with, mut rest): (Conj, Conj) = cons.into_iter().partition(|c| c.lin.coefficient(&col) != 0);
        if let Some(e) = with.iter().find(|c| c.eq) {
            // A value of its own: `k * col + …  == 0`.
            let k = e.lin.coefficient(&col);
            if k.abs() != 1 {
                return None;
            }
            for c in with.iter().filter(|c| *c != e) {
                let by = c.lin.coefficient(&col).checked_mul(-k)?;
                rest.push(Con { lin: c.lin.plus(&e.lin, by)?, eq: c.eq });
            }
            if rest.iter().any(has_least) {
                return None;
            }
            cons = normalize(rest)?;
            continue;
        }
        let (lower, upper): (Conj, Conj) = with.into_iter().partition(|c| c.lin.coefficient(&col) > 0);
        for (l, u) in lower.iter().flat_map(|l| upper.iter().map(move |u| (l, u))) {
            let (a, b) = (l.lin.coefficient(&col), u.lin.coefficient(&col).checked_neg()?);
            let slack = (a - 1).checked_mul(b - 1)?;
            let lin = l.lin.combine(b, &u.lin, a)?.offset(slack.checked_neg()?)?;
            rest.push(Con { lin, eq: false });
        }
        if rest.len() > MAX_SHADOW || rest.iter().any(has_least) {
            return None;
        }
        cons = normalize(rest)?;
    }
}

/// With one unknown for all that are the same quotient: `0 <= f - k q < k` says which number `q` is.
fn merged(mut cons: Conj, dims: u32) -> Option<Conj> {
    loop {
        let quotients = quotients(&cons);
        let twin = quotients.iter().find_map(|(col, of)| {
            let other = quotients.iter().find(|(d, o)| d < col && o == of)?;
            (*col >= dims).then_some((*col, other.0))
        });
        let Some((col, other)) = twin else { return Some(cons) };
        for c in &mut cons {
            let k = c.lin.coefficient(&col);
            c.lin = std::mem::take(&mut c.lin).without(&col);
            c.lin.add_term(other, k)?;
        }
        if cons.iter().any(has_least) {
            return None;
        }
        cons = normalize(cons)?;
    }
}

/// The unknowns that are quotients, with what is divided by what.
fn quotients(cons: &Conj) -> Vec<(u32, (Lin, i64))> {
    let mut out = Vec::new();
    for c in cons.iter().filter(|c| !c.eq) {
        // `f - k q >= 0` and `k q + k - 1 - f >= 0`
        for (col, k) in c.lin.terms.iter().filter(|t| t.1 < -1) {
            let rest = k.checked_neg().map(|k| (k, k - 1));
            let Some((k, most)) = rest else { continue };
            let Some(above) = c.lin.scaled(-1).and_then(|l| l.offset(most)) else { continue };
            if cons.iter().any(|d| !d.eq && d.lin == above) {
                out.push((*col, (c.lin.clone().without(col), k)));
            }
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

    /// `0 <= v - 8 o <= most` and `0 <= o`, `8 o <= n - 1`, where `n` and `v` are the first two unknowns, and `v < n`.
    fn blocks(most: i64) -> Conj {
        vec![
            at_least_zero(&[(1, 1), (2, -8)], 0),
            at_least_zero(&[(1, -1), (2, 8)], most),
            at_least_zero(&[(2, 1)], 0),
            at_least_zero(&[(0, 1), (2, -8)], -1),
            at_least_zero(&[(0, 1), (1, -1)], -1),
        ]
    }

    #[test]
    fn blocks_cover_a_range_if_they_are_full() {
        let range = vec![at_least_zero(&[(1, 1)], 0), at_least_zero(&[(0, 1), (1, -1)], -1)];
        let within = |most| shadow(&blocks(most), 2).is_some_and(|s| covered(&range, &[s]));
        assert!(within(7));
        assert!(!within(6));
    }

    #[test]
    fn two_parts_cover_what_neither_does() {
        let range = vec![at_least_zero(&[(0, 1)], 0), at_least_zero(&[(0, -1)], 9)];
        let below = |end: i64| vec![at_least_zero(&[(0, -1)], end - 1)];
        let from = |start: i64| vec![at_least_zero(&[(0, 1)], -start)];
        assert!(covered(&range, &[below(4), from(4)]));
        assert!(covered(&range, &[below(6), from(4)]));
        assert!(!covered(&range, &[below(4), from(5)]));
        assert!(!covered(&range, &[below(4)]));
    }

    /// `first <= v - 8 o <= last`, of whose numbers `0..n` none is left out.
    #[test]
    fn parts_of_tiles_cover_a_range_together() {
        let part = |first: i64, last: i64| -> Conj {
            vec![
                at_least_zero(&[(1, 1), (2, -8)], -first),
                at_least_zero(&[(1, -1), (2, 8)], last),
                at_least_zero(&[(0, 1), (1, -1)], -1),
            ]
        };
        let range = [vec![at_least_zero(&[(0, 1), (1, -1)], -1)]];
        let missing = |parts: &[Conj]| {
            uncovered(&Projection { dims: 2, parts: &range }, &Projection { dims: 2, parts })
        };
        assert_eq!(missing(&[part(0, 5), part(6, 7)]), Some(None));
        assert_eq!(missing(&[part(6, 7), part(-2, 5)]), Some(None));
        let at = missing(&[part(0, 4), part(6, 7)]).flatten().expect("5 is in no part");
        assert_eq!((at.len(), at[1].rem_euclid(8)), (2, 5));
        // One that counts tiles from the next one on.
        assert_eq!(missing(&[part(-8, -3), part(6, 7)]), Some(None));
        let twice = Numbered { dims: 2, parts: [range.to_vec(), vec![part(-8, -3), part(6, 7)]] };
        assert_eq!(twice.further().map(|n| n.dims), Some(3));
        // That needs no isl.
        let whole = Numbered { dims: 2, parts: [range.to_vec(), vec![part(0, 5), part(6, 7)]] };
        let all = whole.further().expect("a quotient");
        let [x, y] = &all.parts;
        let (x, y) = (Projection { dims: 3, parts: x }, Projection { dims: 3, parts: y });
        assert!(not_covered(&x, &y).is_empty());
    }

    #[test]
    fn what_is_covered_is_in_some_part() {
        let mut seed = 7u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((seed >> 16) % n)
        };
        let mut conj = |most: u32| -> Conj {
            let all = 1 + below(most);
            let one = |_| {
                let terms: Vec<(u32, i64)> = (0..2).map(|c| (c, below(5) - 2)).filter(|t| t.1 != 0).collect();
                Con { lin: Lin { terms, constant: below(9) - 2 }, eq: below(9) == 0 }
            };
            (0..all).map(one).collect()
        };
        let square = |col| [at_least_zero(&[(col, 1)], 4), at_least_zero(&[(col, -1)], 4)];
        let (mut yes, mut no) = (0, 0);
        for _ in 0..2000 {
            let x: Conj = [square(0).to_vec(), square(1).to_vec(), conj(2)].concat();
            let parts: Vec<Conj> = (0..4).map(|_| conj(3)).collect();
            let is = |c: &Conj, p: &[i64; 2]| c.iter().all(|c| c.holds(p));
            let mut points = (-4..=4).flat_map(|x| (-4..=4).map(move |y| [x, y]));
            let out = points.find(|p| is(&x, p) && !parts.iter().any(|y| is(y, p)));
            let all = covered(&x, &parts);
            assert!(!all || out.is_none(), "{out:?}: {x:?}, {parts:?}");
            yes += usize::from(all);
            no += usize::from(!all && out.is_none());
        }
        assert!(yes > 300 && no * 10 < yes, "{yes} found, {no} not");
    }

    #[test]
    fn every_point_of_a_shadow_is_one_of_a_point() {
        let mut seed = 1u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((seed >> 16) % n)
        };
        let mut points = 0;
        for _ in 0..600 {
            // Two unknowns that stay and two that do not, which are in a box.
            let mut cons: Conj = Vec::new();
            for col in [2, 3] {
                cons.extend([at_least_zero(&[(col, 1)], 9), at_least_zero(&[(col, -1)], 9)]);
            }
            for _ in 0..2 + below(4) {
                let terms: Vec<(u32, i64)> = (0..4).map(|c| (c, below(9) - 4)).filter(|t| t.1 != 0).collect();
                cons.push(Con { lin: Lin { terms, constant: below(13) - 6 }, eq: below(6) == 0 });
            }
            let Some(shadow) = shadow(&cons, 2) else { continue };
            for (x, y) in (-5..=5).flat_map(|x| (-5..=5).map(move |y| (x, y))) {
                if !shadow.iter().all(|c| c.holds(&[x, y])) {
                    continue;
                }
                points += 1;
                let mut all = (-9..=9).flat_map(|u| (-9..=9).map(move |v| [x, y, u, v]));
                assert!(all.any(|p| cons.iter().all(|c| c.holds(&p))), "{x}, {y}: {cons:?}");
            }
        }
        assert!(points > 300, "{points}");
    }

    #[test]
    fn what_would_leave_64_bits_covers_nothing() {
        let mut system = System::new();
        system.columns = 1;
        system.cons.push(at_least_zero(&[(0, i64::MIN)], 5));
        assert!(expand(&system, 1, &mut Vec::new()).is_err());
    }
}
