//! Linear forms: a constant plus integer multiples of atoms.
//!
//! One struct serves expressions of the tree ([`Linear`]), variables ([`Affine`]) and the unknowns of a system of
//! constraints. Numbers are 64 bits and every operation on them is checked: what does not fit is `None`, never wrapped.
//!
//! A form is read off an expression as if integers were unbounded. That is what the expression means because `index`
//! arithmetic never overflows 64 bits where it is evaluated (see [`crate::fits`]); arithmetic of the types that wrap is
//! an atom, never a sum.

use lathe_ir::visit;
use lathe_ir::{BinOp, Expr, ExprKind, Scalar, UnOp, VarId, build};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::HashSet;

/// Larger sums are visited as graphs.
const SMALL: usize = 64;

/// What a form is a sum of.
pub trait Atom: Clone + PartialEq {
    /// Whether terms are kept in the order of their atoms, so that they can be searched and merged; else they stand
    /// in the order in which they came.
    const SORTED: bool;

    /// The order of atoms where there is one.
    fn before(&self, _other: &Self) -> bool {
        false
    }
}

impl Atom for Expr {
    const SORTED: bool = false;
}

impl Atom for VarId {
    const SORTED: bool = true;

    fn before(&self, other: &VarId) -> bool {
        self < other
    }
}

impl Atom for u32 {
    const SORTED: bool = true;

    fn before(&self, other: &u32) -> bool {
        self < other
    }
}

/// `constant + Σ factor · atom`: atoms are distinct, no factor is 0.
#[derive(Clone, Debug)]
pub struct Form<A> {
    pub terms: Vec<(A, i64)>,
    pub constant: i64,
}

/// A form over expressions that are not sums.
pub type Linear = Form<Expr>;
/// A form over variables.
pub type Affine = Form<VarId>;

impl<A> Default for Form<A> {
    fn default() -> Form<A> {
        Form { terms: Vec::new(), constant: 0 }
    }
}

impl<A: Atom> PartialEq for Form<A> {
    fn eq(&self, o: &Form<A>) -> bool {
        self.constant == o.constant && self.same_terms(o)
    }
}

impl<A: Atom> Eq for Form<A> {}

impl<A> Form<A> {
    pub fn constant(v: i64) -> Form<A> {
        Form { terms: Vec::new(), constant: v }
    }

    /// One atom, once.
    pub fn atom(a: A) -> Form<A> {
        Form { terms: vec![(a, 1)], constant: 0 }
    }

    /// The value, where there are no atoms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }
}

impl<A: Atom> Form<A> {
    fn position(&self, atom: &A) -> Option<usize> {
        if A::SORTED {
            let at = self.terms.partition_point(|t| t.0.before(atom));
            (self.terms.get(at)?.0 == *atom).then_some(at)
        } else {
            self.terms.iter().position(|t| t.0 == *atom)
        }
    }

    /// The factor of an atom; 0 where it does not occur.
    pub fn coefficient(&self, atom: &A) -> i64 {
        self.position(atom).map_or(0, |at| self.terms[at].1)
    }

    /// The form without an atom.
    pub fn without(mut self, atom: &A) -> Form<A> {
        if let Some(at) = self.position(atom) {
            self.terms.remove(at);
        }
        self
    }

    /// Adds a multiple of an atom; `None` when a factor does not fit 64 bits.
    pub fn add_term(&mut self, atom: A, factor: i64) -> Option<()> {
        match self.position(&atom) {
            Some(at) => {
                let sum = self.terms[at].1.checked_add(factor)?;
                if sum == 0 {
                    self.terms.remove(at);
                } else {
                    self.terms[at].1 = sum;
                }
            }
            None if factor == 0 => {}
            None => {
                let end = self.terms.len();
                let at = if A::SORTED { self.terms.partition_point(|t| t.0.before(&atom)) } else { end };
                self.terms.insert(at, (atom, factor));
            }
        }
        Some(())
    }

    /// `self + k · other`; `None` when a number does not fit 64 bits.
    pub fn plus(&self, other: &Form<A>, k: i64) -> Option<Form<A>> {
        self.combine(1, other, k)
    }

    /// `self - other`
    pub fn minus(&self, other: &Form<A>) -> Option<Form<A>> {
        self.combine(1, other, -1)
    }

    /// `self + c`
    pub fn offset(&self, c: i64) -> Option<Form<A>> {
        Some(Form { terms: self.terms.clone(), constant: self.constant.checked_add(c)? })
    }

