//! Integer arithmetic of what a step makes: as before the step, no operation that is evaluated overflows 64 bits or divides
//! by 0.
//!
//! Engines compute with 64-bit integers, so bounds and subscripts that are right as mathematics are wrong where a part of
//! them does not fit: `n + (2⁶³ - 2)`, the number of blocks of a loop that is split by 2⁶³ - 1. Every tree comes with
//! its arithmetic proved or checked ([`lathe_analysis::prove_accesses`]); this looks at what a step adds.

use lathe_ir::build::{lt, sub};
use lathe_ir::visit::{Memo, Path};
use lathe_ir::{Executor, Expr, ExprKind, Stmt};
use lathe_poly::{Interval, Linear, Ranges, fits};
use std::collections::HashSet;

/// Values up to this are as good as known: what a sum of them with data does, it did before the step.
pub const SMALL: Interval = Interval { lo: -(1 << 56), hi: 1 << 56 };

/// An operation that may fail.
pub struct Overflow {
    pub operation: Expr,
    /// Where it is evaluated: from the root of what was compared.
    pub path: Path,
    shape: Shape,
}

/// An operation of `new` that may overflow 64 bits or divide by 0, and that `old` did not have; both stand where
/// `ranges` hold.
pub fn added_overflow(old: &Stmt, new: &Stmt, ranges: &Ranges) -> Option<Overflow> {
    let collect = |old, new| {
        let mut walk = Walk { ranges: ranges.clone(), path: Path::new(), found: Vec::new() };
        walk.compare(old, new);
        walk.found
    };
    let found = collect(Some(old), new);
    if found.is_empty() {
        return None;
    }
    let known: HashSet<Shape> = collect(None, old).into_iter().map(|f| f.shape).collect();
    found.into_iter().find(|f| !known.contains(&f.shape))
}

/// What an operation adds up besides small numbers, or divides by.
type Shape = Vec<(i64, u64)>;

fn shape(e: &Expr, ranges: &Ranges) -> Shape {
    shape_in(e, ranges, &mut Memo::default())
}

fn shape_in(e: &Expr, ranges: &Ranges, memo: &mut Memo<Shape>) -> Shape {
    memo.of(e, |memo| shape_of_node(e, ranges, memo))
}

fn shape_of_node(e: &Expr, ranges: &Ranges, memo: &mut Memo<Shape>) -> Shape {
    let form = Linear::of(e);
    let large = form.terms.iter().filter(|t| !SMALL.contains(ranges.range(&t.0)));
    let mut out: Shape = large.map(|(atom, k)| (*k, atom_shape(atom, ranges, memo))).collect();
    if !SMALL.contains(Interval::point(form.constant)) {
        out.push((form.constant, 0));
    }
    if let ExprKind::Binary(op, _, by) = e.kind()
        && op.is_division()
    {
        out.push((0, divisor_shape(by, ranges, memo)));
    }
    out.sort_unstable();
    out
}

/// Never that of an atom: a division is one by something other than before where the large parts of its divisor differ.
fn divisor_shape(by: &Expr, ranges: &Ranges, memo: &mut Memo<Shape>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    ("divisor", shape_in(by, ranges, memo)).hash(&mut hasher);
    hasher.finish()
}

fn atom_shape(e: &Expr, ranges: &Ranges, memo: &mut Memo<Shape>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(e.kind()).hash(&mut hasher);
    match e.kind() {
        ExprKind::Var(v) => v.hash(&mut hasher),
        // Copies of an array are read as the array is.
        ExprKind::Load(_) => {}
        _ => {
            if let ExprKind::Binary(op, ..) = e.kind() {
                op.hash(&mut hasher);
            }
            e.children().into_iter().for_each(|c| shape_in(c, ranges, memo).hash(&mut hasher));
        }
    }
    hasher.finish()
}

struct Walk {
    ranges: Ranges,
    path: Path,
    found: Vec<Overflow>,
}

impl Walk {
    /// Collects what may fail in the parts of `new` that differ from `old`.
    fn compare(&mut self, old: Option<&Stmt>, new: &Stmt) {
        if old.is_some_and(|o| o.ptr_eq(new)) {
            return;
        }
        let same = old.filter(|o| same_head(o, new));
        if same.is_none() {
            self.own(new);
        }
        for (n, child) in new.children().enumerate() {
            let before = match (same, same.and_then(Stmt::as_seq)) {
                (_, Some(list)) => list.iter().find(|o| o.ptr_eq(child)).or(list.get(n)),
                (Some(o), None) => o.child(n),
                (None, _) => None,
            };
            let mark = self.ranges.enter_child(new, n);
            self.path.push(n);
            self.compare(before, child);
            self.path.pop();
            self.ranges.leave(mark);
        }
    }

    /// The operations that the statement itself evaluates.
    fn own(&mut self, s: &Stmt) {
        let mark = self.ranges.mark();
        if let Some(c) = s.as_compute() {
            for d in &c.dims {
                self.ranges.enter_loop(d.binder.id, &d.lo, &d.hi);
            }
            c.guard.iter().for_each(|g| self.ranges.assume(g));
        }
        let Walk { ranges, path, found } = self;
        let mut look = |e: &Expr, ranges: &mut Ranges| {
            fits::failing(e, ranges, &mut |e, ranges| {
                found.push(Overflow { operation: e.clone(), path: path.clone(), shape: shape(e, ranges) });
            });
        };
        s.evaluated().into_iter().for_each(|e| look(e, ranges));
        // Engines count the iterations of a loop that is not run one by one, where it has any.
        if let Some(l) = s.as_loop().filter(|l| l.exec != Executor::Serial) {
            ranges.assume(&lt(l.lo.clone(), l.hi.clone()));
            look(&sub(l.hi.clone(), l.lo.clone()), ranges);
        }
        self.ranges.leave(mark);
    }
}

/// Whether two statements evaluate the same and bring the same into scope.
fn same_head(a: &Stmt, b: &Stmt) -> bool {
    let step = |s: &Stmt| s.as_loop().map(|l| l.step);
    std::mem::discriminant(a.kind()) == std::mem::discriminant(b.kind())
        && step(a) == step(b)
        && a.binders().iter().map(|b| b.0.id).eq(b.binders().iter().map(|b| b.0.id))
        && a.evaluated() == b.evaluated()
}
