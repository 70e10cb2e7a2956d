//! Effects of functions, inferred over all calls.

use crate::expr::{Expr, ExprKind, View, walk_expr};
use crate::func::{Function, Param, ParamKind};
use crate::ids::{Binder, BufId, VarId};
use crate::module::Module;
use crate::ops::ReduceOp;
use crate::stmt::{AccessMode, Arg, Effects, Stmt, StmtKind};
use crate::summary::{Base, Summary, Touch, TouchMode};
use crate::types::Name;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Summary {
    /// The same in the terms of a function of the same signature.
    pub fn renamed(&self, from: (&[Binder], &[Param]), to: (&[Binder], &[Param])) -> Summary {
        let mut vars: HashMap<VarId, Expr> = HashMap::new();
        let mut bufs: HashMap<BufId, BufId> = HashMap::new();
        vars.extend(from.0.iter().zip(to.0).map(|(a, b)| (a.id, crate::build::var(b))));
        for (a, b) in from.1.iter().zip(to.1) {
            match (&a.kind, &b.kind) {
                (ParamKind::Scalar(a), ParamKind::Scalar(b)) => drop(vars.insert(a.id, crate::build::var(b))),
                (ParamKind::Array(a), ParamKind::Array(b)) => drop(bufs.insert(a.id, b.id)),
                (ParamKind::Scalar(_), ParamKind::Array(_)) | (ParamKind::Array(_), ParamKind::Scalar(_)) => {
                }
            }
        }
        let expr = |e: &Expr| crate::visit::substitute(e, &vars);
        let touch = |t: &Touch| Touch {
            base: match &t.base {
                Base::Param(b) => Base::Param(bufs.get(b).copied().unwrap_or(*b)),
                base => base.clone(),
            },
            mode: t.mode.clone(),
            region: t.region.as_ref().map(|r| r.iter().map(|(lo, hi)| (expr(lo), expr(hi))).collect()),
        };
        Summary { touches: self.touches.iter().map(touch).collect(), effects: self.effects }
    }
}

/// How one base is touched, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Use {
    read: bool,
    written: bool,
    /// Operators of reductions.
    reduced: BTreeSet<String>,
    op: Option<ReduceOp>,
}

impl Use {
    fn add(&mut self, mode: &TouchMode) {
        match mode {
            TouchMode::Read => self.read = true,
            TouchMode::Write => self.written = true,
            TouchMode::Reduce(op) => {
                self.reduced.insert(op.to_string());
                self.op = Some(op.clone());
            }
        }
    }

