//! Calls: those of functions that the module gives a derivative for stay, with arrays of their own as arguments; all others
//! are their bodies.
//!
//! A call that stays reads and writes local arrays as a whole, which nothing else writes: what its derivative needs of
//! the primal is in them, or is computed again by the copies into them.

use crate::Mode;
use crate::arrays::{allocated, elements, fill};
use crate::codes::{self, refuse};
use crate::custom::rule_of;
use crate::expr::load_of;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, floor_div, index, load, max, mul, sub};
use lathe_ir::stmt::Arg;
use lathe_ir::stmt::Effects;
use lathe_ir::summaries::Summaries;
use lathe_ir::summary::Base;
use lathe_ir::visit::{map_stmts, substitute, walk};
use lathe_ir::{
    Access, BufId, Buffer, Expr, ExprKind, Function, Label, Mode as ParamMode, Module, Name, Param,
    ParamKind, Space, Stage, Stmt, StmtKind, Store, VarId, View,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A call that stays.
pub struct Call {
    /// What is called: its signature.
    pub of: Function,
    /// What computes its derivative, if the module says so.
    pub rule: Option<Function>,
    /// For every parameter.
    pub args: Vec<Passed>,
}

pub enum Passed {
    Value(Expr),
    /// An array, and the one that it was copied from where the call changes it.
    Array {
        now: Arc<Buffer>,
        before: Arc<Buffer>,
    },
}

impl Call {
    fn arrays(&self, fits: impl Fn(ParamMode) -> bool) -> impl Iterator<Item = (ParamMode, &Passed)> {
        let all = self.of.params.iter().map(|p| p.mode).zip(&self.args);
        all.filter(move |(m, _)| fits(*m))
    }

    /// Whole arrays that the call, or its derivative, reads.
    pub fn reads(&self) -> Vec<Access> {
        let mut out = Vec::new();
        for (mode, p) in self.arrays(|m| m != ParamMode::Out) {
            let Passed::Array { now, before } = p else { continue };
            out.push(whole(now));
            if mode == ParamMode::InOut {
                out.push(whole(before));
            }
        }
        out
    }

    /// Whole arrays that the call writes.
    pub fn writes(&self) -> Vec<Access> {
        let written = self.arrays(|m| m != ParamMode::In);
        written
            .filter_map(|(_, p)| match p {
                Passed::Array { now, .. } => Some(whole(now)),
                Passed::Value(_) => None,
            })
            .collect()
    }
}

/// All of an array: an access that no subscript tells from another.
pub fn whole(b: &Buffer) -> Access {
    Access::buffer(b.id, b.elem.clone(), Vec::new())
}

/// What a call statement calls, as far as its derivative goes.
pub fn signature(module: &Module, name: &str) -> Option<Function> {
    let callee = module.callee(name)?;
    let empty = Function::empty(name, Stage::Plain);
    let next_id = module.functions.get(name).map_or(u32::MAX / 2, |f| f.next_id);
    let (sizes, params) = (callee.sizes.to_vec(), callee.params.to_vec());
    Some(Function { sizes, params, next_id, ..empty })
}

/// The function with bodies in place of calls, but for those with a derivative of their own and external ones.
pub fn opened(module: &Module, func: &Function, mode: Mode) -> Result<Function, Diagnostic> {
    let mut calls = false;
    walk(&func.body, &mut |s, _| {
        calls |= matches!(s.kind(), StmtKind::Call { .. });
        !calls
    });
    if !calls {
        return Ok(func.clone());
    }
    let mut others = module.clone();
    for name in module.derivatives.keys() {
        let own = module.functions.get(name);
        if own.is_some_and(|f| f.result.is_none() && rule_of(module, f, mode).is_some()) {
            others.functions.remove(name);
        }
    }
    let mut out = lathe_lower::calls::inline(&others, func);
    // Functions that were taken out have numbers, too.
    out.next_id = module.functions.values().map(|f| f.next_id).fold(out.next_id, u32::max);
    let mut bufs: HashMap<BufId, Arc<Buffer>> =
        out.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.clone())).collect();
    walk(&out.body, &mut |s, _| {
        bufs.extend(s.allocated().map(|b| (b.id, b.clone())));
        true
    });
    let mut failure = None;
    let body = map_stmts(&out.body.clone(), &mut |s| {
        let StmtKind::Call { function, args } = s.kind() else { return s };
        match apart(module, &mut out, &bufs, function, args, s.places()) {
            Ok(s) => s,
            Err(d) => {
                failure.get_or_insert(d);
                s
            }
        }
    });
    match failure {
        Some(d) => Err(d),
        None => Ok(Function { body, ..out }),
    }
}

