//! A folder in which one configuration at a time is compiled and run.

use super::step::{Step, Text};
use super::{Scripts, Tokens, substitute};
use crate::codes;
use crate::worker::{Ended, Fault, Finished, run};
use lathe_diagnostics::Diagnostic;
use lathe_space::Values;
use lathe_tune::{Cost, Invalid, Why};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What all places share.
#[derive(Debug)]
pub(super) struct Job {
    pub scripts: Scripts,
    pub run: Step,
    pub compile: Option<Step>,
    pub source: Option<Text>,
}

impl Job {
    /// The files that are written anew for each configuration.
    fn written(&self) -> impl Iterator<Item = &Text> {
        let steps = [Some(&self.run), self.compile.as_ref()];
        let texts = steps.into_iter().flatten().filter_map(|s| match s {
            Step::Script(t) => Some(t),
            Step::Command(_) => None,
        });
        texts.chain(&self.source)
    }
}

/// A folder of its own, which ends with this.
#[derive(Debug)]
pub(super) struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    /// With everything of the program's folder at the same relative paths.
    pub fn new(job: &Job) -> Result<Place, Diagnostic> {
        let scratch = tempfile::Builder::new().prefix("lathe-tune-").tempdir().map_err(|e| {
            Diagnostic::error(codes::SCRIPT, format!("no folder to work in can be made: {e}"))
        })?;
        let place = Place { scratch };
        let written: Vec<&Path> = job.written().map(|t| t.name.as_path()).collect();
        let cost = job.scripts.cost_file.as_deref();
        link_below(&job.scripts.folder, place.scratch.path(), Path::new(""), &written, cost)
            .map_err(|e| place.io(&e))?;
        Ok(place)
    }

    fn io(&self, e: &std::io::Error) -> Diagnostic {
        Diagnostic::error(codes::SCRIPT, format!("the folder `{}`: {e}", self.scratch.path().display()))
    }

    /// Writes the files of a configuration, and compiles it.
    pub fn compile(&self, job: &Job, values: &Values) -> Result<(), Fault> {
        self.write(job, values).map_err(|e| self.io(&e))?;
        if let Some(compile) = &job.compile {
            let first = job.scripts.first;
            let done = self.step(job, compile, values, first)?;
            failed("compiling", &done, first, Why::Compile)?;
        }
        Ok(())
    }

    fn write(&self, job: &Job, values: &Values) -> std::io::Result<()> {
        for t in job.written() {
            let tokens = Tokens::of(&t.name.to_string_lossy(), &t.text);
            let path = self.scratch.path().join(&t.name);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, substitute(&t.text, values, tokens))?;
            std::fs::set_permissions(&path, t.permissions.clone())?;
        }
        Ok(())
    }

    fn step(&self, job: &Job, step: &Step, values: &Values, time: Duration) -> Result<Finished, Fault> {
        let mut command = match step {
            Step::Script(t) => Command::new(self.scratch.path().join(&t.name)),
            Step::Command(text) => {
                let mut c = Command::new("sh");
                c.arg("-c").arg(substitute(text, values, Tokens::Shell));
                c
            }
        };
        command.current_dir(self.scratch.path()).env("LATHE_FOLDER", &job.scripts.folder);
        for (name, value) in values {
            if !name.is_empty() && !name.contains(['=', '\0']) {
                command.env(name, value.to_string().replace('\0', ""));
            }
        }
        let mut tries = 0;
        loop {
            match run(&mut command, job.scripts.limits, time) {
                Ok(f) if f.ended == Ended::Interrupted => return Err(Fault::Interrupted),
                Ok(f) => return Ok(f),
                // Another thread that starts a process at this moment holds the file open for writing.
                Err(e) if e.raw_os_error() == Some(libc::ETXTBSY) && tries < 200 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(e) => return Err(cannot_run(step, &e).into()),
            }
        }
    }

    /// One run: its cost.
    pub fn once(
        &self,
        job: &Job,
        values: &Values,
        time: Duration,
        check: bool,
    ) -> Result<(Cost, f64), Fault> {
        let cost_file = job.scripts.cost_file.as_ref().map(|f| self.scratch.path().join(f));
        if let Some(f) = &cost_file {
            match std::fs::remove_file(f) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(self.io(&e).into()),
                _ => {}
            }
        }
        let done = self.step(job, &job.run, values, time)?;
        failed("the run", &done, time, Why::Runtime)?;
        if let Some((gold, file)) = job.scripts.gold.as_ref().filter(|_| check) {
            match file {
                None => gold.check_text(&done.output)?,
                Some(f) => {
                    let text = std::fs::read_to_string(self.scratch.path().join(f)).map_err(|e| {
                        Invalid::new(Why::Wrong, format!("the result `{}`: {e}", f.display()))
                    })?;
                    gold.check_text(&text)?;
                }
            }
        }
        let Some(f) = &cost_file else { return Ok((done.seconds.into(), done.seconds)) };
        let text = std::fs::read_to_string(f).map_err(|e| {
            Invalid::new(Why::Runtime, format!("the cost file `{}` was not written: {e}", f.display()))
        })?;
        let cost = Cost::parse(&text)
            .map_err(|d| Invalid::new(Why::NotANumber, format!("the cost file: {}", d.message)))?;
        Ok((cost, done.seconds))
    }
}

fn cannot_run(step: &Step, e: &std::io::Error) -> Diagnostic {
    let name = match step {
        Step::Script(t) => t.name.display().to_string(),
        Step::Command(_) => "sh".to_string(),
    };
    let d = Diagnostic::error(codes::SCRIPT, format!("`{name}` cannot be run: {e}"));
    match e.raw_os_error() {
        Some(libc::ENOEXEC) => d.help("its first line must name an interpreter: #!/bin/sh"),
        Some(libc::ENOENT) => d.help("the interpreter that its first line names must exist"),
        _ => d.help("it must be a program, or a script with a first line like #!/bin/sh"),
    }
}

/// A step that did not end well makes the configuration invalid.
fn failed(what: &str, f: &Finished, time: Duration, why: Why) -> Result<(), Invalid> {
    let last = f.errors.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default().trim();
    let tail = if last.is_empty() { String::new() } else { format!(": {last}") };
    match &f.ended {
        Ended::Well => Ok(()),
        Ended::Timeout => {
            Err(Invalid::new(Why::Timeout, format!("{what} took longer than {:.1} s", time.as_secs_f64())))
        }
        e if crate::worker::out_of_memory(e, &f.errors) => {
            Err(Invalid::new(Why::Memory, format!("{what} ran out of memory: {}{tail}", e.text())))
        }
        e => Err(Invalid::new(why, format!("{what} failed: {}{tail}", e.text()))),
    }
}

/// Links to all of a folder; where a file of a folder below is written anew, that folder is a real one.
fn link_below(
    from: &Path,
    to: &Path,
    inside: &Path,
    written: &[&Path],
    cost: Option<&Path>,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from.join(inside))? {
        let name = inside.join(entry?.file_name());
        if written.contains(&name.as_path()) || cost == Some(name.as_path()) {
            continue;
        }
        if written.iter().any(|w| w.starts_with(&name)) {
            std::fs::create_dir_all(to.join(&name))?;
            link_below(from, to, &name, written, cost)?;
        } else {
            std::os::unix::fs::symlink(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}
