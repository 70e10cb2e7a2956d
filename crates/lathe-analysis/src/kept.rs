//! Local arrays that a change leaves as they are: nothing need be asked about what touches them.

use lathe_ir::{BufId, Stmt, StmtKind, visit};
use std::collections::{HashMap, HashSet};

/// The buffers that are allocated within both trees by one statement, which stays as it is: each time it runs, it has a buffer of its own,
/// that nothing else touches, and touches it in the same order as before.
pub(crate) fn kept_locals(before: &Stmt, after: &Stmt) -> HashSet<BufId> {
    let of = |root: &Stmt| {
        let mut out: HashMap<BufId, Stmt> = HashMap::new();
        let mut several = HashSet::new();
        visit::walk(root, &mut |s, _| {
            if let Some(b) = s.allocated()
                && out.insert(b.id, s.clone()).is_some()
            {
                several.insert(b.id);
            }
            true
        });
        out.retain(|id, _| !several.contains(id));
        out
    };
    let (old, new) = (of(before), of(after));
    let in_order = |s: &Stmt| {
        let mut fits = true;
        visit::walk(s, &mut |s, _| {
            fits &= s.as_loop().is_none_or(|l| l.exec.is_ordered());
            fits &= !matches!(s.kind(), StmtKind::Atomic(_));
            fits
        });
        fits
    };
    let is_kept = |(id, s): (&BufId, &Stmt)| (new.get(id) == Some(s) && in_order(s)).then_some(*id);
    old.iter().filter_map(is_kept).collect()
}
