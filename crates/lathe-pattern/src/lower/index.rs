//! Subscripts as polynomials over sizes and loop variables, so that division by a chunk's length is
//! undone exactly, with symbolic lengths too; what is not a polynomial is an opaque number.

use crate::facts::{Fact, Facts, Known};
use crate::nat::{Atom, Nat};
use lathe_ir::{Expr, Name, build};
use std::collections::BTreeMap;

/// What an atom stands for.
struct Meaning {
    expr: Expr,
    /// It is at least 0, and below this.
    below: Option<Nat>,
    /// At least 0.
    nonnegative: bool,
    /// Changes within a run: a loop variable or an opaque number.
    varies: bool,
}

pub(super) struct Indices {
    atoms: BTreeMap<Name, Meaning>,
    facts: Facts,
    next: u32,
}

impl Indices {
    pub fn new(facts: Facts) -> Indices {
        Indices { atoms: BTreeMap::new(), facts, next: 0 }
    }

    pub fn size(&mut self, name: &Name, expr: Expr) {
        self.atoms.insert(name.clone(), Meaning { expr, below: None, nonnegative: true, varies: false });
    }

    /// A new atom; no size is named like it.
    pub fn atom(&mut self, expr: Expr, below: Option<Nat>) -> Nat {
        if let Some(c) = expr.as_int() {
            return Nat::constant(c);
        }
        let known = self.atoms.iter().find(|(_, m)| m.varies && m.expr == expr && m.below == below);
        if let Some((n, _)) = known {
            return Nat::var(n);
        }
        let name = Name::from(format!("%{}", self.next));
        self.next += 1;
        let nonnegative = below.is_some();
        self.atoms.insert(name.clone(), Meaning { expr, below, nonnegative, varies: true });
        Nat::var(&name)
    }

    pub fn expr(&self, n: &Nat) -> Expr {
        let mut sum = build::index(0);
        // Positive parts first.
        let (plus, minus): (Vec<_>, Vec<_>) = n.terms().iter().partition(|t| t.1 > 0);
        for (m, c) in plus.into_iter().chain(minus) {
            let mut product: Option<Expr> = None;
            for (a, p) in m.atoms() {
                let base = match a {
                    Atom::Var(v) => self.atoms.get(v).map_or_else(|| build::index(0), |m| m.expr.clone()),
                    Atom::Div(a, b) => build::floor_div(self.expr(a), self.expr(b)),
                    Atom::Meta(_) => build::index(0),
                };
                for _ in 0..*p {
                    product = Some(match product {
                        None => base.clone(),
                        Some(e) => build::mul(e, base.clone()),
                    });
                }
            }
            let product = product.unwrap_or_else(|| build::index(1));
            let negative = *c < 0 && *c > i64::MIN;
            let term = build::mul(product, build::index(if negative { -c } else { *c }));
            sum = if negative { build::sub(sum, term) } else { build::add(sum, term) };
        }
        sum
    }

    /// The largest or smallest value that is certain, over sizes alone; `None` if nothing is.
    fn extreme(&self, n: &Nat, largest: bool) -> Option<Nat> {
        let mut out = Nat::zero();
        for (m, c) in n.terms() {
            let up = (*c > 0) == largest;
            let mut product = Nat::constant(*c);
            for (a, p) in m.atoms() {
                let bound = match a {
                    Atom::Var(v) => {
                        let k = self.atoms.get(v)?;
                        if !k.nonnegative {
                            return None;
                        }
                        match (&k.below, k.varies, up) {
                            (_, false, _) => Nat::var(v),
                            (Some(b), true, true) => self.extreme(&b.minus(&1.into()), true)?,
                            (None, true, true) => return None,
                            (_, true, false) => Nat::zero(),
                        }
                    }
                    // A quotient of sizes alone is a size.
                    _ if !self.varies(a) => Nat::atom(a.clone()),
                    Atom::Div(x, y) => {
                        let d = y.as_constant().filter(|d| *d > 0)?;
                        self.extreme(x, up)?.floor_div(&Nat::constant(d))
                    }
                    Atom::Meta(_) => return None,
                };
                for _ in 0..*p {
                    product = product.times(&bound);
                }
            }
            out = out.plus(&product);
        }
        Some(out)
    }

    fn varies(&self, a: &Atom) -> bool {
        match a {
            Atom::Var(v) => self.atoms.get(v).is_none_or(|m| m.varies),
            Atom::Div(x, y) => {
                [x, y].into_iter().any(|n| n.any_atom(&mut |a| matches!(a, Atom::Var(_)) && self.varies(a)))
            }
            Atom::Meta(_) => true,
        }
    }

    pub fn is_nonnegative(&self, n: &Nat) -> bool {
        let yes = |least: Nat| self.facts.holds(&Fact::AtMost(Nat::zero(), least)) == Known::Yes;
        self.extreme(n, false).is_some_and(yes)
    }

    /// `n < limit` for certain.
    pub fn is_below(&self, n: &Nat, limit: &Nat) -> bool {
        let slack = limit.minus(n).minus(&1.into());
        self.is_nonnegative(&slack)
            || self.extreme(n, true).is_some_and(|most| {
                self.facts.holds(&Fact::AtMost(most.plus(&1.into()), limit.clone())) == Known::Yes
            })
    }

    pub fn is_inside(&self, n: &Nat, limit: &Nat) -> bool {
        self.is_nonnegative(n) && self.is_below(n, limit)
    }

    /// `n // m` and `n % m`, without division where the parts of `n` tell.
    pub fn divide(&self, n: &Nat, m: &Nat) -> (Nat, Nat) {
        let (mut quotient, mut rest) = (Nat::zero(), Nat::zero());
        for (mono, c) in n.terms() {
            let term = mono
                .atoms()
                .iter()
                .fold(Nat::constant(*c), |t, (a, p)| (0..*p).fold(t, |t, _| t.times(&Nat::atom(a.clone()))));
            match term.over(m) {
                Some(q) => quotient = quotient.plus(&q),
                None => rest = rest.plus(&term),
            }
        }
        if self.is_inside(&rest, m) {
            return (quotient, rest);
        }
        let q = quotient.plus(&rest.floor_div(m));
        let r = n.minus(&q.times(m));
        (q, r)
    }

    /// Known for all sizes.
    pub fn divides(&self, b: &Nat, a: &Nat) -> bool {
        self.facts.holds(&Fact::Divides(b.clone(), a.clone())) == Known::Yes
    }

    /// The atom of a variable.
    pub fn known(&self, e: &Expr) -> Option<Nat> {
        self.atoms.iter().find(|(_, m)| m.expr == *e).map(|(n, _)| Nat::var(n))
    }
}
