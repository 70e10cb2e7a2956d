//! The `lathe` command.
//!
//! Exit status: 0 done, 1 the user's program, strategy or data is at fault (with a diagnostic), 2 wrong usage,
//! 3 the machine lacks something, 101 a bug in Lathe.

mod args;
mod bench;
mod check;
mod devices;
mod doctor;
mod emit;
mod explain;
mod files;
mod fmt;
mod grad;
mod opt;
mod render;
mod run;
mod say;
mod target;
mod tune;
mod tune_options;
mod tune_program;
mod tune_show;
mod tune_space;
mod tune_store;

use args::{Cli, Command};
use clap::Parser;
use lathe::Failure;
use say::note;
use std::io::Write;
use std::process::ExitCode;

/// What a command ends with: done, or an exit status after its messages were printed.
pub type Outcome = Result<(), Stop>;

/// Why a command ends early.
#[derive(Debug)]
pub enum Stop {
    Failed(Box<Failure>),
    /// Everything is printed already.
    Status(u8),
}

impl From<Failure> for Stop {
    fn from(f: Failure) -> Stop {
        Stop::Failed(Box::new(f))
    }
}

impl From<lathe::Diagnostic> for Stop {
    fn from(d: lathe::Diagnostic) -> Stop {
        Stop::Failed(Box::new(Failure::bare(d)))
    }
}

/// A panic is never the user's fault: the message says so, and the process ends with status 101.
fn report_defects() {
    std::panic::set_hook(Box::new(|info| {
        // Standard error may be closed, and a panic in here would hide the first one.
        let _ = writeln!(std::io::stderr(), "{}", defect(info));
    }));
}

/// The message about a panic.
fn defect(info: impl std::fmt::Display) -> String {
    format!("lathe: {info}\nThis is a bug in Lathe: please report it with the command and its files.")
}

fn main() -> ExitCode {
    report_defects();
    status_of(command)
}

/// Runs the work on a thread with room for deep trees; a panic is a bug, status 101.
fn status_of(work: impl FnOnce() -> ExitCode + Send + 'static) -> ExitCode {
    let work = std::thread::Builder::new().stack_size(lathe::parallel::STACK).spawn(work);
    match work.map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The hook has reported the panic.
        Ok(Err(_)) => ExitCode::from(101),
        Err(e) => {
            note!("lathe: the system could not create a thread: {e}");
            ExitCode::from(3)
        }
    }
}

/// Does what the command line says.
fn command() -> ExitCode {
    let cli = Cli::parse();
    if let Some(code) = &cli.explain {
        return finish(explain::code(code));
    }
    let Some(command) = cli.command else {
        let mut cmd = <Cli as clap::CommandFactory>::command();
        // Help goes to standard error: nothing was asked for.
        note!("{}", cmd.render_help());
        return ExitCode::from(2);
    };
    let common = target::Common { json: cli.json, time_passes: cli.time_passes };
    if cli.json {
        render::print_all();
    }
    if let Err(d) = cli.link.iter().try_for_each(|l| lathe::externals::link(l)) {
        return finish(Err(d.into()));
    }
    let outcome = match command {
        Command::Run(a) => run::run(&a, &common),
        Command::Bench(a) => bench::bench(&a, &common),
        Command::Tune(a) => tune::tune(&a, &common),
        Command::TuneWorker => tune::work(),
        Command::Check(a) => check::check(&a, &common),
        Command::Explain(a) => explain::explain(&a, &common),
        Command::Emit(a) => emit::emit(&a, &common),
        Command::Opt(a) => opt::opt(&a, &common),
        Command::Fmt(a) => fmt::fmt(&a),
        Command::Grad(a) => grad::grad(&a, &common),
        Command::Doctor => doctor::doctor(&common),
        Command::Devices => devices::devices(&common),
    };
    finish(outcome)
}

/// Prints why a command failed, and turns that into the exit status.
fn finish(outcome: Outcome) -> ExitCode {
    let status = status(outcome);
    render::left_out();
    status
}

fn status(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Status(s)) => ExitCode::from(s),
        Err(Stop::Failed(f)) => {
            render::print(&f.sources, &f.diagnostics);
            let lacking = f.diagnostics.iter().any(|d| lathe::codes::LACKING.contains(&d.code));
            ExitCode::from(if lacking { 3 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_has_a_status_and_a_message_of_its_own() {
        let done = status_of(|| ExitCode::from(7));
        assert_eq!(format!("{done:?}"), format!("{:?}", ExitCode::from(7)));
        report_defects();
        let failed = status_of(|| panic!("on purpose"));
        assert_eq!(format!("{failed:?}"), format!("{:?}", ExitCode::from(101)));
        let _ = std::panic::take_hook();
        let info = defect("it broke");
        assert!(info.contains("it broke") && info.contains("bug in Lathe"), "{info}");
    }
}
