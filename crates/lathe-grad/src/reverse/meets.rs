//! Whether a write of the primal may touch an element between the moment it is read and the end of a scope.

use super::{Reverse, Write};
use crate::node::{Around, ScopeId, Site};
use lathe_ir::visit::{operands, vars_of};
use lathe_ir::{Access, BinOp, Expr, ExprKind, VarId, View};
use lathe_poly::Linear;
use std::collections::HashSet;

impl Reverse<'_> {
    /// Whether a write may change the element that a site read, after it did and before the scope ends.
    pub fn may_overwrite(&self, site: &Site, read: &Access, by: &Write, scope: ScopeId) -> bool {
        self.meets((site, read), by, scope, true)
    }

    /// Whether a write may change the element that a site reads, before it does and after the scope began.
    pub fn may_precede(&self, site: &Site, read: &Access, by: &Write, scope: ScopeId) -> bool {
        self.meets((site, read), by, scope, false)
    }

    /// Whether a write may touch an element in one run of a scope, after or before a site read it. Subscripts are
    /// compared one by one: a difference that is known in one of them decides.
    fn meets(&self, (site, read): (&Site, &Access), by: &Write, scope: ScopeId, after: bool) -> bool {
        let (write, by) = (&by.access, &by.site);
        let (mine, theirs) = (site.loops_in(scope), by.loops_in(scope));
        let shared: Vec<&Around> =
            mine.iter().zip(theirs).take_while(|(a, b)| a.binder.id == b.binder.id).map(|(a, _)| a).collect();
        let in_text = if after { by.id >= site.id } else { by.id < site.id };
        if shared.is_empty() && !in_text {
            return false;
        }
        let forms = |a: &Access| {
            matches!(a.view, View::Buffer(_)).then(|| a.indices.iter().map(Linear::of).collect())
        };
        let (Some(p), Some(q)): (Option<Vec<Linear>>, Option<Vec<Linear>>) = (forms(read), forms(write))
        else {
            return true;
        };
        if p.len() != q.len() {
            return true;
        }
        // Variables that have the same value for both: bound outside of the scope, or equal in the loops gone through.
        let mut alike: HashSet<VarId> = self.constants.clone();
        alike.extend(site.loops[..site.loops.len() - mine.len()].iter().map(|l| l.binder.id));
        let same = |form: &Linear, alike: &HashSet<VarId>, but: Option<VarId>| {
            let known = |e: &Expr| vars_of(e).iter().all(|v| alike.contains(v));
            !form.reads() && form.terms.iter().all(|t| but.is_some() && t.0.as_var() == but || known(&t.0))
        };
        let differ = |alike: &HashSet<VarId>| {
            p.iter().zip(&q).any(|(a, b)| {
                let d = a.minus(b).and_then(|d| d.as_constant()).unwrap_or(0);
                d != 0 && same(a, alike, None) && same(b, alike, None)
            })
        };
        if differ(&alike) {
            return false;
        }
        for l in &shared {
            let v = l.binder.id;
            // The write touches the element in the iteration of this loop that is `delta` after the one that read it.
            let delta = p.iter().zip(&q).find_map(|(a, b)| {
                let (ka, kb) = (a.factor(v), b.factor(v));
                let fits = ka != 0 && ka == kb && same(a, &alike, Some(v)) && same(b, &alike, Some(v));
                let d = a.minus(b)?.as_constant().filter(|_| fits)?;
                Some((d, ka))
            });
            let beside = || {
                let k = |q: &Linear| q.factor(v);
                let later = |q: &Linear| (k(q) * l.step > 0) == after;
                p.iter().zip(&q).any(|(a, b)| {
                    k(b) != 0 && same(b, &alike, Some(v)) && self.is_ordered(site, a, b, later(b))
                })
            };
            match delta {
                Some((d, k)) if d % k != 0 || (d / k) % l.step != 0 => return false,
                Some((d, k)) if d != 0 && (d / k < 0) == after => return false,
                Some((0, _)) => alike.insert(v),
                None if beside() => return false,
                _ => return true,
            };
        }
        in_text && !differ(&alike)
    }

    /// Whether the conditions around a site say that `a` is less than `b` (or more).
    fn is_ordered(&self, site: &Site, a: &Linear, b: &Linear, less: bool) -> bool {
        let (a, b) = if less { (a, b) } else { (b, a) };
        let Some(gap) = a.minus(b) else { return false };
        let all =
            site.conditions.iter().flat_map(|c| operands(BinOp::And, c, MAX_CONDITIONS).unwrap_or_default());
        all.filter(|c| self.is_constant(c) && c.children().iter().all(|x| x.ty().is_index())).any(|c| {
            let (x, y, least) = match c.kind() {
                ExprKind::Binary(BinOp::Lt, x, y) => (x, y, 0),
                ExprKind::Binary(BinOp::Gt, x, y) => (y, x, 0),
                ExprKind::Binary(BinOp::Le, x, y) => (x, y, -1),
                ExprKind::Binary(BinOp::Ge, x, y) => (y, x, -1),
                _ => return false,
            };
            // `a - b = (x - y) + c`
            let said = Linear::of(x).minus(&Linear::of(y)).and_then(|said| gap.minus(&said));
            said.and_then(|c| c.as_constant()).is_some_and(|c| c <= least)
        })
    }
}

/// Of a condition, how many parts are looked at.
const MAX_CONDITIONS: usize = 16;
