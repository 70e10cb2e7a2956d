//! Whether two trees execute the same instances, where conditions on data decide which ones these are.

use super::content::compared;
use super::only_in;
use crate::env::Env;
use crate::instances::{self, Unkept};
use crate::refusal::OrderRefusal;
use lathe_ir::Stmt;

/// Every instance that `before` executes is executed exactly once by `after`, and no other.
///
/// # Errors
/// [`OrderRefusal::Undecided`] with what [`same_instances`] says.
pub fn instances_preserved(env: &Env, before: &Stmt, after: &Stmt) -> Result<(), OrderRefusal> {
    same_instances(env, before, after).map(|_| ()).map_err(|u| OrderRefusal::Undecided(u.why.into()))
}

/// The same. Gives how many statements were compared. Where conditions on data decide which instances are executed, those
/// that would be if all of them held are compared, and each must be under the conditions that it was under: then those that
/// are executed are the same, if the values that the conditions read are, which is a matter of the order.
///
/// # Errors
/// The instance that is lost, new, or repeated; or the reason why it could not be decided.
pub fn same_instances(env: &Env, before: &Stmt, after: &Stmt) -> Result<usize, Unkept> {
    let exact = instances::same_instances(env, before, after);
    let Err(Unkept { known: false, .. }) = exact else { return exact };
    let arrays = [only_in(before, after), only_in(after, before)].concat();
    let kept = || compared(env, before, after).and_then(|_| instances::same_candidates(env, before, after));
    // What is said of more instances than there are is no fault of one of them.
    if arrays.is_empty()
        && let Ok(found) = kept()
    {
        return Ok(found);
    }
    exact
}
