//! Terms: immutable, shared, typed at every node.
//!
//! Variables that are bound inside a term are numbers that count binders outwards; names of binders are
//! only hints for printing. So terms that differ in names of bound variables are equal data with equal
//! hashes, nothing can be captured, no counter of fresh names is needed, and the same rewrite gives the same
//! term in every process. Parameters of the program are free variables with names. Variables of dependent
//! functions are sizes and types with names of their own.
//!
//! Types hold modulo what is known of sizes: a node's type may say `32*(N // 32)` where its context says
//! `N`; [`crate::check`] compares them under the facts of the program.

mod variables;

use crate::hash::Mix;
use crate::prim::{FoldKind, MapKind, Prim};
use crate::types::{DepArg, Kind, Type, TypeKind, substitute_nat};
use lathe_diagnostics::Places;
use lathe_ir::Name;
use lathe_ir::scalar::ScalarValue;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Clone)]
pub struct Term(Arc<Node>);

struct Node {
    kind: TermKind,
    ty: Type,
    places: Places,
    hash: u64,
    /// One more than the largest number of a variable that is bound outside; 0: closed.
    loose: u32,
    /// Number of nodes.
    size: u32,
    /// Nodes from here to the farthest leaf.
    height: u32,
}

#[derive(Clone)]
pub enum TermKind {
    /// The variable of the binder so many binders further out.
    Bound(u32),
    /// A parameter of the program.
    Free(Name),
    /// The name is a hint.
    Lam(Name, Term),
    App(Term, Term),
    DepLam(Kind, Name, Term),
    DepApp(Term, DepArg),
    Lit(ScalarValue),
    Prim(Prim),
}

impl Term {
    fn new(kind: TermKind, ty: Type) -> Term {
        let mut h = Mix::default();
        let (loose, size) = match &kind {
            TermKind::Bound(i) => {
                (0u8, i, &ty).hash(&mut h);
                (i + 1, 1)
            }
            TermKind::Free(n) => {
                (1u8, n).hash(&mut h);
                (0, 1)
            }
            TermKind::Lam(_, b) => {
                (2u8, b.0.hash, &ty).hash(&mut h);
                (b.0.loose.saturating_sub(1), b.0.size.saturating_add(1))
            }
            TermKind::App(f, a) => {
                (3u8, f.0.hash, a.0.hash).hash(&mut h);
                (f.0.loose.max(a.0.loose), f.0.size.saturating_add(a.0.size).saturating_add(1))
            }
            TermKind::DepLam(k, x, b) => {
                (4u8, k, x, b.0.hash).hash(&mut h);
                (b.0.loose, b.0.size.saturating_add(1))
            }
            TermKind::DepApp(f, a) => {
                (5u8, f.0.hash, a).hash(&mut h);
                (f.0.loose, f.0.size.saturating_add(1))
            }
            TermKind::Lit(v) => {
                (6u8, v.ty, v.bits).hash(&mut h);
                (0, 1)
            }
            TermKind::Prim(p) => {
                (7u8, p, &ty).hash(&mut h);
                (0, 1)
            }
        };
        let height = 1 + match &kind {
            TermKind::Lam(_, b) | TermKind::DepLam(_, _, b) | TermKind::DepApp(b, _) => b.0.height,
            TermKind::App(f, a) => f.0.height.max(a.0.height),
            _ => 0,
        };
        Term(Arc::new(Node { kind, ty, places: Places::none(), hash: h.finish(), loose, size, height }))
    }

    pub fn bound(i: u32, ty: Type) -> Term {
        Term::new(TermKind::Bound(i), ty)
    }

    pub fn free(name: &str, ty: Type) -> Term {
        Term::new(TermKind::Free(Name::from(name)), ty)
    }

    /// `body` has its variable as number 0.
    pub fn lam(hint: &str, param: Type, body: Term) -> Term {
        let ty = Type::fun(param, body.ty().clone());
        Term::new(TermKind::Lam(Name::from(hint), body), ty)
    }

    /// # Panics
    /// When `f` is not a function: callers build from terms whose types they looked at.
    pub fn app(f: Term, a: Term) -> Term {
        let (_, to) = f.ty().as_fun().expect("a function is applied");
        let ty = to.clone();
        Term::new(TermKind::App(f, a), ty)
    }

    pub fn apps(f: Term, args: impl IntoIterator<Item = Term>) -> Term {
        args.into_iter().fold(f, Term::app)
    }

    pub fn dep_lam(kind: Kind, x: &str, body: Term) -> Term {
        let ty = Type::new(TypeKind::Dep(kind, Name::from(x), body.ty().clone()));
        Term::new(TermKind::DepLam(kind, Name::from(x), body), ty)
    }

    /// `None` if `f` takes no such argument.
    pub fn dep_app(f: Term, arg: DepArg) -> Option<Term> {
        let TypeKind::Dep(kind, x, to) = f.ty().kind() else { return None };
        if (*kind == Kind::Nat) != matches!(arg, DepArg::Nat(_)) {
            return None;
        }
        let ty = to.substitute(x, &arg);
        Some(Term::new(TermKind::DepApp(f, arg), ty))
    }

