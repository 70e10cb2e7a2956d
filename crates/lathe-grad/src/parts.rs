//! Structs, tuples, small arrays and complex numbers are differentiated by their parts: an array of them becomes an array for
//! each of their scalars, the function over these is differentiated, and the derived function takes and gives structs again.
//!
//! A tangent or cotangent of a struct has the type of the struct. Its floats hold the derivatives, all else in it is 0 where it is
//! a result and not looked at where it is given. So the cotangent of a complex array holds the derivatives of a real number
//! by the real and by the imaginary part of each element, `∂/∂re + i ∂/∂im`, which is the gradient as PyTorch defines it (JAX
//! has its conjugate), and the adjoint of `J` is the one of the inner product `Re(conj(a) b)`.

pub mod leaf;

use crate::codes::{self, refuse};
use crate::{Derivative, Mode, Request, shadow_name};
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::around;
use lathe_ir::stmt::{AccessMode, Arg, PartMap};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Combine, Compute, Dim, Expr, ExprKind, Function, Label, Mode as ParamMode,
    Module, Name, Param, ParamKind, Reduce, ReduceOp, Scalar, Space, Stmt, StmtKind, Store, Type, View,
    build, reduce, visit,
};
use leaf::{Leaf, assembled, component, element, is_whole, leaves, named, over};
pub use leaf::{has_floats, is_struct};
use std::collections::HashMap;
use std::sync::Arc;

/// A function with scalars in place of structs.
pub struct Split {
    pub func: Function,
    /// The parameters that had parts.
    wholes: Vec<Whole>,
}

struct Whole {
    name: Name,
    elem: Type,
    leaves: Vec<Leaf>,
}

/// Whether a function has structs, in arrays or in expressions.
pub fn has_wholes(f: &Function) -> bool {
    let mut found = f.params.iter().any(|p| p.array().is_some_and(|b| is_whole(&b.elem)));
    visit::walk(&f.body, &mut |s, _| {
        found |= s.allocated().is_some_and(|b| is_whole(&b.elem));
        s.exprs().into_iter().for_each(|e| visit::walk_expr(e, &mut |x| found |= is_whole(x.ty())));
        !found
    });
    found
}

/// The function over parts. Those that it calls with structs, with derivatives of their own, are in the module (`divided`).
///
/// # Errors
/// `E1302` for statements that have no parts.
pub fn split(module: &Module, f: &Function) -> Result<Split, Diagnostic> {
    let mut func = lathe_transform::open::open_some(module, f, &has_no_parts).map_err(|r| *r.diagnostic)?;
    let mut parts = Parts { module, arrays: HashMap::new(), next: func.next_id, failed: None };
    let mut wholes = Vec::new();
    let mut params = Vec::new();
    for p in &func.params {
        match p.array().filter(|b| is_whole(&b.elem)) {
            Some(b) => {
                let (name, elem, leaves) = (b.name.clone(), b.elem.clone(), leaves(&b.elem));
                wholes.push(Whole { name, elem, leaves });
                for part in parts.divided(b) {
                    params.push(Param { kind: ParamKind::Array(part), ..p.clone() });
                }
            }
            None => params.push(p.clone()),
        }
    }
    func.params = params;
    func.body = parts.stmt(&func.body);
    func.next_id = parts.next;
    match parts.failed {
        Some(d) => Err(d),
        None => Ok(Split { func, wholes }),
    }
}

/// Whether a compute is none of one scalar at a time: an operator that works on whole structs.
fn has_no_parts(c: &Compute) -> bool {
    let by_parts = |op: &ReduceOp| *op == ReduceOp::Sum;
    let combines = c.dims.iter().filter_map(|d| match &d.combine {
        Combine::Concat => None,
        Combine::Reduce(op) | Combine::Scan(op) => Some(op),
    });
    c.targets.iter().any(|t| is_whole(&t.elem))
        && (c.targets.len() > 1 || !combines.chain(&c.update).all(by_parts))
}

/// What an operator makes of two values, each scalar of structs by itself; `None` if it is not defined on their types.
pub fn combined(module: &Module, op: &ReduceOp, a: &[Expr], b: &[Expr]) -> Option<Vec<Expr>> {
    let parts = Parts { module, arrays: HashMap::new(), next: 0, failed: None };
    Some(reduce::combine(module, op, a, b)?.iter().map(|e| parts.real(e)).collect())
}

