//! Arrays that iterations of concurrent loops hold in parts (`distribute` in a layout): whether every access is made by
//! the iteration that holds the element, and what one iteration holds.
//!
//! An access may name an element only where the layout's dimension has the number of the iteration that runs. All concurrent loops
//! between the array and the access must be among those of the layout, for else several iterations would have copies of
//! which each sees its own writes only; and all accesses must be in the same loops, which then become the same threads. So the variables of
//! those loops are in no subscript of a part, and all others stay (Fireiron, section 3.3: there the sequential loops
//! above a thread are dropped, too, and parts would overlap).

use crate::codes;
use crate::phase::{Chain, bounds, each_access};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{sub, var};
use lathe_ir::lower::{Laid, laid, part, resolve};
use lathe_ir::text::{Scope, print_expr};
use lathe_ir::visit::{loads_of, map_accesses, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Layout, LayoutStep, Loop, Name, Space, Stmt,
    View,
};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_expr;
use std::collections::HashMap;
use std::sync::Arc;

/// Refuses accesses of distributed arrays by iterations that are not shown to hold the element, `E0834`.
pub fn prove_held(func: &Function) -> Vec<Diagnostic> {
    let mut any = false;
    walk(&func.body, &mut |s, _| {
        any |= s.allocated().is_some_and(|b| b.layout.is_distributed());
        !any
    });
    if !any {
        return Vec::new();
    }
    let mut c = Checker {
        ranges: Ranges::of_function(func),
        scope: Scope::of_function(func),
        holders: Vec::new(),
        arrays: HashMap::new(),
        found: Vec::new(),
    };
    c.stmt(&func.body);
    c.found
}

/// Whether iterations of such a loop hold values of their own: lanes are part of one thread.
fn holds(e: &Executor) -> bool {
    !e.is_ordered() && !matches!(e, Executor::Vector(_))
}

/// A loop around, without its body.
#[derive(Clone, PartialEq)]
struct Holder {
    binder: Binder,
    lo: Expr,
    hi: Expr,
    step: i64,
    exec: Executor,
}

impl Holder {
    fn of(l: &Loop) -> Holder {
        let (binder, lo, hi, exec) = (l.binder.clone(), l.lo.clone(), l.hi.clone(), l.exec.clone());
        Holder { binder, lo, hi, step: l.step, exec }
    }

    /// Whether two loops have the same iterations, and the same workers for them.
    fn is_like(&self, other: &Holder) -> bool {
        let same = self.binder.name == other.binder.name && self.exec == other.exec;
        same && self.lo == other.lo && self.hi == other.hi && self.step == other.step
    }
}

struct Array {
    buffer: Arc<Buffer>,
    places: Places,
    /// How many holders are around it.
    outside: usize,
    /// The loops of the first access, and where that is.
    first: Option<(Vec<Holder>, Places)>,
}

struct Checker {
    ranges: Ranges,
    scope: Scope,
    holders: Vec<Holder>,
    arrays: HashMap<BufId, Array>,
    found: Vec<Diagnostic>,
}

impl Checker {
    fn stmt(&mut self, s: &Stmt) {
        for (t, _) in s.touches() {
            if t.element().is_none()
                && let Some(a) = t.buffer().and_then(|id| self.arrays.get(&id))
            {
                let text = format!("`{}` is distributed over threads, and used as a whole", a.buffer.name);
                self.found.push(Diagnostic::error(codes::NOT_HELD, text).at_places(s.places(), "here"));
            }
        }
        let loads = s.evaluated().into_iter().flat_map(loads_of);
        let all: Vec<Access> = s.accesses().map(|(a, _)| a.clone()).chain(loads).collect();
        for a in &all {
            if let Some(d) = a.view.buffer().and_then(|id| self.access(id, a, s)) {
                self.found.push(d);
            }
        }
        if let Some((b, _)) = s.as_alloc()
            && b.layout.is_distributed()
        {
            if !matches!(b.space, Space::Register | Space::Stack | Space::Fragment) {
                let text = format!("`{}` is distributed over threads, but in `{}`", b.name, b.space.name());
                let help = "what threads hold is in registers: `promote` it, or give it another layout";
                self.found
                    .push(Diagnostic::error(codes::NOT_HELD, text).at_places(s.places(), "here").help(help));
            }
            let (places, outside) = (s.places().clone(), self.holders.len());
            self.arrays.insert(b.id, Array { buffer: b.clone(), places, outside, first: None });
        }
        let around = s.as_loop().filter(|l| holds(&l.exec)).map(Holder::of);
        let bound = s.as_loop().map(|l| &l.binder).or(s.as_let().map(|l| l.0));
        if let Some(b) = bound.filter(|b| self.scope.var(b.id).is_none()) {
            self.scope.bind_var(b);
        }
        let depth = self.holders.len();
        self.holders.extend(around);
        for (k, c) in s.children().enumerate() {
            let mark = self.ranges.enter_child(s, k);
            self.stmt(c);
            self.ranges.leave(mark);
        }
        self.holders.truncate(depth);
    }

