//! `lathe check`: every strategy of a file is applied, every test of the file is run, by the interpreter and in
//! machine code.

use super::{Runner, run_test};
use crate::applied::{How, Version};
use crate::build::{Build, compile_version, version_for};
use crate::codes;
use crate::parallel::each;
use crate::program::{Failure, Program};
use crate::report::EvidenceCounts;
use crate::schedule::Schedule;
use crate::which::schedule;
use lathe_diagnostics::{Diagnostic, FileId, Severity, Span};
use lathe_ir::Executor;
use lathe_lang::{Fun, TestDef};
use lathe_runtime::{Engine, Pool};
use lathe_strategy::{Definition, Strategy};
use lathe_syntax::{KERNELS, SOURCE, Tok, lex};
use lathe_target::Machine;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// What `lathe check` found in a file.
#[derive(Debug, Default)]
pub struct ProgramReport {
    /// Kernels and funs that can be run.
    pub kernels: usize,
    /// Funs that are only for other funs: a kernel cannot take their parameters or give their result.
    pub helpers: usize,
    /// Such funs that no other one in these files uses.
    pub unused: usize,
    pub rules: usize,
    /// Of these; the others are tested.
    pub rules_proved: usize,
    pub strategies: usize,
    pub steps: usize,
    /// Claims of these that were only tested, not proved.
    pub tested: usize,
    pub tests: usize,
    /// What kernels printed in tests, in the interpreter.
    pub printed: Vec<String>,
    pub failures: Vec<Failure>,
    /// What could not be checked, and why.
    pub warnings: Vec<Diagnostic>,
    pub times: Vec<(String, f64)>,
}

/// The strategies that a test is run with, where the kernel has them.
const TESTED: [&str; 2] = ["naive", "fast"];

