//! Complex numbers are differentiated by their parts: arrays of them become two arrays of real numbers each, the real function
//! is differentiated, and the derived function takes and gives complex arrays again.
//!
//! So the cotangent of a complex array holds the derivatives of a real number by the real and by the imaginary part of
//! each element, `∂/∂re + i ∂/∂im`, which is the gradient as PyTorch defines it (JAX has its conjugate), and the
//! adjoint of `J` is the one of the inner product `Re(conj(a) b)`.

use crate::codes::{self, refuse};
use crate::{Derivative, Mode, Request, shadow_name};
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::around;
use lathe_ir::stmt::{AccessMode, PartMap};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Combine, Compute, Dim, Expr, ExprKind, Function, Label, Mode as ParamMode,
    Name, Param, ParamKind, Reduce, Scalar, Space, Stmt, StmtKind, Store, Type, View, build, visit,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A function with parts in place of complex arrays.
pub struct Split {
    pub func: Function,
    /// The complex parameters, with their types.
    complex: Vec<(Name, Type)>,
}

fn part_name(name: &str, i: usize) -> String {
    around(name, ["re", "im"][i])
}

/// Whether a function has complex numbers.
pub fn has_complex(f: &Function) -> bool {
    let complex = |b: &Buffer| b.elem.complex_part().is_some();
    let mut found = f.params.iter().any(|p| p.array().is_some_and(|b| complex(b)));
    visit::walk(&f.body, &mut |s, _| {
        found |= matches!(s.kind(), StmtKind::Alloc { buffer, .. } if complex(buffer));
        !found
    });
    found
}

/// The function over parts.
///
/// # Errors
/// `E1302` for statements that have no parts.
pub fn split(f: &Function) -> Result<Split, Diagnostic> {
    let mut func = f.clone();
    let mut parts = Parts { pairs: HashMap::new(), next: f.next_id, failed: None };
    let mut complex = Vec::new();
    let mut params = Vec::new();
    for p in &f.params {
        match p.array().filter(|b| b.elem.complex_part().is_some()) {
            Some(b) => {
                complex.push((b.name.clone(), b.elem.clone()));
                for half in parts.pair(b) {
                    params.push(Param { kind: ParamKind::Array(half), ..p.clone() });
                }
            }
            None => params.push(p.clone()),
        }
    }
    func.params = params;
    func.body = parts.stmt(&f.body);
    func.next_id = parts.next;
    match parts.failed {
        Some(d) => Err(d),
        None => Ok(Split { func, complex }),
    }
}

impl Split {
    /// What names of parameters stand for.
    pub fn names(&self, names: &[String]) -> Vec<String> {
        let of = |n: &String| match self.complex.iter().any(|c| *c.0 == **n) {
            true => vec![part_name(n, 0), part_name(n, 1)],
            false => vec![n.clone()],
        };
        names.iter().flat_map(of).collect()
    }

