//! Loops that scan the image of a nest under an affine map (for `remap`): skews, wavefronts, diamonds.
//!
//! The bounds of the old loops become constraints on the new variables; eliminating these from the
//! innermost outwards (Fourier–Motzkin) leaves at each level the constraints that bound its loop. Outer
//! bounds may be larger than the integer image, inner ones are exact, so exactly the image is executed
//! (Ancourt and Irigoin, 1991).

use crate::affine::project::{halves, to_expr};
use crate::env::Env;
use crate::solve::{Answer, Reduced, normalize, solve_from};
use crate::system::{Col, Con, Conj, Lin};
use crate::translate::{Builder, Scope};
use lathe_ir::build::{eq, floor_div, floor_mod, index, max, min, var};
use lathe_ir::visit::{Memo, distinct_operands, vars_of};
use lathe_ir::{BinOp, Binder, Expr, ExprKind, Loop, UnOp, VarId};
use lathe_poly::Affine;
use std::collections::{HashMap, HashSet};

/// The loops of a nest after an affine change of its variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Binder and bounds `lo..hi` of the new loops, outermost first.
    pub loops: Vec<(Binder, Expr, Expr)>,
    /// Conditions under which a point of the new loops is one of the image; empty for unimodular maps.
    pub guards: Vec<Expr>,
    /// The old variables in terms of the new ones, to be substituted into the body.
    pub old: Vec<(VarId, Expr)>,
}

/// Loops over `new`, each variable of which is the given affine function of the old loops' variables
/// and of what is bound around the nest, so that exactly the images of the old iterations are executed,
/// once each. `old` is the nest, outermost first; bounds may use `min`, `max` and floor division.
///
/// # Errors
/// A message, if the map is not injective, or a bound is not affine in the loop variables.
pub fn scan_affine(env: &Env, old: &[&Loop], new: &[(Binder, Affine)]) -> Result<Scan, String> {
    let depth = old.len();
    if new.len() != depth {
        return Err(format!("{depth} loops need {depth} new variables, not {}", new.len()));
    }
    let matrix: Vec<Vec<i64>> =
        new.iter().map(|(_, f)| old.iter().map(|l| f.coefficient(&l.binder.id)).collect()).collect();
    let (adjugate, det) = invert(&matrix).ok_or("the coefficients are too large")?;
    if det == 0 {
        return Err("different iterations are mapped to the same values of the new variables".into());
    }
    let written = HashSet::new();
    let mut builder = Builder::new(&written);
    let scope = builder.surroundings(env);
    let mut s = Scanner { builder, scope, meaning: HashMap::new(), old: HashMap::new() };
    let xs: Vec<Col> = old.iter().map(|_| s.builder.system.fresh()).collect();
    s.old = old.iter().zip(&xs).map(|(l, x)| (l.binder.id, *x)).collect();
    let overflow = || "the coefficients are too large".to_string();
    let mut cons = Conj::new();
    for (l, x) in old.iter().zip(&xs) {
        if l.step != 1 {
            return Err(format!("the loop `{}` has a step; split or normalize it first", l.binder.name));
        }
        let not_affine =
            |what: &str| format!("the {what} bound of the loop `{}` is not affine", l.binder.name);
        for part in &distinct_operands(BinOp::Max, &l.lo) {
            let (f, k) = s.bound(part).ok_or_else(|| not_affine("lower"))?;
            // `x >= floor(f / k)`, so `k x >= f - k + 1`
            let lin = Lin::atom(*x).combine(k, &f, -1).and_then(|l| l.offset(k - 1)).ok_or_else(overflow)?;
            cons.push(Con { lin, eq: false });
        }
        for part in &distinct_operands(BinOp::Min, &l.hi) {
            let (f, k) = s.bound(part).ok_or_else(|| not_affine("upper"))?;
            // `x < floor(f / k)`, so `k (x + 1) <= f`
            let lin = f.combine(1, &Lin::atom(*x), -k).and_then(|l| l.offset(-k)).ok_or_else(overflow)?;
            cons.push(Con { lin, eq: false });
        }
    }
    // The new variables less their constant parts, then `det * old = adjugate * that`.
    let ys: Vec<Col> = new.iter().map(|_| s.builder.system.fresh()).collect();
    let mut shifted = Vec::with_capacity(depth);
    for ((binder, f), y) in new.iter().zip(&ys) {
        s.meaning.insert(*y, var(binder));
        let mut rest = f.clone();
        rest.terms.retain(|t| !s.old.contains_key(&t.0));
        let rest = s.linear(&rest.to_expr()).ok_or_else(overflow)?;
        shifted.push(Lin::atom(*y).minus(&rest).ok_or_else(overflow)?);
    }
    let (sign, scale) = (det.signum(), det.checked_abs().ok_or_else(overflow)?);
    let mut images = Vec::with_capacity(depth);
    for row in &adjugate {
        let mut image = Lin::default();
        for (k, z) in row.iter().zip(&shifted) {
            image = image.combine(1, z, k.checked_mul(sign).ok_or_else(overflow)?).ok_or_else(overflow)?;
        }
        images.push(image);
    }
    let mut image_cons = Conj::with_capacity(cons.len());
    for con in cons {
        let mut lin = con.lin.scaled(scale).ok_or_else(overflow)?;
        for (x, image) in xs.iter().zip(&images) {
            let k = con.lin.coefficient(x);
            lin.terms.retain(|t| t.0 != *x);
            lin = lin.combine(1, image, k).ok_or_else(overflow)?;
        }
        image_cons.push(Con { lin, eq: false });
    }
    let loops = s.bounds(new, &ys, image_cons)?;
    let mut guards = Vec::new();
    let mut back = Vec::with_capacity(depth);
    for (l, image) in old.iter().zip(&images) {
        let e = s.expr(image);
        if scale > 1 && image.terms.iter().any(|t| t.1 % scale != 0) {
            guards.push(eq(floor_mod(e.clone(), index(scale)), index(0)));
        }
        back.push((l.binder.id, floor_div(e, index(scale))));
    }
    guards.dedup();
    Ok(Scan { loops, guards, old: back })
}

