//! Positions in arrays as polynomials over sizes and index variables, simplified by what is known of their ranges.

use crate::facts::{Fact, Facts, Known};
use crate::nat::{Atom, Nat};
use lathe_ir::Name;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// What is known of sizes and index variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Indices {
    pub facts: Facts,
    /// Index variables: each is at least 0 and below its size.
    ranges: HashMap<Name, Nat>,
    fuel: Fuel,
}

/// How often a bound may be derived from another one.
const DEPTH: usize = 4;

/// Steps that one question may take, in all of its cases together: when there are none left, nothing more is known.
/// Counted, not timed, so that a rule is decided alike everywhere.
#[derive(Clone, Debug)]
pub(super) struct Fuel(Rc<Cell<u32>>);

/// Several times what the rules of the library need.
const FUEL: u32 = 400_000;

impl Default for Fuel {
    fn default() -> Fuel {
        Fuel(Rc::new(Cell::new(FUEL)))
    }
}

impl Fuel {
    /// Whether there was some.
    pub fn spend(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

impl Indices {
    pub fn new(facts: Facts, fuel: Fuel) -> Indices {
        Indices { facts, ranges: HashMap::new(), fuel }
    }

    /// A step; whether it may be taken.
    pub fn spend(&self) -> bool {
        self.fuel.spend()
    }

    /// An index variable; its being there says that the size is not 0.
    pub fn range(&mut self, name: &str, size: &Nat) -> Nat {
        if self.ranges.get(name) != Some(size) {
            self.facts.learn(Fact::AtMost(Nat::constant(1), size.clone()));
            self.ranges.insert(Name::from(name), size.clone());
        }
        Nat::var(name)
    }

    /// Equal positions have equal normal forms, as far as they are told apart.
    pub fn normal(&self, n: &Nat) -> Nat {
        let mut n = n.clone();
        for _ in 0..6 {
            if n.as_constant().is_some() || !self.spend() {
                break;
            }
            let next = self.divided(&self.facts.normal(&n));
            if next == n {
                break;
            }
            n = next;
        }
        n
    }

    /// With every quotient simplified. Facts are not used here: one says `x = n * (x // n)`.
    fn divided(&self, n: &Nat) -> Nat {
        n.replace(&mut |a| match a {
            Atom::Div(x, y) => Some(self.quotient(&self.divided(x), &self.divided(y), DEPTH)),
            _ => None,
        })
    }

    pub fn same(&self, a: &Nat, b: &Nat) -> bool {
        self.facts.same(a, b) || {
            let d = self.normal(&a.minus(b));
            d.is_zero()
        }
    }

    /// `floor(x / y)`, both normal.
    fn quotient(&self, x: &Nat, y: &Nat, depth: usize) -> Nat {
        // (a + floor(b / c)) / y = (a * c + b) / (c * y)
        let inner = x.terms().iter().find_map(|(m, c)| match (m.atoms(), c) {
            ([(a @ Atom::Div(b, c), 1)], 1) => Some((a.clone(), b.clone(), c.clone())),
            _ => None,
        });
        if let Some((atom, b, c)) = inner
            && let Some((_, rest)) = x.linear_in(&atom)
        {
            return rest.times(&c).plus(&b).floor_div(&c.times(y));
        }
        let q = x.floor_div(y);
        let Some(rest) = last_division(&q, y) else { return q };
        let atom = Atom::Div(rest.clone().into(), y.clone().into());
        for k in [0, -1] {
            // k * y <= rest < (k + 1) * y
            let low = rest.minus(&y.scaled(k));
            let high = y.scaled(k + 1).minus(&rest).minus(&Nat::constant(1));
            if self.follows(&low, depth) && self.follows(&high, depth) {
                return q.replace(&mut |a| (*a == atom).then(|| Nat::constant(k)));
            }
        }
        q
    }

    /// Whether a number is at least 0 for all values.
    pub fn is_nonnegative(&self, d: &Nat) -> bool {
        self.follows(d, DEPTH)
    }

    /// From the ranges, and at most one of the facts.
    fn follows(&self, d: &Nat, depth: usize) -> bool {
        let d = self.facts.normal(d);
        self.at_least(&d, depth)
            || self.facts.all().iter().any(|f| match f {
                Fact::AtMost(x, y) => self.at_least(&d.minus(&self.facts.normal(&y.minus(x))), depth),
                Fact::Divides(..) => false,
            })
    }

    pub fn at_most(&self, a: &Nat, b: &Nat) -> bool {
        self.is_nonnegative(&b.minus(a))
    }

    /// Puts the extremes in for quotients and index variables, one after the other.
    fn at_least(&self, d: &Nat, depth: usize) -> bool {
        if d.is_huge() || !self.spend() {
            return false;
        }
        if self.facts.holds(&Fact::AtMost(Nat::zero(), d.clone())) == Known::Yes {
            return true;
        }
        if depth == 0 {
            return false;
        }
        let mut atoms = Vec::new();
        d.any_atom(&mut |a| {
            atoms.push(a.clone());
            false
        });
        for a in &atoms {
            let Some((factor, rest)) = d.linear_in(a) else { continue };
            match a {
                Atom::Div(x, y) => {
                    // y * floor(x / y) is x less something below y.
                    if let Some(c) = factor.over(y) {
                        let least = if c.is_nonnegative() { y.minus(&Nat::constant(1)) } else { Nat::zero() };
                        let new = rest.plus(&c.times(&x.minus(&least)));
                        if self.at_least(&new, depth - 1) {
                            return true;
                        }
                    }
                    if factor.is_nonnegative() && self.at_least(x, depth - 1) {
                        return self.at_least(&rest, depth - 1);
                    }
                    if factor.scaled(-1).is_nonnegative() {
                        let most = self.quotient(&self.most(x), y, depth - 1);
                        return most != Nat::atom(a.clone())
                            && self.at_least(&rest.plus(&factor.times(&most)), depth - 1);
                    }
                }
                Atom::Var(v) => {
                    let Some(size) = self.ranges.get(v) else { continue };
                    let new = if factor.is_nonnegative() {
                        rest
                    } else if factor.scaled(-1).is_nonnegative() {
                        rest.plus(&factor.times(&size.minus(&Nat::constant(1))))
                    } else {
                        continue;
                    };
                    return self.at_least(&new, depth);
                }
                Atom::Meta(_) => {}
            }
        }
        false
    }
}

impl Indices {
    /// A number that is no less: index variables at their extremes, where they are linear.
    fn most(&self, n: &Nat) -> Nat {
        let mut out = n.clone();
        for v in n.vars() {
            let Some(size) = self.ranges.get(&v) else { continue };
            let Some((factor, rest)) = out.linear_in(&Atom::Var(v)) else { continue };
            if factor.is_nonnegative() {
                out = rest.plus(&factor.times(&size.minus(&Nat::constant(1))));
            } else if factor.scaled(-1).is_nonnegative() {
                out = rest;
            }
        }
        out
    }
}

/// What a sum divides by `y`, if it does so once.
fn last_division(q: &Nat, y: &Nat) -> Option<Nat> {
    q.terms().iter().find_map(|(m, _)| match m.atoms() {
        [(Atom::Div(x, d), 1)] if **d == *y => Some((**x).clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(n: &str) -> Nat {
        Nat::var(n)
    }

    #[test]
    fn positions_in_chunks_come_back() {
        let mut k = Indices::default();
        let (i, j) = (k.range("i", &v("K")), k.range("j", &v("N")));
        let at = v("N").times(&i).plus(&j);
        assert_eq!(k.normal(&at.floor_div(&v("N"))), i);
        assert_eq!(k.normal(&at.modulo(&v("N"))), j);
        let l = k.range("l", &v("K").times(&v("N")));
        let back = l.floor_div(&v("N")).times(&v("N")).plus(&l.modulo(&v("N")));
        assert_eq!(k.normal(&back), l);
        // (l // M) // N = l // (N * M), and what is left of it
        let twice = l.floor_div(&v("M")).floor_div(&v("N"));
        assert_eq!(k.normal(&twice), k.normal(&l.floor_div(&v("N").times(&v("M")))));
        assert!(k.at_most(&i, &v("K")) && !k.at_most(&v("K"), &i));
        assert!(k.at_most(&l.floor_div(&v("N")).plus(&Nat::constant(1)), &v("K").plus(&Nat::constant(1))));
    }

    /// Every rewrite of positions has the value that the position had.
    #[test]
    fn normal_forms_have_the_same_values() {
        let mut r = crate::random::Random(77);
        for _ in 0..300 {
            let mut k = Indices::default();
            let (n, m) = (1 + r.below(4) as i64, 1 + r.below(4) as i64);
            let (i, j) = (k.range("i", &v("N")), k.range("j", &v("M")));
            let l = k.range("l", &v("N").times(&v("M")));
            let mut e = vec![i, j, l, v("N"), v("M"), Nat::constant(1)];
            for _ in 0..5 {
                let (a, b) = (e[r.below(e.len())].clone(), e[r.below(e.len())].clone());
                e.push(match r.below(5) {
                    0 => a.plus(&b),
                    1 => a.minus(&b),
                    2 if a.terms().len() * b.terms().len() < 9 => a.times(&b),
                    3 => a.floor_div(&v("N")),
                    _ => a.modulo(&v("M")),
                });
            }
            let e = &e[e.len() - 1];
            let normal = k.normal(e);
            let sure = k.is_nonnegative(e);
            for i in 0..n {
                for j in 0..m {
                    for l in 0..n * m {
                        let at = |x: &str| {
                            Some(match x {
                                "i" => i,
                                "j" => j,
                                "l" => l,
                                "N" => n,
                                _ => m,
                            })
                        };
                        assert_eq!(e.eval(&at), normal.eval(&at), "{e} became {normal}");
                        assert!(!sure || e.eval(&at) >= Some(0), "{e}");
                    }
                }
            }
        }
    }
}
