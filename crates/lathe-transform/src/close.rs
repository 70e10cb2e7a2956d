//! `close`: raises loops to index notation, the inverse of `open`.

use crate::args::Args;
use crate::codes;
use crate::laws;
use crate::names::find_some_label;
use crate::nest::mentions;
use crate::rule;
use crate::storage::may_alias;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, BufId, Combine, Compute, Dim, Executor, Expr, ExprKind, Label, Loop, Module, Reduce, ReduceOp,
    Stmt, StmtKind, Store, VarId, View,
};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Obligation, Refusal};
use std::collections::HashMap;

rule! {
    /// *Raising*, the inverse of `open` (lowering): a nest that only stores one value per iteration, updates elements
    /// (`C[i, j] += …`), or reduces from the operator's identity into an accumulator or an element, becomes the
    /// equivalent statement in index notation. The identity may also be stored earlier in the same block, if nothing in
    /// between touches the elements. `close(C)` closes the nest that stores `C`, `close` every nest that can
    /// be closed; decisions (`mdh`) are taken for statements in index notation.
    ///
    /// **Legal** if the domain is a box and the loops run in order and read nothing that they write. The result of a
    /// reduction may then be combined in any order: using the step declares that acceptable, which is recorded.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     for i in 0..N { B[i] = 2.0 * A[i] }
    /// }
    /// strategy s for scale = close(B) ; open ; vectorize(i, vector(f32))
    /// ```
    pub static RULE = close, version 1, (label: optional Label), apply,
        "raising: turns loop nests into index notation";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let label = args.opt_path(work.rule(), "label", 0)?;
    if let Some(l) = &label {
        find_some_label(cursor, work.rule(), l)?;
    }
    let mut found: Vec<(Path, Closed)> = Vec::new();
    let mut inside: Option<Path> = None;
    visit::walk(cursor.focused(), &mut |s, p| {
        let path: Path = cursor.focus.iter().chain(p).copied().collect();
        // What lies in something closed is closed, too.
        if inside.as_ref().is_some_and(|o| path.starts_with(o)) {
            return false;
        }
        if let Some(c) = close(cursor.module, s)
            && !c.compute.targets.iter().filter_map(|t| t.view.buffer()).any(|b| may_alias(cursor.func, b))
            && label.as_ref().is_none_or(|l| l == c.compute.label.as_str())
        {
            inside = Some(path.clone());
            found.push((path, c));
            return false;
        }
        // A statement that runs many times is not the one statement of its label.
        !matches!(s.enters(0), Enters::Loop(_) | Enters::While(_))
    });
    if let (Some(l), true) = (&label, found.is_empty()) {
        let text = format!("`close`: the loops around `{l}` are not a statement in index notation");
        return Err(work.refuse(codes::SHAPE, text));
    }
    for (path, c) in found.into_iter().rev() {
        let Some(places) = cursor.at(&path).map(|s| s.places().clone()) else { continue };
        let op = c.compute.dims.iter().find_map(|d| match &d.combine {
            Combine::Concat => None,
            Combine::Reduce(op) | Combine::Scan(op) => Some(op.clone()),
        });
        if let Some(op) = op {
            let types: Vec<_> = c.compute.targets.iter().map(|t| t.elem.clone()).collect();
            let law = laws::rely(
                work.rule(),
                cursor.module,
                cursor.func,
                &op,
                &types,
                Which::Associative,
                cursor.at(&path).map_or(&Places::none(), |s| s.places()),
            )?;
            work.relies_on(&law);
            work.changes_rounding(c.compute.label.as_str());
            let label = c.compute.label.to_string();
            work.oblige(Obligation::stated(Claim::Unordered { label }));
        }
        let new = Stmt::new(StmtKind::Compute(c.compute), places);
        work.replace_by_rule(&path, new, Kind::Combine, Construction::Closed)?;
    }
    while let Some((path, new)) = begun(work, label.as_deref()) {
        work.replace_by_rule(&path, new, Kind::Combine, Construction::Closed)?;
    }
    Ok(())
}

