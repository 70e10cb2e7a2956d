//! What usually helps where an order cannot be kept.

use lathe_analysis::OrderRefusal;

/// The smallest change that is known to help.
pub(super) fn order_help(refusal: &OrderRefusal, rule: &str) -> Option<String> {
    let v = match refusal {
        OrderRefusal::Violation(v) => v,
        OrderRefusal::Undecided(_) => {
            return Some("simplify the subscripts, or state what holds with `assume(…)`".to_string());
        }
    };
    let carried = v.carried_by.as_deref();
    let same_label = v.first.0 == v.second.0;
    Some(match (rule, carried) {
        ("parallel" | "vectorize", Some(l)) if same_label && v.concurrent => {
            let array = &v.buffer;
            let first = match rule {
                "parallel" if l.ends_with(".o") => format!("`privatize({array}, {l})`"),
                "parallel" => format!("`split({l}, 1024) ; privatize({array}, {l}.o)`"),
                _ if l.ends_with(".i") => format!("`factor({array}, {l})`"),
                _ => format!("`split({l}, 16) ; factor({array}, {l}.i)`"),
            };
            format!(
                "iterations of `{l}` depend on one another; a reduction can be split up by {first} first, a \
                 recurrence must stay serial, or be skewed so that another loop carries it"
            )
        }
        ("parallel" | "vectorize", _) => {
            let l = carried.unwrap_or("i");
            format!(
                "give every iteration its own elements: `privatize({}, {l})`, or `fission` the loop between `{}` \
                 and `{}`",
                v.buffer, v.first.0, v.second.0
            )
        }
        ("tile" | "reorder", Some(l)) => {
            // The loop as it was called before this step split it.
            let l = if rule == "tile" { l.strip_suffix(".i").unwrap_or(l) } else { l };
            format!(
                "skew the other loop by `{l}` first, for example `remap({l}: {l}, x: x + {l})` for a loop `x`"
            )
        }
        ("fuse", _) => format!(
            "`{}` must stay behind `{}`: delay its loop with `shift` and fuse then, or leave the loops apart",
            v.second.0, v.first.0
        ),
        ("fission", Some(l)) => format!("keep both statements in one loop `{l}`"),
        _ => return None,
    })
}
