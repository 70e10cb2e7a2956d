//! Variables of terms: what binders count, shifted, replaced, asked for.

use super::*;

impl Term {
    /// Whether the variable of a binder occurs.
    pub fn mentions(&self, i: u32) -> bool {
        if self.0.loose <= i {
            return false;
        }
        match self.kind() {
            TermKind::Bound(j) => *j == i,
            TermKind::Lam(_, b) => b.mentions(i + 1),
            _ => self.children().into_iter().any(|c| c.mentions(i)),
        }
    }

    /// How often the variable of the innermost binder around it occurs.
    pub fn uses(&self) -> u32 {
        fn count(t: &Term, i: u32) -> u32 {
            match t.kind() {
                _ if t.0.loose <= i => 0,
                TermKind::Bound(j) => u32::from(*j == i),
                TermKind::Lam(_, b) => count(b, i + 1),
                _ => t.children().into_iter().map(|c| count(c, i)).sum(),
            }
        }
        count(self, 0)
    }

    /// Rebuilds every variable that is bound outside: `f` gets how many binders of the term it stands
    /// under, and its number as seen from the top.
    fn map_loose(&self, depth: u32, f: &mut dyn FnMut(u32, u32, &Term) -> Term) -> Term {
        if self.0.loose <= depth {
            return self.clone();
        }
        let t = match self.kind() {
            TermKind::Bound(j) => f(depth, j - depth, self),
            TermKind::Lam(x, b) => {
                let new = b.map_loose(depth + 1, f);
                Term::new(TermKind::Lam(x.clone(), new), self.ty().clone())
            }
            TermKind::App(g, a) => {
                let (g, a) = (g.map_loose(depth, f), a.map_loose(depth, f));
                Term::new(TermKind::App(g, a), self.ty().clone())
            }
            TermKind::DepLam(k, x, b) => {
                Term::new(TermKind::DepLam(*k, x.clone(), b.map_loose(depth, f)), self.ty().clone())
            }
            TermKind::DepApp(g, a) => {
                Term::new(TermKind::DepApp(g.map_loose(depth, f), a.clone()), self.ty().clone())
            }
            TermKind::Free(_) | TermKind::Lit(_) | TermKind::Prim(_) => return self.clone(),
        };
        t.placed_like(self)
    }

    /// For use under `by` more binders.
    pub fn shift(&self, by: u32) -> Term {
        self.shift_from(0, by)
    }

    /// As [`Term::shift`], but the first `from` variables bound outside stay.
    pub fn shift_from(&self, from: u32, by: u32) -> Term {
        if by == 0 || self.0.loose <= from {
            return self.clone();
        }
        self.map_loose(0, &mut |depth, i, t| {
            if i < from { t.clone() } else { Term::bound(depth + i + by, t.ty().clone()) }
        })
    }

    /// For use outside of the innermost binder around it; `None` if that binder's variable occurs.
    pub fn lower(&self) -> Option<Term> {
        if self.mentions(0) {
            return None;
        }
        Some(self.map_loose(0, &mut |depth, i, t| Term::bound(depth + i - 1, t.ty().clone())))
    }

    /// A body with its innermost variable replaced: what `(|x| body)(a)` means.
    pub fn open(&self, a: &Term) -> Term {
        self.map_loose(0, &mut |depth, i, t| {
            if i == 0 { a.shift(depth) } else { Term::bound(depth + i - 1, t.ty().clone()) }
        })
    }

    /// The two innermost variables around it exchanged.
    pub fn exchanged(&self) -> Term {
        self.map_loose(0, &mut |depth, i, t| {
            let j = match i {
                0 => 1,
                1 => 0,
                i => i,
            };
            Term::bound(depth + j, t.ty().clone())
        })
    }

    /// The term under `depth` binders as a function of the variables of these numbers, in this order; `None` if it
    /// mentions another one of the binders, or does not mention one of the variables.
    pub fn abstracted(&self, variables: &[u32], depth: u32) -> Option<Term> {
        let count = variables.len() as u32;
        let mut types = vec![None; variables.len()];
        let mut other = false;
        let out = self.map_loose(0, &mut |inside, i, t| {
            let new = match variables.iter().position(|v| *v == i) {
                Some(k) => {
                    types[k] = Some(t.ty().clone());
                    count - 1 - k as u32
                }
                None => {
                    other |= i < depth;
                    i.saturating_sub(depth) + count
                }
            };
            Term::bound(inside + new, t.ty().clone())
        });
        let types = types.into_iter().collect::<Option<Vec<_>>>().filter(|_| !other)?;
        Some(types.into_iter().rev().fold(out, |b, ty| Term::lam("x", ty, b)))
    }

    /// `f(a)`, computed if `f` is a lambda.
    pub fn apply(f: &Term, a: &Term) -> Term {
        match f.kind() {
            TermKind::Lam(_, b) => b.open(a),
            _ => Term::app(f.clone(), a.clone()),
        }
    }

    /// As [`Term::apply`], with several arguments.
    pub fn apply_all(f: &Term, args: &[Term]) -> Term {
        args.iter().fold(f.clone(), |f, a| Term::apply(&f, a))
    }

    /// Free variables replaced (closed terms go in as they are; others must not be bound here).
    pub fn replace_free(&self, f: &dyn Fn(&str) -> Option<Term>) -> Term {
        fn go(t: &Term, depth: u32, f: &dyn Fn(&str) -> Option<Term>) -> Term {
            match t.kind() {
                TermKind::Free(n) => f(n).map_or_else(|| t.clone(), |new| new.shift(depth)),
                TermKind::Bound(_) | TermKind::Lit(_) | TermKind::Prim(_) => t.clone(),
                _ => {
                    let mut out = t.clone();
                    let under = u32::from(matches!(t.kind(), TermKind::Lam(..)));
                    for (n, c) in t.children().into_iter().enumerate() {
                        let new = go(c, depth + under, f);
                        if !new.ptr_eq(c) {
                            out = out.with_child(n, new);
                        }
                    }
                    out
                }
            }
        }
        go(self, 0, f)
    }

    /// Names of the free variables, each once, in order.
    pub fn free_names(&self) -> Vec<Name> {
        let mut out = Vec::new();
        self.any(&mut |t| {
            if let TermKind::Free(n) = t.kind() {
                out.push(n.clone());
            }
            false
        });
        out.sort();
        out.dedup();
        out
    }
}
