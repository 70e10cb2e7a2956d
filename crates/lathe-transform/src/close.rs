//! `close`: loops become index notation again, the inverse of `open`.

use crate::args::Args;
use crate::codes;
use crate::laws;
use crate::names::find_some_label;
use crate::nest::mentions;
use crate::rule::Rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, BufId, Combine, Compute, Dim, Executor, Expr, ExprKind, Loop, Module, Reduce, Stmt, StmtKind,
    Store, VarId, View,
};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Claim, Construction, Obligation, Refusal, RuleSignature};
use std::collections::{HashMap, HashSet};

pub static RULE: Rule = Rule {
    signature: RuleSignature {
        name: "close",
        version: 1,
        formals: &[Formal { name: "label", sort: Sort::Label, optional: true, many: false }],
        summary: "raising: turns loop nests into index notation",
        page: "\
*Raising*, the inverse of `open` (lowering): a nest that does nothing but store one value per iteration, or combine values into an \
accumulator that starts from the operator's identity and is then stored, becomes the statement in index notation that \
it is. `close(C)` closes the nest that stores `C`, `close` every nest that can be closed; decisions (`mdh`) are taken \
for statements in index notation.

**Legal** if the loops make a box, run in order, and read nothing that they write. Results of a reduction may be \
combined in another order then: asking for the step declares that acceptable, which is recorded.

```lathe
kernel scale(A: f32[N]) -> (B: f32[N]) {
    for i in 0..N { B[i] = 2.0 * A[i] }
}
strategy s for scale = close(B) ; open ; vectorize(i, vector(f32))
```",
    },
    apply,
};

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
        let text = format!("`close`: the loops around `{l}` are no statement in index notation");
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
    Ok(())
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
        } else {
            let st = here.as_store()?;
            return finish(st, dims, vec![st.target.clone()], vec![st.value.clone()], &lets);
        }
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
    let mut here = middle;
    let mut reduced: Vec<(&Loop, HashMap<VarId, Expr>)> = Vec::new();
    let reduce: &Reduce = loop {
        if let Some(l) = here.as_loop() {
            reduced.push((l, lets.clone()));
            here = &l.body;
        } else if let Some((binder, value, body)) = here.as_let() {
            lets.insert(binder.id, visit::substitute(value, lets));
            here = body;
        } else {
            break here.as_reduce()?;
        }
    };
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
    finish(out, dims, vec![out.target.clone()], reduce.values.clone(), lets)
}

fn finish(
    st: &Store,
    dims: Vec<Dim>,
    targets: Vec<Access>,
    values: Vec<Expr>,
    lets: &HashMap<VarId, Expr>,
) -> Option<Closed> {
    let own: Vec<VarId> = dims.iter().map(|d| d.binder.id).collect();
    let boxed = dims
        .iter()
        .flat_map(|d| [&d.lo, &d.hi])
        .all(|e| own.iter().all(|v| !mentions(e, *v)) && visit::loads_of(e).is_empty());
    let with = |e: &Expr| visit::substitute(e, lets);
    let values: Vec<Expr> = values.iter().map(with).collect();
    let targets: Vec<Access> = targets
        .iter()
        .map(|t| Access { indices: t.indices.iter().map(with).collect(), ..t.clone() })
        .collect();
    let written: HashSet<Option<BufId>> = targets.iter().map(|t| t.view.buffer()).collect();
    let read = values.iter().flat_map(visit::loads_of);
    let clash = read.into_iter().any(|a| a.view.buffer().is_none() || written.contains(&a.view.buffer()));
    let loads = targets.iter().flat_map(|t| &t.indices).any(|e| !visit::loads_of(e).is_empty());
    // Every iteration of the free loops writes an element of its own: the subscripts tell them apart.
    let told = dims
        .iter()
        .filter(|d| d.combine == Combine::Concat)
        .all(|d| targets.iter().all(|t| t.indices.iter().any(|e| e.as_var() == Some(d.binder.id))));
    let stays = dims
        .iter()
        .filter(|d| d.combine != Combine::Concat)
        .all(|d| targets.iter().flat_map(|t| &t.indices).all(|e| !mentions(e, d.binder.id)));
    if dims.is_empty() || !boxed || clash || loads || written.contains(&None) || !told || !stays {
        return None;
    }
    let compute = Compute { label: st.label.clone(), dims, targets, values, guard: None, update: None };
    Some(Closed { compute })
}
