//! Which claims are decided by the trees before and after a step, and by what: whoever has evidence and both trees can ask
//! again, without the rule.

use lathe_analysis::{
    Change, Silent, Tables, elements_of_their_own, filled_ahead, holds_values, means_nothing, relaid,
    starts_from_totals, unmentioned,
};
use lathe_strategy::Claim;

/// Whether a claim holds of two trees, and how many accesses say so; none where the trees alone do not tell.
pub fn decide(c: &Change, claim: &Claim) -> Option<Result<usize, String>> {
    Some(match claim {
        Claim::LayoutOnly { array } | Claim::SpaceOnly { array } => relaid(c, array),
        Claim::ComputedInPlace { array } => holds_values(c, std::slice::from_ref(array), Tables::Removed),
        Claim::ComputedOnce { arrays, .. } | Claim::CombinedFirst { arrays, .. } => {
            holds_values(c, arrays, Tables::Made)
        }
        Claim::StartsFromTotals { array, totals } => starts_from_totals(c, array, totals),
        Claim::OwnElements { array } => elements_of_their_own(c, array),
        Claim::FilledAhead { buffers, slots, .. } => filled_ahead(c, buffers, *slots),
        Claim::OnlyInside { array, .. } => unmentioned(c, array),
        Claim::CachesOnly { array } => means_nothing(c, Silent::Prefetches(array)),
        Claim::RouteOnly { label } => means_nothing(c, Silent::Route(label)),
        Claim::IndivisibleOnly { label } => means_nothing(c, Silent::Indivisible(label)),
        _ => return None,
    })
}