    /// The derived function with complex parameters in place of their parts; `f` is the function that was split.
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
        let mut read: HashMap<BufId, (Arc<Buffer>, u32)> = HashMap::new();
        let (mut first, mut last, mut local) = (Vec::new(), Vec::new(), Vec::new());
        let all = std::mem::take(&mut d.func.params);
        let mut at = 0;
        while at < all.len() {
            let Some((name, elem)) = self.pair_at(f, request.mode, all[at].name()) else {
                params.push(all[at].clone());
                at += 1;
                continue;
            };
            let (Some(re), Some(im)) = (all[at].array(), all.get(at + 1).and_then(Param::array)) else {
                return Err(unsupported("a part of a complex parameter that is missing", &d.func.body));
            };
            let mode = all[at].mode;
            let (re, im) = (re.clone(), im.clone());
            at += 2;
            let id = d.func.fresh_buf();
            let both = Arc::new(Buffer { id, name: name.as_str().into(), elem, ..(*re).clone() });
            params.push(Param { kind: ParamKind::Array(both.clone()), mode, alias: None });
            if mode == ParamMode::In {
                read.insert(re.id, (both.clone(), 0));
                read.insert(im.id, (both, 1));
                continue;
            }
            if mode == ParamMode::InOut {
                for (n, half) in [&re, &im].into_iter().enumerate() {
                    let copy = over(&mut d.func, &half.name, &both, |at| {
                        (element(half, at), build::field(build::load(element(&both, at)), n as u32))
                    });
                    first.push(copy);
                }
            }
            last.push(over(&mut d.func, &both.name, &both, |at| {
                let parts = [&re, &im].map(|half| build::load(element(half, at)));
                (element(&both, at), build::aggregate(both.elem.clone(), parts.to_vec()))
            }));
            local.extend([re, im]);
        }
        d.func.params = params;
        let mut join = Join { read, failed: false };
        let body = join.child(&d.func.body);
        if join.failed {
            return Err(unsupported("a view of a complex array", &d.func.body));
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

    /// The complex parameter whose real part, or that of its shadow, has this name.
    fn pair_at(&self, f: &Function, mode: Mode, name: &str) -> Option<(String, Type)> {
        self.complex.iter().find_map(|(n, ty)| {
            let re = part_name(n, 0);
            if re == name {
                return Some((n.to_string(), ty.clone()));
            }
            (shadow_name(&self.func, &re, mode) == name).then(|| (shadow_name(f, n, mode), ty.clone()))
        })
    }

    fn whole(&self, names: &[String]) -> Vec<String> {
        let of = |n: &String| {
            let part = |i: usize| self.complex.iter().find(|c| part_name(&c.0, i) == *n);
            match (part(0), part(1)) {
                (Some(c), _) => Some(c.0.to_string()),
                (_, Some(_)) => None,
                _ => Some(n.clone()),
            }
        };
        names.iter().filter_map(of).collect()
    }
}

fn unsupported(what: &str, at: &Stmt) -> Diagnostic {
    refuse(codes::UNSUPPORTED, format!("{what} is not differentiated"), at.places())
}

fn element(b: &Buffer, at: &[Expr]) -> Access {
    Access::buffer(b.id, b.elem.clone(), at.to_vec())
}

/// A statement for each element of an array, in index notation: what is stored, and where.
fn over(f: &mut Function, label: &str, shape: &Buffer, what: impl Fn(&[Expr]) -> (Access, Expr)) -> Stmt {
    let dims: Vec<Dim> = (shape.extents.iter().enumerate())
        .map(|(n, hi)| {
            let binder = f.fresh_var(format!("i{n}"), Scalar::Index);
            Dim { binder, lo: build::index(0), hi: hi.clone(), combine: Combine::Concat }
        })
        .collect();
    let at: Vec<Expr> = dims.iter().map(|d| build::var(&d.binder)).collect();
    let (target, value) = what(&at);
    let label = Label::new(label);
    let kind = if dims.is_empty() {
        StmtKind::Store(Store::new(label, Vec::new(), target, value))
    } else {
        let (targets, values) = (vec![target], vec![value]);
        StmtKind::Compute(Compute { label, dims, targets, values, guard: None, update: None })
    };
    Stmt::new(kind, lathe_diagnostics::Places::none())
}

/// Puts parts in place of complex values.
struct Parts {
    pairs: HashMap<BufId, [Arc<Buffer>; 2]>,
    next: u32,
    failed: Option<Diagnostic>,
}

impl Parts {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn pair(&mut self, b: &Arc<Buffer>) -> [Arc<Buffer>; 2] {
        let elem: Type = b.elem.complex_part().unwrap_or(Scalar::F64).into();
        let pair = [0, 1].map(|i| {
            let (id, name) = (BufId(self.fresh()), part_name(&b.name, i).into());
            Arc::new(Buffer { id, name, elem: elem.clone(), ..(**b).clone() })
        });
        self.pairs.insert(b.id, pair.clone());
        pair
    }

