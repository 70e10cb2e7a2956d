//! `auto` for funs: the translated nests are raised to index notation where possible, and what `auto` does for kernels is
//! done to that.

use super::DEFAULT_MODEL;
use super::raise::named;
use super::setting::{Setting, Wanted};
use super::versions::{best, exactly_these, run};
use crate::applied::{How, Version};
use crate::program::Program;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{BinOp, BufId, Expr, ExprKind, Function, visit};
use lathe_lang::Fun;
use lathe_pattern::{FoldKind, Prim, TermKind};
use lathe_strategy::{ArgValue, Argument, Context, Definitions, Strategy};
use std::collections::BTreeMap;

/// The versions of a fun: one for sizes that are known, with these baked in, and the program as it stands for all
/// others; without sizes one with decisions for any.
///
/// # Errors
/// What the translation refuses.
pub(crate) fn versions(
    w: &Wanted,
    program: &Program,
    fun: &Fun,
    how: &How,
    context: &Context,
    branch: &lathe_strategy::Version,
) -> Result<Vec<Version>, Diagnostic> {
    let plain = |how: &How, note: &str| {
        let mut made = crate::fun::version(program, fun, how, context, branch)?;
        made.condition.clone_from(&branch.cond);
        if !note.is_empty() {
            made.notes.push(note.to_string());
        }
        Ok::<_, Diagnostic>(made)
    };
    let open: Vec<&str> = w.set.func.sizes.iter().map(|b| &*b.name).collect();
    let known: BTreeMap<String, i64> =
        open.iter().filter_map(|n| w.sizes.get(*n).map(|v| (n.to_string(), *v))).collect();
    let all = known.len() == open.len();
    let baked = if all {
        let sizes = how.specialize.iter().chain(&known).map(|(n, v)| (n.clone(), *v)).collect();
        How { specialize: sizes, ..how.clone() }
    } else {
        how.clone()
    };
    let begin = match crate::fun::version(program, fun, &baked, context, branch) {
        // A loop that its strategy names may have one iteration for these sizes, and be gone.
        Err(d) if all => {
            let note = format!("for these sizes its strategy is refused ({}): it runs as written", d.message);
            return Ok(vec![plain(how, &note)?]);
        }
        made => made?,
    };
    let examples = match all {
        true => BTreeMap::new(),
        false => known.clone(),
    };
    match decided(w, context, fun, &begin, &examples, all) {
        Ok(mut made) if all && !open.is_empty() => {
            made.condition = Some(exactly_these(&known));
            made.baked = known;
            Ok(vec![made, plain(how, "")?])
        }
        Ok(made) => Ok(vec![Version { condition: branch.cond.clone(), ..made }]),
        Err(why) => Ok(vec![plain(how, &why)?]),
    }
}

/// Steps on what the translation gave; or why there are none.
fn decided(
    w: &Wanted,
    context: &Context,
    fun: &Fun,
    begin: &Version,
    known: &BTreeMap<String, i64>,
    exact: bool,
) -> Result<Version, String> {
    if folds_in_order(fun) {
        return Err("the program fixes the order of its reductions: it runs as written".to_string());
    }
    if w.set.model.is_some_and(|m| m != DEFAULT_MODEL) {
        return Err("decisions are taken for the CPU model only: it runs as written".to_string());
    }
    // Only steps on loops are said here: what the file and the library call by the same names is about terms.
    let none = Definitions::default();
    let context = &Context::new(&none, context.target, context.facts);
    let set = Setting { func: &begin.func, ..w.set };
    let closed =
        run(&set, context, &Strategy::Seq(closing(&begin.func))).map_err(|r| r.diagnostic.message)?;
    let sizes = match exact {
        true => BTreeMap::new(),
        false => lathe_mdh::sizes::examples(w.set.module, &closed.func, known),
    };
    let set = Setting { func: &closed.func, ..w.set };
    let found = best(&set, context, &sizes).map_err(|d| d.message)?;
    if found.taken.is_nothing() {
        return Err(found.notes.into_iter().next().unwrap_or_default());
    }
    let mut made = begin.clone();
    made.func = found.func;
    made.steps.extend(closed.steps.into_iter().chain(found.steps));
    made.forms.pop();
    made.forms.extend(closed.forms.into_iter().chain(found.forms));
    Ok(Version { taken: found.taken, notes: found.notes, ..made })
}

