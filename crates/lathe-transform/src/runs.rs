//! Rewrites whose form says what they do: whether the loops after run what the loops before ran.

use lathe_analysis::{Change, content_kept, instances_kept, order_kept, same_runs};

/// Whether the tree after runs what the tree before ran, in that order. None where instances and their order are kept, and
/// only the form of the rewrite says that each does what it did, or where bounds have too many cases to be followed.
pub(crate) fn runs_kept(c: &Change) -> Option<Result<usize, String>> {
    let why = match same_runs(c)? {
        Ok(compared) => return Some(Ok(compared)),
        Err(why) => why,
    };
    let kept = matches!((instances_kept(c), order_kept(c)), (Some(Ok(_)), Some(Ok(_))));
    match content_kept(c) {
        _ if !kept => Some(Err(why)),
        Some(content) => Some(content),
        None => None,
    }
}
