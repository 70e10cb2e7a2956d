//! Loop distribution within a schedule: statements that isl keeps in one tilable band get separate innermost
//! loops, so that these can be vectorized.

use super::dependences::stays;
use super::{Member, Schedule, Tree};

/// The tree with one member of a band innermost, and apart for the units under it; `inside` are the units here, `bands`
/// counts, `around` are the members that enclose.
pub(super) fn distributed(
    s: &Schedule,
    t: &Tree,
    (band, at): (usize, usize),
    inside: &[usize],
    bands: &mut usize,
    around: &mut Vec<Member>,
) -> Option<Tree> {
    match t {
        Tree::Leaf => None,
        Tree::Blocks { member, width, cuts, places, child } => {
            let (member, cuts, places) = (member.clone(), cuts.clone(), places.clone());
            let child = distributed(s, child, (band, at), inside, bands, around)?;
            Some(Tree::Blocks { member, width: *width, cuts, places, child: Box::new(child) })
        }
        Tree::Sequence(parts) => {
            let mut out = parts.clone();
            for (units, part) in &mut out {
                if let Some(new) = distributed(s, part, (band, at), units, bands, around) {
                    *part = new;
                    return Some(Tree::Sequence(out));
                }
            }
            None
        }
        Tree::Band { members, permutable, child } => {
            let here = *bands;
            *bands += 1;
            if here == band {
                let last = at + 1 == members.len();
                return (*permutable || last)
                    .then(|| apart(s, members, *permutable, at, child, inside, around))?;
            }
            let outside = around.len();
            around.extend(members.iter().cloned());
            let new = distributed(s, child, (band, at), inside, bands, around);
            around.truncate(outside);
            let child = Box::new(new?);
            Some(Tree::Band { members: members.clone(), permutable: *permutable, child })
        }
    }
}

fn apart(
    s: &Schedule,
    members: &[Member],
    permutable: bool,
    member: usize,
    child: &Tree,
    inside: &[usize],
    around: &[Member],
) -> Option<Tree> {
    let mut others = members.to_vec();
    let inner = others.remove(member);
    let equal: Vec<&Member> = around.iter().chain(&others).collect();
    let waits = |from: usize, to: usize| {
        from != to
            && s.dependences.iter().any(|d| {
                (d.from, d.to) == (from, to) && stays(&s.context, &s.units, d, &equal) != Some(false)
            })
    };
    let groups = circles(inside, &waits);
    if groups.len() < 2 {
        return None;
    }
    let parts = groups
        .into_iter()
        .map(|units| {
            let child = Box::new(restricted(child, &units));
            let band = Tree::Band { members: vec![among(&inner, &units)], permutable: true, child };
            (units, band)
        })
        .collect();
    let child = Tree::Sequence(parts);
    Some(match others.is_empty() {
        true => child,
        false => Tree::Band { members: others, permutable, child: Box::new(child) },
    })
}

pub(super) fn among(m: &Member, units: &[usize]) -> Member {
    let rows = m.rows.iter().filter(|r| units.contains(r.0)).map(|(u, f)| (*u, f.clone())).collect();
    Member { rows, ..m.clone() }
}

/// The tree of some of its units.
pub(super) fn restricted(t: &Tree, units: &[usize]) -> Tree {
    let of = |all: &[usize]| -> Vec<usize> { all.iter().copied().filter(|u| units.contains(u)).collect() };
    match t {
        // Nothing is distributed around blocks.
        Tree::Leaf | Tree::Blocks { .. } => t.clone(),
        Tree::Sequence(parts) => {
            let mut parts: Vec<(Vec<usize>, Tree)> = (parts.iter())
                .map(|(all, t)| (of(all), restricted(t, units)))
                .filter(|p| !p.0.is_empty())
                .collect();
            match parts.len() {
                1 => parts.remove(0).1,
                _ => Tree::Sequence(parts),
            }
        }
        Tree::Band { members, permutable, child } => Tree::Band {
            members: members.iter().map(|m| among(m, units)).collect(),
            permutable: *permutable,
            child: Box::new(restricted(child, units)),
        },
    }
}

/// Strongly connected components together, each group after all that it waits for; otherwise in the order of
/// the text.
pub(super) fn circles(units: &[usize], waits: &dyn Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let n = units.len();
    let mut reach: Vec<Vec<bool>> =
        units.iter().map(|a| units.iter().map(|b| a != b && waits(*a, *b)).collect()).collect();
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    let mut left: Vec<usize> = (0..n).collect();
    let mut out = Vec::new();
    while !left.is_empty() {
        // Nobody that is left and not in the same circle comes before.
        let free = |a: usize| left.iter().all(|b| !reach[*b][a] || reach[a][*b]);
        let Some(first) = left.iter().copied().find(|a| free(*a)) else { return vec![units.to_vec()] };
        let group: Vec<usize> =
            left.iter().copied().filter(|b| *b == first || reach[first][*b] && reach[*b][first]).collect();
        left.retain(|b| !group.contains(b));
        out.push(group.into_iter().map(|g| units[g]).collect());
    }
    out
}
