//! `lathe tune --space FILE`: how many points a space has, and some of them.

use crate::Outcome;
use crate::args::TuneArgs;
use crate::target::{self, Common};
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

/// So many samples are kept and printed; more are drawn, but only the time is told.
const SHOWN: u64 = 1000;

pub fn look(a: &TuneArgs, file: &Path, common: &Common) -> Outcome {
    let mut arguments = a.arguments.clone();
    arguments.extend(a.target.clone());
    arguments.rotate_right(usize::from(a.target.is_some()));
    let described = tune::describe_program(file, &arguments)?;
    let counted = tune::count(&described.program.space)?;
    let space = &counted.space;
    let mut samples = Vec::new();
    let mut sample_s = None;
    if let Some(n) = a.look.sample {
        let (drawn, time) = tune::sample(space, n, a.data.seed, SHOWN);
        samples = drawn;
        sample_s = Some(time);
    }
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
        return target::print_json(&report);
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
        eprintln!("{n} drawn in {s:.6} s");
    }
    target::say(out.as_bytes())
}