struct Scanner<'w> {
    builder: Builder<'w>,
    scope: Scope,
    /// What unknowns stand for in the tree.
    meaning: HashMap<Col, Expr>,
    old: HashMap<VarId, Col>,
}

impl Scanner<'_> {
    /// An expression in the old variables, as `floor(f / k)`.
    fn bound(&mut self, e: &Expr) -> Option<(Lin, i64)> {
        if let Some(f) = self.linear(e) {
            return Some((f, 1));
        }
        match e.kind() {
            ExprKind::Binary(BinOp::FloorDiv, a, b) => {
                let k = b.as_int().filter(|k| *k > 0)?;
                Some((self.linear(a)?, k))
            }
            // `floor(f / k) + g == floor((f + k g) / k)`
            ExprKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let (f, k) = self.bound(a)?;
                let g = self.linear(b)?;
                let sign = if *op == BinOp::Add { 1 } else { -1 };
                Some((f.combine(1, &g, k.checked_mul(sign)?)?, k))
            }
            _ => None,
        }
    }

    /// An expression that is affine in the old variables; what does not mention them may be anything.
    fn linear(&mut self, e: &Expr) -> Option<Lin> {
        self.linear_in(e, &mut Memo::default())
    }

    fn linear_in(&mut self, e: &Expr, memo: &mut Memo<Option<Lin>>) -> Option<Lin> {
        memo.of(e, |memo| self.linear_node(e, memo))
    }

    fn linear_node(&mut self, e: &Expr, memo: &mut Memo<Option<Lin>>) -> Option<Lin> {
        match e.kind() {
            ExprKind::Int(v) => Some(Lin::constant(*v)),
            ExprKind::Var(v) => Some(Lin::atom(match self.old.get(v) {
                Some(x) => *x,
                None => self.parameter(*v, e),
            })),
            ExprKind::Unary(UnOp::Neg, a) => self.linear_in(a, memo)?.scaled(-1),
            ExprKind::Binary(BinOp::Add, a, b) => self.linear_in(a, memo)?.plus(&self.linear_in(b, memo)?, 1),
            ExprKind::Binary(BinOp::Sub, a, b) => self.linear_in(a, memo)?.minus(&self.linear_in(b, memo)?),
            ExprKind::Binary(BinOp::Mul, a, b) if b.as_int().is_some() => {
                self.linear_in(a, memo)?.scaled(b.as_int()?)
            }
            _ if vars_of(e).iter().all(|v| !self.old.contains_key(v)) => Some(Lin::atom(self.symbol(e))),
            _ => None,
        }
    }

    fn parameter(&mut self, v: VarId, e: &Expr) -> Col {
        let col = match self.scope.col(v) {
            Some(c) => c,
            None => self.builder.bind(&mut self.scope, v),
        };
        self.meaning.entry(col).or_insert_with(|| e.clone());
        col
    }

    /// An unknown for an expression over the surroundings.
    fn symbol(&mut self, e: &Expr) -> Col {
        if let Some((col, _)) = self.meaning.iter().find(|(_, m)| *m == e) {
            return *col;
        }
        let value = self.builder.value(&mut self.scope, e);
        let col = self.builder.system.fresh();
        self.builder.system.eq(&Lin::atom(col), &value);
        self.meaning.insert(col, e.clone());
        col
    }

    /// Bounds of each new loop in the loops around it.
    fn bounds(
        &mut self,
        new: &[(Binder, Affine)],
        ys: &[Col],
        cons: Conj,
    ) -> Result<Vec<(Binder, Expr, Expr)>, String> {
        let overflow = || "the coefficients are too large".to_string();
        let mut levels: Vec<Conj> = Vec::with_capacity(ys.len());
        // What is too large is left out by `normalize`: fine for a proof, wrong for a bound.
        let whole = |all: &Conj| {
            let large = |c: &Con| c.lin.constant == i64::MIN || c.lin.terms.iter().any(|t| t.1 == i64::MIN);
            if all.iter().any(large) { Err(overflow()) } else { Ok(()) }
        };
        whole(&cons)?;
        let mut rest = halves(&normalize(cons).unwrap_or_default());
        for y in ys.iter().rev() {
            let (here, mut outer): (Conj, Conj) = rest.into_iter().partition(|c| c.lin.coefficient(y) != 0);
            for l in here.iter().filter(|c| c.lin.coefficient(y) > 0) {
                for u in here.iter().filter(|c| c.lin.coefficient(y) < 0) {
                    let (a, b) = (l.lin.coefficient(y), -u.lin.coefficient(y));
                    let lin = l.lin.combine(b, &u.lin, a).ok_or_else(overflow)?;
                    outer.push(Con { lin, eq: false });
                }
            }
            levels.push(here);
            whole(&outer)?;
            // A contradiction means that there are no iterations: any bounds that are empty will do.
            rest = match normalize(outer.clone()) {
                Some(n) => halves(&n),
                None => outer,
            };
            rest = self.without_redundant(None, &[], rest);
        }
        levels.reverse();
        let mut around = Conj::new();
        let mut out = Vec::with_capacity(new.len());
        for (((binder, _), y), cons) in new.iter().zip(ys).zip(levels) {
            let cons = self.without_redundant(Some(*y), &around, cons);
            let (mut lo, mut hi): (Option<Expr>, Option<Expr>) = (None, None);
            for con in &cons {
                let k = con.lin.coefficient(y);
                let mut other = con.lin.clone();
                other.terms.retain(|t| t.0 != *y);
                if k > 0 {
                    // `k y >= -other`
                    let least = other.scaled(-1).and_then(|l| l.offset(k - 1)).ok_or_else(overflow)?;
                    let e = floor_div(self.expr(&least), index(k));
                    lo = Some(lo.map_or(e.clone(), |l| max(l, e)));
                } else {
                    let k = k.checked_neg().ok_or_else(overflow)?;
                    // `k y <= other`, and the bound is exclusive: `y < floor((other + k) / k)`
                    let e = floor_div(self.expr(&other.offset(k).ok_or_else(overflow)?), index(k));
                    hi = Some(hi.map_or(e.clone(), |h| min(h, e)));
                }
            }
            let (Some(lo), Some(hi)) = (lo, hi) else {
                return Err(format!("the new loop `{}` has no bounds", binder.name));
            };
            out.push((binder.clone(), lo, hi));
            around.extend(cons);
        }
        Ok(out)
    }

    /// Leaves out constraints that the others, the loops around and the surroundings imply. Bounds of a
    /// loop are only implied by bounds on the same side, so that one of each remains.
    fn without_redundant(&self, of: Option<Col>, around: &[Con], mut cons: Conj) -> Conj {
        let mut state = Reduced::default();
        let system = &self.builder.system;
        if !state.absorb(&system.cons) {
            return cons;
        }
        let mut i = 0;
        while i < cons.len() {
            let side = |c: &Con| of.map(|y| c.lin.coefficient(&y) > 0);
            let others = cons.iter().enumerate().filter(|(j, c)| *j != i && side(c) == side(&cons[i]));
            let mut more: Conj = others.map(|(_, c)| c.clone()).collect();
            let alone = of.is_some() && more.is_empty();
            more.extend(around.iter().cloned());
            let redundant = match cons[i].lin.scaled(-1).and_then(|l| l.offset(-1)) {
                Some(lin) if !alone => {
                    more.push(Con { lin, eq: false });
                    solve_from(&state, &more, &system.clauses, system.columns) == Answer::Empty
                }
                _ => false,
            };
            if redundant {
                cons.remove(i);
            } else {
                i += 1;
            }
        }
        cons
    }

    fn expr(&self, lin: &Lin) -> Expr {
        to_expr(lin, &self.meaning)
    }
}

