//! From low-level terms to the tree.
//!
//! Every choice is in the term; the translation takes none and is a function of the term alone. Layout
//! primitives become views, that is, functions from subscripts to subscripts, composed when an element is
//! read or written; they allocate and copy nothing. Memory is made only where the term says so: `toMem`,
//! the accumulator of a reduction or scan, the buffers of `iterate`, and the result.
//!
//! Two functions do it (after Atkey, Steuwer, Lindley and Dubach, "Strategy preserving compilation for
//! parallel functional code", 2017): `read` gives a term's value as a view, `write` puts it into a place.
//! Rules that the term cannot say otherwise:
//!
//! * accumulators of numbers are registers; those of arrays are on the stack if their sizes are constant
//!   and in ordinary memory otherwise, unless `reduceSeqIn(space, …)` says where;
//! * a reduction that starts from the place that it goes to accumulates there;
//! * the accumulator of a tuple is one buffer where one of the program's operators combines its parts, and else one for each;
//! * an operator that reads its accumulator elsewhere than it writes works on a second copy;
//! * `mapVec(w)` takes whole vectors first, and one masked vector for what is left.

mod block;
mod computes;
mod hazard;
mod index;
mod loops;
mod operator;
mod read;
mod select;
mod store;
mod stream;
mod view;
mod write;

use crate::codes;
use crate::facts::Fact;
use crate::nat::Nat;
use crate::program::{Program, is_plain};
use crate::types::{Type, TypeKind};
use crate::value::element_type;
use index::Indices;
use lathe_diagnostics::{Code, Diagnostic, Places};
use lathe_ir::stmt::block::Item;
use lathe_ir::{
    Access, Binder, CombineOp, Executor, Expr, Function, Loop, Mode, Module, Name, Param, ParamKind, Scalar,
    Space, Stage, Stmt, StmtKind, build, names,
};
use lathe_poly::simplify;
use std::collections::BTreeMap;
use view::{Arg, Env, Storage, View};

struct Lower<'a> {
    program: &'a Program,
    func: Function,
    indices: Indices,
    /// The block that is being put together.
    items: Vec<Item>,
    /// Variables of the loops around, outermost first.
    loops: Vec<(String, Expr)>,
    /// How many buffers and statements have a name.
    names: BTreeMap<Name, usize>,
    labels: BTreeMap<Name, usize>,
    /// Padded arrays that are read as they are: each needs an element.
    padded: Vec<Nat>,
    places: Places,
    /// New operators, where they are asked for.
    declared: Option<Vec<CombineOp>>,
}

fn error(code: Code, text: String, places: &Places) -> Diagnostic {
    Diagnostic::error(code, text).at_places(places, "here")
}

/// The function of a program all of whose computations are low-level. Its parameters are the program's,
/// then the result: `out`, or `out.0`, `out.1`, … for the parts of a tuple.
pub fn lower(p: &Program) -> Result<Function, Diagnostic> {
    translated(p, None).map(|f| f.0)
}

/// As [`lower`], with operators for the reductions of tuples whose parts depend on each other. They declare what a
/// reduction in any order needs: whoever puts them into [`Program::operators`] has found out that it holds.
pub fn lower_declaring(p: &Program) -> Result<(Function, Vec<CombineOp>), Diagnostic> {
    translated(p, Some(Vec::new()))
}

/// A module with that function alone, and the program's operators.
pub fn lower_to_module(p: &Program) -> Result<Module, Diagnostic> {
    let f = lower(p)?;
    let mut m = Module::default();
    m.functions.insert(f.name.clone(), f);
    m.ops.extend(p.operators.iter().map(|o| (o.name.clone(), o.clone())));
    Ok(m)
}

fn translated(
    p: &Program,
    declared: Option<Vec<CombineOp>>,
) -> Result<(Function, Vec<CombineOp>), Diagnostic> {
    let func = Function::empty(&p.name, Stage::Scheduled);
    let mut l = Lower {
        program: p,
        func,
        indices: Indices::new(p.facts.clone()),
        items: Vec::new(),
        loops: Vec::new(),
        names: BTreeMap::new(),
        labels: BTreeMap::new(),
        padded: Vec::new(),
        places: Places::none(),
        declared,
    };
    l.function()?;
    Ok((l.func, l.declared.unwrap_or_default()))
}