/// Applies every strategy to every kernel or fun that it is for, and runs every test: by the interpreter on the kernel as
/// written, and in machine code of the default engine with the strategies `naive` and `fast`, all against the
/// test's own formula or data. A strategy for any kernel must be accepted by at least one of the file.
pub fn check_program(program: &Program, machine: &Machine) -> ProgramReport {
    let mut report = ProgramReport {
        rules: program.rules.len(),
        rules_proved: program.rules.values().filter(|d| d.is_proved()).count(),
        ..ProgramReport::default()
    };
    without_kernel(program, &mut report);
    let start = Instant::now();
    let kernels = program.lang.kernels.iter().map(|k| &*k.name);
    let kernels: Vec<&str> = kernels.filter(|k| free_size(program, k).is_none()).collect();
    report.kernels = kernels.len();
    let is_general = |d: &&Definition| d.target.is_none() && d.span.is_some_and(|s| program.is_own(s));
    let general: Vec<&Definition> = program.lang.strategies.iter().filter(is_general).collect();
    let mut tasks: Vec<(&str, &Definition)> = Vec::new();
    for k in &kernels {
        let all = program.strategies(k);
        let own: Vec<&&Definition> = all.iter().filter(|d| d.target.as_deref() == Some(k)).collect();
        let hidden = |d: &&&Definition| !own.iter().any(|o| o.name == d.name);
        let naive = all.iter().filter(|d| d.target.is_none() && d.name == "naive").filter(hidden).take(1);
        tasks.extend(own.iter().map(|d| (*k, **d)).chain(naive.map(|d| (*k, *d))));
    }
    report.strategies = tasks.len() + general.len();
    let general_tasks: Vec<(&str, &Definition)> = general
        .iter()
        .filter(|d| d.params.iter().all(|p| p.default.is_some()))
        .flat_map(|d| kernels.iter().map(|k| (*k, *d)))
        .collect();
    let all: Vec<_> = tasks.iter().chain(&general_tasks).copied().collect();
    let endless = Endless::default();
    let mut done =
        each(&all, |(kernel, d)| endless.or(program, kernel, d, || apply(program, kernel, d, machine)));
    let tried = done.split_off(tasks.len());
    let mut schedules: Vec<Schedule> = Vec::new();
    for result in done {
        match result {
            Ok(s) => {
                report.steps += s.steps().count();
                report.tested += EvidenceCounts::of(s.steps()).tested;
                let warning = |d: &Diagnostic| Diagnostic { severity: Severity::Warning, ..d.clone() };
                report.warnings.extend(s.unproved.iter().map(warning));
                match no_engine(&s, crate::tree::is_tree(&program.path)) {
                    None => schedules.push(s),
                    Some(d) if d.severity == Severity::Warning => report.warnings.push(d),
                    Some(d) => report.failures.push(Failure::one(&program.sources, d)),
                }
            }
            Err(f) => report.failures.push(f),
        }
    }
    fits_somewhere(program, &general, general_tasks.iter().map(|t| t.1).zip(tried), &mut report);
    report.times.push(("strategies".to_string(), start.elapsed().as_secs_f64()));

    let start = Instant::now();
    report.tests = program.lang.tests.len();
    // The interpreter first: what it finds is wrong is not looked for in machine code.
    let run = |t: &TestDef| run_test(program, t, Runner::Interpreter);
    let (mut printed, mut wrong) = (Vec::new(), Vec::new());
    for (t, result) in program.lang.tests.iter().zip(each(&program.lang.tests, run)) {
        match result {
            Ok(lines) => {
                printed.extend(lines.into_iter().map(|l| format!("test \"{}\": {l}", t.name)));
                wrong.push(None);
            }
            Err(f) => wrong.push(Some(f)),
        }
    }
    report.printed = printed;
    report.times.push(("tests in the interpreter".to_string(), start.elapsed().as_secs_f64()));
    let start = Instant::now();
    let right = program.lang.tests.iter().zip(&wrong).filter(|(_, wrong)| wrong.is_none()).map(|(t, _)| t);
    let right: Vec<&TestDef> = right.collect();
    // What takes decisions for sizes is made again for each test.
    let decides =
        |s: &Schedule| s.versions.iter().any(|v| !v.notes.is_empty() || !v.taken.computes.is_empty());
    let (decided, others): (Vec<Schedule>, Vec<Schedule>) = schedules.into_iter().partition(decides);
    for t in &right {
        for s in decided.iter().filter(|s| *s.plain.name == *t.kernel) {
            let how = How {
                strategy: Some(s.strategy.clone()),
                sizes: t.sizes.iter().cloned().collect(),
                model: model(&s.strategy),
                ..How::default()
            };
            let made = program.kernel(Some(&t.kernel)).and_then(|f| schedule(program, f, &how, machine));
            match made {
                Ok(s) => in_machine_code(program, vec![t], &[s], &mut report),
                Err(f) => report.failures.push(f),
            }
        }
    }
    in_machine_code(program, right, &others, &mut report);
    report.failures.extend(wrong.into_iter().flatten());
    report.times.push(("tests in machine code".to_string(), start.elapsed().as_secs_f64()));
    report
}

/// Runs tests with the strategies of [`TESTED`], as far as those were accepted. Each version of a schedule that some
/// test's sizes ask for is compiled once, without optimization: what is tested is the meaning, which that does not
/// change.
fn in_machine_code(
    program: &Program,
    tests: Vec<&TestDef>,
    schedules: &[Schedule],
    report: &mut ProgramReport,
) {
    let pool = match Pool::new(0) {
        Ok(pool) => pool,
        Err(d) => return report.failures.push(Failure::one(&program.sources, d)),
    };
    let mut versions: Vec<(&Schedule, usize, Vec<&TestDef>)> = Vec::new();
    for t in tests {
        let decided = |s: &Schedule| s.versions.iter().any(|v| !v.taken.computes.is_empty());
        let tested = |s: &&Schedule| {
            *s.plain.name == *t.kernel && (TESTED.contains(&s.strategy.as_str()) || decided(s))
        };
        for s in schedules.iter().filter(tested) {
            let version = version_for(s, &t.sizes);
            match versions.iter_mut().find(|v| std::ptr::eq(v.0, s) && v.1 == version) {
                Some(v) => v.2.push(t),
                None => versions.push((s, version, vec![t])),
            }
        }
    }
    let build = Build { opt_level: 0, ..Build::default() };
    let found = each(&versions, |(schedule, version, tests)| {
        let how = format!("in machine code, with the strategy `{}`", schedule.strategy);
        let built = match compile_version(schedule, *version, &build) {
            Ok(built) => built,
            Err(d) => return vec![Failure::one(&program.sources, d.note(how))],
        };
        let run = |t: &&TestDef| {
            let mut f = run_test(program, t, Runner::Built { built: &built, pool: &pool }).err()?;
            f.diagnostics = f.diagnostics.into_iter().map(|d| d.note(how.clone())).collect();
            Some(f)
        };
        tests.iter().filter_map(run).collect()
    });
    report.failures.extend(found.into_iter().flatten());
}