/// A call on arrays of its own, among the copies.
fn apart(
    module: &Module,
    func: &mut Function,
    bufs: &HashMap<BufId, Arc<Buffer>>,
    name: &Name,
    args: &[Arg],
    places: &Places,
) -> Result<Stmt, Diagnostic> {
    let no = |text: String| refuse(codes::UNSUPPORTED, text, places);
    let Some(of) = signature(module, name) else { return Err(no(format!("there is no function `{name}`"))) };
    // A size is the extent that it stands for alone.
    let mut sizes: HashMap<VarId, Expr> = HashMap::new();
    for (p, a) in of.params.iter().zip(args) {
        if let (ParamKind::Array(b), Arg::View(v)) = (&p.kind, a) {
            for (x, e) in b.extents.iter().zip(extents_of(v, bufs).into_iter().flatten()) {
                x.as_var().map(|id| sizes.entry(id).or_insert(e));
            }
        }
        if let (ParamKind::Scalar(b), Arg::Value(e)) = (&p.kind, a) {
            sizes.insert(b.id, e.clone());
        }
    }
    let (mut locals, mut before, mut after, mut given) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (p, a) in of.params.iter().zip(args) {
        let base = format!("{name}.{}", p.name());
        match (&p.kind, a) {
            (ParamKind::Scalar(b), Arg::Value(e)) if b.ty.is_float() => {
                let space = Space::Register;
                let own = Buffer::local(func.fresh_buf(), base.as_str(), b.ty.into(), Vec::new(), space);
                let store = Store::new(Label::new(base), Vec::new(), whole(&own), e.clone());
                before.push(Stmt::new(StmtKind::Store(store), places.clone()));
                given.push(Arg::Value(load(whole(&own))));
                locals.push(own);
            }
            (ParamKind::Scalar(_), Arg::Value(e)) => given.push(Arg::Value(e.clone())),
            (ParamKind::Array(b), Arg::View(v)) => {
                if extents_of(v, bufs).is_none() {
                    return Err(no(format!("`{}` of `{name}` is a view that is not followed", p.name())));
                }
                let extents: Vec<Expr> = b.extents.iter().map(|e| substitute(e, &sizes)).collect();
                let mut local = |suffix: &str| {
                    let (id, name) = (func.fresh_buf(), format!("{base}{suffix}").into());
                    let space = if extents.is_empty() { Space::Register } else { Space::Host };
                    let layout = lathe_ir::Layout::row_major();
                    Arc::new(Buffer { id, name, extents: extents.clone(), space, layout, ..(**b).clone() })
                };
                let (from, now) = match p.mode {
                    ParamMode::In => {
                        let own = local("");
                        (Some(own.clone()), own)
                    }
                    ParamMode::Out => (None, local("")),
                    ParamMode::InOut => (Some(local(".given")), local("")),
                };
                let copied = |target: Access, value: Expr, dims: Vec<lathe_ir::Dim>, label: String| {
                    fill(label, dims, target, value).with_places(places.clone())
                };
                let seen = |a: &Access| {
                    through(v, &a.indices).map(|(id, indices)| Access::buffer(id, b.elem.clone(), indices))
                };
                let lost = || no(format!("`{}` of `{name}` is a view that is not followed", p.name()));
                if let Some(own) = &from {
                    let (dims, target) = elements(own, func);
                    let value = load(seen(&target).ok_or_else(lost)?);
                    before.push(copied(target, value, dims, format!("{base}.copy")));
                    if own.id != now.id {
                        let (dims, target) = elements(&now, func);
                        let value = load_of(&target, own.id, own.elem.clone());
                        before.push(copied(target, value, dims, format!("{base}.own")));
                        locals.push(own.clone());
                    }
                }
                if p.mode != ParamMode::In {
                    let (dims, from) = elements(&now, func);
                    let target = seen(&from).ok_or_else(lost)?;
                    after.push(copied(target, load(from), dims, format!("{base}.back")));
                }
                given.push(Arg::View(View::Buffer(now.id)));
                locals.push(now);
            }
            _ => return Err(no(format!("`{}` of `{name}` is given something else", p.name()))),
        }
    }
    let call = Stmt::new(StmtKind::Call { function: name.clone(), args: given }, places.clone());
    Ok(allocated(locals, Stmt::seq(before.into_iter().chain([call]).chain(after))))
}

