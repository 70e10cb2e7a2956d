//! Terms as views.

use super::Lower;
use super::computes::computes;
use super::view::{Arg, ArrayView, Env, Val, View};
use crate::codes;
use crate::nat::Nat;
use crate::prim::{FoldKind, MapKind, Prim};
use crate::scalars;
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Expr, build};
use std::rc::Rc;

type Out = Result<View, Diagnostic>;

impl Lower<'_> {
    /// The value of `t(args)`; statements that make it go into the block.
    pub(super) fn read(&mut self, t: &Term, env: &Env, mut args: Vec<Arg>) -> Out {
        self.visit(t);
        match t.kind() {
            TermKind::App(f, a) => {
                args.insert(0, Arg::Term(a.clone(), env.clone()));
                self.read(f, env, args)
            }
            TermKind::Lam(hint, b) => {
                if args.is_empty() {
                    return Err(self.refuse(codes::UNSUPPORTED, "a function is used as data"));
                }
                let first = args.remove(0);
                let v = self.bind(&first, hint)?;
                self.read(b, &env.with(v), args)
            }
            TermKind::Bound(i) => match env.get(*i) {
                Some(Val::View(v)) => Ok(v.clone()),
                Some(Val::Fun(t, e)) => {
                    let (t, e) = (t.clone(), e.clone());
                    self.read(&t, &e, args)
                }
                Some(Val::Hole(_)) => {
                    Err(self.refuse(codes::NOT_STORED, "a result is read before it is stored"))
                }
                None => Err(self.refuse(codes::UNSUPPORTED, "an unbound variable")),
            },
            TermKind::Free(n) => Err(self.refuse(codes::UNKNOWN, format!("`{n}` is not bound"))),
            TermKind::Lit(v) => Ok(View::Number(scalars::constant(v))),
            TermKind::DepLam(..) => {
                Err(self.refuse(codes::UNSUPPORTED, "a dependent function is used as data"))
            }
            TermKind::DepApp(..) => {
                let t = self.reduced(t)?;
                self.read(&t, env, args)
            }
            TermKind::Prim(p) => {
                if args.len() < p.arity() {
                    let text = format!("`{}` is used as data, but is a function", p.name());
                    return Err(self.refuse(codes::UNSUPPORTED, text));
                }
                self.read_prim(t, p, &args)
            }
        }
    }

    /// Remembers where the term comes from.
    pub(super) fn visit(&mut self, t: &Term) {
        if !t.places().spans().is_empty() {
            self.places = t.places().clone();
        }
    }

    /// A dependent function applied.
    pub(super) fn reduced(&mut self, t: &Term) -> Result<Term, Diagnostic> {
        let reduced = match t.kind() {
            TermKind::DepApp(f, a) => match f.kind() {
                TermKind::DepLam(_, x, b) => {
                    Some(b.map_types(&mut |t| t.substitute(x, a), &mut |n| match a {
                        crate::types::DepArg::Nat(m) => crate::types::substitute_nat(n, x, m),
                        crate::types::DepArg::Data(_) => n.clone(),
                    }))
                }
                _ => None,
            },
            _ => None,
        };
        reduced.ok_or_else(|| self.refuse(codes::UNSUPPORTED, "a dependent function that is not a lambda"))
    }

    /// An argument for a lambda: numbers are computed once.
    pub(super) fn bind(&mut self, a: &Arg, hint: &str) -> Result<Val, Diagnostic> {
        Ok(match a {
            Arg::Term(t, e) if !t.ty().is_data() => Val::Fun(t.clone(), e.clone()),
            Arg::Term(t, e) => {
                let v = self.read(t, e, Vec::new())?;
                Val::View(self.named(hint, v))
            }
            Arg::View(v) => Val::View(v.clone()),
            Arg::Hole(h) => Val::Hole(h.clone()),
        })
    }

    fn named(&mut self, hint: &str, v: View) -> View {
        match v {
            View::Number(e) => View::Number(self.name_number(hint, e)),
            View::Tuple(parts) => View::Tuple(parts.into_iter().map(|p| self.named(hint, p)).collect()),
            v => v,
        }
    }

    pub(super) fn arg(&mut self, a: &Arg) -> Out {
        match a {
            Arg::Term(t, e) => self.read(t, e, Vec::new()),
            Arg::View(v) => Ok(v.clone()),
            Arg::Hole(_) => Err(self.refuse(codes::NOT_STORED, "a result is read before it is stored")),
        }
    }

    pub(super) fn array(&mut self, a: &Arg) -> Result<ArrayView, Diagnostic> {
        match self.arg(a)? {
            View::Array(v) => Ok(v),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no array")),
        }
    }

    fn scalar(&mut self, a: &Arg) -> Result<Expr, Diagnostic> {
        let v = self.arg(a)?;
        self.number(&v)
    }

    fn index(&mut self, a: &Arg, below: &Nat) -> Result<Nat, Diagnostic> {
        Ok(match self.arg(a)? {
            View::Index(n) => n,
            v => {
                let e = self.number(&v)?;
                self.indices.atom(e, Some(below.clone()))
            }
        })
    }

    /// `f(args)` as a view.
    pub(super) fn call(&mut self, f: &Arg, args: Vec<View>) -> Out {
        let args = args.into_iter().map(Arg::View).collect();
        match f {
            Arg::Term(t, e) => self.read(t, e, args),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no function")),
        }
    }

    /// The `n`-th type that a primitive takes, or its result after all.
    pub(super) fn signature(t: &Term, arity: usize) -> (Vec<Type>, Type) {
        let (mut params, mut ty) = (Vec::new(), t.ty().clone());
        for _ in 0..arity {
            let Some((a, b)) = ty.as_fun().map(|f| (f.0.clone(), f.1.clone())) else { break };
            params.push(a);
            ty = b;
        }
        (params, ty)
    }

    fn read_prim(&mut self, t: &Term, p: &Prim, args: &[Arg]) -> Out {
        let (params, result) = Lower::signature(t, p.arity());
        let result_size = || match result.kind() {
            TypeKind::Array(n, _) | TypeKind::Vector(n, _) => n.clone(),
            _ => Nat::zero(),
        };
        let elem_size = |ty: &Type| match ty.kind() {
            TypeKind::Array(_, e) => match e.kind() {
                TypeKind::Array(n, _) | TypeKind::Vector(n, _) => n.clone(),
                _ => Nat::zero(),
            },
            _ => Nat::zero(),
        };
        match p {
            Prim::Id => self.arg(&args[0]),
            Prim::Unary(op) => Ok(View::Number(build::unary(*op, self.scalar(&args[0])?))),
            Prim::Binary(op) => {
                let (a, b) = (self.scalar(&args[0])?, self.scalar(&args[1])?);
                // The tree has no arithmetic on truth values but the logical ones.
                Ok(View::Number(build::binary(*op, a, b)))
            }
            Prim::Math(f) => {
                let args = args.iter().map(|a| self.scalar(a)).collect::<Result<Vec<_>, _>>()?;
                Ok(View::Number(build::math(*f, args)))
            }
            Prim::Cast(to) => Ok(View::Number(build::cast((*to).into(), self.scalar(&args[0])?))),
            Prim::Select => {
                let c = self.scalar(&args[0])?;
                self.select(&c, &args[1], &args[2])
            }
            Prim::Tuple(_) => Ok(View::Tuple(args.iter().map(|a| self.arg(a)).collect::<Result<_, _>>()?)),
            Prim::Proj(n, _) => match self.arg(&args[0])? {
                View::Tuple(parts) if *n < parts.len() => Ok(parts[*n].clone()),
                _ => Err(self.refuse(codes::UNSUPPORTED, "no tuple")),
            },
            Prim::NatValue(n) => Ok(View::Number(self.indices.expr(n))),
            Prim::AsIndex(n) => {
                let e = self.scalar(&args[0])?;
                // Polynomials stay polynomials.
                let i = self.polynomial(&e);
                Ok(View::Index(match i {
                    Some(i) if self.indices.is_inside(&i, n) => i,
                    _ => self.indices.atom(self.clamped(e, n), Some(n.clone())),
                }))
            }

            Prim::Map(MapKind::High) => {
                if let Some(t) = computes(&args[0]) {
                    return Err(self.high_level("map", &t));
                }
                let xs = self.array(&args[1])?;
                let (f, at) = (args[0].clone(), xs.at.clone());
                Ok(View::Array(xs.like(move |l, i| {
                    let x = at(l, i)?;
                    l.call(&f, vec![x])
                })))
            }
            // Lanes are computed where they are used.
            Prim::MapVec(None) => {
                let xs = self.array(&args[1])?;
                let (f, at) = (args[0].clone(), xs.at.clone());
                Ok(View::Array(xs.like(move |l, i| {
                    let x = at(l, i)?;
                    l.call(&f, vec![x])
                })))
            }
            Prim::Reduce(FoldKind::High, _)
            | Prim::Scan(FoldKind::High)
            | Prim::Iterate(_, FoldKind::High) => Err(self.high_level(p.name(), t)),
            Prim::Reduce(kind, space) => self.reduce(*kind, *space, args, &params, &result),
            Prim::Iterate(n, kind) if result.is_element() => self.iterate_number(n, *kind, args, &result),
            Prim::Map(_) | Prim::MapVec(Some(_)) | Prim::Scan(_) | Prim::Iterate(..) => {
                let text = format!("the result of `{}` is read, but not stored", p.name());
                let d = self.refuse(codes::NOT_STORED, text);
                Err(d.help("`toMem(space, e, |x| ...)` stores it"))
            }

            Prim::Zip => {
                let (a, b) = (self.array(&args[0])?, self.array(&args[1])?);
                let (x, y) = (a.at.clone(), b.at.clone());
                let mut out = a.like(move |l, i| Ok(View::Tuple(vec![x(l, i)?, y(l, i)?])));
                out.pads.extend(b.pads);
                out.streams.extend(b.streams);
                Ok(View::Array(out))
            }
            Prim::Unzip => {
                let xs = self.array(&args[0])?;
                let side = |n: usize| {
                    let at = xs.at.clone();
                    View::Array(xs.like(move |l, i| match at(l, i)? {
                        View::Tuple(parts) if n < parts.len() => Ok(parts[n].clone()),
                        _ => Err(l.refuse(codes::UNSUPPORTED, "no tuple")),
                    }))
                };
                Ok(View::Tuple(vec![side(0), side(1)]))
            }
            Prim::Split(m) | Prim::AsVector(m) => {
                let xs = self.array(&args[0])?;
                let (at, m, pads) = (xs.at, m.clone(), xs.pads);
                let pads_inside = pads.clone();
                let mut out = ArrayView::new(result_size(), move |_, i| {
                    let (at, base) = (at.clone(), i.times(&m));
                    let mut inner = ArrayView::new(m.clone(), move |l, j| at(l, &base.plus(j)));
                    inner.pads.clone_from(&pads_inside);
                    Ok(View::Array(inner))
                });
                out.pads = pads;
                Ok(View::Array(out))
            }
            Prim::Join | Prim::AsScalar => {
                let xs = self.array(&args[0])?;
                let (at, m) = (xs.at, elem_size(&params[0]));
                let mut out = ArrayView::new(result_size(), move |l, i| {
                    let (q, r) = l.indices.divide(i, &m);
                    match at(l, &q)? {
                        View::Array(row) => (row.at)(l, &r),
                        _ => Err(l.refuse(codes::UNSUPPORTED, "no array")),
                    }
                });
                out.pads = xs.pads;
                Ok(View::Array(out))
            }
            Prim::Transpose => {
                let xs = self.array(&args[0])?;
                let (at, n) = (xs.at.clone(), xs.size.clone());
                let pads = xs.pads.clone();
                // What is inside becomes what is outside.
                let inner_pads = match self.probe(&xs)? {
                    Some(View::Array(row)) => row.pads,
                    _ => Vec::new(),
                };
                let mut out = ArrayView::new(result_size(), move |_, j| {
                    let (at, j) = (at.clone(), j.clone());
                    let mut column = ArrayView::new(n.clone(), move |l, i| match at(l, i)? {
                        View::Array(row) => (row.at)(l, &j),
                        _ => Err(l.refuse(codes::UNSUPPORTED, "no array")),
                    });
                    column.pads.clone_from(&pads);
                    Ok(View::Array(column))
                });
                out.pads = inner_pads;
                Ok(View::Array(out))
            }
            Prim::Slide(size, step) => {
                let xs = self.array(&args[0])?;
                let (at, size, step) = (xs.at, size.clone(), step.clone());
                // Over nothing there are no windows that are larger than the padding.
                let pads: Vec<(Nat, Nat)> =
                    xs.pads.into_iter().filter(|(_, by)| !self.indices.is_below(by, &size)).collect();
                let mut out = ArrayView::new(result_size(), move |_, i| {
                    let (at, base) = (at.clone(), i.times(&step));
                    Ok(View::Array(ArrayView::new(size.clone(), move |l, j| at(l, &base.plus(j)))))
                });
                out.pads = pads;
                Ok(View::Array(out))
            }
            Prim::Pad(l, r, mode) => {
                let xs = self.array(&args[0])?;
                let (at, n, l, mode) = (xs.at, xs.size.clone(), l.clone(), *mode);
                let by = l.plus(r);
                let mut out = ArrayView::new(result_size(), move |lower, i| {
                    let j = lower.padded_index(mode, &i.minus(&l), &n);
                    at(lower, &j)
                });
                out.pads = xs.pads;
                if !by.is_zero() {
                    out.pads.push((xs.size, by));
                }
                Ok(View::Array(out))
            }
            Prim::PadValue(l, _) => {
                let (v, xs) = (self.arg(&args[0])?, self.array(&args[1])?);
                let (at, n, l) = (xs.at.clone(), xs.size.clone(), l.clone());
                let mut out = xs.like(move |lower, i| {
                    let j = i.minus(&l);
                    let (v, at) = (v.clone(), at.clone());
                    lower.inside_or(&j, &n, Rc::new(move |l, j| at(l, j)), &|_, _| Ok(v.clone()))
                });
                out.size = result_size();
                Ok(View::Array(out))
            }
            Prim::PadWith(l, _) => {
                let (h, xs) = (args[0].clone(), self.array(&args[1])?);
                let (at, n, l) = (xs.at.clone(), xs.size.clone(), l.clone());
                let mut out = xs.like(move |lower, i| {
                    let j = i.minus(&l);
                    let (h, at, n2) = (h.clone(), at.clone(), n.clone());
                    let outside = move |l: &mut Lower, j: &Nat| {
                        let (j, n) = (l.indices.expr(j), l.indices.expr(&n2));
                        l.call(&h, vec![View::Number(j), View::Number(n)])
                    };
                    lower.inside_or(&j, &n, Rc::new(move |l, j| at(l, j)), &outside)
                });
                out.size = result_size();
                Ok(View::Array(out))
            }
            Prim::Take(_) => {
                let mut xs = self.array(&args[0])?;
                xs.size = result_size();
                Ok(View::Array(xs))
            }
            Prim::Drop(m) => {
                let xs = self.array(&args[0])?;
                let (at, m) = (xs.at.clone(), m.clone());
                let mut out = xs.like(move |l, i| at(l, &i.plus(&m)));
                out.size = result_size();
                out.streams.clear();
                Ok(View::Array(out))
            }
            Prim::Concat => {
                let (a, b) = (self.array(&args[0])?, self.array(&args[1])?);
                let (x, y, n) = (a.at, b.at, a.size.clone());
                let mut out = ArrayView::new(result_size(), move |l, i| {
                    let y = y.clone();
                    let n2 = n.clone();
                    let after = move |l: &mut Lower, i: &Nat| y(l, &i.minus(&n2));
                    let x = x.clone();
                    l.inside_or(i, &n, Rc::new(move |l, i| x(l, i)), &after)
                });
                out.pads = [a.pads, b.pads].concat();
                Ok(View::Array(out))
            }
            Prim::Gather | Prim::Reorder => {
                let xs = self.array(&args[p.arity() - 1])?;
                let (f, at, n) = (args[0].clone(), xs.at.clone(), xs.size.clone());
                let mut out = ArrayView::new(result_size(), move |l, i| {
                    let j = l.call(&f, vec![View::Index(i.clone())])?;
                    let j = l.index(&Arg::View(j), &n)?;
                    at(l, &j)
                });
                out.pads = xs.pads;
                Ok(View::Array(out))
            }
            Prim::Scatter => {
                let d = self.refuse(codes::UNSUPPORTED, "`scatter` determines where results are written");
                Err(d.help("read with `gather` by the inverse, or use `reorder`"))
            }
            Prim::Generate(n) => {
                let f = args[0].clone();
                Ok(View::Array(ArrayView::new(n.clone(), move |l, i| {
                    l.call(&f, vec![View::Index(i.clone())])
                })))
            }
            Prim::At => {
                let xs = self.array(&args[1])?;
                let i = self.index(&args[0], &xs.size)?;
                self.needs_elements(&xs);
                (xs.at)(self, &i)
            }
            Prim::AtNat(i) => {
                let xs = self.array(&args[0])?;
                self.needs_elements(&xs);
                (xs.at)(self, i)
            }
            Prim::VectorFromScalar(m) => {
                let v = self.arg(&args[0])?;
                let v = self.named("x", v);
                Ok(View::Array(ArrayView::new(m.clone(), move |_, _| Ok(v.clone()))))
            }
            Prim::Let => {
                let Arg::Term(f, env) = &args[1] else {
                    return Err(self.refuse(codes::UNSUPPORTED, "no function"));
                };
                self.read(f, env, vec![args[0].clone()])
            }
            Prim::ToMem(space) => {
                let v = self.stored(*space, &args[0], &args[1], &params[0])?;
                self.call(&args[1], vec![v])
            }
            Prim::RotateValues(size) => self.rotate(size, args, &params, &result),
            Prim::CircularBuffer(alloc, size) => self.ring(alloc, size, args, &params, &result),
        }
    }

    fn high_level(&self, what: &str, t: &Term) -> Diagnostic {
        let text = format!("no implementation is chosen for `{what}`: `{t}`");
        let mut d = self.refuse(codes::HIGH_LEVEL, text);
        if d.marks.is_empty() {
            d = d.at_places(t.places(), "here");
        }
        d.help("lower it: `map` to `mapSeq`, `mapCpu`, `mapVec`, ...; `reduce` to `reduceSeq`")
    }

    /// Arrays that are padded and then read as they are need an element.
    pub(super) fn needs_elements(&mut self, xs: &ArrayView) {
        for (n, _) in &xs.pads {
            if !self.indices.is_below(&Nat::zero(), n) && !self.padded.contains(n) {
                self.padded.push(n.clone());
            }
        }
    }

    /// The first element, for what is known of all; only where that emits nothing.
    fn probe(&mut self, xs: &ArrayView) -> Result<Option<View>, Diagnostic> {
        if !xs.streams.is_empty() {
            return Ok(None);
        }
        let at = xs.at.clone();
        let mut out = None;
        let before = self.func.next_id;
        let emitted = self.block(|l| {
            out = at(l, &Nat::zero()).ok();
            Ok(())
        })?;
        if emitted.is_empty() {
            self.func.next_id = before;
        }
        Ok(out)
    }
}
