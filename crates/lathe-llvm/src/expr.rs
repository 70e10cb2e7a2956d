//! Expressions.

use crate::emit::{Emitter, Lanes, Result, defect, unsupported};
use crate::ir::{Value, Width};
use crate::value::{self, Leaf, Val};
use lathe_diagnostics::Places;
use lathe_ir::{Access, BinOp, BufId, Expr, ExprKind, MathFn, ReduceOp, Scalar, Type, UnOp, build};
use lathe_lower::addresses;
use lathe_lower::halves;
use std::collections::HashMap;

impl Emitter<'_> {
    /// Every leaf of an expression. Shared subexpressions are emitted once per statement and branch.
    pub fn expr(&mut self, e: &Expr) -> Result<Val> {
        let trivial = e.children().is_empty() && !matches!(e.kind(), ExprKind::Load(_));
        if trivial {
            return self.expr_anew(e);
        }
        if let Some(v) = self.frame.memo.iter().rev().find_map(|m| m.get(e)) {
            return Ok(v.clone());
        }
        let v = self.expr_anew(e)?;
        if let Some(layer) = self.frame.memo.last_mut() {
            layer.insert(e.clone(), v.clone());
        }
        Ok(v)
    }

    /// An expression of a scalar type.
    pub fn scalar(&mut self, e: &Expr) -> Result<Leaf> {
        let v = self.expr(e)?;
        v.first().copied().ok_or_else(|| defect("a scalar was expected"))
    }

    /// A scalar that is the same for all lanes, e.g. a loop bound.
    pub fn uniform(&mut self, e: &Expr, what: &str, places: &Places) -> Result<Value> {
        match self.scalar(e)? {
            Leaf::Uniform(v) => Ok(v),
            _ => Err(unsupported(&format!("{what} that differs between the lanes of a vector loop"), places)),
        }
    }

    fn expr_anew(&mut self, e: &Expr) -> Result<Val> {
        let ir = self.ir;
        let one = |v: Value| Ok(vec![Leaf::Uniform(v)]);
        match e.kind() {
            ExprKind::Bool(v) => one(ir.int(1, i64::from(*v))),
            ExprKind::Int(v) => one(ir.int(scalar_type(e)?.bits(), *v)),
            ExprKind::Float(v) => {
                let s = scalar_type(e)?;
                // Exactly representable, so its bits are the upper half of the `f32`'s.
                one(if s == Scalar::Bf16 {
                    ir.int(16, i64::from((v.get() as f32).to_bits() >> 16))
                } else {
                    ir.float(ir.scalar_ty(s), v.get())
                })
            }
            ExprKind::Var(v) => match self.frame.vars.get(v) {
                Some(l) => Ok(vec![*l]),
                None => Err(defect(format!("variable %{} is not bound here", v.0))),
            },
            ExprKind::Unary(op, a) => {
                let (op, s) = (*op, scalar_type(a)?);
                let leaf = self.scalar(a)?;
                if s == Scalar::Index && op == lathe_ir::UnOp::Neg {
                    let zero = Leaf::Uniform(ir.i64(0));
                    return Ok(vec![value::sub(ir, zero, leaf, self.width())]);
                }
                self.lanewise(&[leaf], |e, v, _| Ok(e.unary(op, s, v[0])))
            }
            ExprKind::Binary(op, a, b) => {
                let s = scalar_type(a)?;
                if *op == lathe_ir::BinOp::Mul
                    && let Some(v) = self.scaled(e, s)?
                {
                    return Ok(v);
                }
                let (x, y) = (self.scalar(a)?, self.scalar(b)?);
                Ok(vec![self.combine(*op, s, x, y)?])
            }
            ExprKind::Select(c, a, b) => self.select(c, a, b),
            ExprKind::Cast(a) => {
                let (from, to) = (scalar_type(a)?, scalar_type(e)?);
                let leaf = self.scalar(a)?;
                if from.is_int() && from.bits() == 64 && to.is_int() && to.bits() == 64 {
                    return Ok(vec![leaf]);
                }
                self.lanewise(&[leaf], |e, v, w| Ok(e.cast(from, to, v[0], w)))
            }
            ExprKind::Bitcast(a) => {
                let (from, to) = (scalar_type(a)?, scalar_type(e)?);
                let leaf = self.scalar(a)?;
                if from == Scalar::Bool || to == Scalar::Bool {
                    return Err(unsupported("a bitcast from or to `bool`", &Places::none()));
                }
                self.lanewise(&[leaf], |e, v, w| Ok(e.ir.bitcast(v[0], e.ir.widen(e.ir.scalar_ty(to), w))))
            }
            ExprKind::Math(f, args) => {
                let s = scalar_type(e)?;
                if !f.is_exact() {
                    let expanded = lathe_ir::math::expand_expr(e);
                    if expanded == *e {
                        let what = format!("`{}`, which has no expansion", f.name());
                        return Err(unsupported(&what, &Places::none()));
                    }
                    return self.expr(&expanded);
                }
                let args = match (f, args.as_slice()) {
                    (MathFn::Fma, [a, b, c]) => {
                        self.factors(a, b)?.into_iter().chain([self.scalar(c)?]).collect()
                    }
                    _ => args.iter().map(|a| self.scalar(a)).collect::<Result<Vec<_>>>()?,
                };
                self.lanewise(&args, |e, v, w| Ok(e.math(*f, s, v, w)))
            }
            ExprKind::Load(a) => self.load(a),
            ExprKind::Address(a) => Err(unsupported("the address of an element", &a.places)),
            ExprKind::Aggregate(parts) => {
                let mut all = Vec::new();
                for p in parts {
                    all.extend(self.expr(p)?);
                }
                Ok(all)
            }
            ExprKind::Field(a, i) => {
                let all = self.expr(a)?;
                let (from, n) = field_leaves(a.ty(), *i);
                all.get(from..from + n).map(<[Leaf]>::to_vec).ok_or_else(|| defect("a field out of range"))
            }
            ExprKind::Call(..) => Err(defect("a call that is gone after lowering")),
        }
    }

    /// The factors of a product that is added with one rounding. Where one is the negation of a value that is the same in all lanes, the
    /// other one is negated: that is part of the machine's instruction, and the value is broadcast as it is loaded.
    fn factors(&mut self, a: &Expr, b: &Expr) -> Result<[Leaf; 2]> {
        let (x, y) = (self.scalar(a)?, self.scalar(b)?);
        let turned = match (a.kind(), x.is_uniform(), y.is_uniform(), b.kind()) {
            (ExprKind::Unary(UnOp::Neg, inner), true, false, _) => Some((inner, y)),
            (_, false, true, ExprKind::Unary(UnOp::Neg, inner)) => Some((inner, x)),
            _ => None,
        };
        let Some((inner, lanes)) = turned else { return Ok([x, y]) };
        let width = self.width();
        let negated = self.ir.fneg(lanes.at(self.ir, width));
        Ok([self.scalar(inner)?, Leaf::of(negated, width)])
    }

    /// Runs an operation on one lane if all operands are the same in all lanes, else on all.
    pub fn lanewise(
        &mut self,
        leaves: &[Leaf],
        f: impl FnOnce(&mut Self, &[Value], Width) -> Result<Value>,
    ) -> Result<Val> {
        let width = if leaves.iter().all(|l| l.is_uniform()) { None } else { self.width() };
        let values: Vec<Value> = leaves.iter().map(|l| l.at(self.ir, width)).collect();
        Ok(vec![Leaf::of(f(self, &values, width)?, width)])
    }

    /// A binary operation; sums and products of indices keep their steps.
    pub fn combine(&mut self, op: BinOp, s: Scalar, a: Leaf, b: Leaf) -> Result<Leaf> {
        if s == Scalar::Index {
            let width = self.width();
            match op {
                BinOp::Add => return Ok(value::add(self.ir, a, b, width)),
                BinOp::Sub => return Ok(value::sub(self.ir, a, b, width)),
                BinOp::Mul => return Ok(value::mul(self.ir, a, b, width)),
                BinOp::Lt => {
                    if let Some(mask) = self.lanes_before(a, b) {
                        return Ok(Leaf::Varying(mask));
                    }
                }
                _ => {}
            }
        }
        let v = self.lanewise(&[a, b], |e, v, w| e.binary(op, s, v[0], v[1], w))?;
        Ok(v[0])
    }

    /// The mask of `lane < end` where lanes count on and masks are bits: the first so many lanes, without vectors of numbers.
    fn lanes_before(&self, lane: Leaf, end: Leaf) -> Option<Value> {
        let width = self.width().filter(|w| self.bit_masks && *w <= 32)?;
        let (Leaf::Linear { base, step: 1 }, Leaf::Uniform(end)) = (lane, end) else { return None };
        let ir = self.ir;
        if ir.is_const(base) && ir.is_const(end) {
            return None;
        }
        let int = [ir.int_ty(64)];
        let count = ir.intrinsic("llvm.ssub.sat", &int, &[end, base]);
        let count = ir.intrinsic("llvm.smin", &int, &[count, ir.i64(width.into())]);
        let count = ir.intrinsic("llvm.smax", &int, &[count, ir.i64(0)]);
        Some(crate::loops::first_of(self, count, width))
    }

    /// Emits with a fresh layer of shared expressions, because what is emitted here may not run.
    pub fn in_branch<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.frame.memo.push(HashMap::new());
        let out = f(self);
        self.frame.memo.pop();
        out
    }

    /// Emits for the lanes of the current mask in which `cond` holds.
    pub fn under_mask<T>(
        &mut self,
        cond: Value,
        maybe_empty: bool,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let saved = self.frame.lanes;
        if let Some(l) = saved {
            let mask = l.mask.map_or(cond, |m| self.ir.and(m, cond));
            self.frame.lanes = Some(Lanes { mask: Some(mask), first: None, count: None, maybe_empty, ..l });
        }
        let out = self.in_branch(f);
        self.frame.lanes = saved;
        out
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Result<Val> {
        let ir = self.ir;
        let cond = self.scalar(c)?;
        if self.can_speculate(a) && self.can_speculate(b) {
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            let width = self.width();
            return Ok(x.iter().zip(&y).map(|(x, y)| select_leaf(self, cond, *x, *y, width)).collect());
        }
        match cond {
            Leaf::Uniform(cond) => {
                let (then, other, join) = (self.block("then"), self.block("else"), self.block("join"));
                ir.cond_br(cond, then, other);
                ir.at_end(then);
                let mut x = self.in_branch(|e| e.expr(a))?;
                let then_end = ir.here();
                ir.at_end(other);
                let mut y = self.in_branch(|e| e.expr(b))?;
                let width = self.width();
                for (x, y) in x.iter_mut().zip(&mut y) {
                    if let (Leaf::Uniform(_), Leaf::Uniform(_)) = (*x, *y) {
                        continue;
                    }
                    *y = Leaf::Varying(y.at(ir, width));
                    let here = ir.here();
                    ir.at_end(then_end);
                    *x = Leaf::Varying(x.at(ir, width));
                    ir.at_end(here);
                }
                let other_end = ir.here();
                ir.br(join);
                ir.at_end(then_end);
                ir.br(join);
                ir.at_end(join);
                Ok(x.into_iter()
                    .zip(y)
                    .map(|(x, y)| {
                        let phi = ir.phi(x.ty(ir));
                        ir.incoming(phi, raw(x), then_end);
                        ir.incoming(phi, raw(y), other_end);
                        if x.is_uniform() { Leaf::Uniform(phi) } else { Leaf::Varying(phi) }
                    })
                    .collect())
            }
            cond => {
                let width = self.width();
                if let Some(x) = self.first_or_zero(c, a, b)? {
                    return Ok(x);
                }
                let cond = cond.at(ir, width);
                let x = self.under_mask(cond, true, |e| e.expr(a))?;
                let y = self.under_mask(ir.not(cond), true, |e| e.expr(b))?;
                Ok(x.iter()
                    .zip(&y)
                    .map(|(x, y)| Leaf::Varying(ir.select(cond, x.at(ir, width), y.at(ir, width))))
                    .collect())
            }
        }
    }

    /// `select(lane < n, a[lane], 0)`: a load under the mask, which gives zeros in the lanes that are masked off.
    fn first_or_zero(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Result<Option<Val>> {
        let (ExprKind::Binary(BinOp::Lt, lane, n), ExprKind::Load(element)) = (c.kind(), a.kind()) else {
            return Ok(None);
        };
        let zero = matches!(b.kind(), ExprKind::Float(v) if v.0 == 0);
        let Some(l) = self.frame.lanes.filter(|l| zero && l.mask.is_none()) else { return Ok(None) };
        let (Leaf::Linear { base, step: 1 }, Leaf::Uniform(count)) = (self.scalar(lane)?, self.scalar(n)?)
        else {
            return Ok(None);
        };
        let outside =
            addresses::buffer(element).and_then(|b| self.frame.bufs.get(&b)).is_some_and(|b| !b.private);
        let ir = self.ir;
        if ir.as_const(base) != Some(0) || !outside || l.width > 32 {
            return Ok(None);
        }
        let int = [ir.int_ty(64)];
        let count = ir.intrinsic("llvm.smin", &int, &[count, ir.i64(l.width.into())]);
        let count = ir.intrinsic("llvm.smax", &int, &[count, ir.i64(0)]);
        let mask = Some(crate::loops::first_of(self, count, l.width));
        let maybe_empty = !self.ranges.lt(&build::index(0), n);
        self.frame.lanes = Some(Lanes { mask, first: None, count: Some(count), maybe_empty, ..l });
        let x = self.in_branch(|e| e.expr(a));
        self.frame.lanes = Some(l);
        let x = x?;
        Ok(x.iter().all(|x| matches!(x, Leaf::Varying(_))).then_some(x))
    }

    /// Whether evaluating an expression that is not needed does no harm and costs little. The
    /// expansions of math functions are the usual case: large, full of selects, without memory.
    fn can_speculate(&self, e: &Expr) -> bool {
        let mut budget = 512;
        let mut harmless = true;
        lathe_ir::visit::walk_expr(e, &mut |x| {
            budget -= 1;
            harmless &= budget > 0
                && match x.kind() {
                    ExprKind::Binary(op, _, d) => {
                        !matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem)
                            || d.as_int().is_some_and(|d| d != 0)
                    }
                    ExprKind::Load(a) => {
                        // Constant subscripts of registers are in bounds wherever they stand.
                        let held = |b| {
                            self.frame.values.contains_key(&b)
                                || self.frame.bufs.get(&b).is_some_and(|b| b.private)
                        };
                        addresses::buffer(a).is_some_and(held)
                            && a.indices.iter().all(|i| i.as_int().is_some())
                    }
                    ExprKind::Call(..) => false,
                    _ => true,
                };
        });
        harmless
    }

    /// `a ⊕ b`, one value per target of a reduction.
    pub fn reduce(&mut self, op: &ReduceOp, types: &[Type], a: &[Val], b: &[Val]) -> Result<Vec<Val>> {
        // The operator is an expression over two operands; those stand in buffers that no tree has.
        let mut next = u32::MAX;
        let mut operand = |ty: &Type, v: &Val| {
            let id = BufId(next);
            next -= 1;
            self.frame.values.insert(id, v.clone());
            build::load(Access::buffer(id, ty.clone(), Vec::new()))
        };
        let x: Vec<Expr> = types.iter().zip(a).map(|(t, v)| operand(t, v)).collect();
        let y: Vec<Expr> = types.iter().zip(b).map(|(t, v)| operand(t, v)).collect();
        let combined = lathe_ir::reduce::combine(self.module, op, &x, &y)
            .ok_or_else(|| defect(format!("`{op}` is not defined on these types")))?;
        self.in_branch(|e| combined.iter().map(|c| e.expr(&halves::expr(c))).collect())
    }
}

