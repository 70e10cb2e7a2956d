//! `hoist`: what a statement computes again in every iteration of a loop around it gets an array, filled by a nest before.

use super::make::{fresh_name, nest, proved};
use super::materialize::{Found, computed_first, refuse, within};
use crate::args::Args;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr, ExprKind};
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Memo, Path};
use lathe_ir::{Binder, Buffer, Label, Loop, Reduce, Space, Stmt, StmtKind, Store, VarId, build};
use lathe_strategy::Refusal;
use std::collections::HashSet;
use std::sync::Arc;

const RULE: &str = "hoist";

rule! {
    /// `hoist(C, C.j)` looks for what the values of the statement `C` are computed from that is the same in all
    /// iterations of the loop `C.j`, but not in those of the other loops around it. A nest before, `C.map`, computes it
    /// into a local array `C.f` (or `name:`), one element per iteration of the loops that it depends on. Several such
    /// expressions get several arrays and nests, `C.f2`, `C.map2`, …; a load alone is none. Loop-invariant code motion
    /// needs no array, but takes a value out of the innermost loop only.
    ///
    /// Legal if nothing that these values read is written by the statement, if its loops make a box, and if the loops
    /// that a value does not depend on surely have an iteration: nothing is computed that was not computed before.
    ///
    /// ```lathe
    /// kernel gemm(alpha: f32, A: f32[64, N], B: f32[N, 32]) -> (C: f32[64, 32]) {
    ///     C[i, j] = sum[k](alpha * A[i, k] * B[k, j])
    /// }
    /// strategy scaled for gemm = hoist(C, C.j)
    /// ```
    pub static HOIST = hoist, version 1, (label: one Label, over: one Loop, name: optional Word), apply,
        "loop-invariant code motion into an array: computes before a nest what one of its loops does not change";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let label = args.path(RULE, "label", 0)?;
    let over = names::find_one_loop(cursor, RULE, &args.path(RULE, "over", 1)?)?;
    let over = cursor.at(&over).and_then(Stmt::as_loop).map(|l| l.binder.clone());
    let gone = || refuse(RULE, "the place is gone", "", &Places::none());
    let (mut root, over) =
        (within(cursor, names::find_family(cursor, &label)?, &label), over.ok_or_else(gone)?);
    let family = cursor.at(&root).ok_or_else(gone)?;
    let mut found = Found::of(RULE, family, &label)?;
    // Behind the checks before the nest.
    root.extend(nest_of(family, &label));
    let stmt = cursor.at(&root).ok_or_else(gone)?;
    if !found.loops.iter().any(|l| l.binder.id == over.id) {
        let text = format!("`{}` is no loop around `{label}`", over.name);
        return Err(refuse(RULE, &text, "name the loop that changes nothing", &found.places));
    }
    let own: HashSet<VarId> = found.loops.iter().map(|l| l.binder.id).collect();
    found.values = unchanged(&found.values, &own, over.id);
    if found.values.is_empty() {
        let text = format!("all that `{label}` computes depends on `{}`", over.name);
        return Err(refuse(RULE, &text, "leave the step out", &found.places));
    }
    found.independent(RULE, cursor, stmt)?;
    let wanted = args.opt_path(RULE, "name", 2)?;
    let mut tables = Vec::new();
    for (n, value) in found.values.iter().enumerate() {
        let mentioned = visit::vars_of(value);
        let loops: Vec<Loop> =
            found.loops.iter().filter(|l| mentioned.contains(&l.binder.id)).cloned().collect();
        let name = match &wanted {
            Some(w) if n == 0 => w.clone(),
            Some(w) => format!("{w}{}", n + 1),
            None => Role::Values.nth(&label, n),
        };
        let extent = |l: &Loop| build::max(build::index(0), crate::nest::trip_count(l));
        let array = Buffer::local(
            work.fresh_buf(),
            fresh_name(work.func(), &name),
            value.ty().clone(),
            loops.iter().map(extent).collect(),
            Space::Host,
        );
        let map = fresh_name(work.func(), &Role::Map.nth(&label, n));
        tables.push(Table { value: value.clone(), loops, array, map });
    }
    let mut all: Vec<Stmt> = Vec::new();
    for t in &tables {
        all.push(work.copy(&t.fill(&found.places)));
    }
    all.push(redirect(stmt, &label, &tables));
    let buffers: Vec<Arc<Buffer>> = tables.iter().map(|t| t.array.clone()).collect();
    let help = "do this first, before loops are split or run by others; sizes must be known not to be zero";
    computed_first(work, &root, Stmt::seq(all), &buffers, (&label, &found.places), help)
}

