//! Reverse mode: a forward sweep that keeps what is needed, and a reverse sweep that propagates cotangents from outputs
//! to inputs.
//!
//! Every active array has a shadow with its cotangents, of the same extents, in the same scope. The reverse sweep visits
//! statements in reverse; each reads (and clears) the shadow of what it wrote and adds to the shadows of what it read.
//!
//! What the reverse sweep needs of the primal is read again where it is still available. Where it was overwritten,
//! the forward sweep stores it on a tape: a local array of the scope that the overwritten array lives in, with one
//! dimension per loop between the scope and the place that reads. Local arrays of an iteration are out of scope when
//! the reverse sweep reaches it: the statements that computed them are repeated in the iteration of the reverse
//! sweep. The forward sweep holds what is needed for this, and nothing else. Where values between what is kept so and
//! what is needed take fewer bytes, these are kept (`cut`).

mod again;
mod call;
mod carried;
mod compute;
mod counted;
mod cut;
mod finish;
mod gather;
mod meets;
mod padded;
mod restore;
mod revolve;
mod shared;
mod statement;
mod tape;

use crate::activity::activity;
use crate::checkpoint;
use crate::codes::{self, refuse};
use crate::node::{Leaf, Node, Scope, ScopeId, Site, Trips, Work};
use crate::prepare::{Prepared, built};
use crate::{Activity, Derivative, Request, bytes};
use counted::Counter;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, floor_div, index, load, mul, sub, var};
use lathe_ir::visit::{loads_of, substitute, substitute_stmt};
use lathe_ir::{
    Access, BufId, Buffer, Executor, Expr, Function, Label, Loop, Module, ParamKind, Scalar, Stmt, StmtKind,
    VarId,
};
use lathe_poly::Linear;
use restore::When;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use tape::Tape;

pub fn cotangents(
    module: &Module,
    prepared: Prepared,
    request: &Request,
    wrt: Vec<String>,
    of: Vec<String>,
) -> Result<Derivative, Diagnostic> {
    let Some(snapshots) = request.checkpoints else {
        let Prepared { func, act, root } = &prepared;
        return least(&|| started(func.clone(), act, root), root, request, wrt, of);
    };
    let carried = started(prepared.func.clone(), &prepared.act, &prepared.root).carried(&prepared.root);
    if carried.is_empty() {
        let text = "no loop carries values from one iteration to the next: there is nothing to checkpoint";
        return Err(refuse(codes::CHECKPOINT, text, &Places::none()).help("leave the checkpoints out"));
    }
    let mut func = prepared.func;
    crate::filled::filled(&mut func, &carried.iter().flat_map(|c| &c.states).map(|b| b.id).collect());
    let loops = carried.iter().map(|c| (c.which, c.states.clone())).collect();
    let all = checkpoint::split(&mut func, loops);
    let act = activity(module, &func, &wrt, &of, request.allow_steps)?;
    let Prepared { func, act, root } = built(module, func, act, crate::Mode::Reverse)?;
    let start = || {
        let mut r = started(func.clone(), &act, &root);
        for (of, c) in all.iter().zip(&carried) {
            let Some(body) = carried::body_of(&root.body, of.which) else { continue };
            let one = r.revolve(of.clone(), body, &c.name, i64::from(snapshots.get()));
            r.revolves.push(one);
        }
        r
    };
    least(&start, &root, request, wrt, of)
}

/// The derivative that keeps the least: of the one that keeps elements, and the one that keeps a minimum cut.
fn least<'a>(
    start: &dyn Fn() -> Reverse<'a>,
    root: &Scope,
    request: &Request,
    wrt: Vec<String>,
    of: Vec<String>,
) -> Result<Derivative, Diagnostic> {
    let mut first = start();
    let sizes = request.sizes_of(&first.func);
    first.asked = Some(Vec::new());
    let made = first.finish(root, request, wrt.clone(), of.clone())?;
    let asked = first.asked.take().unwrap_or_default();
    let everything = if first.revolves.is_empty() { first.everything(&asked) } else { None };
    let made = Derivative { everything, ..made };
    if !first.tapes.iter().any(|t| first.is_home(t.scope)) {
        return Ok(made);
    }
    let values = first.cut(&asked, &sizes);
    if values.is_empty() {
        return Ok(made);
    }
    let mut second = start();
    second.values = values;
    let Ok(other) = second.finish(root, request, wrt, of) else { return Ok(made) };
    // Both count the iterations of the same loops.
    let known = |c: &Counter| first.counters.iter().find(|o| (o.body, o.scope) == (c.body, c.scope));
    let same = second.counters.iter().filter_map(|c| Some((c.total.id, var(&known(c)?.total)))).collect();
    let (before, after) = (bytes::total(&made.kept), bytes::total(&other.kept));
    let is_less = bytes::at_most(&substitute(&after, &same), &before, &sizes);
    Ok(if is_less { Derivative { everything: made.everything, ..other } } else { made })
}