/// The scalar type of an expression that must have one.
pub fn scalar_type(e: &Expr) -> Result<Scalar> {
    e.ty().scalar().ok_or_else(|| defect(format!("`{e:?}` is no scalar")))
}

/// First leaf and number of leaves of a component.
fn field_leaves(ty: &Type, i: u32) -> (usize, usize) {
    let fields = ty.fields();
    let count = |t: &Type| t.leaves().len();
    let from = fields.iter().take(i as usize).map(count).sum();
    (from, fields.get(i as usize).map_or(0, count))
}

fn raw(l: Leaf) -> Value {
    match l {
        Leaf::Uniform(v) | Leaf::Varying(v) | Leaf::Linear { base: v, .. } => v,
    }
}

fn select_leaf(e: &Emitter, cond: Leaf, a: Leaf, b: Leaf, width: Width) -> Leaf {
    let ir = e.ir;
    match (cond, a, b) {
        (Leaf::Uniform(c), Leaf::Uniform(x), Leaf::Uniform(y)) => Leaf::Uniform(ir.select(c, x, y)),
        (Leaf::Uniform(c), Leaf::Linear { base: x, step: s }, Leaf::Linear { base: y, step: t })
            if s == t =>
        {
            Leaf::Linear { base: ir.select(c, x, y), step: s }
        }
        (Leaf::Uniform(c), ..) => Leaf::Varying(ir.select(c, a.at(ir, width), b.at(ir, width))),
        _ => Leaf::Varying(ir.select(cond.at(ir, width), a.at(ir, width), b.at(ir, width))),
    }
}
