//! Primitives that are loops: maps, reductions, scans, iteration, and what they keep.

use super::Lower;
use super::hazard::reads_elsewhere;
use super::view::{Acc, Arg, ArrayView, Storage, View};
use super::write::hint_of;
use crate::codes;
use crate::nat::Nat;
use crate::prim::{FoldKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use crate::value::element_type;
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::Role;
use lathe_ir::{Executor, ReduceOp, Space, build};

type Done = Result<(), Diagnostic>;

fn executor(kind: FoldKind) -> Executor {
    if kind == FoldKind::Unroll { Executor::Unrolled } else { Executor::Serial }
}

impl Lower<'_> {
    /// The lanes of a vector.
    pub(super) fn lanes(&self, n: &Nat) -> Result<u32, Diagnostic> {
        match n.as_constant().and_then(|n| u32::try_from(n).ok()) {
            Some(n) if n > 0 => Ok(n),
            _ => {
                let text = format!("a vector has a constant number of lanes, not `{n}`");
                Err(self.refuse(codes::UNSUPPORTED, text))
            }
        }
    }

    /// Runs a loop over the elements of a view, in order if it must be read in order.
    fn over(
        &mut self,
        name: &str,
        xs: &ArrayView,
        exec: Executor,
        f: impl FnOnce(&mut Self, &Nat) -> Done,
    ) -> Done {
        self.needs_elements(xs);
        if xs.streams.is_empty() {
            return self.serial_loop(name, &xs.size, exec, f);
        }
        if !exec.is_ordered() {
            let text = "a rotating window must be read in order";
            return Err(self.refuse(codes::UNSUPPORTED, text).help("`mapSeq` reads in order"));
        }
        for s in &xs.streams {
            (s.start)(self)?;
        }
        let streams = xs.streams.clone();
        self.serial_loop(name, &xs.size, exec, |l, i| {
            for s in &streams {
                (s.load)(l, i)?;
                *s.now.borrow_mut() = Some(i.clone());
            }
            let done = f(l, i);
            for s in &streams {
                *s.now.borrow_mut() = None;
            }
            done?;
            streams.iter().try_for_each(|s| (s.advance)(l, i))
        })
    }

    fn place_at(&mut self, acc: &Acc, i: &Nat) -> Result<Acc, Diagnostic> {
        match acc {
            Acc::Array(f, _) => f(self, i),
            _ => Err(self.refuse(codes::UNSUPPORTED, "no array is written here")),
        }
    }

    pub(super) fn map(&mut self, exec: Executor, args: &[Arg], out: &Acc) -> Done {
        let places = self.places.clone();
        let xs = self.array(&args[1])?;
        self.places = places;
        let (f, to, at) = (args[0].clone(), out.clone(), xs.at.clone());
        self.over(&hint_of(&args[0]), &xs, exec, |l, i| {
            let (x, to) = (at(l, i)?, l.place_at(&to, i)?);
            l.call_into(&f, vec![x], &to)
        })
    }

    /// Whole vectors of `w` lanes, then one masked vector for the rest.
    pub(super) fn map_vectors(&mut self, w: &Nat, args: &[Arg], out: &Acc) -> Done {
        let places = self.places.clone();
        let xs = self.array(&args[1])?;
        self.places = places;
        if !xs.streams.is_empty() {
            return Err(self.refuse(codes::UNSUPPORTED, "a rotating window must be read in order"));
        }
        self.needs_elements(&xs);
        let lanes = self.lanes(w)?;
        let (f, to, at, n) = (args[0].clone(), out.clone(), xs.at.clone(), xs.size.clone());
        let hint = hint_of(&args[0]);
        let (whole, rest) = self.indices.divide(&n, w);
        let body = |l: &mut Self, i: &Nat| {
            let (x, to) = (at(l, i)?, l.place_at(&to, i)?);
            l.call_into(&f, vec![x], &to)
        };
        self.serial_loop(&Role::Outer.of(&hint), &whole, Executor::Serial, |l, o| {
            let base = o.times(w);
            l.serial_loop(&hint, w, Executor::Vector(lanes), |l, lane| body(l, &base.plus(lane)))
        })?;
        if l_is_multiple(self, &rest, w, &n) {
            return Ok(());
        }
        let (hi, base) = (self.indices.expr(&rest), whole.times(w));
        self.range_loop(&Role::Rest.of(&hint), hi, &rest, Executor::Vector(lanes), |l, lane| {
            body(l, &base.plus(lane))
        })
    }

    /// Where an accumulator is kept: what the term says, else by its type.
    fn accumulator_space(&self, ty: &Type, said: Option<Space>) -> Space {
        let constant = ty.sizes().iter().all(|n| n.as_constant().is_some());
        match said {
            Some(s) => s,
            None if ty.is_element() => Space::Register,
            None if constant => Space::Stack,
            None => Space::Host,
        }
    }

    pub(super) fn reduce(
        &mut self,
        kind: FoldKind,
        space: Option<Space>,
        args: &[Arg],
        params: &[Type],
        result: &Type,
    ) -> Result<View, Diagnostic> {
        let places = self.places.clone();
        let space = self.accumulator_space(result, space);
        let xs = self.array(&args[2])?;
        self.places = places.clone();
        if space == Space::Register
            && let Some(op) = self.operator(&args[0], &args[1], result)
            && let Some(elem) = element_type(result)
        {
            let acc = self.allocate_whole("acc", elem);
            let storage = Storage::Buffer(acc.clone());
            self.start(&args[1], &storage, &params[1])?;
            self.places = places;
            let at = xs.at.clone();
            self.over(&hint(&args[0]), &xs, executor(kind), |l, i| {
                let x = at(l, i)?;
                let value = l.number(&x)?;
                l.combine(&acc, ReduceOp::User(op), value);
                Ok(())
            })?;
            return Ok(self.read_buffers(&storage, result, Vec::new()));
        }
        let storage = self.allocate("acc", result, space, &mut Vec::new())?;
        self.start(&args[1], &storage, &params[1])?;
        self.places = places.clone();
        self.fold(kind, &args[0], &xs, &storage, &[], result, space)?;
        self.places = places;
        Ok(self.read_buffers(&storage, result, Vec::new()))
    }

    /// The loop of a reduction, over an accumulator that has its start.
    #[allow(clippy::too_many_arguments)]
    fn fold(
        &mut self,
        kind: FoldKind,
        op: &Arg,
        xs: &ArrayView,
        storage: &Storage,
        place: &[Nat],
        ty: &Type,
        space: Space,
    ) -> Done {
        let at = xs.at.clone();
        self.over(&hint(op), xs, executor(kind), |l, i| {
            let x = at(l, i)?;
            l.step(op, storage, place, ty, space, Some(x))
        })
    }

    /// A reduction that starts from the place that it goes to accumulates there: `None` if it does not.
    pub(super) fn reduce_in_place(
        &mut self,
        kind: FoldKind,
        args: &[Arg],
        ty: &Type,
        out: &Acc,
    ) -> Option<Done> {
        let simple = match &args[1] {
            Arg::Term(t, _) => is_part_of_variable(t),
            Arg::View(_) => true,
            Arg::Hole(_) => false,
        };
        if !simple {
            return None;
        }
        let z = self.arg(&args[1]).ok()?;
        let (storage, place) = self.same_place(&z, out)?;
        let xs = match self.array(&args[2]) {
            Ok(xs) => xs,
            Err(d) => return Some(Err(d)),
        };
        // What is reduced must not be what is written.
        if self.mentions(&View::Array(xs.clone()), &storage) {
            return None;
        }
        Some(self.fold(kind, &args[0], &xs, &storage, &place, ty, self.accumulator_space(ty, None)))
    }

    /// The buffers of a view that is the value of a place.
    fn same_place(&self, v: &View, acc: &Acc) -> Option<(Storage, Vec<Nat>)> {
        match (v, acc) {
            (View::Array(v), Acc::Array(_, Some(to))) => {
                let from = v.origin.as_ref()?;
                let ids = |s: &Storage| s.buffers().iter().map(|b| b.id).collect::<Vec<_>>();
                (from.1 == to.1 && ids(&from.0) == ids(&to.0)).then(|| (from.0.clone(), from.1.clone()))
            }
            (View::Number(e), Acc::Cell(b, at)) => {
                let lathe_ir::ExprKind::Load(l) = e.kind() else { return None };
                let same = l.view.buffer() == Some(b.id)
                    && l.indices.len() == at.len()
                    && l.indices.iter().zip(at).all(|(x, n)| *x == self.indices.expr(n));
                same.then(|| (Storage::Buffer(b.clone()), at.clone()))
            }
            (View::Tuple(v), Acc::Tuple(a)) if v.len() == a.len() && !v.is_empty() => {
                let parts =
                    v.iter().zip(a).map(|(v, a)| self.same_place(v, a)).collect::<Option<Vec<_>>>()?;
                let at = parts[0].1.clone();
                let one = parts.iter().all(|p| p.1 == at);
                one.then(|| (Storage::Tuple(parts.into_iter().map(|p| p.0).collect()), at))
            }
            _ => None,
        }
    }

    /// Whether a view reads a storage's buffers, as far as one look tells; unknown counts as yes.
    fn mentions(&mut self, v: &View, storage: &Storage) -> bool {
        match v {
            View::Number(e) => storage.buffers().iter().any(|b| super::store::loads(e, b)),
            View::Index(n) => {
                let e = self.indices.expr(n);
                storage.buffers().iter().any(|b| super::store::loads(&e, b))
            }
            View::Tuple(parts) => parts.iter().any(|p| self.mentions(p, storage)),
            View::Array(a) => {
                if !a.streams.is_empty() {
                    return false;
                }
                // Any element: a number of which only the bound is known.
                let any = build::var(&self.func.fresh_var("any", lathe_ir::Scalar::Index));
                let (at, i) = (a.at.clone(), self.indices.atom(any, Some(a.size.clone())));
                let mut inner = None;
                let emitted = self.block(|l| {
                    inner = at(l, &i).ok();
                    Ok(())
                });
                if !emitted.is_ok_and(|s| s.is_empty()) {
                    return true;
                }
                inner.is_none_or(|v| self.mentions(&v, storage))
            }
        }
    }

    /// The start of an accumulator. Vectors and numbers are values; arrays are made in place.
    fn start(&mut self, z: &Arg, storage: &Storage, ty: &Type) -> Done {
        let acc = Lower::place(storage, ty, Vec::new());
        match z {
            Arg::Term(t, env) => self.write(t, env, Vec::new(), &acc),
            Arg::View(v) => self.assign(&acc, &v.clone(), ty),
            Arg::Hole(_) => Err(self.refuse(codes::NOT_STORED, "a result is read before it is stored")),
        }
    }

    /// `acc := op(acc, x)` (or `op(acc)`), in place where the operator reads only what it writes.
    fn step(
        &mut self,
        op: &Arg,
        storage: &Storage,
        at: &[Nat],
        ty: &Type,
        space: Space,
        x: Option<View>,
    ) -> Done {
        let acc = self.read_buffers(storage, ty, at.to_vec());
        let place = Lower::place(storage, ty, at.to_vec());
        let args: Vec<View> = std::iter::once(acc).chain(x).collect();
        let (labels, names) = (self.labels.clone(), self.names.clone());
        let in_place = self.block(|l| l.call_into(op, args.clone(), &place))?;
        if ty.is_element() || !reads_elsewhere(&in_place, &storage.buffers()) {
            self.items.push(lathe_ir::stmt::block::Item::Do(in_place));
            return Ok(());
        }
        (self.labels, self.names) = (labels, names);
        let next = self.allocate("next", ty, space, &mut Vec::new())?;
        let to = Lower::place(&next, ty, Vec::new());
        self.call_into(op, args, &to)?;
        let from = self.read_buffers(&next, ty, Vec::new());
        self.copy(&place, &from, ty)
    }

    /// A copy, element by element, in loops.
    pub(super) fn copy(&mut self, to: &Acc, from: &View, ty: &Type) -> Done {
        match (ty.kind(), from, to) {
            (TypeKind::Array(n, e), View::Array(from), _) => {
                let at = from.at.clone();
                self.serial_loop("i", n, Executor::Serial, |l, i| {
                    let (x, to) = (at(l, i)?, l.place_at(to, i)?);
                    l.copy(&to, &x, e)
                })
            }
            (TypeKind::Tuple(ts), View::Tuple(from), Acc::Tuple(to)) if !ty.is_element() => {
                from.iter().zip(to).zip(ts).try_for_each(|((x, to), t)| self.copy(to, x, t))
            }
            _ => self.assign(to, from, ty),
        }
    }

    pub(super) fn scan(&mut self, kind: FoldKind, args: &[Arg], params: &[Type], out: &Acc) -> Done {
        let places = self.places.clone();
        let ty = &params[1];
        let space = self.accumulator_space(ty, None);
        let xs = self.array(&args[2])?;
        self.places = places.clone();
        let storage = self.allocate("acc", ty, space, &mut Vec::new())?;
        self.start(&args[1], &storage, ty)?;
        self.places = places;
        let (op, at, to) = (args[0].clone(), xs.at.clone(), out.clone());
        self.over("i", &xs, executor(kind), |l, i| {
            let x = at(l, i)?;
            l.step(&op, &storage, &[], ty, space, Some(x))?;
            let now = l.read_buffers(&storage, ty, Vec::new());
            let to = l.place_at(&to, i)?;
            l.copy(&to, &now, ty)
        })
    }

    /// `iterate` on numbers: one accumulator.
    pub(super) fn iterate_number(
        &mut self,
        n: &Nat,
        kind: FoldKind,
        args: &[Arg],
        ty: &Type,
    ) -> Result<View, Diagnostic> {
        let storage = self.allocate("acc", ty, Space::Register, &mut Vec::new())?;
        self.start(&args[1], &storage, ty)?;
        let f = args[0].clone();
        let s = storage.clone();
        self.serial_loop("t", n, executor(kind), |l, _| l.step(&f, &s, &[], ty, Space::Register, None))?;
        Ok(self.read_buffers(&storage, ty, Vec::new()))
    }

    /// `iterate` on arrays: from the argument to one buffer, back and forth between two, then to the place.
    pub(super) fn iterate_arrays(
        &mut self,
        n: &Nat,
        kind: FoldKind,
        args: &[Arg],
        ty: &Type,
        out: &Acc,
    ) -> Done {
        let Some(n) = n.as_constant() else {
            let text = format!("arrays are iterated a constant number of times, not `{n}`");
            return Err(self.refuse(codes::UNSUPPORTED, text));
        };
        let x = self.arg(&args[1])?;
        let f = args[0].clone();
        match n {
            0 => {
                let x = x.clone();
                return self.assign(out, &x, ty);
            }
            1 => return self.call_into(&f, vec![x], out),
            _ => {}
        }
        let a = self.allocate("even", ty, Space::Host, &mut Vec::new())?;
        self.call_into(&f, vec![x], &Lower::place(&a, ty, Vec::new()))?;
        if n == 2 {
            let x = self.read_buffers(&a, ty, Vec::new());
            return self.call_into(&f, vec![x], out);
        }
        let b = self.allocate("odd", ty, Space::Host, &mut Vec::new())?;
        let go = |l: &mut Self, from: &Storage, to: &Acc| {
            let x = l.read_buffers(from, ty, Vec::new());
            l.call_into(&f, vec![x], to)
        };
        let (to_a, to_b) = (Lower::place(&a, ty, Vec::new()), Lower::place(&b, ty, Vec::new()));
        let both = Nat::constant((n - 2) / 2);
        self.serial_loop("t", &both, executor(kind), |l, _| {
            go(l, &a, &to_b)?;
            go(l, &b, &to_a)
        })?;
        if (n - 2) % 2 == 0 {
            return go(self, &a, out);
        }
        go(self, &a, &to_b)?;
        go(self, &b, out)
    }

    /// `toMem`: the value, stored.
    pub(super) fn stored(&mut self, space: Space, e: &Arg, f: &Arg, ty: &Type) -> Result<View, Diagnostic> {
        let places = self.places.clone();
        let name = match hint_of(f).as_str() {
            "_" | "i" => "mem".to_string(),
            n => n.to_string(),
        };
        let storage = self.allocate(&name, ty, space, &mut Vec::new())?;
        self.start(e, &storage, ty)?;
        self.places = places;
        Ok(self.read_buffers(&storage, ty, Vec::new()))
    }
}

/// Whether no element is left after whole vectors.
fn l_is_multiple(l: &Lower, rest: &Nat, w: &Nat, n: &Nat) -> bool {
    rest.is_zero() || l.indices.divides(w, n) || l.indices.expr(rest) == build::index(0)
}

/// The name of the loop of a reduction: what its operator calls elements.
fn hint(op: &Arg) -> String {
    match op {
        Arg::Term(t, _) => match t.as_lam().map(|b| b.kind().clone()) {
            Some(TermKind::Lam(h, _)) if &*h != "_" => h.to_string(),
            _ => "k".to_string(),
        },
        _ => "k".to_string(),
    }
}

/// A variable, or a part of one.
fn is_part_of_variable(t: &Term) -> bool {
    match t.kind() {
        TermKind::Bound(_) => true,
        TermKind::App(f, a) => matches!(f.as_prim(), Some(Prim::Proj(..))) && is_part_of_variable(a),
        _ => false,
    }
}
