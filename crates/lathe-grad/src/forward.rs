//! Forward mode: before every statement, one that computes its tangent.
//!
//! The tangent of a statement reads what the statement reads, so it comes first; neither writes what the other reads.

use crate::arrays::{allocated, copy_array, fill, zero_array};
use crate::calls::{Call, Passed};
use crate::expr::{Active, load_of, on, zero};
use crate::node::{Leaf, Node, Scope, Work, reduced};
use crate::prepare::Prepared;
use crate::{Derivative, Request};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, and, cast, floor_div, floor_mod, index, le, load, lt, mul, select, sub};
use lathe_ir::stmt::Arg;
use lathe_ir::visit::substitute;
use lathe_ir::{
    Access, Binder, BufId, Buffer, Combine, Compute, Dim, Expr, Function, Label, Loop, Mode, Param,
    ParamKind, Reduce, ReduceOp, Stmt, StmtKind, Store, Type, VarId, View,
};
use std::collections::HashMap;
use std::sync::Arc;

pub fn tangents(
    prepared: Prepared,
    request: &Request,
    wrt: Vec<String>,
    of: Vec<String>,
) -> Result<Derivative, Diagnostic> {
    let Prepared { func, act, root } = prepared;
    let mut f =
        Forward { func, act: &act, dots: HashMap::new(), scalars: HashMap::new(), instance: Vec::new() };
    let (mut ins, mut dots, mut outs, mut out_dots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut zeros = Vec::new();
    let mut locals = Vec::new();
    let primal = f.func.clone();
    for p in primal.params.clone() {
        let name = p.name().to_string();
        let (by, asked) = (wrt.contains(&name), of.contains(&name));
        let dot = crate::shadow_name(&primal, &name, crate::Mode::Forward);
        match &p.kind {
            ParamKind::Scalar(b) if by => {
                let tangent = f.func.fresh_var(&dot, b.ty);
                f.scalars.insert(b.id, tangent.clone());
                dots.push(Param { kind: ParamKind::Scalar(tangent), ..p.clone() });
            }
            ParamKind::Array(b) if by || asked || act.of_buffer(b.id) => {
                let shadow = f.shadow(b, &dot);
                if !act.of_buffer(b.id) && p.mode != Mode::In && asked {
                    // It does not depend on the inputs: where nothing writes it, its tangent is 0.
                    if p.mode == Mode::Out {
                        zeros.push(zero_array(&shadow, &mut f.func));
                    }
                }
                // What is not an input of its own starts without a tangent.
                let mode = match p.mode {
                    Mode::InOut if by && asked => Mode::InOut,
                    Mode::InOut if by => Mode::In,
                    Mode::InOut => Mode::Out,
                    other => other,
                };
                if p.mode == Mode::InOut && mode == Mode::Out {
                    zeros.push(zero_array(&shadow, &mut f.func));
                }
                let written = p.mode == Mode::InOut && mode == Mode::In;
                let param = |kind| Param { kind, mode, alias: None };
                if p.mode == Mode::In || by {
                    if written {
                        // An input that the function overwrites, whose final tangent nobody asks for.
                        let given = Arc::new(Buffer { id: f.func.fresh_buf(), ..(*shadow).clone() });
                        let local =
                            Arc::new(Buffer { name: format!("{name}.dot").into(), ..(*shadow).clone() });
                        zeros.push(copy_array(&given, &local, &mut f.func));
                        locals.push(local);
                        dots.push(param(ParamKind::Array(given)));
                    } else {
                        dots.push(param(ParamKind::Array(shadow.clone())));
                    }
                } else if asked {
                    out_dots.push(param(ParamKind::Array(shadow.clone())));
                } else {
                    let local = Buffer { name: format!("{name}.dot").into(), ..(*shadow).clone() };
                    locals.push(Arc::new(local));
                }
            }
            _ => {}
        }
        if p.mode == Mode::Out { outs.push(p) } else { ins.push(p) }
    }
    let body = f.scope(&root)?;
    let body = locals.into_iter().rev().fold(Stmt::seq(zeros.into_iter().chain([body])), |body, buffer| {
        Stmt::of(StmtKind::Alloc { buffer, body })
    });
    let mut func = f.func;
    func.name = request.name.as_str().into();
    func.params = ins.into_iter().chain(dots).chain(outs).chain(out_dots).collect();
    func.body = body;
    Ok(Derivative { func, wrt, of, kept: Vec::new(), everything: None, rule: None, also: Vec::new() })
}

/// Where the smallest or largest was: what the reduced indices were, and whether there was anything.
pub fn chosen(c: &Compute, at: Expr) -> (HashMap<VarId, Expr>, Expr) {
    let at = cast(Type::INDEX, at);
    let mut rest = at.clone();
    let mut found = HashMap::new();
    let mut total = index(1);
    let dims = reduced(c);
    for (n, d) in dims.iter().enumerate().rev() {
        let extent = sub(d.hi.clone(), d.lo.clone());
        total = mul(extent.clone(), total);
        let here = if n == 0 { rest.clone() } else { floor_mod(rest.clone(), extent.clone()) };
        found.insert(d.binder.id, add(d.lo.clone(), here));
        rest = floor_div(rest, extent);
    }
    (found, and(le(index(0), at.clone()), lt(at, total)))
}

struct Forward<'a> {
    func: Function,
    act: &'a crate::Activity,
    dots: HashMap<BufId, Arc<Buffer>>,
    scalars: HashMap<VarId, Binder>,
    instance: Vec<Expr>,
}

