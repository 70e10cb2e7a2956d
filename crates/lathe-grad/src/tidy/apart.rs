//! Which elements statements touch: beside the points of a map, or among them.

use super::{Line, loads_from};
use lathe_ir::visit::walk;
use lathe_ir::{Access, BufId, Compute, Dim, Expr, Stmt};
use lathe_poly::Linear;

/// Whether a line touches no element of an array that a map, whose subscripts are its indices and constants, writes.
pub fn apart(l: &Line, b: BufId, c: &Compute) -> bool {
    match l {
        // Its body are the lines behind it.
        Line::Open(s) => touched(s, b).is_some_and(|all| all.iter().all(|a| outside(a, c))),
        Line::Do(s) => {
            let mut apart = true;
            walk(s, &mut |s, _| {
                apart &= touched(s, b).is_some_and(|all| all.iter().all(|a| outside(a, c)));
                apart
            });
            apart
        }
    }
}

/// Whether a line writes no element of an array that one of some loads reads, over the points of a map: other planes of it,
/// or what is before or behind.
pub fn writes_others(l: &Line, b: BufId, loads: &[Access], dims: &[Dim]) -> bool {
    let Line::Do(s) = l else { return true };
    let mut others = true;
    walk(s, &mut |s, _| {
        for (t, _) in s.touches().iter().filter(|(t, mode)| mode.writes() && t.buffer() == Some(b)) {
            let plane = |w: &Access, r: &Access| {
                let differ = |(x, y): (&Expr, &Expr)| match (x.as_int(), y.as_int()) {
                    (Some(x), Some(y)) => x != y,
                    _ => beyond(x, y, dims),
                };
                w.view == r.view && w.indices.iter().zip(&r.indices).any(differ)
            };
            others &= t.element().is_some_and(|w| loads.iter().all(|r| plane(w, r)));
        }
        others
    });
    others
}

/// Whether a subscript lies before or behind all values of another one, which is an index of a map give or take a constant.
fn beyond(x: &Expr, y: &Expr, dims: &[Dim]) -> bool {
    let form = Linear::of(y);
    let [(atom, 1)] = &form.terms[..] else { return false };
    let Some(d) = dims.iter().find(|d| atom.as_var() == Some(d.binder.id)) else { return false };
    let below = Linear::difference(&d.lo, x).and_then(|k| k.checked_add(form.constant));
    let above = Linear::difference(x, &d.hi).and_then(|k| k.checked_sub(form.constant));
    below.is_some_and(|k| k > 0) || above.is_some_and(|k| k >= 0)
}

/// The elements of an array that a statement itself touches; none if it touches it as a whole.
fn touched(s: &Stmt, b: BufId) -> Option<Vec<Access>> {
    let mut all: Vec<Access> = s.exprs().into_iter().flat_map(|e| loads_from(e, b)).collect();
    for (t, _) in s.touches().iter().filter(|t| t.0.buffer() == Some(b)) {
        all.push(t.element()?.clone());
    }
    Some(all)
}

/// Whether an element is before or behind all of those that a map names, in some dimension.
fn outside(a: &Access, c: &Compute) -> bool {
    let Some(target) = c.targets.first().filter(|t| t.view == a.view) else { return false };
    a.indices.iter().zip(&target.indices).any(|(i, own)| {
        let beyond = |d: &Dim| {
            Linear::difference(&d.lo, i).is_some_and(|k| k > 0)
                || Linear::difference(i, &d.hi).is_some_and(|k| k >= 0)
        };
        match own.as_int() {
            Some(k) => i.as_int().is_some_and(|i| i != k),
            None => c.dims.iter().find(|d| own.as_var() == Some(d.binder.id)).is_some_and(beyond),
        }
    })
}
