//! Which claims are decided by the trees before and after a step, and by what: whoever has evidence and both trees can ask
//! again, without the rule.

use crate::forms::{combined, guarded, in_order};
use crate::left_out::is_left_out;
use crate::runs::runs_kept;
use lathe_analysis::{
    Change, Dimension, Part, Silent, Tables, begins_empty, combined_from, computed_again, computes_the_same,
    content_kept, elements_of_their_own, filled_ahead, holds_values, inputs_kept, instances_kept,
    means_nothing, only_by, order_kept, relaid, shares_nothing, stands_for, starts_from_totals,
    starts_in_order, unmentioned,
};
use lathe_ir::visit::{loads_of, walk};
use lathe_ir::{BinOp, Expr, Scalar, Stmt, VarId, build};
use lathe_strategy::evidence::{Range, Within};
use lathe_strategy::{Claim, Construction, Formula};
use std::collections::HashSet;

/// Whether a claim holds of two trees, and how many accesses say so; none where the trees alone do not tell.
pub fn decide(c: &Change, claim: &Claim) -> Option<Result<usize, String>> {
    Some(match claim {
        Claim::DependencesKept => return with_content(c, order_kept(c)?),
        Claim::InstancesKept | Claim::Tiled { .. } | Claim::Renumbered { .. } => {
            return with_content(c, instances_kept(c)?);
        }
        Claim::OrderKept { by: Construction::Guarded } => guarded(c),
        Claim::OrderKept { by: Construction::Combined } => combined(c),
        Claim::OrderKept { by: Construction::InOrder } => return in_order(c),
        Claim::OrderKept { by } if by.is_decided() => return runs_kept(c),
        Claim::LayoutOnly { array } | Claim::SpaceOnly { array } => relaid(c, array),
        Claim::HeldByUsers { array } => match lathe_device::prove_held(c.after).into_iter().next() {
            Some(d) => Err(d.message),
            None => Ok(accesses(&c.after.body, array)),
        },
        Claim::ComputedInPlace { array } => holds_values(c, std::slice::from_ref(array), Tables::Removed),
        Claim::ComputedOnce { arrays, .. } | Claim::CombinedFirst { arrays, .. } => {
            holds_values(c, arrays, Tables::Made)
        }
        Claim::StartsFromTotals { array, totals } => starts_from_totals(c, array, totals),
        Claim::StartsInOrder { array, total } => starts_in_order(c, array, total),
        Claim::OwnElements { array } => elements_of_their_own(c, array),
        Claim::FilledAhead { buffers, slots, .. } => filled_ahead(c, buffers, *slots),
        Claim::OnlyInside { array, .. } => unmentioned(c, array),
        Claim::CachesOnly { array } => means_nothing(c, Silent::Prefetches(array)),
        Claim::RouteOnly { label } => means_nothing(c, Silent::Route(label)),
        Claim::IndivisibleOnly { label } => means_nothing(c, Silent::Indivisible(label)),
        Claim::InputsKept { label } => inputs_kept(c, label),
        Claim::OnlyBy { label, array, within } => only_by(c, label, array, *within == Within::Statement),
        Claim::InBounds { .. } | Claim::NoFailure { .. } | Claim::Fact { .. } => {
            return crate::claims::stands(c, claim);
        }
        Claim::Simplified { .. } => computes_the_same(c),
        Claim::Overwritten { label } => is_left_out(c, label),
        Claim::Phases => crate::device_trees::are_phases(c),
        Claim::Threads { threads, cluster } => crate::device_trees::are_threads(c, *threads, *cluster),
        Claim::Redirected { array, buffer, window } => {
            dimensions(window).and_then(|window| stands_for(c, array, buffer, &window))
        }
        Claim::Exclusive { array, buffer } => shares_nothing(c, array, buffer),
        Claim::Recomputed { array, window } => {
            dimensions(window).and_then(|window| computed_again(c, array, &window))
        }
        Claim::WrittenFirst { array, window } => {
            dimensions(window).and_then(|window| begins_empty(c, array, &window))
        }
        Claim::PartsCombined { parts, own } => {
            let all = parts
                .iter()
                .map(|p| Ok(Part { array: &p.array, buffer: &p.buffer, window: dimensions(&p.window)? }));
            let operands = all.collect::<Result<Vec<_>, String>>().and_then(|all| Ok((all, index(own)?)));
            match operands {
                Ok((all, own)) => return combined_from(c, &all, &own),
                Err(why) => Err(why),
            }
        }
        _ => return None,
    })
}

/// What is claimed of instances or their order is claimed of what they do: a statement that does something else is no
/// instance of what it was.
fn with_content(c: &Change, kept: Result<usize, String>) -> Option<Result<usize, String>> {
    match (kept, content_kept(c)) {
        (Ok(_), Some(Err(why))) => Some(Err(why)),
        (kept, _) => Some(kept),
    }
}

/// A window as the checker takes it.
fn dimensions(window: &[Range]) -> Result<Vec<Dimension>, String> {
    let one = |r: &Range| Ok(Dimension { lo: index(&r.lo)?, size: index(&r.size)?, step: r.step });
    window.iter().map(one).collect()
}

/// The expression that a formula over variables in scope says.
fn index(f: &Formula) -> Result<Expr, String> {
    expression(f).filter(|e| e.ty().is_index()).ok_or_else(|| format!("`{f}` is no formula of a window"))
}

fn expression(f: &Formula) -> Option<Expr> {
    Some(match f {
        Formula::Int(v) => build::index(*v),
        Formula::Bool(v) => build::boolean(*v),
        Formula::Var { id, .. } => build::var_id(VarId(*id), Scalar::Index),
        Formula::Load { .. } => return None,
        Formula::Apply { op, of } => {
            let all: Vec<Expr> = of.iter().map(expression).collect::<Option<_>>()?;
            match (&**op, all.as_slice()) {
                ("-", [a]) if a.ty().is_index() => build::sub(build::index(0), a.clone()),
                ("not", [a]) if !a.ty().is_index() => build::not(a.clone()),
                ("select", [c, a, b]) if !c.ty().is_index() && a.ty() == b.ty() => {
                    build::select(c.clone(), a.clone(), b.clone())
                }
                (op, [a, b]) if a.ty() == b.ty() => {
                    let op = BinOp::ALL.into_iter().find(|o| o.symbol() == op)?;
                    let truths = matches!(op, BinOp::And | BinOp::Or);
                    if truths == a.ty().is_index() || op == BinOp::Div {
                        return None;
                    }
                    build::binary(op, a.clone(), b.clone())
                }
                _ => return None,
            }
        }
    })
}

/// How many accesses there are to arrays of a name.
fn accesses(s: &Stmt, array: &str) -> usize {
    let mut ids = HashSet::new();
    let mut count = 0;
    walk(s, &mut |s, _| {
        ids.extend(s.allocated().filter(|b| &*b.name == array).map(|b| b.id));
        let loads = s.evaluated().into_iter().flat_map(loads_of);
        let all = s.accesses().map(|(a, _)| a.clone()).chain(loads);
        count += all.filter(|a| a.view.buffer().is_some_and(|id| ids.contains(&id))).count();
        true
    });
    count
}