    /// A value without complex numbers in it.
    fn real(&self, e: &Expr) -> Expr {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Field(of, i) if of.ty().complex_part().is_some() => self.part(of, *i),
            _ => x,
        })
    }

    /// A part of a complex value.
    fn part(&self, e: &Expr, i: u32) -> Expr {
        match e.kind() {
            ExprKind::Aggregate(parts) => parts[i as usize].clone(),
            ExprKind::Select(c, a, b) => build::select(c.clone(), self.part(a, i), self.part(b, i)),
            ExprKind::Load(a) => match a.view.as_buffer().and_then(|b| self.pairs.get(&b)) {
                Some(pair) => build::load(self.half(a, &pair[i as usize])),
                None => build::field(e.clone(), i),
            },
            _ => build::field(e.clone(), i),
        }
    }

    fn half(&self, a: &Access, to: &Buffer) -> Access {
        let a = a.map_exprs(&mut |e| self.real(e));
        Access { view: View::Buffer(to.id), elem: to.elem.clone(), ..a }
    }

    fn pair_of(&self, a: &Access) -> Option<[Arc<Buffer>; 2]> {
        a.view.as_buffer().and_then(|b| self.pairs.get(&b)).cloned()
    }

    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let StmtKind::Alloc { buffer, body } = s.kind()
            && buffer.elem.complex_part().is_some()
        {
            let [re, im] = self.pair(buffer);
            let body = self.stmt(body);
            let inner = s.with_kind(StmtKind::Alloc { buffer: im, body });
            return s.with_kind(StmtKind::Alloc { buffer: re, body: inner });
        }
        if let Some(st) = s.as_store()
            && let Some(pair) = self.pair_of(&st.target)
        {
            let values = [0, 1].map(|i| self.part_of(&st.value, i));
            let store = |m: &Parts, i: usize, value: Expr| {
                let (target, label) = (m.half(&st.target, &pair[i]), label(&st.label, i));
                let instance = st.instance.iter().map(|e| m.real(e)).collect();
                s.with_kind(StmtKind::Store(Store { target, label, instance, value, ..st.clone() }))
            };
            return self.apart(s, values, store);
        }
        if let Some(r) = s.as_reduce()
            && let ([target], [value]) = (&r.targets[..], &r.values[..])
            && let Some(pair) = self.pair_of(target)
        {
            let values = [0, 1].map(|i| self.part_of(value, i));
            let add = |m: &Parts, i: usize, value: Expr| {
                let (targets, label) = (vec![m.half(target, &pair[i])], label(&r.label, i));
                let instance = r.instance.iter().map(|e| m.real(e)).collect();
                let values = vec![value];
                s.with_kind(StmtKind::Reduce(Reduce { targets, values, label, instance, ..r.clone() }))
            };
            return self.apart(s, values, add);
        }
        if let Some(c) = s.as_compute()
            && let ([target], [value]) = (&c.targets[..], &c.values[..])
            && let Some(pair) = self.pair_of(target)
        {
            return self.compute(s, c, target, value, &pair);
        }
        let found = s.written().filter_map(View::buffer).any(|b| self.pairs.contains_key(&b));
        if found && s.children().next().is_none() {
            self.failed.get_or_insert_with(|| unsupported("a statement on complex numbers", s));
        }
        s.map_parts(&mut Inner(self))
    }

    fn part_of(&self, value: &Expr, i: u32) -> Expr {
        // Its own loads have parts already where they stand in real values.
        self.part(&self.real(value), i)
    }

    /// Both statements; the values are there before the first one writes.
    fn apart(&mut self, s: &Stmt, values: [Expr; 2], make: impl Fn(&Parts, usize, Expr) -> Stmt) -> Stmt {
        let names = values.map(|value| {
            let ty = value.ty().scalar().unwrap_or(Scalar::F64);
            (Binder { id: lathe_ir::VarId(self.fresh()), name: "part".into(), ty }, value)
        });
        let both = Stmt::seq([0, 1].map(|i| make(self, i, build::var(&names[i].0))));
        names
            .into_iter()
            .rev()
            .fold(both, |body, (binder, value)| s.with_kind(StmtKind::Let { binder, value, body }))
    }

    fn compute(
        &mut self,
        s: &Stmt,
        c: &Compute,
        target: &Access,
        value: &Expr,
        pair: &[Arc<Buffer>; 2],
    ) -> Stmt {
        let make = |m: &Parts, target: Access, value: Expr, label: Label| {
            let dims = c.dims.iter().map(|d| Dim { lo: m.real(&d.lo), hi: m.real(&d.hi), ..d.clone() });
            s.with_kind(StmtKind::Compute(Compute {
                label,
                dims: dims.collect(),
                targets: vec![target],
                values: vec![value],
                guard: c.guard.as_ref().map(|g| m.real(g)),
                update: c.update.clone(),
            }))
        };
        let values = [0, 1].map(|i| self.part_of(value, i));
        let around = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.guard).chain([value]);
        let own = around.flat_map(visit::loads_of).any(|a| a.view.buffer() == target.view.buffer());
        let half = |m: &Parts, i: usize| m.half(target, &pair[i]);
        let [re, im] = values;
        if !own {
            let first = make(self, half(self, 0), re, label(&c.label, 0));
            let second = make(self, half(self, 1), im, label(&c.label, 1));
            return Stmt::seq([first, visit::refresh(&second, &mut self.next)]);
        }
        if c.update.is_some() || c.dims.iter().any(|d| d.combine != Combine::Concat) {
            self.failed
                .get_or_insert_with(|| unsupported("a sum of complex numbers that reads what it adds to", s));
            return s.clone();
        }
        // The real parts are kept until the imaginary ones were computed.
        let kept = Arc::new(Buffer {
            id: BufId(self.fresh()),
            name: around_name(&pair[0].name),
            space: if pair[0].extents.is_empty() { Space::Register } else { Space::Host },
            ..(*pair[0]).clone()
        });
        let place = Access { view: View::Buffer(kept.id), ..half(self, 0) };
        let back = build::load(place.clone());
        let first = make(self, place, re, label(&c.label, 0));
        let second = make(self, half(self, 1), im, label(&c.label, 1));
        let third = make(self, half(self, 0), back, Label::new(around_name(c.label.as_str())));
        let [second, third] = [second, third].map(|s| visit::refresh(&s, &mut self.next));
        let body = Stmt::seq([first, second, third]);
        s.with_kind(StmtKind::Alloc { buffer: kept, body })
    }
}

fn around_name(name: &str) -> Name {
    around(name, "new").into()
}

fn label(of: &Label, i: usize) -> Label {
    Label::new(part_name(of.as_str(), i))
}

/// The parts of statements that are none of complex numbers.
struct Inner<'a>(&'a mut Parts);

impl PartMap for Inner<'_> {
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

/// Puts complex parameters that are read in place of their parts.
struct Join {
    read: HashMap<BufId, (Arc<Buffer>, u32)>,
    failed: bool,
}

impl PartMap for Join {
    fn expr(&mut self, e: &Expr) -> Expr {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => match (a.view.as_buffer(), a.view.buffer()) {
                (Some(b), _) if let Some((both, i)) = self.read.get(&b) => {
                    let whole = Access { view: View::Buffer(both.id), elem: both.elem.clone(), ..a.clone() };
                    build::field(build::load(whole), *i)
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
