//! Winners of the store, for commands that were not told what to run.

use super::hash::{Situation, kernel_key, strategy_hash};
use crate::program::Program;
use crate::schedule::How;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_measure::Store;
use lathe_measure::store::Key;
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
    for (found, winner) in winners {
        let Some(d) = program.strategies(&kernel.name).into_iter().find(|d| d.name == found.strategy) else {
            continue;
        };
        if strategy_hash(program, &kernel.name, d) != found.strategy_hash {
            continue;
        }
        let params = winner.configuration.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
        return Ok(Some(How {
            strategy: Some(found.strategy.clone()),
            params,
            specialize: if of.specialize { of.sizes.clone() } else { BTreeMap::new() },
            sizes: of.sizes.clone(),
            threads: Some(of.threads),
            model: None,
        }));
    }
    Ok(None)
}