impl Forward<'_> {
    fn shadow(&mut self, b: &Arc<Buffer>, name: &str) -> Arc<Buffer> {
        let id = self.func.fresh_buf();
        let dot = Arc::new(Buffer { id, name: name.into(), ..(**b).clone() });
        self.dots.insert(b.id, dot.clone());
        dot
    }

    fn scope(&mut self, s: &Scope) -> Result<Stmt, Diagnostic> {
        self.among(&s.buffers, &s.body)
    }

    /// A node among local arrays.
    fn among(&mut self, buffers: &[Arc<Buffer>], n: &Node) -> Result<Stmt, Diagnostic> {
        let active: Vec<_> = buffers.iter().filter(|b| self.act.of_buffer(b.id)).cloned().collect();
        let dots: Vec<_> = active.iter().map(|b| self.shadow(b, &format!("{}.dot", b.name))).collect();
        let body = self.node(n)?;
        let all: Vec<Arc<Buffer>> = buffers.iter().cloned().chain(dots).collect();
        Ok(all.into_iter().rev().fold(body, |body, buffer| Stmt::of(StmtKind::Alloc { buffer, body })))
    }

    fn node(&mut self, n: &Node) -> Result<Stmt, Diagnostic> {
        Ok(match n {
            Node::Seq(list) => Stmt::seq(list.iter().map(|c| self.node(c)).collect::<Result<Vec<_>, _>>()?),
            Node::Let { site, binder, value, buffers, body } => {
                let body = self.among(buffers, body)?;
                let kind = StmtKind::Let { binder: binder.clone(), value: value.clone(), body };
                Stmt::new(kind, site.places.clone())
            }
            Node::Loop { site, l, body } => {
                self.instance.push(lathe_ir::build::var(&l.binder));
                let body = self.scope(body)?;
                self.instance.pop();
                Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), site.places.clone())
            }
            Node::If { site, cond, then, other } => {
                let then = self.node(then)?;
                let other = other.as_ref().map(|o| self.node(o)).transpose()?;
                Stmt::new(StmtKind::If { cond: cond.clone(), then, other }, site.places.clone())
            }
            Node::While { site, cond, body, .. } => {
                let body = self.scope(body)?;
                Stmt::new(StmtKind::While { cond: cond.clone(), body }, site.places.clone())
            }
            Node::Keep(_, s) => s.clone(),
            Node::Leaf(l) => {
                if let (Work::Call, Some(c)) = (&l.work, &l.call) {
                    return self.call(l, c);
                }
                let dot = self.leaf(l)?;
                Stmt::seq(dot.into_iter().chain([l.stmt.clone()]))
            }
        })
    }

    fn tangent(&self, e: &Expr, places: &Places) -> Result<Option<Expr>, Diagnostic> {
        let active = Active { act: self.act, places };
        let of_load = &mut |a: &Access| {
            let dot = self.dots.get(&a.view.buffer()?)?;
            Some(load_of(a, dot.id, dot.elem.clone()))
        };
        active.tangent(e, of_load, &|v| self.scalars.get(&v).map(lathe_ir::build::var))
    }

    /// `f(x, y)`: its derivative computes the outputs, too.
    fn call(&mut self, l: &Leaf, c: &Call) -> Result<Stmt, Diagnostic> {
        let places = &l.site.places;
        let Some(rule) = &c.rule else {
            let text = format!("no derivative of `{}` is known in forward mode", c.of.name);
            return Err(crate::codes::refuse(crate::codes::UNSUPPORTED, text, places)
                .help(format!("give one: `derivative {} = …`", c.of.name)));
        };
        let view = |b: &Arc<Buffer>| Arg::View(View::Buffer(b.id));
        let mut given: HashMap<String, Arg> = HashMap::new();
        let (mut locals, mut before) = (Vec::new(), Vec::new());
        for (p, a) in c.of.params.iter().zip(&c.args) {
            let name = crate::shadow_name(&c.of, p.name(), crate::Mode::Forward);
            match a {
                Passed::Value(e) => {
                    given.insert(p.name().to_string(), Arg::Value(e.clone()));
                    let tangent = self.tangent(e, places)?.unwrap_or_else(|| zero(e.ty()));
                    given.insert(name, Arg::Value(tangent));
                }
                Passed::Array { now, .. } => {
                    given.insert(p.name().to_string(), view(now));
                    let dot = self.dots.get(&now.id).cloned().unwrap_or_else(|| {
                        let id = self.func.fresh_buf();
                        let own = Arc::new(Buffer { id, name: name.as_str().into(), ..(**now).clone() });
                        if p.mode != Mode::Out && crate::is_differentiable(p) {
                            before.push(zero_array(&own, &mut self.func));
                        }
                        locals.push(own.clone());
                        own
                    });
                    given.insert(name, view(&dot));
                }
            }
        }
        let args = rule.params.iter().filter_map(|p| given.get(&**p.name()).cloned()).collect();
        let call = Stmt::of(StmtKind::Call { function: rule.name.clone(), args });
        let all = Stmt::seq(before.into_iter().chain([call])).with_places(places.clone());
        let used = crate::arrays::touched(&all);
        Ok(allocated(locals.into_iter().filter(|b| used.contains(&b.id)).collect::<Vec<_>>(), all))
    }

    fn dot_of(&self, a: &Access) -> Option<Access> {
        let dot = self.dots.get(&a.view.buffer()?)?;
        Some(on(a, dot.id, dot.elem.clone()))
    }

    fn leaf(&mut self, l: &Leaf) -> Result<Option<Stmt>, Diagnostic> {
        let places = &l.site.places;
        let label = |n: usize| match n {
            0 => Label::new(format!("{}.dot", l.site.label)),
            n => Label::new(format!("{}.dot{}", l.site.label, n + 1)),
        };
        let instance = l.stmt.instance().to_vec();
        let store = |n: usize, target: Access, value: Expr| {
            let s = Store::new(label(n), instance.clone(), target, value);
            Stmt::new(StmtKind::Store(s), places.clone())
        };
        Ok(match &l.work {
            Work::Inactive | Work::Call => None,
            Work::Assign { targets, values } => {
                let active: Vec<(Access, Expr)> = targets
                    .iter()
                    .zip(values)
                    .filter_map(|(t, v)| Some((self.dot_of(t)?, v)))
                    .map(|(t, v)| {
                        let d = self.tangent(v, places)?.unwrap_or_else(|| zero(&t.elem));
                        Ok((t, d))
                    })
                    .collect::<Result<_, Diagnostic>>()?;
                if let [(t, v)] = &active[..] {
                    return Ok(Some(store(0, t.clone(), v.clone())));
                }
                // Targets may be read by one another's tangents.
                let mut lets = Vec::new();
                let mut stores = Vec::new();
                for (n, (t, v)) in active.into_iter().enumerate() {
                    let ty = v.ty().scalar().unwrap_or(lathe_ir::Scalar::F64);
                    let b = self.func.fresh_var("dot", ty);
                    stores.push(store(n, t, lathe_ir::build::var(&b)));
                    lets.push((b, v));
                }
                let body = Stmt::seq(stores);
                Some(lets.into_iter().rev().fold(body, |body, (binder, value)| {
                    Stmt::new(StmtKind::Let { binder, value, body }, places.clone())
                }))
            }
            Work::Add { target, value } => {
                let (Some(target), Some(value)) = (self.dot_of(target), self.tangent(value, places)?) else {
                    return Ok(None);
                };
                let (targets, values) = (vec![target], vec![value]);
                let (op, label) = (ReduceOp::Sum, label(0));
                let r = Reduce { label, instance, op, targets, values, licence: true, contract: false };
                Some(Stmt::new(StmtKind::Reduce(r), places.clone()))
            }
            Work::Compute(c) => {
                let Some(target) = self.dot_of(&c.targets[0]) else { return Ok(None) };
                let value = match self.tangent(&c.values[0], places)? {
                    Some(v) => v,
                    None if c.update.is_some() => return Ok(None),
                    None => zero(&target.elem),
                };
                let (targets, values) = (vec![target], vec![value]);
                let dot = Compute { label: label(0), targets, values, ..c.clone() };
                let s = Stmt::new(StmtKind::Compute(dot), places.clone());
                Some(lathe_ir::visit::refresh(&s, &mut self.func.next_id))
            }
            Work::Choice { compute: c, at } => {
                let Some(target) = self.dot_of(&c.targets[0]) else { return Ok(None) };
                let (point, some) = chosen(c, load(at.clone()));
                let value = match self.tangent(&c.values[0], places)? {
                    Some(v) => select(some, substitute(&v, &point), zero(&target.elem)),
                    None => zero(&target.elem),
                };
                let dims: Vec<Dim> =
                    c.dims.iter().filter(|d| d.combine == Combine::Concat).cloned().collect();
                let s = fill(label(0).to_string(), dims, target, value).with_places(places.clone());
                Some(lathe_ir::visit::refresh(&s, &mut self.func.next_id))
            }
        })
    }
}