/// The adjugate and the determinant of a small integer matrix; `None` on overflow.
pub(crate) fn invert(m: &[Vec<i64>]) -> Option<(Vec<Vec<i64>>, i64)> {
    let n = m.len();
    let mut adjugate = vec![vec![0; n]; n];
    for (i, row) in adjugate.iter_mut().enumerate() {
        for (j, cell) in row.iter_mut().enumerate() {
            let minor: Vec<Vec<i64>> = (0..n)
                .filter(|r| *r != j)
                .map(|r| (0..n).filter(|c| *c != i).map(|c| m[r][c]).collect())
                .collect();
            let d = determinant(&minor)?;
            *cell = if (i + j) % 2 == 0 { d } else { d.checked_neg()? };
        }
    }
    Some((adjugate, determinant(m)?))
}

fn determinant(m: &[Vec<i64>]) -> Option<i64> {
    let Some((first, rest)) = m.split_first() else { return Some(1) };
    let mut out = 0i64;
    for (c, k) in first.iter().enumerate().filter(|t| *t.1 != 0) {
        let minor: Vec<Vec<i64>> =
            rest.iter().map(|r| r.iter().enumerate().filter(|t| t.0 != c).map(|t| *t.1).collect()).collect();
        let d = determinant(&minor)?.checked_mul(*k)?;
        out = out.checked_add(if c % 2 == 0 { d } else { d.checked_neg()? })?;
    }
    Some(out)
}
