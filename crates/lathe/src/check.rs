//! `--check`: a result beside the interpreter's, or beside unoptimized code where that would take too long.

use crate::build::{Build, at_check, compile_tree, places_of_checks};
use crate::codes;
use crate::compare::{self, Difference};
use crate::convert::to_values;
use crate::count;
use crate::data::Data;
use crate::report::CheckReport;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Scalar;
use lathe_ir::interp::{self, ArrayValue};
use lathe_runtime::{Array, Pool};

/// Beyond this many operations the interpreter is not asked.
const AFFORDABLE: f64 = 2e7;

/// What was compared, with the first difference.
#[derive(Clone, Debug)]
pub struct Checked {
    pub report: CheckReport,
    pub first: Option<String>,
}

impl Checked {
    /// The message for a result that is wrong.
    pub fn diagnostic(&self, kernel: &str) -> Diagnostic {
        Diagnostic::error(codes::WRONG_RESULT, format!("`{kernel}` gives a wrong result"))
            .note(self.first.clone().unwrap_or_default())
            .note(format!("compared with the {}", self.report.against))
            .help("this is a defect of Lathe: please report it with the file, the strategy and the seed")
    }
}

/// What a kernel gives for some data, as a reference run computes it.
#[derive(Debug)]
pub struct Reference {
    work: f64,
    results: Results,
}

#[derive(Debug)]
enum Results {
    /// The interpreter's.
    Interpreted(Vec<ArrayValue>),
    /// Those of unoptimized code.
    Compiled(Data),
}

impl Reference {
    /// Runs the kernel of a schedule as it was written.
    ///
    /// # Errors
    /// When that run fails.
    pub fn new(
        schedule: &Schedule,
        build: &Build,
        mut before: Data,
        pool: &Pool,
    ) -> Result<Reference, Diagnostic> {
        let work = count::flops(&schedule.plain, &before.sizes).unwrap_or(f64::INFINITY);
        let cells: f64 = before.arrays.iter().map(|a| a.len() as f64).sum();
        if work + cells <= AFFORDABLE {
            let mut values: Vec<ArrayValue> = to_values(&before.arrays)?;
            interp::run(&schedule.module, &schedule.plain, &mut values, &interp::Options::default())
                .map_err(|f| *f.diagnostic)?;
            return Ok(Reference { work, results: Results::Interpreted(values) });
        }
        let naive =
            lathe_transform::open_all(&schedule.module, &schedule.plain).map_err(|r| *r.diagnostic)?;
        let plain = compile_tree(schedule, &naive, &Build { opt_level: 1, ..build.clone() })?;
        {
            let mut views: Vec<_> = before.arrays.iter_mut().map(Array::view_mut).collect();
            plain.call(pool, &mut views)?;
        }
        Ok(Reference { work, results: Results::Compiled(before) })
    }

    /// Compares the outputs in `after`, which a schedule of the same kernel computed from the same data.
    ///
    /// # Errors
    /// When memory is short.
    pub fn compare(&self, schedule: &Schedule, after: &Data) -> Result<Checked, Diagnostic> {
        let (against, difference) = match &self.results {
            Results::Interpreted(values) => {
                ("interpreter", compare::outputs(&schedule.plain, &after.arrays, values)?)
            }
            Results::Compiled(data) => {
                let values: Vec<ArrayValue> = to_values(&data.arrays)?;
                ("unoptimized code", compare::outputs(&schedule.plain, &after.arrays, &values)?)
            }
        };
        let exact = schedule.reassociates().is_empty();
        let allowed = || tolerance(schedule, after, self.work, &difference);
        let ok = difference.equal || (!exact && difference.max_abs <= allowed());
        Ok(Checked {
            report: CheckReport {
                against: against.to_string(),
                max_abs_error: difference.max_abs,
                max_rel_error: difference.max_rel,
                ok,
            },
            first: difference.first,
        })
    }
}

/// Compares the outputs in `after` with a reference run on `before`.
///
/// # Errors
/// When the reference itself fails.
pub fn check_result(
    schedule: &Schedule,
    build: &Build,
    before: Data,
    after: &Data,
    pool: &Pool,
) -> Result<Checked, Diagnostic> {
    Reference::new(schedule, build, before, pool)?.compare(schedule, after)
}

/// Runs the kernel as written, with a check in the place of every fact that it trusts, on a copy of the data. Code
/// made from a fact that does not hold may do anything, so this comes before any run of it.
///
/// # Errors
/// The fact that does not hold, and whatever else that run says.
pub fn check_facts(schedule: &Schedule, build: &Build, data: &Data, pool: &Pool) -> Result<(), Diagnostic> {
    if lathe_transform::claims::assumptions(&schedule.plain).iter().all(|(_, checked)| *checked) {
        return Ok(());
    }
    let wary = lathe_transform::claims::with_facts_checked(&schedule.plain);
    let wary = lathe_transform::open_all(&schedule.module, &wary).map_err(|r| *r.diagnostic)?;
    let checks = places_of_checks(&wary);
    let wary = compile_tree(schedule, &wary, &Build { opt_level: 1, ..build.clone() })?;
    let mut copy = data.duplicate()?;
    let mut views: Vec<_> = copy.arrays.iter_mut().map(Array::view_mut).collect();
    wary.call(pool, &mut views).map_err(|d| at_check(&checks, d))
}

/// `2 n ε Σ|terms|` for `n` terms a result, with `n · scale` standing for the sum of magnitudes where results
/// are smaller than their terms. (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.)
fn tolerance(schedule: &Schedule, after: &Data, work: f64, d: &Difference) -> f64 {
    let mut epsilon = 0f64;
    let mut results = 0f64;
    for (p, a) in schedule.plain.params.iter().zip(&after.arrays) {
        if p.mode == lathe_ir::Mode::In {
            continue;
        }
        results += a.len() as f64;
        for s in a.ty().leaves() {
            epsilon = epsilon.max(match s {
                Scalar::F64 => f64::EPSILON,
                Scalar::F32 => f64::from(f32::EPSILON),
                Scalar::F16 => 2f64.powi(-10),
                Scalar::Bf16 => 2f64.powi(-7),
                _ => 0.0,
            });
        }
    }
    let terms = (work / results.max(1.0)).clamp(2.0, 1e12);
    2.0 * terms * epsilon * d.scale.max(1.0)
}
