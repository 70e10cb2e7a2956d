//! `auto` for funs: the translated nests are raised to index notation where possible, and decisions
//! are made for that.

use super::setting::{Setting, Wanted};
use super::versions::{exactly_these, together};
use crate::applied::{How, Version, on_loops};
use crate::program::Program;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, visit};
use lathe_lang::Fun;
use lathe_pattern::{FoldKind, Prim, TermKind};
use lathe_strategy::{ArgValue, Argument, Context, Definitions, Strategy};
use std::collections::BTreeMap;
use std::time::Instant;

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
    let start = Instant::now();
    if folds_in_order(fun) {
        return Err("the program fixes the order of its reductions: it runs as written".to_string());
    }
    // Only steps on loops are said here: what the file and the library call by the same names is about terms.
    let none = Definitions::default();
    let context = &Context::new(&none, context.target, context.facts);
    let steps = |all: Vec<Strategy>| {
        on_loops(w.set.module, &begin.func, context, &Strategy::Seq(all)).map_err(|r| r.diagnostic.message)
    };
    let first = closing(&begin.func);
    let (closed, ..) = steps(first.clone())?;
    if super::labels(&closed).is_empty() {
        return Err(
            "no loop of its translation is a statement in index notation: it runs as written".to_string()
        );
    }
    let sizes =
        if exact { BTreeMap::new() } else { lathe_mdh::sizes::examples(w.set.module, &closed, known) };
    let set = Setting { func: &closed, ..w.set };
    let Ok((parts, chosen, notes)) = together(&set, &sizes) else {
        return Err("decisions are taken for the CPU model only: it runs as written".to_string());
    };
    let strategy = lathe_mdh::auto::in_sequence(parts.iter().map(|p| &p.1));
    let (func, more, forms) =
        steps(first.into_iter().chain([call("open", None), strategy.clone()]).collect())?;
    let taken = super::Taken {
        computes: chosen,
        strategy: strategy.to_string(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let mut made = begin.clone();
    made.func = func;
    made.steps.extend(more);
    made.forms.pop();
    made.forms.extend(forms);
    Ok(Version { taken, notes, ..made })
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

/// `inline` for every intermediate array that can be, `close` for every nest that can be.
fn closing(func: &Function) -> Vec<Strategy> {
    let mut names: Vec<String> = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        if let Some(buffer) = s.allocated()
            && !buffer.extents.is_empty()
        {
            names.push(buffer.name.to_string());
        }
        true
    });
    let attempt = |s: Strategy| Strategy::Choice(vec![s, Strategy::Id]);
    names.iter().map(|n| attempt(call("inline", Some(n)))).chain([call("close", None)]).collect()
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