/// A function whose adjoints are about to be made.
fn started<'a>(func: Function, act: &'a Activity, root: &Scope) -> Reverse<'a> {
    let scalars = func.params.iter().filter_map(|p| match &p.kind {
        ParamKind::Scalar(b) => Some(b.id),
        ParamKind::Array(_) => None,
    });
    let constants = func.sizes.iter().map(|b| b.id).chain(scalars).collect();
    let mut r = Reverse {
        func,
        act,
        constants,
        scope_of: HashMap::new(),
        buffers: HashMap::new(),
        writes: HashMap::new(),
        bars: HashMap::new(),
        scalars: HashMap::new(),
        needs: HashSet::new(),
        tapes: Vec::new(),
        counters: Vec::new(),
        labels: HashMap::new(),
        revolves: Vec::new(),
        bare: None,
        counting: None,
        values: HashSet::new(),
        asked: None,
        volatile: HashSet::new(),
    };
    for b in r.func.params.iter().filter_map(|p| p.array()) {
        r.scope_of.insert(b.id, 0);
        r.buffers.insert(b.id, b.clone());
    }
    r.collect(root);
    for p in r.func.params.clone() {
        match &p.kind {
            ParamKind::Array(b) if act.of_buffer(b.id) => r.shadow(b),
            ParamKind::Scalar(b) if act.of_var(b.id) => r.scalar(b),
            _ => {}
        }
    }
    r
}

/// A statement that writes an array.
struct Write {
    site: Rc<Site>,
    access: Access,
    adds: bool,
}

/// Writes of an active array (and whether they only add), and reads.
type Uses = (Vec<(Access, bool)>, Vec<Access>);

struct Reverse<'a> {
    /// Sizes and parameters of the primal; the counter of numbers.
    func: Function,
    act: &'a Activity,
    /// Sizes and scalar inputs.
    constants: HashSet<VarId>,
    scope_of: HashMap<BufId, ScopeId>,
    buffers: HashMap<BufId, Arc<Buffer>>,
    writes: HashMap<BufId, Vec<Write>>,
    bars: HashMap<BufId, Arc<Buffer>>,
    /// Shadows of scalar inputs.
    scalars: HashMap<VarId, Arc<Buffer>>,
    /// Arrays that are read, with the scope whose forward run must fill them.
    needs: HashSet<(ScopeId, BufId)>,
    tapes: Vec<Tape>,
    counters: Vec<Counter>,
    labels: HashMap<String, usize>,
    /// Loops that are checkpointed.
    revolves: Vec<revolve::Revolve>,
    /// The scope that runs again for what it ends with: nothing of it is kept.
    bare: Option<ScopeId>,
    /// What counts the iterations with a body, while they are counted beforehand.
    counting: Option<HashMap<ScopeId, Arc<Buffer>>>,
    /// What is kept besides elements.
    values: HashSet<cut::Value>,
    /// What was asked for, where that is to be known.
    asked: Option<Vec<restore::Asked>>,
    /// Sites that are evaluated several times in one iteration around them.
    volatile: HashSet<usize>,
}

