//! Derivatives of expressions, in both modes.
//!
//! Expressions are graphs with shared nodes, and so are their derivatives: each node is visited once, and what it
//! shares with the primal stays shared.

use crate::activity::{Activity, is_step};
use crate::codes::{self, refuse};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{and, binary, cast, load, mul, neg, not, or, select, sub};
use lathe_ir::{Access, BinOp, Expr, ExprKind, MathFn, Scalar, Type, UnOp, VarId};
use std::collections::{HashMap, HashSet};

/// The type that cotangents of a type are added up in: f32 for the half types.
pub fn wide(s: Scalar) -> Scalar {
    match s {
        Scalar::F16 | Scalar::Bf16 => Scalar::F32,
        other => other,
    }
}

fn wide_type(t: &Type) -> Type {
    t.scalar().map_or_else(|| t.clone(), |s| wide(s).into())
}

fn widen(e: &Expr) -> Expr {
    cast(wide_type(e.ty()), e.clone())
}

pub use lathe_transform::storage::zero;

pub fn is_one(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Float(v) if v.get() == 1.0)
}

/// A product that leaves ones out.
fn times(a: Expr, b: Expr) -> Expr {
    if is_one(&a) {
        b
    } else if is_one(&b) {
        a
    } else {
        mul(a, b)
    }
}

pub fn plus(a: Option<Expr>, b: Expr) -> Expr {
    match a {
        Some(a) => lathe_ir::build::add(a, b),
        None => b,
    }
}

/// Whether `max(a, b)` (or `min`) is `b`: only if it is better; a NaN is, unless `a` is one.
fn takes_second(op: BinOp, a: &Expr, b: &Expr) -> Expr {
    let better = if op == BinOp::Max { BinOp::Gt } else { BinOp::Lt };
    let is_nan = |e: &Expr| binary(BinOp::Ne, e.clone(), e.clone());
    if matches!(b.kind(), ExprKind::Float(v) if !v.get().is_nan()) {
        return binary(better, b.clone(), a.clone());
    }
    or(binary(better, b.clone(), a.clone()), and(is_nan(b), not(is_nan(a))))
}

/// What is active in an expression: loads and variables.
pub struct Active<'a> {
    pub act: &'a Activity,
    /// Where the expression stands, for messages.
    pub places: &'a Places,
}