    pub fn lit(v: ScalarValue) -> Term {
        Term::new(TermKind::Lit(v), v.ty.into())
    }

    /// The primitive at one instance of its type.
    pub fn prim(p: Prim, ty: Type) -> Term {
        Term::new(TermKind::Prim(p), ty)
    }

    pub fn kind(&self) -> &TermKind {
        &self.0.kind
    }

    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    pub fn places(&self) -> &Places {
        &self.0.places
    }

    /// The same term at other source places.
    pub fn with_places(&self, places: Places) -> Term {
        if self.0.places == places {
            return self.clone();
        }
        let n = &self.0;
        let (kind, ty) = (n.kind.clone(), n.ty.clone());
        let (loose, size, height) = (n.loose, n.size, n.height);
        Term(Arc::new(Node { kind, ty, places, hash: n.hash, loose, size, height }))
    }

    /// The places of another term, if this one has none.
    pub fn placed_like(self, o: &Term) -> Term {
        if self.0.places.spans().is_empty() { self.with_places(o.0.places.clone()) } else { self }
    }

    /// Equal up to names of bound variables: equal terms have equal hashes, in every process.
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Nodes from here to the farthest leaf.
    pub fn height(&self) -> u32 {
        self.0.height
    }

    pub fn ptr_eq(&self, o: &Term) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }

    /// Identity of the shared node, for memo tables that live no longer than the term.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    pub fn is_closed(&self) -> bool {
        self.0.loose == 0
    }

    pub fn as_lam(&self) -> Option<&Term> {
        match self.kind() {
            TermKind::Lam(_, b) => Some(b),
            _ => None,
        }
    }

    pub fn as_app(&self) -> Option<(&Term, &Term)> {
        match self.kind() {
            TermKind::App(f, a) => Some((f, a)),
            _ => None,
        }
    }

    pub fn as_prim(&self) -> Option<&Prim> {
        match self.kind() {
            TermKind::Prim(p) => Some(p),
            _ => None,
        }
    }

    /// The applied primitive and its arguments so far: `map(f)(xs)` is `map` with `f, xs`.
    pub fn spine(&self) -> Option<(&Prim, Vec<&Term>)> {
        let mut args = Vec::new();
        let mut t = self;
        loop {
            match t.kind() {
                TermKind::App(f, a) => {
                    args.push(a);
                    t = f;
                }
                TermKind::Prim(p) => {
                    args.reverse();
                    return Some((p, args));
                }
                _ => return None,
            }
        }
    }

    /// A saturated `map` of any kind: its kind, function, and argument.
    pub fn as_map(&self) -> Option<(&MapKind, &Term, &Term)> {
        let (mf, xs) = self.as_app()?;
        let (m, f) = mf.as_app()?;
        match m.as_prim()? {
            Prim::Map(k) => Some((k, f, xs)),
            _ => None,
        }
    }

    /// A saturated reduction: primitive, operator, start and argument.
    pub fn as_reduce(&self) -> Option<(FoldKind, &Term, &Term, &Term)> {
        let (rest, xs) = self.as_app()?;
        let (rest, z) = rest.as_app()?;
        let (r, op) = rest.as_app()?;
        match r.as_prim()? {
            Prim::Reduce(k, _) => Some((*k, op, z, xs)),
            _ => None,
        }
    }

    /// The argument of a saturated primitive of one argument that `is` accepts.
    pub fn as_unary(&self, is: impl Fn(&Prim) -> bool) -> Option<&Term> {
        let (p, a) = self.as_app()?;
        is(p.as_prim()?).then_some(a)
    }

    /// Direct sub-terms; a path is a list of positions in these lists. Of an application: function, argument.
    pub fn children(&self) -> Vec<&Term> {
        match self.kind() {
            TermKind::Lam(_, b) | TermKind::DepLam(_, _, b) => vec![b],
            TermKind::App(f, a) => vec![f, a],
            TermKind::DepApp(f, _) => vec![f],
            _ => vec![],
        }
    }

    pub fn child(&self, n: usize) -> Option<&Term> {
        match (self.kind(), n) {
            (TermKind::Lam(_, b) | TermKind::DepLam(_, _, b), 0) => Some(b),
            (TermKind::App(f, _) | TermKind::DepApp(f, _), 0) => Some(f),
            (TermKind::App(_, a), 1) => Some(a),
            _ => None,
        }
    }

    /// The same node over another child of the same type (modulo facts about sizes).
    pub fn with_child(&self, n: usize, new: Term) -> Term {
        let t = match (self.kind(), n) {
            (TermKind::Lam(x, b), 0) => {
                // The type of the body may be spelled otherwise now.
                let from = self.ty().as_fun().map(|f| f.0.clone());
                match from {
                    Some(_) if b.ty() == new.ty() => {
                        Term::new(TermKind::Lam(x.clone(), new), self.ty().clone())
                    }
                    Some(from) => Term::lam(x, from, new),
                    None => return self.clone(),
                }
            }
            (TermKind::DepLam(k, x, _), 0) => Term::dep_lam(*k, x, new),
            (TermKind::App(_, a), 0) => Term::app(new, a.clone()),
            (TermKind::App(f, _), 1) => Term::new(TermKind::App(f.clone(), new), self.ty().clone()),
            (TermKind::DepApp(_, a), 0) => Term::new(TermKind::DepApp(new, a.clone()), self.ty().clone()),
            _ => return self.clone(),
        };
        t.with_places(self.places().clone())
    }

    /// The sub-term at a path.
    pub fn at(&self, path: &[usize]) -> Option<&Term> {
        path.iter().try_fold(self, |t, n| t.child(*n))
    }

    /// Whether `f` accepts the term or a sub-term.
    pub fn any(&self, f: &mut dyn FnMut(&Term) -> bool) -> bool {
        f(self) || self.children().into_iter().any(|c| c.any(f))
    }

    /// All types and sizes rebuilt.
    pub fn map_types(&self, ty: &mut dyn FnMut(&Type) -> Type, nat: &mut dyn FnMut(&Nat) -> Nat) -> Term {
        let new = ty(self.ty());
        let kind = match self.kind() {
            TermKind::Prim(p) => TermKind::Prim(p.map_nats(nat)),
            TermKind::Lam(x, b) => TermKind::Lam(x.clone(), b.map_types(ty, nat)),
            TermKind::App(f, a) => TermKind::App(f.map_types(ty, nat), a.map_types(ty, nat)),
            TermKind::DepLam(k, x, b) => TermKind::DepLam(*k, x.clone(), b.map_types(ty, nat)),
            TermKind::DepApp(f, a) => {
                let a = match a {
                    DepArg::Nat(n) => DepArg::Nat(nat(n)),
                    DepArg::Data(t) => DepArg::Data(ty(t)),
                };
                TermKind::DepApp(f.map_types(ty, nat), a)
            }
            k => k.clone(),
        };
        Term::new(kind, new).with_places(self.places().clone())
    }

    /// A size variable replaced everywhere.
    pub fn substitute_size(&self, x: &str, n: &Nat) -> Term {
        let mut one = |m: &Nat| substitute_nat(m, x, n);
        self.map_types(&mut |t| t.map_sizes(&mut |m| substitute_nat(m, x, n)), &mut one)
    }
}

