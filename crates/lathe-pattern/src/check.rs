//! Whether a typed term is well typed, sizes compared under what is known of them. Rewriting keeps types by
//! construction; tests assert it after every rule.

use crate::codes;
use crate::facts::Facts;
use crate::scheme::scheme;
use crate::solve::Solver;
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use lathe_diagnostics::Diagnostic;

/// Equal for all sizes that the facts admit.
pub fn same_type(facts: &Facts, a: &Type, b: &Type) -> bool {
    if a == b {
        return true;
    }
    match (a.kind(), b.kind()) {
        (TypeKind::Array(n, x), TypeKind::Array(m, y)) | (TypeKind::Vector(n, x), TypeKind::Vector(m, y)) => {
            facts.same(n, m) && same_type(facts, x, y)
        }
        (TypeKind::Index(n), TypeKind::Index(m)) => facts.same(n, m),
        (TypeKind::Tuple(x), TypeKind::Tuple(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_type(facts, x, y))
        }
        (TypeKind::Fun(x, s), TypeKind::Fun(y, t)) => same_type(facts, x, y) && same_type(facts, s, t),
        (TypeKind::Dep(k, x, s), TypeKind::Dep(l, y, t)) => k == l && x == y && same_type(facts, s, t),
        _ => false,
    }
}

/// Checks every node; `outer` has the types of the variables that are bound outside, innermost last.
pub fn check(facts: &Facts, t: &Term, outer: &[Type]) -> Result<(), Diagnostic> {
    Checker { facts, scope: outer.to_vec() }.term(t)
}

struct Checker<'a> {
    facts: &'a Facts,
    scope: Vec<Type>,
}

impl Checker<'_> {
    fn wrong(&self, t: &Term, what: String) -> Result<(), Diagnostic> {
        Err(Diagnostic::error(codes::TYPE_CHANGED, format!("{what} in `{t}`")).at_places(t.places(), "here"))
    }

    fn term(&mut self, t: &Term) -> Result<(), Diagnostic> {
        match t.kind() {
            TermKind::Bound(i) => {
                let binder = self.scope.len().checked_sub(1 + *i as usize).map(|n| self.scope[n].clone());
                match binder {
                    Some(b) if same_type(self.facts, &b, t.ty()) => Ok(()),
                    Some(b) => self.wrong(t, format!("a variable of type `{b}` is used as `{}`", t.ty())),
                    None => self.wrong(t, "an unbound variable".to_string()),
                }
            }
            TermKind::Free(_) => Ok(()),
            TermKind::Lit(v) => {
                if t.ty().as_scalar() == Some(v.ty) {
                    Ok(())
                } else {
                    self.wrong(t, "a literal of another type".to_string())
                }
            }
            TermKind::Prim(p) => {
                let mut s = Solver::new(self.facts.clone());
                let ty = scheme(p, &mut s);
                match s.unify(&ty, t.ty()) {
                    Ok(()) if s.assumed.is_empty() => Ok(()),
                    Ok(()) => self.wrong(t, format!("`{}` relies on {}", p.name(), s.assumed[0].0)),
                    Err(m) => {
                        self.wrong(t, format!("`{}` does not have the type `{}` ({m:?})", p.name(), t.ty()))
                    }
                }
            }
            TermKind::Lam(_, b) => {
                let Some((from, to)) = t.ty().as_fun() else {
                    return self.wrong(t, "a lambda that is not a function".to_string());
                };
                if !same_type(self.facts, to, b.ty()) {
                    return self.wrong(t, format!("a body of type `{}` for `{to}`", b.ty()));
                }
                self.scope.push(from.clone());
                let out = self.term(b);
                self.scope.pop();
                out
            }
            TermKind::App(f, a) => {
                self.term(f)?;
                self.term(a)?;
                match f.ty().as_fun() {
                    Some((from, _)) if !same_type(self.facts, from, a.ty()) => {
                        self.wrong(t, format!("expected an argument of type `{from}`, found `{}`", a.ty()))
                    }
                    Some((_, to)) if !same_type(self.facts, to, t.ty()) => {
                        self.wrong(t, format!("the result has type `{to}`, not `{}`", t.ty()))
                    }
                    Some(_) => Ok(()),
                    None => self.wrong(t, "something that is not a function is applied".to_string()),
                }
            }
            TermKind::DepLam(_, _, b) => self.term(b),
            TermKind::DepApp(f, a) => {
                self.term(f)?;
                match f.ty().kind() {
                    TypeKind::Dep(_, x, to) if same_type(self.facts, &to.substitute(x, a), t.ty()) => Ok(()),
                    _ => self.wrong(t, "a wrong dependent application".to_string()),
                }
            }
        }
    }
}