/// Why no engine makes code of a schedule: a warning for what is meant for devices, and for a tree that is written as
/// only the interpreter runs it.
fn no_engine(s: &Schedule, is_tree: bool) -> Option<Diagnostic> {
    let refused = |v: &Version| Engine::any_takes(&s.module, &v.func).err();
    let (refused, why) = s.versions.iter().find_map(|v| Some((v, refused(v)?)))?;
    let mut device = false;
    lathe_ir::visit::walk(&refused.func.body, &mut |s, _| {
        let host = |e: &Executor| e.is_ordered() || matches!(e, Executor::Vector(_) | Executor::Cpu);
        device |= s.as_loop().is_some_and(|l| !host(&l.exec));
        true
    });
    let as_written = is_tree && Engine::any_takes(&s.module, &s.plain).is_err();
    let severity = if device || as_written { Severity::Warning } else { Severity::Error };
    let why = why.note(format!("in the strategy `{}`: no engine supports the result", s.strategy));
    Some(Diagnostic { severity, ..why })
}

/// Why a fun that has a translation is for other funs only all the same: a size that no array of a call tells.
fn free_size(program: &Program, name: &str) -> Option<Diagnostic> {
    program.lang.funs.get(name)?;
    let func = program.lang.module.functions.get(name)?;
    lathe_engine::check_table(&program.lang.module, func).err().map(lathe_engine::needs::free_size)
}

/// Funs of the file that cannot be run by themselves: helpers of other funs are counted, all others are at fault, and
/// so is a strategy for one, since nothing can be checked of it.
fn without_kernel(program: &Program, report: &mut ProgramReport) {
    for (name, fun) in program.lang.funs.iter().filter(|f| program.is_own(f.1.span)) {
        let free = free_size(program, name);
        let Some(why) = fun.no_kernel.as_ref().or(free.as_ref()) else { continue };
        let fail = |d: Diagnostic| Failure::one(&program.sources, d);
        let all = &program.lang.strategies;
        if let Some(d) = all.iter().find(|d| d.target.as_deref() == Some(name.as_str())) {
            let text = format!("so the strategy `{}` cannot be checked for it", d.name);
            report.failures.push(fail(why.clone().note(text)));
        } else if free.is_some() || fun.is_helper() {
            if is_used(program, name, fun) {
                report.helpers += 1;
                continue;
            }
            report.unused += 1;
            let text = format!("nothing uses `{name}`, and it cannot be run on its own");
            report.warnings.push(Diagnostic { severity: Severity::Warning, ..why.clone().note(text) });
        } else {
            report.failures.push(fail(why.clone().note(format!("so `{name}` cannot be run on its own"))));
        }
    }
}

/// Whether the name of a fun stands anywhere else in the files.
fn is_used(program: &Program, name: &str, fun: &Fun) -> bool {
    let own = fun.span;
    let mut files = (0..).map(FileId).take(program.sources.texts().count());
    files.any(|file| {
        let text = program.sources.text(file);
        let elsewhere = |s: Span| s.file != own.file || s.end <= own.start || own.end <= s.start;
        let tokens = lex(&SOURCE, &KERNELS, file, text).tokens;
        tokens.iter().any(|t| t.tok == Tok::Name(name) && elsewhere(t.span))
    })
}

/// Strategies that did not end, by kernel. What begins with one of them does not end either, and is not tried.
#[derive(Default)]
struct Endless(Mutex<HashMap<(String, String), Failure>>);

