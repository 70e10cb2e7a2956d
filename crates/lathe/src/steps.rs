//! Steps from text, on a tree that no `.lathe` file made.

use crate::program::Failure;
use lathe_diagnostics::SourceMap;
use lathe_ir::{Function, Module};
use lathe_strategy::{Context, Definitions};
use lathe_target::Machine;

/// Applies `steps` (as in a strategy's body) to a function.
///
/// # Errors
/// What parsing or a step refuses.
pub fn apply_steps(
    sources: &mut SourceMap,
    module: &Module,
    func: &Function,
    steps: &str,
) -> Result<Function, Failure> {
    let file = sources.add("<steps>", steps);
    let strategy = lathe_strategy::parse::parse_steps(file, steps).map_err(|d| Failure::one(sources, d))?;
    let definitions = Definitions::default();
    let machine = Machine::host();
    let facts = |name: &str| machine.fact(name);
    let context = Context::new(&definitions, None, &facts);
    let run = lathe_transform::run(module, func, &context, &strategy);
    let (func, _) = run.map_err(|r| Failure::one(sources, *r.diagnostic))?;
    Ok(func)
}
