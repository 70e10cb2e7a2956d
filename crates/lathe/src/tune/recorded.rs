//! Searching what was recorded, and recording what was searched: the T4 format.

use super::search::Found;
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{CostFunction, Sample};
use lathe_measure::worker::Fault;
use lathe_space::{Space, Values};
use lathe_tune::t4::Results;
use lathe_tune::{Cost, Outcome, RecordedTable};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Costs from a T4 file: nothing is run.
pub(super) struct RecordedCost(RecordedTable);

impl RecordedCost {
    /// # Errors
    /// `E0901` if the file cannot be read; what it holds that is not T4, or does not fit the space.
    pub fn read(file: &Path, space: &Arc<Space>) -> Result<RecordedCost, Diagnostic> {
        let text = super::packed::read(file)?;
        Ok(RecordedCost(RecordedTable::new(Arc::clone(space), &Results::read(&text)?)?))
    }
}

impl CostFunction for RecordedCost {
    fn measure(&mut self, configuration: &Values, _best: Option<&Cost>) -> Result<Sample, Fault> {
        let space = self.0.space();
        let Some(c) = space.read(configuration) else {
            let text = "a configuration without the parameters of its space";
            return Err(Diagnostic::error(lathe_tune::codes::RESULTS_SPACE, text).into());
        };
        match self.0.measure(&c).outcome {
            Outcome::Valid(cost) => Ok(cost.into()),
            Outcome::Invalid(i) => Err(i.into()),
        }
    }
}

/// Every evaluation of a search as T4.
pub fn t4(found: &Found, timed: bool) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = now.saturating_sub(found.tuned.elapsed);
    let costs = found.best.as_ref().map_or(1, |b| b.1.cost.numbers().len());
    let names: Vec<String> = match (timed, costs) {
        (true, 1) => vec!["seconds".to_string()],
        _ => (1..=costs).map(|i| format!("c{i}")).collect(),
    };
    Results::of(&found.tuned, &names.iter().map(String::as_str).collect::<Vec<_>>(), began).write()
}