impl Active<'_> {
    fn no(&self, what: &str) -> Diagnostic {
        refuse(codes::UNSUPPORTED, format!("{what} of a differentiated value"), self.places)
    }

    /// The nodes that depend on something active by value, by address.
    pub fn nodes(&self, e: &Expr) -> HashSet<usize> {
        fn go(this: &Active, e: &Expr, memo: &mut HashMap<usize, bool>) -> bool {
            if let Some(known) = memo.get(&e.address()) {
                return *known;
            }
            let active = match e.kind() {
                ExprKind::Load(a) => e.ty().is_float() && this.act.of_access(a),
                ExprKind::Var(v) => e.ty().is_float() && this.act.of_var(*v),
                // Every part is looked at: parts are asked for, too.
                _ => e.children().into_iter().fold(false, |any, c| go(this, c, memo) | any),
            };
            let steps = match e.kind() {
                ExprKind::Math(f, _) => is_step(*f),
                ExprKind::Cast(_) | ExprKind::Bitcast(_) | ExprKind::Binary(..) => !e.ty().is_float(),
                _ => false,
            };
            let active = active && !steps;
            memo.insert(e.address(), active);
            active
        }
        let mut memo = HashMap::new();
        go(self, e, &mut memo);
        memo.into_iter().filter(|m| m.1).map(|m| m.0).collect()
    }

    fn partial(&self, f: MathFn, es: &[Expr], which: usize) -> Result<Expr, Diagnostic> {
        lathe_ir::math::derivative(f, es, which).ok_or_else(|| self.no(&format!("`{}`", f.name())))
    }

    /// The derivative of an expression along the tangents of what it loads; `None` where it is 0.
    ///
    /// # Errors
    /// `E1302` for operations that have no rule.
    pub fn tangent(
        &self,
        e: &Expr,
        of_load: &mut dyn FnMut(&Access) -> Option<Expr>,
        of_var: &dyn Fn(VarId) -> Option<Expr>,
    ) -> Result<Option<Expr>, Diagnostic> {
        let nodes = self.nodes(e);
        self.tangent_of(e, &nodes, of_load, of_var, &mut HashMap::new())
    }

    fn tangent_of(
        &self,
        e: &Expr,
        nodes: &HashSet<usize>,
        of_load: &mut dyn FnMut(&Access) -> Option<Expr>,
        of_var: &dyn Fn(VarId) -> Option<Expr>,
        memo: &mut HashMap<usize, Option<Expr>>,
    ) -> Result<Option<Expr>, Diagnostic> {
        if !nodes.contains(&e.address()) {
            return Ok(None);
        }
        if let Some(done) = memo.get(&e.address()) {
            return Ok(done.clone());
        }
        let ty = e.ty().clone();
        let mut go = |x: &Expr| self.tangent_of(x, nodes, of_load, of_var, memo);
        let out = match e.kind() {
            ExprKind::Load(a) => of_load(a),
            ExprKind::Var(v) => of_var(*v),
            ExprKind::Unary(UnOp::Neg, a) => go(a)?.map(neg),
            ExprKind::Binary(BinOp::Add, a, b) => match (go(a)?, go(b)?) {
                (x, Some(y)) => Some(plus(x, y)),
                (x, None) => x,
            },
            ExprKind::Binary(BinOp::Sub, a, b) => match (go(a)?, go(b)?) {
                (Some(x), Some(y)) => Some(sub(x, y)),
                (None, y) => y.map(neg),
                (x, None) => x,
            },
            ExprKind::Binary(BinOp::Mul, a, b) => {
                let left = go(a)?.map(|x| times(x, b.clone()));
                match go(b)?.map(|y| times(a.clone(), y)) {
                    Some(right) => Some(plus(left, right)),
                    None => left,
                }
            }
            ExprKind::Binary(BinOp::Div, a, b) => {
                let top = match (go(a)?, go(b)?) {
                    (Some(x), Some(y)) => Some(sub(x, times(e.clone(), y))),
                    (None, y) => y.map(|y| neg(times(e.clone(), y))),
                    (x, None) => x,
                };
                top.map(|t| binary(BinOp::Div, t, b.clone()))
            }
            ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                let (x, y) = (go(a)?, go(b)?);
                let other = || zero(&ty);
                let (x, y) = (x.unwrap_or_else(other), y.unwrap_or_else(other));
                Some(select(takes_second(*op, a, b), y, x))
            }
            ExprKind::Select(c, a, b) => {
                let (x, y) = (go(a)?, go(b)?);
                let other = || zero(&ty);
                Some(select(c.clone(), x.unwrap_or_else(other), y.unwrap_or_else(other)))
            }
            ExprKind::Cast(a) => go(a)?.map(|x| cast(ty.clone(), x)),
            ExprKind::Math(f, es) => {
                let mut sum = None;
                for (n, x) in es.iter().enumerate() {
                    if let Some(t) = go(x)? {
                        sum = Some(plus(sum, times(self.partial(*f, es, n)?, t)));
                    }
                }
                sum
            }
            ExprKind::Aggregate(_) | ExprKind::Field(..) => return Err(self.no("a struct or array")),
            ExprKind::Call(f, _) => {
                return Err(self.no(&format!("a call of `{f}`")).help("inline the call"));
            }
            _ => return Err(self.no("an operation on integers")),
        };
        memo.insert(e.address(), out.clone());
        Ok(out)
    }

    /// What an expression propagates to what it loads, if `seed` (of the wide type) is its cotangent.
    ///
    /// # Errors
    /// `E1302` for operations that have no rule.
    pub fn cotangents(&self, e: &Expr, seed: Expr) -> Result<Vec<Cotangent>, Diagnostic> {
        let nodes = self.nodes(e);
        let mut out = Vec::new();
        self.branch(e, seed, None, &nodes, &mut out)?;
        // What goes to one element under one condition is one sum.
        let mut merged: Vec<Cotangent> = Vec::new();
        for c in out {
            match merged.iter_mut().find(|m| m.to == c.to && m.under == c.under) {
                Some(m) => m.value = plus(Some(m.value.clone()), c.value),
                None => merged.push(c),
            }
        }
        Ok(merged)
    }

    /// One branch of the `select`s around: all that is evaluated where `under` holds.
    fn branch(
        &self,
        e: &Expr,
        seed: Expr,
        under: Option<Expr>,
        nodes: &HashSet<usize>,
        out: &mut Vec<Cotangent>,
    ) -> Result<(), Diagnostic> {
        let mut order = Vec::new();
        postorder(e, nodes, &mut HashSet::new(), &mut order);
        let mut bars: HashMap<usize, Expr> = HashMap::from([(e.address(), seed)]);
        for x in order.into_iter().rev() {
            let Some(g) = bars.remove(&x.address()) else { continue };
            let mut give = |to: &Expr, v: Expr| {
                if nodes.contains(&to.address()) {
                    let old = bars.remove(&to.address());
                    bars.insert(to.address(), plus(old, v));
                }
            };
            match x.kind() {
                ExprKind::Load(a) => {
                    out.push(Cotangent { under: under.clone(), to: Source::Load(a.clone()), value: g });
                }
                ExprKind::Var(v) => {
                    out.push(Cotangent { under: under.clone(), to: Source::Var(*v), value: g })
                }
                ExprKind::Unary(UnOp::Neg, a) => give(a, neg(g)),
                ExprKind::Binary(BinOp::Add, a, b) => {
                    give(a, g.clone());
                    give(b, g);
                }
                ExprKind::Binary(BinOp::Sub, a, b) => {
                    give(a, g.clone());
                    give(b, neg(g));
                }
                ExprKind::Binary(BinOp::Mul, a, b) => {
                    give(a, times(g.clone(), widen(b)));
                    give(b, times(g, widen(a)));
                }
                ExprKind::Binary(BinOp::Div, a, b) => {
                    let by = binary(BinOp::Div, g, widen(b));
                    give(b, neg(times(by.clone(), widen(&x))));
                    give(a, by);
                }
                ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                    let second = takes_second(*op, a, b);
                    let none = zero(g.ty());
                    give(a, select(second.clone(), none.clone(), g.clone()));
                    give(b, select(second, g, none));
                }
                ExprKind::Select(c, a, b) => {
                    let within = |c: Expr| match &under {
                        Some(u) => and(u.clone(), c),
                        None => c,
                    };
                    if nodes.contains(&a.address()) {
                        self.branch(a, g.clone(), Some(within(c.clone())), nodes, out)?;
                    }
                    if nodes.contains(&b.address()) {
                        self.branch(b, g, Some(within(not(c.clone()))), nodes, out)?;
                    }
                }
                ExprKind::Cast(a) => give(a, cast(wide_type(a.ty()), g)),
                ExprKind::Math(f, es) => {
                    for (n, a) in es.iter().enumerate().filter(|(_, a)| nodes.contains(&a.address())) {
                        let d = self.partial(*f, es, n)?;
                        give(a, times(g.clone(), widen(&d)));
                    }
                }
                ExprKind::Aggregate(_) | ExprKind::Field(..) => return Err(self.no("a struct or array")),
                ExprKind::Call(f, _) => {
                    let help = "inline the call";
                    return Err(self.no(&format!("a call of `{f}`")).help(help));
                }
                _ => return Err(self.no("an operation on integers")),
            }
        }
        Ok(())
    }
}

