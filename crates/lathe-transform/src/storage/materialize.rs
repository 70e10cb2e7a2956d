//! `materialize`: the values that a statement stores or combines get arrays of their own, filled by a nest before.

use super::make::{self, fresh_name, nest, proved};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr};
use lathe_ir::names::Role;
use lathe_ir::stmt::{Effects, Enters};
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Binder, BufId, Buffer, Label, Loop, Reduce, Space, Stmt, StmtKind, Store, Type, VarId, View, build,
};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const RULE: &str = "materialize";

rule! {
    /// `materialize(C)` takes a statement and the loops around it apart: first a nest `C.map` computes the values of
    /// all its instances into a local array `C.f` (or `name:`), one element per iteration of the loops; then the old
    /// nest stores or combines what stands there. The two nests have loops of the same names, `C.map.i` and `C.i`, and
    /// can be ordered and run in different ways. That takes as much memory as there are iterations (*scalar expansion*
    /// and *array expansion* in the literature). A statement of several values gets several arrays, `C.f`, `C.f2`, ….
    ///
    /// Legal if nothing that the values read is written by the statement, and if its loops make a box: no bound depends
    /// on another loop.
    ///
    /// ```lathe
    /// kernel matvec(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy apart for matvec = materialize(y) ; reorder(y.map.j, y.map.i)
    /// ```
    pub static MATERIALIZE = materialize, version 1, (label: one Label, name: optional Word), apply,
        "expansion: computes the values that a statement combines in a nest of their own, before they are combined";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let label = args.path(RULE, "label", 0)?;
    let root = names::find_family(cursor, &label)?;
    let Some(stmt) = cursor.at(&root) else {
        return Err(refuse(RULE, "the place is gone", "", &Places::none()));
    };
    let found = Found::of(RULE, stmt, &label)?;
    found.independent(RULE, cursor, stmt)?;
    let wanted = args.opt_path(RULE, "name", 1)?.unwrap_or_else(|| Role::Values.of(&label));
    let m = Maker { found: &found, label: &label };
    let types: Vec<Type> = found.values.iter().map(|v| v.ty().clone()).collect();
    let buffers = arrays(work, &found.loops, &types, &wanted);
    let first = m.fill(work, &buffers);
    let second = m.redirect(stmt, &buffers);
    let help = "do this first, before loops are split or run by others";
    computed_first(work, &root, Stmt::seq([first, second]), &buffers, (&label, &found.places), help)
}

/// Arrays that hold what a statement combines, around what fills and reads them.
pub(super) fn computed_first(
    work: &mut Work,
    root: &Path,
    new: Stmt,
    buffers: &[Arc<Buffer>],
    (label, places): (&str, &Places),
    help: &str,
) -> Result<(), Refusal> {
    work.replace_storage(root, around(buffers, new, places), Kind::Bijection)?;
    for b in buffers {
        work.made(root, b);
        work.plays(Role::Values, &Label::new(label), &**b);
    }
    work.decide(Claim::InputsKept { label: label.into() }, help)?;
    let arrays = buffers.iter().map(|b| b.name.to_string()).collect();
    work.decide(Claim::ComputedOnce { of: label.into(), arrays }, help)
}

pub(super) fn refuse(rule: &str, message: &str, help: &str, places: &Places) -> Refusal {
    make::refuse(rule, codes::SHAPE, format!("`{rule}`: {message}"), help, places)
}

/// The statement, its values, and the loops around it.
pub(super) struct Found {
    pub loops: Vec<Loop>,
    pub instance: Vec<Expr>,
    pub values: Vec<Expr>,
    /// The first instance stores its value, where there is no identity to start from.
    pub starts: bool,
    pub places: Places,
}

impl Found {
    /// # Errors
    /// Where there is no one statement of the label in loops that make a box; `rule` refuses it.
    pub fn of(rule: &str, root: &Stmt, label: &str) -> Result<Found, Refusal> {
        let mut here: Vec<(Path, Stmt)> = Vec::new();
        visit::walk(root, &mut |s, p| {
            // `C.out2` is the second store of one statement.
            let mine = s.label().is_some_and(|l| l.as_str() == label || Role::Out.is_of(l.as_str(), label));
            if mine {
                here.push((p.to_vec(), s.clone()));
            }
            true
        });
        let Some((path, first)) = here.first().cloned() else {
            return Err(refuse(rule, "the statement is gone", "", root.places()));
        };
        let places = first.places().clone();
        let (values, instance) = match (first.as_store(), first.as_reduce()) {
            (_, Some(r)) if here.len() == 1 => (r.values.clone(), r.instance.clone()),
            (Some(s), _) => {
                let same = |p: &Path| p.split_last().map(|x| x.1) == path.split_last().map(|x| x.1);
                let labels: HashSet<&str> =
                    here.iter().filter_map(|(_, s)| s.label()).map(Label::as_str).collect();
                if here.len() > 1 && (labels.len() < here.len() || !here.iter().all(|(p, _)| same(p))) {
                    return Err(several(rule, label, &places));
                }
                let stored = |(_, s): &(Path, Stmt)| Some(s.as_store()?.value.clone());
                (here.iter().filter_map(stored).collect(), s.instance.clone())
            }
            (_, Some(_)) => return Err(several(rule, label, &places)),
            (None, None) => {
                let text = format!("`{label}` neither stores nor combines values");
                return Err(refuse(rule, &text, "open it first", &places));
            }
        };
        let mut found = Found { loops: Vec::new(), instance, values, starts: false, places };
        found.descend(rule, root, &path)?;
        found.boxed(rule)?;
        Ok(found)
    }

