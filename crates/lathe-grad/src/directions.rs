//! Vector modes: a derivative along several directions at once. Whatever tangents or cotangents reach gets one
//! dimension more, the last one, so that directions are neighbours in memory and fill vector registers; what is computed of
//! the function itself is computed once for all of them. No branch, no trip count and no subscript of a derivative
//! depends on a tangent, so directions never part.

use crate::codes::{self, refuse};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{index, load, var};
use lathe_ir::stmt::{AccessMode, PartMap};
use lathe_ir::visit::{loads_of, map_expr, vars_of, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Combine, Compute, Dim, Executor, Expr, ExprKind, Function, Label, Loop,
    Mode, Param, ParamKind, Scalar, Space, Stmt, StmtKind, Store, VarId, View,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A derivative whose parameters `shadows` (tangents and cotangents, given and made) have a dimension more, of the
/// extent `size`.
///
/// # Errors
/// `E1302` where a tangent is used in a way that has no such form; `E1303` where the name is taken.
pub fn along(func: &Function, shadows: &HashSet<String>, size: &str) -> Result<Function, Diagnostic> {
    let taken = func.params.iter().map(Param::name).chain(func.sizes.iter().map(|b| &b.name));
    if taken.into_iter().any(|n| &**n == size) {
        let text = format!("the number of directions is called `{size}`, which is a name of the kernel's");
        return Err(refuse(codes::NAME, text, &Places::none()).help("another name"));
    }
    let mut func = func.clone();
    let size = func.fresh_var(size, Scalar::Index);
    func.sizes.push(size.clone());
    let mut l = Lanes { size, func, arrays: HashSet::new(), cells: HashMap::new(), vars: HashSet::new() };
    let mut params = l.func.params.clone();
    for p in params.iter_mut().filter(|p| shadows.contains(&**p.name())) {
        let b = match &p.kind {
            ParamKind::Array(b) => l.lengthened(b),
            ParamKind::Scalar(b) => {
                let b = (l.func.fresh_buf(), b.clone());
                let cell = Buffer::local(b.0, &*b.1.name, b.1.ty.into(), vec![var(&l.size)], Space::Host);
                l.vars.insert(b.1.id);
                l.cells.insert(b.1.id, cell.clone());
                cell
            }
        };
        l.arrays.insert(b.id);
        let mode = if matches!(p.kind, ParamKind::Scalar(_)) { Mode::In } else { p.mode };
        *p = Param { kind: ParamKind::Array(b), mode, alias: p.alias.clone() };
    }
    let body = l.func.body.clone();
    l.spread(&body);
    let body = l.stmt(&body, None)?;
    Ok(Function { params, body, ..l.func })
}

struct Lanes {
    size: Binder,
    func: Function,
    /// Arrays that have a dimension more, and variables that have a value for each direction.
    arrays: HashSet<BufId>,
    vars: HashSet<VarId>,
    /// Of variables, arrays of their values.
    cells: HashMap<VarId, Arc<Buffer>>,
}

impl Lanes {
    fn lengthened(&self, b: &Buffer) -> Arc<Buffer> {
        let extents = b.extents.iter().cloned().chain([var(&self.size)]).collect();
        let space = if b.space == Space::Register { Space::Host } else { b.space };
        Arc::new(Buffer { extents, space, ..b.clone() })
    }

    fn reads(&self, e: &Expr) -> bool {
        loads_of(e).iter().any(|a| a.view.buffer().is_some_and(|b| self.arrays.contains(&b)))
            || vars_of(e).iter().any(|v| self.vars.contains(v))
    }

    fn writes(&self, s: &Stmt) -> bool {
        s.written().any(|v| v.buffer().is_some_and(|b| self.arrays.contains(&b)))
    }

    /// Finds what is reached from tangents.
    fn spread(&mut self, body: &Stmt) {
        loop {
            let before = self.arrays.len() + self.vars.len();
            walk(body, &mut |s, _| {
                if let Some((binder, value, _)) = s.as_let() {
                    if self.reads(value) {
                        self.vars.insert(binder.id);
                    }
                } else if self.writes(s) || s.exprs().into_iter().any(|e| self.reads(e)) {
                    self.arrays.extend(s.written().filter_map(View::buffer));
                }
                true
            });
            if self.arrays.len() + self.vars.len() == before {
                return;
            }
        }
    }

    /// A statement for all directions, or for the one that the loops around it are at.
    fn stmt(&mut self, s: &Stmt, at: Option<&Expr>) -> Result<Stmt, Diagnostic> {
        if let Some((buffer, body)) = s.as_alloc() {
            let body = self.stmt(body, at)?;
            let buffer =
                if self.arrays.contains(&buffer.id) { self.lengthened(buffer) } else { buffer.clone() };
            return Ok(s.with_kind(StmtKind::Alloc { buffer, body }));
        }
        if let Some((binder, value, body)) = s.as_let()
            && self.vars.contains(&binder.id)
        {
            return self.value(s, binder, value, body, at);
        }
        if let Some(c) = s.as_compute().filter(|_| self.writes(s)) {
            return self.compute(s, c, at);
        }
        if (s.as_store().is_some() || s.as_reduce().is_some()) && self.writes(s) {
            return self.each(at, |l, at| l.with_lane(s, at));
        }
        let children: Vec<&Stmt> = s.children().collect();
        let own = s.exprs().into_iter().any(|e| self.reads(e)) || children.is_empty() && self.writes(s);
        if own {
            return Err(unsupported(s));
        }
        if children.is_empty() {
            return Ok(s.clone());
        }
        let mut new = Vec::new();
        for c in children {
            new.push(self.stmt(c, at)?);
        }
        Ok(s.with_children(new))
    }

    /// A statement in a loop over directions, unless it is in one.
    fn each(
        &mut self,
        at: Option<&Expr>,
        make: impl FnOnce(&mut Lanes, &Expr) -> Result<Stmt, Diagnostic>,
    ) -> Result<Stmt, Diagnostic> {
        if let Some(at) = at {
            return make(self, at);
        }
        let binder = self.func.fresh_var("direction", Scalar::Index);
        let body = make(self, &var(&binder))?;
        let (lo, hi, exec) = (index(0), var(&self.size), Executor::Serial);
        Ok(Stmt::new(
            StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body: body.clone() }),
            body.places().clone(),
        ))
    }

    /// A name for a value of each direction.
    fn value(
        &mut self,
        s: &Stmt,
        binder: &Binder,
        value: &Expr,
        body: &Stmt,
        at: Option<&Expr>,
    ) -> Result<Stmt, Diagnostic> {
        if at.is_some() || self.is_apart(body) {
            return self.each(at, |l, at| {
                let (value, binder) = (l.expr(value, at).ok_or_else(|| unsupported(s))?, binder.clone());
                let body = l.stmt(body, Some(at))?;
                Ok(s.with_kind(StmtKind::Let { binder, value, body }))
            });
        }
        // What is in it does more than that: the values are kept.
        let id = self.func.fresh_buf();
        let cell = Buffer::local(id, &*binder.name, binder.ty.into(), vec![var(&self.size)], Space::Host);
        let label = Label::new(&*binder.name);
        let filled = self.each(None, |l, at| {
            let value = l.expr(value, at).ok_or_else(|| unsupported(s))?;
            let target = Access::buffer(id, binder.ty.into(), vec![at.clone()]);
            Ok(s.with_kind(StmtKind::Store(Store::new(label, vec![at.clone()], target, value))))
        })?;
        self.cells.insert(binder.id, cell.clone());
        let body = self.stmt(body, None)?;
        Ok(s.with_kind(StmtKind::Alloc { buffer: cell, body: Stmt::seq([filled, body]) }))
    }

    /// Whether all that a statement does, it does for each direction.
    fn is_apart(&self, s: &Stmt) -> bool {
        let mut apart = true;
        walk(s, &mut |s, _| {
            let leaf = s.as_store().is_some() || s.as_reduce().is_some();
            let fits =
                leaf && self.writes(s) || s.as_seq().is_some() || s.as_if().is_some() || s.as_let().is_some();
            apart &= fits;
            apart
        });
        apart
    }

    fn compute(&mut self, s: &Stmt, c: &Compute, at: Option<&Expr>) -> Result<Stmt, Diagnostic> {
        if c.guard.iter().chain(c.dims.iter().flat_map(|d| [&d.lo, &d.hi])).any(|e| self.reads(e)) {
            return Err(unsupported(s));
        }
        let mut dims = c.dims.clone();
        let lane = match at {
            Some(at) => at.clone(),
            None => {
                let binder = self.func.fresh_var("direction", Scalar::Index);
                let lane = var(&binder);
                // The last of those that are no sums: neighbours in memory.
                let last =
                    dims.iter().rposition(|d| !matches!(d.combine, Combine::Reduce(_))).map_or(0, |n| n + 1);
                let d = Dim { binder, lo: index(0), hi: var(&self.size), combine: Combine::Concat };
                dims.insert(last, d);
                lane
            }
        };
        let mut lane = Lane { l: self, at: &lane, fits: true };
        let targets = c.targets.iter().map(|t| lane.access(t, AccessMode::Write)).collect();
        let values = c.values.iter().map(|v| lane.expr(v)).collect();
        if !lane.fits {
            return Err(unsupported(s));
        }
        Ok(s.with_kind(StmtKind::Compute(Compute { dims, targets, values, ..c.clone() })))
    }

    fn with_lane(&self, s: &Stmt, at: &Expr) -> Result<Stmt, Diagnostic> {
        let mut lane = Lane { l: self, at, fits: true };
        let out = s.map_parts(&mut lane);
        if lane.fits { Ok(out) } else { Err(unsupported(s)) }
    }

    fn expr(&self, e: &Expr, at: &Expr) -> Option<Expr> {
        let mut lane = Lane { l: self, at, fits: true };
        let e = lane.expr(e);
        lane.fits.then_some(e)
    }
}

