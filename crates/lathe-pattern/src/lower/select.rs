//! Values that depend on where one looks: inside or outside of an array, by a condition.

use super::Lower;
use super::view::{Arg, View};
use crate::codes;
use crate::nat::Nat;
use crate::prim::PadMode;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{BinOp, Expr, build};
use std::rc::Rc;

type Out = Result<View, Diagnostic>;

impl Lower<'_> {
    /// Where `pad` reads for a position that counts from the array's first element.
    pub(super) fn padded_index(&mut self, mode: PadMode, j: &Nat, n: &Nat) -> Nat {
        if self.indices.is_inside(j, n) {
            return j.clone();
        }
        let (zero, one) = (build::index(0), build::index(1));
        let (e, size) = (self.indices.expr(j), self.indices.expr(n));
        let last = build::sub(size.clone(), one.clone());
        let low = !self.indices.is_nonnegative(j);
        let high = !self.indices.is_below(j, n);
        let e = match mode {
            PadMode::Clamp => {
                let e = if high { build::min(e, last) } else { e };
                if low { build::max(e, zero) } else { e }
            }
            PadMode::Wrap => build::floor_mod(e, size),
            PadMode::Mirror => {
                // Reflected once where that is enough, else folded.
                let near = self.indices.is_nonnegative(&j.plus(n)) && self.indices.is_below(j, &n.scaled(2));
                let twice = build::mul(size.clone(), build::index(2));
                let e = if near { e } else { build::floor_mod(e, twice.clone()) };
                let reflected = build::sub(build::sub(twice, one.clone()), e.clone());
                let out = build::select(build::lt(e.clone(), size), e.clone(), reflected);
                let left = build::sub(build::neg(e.clone()), one);
                if near { build::select(build::lt(e, zero), left, out) } else { out }
            }
        };
        self.indices.atom(e, Some(n.clone()))
    }

    /// `inside(j)` where `0 <= j < n`, else `outside(j)`.
    pub(super) fn inside_or(
        &mut self,
        j: &Nat,
        n: &Nat,
        inside: Rc<super::view::Read>,
        outside: &dyn Fn(&mut Lower, &Nat) -> Out,
    ) -> Out {
        let mut cond: Option<Expr> = None;
        let e = self.indices.expr(j);
        if !self.indices.is_nonnegative(j) {
            cond = Some(build::le(build::index(0), e.clone()));
        }
        if !self.indices.is_below(j, n) {
            let below = build::lt(e.clone(), self.indices.expr(n));
            cond = Some(match cond {
                Some(c) => build::and(c, below),
                None => below,
            });
        }
        let Some(cond) = cond else { return inside(self, j) };
        // Inside the branch the position is within bounds.
        let within = self.indices.atom(e, Some(n.clone()));
        let (a, b) = (inside(self, &within)?, outside(self, j)?);
        self.choose(&cond, a, b)
    }

    /// Element-wise `select`.
    pub(super) fn choose(&mut self, c: &Expr, a: View, b: View) -> Out {
        match (a, b) {
            (View::Tuple(a), View::Tuple(b)) if a.len() == b.len() => {
                let parts = a.into_iter().zip(b).map(|(a, b)| self.choose(c, a, b));
                Ok(View::Tuple(parts.collect::<Result<_, _>>()?))
            }
            (View::Array(a), View::Array(b)) => {
                let (x, y, c) = (a.at.clone(), b.at.clone(), c.clone());
                let mut out = a.like(move |l, i| {
                    let (a, b) = (x(l, i)?, y(l, i)?);
                    l.choose(&c, a, b)
                });
                out.pads.extend(b.pads);
                out.streams.clear();
                Ok(View::Array(out))
            }
            (View::Index(a), View::Index(b)) => {
                let e = build::select(c.clone(), self.indices.expr(&a), self.indices.expr(&b));
                Ok(View::Index(self.indices.atom(e, None)))
            }
            (a, b) => {
                let (a, b) = (self.number(&a)?, self.number(&b)?);
                Ok(View::Number(build::select(c.clone(), a, b)))
            }
        }
    }

    pub(super) fn select(&mut self, c: &Expr, a: &Arg, b: &Arg) -> Out {
        let mut sides = Vec::new();
        for side in [a, b] {
            let mut v = None;
            let emitted = self.block(|l| {
                v = Some(l.arg(side)?);
                Ok(())
            })?;
            if !emitted.is_empty() {
                // Only the branch that is taken may be computed.
                let text = "a branch of `select` needs statements of its own here";
                return Err(self
                    .refuse(codes::NOT_STORED, text)
                    .help("store its result first, or select outside"));
            }
            sides.extend(v);
        }
        let (b, a) = (sides.pop(), sides.pop());
        match (a, b) {
            (Some(a), Some(b)) => self.choose(c, a, b),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no branches")),
        }
    }

    /// An index made of numbers, where it is a polynomial in what is known.
    pub(super) fn polynomial(&self, e: &Expr) -> Option<Nat> {
        use lathe_ir::ExprKind;
        Some(match e.kind() {
            ExprKind::Int(v) => Nat::constant(*v),
            ExprKind::Var(_) => self.indices.known(e)?,
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.polynomial(a)?, self.polynomial(b)?);
                match op {
                    BinOp::Add => a.plus(&b),
                    BinOp::Sub => a.minus(&b),
                    BinOp::Mul => a.times(&b),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// A number that claims to be an index below `n`: kept inside, so that no claim leads out of memory.
    pub(super) fn clamped(&self, e: Expr, n: &Nat) -> Expr {
        let last = build::sub(self.indices.expr(n), build::index(1));
        build::max(build::min(e, last), build::index(0))
    }
}
