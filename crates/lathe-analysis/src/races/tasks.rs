//! What asynchronous bodies may do at the same time as the strand that started them.
//!
//! A body that was started under a token runs beside everything that its strand does from there on, until the token is
//! awaited. So two places in the scope of a token are unordered if the first stands in such a body, the strand comes to the
//! second (or starts the body that it stands in) later, and no wait for the token lies between: which is the question that
//! barriers put, with the start of the body in the place of the access ([`super::between`]).

use super::between::{Between, Fence};
use super::{Check, Found, Kind, Race};
use crate::copy::{Copy, Place, earlier, equal};
use crate::leaves::{Leaf, Relative, Touch, relate};
use crate::order::{buffer_name, conflict_of, is_ordered, outer_values};
use crate::solve::{Answer, Reduced, refuted, solve_from};
use crate::system::{Conj, Lin};
use lathe_ir::{Stmt, StmtKind, VarId};

impl Check<'_, '_> {
    /// Looks for accesses in an asynchronous body that `a` stands in, and in what its strand does or starts afterwards.
    pub(super) fn beside(
        &self,
        a: &Leaf,
        b: &Leaf,
        (kind, touches): (&Kind, &[(&Touch, &Touch)]),
    ) -> Result<(), Found> {
        // Atomics on one element are indivisible to one another here.
        if kind.scopes.is_some() {
            return Ok(());
        }
        let (shared, _) = relate(&a.path, &b.path);
        for scope in 0..shared {
            let StmtKind::Token { token, .. } = a.path[scope].stmt.kind() else { continue };
            let Some(start) = started(a, scope, kind.at.0.depth) else { continue };
            if token_of(a.path[start].stmt) == Some(token.id) {
                let other = started(b, scope, kind.at.1.depth).unwrap_or(kind.at.1.depth);
                self.awaited((a, start, kind.at.0), (b, other, kind.at.1), scope, touches)?;
            }
        }
        Ok(())
    }

    /// Accesses of which the second is reached, or its body started, when the body of the first may not have ended.
    fn awaited(
        &self,
        (a, start, at_a): (&Leaf, usize, Place),
        (b, other, at_b): (&Leaf, usize, Place),
        scope: usize,
        touches: &[(&Touch, &Touch)],
    ) -> Result<(), Found> {
        let StmtKind::Token { token, .. } = a.path[scope].stmt.kind() else { return Ok(()) };
        let (common, relative) = relate(&a.path[..start], &b.path[..other]);
        let levels = a.levels(common);
        let inside = a.levels(scope).len();
        // A body may start iterations that run at the same time: those are looked at by themselves.
        if levels[inside..].iter().any(|l| !is_ordered(l)) {
            return Ok(());
        }
        let (mut builder, outer) = self.start.clone();
        let mut x = Copy::new(&mut builder, &outer, a, &at_a);
        let mut y = Copy::new(&mut builder, &outer, b, &at_b);
        let (within, _) = relate(&a.path[..at_a.depth], &b.path[..at_b.depth]);
        let shared = a.levels(within);
        let conflicts: Vec<_> =
            touches.iter().map(|t| conflict_of(&mut builder, a, &shared, (&mut x, &mut y), *t)).collect();
        let mut order: Vec<Conj> = (inside..levels.len()).map(|l| earlier(&levels, l, &x, &y)).collect();
        if relative == Relative::First {
            order.push(equal(&levels, &x, &y));
        }
        let mut clauses: Vec<Vec<Conj>> = vec![conflicts.iter().map(|c| c.when.clone()).collect(), order];
        let fence = Fence::Wait(token.id);
        let mut between = Between::new(&mut builder, a.path[scope].stmt, fence);
        if between.any() {
            // A later iteration of such a loop reaches the second place, wherever it stands.
            let relative = match relative {
                Relative::Second if between.turns_freely(a, scope + 1, common) => Relative::Apart,
                other => other,
            };
            let places = (Place { depth: start, ..at_a }, Place { depth: other, ..at_b });
            let ways = between.ways(
                scope + 1,
                (a, &mut x, places.0),
                (b, &mut y, places.1),
                (common, relative),
                false,
            );
            clauses.push(ways);
        }
        // Waits that leave some bodies running order what is not followed here.
        builder.system.exact &= !pending(a.path[scope].stmt, token.id);
        clauses.append(&mut builder.system.clauses);
        let mut state = Reduced::default();
        if clauses.iter().any(Vec::is_empty)
            || !state.absorb(&builder.system.cons)
            || refuted(&state, &clauses)
        {
            return Ok(());
        }
        match solve_from(&state, &[], &clauses, builder.system.columns) {
            Answer::Empty => Ok(()),
            Answer::Unknown => Err(Found::Undecided(format!(
                "whether `{}` and `{}` may run at the same time could not be decided within the budget",
                a.label, b.label
            ))),
            Answer::Point(p) => {
                let exact = builder.system.exact
                    && !builder.system.symbolic
                    && touches.iter().all(|(x, y)| x.buffer == y.buffer);
                let hit = conflicts.iter().find(|c| c.when.iter().all(|c| c.holds(&p)));
                let touch = hit.map_or(touches[0], |c| c.touches);
                let (ia, ib) = (x.instance(&mut builder, a), y.instance(&mut builder, b));
                let numbers = |v: &[Option<Lin>], n: usize| -> Vec<i64> {
                    v[..n].iter().map(|l| l.as_ref().and_then(|l| l.at(&p)).unwrap_or(0)).collect()
                };
                Err(Found::Race(Box::new(Race {
                    instances: [
                        (a.label.clone(), numbers(&ia, a.instance.len())),
                        (b.label.clone(), numbers(&ib, b.instance.len())),
                    ],
                    places: [a.stmt.places().clone(), b.stmt.places().clone()],
                    buffer: buffer_name(self.env, a, touch.0.buffer),
                    element: hit
                        .and_then(|c| c.element.as_ref())
                        .and_then(|e| e.iter().map(|l| l.at(&p)).collect()),
                    sizes: outer_values(self.env, &outer, &p),
                    of: super::Of::Token(token.name.clone()),
                    exact,
                })))
            }
        }
    }
}

/// The step into the first asynchronous body on the way from a step to an access.
fn started(leaf: &Leaf, scope: usize, depth: usize) -> Option<usize> {
    (scope + 1..depth).find(|k| token_of(leaf.path[*k].stmt).is_some())
}

fn token_of(s: &Stmt) -> Option<VarId> {
    if let StmtKind::Async { token, .. } = s.kind() { Some(*token) } else { None }
}

/// Whether something waits for all but the latest bodies of a token.
fn pending(s: &Stmt, of: VarId) -> bool {
    matches!(s.kind(), StmtKind::Wait { token, pending } if *token == of && *pending > 0)
        || s.children().any(|c| pending(c, of))
}
