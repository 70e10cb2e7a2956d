//! Checks that the code makes: what they say, and how far out of the loops around them they can stand.
//!
//! A check computes nothing that could overflow 64 bits. It may be hoisted, never sunk, and never so that another call
//! fails than before: a check hoisted out of a loop is guarded by the loop having iterations. One that reads
//! no memory and is monotonic in a loop is made once for the loop, at both ends, so that a scalar offset costs
//! nothing per iteration. Where the range of the loop is data, this check stands directly before the loop.

use lathe_diagnostics::Places;
use lathe_ir::build::{add, and, boolean, floor_div, index, le, lt, mul, select, sub, var};
use lathe_ir::visit::{Memo, distinct_operands, loads_of, substitute, substitute_stmt, vars_of};
use lathe_ir::{BinOp, Dim, Executor, Expr, ExprKind, Function, Loop, Stmt, StmtKind, UnOp, VarId};
use lathe_poly::{Linear, Ranges, fits};
use std::collections::HashMap;

/// `low + gap ≤ high`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub low: Expr,
    pub high: Expr,
    pub strict: bool,
}

impl Order {
    pub fn le(low: Expr, high: Expr) -> Order {
        Order { low, high, strict: false }
    }

    pub fn lt(low: Expr, high: Expr) -> Order {
        Order { low, high, strict: true }
    }

    fn cond(&self) -> Expr {
        let compare = if self.strict { lt } else { le };
        compare(self.low.clone(), self.high.clone())
    }
}

/// What a check asks.
#[derive(Clone, Debug, PartialEq)]
enum Ask {
    /// No operation of the expressions fails.
    Fit(Vec<Expr>),
    /// All of these.
    Orders(Vec<Order>),
    Holds(Expr),
}

/// Where `under` holds, something must hold.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    under: Expr,
    ask: Ask,
    code: &'static str,
    message: String,
    places: Places,
}

/// What must hold for a condition to hold: the operands of its `and`s.
fn parts(cond: &Expr) -> Vec<&Expr> {
    if let ExprKind::Binary(BinOp::And, a, b) = cond.kind() {
        [parts(a), parts(b)].concat()
    } else {
        vec![cond]
    }
}

impl Needed {
    fn new(under: &Expr, ask: Ask, code: &'static str, message: String) -> Needed {
        Needed { under: under.clone(), ask, code, message, places: Places::none() }
    }

    /// `0 ≤ subscript < extent`
    pub fn inside(under: &Expr, subscript: &Expr, extent: &Expr, access: &str) -> Needed {
        let orders =
            vec![Order::le(index(0), subscript.clone()), Order::lt(subscript.clone(), extent.clone())];
        Needed::orders(under, orders, access)
    }

    /// As [`Needed::inside`], in another form.
    pub fn orders(under: &Expr, orders: Vec<Order>, access: &str) -> Needed {
        Needed::new(under, Ask::Orders(orders), "bounds", format!("`{access}` is outside of the array"))
    }

    /// Evaluating an expression does not fail.
    pub fn fit(under: &Expr, e: &Expr, text: &str) -> Needed {
        let (code, what) = match e.kind() {
            ExprKind::Binary(op, ..) if op.is_division() => {
                ("division", "divides by zero or overflows 64 bits")
            }
            _ => ("overflow", "overflows 64 bits"),
        };
        Needed::new(under, Ask::Fit(vec![e.clone()]), code, format!("`{text}` {what}"))
    }

    /// What the user stated.
    pub fn assumption(fact: &Expr, provenance: &str) -> Needed {
        Needed::new(&boolean(true), Ask::Holds(fact.clone()), "assume", format!("{provenance} does not hold"))
    }

