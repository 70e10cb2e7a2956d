//! `lathe tune`: what it is asked to do, and the search of a kernel's strategy.

use crate::args::{TargetArgs, TuneArgs};
use crate::files::{Used, apart};
use crate::say;
use crate::target::{self, Common};
use crate::tune_options::{budget, dots, misplaced, named, store, trouble, until, worker, written};
use crate::tune_show::{Bar, KernelReport};
use crate::{Outcome, Stop, tune_program, tune_space, tune_store};
use lathe::tune::{self, KernelTuning};
use lathe::{Build, Diagnostic, Failure};

pub fn tune(a: &TuneArgs, common: &Common) -> Outcome {
    let manage = &a.manage;
    files(a)?;
    if manage.list
        || manage.show.is_some()
        || manage.export.is_some()
        || manage.import.is_some()
        || manage.forget.is_some()
    {
        if let Some(t) = &a.target {
            let text = format!("`{t}` is not tuned by a command that manages the store");
            return Err(Diagnostic::error(tune::codes::OPTIONS, text).help("use two commands").into());
        }
        if a.look.space.is_some() {
            let text = "--space has no effect on a command that manages the store";
            return Err(misplaced(text, "use two commands").into());
        }
        return tune_store::manage(a, common);
    }
    if let Some(file) = &a.look.space {
        return tune_space::look(a, file, common);
    }
    let Some(t) = &a.target else {
        let d = Diagnostic::error(tune::codes::OPTIONS, "nothing to tune");
        return Err(d
            .help("lathe tune FILE:KERNEL --strategy S -D SIZE=N…, or --list, --show, --export, --import, --forget")
            .into());
    };
    let (file, _) = lathe::program::split_target(t);
    if file.extension().is_some_and(|e| e == "lathe" || e == "mdh" || e == "tree") {
        if let Some(unused) = a.arguments.first() {
            return Err(misplaced(
                format!("`{unused}` is not an argument of a kernel"),
                "sizes are given by -D",
            )
            .into());
        }
        for (given, option) in [
            (a.scripts.gold.is_some(), "--gold"),
            (a.scripts.memory.is_some(), "--memory"),
            (a.scripts.jobs.is_some(), "--jobs"),
            (a.scripts.side_by_side, "--side-by-side"),
            (a.scripts.order.is_some(), "--order"),
            (a.scripts.recorded.is_some(), "--recorded"),
            (a.scripts.runs.is_some(), "--runs"),
            (a.scripts.negative_costs, "--negative-costs"),
        ] {
            if given {
                let help = "a kernel has one cost, its run time, and is compared with its own reference run";
                return Err(
                    misplaced(format!("{option} applies only to programs that scripts run"), help).into()
                );
            }
        }
        return kernel(a, common);
    }
    tune_program::program(a, &file, common)
}

/// What is written is none of what options name to be read; what the target reads is known once it is open.
fn files(a: &TuneArgs) -> Outcome {
    let inputs = a.data.inputs.iter().map(|(n, f)| Used::new(f, format!("the input {n}")));
    let kept = store(a).ok().map(|f| Used::new(f, "the store of results"));
    let read = [
        named(&a.scripts.recorded, "--recorded"),
        named(&a.scripts.gold, "--gold"),
        named(&a.manage.import, "--import"),
    ];
    let read: Vec<Used> = read.concat().into_iter().chain(inputs).chain(kept).collect();
    apart(&written(a), &read)
}

/// The hidden command that measures.
pub fn work() -> Outcome {
    // A broken pipe means that the tuner is gone.
    tune::work().map_err(|_| Stop::Status(1))
}

fn kernel(a: &TuneArgs, common: &Common) -> Outcome {
    let how = &a.how;
    let t = TargetArgs {
        target: a.target.clone().unwrap_or_default(),
        how: how.clone(),
        trust_assumptions: false,
    };
    let (program, kernel) = target::open(&t)?;
    apart(&written(a), &target::read(&program, how, &[]))?;
    let machine = target::machine_here(how)?;
    let given = target::given(how, &a.data)?;
    let fixed = target::once("--param", &how.params)?;
    let threads = target::threads(&a.data);
    let engine = target::engine(how)?;
    let path = store(a)?;
    tune::on_interrupt();
    let bar = Bar::new(true);
    let tuned = tune::tune_kernel(
        &program,
        &kernel,
        KernelTuning {
            strategy: how.strategy.clone(),
            given,
            fixed: fixed.iter().map(|(n, v)| (n.clone(), lathe::space::parse_value(v))).collect(),
            build: Build { engine, ..Build::default() }.on(&machine),
            machine,
            specialize: how.specialize,
            threads,
            model: target::model(how),
            budget: budget(a)?,
            stop: until(a)?,
            technique: a.technique.as_deref().map(tune::technique::by_name).transpose()?,
            seed: a.data.seed,
            store: Some(path.clone()),
            fresh: a.fresh,
            worker: worker()?,
        },
        |p| bar.show(p),
    );
    bar.clear();
    let tuned = tuned?;
    trouble(tuned.found.store_trouble());
    trouble(tuned.found.fault.as_ref());
    if let Some(file) = &a.plot {
        let at = |d: Diagnostic| Stop::from(Failure::one(&program.sources, d));
        let title = format!("{} {}", kernel.name, tuned.strategy);
        tune::plot(file, &title, "seconds", &dots(&tuned.found)).map_err(at)?;
    }
    if let Some(file) = &a.t4 {
        lathe::write_whole(file, tune::t4(&tuned.found, true).as_bytes())?;
    }
    let report = KernelReport::new(&kernel.name, &tuned, threads, engine.name(), &path);
    if common.json {
        say::json(&report)?;
    } else {
        report.show();
    }
    Ok(())
}
