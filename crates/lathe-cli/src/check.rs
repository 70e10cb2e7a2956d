//! `lathe check`: checks everything in a file.

use crate::args::CheckArgs;
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::{Outcome, Stop, render};
use lathe::parallel::in_order;
use lathe::{Failure, Machine, Program, ProgramReport};
use serde_json::json;
use std::path::{Path, PathBuf};

pub fn check(a: &CheckArgs, common: &Common) -> Outcome {
    let mut failed = false;
    let mut reports = Vec::new();
    let machine = Machine::host();
    let examine = |file: &PathBuf| -> Result<(Program, ProgramReport), Failure> {
        let program = Program::open(file)?;
        let mut report = lathe::check_program(&program, &machine);
        if !a.debug {
            report.printed.clear();
        }
        Ok((program, report))
    };
    let mut files = a.files.iter();
    in_order(&a.files, examine, |found| {
        let Some(file) = files.next() else { return };
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
    report.printed.iter().for_each(|line| note!("{line}"));
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
            1 => ", 1 fun used by others".to_string(),
            n => format!(", {n} funs used by others"),
        };
        let unused = match report.unused {
            0 => String::new(),
            1 => ", 1 fun that cannot be run".to_string(),
            n => format!(", {n} funs that cannot be run"),
        };
        note!(
            "{}: {} kernel{}{helpers}{unused}{rules}, {} strateg{} ({} step{}), {} test{}: {}",
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
        "unused": report.unused,
        "rules": report.rules,
        "rules_proved": report.rules_proved,
        "strategies": report.strategies,
        "steps": report.steps,
        "tested": report.tested,
        "tests": report.tests,
    });
    (report.failures.is_empty(), told)
}