/// Where in a statement the outermost loop around a label is.
fn nest_of(root: &Stmt, label: &str) -> Path {
    let mut out: Option<Path> = None;
    visit::walk(root, &mut |s, p| {
        if out.is_none() && s.label().is_some_and(|l| l.as_str() == label) {
            let is_loop = |n: &usize| visit::at(root, &p[..*n]).is_some_and(|s| s.as_loop().is_some());
            out = Some((0..p.len()).find(is_loop).map_or(Path::new(), |n| p[..n].to_vec()));
        }
        out.is_none()
    });
    out.unwrap_or_default()
}

/// The largest parts of values that one of the indices `own` does not change, but others do. What is behind a condition may not be
/// evaluated.
pub fn unchanged(values: &[Expr], own: &HashSet<VarId>, over: VarId) -> Vec<Expr> {
    let mut out: Vec<Expr> = Vec::new();
    let (mut left, mut seen): (Vec<&Expr>, _) = (values.iter().rev().collect(), HashSet::new());
    while let Some(e) = left.pop() {
        if !seen.insert(e.address()) {
            continue;
        }
        if is_hoisted(e, own, over) {
            if !out.contains(e) {
                out.push(e.clone());
            }
        } else if !matches!(e.kind(), ExprKind::Load(_) | ExprKind::Select(..)) {
            left.extend(e.children().into_iter().rev());
        }
    }
    out
}

/// An expression with others in the place of some of its parts, the largest of them first.
pub fn replaced(e: &Expr, parts: &[Expr], by: &[Expr]) -> Expr {
    replaced_in(e, parts, by, &mut Memo::default())
}

fn replaced_in(e: &Expr, parts: &[Expr], by: &[Expr], memo: &mut Memo<Expr>) -> Expr {
    memo.of(e, |memo| match parts.iter().position(|p| p == e) {
        Some(n) => by[n].clone(),
        None if e.children().is_empty() => e.clone(),
        None => {
            let new = e.children().into_iter().map(|c| replaced_in(c, parts, by, memo)).collect();
            e.with_children(new)
        }
    })
}

/// Whether an expression is more than a load, and depends on memory and loops, but not on one of these.
fn is_hoisted(e: &Expr, own: &HashSet<VarId>, over: VarId) -> bool {
    let vars = visit::vars_of(e);
    e.ty().scalar().is_some_and(|_| !e.ty().is_index())
        && !matches!(e.kind(), ExprKind::Load(_))
        && !visit::loads_of(e).is_empty()
        && !vars.contains(&over)
        && vars.iter().any(|v| own.contains(v))
}

/// A value, the loops that it depends on, its array, and the label of the statement that fills it.
struct Table {
    value: Expr,
    loops: Vec<Loop>,
    array: Arc<Buffer>,
    map: String,
}

impl Table {
    /// The element of this iteration.
    fn element(&self) -> Access {
        let at = |l: &Loop| build::sub(build::var(&l.binder), l.lo.clone());
        proved(self.array.id, &self.array.elem, self.loops.iter().map(at).collect())
    }

    fn fill(&self, places: &Places) -> Stmt {
        let instance = self.loops.iter().map(|l| build::var(&l.binder)).collect();
        let store = Store::new(Label::new(&self.map), instance, self.element(), self.value.clone());
        let loops: Vec<(Binder, Expr, Expr)> =
            self.loops.iter().map(|l| (l.binder.clone(), l.lo.clone(), l.hi.clone())).collect();
        nest(loops, Stmt::new(StmtKind::Store(store), places.clone()), places)
    }
}

/// The nest with the arrays' elements in the place of the values.
fn redirect(root: &Stmt, label: &str, tables: &[Table]) -> Stmt {
    let loads: Vec<Expr> = tables.iter().map(|t| build::load(t.element())).collect();
    let values: Vec<Expr> = tables.iter().map(|t| t.value.clone()).collect();
    let with = |e: &Expr| replaced(e, &values, &loads);
    let mine = |l: &Label| l.as_str() == label || Role::Out.is_of(l.as_str(), label);
    visit::map_stmts(root, &mut |s| match (s.as_store(), s.as_reduce()) {
        (Some(st), _) if mine(&st.label) => {
            s.with_kind(StmtKind::Store(Store { value: with(&st.value), ..st.clone() }))
        }
        (_, Some(r)) if r.label.as_str() == label => {
            s.with_kind(StmtKind::Reduce(Reduce { values: r.values.iter().map(with).collect(), ..r.clone() }))
        }
        _ => s,
    })
}
