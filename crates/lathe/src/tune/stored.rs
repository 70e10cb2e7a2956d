//! Winners of the store, for commands that were not told what to run.

use super::hash::{Situation, kernel_key, strategy_hash};
use crate::applied::How;
use crate::build::Build;
use crate::program::Program;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_measure::Store;
use lathe_measure::store::{Key, Winner};
use lathe_space::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The strategy and parameters that won for exactly this kernel, these sizes, this machine and so many threads: with
/// these inputs if they were tuned for, else with made-up ones. `None` if nothing was tuned for them, or the strategy
/// has changed since.
///
/// # Errors
/// What is wrong with the store. It keeps nobody from running something else.
pub fn stored_winner(
    store: &Path,
    program: &Program,
    kernel: &Function,
    of: Situation,
) -> Result<Option<How>, Diagnostic> {
    let Some(store) = Store::open_to_read(store)? else { return Ok(None) };
    let own = kernel_key(program, kernel, of);
    let mut winners = store.winners(&own)?;
    if !own.data.is_empty() {
        winners.extend(store.winners(&Key { data: String::new(), ..own })?);
    }
    let specialize = if of.specialize { of.sizes.clone() } else { BTreeMap::new() };
    let found = winners.iter().find_map(|(key, winner)| how(program, kernel, key, winner));
    Ok(found.map(|how| How { specialize, sizes: of.sizes.clone(), threads: Some(of.threads), ..how }))
}

/// Sizes by name, and what won for them.
pub type ForSizes = (BTreeMap<String, i64>, How);

/// All winners of a kernel on this machine (or the device of a build's engine) with so many threads and made-up inputs, whatever
/// their sizes; of several for the same sizes the best. `specialize`: those of code with the sizes baked in. For callers that run a kernel for many sizes and look at the store once.
///
/// # Errors
/// As [`stored_winner`].
pub fn stored_winners(
    store: &Path,
    program: &Program,
    kernel: &Function,
    build: &Build,
    specialize: bool,
    threads: usize,
) -> Result<Vec<ForSizes>, Diagnostic> {
    let Some(store) = Store::open_to_read(store)? else { return Ok(Vec::new()) };
    let (sizes, inputs) = (BTreeMap::new(), BTreeMap::new());
    let of = Situation { sizes: &sizes, inputs: &inputs, build, specialize, threads };
    let mut out: Vec<ForSizes> = Vec::new();
    for (key, winner) in store.winners_of_all_sizes(&kernel_key(program, kernel, of))? {
        let whole = |(n, v): (&String, &Value)| match v {
            Value::Int(v) => Some((n.clone(), *v)),
            _ => None,
        };
        let Some(sizes) = key.sizes.iter().map(whole).collect::<Option<BTreeMap<_, _>>>() else { continue };
        if out.iter().all(|o| o.0 != sizes)
            && let Some(how) = how(program, kernel, &key, &winner)
        {
            let how = How { sizes: sizes.clone(), threads: Some(threads), ..how };
            out.push((sizes, how));
        }
    }
    Ok(out)
}

/// What a winner says, if its strategy is still the same.
fn how(program: &Program, kernel: &Function, key: &Key, winner: &Winner) -> Option<How> {
    let d = program.strategies(&kernel.name).into_iter().find(|d| d.name == key.strategy)?;
    if strategy_hash(program, &kernel.name, d) != key.strategy_hash {
        return None;
    }
    let params = winner.configuration.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
    Some(How { strategy: Some(key.strategy.clone()), params, ..How::default() })
}
