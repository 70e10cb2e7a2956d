//! Types of terms: data (scalars, vectors, arrays, tuples, indices) and functions, on two levels: data
//! never holds a function, so nothing that is stored in memory can be one.

use crate::hash::hash_of;
use crate::nat::{Atom, Nat};
use lathe_ir::{Name, Scalar};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A shared type; clones are cheap.
#[derive(Clone)]
pub struct Type(Arc<Node>);

struct Node {
    kind: TypeKind,
    hash: u64,
}

/// What a dependent function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Nat,
    Data,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// To be found by inference.
    Meta(u32),
    /// A data type that a dependent function takes.
    Var(Name),
    Scalar(Scalar),
    /// A complex number with such parts. Only in what is declared and inferred: terms have pairs ([`Type::in_parts`]).
    Complex(Type),
    /// `n` lanes that one SIMD operation works on. Elements may be tuples: then each component has lanes.
    Vector(Nat, Type),
    Array(Nat, Type),
    Tuple(Vec<Type>),
    /// A number below the size.
    Index(Nat),
    Fun(Type, Type),
    /// `(x: nat) -> T` and `(d: data) -> T`.
    Dep(Kind, Name, Type),
}

impl Type {
    pub fn new(kind: TypeKind) -> Type {
        let hash = hash_of(&kind);
        Type(Arc::new(Node { kind, hash }))
    }

    pub fn kind(&self) -> &TypeKind {
        &self.0.kind
    }

    pub fn scalar(s: Scalar) -> Type {
        Type::new(TypeKind::Scalar(s))
    }

    /// A complex number whose parts have this type.
    pub fn complex(part: Type) -> Type {
        Type::new(TypeKind::Complex(part))
    }

    pub fn array(n: Nat, elem: Type) -> Type {
        Type::new(TypeKind::Array(n, elem))
    }

    /// `sizes[0] . sizes[1] . … . elem`
    pub fn nested(sizes: &[Nat], elem: Type) -> Type {
        sizes.iter().rev().fold(elem, |t, n| Type::array(n.clone(), t))
    }

    pub fn vector(n: Nat, elem: Type) -> Type {
        Type::new(TypeKind::Vector(n, elem))
    }

    pub fn tuple(parts: Vec<Type>) -> Type {
        Type::new(TypeKind::Tuple(parts))
    }

    pub fn pair(a: Type, b: Type) -> Type {
        Type::tuple(vec![a, b])
    }

    pub fn index(n: Nat) -> Type {
        Type::new(TypeKind::Index(n))
    }

    pub fn fun(from: Type, to: Type) -> Type {
        Type::new(TypeKind::Fun(from, to))
    }

    /// `a -> b -> … -> to`
    pub fn funs(from: impl IntoIterator<Item = Type, IntoIter: DoubleEndedIterator>, to: Type) -> Type {
        from.into_iter().rev().fold(to, |t, a| Type::fun(a, t))
    }

