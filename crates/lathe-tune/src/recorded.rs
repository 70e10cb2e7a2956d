//! A recorded table as a cost function: for comparing search techniques without the machine.

use crate::codes;
use crate::cost::{Invalid, Outcome, Why};
use crate::history::Measured;
use crate::t4::Results;
use lathe_diagnostics::Diagnostic;
use lathe_space::{Configuration, Space, Values};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::sync::Arc;

/// Outcomes of the configurations of a space, by index.
#[derive(Clone, Debug)]
pub struct RecordedTable {
    space: Arc<Space>,
    outcomes: HashMap<BigUint, Measured>,
}

impl RecordedTable {
    /// The results of a space. An error if a configuration does not have the parameters of the space, or violates
    /// its constraints. Parameters that the results leave out are taken from the space if they have but one value.
    pub fn new(space: Arc<Space>, results: &Results) -> Result<RecordedTable, Diagnostic> {
        let mut fixed = Values::new();
        for (i, p) in space.params().iter().enumerate() {
            if space.values_of(i) == 1
                && let Some(v) = space.value_of(i, 0)
            {
                fixed.insert(p.name.clone(), v);
            }
        }
        let mut outcomes = HashMap::with_capacity(results.results.len());
        for (number, r) in results.results.iter().enumerate() {
            let mut values = r.configuration.clone();
            for (name, v) in &fixed {
                values.entry(name.clone()).or_insert_with(|| v.clone());
            }
            let refuse = |why: &str| {
                let shown: Vec<String> = r.configuration.iter().map(|(n, v)| format!("{n} = {v}")).collect();
                Diagnostic::error(codes::RESULTS_SPACE, format!("result {number} {why} the space"))
                    .note(format!("its configuration: {}", shown.join(", ")))
            };
            let c = space.read(&values).ok_or_else(|| refuse("does not have the parameters of"))?;
            let index = space.index_of(&c).ok_or_else(|| refuse("is not among the configurations of"))?;
            outcomes.insert(index, r.measured());
        }
        Ok(RecordedTable { space, outcomes })
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// What was recorded. A configuration that was not is invalid.
    pub fn measure(&self, c: &Configuration) -> Measured {
        let recorded = self.space.index_of(c).and_then(|i| self.outcomes.get(&i).cloned());
        recorded.unwrap_or_else(|| {
            Outcome::Invalid(Invalid::new(Why::Refused, "nothing was recorded for this configuration")).into()
        })
    }

    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// The first objective of every recorded configuration; infinity where it is invalid. In no fixed order.
    pub fn costs(&self) -> Vec<f64> {
        let first = |m: &Measured| m.outcome.cost().map_or(f64::INFINITY, |c| c.first());
        self.outcomes.values().map(first).collect()
    }
}
