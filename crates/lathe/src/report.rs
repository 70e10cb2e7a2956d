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
    /// What was compared with: `interpreter`; `unoptimized code`, or that and the interpreter on samples; or
    /// `interpreter on samples` only.
    pub against: String,
    pub max_abs_error: f64,
    pub max_rel_error: f64,
    pub ok: bool,
    /// Elements of all outputs.
    pub elements: usize,
    /// Of so many the interpreter said what they are, where it was not asked for all.
    pub sampled: Option<usize>,
    /// No step changes rounding: every element must have the same bits.
    pub same_bits: bool,
    /// The largest error as a part of the bound of its element; none where nothing differs.
    pub of_bound: Option<f64>,
    /// Scalars that may be anything, since rounding decides what they are.
    pub undecided: usize,
    /// So many results were compared: one per round of `bench`.
    pub calls: usize,
}

impl CheckReport {
    /// What two comparisons with one reference found together.
    pub fn and(self, other: &CheckReport) -> CheckReport {
        let share = [self.of_bound, other.of_bound].into_iter().flatten().reduce(f64::max);
        CheckReport {
            max_abs_error: self.max_abs_error.max(other.max_abs_error),
            max_rel_error: self.max_rel_error.max(other.max_rel_error),
            ok: self.ok && other.ok,
            of_bound: share,
            undecided: self.undecided.max(other.undecided),
            calls: self.calls + other.calls,
            ..self
        }
    }
}

impl std::fmt::Display for CheckReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.ok { "verified" } else { "WRONG" };
        write!(f, "{word} against the {}", self.against)?;
        if let Some(n) = self.sampled {
            write!(f, " ({n} of {} elements)", self.elements)?;
        }
        if self.calls > 1 {
            write!(f, ", {} calls", self.calls)?;
        }
        if self.same_bits && self.ok {
            write!(f, ": the same bits")?;
        } else {
            write!(f, ": largest error {:.3e} (relative {:.3e})", self.max_abs_error, self.max_rel_error)?;
        }
        if let Some(share) = self.of_bound {
            write!(f, ", {:.2} of its bound", share)?;
        }
        match self.undecided {
            0 => Ok(()),
            n => write!(f, ", {n} that rounding decides"),
        }
    }
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
