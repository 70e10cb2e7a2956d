//! Values of terms over variables (normalization by evaluation): scalars are formulas, arrays are functions of their
//! position, and what nothing is known of is a key.

use super::indices::Indices;
use crate::facts::Fact;
use crate::nat::Nat;
use crate::types::{Type, TypeKind};
use lathe_ir::{Name, Scalar};
use lathe_prove::{Formulas, Id, Normal, Op};
use std::collections::HashMap;
use std::rc::Rc;

/// Why there is no value, or none yet.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// Beyond what is reasoned about.
    Unknown(&'static str),
    /// It depends on whether this holds.
    Split(Fact),
    /// An element of an accumulator that a step must not see.
    Hidden,
}

pub(super) type Out<T = Sym> = Result<T, Stop>;
pub(super) type At = Rc<dyn Fn(&mut World, &Nat) -> Out>;
pub(super) type Call = Rc<dyn Fn(&mut World, Sym) -> Out>;

#[derive(Clone)]
pub(super) enum Sym {
    Scalar(Id),
    /// A position: of type `idx<n>`.
    Index(Nat),
    Tuple(Vec<Sym>),
    Array(Nat, At),
    Fun(Call),
    /// Of a type of which nothing is known.
    Key(u32),
}

/// What a key stands for. Equal keys are equal values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    /// A metavariable.
    Meta(Name),
    Apply(u32, Vec<Quoted>),
    At(u32, Nat),
    Part(u32, usize),
    /// A position as a number.
    Nat(Nat),
    /// A number as a position below a size.
    Position(Id, Nat),
    Select(Id, Quoted, Quoted),
    /// The accumulator of the fold at a depth.
    Accumulator(u32),
    /// So many steps from a start; the step is over the accumulator and the position of its depth.
    Fold(Nat, Quoted, Quoted),
    /// The parameter of a function at a depth.
    Parameter(u32),
}

/// A value as data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Quoted {
    Scalar(Id),
    Index(Nat),
    Tuple(Vec<Quoted>),
    Array(Nat, Box<Quoted>),
    Fun(Box<Quoted>),
    Key(u32),
}

/// A fold, to be taken apart again.
#[derive(Clone)]
pub(super) struct Fold {
    pub count: Nat,
    pub init: Quoted,
    pub step: Step,
}

/// From an accumulator and a position.
pub(super) type Step = Rc<dyn Fn(&mut World, Sym, &Nat) -> Out>;

/// Formulas, keys, and what is known of positions.
pub(super) struct World {
    pub f: Formulas,
    pub normal: Normal,
    pub indices: Indices,
    keys: Vec<Key>,
    known: HashMap<Key, u32>,
    pub folds: HashMap<u32, Fold>,
    pub depth: u32,
}

pub(super) fn unknown<T>(why: &'static str) -> Out<T> {
    Err(Stop::Unknown(why))
}

pub(super) fn array(size: Nat, at: impl Fn(&mut World, &Nat) -> Out + 'static) -> Sym {
    Sym::Array(size, Rc::new(at))
}

impl World {
    pub fn new(indices: Indices) -> World {
        World {
            f: Formulas::default(),
            normal: Normal::default(),
            indices,
            keys: Vec::new(),
            known: HashMap::new(),
            folds: HashMap::new(),
            depth: 0,
        }
    }

    pub fn spend(&mut self) -> Out<()> {
        if self.indices.spend() { Ok(()) } else { unknown("the terms are too large") }
    }

    pub fn key(&mut self, key: Key) -> u32 {
        if let Some(k) = self.known.get(&key) {
            return *k;
        }
        let k = self.keys.len() as u32;
        self.keys.push(key.clone());
        self.known.insert(key, k);
        k
    }

    pub fn meaning(&self, key: u32) -> &Key {
        &self.keys[key as usize]
    }

    /// The value of a metavariable of a type.
    pub fn meta(&mut self, name: &Name, ty: &Type) -> Sym {
        let key = self.key(Key::Meta(name.clone()));
        self.reflect(key, ty)
    }