impl Reverse<'_> {
    fn collect(&mut self, s: &Scope) {
        for b in &s.buffers {
            self.scope_of.insert(b.id, s.id);
            self.buffers.insert(b.id, b.clone());
        }
        self.collect_node(&s.body);
    }

    fn collect_node(&mut self, n: &Node) {
        match n {
            Node::Seq(list) => list.iter().for_each(|c| self.collect_node(c)),
            Node::Let { body, .. } => self.collect_node(body),
            Node::Loop { body, .. } | Node::While { body, .. } => self.collect(body),
            Node::If { then, other, .. } => {
                self.collect_node(then);
                if let Some(o) = other {
                    self.collect_node(o);
                }
            }
            Node::Keep(..) => {}
            Node::Leaf(l) => {
                for (access, adds) in l.writes() {
                    if let Some(b) = access.view.buffer() {
                        self.writes.entry(b).or_default().push(Write { site: l.site.clone(), access, adds });
                    }
                }
            }
        }
    }

    /// The shadow of an array. Shadows of half types are f32.
    fn shadow(&mut self, b: &Arc<Buffer>) {
        let id = self.func.fresh_buf();
        let elem = b.elem.scalar().map_or_else(|| b.elem.clone(), |s| crate::expr::wide(s).into());
        let bar = Buffer { id, name: format!("{}.bar", b.name).into(), elem, ..(**b).clone() };
        self.bars.insert(b.id, Arc::new(bar));
    }

    fn scalar(&mut self, b: &lathe_ir::Binder) {
        let id = self.func.fresh_buf();
        let elem = crate::expr::wide(b.ty).into();
        let bar = Buffer::local(id, format!("{}.bar", b.name), elem, Vec::new(), lathe_ir::Space::Host);
        self.scalars.insert(b.id, bar);
    }

    /// A label that nothing has yet: `C.bar`, `C.bar2`, ….
    fn label(&mut self, of: &Label, suffix: &str) -> Label {
        let text = format!("{of}.{suffix}");
        let n = self.labels.entry(text.clone()).or_default();
        *n += 1;
        if *n == 1 { Label::new(text) } else { Label::new(format!("{text}{n}")) }
    }

    fn bar_of(&self, a: &Access) -> Option<Access> {
        let bar = self.bars.get(&a.view.buffer()?)?;
        Some(crate::expr::on(a, bar.id, bar.elem.clone()))
    }

    /// The reverse sweep over a node; `None` if there is nothing to do.
    fn back(&mut self, n: &Node) -> Result<Option<Stmt>, Diagnostic> {
        match n {
            Node::Seq(list) => {
                // Facts hold wherever they are in the sequence, and are wanted first.
                let facts = list.iter().filter_map(|c| match c {
                    Node::Keep(_, s) if s.exprs().iter().all(|e| loads_of(e).is_empty()) => Some(s.clone()),
                    _ => None,
                });
                let facts: Vec<Stmt> = facts.collect();
                let mut out = Vec::new();
                for c in list.iter().rev() {
                    out.extend(self.back(c)?);
                }
                if out.is_empty() {
                    return Ok(None);
                }
                Ok(Some(Stmt::seq(facts.into_iter().chain(out))))
            }
            Node::Let { site, binder, value, body, .. } => {
                let Some(body) = self.back(body)? else { return Ok(None) };
                let value = self.restore(site, &[], value, None, When::Back)?;
                let kind = StmtKind::Let { binder: binder.clone(), value, body };
                Ok(Some(Stmt::new(kind, site.places.clone())))
            }
            Node::If { site, cond, then, other } => {
                let then = self.back(then)?;
                let other = match other {
                    Some(o) => self.back(o)?,
                    None => None,
                };
                if then.is_none() && other.is_none() {
                    return Ok(None);
                }
                let cond = self.restore(site, &[], cond, None, When::Back)?;
                let kind = StmtKind::If { cond, then: then.unwrap_or_else(Stmt::empty), other };
                Ok(Some(Stmt::new(kind, site.places.clone())))
            }
            Node::Loop { site, l, body } => self.back_loop(site, l, body),
            Node::While { trips: None, .. } => Ok(None),
            Node::While { site, body, trips: Some(trips), .. } => self.back_until(site, body, trips),
            Node::Keep(..) => Ok(None),
            Node::Leaf(l) => match &l.work {
                Work::Inactive => Ok(None),
                Work::Call => match &l.call {
                    Some(c) => self.back_call(l, c),
                    None => Ok(None),
                },
                Work::Assign { targets, values } => self.back_assign(l, targets, values),
                Work::Add { target, value } => self.back_add(l, target, value),
                Work::Compute(c) => self.back_compute(l, c, None),
                Work::Choice { compute, at } => self.back_compute(l, compute, Some(at)),
            },
        }
    }

    fn is_active(&self, n: &Node) -> bool {
        match n {
            Node::Seq(list) => list.iter().any(|c| self.is_active(c)),
            Node::Let { body, .. } => self.is_active(body),
            Node::Loop { body, .. } | Node::While { body, .. } => self.is_active(&body.body),
            Node::If { then, other, .. } => {
                self.is_active(then) || other.as_ref().is_some_and(|o| self.is_active(o))
            }
            Node::Keep(..) => false,
            Node::Leaf(l) => !matches!(l.work, Work::Inactive),
        }
    }

    /// The iterations of a loop in reverse, or in order where it makes no difference.
    fn back_loop(&mut self, site: &Rc<Site>, l: &Loop, scope: &Scope) -> Result<Option<Stmt>, Diagnostic> {
        if let Some(n) = self.revolving(scope.id) {
            return self.last_sweep(n, site, l, scope);
        }
        let Some(body) = self.back_scope(scope)? else { return Ok(None) };
        let body = self.numbered_back(scope.id, body);
        let lo = self.restore(site, &[], &l.lo, None, When::Back)?;
        let hi = self.restore(site, &[], &l.hi, None, When::Back)?;
        // Bounds that read memory are read once.
        let mut lets: Vec<(lathe_ir::Binder, Expr)> = Vec::new();
        let mut bound = |this: &mut Self, e: Expr, name: &str| {
            if loads_of(&e).is_empty() {
                return e;
            }
            let b = this.func.fresh_var(format!("{}.{name}", l.binder.name), Scalar::Index);
            lets.push((b.clone(), e));
            var(&b)
        };
        let (lo, hi) = (bound(self, lo, "lo"), bound(self, hi, "hi"));
        let s = if !self.is_numbered(scope.id) && self.is_unordered(l, scope) {
            Stmt::new(StmtKind::Loop(Loop { lo, hi, body, ..l.clone() }), site.places.clone())
        } else {
            let binder = self.func.fresh_var(&*l.binder.name, Scalar::Index);
            let (lo, hi, here) = if l.step == 1 {
                let here = sub(sub(add(lo.clone(), hi.clone()), index(1)), var(&binder));
                (lo, hi, here)
            } else {
                let trips = floor_div(add(sub(hi, lo.clone()), index(l.step - 1)), index(l.step));
                let left = sub(sub(trips.clone(), index(1)), var(&binder));
                (index(0), trips, add(lo, mul(left, index(l.step))))
            };
            let body = substitute_stmt(&body, &HashMap::from([(l.binder.id, here)]));
            let turned = Loop { binder, lo, hi, step: 1, exec: l.exec.clone(), body };
            Stmt::new(StmtKind::Loop(turned), site.places.clone())
        };
        let s = lets.into_iter().rev().fold(s, |body, (binder, value)| {
            Stmt::new(StmtKind::Let { binder, value, body }, site.places.clone())
        });
        Ok(Some(s))
    }

    /// The iterations of a `while` in reverse: as many as there were.
    fn back_until(
        &mut self,
        site: &Rc<Site>,
        scope: &Scope,
        trips: &Trips,
    ) -> Result<Option<Stmt>, Diagnostic> {
        if let Some(n) = self.revolving(scope.id) {
            return self.last_until(n, site, trips, scope);
        }
        let Some(body) = self.back_scope(scope)? else { return Ok(None) };
        let body = self.numbered_back(scope.id, body);
        let value = self.restore(&trips.site, &[], &load(trips.cell.clone()), None, When::Back)?;
        let end = self.func.fresh_var("while.left", Scalar::Index);
        let binder = self.func.fresh_var("while", Scalar::Index);
        let exec = Executor::Serial;
        let turned = Loop { binder, lo: index(0), hi: var(&end), step: 1, exec, body };
        let body = Stmt::new(StmtKind::Loop(turned), site.places.clone());
        Ok(Some(Stmt::new(StmtKind::Let { binder: end, value, body }, site.places.clone())))
    }

    /// Whether a loop carries no active value between iterations, and no iteration overwrites one of another.
    fn is_unordered(&self, l: &Loop, scope: &Scope) -> bool {
        let mut touched: HashMap<BufId, Uses> = HashMap::new();
        self.touched(&scope.body, &mut touched);
        let inside = inner_vars(&scope.body);
        let apart = |a: &Access, b: &Access| apart(a, b, l.binder.id, &inside);
        touched.iter().filter(|(b, _)| self.lives_outside(**b, scope)).all(|(_, (writes, reads))| {
            writes.iter().enumerate().all(|(n, (w, adds))| {
                writes[n..].iter().all(|(o, also)| (*adds && *also) || apart(w, o))
                    && reads.iter().all(|r| apart(w, r))
            })
        })
    }

    fn lives_outside(&self, b: BufId, scope: &Scope) -> bool {
        fn scopes(n: &Node, out: &mut HashSet<ScopeId>) {
            match n {
                Node::Seq(list) => list.iter().for_each(|c| scopes(c, out)),
                Node::Let { body, .. } => scopes(body, out),
                Node::Loop { body, .. } | Node::While { body, .. } => {
                    out.insert(body.id);
                    scopes(&body.body, out);
                }
                Node::If { then, other, .. } => {
                    scopes(then, out);
                    other.iter().for_each(|o| scopes(o, out));
                }
                Node::Keep(..) | Node::Leaf(_) => {}
            }
        }
        let mut inner = HashSet::from([scope.id]);
        scopes(&scope.body, &mut inner);
        !inner.contains(self.scope_of.get(&b).unwrap_or(&0))
    }

    /// Writes (and whether they only add) and reads of active arrays.
    fn touched(&self, n: &Node, out: &mut HashMap<BufId, Uses>) {
        match n {
            Node::Seq(list) => list.iter().for_each(|c| self.touched(c, out)),
            Node::Let { body, .. } => self.touched(body, out),
            Node::Loop { body, .. } | Node::While { body, .. } => self.touched(&body.body, out),
            Node::If { then, other, .. } => {
                self.touched(then, out);
                other.iter().for_each(|o| self.touched(o, out));
            }
            Node::Keep(..) => {}
            Node::Leaf(l) => self.touched_by(l, out),
        }
    }

    fn touched_by(&self, l: &Leaf, out: &mut HashMap<BufId, Uses>) {
        if matches!(l.work, Work::Inactive) {
            return;
        }
        for (a, adds) in l.writes() {
            if let Some(b) = a.view.buffer().filter(|b| self.act.of_buffer(*b)) {
                out.entry(b).or_default().0.push((a, adds));
            }
        }
        for a in l.reads() {
            if let Some(b) = a.view.buffer().filter(|b| self.act.of_buffer(*b)) {
                out.entry(b).or_default().1.push(a);
            }
        }
    }
}