    /// Collects the loops on the way to the statement, and looks at what else stands there.
    fn descend(&mut self, rule: &str, root: &Stmt, path: &[usize]) -> Result<(), Refusal> {
        let mut here = root;
        let mut lets: HashMap<VarId, Expr> = HashMap::new();
        for position in path {
            match here.enters(*position) {
                Enters::Loop(l) => {
                    let bound = |e: &Expr| visit::substitute(e, &lets);
                    self.loops.push(Loop { lo: bound(&l.lo), hi: bound(&l.hi), ..l.clone() });
                }
                Enters::Alloc(_) => {}
                Enters::Nothing if here.as_seq().is_some() => {}
                Enters::Let(binder, value) => {
                    lets.insert(binder.id, visit::substitute(value, &lets));
                }
                // The first instance starts the result, the others are combined into it: all have a value.
                Enters::Condition(_, false) if here.child(0).is_some_and(|then| self.stores(then)) => {
                    self.starts = true;
                }
                Enters::Condition(..) | Enters::Nothing | Enters::While(_) | Enters::Value(_) => {
                    return Err(refuse(
                        rule,
                        "some instances may not run: a condition stands around the statement",
                        "select the operator's identity where the condition does not hold",
                        here.places(),
                    ));
                }
            }
            match here.child(*position) {
                Some(c) => here = c,
                None => return Err(refuse(rule, "the place is gone", "", here.places())),
            }
        }
        let with = |e: &Expr| visit::substitute(e, &lets);
        self.values = self.values.iter().map(with).collect();
        self.instance = self.instance.iter().map(with).collect();
        Ok(())
    }

    /// Whether a statement stores just the values.
    fn stores(&self, s: &Stmt) -> bool {
        let parts = s.as_seq().unwrap_or(std::slice::from_ref(s));
        let stores = |(s, v): (&Stmt, &Expr)| s.as_store().is_some_and(|s| s.value == *v);
        parts.len() == self.values.len() && parts.iter().zip(&self.values).all(stores)
    }

    /// Bounds depend on nothing inside, steps are one, and iterations run in order.
    fn boxed(&self, rule: &str) -> Result<(), Refusal> {
        let own: HashSet<VarId> = self.loops.iter().map(|l| l.binder.id).collect();
        for l in &self.loops {
            let inner = [&l.lo, &l.hi].iter().any(|e| visit::vars_of(e).iter().any(|v| own.contains(v)));
            let data = [&l.lo, &l.hi].iter().any(|e| !visit::loads_of(e).is_empty());
            if inner || data || l.step != 1 || !l.exec.is_ordered() {
                return Err(refuse(
                    rule,
                    &format!("the loop `{}` is not one side of a box that runs in order", l.binder.name),
                    "do this first, before loops are split or run by others",
                    &self.places,
                ));
            }
        }
        Ok(())
    }

    /// Nothing that the values read is written by the statement's nest, under its own name or another one.
    pub fn independent(&self, rule: &str, cursor: &Cursor, root: &Stmt) -> Result<(), Refusal> {
        let mut written: HashSet<Option<BufId>> = HashSet::new();
        let mut local: HashSet<Option<BufId>> = HashSet::new();
        let mut strange = false;
        visit::walk(root, &mut |s, _| {
            written.extend(s.written().map(View::buffer));
            local.extend(s.allocated().map(|b| Some(b.id)));
            let quiet = Effects::ALLOCATES.and(Effects::FAILS).and(Effects::DIVERGES);
            strange |= !s.own_effects().without(quiet).is_none();
            true
        });
        let reads = self.values.iter().flat_map(visit::loads_of);
        let clash = reads.into_iter().find(|a| {
            let b = a.view.buffer();
            b.is_none() || written.contains(&b) || local.contains(&b)
        });
        if strange || clash.is_some() || written.contains(&None) {
            return Err(refuse(
                rule,
                "the statement may write what its values are computed from",
                "only values that nothing changes on the way can be computed before",
                &clash.map_or_else(|| self.places.clone(), |a| a.places),
            ));
        }
        if written.iter().flatten().any(|b| make::may_alias(cursor.func, *b)) {
            return Err(refuse(
                rule,
                "the statement writes an array that may be another one, too",
                "only values that nothing changes on the way can be computed before",
                &self.places,
            ));
        }
        Ok(())
    }
}

