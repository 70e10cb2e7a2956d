//! What is known of the sizes of a program: which divide which, and which are at most which.
//!
//! `b | x` for an atom `x` is kept as the substitution `x = b * (x // b)`; after it the normal form of
//! polynomials decides equality. Several facts about one size compose: `4 | N` and `32 | N` make
//! `N = 32 * q`.

use crate::nat::{Atom, Nat};
use lathe_ir::Name;
use lathe_poly::gcd;
use std::fmt;

/// One thing that is known, or that a call must check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The first divides the second.
    Divides(Nat, Nat),
    /// The first is at most the second.
    AtMost(Nat, Nat),
}

impl Fact {
    /// The same of other sizes.
    pub fn map(&self, mut f: impl FnMut(&Nat) -> Nat) -> Fact {
        match self {
            Fact::Divides(a, b) => Fact::Divides(f(a), f(b)),
            Fact::AtMost(a, b) => Fact::AtMost(f(a), f(b)),
        }
    }

    /// With sizes for names.
    pub fn replace_vars(&self, value: &dyn Fn(&Name) -> Option<Nat>) -> Fact {
        self.map(|n| n.replace_vars(value))
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Divides(b, a) => {
                let part = |n: &Nat| match (n.as_constant(), n.as_atom()) {
                    (Some(_), _) | (_, Some(Atom::Var(_))) => n.to_string(),
                    _ => format!("({n})"),
                };
                write!(f, "{} % {} == 0", part(a), part(b))
            }
            Fact::AtMost(a, b) => write!(f, "{a} <= {b}"),
        }
    }
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Yes,
    No,
    Maybe,
}

/// Facts in the order in which they became known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    facts: Vec<Fact>,
    /// What each fact about divisibility says, over the atoms that the ones before left.
    equal: Vec<(Atom, Nat)>,
}

impl Facts {
    pub fn new(all: impl IntoIterator<Item = Fact>) -> Facts {
        let mut out = Facts::default();
        for f in all {
            out.learn(f);
        }
        out
    }

    pub fn all(&self) -> &[Fact] {
        &self.facts
    }

    /// Takes a fact in, unless it follows from the ones before.
    pub fn learn(&mut self, f: Fact) {
        if self.holds(&f) == Known::Yes {
            return;
        }
        if let Fact::Divides(b, a) = &f {
            let (b, a) = (self.normal(b), self.normal(a));
            if let Some(e) = solve(&b, &a) {
                self.equal.push(e);
            }
        }
        self.facts.push(f);
    }

    /// The normal form under the facts.
    pub fn normal(&self, n: &Nat) -> Nat {
        self.equal
            .iter()
            .fold(n.clone(), |n, (atom, value)| n.replace(&mut |a| (a == atom).then(|| value.clone())))
    }

    /// Equal for all sizes that the facts admit, as far as the normal form tells; huge sizes never are.
    pub fn same(&self, a: &Nat, b: &Nat) -> bool {
        if a.is_huge() || b.is_huge() {
            return false;
        }
        a == b || (!self.equal.is_empty() && self.normal(a) == self.normal(b))
    }

    pub fn holds(&self, f: &Fact) -> Known {
        match f {
            Fact::Divides(b, a) => {
                let (b, a) = (self.normal(b), self.normal(a));
                if a.over(&b).is_some() {
                    return Known::Yes;
                }
                match b.as_constant() {
                    Some(b) if b <= 0 => Known::No,
                    // Every factor but the constant is a multiple: the constant decides.
                    Some(c) => {
                        let rest = a.modulo(&Nat::constant(c));
                        if rest.as_constant().is_some() { Known::No } else { Known::Maybe }
                    }
                    None => Known::Maybe,
                }
            }
            Fact::AtMost(a, b) => {
                let d = self.normal(b).minus(&self.normal(a));
                // More than what is known to be at least 0 is, too.
                let follows = |g: &Fact| match g {
                    Fact::AtMost(x, y) => d.minus(&self.normal(y).minus(&self.normal(x))).is_nonnegative(),
                    Fact::Divides(..) => false,
                };
                if d.is_nonnegative() || self.facts.iter().any(follows) {
                    return Known::Yes;
                }
                let negative = d.scaled(-1).minus(&Nat::constant(1));
                if negative.is_nonnegative() { Known::No } else { Known::Maybe }
            }
        }
    }

    /// Sizes that the facts mention.
    pub fn vars(&self) -> Vec<Name> {
        let mut out: Vec<Name> = self
            .facts
            .iter()
            .flat_map(|f| match f {
                Fact::Divides(a, b) | Fact::AtMost(a, b) => [a.vars(), b.vars()].concat(),
            })
            .collect();
        out.sort();
        out.dedup();
        out
    }
}

