//! Sizes: polynomials over size variables, in a normal form that makes equal sizes equal data.
//!
//! A size is a sum of monomials with integer factors; what is not polynomial is a floor division, which is
//! an atom like a variable (`a % b` is `a - b * (a // b)`). Numbers that overflow 64 bits, and texts with more than
//! [`LARGEST`] parts (each remainder of a remainder has twice as many), make a size *huge*: it stays huge under every
//! operation, has no value, and is the same as no other size.

use lathe_ir::Name;
use lathe_poly::gcd;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a polynomial is built from.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Atom {
    /// A size of the program.
    Var(Name),
    /// To be found by inference.
    Meta(u32),
    /// `floor(a / b)` that does not simplify; `b` is positive wherever the size means anything.
    Div(Arc<Nat>, Arc<Nat>),
}

/// Terms and factors of one size, with those under its divisions as often as they stand there.
pub const LARGEST: usize = 2_000;

/// What one or both of two lists have for a key.
type Pair<'a, T> = (Option<&'a T>, Option<&'a T>);

/// Two lists in the order of their keys as one: what both have comes together.
fn merged<'a, K: Ord, V>(a: &'a [(K, V)], b: &'a [(K, V)]) -> impl Iterator<Item = Pair<'a, (K, V)>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.0.cmp(&y.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let left = if order.is_le() { a.next() } else { None };
        let right = if order.is_ge() { b.next() } else { None };
        Some((left, right))
    })
}

/// A product of atoms with their powers, in the order of the atoms; empty: 1.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Mono(Vec<(Atom, u32)>);

impl Mono {
    fn of(a: Atom) -> Mono {
        Mono(vec![(a, 1)])
    }

    pub fn is_one(&self) -> bool {
        self.0.is_empty()
    }

    pub fn atoms(&self) -> &[(Atom, u32)] {
        &self.0
    }

    fn times(&self, o: &Mono) -> Option<Mono> {
        let mut out = Vec::with_capacity(self.0.len() + o.0.len());
        for pair in merged(&self.0, &o.0) {
            out.push(match pair {
                (Some((a, p)), Some((_, q))) => (a.clone(), p.checked_add(*q)?),
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (None, None) => return None,
            });
        }
        Some(Mono(out))
    }

    /// `self / o` where it divides.
    fn over(&self, o: &Mono) -> Option<Mono> {
        let mut out = Vec::with_capacity(self.0.len());
        for pair in merged(&self.0, &o.0) {
            match pair {
                (Some((a, p)), q) => match p.checked_sub(q.map_or(0, |q| q.1))? {
                    0 => {}
                    left => out.push((a.clone(), left)),
                },
                (None, _) => return None,
            }
        }
        Some(Mono(out))
    }

    fn degree(&self) -> u64 {
        self.0.iter().map(|a| u64::from(a.1)).sum()
    }

    /// By degree, then by the powers of the first atoms: an order that products respect, as division needs.
    fn leads(&self, o: &Mono) -> Ordering {
        let by_powers = || {
            let (mut a, mut b) = (self.0.iter().peekable(), o.0.iter().peekable());
            loop {
                match (a.peek(), b.peek()) {
                    (None, None) => return Ordering::Equal,
                    (Some(_), None) => return Ordering::Greater,
                    (None, Some(_)) => return Ordering::Less,
                    (Some((x, p)), Some((y, q))) => match x.cmp(y) {
                        // The smaller atom counts more.
                        Ordering::Less => return Ordering::Greater,
                        Ordering::Greater => return Ordering::Less,
                        Ordering::Equal if p != q => return p.cmp(q),
                        Ordering::Equal => {
                            a.next();
                            b.next();
                        }
                    },
                }
            }
        };
        self.degree().cmp(&o.degree()).then_with(by_powers)
    }
}

/// A size. `PartialEq` compares normal forms; [`crate::facts::Facts::same`] also uses what is known.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Nat {
    /// No factor is 0; in the order of the monomials.
    terms: Vec<(Mono, i64)>,
    huge: bool,
}

