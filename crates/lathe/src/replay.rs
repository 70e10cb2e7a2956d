//! Stored evidence read, and applied again: every term and tree on the way must be the recorded one, and every record
//! what the step leaves. Whoever wrote a record may have meant harm: nothing in it is believed.

use crate::applied::How;
use crate::program::{Failure, Program};
use crate::schedule::{plain, specialize};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_space::Expr;
use lathe_strategy::Evidence;
use lathe_strategy::evidence::VERSION;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One version of a schedule as `lathe explain --json` prints it, as far as it is needed to take its steps again.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Under which it is taken.
    pub condition: Option<Expr>,
    /// Sizes that were constants before its first step.
    pub baked: BTreeMap<String, i64>,
    pub steps: Vec<Evidence>,
}

/// The largest text of evidence that is read, in bytes.
const LARGEST: usize = 64 << 20;

/// Reads what `lathe explain --json` printed.
///
/// # Errors
/// `E0612` for evidence of another version of Lathe, for what is not evidence, and for records that contradict
/// themselves.
pub fn load_evidence(text: &str) -> Result<Vec<Stored>, Diagnostic> {
    #[derive(Deserialize)]
    struct Account<V> {
        versions: Vec<V>,
    }
    #[derive(Deserialize)]
    struct Form {
        evidence_version: u32,
    }
    #[derive(Deserialize)]
    struct One {
        condition: Option<String>,
        baked: BTreeMap<String, i64>,
        steps: Vec<Evidence>,
    }
    let wrong = |why: String| Diagnostic::error(lathe_strategy::codes::REPLAY, why);
    if text.len() > LARGEST {
        return Err(wrong(format!("this is more than {LARGEST} bytes of evidence")));
    }
    let unread = |e: serde_json::Error| wrong(format!("this is not evidence: {e}"));
    let forms: Account<Form> = serde_json::from_str(text).map_err(unread)?;
    if let Some(f) = forms.versions.iter().find(|f| f.evidence_version != VERSION) {
        let text = format!("evidence has version {}, but {VERSION} is required", f.evidence_version);
        return Err(wrong(text).help("run `lathe explain --json` again"));
    }
    let read: Account<One> = serde_json::from_str(text).map_err(unread)?;
    let each = |v: One| {
        let condition = v.condition.map(|c| lathe_space::parse(&c)).transpose();
        let condition =
            condition.map_err(|e| wrong(format!("the condition cannot be read: {}", e.message)))?;
        for (n, e) in v.steps.iter().enumerate() {
            if let Some(flaw) = e.flaw() {
                return Err(wrong(format!("step {} (`{}`): {flaw}", n + 1, e.rule)));
            }
        }
        Ok(Stored { condition, baked: v.baked, steps: v.steps })
    };
    read.versions.into_iter().map(each).collect()
}

/// The tree that the recorded steps of one version of a schedule make of a kernel or fun. `baked` are the sizes that
/// were constants before its first step (see [`crate::Version`]).
///
/// # Errors
/// `E0612` where a term, tree, rule or argument is not what was recorded.
pub fn replay(
    program: &Program,
    kernel: &Function,
    how: &How,
    condition: Option<&Expr>,
    baked: &BTreeMap<String, i64>,
    steps: &[Evidence],
) -> Result<Function, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    if let Some(fun) = program.lang.funs.get(&*kernel.name) {
        if baked.is_empty() {
            return crate::fun::replay(program, fun, how, condition, steps).map_err(fail);
        }
        let specialize = how.specialize.iter().chain(baked).map(|(n, v)| (n.clone(), *v)).collect();
        let how = How { specialize, ..how.clone() };
        return crate::fun::replay(program, fun, &how, None, steps).map_err(fail);
    }
    let mut func = plain(program, kernel, how.assumptions)?;
    if !how.specialize.is_empty() {
        func = specialize(&func, &how.specialize).map_err(fail)?;
    }
    if !baked.is_empty() {
        func = specialize(&func, baked).map_err(fail)?;
    } else if let Some(c) = condition {
        func = crate::version::under(&func, c);
    }
    lathe_transform::replay(&program.lang.module, &func, steps).map_err(|r| fail(*r.diagnostic))
}