/// A function in index notation as far as it goes: its sums are taken in the order in which they are written, as long
/// as nobody opens it in another way.
pub(crate) fn closed(module: &lathe_ir::Module, func: &Function) -> Function {
    let cursor = lathe_transform::Cursor::new(module, func);
    match lathe_transform::apply(&cursor, "close", &lathe_transform::Args::default()) {
        Ok(edit) => edit.func,
        Err(_) => func.clone(),
    }
}

/// `to_reduction` for every reduction, which may be combined in any order; `inline` for names of values around loops and for
/// every intermediate array that can be, and is not worth keeping; `close` for every nest that can be.
fn closing(func: &Function) -> Vec<Strategy> {
    let (mut sums, mut names): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    visit::walk(&func.body, &mut |s, _| {
        sums.extend(s.as_reduce().filter(|r| !r.licence).map(|r| r.label.to_string()));
        if let Some(buffer) = s.allocated()
            && !buffer.extents.is_empty()
            && !is_kept(func, buffer.id)
        {
            names.push(buffer.name.to_string());
        }
        true
    });
    let attempt = |s: Strategy| Strategy::Choice(vec![s, Strategy::Id]);
    sums.sort();
    sums.dedup();
    let sums = sums.iter().map(|l| attempt(call("to_reduction", Some(l))));
    let values = named(&func.body).into_iter();
    let inline = values.chain(names).map(|n| attempt(call("inline", Some(&n))));
    sums.chain(inline).chain([call("close", None)]).collect()
}

/// Whether values of an array take math functions or divisions, and are read more often than they are computed: by several
/// statements, or inside of more loops.
fn is_kept(func: &Function, buffer: BufId) -> bool {
    fn takes_time(e: &Expr) -> bool {
        let here = matches!(e.kind(), ExprKind::Math(..) | ExprKind::Binary(BinOp::Div, ..));
        e.ty().is_float() && here || e.children().into_iter().any(takes_time)
    }
    let (mut heavy, mut computed, mut reads) = (false, 0, Vec::new());
    visit::walk(&func.body, &mut |s, p| {
        let outer = |n: usize| visit::at(&func.body, &p[..n]).is_some_and(|s| s.as_loop().is_some());
        let depth = (0..p.len()).filter(|n| outer(*n)).count();
        if let Some(st) = s.as_store().filter(|st| st.target.view.buffer() == Some(buffer)) {
            heavy |= takes_time(&st.value);
            computed = computed.max(depth);
        }
        let mut loads = s.exprs().into_iter().flat_map(visit::loads_of);
        reads.extend(loads.any(|a| a.view.buffer() == Some(buffer)).then_some(depth));
        true
    });
    heavy && (reads.len() > 1 || reads.iter().any(|d| *d > computed))
}

fn call(rule: &str, argument: Option<&str>) -> Strategy {
    let args = argument.map(|n| Argument {
        name: None,
        value: ArgValue::Expr(lathe_space::Expr::Name(n.to_string())),
        span: None,
    });
    Strategy::Call { name: rule.to_string(), args: args.into_iter().collect(), span: None }
}

/// Whether the program itself fixes an order of combination (`reduceSeq` and the like).
fn folds_in_order(fun: &Fun) -> bool {
    fun.program.term.any(&mut |t| match t.kind() {
        TermKind::Prim(p) => {
            !matches!(
                p,
                Prim::Reduce(FoldKind::High, _)
                    | Prim::Scan(FoldKind::High)
                    | Prim::Iterate(_, FoldKind::High)
            ) && matches!(p, Prim::Reduce(..) | Prim::Scan(..) | Prim::Iterate(..))
        }
        _ => false,
    })
}
