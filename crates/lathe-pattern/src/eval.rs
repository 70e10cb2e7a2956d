//! What terms mean: the reference that rewriting, translation and engines are compared with.
//!
//! Arrays are built eagerly and in order; scalars follow [`lathe_ir::scalar`]. Every program ends; a budget
//! of elements keeps huge sizes from taking all memory.

use crate::codes;
use crate::nat::Nat;
use crate::prim::{PadMode, Prim};
use crate::program::Program;
use crate::scalars;
use crate::term::{Term, TermKind};
use crate::types::{DepArg, Type, TypeKind};
use crate::value::{Closure, Scope, Value};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Name;
use lathe_ir::scalar::ScalarValue;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub type Sizes = BTreeMap<Name, i64>;

/// Elements that one evaluation may make, and applications of what is iterated.
const BUDGET: u64 = 100_000_000;

/// The result of a fun.
pub fn evaluate(p: &Program, sizes: &Sizes, args: &[Value]) -> Result<Value, Diagnostic> {
    for f in p.facts.all() {
        if !holds(f, sizes) {
            let text = format!("`{}` requires `{f}`, which does not hold for these sizes", p.name);
            return Err(Diagnostic::error(codes::NO_VALUE, text));
        }
    }
    let e = Evaluator::new(sizes);
    let f = e.term(&p.term, &Scope::default())?;
    args.iter().try_fold(f, |f, a| e.apply(&f, a.clone()))
}
/// `f(args)` for a term of function type, with a budget of elements and applications.
pub fn evaluate_applied(t: &Term, sizes: &Sizes, args: &[Value], budget: u64) -> Result<Value, Diagnostic> {
    let e = Evaluator { sizes, left: Cell::new(budget) };
    let f = e.term(t, &Scope::default())?;
    args.iter().try_fold(f, |f, a| e.apply(&f, a.clone()))
}

/// Whether a fact holds for given sizes.
pub fn holds(f: &crate::facts::Fact, sizes: &Sizes) -> bool {
    let value = |n: &Nat| n.eval(&|v| sizes.get(v).copied());
    match f {
        crate::facts::Fact::Divides(b, a) => match (value(b), value(a)) {
            (Some(b), Some(a)) => b > 0 && a % b == 0,
            _ => false,
        },
        crate::facts::Fact::AtMost(a, b) => match (value(a), value(b)) {
            (Some(a), Some(b)) => a <= b,
            _ => false,
        },
    }
}

struct Evaluator<'a> {
    sizes: &'a Sizes,
    left: Cell<u64>,
}

type Out = Result<Value, Diagnostic>;

fn none<T>(text: impl Into<String>) -> Result<T, Diagnostic> {
    Err(Diagnostic::error(codes::NO_VALUE, text))
}

fn items(v: &Value) -> Result<&[Value], Diagnostic> {
    match v {
        Value::Array(v) => Ok(v),
        Value::Undefined => none("an element that does not exist is used"),
        _ => none("no array"),
    }
}

fn part(v: &Value, n: usize) -> Out {
    match v {
        Value::Tuple(v) if n < v.len() => Ok(v[n].clone()),
        Value::Undefined => Ok(Value::Undefined),
        _ => none("no such part"),
    }
}

fn number(v: &Value) -> Result<i64, Diagnostic> {
    match v {
        Value::Scalar(s) => Ok(s.to_i64()),
        _ => none("no number"),
    }
}