impl Split {
    /// What names of parameters stand for.
    pub fn names(&self, names: &[String]) -> Vec<String> {
        let of = |n: &String| match self.wholes.iter().find(|w| *w.name == **n) {
            Some(w) => w.leaves.iter().filter(|l| l.ty.is_float()).map(|l| l.of(n)).collect(),
            None => vec![n.clone()],
        };
        names.iter().flat_map(of).collect()
    }

    /// The derived function with structs as parameters in place of their parts; `f` is the function that was split.
    ///
    /// # Errors
    /// `E1302` where parts are accessed by views.
    pub fn joined(
        &self,
        f: &Function,
        request: &Request,
        mut d: Derivative,
    ) -> Result<Derivative, Diagnostic> {
        let mut params: Vec<Param> = Vec::new();
        let mut read: HashMap<BufId, (Arc<Buffer>, Vec<u32>)> = HashMap::new();
        let (mut first, mut last, mut local) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = std::mem::take(&mut d.func.params).into_iter();
        while let Some(p) = all.next() {
            let Some((name, elem, leaves)) = self.parts_at(f, request.mode, p.name()) else {
                params.push(p);
                continue;
            };
            let others = all.by_ref().take(leaves.iter().flatten().count().saturating_sub(1));
            let mut halves: Vec<Arc<Buffer>> = Vec::new();
            for part in std::iter::once(p.clone()).chain(others) {
                halves.extend(part.array().cloned());
            }
            if halves.len() != leaves.iter().flatten().count() {
                return Err(unsupported("a part of a struct that is missing", &d.func.body));
            }
            let (mode, id) = (p.mode, d.func.fresh_buf());
            let both = Arc::new(Buffer { id, name: name.as_str().into(), elem, ..(*halves[0]).clone() });
            params.push(Param { kind: ParamKind::Array(both.clone()), mode, alias: None });
            let known: Vec<&Leaf> = leaves.iter().flatten().collect();
            if mode == ParamMode::In {
                let parts = halves.iter().zip(known);
                read.extend(parts.map(|(b, l)| (b.id, (both.clone(), l.path.clone()))));
                continue;
            }
            if mode == ParamMode::InOut {
                let pairs = halves.iter().zip(known);
                for (half, l) in pairs {
                    let copy = over(&mut d.func, &half.name, &both, |at| {
                        (element(half, at), component(build::load(element(&both, at)), &l.path))
                    });
                    first.push(copy);
                }
            }
            let types = both.elem.leaves();
            last.push(over(&mut d.func, &both.name, &both, |at| {
                let mut given = halves.iter().map(|half| build::load(element(half, at)));
                let mut parts = leaves.iter().zip(&types).map(|(l, ty)| {
                    let zero = || lathe_transform::storage::zero(&Type::from(*ty));
                    l.as_ref().and_then(|_| given.next()).unwrap_or_else(zero)
                });
                let whole = assembled(&both.elem, &mut parts);
                (element(&both, at), whole.unwrap_or_else(|| build::load(element(&both, at))))
            }));
            local.extend(halves);
        }
        d.func.params = params;
        let mut join = Join { read, failed: false };
        let body = join.child(&d.func.body);
        if join.failed {
            return Err(unsupported("a view of an array of structs", &d.func.body));
        }
        let body = Stmt::seq(first.into_iter().chain([body]).chain(last));
        d.func.body = local.into_iter().rev().fold(body, |body, b| {
            let space = if b.extents.is_empty() { Space::Register } else { Space::Host };
            let buffer = Arc::new(Buffer { space, ..(*b).clone() });
            let places = body.places().clone();
            Stmt::new(StmtKind::Alloc { buffer, body }, places)
        });
        (d.wrt, d.of) = (self.whole(&d.wrt), self.whole(&d.of));
        Ok(d)
    }