/// A block in which elements get the identity of an operator, and values are combined into them further on; and the block with
/// the one reduction that this is.
fn begun(work: &Work, label: Option<&str>) -> Option<(Path, Stmt)> {
    let focus = work.cursor().focus.clone();
    let mut found = None;
    visit::walk(visit::at(&work.func().body, &focus)?, &mut |s, p| {
        let all = block(s);
        let made = all.iter().enumerate().find_map(|(n, s)| {
            let c = s.as_compute().filter(|c| label.is_none_or(|l| l == c.label.as_str()))?;
            let (first, c) = begins(work, &all[..n], c)?;
            let new = s.with_kind(StmtKind::Compute(c));
            let rest = (0..all.len()).filter(|k| *k != first);
            Some(Stmt::seq(rest.map(|k| if k == n { new.clone() } else { all[k].clone() })))
        });
        found = made.map(|block| (focus.iter().chain(p).copied().collect(), block));
        found.is_none()
    });
    found
}

/// The statements of a sequence, those of sequences in it included.
fn block(s: &Stmt) -> Vec<Stmt> {
    let inner = |s: &Stmt| if s.as_seq().is_some() { block(s) } else { vec![s.clone()] };
    s.as_seq().unwrap_or(&[]).iter().flat_map(inner).collect()
}

/// The statement before an update that gives its elements the identity, and the update as a reduction that begins there.
fn begins(work: &Work, before: &[Stmt], c: &Compute) -> Option<(usize, Compute)> {
    let (op, [target], None) = (c.update.as_ref()?, c.targets.as_slice(), &c.guard) else { return None };
    let buffer = target.view.buffer().filter(|b| !may_alias(work.func(), *b))?;
    let n = before.iter().rposition(|s| touches(s, buffer))?;
    let (dims, init, value) = match before[n].as_compute() {
        Some(f) => {
            let ([init], [value], None, None) = (&f.targets[..], &f.values[..], &f.guard, &f.update) else {
                return None;
            };
            (f.dims.as_slice(), init, value)
        }
        None => before[n].as_store().map(|st| (&[][..], &st.target, &st.value))?,
    };
    let start = lathe_ir::reduce::identity(work.module(), op, std::slice::from_ref(&target.elem))?;
    let free = || c.dims.iter().filter(|d| d.combine == Combine::Concat);
    // Both run through the same elements, each dimension in one subscript of its own.
    let dim = |dims: &[Dim], e: &Expr| dims.iter().position(|d| e.as_var() == Some(d.binder.id));
    let mut seen = Vec::new();
    let same = init.indices.iter().zip(&target.indices).all(|(a, b)| match (dim(dims, a), dim(&c.dims, b)) {
        (Some(x), Some(y)) => {
            let new = seen.iter().all(|s: &(usize, usize)| s.0 != x && s.1 != y);
            seen.push((x, y));
            new && dims[x].lo == c.dims[y].lo && dims[x].hi == c.dims[y].hi
        }
        (None, None) => a == b && dims.iter().chain(&c.dims).all(|d| !mentions(a, d.binder.id)),
        _ => false,
    });
    let whole = seen.len() == dims.len() && seen.len() == free().count();
    let plain = dims.iter().all(|d| d.combine == Combine::Concat) && init.view == target.view;
    let reduces = c.dims.len() > seen.len()
        && c.values.iter().flat_map(visit::loads_of).all(|a| a.view.buffer() != Some(buffer));
    let begins = start.as_slice() == std::slice::from_ref(value);
    (same && whole && plain && reduces && begins).then(|| (n, Compute { update: None, ..c.clone() }))
}

/// Whether a statement, or what it holds, may read or write an array.
fn touches(s: &Stmt, buffer: BufId) -> bool {
    let own = |v: &View| v.buffer().is_none_or(|b| b == buffer);
    s.touches().iter().any(|(t, _)| own(t.view()))
        || s.exprs().into_iter().flat_map(visit::loads_of).any(|a| own(&a.view))
        || s.children().any(|s| touches(s, buffer))
}

