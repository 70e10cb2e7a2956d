//! Copies are of whole arrays, of which a program need not have set every element: those that it may not have are set first.

use crate::arrays::{buffers_of, touched, zero_array};
use crate::sink::{flat, region};
use lathe_ir::{Access, BufId, Buffer, Function, Mode, Stmt};
use lathe_poly::Linear;
use std::collections::HashSet;

/// The function where arrays that will be copied whole have a value in every element from the beginning: zeros, in
/// those that no statement sets as a whole before anything else touches them.
pub fn filled(func: &mut Function, copied: &HashSet<BufId>) {
    let body = func.body.clone();
    let body = zeroed(&body, func, copied);
    let outs = func.params.iter().filter(|p| p.mode == Mode::Out).filter_map(|p| p.array()).cloned();
    let outs: Vec<_> = outs.filter(|b| copied.contains(&b.id) && !is_set_whole(b, &body)).collect();
    let zeros: Vec<Stmt> = outs.iter().map(|b| zero_array(b, func)).collect();
    func.body = Stmt::seq(zeros.into_iter().chain([body]));
}

fn zeroed(s: &Stmt, func: &mut Function, copied: &HashSet<BufId>) -> Stmt {
    let new: Vec<Stmt> = s.children().map(|c| zeroed(c, func, copied)).collect();
    if let Some((b, body)) = s.as_alloc()
        && copied.contains(&b.id)
        && !is_set_whole(b, body)
    {
        let zero = zero_array(b, func);
        return s.with_children(vec![Stmt::seq([zero].into_iter().chain(new))]);
    }
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    if same { s.clone() } else { s.with_children(new) }
}

/// Whether the first statement that touches an array sets all of it.
fn is_set_whole(b: &Buffer, body: &Stmt) -> bool {
    let mut list = Vec::new();
    flat(body, &mut list);
    let Some(first) = list.iter().find(|s| touched(s).contains(&b.id)) else { return false };
    let own = |a: &Access| a.view.buffer() == Some(b.id);
    if let Some(st) = first.as_store() {
        return b.extents.is_empty()
            && own(&st.target)
            && !first.exprs().into_iter().flat_map(buffers_of).any(|x| x == b.id);
    }
    let Some(c) = first.as_compute() else { return false };
    let reads = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.values).flat_map(buffers_of);
    let whole = |t: &Access| {
        let all = region(c, t).is_some_and(|r| {
            let ends = r.iter().zip(&b.extents);
            ends.clone().all(|((lo, hi), e)| lo.as_constant() == Some(0) && *hi == Linear::of(e))
        });
        own(t) && all
    };
    c.update.is_none()
        && c.guard.is_none()
        && c.targets.iter().any(whole)
        && !reads.into_iter().any(|x| x == b.id)
}
