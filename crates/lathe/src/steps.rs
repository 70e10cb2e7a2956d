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
    let text = format!("strategy steps =\n{steps}\n");
    let file = sources.add("<steps>", text.as_str());
    let (parsed, errors) = lathe_lang::parse(file, &text);
    if !errors.is_empty() {
        return Err(Failure::many(sources, errors));
    }
    let definitions = parsed.items.into_iter().filter_map(|i| match i {
        lathe_lang::ast::Item::Strategy(s) => Some(s.definition),
        _ => None,
    });
    let definitions = Definitions::new(definitions);
    let machine = Machine::host();
    let facts = |name: &str| machine.fact(name);
    let context = Context::new(&definitions, None, &facts);
    let Some(definition) = definitions.find("steps", None) else { return Ok(func.clone()) };
    let run = lathe_transform::run(module, func, &context, &definition.body);
    let (func, _) = run.map_err(|r| Failure::one(sources, *r.diagnostic))?;
    Ok(func)
}