struct Closed {
    compute: Compute,
}

/// The statement in index notation that a nest is.
fn close(module: &Module, s: &Stmt) -> Option<Closed> {
    let mut dims: Vec<Dim> = Vec::new();
    let mut lets: HashMap<VarId, Expr> = HashMap::new();
    let mut here = s;
    loop {
        if let Some(l) = here.as_loop() {
            dims.push(side(l, &lets, Combine::Concat)?);
            here = &l.body;
        } else if let Some((binder, value, body)) = here.as_let() {
            lets.insert(binder.id, visit::substitute(value, &lets));
            here = body;
        } else if here.as_alloc().is_some() {
            return reduction(module, here, dims, &mut lets);
        } else if let Some(r) = here.as_reduce() {
            return update(r, dims, &lets);
        } else if let Some([first, nest]) = here.as_seq() {
            return in_place(module, first.as_store()?, nest, dims, &mut lets);
        } else {
            let st = here.as_store()?;
            return finish(&st.label, dims, (&st.target, &st.value), None, &lets);
        }
    }
}

/// Loops around `C op= value`: those that move the target are free, the others reduced.
fn update(r: &Reduce, mut dims: Vec<Dim>, lets: &HashMap<VarId, Expr>) -> Option<Closed> {
    let (target, value) = licensed(r)?;
    for d in &mut dims {
        let moves = target.indices.iter().any(|e| mentions(&visit::substitute(e, lets), d.binder.id));
        d.combine = if moves { Combine::Concat } else { Combine::Reduce(r.op.clone()) };
    }
    finish(&r.label, dims, (target, value), Some(r.op.clone()), lets)
}

/// `C = identity; for x { C op= value }`, with as many loops as there are.
fn in_place(
    module: &Module,
    init: &Store,
    nest: &Stmt,
    mut dims: Vec<Dim>,
    lets: &mut HashMap<VarId, Expr>,
) -> Option<Closed> {
    let free = dims.len();
    let r = inside(nest, lets, &mut |l, lets| {
        dims.push(side(l, lets, Combine::Concat)?);
        Some(())
    })?;
    dims[free..].iter_mut().for_each(|d| d.combine = Combine::Reduce(r.op.clone()));
    let (target, value) = licensed(r)?;
    let start = lathe_ir::reduce::identity(module, &r.op, std::slice::from_ref(&target.elem))?;
    let begins = target.view == init.target.view && target.indices == init.target.indices;
    let reduces = dims.len() > free && begins && start.as_slice() == std::slice::from_ref(&init.value);
    if reduces { finish(&r.label, dims, (target, value), None, lets) } else { None }
}

/// What is told of a loop and of the values that have names there; nothing, where it does not fit.
type Each<'e, 's> = &'e mut dyn FnMut(&'s Loop, &HashMap<VarId, Expr>) -> Option<()>;

/// The reduction that a nest holds and nothing else; `each` is told of its loops, outer ones first, with the values that
/// have names there.
fn inside<'s>(nest: &'s Stmt, lets: &mut HashMap<VarId, Expr>, each: Each<'_, 's>) -> Option<&'s Reduce> {
    let mut here = nest;
    loop {
        if let Some(l) = here.as_loop() {
            each(l, lets)?;
            here = &l.body;
        } else if let Some((binder, value, body)) = here.as_let() {
            lets.insert(binder.id, visit::substitute(value, lets));
            here = body;
        } else {
            return here.as_reduce();
        }
    }
}

/// The target and value of a reduction whose instances may be combined in any order.
fn licensed(r: &Reduce) -> Option<(&Access, &Expr)> {
    match (&r.targets[..], &r.values[..]) {
        ([target], [value]) if r.licence && !r.contract => Some((target, value)),
        _ => None,
    }
}

