//! Programs of any language: a script or command that compiles, one that runs, and a file with the cost.
//!
//! Both are run in a folder of their own, in which the program's source and the scripts lie with the
//! parameters' names replaced by their values, beside copies of everything else of the program's folder. Every
//! parameter, constant and computed number is an environment variable, too. `LATHE_FOLDER` is the program's own folder.

use super::place::{Job, Place};
use super::step::{Step, Text, missing};
use super::{Answer, CostFunction, Gold, Sample};
use crate::codes;
use crate::worker::{Fault, Patience, Race, Rule};
use lathe_diagnostics::Diagnostic;
use lathe_space::formats::Script;
use lathe_space::{EvalError, Expr, Value, Values, eval};
use lathe_system::process::Limits;
use lathe_tune::{Cost, Pruning, Times};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// The program's text, with the parameters' names in it.
    pub source: Option<PathBuf>,
    /// What is in that file, as far as it is the program's; `None`: all of it.
    pub text: Option<String>,
    pub compile: Option<Script>,
    pub run: Script,
    /// Where the program writes its cost, as numbers separated by commas, relative to where it runs; `None`: the time
    /// of `run` is the cost.
    pub cost_file: Option<PathBuf>,
    /// Whether the numbers in the cost file may be below zero.
    pub negative: bool,
    /// Sizes and other constants.
    pub constants: Values,
    /// Further variables: numbers computed from parameters and constants, separated by blanks. For a configuration
    /// that one of them cannot be computed for, it is not set.
    pub computed: Vec<(String, Vec<Expr>)>,
    /// The right result, and the file that the program writes its own to; `None`: its standard output.
    pub gold: Option<(Gold, Option<PathBuf>)>,
    pub limits: Limits,
    /// Time for one run, while there is no best to derive it from; also the most for compiling.
    pub first: Duration,
    /// How often a configuration is run. With a cost file, [`Rule::once`] trusts the program's own numbers.
    pub rule: Rule,
    /// So many configurations are compiled at once.
    pub jobs: usize,
    /// And run at once, too: for costs that do not depend on what else the machine does.
    pub side_by_side: bool,
}

impl Scripts {
    /// A program that is only run, and timed.
    pub fn new(folder: impl Into<PathBuf>, run: impl Into<Script>) -> Scripts {
        Scripts {
            folder: folder.into(),
            source: None,
            text: None,
            compile: None,
            run: run.into(),
            cost_file: None,
            negative: false,
            constants: Values::new(),
            computed: Vec::new(),
            gold: None,
            limits: Limits::default(),
            first: Duration::from_secs(60),
            rule: Rule { warmup: 0, min: 1, max: 3, ..Rule::default() },
            jobs: 1,
            side_by_side: false,
        }
    }

    /// Checks that everything is there and may be run, and makes the folder to work in.
    ///
    /// # Errors
    /// `E1081`, for what is missing.
    pub fn prepare(self) -> Result<ScriptsCost, Diagnostic> {
        let folder = self.folder.canonicalize().map_err(|e| missing("folder", &self.folder, &e))?;
        let scripts = Scripts { folder, ..self };
        let result = scripts.gold.as_ref().and_then(|g| g.1.as_ref());
        for (what, path) in [("cost file", &scripts.cost_file.as_ref()), ("result", &result)] {
            if let Some(path) = path {
                inside(what, path)?;
            }
        }
        let compile = scripts.compile.as_ref().map(|c| Step::new(&scripts, c, false)).transpose()?;
        let run = Step::new(&scripts, &scripts.run, compile.is_some())?;
        let source = match &scripts.source {
            Some(path) => {
                let read = Text::read(&scripts, path)?;
                Some(Text { text: scripts.text.clone().unwrap_or(read.text), ..read })
            }
            None => None,
        };
        let job = Job { scripts, run, compile, source };
        // Without anything to compile, only what runs side by side needs more than one place.
        let together = job.compile.is_some() || job.scripts.side_by_side;
        let n = if together { job.scripts.jobs.max(1) } else { 1 };
        let places = (0..n).map(|_| Place::new(&job)).collect::<Result<_, _>>()?;
        Ok(ScriptsCost { job, places, fastest: None })
    }
}