    /// The parameter whose first part, or that of its shadow, has this name; and which of its scalars are parts of that.
    fn parts_at(&self, f: &Function, mode: Mode, name: &str) -> Option<(String, Type, Vec<Option<Leaf>>)> {
        self.wholes.iter().find_map(|w| {
            let first = w.leaves.first()?;
            if first.of(&w.name) == name {
                let all = w.leaves.iter().cloned().map(Some).collect();
                return Some((w.name.to_string(), w.elem.clone(), all));
            }
            let first = w.leaves.iter().find(|l| l.ty.is_float())?;
            let floats = || w.leaves.iter().map(|l| l.ty.is_float().then(|| l.clone())).collect();
            (shadow_name(&self.func, &first.of(&w.name), mode) == name)
                .then(|| (shadow_name(f, &w.name, mode), w.elem.clone(), floats()))
        })
    }

    fn whole(&self, names: &[String]) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for n in names {
            let of = self.wholes.iter().find(|w| w.leaves.iter().any(|l| l.of(&w.name) == *n));
            let name = of.map_or_else(|| n.clone(), |w| w.name.to_string());
            if !out.contains(&name) {
                out.push(name);
            }
        }
        out
    }
}

fn unsupported(what: &str, at: &Stmt) -> Diagnostic {
    refuse(codes::UNSUPPORTED, format!("{what} is not differentiated"), at.places())
}

/// Puts parts in place of structs.
struct Parts<'m> {
    module: &'m Module,
    /// Of each array, those of its scalars.
    arrays: HashMap<BufId, (Vec<Leaf>, Vec<Arc<Buffer>>)>,
    next: u32,
    failed: Option<Diagnostic>,
}

/// Targets and values that are written together.
type Writes = Vec<(Access, Expr, Label)>;