impl Nat {
    pub fn zero() -> Nat {
        Nat::default()
    }

    pub fn huge() -> Nat {
        Nat { terms: Vec::new(), huge: true }
    }

    pub fn constant(v: i64) -> Nat {
        let terms = if v == 0 { Vec::new() } else { vec![(Mono::default(), v)] };
        Nat { terms, huge: false }
    }

    pub fn var(name: &str) -> Nat {
        Nat::atom(Atom::Var(Name::from(name)))
    }

    pub fn atom(a: Atom) -> Nat {
        Nat { terms: vec![(Mono::of(a), 1)], huge: false }
    }

    pub fn is_huge(&self) -> bool {
        self.huge
    }

    pub fn is_zero(&self) -> bool {
        self.terms.is_empty() && !self.huge
    }

    pub fn terms(&self) -> &[(Mono, i64)] {
        &self.terms
    }

    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            _ if self.huge => None,
            [] => Some(0),
            [(m, c)] if m.is_one() => Some(*c),
            _ => None,
        }
    }

    /// The size variable, if it is nothing else.
    pub fn as_var(&self) -> Option<&Name> {
        match self.as_atom()? {
            Atom::Var(n) => Some(n),
            _ => None,
        }
    }

    pub fn as_atom(&self) -> Option<&Atom> {
        match self.terms.as_slice() {
            [(m, 1)] => match m.0.as_slice() {
                [(a, 1)] => Some(a),
                _ => None,
            },
            _ => None,
        }
    }

    fn collect(terms: impl Iterator<Item = Option<(Mono, i64)>>) -> Nat {
        let mut all: BTreeMap<Mono, i64> = BTreeMap::new();
        for t in terms {
            let Some((m, c)) = t else { return Nat::huge() };
            let e = all.entry(m).or_insert(0);
            match e.checked_add(c) {
                Some(v) => *e = v,
                None => return Nat::huge(),
            }
        }
        Nat { terms: all.into_iter().filter(|t| t.1 != 0).collect(), huge: false }
    }

    pub fn plus(&self, o: &Nat) -> Nat {
        if self.huge || o.huge {
            return Nat::huge();
        }
        let mut terms = Vec::with_capacity(self.terms.len() + o.terms.len());
        for pair in merged(&self.terms, &o.terms) {
            match pair {
                (Some((m, c)), Some((_, d))) => match c.checked_add(*d) {
                    Some(0) => {}
                    Some(sum) => terms.push((m.clone(), sum)),
                    None => return Nat::huge(),
                },
                (Some(one), None) | (None, Some(one)) => terms.push(one.clone()),
                (None, None) => {}
            }
        }
        Nat { terms, huge: false }
    }

    pub fn minus(&self, o: &Nat) -> Nat {
        self.plus(&o.scaled(-1))
    }

    pub fn scaled(&self, c: i64) -> Nat {
        self.times(&Nat::constant(c))
    }

    pub fn times(&self, o: &Nat) -> Nat {
        if self.huge || o.huge || self.terms.len().saturating_mul(o.terms.len()) > LARGEST {
            return Nat::huge();
        }
        let pairs = self.terms.iter().flat_map(|a| o.terms.iter().map(move |b| (a, b)));
        Nat::collect(pairs.map(|((m, c), (n, d))| Some((m.times(n)?, c.checked_mul(*d)?))))
    }

    /// The quotient if `o` divides the polynomial.
    pub fn over(&self, o: &Nat) -> Option<Nat> {
        let lead = |n: &Nat| n.terms.iter().max_by(|a, b| a.0.leads(&b.0)).cloned();
        if self.huge || o.huge {
            return None;
        }
        let (m, c) = lead(o)?;
        let (mut rest, mut quotient) = (self.clone(), Nat::zero());
        while let Some((n, d)) = lead(&rest) {
            if d.checked_rem(c)? != 0 {
                return None;
            }
            let part = Nat { terms: vec![(n.over(&m)?, d.checked_div(c)?)], huge: false };
            rest = rest.minus(&part.times(o));
            quotient = quotient.plus(&part);
            if rest.huge || quotient.huge {
                return None;
            }
        }
        Some(quotient)
    }

    /// `floor(self / o)` for a positive `o`: what divides comes out, the rest stays under the division.
    pub fn floor_div(&self, o: &Nat) -> Nat {
        if self.huge || o.huge {
            return Nat::huge();
        }
        if let Some(q) = self.over(o) {
            return q;
        }
        let (mut out, mut rest) = (Nat::zero(), Nat::zero());
        for (m, c) in &self.terms {
            let term = Nat { terms: vec![(m.clone(), *c)], huge: false };
            match (term.over(o), o.as_constant()) {
                (Some(q), _) => out = out.plus(&q),
                (None, Some(d)) if d > 0 => {
                    let part = |c: i64| Nat { terms: vec![(m.clone(), c)], huge: false };
                    let (q, r) = (c.div_euclid(d), c.rem_euclid(d));
                    out = out.plus(&if q == 0 { Nat::zero() } else { part(q) });
                    rest = rest.plus(&part(r));
                }
                (None, _) => rest = rest.plus(&term),
            }
        }
        if let (Some(a), Some(b)) = (rest.as_constant(), o.as_constant())
            && b > 0
        {
            return out.plus(&Nat::constant(a.div_euclid(b)));
        }
        let mut left = LARGEST;
        if !rest.within(&mut left) || !o.within(&mut left) {
            return Nat::huge();
        }
        out.plus(&Nat::atom(Atom::Div(Arc::new(rest), Arc::new(o.clone()))))
    }

    /// Takes its parts from `left`, and says whether there were enough.
    fn within(&self, left: &mut usize) -> bool {
        self.terms.iter().all(|(m, _)| {
            m.0.iter().all(|(a, _)| match a {
                Atom::Div(x, y) => x.within(left) && y.within(left),
                _ => true,
            }) && {
                *left = left.saturating_sub(1 + m.0.len());
                *left > 0
            }
        })
    }

    /// `ceil(self / o)` for a positive `o`.
    pub fn ceil_div(&self, o: &Nat) -> Nat {
        self.plus(o).minus(&Nat::constant(1)).floor_div(o)
    }

    /// `self - o * floor(self / o)`
    pub fn modulo(&self, o: &Nat) -> Nat {
        self.minus(&o.times(&self.floor_div(o)))
    }

    /// Atoms replaced, those inside divisions too; what `f` gives is not looked at again.
    pub fn replace(&self, f: &mut dyn FnMut(&Atom) -> Option<Nat>) -> Nat {
        if self.huge || self.terms.iter().all(|t| t.0.is_one()) {
            return self.clone();
        }
        let mut sum = Nat::zero();
        for (m, c) in &self.terms {
            let mut product = Nat::constant(*c);
            for (a, p) in &m.0 {
                let base = match f(a) {
                    Some(n) => n,
                    None => match a {
                        Atom::Div(x, y) => {
                            let (nx, ny) = (x.replace(f), y.replace(f));
                            if nx == **x && ny == **y { Nat::atom(a.clone()) } else { nx.floor_div(&ny) }
                        }
                        _ => Nat::atom(a.clone()),
                    },
                };
                for _ in 0..*p {
                    product = product.times(&base);
                }
            }
            sum = sum.plus(&product);
        }
        sum
    }

    /// The value, if all variables have one, divisions are by positive numbers, and all fits 64 bits.
    /// With sizes for names.
    pub fn replace_vars(&self, value: &dyn Fn(&Name) -> Option<Nat>) -> Nat {
        self.replace(&mut |a| match a {
            Atom::Var(v) => value(v),
            _ => None,
        })
    }

    pub fn eval(&self, values: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        if self.huge {
            return None;
        }
        self.terms.iter().try_fold(0i64, |sum, (m, c)| {
            let product = m.0.iter().try_fold(*c, |product, (a, p)| {
                let base = match a {
                    Atom::Var(n) => values(n)?,
                    Atom::Meta(_) => return None,
                    Atom::Div(x, y) => {
                        let (x, y) = (x.eval(values)?, y.eval(values)?);
                        if y <= 0 {
                            return None;
                        }
                        x.div_euclid(y)
                    }
                };
                product.checked_mul(base.checked_pow(*p)?)
            })?;
            sum.checked_add(product)
        })
    }

    /// Every atom, those inside divisions too.
    pub fn any_atom(&self, f: &mut dyn FnMut(&Atom) -> bool) -> bool {
        self.terms.iter().flat_map(|t| &t.0.0).any(|(a, _)| {
            f(a) || match a {
                Atom::Div(x, y) => x.any_atom(f) || y.any_atom(f),
                _ => false,
            }
        })
    }

    /// Variables, each once, in order.
    pub fn vars(&self) -> Vec<Name> {
        let mut out = Vec::new();
        self.any_atom(&mut |a| {
            if let Atom::Var(n) = a {
                out.push(n.clone());
            }
            false
        });
        out.sort();
        out.dedup();
        out
    }

    pub fn has_meta(&self) -> bool {
        self.any_atom(&mut |a| matches!(a, Atom::Meta(_)))
    }

    /// `self = factor * atom + rest` where neither part mentions the atom; `None` if it is not linear in it.
    pub fn linear_in(&self, atom: &Atom) -> Option<(Nat, Nat)> {
        let (mut factor, mut rest) = (Nat::zero(), Nat::zero());
        let single = Mono::of(atom.clone());
        for (m, c) in &self.terms {
            match m.over(&single) {
                Some(q) => factor = factor.plus(&Nat { terms: vec![(q, *c)], huge: false }),
                None => rest = rest.plus(&Nat { terms: vec![(m.clone(), *c)], huge: false }),
            }
        }
        let mentions = |n: &Nat| n.any_atom(&mut |a| a == atom);
        (!factor.is_zero() && !mentions(&factor) && !mentions(&rest)).then_some((factor, rest))
    }

    /// Certainly at least 0, given that variables and quotients are: no factor is negative.
    pub fn is_nonnegative(&self) -> bool {
        !self.huge
            && self.terms.iter().all(|(m, c)| {
                *c >= 0
                    && m.0.iter().all(|(a, _)| match a {
                        Atom::Div(x, _) => x.is_nonnegative(),
                        _ => true,
                    })
            })
    }

    /// The greatest number that divides every factor; 0 for 0.
    pub fn content(&self) -> i64 {
        let g = self.terms.iter().fold(0u64, |g, t| gcd(g, t.1.unsigned_abs()));
        i64::try_from(g).unwrap_or(1)
    }
}

