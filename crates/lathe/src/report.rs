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

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// `cuda`, `opencl`.
    pub kind: String,
    pub index: usize,
    pub name: String,
    /// The target of code: `sm_90a`.
    pub arch: String,
}

impl DeviceReport {
    /// Of an engine, if that is a device that this machine has.
    pub fn of(engine: lathe_runtime::Engine) -> Option<DeviceReport> {
        if !engine.is_device() {
            return None;
        }
        let (kind, index) = engine.name().split_once(':').unwrap_or((engine.name(), "0"));
        let index = index.parse().ok()?;
        let info = lathe_runtime::device::devices_of(kind).ok()?.into_iter().nth(index)?;
        Some(DeviceReport { kind: kind.to_string(), index, name: info.name, arch: info.arch })
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transfers {
    pub to_device_bytes: u64,
    pub from_device_bytes: u64,
    pub count: u64,
}

impl Transfers {
    pub fn of(run: &lathe_runtime::DeviceRun) -> Transfers {
        Transfers {
            to_device_bytes: run.to_device_bytes,
            from_device_bytes: run.from_device_bytes,
            count: run.copies,
        }
    }
}

/// What a report says of the code: `cached` or `new`.
pub fn compiled(built: &crate::Built) -> String {
    if built.was_compiled() { "new" } else { "cached" }.to_string()
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
    /// Where it ran, if that was a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceReport>,
    /// On a device: seconds of the kernels of one run by its clock, the median of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_s: Option<f64>,
    /// Kernels that one run starts on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launches: Option<u64>,
    /// Of one run with its data on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// `cached` or `new`.
    pub compiled: String,
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
