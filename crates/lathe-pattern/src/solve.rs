//! Unification of types and sizes.
//!
//! Sizes are polynomials, so an equation `4 * k = N` is solved for the unknown `k` where it is linear in
//! it; the quotient must be exact, which is an obligation. Equations with several unknowns wait until
//! others are found.

use crate::facts::{Fact, Facts, Known};
use crate::nat::{Atom, Nat};
use crate::types::{Type, TypeKind};
use lathe_diagnostics::Span;
use lathe_ir::Scalar;

/// What an unknown type may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Anything, functions too.
    Any,
    /// No function.
    Data,
    /// A scalar or an index.
    Single,
    /// A scalar.
    Scalar,
    /// A scalar but `bool`.
    Number,
    /// `bool` or an integer.
    Logical,
    Float,
    Integer,
}

impl Class {
    /// Whether a scalar of this type is in the class.
    pub fn admits(self, s: Scalar) -> bool {
        match self {
            Class::Any | Class::Data | Class::Single | Class::Scalar => true,
            Class::Number => s != Scalar::Bool,
            Class::Logical => !s.is_float(),
            Class::Float => s.is_float(),
            Class::Integer => s.is_int(),
        }
    }

    /// What is in both classes; `None` where nothing is.
    fn and(self, other: Class) -> Option<Class> {
        let (wide, narrow) = (self.min(other), self.max(other));
        match (wide, narrow) {
            (Class::Number, Class::Logical) => Some(Class::Integer),
            (Class::Logical, Class::Float) | (Class::Float, Class::Integer) => None,
            _ => Some(narrow),
        }
    }
}

/// Why two types cannot be one.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// The innermost sizes that differ.
    Sizes(Nat, Nat),
    /// The innermost types that differ.
    Types(Type, Type),
    NotData(Type),
    Class(Class, Type),
    /// Nothing is in both.
    Classes(Class, Class),
    /// An unknown would be part of itself.
    Endless,
    /// The obligation cannot hold.
    Never(Fact),
    Huge,
}

/// With the place that demands it.
pub type Placed<T> = (T, Option<Span>);

struct TypeVar {
    class: Class,
    value: Option<Type>,
}

struct NatVar {
    value: Option<Nat>,
    /// What gave it its value.
    origin: Option<Span>,
}

/// An equation that waits.
struct Pending {
    a: Nat,
    b: Nat,
    span: Option<Span>,
}

#[derive(Default)]
pub struct Solver {
    types: Vec<TypeVar>,
    nats: Vec<NatVar>,
    pending: Vec<Pending>,
    pub facts: Facts,
    /// What must hold for the terms to mean something, with the place that demands it.
    pub obligations: Vec<(Fact, Option<Span>)>,
    /// What equations between sizes relied on; already among the facts.
    pub assumed: Vec<(Fact, Option<Span>)>,
    /// The place of the unification in progress.
    pub span: Option<Span>,
}

impl Solver {
    pub fn new(facts: Facts) -> Solver {
        Solver { facts, ..Solver::default() }
    }

    pub fn ty(&mut self, class: Class) -> Type {
        self.types.push(TypeVar { class, value: None });
        Type::new(TypeKind::Meta(self.types.len() as u32 - 1))
    }

    pub fn data(&mut self) -> Type {
        self.ty(Class::Data)
    }

    pub fn nat(&mut self) -> Nat {
        self.nats.push(NatVar { value: None, origin: None });
        Nat::atom(Atom::Meta(self.nats.len() as u32 - 1))
    }

    pub fn oblige(&mut self, f: Fact) {
        self.obligations.push((f, self.span));
    }

    /// What is known of a size now.
    pub fn known_nat(&self, n: &Nat) -> Nat {
        if !n.has_meta() {
            return n.clone();
        }
        n.replace(&mut |a| match a {
            Atom::Meta(i) => self.nats[*i as usize].value.as_ref().map(|v| self.known_nat(v)),
            _ => None,
        })
    }

    /// What is known of a type now.
    pub fn known(&self, t: &Type) -> Type {
        if !t.has_meta() {
            return t.clone();
        }
        t.map(&mut |n| self.known_nat(n), &mut |leaf| match leaf.kind() {
            TypeKind::Meta(i) => self.types[*i as usize].value.as_ref().map(|v| self.known(v)),
            _ => None,
        })
    }

