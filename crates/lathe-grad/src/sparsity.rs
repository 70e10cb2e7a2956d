//! Which elements of a Jacobian may differ from zero: forward mode over truth values. Instead of a tangent, each element has
//! whether it depends on the inputs of a direction; a sum of dependences is `or`, and all that numbers do is left out. So
//! what is made computes with integers and conditions alone, and its results are the same for all values of the floats: the
//! pattern of the Jacobian is a bound for every point (Griewank and Walther, "Evaluating Derivatives", 2008, section 7.1).
//!
//! Where a branch, a trip count or a subscript on the way depends on floats, there is no such bound, but for `select`,
//! `min` and `max`, which may take any of their operands.

use crate::arrays::{allocated, copy_array, zero_array};
use crate::codes::{self, refuse};
use crate::expr::{Active, load_of, on};
use crate::node::{Leaf, Node, Scope, Work};
use crate::prepare::Prepared;
use crate::{Derivative, Request};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{and, boolean, index, le, lt, or, select, var};
use lathe_ir::visit::{loads_of, refresh, walk_expr};
use lathe_ir::{
    Access, BinOp, Binder, BufId, Buffer, Combine, Compute, Dim, Expr, ExprKind, Function, Label, Loop, Mode,
    Param, ParamKind, Reduce, ReduceOp, Scalar, Stmt, StmtKind, Store, Type, VarId,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The function `(A, …, A_dot, …) -> (C_dot, …)` of dependences.
///
/// # Errors
/// `E1308` where these depend on the values of floats.
pub fn dependences(
    prepared: Prepared,
    request: &Request,
    wrt: Vec<String>,
    of: Vec<String>,
) -> Result<Derivative, Diagnostic> {
    let Prepared { func, act, root } = prepared;
    let primal = func.clone();
    let mut f = Flow {
        func,
        act: &act,
        dots: HashMap::new(),
        scalars: HashMap::new(),
        arrays: primal.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.clone())).collect(),
        data: HashSet::new(),
        named: HashSet::new(),
    };
    loop {
        let before = f.data.len() + f.named.len();
        f.spread(&root.body, false);
        if f.data.len() + f.named.len() == before {
            break;
        }
    }
    let (mut ins, mut dots, mut results) = (Vec::new(), Vec::new(), Vec::new());
    let (mut locals, mut before) = (Vec::new(), Vec::new());
    for p in &primal.params {
        let name = p.name().to_string();
        let given = wrt.contains(&name) && p.mode != Mode::Out;
        let asked = of.contains(&name) && p.mode != Mode::In;
        let dot = crate::shadow_name(&primal, &name, crate::Mode::Forward);
        let b = match &p.kind {
            ParamKind::Scalar(b) => {
                ins.push(p.clone());
                if given {
                    let tangent = f.func.fresh_var(&dot, Scalar::Bool);
                    f.scalars.insert(b.id, tangent.clone());
                    dots.push(Param { kind: ParamKind::Scalar(tangent), ..p.clone() });
                }
                continue;
            }
            ParamKind::Array(b) => b,
        };
        f.own(p, b, (&mut ins, &mut locals, &mut before));
        if !(given || asked || act.of_buffer(b.id)) {
            continue;
        }
        let shadow = f.shadow(b, &dot);
        let array = |mode| Param { kind: ParamKind::Array(shadow.clone()), mode, alias: None };
        match (given, asked) {
            (true, true) => dots.push(array(Mode::InOut)),
            // What the function overwrites, and nobody asks for.
            (true, false) if p.mode == Mode::InOut => {
                let id = f.func.fresh_buf();
                let outer = Arc::new(Buffer { id, ..(*shadow).clone() });
                before.push(copy_array(&outer, &shadow, &mut f.func));
                locals.push(shadow.clone());
                dots.push(Param { kind: ParamKind::Array(outer), mode: Mode::In, alias: None });
            }
            (true, false) => dots.push(array(Mode::In)),
            (false, asked) => {
                before.push(zero_array(&shadow, &mut f.func));
                match asked {
                    true => results.push(array(Mode::Out)),
                    false => locals.push(shadow.clone()),
                }
            }
        }
    }
    let body = f.scope(&root)?.unwrap_or_else(Stmt::empty);
    let body = allocated(locals, Stmt::seq(before.into_iter().chain([body])));
    let mut func = f.func;
    func.name = request.name.as_str().into();
    func.params = ins.into_iter().chain(dots).chain(results).collect();
    func.body = body;
    Ok(Derivative { func, wrt, of, kept: Vec::new(), everything: None, rule: None, also: Vec::new() })
}