/// `b | a` as an equation for one atom, if `a` is linear in an atom with a factor that allows it.
fn solve(b: &Nat, a: &Nat) -> Option<(Atom, Nat)> {
    // A common number comes out: 8 | 12*q is 2 | q.
    if let ([(m, c)], Some(d)) = (a.terms(), b.as_constant())
        && let [(atom, 1)] = m.atoms()
        && d > 0
    {
        let rest = d / i64::try_from(gcd(d.unsigned_abs(), c.unsigned_abs())).ok()?;
        let (x, rest) = (Nat::atom(atom.clone()), Nat::constant(rest));
        return Some((atom.clone(), rest.times(&x.floor_div(&rest))));
    }
    for (m, c) in a.terms() {
        let [(atom, 1)] = m.atoms() else { continue };
        if c.abs() != 1 || matches!(atom, Atom::Meta(_)) {
            continue;
        }
        let Some((_, rest)) = a.linear_in(atom) else { continue };
        // c * x + rest = b * q, so x = c * (b * q - rest).
        let q = a.floor_div(b);
        return Some((atom.clone(), b.times(&q).minus(&rest).scaled(*c)));
    }
    None
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
    fn divides(b: Nat, a: Nat) -> Fact {
        Fact::Divides(b, a)
    }

    #[test]
    fn bounds_follow_from_bounds() {
        let f = Facts::new([Fact::AtMost(c(2), v("N"))]);
        assert_eq!(f.holds(&Fact::AtMost(c(0), v("N").minus(&c(2)))), Known::Yes);
        assert_eq!(f.holds(&Fact::AtMost(c(1), v("N"))), Known::Yes);
        assert_eq!(f.holds(&Fact::AtMost(c(1), v("N").plus(&v("M")))), Known::Yes);
        assert_eq!(f.holds(&Fact::AtMost(c(3), v("N"))), Known::Maybe);
        assert_eq!(f.holds(&Fact::AtMost(v("M"), v("N"))), Known::Maybe);
    }

    #[test]
    fn divisibility_makes_sizes_equal() {
        let mut f = Facts::default();
        let back = v("N").floor_div(&c(32)).times(&c(32));
        assert!(!f.same(&back, &v("N")));
        f.learn(divides(c(32), v("N")));
        assert!(f.same(&back, &v("N")));
        assert_eq!(f.holds(&divides(c(8), v("N"))), Known::Yes);
        assert_eq!(f.holds(&divides(c(64), v("N"))), Known::Maybe);
        assert_eq!(f.holds(&divides(c(2), v("N").plus(&c(1)))), Known::No);
        let twice = v("N").floor_div(&c(4)).floor_div(&c(8)).times(&c(32));
        assert!(f.same(&twice, &v("N")));
    }

    #[test]
    fn facts_about_one_size_compose() {
        for (first, second) in [(4, 32), (32, 4), (12, 8), (8, 12)] {
            let f = Facts::new([divides(c(first), v("N")), divides(c(second), v("N"))]);
            for d in [first, second] {
                assert!(f.same(&v("N").floor_div(&c(d)).times(&c(d)), &v("N")), "{first} {second} {d}");
            }
        }
        let f = Facts::new([divides(v("T"), v("N"))]);
        assert!(f.same(&v("T").times(&v("N").floor_div(&v("T"))), &v("N")));
    }

    #[test]
    fn facts_about_sums() {
        // 4 | N - 2, as for overlapping windows.
        let a = v("N").minus(&c(2));
        let f = Facts::new([divides(c(4), a.clone())]);
        assert!(f.same(&a.floor_div(&c(4)).times(&c(4)).plus(&c(2)), &v("N")));
        assert_eq!(f.holds(&divides(c(4), v("N"))), Known::No);
    }

    #[test]
    fn facts_tell_no_lies() {
        for n in (0..200).step_by(24) {
            let f = Facts::new([divides(c(8), v("N")), divides(c(6), v("N"))]);
            let value = |e: &Nat| e.eval(&|_| Some(n));
            for e in [v("N"), v("N").floor_div(&c(4)), v("N").plus(&c(5)).floor_div(&c(6))] {
                assert_eq!(value(&e), value(&f.normal(&e)), "{e} at {n}");
            }
        }
        assert_eq!(Facts::default().holds(&Fact::AtMost(c(3), c(2))), Known::No);
        assert_eq!(Facts::default().holds(&Fact::AtMost(v("N"), v("N").plus(&c(1)))), Known::Yes);
        assert_eq!(Facts::default().holds(&Fact::AtMost(c(3), v("N"))), Known::Maybe);
        assert!(!Facts::default().same(&Nat::huge(), &Nat::huge()));
    }
}
