//! `fission`: one loop becomes two, each with a part of the body.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names::{find_one_loop, find_some_label, has_label, list, loop_names};
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Stmt;
use lathe_ir::visit::{self, Path};
use lathe_strategy::Refusal;

rule! {
    /// `fission(C.init)` cuts the loops around the statement `C.init` right after it: the statements on either side get
    /// separate loops with the same names. All enclosing loops are cut up to the next one that contains other
    /// statements, or up to the one that `at: i` names. `fission(i, after: C.init)` cuts the loop `i` (and loops inside
    /// it around the statement); `fission(i, 1)` cuts the body of `i` after its first statement.
    ///
    /// **Legal** if every dependence keeps its order: all iterations of the first part now come before all of the
    /// second.
    ///
    /// ```lathe
    /// kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    ///     C[i, j] = sum[k](A[i, k] * B[k, j])
    /// }
    /// strategy s for gemm = fission(C.init)
    /// ```
    pub static RULE = fission, version 1, (place: one Label, after: optional Label, at: optional Loop), apply,
        "loop distribution: splits a loop's body into two loops, after a statement";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let place = args.path(work.rule(), "place", 0)?;
    let at = args.opt_path(work.rule(), "at", 2)?;
    let (top, seq, cut) = match args.get("after", 1) {
        None => after_label(cursor, work, &place, at.as_deref())?,
        Some((crate::args::Arg::Int(n), _)) => {
            let top = find_one_loop(cursor, work.rule(), &place)?;
            let seq = inward(work, &top)?;
            let len = work.at(&seq)?.children().len();
            let n = *n;
            if n < 1 || n as usize >= len {
                let text = format!(
                    "`fission`: the body of `{place}` has {len} statements; cut after 1 to {}",
                    len - 1
                );
                return Err(work.refuse(codes::ARGUMENT, text));
            }
            (top, seq, n as usize)
        }
        Some((arg, span)) => {
            let label = crate::args::as_path(work.rule(), "after", arg, span)?;
            let top = find_one_loop(cursor, work.rule(), &place)?;
            let found: Vec<Path> = find_some_label(cursor, work.rule(), &label)?
                .into_iter()
                .filter(|p| p.starts_with(&top))
                .collect();
            let Some(p) = found.last() else {
                let text = format!("`fission`: `{label}` is not inside `{place}`");
                return Err(work.refuse(codes::SHAPE, text));
            };
            let (seq, cut) = cut_after(work, p, top.len())?;
            (top, seq, cut)
        }
    };
    fission(work, &top, &seq, cut)?;
    Ok(())
}

/// Where `fission(C.init)` cuts: outermost loop, sequence, number of statements before the cut.
fn after_label(
    cursor: &Cursor,
    work: &mut Work,
    label: &str,
    at: Option<&str>,
) -> Result<(Path, Path, usize), Refusal> {
    if !has_label(cursor.focused(), label) && loop_names(cursor.focused()).iter().any(|n| n == label) {
        let d =
            Diagnostic::error(codes::ARGUMENT, format!("`fission`: `{label}` is a loop, not a statement"));
        return Err(d.help(format!("say where: fission({label}, after: LABEL)")).into_refusal(work.rule()));
    }
    let found = find_some_label(cursor, work.rule(), label)?;
    let Some(p) = found.last() else { return Err(work.refuse(codes::UNKNOWN_NAME, "no such label")) };
    let (seq, cut) = cut_after(work, p, 0)?;
    let top = match at {
        Some(name) => {
            let all = crate::names::find_all_loops(cursor, work.rule(), name)?;
            match all.into_iter().rfind(|t| seq.starts_with(t)) {
                Some(t) => t,
                None => {
                    let text = format!(
                        "`fission`: no loop `{name}` around `{label}` contains another statement to separate"
                    );
                    return Err(work.refuse(codes::SHAPE, text));
                }
            }
        }
        None => {
            // Out of the block, and outward through loops that hold nothing else.
            let mut top = seq.clone();
            while let Some((_, up)) = top.split_last()
                && work.at(up)?.as_seq().is_some()
            {
                top = up.to_vec();
            }
            let block = top.clone();
            while let Some((_, up)) = top.split_last() {
                if !crate::nest::is_loop(&work.func().body, up) {
                    break;
                }
                top = up.to_vec();
            }
            if top == block { seq.clone() } else { top }
        }
    };
    if top == seq {
        let text = format!("`fission`: there is no loop around `{label}` that contains another statement");
        return Err(work.refuse(codes::SHAPE, text));
    }
    Ok((top, seq, cut))
}

/// The innermost sequence around a statement in which something follows it, and how many of its
/// children are before the cut.
fn cut_after(work: &Work, p: &[usize], above: usize) -> Result<(Path, usize), Refusal> {
    for n in (above..p.len()).rev() {
        if let Some(v) = visit::at(&work.func().body, &p[..n]).and_then(Stmt::as_seq)
            && p[n] + 1 < v.len()
        {
            return Ok((p[..n].to_vec(), p[n] + 1));
        }
    }
    let label =
        visit::at(&work.func().body, p).and_then(Stmt::label).map_or_else(String::new, ToString::to_string);
    Err(work.refuse(codes::SHAPE, format!("`fission`: nothing follows `{label}` in the loop")))
}

/// From a loop inward to the sequence that its body is.
fn inward(work: &Work, top: &Path) -> Result<Path, Refusal> {
    let mut path = top.clone();
    loop {
        let s = work.at(&path)?;
        if s.as_seq().is_some_and(|v| v.len() > 1) {
            return Ok(path);
        }
        if s.as_loop().is_none() {
            let names = loop_names(s);
            let text = format!("`fission`: the loop contains only one statement {}", list(&names));
            return Err(work.refuse(codes::SHAPE, text.trim_end()));
        }
        path.push(0);
    }
}

/// Cuts the loops from `top` to the sequence at `seq` after its first `cut` statements.
pub fn fission(work: &mut Work, top: &Path, seq: &Path, cut: usize) -> Result<(), Refusal> {
    let parts: Vec<Stmt> = work.at(seq)?.children().cloned().collect();
    let mut first = Stmt::seq(parts[..cut].iter().cloned());
    let mut second = Stmt::seq(parts[cut..].iter().cloned());
    for n in (top.len()..seq.len()).rev() {
        let path = &seq[..n];
        let s = work.at(path)?.clone();
        let doubled = |s: &Stmt| match s.as_if() {
            Some((cond, _, None)) => visit::loads_of(cond).is_empty(),
            _ => s.as_loop().is_some(),
        };
        if let Some(v) = s.as_seq() {
            let (here, rest) = (seq[n], v.len());
            first = Stmt::seq(v[..here].iter().cloned().chain([first]));
            second = Stmt::seq([second].into_iter().chain(v[here + 1..rest].iter().cloned()));
        } else if doubled(&s) {
            first = s.with_child(0, first);
            second = s.with_child(0, second);
        } else {
            let text = "the cut is enclosed by something other than loops";
            return Err(work.refuse_at(codes::SHAPE, text, "", s.places()));
        }
    }
    let second = work.copy(&second);
    work.replace_checked(top, Stmt::seq([first, second]))
}
