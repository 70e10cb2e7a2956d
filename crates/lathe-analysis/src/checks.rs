//! Checks of subscripts: what they say, and how far out of the loops around them they can stand.
//!
//! A check may be hoisted, never sunk. One whose subscript reads no memory and moves one way with a loop is made
//! once for the loop, at both ends, so that a scalar offset costs nothing in the iterations.

use lathe_abi::MAX_EXTENT;
use lathe_diagnostics::Places;
use lathe_ir::build::{add, and, boolean, floor_div, index, le, lt, mul, select, sub, var, var_id};
use lathe_ir::visit::{loads_of, map_stmts, substitute, vars_of};
use lathe_ir::{
    BinOp, Dim, Executor, Expr, ExprKind, Function, Loop, Name, ParamKind, Scalar, Stmt, StmtKind, UnOp,
    VarId,
};
use std::collections::{HashMap, HashSet};

/// Where `under` holds, `0 <= low` and `high < extent` must hold.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    under: Expr,
    low: Expr,
    high: Expr,
    extent: Expr,
    /// The access, for the message.
    access: String,
    places: Places,
}

impl Needed {
    pub fn new(under: &Expr, subscript: &Expr, extent: &Expr, access: String) -> Needed {
        let (under, extent) = (under.clone(), extent.clone());
        Needed {
            under,
            low: subscript.clone(),
            high: subscript.clone(),
            extent,
            access,
            places: Places::none(),
        }
    }

    pub fn at(mut self, places: &Places) -> Needed {
        self.places = places.clone();
        self
    }

    pub fn access(&self) -> &str {
        &self.access
    }

    /// Whether both ask the same, for whatever access.
    pub fn same(&self, other: &Needed) -> bool {
        self.exprs() == other.exprs()
    }

    pub fn cond(&self) -> Expr {
        let inside = and(le(index(0), self.low.clone()), lt(self.high.clone(), self.extent.clone()));
        select(self.under.clone(), inside, boolean(true))
    }

    pub fn stmt(&self) -> Stmt {
        let kind = StmtKind::Check {
            cond: self.cond(),
            code: "bounds".into(),
            message: format!("`{}` is outside of the array", self.access).into(),
        };
        Stmt::new(kind, self.places.clone())
    }

    fn exprs(&self) -> [&Expr; 4] {
        [&self.under, &self.low, &self.high, &self.extent]
    }

    fn mentions(&self, v: VarId) -> bool {
        self.exprs().iter().any(|e| vars_of(e).contains(&v))
    }

    /// It reads no memory, so it says the same wherever its variables are known.
    pub fn is_pure(&self) -> bool {
        self.exprs().iter().all(|e| is_pure(e))
    }

    /// The same for all iterations of a loop; `None` if every iteration must be looked at.
    pub fn outside_loop(&self, v: VarId, lo: &Expr, hi: &Expr, step: i64) -> Option<Needed> {
        let bounds_pure = is_pure(lo) && is_pure(hi);
        let under = self.under_some(lo, hi);
        if !self.mentions(v) {
            return (bounds_pure && self.is_pure()).then(|| Needed { under, ..self.clone() });
        }
        let fixed = !vars_of(&self.under).contains(&v) && !vars_of(&self.extent).contains(&v);
        if !fixed || !self.is_pure() || !bounds_pure {
            return None;
        }
        let trips = floor_div(sub(sub(hi.clone(), index(1)), lo.clone()), index(step));
        let last =
            if step == 1 { sub(hi.clone(), index(1)) } else { add(lo.clone(), mul(trips, index(step))) };
        let at = |e: &Expr, value: &Expr| substitute(e, &HashMap::from([(v, value.clone())]));
        let (low, high) = (
            match way(&self.low, v)? {
                Way::Down => at(&self.low, &last),
                _ => at(&self.low, lo),
            },
            match way(&self.high, v)? {
                Way::Down => at(&self.high, lo),
                _ => at(&self.high, &last),
            },
        );
        Some(Needed { under, low, high, ..self.clone() })
    }

    /// The condition, where a range is not empty.
    fn under_some(&self, lo: &Expr, hi: &Expr) -> Expr {
        let some = lt(lo.clone(), hi.clone());
        if self.under.as_bool() == Some(true) {
            some
        } else {
            select(some, self.under.clone(), boolean(false))
        }
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
        Some(Needed {
            under: of(&self.under),
            low: of(&self.low),
            high: of(&self.high),
            extent: of(&self.extent),
            ..self.clone()
        })
    }