    pub fn at(mut self, places: &Places) -> Needed {
        self.places = places.clone();
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether both have the same condition, for whatever access.
    pub fn same(&self, other: &Needed) -> bool {
        self.under == other.under && self.ask == other.ask
    }

    /// What the check computes. `ranges` hold wherever its variables are known: nothing that conditions on the way
    /// said is used, so that the check may be further out.
    pub fn cond(&self, ranges: &Ranges) -> Expr {
        let always = self.under.as_bool() == Some(true);
        let ask = if always {
            self.asked(ranges)
        } else {
            let mut inner = ranges.clone();
            inner.learn(&self.under, true);
            self.asked(&inner)
        };
        if always || parts(&ask).iter().all(|a| parts(&self.under).contains(a)) {
            return if always { ask } else { boolean(true) };
        }
        // A condition that has no value fails by a check of its own.
        let under = match fits::condition(&self.under, ranges) {
            Some(fits) => fits::both(fits, self.under.clone()),
            None => self.under.clone(),
        };
        select(under, ask, boolean(true))
    }

    /// What must hold where the condition does.
    pub fn asked(&self, known: &Ranges) -> Expr {
        let fitting = |es: &[&Expr], cond: Expr| {
            let parts = es.iter().filter_map(|e| fits::condition(e, known));
            parts.collect::<Vec<_>>().into_iter().rev().fold(cond, |cond, part| fits::both(part, cond))
        };
        match &self.ask {
            Ask::Fit(es) => fitting(&es.iter().collect::<Vec<_>>(), boolean(true)),
            Ask::Orders(all) => {
                let es: Vec<&Expr> = all.iter().flat_map(|o| [&o.low, &o.high]).collect();
                let cond = all.iter().map(Order::cond).reduce(and).unwrap_or_else(|| boolean(true));
                fitting(&es, cond)
            }
            Ask::Holds(cond) => fitting(&[cond], cond.clone()),
        }
    }

    pub fn stmt(&self, ranges: &Ranges) -> Stmt {
        let kind = StmtKind::Check {
            cond: self.cond(ranges),
            code: self.code.into(),
            message: self.message.as_str().into(),
        };
        Stmt::new(kind, self.places.clone())
    }

    fn exprs(&self) -> Vec<&Expr> {
        let mut out = vec![&self.under];
        match &self.ask {
            Ask::Fit(es) => out.extend(es),
            Ask::Orders(all) => out.extend(all.iter().flat_map(|o| [&o.low, &o.high])),
            Ask::Holds(cond) => out.push(cond),
        }
        out
    }

    fn mentions(&self, v: VarId) -> bool {
        self.exprs().iter().any(|e| vars_of(e).contains(&v))
    }

    /// It reads no memory, so it says the same wherever its variables are known.
    pub fn is_pure(&self) -> bool {
        self.exprs().iter().all(|e| is_pure(e))
    }

    /// The extent, if the check is that a loop variable is a subscript of a dimension of that extent.
    pub fn subscript(&self, v: VarId) -> Option<&Expr> {
        match &self.ask {
            Ask::Orders(all) if self.under.as_bool() == Some(true) => match all.as_slice() {
                [first, last] => {
                    let own = first.low.as_int() == Some(0)
                        && first.high.as_var() == Some(v)
                        && last.low.as_var() == Some(v);
                    (own && !first.strict && last.strict && !vars_of(&last.high).contains(&v))
                        .then_some(&last.high)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The check for all iterations of a loop at once, to be placed directly before the loop if it is not pure; `None` if
    /// every iteration must be checked.
    pub fn outside_loop(
        &self,
        v: VarId,
        (lo, hi, step): (&Expr, &Expr, i64),
        ranges: &Ranges,
    ) -> Option<Needed> {
        // What the bounds read is still the same directly before the loop, where the caller places the check.
        let pure = self.is_pure();
        let under = self.under_some(lo, hi);
        if !self.mentions(v) {
            return pure.then(|| Needed { under, ..self.clone() });
        }
        if !pure || vars_of(&self.under).contains(&v) {
            return None;
        }
        let last = if step == 1 {
            sub(hi.clone(), index(1))
        } else {
            let trips = floor_div(sub(sub(hi.clone(), index(1)), lo.clone()), index(step));
            let last = add(lo.clone(), mul(trips, index(step)));
            let mut known = ranges.clone();
            known.learn(&lt(lo.clone(), hi.clone()), true);
            // The last value is computed by operations that the loop does not have.
            if !known.fits(&last) {
                return None;
            }
            last
        };
        let at = |e: &Expr, value: &Expr| substitute(e, &HashMap::from([(v, value.clone())]));
        let ask = match &self.ask {
            Ask::Fit(es) => {
                let mut out = Vec::new();
                for e in es {
                    // What moves one way, with all its parts, is farthest out at the ends.
                    if way(e, v, ranges)? == Way::Still {
                        out.push(e.clone());
                    } else {
                        out.extend([at(e, lo), at(e, &last)]);
                    }
                }
                Ask::Fit(out)
            }
            Ask::Orders(_) | Ask::Holds(_) => Ask::Orders(
                self.comparisons()?
                    .into_iter()
                    .map(|o| {
                        let worst = match (way(&o.low, v, ranges)?, way(&o.high, v, ranges)?) {
                            (Way::Still, Way::Still) => return Some(o),
                            (Way::Up | Way::Still, Way::Down | Way::Still) => &last,
                            (Way::Down | Way::Still, Way::Up | Way::Still) => lo,
                            _ => return None,
                        };
                        Some(Order { low: at(&o.low, worst), high: at(&o.high, worst), ..o })
                    })
                    .collect::<Option<_>>()?,
            ),
        };
        Some(Needed { under, ask, ..self.clone() })
    }

    /// What is asked as comparisons, if it is nothing else.
    fn comparisons(&self) -> Option<Vec<Order>> {
        let mut out = Vec::new();
        match &self.ask {
            Ask::Orders(all) => Some(all.clone()),
            Ask::Holds(cond) => comparisons(cond, &mut out).then_some(out),
            Ask::Fit(_) => None,
        }
    }

    /// The condition, where a range is not empty.
    fn under_some(&self, lo: &Expr, hi: &Expr) -> Expr {
        fits::both(lt(lo.clone(), hi.clone()), self.under.clone())
    }

    /// The same outside of a `let`.
    pub fn outside_let(&self, v: VarId, value: &Expr) -> Option<Needed> {
        if !self.mentions(v) {
            return Some(self.clone());
        }
        if !is_pure(value) {
            return None;
        }
        let map = HashMap::from([(v, value.clone())]);
        let of = |e: &Expr| substitute(e, &map);
        let ask = match &self.ask {
            Ask::Fit(es) => Ask::Fit(es.iter().map(of).collect()),
            Ask::Orders(all) => Ask::Orders(
                all.iter().map(|o| Order { low: of(&o.low), high: of(&o.high), ..o.clone() }).collect(),
            ),
            Ask::Holds(cond) => Ask::Holds(of(cond)),
        };
        Some(Needed { under: of(&self.under), ask, ..self.clone() })
    }

    /// The check for all points of some dimensions of a compute, and those that must still be gone over.
    pub fn outside_dims<'d>(self, dims: &[&'d Dim], ranges: &Ranges) -> (Needed, Vec<&'d Dim>) {
        let mut needed = self;
        let mut rest: Vec<&Dim> = Vec::new();
        for d in dims.iter().rev() {
            let v = d.binder.id;
            let free = rest.iter().all(|r| !vars_of(&r.lo).contains(&v) && !vars_of(&r.hi).contains(&v));
            let unmentioned = || {
                let under = needed.under_some(&d.lo, &d.hi);
                (!needed.mentions(v)).then(|| Needed { under, ..needed.clone() })
            };
            let range = (&d.lo, &d.hi, 1);
            match needed.outside_loop(v, range, ranges).or_else(unmentioned).filter(|_| free) {
                Some(out) => needed = out,
                None => rest.insert(0, d),
            }
        }
        (needed, rest)
    }
}

/// The comparisons of `index` values that a condition consists of; false if it is something else, too.
fn comparisons(cond: &Expr, out: &mut Vec<Order>) -> bool {
    distinct_operands(BinOp::And, cond).iter().all(|part| comparison(part, out))
}

fn comparison(cond: &Expr, out: &mut Vec<Order>) -> bool {
    let ExprKind::Binary(op, a, b) = cond.kind() else { return false };
    if !a.ty().is_index() {
        return false;
    }
    let (a, b) = (a.clone(), b.clone());
    out.push(match op {
        BinOp::Le => Order::le(a, b),
        BinOp::Lt => Order::lt(a, b),
        BinOp::Ge => Order::le(b, a),
        BinOp::Gt => Order::lt(b, a),
        _ => return false,
    });
    true
}

/// Subscripts that are at most this far from one unknown are compared with it alone.
const NEAR: i128 = 1 << 61;

/// `0 ≤ e < extent` as bounds of the one atom of `e` that may be anything, which no operation can overflow 64 bits to
/// find out; `None` where there is none such, or several.
pub(crate) fn solved(e: &Expr, extent: &Expr, ranges: &Ranges) -> Option<Vec<Order>> {
    let form = Linear::of(e);
    let near = |f: &Linear| {
        let terms = f.terms.iter().map(|(a, k)| (ranges.range(a).magnitude().hi, i128::from(*k).abs()));
        let sum = terms.map(|(a, k)| a.checked_mul(k)).try_fold(0i128, |s, t| s.checked_add(t?));
        sum.is_some_and(|s| s + i128::from(f.constant).abs() <= NEAR)
    };
    let wide = |(a, k): &&(Expr, i64)| !near(&Linear { terms: vec![(a.clone(), *k)], constant: 0 });
    let mut all = form.terms.iter().filter(wide);
    let (Some((x, k)), None) = (all.next(), all.next()) else { return None };
    let rest = form.clone().without(x);
    let end = Linear::of(extent);
    if !near(&rest) || !near(&end) || i128::from(*k).abs() > NEAR {
        return None;
    }
    let down = |f: &Linear, k: i64| {
        if k == 1 { f.to_expr() } else { floor_div(f.to_expr(), index(k)) }
    };
    let beyond = rest.minus(&end)?;
    Some(if *k > 0 {
        // -rest ≤ k·x < extent - rest
        let (low, high) = if *k == 1 {
            (rest.scaled(-1)?.to_expr(), beyond.scaled(-1)?.to_expr())
        } else {
            (sub(index(0), down(&rest, *k)), sub(index(0), down(&beyond, *k)))
        };
        vec![Order::le(low, x.clone()), Order::lt(x.clone(), high)]
    } else {
        // rest - extent < -k·x ≤ rest
        let k = k.checked_neg()?;
        vec![Order::lt(down(&beyond, k), x.clone()), Order::le(x.clone(), down(&rest, k))]
    })
}

/// How an expression moves as a variable grows.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Still,
    Up,
    Down,
}

impl Way {
    fn turned(self) -> Way {
        match self {
            Way::Still => Way::Still,
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }
}

/// `None`: not known to be monotone, with all its parts.
fn way(e: &Expr, v: VarId, ranges: &Ranges) -> Option<Way> {
    way_in(e, v, ranges, &mut Memo::default())
}

fn way_in(e: &Expr, v: VarId, ranges: &Ranges, memo: &mut Memo<Option<Way>>) -> Option<Way> {
    memo.of(e, |memo| way_of_node(e, v, ranges, memo))
}

fn way_of_node(e: &Expr, v: VarId, ranges: &Ranges, memo: &mut Memo<Option<Way>>) -> Option<Way> {
    match e.kind() {
        ExprKind::Var(x) if *x == v => Some(Way::Up),
        _ if !vars_of(e).contains(&v) => Some(Way::Still),
        ExprKind::Unary(UnOp::Neg, a) if e.ty().is_index() => way_in(a, v, ranges, memo).map(Way::turned),
        ExprKind::Binary(op, a, b) if e.ty().is_index() => {
            let (wa, wb) = (way_in(a, v, ranges, memo)?, way_in(b, v, ranges, memo)?);
            let wb = if *op == BinOp::Sub { wb.turned() } else { wb };
            match op {
                BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max => match (wa, wb) {
                    (Way::Still, w) | (w, Way::Still) => Some(w),
                    (x, y) => (x == y).then_some(x),
                },
                BinOp::Mul => {
                    let (moving, by) = match (wa, wb) {
                        (w, Way::Still) => (w, ranges.range(b)),
                        (Way::Still, w) => (w, ranges.range(a)),
                        _ => return None,
                    };
                    match (by.lo >= 0, by.hi <= 0) {
                        (true, _) => Some(moving),
                        (_, true) => Some(moving.turned()),
                        _ => None,
                    }
                }
                BinOp::FloorDiv if wb == Way::Still && b.as_int().is_some_and(|c| c > 0) => Some(wa),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Reads no memory.
pub(crate) fn is_pure(e: &Expr) -> bool {
    loads_of(e).is_empty()
}

/// Loops over dimensions of a compute, with binders of their own.
pub(crate) fn loops_over(func: &mut Function, dims: &[&Dim], body: Stmt) -> Stmt {
    let mut renamed = HashMap::new();
    let mut loops = Vec::new();
    for d in dims {
        let fresh = func.fresh_var(&d.binder.name, d.binder.ty);
        loops.push((fresh.clone(), substitute(&d.lo, &renamed), substitute(&d.hi, &renamed)));
        renamed.insert(d.binder.id, var(&fresh));
    }
    let body = substitute_stmt(&body, &renamed);
    loops.into_iter().rev().fold(body, |body, (binder, lo, hi)| {
        Stmt::of(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body }))
    })
}
