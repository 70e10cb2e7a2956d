//! `subtotals`: what each iteration adds to a running value is added up before, in a nest of its own.

use super::make::{self, fresh_name, nest, proved};
use super::prescan::{Scan, redirect, running_value};
use super::scope::Around;
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::nest::rename_loops;
use crate::rule::{Cursor, Edit, Rule};
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, ExprKind, View};
use lathe_ir::visit;
use lathe_ir::{Buffer, Label, Layout, Loop, Reduce, ReduceOp, Scalar, Space, Stmt, StmtKind, Store, build};
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Discharge, Evidence, Refusal, RuleSignature};
use std::sync::Arc;

const RULE: &str = "subtotals";

pub static SUBTOTALS: Rule = Rule {
    signature: RuleSignature {
        name: RULE,
        version: 1,
        formals: &[
            Formal { name: "array", sort: Sort::Buffer, optional: false, many: false },
            Formal { name: "loop", sort: Sort::Loop, optional: false, many: false },
        ],
        summary: "adds up what each iteration of a scan contributes before the scan runs over the sums",
        page: "\
`subtotals(s.acc, i)` takes a scan of sums apart: a first nest, whose loops are called `i.part` and so on, reduces what \
every iteration of `i` adds to the running value into an element of its own (`s.part`, in the array `s.sums`); then the \
scan runs over these elements. The order of the first nest is free: what is reduced may be outside of what is scanned. \
That takes as much memory as the loop has iterations.

Legal for a running value (`s.acc`, an array without dimensions) that the loop changes only by reductions of one target \
whose operator is associative and has an identity, if nothing reads it before the iteration's last one, and what they \
add does not depend on what the loop writes. The result is associated differently, which is recorded.

```lathe
kernel rows(A: i32[N, M]) -> (s: i32[N]) {
    s[i] = scan(sum)[i](sum[j](A[i, j]))
}
strategy first for rows = subtotals(s.acc, i) ; reorder(s.part.j.part, s.part.i.part)
```
",
    },
    apply,
};

fn apply(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    args.check(&SUBTOTALS.signature)?;
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "loop", 1)?)?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let places = cursor.at(&path).map_or(Places::none(), |s| s.places().clone());
    let no = |text: &str, help: &str| make::refuse(RULE, codes::SHAPE, text.to_string(), help, &places);
    running_value(RULE, cursor, &buffer, l, &path, &places)?;
    let around = Around::of(cursor.func, &path);
    let scan = Scan::read(RULE, cursor, l, &buffer, &places)?;
    let identity = scan.identity(RULE, cursor, &buffer, &places)?;
    let mut func = cursor.func.clone();

    let count = build::max(build::index(0), build::sub(l.hi.clone(), l.lo.clone()));
    let sums = Arc::new(Buffer {
        id: func.fresh_buf(),
        name: fresh_name(&func, &format!("{}.sums", scan.label)).into(),
        elem: buffer.elem.clone(),
        extents: vec![count],
        space: Space::Host,
        layout: Layout::row_major(),
    });
    let total = fresh_name(&func, &format!("{}.part", scan.label));
    let row = func.fresh_var(format!("{}.part", l.binder.name), Scalar::Index);
    let at = |v| proved(sums.id, &sums.elem, vec![build::sub(v, l.lo.clone())]);

    // The sums.
    let body = visit::refresh(&scan.kept, &mut func.next_id);
    let body = rename_loops(&body, &|n| format!("{n}.part"));
    let body = crate::nest::substitute(&body, l.binder.id, build::var(&row));
    let body = redirect(&body, &buffer, &at(build::var(&row)));
    let body = scan.labelled(cursor.module, &body, &total);
    let mut instance = around.instance();
    instance.push(build::var(&row));
    let start = Stmt::new(
        StmtKind::Store(Store {
            label: Label::new(format!("{total}.init")),
            instance,
            target: at(build::var(&row)),
            value: identity,
            nontemporal: false,
        }),
        places.clone(),
    );
    let first = nest(vec![(row, l.lo.clone(), l.hi.clone())], Stmt::seq([start, body]), &places);

    // The scan over them.
    let mut instance = around.instance();
    instance.push(build::var(&l.binder));
    let step = Stmt::new(
        StmtKind::Reduce(Reduce {
            label: scan.label.clone(),
            instance,
            op: scan.op.clone(),
            targets: vec![Access { places: places.clone(), ..proved(buffer.id, &buffer.elem, Vec::new()) }],
            values: vec![build::load(at(build::var(&l.binder)))],
            licence: false,
            contract: false,
        }),
        places.clone(),
    );
    let Some(body) = replaced(&l.body, &buffer, &step) else {
        return Err(no(
            "the running value is read or other things happen between what changes it",
            "choose the loop whose iterations end with a value that is used",
        ));
    };
    let second = Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), places.clone());
    let body = Stmt::seq([first, second]);
    let new = Stmt::new(StmtKind::Alloc { buffer: sums.clone(), body }, places.clone());
    make::replace(RULE, &mut func, &path, new)?;

    let by = if matches!(scan.op, ReduceOp::User(_)) { Discharge::ByDeclaration } else { Discharge::ByRule };
    let mut ev = Evidence::new(RULE, 1)
        .oblige(format!("`{}` is associative and has an identity", scan.op), by)
        .oblige(format!("nothing that the loop writes goes into `{}`", buffer.name), Discharge::ByRule)
        .oblige(format!("only `{}` changes `{}` in the loop", scan.label, buffer.name), Discharge::ByRule);
    ev.reassociates.push(scan.label.to_string());
    ev.buffers.push(format!("{} in {}", sums.name, sums.space.name()));
    let relation = |label: &str, kind| make::relation(cursor.module, cursor.func, &func, label, kind);
    ev.relations.push(relation(scan.label.as_str(), "split"));
    ev.relations.extend([total.clone(), format!("{total}.init")].iter().map(|l| relation(l, "new")));
    Ok(Edit { func, evidence: ev })
}

