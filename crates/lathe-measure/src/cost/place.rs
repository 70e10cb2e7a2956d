//! A folder of its own in which one configuration at a time is compiled and run.
//!
//! Programs see a copy of their folder there. What they write stays there and is gone before the next configuration;
//! what lies elsewhere is neither changed, nor removed, nor taken for a result.

use super::copies::Copies;
use super::step::{Step, Text};
use super::substitute::printed;
use super::{Scripts, Tokens, substitute};
use crate::codes;
use crate::worker::{Fault, out_of_memory};
use lathe_diagnostics::Diagnostic;
use lathe_space::Values;
use lathe_system::files;
use lathe_system::folder::{self, Folder};
use lathe_system::process::{Ended, Finished, run};
use lathe_tune::{Cost, Invalid, Times, Why};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What all places share.
#[derive(Debug)]
pub(super) struct Job {
    pub scripts: Scripts,
    pub run: Step,
    pub compile: Option<Step>,
    pub source: Option<Text>,
}

impl Job {
    /// The files that are rewritten for each configuration.
    fn written(&self) -> impl Iterator<Item = &Text> {
        let steps = [Some(&self.run), self.compile.as_ref()];
        let texts = steps.into_iter().flatten().filter_map(|s| match s {
            Step::Script(t, _) => Some(t),
            _ => None,
        });
        texts.chain(&self.source)
    }

    /// The files that a run is to write: its cost, and its result where that is compared.
    fn results(&self) -> impl Iterator<Item = &Path> {
        let result = self.scripts.gold.as_ref().and_then(|g| g.1.as_deref());
        self.scripts.cost_file.as_deref().into_iter().chain(result)
    }
}

/// The longest cost file.
const COST: u64 = 64 << 10;

/// A folder of its own, which ends with this.
#[derive(Debug)]
pub(super) struct Place {
    _scratch: Folder,
    /// Where programs run.
    work: PathBuf,
    copies: Copies,
}

/// One run of a program.
pub(super) struct Run {
    pub cost: Cost,
    pub seconds: f64,
    /// Seconds of comparing its result.
    pub validate: f64,
}

impl Place {
    /// With everything of the program's folder at the same relative paths.
    pub fn new(job: &Job) -> Result<Place, Diagnostic> {
        let failed = |e: std::io::Error| {
            Diagnostic::error(codes::SCRIPT, format!("no working folder can be created: {e}"))
                .help("set TMPDIR to a folder that only you can write")
        };
        let scratch = Folder::new("tune").map_err(failed)?;
        let work = scratch.path().join("work");
        std::fs::create_dir(&work).map_err(failed)?;
        let own: Vec<&Path> = job.written().map(|t| t.name.as_path()).chain(job.results()).collect();
        let copies = Copies::new(&job.scripts.folder, &work, &own).map_err(failed)?;
        Ok(Place { _scratch: scratch, work, copies })
    }

    fn io(&self, e: &std::io::Error) -> Diagnostic {
        Diagnostic::error(codes::SCRIPT, format!("the folder `{}`: {e}", self.work.display()))
    }

    /// Writes the files of a configuration, and compiles it.
    pub fn compile(&mut self, job: &Job, values: &Values, times: &mut Times) -> Result<(), Fault> {
        self.copies.restore().and_then(|()| self.write(job, values)).map_err(|e| self.io(&e))?;
        let Some(compile) = &job.compile else { return Ok(()) };
        let start = Instant::now();
        let done = self.step(job, compile, values, job.scripts.first);
        // What the compiler leaves behind (a server for the next time) is not waited for as long as it likes to stay.
        times.compile = done.as_ref().map_or_else(|_| start.elapsed().as_secs_f64(), |d| d.seconds);
        failed("compiling", &done?, job.scripts.first, Why::Compile)?;
        if let Step::Inside(program, _) = &job.run
            && !self.work.join(program).exists()
        {
            let text = format!("the compile step did not make `{}`", program.display());
            return Err(Invalid::new(Why::Compile, text).into());
        }
        Ok(())
    }

    fn write(&self, job: &Job, values: &Values) -> std::io::Result<()> {
        for t in job.written() {
            let tokens = Tokens::of(&t.name.to_string_lossy(), &t.text);
            let path = self.work.join(&t.name);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            // Anew each time: the old one may be read-only.
            std::fs::write(&path, substitute(&t.text, values, tokens))?;
            std::fs::set_permissions(&path, t.permissions.clone())?;
        }
        Ok(())
    }

