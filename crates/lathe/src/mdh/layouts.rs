//! Layouts of local arrays: transposed where that makes the accesses of lanes contiguous.

use super::made::{Cost, Made};
use super::setting::Setting;
use lathe_ir::visit;
use lathe_ir::{Function, Space};
use lathe_space::{Expr, Value};
use lathe_transform::{Arg, Args};

/// A layout must be so much better.
const CLEARLY: f64 = 0.95;
/// Arrays that are looked at.
const ARRAYS: usize = 8;

/// What was made, with the last two dimensions of every local array exchanged that gains by it.
pub(super) fn laid_out(set: &Setting, mut made: Made, cost: Cost) -> Made {
    // Nobody made lanes, and the compiler below makes none of what it cannot follow.
    if made.steps.is_empty() {
        return made;
    }
    let mut before = cost(&made.func);
    for (name, rank) in arrays(&made.func) {
        let mut args = Args::default();
        args.push(None, Arg::Path(name));
        args.push(None, exchanged(rank));
        let Ok(next) = made.everywhere(set, "set_layout", &args) else { continue };
        let after = cost(&next.func);
        if after < CLEARLY * before {
            (made, before) = (next, after);
        }
    }
    made
}

/// The layout with the last two of so many dimensions exchanged.
pub(super) fn exchanged(rank: usize) -> Arg {
    let mut order: Vec<usize> = (0..rank).collect();
    order[rank.saturating_sub(2)..].reverse();
    let order = order.into_iter().map(|d| Expr::Value(Value::Int(d as i64))).collect();
    Arg::Data(Expr::Call("permute".to_string(), order))
}

/// Local arrays in memory that are stored row by row, with their ranks.
fn arrays(func: &Function) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        let local = s.allocated().filter(|b| b.space == Space::Host && b.layout.steps.is_empty());
        out.extend(local.map(|b| (b.name.to_string(), b.extents.len())).filter(|b| b.1 > 1));
        true
    });
    out.truncate(ARRAYS);
    out
}
