//! Loops of which each iteration takes in what the one before stored, as `x[j + 1] = max(e, x[j] + c)`: a row of an alignment's
//! table. Such lanes combine in order, too, though no running value has a name.
//!
//! Going `k` iterations back adds `c` that many times, so the values of a vector follow by doubling: in the first step every lane takes in
//! the lane before it and `c`, then what the lane two before has by now and `2 * c`, then four. That adds in another order
//! than the iterations do, which is the same as long as no sum leaves the type. What is stored is at least (of `min`: at most)
//! a number `least` that `e` holds, and `c` leads away from it only as far as lanes are wide.

use crate::build::{add, index};
use crate::expr::{Access, Expr, ExprKind, View};
use crate::ids::VarId;
use crate::ops::{BinOp, UnOp};
use crate::stmt::{Loop, Store};
use crate::visit;

/// The parts of such a loop.
pub struct Recurrence<'a> {
    pub store: &'a Store,
    /// `max` or `min`.
    pub op: BinOp,
    /// What each iteration takes in beside.
    pub value: &'a Expr,
    /// What the iteration before stored.
    pub before: &'a Access,
    pub step: i64,
    pub least: i64,
}

impl Recurrence<'_> {
    /// The parts of a loop whose lanes are run at once.
    ///
    /// # Errors
    /// Why the lanes of such a loop could not be run at once.
    pub fn of(l: &Loop, width: u32) -> Result<Recurrence<'_>, &'static str> {
        let r =
            Recurrence::parts(l).ok_or("its value is no maximum with what the iteration before stored")?;
        let v = l.binder.id;
        let ty = r.value.ty().scalar().filter(|s| s.is_int() && s.is_signed());
        let bits = ty.ok_or("it stores no signed integers")?.bytes() * 8;
        if l.step != 1 || l.hi != add(l.lo.clone(), index(i64::from(width))) {
            return Err("its trip count is not the constant number of lanes");
        }
        if !matches!(r.store.target.view, View::Buffer(_)) || r.before.view != r.store.target.view {
            return Err("it takes in an element of another array");
        }
        let by = apart(&r.store.target, r.before).ok_or("its subscripts are not linear")?;
        let moves = r.store.target.indices.iter().map(|e| linear(e)?.of(v));
        let moves: Vec<i64> = moves.collect::<Option<_>>().ok_or("its subscripts are not linear")?;
        if by != moves || moves.iter().all(|n| *n == 0) {
            return Err("it does not take in what the iteration before stored");
        }
        let buffer = |a: &Access| matches!(a.view, View::Buffer(_));
        let same = |a: &Access| a.view == r.store.target.view;
        let reads = |a: &Access| !buffer(a) || same(a) && !surely_apart(a, &r.store.target, &moves);
        let mut subscripts = r.store.target.indices.iter();
        if visit::loads_of(r.value).iter().any(reads) || subscripts.any(|e| !visit::loads_of(e).is_empty()) {
            return Err("what it takes in beside may depend on what it writes");
        }
        let most = 1i128 << (bits - 1);
        let far = i128::from(r.least) + i128::from(r.step) * i128::from(width);
        let leads = if r.op == BinOp::Max { r.step <= 0 } else { r.step >= 0 };
        if !leads || !(-most..most).contains(&far) {
            return Err("what it adds may leave the type");
        }
        Ok(r)
    }

    /// The same of a loop that was decided before its accesses were lowered.
    pub fn parts(l: &Loop) -> Option<Recurrence<'_>> {
        let store = l.body.as_store()?;
        let ExprKind::Binary(op @ (BinOp::Max | BinOp::Min), value, last) = store.value.kind() else {
            return None;
        };
        let ExprKind::Binary(BinOp::Add, before, step) = last.kind() else { return None };
        let ExprKind::Load(before) = before.kind() else { return None };
        let least =
            bounds(value, *op).into_iter().reduce(if *op == BinOp::Max { i64::max } else { i64::min })?;
        Some(Recurrence { store, op: *op, value, before, step: step.as_int()?, least })
    }
}

/// The numbers that a maximum is taken of.
fn bounds(e: &Expr, op: BinOp) -> Vec<i64> {
    match e.kind() {
        ExprKind::Binary(o, a, b) if *o == op => bounds(a, op).into_iter().chain(bounds(b, op)).collect(),
        _ => e.as_int().into_iter().collect(),
    }
}

/// `Σ terms + constant`
struct Form {
    terms: Vec<(Expr, i64)>,
    constant: i64,
}

impl Form {
    fn add(&mut self, e: &Expr, by: i64) -> Option<()> {
        match e.kind() {
            ExprKind::Binary(BinOp::Add, a, b) => self.add(a, by).and_then(|()| self.add(b, by)),
            ExprKind::Binary(BinOp::Sub, a, b) => {
                self.add(a, by).and_then(|()| self.add(b, by.checked_neg()?))
            }
            ExprKind::Unary(UnOp::Neg, a) => self.add(a, by.checked_neg()?),
            ExprKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (Some(n), _) => self.add(b, by.checked_mul(n)?),
                (_, Some(n)) => self.add(a, by.checked_mul(n)?),
                _ => self.atom(e, by),
            },
            _ => match e.as_int() {
                Some(n) => {
                    self.constant = self.constant.checked_add(by.checked_mul(n)?)?;
                    Some(())
                }
                None => self.atom(e, by),
            },
        }
    }

    fn atom(&mut self, e: &Expr, by: i64) -> Option<()> {
        match self.terms.iter_mut().find(|t| t.0 == *e) {
            Some(t) => t.1 = t.1.checked_add(by)?,
            None => self.terms.push((e.clone(), by)),
        }
        Some(())
    }

    /// The factor of a variable; none if it occurs within a term.
    fn of(&self, v: VarId) -> Option<i64> {
        let within = |e: &Expr| e.as_var() != Some(v) && visit::vars_of(e).contains(&v);
        if self.terms.iter().any(|t| within(&t.0)) {
            return None;
        }
        Some(self.terms.iter().find(|t| t.0.as_var() == Some(v)).map_or(0, |t| t.1))
    }
}

fn linear(e: &Expr) -> Option<Form> {
    let mut form = Form { terms: Vec::new(), constant: 0 };
    form.add(e, 1).map(|()| form)
}

/// `a - b`, where it is constant.
fn difference(a: &Expr, b: &Expr) -> Option<i64> {
    let mut form = Form { terms: Vec::new(), constant: 0 };
    form.add(a, 1)?;
    form.add(b, -1)?;
    form.terms.iter().all(|t| t.1 == 0).then_some(form.constant)
}

/// How far two elements are apart in each dimension.
fn apart(a: &Access, b: &Access) -> Option<Vec<i64>> {
    (a.indices.len() == b.indices.len()).then_some(())?;
    a.indices.iter().zip(&b.indices).map(|(x, y)| difference(x, y)).collect()
}

/// Whether no iteration reads an element that another one stores: they differ in a dimension that no iteration changes.
fn surely_apart(read: &Access, stored: &Access, moves: &[i64]) -> bool {
    read.indices.len() == stored.indices.len()
        && (0..moves.len()).any(|d| {
            moves[d] == 0 && difference(&read.indices[d], &stored.indices[d]).is_some_and(|n| n != 0)
        })
}