    pub fn as_fun(&self) -> Option<(&Type, &Type)> {
        match self.kind() {
            TypeKind::Fun(a, b) => Some((a, b)),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<(&Nat, &Type)> {
        match self.kind() {
            TypeKind::Array(n, t) => Some((n, t)),
            _ => None,
        }
    }

    pub fn as_scalar(&self) -> Option<Scalar> {
        match self.kind() {
            TypeKind::Scalar(s) => Some(*s),
            _ => None,
        }
    }

    /// Number of dimensions of arrays and vectors around the element.
    pub fn rank(&self) -> usize {
        match self.kind() {
            TypeKind::Array(_, t) => 1 + t.rank(),
            _ => 0,
        }
    }

    /// May be stored: no function, however deep.
    pub fn is_data(&self) -> bool {
        !matches!(self.kind(), TypeKind::Fun(..) | TypeKind::Dep(..))
    }

    /// One machine value per element: scalars, indices, and tuples of such.
    pub fn is_element(&self) -> bool {
        match self.kind() {
            TypeKind::Scalar(_) | TypeKind::Complex(_) | TypeKind::Index(_) => true,
            TypeKind::Tuple(ts) => ts.iter().all(Type::is_element),
            _ => false,
        }
    }
    pub fn has_meta(&self) -> bool {
        match self.kind() {
            TypeKind::Meta(_) => true,
            TypeKind::Var(_) | TypeKind::Scalar(_) => false,
            TypeKind::Vector(n, t) | TypeKind::Array(n, t) => n.has_meta() || t.has_meta(),
            TypeKind::Complex(t) => t.has_meta(),
            TypeKind::Tuple(ts) => ts.iter().any(Type::has_meta),
            TypeKind::Index(n) => n.has_meta(),
            TypeKind::Fun(a, b) => a.has_meta() || b.has_meta(),
            TypeKind::Dep(_, _, t) => t.has_meta(),
        }
    }

    /// Whether a type of this name is left open in it.
    pub fn mentions(&self, var: &str) -> bool {
        let mut found = false;
        self.map(&mut Nat::clone, &mut |leaf| {
            found |= matches!(leaf.kind(), TypeKind::Var(v) if &**v == var);
            None
        });
        found
    }

    /// Rebuilt with other sizes and other metas or variables (`None` keeps one).
    pub fn map(&self, nat: &mut dyn FnMut(&Nat) -> Nat, leaf: &mut dyn FnMut(&Type) -> Option<Type>) -> Type {
        let kind = match self.kind() {
            TypeKind::Meta(_) | TypeKind::Var(_) => return leaf(self).unwrap_or_else(|| self.clone()),
            TypeKind::Scalar(_) => return self.clone(),
            TypeKind::Complex(t) => TypeKind::Complex(t.map(nat, leaf)),
            TypeKind::Vector(n, t) => TypeKind::Vector(nat(n), t.map(nat, leaf)),
            TypeKind::Array(n, t) => TypeKind::Array(nat(n), t.map(nat, leaf)),
            TypeKind::Tuple(ts) => TypeKind::Tuple(ts.iter().map(|t| t.map(nat, leaf)).collect()),
            TypeKind::Index(n) => TypeKind::Index(nat(n)),
            TypeKind::Fun(a, b) => TypeKind::Fun(a.map(nat, leaf), b.map(nat, leaf)),
            TypeKind::Dep(k, x, t) => TypeKind::Dep(*k, x.clone(), t.map(nat, leaf)),
        };
        if kind == *self.kind() { self.clone() } else { Type::new(kind) }
    }

    /// With complex numbers as pairs of their parts, which is what terms work on.
    pub fn in_parts(&self) -> Type {
        let kind = match self.kind() {
            TypeKind::Complex(t) => TypeKind::Tuple(vec![t.clone(), t.clone()]),
            TypeKind::Vector(n, t) => TypeKind::Vector(n.clone(), t.in_parts()),
            TypeKind::Array(n, t) => TypeKind::Array(n.clone(), t.in_parts()),
            TypeKind::Tuple(ts) => TypeKind::Tuple(ts.iter().map(Type::in_parts).collect()),
            TypeKind::Fun(a, b) => TypeKind::Fun(a.in_parts(), b.in_parts()),
            TypeKind::Dep(k, x, t) => TypeKind::Dep(*k, x.clone(), t.in_parts()),
            TypeKind::Meta(_) | TypeKind::Var(_) | TypeKind::Scalar(_) | TypeKind::Index(_) => {
                return self.clone();
            }
        };
        if kind == *self.kind() { self.clone() } else { Type::new(kind) }
    }

    /// Sizes replaced throughout.
    pub fn map_sizes(&self, nat: &mut dyn FnMut(&Nat) -> Nat) -> Type {
        self.map(nat, &mut |_| None)
    }

    /// The type that a dependent function of this body has at an argument.
    pub fn substitute(&self, x: &str, arg: &DepArg) -> Type {
        match arg {
            DepArg::Nat(n) => self.map_sizes(&mut |m| substitute_nat(m, x, n)),
            DepArg::Data(t) => self.map(&mut Nat::clone, &mut |leaf| match leaf.kind() {
                TypeKind::Var(v) if &**v == x => Some(t.clone()),
                _ => None,
            }),
        }
    }

    /// Sizes in the order in which they are written.
    pub fn sizes(&self) -> Vec<Nat> {
        let mut out = Vec::new();
        self.map_sizes(&mut |n| {
            out.push(n.clone());
            n.clone()
        });
        out
    }
}

pub(crate) fn substitute_nat(m: &Nat, x: &str, n: &Nat) -> Nat {
    m.replace(&mut |a| matches!(a, Atom::Var(v) if &**v == x).then(|| n.clone()))
}

/// The argument of a dependent function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DepArg {
    Nat(Nat),
    Data(Type),
}

impl fmt::Display for DepArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DepArg::Nat(n) => write!(f, "{n}"),
            DepArg::Data(t) => write!(f, "{t}"),
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, o: &Type) -> bool {
        Arc::ptr_eq(&self.0, &o.0) || (self.0.hash == o.0.hash && self.0.kind == o.0.kind)
    }
}
impl Eq for Type {}
impl Hash for Type {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash);
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::scalar(s)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            TypeKind::Meta(n) => write!(f, "?t{n}"),
            TypeKind::Var(n) => f.write_str(n),
            TypeKind::Scalar(s) => write!(f, "{s}"),
            TypeKind::Complex(t) => match t.as_scalar().and_then(lathe_ir::Type::complex) {
                Some(named) => write!(f, "{named}"),
                None => write!(f, "complex<{t}>"),
            },
            TypeKind::Vector(n, t) => write!(f, "vector<{t}, {n}>"),
            TypeKind::Index(n) => write!(f, "idx<{n}>"),
            TypeKind::Tuple(ts) => {
                f.write_str("(")?;
                for (i, t) in ts.iter().enumerate() {
                    write!(f, "{}{t}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(if ts.len() == 1 { ",)" } else { ")" })
            }
            TypeKind::Array(..) => {
                let mut sizes = Vec::new();
                let mut t = self;
                while let TypeKind::Array(n, elem) = t.kind() {
                    sizes.push(n.to_string());
                    t = elem;
                }
                match t.kind() {
                    TypeKind::Fun(..) | TypeKind::Dep(..) => write!(f, "({t})[{}]", sizes.join(", ")),
                    _ => write!(f, "{t}[{}]", sizes.join(", ")),
                }
            }
            TypeKind::Fun(a, b) => match a.kind() {
                TypeKind::Fun(..) | TypeKind::Dep(..) => write!(f, "({a}) -> {b}"),
                _ => write!(f, "{a} -> {b}"),
            },
            TypeKind::Dep(k, x, t) => {
                let kind = if *k == Kind::Nat { "nat" } else { "data" };
                write!(f, "({x}: {kind}) -> {t}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_outermost_size_first() {
        let f32 = Type::scalar(Scalar::F32);
        let rows = Type::nested(&[Nat::var("M"), Nat::var("K")], f32.clone());
        assert_eq!(rows.to_string(), "f32[M, K]");
        let pairs = Type::array(Nat::var("N"), Type::pair(f32.clone(), rows.clone()));
        assert_eq!(pairs.to_string(), "(f32, f32[M, K])[N]");
        let f = Type::fun(Type::fun(f32.clone(), f32.clone()), rows.clone());
        assert_eq!(f.to_string(), "(f32 -> f32) -> f32[M, K]");
        assert!(!f.is_data() && pairs.is_data() && !pairs.is_element());
        assert_eq!(rows.substitute("M", &DepArg::Nat(Nat::constant(3))).to_string(), "f32[3, K]");
    }
}