    fn step(&self, job: &Job, step: &Step, values: &Values, time: Duration) -> Result<Finished, Fault> {
        // What is printed is only read where it is the result.
        let output = job.scripts.gold.as_ref().map_or(0, |g| g.0.longest_text());
        let mut tries = 0;
        loop {
            match run(self.command(job, step, values), job.scripts.limits, time, output) {
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

    fn command(&self, job: &Job, step: &Step, values: &Values) -> Command {
        let with = |program: &Path, words: &[String]| {
            let mut c = Command::new(program);
            c.args(words.iter().map(|w| substitute(w, values, Tokens::Script)));
            c
        };
        let mut command = match step {
            Step::Script(t, words) => with(&self.work.join(&t.name), words),
            Step::Inside(name, words) => with(&self.work.join(name), words),
            Step::Program(name, words) => with(name, words),
            Step::Shell(text) => {
                let mut c = Command::new("sh");
                c.arg("-c").arg(substitute(text, values, Tokens::Shell));
                c
            }
        };
        command.current_dir(&self.work).env("LATHE_FOLDER", &job.scripts.folder);
        for (name, value) in values {
            if !name.is_empty() && !name.contains(['=', '\0']) {
                command.env(name, printed(value));
            }
        }
        command
    }

    /// Where a run is to write a result. Its folder must not lead elsewhere, whatever the program made of it.
    fn result(&self, name: &Path) -> std::io::Result<PathBuf> {
        let path = self.work.join(name);
        let folder = path.parent().unwrap_or(&self.work);
        if !folder.canonicalize()?.starts_with(self.work.canonicalize()?) {
            return Err(std::io::Error::other("its folder is a link to another place"));
        }
        Ok(path)
    }

    /// Removes what an earlier run wrote there.
    fn forget(&self, name: &Path) -> std::io::Result<()> {
        let path = match self.result(name) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            path => path?,
        };
        match path.symlink_metadata() {
            Ok(m) if m.is_dir() => folder::remove(&path),
            Ok(_) => std::fs::remove_file(&path),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// What a run wrote there.
    fn read(&self, name: &Path, limit: u64) -> std::io::Result<String> {
        let bytes = files::contents(files::open_no_link(&self.result(name)?)?, limit)?;
        String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not text"))
    }

    /// One run: its cost.
    pub fn once(&self, job: &Job, values: &Values, time: Duration, check: bool) -> Result<Run, Fault> {
        for name in job.results() {
            self.forget(name).map_err(|e| {
                Invalid::new(Why::Runtime, format!("the old `{}` cannot be removed: {e}", name.display()))
            })?;
        }
        let done = self.step(job, &job.run, values, time)?;
        failed("the run", &done, time, Why::Runtime)?;
        let start = Instant::now();
        if let Some((gold, file)) = job.scripts.gold.as_ref().filter(|_| check) {
            match file {
                None if done.cut => return Err(gold.too_long().into()),
                None => gold.check_text(&done.output)?,
                Some(f) => {
                    let text = self.read(f, gold.longest_text()).map_err(|e| {
                        Invalid::new(Why::Wrong, format!("the result `{}`: {e}", f.display()))
                    })?;
                    gold.check_text(&text)?;
                }
            }
        }
        let validate = start.elapsed().as_secs_f64();
        let Some(f) = &job.scripts.cost_file else {
            return Ok(Run { cost: done.seconds.into(), seconds: done.seconds, validate });
        };
        let text = self.read(f, COST).map_err(|e| {
            Invalid::new(Why::Runtime, format!("the cost file `{}` was not written: {e}", f.display()))
        })?;
        let nonsense = |text: String| Invalid::new(Why::NotANumber, format!("the cost file: {text}"));
        let cost = Cost::parse(&text).map_err(|d| nonsense(d.message))?;
        if let Some(v) = cost.numbers().iter().find(|v| **v < 0.0)
            && !job.scripts.negative
        {
            return Err(nonsense(format!("the cost is {v}, and negative costs are not expected")).into());
        }
        Ok(Run { cost, seconds: done.seconds, validate })
    }
}

fn cannot_run(step: &Step, e: &std::io::Error) -> Diagnostic {
    let name = match step {
        Step::Script(t, _) => t.name.display().to_string(),
        Step::Inside(p, _) | Step::Program(p, _) => p.display().to_string(),
        Step::Shell(_) => "sh".to_string(),
    };
    let d = Diagnostic::error(codes::SCRIPT, format!("`{name}` cannot be run: {e}"));
    match (e.raw_os_error(), step) {
        (Some(libc::ENOEXEC), _) => d.help("its first line must name an interpreter: #!/bin/sh"),
        (Some(libc::ENOENT), Step::Script(..)) => {
            d.help("the interpreter that its first line names must exist")
        }
        _ => d.help("it must be a program, or a script with a first line like #!/bin/sh"),
    }
}

/// A step that did not end well makes the configuration invalid. Compilers say most in their first lines, so all that
/// was kept belongs to the reason.
fn failed(what: &str, f: &Finished, time: Duration, why: Why) -> Result<(), Invalid> {
    let said: Vec<&str> = f.errors.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let said = match said.as_slice() {
        [] => String::new(),
        [one] => format!(": {}", one.trim_start()),
        many => format!(":\n{}", many.join("\n")),
    };
    match &f.ended {
        Ended::Well => Ok(()),
        Ended::Timeout => {
            Err(Invalid::new(Why::Timeout, format!("{what} took longer than {:.1} s", time.as_secs_f64())))
        }
        e if out_of_memory(e, &f.errors) => {
            Err(Invalid::new(Why::Memory, format!("{what} ran out of memory: {}{said}", e.text())))
        }
        e => Err(Invalid::new(why, format!("{what} failed: {}{said}", e.text()))),
    }
}
