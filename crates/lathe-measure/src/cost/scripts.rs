//! Programs of any language: a script or command that compiles, one that runs, and a file with the cost.
//!
//! Both are run in a folder of their own, in which the program's source and the scripts lie with the
//! parameters' names replaced by their values, beside links to everything else of the program's folder. Every
//! parameter and constant is an environment variable, too. `LATHE_FOLDER` is the program's own folder.

use super::{CostFunction, Gold, Sample, Tokens, substitute};
use crate::codes;
use crate::worker::{Ended, Fault, Finished, Limits, Patience, Race, Rule, run};
use lathe_diagnostics::Diagnostic;
use lathe_space::Values;
use lathe_tune::{Cost, Invalid, Why};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// The program's text, with the parameters' names in it.
    pub source: Option<PathBuf>,
    /// What stands in that file, as far as it is the program's; `None`: all of it.
    pub text: Option<String>,
    /// A path to a script, or a command for the shell; likewise `run`.
    pub compile: Option<String>,
    pub run: String,
    /// Where the program writes its cost, as numbers separated by commas; `None`: the time of `run` is the cost.
    pub cost_file: Option<PathBuf>,
    /// Sizes and other constants.
    pub constants: Values,
    /// The right result, and the file that the program writes its own to; `None`: its standard output.
    pub gold: Option<(Gold, Option<PathBuf>)>,
    pub limits: Limits,
    /// Time for one run, while there is no best to derive it from; also the most for compiling.
    pub first: Duration,
    /// How often a configuration is run. With a cost file, [`Rule::once`] trusts the program's own numbers.
    pub rule: Rule,
}

impl Scripts {
    /// A program that is only run, and timed.
    pub fn new(folder: impl Into<PathBuf>, run: impl Into<String>) -> Scripts {
        Scripts {
            folder: folder.into(),
            source: None,
            text: None,
            compile: None,
            run: run.into(),
            cost_file: None,
            constants: Values::new(),
            gold: None,
            limits: Limits::default(),
            first: Duration::from_secs(60),
            rule: Rule { warmup: 0, min: 1, max: 3, ..Rule::default() },
        }
    }

    /// Checks that everything is there and may be run, and makes the folder to work in.
    ///
    /// # Errors
    /// `E1081`, for what is missing.
    pub fn prepare(self) -> Result<ScriptsCost, Diagnostic> {
        let folder = self.folder.canonicalize().map_err(|e| missing("folder", &self.folder, &e))?;
        let scratch = tempfile::Builder::new().prefix("lathe-tune-").tempdir().map_err(|e| {
            Diagnostic::error(codes::SCRIPT, format!("no folder to work in can be made: {e}"))
        })?;
        let scripts = Scripts { folder, ..self };
        let run = Step::new(&scripts, &scripts.run)?;
        let compile = scripts.compile.as_deref().map(|c| Step::new(&scripts, c)).transpose()?;
        let source = match &scripts.source {
            Some(path) => {
                let read = Text::read(&scripts, path)?;
                Some(Text { text: scripts.text.clone().unwrap_or(read.text), ..read })
            }
            None => None,
        };
        let cost = ScriptsCost { scripts, scratch, run, compile, source, fastest: None };
        cost.link()?;
        Ok(cost)
    }
}

fn missing(what: &str, path: &Path, e: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::SCRIPT, format!("the {what} `{}`: {e}", path.display()))
        .help("paths are relative to the folder of the tuned program")
}

/// A text in which names are replaced.
#[derive(Debug)]
struct Text {
    /// As it is called in the folder to work in.
    name: PathBuf,
    text: String,
    permissions: std::fs::Permissions,
}

impl Text {
    fn read(scripts: &Scripts, path: &Path) -> Result<Text, Diagnostic> {
        let full = scripts.folder.join(path);
        let text = std::fs::read_to_string(&full).map_err(|e| missing("file", &full, &e))?;
        let permissions = std::fs::metadata(&full).map_err(|e| missing("file", &full, &e))?.permissions();
        // What lies in a folder below keeps its place; what lies elsewhere only its name.
        let name = match full.strip_prefix(&scripts.folder) {
            Ok(inside) if inside.components().all(|c| matches!(c, std::path::Component::Normal(_))) => {
                inside.to_path_buf()
            }
            _ => PathBuf::from(full.file_name().unwrap_or_default()),
        };
        Ok(Text { name, text, permissions })
    }
}

/// Something that is run.
#[derive(Debug)]
enum Step {
    Script(Text),
    Command(String),
}

impl Step {
    fn new(scripts: &Scripts, what: &str) -> Result<Step, Diagnostic> {
        let path = Path::new(what.trim());
        let full = scripts.folder.join(path);
        if !full.is_file() {
            // A single word with a slash is meant as a path.
            let lone = !what.trim().contains(char::is_whitespace);
            if what.trim().is_empty() || (lone && (what.contains('/') || what.ends_with(".sh"))) {
                let e = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(missing("script", &full, &e));
            }
            return Ok(Step::Command(what.to_string()));
        }
        if !may_run(&full) {
            let text = format!("the script `{}` may not be run", full.display());
            return Err(Diagnostic::error(codes::SCRIPT, text)
                .help(format!("give it the permission: chmod +x {}", path.display())));
        }
        match Text::read(scripts, path) {
            Ok(text) => Ok(Step::Script(text)),
            // A program of machine code has no text in which names could be replaced.
            Err(_) => Ok(Step::Command(shell_quoted(&full))),
        }
    }
}

