//! `lathe tune --space FILE`: how many points a space has, and some of them.

use crate::args::TuneArgs;
use crate::say::{self, note};
use crate::target::Common;
use crate::{Outcome, Stop};
use lathe::space::Configuration;
use lathe::tune;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct SpaceReport {
    space: String,
    parameters: usize,
    /// Of sets of parameters that depend on each other.
    groups: Vec<Vec<String>>,
    /// Texts, since they may be larger than any machine's number.
    points: String,
    valid: String,
    seconds: f64,
    bytes: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    samples: Vec<Configuration>,
    sample_s: Option<f64>,
}

/// Options that a look at a space has no use for.
fn only_a_look(a: &TuneArgs) -> Result<(), Stop> {
    let s = &a.scripts;
    for (given, option) in [
        (s.recorded.is_some(), "--recorded"),
        (s.order.is_some(), "--order"),
        (s.runs.is_some(), "--runs"),
        (s.negative_costs, "--negative-costs"),
        (s.jobs.is_some(), "--jobs"),
        (s.side_by_side, "--side-by-side"),
        (s.gold.is_some(), "--gold"),
        (s.memory.is_some(), "--memory"),
        (a.budget.is_some(), "--budget"),
        (a.until.is_some(), "--until"),
        (a.technique.is_some(), "--technique"),
        (a.plot.is_some(), "--plot"),
        (a.t4.is_some(), "--t4"),
        (a.fresh, "--fresh"),
        (a.how.strategy.is_some(), "--strategy"),
        (!a.how.sizes.is_empty(), "-D"),
        (!a.how.params.is_empty(), "--param"),
        (!a.data.inputs.is_empty(), "--input"),
    ] {
        if given {
            let text = format!("{option} has no effect with --space, which does not search");
            return Err(
                crate::tune_options::misplaced(text, "to search, pass the file without --space").into()
            );
        }
    }
    Ok(())
}

pub fn look(a: &TuneArgs, file: &Path, common: &Common) -> Outcome {
    only_a_look(a)?;
    let mut arguments = a.arguments.clone();
    arguments.extend(a.target.clone());
    arguments.rotate_right(usize::from(a.target.is_some()));
    let described = tune::describe_program(file, &arguments)?;
    let counted = tune::count(&described.program.space)?;
    let space = &counted.space;
    let mut samples = Vec::new();
    let sample_s = a.look.sample.map(|n| tune::sample(space, n, a.data.seed, |c| samples.push(c)));
    let names = |g: &[usize]| g.iter().map(|p| space.params()[*p].name.clone()).collect();
    let report = SpaceReport {
        space: file.display().to_string(),
        parameters: space.params().len(),
        groups: space.groups().iter().map(|g| names(&g.params)).collect(),
        points: space.unconstrained().to_string(),
        valid: space.size().to_string(),
        seconds: counted.seconds,
        bytes: space.bytes(),
        samples,
        sample_s,
    };
    if common.json {
        return say::json(&report);
    }
    let mut out = format!(
        "{} points, {} valid, counted in {:.6} s ({} parameters in {} groups, {} bytes)\n",
        report.points,
        report.valid,
        report.seconds,
        report.parameters,
        report.groups.len(),
        report.bytes
    );
    for c in &report.samples {
        out += &format!("{c}\n");
    }
    if let (Some(n), Some(s)) = (a.look.sample, report.sample_s) {
        note!("{n} sampled in {s:.6} s");
    }
    say::text(&out)
}
