//! Accesses for which nobody vouches.

use crate::expr::{Access, Status};
use crate::func::Function;
use crate::stmt::AccessMode;
use crate::visit::{loads_of, walk};

/// Every access of a function, loads and targets alike, that is neither proved, checked nor assumed to
/// be in bounds and defined. An engine refuses these unless it is told to trust.
pub fn unproved_accesses(f: &Function) -> Vec<Access> {
    let mut out = Vec::new();
    let mut see = |a: &Access| {
        if a.status == Status::Unproved {
            out.push(a.clone());
        }
    };
    f.result.iter().flat_map(loads_of).for_each(|a| see(&a));
    walk(&f.body, &mut |s, _| {
        s.accesses().filter(|a| a.1 != AccessMode::Prefetch).for_each(|a| see(a.0));
        s.exprs().into_iter().flat_map(loads_of).for_each(|a| see(&a));
        true
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Scope, parse_module, print_access};
    use lathe_diagnostics::FileId;

    #[test]
    fn loads_targets_and_subscripts_are_looked_at() {
        let text = "func f(N)(A: inout f32[N], I: in index[N]) {
            for i in 0..N {
                'A'[i]: A[I[i]] = A[i]! + A[i + 1]? + A[0]~\"me\"
                if A[2] > 0.0:f32 { 'r'[i]: A[3]! sum= A[4] }
            }
        }";
        let m = parse_module(FileId(0), text).unwrap_or_default();
        let f = &m.functions["f"];
        let scope = Scope::of_function(f);
        let found: Vec<String> = unproved_accesses(f).iter().map(|a| print_access(a, &scope)).collect();
        assert_eq!(found, ["A[I[i]]", "I[i]", "A[2]", "A[4]"]);
    }
}
