//! What the kinds of `lathe tune` have in common: options, warnings, pictures.

use crate::Stop;
use crate::args::TuneArgs;
use crate::files::Used;
use lathe::Diagnostic;
use lathe::tune::{self, Dot, WorkerCommand};
use std::path::PathBuf;
use std::time::Duration;

/// Options that have no meaning for what is tuned.
pub fn misplaced(what: impl Into<String>, help: &str) -> Diagnostic {
    Diagnostic::error(tune::codes::OPTIONS, what).help(help)
}

/// `--budget` as a length of time.
pub fn budget(a: &TuneArgs) -> Result<Option<Duration>, Stop> {
    a.budget.as_deref().map(time).transpose()
}

/// A length of time, in seconds where no unit is given.
pub fn time(text: &str) -> Result<Duration, Stop> {
    let with_unit = if text.trim().parse::<f64>().is_ok() { format!("{text}s") } else { text.to_string() };
    match tune::stop_text::parse(&with_unit) {
        Ok(tune::Stop::Duration(d)) if d > Duration::ZERO => Ok(d),
        _ => {
            let text = format!("`{text}` is not a duration");
            Err(Diagnostic::error(tune::codes::OPTIONS, text)
                .help("give a positive duration, for example 60s or 5min")
                .into())
        }
    }
}

/// `--until` as a rule.
pub fn until(a: &TuneArgs) -> Result<Option<tune::Stop>, Stop> {
    Ok(a.until.as_deref().map(tune::stop_text::parse).transpose()?)
}

/// The files that options name and a search writes.
pub fn written(a: &TuneArgs) -> Vec<Used> {
    let export = a.manage.export.clone().filter(|f| f.as_os_str() != "-");
    [named(&a.plot, "--plot"), named(&a.t4, "--t4"), named(&export, "--export")].concat()
}

/// The file of an option.
pub fn named(file: &Option<PathBuf>, what: &str) -> Vec<Used> {
    file.iter().map(|f| Used::new(f, what)).collect()
}

/// Where results are kept.
pub fn store(a: &TuneArgs) -> Result<PathBuf, Stop> {
    Ok(tune::store::path(a.store.as_deref())?)
}

/// The result is valid, but the store does not have all of it: a warning.
pub fn trouble(d: Option<&Diagnostic>) {
    if let Some(d) = d {
        let warning = Diagnostic { severity: lathe::Severity::Warning, ..d.clone() };
        crate::render::print(&lathe::SourceMap::new(), &[warning]);
    }
}

/// The search as points of a picture.
pub fn dots(found: &tune::Found) -> Vec<Dot> {
    found.tuned.history.iter().map(Dot::of).collect()
}

/// How measuring processes are started: as this program's hidden command.
pub fn worker() -> Result<WorkerCommand, Diagnostic> {
    let program = std::env::current_exe().map_err(|e| {
        Diagnostic::error(
            lathe::codes::UNAVAILABLE,
            format!("cannot determine the path of this program: {e}"),
        )
    })?;
    Ok(WorkerCommand { program: program.into(), arguments: vec!["tune-worker".into()] })
}