use crate::nat::Nat;

impl PartialEq for Term {
    fn eq(&self, o: &Term) -> bool {
        if self.ptr_eq(o) {
            return true;
        }
        if self.0.hash != o.0.hash || self.0.size != o.0.size {
            return false;
        }
        match (self.kind(), o.kind()) {
            (TermKind::Bound(a), TermKind::Bound(b)) => a == b && self.ty() == o.ty(),
            (TermKind::Free(a), TermKind::Free(b)) => a == b,
            (TermKind::Lam(_, a), TermKind::Lam(_, b)) => self.ty() == o.ty() && a == b,
            (TermKind::App(f, a), TermKind::App(g, b)) => f == g && a == b,
            (TermKind::DepLam(k, x, a), TermKind::DepLam(l, y, b)) => k == l && x == y && a == b,
            (TermKind::DepApp(f, a), TermKind::DepApp(g, b)) => f == g && a == b,
            (TermKind::Lit(a), TermKind::Lit(b)) => a == b,
            (TermKind::Prim(a), TermKind::Prim(b)) => a == b && self.ty() == o.ty(),
            _ => false,
        }
    }
}
impl Eq for Term {}
impl Hash for Term {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash);
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            TermKind::Bound(i) => write!(f, "#{i}"),
            TermKind::Free(n) => f.write_str(n),
            TermKind::Lam(_, b) => write!(f, "λ.{b:?}"),
            TermKind::App(g, a) => write!(f, "{g:?}({a:?})"),
            TermKind::DepLam(_, x, b) => write!(f, "Λ{x}.{b:?}"),
            TermKind::DepApp(g, a) => write!(f, "{g:?}<{a}>"),
            TermKind::Lit(v) => write!(f, "{v}"),
            TermKind::Prim(p) => {
                f.write_str(p.name())?;
                p.nats().into_iter().try_for_each(|n| write!(f, ".{n}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::Scalar;

    fn f32() -> Type {
        Type::scalar(Scalar::F32)
    }

    fn var(i: u32) -> Term {
        Term::bound(i, f32())
    }

    #[test]
    fn names_of_bound_variables_do_not_matter() {
        assert_eq!(Term::lam("x", f32(), var(0)), Term::lam("y", f32(), var(0)));
        assert_ne!(Term::lam("x", f32(), var(0)), Term::lam("x", f32(), var(1)));
    }

    #[test]
    fn item_22_substitution_captures_nothing() {
        // (|x| |y| x)(z) under a binder of z: |y| z.
        let k = Term::lam("x", f32(), Term::lam("y", f32(), var(1)));
        let applied = Term::apply(&k, &var(0));
        assert_eq!(applied, Term::lam("y", f32(), var(1)));
        assert!(applied.mentions(0) && !applied.is_closed());
        assert_eq!(applied.lower(), None);
        assert_eq!(applied.shift(2), Term::lam("y", f32(), var(3)));
        assert_eq!(applied.shift(1).lower(), Some(applied));
    }
}