impl From<i64> for Nat {
    fn from(v: i64) -> Nat {
        Nat::constant(v)
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Var(n) => f.write_str(n),
            Atom::Meta(n) => write!(f, "?{n}"),
            Atom::Div(a, b) => {
                let part = |n: &Nat, f: &mut fmt::Formatter<'_>| {
                    if n.as_constant().is_some_and(|c| c >= 0)
                        || n.as_atom().is_some_and(|a| !matches!(a, Atom::Div(..)))
                    {
                        write!(f, "{n}")
                    } else {
                        write!(f, "({n})")
                    }
                };
                part(a, f)?;
                f.write_str(" // ")?;
                part(b, f)
            }
        }
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.huge {
            return f.write_str("a size beyond 64 bits");
        }
        // Products first, the constant last, as people write it.
        let (constant, others): (Vec<_>, Vec<_>) = self.terms.iter().partition(|t| t.0.is_one());
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        let (plus, minus): (Vec<_>, Vec<_>) = others.into_iter().partition(|t| t.1 > 0);
        for (n, (m, c)) in plus.into_iter().chain(minus).chain(constant).enumerate() {
            let sign = match (n, *c < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            f.write_str(sign)?;
            let magnitude = c.unsigned_abs();
            if magnitude != 1 || m.is_one() {
                write!(f, "{magnitude}")?;
            }
            let mut first = magnitude == 1;
            for (a, p) in &m.0 {
                for _ in 0..*p {
                    if !first {
                        f.write_str("*")?;
                    }
                    match a {
                        Atom::Div(..) if !first || m.0.len() > 1 || *p > 1 || magnitude != 1 => {
                            write!(f, "({a})")?;
                        }
                        _ => write!(f, "{a}")?,
                    }
                    first = false;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(n: &str) -> Nat {
        Nat::var(n)
    }
    fn c(n: i64) -> Nat {
        Nat::constant(n)
    }

    #[test]
    fn item_03_sizes_are_equal_up_to_the_laws_of_semirings() {
        assert_eq!(v("n").times(&v("m")), v("m").times(&v("n")));
        assert_eq!(c(2).times(&v("n")).plus(&v("n")), c(3).times(&v("n")));
        let square = v("n").plus(&c(1)).times(&v("n").minus(&c(1)));
        assert_eq!(square, v("n").times(&v("n")).minus(&c(1)));
        assert_eq!(square.over(&v("n").plus(&c(1))), Some(v("n").minus(&c(1))));
        assert_eq!(square.over(&v("m")), None);
        assert_ne!(v("n"), v("m"));
    }

    #[test]
    fn division_takes_out_what_divides() {
        let n = c(4).times(&v("n")).plus(&c(7));
        assert_eq!(n.floor_div(&c(4)), v("n").plus(&c(1)));
        assert_eq!(n.modulo(&c(4)), c(3));
        assert_eq!(v("n").ceil_div(&c(8)).to_string(), "(n + 7) // 8");
        assert_eq!(v("n").times(&v("m")).floor_div(&v("m")), v("n"));
        assert_eq!(c(-7).floor_div(&c(2)), c(-4));
        let slide = v("n").minus(&c(3)).plus(&c(1)).floor_div(&c(1));
        assert_eq!(slide, v("n").minus(&c(2)));
    }

    #[test]
    fn sizes_beyond_64_bits_are_huge_and_nothing_fails() {
        let big = c(i64::MAX);
        assert!(big.plus(&c(1)).is_huge());
        assert!(big.times(&big).is_huge());
        assert!(big.times(&big).minus(&big).is_huge());
        assert_eq!(c(i64::MIN).over(&c(-1)), None);
        assert_eq!(v("n").times(&v("n")).eval(&|_| Some(i64::MAX)), None);
        assert_eq!(v("n").floor_div(&v("m")).eval(&|n| Some(if n == "n" { 7 } else { 0 })), None);
        assert!(c(i64::MIN).scaled(-1).is_huge());
    }

    #[test]
    fn sizes_with_too_many_parts_are_huge() {
        let mut chain = v("N");
        for k in 0..60 {
            chain = chain.modulo(&v(&format!("D{k}")));
        }
        assert!(chain.is_huge());
        let sum = |k: usize| v(&format!("A{k}")).plus(&v(&format!("B{k}")));
        assert!((0..60).map(sum).fold(c(1), |p, s| p.times(&s)).is_huge());
        assert!(!v("N").modulo(&v("D")).modulo(&v("E")).modulo(&v("F")).is_huge());
    }

    #[test]
    fn sizes_print_as_people_write_them() {
        let n = v("N").times(&v("K")).scaled(2).plus(&v("N")).minus(&c(3));
        assert_eq!(n.to_string(), "2*K*N + N - 3");
        assert_eq!(v("N").floor_div(&c(32)).scaled(32).to_string(), "32*(N // 32)");
        assert_eq!(v("N").floor_div(&c(32)).to_string(), "N // 32");
        assert_eq!(v("N").scaled(-1).plus(&v("M")).to_string(), "M - N");
    }
}