/// Runs scripts, and times them.
#[derive(Debug)]
pub struct ScriptsCost {
    job: Job,
    /// As many as are compiled at once.
    places: Vec<Place>,
    /// The time of the fastest run so far, from which the limit of the next is derived.
    fastest: Option<f64>,
}

/// What a program writes for the tuner lies in the folder that it runs in: files elsewhere are not the tuner's to remove,
/// or to believe.
fn inside(what: &str, path: &Path) -> Result<(), Diagnostic> {
    let mut parts = path.components().filter(|c| !matches!(c, Component::CurDir)).peekable();
    if parts.peek().is_some() && parts.all(|c| matches!(c, Component::Normal(_))) {
        return Ok(());
    }
    let text = format!("the {what} `{}` is not in the folder that the program runs in", path.display());
    Err(Diagnostic::error(codes::SCRIPT, text)
        .help("give a path without `/` at its beginning and without `..`, and let the program write there"))
}

impl ScriptsCost {
    /// The texts that decide what is measured: the source, the scripts, and the files that they name.
    pub fn texts(&self) -> Vec<String> {
        let job = &self.job;
        let source = job.source.as_ref().map_or(String::new(), |t| t.text.clone());
        let compile = job.compile.as_ref().map_or(String::new(), Step::text);
        let mut texts = vec![source, compile, job.run.text()];
        let results = job.scripts.gold.as_ref().and_then(|g| g.1.as_ref());
        let written: Vec<PathBuf> = job.scripts.cost_file.iter().chain(results).cloned().collect();
        texts.extend(super::named::contents(&job.scripts.folder, &texts, &written));
        texts
    }

    /// Parameters, constants, and what is computed from them, by name.
    fn values(&self, configuration: &Values) -> Values {
        let mut values = self.job.scripts.constants.clone();
        values.extend(configuration.clone());
        let at = |n: &str| values.get(n).cloned();
        let text = |(name, all): &(String, Vec<Expr>)| {
            let numbers: Result<Vec<String>, _> = all.iter().map(|e| Ok(eval(e, &at)?.to_string())).collect();
            Some((name.clone(), Value::Str(numbers.map_err(|_: EvalError| ()).ok()?.join(" "))))
        };
        let computed: Vec<(String, Value)> = self.job.scripts.computed.iter().filter_map(text).collect();
        values.extend(computed);
        values
    }

    /// Compiles side by side, each in its place, then runs one after the other.
    fn run_in_turn(&mut self, part: &[Values], best: Option<&Cost>, answer: &mut dyn FnMut(usize, Answer)) {
        let job = &self.job;
        let compiled: Vec<(Result<(), Fault>, Times)> = std::thread::scope(|scope| {
            let one = |(place, values): (&'_ mut Place, &'_ Values)| {
                let mut times = Times::default();
                (place.compile(job, values, &mut times), times)
            };
            let pairs = self.places.iter_mut().zip(part);
            let threads: Vec<_> = pairs.map(|pair| scope.spawn(move || one(pair))).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
            };
            threads.into_iter().map(join).collect()
        });
        for (i, (compiled, times)) in compiled.into_iter().enumerate() {
            let done = match compiled {
                Ok(()) => time(&self.job, &self.places[i], &part[i], best, self.fastest, times),
                Err(f) => Answer { times, ..Err(f).into() },
            };
            learn(&mut self.fastest, &done);
            let stop = done.ends_all();
            answer(i, done);
            if stop {
                return;
            }
        }
    }

    /// Compiles and runs side by side, each in its place.
    fn run_side_by_side(
        &mut self,
        part: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Answer),
    ) {
        let (job, known) = (&self.job, self.fastest);
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            for (i, (place, values)) in self.places.iter_mut().zip(part).enumerate() {
                let send = send.clone();
                scope.spawn(move || {
                    let mut times = Times::default();
                    let done = match place.compile(job, values, &mut times) {
                        Ok(()) => time(job, place, values, best, known, times),
                        Err(f) => Answer { times, ..Err(f).into() },
                    };
                    // The receiver lives longer than this thread.
                    let _ = send.send((i, done));
                });
            }
            drop(send);
            // Told at once: what one of them came to is safe while the others still run.
            for (i, done) in receive.iter() {
                learn(&mut self.fastest, &done);
                answer(i, done);
            }
        });
    }
}