/// The extents of an array, or of a box of it.
fn extents_of(v: &View, bufs: &HashMap<BufId, Arc<Buffer>>) -> Option<Vec<Expr>> {
    match v {
        View::Buffer(b) => Some(bufs.get(b)?.extents.clone()),
        View::Slice { base, offsets, steps } => {
            let left = extents_of(base, bufs)?.into_iter().zip(offsets).zip(steps).map(|((e, o), s)| {
                let left = max(sub(e, o.clone()), index(0));
                (*s > 0).then(|| floor_div(add(left, index(*s - 1)), index(*s)))
            });
            left.collect()
        }
        View::Reshape { .. } | View::Reinterpret { .. } | View::Deref { .. } | View::Global(_) => None,
    }
}

/// The element of an array that one of a view is.
fn through(v: &View, indices: &[Expr]) -> Option<(BufId, Vec<Expr>)> {
    match v {
        View::Buffer(b) => Some((*b, indices.to_vec())),
        View::Slice { base, offsets, steps } => {
            let inner: Vec<Expr> = indices
                .iter()
                .zip(offsets)
                .zip(steps)
                .map(|((i, o), s)| {
                    add(o.clone(), if *s == 1 { i.clone() } else { mul(index(*s), i.clone()) })
                })
                .collect();
            through(base, &inner)
        }
        View::Reshape { .. } | View::Reinterpret { .. } | View::Deref { .. } | View::Global(_) => None,
    }
}

/// A call as [`opened`] leaves it, in a function.
pub fn of_stmt(
    module: &Module,
    func: &Function,
    bufs: &dyn Fn(BufId) -> Option<Arc<Buffer>>,
    s: &Stmt,
    mode: Mode,
) -> Result<Option<Call>, Diagnostic> {
    let StmtKind::Call { function, args } = s.kind() else { return Ok(None) };
    let no = |text: String| refuse(codes::UNSUPPORTED, text, s.places());
    let Some(of) = signature(module, function) else {
        return Err(no(format!("there is no function `{function}`")));
    };
    let all = Summaries::of(module);
    let harmless = Effects::FAILS.and(Effects::DIVERGES).and(Effects::ALLOCATES);
    let quiet = all.get(function).is_some_and(|known| {
        let own = known.touches.iter().all(|t| matches!(t.base, Base::Param(_)));
        own && known.effects.without(harmless).is_none()
    });
    if !quiet {
        let text = format!("`{function}` does more than to write its outputs");
        return Err(no(text).help("globals, input and output have no place in a derivative"));
    }
    let mut passed = Vec::new();
    for (p, a) in of.params.iter().zip(args) {
        passed.push(match a {
            Arg::Value(e) => Passed::Value(e.clone()),
            Arg::View(v) => {
                let now = v.as_buffer().and_then(bufs).ok_or_else(|| no("a view in a call".to_string()))?;
                let before = match p.mode {
                    ParamMode::InOut => source(func, now.id).and_then(bufs).unwrap_or_else(|| now.clone()),
                    ParamMode::In | ParamMode::Out => now.clone(),
                };
                Passed::Array { now, before }
            }
        });
    }
    let rule = rule_of(module, &of, mode).cloned();
    Ok(Some(Call { of, rule, args: passed }))
}

/// The array that another one is a copy of.
fn source(func: &Function, of: BufId) -> Option<BufId> {
    let mut found = None;
    walk(&func.body, &mut |s, _| {
        let copied = s.as_compute().map(|c| (&c.targets[0], &c.values[0]));
        let copied = copied.or_else(|| s.as_store().map(|st| (&st.target, &st.value)));
        if let Some((target, value)) = copied
            && target.view == View::Buffer(of)
            && let ExprKind::Load(a) = value.kind()
        {
            found = a.view.buffer();
        }
        found.is_none()
    });
    found
}

/// What is passed for a parameter of a rule that is another array than what is there: a float type of its own, or
/// nothing.
pub fn like(p: &Param, of: &Passed) -> (lathe_ir::Type, Vec<Expr>) {
    match (of, &p.kind) {
        (Passed::Array { now, .. }, _) => (now.elem.clone(), now.extents.clone()),
        (Passed::Value(e), _) => (e.ty().clone(), Vec::new()),
    }
}
