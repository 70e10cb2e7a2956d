//! `lathe check`: everything that a file claims.

use crate::args::CheckArgs;
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::{Outcome, Stop, render};
use lathe::{Failure, Machine, Program, ProgramReport};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

pub fn check(a: &CheckArgs, common: &Common) -> Outcome {
    let mut failed = false;
    let mut reports = Vec::new();
    examined(&a.files, |file, found| {
        let (ok, report) = match found {
            Ok((program, report)) => told(file, &program, &report, common),
            Err(f) => {
                render::print(&f.sources, &f.diagnostics);
                (false, json!({ "file": file.display().to_string(), "ok": false }))
            }
        };
        failed |= !ok;
        reports.push(report);
    });
    if common.json {
        say::json(&json!({ "files": reports, "ok": !failed }))?;
    }
    if failed { Err(Stop::Status(1)) } else { Ok(()) }
}

type Found = Result<(Program, ProgramReport), Failure>;

/// Examines files, several at once, and says what was found in their order.
fn examined(files: &[PathBuf], mut say: impl FnMut(&Path, Found)) {
    let machine = Machine::host();
    let one = |file: &PathBuf| -> Found {
        let program = Program::open(file)?;
        let report = lathe::check_program(&program, &machine);
        Ok((program, report))
    };
    let next = AtomicUsize::new(0);
    let work = |found: &Sender<(usize, Found)>| {
        while let Some((n, file)) = Some(next.fetch_add(1, Relaxed)).and_then(|n| Some((n, files.get(n)?))) {
            // Nobody listens any more only where saying it failed.
            let _ = found.send((n, one(file)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(files.len());
    let (sender, found) = channel();
    std::thread::scope(|scope| {
        let start = |_: usize| {
            let sender = sender.clone();
            let builder = std::thread::Builder::new().stack_size(lathe::schedule::STACK);
            builder.spawn_scoped(scope, move || work(&sender)).is_ok()
        };
        // What no thread could be had for is done by this one.
        if (0..workers).filter(|n| start(*n)).count() == 0 {
            work(&sender);
        }
        drop(sender);
        let (mut early, mut at) = (BTreeMap::new(), 0);
        for (n, result) in found {
            early.insert(n, result);
            while let Some(result) = early.remove(&at) {
                say(&files[at], result);
                at += 1;
            }
        }
    });
}

/// Prints what was found in a file. Gives whether all that it claims holds, and the report.
fn told(
    file: &Path,
    program: &Program,
    report: &ProgramReport,
    common: &Common,
) -> (bool, serde_json::Value) {
    render::print(&program.sources, &program.warnings);
    render::print(&program.sources, &report.warnings);
    for f in &report.failures {
        render::print(&f.sources, &f.diagnostics);
    }
    if !common.json {
        let rules = match (report.rules, report.rules_proved) {
            (0, _) => String::new(),
            (1, 1) => ", 1 rule (proved)".to_string(),
            (1, _) => ", 1 rule (tested)".to_string(),
            (n, p) if n == p => format!(", {n} rules (proved)"),
            (n, p) => format!(", {n} rules ({p} proved)"),
        };
        let helpers = match report.helpers {
            0 => String::new(),
            1 => ", 1 fun for others".to_string(),
            n => format!(", {n} funs for others"),
        };
        note!(
            "{}: {} kernel{}{helpers}{rules}, {} strateg{} ({} step{}), {} test{}: {}",
            file.display(),
            report.kernels,
            if report.kernels == 1 { "" } else { "s" },
            report.strategies,
            if report.strategies == 1 { "y" } else { "ies" },
            report.steps,
            if report.steps == 1 { "" } else { "s" },
            report.tests,
            if report.tests == 1 { "" } else { "s" },
            if report.failures.is_empty() { "ok" } else { "FAILED" }
        );
    }
    if common.time_passes {
        target::print_times(&report.times);
    }
    let told = json!({
        "file": file.display().to_string(),
        "ok": report.failures.is_empty(),
        "kernels": report.kernels,
        "helpers": report.helpers,
        "rules": report.rules,
        "rules_proved": report.rules_proved,
        "strategies": report.strategies,
        "steps": report.steps,
        "tests": report.tests,
    });
    (report.failures.is_empty(), told)
}