impl Endless {
    fn or(
        &self,
        program: &Program,
        kernel: &str,
        d: &Definition,
        apply: impl FnOnce() -> Result<Schedule, Failure>,
    ) -> Result<Schedule, Failure> {
        let at = |name: &str| (kernel.to_string(), name.to_string());
        let all = program.strategies(kernel);
        // Calls mean this definition where no other one has its name.
        let one = |name: &str| all.iter().filter(|d| d.name == name).count() == 1;
        let step = |name: &str| lathe_transform::rule(name).is_some();
        let first = first_call(&d.body).filter(|name| one(name) && !step(name));
        let known = first.and_then(|name| Some((name, self.0.lock().ok()?.get(&at(name)).cloned()?)));
        let made = match known {
            Some((first, mut f)) => {
                let note = |d: Diagnostic| d.note(format!("the strategy `{first}` did not end"));
                f.diagnostics = f.diagnostics.into_iter().map(note).collect();
                Err(f)
            }
            None => apply(),
        };
        if let Err(f) = &made
            && d.params.is_empty()
            && one(&d.name)
            && f.diagnostics.iter().any(|d| d.code == lathe_strategy::codes::DIVERGES)
            && let Ok(mut all) = self.0.lock()
        {
            all.entry(at(&d.name)).or_insert_with(|| f.clone());
        }
        made
    }
}

/// The definition that a strategy runs first, on the very tree that it is given.
fn first_call(s: &Strategy) -> Option<&str> {
    match s {
        Strategy::Call { name, args, .. } => args.is_empty().then_some(name),
        Strategy::Seq(all) => all.first().and_then(first_call),
        _ => None,
    }
}

fn apply(program: &Program, kernel: &str, d: &Definition, machine: &Machine) -> Result<Schedule, Failure> {
    let func = program.kernel(Some(kernel))?;
    let how = How { strategy: Some(d.name.clone()), model: model(&d.name), ..How::default() };
    schedule(program, func, &how, machine)
}

/// The model of decisions that name none: what is for devices has a device's, so that what is checked is what they run,
/// though on a processor here.
fn model(strategy: &str) -> Option<String> {
    (strategy == crate::which::DEVICE).then(|| "cuda".to_string())
}

/// Refuses strategies for any kernel that no kernel of the file accepts; says which cannot be tried.
fn fits_somewhere<'a>(
    program: &Program,
    general: &[&Definition],
    tried: impl Iterator<Item = (&'a Definition, Result<Schedule, Failure>)>,
    report: &mut ProgramReport,
) {
    let mut refused: Vec<(&str, Option<Failure>)> = Vec::new();
    for (d, result) in tried {
        let at = match refused.iter().position(|r| r.0 == d.name) {
            Some(at) => at,
            None => {
                refused.push((&d.name, result.err()));
                if refused.last().is_some_and(|r| r.1.is_none()) {
                    report.steps += 1;
                }
                continue;
            }
        };
        if result.is_ok() {
            refused[at].1 = None;
        }
    }
    for d in general {
        let span = d.span;
        let mark = |diagnostic: Diagnostic| match span {
            Some(s) => diagnostic.at(s, "this strategy"),
            None => diagnostic,
        };
        match refused.iter_mut().find(|r| r.0 == d.name) {
            Some((_, Some(f))) => {
                let mut e = mark(Diagnostic::error(
                    codes::FITS_NOWHERE,
                    format!("the strategy `{}` applies to no kernel of this file", d.name),
                ));
                for why in &f.diagnostics {
                    e = e.note(format!("{}: {}", why.code, why.message));
                }
                let e = e.help("specify its kernel: `strategy … for KERNEL = …`, or remove it");
                report.failures.push(Failure::one(&program.sources, e));
            }
            Some(_) => {}
            None => {
                let open: Vec<String> = d
                    .params
                    .iter()
                    .filter(|p| p.default.is_none())
                    .map(|p| format!("`{}`", p.name))
                    .collect();
                if !called(program, &d.name) {
                    let e = Diagnostic::warning(
                        codes::FITS_NOWHERE,
                        format!("the strategy `{}` was not checked: nothing calls it", d.name),
                    );
                    let e = mark(e).help(format!("give {} a default, or use it", open.join(", ")));
                    report.warnings.push(e);
                }
            }
        }
    }
}

/// Whether a strategy of the file calls the definition.
fn called(program: &Program, name: &str) -> bool {
    program.lang.strategies.iter().any(|d| d.name != name && d.body.calls(name))
}