    /// A key as a value of a type: tuples and arrays part by part, functions by what they are applied to.
    pub fn reflect(&mut self, key: u32, ty: &Type) -> Sym {
        match ty.kind() {
            TypeKind::Scalar(s) => Sym::Scalar(self.f.var(key, *s)),
            TypeKind::Index(n) => Sym::Index(self.indices.range(&format!("@{key}"), n)),
            TypeKind::Tuple(ts) => {
                let part = |(n, t): (usize, &Type)| {
                    let k = self.key(Key::Part(key, n));
                    self.reflect(k, t)
                };
                Sym::Tuple(ts.iter().enumerate().map(part).collect())
            }
            TypeKind::Array(n, t) | TypeKind::Vector(n, t) => {
                let t = t.clone();
                array(n.clone(), move |w, i| {
                    let i = w.indices.normal(i);
                    let k = w.key(Key::At(key, i));
                    Ok(w.reflect(k, &t))
                })
            }
            TypeKind::Fun(..) => self.reflect_function(key, Vec::new(), ty),
            _ => Sym::Key(key),
        }
    }

    fn reflect_function(&mut self, key: u32, args: Vec<(Sym, Type)>, ty: &Type) -> Sym {
        let Some((from, to)) = ty.as_fun().map(|(a, b)| (a.clone(), b.clone())) else {
            return Sym::Key(key);
        };
        Sym::Fun(Rc::new(move |w, x| {
            let mut args = args.clone();
            args.push((x, from.clone()));
            if to.as_fun().is_some() {
                return Ok(w.reflect_function(key, args, &to));
            }
            w.applied(key, &args, &to)
        }))
    }

    /// A function of which nothing is known, at arguments.
    fn applied(&mut self, key: u32, args: &[(Sym, Type)], to: &Type) -> Out {
        let quoted = args.iter().map(|(x, t)| self.quote(x, t)).collect::<Out<Vec<_>>>()?;
        let key = self.key(Key::Apply(key, quoted));
        Ok(self.reflect(key, to))
    }

    /// A position as a formula.
    pub fn number(&mut self, n: &Nat) -> Id {
        let n = self.indices.normal(n);
        match n.as_constant() {
            Some(v) => self.f.int(Scalar::Index, v),
            None => {
                let key = self.key(Key::Nat(n));
                self.f.var(key, Scalar::Index)
            }
        }
    }

    pub fn at(&mut self, xs: &Sym, i: &Nat) -> Out {
        self.spend()?;
        match xs {
            Sym::Array(_, at) => {
                let at = at.clone();
                at(self, i)
            }
            _ => unknown("no array"),
        }
    }

    pub fn call(&mut self, f: &Sym, x: Sym) -> Out {
        self.spend()?;
        match f {
            Sym::Fun(f) => {
                let f = f.clone();
                f(self, x)
            }
            _ => unknown("no function"),
        }
    }

    pub fn call2(&mut self, f: &Sym, x: Sym, y: Sym) -> Out {
        let g = self.call(f, x)?;
        self.call(&g, y)
    }

    /// A value as data: variables that are bound inside are named by their depth.
    pub fn quote(&mut self, x: &Sym, ty: &Type) -> Out<Quoted> {
        self.spend()?;
        Ok(match (x, ty.kind()) {
            (Sym::Scalar(id), _) => Quoted::Scalar(self.normal.of(&mut self.f, *id)),
            (Sym::Index(n), _) => Quoted::Index(self.indices.normal(n)),
            (Sym::Key(k), _) => Quoted::Key(*k),
            (Sym::Tuple(parts), TypeKind::Tuple(ts)) => {
                let all = parts.iter().zip(ts).map(|(x, t)| self.quote(x, t));
                Quoted::Tuple(all.collect::<Out<Vec<_>>>()?)
            }
            (Sym::Array(..), TypeKind::Array(n, t) | TypeKind::Vector(n, t)) => {
                let n = self.indices.normal(n);
                let body = self.below(&n, |w, i| {
                    let e = w.at(x, i)?;
                    w.quote(&e, t)
                })?;
                Quoted::Array(n, Box::new(body))
            }
            (Sym::Fun(_), TypeKind::Fun(from, to)) => {
                self.depth += 1;
                let key = self.key(Key::Parameter(self.depth));
                let param = self.reflect(key, from);
                let body = self.call(x, param).and_then(|y| self.quote(&y, to));
                self.depth -= 1;
                Quoted::Fun(Box::new(body?))
            }
            _ => return unknown("a value without a known form"),
        })
    }