    /// The outermost constructor, if it is known.
    pub fn head(&self, t: &Type) -> Type {
        let mut t = t;
        while let TypeKind::Meta(i) = t.kind() {
            match &self.types[*i as usize].value {
                Some(v) => t = v,
                None => break,
            }
        }
        t.clone()
    }

    /// Makes two types one.
    pub fn unify(&mut self, a: &Type, b: &Type) -> Result<(), Mismatch> {
        let (a, b) = (self.head(a), self.head(b));
        if a == b {
            return Ok(());
        }
        match (a.kind(), b.kind()) {
            (TypeKind::Meta(i), _) => self.bind(*i, &b),
            (_, TypeKind::Meta(i)) => self.bind(*i, &a),
            (TypeKind::Array(n, x), TypeKind::Array(m, y))
            | (TypeKind::Vector(n, x), TypeKind::Vector(m, y)) => {
                self.equal(n, m)?;
                self.unify(x, y)
            }
            (TypeKind::Index(n), TypeKind::Index(m)) => self.equal(n, m),
            (TypeKind::Complex(x), TypeKind::Complex(y)) => self.unify(x, y),
            (TypeKind::Tuple(x), TypeKind::Tuple(y)) if x.len() == y.len() => {
                x.iter().zip(y).try_for_each(|(x, y)| self.unify(x, y))
            }
            (TypeKind::Fun(x, to), TypeKind::Fun(y, too)) => {
                self.unify(x, y)?;
                self.unify(to, too)
            }
            (TypeKind::Dep(k, x, s), TypeKind::Dep(l, y, t)) if k == l && x == y => self.unify(s, t),
            _ => Err(Mismatch::Types(self.known(&a), self.known(&b))),
        }
    }

    fn bind(&mut self, i: u32, t: &Type) -> Result<(), Mismatch> {
        let class = self.types[i as usize].class;
        if let TypeKind::Meta(j) = t.kind() {
            let other = &mut self.types[*j as usize];
            other.class = other.class.and(class).ok_or(Mismatch::Classes(other.class, class))?;
        } else {
            self.fits(class, t)?;
            let mut inside = false;
            self.known(t).map(&mut Nat::clone, &mut |leaf| {
                inside |= matches!(leaf.kind(), TypeKind::Meta(j) if *j == i);
                None
            });
            if inside {
                return Err(Mismatch::Endless);
            }
        }
        self.types[i as usize].value = Some(t.clone());
        Ok(())
    }

