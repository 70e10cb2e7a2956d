//! What asynchronous bodies may do at the same time as the strand that started them.
//!
//! A body that was started under a token runs beside everything that its strand does from there on, until the token is
//! awaited. So two places in the scope of a token are unordered if the first stands in such a body, the strand comes to the
//! second (or starts the body that it stands in) later, and no wait for the token lies between: which is the question that
//! barriers put, with the start of the body in the place of the access ([`super::between`]).

use super::between::{Between, Fence};
use super::{Check, Found, Kind, Of};
use crate::copy::{Place, earlier, equal};
use crate::leaves::{Leaf, Relative, Touch, relate};
use crate::order::is_ordered;
use crate::system::Conj;
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
        let mut both = self.both((a, at_a), (b, at_b), touches);
        let (builder, x, y) = (&mut both.builder, &mut both.x, &mut both.y);
        let mut order: Vec<Conj> = (inside..levels.len()).map(|l| earlier(&levels, l, x, y)).collect();
        if relative == Relative::First {
            order.push(equal(&levels, x, y));
        }
        let mut clauses = vec![order];
        let fence = Fence::Wait(token.id);
        let mut between = Between::new(builder, a.path[scope].stmt, fence);
        if between.any() {
            // A later iteration of such a loop reaches the second place, wherever it stands.
            let relative = match relative {
                Relative::Second if between.turns_freely(a, scope + 1, common) => Relative::Apart,
                other => other,
            };
            let places = (Place { depth: start, ..at_a }, Place { depth: other, ..at_b });
            let ways = between.ways(scope + 1, (a, x, places.0), (b, y, places.1), (common, relative), false);
            clauses.push(ways);
        }
        // Waits that leave some bodies running order what is not followed here.
        builder.system.exact &= !pending(a.path[scope].stmt, token.id);
        both.settle(self, (a, b), clauses, |_| Of::Token(token.name.clone()))
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
