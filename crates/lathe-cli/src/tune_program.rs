//! `lathe tune FILE`: programs that are tuned by scripts, and kernels for devices.

use crate::args::TuneArgs;
use crate::files::{Used, apart};
use crate::run::seconds;
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::tune_show::{Bar, SearchReport, assignments};
use crate::{Outcome, tune_options};
use lathe::space::Values;
use lathe::tune::{Comparator, Gold, Limits, ProgramTuned, ProgramTuning};
use serde::Serialize;
use std::path::Path;

/// A tuned program.
#[derive(Serialize)]
struct ProgramReport {
    program: String,
    params: Values,
    constants: Values,
    costs: Vec<f64>,
    interval: Option<(f64, f64)>,
    /// Costs are seconds.
    timed: bool,
    /// Where there are several objectives: every configuration that no other one is better than in all of them.
    front: Vec<(Values, Vec<f64>)>,
    #[serde(flatten)]
    search: SearchReport,
}

pub fn program(a: &TuneArgs, file: &Path, common: &Common) -> Outcome {
    for (given, option) in [
        (a.how.strategy.is_some(), "--strategy"),
        (!a.how.sizes.is_empty(), "-D"),
        (!a.how.params.is_empty(), "--param"),
        (!a.data.inputs.is_empty(), "--input"),
        (a.how.engine.is_some(), "--engine"),
        (a.how.specialize, "--specialize"),
        (a.how.cpu.is_some(), "--cpu"),
    ] {
        if given {
            let help = "arguments of directives follow the file: lathe tune saxpy.c 1024";
            return Err(tune_options::misplaced(
                format!("{option} is for kernels in files that end in .lathe"),
                help,
            )
            .into());
        }
    }
    if a.scripts.recorded.is_some() {
        for (given, option) in [
            (a.scripts.runs.is_some(), "--runs"),
            (a.scripts.gold.is_some(), "--gold"),
            (a.scripts.memory.is_some(), "--memory"),
            (a.scripts.jobs.is_some(), "--jobs"),
            (a.scripts.side_by_side, "--side-by-side"),
        ] {
            if given {
                let text = format!("{option} has no effect with --recorded, which runs nothing");
                return Err(tune_options::misplaced(text, "omit one of the two").into());
            }
        }
    }
    let described = lathe::tune::describe_program(file, &a.arguments)?;
    let read: Vec<Used> =
        described.files().into_iter().map(|f| Used::new(f, "a file of the program")).collect();
    apart(&tune_options::written(a), &read)?;
    let stop = match (tune_options::budget(a)?.map(lathe::tune::Stop::Duration), tune_options::until(a)?) {
        (Some(x), Some(y)) => Some(x.or(y)),
        (x, y) => x.or(y),
    };
    let gold = match &a.scripts.gold {
        Some(f) => {
            let tolerance = a.scripts.tolerance;
            if !(tolerance >= 0.0 && tolerance.is_finite()) {
                return Err(tune_options::misplaced(
                    format!("`{tolerance}` is not a tolerance"),
                    "give a number that is at least 0",
                )
                .into());
            }
            Some((Gold::read(f, Comparator::Relative(tolerance))?, a.scripts.result.clone()))
        }
        None => None,
    };
    let path = tune_options::store(a)?;
    lathe::tune::on_interrupt();
    let bar = Bar::new(described.program.cost_file.is_none() && a.scripts.recorded.is_none());
    let tuned = lathe::tune::tune_program(
        &described,
        ProgramTuning {
            stop,
            technique: a.technique.as_deref().map(lathe::tune::technique::by_name).transpose()?,
            seed: a.data.seed,
            store: Some(path.clone()),
            fresh: a.fresh,
            threads: target::threads(&a.data),
            jobs: a
                .scripts
                .jobs
                .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from),
            side_by_side: a.scripts.side_by_side,
            runs: a.scripts.runs.map(usize::from),
            negative: a.scripts.negative_costs,
            recorded: a.scripts.recorded.clone(),
            order: a.scripts.order.clone(),
            worker: tune_options::worker()?,
            device: a.how.device.clone(),
            limits: Limits { memory: a.scripts.memory.map(|m| m << 20) },
            first: tune_options::time(&a.scripts.timeout)?,
            gold,
        },
        |p| bar.show(p),
    );
    bar.clear();
    let tuned = tuned?;
    tune_options::trouble(tuned.found.store_trouble());
    tune_options::trouble(tuned.found.fault.as_ref());
    if let Some(picture) = &a.plot {
        let cost = if tuned.timed { "seconds" } else { "cost" };
        lathe::tune::plot(picture, &file.display().to_string(), cost, &tune_options::dots(&tuned.found))?;
    }
    if let Some(file) = &a.t4 {
        lathe::write_whole(file, lathe::tune::t4(&tuned.found, tuned.timed).as_bytes())?;
    }
    let report = report(file, &tuned, &path);
    if common.json {
        return say::json(&report);
    }
    show(&report);
    Ok(())
}

fn report(file: &Path, t: &ProgramTuned, store: &Path) -> ProgramReport {
    let best = t.found.best.as_ref();
    let history = &t.found.tuned.history;
    let front = t.found.tuned.front.iter().filter_map(|n| {
        let e = history.get(*n as usize - 1)?;
        Some((e.configuration.to_values(), e.outcome.cost()?.numbers().to_vec()))
    });
    let costs = best.map_or(Vec::new(), |b| b.1.cost.numbers().to_vec());
    ProgramReport {
        program: file.display().to_string(),
        params: best.map_or(Values::new(), |b| b.0.clone()),
        constants: t.constants.clone(),
        interval: best.and_then(|b| b.1.interval),
        timed: t.timed,
        front: if costs.len() > 1 { front.collect() } else { Vec::new() },
        costs,
        search: SearchReport::new(&t.found, t.space.size().to_string(), store),
    }
}

fn show(r: &ProgramReport) {
    let costs: Vec<String> =
        r.costs.iter().map(|c| if r.timed { seconds(*c) } else { c.to_string() }).collect();
    note!("{} {}: {}", r.program, assignments(&r.constants), assignments(&r.params));
    note!("  cost {}", costs.join(", "));
    if r.front.len() > 1 {
        note!("  {} Pareto-optimal configurations", r.front.len());
    }
    r.search.show();
}