/// The statement with `step` in the place of the one part that changes the running value; none if that part does
/// something else, too, or stands under a condition.
fn replaced(s: &Stmt, acc: &Buffer, step: &Stmt) -> Option<Stmt> {
    match s.kind() {
        StmtKind::Seq(all) => {
            let mut parts = all.clone();
            let mut changing = all.iter().enumerate().filter(|(_, s)| changes(s, acc));
            let (n, one) = changing.next().filter(|_| changing.next().is_none())?;
            parts[n] = replaced(one, acc, step)?;
            Some(Stmt::seq(parts))
        }
        StmtKind::Let { binder, value, body } => {
            let body = replaced(body, acc, step)?;
            Some(s.with_kind(StmtKind::Let { binder: binder.clone(), value: value.clone(), body }))
        }
        StmtKind::Alloc { buffer, body } => {
            let body = replaced(body, acc, step)?;
            Some(s.with_kind(StmtKind::Alloc { buffer: buffer.clone(), body }))
        }
        _ => only_changes(s, acc).then(|| step.clone()),
    }
}

fn changes(s: &Stmt, acc: &Buffer) -> bool {
    let mut hit = false;
    visit::walk(s, &mut |s, _| {
        if let StmtKind::Reduce(r) = s.kind() {
            hit |= r.targets.iter().any(|t| t.view == View::Buffer(acc.id));
        }
        !hit
    });
    hit
}

/// Loops and conditions around reductions into the running value, and nothing else.
fn only_changes(s: &Stmt, acc: &Buffer) -> bool {
    let mut only = true;
    visit::walk(s, &mut |s, _| {
        only &= match s.kind() {
            StmtKind::Reduce(r) => {
                let read = |e: &lathe_ir::Expr| {
                    let mut hit = false;
                    visit::walk_expr(e, &mut |x| {
                        hit |= matches!(x.kind(), ExprKind::Load(a) if a.view == View::Buffer(acc.id));
                    });
                    hit
                };
                r.targets.iter().all(|t| t.view == View::Buffer(acc.id)) && !r.values.iter().any(read)
            }
            StmtKind::Seq(_) | StmtKind::Let { .. } | StmtKind::Loop(_) | StmtKind::If { .. } => true,
            _ => false,
        };
        only
    });
    only
}