    /// What is read, written or reduced in several ways is not a reduction.
    fn modes(&self) -> Vec<TouchMode> {
        match &self.op {
            Some(op) if !self.read && !self.written && self.reduced.len() == 1 => {
                vec![TouchMode::Reduce(op.clone())]
            }
            op => {
                let (read, written) = (self.read || op.is_some(), self.written || op.is_some());
                let modes = [(read, TouchMode::Read), (written, TouchMode::Write)];
                modes.into_iter().filter(|m| m.0).map(|m| m.1).collect()
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    uses: BTreeMap<Base, Use>,
    effects: Effects,
}

/// The summaries of all functions of a module, external ones included.
pub struct Summaries<'m> {
    module: &'m Module,
    inferred: BTreeMap<Name, Summary>,
}

impl<'m> Summaries<'m> {
    /// Infers the summary of each function from its body and from those of what it calls. Linear in the size of the
    /// module for each round; there are as many rounds as calls are nested, at most.
    pub fn of(module: &'m Module) -> Summaries<'m> {
        let mut known: BTreeMap<Name, Known> = BTreeMap::new();
        let own: BTreeMap<&Name, Direct> = module.functions.iter().map(|(n, f)| (n, Direct::of(f))).collect();
        loop {
            let mut changed = false;
            for (name, direct) in &own {
                let new = direct.with_calls(module, &known);
                if known.get(*name) != Some(&new) {
                    known.insert((*name).clone(), new);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let inferred = known.into_iter().map(|(n, k)| (n, k.summary())).collect();
        let mut out = Summaries { module, inferred };
        out.recursion_may_not_end(&own);
        out
    }

    /// What the body of a function does.
    pub fn inferred(&self, name: &str) -> Option<&Summary> {
        self.inferred.get(name)
    }

    /// What a caller may rely on: what the function declares, or else what is inferred.
    pub fn get(&self, name: &str) -> Option<&Summary> {
        self.module.callee(name).and_then(|c| c.summary).or_else(|| self.inferred.get(name))
    }

    /// What a call does to the arrays of its caller: the views of its arguments, and globals and classes.
    pub fn of_call<'a>(&self, function: &str, args: &'a [Arg]) -> Option<Vec<(CallBase<'a>, TouchMode)>> {
        let callee = self.module.callee(function)?;
        let summary = self.get(function)?;
        let one = |t: &Touch| {
            let base = match &t.base {
                Base::Param(b) => CallBase::View(argument(callee.params, args, *b)?),
                Base::Global(name) => CallBase::Global(name.clone()),
                Base::Class(name) => CallBase::Class(name.clone()),
            };
            Some((base, t.mode.clone()))
        };
        Some(summary.touches.iter().filter_map(one).collect())
    }

    /// The effects of a statement with all that it holds, calls by what they call.
    pub fn effects(&self, s: &Stmt) -> Effects {
        let mut own = s.own_effects();
        if let StmtKind::Call { function, .. } = s.kind()
            && let Some(summary) = self.get(function)
        {
            own = summary.effects;
        }
        for e in s.evaluated() {
            walk_expr(e, &mut |e| {
                if let ExprKind::Call(name, _) = e.kind() {
                    own = own.and(self.get(name).map_or(Effects::ALL, |s| s.effects));
                }
            });
        }
        s.children().fold(own, |all, c| all.and(self.effects(c)))
    }

    /// A function that calls itself, through others or not, may never end.
    fn recursion_may_not_end(&mut self, own: &BTreeMap<&Name, Direct>) {
        let reached = |from: &Name| {
            let mut seen: BTreeSet<&Name> = BTreeSet::new();
            let mut open = vec![from];
            while let Some(name) = open.pop() {
                for called in own.get(name).into_iter().flat_map(|d| d.calls.iter().map(|c| &c.0)) {
                    if seen.insert(called) {
                        open.push(called);
                    }
                }
            }
            seen.contains(from)
        };
        let recursive: Vec<Name> = own.keys().filter(|n| reached(n)).map(|n| (*n).clone()).collect();
        let mut diverging: BTreeSet<Name> = recursive.into_iter().collect();
        loop {
            let calls_one = |d: &Direct| d.calls.iter().any(|c| diverging.contains(&c.0));
            let more: Vec<Name> = own
                .iter()
                .filter(|(n, d)| !diverging.contains(**n) && calls_one(d))
                .map(|(n, _)| (*n).clone())
                .collect();
            if more.is_empty() {
                break;
            }
            diverging.extend(more);
        }
        for name in diverging {
            if let Some(s) = self.inferred.get_mut(&name) {
                s.effects = s.effects.and(Effects::DIVERGES);
            }
        }
    }
}

/// What a call touches, in its caller's terms.
#[derive(Clone, Debug, PartialEq)]
pub enum CallBase<'a> {
    View(&'a View),
    Global(Name),
    Class(Name),
}

/// The view that is given for an array parameter.
fn argument<'a>(params: &[Param], args: &'a [Arg], b: BufId) -> Option<&'a View> {
    let n = params.iter().position(|p| p.array().is_some_and(|a| a.id == b))?;
    match args.get(n)? {
        Arg::View(v) => Some(v),
        Arg::Value(_) => None,
    }
}

/// What a function does itself, and whom it calls.
struct Direct<'f> {
    known: Known,
    /// Callee, and for each of its parameters what is given.
    calls: Vec<(Name, &'f [Arg])>,
    params: BTreeSet<BufId>,
}

impl<'f> Direct<'f> {
    fn of(f: &'f Function) -> Direct<'f> {
        let params = f.params.iter().filter_map(Param::array).map(|b| b.id).collect();
        let mut d = Direct { known: Known::default(), calls: Vec::new(), params };
        f.result.iter().for_each(|e| d.expr(e));
        d.stmt(&f.body);
        d
    }

    fn stmt(&mut self, s: &'f Stmt) {
        if let StmtKind::Call { function, args } = s.kind() {
            self.calls.push((function.clone(), args));
        } else {
            self.known.effects = self.known.effects.and(s.own_effects());
            s.touches().into_iter().for_each(|(touched, mode)| self.view(touched.view(), mode));
        }
        s.evaluated().into_iter().for_each(|e| self.expr(e));
        s.children().for_each(|c| self.stmt(c));
    }

    fn expr(&mut self, e: &Expr) {
        walk_expr(e, &mut |e| match e.kind() {
            ExprKind::Load(a) => self.view(&a.view, AccessMode::Read),
            ExprKind::Call(name, _) => self.calls.push((name.clone(), &[])),
            _ => {}
        });
    }

    fn view(&mut self, v: &View, mode: AccessMode) {
        let Some(base) = base_of(v, &self.params) else { return };
        let of = self.known.uses.entry(base).or_default();
        match mode {
            AccessMode::Prefetch => {}
            AccessMode::Read | AccessMode::Atomic { writes: false } => of.add(&TouchMode::Read),
            AccessMode::Write => of.add(&TouchMode::Write),
            AccessMode::Reduce { op, .. } => of.add(&TouchMode::Reduce(op.clone())),
            AccessMode::Atomic { writes: true } | AccessMode::Update => {
                of.add(&TouchMode::Read);
                of.add(&TouchMode::Write);
            }
        }
    }

    fn with_calls(&self, module: &Module, known: &BTreeMap<Name, Known>) -> Known {
        let mut out = self.known.clone();
        for (name, args) in &self.calls {
            let Some(callee) = module.callee(name) else { continue };
            let summary = match (callee.summary, known.get(name)) {
                (Some(s), _) => s.clone(),
                (None, Some(k)) => k.clone().summary(),
                (None, None) => continue,
            };
            out.effects = out.effects.and(summary.effects);
            for t in &summary.touches {
                let base = match &t.base {
                    Base::Param(b) => {
                        argument(callee.params, args, *b).and_then(|v| base_of(v, &self.params))
                    }
                    other => Some(other.clone()),
                };
                if let Some(base) = base {
                    out.uses.entry(base).or_default().add(&t.mode);
                }
            }
        }
        out
    }
}

/// What is below a view, if the function shares it with its caller.
fn base_of(v: &View, params: &BTreeSet<BufId>) -> Option<Base> {
    match v {
        View::Buffer(b) => params.contains(b).then_some(Base::Param(*b)),
        View::Global(name) => Some(Base::Global(name.clone())),
        View::Slice { base, .. } | View::Reshape { base, .. } | View::Reinterpret { base, .. } => {
            base_of(base, params)
        }
        View::Deref { class, .. } => Some(Base::Class(class.clone())),
    }
}

impl Known {
    fn summary(self) -> Summary {
        let touches = self.uses.into_iter().flat_map(|(base, of)| {
            let one = move |mode| Touch { base: base.clone(), mode, region: None };
            of.modes().into_iter().map(one)
        });
        Summary { touches: touches.collect(), effects: self.effects }
    }
}
