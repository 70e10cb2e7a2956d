//! What `--json` prints: the same nouns everywhere (design, section 9). Fields are only ever added.

use lathe_strategy::{Discharge, Evidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Obligations of all steps, counted by how they were discharged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EvidenceCounts {
    pub by_dependence: usize,
    pub by_rule: usize,
    /// Believed after tests, not proved.
    pub tested: usize,
    pub by_check: usize,
    pub by_declaration: usize,
    pub trusted: usize,
}

impl EvidenceCounts {
    pub fn of<'a>(steps: impl IntoIterator<Item = &'a Evidence>) -> EvidenceCounts {
        let mut c = EvidenceCounts::default();
        for o in steps.into_iter().flat_map(|e| &e.obligations) {
            match o.by {
                Discharge::ByDependence => c.by_dependence += 1,
                Discharge::ByRule => c.by_rule += 1,
                Discharge::Tested => c.tested += 1,
                Discharge::ByCheck => c.by_check += 1,
                Discharge::ByDeclaration => c.by_declaration += 1,
                Discharge::Trusted => c.trusted += 1,
            }
        }
        c
    }
}

/// Outcome of `--check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// `interpreter` or `unoptimized`.
    pub against: String,
    pub max_abs_error: f64,
    pub max_rel_error: f64,
    pub ok: bool,
}

/// One object per strategy that was run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    pub kernel: String,
    pub strategy: String,
    /// `requested`, `stored`, `fast`, `auto` or `naive`.
    pub strategy_source: String,
    /// Why it was taken, where there was something to choose.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub strategy_reason: String,
    pub params: BTreeMap<String, lathe_space::Value>,
    pub sizes: BTreeMap<String, i64>,
    pub specialized: bool,
    pub threads: usize,
    pub engine: String,
    pub compile_s: f64,
    pub runs: usize,
    pub median_s: Option<f64>,
    pub min_s: Option<f64>,
    pub max_s: Option<f64>,
    pub gflops: Option<f64>,
    pub gbytes_per_s: Option<f64>,
    pub check: Option<CheckReport>,
    pub evidence: EvidenceCounts,
    /// Inputs that were made up: name and how.
    pub made_inputs: BTreeMap<String, String>,
    /// Facts that were assumed, with their provenance.
    pub assumptions: Vec<String>,
    /// Labels whose rounding or order of reduction a step changed.
    pub reassociates: Vec<String>,
}