    fn fits(&mut self, class: Class, t: &Type) -> Result<(), Mismatch> {
        let scalar = t.as_scalar();
        let wrong = || Mismatch::Class(class, t.clone());
        match class {
            Class::Any => {}
            Class::Data => return self.only_data(t),
            Class::Single if matches!(t.kind(), TypeKind::Index(_)) || scalar.is_some() => {}
            Class::Single | Class::Scalar | Class::Number | Class::Float
                if matches!(t.kind(), TypeKind::Complex(_)) => {}
            _ if class >= Class::Scalar && scalar.is_some_and(|s| class.admits(s)) => {}
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Data never holds a function, and unknown parts of it never become one.
    fn only_data(&mut self, t: &Type) -> Result<(), Mismatch> {
        match t.kind() {
            TypeKind::Fun(..) | TypeKind::Dep(..) => Err(Mismatch::NotData(self.known(t))),
            TypeKind::Meta(i) => match self.types[*i as usize].value.clone() {
                Some(v) => self.only_data(&v),
                None => {
                    let v = &mut self.types[*i as usize];
                    v.class = v.class.max(Class::Data);
                    Ok(())
                }
            },
            TypeKind::Array(_, e) | TypeKind::Vector(_, e) => self.only_data(e),
            TypeKind::Tuple(ts) => ts.iter().try_for_each(|t| self.only_data(t)),
            TypeKind::Scalar(_) | TypeKind::Complex(_) | TypeKind::Var(_) | TypeKind::Index(_) => Ok(()),
        }
    }

    /// Makes two sizes one, now or later.
    pub fn equal(&mut self, a: &Nat, b: &Nat) -> Result<(), Mismatch> {
        if self.solve(a, b, self.span)? {
            return self.wake();
        }
        self.pending.push(Pending { a: a.clone(), b: b.clone(), span: self.span });
        Ok(())
    }

    /// Tries the equations that wait, until nothing changes.
    fn wake(&mut self) -> Result<(), Mismatch> {
        loop {
            let waiting = std::mem::take(&mut self.pending);
            let before = waiting.len();
            for p in waiting {
                if !self.solve(&p.a, &p.b, p.span)? {
                    self.pending.push(p);
                }
            }
            if self.pending.len() == before {
                return Ok(());
            }
        }
    }

    /// Whether the equation is done with.
    fn solve(&mut self, a: &Nat, b: &Nat, span: Option<Span>) -> Result<bool, Mismatch> {
        let (ka, kb) = (self.known_nat(a), self.known_nat(b));
        if ka.is_huge() || kb.is_huge() {
            return Err(Mismatch::Huge);
        }
        if self.facts.same(&ka, &kb) {
            return Ok(true);
        }
        // As it is spelled if that will do; else in normal form.
        let spelled = ka.minus(&kb);
        let normal = self.facts.normal(&spelled);
        if normal.is_huge() {
            return Err(Mismatch::Huge);
        }
        let difference = if self.is_simple(&spelled) { spelled } else { normal };
        let mut metas: Vec<u32> = Vec::new();
        difference.any_atom(&mut |x| {
            if let Atom::Meta(i) = x {
                metas.push(*i);
            }
            false
        });
        metas.sort_unstable();
        metas.dedup();
        match metas.as_slice() {
            [] => Err(Mismatch::Sizes(ka, kb)),
            [i] => {
                // The unknown is what division leaves of a whole that is known.
                let atom = Atom::Meta(*i);
                let Some((factor, rest)) = difference.linear_in(&atom) else { return Ok(false) };
                // factor * x + rest = 0, with a positive factor.
                let (factor, rest) = if factor.is_nonnegative() {
                    (factor, rest.scaled(-1))
                } else {
                    (factor.scaled(-1), rest)
                };
                let value = match rest.over(&factor) {
                    Some(q) => q,
                    None => {
                        let fact = Fact::Divides(factor.clone(), rest.clone());
                        match self.facts.holds(&fact) {
                            Known::No => return Err(Mismatch::Never(fact)),
                            Known::Yes => {}
                            // Known from here on, and listed.
                            Known::Maybe => {
                                self.facts.learn(fact.clone());
                                self.assumed.push((fact, span));
                            }
                        }
                        rest.floor_div(&factor)
                    }
                };
                self.give(*i, value, span);
                Ok(true)
            }
            // Two unknowns that are one.
            [_, j] => {
                let atom = Atom::Meta(*j);
                let Some((factor, rest)) = difference.linear_in(&atom) else { return Ok(false) };
                match factor.as_constant() {
                    Some(c @ (1 | -1)) if rest.scaled(-c).as_atom().is_some() => {
                        self.give(*j, rest.scaled(-c), span);
                        Ok(true)
                    }
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    /// Whether a single unknown stands alone.
    fn is_simple(&self, n: &Nat) -> bool {
        let mut metas = n.terms().iter().filter(|t| t.0.atoms().iter().any(|a| matches!(a.0, Atom::Meta(_))));
        match (metas.next(), metas.next()) {
            (Some((m, 1 | -1)), None) => m.atoms().len() == 1 && m.atoms()[0].1 == 1,
            _ => false,
        }
    }

    fn give(&mut self, i: u32, value: Nat, origin: Option<Span>) {
        let v = &mut self.nats[i as usize];
        v.value = Some(value);
        v.origin = origin;
    }

    /// Where the sizes of a type (as it stands, unknowns not replaced) got their values.
    pub fn origins(&self, t: &Type) -> Vec<(Nat, Span)> {
        let mut out = Vec::new();
        for n in t.sizes() {
            n.any_atom(&mut |a| {
                if let Atom::Meta(i) = a
                    && let NatVar { value: Some(v), origin: Some(s) } = &self.nats[*i as usize]
                {
                    out.push((self.known_nat(v), *s));
                }
                false
            });
        }
        if let TypeKind::Meta(i) = t.kind()
            && let Some(v) = &self.types[*i as usize].value
        {
            out.extend(self.origins(v));
        }
        out
    }

    /// Gives a type to every unknown scalar that was left open: numbers by how they were written.
    pub fn default_to(&mut self, t: &Type, scalar: Scalar) {
        if let TypeKind::Meta(i) = self.head(t).kind()
            && self.types[*i as usize].value.is_none()
            && self.fits(self.types[*i as usize].class, &scalar.into()).is_ok()
        {
            self.types[*i as usize].value = Some(scalar.into());
        }
    }

    /// Unknown types without a value, and what each may become.
    pub fn open_types(&self) -> Vec<(u32, Class)> {
        let all = self.types.iter().enumerate().filter(|(_, v)| v.value.is_none());
        all.map(|(i, v)| (i as u32, v.class)).collect()
    }

    /// Unknown sizes without a value.
    pub fn open_sizes(&self) -> Vec<u32> {
        let all = self.nats.iter().enumerate().filter(|(_, v)| v.value.is_none());
        all.map(|(i, _)| i as u32).collect()
    }

    /// An equation that nothing solved.
    pub fn unsolved(&mut self) -> Option<(Nat, Nat, Option<Span>)> {
        self.pending.first().map(|p| (self.known_nat(&p.a), self.known_nat(&p.b), p.span))
    }

    /// What was assumed, and the obligations with what is known now; those that hold are left out.
    pub fn discharge(&mut self) -> Result<Vec<Placed<Fact>>, Placed<Mismatch>> {
        let mut out = std::mem::take(&mut self.assumed);
        for (f, span) in std::mem::take(&mut self.obligations) {
            let f = f.map(|n| self.known_nat(n));
            match self.facts.holds(&f) {
                Known::Yes => {}
                Known::No => return Err((Mismatch::Never(f), span)),
                Known::Maybe if out.iter().any(|o| o.0 == f) => {}
                Known::Maybe => out.push((f, span)),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(n: &str) -> Nat {
        Nat::var(n)
    }

    #[test]
    fn equations_are_solved_for_the_unknown() {
        let mut s = Solver::default();
        let k = s.nat();
        // 4 * k = 12 * N
        s.equal(&k.scaled(4), &v("N").scaled(12)).unwrap();
        assert_eq!(s.known_nat(&k), v("N").scaled(3));
        // Two unknowns wait for one another.
        let (a, b) = (s.nat(), s.nat());
        s.equal(&a.plus(&b), &v("N").plus(&v("M"))).unwrap();
        assert!(s.unsolved().is_some());
        s.equal(&a, &v("N")).unwrap();
        assert_eq!(s.known_nat(&b), v("M"));
        assert!(s.unsolved().is_none());
        let c = s.nat();
        let never = s.equal(&c.scaled(3), &Nat::constant(8));
        assert!(matches!(never, Err(Mismatch::Never(_))), "{never:?}");
        assert!(matches!(s.equal(&v("N"), &v("M")), Err(Mismatch::Sizes(..))));
    }

    #[test]
    fn what_may_divide_is_an_obligation() {
        let mut s = Solver::default();
        let k = s.nat();
        s.equal(&k.scaled(32), &v("N")).unwrap();
        assert_eq!(s.known_nat(&k), v("N").floor_div(&Nat::constant(32)));
        assert_eq!(s.assumed[0].0, Fact::Divides(Nat::constant(32), v("N")));
    }

    #[test]
    fn item_02_data_never_holds_functions() {
        let mut s = Solver::default();
        let f32 = Type::scalar(Scalar::F32);
        let f = Type::fun(f32.clone(), f32.clone());
        let d = s.data();
        assert!(matches!(s.unify(&d, &f), Err(Mismatch::NotData(_))));
        assert!(matches!(s.unify(&d, &Type::pair(f32.clone(), f.clone())), Err(Mismatch::NotData(_))));
        let (d, any) = (s.data(), s.ty(Class::Any));
        s.unify(&d, &Type::array(v("N"), any.clone())).unwrap();
        assert!(s.unify(&any, &f).is_err());
        let e = s.ty(Class::Any);
        assert_eq!(s.unify(&e, &Type::fun(e.clone(), f32)), Err(Mismatch::Endless));
    }
}