/// Within the place of a label's family: beside the statements that compute what its values are read from.
pub(super) fn within(cursor: &Cursor, root: Path, label: &str) -> Path {
    let Some(stmt) = cursor.at(&root) else { return root };
    let (mut path, mut read) = (Path::new(), HashSet::new());
    visit::walk(stmt, &mut |s, p| {
        if s.label().is_some_and(|l| l.as_str() == label) {
            path = p.to_vec();
            read = s.exprs().into_iter().flat_map(visit::loads_of).map(|a| a.view.buffer()).collect();
        }
        path.is_empty()
    });
    let writes = |s: &Stmt| {
        let mut found = false;
        visit::walk(s, &mut |s, _| {
            found |= s.written().any(|v| read.contains(&v.buffer()));
            !found
        });
        found
    };
    let (mut inside, mut here) = (0, stmt);
    for (n, position) in path.iter().enumerate() {
        let Some(child) = here.child(*position) else { break };
        match (here.as_seq(), here.as_alloc()) {
            (Some(all), _) if all.iter().enumerate().any(|(k, s)| k != *position && writes(s)) => {
                inside = n + 1;
            }
            (None, None) => break,
            _ => {}
        }
        here = child;
    }
    root.into_iter().chain(path.into_iter().take(inside)).collect()
}

fn several(rule: &str, label: &str, places: &Places) -> Refusal {
    refuse(
        rule,
        &format!("`{label}` stands in several places"),
        "do this first, before code is doubled",
        places,
    )
}

/// Local arrays with an element per iteration of the loops: `wanted`, `wanted2`, ….
pub(super) fn arrays(work: &mut Work, loops: &[Loop], types: &[Type], wanted: &str) -> Vec<Arc<Buffer>> {
    let extent = |l: &Loop| build::max(build::index(0), crate::nest::trip_count(l));
    let mut out: Vec<Arc<Buffer>> = Vec::new();
    for (n, elem) in types.iter().enumerate() {
        let name = if n == 0 { wanted.to_string() } else { format!("{wanted}{}", n + 1) };
        out.push(Buffer::local(
            work.fresh_buf(),
            fresh_name(work.func(), &name),
            elem.clone(),
            loops.iter().map(extent).collect(),
            Space::Host,
        ));
    }
    out
}

/// The element of such an array that belongs to this iteration.
pub(super) fn element(b: &Buffer, loops: &[Loop]) -> Access {
    let at = |l: &Loop| build::sub(build::var(&l.binder), l.lo.clone());
    proved(b.id, &b.elem, loops.iter().map(at).collect())
}

/// A statement inside of the allocations.
pub(super) fn around(buffers: &[Arc<Buffer>], body: Stmt, places: &Places) -> Stmt {
    buffers.iter().rev().fold(body, |body, buffer| {
        Stmt::new(StmtKind::Alloc { buffer: buffer.clone(), body }, places.clone())
    })
}

struct Maker<'a> {
    found: &'a Found,
    label: &'a str,
}

impl Maker<'_> {
    /// The nest that computes the values, with binders of its own.
    fn fill(&self, work: &mut Work, buffers: &[Arc<Buffer>]) -> Stmt {
        let f = self.found;
        let stores = buffers.iter().zip(&f.values).enumerate().map(|(n, (b, v))| {
            let map = Role::Map.of(self.label);
            let label = if n == 0 { map } else { Role::Out.nth(map, n) };
            let store =
                Store::new(Label::new(label), f.instance.clone(), element(b, &self.found.loops), v.clone());
            Stmt::new(StmtKind::Store(store), f.places.clone())
        });
        let body = Stmt::seq(stores.collect::<Vec<_>>());
        let loops: Vec<(Binder, Expr, Expr)> =
            f.loops.iter().map(|l| (l.binder.clone(), l.lo.clone(), l.hi.clone())).collect();
        work.copy(&nest(loops, body, &f.places))
    }

    /// The old nest, with the arrays in the place of the values.
    fn redirect(&self, root: &Stmt, buffers: &[Arc<Buffer>]) -> Stmt {
        let loads: Vec<Expr> = buffers.iter().map(|b| build::load(element(b, &self.found.loops))).collect();
        let of = |e: &Expr| self.found.values.iter().position(|v| v == e).map(|n| loads[n].clone());
        let mine = |l: &Label| {
            let (l, of) = (l.as_str(), self.label);
            l == of || Role::Out.is_of(l, of) || (self.found.starts && Role::Init.is_of(l, of))
        };
        visit::map_stmts(root, &mut |s| match (s.as_store(), s.as_reduce()) {
            (Some(st), _) if mine(&st.label) => match of(&st.value) {
                Some(value) => s.with_kind(StmtKind::Store(Store { value, ..st.clone() })),
                None => s,
            },
            (_, Some(r)) if r.label.as_str() == self.label => {
                s.with_kind(StmtKind::Reduce(Reduce { values: loads.clone(), ..r.clone() }))
            }
            _ => s,
        })
    }
}