fn unsupported(s: &Stmt) -> Diagnostic {
    let text = "a tangent is used here in a way that has no form for several directions";
    refuse(codes::UNSUPPORTED, text.to_string(), s.places()).help("one direction at a time")
}

/// Parts of a statement at one direction.
struct Lane<'l> {
    l: &'l Lanes,
    at: &'l Expr,
    fits: bool,
}

impl Lane<'_> {
    /// The element of a direction.
    fn element(&mut self, a: &Access) -> Access {
        let Some(b) = a.view.buffer().filter(|b| self.l.arrays.contains(b)) else { return a.clone() };
        let view = match &a.view {
            View::Buffer(_) => a.view.clone(),
            View::Slice { base, offsets, steps } if **base == View::Buffer(b) => View::Slice {
                base: base.clone(),
                offsets: offsets.iter().cloned().chain([index(0)]).collect(),
                steps: steps.iter().copied().chain([1]).collect(),
            },
            _ => {
                self.fits = false;
                a.view.clone()
            }
        };
        self.fits &= !a.exprs().into_iter().any(|e| self.l.reads(e));
        let indices = a.indices.iter().cloned().chain([self.at.clone()]).collect();
        Access { view, indices, ..a.clone() }
    }
}

impl PartMap for Lane<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => load(self.element(a)),
            ExprKind::Address(_) => {
                self.fits = false;
                x
            }
            ExprKind::Var(v) => match self.l.cells.get(v) {
                Some(cell) => load(Access::buffer(cell.id, cell.elem.clone(), vec![self.at.clone()])),
                None => x,
            },
            _ => x,
        })
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        let a = a.map_exprs(&mut |e| self.expr(e));
        self.element(&a)
    }

    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        (label.clone(), instance.iter().cloned().chain([self.at.clone()]).collect())
    }
}