struct Flow<'a> {
    func: Function,
    act: &'a crate::Activity,
    dots: HashMap<BufId, Arc<Buffer>>,
    scalars: HashMap<VarId, Binder>,
    arrays: HashMap<BufId, Arc<Buffer>>,
    /// Arrays of integers and conditions, and names for such, that depend on values of floats.
    data: HashSet<BufId>,
    named: HashSet<VarId>,
}

impl Flow<'_> {
    /// An input under its name. Of what is no float, the function works on its own copy.
    fn own(
        &mut self,
        p: &Param,
        b: &Arc<Buffer>,
        to: (&mut Vec<Param>, &mut Vec<Arc<Buffer>>, &mut Vec<Stmt>),
    ) {
        let (ins, locals, before) = to;
        let keeps = !b.elem.is_float() && !self.data.contains(&b.id);
        match p.mode {
            Mode::In => ins.push(p.clone()),
            Mode::Out if keeps => locals.push(b.clone()),
            Mode::Out => {}
            Mode::InOut => {
                let given = Arc::new(Buffer { id: self.func.fresh_buf(), ..(**b).clone() });
                if keeps {
                    before.push(copy_array(&given, b, &mut self.func));
                    locals.push(b.clone());
                }
                ins.push(Param { kind: ParamKind::Array(given), mode: Mode::In, ..p.clone() });
            }
        }
    }

    fn shadow(&mut self, b: &Arc<Buffer>, name: &str) -> Arc<Buffer> {
        let id = self.func.fresh_buf();
        let dot = Arc::new(Buffer { id, name: name.into(), elem: Type::BOOL, ..(**b).clone() });
        self.dots.insert(b.id, dot.clone());
        dot
    }

    /// Whether a value is the same for all values of the floats.
    fn is_known(&self, e: &Expr) -> bool {
        let mut known = true;
        walk_expr(e, &mut |x| {
            known &= match x.kind() {
                ExprKind::Load(a) => {
                    !a.elem.is_float() && a.view.buffer().is_some_and(|b| !self.data.contains(&b))
                }
                ExprKind::Var(v) => !x.ty().is_float() && !self.named.contains(v),
                _ => true,
            };
        });
        known
    }

    /// Finds what depends on values of floats; `under` is whether a condition around does.
    fn spread(&mut self, n: &Node, under: bool) {
        match n {
            Node::Seq(list) => list.iter().for_each(|c| self.spread(c, under)),
            Node::Let { binder, value, body, .. } => {
                if !self.is_known(value) {
                    self.named.insert(binder.id);
                }
                self.spread(body, under);
            }
            Node::Loop { l, body, .. } => {
                let data = ![&l.lo, &l.hi].into_iter().all(|e| self.is_known(e));
                if data {
                    self.named.insert(l.binder.id);
                }
                self.spread(&body.body, under || data);
            }
            Node::While { cond, body, .. } => self.spread(&body.body, under || !self.is_known(cond)),
            Node::If { cond, then, other, .. } => {
                let under = under || !self.is_known(cond);
                self.spread(then, under);
                other.iter().for_each(|o| self.spread(o, under));
            }
            Node::Keep(..) => {}
            Node::Leaf(l) => {
                if under || !l.stmt.exprs().into_iter().all(|e| self.is_known(e)) {
                    let written = l.writes().into_iter().filter(|w| !w.0.elem.is_float());
                    self.data.extend(written.filter_map(|w| w.0.view.buffer()));
                }
            }
        }
    }

    fn scope(&mut self, s: &Scope) -> Result<Option<Stmt>, Diagnostic> {
        self.among(&s.buffers, &s.body)
    }

    fn among(&mut self, buffers: &[Arc<Buffer>], n: &Node) -> Result<Option<Stmt>, Diagnostic> {
        let mut local = Vec::new();
        for b in buffers {
            self.arrays.insert(b.id, b.clone());
            if self.act.of_buffer(b.id) {
                local.push(self.shadow(b, &format!("{}.dot", b.name)));
            } else if !b.elem.is_float() && !self.data.contains(&b.id) {
                local.push(b.clone());
            }
        }
        Ok(self.node(n)?.map(|s| allocated(local, s)))
    }

    fn node(&mut self, n: &Node) -> Result<Option<Stmt>, Diagnostic> {
        Ok(match n {
            Node::Seq(list) => {
                let mut out = Vec::new();
                let mut does = false;
                for c in list {
                    let made = self.node(c)?;
                    does |= made.is_some() && !matches!(c, Node::Keep(..));
                    out.extend(made);
                }
                does.then(|| Stmt::seq(out))
            }
            Node::Let { site, binder, value, buffers, body } => {
                let body = self.among(buffers, body)?;
                let known = !self.named.contains(&binder.id);
                let named = |body| {
                    let kind = StmtKind::Let { binder: binder.clone(), value: value.clone(), body };
                    Stmt::new(kind, site.places.clone())
                };
                body.map(|body| if known { named(body) } else { body })
            }
            Node::Loop { site, l, body } => {
                let Some(body) = self.scope(body)? else { return Ok(None) };
                self.known([&l.lo, &l.hi], &site.places)?;
                Some(Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), site.places.clone()))
            }
            Node::While { site, cond, body, .. } => {
                let Some(body) = self.scope(body)? else { return Ok(None) };
                self.known([cond], &site.places)?;
                Some(Stmt::new(StmtKind::While { cond: cond.clone(), body }, site.places.clone()))
            }
            Node::If { site, cond, then, other } => {
                let then = self.node(then)?;
                let other = other.as_ref().map(|o| self.node(o)).transpose()?.flatten();
                if then.is_none() && other.is_none() {
                    return Ok(None);
                }
                self.known([cond], &site.places)?;
                let then = then.unwrap_or_else(Stmt::empty);
                Some(Stmt::new(StmtKind::If { cond: cond.clone(), then, other }, site.places.clone()))
            }
            Node::Keep(_, s) => s.exprs().into_iter().all(|e| self.is_known(e)).then(|| s.clone()),
            Node::Leaf(l) => {
                let Some(s) = self.leaf(l)? else { return Ok(None) };
                let mut failure = None;
                lathe_ir::visit::walk(&s, &mut |s, _| {
                    failure = failure.take().or_else(|| self.known(s.exprs(), &l.site.places).err());
                    failure.is_none()
                });
                match failure {
                    Some(d) => return Err(d),
                    None => Some(s),
                }
            }
        })
    }

    /// Refuses what depends on values of floats.
    fn known<'e>(&self, es: impl IntoIterator<Item = &'e Expr>, places: &Places) -> Result<(), Diagnostic> {
        match es.into_iter().all(|e| self.is_known(e)) {
            true => Ok(()),
            false => Err(unknown("a branch, a trip count or a subscript", places)),
        }
    }

    fn leaf(&mut self, l: &Leaf) -> Result<Option<Stmt>, Diagnostic> {
        let places = &l.site.places;
        let label = Label::new(format!("{}.dot", l.site.label));
        let instance = l.stmt.instance().to_vec();
        Ok(match &l.work {
            Work::Inactive => {
                let keeps = |b: BufId| {
                    let b = self.arrays.get(&b);
                    b.is_some_and(|b| !b.elem.is_float() && !self.data.contains(&b.id))
                };
                let written: Vec<BufId> = l.writes().iter().filter_map(|w| w.0.view.buffer()).collect();
                (!written.is_empty() && written.into_iter().all(keeps)).then(|| l.stmt.clone())
            }
            Work::Call => return Err(unknown("what a call depends on", places)),
            Work::Assign { targets, values } => {
                let store = |target: Access, value: Expr| {
                    let s = Store::new(label.clone(), instance.clone(), target, value);
                    Stmt::new(StmtKind::Store(s), places.clone())
                };
                let mut all = Vec::new();
                for (t, v) in targets.iter().zip(values) {
                    if let Some(target) = self.dot_of(t) {
                        all.push((target, self.set(v, places)?));
                    }
                }
                if let [(target, value)] = &all[..] {
                    return Ok(Some(store(target.clone(), value.clone())));
                }
                let (mut stores, mut names) = (Vec::new(), Vec::new());
                for (target, value) in all {
                    let binder = self.func.fresh_var("dot", Scalar::Bool);
                    stores.push(store(target, var(&binder)));
                    names.push((binder, value));
                }
                // Targets may be read by one another's values.
                Some(names.into_iter().rev().fold(Stmt::seq(stores), |body, (binder, value)| {
                    Stmt::new(StmtKind::Let { binder, value, body }, places.clone())
                }))
            }
            Work::Add { target, value } => {
                let Some(target) = self.dot_of(target) else { return Ok(None) };
                let (targets, values, op) = (vec![target], vec![self.set(value, places)?], ReduceOp::Any);
                let r = Reduce { label, instance, op, targets, values, licence: true, contract: false };
                Some(Stmt::new(StmtKind::Reduce(r), places.clone()))
            }
            Work::Compute(c) | Work::Choice { compute: c, .. } => {
                let Some(target) = self.dot_of(&c.targets[0]) else { return Ok(None) };
                let any = |d: &Dim| match d.combine {
                    Combine::Concat => d.clone(),
                    _ => Dim { combine: Combine::Reduce(ReduceOp::Any), ..d.clone() },
                };
                let dims = c.dims.iter().map(any).collect();
                let (targets, values) = (vec![target], vec![self.set(&c.values[0], places)?]);
                let update = c.update.as_ref().map(|_| ReduceOp::Any);
                let dot = Compute { label, dims, targets, values, update, guard: c.guard.clone() };
                let s = Stmt::new(StmtKind::Compute(dot), places.clone());
                Some(refresh(&s, &mut self.func.next_id))
            }
        })
    }

    fn dot_of(&self, a: &Access) -> Option<Access> {
        let dot = self.dots.get(&a.view.buffer()?)?;
        Some(on(a, dot.id, dot.elem.clone()))
    }

    /// Whether a value depends on the inputs of the direction.
    fn set(&self, e: &Expr, places: &Places) -> Result<Expr, Diagnostic> {
        let nodes = Active { act: self.act, places }.nodes(e);
        let found = self.set_of(e, &nodes, false, places, &mut HashMap::new())?;
        Ok(found.unwrap_or_else(|| boolean(false)))
    }

    /// `maybe`: where it is not known that the value is evaluated, and so that what it reads exists.
    fn set_of(
        &self,
        e: &Expr,
        nodes: &HashSet<usize>,
        maybe: bool,
        places: &Places,
        memo: &mut HashMap<(usize, bool), Option<Expr>>,
    ) -> Result<Option<Expr>, Diagnostic> {
        if !nodes.contains(&e.address()) {
            return Ok(None);
        }
        if let Some(done) = memo.get(&(e.address(), maybe)) {
            return Ok(done.clone());
        }
        let out = match e.kind() {
            ExprKind::Load(a) => {
                let dot = a.view.buffer().and_then(|b| self.dots.get(&b));
                match dot.map(|dot| load_of(a, dot.id, dot.elem.clone())) {
                    Some(dot) if maybe => Some(select(self.exists(a, places)?, dot, boolean(false))),
                    dot => dot,
                }
            }
            ExprKind::Var(v) => self.scalars.get(v).map(var),
            ExprKind::Select(c, a, b) if self.is_known(c) && (!maybe || is_total(c)) => {
                let a = self.set_of(a, nodes, maybe, places, memo)?;
                let b = self.set_of(b, nodes, maybe, places, memo)?;
                let none = || boolean(false);
                Some(select(c.clone(), a.unwrap_or_else(none), b.unwrap_or_else(none)))
            }
            kind => {
                let maybe = maybe || matches!(kind, ExprKind::Select(..));
                let mut any: Option<Expr> = None;
                for x in e.children() {
                    if let Some(x) = self.set_of(x, nodes, maybe, places, memo)? {
                        any = Some(match any {
                            Some(old) if old == x => old,
                            Some(old) => or(old, x),
                            None => x,
                        });
                    }
                }
                any
            }
        };
        memo.insert((e.address(), maybe), out.clone());
        Ok(out)
    }

    /// Whether an element exists that is read on a condition which is not known.
    fn exists(&self, a: &Access, places: &Places) -> Result<Expr, Diagnostic> {
        let no = || unknown("which elements are read", places);
        let b = a.view.as_buffer().and_then(|b| self.arrays.get(&b)).ok_or_else(no)?;
        if a.indices.iter().any(divides) {
            return Err(no());
        }
        let within = a
            .indices
            .iter()
            .zip(&b.extents)
            .map(|(i, n)| and(le(index(0), i.clone()), lt(i.clone(), n.clone())));
        let within = within.reduce(and).unwrap_or_else(|| boolean(true));
        // What subscripts read has to exist before they are looked at.
        a.indices
            .iter()
            .flat_map(loads_of)
            .try_fold(within, |rest, read| Ok(select(self.exists(&read, places)?, rest, boolean(false))))
    }
}

/// Whether a value exists wherever it is evaluated.
fn is_total(e: &Expr) -> bool {
    loads_of(e).is_empty() && !divides(e)
}

/// Whether integers are divided in a value.
fn divides(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| {
        let op =
            |op: &BinOp| matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem);
        found |= matches!(x.kind(), ExprKind::Binary(o, ..) if op(o));
    });
    found
}

fn unknown(what: &str, places: &Places) -> Diagnostic {
    refuse(codes::SPARSITY, format!("{what} depends on the values of floats"), places)
        .help("compute the whole Jacobian: by products with unit vectors")
}
