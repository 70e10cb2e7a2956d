//! `separate`: full blocks get code of their own, without the tests that partial blocks need.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names::find_all_loops;
use crate::nest::{around, mentions, rename_loops};
use crate::rule::{Cursor, Edit, Rule};
use crate::split::{loop_at_work, require_serial};
use crate::work::Work;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{add, floor_div, index, max, min};
use lathe_ir::linear::Linear;
use lathe_ir::visit;
use lathe_ir::{BinOp, Executor, Expr, ExprKind, Loop, Stmt, StmtKind, VarId};
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Refusal, RuleSignature};
use std::collections::HashSet;

pub static RULE: Rule = Rule {
    signature: RuleSignature {
        name: "separate",
        version: 1,
        formals: &[Formal { name: "loop", sort: Sort::Loop, optional: false, many: false }],
        summary: "gives full blocks code of their own, apart from the partial block at the end",
        page: "\
After `split(i, 8)`, the loop `i.i` runs to `min(8, n - 8*i.o)`. `separate(i.o)` cuts the outer loop where that
becomes less than 8: the full blocks run to constantly 8, which can be unrolled and vectorized without masks; the
last, partial block is done by copies of the loops whose names end in `.rest`. `separate(i)` means `separate(i.o)`.

**Legal** always: the order of the iterations stays.

```lathe
kernel scale(A: f32[N]) -> (B: f32[N]) {
    B[i] = 2.0 * A[i]
}
strategy s for scale = split(i, 8) ; separate(i.o) ; unroll(i.i)
```",
    },
    apply,
};

fn apply(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    let mut work = Work::new(cursor, &RULE.signature);
    let mut name = args.path(work.rule, "loop", 0)?;
    let outer = format!("{name}.o");
    if crate::names::find_loops(cursor, &name).is_empty()
        && !crate::names::find_loops(cursor, &outer).is_empty()
    {
        name = outer;
    }
    for path in find_all_loops(cursor, work.rule, &name)?.into_iter().rev() {
        let (l, s) = loop_at_work(&work, &path)?;
        if !matches!(l.exec, Executor::Serial | Executor::Cpu) {
            require_serial(&work, (l, s), "separate")?;
            continue;
        }
        let Some(cut) = full_blocks(&l) else {
            if work.ranges(&path).le(&l.hi, &l.lo) || !has_min(&l) {
                work.oblige("every block is full", lathe_strategy::Discharge::ByRule);
                continue;
            }
            let d = Diagnostic::error(
                codes::SHAPE,
                format!("`separate`: blocks of `{name}` have no fixed full size"),
            )
            .at_places(s.places(), "this loop")
            .help("name the outer loop of a `split`, for example `i.o`");
            return Err(d.into_refusal(work.rule));
        };
        let new = cut_loop(&mut work, &l, s.places(), cut, ".rest", false);
        work.replace_by_rule(&path, new, "bijection", "the blocks keep their order")?;
    }
    Ok(work.finish())
}

/// A loop cut at a value: `lo..cut` and `cut..hi`, where the cut is first brought between the bounds. One
/// of the two (`first`: the one before the cut) is a copy whose loops' names end in `suffix`.
pub fn cut_loop(work: &mut Work, l: &Loop, places: &Places, cut: Expr, suffix: &str, first: bool) -> Stmt {
    let mut cut = max(l.lo.clone(), min(cut, l.hi.clone()));
    if l.step != 1 {
        // The second part starts at an iteration of the loop.
        let count = lathe_ir::build::ceil_div(lathe_ir::build::sub(cut, l.lo.clone()), l.step);
        cut = crate::split::iteration(l, count);
    }
    let before = around(&Loop { hi: cut.clone(), ..l.clone() }, places, l.body.clone());
    let after = around(&Loop { lo: cut, ..l.clone() }, places, l.body.clone());
    let rename = |n: &str| format!("{n}{suffix}");
    if first {
        let copy = rename_loops(&work.copy(&before), &rename);
        Stmt::seq([copy, after])
    } else {
        let copy = rename_loops(&work.copy(&after), &rename);
        Stmt::seq([before, copy])
    }
}

fn has_min(l: &Loop) -> bool {
    let mut found = false;
    visit::walk(&l.body, &mut |s, _| {
        if let StmtKind::Loop(inner) = s.kind() {
            visit::walk_expr(&inner.hi, &mut |e| {
                found |= matches!(e.kind(), ExprKind::Binary(BinOp::Min, ..)) && mentions(e, l.binder.id);
            });
        }
        true
    });
    found
}

/// Where the loop must be cut so that every `min(T, e - k·i)` in the bounds inside is constantly `T` before.
fn full_blocks(l: &Loop) -> Option<Expr> {
    let mut inside: HashSet<VarId> = HashSet::new();
    let mut cut: Option<Expr> = None;
    visit::walk(&l.body, &mut |s, _| {
        let bounds: Vec<&Expr> = match s.kind() {
            StmtKind::Loop(inner) => {
                inside.insert(inner.binder.id);
                vec![&inner.lo, &inner.hi]
            }
            StmtKind::Let { binder, value, .. } => {
                inside.insert(binder.id);
                vec![value]
            }
            _ => vec![],
        };
        for e in bounds {
            visit::walk_expr(e, &mut |e| {
                let ExprKind::Binary(BinOp::Min, a, b) = e.kind() else { return };
                for (full, partial) in [(a, b), (b, a)] {
                    if let Some(c) = block_cut(l.binder.id, full, partial, &inside) {
                        cut = Some(match cut.take() {
                            Some(old) if old != c => min(old, c),
                            _ => c,
                        });
                        return;
                    }
                }
            });
        }
        true
    });
    cut
}

/// `partial = r - k·i ≥ full` holds for `i < (r - full + k) // k`.
fn block_cut(i: VarId, full: &Expr, partial: &Expr, inside: &HashSet<VarId>) -> Option<Expr> {
    let unknown = |e: &Expr| visit::vars_of(e).iter().any(|v| *v == i || inside.contains(v));
    if unknown(full) {
        return None;
    }
    let mut form = Linear::of(partial)?;
    let at = form.terms.iter().position(|t| t.0.as_var() == Some(i))?;
    let k = form.terms.remove(at).1.checked_neg().filter(|k| *k > 0)?;
    if form.terms.iter().any(|t| unknown(&t.0)) {
        return None;
    }
    let reach = form.plus(&Linear::of(full)?, -1)?;
    Some(floor_div(add(reach.to_expr(), index(k)), index(k)))
}