impl Parts<'_> {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn divided(&mut self, b: &Arc<Buffer>) -> Vec<Arc<Buffer>> {
        let leaves = leaves(&b.elem);
        let parts = leaves.iter().map(|l| {
            let (id, name, elem) = (BufId(self.fresh()), l.of(&b.name).into(), l.ty.into());
            Arc::new(Buffer { id, name, elem, ..(**b).clone() })
        });
        let parts: Vec<Arc<Buffer>> = parts.collect();
        self.arrays.insert(b.id, (leaves, parts.clone()));
        parts
    }

    /// A value without structs in it.
    fn real(&self, e: &Expr) -> Expr {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Field(of, i) if !is_whole(x.ty()) => self.part(of, &[*i]),
            _ => x,
        })
    }

    /// A scalar of a struct.
    fn part(&self, e: &Expr, path: &[u32]) -> Expr {
        let [first, rest @ ..] = path else { return e.clone() };
        match e.kind() {
            ExprKind::Aggregate(parts) => self.part(&parts[*first as usize], rest),
            ExprKind::Select(c, a, b) => build::select(c.clone(), self.part(a, path), self.part(b, path)),
            ExprKind::Field(of, i) => self.part(of, &[&[*i], path].concat()),
            ExprKind::Load(a) => match self.arrays_of(a) {
                Some((leaves, parts)) => {
                    let n = leaves.iter().position(|l| l.path == path).unwrap_or(0);
                    build::load(self.half(a, &parts[n]))
                }
                None => component(e.clone(), path),
            },
            _ => component(e.clone(), path),
        }
    }

    fn half(&self, a: &Access, to: &Buffer) -> Access {
        let a = a.map_exprs(&mut |e| self.real(e));
        Access { view: View::Buffer(to.id), elem: to.elem.clone(), ..a }
    }

    fn arrays_of(&self, a: &Access) -> Option<&(Vec<Leaf>, Vec<Arc<Buffer>>)> {
        a.view.as_buffer().and_then(|b| self.arrays.get(&b))
    }

    /// The scalars that are written where this value is.
    fn writes(&self, target: &Access, value: &Expr, label: &Label) -> Writes {
        let value = self.real(value);
        let Some((leaves, parts)) = self.arrays_of(target) else {
            return vec![(target.map_exprs(&mut |e| self.real(e)), value, label.clone())];
        };
        let each = leaves.iter().zip(parts).map(|(l, b)| {
            (self.half(target, b), self.part(&value, &l.path), Label::new(l.of(label.as_str())))
        });
        each.collect()
    }

    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let StmtKind::Alloc { buffer, body } = s.kind()
            && is_whole(&buffer.elem)
        {
            let parts = self.divided(buffer);
            let body = self.stmt(body);
            let alloc = |body, buffer| s.with_kind(StmtKind::Alloc { buffer, body });
            return parts.into_iter().rev().fold(body, alloc);
        }
        if let Some(st) = s.as_store()
            && self.arrays_of(&st.target).is_some()
        {
            let all = self.writes(&st.target, &st.value, &st.label);
            let instance: Vec<Expr> = st.instance.iter().map(|e| self.real(e)).collect();
            return self.apart(s, all, |target, value, label| {
                let instance = instance.clone();
                s.with_kind(StmtKind::Store(Store { target, label, instance, value, ..st.clone() }))
            });
        }
        if let Some(r) = s.as_reduce()
            && r.targets.iter().any(|t| self.arrays_of(t).is_some())
        {
            return self.reduce(s, r);
        }
        if let Some(c) = s.as_compute()
            && let ([target], [value]) = (&c.targets[..], &c.values[..])
            && self.arrays_of(target).is_some()
        {
            return self.compute(s, c, target, value);
        }
        let is_passed = |a: &Arg| match a {
            Arg::View(v) => v.buffer().is_some_and(|b| self.arrays.contains_key(&b)),
            Arg::Value(_) => false,
        };
        let passed = matches!(s.kind(), StmtKind::Call { args, .. } if args.iter().any(is_passed));
        if passed && let Some(call) = self.call(s) {
            return call;
        }
        let found = s.written().filter_map(View::buffer).any(|b| self.arrays.contains_key(&b));
        if passed || found && s.children().next().is_none() {
            self.failed.get_or_insert_with(|| unsupported("a statement on structs", s));
        }
        s.map_parts(&mut Inner(self))
    }

    /// A call with the parts of what is passed, of a function that has derivatives of its own.
    fn call(&mut self, s: &Stmt) -> Option<Stmt> {
        let StmtKind::Call { function, args } = s.kind() else { return None };
        let name = named(function);
        if !self.module.functions.contains_key(&name) {
            return None;
        }
        let mut parts = Vec::new();
        for a in args {
            match a {
                Arg::Value(e) => parts.push(Arg::Value(self.real(e))),
                Arg::View(v) => match v.as_buffer().and_then(|b| self.arrays.get(&b)) {
                    Some((_, halves)) => {
                        parts.extend(halves.iter().map(|b| Arg::View(View::Buffer(b.id))));
                    }
                    None if v.buffer().is_some_and(|b| self.arrays.contains_key(&b)) => return None,
                    None => parts.push(a.clone()),
                },
            }
        }
        Some(s.with_kind(StmtKind::Call { function: name, args: parts }))
    }

    /// `target ⊕= value`: a sum adds each part, any other operator combines whole values.
    fn reduce(&mut self, s: &Stmt, r: &Reduce) -> Stmt {
        let instance: Vec<Expr> = r.instance.iter().map(|e| self.real(e)).collect();
        if r.op == ReduceOp::Sum {
            let ([target], [value]) = (&r.targets[..], &r.values[..]) else {
                self.failed.get_or_insert_with(|| unsupported("a sum of several structs", s));
                return s.clone();
            };
            let all = self.writes(target, value, &r.label);
            return self.apart(s, all, |target, value, label| {
                let (targets, values, instance) = (vec![target], vec![value], instance.clone());
                s.with_kind(StmtKind::Reduce(Reduce { targets, values, label, instance, ..r.clone() }))
            });
        }
        let old: Vec<Expr> = r.targets.iter().cloned().map(build::load).collect();
        let Some(new) = reduce::combine(self.module, &r.op, &old, &r.values) else {
            let what = format!("the operator `{}` of structs", r.op);
            self.failed.get_or_insert_with(|| unsupported(&what, s));
            return s.clone();
        };
        let all = r.targets.iter().zip(&new).flat_map(|(t, v)| self.writes(t, v, &r.label)).collect();
        self.apart(s, all, |target, value, label| {
            s.with_kind(StmtKind::Store(Store::new(label, instance.clone(), target, value)))
        })
    }

    /// All statements; the values are there before the first one writes.
    fn apart(&mut self, s: &Stmt, all: Writes, make: impl Fn(Access, Expr, Label) -> Stmt) -> Stmt {
        let mut names = Vec::new();
        let mut list = Vec::new();
        for (target, value, label) in all {
            let ty = value.ty().scalar().unwrap_or(Scalar::F64);
            let binder = Binder { id: lathe_ir::VarId(self.fresh()), name: "part".into(), ty };
            list.push(make(target, build::var(&binder), label));
            names.push((binder, value));
        }
        names
            .into_iter()
            .rev()
            .fold(Stmt::seq(list), |body, (binder, value)| s.with_kind(StmtKind::Let { binder, value, body }))
    }

    fn compute(&mut self, s: &Stmt, c: &Compute, target: &Access, value: &Expr) -> Stmt {
        let real = |e: &Expr| self.real(e);
        let dims: Vec<Dim> =
            c.dims.iter().map(|d| Dim { lo: real(&d.lo), hi: real(&d.hi), ..d.clone() }).collect();
        let guard = c.guard.as_ref().map(real);
        let make = |target: Access, value: Expr, label: Label| {
            let (targets, values, update) = (vec![target], vec![value], c.update.clone());
            let (dims, guard) = (dims.clone(), guard.clone());
            s.with_kind(StmtKind::Compute(Compute { label, dims, targets, values, guard, update }))
        };
        let all = self.writes(target, value, &c.label);
        let around = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.guard).chain([value]);
        let own = around.flat_map(visit::loads_of).any(|a| a.view.buffer() == target.view.buffer());
        if own && (c.update.is_some() || c.dims.iter().any(|d| d.combine != Combine::Concat)) {
            let text = "a sum of complex numbers that reads what it adds to";
            self.failed.get_or_insert_with(|| unsupported(text, s));
            return s.clone();
        }
        let arrays = self.arrays_of(target).map(|a| a.1.clone()).unwrap_or_default();
        let (mut list, mut back, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let count = all.len();
        for (n, ((target, value, label), b)) in all.into_iter().zip(arrays).enumerate() {
            if !own || n + 1 == count {
                list.push(make(target, value, label));
                continue;
            }
            // All parts but the last are kept until that was computed.
            let new = Arc::new(Buffer {
                id: BufId(self.fresh()),
                name: renewed(&b.name).into(),
                space: if b.extents.is_empty() { Space::Register } else { Space::Host },
                ..(*b).clone()
            });
            let place = Access { view: View::Buffer(new.id), ..target.clone() };
            let again = Label::new(renewed(label.as_str()));
            back.push(make(target, build::load(place.clone()), again));
            list.push(make(place, value, label));
            kept.push(new);
        }
        let list: Vec<Stmt> =
            list.into_iter().chain(back).map(|s| visit::refresh(&s, &mut self.next)).collect();
        let alloc = |body, buffer| s.with_kind(StmtKind::Alloc { buffer, body });
        kept.into_iter().rev().fold(Stmt::seq(list), alloc)
    }
}

fn renewed(name: &str) -> String {
    around(name, "new")
}

/// The parts of statements that are none of structs.
struct Inner<'a, 'm>(&'a mut Parts<'m>);

impl PartMap for Inner<'_, '_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        self.0.real(e)
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        a.map_exprs(&mut |e| self.0.real(e))
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        self.0.stmt(s)
    }
}

/// Puts parameters that are read in place of their parts.
struct Join {
    read: HashMap<BufId, (Arc<Buffer>, Vec<u32>)>,
    failed: bool,
}

impl PartMap for Join {
    fn expr(&mut self, e: &Expr) -> Expr {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => match (a.view.as_buffer(), a.view.buffer()) {
                (Some(b), _) if let Some((both, path)) = self.read.get(&b) => {
                    let whole = Access { view: View::Buffer(both.id), elem: both.elem.clone(), ..a.clone() };
                    component(build::load(whole), path)
                }
                (None, Some(b)) if self.read.contains_key(&b) => {
                    self.failed = true;
                    x
                }
                _ => x,
            },
            _ => x,
        })
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        a.map_exprs(&mut |e| self.expr(e))
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}
