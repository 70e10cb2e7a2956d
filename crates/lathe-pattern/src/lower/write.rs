//! Terms written to places.

use super::Lower;
use super::view::{Acc, Arg, Env, Val, View};
use crate::codes;
use crate::nat::Nat;
use crate::prim::{FoldKind, MapKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Executor, StmtKind};
use std::cell::RefCell;
use std::rc::Rc;

type Done = Result<(), Diagnostic>;

impl Lower<'_> {
    /// Emits statements that put `t(args)` into a place.
    pub(super) fn write(&mut self, t: &Term, env: &Env, mut args: Vec<Arg>, out: &Acc) -> Done {
        self.visit(t);
        match t.kind() {
            TermKind::App(f, a) => {
                args.insert(0, Arg::Term(a.clone(), env.clone()));
                self.write(f, env, args, out)
            }
            TermKind::Lam(hint, b) if !args.is_empty() => {
                let first = args.remove(0);
                let v = self.bind(&first, hint)?;
                self.write(b, &env.with(v), args, out)
            }
            TermKind::Bound(i) => match env.get(*i) {
                Some(Val::Fun(t, e)) => {
                    let (t, e) = (t.clone(), e.clone());
                    self.write(&t, &e, args, out)
                }
                Some(Val::Hole(h)) => {
                    *h.borrow_mut() = Some(out.clone());
                    Ok(())
                }
                Some(Val::View(v)) => {
                    let v = v.clone();
                    self.assign(out, &v, t.ty())
                }
                None => Err(self.refuse(codes::UNSUPPORTED, "an unbound variable")),
            },
            TermKind::DepApp(..) => {
                let t = self.reduced(t)?;
                self.write(&t, env, args, out)
            }
            TermKind::Prim(p) if args.len() >= p.arity() => self.write_prim(t, p, args, out),
            _ => {
                let v = self.read(t, env, args)?;
                self.assign(out, &v, t.ty())
            }
        }
    }

    /// An argument of a type into a place.
    fn write_arg(&mut self, a: &Arg, ty: &Type, out: &Acc) -> Done {
        match a {
            Arg::Term(t, e) => self.write(t, e, Vec::new(), out),
            Arg::View(v) => {
                let v = v.clone();
                self.assign(out, &v, ty)
            }
            Arg::Hole(h) => {
                *h.borrow_mut() = Some(out.clone());
                Ok(())
            }
        }
    }

    /// `f(args)` into a place.
    pub(super) fn call_into(&mut self, f: &Arg, args: Vec<View>, out: &Acc) -> Done {
        let args = args.into_iter().map(Arg::View).collect();
        match f {
            Arg::Term(t, e) => self.write(t, e, args, out),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no function")),
        }
    }

    /// Where a layout function's argument goes when its result goes to a place.
    fn through(&mut self, f: &Arg, out: &Acc) -> Result<Acc, Diagnostic> {
        let hole = Rc::new(RefCell::new(None));
        let emitted = self.block(|l| match f {
            Arg::Term(t, e) => l.write(t, e, vec![Arg::Hole(hole.clone())], out),
            _ => Err(l.refuse(codes::UNSUPPORTED, "no function")),
        })?;
        let found = hole.borrow_mut().take();
        match found {
            Some(acc) if emitted.is_empty() => Ok(acc),
            _ => {
                let text = "a computed array is rearranged in a way that cannot be written in place";
                Err(self.refuse(codes::NOT_STORED, text).help("`toMem(space, e, |x| ...)` before it"))
            }
        }
    }

    fn at(&mut self, acc: &Acc, i: &Nat) -> Result<Acc, Diagnostic> {
        match acc {
            Acc::Array(f, _) => f(self, i),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no array is written here")),
        }
    }

    fn part(&mut self, acc: &Acc, n: usize) -> Result<Acc, Diagnostic> {
        match acc {
            Acc::Tuple(parts) if n < parts.len() => Ok(parts[n].clone()),
            _ => {
                let text = "the components of tuples in one array are written separately";
                Err(self
                    .refuse(codes::UNSUPPORTED, text)
                    .help("write whole tuples: `mapSeq(|(a, b)| (a, b))`"))
            }
        }
    }

    fn write_prim(&mut self, t: &Term, p: &Prim, args: Vec<Arg>, out: &Acc) -> Done {
        let (params, result) = Lower::signature(t, p.arity());
        let (places, last) = (self.places.clone(), args.len() - 1);
        let sizes = |ty: &Type| match ty.kind() {
            TypeKind::Array(n, e) => match e.kind() {
                TypeKind::Array(m, _) | TypeKind::Vector(m, _) => (n.clone(), m.clone()),
                _ => (n.clone(), Nat::zero()),
            },
            _ => (Nat::zero(), Nat::zero()),
        };
        match p {
            Prim::Id => self.write_arg(&args[0], &params[0], out),
            Prim::Map(MapKind::High) => {
                if super::computes::computes(&args[0]).is_some() {
                    // For the message.
                    return self.read(t, &Env::default(), args).map(|_| ());
                }
                let (f, to) = (args[0].clone(), out.clone());
                let inner = Acc::array(move |l, i| {
                    let to = l.at(&to, i)?;
                    l.through(&f, &to)
                });
                self.write_arg(&args[1], &params[1], &inner)
            }
            Prim::Map(kind) => {
                let exec = match kind {
                    MapKind::Unroll => Executor::Unrolled,
                    MapKind::Cpu => Executor::Cpu,
                    MapKind::Level(l) => Executor::Level(l.clone()),
                    MapKind::Seq | MapKind::High => Executor::Serial,
                };
                self.map(exec, &args, out)
            }
            Prim::MapVec(None) => {
                let (n, _) = match params[1].kind() {
                    TypeKind::Vector(n, e) => (n.clone(), e.clone()),
                    _ => return Err(self.refuse(codes::UNSUPPORTED, "no vector")),
                };
                let lanes = self.lanes(&n)?;
                self.map(Executor::Vector(lanes), &args, out)
            }
            Prim::MapVec(Some(w)) => self.map_vectors(w, &args, out),
            Prim::Reduce(kind, _) if *kind != FoldKind::High => {
                if let Some(done) = self.reduce_in_place(*kind, &args, &result, out) {
                    return done;
                }
                let v = self.read(t, &Env::default(), args)?;
                self.assign(out, &v, &result)
            }
            Prim::Scan(kind) if *kind != FoldKind::High => self.scan(*kind, &args, &params, out),
            Prim::Iterate(n, kind) if *kind != FoldKind::High && !result.is_element() => {
                self.iterate_arrays(n, *kind, &args, &result, out)
            }

            Prim::Tuple(_) if matches!(out, Acc::Tuple(_)) && result.is_data() && !result.is_element() => {
                for (n, a) in args.iter().enumerate() {
                    let to = self.part(out, n)?;
                    self.write_arg(a, &params[n], &to)?;
                }
                Ok(())
            }
            Prim::Zip if self.is_computed(&args[0]) || self.is_computed(&args[1]) => {
                for (n, a) in args.iter().enumerate() {
                    let to = out.clone();
                    let side = Acc::array(move |l, i| {
                        let pair = l.at(&to, i)?;
                        l.part(&pair, n)
                    });
                    self.write_arg(a, &params[n], &side)?;
                }
                Ok(())
            }
            Prim::Unzip => {
                let (a, b) = (self.part(out, 0)?, self.part(out, 1)?);
                let pairs = Acc::array(move |l, i| Ok(Acc::Tuple(vec![l.at(&a, i)?, l.at(&b, i)?])));
                self.write_arg(&args[0], &params[0], &pairs)
            }
            Prim::Split(m) | Prim::AsVector(m) => {
                let (to, m) = (out.clone(), m.clone());
                let flat = Acc::array(move |l, i| {
                    let (q, r) = l.indices.divide(i, &m);
                    let row = l.at(&to, &q)?;
                    l.at(&row, &r)
                });
                self.write_arg(&args[0], &params[0], &flat)
            }
            Prim::Join | Prim::AsScalar => {
                let (to, (_, m)) = (out.clone(), sizes(&params[0]));
                let nested = Acc::array(move |_, i| {
                    let (to, base) = (to.clone(), i.times(&m));
                    Ok(Acc::array(move |l, j| l.at(&to, &base.plus(j))))
                });
                self.write_arg(&args[0], &params[0], &nested)
            }
            Prim::Transpose => {
                let to = out.clone();
                let turned = Acc::array(move |_, i| {
                    let (to, i) = (to.clone(), i.clone());
                    Ok(Acc::array(move |l, j| {
                        let row = l.at(&to, j)?;
                        l.at(&row, &i)
                    }))
                });
                self.write_arg(&args[0], &params[0], &turned)
            }
            Prim::Concat => {
                let (n, _) = sizes(&params[0]);
                self.write_arg(&args[0], &params[0], out)?;
                self.places = places;
                let to = out.clone();
                let rest = Acc::array(move |l, i| l.at(&to, &i.plus(&n)));
                self.write_arg(&args[1], &params[1], &rest)
            }
            // Element i of the argument goes to f(i); of `reorder`, to where the inverse says.
            Prim::Scatter | Prim::Reorder => {
                let f = args[if *p == Prim::Scatter { 0 } else { 1 }].clone();
                let to = out.clone();
                let placed = Acc::array(move |l, i| {
                    let j = l.call(&f, vec![View::Index(i.clone())])?;
                    match j {
                        View::Index(j) => l.at(&to, &j),
                        _ => Err(l.refuse(codes::UNSUPPORTED, "no index")),
                    }
                });
                self.write_arg(&args[last], &params[last], &placed)
            }
            Prim::Generate(n) => {
                let (f, to) = (args[0].clone(), out.clone());
                let hint = hint_of(&f);
                self.serial_loop(&hint, n, Executor::Serial, |l, i| {
                    let to = l.at(&to, i)?;
                    l.call_into(&f, vec![View::Index(i.clone())], &to)
                })
            }
            Prim::Select => {
                let c = self.arg(&args[0])?;
                let c = self.number(&c)?;
                let mut sides = Vec::new();
                for a in &args[1..] {
                    sides.push(self.block(|l| l.write_arg(a, &result, out))?);
                }
                let other = sides.pop();
                let then = sides.pop().unwrap_or_else(lathe_ir::Stmt::empty);
                // Two stores to one place are one store.
                if let (Some(x), Some(y)) =
                    (then.as_store(), other.as_ref().and_then(lathe_ir::Stmt::as_store))
                    && x.target == y.target
                {
                    let value = lathe_ir::build::select(c, x.value.clone(), y.value.clone());
                    self.emit(StmtKind::Store(lathe_ir::Store { value, ..x.clone() }));
                    return Ok(());
                }
                self.emit(StmtKind::If { cond: c, then, other });
                Ok(())
            }
            Prim::Let => match &args[1] {
                Arg::Term(f, env) => self.write(f, env, vec![args[0].clone()], out),
                _ => Err(self.refuse(codes::UNSUPPORTED, "no function")),
            },
            Prim::ToMem(space) => {
                let v = self.stored(*space, &args[0], &args[1], &params[0])?;
                self.call_into(&args[1], vec![v], out)
            }
            _ => {
                let v = self.read(t, &Env::default(), args)?;
                self.assign(out, &v, &result)
            }
        }
    }

    /// Whether an argument is made by a loop rather than a view.
    fn is_computed(&self, a: &Arg) -> bool {
        match a {
            Arg::Term(t, env) => match t.kind() {
                TermKind::Bound(i) => matches!(env.get(*i), Some(Val::Hole(_))),
                _ => t.spine().is_some_and(|(p, args)| match p {
                    Prim::Map(k) => *k != MapKind::High || self.any_computed(&args, env),
                    Prim::MapVec(_) | Prim::Scan(_) | Prim::Iterate(..) => true,
                    _ => p.is_layout() && self.any_computed(&args, env),
                }),
            },
            Arg::View(_) => false,
            Arg::Hole(_) => true,
        }
    }

    fn any_computed(&self, args: &[&Term], env: &Env) -> bool {
        args.iter().any(|a| self.is_computed(&Arg::Term((*a).clone(), env.clone())))
    }
}

/// The name of a function's parameter.
pub(super) fn hint_of(f: &Arg) -> String {
    match f {
        Arg::Term(t, _) => match t.kind() {
            TermKind::Lam(hint, _) => hint.to_string(),
            _ => "i".to_string(),
        },
        _ => "i".to_string(),
    }
}