    /// What is wrong with an access.
    fn access(&mut self, id: BufId, a: &Access, s: &Stmt) -> Option<Diagnostic> {
        let array = self.arrays.get_mut(&id)?;
        let name = array.buffer.name.clone();
        let places = if a.places.spans().is_empty() { s.places() } else { &a.places };
        let other = array.first.as_ref().map_or(&array.places, |f| &f.1).clone();
        let what = s.label().map_or("a statement".to_string(), |l| format!("`{l}`"));
        let wrong = |text: String, help: &str| {
            let d = Diagnostic::error(codes::NOT_HELD, text).at_places(places, "here");
            Some(d.at_places(&other, "beside this").help(help))
        };
        let dims = resolve(a).ok().and_then(|(_, indices)| laid(&array.buffer, indices).ok());
        let Some(dims) = dims else {
            let text =
                format!("{what} accesses `{name}`, which is distributed, otherwise than by subscripts");
            return wrong(text, "name the element by its subscripts");
        };
        let inside = &self.holders[array.outside..];
        let distributed = |h: &Holder| dims.iter().any(|d| d.over.as_ref() == Some(&h.binder.name));
        let single = |h: &Holder| {
            bounds(&self.ranges, &sub(h.hi.clone(), h.lo.clone())).1.is_some_and(|n| n <= h.step)
        };
        if let Some(h) = inside.iter().find(|h| !distributed(h) && !single(h)) {
            let over = &h.binder.name;
            let text =
                format!("{what} accesses `{name}` in iterations of `{over}`, which its layout does not name");
            return wrong(
                text,
                "every iteration would have a copy of its own: distribute the array over that loop, too",
            );
        }
        for d in &dims {
            let Some(over) = &d.over else { continue };
            let Some(h) = inside.iter().rev().find(|h| h.binder.name == *over) else {
                let text = format!(
                    "{what} accesses `{name}`, which iterations of `{over}` hold, outside of such a loop"
                );
                return wrong(text, "each thread has its part only: access it inside of the loop");
            };
            let (owner, here) = (simplify_expr(&d.index, &self.ranges), var(&h.binder));
            if !(owner == here || self.ranges.le(&owner, &here) && self.ranges.le(&here, &owner)) {
                let owner = print_expr(&owner, &self.scope);
                let text = format!(
                    "{what} accesses an element of `{name}` that iteration `{owner}` of `{over}` holds, \
                     which may be another one"
                );
                return wrong(
                    text,
                    "exchange the value by shared memory with a barrier between, or change who holds the element",
                );
            }
        }
        match &array.first {
            Some((loops, _)) => {
                let alike =
                    loops.len() == inside.len() && loops.iter().zip(inside).all(|(a, b)| a.is_like(b));
                if !alike {
                    let text = format!("{what} accesses `{name}` in other loops than an access before");
                    return wrong(text, "loops of the same names, order and bounds are the same threads");
                }
            }
            None => array.first = Some((inside.to_vec(), places.clone())),
        }
        None
    }
}

/// The part of a distributed array that a thread holds, and the block's body with accesses to that; `None` if the loops
/// that hold it do not become the same threads everywhere.
pub(crate) fn in_parts(
    buffer: &Arc<Buffer>,
    body: &Stmt,
    ranges: &Ranges,
    threads: i64,
) -> Option<(Buffer, Stmt)> {
    let mut shape: Option<Vec<i64>> = None;
    each_access(buffer.id, body, &mut ranges.clone(), &mut |_, chain: &Chain, _| {
        let most = chain.dims.iter().map(|d| d.most).collect::<Option<Vec<_>>>()?;
        let from_zero = chain.dims.iter().all(|d| d.lo.as_int() == Some(0) && d.step == 1);
        let fits = most.iter().try_fold(1i64, |n, e| n.checked_mul(*e))? <= threads;
        // The outermost digit of a thread's number is what is left.
        let inner = most[1..].to_vec();
        (from_zero && fits && *shape.get_or_insert(inner.clone()) == inner).then_some(())
    })?;
    let part = part(buffer).ok()?;
    let mut plain = true;
    let body = map_accesses(body, &mut |a| {
        if a.view.buffer() != Some(buffer.id) {
            return None;
        }
        let dims = resolve(a).ok().and_then(|(_, indices)| laid(buffer, indices).ok());
        let Some(dims) = dims else {
            plain = false;
            return None;
        };
        let kept = |d: Laid| d.over.is_none().then(|| simplify_expr(&d.index, ranges));
        let indices = dims.into_iter().filter_map(kept).collect();
        Some(Access { view: View::Buffer(part.id), indices, ..a.clone() })
    });
    plain.then_some((part, body))
}

/// The buffer as a whole, where one worker, or memory that all see, has all parts.
pub(crate) fn whole(b: &Buffer) -> Buffer {
    let layout = if b.layout.is_distributed() { Layout::row_major() } else { b.layout.clone() };
    Buffer { layout, ..b.clone() }
}

/// The layout by which iterations of the named loops hold the elements that they access in a body; `None` if they
/// share some, or the extents are not constants.
pub fn layout_over(buffer: &Buffer, body: &Stmt, ranges: &Ranges, over: &[Name]) -> Option<Layout> {
    let (names, spread) = crate::owner::spread(buffer.id, body, ranges)?;
    let mut steps = Vec::new();
    for (d, spread) in spread.iter().enumerate().rev() {
        let Some(s) = spread else { continue };
        let (mut at, mut unit) = (d, s.block.checked_mul(s.threads)?);
        if bounds(ranges, &buffer.extents[d]).1? > unit {
            steps.push(LayoutStep::Tile { dim: at, size: u64::try_from(unit).ok()? });
            at += 1;
        }
        for (digit, extent) in s.over.iter().rev() {
            let name = names.get(*digit).filter(|n| over.contains(n))?;
            unit /= (*extent).max(1);
            if unit > 1 {
                steps.push(LayoutStep::Tile { dim: at, size: u64::try_from(unit).ok()? });
            }
            steps.push(LayoutStep::Distribute { dim: at, over: name.clone() });
            at += 1;
        }
    }
    let layout = Layout { steps };
    let has =
        |n: &Name| layout.steps.iter().any(|s| matches!(s, LayoutStep::Distribute { over, .. } if over == n));
    over.iter().all(has).then_some(layout)
}