    /// Under one more variable below a size.
    pub fn below<T>(&mut self, size: &Nat, f: impl FnOnce(&mut World, &Nat) -> Out<T>) -> Out<T> {
        self.depth += 1;
        let before = self.indices.clone();
        let i = self.indices.range(&format!("%{}", self.depth), size);
        let out = f(self, &i);
        self.indices = before;
        self.depth -= 1;
        out
    }

    /// Whether one position is at most another.
    pub fn at_most(&mut self, a: &Nat, b: &Nat) -> Out<bool> {
        let (a, b) = (self.indices.normal(a), self.indices.normal(b));
        if self.indices.at_most(&a, &b) {
            return Ok(true);
        }
        if self.indices.at_most(&b.plus(&Nat::constant(1)), &a) {
            return Ok(false);
        }
        let local = |n: &Nat| n.vars().iter().any(|v| v.starts_with(['%', '@']));
        if local(&a) || local(&b) {
            return unknown("which case it is depends on a position inside");
        }
        Err(Stop::Split(Fact::AtMost(a, b)))
    }

    /// Whether a function is applied just once.
    pub fn is_applied_once(&self, function: u32) -> bool {
        self.keys.iter().filter(|k| matches!(k, Key::Apply(f, _) if *f == function)).count() == 1
    }

    /// Whether a key occurs in a value.
    pub fn mentions(&self, q: &Quoted, key: u32) -> bool {
        match q {
            Quoted::Scalar(id) => self.formula_mentions(*id, key),
            Quoted::Index(n) => n.vars().iter().any(|v| **v == *format!("@{key}")),
            Quoted::Tuple(v) => v.iter().any(|q| self.mentions(q, key)),
            Quoted::Array(_, q) | Quoted::Fun(q) => self.mentions(q, key),
            Quoted::Key(k) => self.key_mentions(*k, key),
        }
    }

    fn key_mentions(&self, k: u32, key: u32) -> bool {
        k == key
            || match self.meaning(k) {
                Key::Apply(f, v) => self.key_mentions(*f, key) || v.iter().any(|q| self.mentions(q, key)),
                Key::At(k, _) | Key::Part(k, _) => self.key_mentions(*k, key),
                Key::Position(id, _) => self.formula_mentions(*id, key),
                Key::Select(c, a, b) => {
                    self.formula_mentions(*c, key) || self.mentions(a, key) || self.mentions(b, key)
                }
                Key::Fold(_, a, b) => self.mentions(a, key) || self.mentions(b, key),
                Key::Meta(_) | Key::Nat(_) | Key::Accumulator(_) | Key::Parameter(_) => false,
            }
    }

    fn formula_mentions(&self, id: Id, key: u32) -> bool {
        self.f.under(&[id]).iter().any(|i| match &self.f.get(*i).op {
            Op::Var(k) => self.key_mentions(*k, key),
            _ => false,
        })
    }
}

/// Variables that are bound outside of a term, innermost first.
#[derive(Clone, Default)]
pub(super) struct Scope(Option<Rc<(Sym, Scope)>>);

impl Scope {
    pub fn with(&self, x: Sym) -> Scope {
        Scope(Some(Rc::new((x, self.clone()))))
    }

    pub fn get(&self, n: u32) -> Option<&Sym> {
        let mut here = self;
        for _ in 0..n {
            here = &here.0.as_ref()?.1;
        }
        here.0.as_ref().map(|p| &p.0)
    }
}