    /// `k · self`
    pub fn scaled(&self, k: i64) -> Option<Form<A>> {
        if k == 0 {
            return Some(Form::default());
        }
        let term = |t: &(A, i64)| Some((t.0.clone(), t.1.checked_mul(k)?));
        let terms = self.terms.iter().map(term).collect::<Option<_>>()?;
        Some(Form { terms, constant: self.constant.checked_mul(k)? })
    }

    /// `a · self + b · other`; `None` when a number does not fit 64 bits.
    pub fn combine(&self, a: i64, other: &Form<A>, b: i64) -> Option<Form<A>> {
        let constant = self.constant.checked_mul(a)?.checked_add(other.constant.checked_mul(b)?)?;
        if !A::SORTED {
            let mut out = self.scaled(a)?;
            for (atom, k) in &other.terms {
                out.add_term(atom.clone(), k.checked_mul(b)?)?;
            }
            out.constant = constant;
            return Some(out);
        }
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (atom, k) = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let k = x.1.checked_mul(a)?.checked_add(y.1.checked_mul(b)?)?;
                    let atom = &x.0;
                    left.next();
                    right.next();
                    (atom, k)
                }
                (Some(x), y) if y.is_none_or(|y| x.0.before(&y.0)) => {
                    let term = (&x.0, x.1.checked_mul(a)?);
                    left.next();
                    term
                }
                (_, Some(y)) => {
                    let term = (&y.0, y.1.checked_mul(b)?);
                    right.next();
                    term
                }
                (Some(_), None) => break,
            };
            if k != 0 {
                terms.push((atom.clone(), k));
            }
        }
        Some(Form { terms, constant })
    }

    /// `self // d` where every factor is a multiple of a positive `d`.
    pub fn divided(&self, d: i64) -> Option<Form<A>> {
        if d <= 0 || self.terms.iter().any(|t| t.1 % d != 0) {
            return None;
        }
        let terms = self.terms.iter().map(|(a, k)| (a.clone(), k / d)).collect();
        Some(Form { terms, constant: self.constant.div_euclid(d) })
    }

    /// The parts whose numbers are, and are not, multiples of a positive `c`: `self = c · first + second`, and the
    /// constant of the second is in `0..c`.
    pub fn divide(&self, c: i64) -> (Form<A>, Form<A>) {
        let mut quotient = Form::constant(self.constant.div_euclid(c));
        let mut rest = Form::constant(self.constant.rem_euclid(c));
        for (atom, k) in &self.terms {
            let into = if k % c == 0 { (&mut quotient, k / c) } else { (&mut rest, *k) };
            into.0.terms.push((atom.clone(), into.1));
        }
        (quotient, rest)
    }

    /// Whether two forms differ by a constant only.
    pub fn same_terms(&self, other: &Form<A>) -> bool {
        if A::SORTED {
            return self.terms == other.terms;
        }
        self.terms.len() == other.terms.len() && self.terms.iter().all(|t| other.terms.contains(t))
    }

    /// The expression, positive terms first; `atom` says what an atom is called.
    pub fn to_expr_with(&self, atom: impl Fn(&A) -> Expr) -> Expr {
        let mut sum: Option<Expr> = None;
        for (a, k) in self.terms.iter().filter(|t| t.1 > 0) {
            let term = build::mul(atom(a), build::index(*k));
            sum = Some(match sum {
                Some(s) => build::add(s, term),
                None => term,
            });
        }
        let mut constant = self.constant;
        for (a, k) in self.terms.iter().filter(|t| t.1 < 0) {
            let first = sum.take().unwrap_or_else(|| build::index(std::mem::take(&mut constant)));
            sum = Some(match k.checked_neg() {
                Some(k) => build::sub(first, build::mul(atom(a), build::index(k))),
                None => build::add(first, build::mul(atom(a), build::index(*k))),
            });
        }
        match sum {
            Some(s) => build::add(s, build::index(constant)),
            None => build::index(constant),
        }
    }
}

impl Form<u32> {
    /// The value at a point, which gives the numbered unknowns; `None` when it does not fit 64 bits. Unknowns beyond
    /// the point count as 0.
    pub fn at(&self, point: &[i64]) -> Option<i64> {
        self.terms.iter().try_fold(self.constant, |sum, (col, k)| {
            let v = point.get(*col as usize).copied().unwrap_or(0);
            sum.checked_add(k.checked_mul(v)?)
        })
    }
}

impl Affine {
    pub fn to_expr(&self) -> Expr {
        self.to_expr_with(|v| build::var_id(*v, Scalar::Index))
    }