impl Lower<'_> {
    fn function(&mut self) -> Result<(), Diagnostic> {
        for n in &self.program.sizes {
            let b = self.func.fresh_var(n, lathe_ir::Scalar::Index);
            self.indices.size(n, build::var(&b));
            self.func.sizes.push(b);
        }
        let mut args = Vec::new();
        let mut declared = self.program.declared.clone();
        for p in self.program.params.clone() {
            let Some((ty, rest)) = declared.as_fun().map(|(a, b)| (a.clone(), b.clone())) else { break };
            args.push(Arg::View(self.parameter(&p.name, &ty)?));
            declared = rest;
        }
        let results: Vec<(String, Type)> = match declared.kind() {
            TypeKind::Tuple(ts) if element_type(&declared).is_none() => {
                ts.iter().enumerate().map(|(n, t)| (format!("out.{n}"), t.clone())).collect()
            }
            _ => vec![("out".to_string(), declared)],
        };
        let mut places = Vec::new();
        for (name, ty) in &results {
            let s = self.outer(name, ty, Mode::Out)?;
            places.push(Lower::place(&s, &ty.in_parts(), Vec::new()));
        }
        let out = if results.len() == 1 && results[0].0 == "out" {
            places.remove(0)
        } else {
            view::Acc::Tuple(places)
        };
        let term = self.program.term.clone();
        let body = self.block(|l| l.write(&term, &Env::default(), args, &out))?;
        let mut all = self.checks();
        all.push(body);
        self.func.body = Stmt::seq(all);
        self.func = simplify::simplify_function(&self.func);
        Ok(())
    }

    /// A parameter that is an array (or a tuple): one buffer, of elements as they are declared.
    fn outer(&mut self, name: &str, ty: &Type, mode: Mode) -> Result<Storage, Diagnostic> {
        let (mut sizes, mut elem) = (Vec::new(), ty);
        while let TypeKind::Array(n, e) = elem.kind() {
            sizes.push(n.clone());
            elem = e;
        }
        let Some(elem) = element_type(elem).filter(|_| is_plain(ty)) else {
            let text = format!("`{name}` has the type `{ty}`, which is not an array of elements");
            return Err(self.refuse(codes::UNSUPPORTED, text));
        };
        let b = self.buffer(name, elem, &sizes, Space::Host);
        let kind = ParamKind::Array(b.clone());
        self.func.params.push(Param { kind, mode, alias: None });
        Ok(Storage::Buffer(b))
    }

    fn parameter(&mut self, name: &Name, ty: &Type) -> Result<View, Diagnostic> {
        let scalar = match ty.kind() {
            TypeKind::Scalar(s) => Some(*s),
            TypeKind::Index(_) => Some(lathe_ir::Scalar::Index),
            _ => None,
        };
        let Some(s) = scalar else {
            let storage = self.outer(name, ty, Mode::In)?;
            return Ok(self.read_storage(&storage, &ty.in_parts()));
        };
        let b = self.func.fresh_var(name, s);
        let v = build::var(&b);
        self.func.params.push(Param { kind: ParamKind::Scalar(b), mode: Mode::In, alias: None });
        Ok(match ty.kind() {
            TypeKind::Index(n) => View::Index(self.indices.atom(v, Some(n.clone()))),
            _ => View::Number(v),
        })
    }

    fn read_storage(&mut self, s: &Storage, ty: &Type) -> View {
        self.read_buffers(s, ty, Vec::new())
    }

    /// What the call must check: the facts about sizes, and indices that are given.
    fn checks(&mut self) -> Vec<Stmt> {
        let mut out = Vec::new();
        let mut check = |cond: Expr, message: String| {
            if cond.as_bool() != Some(true) {
                let (code, message) = (Name::from("sizes"), Name::from(message));
                out.push(Stmt::of(StmtKind::Check { cond, code, message }));
            }
        };
        // Bounds first: they keep divisors positive.
        for f in self.program.facts.all() {
            if let Fact::AtMost(a, b) = f {
                check(build::le(self.indices.expr(a), self.indices.expr(b)), f.to_string());
            }
        }
        for f in self.program.facts.all() {
            if let Fact::Divides(b, a) = f {
                let rest = build::floor_mod(self.indices.expr(a), self.indices.expr(b));
                check(build::eq(rest, build::index(0)), f.to_string());
            }
        }
        for n in &self.padded {
            check(build::le(build::index(1), self.indices.expr(n)), format!("{n} >= 1, to be padded"));
        }
        let params = self.program.params.iter().zip(&self.func.params);
        for (p, param) in params {
            if let (TypeKind::Index(n), ParamKind::Scalar(b)) = (p.ty.kind(), &param.kind) {
                let v = build::var(b);
                let inside =
                    build::and(build::le(build::index(0), v.clone()), build::lt(v, self.indices.expr(n)));
                check(inside, format!("0 <= {} < {n}", p.name));
            }
        }
        for n in 0..self.program.params.len() {
            out.extend(self.given_indices(n));
        }
        out
    }

    /// Checks the indices that an array brings along: what is read through them afterwards is not checked again.
    fn given_indices(&mut self, parameter: usize) -> Option<Stmt> {
        let ParamKind::Array(b) = &self.func.params[parameter].kind else { return None };
        let (b, mut elem) = (b.clone(), self.program.params[parameter].ty.clone());
        while let TypeKind::Array(_, e) = elem.kind() {
            elem = e.clone();
        }
        let loops: Vec<Binder> = (0..b.extents.len())
            .map(|d| self.func.fresh_var(names::dimension(&b.name, d), Scalar::Index))
            .collect();
        let at = loops.iter().map(build::var).collect();
        let mut checks = Vec::new();
        let element = build::load(Access::buffer(b.id, b.elem.clone(), at));
        self.inside(&b.name, &elem, &element, &mut checks);
        let body = (!checks.is_empty()).then(|| Stmt::seq(checks))?;
        let around = loops.into_iter().zip(&b.extents).rev();
        Some(around.fold(body, |body, (binder, hi)| {
            let (lo, hi, exec) = (build::index(0), hi.clone(), Executor::Serial);
            Stmt::of(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }))
        }))
    }

    /// That every index which is part of a value is below its bound.
    fn inside(&self, name: &str, ty: &Type, value: &Expr, out: &mut Vec<Stmt>) {
        match ty.kind() {
            TypeKind::Index(n) => {
                let below = build::lt(value.clone(), self.indices.expr(n));
                let cond = build::and(build::le(build::index(0), value.clone()), below);
                let message = format!("an index in `{name}` is not below {n}").as_str().into();
                out.push(Stmt::of(StmtKind::Check { cond, code: Name::from("bounds"), message }));
            }
            TypeKind::Tuple(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    self.inside(name, part, &build::field(value.clone(), k as u32), out);
                }
            }
            _ => {}
        }
    }

    /// A name that no loop around has, so that steps on loops can tell them apart: `x`, `x2`, `x3`, ….
    fn loop_name(&self, base: &str) -> String {
        let taken = |n: &str| self.loops.iter().any(|l| l.0 == n);
        let numbered = (2..).map(|k| format!("{base}{k}"));
        std::iter::once(base.to_string()).chain(numbered).find(|n| !taken(n)).unwrap_or_default()
    }

    /// A loop over `0..n`; `f` emits the body.
    fn serial_loop(
        &mut self,
        name: &str,
        n: &Nat,
        exec: Executor,
        f: impl FnOnce(&mut Self, &Nat) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let hi = self.indices.expr(n);
        self.range_loop(name, hi, n, exec, f)
    }

    /// As [`Lower::serial_loop`], with another bound than the one that is known of the variable.
    fn range_loop(
        &mut self,
        name: &str,
        hi: Expr,
        below: &Nat,
        exec: Executor,
        f: impl FnOnce(&mut Self, &Nat) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        if exec == Executor::Unrolled && hi.as_int().is_none() {
            let text = "only a loop with a constant trip count can be unrolled".to_string();
            return Err(self.refuse(codes::UNSUPPORTED, text));
        }
        // One iteration, in order, is not a loop.
        if hi.as_int() == Some(1) && exec.is_ordered() {
            return f(self, &Nat::zero());
        }
        let name = self.loop_name(if name == "_" { "i" } else { name });
        let binder = self.func.fresh_var(&name, lathe_ir::Scalar::Index);
        let var = build::var(&binder);
        let i = self.indices.atom(var.clone(), Some(below.clone()));
        self.loops.push((name, var));
        let places = self.places.clone();
        let body = self.block(|l| f(l, &i));
        self.loops.pop();
        self.places = places;
        let (body, lo) = (body?, build::index(0));
        self.emit(StmtKind::Loop(lathe_ir::Loop { binder, lo, hi, step: 1, exec, body }));
        Ok(())
    }
}