    /// The check for all points of a compute, and the dimensions that must still be gone over.
    pub fn outside_dims<'d>(self, dims: &[&'d Dim]) -> (Needed, Vec<&'d Dim>) {
        let mut needed = self;
        let mut rest: Vec<&Dim> = Vec::new();
        for d in dims.iter().rev() {
            let v = d.binder.id;
            let free = rest.iter().all(|r| !vars_of(&r.lo).contains(&v) && !vars_of(&r.hi).contains(&v));
            let unmentioned = || {
                let under = needed.under_some(&d.lo, &d.hi);
                (!needed.mentions(v)).then(|| Needed { under, ..needed.clone() })
            };
            match needed.outside_loop(v, &d.lo, &d.hi, 1).or_else(unmentioned).filter(|_| free) {
                Some(out) => needed = out,
                None => rest.insert(0, d),
            }
        }
        (needed, rest)
    }
}

/// How an expression moves as a variable grows.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Still,
    Up,
    Down,
}

/// `None`: not known to be monotone.
fn way(e: &Expr, v: VarId) -> Option<Way> {
    let turned = |w| match w {
        Way::Still => Way::Still,
        Way::Up => Way::Down,
        Way::Down => Way::Up,
    };
    match e.kind() {
        ExprKind::Var(x) if *x == v => Some(Way::Up),
        ExprKind::Unary(UnOp::Neg, a) => way(a, v).map(turned),
        ExprKind::Binary(op, a, b) => {
            let (wa, wb) = (way(a, v)?, way(b, v)?);
            let wb = if *op == BinOp::Sub { turned(wb) } else { wb };
            match op {
                _ if wa == Way::Still && wb == Way::Still => Some(Way::Still),
                BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max => match (wa, wb) {
                    (Way::Still, w) | (w, Way::Still) => Some(w),
                    (x, y) => (x == y).then_some(x),
                },
                BinOp::Mul if wb == Way::Still => Some(if b.as_int()? >= 0 { wa } else { turned(wa) }),
                BinOp::Mul => Some(if a.as_int()? >= 0 { wb } else { turned(wb) }),
                BinOp::FloorDiv if wb == Way::Still && b.as_int()? > 0 => Some(wa),
                _ => None,
            }
        }
        _ => (!vars_of(e).contains(&v)).then_some(Way::Still),
    }
}

/// Reads no memory.
pub(crate) fn is_pure(e: &Expr) -> bool {
    loads_of(e).is_empty()
}

/// The check that establishes what the user stated.
pub(crate) fn of_assumption(fact: &Expr, provenance: &Name, places: &Places) -> Stmt {
    let kind = StmtKind::Check {
        cond: fact.clone(),
        code: "assume".into(),
        message: format!("{provenance} does not hold").into(),
    };
    Stmt::new(kind, places.clone())
}

/// The body of a function after the checks that floated out of it. Scalar inputs that they compute with are
/// checked first to be so small that nothing overflows.
pub(crate) fn at_entry(func: &Function, floating: Vec<Needed>, body: Stmt) -> Stmt {
    if floating.is_empty() {
        return body;
    }
    let used: HashSet<VarId> = floating.iter().flat_map(|n| vars_of(&n.cond())).collect();
    let wide = func.params.iter().filter_map(|p| match &p.kind {
        ParamKind::Scalar(b) if used.contains(&b.id) => Some(b),
        _ => None,
    });
    let wide = wide.filter(|b| matches!(b.ty, Scalar::Index | Scalar::I64 | Scalar::U64)).map(|b| {
        let value = lathe_ir::build::cast(Scalar::Index.into(), var_id(b.id, b.ty));
        let small = and(le(index(-MAX_EXTENT), value.clone()), le(value, index(MAX_EXTENT)));
        let kind = StmtKind::Check {
            cond: small,
            code: "bounds".into(),
            message: format!("`{}` is out of range", b.name).into(),
        };
        let user = floating.iter().find(|n| n.mentions(b.id));
        Stmt::new(kind, user.map_or_else(Places::none, |n| n.places.clone()))
    });
    Stmt::seq(wide.chain(floating.iter().map(Needed::stmt)).chain([body]))
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
    let body = map_stmts(&body, &mut |s| {
        let exprs = s.exprs().into_iter().map(|e| substitute(e, &renamed)).collect();
        s.with_exprs(exprs)
    });
    loops.into_iter().rev().fold(body, |body, (binder, lo, hi)| {
        Stmt::of(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body }))
    })
}