/// Keeps the time of the fastest run so far.
fn learn(fastest: &mut Option<f64>, done: &Answer) {
    let new = done.runtimes.iter().copied();
    *fastest = fastest.iter().copied().chain(new).reduce(f64::min);
}

/// Runs what lies compiled in a place; `known` is the fastest run of all so far.
fn time(
    job: &Job,
    place: &Place,
    values: &Values,
    best: Option<&Cost>,
    known: Option<f64>,
    mut times: Times,
) -> Answer {
    let scripts = &job.scripts;
    let timed = scripts.cost_file.is_none();
    // How long a run takes says nothing about a cost that the program states itself.
    let limit = match known.filter(|_| timed) {
        Some(fastest) => Patience::from_best(Some(fastest), Duration::ZERO, scripts.first).run,
        None => scripts.first,
    };
    let limit = limit.min(scripts.first);
    let rule = Rule { time: if timed { scripts.rule.time } else { Duration::MAX }, ..scripts.rule };
    let race = Race::new(rule, best.filter(|_| timed).map(Cost::first));
    let mut costs: Vec<Cost> = Vec::new();
    let mut runtimes: Vec<f64> = Vec::new();
    let done = race.run(|| {
        let run = place.once(job, values, limit, costs.is_empty())?;
        runtimes.push(run.seconds);
        times.validate += run.validate;
        let first = run.cost.first();
        costs.push(run.cost);
        Ok::<f64, Fault>(first)
    });
    times.run = runtimes.iter().sum();
    let done = done.map(|(summary, _)| {
        // Of several runs the one with the median of the first number.
        let near = |c: &&Cost| (c.first() - summary.median).abs();
        let cost = match costs.iter().min_by(|a, b| near(a).total_cmp(&near(b))) {
            Some(c) if c.numbers().len() > 1 => c.clone(),
            _ => summary.median.into(),
        };
        let interval = (summary.runs > 1).then_some(summary.interval);
        Sample { cost, interval, runs: summary.runs as u64 }
    });
    Answer { done, times, runtimes }
}

impl CostFunction for ScriptsCost {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        let mut out = None;
        self.measure_all(std::slice::from_ref(configuration), best, &mut |_, a| out = Some(a.done));
        out.unwrap_or(Err(Fault::Interrupted))
    }

    fn batch(&self) -> usize {
        self.places.len()
    }

    fn measure_all(&mut self, all: &[Values], best: Option<&Cost>, answer: &mut dyn FnMut(usize, Answer)) {
        let all: Vec<Values> = all.iter().map(|v| self.values(v)).collect();
        let width = self.places.len();
        for (chunk, part) in all.chunks(width).enumerate() {
            let mut stop = false;
            let mut tell = |i: usize, done: Answer| {
                stop |= done.ends_all();
                answer(chunk * width + i, done);
            };
            if self.job.scripts.side_by_side {
                self.run_side_by_side(part, best, &mut tell);
            } else {
                self.run_in_turn(part, best, &mut tell);
            }
            if stop {
                return;
            }
        }
    }

    fn prune(&mut self, rules: Pruning) {
        self.job.scripts.rule.pruning = Some(rules);
    }
}
