//! Facts that a kernel trusts, checked before anything else runs.

use crate::build::{Build, at_check, compile_tree, places_of_checks};
use crate::data::Data;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_runtime::{Array, Pool};

/// Runs the kernel as written, with a check in the place of every fact that it trusts, on a copy of the data. Code
/// generated from a fact that does not hold has undefined behaviour, so this precedes any run of it.
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