/// What receives a cotangent.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Load(Access),
    Var(VarId),
}

/// A part of the cotangent of an element.
#[derive(Clone, Debug)]
pub struct Cotangent {
    /// Only where it holds is the element read at all (and need it exist).
    pub under: Option<Expr>,
    pub to: Source,
    pub value: Expr,
}

/// Active nodes, operands before what is made of them; branches of `select` are not entered.
fn postorder(e: &Expr, nodes: &HashSet<usize>, seen: &mut HashSet<usize>, out: &mut Vec<Expr>) {
    if !nodes.contains(&e.address()) || !seen.insert(e.address()) {
        return;
    }
    let enter = !matches!(e.kind(), ExprKind::Select(..) | ExprKind::Load(_));
    for c in e.children().into_iter().filter(|_| enter) {
        postorder(c, nodes, seen, out);
    }
    out.push(e.clone());
}

/// A load of the same element of another buffer.
pub fn load_of(a: &Access, buffer: lathe_ir::BufId, elem: Type) -> Expr {
    load(on(a, buffer, elem))
}

/// The same element of another buffer.
pub fn on(a: &Access, buffer: lathe_ir::BufId, elem: Type) -> Access {
    Access { view: a.view.map_buffer(&mut |_| buffer), elem, status: lathe_ir::Status::Unproved, ..a.clone() }
}
