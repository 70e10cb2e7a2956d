//! What usually helps where an order cannot be kept.

use crate::handle::History;
use lathe_analysis::OrderRefusal;
use lathe_ir::names::Role;

/// The smallest change that is known to help; `made` says what the loops are that steps made, this one's as well.
pub(super) fn order_help(refusal: &OrderRefusal, rule: &str, made: &History) -> Option<String> {
    let v = match refusal {
        OrderRefusal::Violation(v) => v,
        OrderRefusal::Undecided(_) => {
            return Some("simplify the subscripts, or state a fact with `assume(…)`".to_string());
        }
    };
    let carried = v.carried_by.as_deref();
    let same_label = v.first.0 == v.second.0;
    let is = |l: &str, role: Role| made.role(l).is_some_and(|m| m.role == Some(role));
    Some(match (rule, carried) {
        ("parallel" | "vectorize", Some(l)) if same_label && v.concurrent => {
            let array = &v.buffer;
            let first = match rule {
                "parallel" if is(l, Role::Outer) => format!("`privatize({array}, {l})`"),
                "parallel" => format!("`split({l}, 1024) ; privatize({array}, {})`", Role::Outer.of(l)),
                _ if is(l, Role::Inner) => format!("`factor({array}, {l})`"),
                _ => format!("`split({l}, 16) ; factor({array}, {})`", Role::Inner.of(l)),
            };
            format!(
                "iterations of `{l}` depend on one another; a reduction can be split into partial results \
                 by {first}, a recurrence must stay serial, or be skewed so that another loop carries it"
            )
        }
        ("parallel" | "vectorize", _) => {
            let l = carried.unwrap_or("i");
            format!(
                "give every iteration its own elements: `privatize({0}, {l})`, or `expand({0}, at: {l})` if it is a local \
                 variable, or `fission` the loop between `{1}` and `{2}`",
                v.buffer, v.first.0, v.second.0
            )
        }
        ("tile" | "reorder", Some(l)) => {
            // The loop as it was called before this step split it.
            let l = made.role(l).filter(|_| rule == "tile").map_or(l, |m| &*m.of.name);
            format!(
                "skew the other loop by `{l}` first, for example `remap({l}: {l}, x: x + {l})` for a loop `x`; \
                 `affine_schedule({l}, tile: 32)` finds skews and tiles of a whole nest"
            )
        }
        ("fuse", _) => format!(
            "`{}` must stay behind `{}`: delay its loop with `shift` before fusing, let `affine_schedule(fuse: max)` find the \
             shift, or do not fuse the loops",
            v.second.0, v.first.0
        ),
        ("fission", Some(l)) => format!("keep both statements in one loop `{l}`"),
        _ => return None,
    })
}