fn may_run(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the text ends with a zero and lives during the call.
    unsafe { libc::access(name.as_ptr(), libc::X_OK) == 0 }
}

fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Runs scripts, and times them.
#[derive(Debug)]
pub struct ScriptsCost {
    scripts: Scripts,
    scratch: tempfile::TempDir,
    run: Step,
    compile: Option<Step>,
    source: Option<Text>,
    /// The time of the fastest run so far, from which the limit of the next is derived.
    fastest: Option<f64>,
}

impl ScriptsCost {
    /// The texts that decide what is measured: the source and the scripts.
    pub fn texts(&self) -> Vec<String> {
        let step = |s: &Step| match s {
            Step::Script(t) => t.text.clone(),
            Step::Command(c) => c.clone(),
        };
        let source = self.source.as_ref().map_or(String::new(), |t| t.text.clone());
        vec![source, self.compile.as_ref().map_or(String::new(), step), step(&self.run)]
    }

    fn io(&self, e: std::io::Error) -> Diagnostic {
        Diagnostic::error(codes::SCRIPT, format!("the folder `{}`: {e}", self.scratch.path().display()))
    }

    /// Everything else of the program's folder, at the same relative paths.
    fn link(&self) -> Result<(), Diagnostic> {
        let written: Vec<&Path> = self.written().map(|t| t.name.as_path()).collect();
        let cost = self.scripts.cost_file.as_deref();
        link_below(&self.scripts.folder, self.scratch.path(), Path::new(""), &written, cost)
            .map_err(|e| self.io(e))
    }

    /// The files that are written anew for each configuration.
    fn written(&self) -> impl Iterator<Item = &Text> {
        let steps = [Some(&self.run), self.compile.as_ref()];
        let texts = steps.into_iter().flatten().filter_map(|s| match s {
            Step::Script(t) => Some(t),
            Step::Command(_) => None,
        });
        texts.chain(&self.source)
    }

    fn write(&self, values: &Values) -> std::io::Result<()> {
        for t in self.written() {
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

    fn step(&self, step: &Step, values: &Values, time: Duration) -> Result<Finished, Fault> {
        let mut command = match step {
            Step::Script(t) => Command::new(self.scratch.path().join(&t.name)),
            Step::Command(text) => {
                let mut c = Command::new("sh");
                c.arg("-c").arg(substitute(text, values, Tokens::Shell));
                c
            }
        };
        command.current_dir(self.scratch.path()).env("LATHE_FOLDER", &self.scripts.folder);
        for (name, value) in values {
            if !name.is_empty() && !name.contains(['=', '\0']) {
                command.env(name, value.to_string().replace('\0', ""));
            }
        }
        let mut tries = 0;
        loop {
            match run(&mut command, self.scripts.limits, time) {
                Ok(f) if f.ended == Ended::Interrupted => return Err(Fault::Interrupted),
                Ok(f) => return Ok(f),
                // Another thread that starts a process at this moment holds the file open for writing.
                Err(e) if e.raw_os_error() == Some(libc::ETXTBSY) && tries < 200 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(e) => return Err(self.cannot_run(step, &e).into()),
            }
        }
    }

    fn cannot_run(&self, step: &Step, e: &std::io::Error) -> Diagnostic {
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

    /// One run: its cost.
    fn once(&self, values: &Values, time: Duration, check: bool) -> Result<(Cost, f64), Fault> {
        let cost_file = self.scripts.cost_file.as_ref().map(|f| self.scratch.path().join(f));
        if let Some(f) = &cost_file {
            match std::fs::remove_file(f) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(self.io(e).into()),
                _ => {}
            }
        }
        let done = self.step(&self.run, values, time)?;
        failed("the run", &done, time, Why::Runtime)?;
        if let Some((gold, file)) = self.scripts.gold.as_ref().filter(|_| check) {
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

impl CostFunction for ScriptsCost {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        let mut values = self.scripts.constants.clone();
        values.extend(configuration.clone());
        self.write(&values).map_err(|e| self.io(e))?;
        let first = self.scripts.first;
        if let Some(compile) = &self.compile {
            let done = self.step(compile, &values, first)?;
            failed("compiling", &done, first, Why::Compile)?;
        }
        let time = Patience::from_best(self.fastest, Duration::ZERO, first).run.min(first);
        let timed = self.scripts.cost_file.is_none();
        // Costs that a program states itself need not be seconds.
        let limit = if timed { self.scripts.rule.time } else { Duration::MAX };
        let rule = Rule { time: limit, ..self.scripts.rule };
        let race = Race::new(rule, best.filter(|_| timed).map(Cost::first));
        let mut costs: Vec<Cost> = Vec::new();
        let mut fastest = self.fastest;
        let (summary, _) = race.run(|| {
            let (cost, seconds) = self.once(&values, time, costs.is_empty())?;
            fastest = Some(fastest.map_or(seconds, |f| f.min(seconds)));
            let first = cost.first();
            costs.push(cost);
            Ok::<f64, Fault>(first)
        })?;
        self.fastest = fastest;
        // Of several runs the one with the median of the first number.
        let near = |c: &&Cost| (c.first() - summary.median).abs();
        let cost = costs.iter().min_by(|a, b| near(a).total_cmp(&near(b))).cloned();
        let cost = match cost {
            Some(c) if c.numbers().len() > 1 => c,
            _ => summary.median.into(),
        };
        let interval = (summary.runs > 1).then_some(summary.interval);
        Ok(Sample { cost, interval, runs: summary.runs as u64 })
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
