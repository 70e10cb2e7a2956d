//! The tree optimizer: passes over a whole function, that take no arguments and never refuse a tree. They work on plain
//! trees (index notation stays) as on scheduled ones, and what they are good for is read off the tree: a derivative of
//! what was optimized is several times cheaper (Moses and Churavy, *Instead of Rewriting Foreign Code for Machine
//! Learning, Automatically Synthesize Fast Gradients*, NeurIPS 2020).
//!
//! * `memory`: what statements read and write; `worth`: which expressions count.
//! * one file per pass: its page says what it means and why it is legal. The passes `inline` and `promote` share their
//!   names with steps on one array, and are here as `calls` and `promote`.

mod calls;
mod cse;
mod dce;
mod dse;
mod forward;
mod licm;
mod promote;
mod quiet;
mod worth;

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::rule::{Cursor, Rule};
use crate::work::{Work, edited};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};
use lathe_strategy::evidence::Simplified;
use lathe_strategy::{Evidence, Refusal};

pub(crate) use calls::values_of_calls;
pub(crate) use promote::cells_to_values;

/// One entry per file of this folder.
pub static RULES: &[&Rule] = &[&cse::RULE, &forward::RULE, &licm::RULE, &dse::RULE, &dce::RULE];

/// The passes, in the order in which they are usually good.
pub const PASSES: [&str; 7] = ["inline", "cse", "forward", "licm", "dse", "dce", "promote"];

/// The function after passes by name, for those who need no evidence: the checker compares what they made together with what
/// was given, once. Only where it does not see that this is the same, passes are applied one by one, by [`optimize`].
///
/// # Errors
/// `E0620` for a name that is none of [`PASSES`].
pub fn optimized(module: &Module, func: &Function, passes: &[&str]) -> Result<Function, Refusal> {
    let all: Option<Vec<Pass>> = passes.iter().map(|p| pass(p)).collect();
    if let Some(all) = all {
        let at_once = |work: &mut Work| {
            work.pass(Simplified::Common, |func| all.iter().for_each(|pass| pass(module, func)))
        };
        if let Ok(func) = edited(&Cursor::new(module, func), &cse::RULE, at_once) {
            return Ok(func);
        }
    }
    Ok(optimize(module, func, passes)?.0)
}

type Pass = fn(&Module, &mut Function);

/// What a pass does to a function, unchecked.
fn pass(name: &str) -> Option<Pass> {
    Some(match name {
        "inline" => calls::values_of_calls,
        "cse" => |_, f| cse::pass(f),
        "forward" => forward::pass,
        "licm" => |_, f| licm::pass(f),
        "dse" => |_, f| dse::remove(f),
        "dce" => |_, f| dce::remove(f),
        "promote" => |_, f| promote::cells_to_values(f),
        _ => return None,
    })
}

/// Applies passes by name, one after the other, to a function as it is: what is in index notation stays so. A pass
/// whose result the checker cannot show to compute the same changes nothing, and has no evidence.
///
/// # Errors
/// `E0620` for a name that is none of [`PASSES`].
pub fn optimize(
    module: &Module,
    func: &Function,
    passes: &[&str],
) -> Result<(Function, Vec<Evidence>), Refusal> {
    let (mut func, mut steps) = (func.clone(), Vec::new());
    for pass in passes {
        if !PASSES.contains(pass) {
            let d = Diagnostic::error(codes::ARGUMENT, format!("there is no pass `{pass}`"));
            return Err(d.help(format!("passes: {}", PASSES.join(", "))).into_refusal(pass));
        }
        match crate::apply(&Cursor::new(module, &func), pass, &Args::default()) {
            Ok(edit) => {
                func = edit.func;
                steps.push(edit.evidence);
            }
            Err(r) if r.diagnostic.code == codes::VALUE => {}
            Err(r) => return Err(r),
        }
    }
    Ok((func, steps))
}