/// Whether two accesses touch elements of one iteration of a loop each: a subscript of both tells iterations apart.
/// `inside` are variables that are bound in the loop.
fn apart(a: &Access, b: &Access, time: VarId, inside: &HashSet<VarId>) -> bool {
    if a.view != b.view || !matches!(a.view, lathe_ir::View::Buffer(_)) {
        return false;
    }
    a.indices.iter().zip(&b.indices).any(|(p, q)| {
        let (p, q) = (Linear::of(p), Linear::of(q));
        p.factor(time) != 0 && p == q && !p.mentions(inside) && !p.reads()
    })
}

/// Variables of loops and dimensions that are bound in a node.
fn inner_vars(n: &Node) -> HashSet<VarId> {
    fn go(n: &Node, out: &mut HashSet<VarId>) {
        match n {
            Node::Seq(list) => list.iter().for_each(|c| go(c, out)),
            Node::Let { binder, body, .. } => {
                out.insert(binder.id);
                go(body, out);
            }
            Node::Loop { l, body, .. } => {
                out.insert(l.binder.id);
                go(&body.body, out);
            }
            Node::While { body, .. } => go(&body.body, out),
            Node::If { then, other, .. } => {
                go(then, out);
                other.iter().for_each(|o| go(o, out));
            }
            Node::Keep(..) => {}
            Node::Leaf(l) => out.extend(l.stmt.binders().into_iter().map(|b| b.0.id)),
        }
    }
    let mut out = HashSet::new();
    go(n, &mut out);
    out
}