    /// The form of an `index` expression over its variables; `None` if it has none, or a number does not fit 64 bits.
    pub fn of(e: &Expr) -> Option<Affine> {
        let form = Linear::of(e);
        let mut out = Affine::constant(form.constant);
        for (atom, k) in form.terms {
            out.add_term(atom.as_var()?, k)?;
        }
        Some(out)
    }
}

impl Linear {
    /// The form of an `index` expression. What is not linear becomes an atom; so does the whole expression where a
    /// number would not fit 64 bits.
    pub fn of(e: &Expr) -> Linear {
        Linear::of_with(e, &mut |atom| atom.clone())
    }

    /// As [`Linear::of`]; every atom is rewritten first.
    pub fn of_with(e: &Expr, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Linear {
        let (mut out, mut left) = (Linear::default(), SMALL);
        let made = out.add_expr(e, 1, atoms, &mut left).map(|()| out);
        let made = if left == 0 { Linear::of_graph(e, atoms) } else { made };
        made.unwrap_or_else(|| Linear::atom(e.clone()))
    }

    /// The form of a sum in which sums are shared: each is visited once, with the sum of its factors.
    fn of_graph(e: &Expr, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Option<Linear> {
        fn visit(e: &Expr, seen: &mut FxHashSet<Expr>, sums: &mut Vec<Expr>, leaves: &mut Vec<Expr>) {
            if !seen.insert(e.clone()) {
                return;
            }
            match summands(e) {
                Some(parts) => {
                    parts.into_iter().for_each(|(part, _)| visit(part, seen, sums, leaves));
                    sums.push(e.clone());
                }
                None => leaves.push(e.clone()),
            }
        }
        let (mut sums, mut leaves) = (Vec::new(), Vec::new());
        visit(e, &mut FxHashSet::default(), &mut sums, &mut leaves);
        let mut factors = FxHashMap::from_iter([(e.clone(), 1)]);
        // From the whole down: a sum comes after all that it is a part of.
        for sum in sums.iter().rev() {
            let factor: i64 = factors[sum];
            for (part, c) in summands(sum).into_iter().flatten() {
                let of = factors.entry(part.clone()).or_insert(0);
                *of = of.checked_add(factor.checked_mul(c)?)?;
            }
        }
        let mut out = Linear::default();
        for leaf in leaves {
            out.add_expr(&leaf, factors[&leaf], atoms, &mut { SMALL })?;
        }
        Some(out)
    }

    /// `a - b` where it is constant.
    pub fn difference(a: &Expr, b: &Expr) -> Option<i64> {
        Linear::of(a).minus(&Linear::of(b))?.as_constant()
    }

    pub fn to_expr(&self) -> Expr {
        self.to_expr_with(Expr::clone)
    }

    /// `self // d` for a positive `d`: linear where every factor is a multiple, else one atom.
    pub fn floor_div(&self, d: i64) -> Linear {
        let whole = || Linear::atom(build::floor_div(self.to_expr(), build::index(d)));
        self.divided(d).unwrap_or_else(whole)
    }

    /// Whether it is at least 0 because nothing is subtracted, where `natural` says which atoms are.
    pub fn is_natural(&self, natural: &dyn Fn(&Expr) -> bool) -> bool {
        self.constant >= 0 && self.terms.iter().all(|(e, k)| *k > 0 && natural(e))
    }

    /// The factor of a variable as an atom; 0 where it is none.
    pub fn factor(&self, v: VarId) -> i64 {
        self.terms.iter().find(|t| t.0.as_var() == Some(v)).map_or(0, |t| t.1)
    }

    /// Whether one of the variables occurs anywhere, inside atoms included.
    pub fn mentions(&self, vars: &HashSet<VarId>) -> bool {
        self.terms.iter().any(|t| visit::vars_of(&t.0).iter().any(|v| vars.contains(v)))
    }

    /// Whether an atom reads memory: such a form says nothing that holds elsewhere.
    pub fn reads(&self) -> bool {
        self.terms.iter().any(|t| !visit::loads_of(&t.0).is_empty())
    }

    /// Adds a multiple of an expression; `None` where a number does not fit 64 bits, or more nodes are to be visited
    /// than are `left`.
    fn add_expr(
        &mut self,
        e: &Expr,
        factor: i64,
        atoms: &mut dyn FnMut(&Expr) -> Expr,
        left: &mut usize,
    ) -> Option<()> {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return None;
        }
        match (summands(e), e.kind()) {
            (Some(parts), _) => {
                let mut parts = parts.into_iter();
                parts.try_for_each(|(part, c)| self.add_expr(part, factor.checked_mul(c)?, atoms, left))
            }
            (None, ExprKind::Int(v)) if e.ty().is_index() => {
                self.constant = self.constant.checked_add(v.checked_mul(factor)?)?;
                Some(())
            }
            _ => self.add_atom(e, factor, atoms),
        }
    }

    fn add_atom(&mut self, e: &Expr, factor: i64, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Option<()> {
        let atom = atoms(e);
        // A rewritten atom may have become linear itself.
        let again = atom.ty().is_index() && (atom.as_int().is_some() || summands(&atom).is_some());
        if !again {
            return self.add_term(atom, factor);
        }
        *self = self.plus(&Linear::of(&atom), factor)?;
        Some(())
    }
}

/// What an `index` expression is a sum of, with the factor of each; `None` if it is none.
fn summands(e: &Expr) -> Option<impl IntoIterator<Item = (&Expr, i64)>> {
    if !e.ty().is_index() {
        return None;
    }
    let (first, second) = match e.kind() {
        ExprKind::Unary(UnOp::Neg, a) => ((a, -1), None),
        ExprKind::Binary(BinOp::Add, a, b) => ((a, 1), Some((b, 1))),
        ExprKind::Binary(BinOp::Sub, a, b) => ((a, 1), Some((b, -1))),
        ExprKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
            (_, Some(c)) => ((a, c), None),
            (Some(c), _) => ((b, c), None),
            _ => return None,
        },
        _ => return None,
    };
    Some([Some(first), second].into_iter().flatten())
}

/// The greatest common divisor of two magnitudes; that of 0 and `a` is `a`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(n: u32) -> Expr {
        build::var_id(VarId(n), Scalar::Index)
    }

    #[test]
    fn forms_collect_terms() {
        let four = build::index(4);
        // (4*(x + 2*y) - x) - 3*x = 8*y
        let e = build::sub(
            build::sub(build::mul(build::add(v(0), build::mul(v(1), build::index(2))), four), v(0)),
            build::mul(v(0), build::index(3)),
        );
        let f = Linear::of(&e);
        assert_eq!(f.terms, vec![(v(1), 8)]);
        assert_eq!(f.to_expr(), build::mul(v(1), build::index(8)));
        assert_eq!(Affine::of(&e).unwrap().coefficient(&VarId(1)), 8);
    }

    #[test]
    fn negative_forms_start_with_the_constant() {
        let x = v(0);
        let f = Linear { terms: vec![(x.clone(), -2)], constant: 5 };
        assert_eq!(f.to_expr(), build::sub(build::index(5), build::mul(x, build::index(2))));
    }

    #[test]
    fn division_is_exact_where_it_can_be() {
        let twice = build::add(build::mul(v(0), build::index(2)), build::index(-1));
        assert_eq!(Linear::of(&twice).floor_div(2).to_expr(), build::add(v(0), build::index(-1)));
    }

    #[test]
    fn arithmetic_that_wraps_is_an_atom() {
        let n = build::var_id(VarId(0), Scalar::I32);
        let sum = build::add(n.clone(), build::int(Scalar::I32, 1));
        let e = build::cast(Scalar::Index.into(), sum);
        assert_eq!(Linear::of(&e), Linear::atom(e));
    }

    #[test]
    fn numbers_that_do_not_fit_are_no_form() {
        let most = Linear { terms: vec![(v(0), i64::MAX)], constant: i64::MAX };
        assert_eq!(most.plus(&Linear::atom(v(0)), 1), None);
        assert_eq!(most.offset(1), None);
        assert_eq!(Linear::constant(i64::MIN).scaled(-1), None);
        let twice = build::mul(build::mul(v(0), build::index(1 << 62)), build::index(4));
        assert_eq!(Linear::of(&twice), Linear::atom(twice));
    }

    #[test]
    fn sorted_forms_merge() {
        let f = |terms: &[(u32, i64)], constant| Form::<u32> { terms: terms.to_vec(), constant };
        let (a, b) = (f(&[(1, 2), (3, 1)], 5), f(&[(0, 1), (3, 1), (4, -1)], 1));
        assert_eq!(a.plus(&b, -1), Some(f(&[(0, -1), (1, 2), (4, 1)], 4)));
        assert_eq!(b.plus(&a, -1).and_then(|f| f.scaled(-1)), a.plus(&b, -1));
        assert_eq!((a.coefficient(&3), a.coefficient(&2)), (1, 0));
    }
}
