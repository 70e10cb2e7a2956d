//! The order of a group's levels, and what hangs below what.
//!
//! For an order of the parameters, the first one becomes a level; what is left falls apart into the parts that
//! are still connected through conditions, and each part hangs below it in the same way. A level's *context* are
//! the levels above that conditions at or below it mention: nodes with equal values there have equal subtrees.
//! (Pseudo-trees and contexts: Freuder and Quinn; Dechter and Mateescu.)

use super::groups::Condition;

/// One level of a group before its nodes are made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanLevel {
    pub param: usize,
    pub parent: Option<(usize, usize)>,
    pub children: Vec<usize>,
    /// Levels above, ascending.
    pub context: Vec<usize>,
    /// Conditions whose last parameter this is (positions in the list of conditions), in the order of the list.
    pub tests: Vec<usize>,
}

/// The levels of a group for an order of its parameters. `conditions` are those of the group.
pub(crate) fn plan(order: &[usize], conditions: &[Condition], of_group: &[usize]) -> Vec<PlanLevel> {
    let n = order.len();
    let place = |p: usize| order.iter().position(|q| *q == p).unwrap_or(0);
    let scopes: Vec<Vec<usize>> =
        of_group.iter().map(|c| conditions[*c].scope.iter().map(|p| place(*p)).collect()).collect();
    let links = links(n, &scopes);
    let mut levels: Vec<PlanLevel> = Vec::with_capacity(n);
    let mut level_of = vec![0; n];
    // Parts still to be placed, the next one last: members ascending, and what they hang below.
    let mut parts: Vec<(Vec<usize>, Option<usize>)> =
        components(&(0..n).collect::<Vec<_>>(), &links).into_iter().map(|c| (c, None)).rev().collect();
    while let Some((members, parent)) = parts.pop() {
        let l = levels.len();
        level_of[members[0]] = l;
        let parent = parent.map(|p| {
            levels[p].children.push(l);
            (p, levels[p].children.len() - 1)
        });
        let (param, children) = (order[members[0]], Vec::new());
        levels.push(PlanLevel { param, parent, children, context: Vec::new(), tests: Vec::new() });
        parts.extend(components(&members[1..], &links).into_iter().map(|c| (c, Some(l))).rev());
    }
    let mut context: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (c, scope) in of_group.iter().zip(&scopes) {
        let on: Vec<usize> = scope.iter().map(|i| level_of[*i]).collect();
        let last = on.iter().copied().max().unwrap_or(0);
        levels[last].tests.push(*c);
        context[last].extend(on);
    }
    for l in (0..n).rev() {
        context[l].retain(|a| *a != l);
        context[l].sort_unstable();
        context[l].dedup();
        if let Some((p, _)) = levels[l].parent {
            let above = context[l].clone();
            context[p].extend(above);
        }
    }
    for (level, context) in levels.iter_mut().zip(context) {
        level.context = context;
    }
    levels
}

/// Which places share a condition.
fn links(n: usize, scopes: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut links: Vec<Vec<usize>> = vec![Vec::new(); n];
    for scope in scopes {
        for a in scope {
            links[*a].extend(scope.iter().filter(|b| *b != a));
        }
    }
    for l in &mut links {
        l.sort_unstable();
        l.dedup();
    }
    links
}

/// The connected parts of some places, each ascending, in the order of their first members.
fn components(members: &[usize], links: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut inside = vec![false; links.len()];
    members.iter().for_each(|m| inside[*m] = true);
    let mut out = Vec::new();
    for m in members {
        if !inside[*m] {
            continue;
        }
        inside[*m] = false;
        let (mut part, mut open) = (vec![*m], vec![*m]);
        while let Some(a) = open.pop() {
            for b in &links[a] {
                if inside[*b] {
                    inside[*b] = false;
                    part.push(*b);
                    open.push(*b);
                }
            }
        }
        part.sort_unstable();
        out.push(part);
    }
    out
}

/// An order in which few earlier parameters matter at each level: parameters are removed from the graph of
/// shared conditions, always the one whose neighbours have the fewest combinations of values (`weight` is the
/// logarithm of a parameter's number of values), and its neighbours become linked. The last one removed is first.
pub(crate) fn narrow_order(
    params: &[usize],
    conditions: &[Condition],
    of_group: &[usize],
    weight: &dyn Fn(usize) -> f64,
) -> Vec<usize> {
    let n = params.len();
    let place = |p: usize| params.iter().position(|q| *q == p).unwrap_or(0);
    let mut linked = vec![vec![false; n]; n];
    for c in of_group {
        let scope: Vec<usize> = conditions[*c].scope.iter().map(|p| place(*p)).collect();
        for a in &scope {
            for b in &scope {
                linked[*a][*b] = a != b;
            }
        }
    }
    let weights: Vec<f64> = params.iter().map(|p| weight(*p)).collect();
    let mut left = vec![true; n];
    let mut order = Vec::with_capacity(n);
    for _ in 0..n {
        let cost =
            |v: usize| -> f64 { (0..n).filter(|u| left[*u] && linked[v][*u]).map(|u| weights[u]).sum() };
        let next = (0..n)
            .filter(|v| left[*v])
            .map(|v| (cost(v), weights[v], v))
            // Of equal ones the larger range goes further down, then the later declared.
            .min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2)));
        let Some((_, _, v)) = next else { break };
        left[v] = false;
        let near: Vec<usize> = (0..n).filter(|u| left[*u] && linked[v][*u]).collect();
        for a in &near {
            for b in &near {
                linked[*a][*b] = a != b;
            }
        }
        order.push(params[v]);
    }
    order.reverse();
    order
}