impl Evaluator<'_> {
    fn new(sizes: &Sizes) -> Evaluator<'_> {
        Evaluator { sizes, left: Cell::new(BUDGET) }
    }

    fn spend(&self, n: u64) -> Result<(), Diagnostic> {
        match self.left.get().checked_sub(n) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => none("more elements or iterations than the limit of one evaluation"),
        }
    }

    fn size(&self, n: &Nat) -> Result<i64, Diagnostic> {
        match n.eval(&|v| self.sizes.get(v).copied()) {
            Some(v) => Ok(v),
            None => none(format!("the size `{n}` has no value")),
        }
    }

    /// A size that counts elements.
    fn count(&self, n: &Nat) -> Result<usize, Diagnostic> {
        let v = self.size(n)?;
        let count = usize::try_from(v).or_else(|_| none(format!("the size `{n}` is {v}")))?;
        self.spend(count as u64)?;
        Ok(count)
    }

    fn term(&self, t: &Term, scope: &Scope) -> Out {
        match t.kind() {
            TermKind::Bound(i) => match scope.get(*i) {
                Some(v) => Ok(v.clone()),
                None => none("an unbound variable"),
            },
            TermKind::Free(n) => none(format!("`{n}` has no value")),
            TermKind::Lit(v) => Ok(Value::Scalar(*v)),
            TermKind::Lam(_, b) => Ok(Value::Fun(Rc::new(Closure::Lam(b.clone(), scope.clone())))),
            TermKind::DepLam(..) => Ok(Value::Fun(Rc::new(Closure::Dep(t.clone(), scope.clone())))),
            TermKind::Prim(p) => self.saturated(p, t.ty(), Vec::new()),
            TermKind::DepApp(f, a) => {
                let Value::Fun(c) = self.term(f, scope)? else { return none("no function") };
                let Closure::Dep(t, s) = &*c else { return none("no dependent function") };
                let TermKind::DepLam(_, x, b) = t.kind() else { return none("no dependent function") };
                let b = match a {
                    DepArg::Nat(n) => b.substitute_size(x, n),
                    DepArg::Data(d) => {
                        b.map_types(&mut |t| t.substitute(x, &DepArg::Data(d.clone())), &mut Nat::clone)
                    }
                };
                self.term(&b, s)
            }
            TermKind::App(f, a) => {
                // Lazy in its branches.
                if let Some((Prim::Select, args)) = t.spine()
                    && let [c, x, y] = args.as_slice()
                {
                    let Some(c) = self.term(c, scope)?.as_scalar() else { return none("no condition") };
                    return self.term(if c.bits != 0 { x } else { y }, scope);
                }
                let f = self.term(f, scope)?;
                let a = self.term(a, scope)?;
                self.apply(&f, a)
            }
        }
    }

    fn apply(&self, f: &Value, a: Value) -> Out {
        self.spend(1)?;
        match f {
            Value::Fun(c) => match &**c {
                Closure::Lam(b, s) => self.term(b, &s.with(a)),
                Closure::Prim(p, ty, args) => {
                    let mut args = args.clone();
                    args.push(a);
                    self.saturated(p, ty, args)
                }
                Closure::Dep(..) => none("a dependent function is applied to a value"),
            },
            _ => none("no function"),
        }
    }

    fn apply2(&self, f: &Value, a: Value, b: Value) -> Out {
        let f = self.apply(f, a)?;
        self.apply(&f, b)
    }

    fn saturated(&self, p: &Prim, ty: &Type, args: Vec<Value>) -> Out {
        if args.len() < p.arity() {
            return Ok(Value::Fun(Rc::new(Closure::Prim(p.clone(), ty.clone(), args))));
        }
        self.prim(p, ty, &args)
    }

    fn scalars(&self, args: &[Value]) -> Result<Vec<ScalarValue>, Diagnostic> {
        args.iter()
            .map(|a| match a {
                Value::Scalar(v) => Ok(*v),
                Value::Undefined => none("an element that does not exist is used"),
                _ => none("no scalar"),
            })
            .collect()
    }

    fn map(&self, f: &Value, xs: &[Value]) -> Out {
        Ok(Value::array(xs.iter().map(|x| self.apply(f, x.clone())).collect::<Result<_, _>>()?))
    }

    /// Windows of `size` elements, `step` apart.
    fn windows(&self, xs: &[Value], size: usize, step: usize) -> Out {
        if step == 0 {
            return none("windows with stride 0");
        }
        let Some(room) = (xs.len() + step).checked_sub(size) else { return none("too few elements") };
        let count = room / step;
        self.spend((count * size) as u64)?;
        let window = |i: usize| xs.get(i * step..i * step + size).map(|w| Value::array(w.to_vec()));
        match (0..count).map(window).collect::<Option<Vec<_>>>() {
            Some(v) => Ok(Value::array(v)),
            None => none("too few elements"),
        }
    }

    /// The result's outermost size.
    fn result_count(&self, ty: &Type, arity: usize) -> Result<usize, Diagnostic> {
        let mut t = ty;
        for _ in 0..arity {
            t = t.as_fun().map_or(t, |f| f.1);
        }
        match t.kind() {
            TypeKind::Array(n, _) | TypeKind::Vector(n, _) => self.count(n),
            _ => none("no array"),
        }
    }

    fn prim(&self, p: &Prim, ty: &Type, args: &[Value]) -> Out {
        let scalar = |r: Result<ScalarValue, Diagnostic>| r.map(Value::Scalar);
        match p {
            Prim::Id => Ok(args[0].clone()),
            Prim::Unary(op) => scalar(scalars::unary(*op, self.scalars(args)?[0])),
            Prim::Binary(op) => {
                let v = self.scalars(args)?;
                scalar(scalars::binary(*op, v[0], v[1]))
            }
            Prim::Math(f) => scalar(scalars::math(*f, &self.scalars(args)?)),
            Prim::Cast(to) => scalar(scalars::cast(*to, self.scalars(args)?[0])),
            Prim::Select => {
                Ok(if self.scalars(&args[..1])?[0].bits != 0 { args[1].clone() } else { args[2].clone() })
            }
            Prim::Tuple(_) => Ok(Value::tuple(args.to_vec())),
            Prim::Proj(n, _) => part(&args[0], *n),
            Prim::NatValue(n) => Ok(Value::index(self.size(n)?)),
            Prim::AsIndex(n) => {
                let (i, n) = (number(&args[0])?, self.size(n)?);
                if (0..n).contains(&i) {
                    Ok(args[0].clone())
                } else {
                    none(format!("{i} is not an index below {n}"))
                }
            }
            Prim::Map(_) | Prim::MapVec(_) => self.map(&args[0], items(&args[1])?),
            Prim::Reduce(..) => {
                let xs = items(&args[2])?;
                xs.iter().try_fold(args[1].clone(), |acc, x| self.apply2(&args[0], acc, x.clone()))
            }
            Prim::Scan(_) => {
                let mut acc = args[1].clone();
                let mut out = Vec::new();
                for x in items(&args[2])? {
                    acc = self.apply2(&args[0], acc, x.clone())?;
                    out.push(acc.clone());
                }
                Ok(Value::array(out))
            }
            Prim::Iterate(n, _) => {
                let n = self.size(n)?;
                self.spend(u64::try_from(n).unwrap_or(0))?;
                (0..n).try_fold(args[1].clone(), |x, _| self.apply(&args[0], x))
            }
            Prim::Zip => {
                let (a, b) = (items(&args[0])?, items(&args[1])?);
                if a.len() != b.len() {
                    return none(format!("zip of {} and {} elements", a.len(), b.len()));
                }
                let pair = |(a, b): (&Value, &Value)| Value::tuple(vec![a.clone(), b.clone()]);
                Ok(Value::array(a.iter().zip(b).map(pair).collect()))
            }
            Prim::Unzip => {
                let xs = items(&args[0])?;
                let side = |n| xs.iter().map(|x| part(x, n)).collect::<Result<Vec<_>, _>>();
                Ok(Value::tuple(vec![Value::array(side(0)?), Value::array(side(1)?)]))
            }
            Prim::Split(m) | Prim::AsVector(m) => {
                let (xs, m) = (items(&args[0])?, self.size(m)?);
                let m = usize::try_from(m).unwrap_or(0);
                if m == 0 || xs.len() % m != 0 {
                    return none(format!("{m} does not divide {}", xs.len()));
                }
                Ok(Value::array(xs.chunks(m).map(|c| Value::array(c.to_vec())).collect()))
            }
            Prim::Join | Prim::AsScalar => {
                let mut out = Vec::new();
                for x in items(&args[0])? {
                    out.extend_from_slice(items(x)?);
                }
                Ok(Value::array(out))
            }
            Prim::Transpose => {
                let rows = items(&args[0])?;
                let count = self.result_count(ty, 1)?;
                let column = |j: usize| {
                    let cells = rows.iter().map(|r| match items(r)?.get(j) {
                        Some(v) => Ok(v.clone()),
                        None => none("a short row"),
                    });
                    Ok(Value::array(cells.collect::<Result<Vec<_>, _>>()?))
                };
                Ok(Value::array((0..count).map(column).collect::<Result<_, _>>()?))
            }
            Prim::Slide(size, step) => {
                let (size, step) = (self.count(size)?, self.size(step)?);
                self.windows(items(&args[0])?, size, usize::try_from(step).unwrap_or(0))
            }
            Prim::Pad(l, r, mode) => {
                let (xs, l, r) = (items(&args[0])?, self.count(l)? as i64, self.count(r)? as i64);
                let n = xs.len() as i64;
                let at =
                    |i: i64| if n == 0 { Value::Undefined } else { xs[inside(*mode, i, n) as usize].clone() };
                Ok(Value::array((-l..n + r).map(at).collect()))
            }
            Prim::PadValue(l, r) => {
                let (l, r) = (self.count(l)?, self.count(r)?);
                let mut out = vec![args[0].clone(); l];
                out.extend_from_slice(items(&args[1])?);
                out.extend(vec![args[0].clone(); r]);
                Ok(Value::array(out))
            }
            Prim::PadWith(l, r) => {
                let (xs, l, r) = (items(&args[1])?, self.count(l)? as i64, self.count(r)? as i64);
                let n = xs.len() as i64;
                let at = |i: i64| match usize::try_from(i).ok().and_then(|i| xs.get(i)) {
                    Some(v) => Ok(v.clone()),
                    None => self.apply2(&args[0], Value::index(i), Value::index(n)),
                };
                Ok(Value::array((-l..n + r).map(at).collect::<Result<_, _>>()?))
            }
            Prim::Take(m) => match items(&args[0])?.get(..self.count(m)?) {
                Some(v) => Ok(Value::array(v.to_vec())),
                None => none("too few elements"),
            },
            Prim::Drop(m) => match items(&args[0])?.get(self.count(m)?..) {
                Some(v) => Ok(Value::array(v.to_vec())),
                None => none("too few elements"),
            },
            Prim::Concat => Ok(Value::array([items(&args[0])?, items(&args[1])?].concat())),
            Prim::Gather => self.gather(&args[0], items(&args[1])?, self.result_count(ty, 2)?),
            Prim::Reorder => {
                let xs = items(&args[2])?;
                for i in 0..xs.len() as i64 {
                    let back = self.apply(&args[1], self.apply(&args[0], Value::index(i))?)?;
                    if number(&back)? != i {
                        return none(format!("the functions given to `reorder` are not inverses at {i}"));
                    }
                }
                self.gather(&args[0], xs, xs.len())
            }
            Prim::Scatter => {
                let xs = items(&args[1])?;
                let mut out: Vec<Option<Value>> = vec![None; xs.len()];
                for (i, x) in xs.iter().enumerate() {
                    let to = number(&self.apply(&args[0], Value::index(i as i64))?)?;
                    match usize::try_from(to).ok().and_then(|t| out.get_mut(t)) {
                        Some(slot @ None) => *slot = Some(x.clone()),
                        _ => {
                            return none(format!(
                                "the function given to `scatter` is not a bijection: {i} maps to {to}"
                            ));
                        }
                    }
                }
                Ok(Value::array(out.into_iter().flatten().collect()))
            }
            Prim::Generate(n) => {
                let one = |i| self.apply(&args[0], Value::index(i as i64));
                Ok(Value::array((0..self.count(n)?).map(one).collect::<Result<_, _>>()?))
            }
            Prim::At => self.at(items(&args[1])?, number(&args[0])?),
            Prim::AtNat(i) => self.at(items(&args[0])?, self.size(i)?),
            Prim::VectorFromScalar(m) => Ok(Value::array(vec![args[0].clone(); self.count(m)?])),
            Prim::Let | Prim::ToMem(_) => self.apply(&args[1], args[0].clone()),
            Prim::CircularBuffer(_, size) | Prim::RotateValues(size) => {
                let loaded = self.map(&args[0], items(&args[1])?)?;
                self.windows(items(&loaded)?, self.count(size)?, 1)
            }
        }
    }

    fn at(&self, xs: &[Value], i: i64) -> Out {
        match usize::try_from(i).ok().and_then(|i| xs.get(i)) {
            Some(v) => Ok(v.clone()),
            None => none(format!("{i} is not an index below {}", xs.len())),
        }
    }

    fn gather(&self, f: &Value, xs: &[Value], count: usize) -> Out {
        let one = |i: usize| self.at(xs, number(&self.apply(f, Value::index(i as i64))?)?);
        Ok(Value::array((0..count).map(one).collect::<Result<_, _>>()?))
    }
}

/// Where `pad` reads position `i` of an array of `n > 0` elements.
pub fn inside(mode: PadMode, i: i64, n: i64) -> i64 {
    match mode {
        PadMode::Clamp => i.clamp(0, n - 1),
        PadMode::Wrap => i.rem_euclid(n),
        PadMode::Mirror => {
            let j = i.rem_euclid(2 * n);
            if j < n { j } else { 2 * n - 1 - j }
        }
    }
}

/// Sizes by name, for callers.
pub fn sizes<'a>(all: impl IntoIterator<Item = (&'a str, i64)>) -> Sizes {
    all.into_iter().map(|(n, v)| (Name::from(n), v)).collect()
}