fn side(l: &Loop, lets: &HashMap<VarId, Expr>, combine: Combine) -> Option<Dim> {
    let plain = l.step == 1 && l.exec == Executor::Serial;
    let bound = |e: &Expr| visit::substitute(e, lets);
    plain.then(|| Dim { binder: l.binder.clone(), lo: bound(&l.lo), hi: bound(&l.hi), combine })
}

/// `alloc acc { acc = identity; for x { acc op= value }; out = acc }`, with as many loops as there are.
fn reduction(
    module: &Module,
    s: &Stmt,
    mut dims: Vec<Dim>,
    lets: &mut HashMap<VarId, Expr>,
) -> Option<Closed> {
    let (buffer, body) = s.as_alloc()?;
    let [first, middle, last] = body.as_seq()? else { return None };
    let (init, out) = (first.as_store()?, last.as_store()?);
    let own = |a: &Access| a.view == View::Buffer(buffer.id) && a.indices.is_empty();
    let mut reduced: Vec<(&Loop, HashMap<VarId, Expr>)> = Vec::new();
    let reduce = inside(middle, lets, &mut |l, lets| {
        reduced.push((l, lets.clone()));
        Some(())
    })?;
    let [target] = reduce.targets.as_slice() else { return None };
    let start = lathe_ir::reduce::identity(module, &reduce.op, std::slice::from_ref(&buffer.elem))?;
    let through = matches!(out.value.kind(), ExprKind::Load(a) if own(a));
    if reduced.is_empty()
        || !own(target)
        || !own(&init.target)
        || !through
        || start.as_slice() != std::slice::from_ref(&init.value)
        || out.target.elem != buffer.elem
    {
        return None;
    }
    for (l, lets) in &reduced {
        dims.push(side(l, lets, Combine::Reduce(reduce.op.clone()))?);
    }
    let uses = visit::loads_of(&reduce.values[0]).iter().any(own);
    if uses {
        return None;
    }
    finish(&out.label, dims, (&out.target, &reduce.values[0]), None, lets)
}

fn finish(
    label: &Label,
    dims: Vec<Dim>,
    (target, value): (&Access, &Expr),
    update: Option<ReduceOp>,
    lets: &HashMap<VarId, Expr>,
) -> Option<Closed> {
    let own: Vec<VarId> = dims.iter().map(|d| d.binder.id).collect();
    let boxed = dims
        .iter()
        .flat_map(|d| [&d.lo, &d.hi])
        .all(|e| own.iter().all(|v| !mentions(e, *v)) && visit::loads_of(e).is_empty());
    let with = |e: &Expr| visit::substitute(e, lets);
    let value = with(value);
    let target = Access { indices: target.indices.iter().map(with).collect(), ..target.clone() };
    let written = target.view.buffer()?;
    let free = dims.iter().all(|d| d.combine == Combine::Concat) && update.is_none();
    // An element may be made of what it was, but of no other element that is written.
    let fine = |a: &Access| match a.view.buffer() {
        Some(b) if b == written => free && a.view == target.view && a.indices == target.indices,
        other => other.is_some(),
    };
    let reads = visit::loads_of(&value).iter().all(fine);
    let loads = target.indices.iter().any(|e| !visit::loads_of(e).is_empty());
    // Every iteration of the free loops writes an element of its own: the subscripts tell them apart.
    let told = dims
        .iter()
        .filter(|d| d.combine == Combine::Concat)
        .all(|d| target.indices.iter().any(|e| e.as_var() == Some(d.binder.id)));
    let stays = dims
        .iter()
        .filter(|d| d.combine != Combine::Concat)
        .all(|d| target.indices.iter().all(|e| !mentions(e, d.binder.id)));
    if dims.is_empty() || !boxed || !reads || loads || !told || !stays {
        return None;
    }
    let (label, targets, values) = (label.clone(), vec![target], vec![value]);
    Some(Closed { compute: Compute { label, dims, targets, values, guard: None, update } })
}
